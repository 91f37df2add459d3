/* The records a describe child writes, and reading them: input from outside, since a module may have written it. */
#ifndef PEPSI_WORKER_DESCRIBE_H
#define PEPSI_WORKER_DESCRIBE_H

#include "pass.h"
#include "worker.h"

enum {
	TELL_NAME = 'n', TELL_VERSION = 'v', TELL_LICENSE = 'l', TELL_SUMMARY = 's', TELL_MAJOR = 'J', TELL_MINOR = 'N',
	TELL_LOAD = 'c', TELL_CAPS = 'C', TELL_OPTION = 'o', TELL_O_TYPE = 't', TELL_O_FLAGS = 'g', TELL_O_DEFAULT = 'd',
	TELL_O_MIN = 'm', TELL_O_MAX = 'M', TELL_O_CHOICES = 'h', TELL_O_HELP = 'H', TELL_ERROR = 'e', TELL_FINDING = 'f',
	TELL_TEXT = 'x', TELL_END = 'z',
};

/* The next whole record; false: none (any more). */
bool describe_next(struct str *rest, char *ret_tag, struct str *ret_text);
/* Fills *ret from records. Trouble goes into ret->error. */
void describe_read(struct str records, struct module_info *ret);

#endif
