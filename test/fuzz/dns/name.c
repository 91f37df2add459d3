/* Names from anywhere: folded to something that folds to itself and can be asked, or refused. */
#include "proto/dns/message.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char once[DNS_NAME_MAX + 1], twice[DNS_NAME_MAX + 1];
	struct dns_query q;
	int n = dns_name_fold(str_n((const char *)data, size), once);
	if (n < 0)
		return 0;
	if (n > DNS_NAME_MAX || n != (int)strlen(once) || dns_name_fold(str_n(once, (size_t)n), twice) != n || strcmp(once, twice) != 0)
		abort();
	if (dns_query_make(&q, str_n((const char *)data, size), DNS_TXT, 1, DNS_QUERY_EDNS, NULL) || q.n > DNS_QUERY_MAX)
		abort();
	return 0;
}
