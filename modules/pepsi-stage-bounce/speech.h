/* In whose language a report speaks: the sets of texts (those that come along, and an operator's files), and the rules that choose one.
 *
 *     open():    speech_open(&w->speech, host, conf);
 *     process(): d.words = speech_for(w->speech, sender, headers, &d.language);
 *     close():   speech_free(w->speech); */
#ifndef BOUNCE_SPEECH_H
#define BOUNCE_SPEECH_H

#include "proto/dsn/words.h"

#include <pepsi/stage.h>

struct speech;

/* TEMPLATES, LANGUAGE, SENDER_LANGUAGE_*, FOLLOW_MESSAGE_LANGUAGE. Faults are told to report, each with the file and line it stands in; without one (NULL) to the
 * log, and what is wrong is left out: a report must come about all the same. Returns PEPSI_OK, or PEPSI_RETRY: out of memory. */
int32_t speech_open(struct speech **ret, const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report);
void speech_free(struct speech *s);

/* The texts for a message of that sender: by the first rule that matches, else by what its header says its author reads (Accept-Language,
 * RFC 3282) or writes (Content-Language), else LANGUAGE. Never NULL; *ret_tag lives as long as s. */
const struct dsn_words *speech_for(const struct speech *s, struct str sender, struct str headers, struct str *ret_tag);

#endif
