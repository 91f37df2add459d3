/* A simulation of fair share: a thousand senders of four kinds at one stage with four workers, in virtual time, against the
 * dispatcher's own book (core/dispatch/fair.c), beside the ideal in which the workers' time is cut into infinitely small
 * pieces and dealt out evenly among those who have something waiting. Writes a picture (SVG) of the share each kind gets
 * over time; says how far any sender ever fell behind the ideal, and fails when that is more than the bound.
 *
 *   fair_sim [--svg FILE] [--seconds N] [--seed N]
 *
 * The bound: a sender is never further behind than the longest message of each worker and one more of its own (nobody is interrupted),
 * plus what the FIFO share gives to others; asserted without FIFO share and decay, for which the ideal is exact. */
#include "dispatch/dispatch_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SENDERS = 1000, WORKERS = 4, SAMPLES = 300, KINDS = 4 };

struct kind {
	const char *name, *colour;
	unsigned from, to;      /* senders */
	double rate;            /* messages a second each, while on */
	double on_s, off_s;     /* bursts; off 0: always on */
	double service_us;      /* mean worker time of a message */
};
static const struct kind kinds[KINDS] = {
	{ "10 that pour in", "#c0392b", 0, 10, 60, 1, 0, 10000 },
	{ "90 with bursts", "#e67e22", 10, 100, 20, 5, 25, 10000 },
	{ "100 with slow messages", "#8e44ad", 100, 200, 0.05, 1, 0, 50000 },
	{ "800 now and then", "#2980b9", 200, SENDERS, 0.02, 1, 0, 10000 },
};

struct person {
	struct sender *account;
	struct flight flights[1]; /* one stands for all that wait: the book needs only "something" */
	unsigned waiting;
	double next_at;           /* of its next message */
	double service[64];       /* ring of the waiting messages' times */
	unsigned head;
	double asked, got, ideal; /* microseconds of worker time, in all */
};

static struct person people[SENDERS];
static struct fair_book book;
static uint64_t seed = 1;

static double rnd(void)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (double)(seed >> 11) / 9007199254740992.0;
}

static double expo(double mean)
{
	return -mean * log(1 - rnd());
}

static const struct kind *kind_of(unsigned i)
{
	for (unsigned k = 0; k < KINDS; k++)
		if (i >= kinds[k].from && i < kinds[k].to)
			return &kinds[k];
	return &kinds[KINDS - 1];
}

static bool is_on(const struct kind *k, double at)
{
	return k->off_s == 0 || fmod(at / 1e6, k->on_s + k->off_s) < k->on_s;
}

static void arrive(unsigned i, double now)
{
	struct person *p = &people[i];
	const struct kind *k = kind_of(i);
	while (p->next_at <= now) {
		if (is_on(k, p->next_at) && p->waiting < 64) {
			double us = k->service_us * (0.5 + rnd());
			p->service[(p->head + p->waiting) % 64] = us;
			p->asked += us;
			if (!p->waiting++) {
				p->account = fair_sender(&book, (char[16]){ (char)('a' + i % 26), (char)('a' + i / 26 % 26), (char)('a' + i / 676), 0 });
				fair_hold(&book, p->account);
				fair_put(&book, p->account, &p->flights[0], false);
			}
		}
		p->next_at += expo(1e6 / k->rate);
	}
}

/* One worker takes the next message; returns how long it will work, 0: nobody waits. */
static double take(double *busy_until, double now, unsigned *who)
{
	bool by_age;
	struct sender *s = fair_next(&book, &by_age);
	if (!s)
		return 0;
	struct flight *f = TAILQ_FIRST(&s->flights);
	struct person *p = (struct person *)((char *)f - offsetof(struct person, flights));
	double us = p->service[p->head];
	p->head = (p->head + 1) % 64;
	fair_charge(s, us);
	if (!--p->waiting) {
		fair_take(&book, s, f);
		fair_release(&book, s);
	}
	*busy_until = now + us;
	*who = (unsigned)(p - people);
	p->got += us;
	return us;
}

/* The fluid ideal: dt of all workers dealt out evenly among those who have asked for more than they had. */
static void share_ideally(double dt)
{
	double left = dt * WORKERS;
	for (int round = 0; round < 8 && left > 1e-6; round++) {
		unsigned n = 0;
		for (unsigned i = 0; i < SENDERS; i++)
			n += people[i].asked - people[i].ideal > 1e-6;
		if (!n)
			return;
		double each = left / n;
		for (unsigned i = 0; i < SENDERS; i++) {
			double want = people[i].asked - people[i].ideal;
			if (want <= 1e-6)
				continue;
			double give = want < each ? want : each;
			people[i].ideal += give;
			left -= give;
		}
	}
}

static double samples[SAMPLES][KINDS][2];

