/* Shared inside proto/srs: what a tag covers, and its making and checking. */
#ifndef PROTO_SRS_INTERNAL_H
#define PROTO_SRS_INTERNAL_H

#include "srs.h"

enum {
	SRS_TAG_MAX = 16, /* characters of a tag: 16 times 5 bits; 4 where weak */
	SRS_STAMP = 2,    /* characters of a day stamp */
	SRS_STAMPS = 1024,
	SRS_DAY = 86400,
};

/* What is signed. Texts are compared without letter case (ASCII). */
struct srs_covered {
	char type;        /* '0' or '1' */
	char separator;   /* the first one */
	bool upper;       /* the user was written with capitals */
	uint64_t day;     /* since the epoch, not modulo anything */
	struct str host;  /* may be empty: a kept sender */
	struct str user;  /* SRS1: what follows the host, with its separator */
};

/* Characters of a tag. */
size_t srs_tag_size(const struct srs *s);
/* Writes srs_tag_size() characters. Returns 0, or -1: the library failed. */
int srs_tag(const struct srs *s, struct str key, const struct srs_covered *c, char ret[SRS_TAG_MAX]);
/* 1: one of the keys made it; 0: none; -1: the library failed. Takes the same time whichever it is. */
int srs_tag_check(const struct srs *s, const struct srs_covered *c, struct str tag);

void srs_stamp(uint64_t day, char ret[SRS_STAMP]);
/* The latest day with that stamp which is not after tomorrow (clocks of two hosts differ). Returns 0, or -1: not a stamp. */
int srs_stamp_day(struct str stamp, uint64_t today, uint64_t *ret);

#endif
