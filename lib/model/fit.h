/* Laws fitted to failures: how many nodes a failure takes, and how long the next one lets wait;
 * tests of fit.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_MODEL_FIT_H
#define FTK_MODEL_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the chi-square distribution --------------------------------------------------------- */
/* Degrees of freedom need not be whole. */
double ftk_fit_chi2_tail(double chi2, double df);  /* probability of this value or a larger one */
double ftk_fit_chi2_quantile(double p, double df); /* below which it is with probability p */

/* A chi-square test. */
struct ftk_fit_chi2 {
    double chi2;
    int df;       /* 0: too few failures for the test, the other members are 0 */
    double p;     /* probability of such a deviation if the law is right */
    double least; /* the smallest expected number in a bin; below 5, p is rough */
};

/* ---- multiplicity: how many nodes fail at once ------------------------------------------- */
enum { FTK_FIT_BINS = 5 }; /* 1, 2, 3, 4, and more nodes */

struct ftk_fit_sizes {
    bool fitted;      /* false: no failure took more than one node, any large s fits */
    double parameter; /* p: P(x) = (1-p)^(x-1) p; or s: P(x) in proportion to x^-s, x <= n */
    double error;     /* sum of squares of the differences of the shares */
    struct ftk_fit_chi2 test;
};

/* By least squares over the shares of the bins; count[FTK_FIT_BINS] has at least one failure. */
void ftk_fit_geometric(const uint64_t *count, struct ftk_fit_sizes *out);
void ftk_fit_zipf(const uint64_t *count, int n, struct ftk_fit_sizes *out);

/* ---- gaps: the times between failures ---------------------------------------------------- */
enum { FTK_FIT_SAMPLES = 999 }; /* so the least distance_p is 0.001 */
enum ftk_fit_law { FTK_FIT_EXPONENTIAL, FTK_FIT_WEIBULL };

struct ftk_fit_gaps {
    double shape, scale_s; /* P(gap > t) = exp(-(t / scale)^shape); shape 1: exponential */
    double shape_error, scale_error_s; /* standard errors; shape_error 0: not fitted */
    double mean_s;                     /* of the law */
    double log_likelihood;             /* of gaps in seconds */
    double distance;                   /* of Kolmogorov and Smirnov: of the distributions */
    double distance_p;                 /* probability of such a distance if the law is right */
    struct ftk_fit_chi2 test;          /* over bins of equal probability */
};

/* By maximum likelihood; gap_s is sorted, and all are > 0.  FTKIT_OK; FTKIT_ERR_ARG: fewer than
 * two gaps, a gap of 0, or all equal; FTKIT_ERR_NOMEM. */
int ftk_fit_gaps(enum ftk_fit_law law, const double *gap_s, size_t n, struct ftk_fit_gaps *out);

/* The mean time between failures, and the interval in which the true one is with the confidence
 * (0.95 for 95 %). */
struct ftk_fit_mtbf {
    double mean_s;
    double low_s, high_s;                 /* by the variation of the gaps */
    double low_poisson_s, high_poisson_s; /* if the gaps were exponential */
    double variation;                     /* standard deviation / mean; 1: as exponential gaps */
};
void ftk_fit_mtbf(const double *gap_s, size_t n, double confidence, struct ftk_fit_mtbf *out);

/* Repair times: median, and standard deviation of the logarithm (lognormal).  n >= 1, all > 0. */
void ftk_fit_lognormal(const double *v, size_t n, double *median, double *sigma);

#endif
