/* pepsi-sendmail: the command programs call to send mail, with the flags of sendmail(8) as they use them. */
#ifndef CLI_TOOL_SENDMAIL_H
#define CLI_TOOL_SENDMAIL_H

#include "base/buf.h"

#include <stdbool.h>

enum sendmail_mode {
	SENDMAIL_SUBMIT, /* -bm: a message on standard input */
	SENDMAIL_SMTP,   /* -bs: a dialogue on standard input and output */
	SENDMAIL_QUEUE,  /* -bp, mailq */
	SENDMAIL_ALIAS,  /* -bi, newaliases */
	SENDMAIL_VERIFY, /* -bv */
	SENDMAIL_FLUSH,  /* -q */
	SENDMAIL_HELP, SENDMAIL_VERSION,
};
/* How a message that is refused is told of (-oe…). */
enum sendmail_errors { SENDMAIL_PRINT = 'p', SENDMAIL_QUIET = 'q', SENDMAIL_MAIL = 'm', SENDMAIL_MAIL_OK = 'e' };

struct sendmail_args {
	enum sendmail_mode mode;
	enum sendmail_errors errors;
	bool extract;          /* -t */
	bool ignore_dots;      /* -i */
	bool verbose;          /* -v */
	const char *from;      /* -f, -r; NULL: the caller */
	const char *full_name; /* -F */
	const char *notify, *ret, *envid; /* -N, -R, -V; NULL: not given */
	bool body_8bit;        /* -B 8BITMIME */
	const char **rcpts;    /* operands; point into argv; free() the array */
	size_t n_rcpts;
	struct buf ignored;    /* options that have no effect here, blank-separated; for -v */
};

/* Does argv call this tool, by the name of the program or as the first operand of pepsi? Then *ret_skip is how many words to skip. */
bool sendmail_is_called(int argc, char **argv, int *ret_skip);
/* Pure. Returns 0, or EX_USAGE with a sentence in err. sendmail_args_done() in both cases. */
int sendmail_args_parse(int argc, char **argv, struct sendmail_args *a, char *err, size_t err_size);
void sendmail_args_done(struct sendmail_args *a);

/* What the rest of the tool needs to know of the machine. */
struct sendmail_site {
	struct config *config;
	const char *program;       /* its name, for messages */
	char host[256];
	char user[256];            /* login name of the caller */
	char full_name[256];
	char socket[512], drop[512];
	uint64_t size_limit, min_free;
};

/* tool_sendmail_input.c. Standard input up to its end, or to a line of a dot alone. 0, or an exit code after a message. */
int sendmail_read(const struct sendmail_site *site, const struct sendmail_args *a, struct buf *out);
/* tool_sendmail_submit.c. The whole of -bm and -t: exit code. */
int sendmail_submit(const struct sendmail_site *site, const struct sendmail_args *a);
/* tool_sendmail_queue.c: exit codes. */
int sendmail_queue(const struct sendmail_site *site);
int sendmail_flush(const struct sendmail_site *site, bool verbose);
/* tool_sendmail_smtp.c: exit codes. */
int sendmail_smtp(const struct sendmail_site *site);
int sendmail_verify(const struct sendmail_site *site, const struct sendmail_args *a);
/* "PROGRAM: …" on standard error, escaped for a terminal; returns code. */
int sendmail_fail(const struct sendmail_site *site, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* All of it; argv[0] is the program's name. */
int tool_sendmail_main(int argc, char **argv);

#endif
