/* Tokens from the open Internet, and the key set and introspection beside them: no input is ever valid here, since the key set that is
 * right is held by nobody. Input: token LF key set LF introspection. */
#include "signin/jwt.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* the public half of a key whose other half was thrown away */
	static const char keys[] = "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"1\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}";
	struct jwt_policy p = { .issuer = STR("i"), .audiences = STR("a"), .name_claim = STR("sub"), .algorithms = STR("RS256 ES256 EdDSA"),
		.now = 1700000000 };
	struct str rest = str_n((const char *)data, size), part[3] = { { NULL, 0 } };
	for (int i = 0; i < 3; i++) {
		ptrdiff_t nl = i < 2 ? str_chr(rest, '\n') : -1;
		part[i] = nl < 0 ? rest : str_n(rest.p, (size_t)nl);
		rest = nl < 0 ? STR_NULL : str_skip(rest, (size_t)nl + 1);
	}
	struct jwt_result r = { .name = BUF_INIT(300) };
	if (!jwt_verify(part[0], STR(keys), &p, &r))
		abort();
	buf_reset(&r.name);
	jwt_verify(part[0], part[1], &p, &r);
	jwt_key_set_fault(part[1]);
	buf_reset(&r.name);
	if (!jwt_introspection(part[2], &p, &r) && !r.name.n)
		abort();
	buf_free(&r.name);
	return 0;
}
