/* What the files of core/config share: the shape of struct config, and the limits a configuration is held to. Nothing
 * outside this folder includes it. */
#ifndef PEPSI_CONFIG_INTERNAL_H
#define PEPSI_CONFIG_INTERNAL_H

#include "config.h"

/* Limits. A configuration is written by people and programs that generate one; these are far beyond both, and only keep
 * a wrong file (a log, a device, a mailbox) from being swallowed. */
enum {
	CONFIG_FILE_MAX = 4 * 1024 * 1024,   /* octets of one file */
	CONFIG_TOTAL_MAX = 32 * 1024 * 1024, /* octets of all files together; also of the frozen form */
	CONFIG_FILES_MAX = 1000,             /* files read */
	CONFIG_DEPTH_MAX = 10,               /* @inline@ inside @inline@ */
	CONFIG_LINE_MAX = 64 * 1024,         /* octets of a line: long enough for a list of domains */
	CONFIG_NAME_MAX = 128,               /* octets of a section's or option's name */
	CONFIG_SECTIONS_MAX = 1000,
	CONFIG_OPTIONS_MAX = 65536,          /* of all sections together */
	CONFIG_SECRETS_MAX = 256,            /* @inline-secret@ lines */
	CONFIG_FAULTS_MAX = 1000,            /* findings kept; one more says that there were more */
};

struct config_entry {
	char *option;
	char *value; /* owned; v.value is the same */
	struct config_value v;
	bool secret; /* came from a secrets.d fragment */
};

struct config_section {
	char *name; /* lower case */
	struct config_entry *e;
	size_t n, cap;
	const char *file; /* where it stood first */
	unsigned line;
};

struct config_secret {
	char *section, *path;
	const char *file;
	unsigned line;
	bool loaded; /* not part of the frozen form: who thaws may have other rights */
};

struct config {
	struct config_section *s;
	size_t n, cap, n_options;
	struct config_secret *secrets;
	size_t n_secrets;
	char **files; /* interned; config_value.file points here */
	size_t n_files;
	bool unread; /* the file itself could not be read: nothing is known of what should stand in it */
};

struct config *config_new(void);
/* The interned name, or NULL when memory is out or there are too many. */
const char *config_file_name(struct config *c, const char *file);
/* The section, made when it is not there yet. NULL: memory or limit. */
struct config_section *config_section_add(struct config *c, struct str name, const char *file, unsigned line);
const struct config_section *config_section_find(const struct config *c, const char *name);
/* Appends an occurrence; file is interned already. 0 or -1 (memory or limit). */
int config_entry_add(struct config *c, struct config_section *s, struct str option, struct str value, const char *file,
    unsigned line, bool secret);
/* config_set(); file (static) is what config_value.file says of it. */
int config_set_from(struct config *c, const char *section, const char *option, const char *value, const char *file);
int config_secret_add(struct config *c, struct str section, const char *path, const char *file, unsigned line);

/* NULL when s can stand in a configuration, else what is wrong with it; *ret_at is the octet (from 0). */
const char *config_text_wrong(struct str s, size_t *ret_at);
/* NULL when the name can be a section's (option's) name, else what is wrong with it. */
const char *config_section_name_wrong(struct str name);
const char *config_option_name_wrong(struct str name);

/* One file's content into an empty buffer limited to CONFIG_FILE_MAX. 0, or an errno value; ret_why (static text) says
 * more for things that are no plain file. ret_mode may be NULL; ret_id (device, inode) too. */
struct config_file_id {
	uint64_t dev, ino;
};
int config_file_read(const char *path, struct buf *out, unsigned *ret_mode, struct config_file_id *ret_id,
    const char **ret_why);

/* Lines of one file: file/line context and where the findings go. */
struct config_reader {
	struct config *c;
	struct config_faults *faults;
	const char *file;             /* interned */
	unsigned line;
	size_t section;               /* index of the current one + 1 (the array moves); 0 before the first */
	const char *only;             /* a secrets.d fragment: the only section it may have; no directives */
	bool skip;                    /* behind a malformed section line: options are not reported */
	unsigned depth;               /* of @inline@, from 0 */
	void *arg;                    /* of whoever reads */
	/* @inline@ and @inline-secret@; word and rest are trimmed and without comment */
	void (*directive)(struct config_reader *r, struct str word, struct str rest);
};
void config_read_text(struct config_reader *r, struct str text);
void config_reader_fault(struct config_reader *r, bool warning, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The value of `raw` (trimmed): quotes undone, comment cut off. 0, or -1 with *ret_why. out is emptied before. */
int config_value_unquote(struct str raw, struct buf *out, const char **ret_why);
/* `value` as it would have to be written for config_value_unquote() to give it back. */
int config_value_quote(struct str value, struct buf *out);
/* The variables of an @inline@ path, and its folder in front when it is relative. NULL with *why filled. */
char *config_path_beside(const struct config *c, const char *file, const char *value, bool glob, struct buf *why);

/* One network. */
struct config_network {
	uint8_t addr[16], bits; /* IPv4 as ::ffff:0:0/96; bits CONFIG_NETWORK_UNIX: clients of unix sockets */
};
enum { CONFIG_NETWORK_UNIX = 255 };
/* 0, 1: parsed, but bits right of the prefix are set (they are cleared in *ret), -1: no network. */
int config_network_parse(struct str word, struct config_network *ret);
/* A domain or "*." and a domain of a list: 0 or -1. */
int config_domain_pattern(struct str word, char *out, size_t size);

#endif
