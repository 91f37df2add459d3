/* Where a running pepsid keeps its state, found by its configuration file: pepsid may have been started with --state,
 * the tools are given the file alone. A note per file, /run/pepsi/by-config/HASH for a pepsid started as root, else
 * the same below $XDG_RUNTIME_DIR or /tmp/pepsi-UID. Only notes of root and of the caller itself are believed. */
#ifndef PEPSI_CONFIG_LOCATE_H
#define PEPSI_CONFIG_LOCATE_H

#include <stddef.h>

/* Notes that a pepsid with this configuration file runs in state_dir. 0, or -1 (errno): then tools need --state. */
int config_locate_note(const char *config_path, const char *state_dir);
/* Takes the note back if it is still ours. */
void config_locate_forget(const char *config_path, const char *state_dir);
/* The folder noted last for this file: 0 and a path in out, or -1. */
int config_locate_find(const char *config_path, char *out, size_t size);

#endif
