/* A configuration as JSON, for `pepsi config show` and the control command config.show. */
#ifndef ADMIN_SHOW_H
#define ADMIN_SHOW_H

#include "base/buf.h"
#include "config/config.h"

/* [{"section","option","value","file","line","default","secret"}, …]: what is set, in file order, then per section what
 * holds by default. Values of secret options are null; passwords inside connection strings are masked. */
void admin_config_json(const struct config *c, struct buf *out);
/* Is this option's value to be hidden? By its table, or, for options of modules, by its name. */
bool admin_option_secret(const char *section, const char *option);

#endif
