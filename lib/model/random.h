/* Seeded random numbers for models of failures: one generator for each source of chance.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The same seed gives the same numbers, bit by bit, with every compiler and C library on machines
 * with IEEE 754 double precision: the draws use no function of the C library that may round in its
 * own way.  x87 arithmetic and -ffast-math are excluded. */
#ifndef FTK_MODEL_RANDOM_H
#define FTK_MODEL_RANDOM_H

#include <stdint.h>

struct ftk_random {
    uint64_t s[4]; /* not all zero */
};

/* Sources of chance.  Each has a generator of its own, so a model that draws more often from one
 * source leaves the numbers of the others unchanged. */
enum ftk_random_stream {
    FTK_RANDOM_GAPS,    /* when the next failure is */
    FTK_RANDOM_SIZES,   /* how many nodes it takes */
    FTK_RANDOM_NODES,   /* which */
    FTK_RANDOM_REPAIRS, /* how long they are away */
    FTK_RANDOM_TEST     /* samples of tests of fit */
};

void ftk_random_seed(struct ftk_random *r, uint64_t seed, enum ftk_random_stream stream);
uint64_t ftk_random_bits(struct ftk_random *r);
double ftk_random_unit(struct ftk_random *r);                /* in (0, 1), without the ends */
uint64_t ftk_random_below(struct ftk_random *r, uint64_t n); /* 0 ... n - 1, n >= 1 */
double ftk_random_normal(struct ftk_random *r);              /* mean 0, variance 1 */
double ftk_random_exponential(struct ftk_random *r, double mean);
double ftk_random_weibull(struct ftk_random *r, double shape, double scale);
/* median: exp of the mean of the logarithm; sigma: its standard deviation */
double ftk_random_lognormal(struct ftk_random *r, double median, double sigma);
/* 1, 2, ..., each with (1 - p)^(x - 1) p, 0 < p <= 1; at most INT_MAX */
int ftk_random_geometric(struct ftk_random *r, double p);
/* 1 ... n, each in proportion to x^-s.  The table has n values, and is made once. */
void ftk_random_zipf_table(double s, int n, double *table);
int ftk_random_zipf(struct ftk_random *r, const double *table, int n);

/* Natural logarithm and exponential, within 1e-15 of the true value (relative; for the exponential
 * within 1e-15 * max(1, |x|)), by additions, multiplications and divisions alone. */
double ftk_random_log(double x); /* x > 0, finite */
double ftk_random_exp(double x);

#endif
