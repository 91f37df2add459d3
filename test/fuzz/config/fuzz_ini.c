/* The INI reader, the check and what they feed: any octets as a configuration file. No file is opened: directives are
 * swallowed. Holds: what was read survives freeze and thaw, and what `config show` prints is read again without fault. */
#include "base/check.h"
#include "config/config_internal.h"
#include "config/schema.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void directive(struct config_reader *r, struct str word, struct str rest)
{
	struct buf why = BUF_INIT(1024);
	free(config_path_beside(r->c, r->file, word.n == 8 && rest.n < 4096 ? "x$STATE_DIR" : "", true, &why));
	buf_free(&why);
}

static struct config *read_it(struct str text, struct config_faults *f)
{
	struct config *c = config_new();
	must(c);
	struct config_reader r = { .c = c, .faults = f, .file = config_file_name(c, "fuzz"), .directive = directive };
	config_read_text(&r, text);
	return c;
}

static void frozen(const struct config *c)
{
	struct buf one = BUF_INIT(CONFIG_TOTAL_MAX), two = BUF_INIT(CONFIG_TOTAL_MAX);
	must(config_freeze(c, &one) == 0);
	struct config *d = config_thaw(buf_str(&one));
	must(d && config_freeze(d, &two) == 0 && str_eq(buf_str(&one), buf_str(&two)));
	config_free(d);
	buf_free(&one);
	buf_free(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config_faults *f = config_faults_new();
	struct config *c = read_it(str_n((const char *)data, size), f);
	struct buf text = BUF_INIT(CONFIG_FILE_MAX), json = BUF_INIT(CONFIG_FILE_MAX);
	must(f);
	schema_check(c, NULL, NULL, f);
	for (size_t i = 0; i < config_faults_n(f, true); i++) {
		buf_reset(&text);
		config_fault_print(config_faults_at(f, i), &text);
		must(!text.failed && text.n && text.p[text.n - 1] == '\n' && memchr(text.p, '\n', text.n) == text.p + text.n - 1);
	}
	frozen(c);
	buf_reset(&text);
	if (config_show(c, NULL, NULL, false, &text) == 0 && config_show(c, NULL, NULL, true, &json) == 0) {
		struct config_faults *again = config_faults_new();
		config_free(read_it(buf_str(&text), again));
		must(config_faults_n(again, true) == 0);
		config_faults_free(again);
	}
	buf_free(&text);
	buf_free(&json);
	config_free(c);
	config_faults_free(f);
	return 0;
}
