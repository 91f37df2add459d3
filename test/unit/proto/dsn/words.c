/* The phrases of bounces: the table itself (each phrase in the form texts are compared in, none hidden by one that stands before it), and sentences in the
 * languages it has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proto/dsn/read_reason.c" /* for its table */

/* A text that holds the phrase: its gap filled. */
static void with(struct buf *out, const char *before, const char *phrase, const char *gap)
{
	const char *star = strchr(phrase, '*');
	buf_reset(out);
	buf_addz(out, before);
	buf_add(out, phrase, star ? (size_t)(star - phrase) : strlen(phrase));
	if (star) {
		buf_addz(out, gap);
		buf_addz(out, star + 1);
	}
	buf_addz(out, "x");
}

static void form(void **state)
{
	struct buf text = BUF_INIT(1000), folded = BUF_INIT(1000);
	size_t n = 0;
	(void)state;
	for (size_t i = 0; i < WORDS; i++)
		for (const char *const *p = words[i].phrase; p && *p; p++, n++) {
			with(&text, "x", *p, "*");
			buf_reset(&folded);
			dsn_read_fold(buf_str(&text), &folded);
			if (!str_eq(buf_str(&text), buf_str(&folded)))
				fail_msg("\"%s\" is compared as \"%s\"", buf_z(&text), buf_z(&folded));
			assert_true(strlen(words[i].language) == 2 && strlen(*p) >= 4);
		}
	assert_true(n > 700);
	buf_free(&text);
	buf_free(&folded);
}

/* Each phrase decides by itself, whatever stands before it in the table. */
static void order(void **state)
{
	struct buf text = BUF_INIT(1000);
	bool weak = false;
	unsigned bad = 0;
	(void)state;
	for (size_t i = 0; i < WORDS; i++) {
		weak |= !words[i].phrase;
		for (const char *const *p = words[i].phrase; p && *p; p++) {
			with(&text, "x", *p, "q");
			enum dsn_read_reason got = dsn_reason_words(buf_str(&text), weak);
			if (weak && dsn_reason_words(buf_str(&text), false) != DSN_REASON_OTHER)
				got = DSN_REASON_OTHER;
			if (got != words[i].reason) {
				print_error("\"%s\" says %s, not %s\n", *p, dsn_reason_text(got), dsn_reason_text(words[i].reason));
				bad++;
			}
		}
	}
	/* and none stands there twice in one language, or behind one that it holds in the same line */
	for (size_t i = 0; i < WORDS; i++)
		for (const char *const *p = words[i].phrase; p && *p; p++)
			for (const char *const *q = words[i].phrase; q != p; q++)
				if (strstr(*p, *q)) {
					print_error("\"%s\" is there by \"%s\"\n", *p, *q);
					bad++;
				}
	assert_int_equal(bad, 0);
	buf_free(&text);
}

