/* Opening sockets and PEM files where the process may. Decides nothing about what to do with them. */
#include "supply.h"

#include "net/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int group_id(const char *name, gid_t *ret, char *err, size_t err_size)
{
	struct group *gr = *name ? getgrnam(name) : NULL;
	if (*name && !gr) {
		snprintf(err, err_size, "there is no group %s", name);
		return -1;
	}
	*ret = gr ? gr->gr_gid : (gid_t)-1;
	return 0;
}

static int inherited(const struct ingress_inherited *in, const char *name, int *ret_fd, size_t max, char *err, size_t err_size)
{
	size_t n = 0;
	for (size_t i = 0; in && i < in->n && n < max; i++) {
		if (strcmp(in->of[i].name, name) != 0)
			continue;
		if (net_listen_adopt(in->of[i].fd, err, err_size))
			goto fail;
		ret_fd[n] = fcntl(in->of[i].fd, F_DUPFD_CLOEXEC, 0);
		if (ret_fd[n] < 0) {
			snprintf(err, err_size, "%s", strerror(errno));
			goto fail;
		}
		n++;
	}
	if (n)
		return (int)n;
	if (!in || !in->n)
		snprintf(err, err_size, "systemd passed no sockets (is there a .socket unit for this service, and was it started by it?)");
	else
		snprintf(err, err_size, "systemd passed %zu sockets, none under this name (FileDescriptorName=); the first is \"%s\"",
		    in->n, in->of[0].name);
	return -1;
fail:
	while (n)
		close(ret_fd[--n]);
	return -1;
}

static int direct_sockets(void *arg, const struct ingress_bind *b, int *ret_fd, size_t max, char *err, size_t err_size)
{
	gid_t gid;
	switch (b->at.kind) {
	case CONFIG_BIND_TCP:
		ret_fd[0] = net_listen(b->at.host, b->at.port, err, err_size);
		break;
	case CONFIG_BIND_UNIX:
		ret_fd[0] = group_id(b->group, &gid, err, err_size) ? -1 : net_listen_unix(b->at.name, b->mode, gid, err, err_size);
		break;
	default:
		return inherited(arg, b->at.name, ret_fd, max, err, err_size);
	}
	return ret_fd[0] < 0 ? -1 : 1;
}

static int direct_file(void *arg, const char *path, struct buf *out, char *err, size_t err_size)
{
	struct stat st;
	const char *why = NULL;
	(void)arg;
	/* whatever lies there: opening it must not wait */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st))
		why = strerror(errno);
	else if (!S_ISREG(st.st_mode))
		why = "not a plain file";
	else if (st.st_size > INGRESS_PEM_MAX)
		why = "larger than 1 MiB";
	while (!why) {
		char *room = out->n <= INGRESS_PEM_MAX ? buf_room(out, 16384) : NULL;
		ssize_t n = room ? read(fd, room, 16384) : -1;
		if (n < 0 && room && errno == EINTR)
			continue;
		if (n < 0)
			why = room ? strerror(errno) : "too large";
		if (n <= 0)
			break;
		out->n += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
	if (!why)
		return 0;
	snprintf(err, err_size, "%s: %s", path, why);
	return -1;
}

struct ingress_supply ingress_supply_direct(const struct ingress_inherited *in)
{
	return (struct ingress_supply){ (void *)(uintptr_t)in, direct_sockets, direct_file };
}

bool ingress_is_listener(const char *section)
{
	return str_istarts(str_from(section), STR("listener-"));
}

void ingress_binds(const struct config *c, const char *section, ingress_bind_fn fn, void *arg, struct config_faults *faults)
{
	const struct config_value *at = config_get(c, section, "BIND");
	const char *mode = config_str(c, section, "SOCKET_MODE"), *group = config_str(c, section, "SOCKET_GROUP");
	struct str rest = str_from(config_str(c, section, "BIND")), word;
	while (str_word(&rest, " \t,", &word)) {
		struct ingress_bind b = { .word = word, .mode = (unsigned)strtoul(mode ? mode : "0666", NULL, 8) & 0777 };
		const char *why = NULL;
		snprintf(b.group, sizeof b.group, "%s", group ? group : "");
		if (config_parse_bind(word, &b.at))
			why = "expected a numeric address with a port (127.0.0.1:2525, [::1]:2525), unix:/PATH or systemd:NAME";
		if (!why && b.at.kind == CONFIG_BIND_UNIX) {
			char *path = config_expand(c, b.at.name, NULL);
			if (!path || strlen(path) >= sizeof b.at.name)
				why = "the path cannot be expanded";
			else
				snprintf(b.at.name, sizeof b.at.name, "%s", path);
			free(path);
		}
		if (!why)
			fn(arg, &b);
		else
			config_fault_add(faults, at ? at->file : "", at ? at->line : 0, false, "[%s] BIND: \"%.*s\": %s", section,
			    STR_ARG(word), why);
	}
}

void ingress_files(const struct config *c, const char *section, void (*fn)(void *arg, const char *path), void *arg)
{
	static const char *const options[] = { "TLS_CERT", "TLS_KEY", "TLS_CLIENT_CA" };
	struct config_value v;
	const char *name;
	for (size_t i = 0; (name = config_option(c, section, i, &v)); i++)
		for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
			if (!str_ieq(str_from(name), str_from(options[k])))
				continue;
			char *path = config_expand(c, v.value, NULL);
			if (path)
				fn(arg, path);
			free(path);
		}
}
