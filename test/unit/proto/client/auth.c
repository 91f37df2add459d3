/* AUTH of the client engine: every mechanism, every kind of refusal, servers that lie; and that nothing secret stays behind. The figures of
 * SCRAM are those of RFC 7677 §3, or computed alike. */
#include "peer.h"

#include "proto/sasl/mech.h"
#include "proto/smtp/client_internal.h"

#define BANNER { "", "220 mx ESMTP\r\n" }
#define OFFER(mechs) { "EHLO us\r\n", "250-mx\r\n250-AUTH " mechs "\r\n250 PIPELINING\r\n" }
#define SENT { "MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n", "250 1\r\n250 2\r\n354 3\r\n" }, { "S: x\r\n\r\nhi\r\n.\r\n", "250 ok\r\n" }, { "QUIT\r\n", "221 bye\r\n" }
#define DELIVERED "done\nok dot 250 - ok\nready\nclosed ok quit 0 - \n"
#define MSG .from = "a@b", .to = "c@d", .headers = "S: x\r\n", .body = "hi\r\n"
#define NONCE "rOprNGfwEbeRWgbNEkqO"
#define SERVER_FIRST "334 cj1yT3ByTkdmd0ViZVJXZ2JORWtxTyVodllEcFdVYTJSYVRDQWZ1eEZJbGopaE5sRiRrMCxzPVcyMlphSjBTTlk3c29Fc1VFamI2Z1E9PSxpPTQwOTY=\r\n"

static const struct smtp_client_auth password = { .name = STR_INIT("user"), .password = STR_INIT("pencil"), .nonce = STR_INIT(NONCE) },
	no_nonce = { .name = STR_INIT("user"), .password = STR_INIT("pencil") },
	plain_only = { .name = STR_INIT("user"), .password = STR_INIT("pencil"), .nonce = STR_INIT(NONCE), .mechs = 1u << SASL_PLAIN },
	bound = { .name = STR_INIT("user"), .password = STR_INIT("pencil"), .nonce = STR_INIT(NONCE),
		.binding = { STR_INIT("tls-exporter"), STR_INIT("bind") } },
	open_air = { .name = STR_INIT("user"), .password = STR_INIT("pencil"), .without_tls = true },
	token = { .name = STR_INIT("user"), .token = STR_INIT("tok"), .host = STR_INIT("mx"), .port = 587 },
	long_token = { .name = STR_INIT("user"), .token = STR_INIT("tttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt") },
	certificate = { .external = true, .name = STR_INIT("user"), .password = STR_INIT("pencil") },
	unfit = { .name = STR_INIT("user"), .token = STR_INIT("a\1b") };

