/* The header of an automatic reply (RFC 3834 §3); see autoreply.h. Every field passes the one encoder: nothing of the original can add one. */
#include "proto/mail/autoreply.h"

#include "proto/mail/addrlist.h"
#include "proto/mail/charset.h"
#include "proto/mail/date.h"
#include "proto/mail/encoded.h"
#include "proto/mail/header.h"
#include "proto/address/address.h"

static int write_subject(const struct mail_autoreply *in, struct str subject, struct buf *out)
{
	struct buf text = BUF_INIT(65536);
	struct mail_field f;
	int r;
	if (subject.n) {
		mail_charset_clean(subject, &text);
	} else {
		buf_addz(&text, "Auto: ");
		if (mail_field_find(in->headers, STR("Subject"), 0, &f) == 0 && f.value.n < 8192)
			mail_encoded_decode(f.value, &text);
	}
	if (text.n > MAIL_AUTOREPLY_SUBJECT_MAX) {
		text.n = MAIL_AUTOREPLY_SUBJECT_MAX;
		while (text.n && ((unsigned char)text.p[text.n] & 0xc0) == 0x80)
			text.n--; /* characters stay whole */
	}
	/* an original without a subject, or with blanks at its end */
	r = text.failed ? -1 : mail_encoded_field(out, STR("Subject"), str_trim(buf_str(&text)), false);
	buf_free(&text);
	return r;
}

/* The next <id> of a value; nothing but printable ASCII, and no longer than stands on a line. */
static bool next_id(struct str *rest, struct str *ret)
{
	for (size_t i = 0; i < rest->n; i++) {
		if (rest->p[i] != '<')
			continue;
		size_t k = i + 1;
		while (k < rest->n && rest->p[k] > ' ' && rest->p[k] < 127 && rest->p[k] != '<' && rest->p[k] != '>')
			k++;
		if (k < rest->n && rest->p[k] == '>' && k > i + 1 && k - i < 900) {
			*ret = str_n(rest->p + i, k - i + 1);
			*rest = str_skip(*rest, k + 1);
			return true;
		}
	}
	*rest = STR_NULL;
	return false;
}

/* RFC 5322 §3.6.4: the original's References, or its In-Reply-To where that has one id, and its Message-ID. */
static int write_threads(const struct mail_autoreply *in, struct buf *out)
{
	struct mail_field f;
	struct mail_fold fold;
	struct str id = STR_NULL, one, rest = STR_NULL, ids[MAIL_AUTOREPLY_IDS_MAX];
	size_t n = 0;
	if (mail_field_find(in->headers, STR("Message-ID"), 0, &f) == 0) {
		rest = f.value;
		next_id(&rest, &id);
	}
	if (!id.n)
		return 0;
	mail_fold_begin(&fold, out, STR("In-Reply-To"));
	mail_fold_piece(&fold, id);
	if (mail_fold_end(&fold))
		return -1;
	rest = STR_NULL;
	if (mail_field_find(in->headers, STR("References"), 0, &f) == 0) {
		rest = f.value;
	} else if (mail_field_find(in->headers, STR("In-Reply-To"), 0, &f) == 0) {
		struct str probe = f.value;
		if (next_id(&probe, &one) && !next_id(&probe, &one))
			rest = f.value;
	}
	while (next_id(&rest, &one)) {
		if (n == MAIL_AUTOREPLY_IDS_MAX - 1) { /* the first stays, of the others the last ones */
			memmove(ids + 1, ids + 2, (n - 2) * sizeof *ids);
			n--;
		}
		ids[n++] = one;
	}
	ids[n++] = id;
	mail_fold_begin(&fold, out, STR("References"));
	for (size_t i = 0; i < n; i++)
		mail_fold_piece(&fold, ids[i]);
	return mail_fold_end(&fold);
}

int mail_autoreply_write(const struct mail_autoreply *in, const struct mail_autoreply_how *how, struct buf *out)
{
	size_t before = out->n;
	struct buf date = BUF_INIT(64), id = BUF_INIT(1024);
	mail_date_write(&date, how->now_us, 0);
	buf_addf(&id, "<%.*s>", STR_ARG(how->message_id));
	int r = date.failed || id.failed;
	r = r || mail_addrlist_write_one(out, STR("From"), how->name, how->from, how->utf8);
	r = r || mail_addrlist_write_one(out, STR("To"), STR_NULL, in->mail_from, how->utf8);
	r = r || write_subject(in, how->subject, out);
	r = r || mail_field_write(out, STR("Date"), buf_str(&date));
	r = r || mail_field_write(out, STR("Message-ID"), buf_str(&id));
	r = r || write_threads(in, out);
	r = r || mail_field_write(out, STR("Auto-Submitted"), STR("auto-replied"));
	r = r || mail_field_write(out, STR("MIME-Version"), STR("1.0"));
	r = r || mail_field_write(out, STR("Content-Type"), how->eight_bit ? STR("text/plain; charset=utf-8") : STR("text/plain; charset=us-ascii"));
	r = r || mail_field_write(out, STR("Content-Transfer-Encoding"), how->eight_bit ? STR("8bit") : STR("7bit"));
	buf_free(&date);
	buf_free(&id);
	if (!r && !out->failed)
		return 0;
	if (out->n > before) {
		out->n = before;
		out->p[before] = 0;
	}
	return -1;
}
