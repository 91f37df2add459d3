/* Signs that a message tells of the fate of another, and whether it failed or is late: words in its subject and in the text for people. Lists are in the form
 * that dsn_read_fold() gives a text. Says nothing of why; that are the phrases of read_words.inc. */
#include "read_internal.h"

static bool has_any(struct str text, const char *const *phrases)
{
	for (; text.n && *phrases; phrases++)
		if (memmem(text.p, text.n, *phrases, strlen(*phrases)))
			return true;
	return false;
}

/* In the text or the subject: something was not delivered. */
static const char *const failed[] = { "undeliver", "not delivered", "could not be delivered", "couldn't be delivered", "cannot be delivered", "can't be delivered", "unable to deliver",
	"delivery fail", "failed to deliver", "failure", "permanent", "returned", "not deliver", "wasn't able to deliver", "fatal error", "user unknown", "failed recipient", "mail failed",
	"unknown user", "rejected", "did not reach", "not recognized", "aborted", "no such user", "not able to deliver", "was not found", "error", "could not deliver", "failed", "bounced", "quota", "full",
	"loop alert", "mail loop", "loop detected", NULL };

/* The same in other languages: German, French, Spanish, Portuguese, Italian, Dutch, Polish, Russian, Japanese, Chinese; a line each. In a subject only bounces have them. */
static const char *const abroad[] = {
	"unzustellbar", "nicht zugestellt", "nicht zustellbar", "zustellung fehlgeschlagen", "nicht ausgeliefert", "konnte nicht ubermittelt", "nicht ubermittelt werden",
	"non remis", "pu etre remis", "pas ete remis", "echec de remise", "echec de la remise", "echec de livraison", "echec de distribution", "non distribue", "pas ete distribue", "non delivre",
	"impossible de remettre", "pu etre envoye", "pu etre livre", "pu etre distribue",
	"no se pudo entregar", "no se ha podido entregar", "no entregado", "no se puede entregar", "no se entrego", "no se ha entregado", "error de entrega", "fallo de entrega",
	"no ha podido ser entregado", "imposible entregar",
	"nao entregue", "nao pode ser entregue", "nao foi entregue", "nao foi possivel entregar", "falha na entrega", "falha de entrega", "falha no envio", "mensagem devolvida",
	"non recapitabile", "non consegnat", "mancata consegna", "impossibile consegnare", "recapitato", "non puo essere consegnato", "non e stato consegnato",
	"onbestelbaar", "niet bezorgd", "niet worden bezorgd", "niet afgeleverd", "niet worden afgeleverd", "bezorging mislukt", "aflevering mislukt",
	"niedostarczon", "nie zostala dostarczona", "nie mozna dostarczyc",
	"не доставлен", "недоставлен", "не удается доставить", "не удалось доставить", "невозможно доставить", "не может быть доставлен", "не было доставлено", "не может быть доставлено",
	"配信できません", "配信不能", "配信されませんでした", "配送できません", "送信できません", "届きませんでした", "届けられません", "配信に失敗", "送信に失敗", "配達できません", "未配信", "エラーメール",
	"无法投递", "無法投遞", "无法送达", "無法送達", "无法传递", "無法傳遞", "未送达", "未送達", "未能送达", "投递失败", "投遞失敗", "传递失败", "傳遞失敗", "发送失败", "退信", NULL
};

/* In the subject: … not yet. */
static const char *const late_subject[] = { "delayed", "will be retried", "not yet been delivered", "need to resend", "still being retried", "warning", "will keep trying",
	"will continue to try", "continue trying", "transient", "temporar", "verzogert", "verzoegert", "retarde", "retrasad", "demorad", "atrasad", "ritardat", "in ritardo", "vertraagd", "vertraging",
	"opoznion", "задержка", "задержан", "отложен", "遅延", "遅れて", "延迟", "延遲", NULL };

static const char *const late_text[] = { "will be retried", "not yet been delivered", "need to resend", "will keep trying", "will continue to try", "attempts will continue",
	"weitere zustellversuche", "noch nicht zugestellt", "de nouvelles tentatives", "pas encore ete remis", "se seguira intentando", "aun no se ha entregado", "ainda nao foi entregue",
	"non e ancora stato", "nog niet bezorgd", "nog niet afgeleverd", "попытки доставки будут", "еще не доставлен", "再送を試み", "再試行します", "将继续尝试", "将会继续尝试", "會繼續嘗試", NULL };

/* In the text: what only a bounce says. */
static const char *const strong[] = { "could not be delivered to", "did not reach the following recipient", "delivery to the following recipient", "undeliverable message", "unable to deliver",
	"delivery has failed", "mailbox is full", "was not delivered to", "returned to sender", NULL };

/* Subjects of bounces. */
static const char *const subjects[] = { "undeliver", "delivery", "returned mail", "failure", "failed", "bounce", "rejected", "not delivered", "could not", "error", "warning", "mail loop", "loop alert", NULL };

void dsn_read_signs(struct dsn_gather *g)
{
	struct buf text = BUF_INIT(DSN_READ_TEXT_MAX + 16), subject = BUF_INIT(DSN_READ_TEXT_MAX + 16);
	dsn_read_fold(buf_str(&g->human), &text);
	dsn_read_fold(g->subject, &subject);
	struct str t = buf_str(&text), s = buf_str(&subject);
	g->strong_words = has_any(t, strong);
	g->failure_words = has_any(t, failed) || has_any(s, failed) || has_any(t, abroad) || has_any(s, abroad);
	g->delay_words = has_any(s, late_subject) || has_any(t, late_text);
	g->bounce_subject = has_any(s, subjects) || has_any(s, abroad);
	buf_free(&text);
	buf_free(&subject);
}
