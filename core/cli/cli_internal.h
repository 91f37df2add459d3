/* Shared by the tools. */
#ifndef CLI_INTERNAL_H
#define CLI_INTERNAL_H

#include "args.h"
#include "base/buf.h"
#include "config/config.h"
#include "text.h"

#include <json-c/json.h>

#define CLI_CONFIG_DEFAULT "/etc/pepsi/pepsi.conf"

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

struct cli {
	struct cli_args args;
	bool json;
	/* client.c */
	int fd;               /* -1: not connected */
	char socket[256];
	struct buf in;        /* read and not used yet */
};

/* "pepsi: …" on standard error, escaped. Returns CLI_FAILED. */
int cli_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same with a pointer to the help; returns CLI_USAGE. */
int cli_usage(const struct cli *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A whole number from min to max, or -1 after a message. */
int64_t cli_number(const struct cli *c, const char *what, const char *text, int64_t min, int64_t max);

/* config.c: -c, else $PEPSI_CONFIG, else the default place. */
const char *cli_config_file(const struct cli *c);
/* Loads it, secrets as far as this account may read them, --state laid over. NULL after a message when memory is out;
 * faults are added, not printed. */
struct config *cli_config_load(const struct cli *c, struct config_faults *faults);
/* The same for tools that need it to be right: prints errors and returns NULL. */
struct config *cli_config_need(const struct cli *c);
void cli_faults_print(const struct config_faults *faults, FILE *f);

/* tool_stage.c. The file of a module named by path (with a '/' or ending in .so) or by name along MODULE_PATH: absolute
 * path from malloc; NULL after a message. program: its name without folder and ".so". */
char *cli_module_path(struct cli *c, const char *module, char *program, size_t size);
/* "number 1..100", "YES/NO": what an option takes. */
struct pepsi_option;
void cli_option_type(const struct pepsi_option *o, char *out, size_t size);

/* client.c. Sends {"cmd":cmd,"args":args} (args NULL: none; taken over) and waits for the answer. Returns its "data" (to be
 * put by the caller), or NULL after a message; *ret_status (may be NULL) is CLI_FAILED then. quiet: no message when
 * nobody listens. timeout_ms: for the answer. */
struct json_object *cli_ask(struct cli *c, const char *cmd, struct json_object *args, int timeout_ms, bool quiet);
/* queue.cat: copies the octets to f. */
int cli_ask_raw(struct cli *c, const char *cmd, struct json_object *args, FILE *f);
/* Finds the socket; 0, or -1 after a message. */
int cli_client_find(struct cli *c);
void cli_client_close(struct cli *c);

enum { CLI_ANSWER_MS = 150 * 1000 }; /* longer than pepsid's longest own deadline, a reload */

/* The text of a member; STR_NULL when it is absent or not text. */
struct str cli_json_text(struct json_object *o, const char *key);
int64_t cli_json_int(struct json_object *o, const char *key);
void cli_json_print(struct json_object *o);

int tool_status(struct cli *c);
int tool_sendmail(struct cli *c);
int tool_queue_list(struct cli *c);
int tool_queue_show(struct cli *c);
int tool_queue_cat(struct cli *c);
int tool_queue_delete(struct cli *c);
int tool_queue_retry(struct cli *c);
int tool_queue_set_stage(struct cli *c);
int tool_queue_hold(struct cli *c);
int tool_queue_release(struct cli *c);
int tool_queue_reroute(struct cli *c);
int tool_queue_destinations(struct cli *c);
int tool_config_check(struct cli *c);
int tool_config_set(struct cli *c);
int tool_config_unset(struct cli *c);
int tool_config_show(struct cli *c);
int tool_worker(struct cli *c);
int tool_failure_bouncer(struct cli *c);
int tool_account_add(struct cli *c);
int tool_account_list(struct cli *c);
int tool_account_show(struct cli *c);
int tool_account_passwd(struct cli *c);
int tool_account_set(struct cli *c);
int tool_account_enable(struct cli *c);
int tool_account_disable(struct cli *c);
int tool_account_remove(struct cli *c);
int tool_recipient_add(struct cli *c);
int tool_recipient_remove(struct cli *c);
int tool_recipient_list(struct cli *c);
int tool_recipient_test(struct cli *c);
int tool_reload(struct cli *c);
int tool_stop(struct cli *c);
int tool_dns(struct cli *c);
int tool_auth_check(struct cli *c);
int tool_stage_list(struct cli *c);
int tool_stage_describe(struct cli *c);
int tool_stage_run(struct cli *c);
int tool_version(struct cli *c);
int tool_help(struct cli *c);

#endif
