/* Fuzz: values with parameters. Names are in lower case and not empty, each but once; the limits hold. */
#include "base/check.h"
#include "proto/mail/param.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mail_params p;
	if (mail_params_parse(&p, str_n((const char *)data, size)))
		return 0;
	must(p.n <= MAIL_PARAMS_MAX && p.value.n <= size);
	for (size_t i = 0; i < p.n; i++) {
		must(p.item[i].name.n && p.item[i].value.p);
		for (size_t k = 0; k < p.item[i].name.n; k++)
			must(!(p.item[i].name.p[k] >= 'A' && p.item[i].name.p[k] <= 'Z'));
		for (size_t k = 0; k < i; k++)
			must(!str_eq(p.item[i].name, p.item[k].name));
		must(mail_params_get(&p, p.item[i].name).p == p.item[i].value.p);
	}
	mail_params_free(&p);
	return 0;
}
