/* LIMITS (RFC 9422) as a client obeys them. */
#include "peer.h"

#define BANNER { "", "220 mx ESMTP\r\n" }
#define OFFER(limits) { "EHLO us\r\n", "250-mx\r\n250-LIMITS " limits "\r\n250 PIPELINING\r\n" }
#define MSG .from = "a@b", .headers = "S: x\r\n", .body = "hi\r\n"
#define CONTENT { "S: x\r\n\r\nhi\r\n.\r\n", "250 ok\r\n" }
#define QUIT { "QUIT\r\n", "221 bye\r\n" }
#define ONE { "MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n", "250 1\r\n250 2\r\n354 3\r\n" }
#define TWO(x, y) { "MAIL FROM:<a@b>\r\nRCPT TO:<" x ">\r\nRCPT TO:<" y ">\r\nDATA\r\n", "250 1\r\n250 2\r\n250 2\r\n354 3\r\n" }
#define CLOSED "closed ok quit 0 - \n"
#define OVER "transient rcpt 0 4.5.3 the next hop takes fewer recipients at a time (LIMITS)\n"
#define SENT "ok dot 250 - ok\n"

static const struct script scripts[] = {
	{ "two recipients at a time", { BANNER, OFFER("RCPTMAX=2"), TWO("c@d", "e@f"), CONTENT, QUIT },
	    "ready\ndone\n" SENT SENT OVER "ready\n" CLOSED, .to = "c@d e@f g@h", MSG },
	{ "as many as there are", { BANNER, OFFER("mailmax=5 RCPTMAX=1"), ONE, CONTENT, QUIT }, "ready\ndone\n" SENT "ready\n" CLOSED, .to = "c@d", MSG },
	{ "one domain at a time", { BANNER, OFFER("RCPTDOMAINMAX=1"), TWO("c@d", "g@D"), CONTENT, QUIT },
	    "ready\ndone\n" SENT OVER SENT OVER "ready\n" CLOSED, .to = "c@d e@f g@D h@g", MSG },
	{ "those refused here do not count", { BANNER, OFFER("RCPTMAX=1"), ONE, CONTENT, QUIT },
	    "ready\ndone\npermanent rcpt 0 5.1.3 the recipient address cannot be sent\n" SENT "ready\n" CLOSED, .to = "<c@d c@d", MSG },
	{ "all or nobody", { BANNER, OFFER("RCPTMAX=1"), QUIT }, "ready\ndone\n" OVER OVER "ready\n" CLOSED, .whole = true, .to = "c@d e@f", MSG },
	{ "one message in a session", { BANNER, OFFER("MAILMAX=1"), ONE, CONTENT, QUIT }, "ready\ndone\n" SENT "ready\nfull\n" CLOSED, .pair = true, .to = "c@d", MSG },
	{ "limits that are none", { BANNER, OFFER("RCPTMAX=0 MAILMAX=1000000 RCPTMAX=x RCPTMAX RCPTDOMAINMAX=-1 FOO=1 ="), TWO("c@d", "e@f"), CONTENT, QUIT },
	    "ready\ndone\n" SENT SENT "ready\n" CLOSED, .to = "c@d e@f", MSG },
};

void test_peer_limits(void **state)
{
	(void)state;
	peer_check_all(scripts, sizeof scripts / sizeof *scripts);
}