static const struct script scripts[] = {
	{ "PLAIN with its initial response", { BANNER, OFFER("PLAIN LOGIN"),
	      { "AUTH PLAIN AHVzZXIAcGVuY2ls\r\n", "235 2.7.0 in\r\n" },
	      SENT },
	    "ready\nsigned-in PLAIN\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "LOGIN", { BANNER, OFFER("LOGIN"),
	      { "AUTH LOGIN\r\n", "334 VXNlcm5hbWU6\r\n" },
	      { "dXNlcg==\r\n", "334 UGFzc3dvcmQ6\r\n" },
	      { "cGVuY2ls\r\n", "235 2.7.0 in\r\n" },
	      SENT },
	    "ready\nsigned-in LOGIN\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "the old way to offer", { BANNER, { "EHLO us\r\n", "250-mx\r\n250-AUTH=LOGIN plain\r\n250 PIPELINING\r\n" },
	      { "AUTH PLAIN AHVzZXIAcGVuY2ls\r\n", "235 in\r\n" },
	      SENT },
	    "ready\nsigned-in PLAIN\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "SCRAM before PLAIN", { BANNER, OFFER("PLAIN LOGIN SCRAM-SHA-256"),
	      { "AUTH SCRAM-SHA-256 biwsbj11c2VyLHI9ck9wck5HZndFYmVSV2diTkVrcU8=\r\n", SERVER_FIRST },
	      { "Yz1iaXdzLHI9ck9wck5HZndFYmVSV2diTkVrcU8laHZZRHBXVWEyUmFUQ0FmdXhGSWxqKWhObEYkazAscD1kSHpiWmFwV0lrNGpVaE4rVXRlOXl0YWc5empmTUhnc3FtbWl6N0FuZFZRPQ==\r\n", "334 dj02cnJpVFJCaTIzV3BSUi93dHVwK21NaFVaVW4vZEI1bkxUSlJzamw5NUc0PQ==\r\n" },
	      { "\r\n", "235 2.7.0 in\r\n" },
	      SENT },
	    "ready\nsigned-in SCRAM-SHA-256\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "SCRAM bound to the channel", { BANNER, OFFER("SCRAM-SHA-256-PLUS SCRAM-SHA-256 PLAIN"),
	      { "AUTH SCRAM-SHA-256-PLUS cD10bHMtZXhwb3J0ZXIsLG49dXNlcixyPXJPcHJOR2Z3RWJlUldnYk5Fa3FP\r\n", SERVER_FIRST },
	      { "Yz1jRDEwYkhNdFpYaHdiM0owWlhJc0xHSnBibVE9LHI9ck9wck5HZndFYmVSV2diTkVrcU8laHZZRHBXVWEyUmFUQ0FmdXhGSWxqKWhObEYkazAscD1hZmdBWmZ0UXI4aEE4aDFzYlBOeTJVZUFJd1lhSjAvdkFSY2huQmJyMHVrPQ==\r\n", "334 dj1BQzY1a2tIQnJQUDJTVVNkc0QvYWowZFo3SUhtazFVbjIwTTdDZG5iemhRPQ==\r\n" },
	      { "\r\n", "235 in\r\n" },
	      SENT },
	    "ready\nsigned-in SCRAM-SHA-256-PLUS\nready\n" DELIVERED, .implicit = true, .auth = &bound, MSG },
	{ "SCRAM that could be bound", { BANNER, OFFER("SCRAM-SHA-256 PLAIN"),
	      { "AUTH SCRAM-SHA-256 eSwsbj11c2VyLHI9ck9wck5HZndFYmVSV2diTkVrcU8=\r\n", SERVER_FIRST },
	      { "Yz1lU3dzLHI9ck9wck5HZndFYmVSV2diTkVrcU8laHZZRHBXVWEyUmFUQ0FmdXhGSWxqKWhObEYkazAscD1Gb3FpSFR0UUVERThsejFDZGFFZTN0SzRtUytpTURUbDc3U1B5RFM1M0RZPQ==\r\n", "334 dj1kSTRLcGlRSndCcjErVitLNlUxZEE2bDZJNEk5RFVOWFdORDRwY3BSVTNVPQ==\r\n" },
	      { "\r\n", "235 in\r\n" },
	      SENT },
	    "ready\nsigned-in SCRAM-SHA-256\nready\n" DELIVERED, .implicit = true, .auth = &bound, MSG },
	{ "no SCRAM without a nonce", { BANNER, OFFER("SCRAM-SHA-256 PLAIN"),
	      { "AUTH PLAIN AHVzZXIAcGVuY2ls\r\n", "235 in\r\n" },
	      SENT },
	    "ready\nsigned-in PLAIN\nready\n" DELIVERED, .implicit = true, .auth = &no_nonce, MSG },
	{ "only what is allowed", { BANNER, OFFER("SCRAM-SHA-256 PLAIN"),
	      { "AUTH PLAIN AHVzZXIAcGVuY2ls\r\n", "235 in\r\n" },
	      SENT },
	    "ready\nsigned-in PLAIN\nready\n" DELIVERED, .implicit = true, .auth = &plain_only, MSG },
	{ "OAUTHBEARER before XOAUTH2", { BANNER, OFFER("XOAUTH2 OAUTHBEARER PLAIN"),
	      { "AUTH OAUTHBEARER bixhPXVzZXIsAWhvc3Q9bXgBcG9ydD01ODcBYXV0aD1CZWFyZXIgdG9rAQE=\r\n", "235 in\r\n" },
	      SENT },
	    "ready\nsigned-in OAUTHBEARER\nready\n" DELIVERED, .implicit = true, .auth = &token, MSG },
	{ "XOAUTH2", { BANNER, OFFER("PLAIN XOAUTH2"),
	      { "AUTH XOAUTH2 dXNlcj11c2VyAWF1dGg9QmVhcmVyIHRvawEB\r\n", "235 in\r\n" },
	      SENT },
	    "ready\nsigned-in XOAUTH2\nready\n" DELIVERED, .implicit = true, .auth = &token, MSG },
	{ "a token too long for the command line", { BANNER, OFFER("XOAUTH2"),
	      { "AUTH XOAUTH2\r\n", "334 \r\n" },
	      { "dXNlcj11c2VyAWF1dGg9QmVhcmVyIHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dAEB\r\n", "235 in\r\n" },
	      SENT },
	    "ready\nsigned-in XOAUTH2\nready\n" DELIVERED, .implicit = true, .auth = &long_token, MSG },
	{ "334 without the blank", { BANNER, OFFER("XOAUTH2"),
	      { "AUTH XOAUTH2\r\n", "334\r\n" },
	      { "dXNlcj11c2VyAWF1dGg9QmVhcmVyIHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dAEB\r\n", "235 in\r\n" },
	      SENT },
	    "ready\nsigned-in XOAUTH2\nready\n" DELIVERED, .implicit = true, .auth = &long_token, MSG },
	{ "EXTERNAL", { BANNER, OFFER("PLAIN EXTERNAL"),
	      { "AUTH EXTERNAL =\r\n", "235 in\r\n" },
	      SENT },
	    "ready\nsigned-in EXTERNAL\nready\n" DELIVERED, .implicit = true, .auth = &certificate, MSG },
	{ "no EXTERNAL on offer", { BANNER, OFFER("PLAIN"),
	      { "AUTH PLAIN AHVzZXIAcGVuY2ls\r\n", "235 in\r\n" },
	      SENT },
	    "ready\nsigned-in PLAIN\nready\n" DELIVERED, .implicit = true, .auth = &certificate, MSG },
	{ "without TLS by leave", { BANNER, OFFER("PLAIN"),
	      { "AUTH PLAIN AHVzZXIAcGVuY2ls\r\n", "235 in\r\n" },
	      SENT },
	    "ready\nsigned-in PLAIN\nready\n" DELIVERED, .auth = &open_air, MSG },
	{ "never without TLS", { BANNER, OFFER("PLAIN SCRAM-SHA-256"),
	      SENT },
	    "ready\nauth-failed no-tls permanent auth 0 5.7.11 signing in without TLS would show the password to everybody on the way\nready\n" DELIVERED, .auth = &password, MSG },
	{ "wrong password: no second mechanism", { BANNER, OFFER("LOGIN PLAIN"),
	      { "AUTH PLAIN AHVzZXIAcGVuY2ls\r\n", "535 5.7.8 no\r\n" },
	      SENT },
	    "ready\nauth-failed credentials permanent auth 535 5.7.8 no\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "not now", { BANNER, OFFER("PLAIN"),
	      { "AUTH PLAIN AHVzZXIAcGVuY2ls\r\n", "454 4.7.0 later\r\n" },
	      SENT },
	    "ready\nauth-failed later transient auth 454 4.7.0 later\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "password must be renewed", { BANNER, OFFER("PLAIN"),
	      { "AUTH PLAIN AHVzZXIAcGVuY2ls\r\n", "432 4.7.12 renew\r\n" },
	      SENT },
	    "ready\nauth-failed transition transient auth 432 4.7.12 renew\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "too weak: no other is there", { BANNER, OFFER("PLAIN"),
	      { "AUTH PLAIN AHVzZXIAcGVuY2ls\r\n", "534-5.7.9 application-specific\r\n534 5.7.9 password\r\n" },
	      SENT },
	    "ready\nauth-failed weak permanent auth 534 5.7.9 application-specific password\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "too weak: the next", { BANNER, OFFER("PLAIN LOGIN"),
	      { "AUTH PLAIN AHVzZXIAcGVuY2ls\r\n", "534 5.7.9 weak\r\n" },
	      { "AUTH LOGIN\r\n", "334 VXNlcm5hbWU6\r\n" },
	      { "dXNlcg==\r\n", "334 UGFzc3dvcmQ6\r\n" },
	      { "cGVuY2ls\r\n", "235 in\r\n" },
	      SENT },
	    "ready\nsigned-in LOGIN\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "unknown after all: the next", { BANNER, OFFER("PLAIN SCRAM-SHA-256"),
	      { "AUTH SCRAM-SHA-256 biwsbj11c2VyLHI9ck9wck5HZndFYmVSV2diTkVrcU8=\r\n", "504 5.5.4 what\r\n" },
	      { "AUTH PLAIN AHVzZXIAcGVuY2ls\r\n", "235 in\r\n" },
	      SENT },
	    "ready\nsigned-in PLAIN\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "needs TLS, says the server", { BANNER, OFFER("PLAIN"),
	      { "AUTH PLAIN AHVzZXIAcGVuY2ls\r\n", "538 5.7.11 TLS\r\n" },
	      SENT },
	    "ready\nauth-failed no-tls permanent auth 538 5.7.11 TLS\nready\n" DELIVERED, .auth = &open_air, MSG },
	{ "AUTH switched off", { BANNER, OFFER("PLAIN"),
	      { "AUTH PLAIN AHVzZXIAcGVuY2ls\r\n", "503 5.5.1 no\r\n" },
	      SENT },
	    "ready\nauth-failed mechanism permanent auth 503 5.5.1 no\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "a token refused (OAUTHBEARER)", { BANNER, OFFER("OAUTHBEARER"),
	      { "AUTH OAUTHBEARER bixhPXVzZXIsAWhvc3Q9bXgBcG9ydD01ODcBYXV0aD1CZWFyZXIgdG9rAQE=\r\n", "334 eyJzdGF0dXMiOiI0MDAiLCJzY2hlbWVzIjoiQmVhcmVyIn0=\r\n" },
	      { "AQ==\r\n", "535 5.7.8 no\r\n" },
	      SENT },
	    "ready\nauth-failed credentials permanent auth 535 5.7.8 no ({\"status\":\"400\",\"schemes\":\"Bearer\"})\nready\n" DELIVERED, .implicit = true, .auth = &token, MSG },
	{ "a token refused (XOAUTH2)", { BANNER, OFFER("XOAUTH2"),
	      { "AUTH XOAUTH2 dXNlcj11c2VyAWF1dGg9QmVhcmVyIHRvawEB\r\n", "334 eyJzdGF0dXMiOiI0MDAiLCJzY2hlbWVzIjoiQmVhcmVyIn0=\r\n" },
	      { "\r\n", "535\r\n" },
	      SENT },
	    "ready\nauth-failed credentials permanent auth 535 - ({\"status\":\"400\",\"schemes\":\"Bearer\"})\nready\n" DELIVERED, .implicit = true, .auth = &token, MSG },
	{ "nothing on offer", { BANNER, { "EHLO us\r\n", "250-mx\r\n250 PIPELINING\r\n" },
	      SENT },
	    "ready\nauth-failed mechanism permanent auth 0 5.7.4 sign-in is configured here and not offered by the next hop\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "nothing we can", { BANNER, OFFER("CRAM-MD5 EXTERNAL XOAUTH2"),
	      SENT },
	    "ready\nauth-failed mechanism permanent auth 0 5.7.4 no way to sign in: the next hop offers EXTERNAL XOAUTH2, and none of these can be used with what is configured\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "nothing known", { BANNER, OFFER("CRAM-MD5 GSSAPI"),
	      SENT },
	    "ready\nauth-failed mechanism permanent auth 0 5.7.4 no way to sign in: the next hop offers nothing known here\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "a token that cannot be sent", { BANNER, OFFER("XOAUTH2"),
	      SENT },
	    "ready\nauth-failed mechanism permanent auth 0 5.7.8 the name, the password or the token cannot be sent as they are\nready\n" DELIVERED, .implicit = true, .auth = &unfit, MSG },
	{ "hostile: success without proof", { BANNER, OFFER("SCRAM-SHA-256"),
	      { "AUTH SCRAM-SHA-256 biwsbj11c2VyLHI9ck9wck5HZndFYmVSV2diTkVrcU8=\r\n", "235 come in\r\n" } },
	    "ready\nclosed protocol auth 0 4.5.0 the next hop let us in without proving that it knows us\n", .implicit = true, .auth = &password, MSG },
	{ "hostile: success half way", { BANNER, OFFER("SCRAM-SHA-256"),
	      { "AUTH SCRAM-SHA-256 biwsbj11c2VyLHI9ck9wck5HZndFYmVSV2diTkVrcU8=\r\n", SERVER_FIRST },
	      { "Yz1iaXdzLHI9ck9wck5HZndFYmVSV2diTkVrcU8laHZZRHBXVWEyUmFUQ0FmdXhGSWxqKWhObEYkazAscD1kSHpiWmFwV0lrNGpVaE4rVXRlOXl0YWc5empmTUhnc3FtbWl6N0FuZFZRPQ==\r\n", "235 come in\r\n" } },
	    "ready\nclosed protocol auth 0 4.5.0 the next hop let us in without proving that it knows us\n", .implicit = true, .auth = &password, MSG },
	{ "hostile: a server without our key", { BANNER, OFFER("SCRAM-SHA-256"),
	      { "AUTH SCRAM-SHA-256 biwsbj11c2VyLHI9ck9wck5HZndFYmVSV2diTkVrcU8=\r\n", SERVER_FIRST },
	      { "Yz1iaXdzLHI9ck9wck5HZndFYmVSV2diTkVrcU8laHZZRHBXVWEyUmFUQ0FmdXhGSWxqKWhObEYkazAscD1kSHpiWmFwV0lrNGpVaE4rVXRlOXl0YWc5empmTUhnc3FtbWl6N0FuZFZRPQ==\r\n", "334 dj1lSGg0ZUhoNGVIaDRlSGg0ZUhoNGVIaDRlSGg0ZUhoNGVIaDRlSGg0ZUhnPQ==\r\n" },
	      { "*\r\n", "501 5.7.0 cancelled\r\n" },
	      SENT },
	    "ready\nauth-failed server permanent auth 0 5.7.8 the next hop broke off: SCRAM: the server does not know the password\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "hostile: a nonce that is not ours", { BANNER, OFFER("SCRAM-SHA-256"),
	      { "AUTH SCRAM-SHA-256 biwsbj11c2VyLHI9ck9wck5HZndFYmVSV2diTkVrcU8=\r\n", "334 cj16enp6enp6enp6enp6enp6enp6enp6enp6enp6LHM9VzIyWmFKMFNOWTdzb0VzVUVqYjZnUT09LGk9NDA5Ng==\r\n" },
	      { "*\r\n", "501 no\r\n" },
	      SENT },
	    "ready\nauth-failed server permanent auth 0 5.7.8 the next hop broke off: SCRAM: the nonce is not ours\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "hostile: a year of hashing", { BANNER, OFFER("SCRAM-SHA-256"),
	      { "AUTH SCRAM-SHA-256 biwsbj11c2VyLHI9ck9wck5HZndFYmVSV2diTkVrcU8=\r\n", "334 cj1yT3ByTkdmd0ViZVJXZ2JORWtxTyVodllEcFdVYTJSYVRDQWZ1eEZJbGopaE5sRiRrMCxzPVcyMlphSjBTTlk3c29Fc1VFamI2Z1E9PSxpPTIwMDAwMDAwMDA=\r\n" },
	      { "*\r\n", "501 no\r\n" },
	      SENT },
	    "ready\nauth-failed server permanent auth 0 5.7.8 the next hop broke off: SCRAM: iterations out of bounds\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "hostile: a challenge that is not Base64", { BANNER, OFFER("LOGIN"),
	      { "AUTH LOGIN\r\n", "334 Username:\r\n" },
	      { "*\r\n", "501 no\r\n" },
	      SENT },
	    "ready\nauth-failed server permanent auth 0 5.7.8 the challenge of the next hop is broken\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "hostile: a third question", { BANNER, OFFER("LOGIN"),
	      { "AUTH LOGIN\r\n", "334 \r\n" },
	      { "dXNlcg==\r\n", "334 \r\n" },
	      { "cGVuY2ls\r\n", "334 U2hvZSBzaXplOg==\r\n" },
	      { "*\r\n", "501 no\r\n" },
	      SENT },
	    "ready\nauth-failed server permanent auth 0 5.7.8 the next hop broke off: LOGIN: a third question\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "hostile: PLAIN with a question", { BANNER, OFFER("PLAIN"),
	      { "AUTH PLAIN AHVzZXIAcGVuY2ls\r\n", "334 d2h5Pw==\r\n" },
	      { "*\r\n", "501 no\r\n" },
	      SENT },
	    "ready\nauth-failed server permanent auth 0 5.7.8 the next hop broke off: why?\nready\n" DELIVERED, .implicit = true, .auth = &password, MSG },
	{ "hostile: cancelled and let in", { BANNER, OFFER("LOGIN"),
	      { "AUTH LOGIN\r\n", "334 !\r\n" },
	      { "*\r\n", "235 in\r\n" } },
	    "ready\nclosed protocol auth 0 4.5.0 AUTH was cancelled, and not refused\n", .implicit = true, .auth = &password, MSG },
	{ "hostile: cancelled and asked again", { BANNER, OFFER("LOGIN"),
	      { "AUTH LOGIN\r\n", "334 !\r\n" },
	      { "*\r\n", "334 \r\n" } },
	    "ready\nclosed protocol auth 0 4.5.0 AUTH was cancelled, and not refused\n", .implicit = true, .auth = &password, MSG },
	{ "hostile: a challenge of two lines", { BANNER, OFFER("LOGIN"),
	      { "AUTH LOGIN\r\n", "334-VXNl\r\n334 cm5hbWU6\r\n" } },
	    "ready\nclosed protocol auth 0 4.5.0 3xx that is no challenge\n", .implicit = true, .auth = &password, MSG },
	{ "hostile: 354", { BANNER, OFFER("LOGIN"),
	      { "AUTH LOGIN\r\n", "354 go\r\n" } },
	    "ready\nclosed protocol auth 0 4.5.0 3xx that is no challenge\n", .implicit = true, .auth = &password, MSG },
	{ "gone in the middle", { BANNER, OFFER("LOGIN"),
	      { "AUTH LOGIN\r\n", "334 \r\n" },
	      { "dXNlcg==\r\n", EOF_ } },
	    "ready\nclosed lost auth 0 4.4.2 connection closed by the other side\n", .implicit = true, .auth = &password, MSG },
	{ "421", { BANNER, OFFER("PLAIN"),
	      { "AUTH PLAIN AHVzZXIAcGVuY2ls\r\n", "421 4.7.0 too many tries\r\n" } },
	    "ready\nclosed transient auth 421 4.7.0 too many tries\n", .implicit = true, .auth = &password, MSG },
	{ "what was offered in plain text is forgotten", { BANNER, { "EHLO us\r\n", "250-mx\r\n250-AUTH PLAIN\r\n250 STARTTLS\r\n" },
	      { "STARTTLS\r\n", "220 go\r\n" }, OFFER("LOGIN"), { "AUTH LOGIN\r\n", "334 \r\n" }, { "dXNlcg==\r\n", "334 \r\n" }, { "cGVuY2ls\r\n", "235 in\r\n" },
	      SENT }, "ready\nstarttls\nready\nsigned-in LOGIN\nready\n" DELIVERED, .tls = true, .auth = &password, MSG },
};

