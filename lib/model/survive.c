/* Which share of random failures of nodes leaves all data in memory (see survive.h).
 *
 * With q(f) the number of losses of f nodes that are survived, ckpt(f) = q(f) / C(n, f).
 *
 *   pair    product of (n - 2 i) / (n - i), i = 0 .. f - 1 (the thesis, section 7.3)
 *   ring    n / (n - f) C(n - f, f) / C(n, f): choices on a circle without neighbours
 *   parity  up to SMALL nodes, group by group: of f lost nodes, j are in the last group with the
 *           hypergeometric probability.  All terms are positive.  Beyond SMALL nodes q(f) is a
 *           coefficient of (sum of C(group, i) x^i, i = 0 .. parity)^groups, and the coefficients
 *           of the power of a polynomial have a recurrence (J. C. P. Miller; Knuth, The Art of
 *           Computer Programming 2, 4.7).  Some of its terms are negative when more nodes are lost
 *           than there are groups; far beyond that ckpt is taken as 0.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "model/survive.h"

#include <math.h>
#include <string.h>

#define SMALL 4096
#define PARITY_MAX 32
#define TINY 1e-13 /* of the survivability is left out */
#define FAR 8      /* lost nodes for each group */

/* ---- placement ----------------------------------------------------------------------- */

struct walk {
    enum ftk_model_map map;
    int n, f;                /* nodes; of these lost */
    double s;                /* ckpt(f) */
    int degree;              /* of the polynomial */
    double groups;           /* their number */
    double a[PARITY_MAX];    /* its coefficients */
    double last[PARITY_MAX]; /* ckpt(f), ckpt(f - 1) .. */
    double all[SMALL + 1];   /* ckpt(f) of up to SMALL nodes */
};

/* all[f] for the first `before` nodes becomes all[f] for these and one more group. */
static void add_group(struct walk *w, int before, int group, int parity)
{
    int n = before + group;
    for (int f = n; f > 0; f--) { /* downward: all[f - j] is still the old one */
        int j = f > before ? f - before : 0;
        double sum = 0, h = 1; /* the probability that j of f lost nodes are in the group */
        for (int i = 0; i < (j > 0 ? n - f : group); i++)
            h *= (double)((j > 0 ? group : n - f) - i) / (n - i);
        for (; j <= parity && j <= f && j <= group; j++) {
            sum += h * w->all[f - j];
            h *= (double)(group - j) * (f - j) / (j + 1.) / (before - f + j + 1);
        }
        w->all[f] = fmin(sum, 1);
    }
}

/* ckpt of all f.  Groups have at most `group` members, and their sizes differ by one at most. */
static void add_groups(struct walk *w, int group, int parity)
{
    int groups = (w->n + group - 1) / group, before = 0;
    w->all[0] = 1;
    for (int k = 0; k < groups; k++) {
        int size = w->n / groups + (k < w->n % groups);
        add_group(w, before, size, parity);
        before += size;
    }
}

static void begin(struct walk *w, const struct ftk_model_placement *p, int n)
{
    memset(w, 0, sizeof *w);
    w->map = p->map;
    w->n = n;
    w->s = w->last[0] = w->a[0] = 1;
    if (p->map != FTK_MODEL_PARITY)
        return;
    w->degree = p->parity < PARITY_MAX ? p->parity : PARITY_MAX - 1;
    w->groups = (double)n / p->group;
    for (int i = 1; i <= w->degree; i++)
        w->a[i] = w->a[i - 1] * (p->group - i + 1) / i;
    if (n <= SMALL)
        add_groups(w, p->group, w->degree);
}

static double next_of_ring(const struct walk *w)
{
    double n = w->n, f = w->f, s = 1;
    if (2 * w->f > w->n)
        return 0;
    for (int i = 0; i + 1 < w->f; i++)
        s *= (n - f - 1 - i) / (n - 1 - i);
    return s;
}

static double next_of_power(struct walk *w)
{
    double next = 0, ratio = 1;
    if (w->f > FAR * w->groups)
        return 0;
    for (int i = 1; i <= w->degree && i <= w->f; i++) {
        ratio *= (w->f - i + 1.) / (w->n - w->f + i); /* C(n, f - i) / C(n, f) */
        next += (i * (w->groups + 1) - w->f) / w->f * w->a[i] * w->last[i - 1] * ratio;
    }
    memmove(w->last + 1, w->last, sizeof w->last - sizeof w->last[0]);
    return w->last[0] = fmin(fmax(next, 0), 1);
}

/* From ckpt(f) to ckpt(f + 1). */
static void step(struct walk *w)
{
    w->f++;
    if (w->map == FTK_MODEL_RING)
        w->s = next_of_ring(w);
    else if (w->map == FTK_MODEL_PAIR)
        w->s *= fmax(w->n - 2. * (w->f - 1), 0) / (w->n - w->f + 1);
    else if (w->n <= SMALL)
        w->s = w->all[w->f];
    else
        w->s = next_of_power(w);
}

double ftk_model_comm(int n, int f, int acquaintances)
{
    double one =
        0; /* logarithm of C(n - f, g) / C(n - 1, g) = C(n - 1 - g, f - 1) / C(n - 1, f - 1) */
    int g = acquaintances < n - 1 ? acquaintances : n - 1;
    if (n - f < g)
        return 0;
    int few = g < f - 1 ? g : f - 1, many = g < f - 1 ? f - 1 : g;
    for (int j = 0; j < few && f * one > -700; j++)
        one += log((double)(n - 1 - many - j) / (n - 1 - j));
    return exp(f * one);
}

double ftk_model_memory(const struct ftk_model_placement *p)
{
    return p->map == FTK_MODEL_PARITY ? 1 + (double)p->parity / (p->group - p->parity) : 2;
}

/* ---- survivability ------------------------------------------------------------------- */

static double weight(const struct ftk_model_multiplicity *m, int x)
{
    return m->law == FTK_MODEL_GEOMETRIC ? m->parameter * pow(1 - m->parameter, x - 1)
                                         : pow(x, -m->parameter);
}

/* What the weights of 1 .. n are divided by. */
static double weights(const struct ftk_model_multiplicity *m, int n)
{
    double all = 0;
    if (m->law == FTK_MODEL_GEOMETRIC)
        return 1; /* the thesis leaves out what lies beyond n */
    for (int i = 1; i <= n; i++)
        all += weight(m, i);
    return all;
}

double ftk_model_mean_nodes(const struct ftk_model_multiplicity *m, int n)
{
    double mean = 0;
    for (int i = 1; i <= n; i++)
        mean += i * weight(m, i);
    return mean / weights(m, n);
}

double ftk_model_survivability(const struct ftk_model_placement *placement,
    const struct ftk_model_multiplicity *multiplicity, int n, int acquaintances)
{
    struct walk w;
    double all = weights(multiplicity, n), seen = 0, sum = 0;
    begin(&w, placement, n);
    for (int i = 1; i < n; i++) {
        double p = weight(multiplicity, i) / all;
        step(&w);
        seen += p;
        sum += p * w.s * (acquaintances > 0 ? ftk_model_comm(n, i, acquaintances) : 1);
        if (w.s * (1 - seen) < TINY) /* ckpt does not rise */
            break;
    }
    return sum;
}