static void picture(FILE *f, double seconds)
{
	const double w = 960, h = 540, x0 = 60, y0 = 40, pw = w - 90, ph = h - 130;
	fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" font-family=\"sans-serif\" font-size=\"13\">\n"
		   "<rect width=\"%g\" height=\"%g\" fill=\"#fff\"/>\n"
		   "<text x=\"%g\" y=\"24\" font-size=\"16\">Share of worker time by kind of sender: the dispatcher (lines) and the ideal (dashes)</text>\n",
	    w, h, w, h, x0);
	for (int i = 0; i <= 10; i += 2)
		fprintf(f, "<line x1=\"%g\" x2=\"%g\" y1=\"%g\" y2=\"%g\" stroke=\"#ddd\"/><text x=\"%g\" y=\"%g\" text-anchor=\"end\">%d %%</text>\n", x0,
		    x0 + pw, y0 + ph * (1 - i / 10.0), y0 + ph * (1 - i / 10.0), x0 - 6, y0 + ph * (1 - i / 10.0) + 4, i * 10);
	for (int i = 0; i <= 6; i++)
		fprintf(f, "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">%.0f s</text>\n", x0 + pw * i / 6, y0 + ph + 18, seconds * i / 6);
	for (unsigned k = 0; k < KINDS; k++) {
		for (int ideal = 0; ideal < 2; ideal++) {
			fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"%s points=\"", kinds[k].colour, ideal ? "1.2" : "1.8",
			    ideal ? " stroke-dasharray=\"6 4\"" : "");
			for (int i = 1; i < SAMPLES; i++) {
				double got = samples[i][k][ideal] - samples[i - 1][k][ideal], all = 0;
				for (unsigned j = 0; j < KINDS; j++)
					all += samples[i][j][ideal] - samples[i - 1][j][ideal];
				fprintf(f, "%.1f,%.1f ", x0 + pw * i / SAMPLES, y0 + ph * (1 - (all > 0 ? got / all : 0)));
			}
			fputs("\"/>\n", f);
		}
		fprintf(f, "<rect x=\"%g\" y=\"%g\" width=\"18\" height=\"4\" fill=\"%s\"/><text x=\"%g\" y=\"%g\">%s</text>\n", x0 + k * 215,
		    y0 + ph + 40, kinds[k].colour, x0 + k * 215 + 24, y0 + ph + 46, kinds[k].name);
	}
	fputs("</svg>\n", f);
}

int main(int argc, char **argv)
{
	const char *svg = NULL;
	double seconds = 300, busy[WORKERS] = { 0 }, longest = 0, worst = 0;
	unsigned who = 0, worst_who = 0;
	uint64_t taken = 0;
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--svg"))
			svg = argv[i + 1];
		else if (!strcmp(argv[i], "--seconds"))
			seconds = strtod(argv[i + 1], NULL);
		else if (!strcmp(argv[i], "--seed"))
			seed = strtoull(argv[i + 1], NULL, 10);
		else
			return 2;
	}
	fair_init(&book);
	for (unsigned i = 0; i < SENDERS; i++)
		people[i].next_at = expo(1e6 / kind_of(i)->rate);
	const double step = 1000; /* a millisecond */
	int sample = 0;
	for (double now = 0; now < seconds * 1e6; now += step) {
		for (unsigned i = 0; i < SENDERS; i++)
			if (people[i].next_at <= now)
				arrive(i, now);
		for (unsigned w = 0; w < WORKERS; w++)
			while (busy[w] <= now) {
				double us = take(&busy[w], busy[w] > now - step ? busy[w] : now, &who);
				if (us == 0) {
					busy[w] = now + 1e-3;
					break;
				}
				taken++;
				longest = us > longest ? us : longest;
			}
		share_ideally(step);
		for (unsigned i = 0; i < SENDERS; i++) {
			double lag = people[i].ideal - people[i].got;
			if (lag > worst) {
				worst = lag;
				worst_who = i;
			}
		}
		if (now >= sample * seconds * 1e6 / SAMPLES && sample < SAMPLES) {
			for (unsigned i = 0; i < SENDERS; i++) {
				unsigned k = (unsigned)(kind_of(i) - kinds);
				samples[sample][k][0] += people[i].got;
				samples[sample][k][1] += people[i].ideal;
			}
			sample++;
		}
	}
	double bound = (WORKERS + 1) * longest;
	printf("%d senders, %.0f s, %llu messages: the one furthest behind the ideal (%s) was behind by %.1f ms of worker time; bound %.1f ms\n",
	    SENDERS, seconds, (unsigned long long)taken, kind_of(worst_who)->name, worst / 1000, bound / 1000);
	if (svg) {
		FILE *f = fopen(svg, "w");
		if (!f) {
			perror(svg);
			return 1;
		}
		picture(f, seconds);
		if (fclose(f)) {
			perror(svg);
			return 1;
		}
		printf("picture: %s\n", svg);
	}
	for (unsigned i = 0; i < SENDERS; i++)
		if (people[i].waiting) {
			fair_take(&book, people[i].account, &people[i].flights[0]);
			fair_release(&book, people[i].account);
		}
	fair_done(&book);
	return worst > bound;
}
