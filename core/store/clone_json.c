/* The JSON that describes clones to the stored functions. Pure. */
#include "store/worker_internal.h"

#include <pepsi/stage.h>

static void put_string(struct buf *b, struct str s)
{
	buf_addc(b, '"');
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c == '"' || c == '\\')
			buf_addf(b, "\\%c", c);
		else if (c < 0x20)
			buf_addf(b, "\\u%04x", c); /* \u0000 is refused by the server, as it must be */
		else
			buf_addc(b, (char)c);
	}
	buf_addc(b, '"');
}

int clone_json(struct buf *out, const struct store_clone *clones, size_t n)
{
	buf_addc(out, '[');
	for (size_t i = 0; i < n; i++) {
		const struct store_clone *c = &clones[i];

		buf_addz(out, i ? ",{\"stage\":" : "{\"stage\":");
		put_string(out, str_from(c->stage));
		buf_addf(out, ",\"status\":\"%s\",\"retry_s\":%u,\"token\":",
		    c->status == PEPSI_CLONE_RETRY ? "retry" : c->status == PEPSI_CLONE_FAILED ? "failed" : "pending",
		    c->retry_s > INT32_MAX ? (unsigned)INT32_MAX : (unsigned)c->retry_s);
		put_string(out, str_n(c->token, strnlen(c->token, sizeof(c->token))));
		buf_addz(out, c->fresh_rcpts ? ",\"rcpts\":[" : ",\"indices\":[");
		for (size_t k = 0; k < c->n; k++) {
			if (k)
				buf_addc(out, ',');
			if (c->fresh_rcpts)
				put_string(out, c->rcpts[k]);
			else
				buf_addf(out, "%u", (unsigned)c->indices[k]);
		}
		buf_addc(out, ']');
		if (c->mail_from) {
			buf_addz(out, ",\"mail_from\":");
			put_string(out, *c->mail_from);
		}
		if (c->state) {
			buf_addz(out, ",\"state\":");
			buf_addz(out, c->state);
		}
		buf_addc(out, '}');
	}
	buf_addc(out, ']');
	return out->failed ? -1 : 0;
}