void test_auth(void **state)
{
	(void)state;
	peer_check_all(scripts, sizeof scripts / sizeof *scripts);
}

static bool holds(const struct buf *b, const char *what)
{
	return b->p && memmem(b->p, b->cap, what, strlen(what));
}

/* The buffer that a password went through holds nothing of it once it is written. */
void test_auth_secrets(void **state)
{
	struct smtp_client_conf conf = { .helo = STR("us"), .tls = true };
	struct str seg[SMTP_CLIENT_SEGMENTS];
	(void)state;
	struct smtp_client *c = smtp_client_new(&conf);
	assert_non_null(c);
	smtp_client_feed(c, "220 mx\r\n", 8);
	assert_int_equal(smtp_client_next(c), SMTP_CEV_NONE);
	smtp_client_sent(c, smtp_client_out(c, seg) ? seg[0].n : 0);
	smtp_client_feed(c, "250-mx\r\n250 AUTH PLAIN\r\n", 24);
	assert_int_equal(smtp_client_next(c), SMTP_CEV_READY);
	assert_int_equal(smtp_client_auth_offer(c), 1u << SASL_PLAIN);
	assert_int_equal(smtp_client_auth(c, &password), 0);
	assert_int_equal(smtp_client_out(c, seg), 1);
	assert_true(holds(&c->out, "AHVzZXIA"));
	smtp_client_sent(c, seg[0].n - 1);
	assert_int_equal(smtp_client_out(c, seg), 1);
	smtp_client_sent(c, 1);
	assert_false(holds(&c->out, "AHVzZXIA"));
	smtp_client_feed(c, "235 in\r\n", 8);
	assert_int_equal(smtp_client_next(c), SMTP_CEV_SIGNED_IN);
	assert_null(c->sasl);
	assert_null(c->auth.password.p);
	smtp_client_free(c);
}
