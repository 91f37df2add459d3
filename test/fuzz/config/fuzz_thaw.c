/* The flat form of a configuration from a process that may have gone wrong: any octets. Holds: what thaws can be checked,
 * and freezes into something that thaws into the same. */
#include "base/check.h"
#include "config/config_internal.h"
#include "config/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config *c = config_thaw(str_n((const char *)data, size));
	if (!c)
		return 0;
	struct buf one = BUF_INIT(CONFIG_TOTAL_MAX), two = BUF_INIT(CONFIG_TOTAL_MAX);
	struct config_faults *f = config_faults_new();
	schema_check(c, NULL, NULL, f);
	must(config_freeze(c, &one) == 0);
	struct config *d = config_thaw(buf_str(&one));
	must(d && config_freeze(d, &two) == 0 && str_eq(buf_str(&one), buf_str(&two)));
	config_free(d);
	config_free(c);
	config_faults_free(f);
	buf_free(&one);
	buf_free(&two);
	return 0;
}
