/* What tools of the database have in common: configuration, account, connection string. */
#include "service.h"

#include "base/log.h"
#include "config/schema.h"
#include "store/cluster.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

char *service_words(const char *text, const struct str **ret, size_t *ret_n)
{
	char *copy = strdup(text ? text : "");
	size_t room = copy ? strlen(copy) / 2 + 1 : 0;
	struct str *words = copy ? calloc(room, sizeof *words) : NULL, rest = str_from(copy);
	*ret_n = 0;
	if (!words) {
		free(copy);
		return NULL;
	}
	while (*ret_n < room && str_word(&rest, " \t", &words[*ret_n]))
		++*ret_n;
	*ret = words;
	return copy;
}

struct config *service_config(const struct cli *c)
{
	struct config_faults *faults = config_faults_new();
	struct config *conf = faults ? cli_config_load(c, faults) : NULL;
	if (conf)
		schema_check(conf, NULL, NULL, faults);
	if (conf && config_faults_n(faults, false)) {
		for (size_t i = 0; i < config_faults_n(faults, true); i++) {
			const struct config_fault *f = config_faults_at(faults, i);
			struct buf line = BUF_INIT(64 * 1024);
			config_fault_print(f, &line);
			if (!f->warning) {
				cli_text_print(stderr, str_trim(buf_str(&line)));
				putc('\n', stderr);
			}
			buf_free(&line);
		}
		config_free(conf);
		conf = NULL;
	}
	config_faults_free(faults);
	return conf;
}

int service_conninfo(const struct config *conf, char out[SERVICE_CONNINFO_SIZE])
{
	const char *given = config_str(conf, "pepsi-postgres", "CONFIG");
	struct cluster_paths paths;
	char err[300] = "[pepsi] STATE_DIR is not usable";
	if (given && *given) {
		if ((size_t)snprintf(out, SERVICE_CONNINFO_SIZE, "%s", given) >= SERVICE_CONNINFO_SIZE)
			return cli_fail("[pepsi-postgres] CONFIG is longer than %d octets", SERVICE_CONNINFO_SIZE - 1);
		return CLI_DONE;
	}
	char *state = config_path(conf, "pepsi", "STATE_DIR");
	int rc = state ? cluster_paths_set(&paths, state, err, sizeof err) : -1;
	free(state);
	if (rc)
		return cli_fail("the private database: %s", err);
	cluster_conninfo(&paths, out, SERVICE_CONNINFO_SIZE);
	return CLI_DONE;
}

static void drop_fail(const char *name)
{
	cli_fail("cannot become the account %s: %s", name, strerror(errno));
}

int service_leave_root(const char *name)
{
	struct passwd *pw = geteuid() == 0 ? getpwnam(name) : NULL;
	uid_t r, e, s;
	if (geteuid() != 0)
		return CLI_DONE;
	if (!pw) {
		log_warn(NULL, "event=no-account account=%s text=\"there is no such account: going on as root\"", log_qz(name));
		return CLI_DONE;
	}
	if (initgroups(pw->pw_name, pw->pw_gid) || setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) ||
	    setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid)) {
		drop_fail(name);
		return CLI_FAILED;
	}
	if (getresuid(&r, &e, &s) || r != pw->pw_uid || e != pw->pw_uid || s != pw->pw_uid || (pw->pw_uid && setuid(0) == 0)) {
		errno = EPERM;
		drop_fail(name);
		return CLI_FAILED;
	}
	/* libpq looks for certificates and passwords below HOME, and takes a folder it may not enter for an error */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || setenv("HOME", pw->pw_dir, 1) || setenv("USER", pw->pw_name, 1) ||
	    setenv("LOGNAME", pw->pw_name, 1)) {
		drop_fail(name);
		return CLI_FAILED;
	}
	log_debug(NULL, "event=account account=%s", log_qz(pw->pw_name));
	return CLI_DONE;
}