static const struct {
	const char *text;
	enum dsn_read_reason reason;
} sentences[] = {
	{ "The account of Zoe is currently suspended", DSN_REASON_DISABLED }, { "550 The mailbox for this user is temporarily disabled", DSN_REASON_DISABLED },
	{ "I could not reach that person. The account or domain may not exist, or it may be blacklisted.", DSN_REASON_UNKNOWN_HOST },
	{ "There may be no group \"tea\", or you may not have permission to post to it", DSN_REASON_SENDER }, { "Mail Loop detected on the way", DSN_REASON_NETWORK },
	{ "mailprog: Couldn't create \"/mail/zoe\": no such user in this box", DSN_REASON_SYSTEM }, { "The address wasn\xe2\x80\x99t found at tea.example", DSN_REASON_UNKNOWN_USER },
	{ "Messages from [192.0.2.7] weren't sent: too many of them", DSN_REASON_BLOCKED }, { "Zoe is not in the directory of Tea Ltd", DSN_REASON_UNKNOWN_USER },
	{ "The hostesses are unknown by name", DSN_REASON_OTHER }, { "cannot open mailbox /mail/zoe: Permission", DSN_REASON_SYSTEM },
	{ "The sender address joe@tea.example does not exist", DSN_REASON_SENDER }, { "El remitente no existe", DSN_REASON_SENDER }, { "发件人不存在", DSN_REASON_SENDER },
	/* German */
	{ "Die Adresse zoe@tee.example wurde nicht gefunden", DSN_REASON_UNKNOWN_USER }, { "EMPFÄNGER UNBEKANNT", DSN_REASON_UNKNOWN_USER }, { "Empfaenger unbekannt", DSN_REASON_UNKNOWN_USER },
	{ "Das Postfach von Zoe ist voll", DSN_REASON_FULL }, { "Der Brief ist zu groß", DSN_REASON_TOO_BIG }, { "Das Konto ist gesperrt", DSN_REASON_DISABLED },
	{ "Die Domain tee.example existiert nicht", DSN_REASON_UNKNOWN_HOST }, { "Sie sind nicht berechtigt, an den Verteiler zu schreiben; vielleicht existiert er auch nicht", DSN_REASON_SENDER },
	/* French */
	{ "L'adresse zoe@the.example est introuvable", DSN_REASON_UNKNOWN_USER }, { "Cet utilisateur n\xe2\x80\x99" "existe pas", DSN_REASON_UNKNOWN_USER }, { "La boi\xcc\x82te de Zoe\xcc\x81 est pleine", DSN_REASON_FULL },
	{ "Le groupe n'existe pas, ou vous n'êtes pas autorisé à y écrire", DSN_REASON_SENDER }, { "Compte désactivé", DSN_REASON_DISABLED }, { "Le domaine the.example n'existe pas", DSN_REASON_UNKNOWN_HOST },
	{ "Message trop volumineux", DSN_REASON_TOO_BIG }, { "Délai de remise dépassé", DSN_REASON_EXPIRED },
	/* Spanish */
	{ "No se encontró la dirección de Zoe", DSN_REASON_UNKNOWN_USER }, { "El usuario no existe", DSN_REASON_UNKNOWN_USER }, { "El buzón de Zoe está lleno", DSN_REASON_FULL },
	{ "La cuenta está deshabilitada", DSN_REASON_DISABLED }, { "El dominio te.example no existe", DSN_REASON_UNKNOWN_HOST }, { "El mensaje es demasiado grande", DSN_REASON_TOO_BIG },
	/* Portuguese */
	{ "O endereço de Zoe não foi encontrado", DSN_REASON_UNKNOWN_USER }, { "Usuário inexistente", DSN_REASON_UNKNOWN_USER }, { "A caixa de Zoe está cheia", DSN_REASON_FULL },
	{ "Conta suspensa", DSN_REASON_DISABLED }, { "Domínio inexistente", DSN_REASON_UNKNOWN_HOST },
	/* Italian */
	{ "Impossibile trovare l'indirizzo di Zoe", DSN_REASON_UNKNOWN_USER }, { "La casella di Zoe è piena", DSN_REASON_FULL }, { "L'account è stato disattivato", DSN_REASON_DISABLED },
	{ "Il dominio te.example non esiste", DSN_REASON_UNKNOWN_HOST },
	/* Dutch */
	{ "Het adres van Zoe kan niet worden gevonden", DSN_REASON_UNKNOWN_USER }, { "Het postvak van Zoe is vol", DSN_REASON_FULL }, { "Het domein thee.example bestaat niet", DSN_REASON_UNKNOWN_HOST },
	{ "Het bericht is te groot", DSN_REASON_TOO_BIG }, { "Het postvak is al volgende week weer open", DSN_REASON_OTHER },
	/* Polish */
	{ "Użytkownik nieznany", DSN_REASON_UNKNOWN_USER }, { "Skrzynka Zoe jest przepełniona", DSN_REASON_FULL },
	/* Russian */
	{ "Такого пользователя НЕТ", DSN_REASON_UNKNOWN_USER }, { "Почтовый ящик Зои не найден", DSN_REASON_UNKNOWN_USER }, { "Ящик переполнен", DSN_REASON_FULL }, { "Учётная запись отключена", DSN_REASON_DISABLED },
	{ "Ваш IP в чёрном списке", DSN_REASON_BLOCKED }, { "Домен чай.example не существует", DSN_REASON_UNKNOWN_HOST },
	/* Japanese, with a line broken within a word */
	{ "お茶さんのアドレスが見つかり\r\n ません", DSN_REASON_UNKNOWN_USER }, { "宛先不明です", DSN_REASON_UNKNOWN_USER }, { "受信箱がいっぱいです", DSN_REASON_FULL }, { "アカウントは無効になっています", DSN_REASON_DISABLED },
	{ "ドメイン「お茶」が見つかりません", DSN_REASON_UNKNOWN_HOST }, { "ドメイン お茶.example が見つかりません", DSN_REASON_UNKNOWN_HOST }, { "アドレスが見つからないか、お茶の時間でした", DSN_REASON_OTHER },
	/* Chinese */
	{ "收件人茶先生不存在", DSN_REASON_UNKNOWN_USER }, { "查無此人", DSN_REASON_UNKNOWN_USER }, { "对方邮箱已满", DSN_REASON_FULL }, { "该帐号已被冻结", DSN_REASON_DISABLED }, { "找不到域 cha.example", DSN_REASON_UNKNOWN_HOST },
	{ "信件被當作垃圾郵件", DSN_REASON_SPAM },
};

static void languages(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++)
		if (dsn_reason_words(str_from(sentences[i].text), false) != sentences[i].reason)
			fail_msg("\"%s\" says %s", sentences[i].text, dsn_reason_text(dsn_reason_words(str_from(sentences[i].text), false)));
}

static void folding(void **state)
{
	static const char *const pairs[][2] = { { "  A\tb \r\n c ", "a b c " }, { "ÀÉÎÕÜ ß", "aeiou ß" }, { "\xef\xbf\xbd\xff", "\xef\xbf\xbd\xef\xbf\xbd" }, { "a\xc2\xa0\xe3\x80\x80" "b", "a b" },
		{ "日 本\n語 a 日", "日本語 a 日" }, { "a\xc2\xad\xe2\x80\x8b" "b", "ab" }, { "Й Ё", "й е" }, { "İ", "i" }, { "", "" } };
	struct buf b = BUF_INIT(100);
	(void)state;
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		buf_reset(&b);
		dsn_read_fold(str_from(pairs[i][0]), &b);
		assert_string_equal(buf_z(&b), pairs[i][1]);
	}
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(form), cmocka_unit_test(order), cmocka_unit_test(languages), cmocka_unit_test(folding) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
