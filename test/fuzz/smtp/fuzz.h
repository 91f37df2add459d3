/* What the fuzz targets of this folder share: an assertion that ends the process in every build type. */
#ifndef FUZZ_SMTP_FUZZ_H
#define FUZZ_SMTP_FUZZ_H

#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline struct str fuzz_str(const uint8_t *data, size_t size)
{
	return str_n((const char *)data, size);
}

#endif
