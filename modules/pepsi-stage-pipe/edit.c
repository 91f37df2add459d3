/* Changing a header block as a reply asks. Fields that nobody named stay octet for octet as they are. */
#include "reply.h"

#include "proto/mail/header.h"

/* What the reply says about this field, or NULL. */
static const struct reply_header *about(const struct reply *r, struct str name)
{
	for (size_t i = 0; i < r->n_headers; i++)
		if (!r->headers[i].add && str_ieq(r->headers[i].name, name))
			return &r->headers[i];
	return NULL;
}

int reply_edit(const struct reply *r, struct str headers, struct buf *out)
{
	bool written[REPLY_HEADERS_MAX] = { false };
	struct mail_field f;
	int k;
	while ((k = mail_field_next(&headers, &f)) != 0) {
		const struct reply_header *h = k > 0 ? about(r, f.name) : NULL;
		if (!h) {
			buf_adds(out, f.all);
		} else if (h->value.p && !written[h - r->headers]) {
			mail_field_write(out, h->name, h->value); /* in the place of the first one */
			written[h - r->headers] = true;
		}
	}
	for (size_t i = 0; i < r->n_headers; i++)
		if (r->headers[i].value.p && !written[i] && (r->headers[i].add || about(r, r->headers[i].name) == &r->headers[i]))
			mail_field_write(out, r->headers[i].name, r->headers[i].value);
	return out->failed ? -1 : 0;
}
