/* Fuzz: anything as an operator's file of texts. Faults have lines of the file; what is left can be filled in, and values are never looked at. */
#include "base/check.h"
#include "proto/dsn/words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fault(void *arg, unsigned line, const char *text)
{
	const struct str *file = arg;
	size_t lines = 1;
	for (size_t i = 0; i < file->n; i++)
		lines += file->p[i] == '\n';
	must(line && line <= lines && *text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str file = str_n((const char *)data, size), values[DSN_VALUES];
	struct dsn_words *w = dsn_words_parse(file, NULL, fault, &file), *top;
	if (!w)
		return 0;
	top = dsn_words_parse(STR("[footer]\nx\n"), w, fault, &file);
	for (size_t i = 0; i < DSN_VALUES; i++)
		values[i] = STR("\x01{host}\x02");
	for (size_t i = 0; i < dsn_words_names(); i++) {
		struct buf b = BUF_INIT(1 << 20);
		if (dsn_words_fill(&b, top, dsn_words_name(i), values)) {
			must(b.n && str_is_utf8(buf_str(&b)));
			for (size_t k = 0; k < b.n; k++) /* each value whole, and nothing else below a blank */
				must((unsigned char)b.p[k] >= 32 || b.p[k] == '\n' || b.p[k] == '\t' || b.p[k] == 1 || b.p[k] == 2);
		}
		must(!b.failed);
		buf_free(&b);
	}
	dsn_words_free(top);
	dsn_words_free(w);
	return 0;
}
