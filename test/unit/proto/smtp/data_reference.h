/* The plain definition of what DATA means, to compare the automaton with: works on the whole input, octet by octet, and
 * shares nothing with proto/smtp/data.c. */
#ifndef TEST_SMTP_DATA_REFERENCE_H
#define TEST_SMTP_DATA_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Returns the octets up to and with the end of the message, or 0: it does not end. *ret_fault: 'R' bare CR, 'L' bare LF, 'Z'
 * NUL, the first of them, or 0. out (room for n) gets the message, dots undone. */
static inline size_t data_reference(const char *in, size_t n, char *out, size_t *ret_n, char *ret_fault)
{
	size_t end = 0, text = n;
	for (size_t i = 0; i + 3 <= n && !end; i++)
		if (!memcmp(in + i, ".\r\n", 3) && (i == 0 || (i >= 2 && !memcmp(in + i - 2, "\r\n", 2)))) {
			text = i;
			end = i + 3;
		}
	*ret_fault = 0;
	*ret_n = 0;
	for (size_t i = 0; i < text; i++) {
		bool begins = i == 0 || (i >= 2 && in[i - 2] == '\r' && in[i - 1] == '\n');
		if (!(begins && in[i] == '.'))
			out[(*ret_n)++] = in[i];
		if (*ret_fault)
			continue;
		if (in[i] == '\r' && i + 1 < n && in[i + 1] != '\n')
			*ret_fault = 'R';
		else if (in[i] == '\n' && (i == 0 || in[i - 1] != '\r'))
			*ret_fault = 'L';
		else if (!in[i])
			*ret_fault = 'Z';
	}
	return end;
}

#endif
