/* The PAM job: libpam loaded at run time, so that neither the program nor its package needs it. Runs in a process of its own
 * that ends with the job: modules may do what they like there. Never prints, never reads a terminal. */
#include "job.h"

#include "base/library.h"
#include "proto/wire/signin.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef PEPSI_PAM
#include <security/pam_appl.h>

static struct {
	int (*start)(const char *, const char *, const struct pam_conv *, pam_handle_t **);
	int (*start_confdir)(const char *, const char *, const struct pam_conv *, const char *, pam_handle_t **);
	int (*end)(pam_handle_t *, int);
	int (*set_item)(pam_handle_t *, int, const void *);
	int (*get_item)(const pam_handle_t *, int, const void **);
	int (*authenticate)(pam_handle_t *, int);
	int (*acct_mgmt)(pam_handle_t *, int);
	const char *(*strerror)(pam_handle_t *, int);
} pam;

const char *job_pam_load(void)
{
	static const struct library_symbol of[] = { { "pam_start", &pam.start }, { "pam_start_confdir", &pam.start_confdir }, { "pam_end", &pam.end },
		{ "pam_set_item", &pam.set_item }, { "pam_get_item", &pam.get_item }, { "pam_authenticate", &pam.authenticate },
		{ "pam_acct_mgmt", &pam.acct_mgmt }, { "pam_strerror", &pam.strerror } };
	const char *why;
	int rc = library_bind("libpam.so.0", of, sizeof of / sizeof *of, &why);
	if (rc)
		return rc < 0 ? "libpam.so.0 cannot be loaded (package libpam0g)" : "libpam.so.0 lacks a function";
	return NULL;
}

/* Answers each question for a secret with the password, each other one with nothing; messages are nobody's. */
static int converse(int n, const struct pam_message **msg, struct pam_response **ret, void *arg)
{
	const char *password = arg;
	struct pam_response *r = n > 0 && n <= PAM_MAX_NUM_MSG ? calloc((size_t)n, sizeof *r) : NULL;
	if (!r)
		return PAM_BUF_ERR;
	for (int i = 0; i < n; i++) {
		if (msg[i]->msg_style == PAM_PROMPT_ECHO_OFF)
			r[i].resp = strdup(password);
		else if (msg[i]->msg_style == PAM_PROMPT_ECHO_ON)
			r[i].resp = strdup("");
	}
	*ret = r; /* PAM wipes and frees it */
	return PAM_SUCCESS;
}

/* The name of a file in /etc/pam.d, or a file anywhere. */
static int begin(char *service, const char *user, const struct pam_conv *conv, pam_handle_t **h)
{
	char *slash = strrchr(service, '/');
	if (!slash)
		return pam.start(service, user, conv, h);
	*slash = 0;
	return pam.start_confdir(slash + 1, user, conv, service, h);
}

void job_pam(const struct job_msg *in, struct job_msg *out, struct buf *text)
{
	char *service = str_dupz(in->f[0]), *user = str_dupz(in->f[1]), *password = str_dupz(in->f[2]), *client = str_dupz(in->f[3]);
	struct pam_conv conv = { converse, password };
	pam_handle_t *h = NULL;
	const void *name = NULL;
	int r = PAM_BUF_ERR;
	if (!pam.start) {
		job_answer(out, text, JOB_AWAY, STR("PAM is not loaded"));
	} else if (!service || !user || !password || !client) {
		job_answer(out, text, JOB_AWAY, STR("out of memory"));
	} else if (str_chr(in->f[1], 0) >= 0 || str_chr(in->f[2], 0) >= 0) {
		job_answer(out, text, JOB_NO, STR("a NUL in name or password"));
	} else if ((r = begin(service, user, &conv, &h)) != PAM_SUCCESS) {
		job_answer(out, text, JOB_AWAY, STR("pam_start failed"));
	} else {
		if (*client)
			pam.set_item(h, PAM_RHOST, client);
		pam.set_item(h, PAM_TTY, "smtp");
		/* no module may sleep: throttling is the reactor's, and this process has better things to do */
		pam.set_item(h, PAM_FAIL_DELAY, NULL);
		r = pam.authenticate(h, PAM_SILENT | PAM_DISALLOW_NULL_AUTHTOK);
		bool known = r == PAM_SUCCESS;
		if (known)
			r = pam.acct_mgmt(h, PAM_SILENT | PAM_DISALLOW_NULL_AUTHTOK);
		/* a module may have changed the name: it is the account then */
		if (r == PAM_SUCCESS && (pam.get_item(h, PAM_USER, &name) != PAM_SUCCESS || !name || !*(const char *)name))
			r = PAM_USER_UNKNOWN;
		struct str why = str_from(pam.strerror(h, r));
		if (r == PAM_SUCCESS)
			job_answer(out, text, JOB_YES, str_from(name));
		else if (r == PAM_AUTHINFO_UNAVAIL || r == PAM_SERVICE_ERR || /* not PAM_SYSTEM_ERR: pam_exec means a no by it */
		    r == PAM_CRED_UNAVAIL || r == PAM_BUF_ERR || r == PAM_OPEN_ERR ||
		    r == PAM_SYMBOL_ERR || r == PAM_ABORT || r == PAM_MODULE_UNKNOWN)
			job_answer(out, text, JOB_AWAY, why);
		else
			job_answer(out, text, known ? JOB_DISABLED : JOB_NO, why);
		pam.end(h, r);
	}
	if (password)
		wire_signin_wipe(password, strlen(password));
	free(service);
	free(user);
	free(password);
	free(client);
}

#else

const char *job_pam_load(void)
{
	return "this program was built without PAM (package libpam0g-dev was not there)";
}

void job_pam(const struct job_msg *in, struct job_msg *out, struct buf *text)
{
	(void)in;
	job_answer(out, text, JOB_AWAY, str_from(job_pam_load()));
}

#endif
