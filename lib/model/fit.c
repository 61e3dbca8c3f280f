/* Laws fitted to failures, and tests of fit.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Multiplicity: E. Meneses, Scalable Message-Logging Techniques for Effective Fault Tolerance in
 * HPC Applications, PhD thesis, University of Illinois, 2013, section 7.1.  Least squares over the
 * same bins; the minimum is found by bracketing and not by Newton's method.
 *
 * Parameters that come from the gaps themselves make the distance of Kolmogorov and Smirnov
 * smaller than the tables of the test assume (Lilliefors, JASA 62, 1967).  The distribution of the
 * distance does not depend on the true scale and shape, so samples of the law show it: each is
 * fitted and measured as the gaps were. */
#include "model/fit.h"

#include <math.h>
#include <stdlib.h>

#include "ftkit.h"
#include "model/random.h"

/* ---- the chi-square distribution --------------------------------------------------------- */

/* Q(a, x) = 1 - P(a, x) of the incomplete gamma function: the series of P for small x, else the
 * continued fraction of Q by the method of Lentz. */
static double gamma_tail(double a, double x)
{
    enum { TERMS = 100000 };
    if (x <= 0)
        return 1;
    double front = exp(a * log(x) - x - lgamma(a));
    if (x < a + 1) {
        double term = 1 / a, sum = term;
        for (int i = 1; i < TERMS && term > sum * 1e-16; i++)
            sum += term *= x / (a + i);
        return 1 - front * sum;
    }
    double b = x + 1 - a, c = 1e300, d = 1 / b, f = d;
    for (int i = 1; i < TERMS; i++) {
        double step = -i * (i - a);
        b += 2;
        d = 1 / (step * d + b);
        c = b + step / c;
        f *= c * d;
        if (fabs(c * d - 1) < 1e-15)
            break;
    }
    return front * f;
}

double ftk_fit_chi2_tail(double chi2, double df)
{
    return gamma_tail(df / 2, chi2 / 2);
}

double ftk_fit_chi2_quantile(double p, double df)
{
    double low = 0, high = df + 1;
    while (1 - ftk_fit_chi2_tail(high, df) < p)
        high *= 2;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        if (1 - ftk_fit_chi2_tail(middle, df) < p)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

/* fitted: the number of parameters that come from the counts.  A bin that the law excludes is none
 * if it is empty. */
static struct ftk_fit_chi2 chi2_of(
    const uint64_t *count, const double *expected, int bins, int fitted)
{
    struct ftk_fit_chi2 t = { .df = -1 - fitted, .least = HUGE_VAL };
    for (int i = 0; i < bins; i++) {
        double difference = (double)count[i] - expected[i];
        if (count[i] == 0 && expected[i] <= 0)
            continue;
        t.chi2 += difference * difference / expected[i];
        t.least = fmin(t.least, expected[i]);
        t.df++;
    }
    if (t.df < 1)
        return (struct ftk_fit_chi2){ 0 };
    t.p = ftk_fit_chi2_tail(t.chi2, t.df);
    return t;
}

/* ---- multiplicity ------------------------------------------------------------------------ */

static void geometric_shares(double p, int n, double *share)
{
    (void)n;
    share[FTK_FIT_BINS - 1] = 1;
    for (int i = 0; i < FTK_FIT_BINS - 1; i++) {
        share[i] = p;
        for (int k = 0; k < i; k++)
            share[i] *= 1 - p;
        share[FTK_FIT_BINS - 1] *= 1 - p;
    }
}

static void zipf_shares(double s, int n, double *share)
{
    double sum = 0, part = 0;
    for (int x = n; x >= 1; x--) { /* small ones first */
        double w = pow(x, -s);
        sum += w;
        if (x == FTK_FIT_BINS)
            part = sum;
        if (x < FTK_FIT_BINS)
            share[x - 1] = w;
    }
    share[FTK_FIT_BINS - 1] = part / sum;
    for (int i = 0; i < FTK_FIT_BINS - 1; i++)
        share[i] = i < n ? share[i] / sum : 0;
}

/* A law with one parameter, which is sought in low ... high. */
struct sizes {
    void (*shares)(double parameter, int n, double *share);
    double low, high;
    int n;
    double observed[FTK_FIT_BINS];
};

static double error_of(const struct sizes *z, double parameter)
{
    double share[FTK_FIT_BINS], sum = 0;
    z->shares(parameter, z->n, share);
    for (int i = 0; i < FTK_FIT_BINS; i++)
        sum += (share[i] - z->observed[i]) * (share[i] - z->observed[i]);
    return sum;
}

/* The golden section between the neighbours of the best point of a grid. */
static double least_error(const struct sizes *z)
{
    enum { GRID = 64 };
    const double golden = 0.6180339887498949, step = (z->high - z->low) / GRID;
    int best = 0;
    double least = HUGE_VAL;
    for (int i = 0; i <= GRID; i++) {
        double e = error_of(z, z->low + i * step);
        if (e < least) {
            least = e;
            best = i;
        }
    }
    double a = z->low + fmax(best - 1, 0) * step, b = z->low + fmin(best + 1, GRID) * step;
    while (b - a > 1e-12 * b) {
        double c = b - golden * (b - a), d = a + golden * (b - a);
        if (!(c > a && d < b))
            break;
        if (error_of(z, c) < error_of(z, d))
            b = d;
        else
            a = c;
    }
    return (a + b) / 2;
}

static void fit_sizes(struct sizes *z, const uint64_t *count, struct ftk_fit_sizes *out)
{
    double all = 0, expected[FTK_FIT_BINS];
    for (int i = 0; i < FTK_FIT_BINS; i++)
        all += (double)count[i];
    for (int i = 0; i < FTK_FIT_BINS; i++)
        z->observed[i] = (double)count[i] / all;
    *out = (struct ftk_fit_sizes){ .parameter = z->high };
    if ((double)count[0] < all) {
        out->fitted = true;
        out->parameter = least_error(z);
        out->error = error_of(z, out->parameter);
        z->shares(out->parameter, z->n, expected);
        for (int i = 0; i < FTK_FIT_BINS; i++)
            expected[i] *= all;
        out->test = chi2_of(count, expected, FTK_FIT_BINS, 1);
    }
}

void ftk_fit_geometric(const uint64_t *count, struct ftk_fit_sizes *out)
{
    struct sizes z = { .shares = geometric_shares, .low = 1e-6, .high = 1 };
    fit_sizes(&z, count, out);
}

void ftk_fit_zipf(const uint64_t *count, int n, struct ftk_fit_sizes *out)
{
    struct sizes z = { .shares = zipf_shares, .low = 0.01, .high = 20, .n = n };
    fit_sizes(&z, count, out);
}

/* ---- gaps -------------------------------------------------------------------------------- */

/* The shape of greatest likelihood: the root of the rising function
 *     sum(x^k log x) / sum(x^k) - 1/k - mean(log x)
 * by Newton's method.  x is in units of the largest gap, so that no power overflows. */
static double weibull_shape(const double *gap_s, size_t n)
{
    double largest = gap_s[n - 1], mean = 0, square = 0;
    for (size_t i = 0; i < n; i++)
        mean += log(gap_s[i] / largest) / (double)n;
    for (size_t i = 0; i < n; i++)
        square += pow(log(gap_s[i] / largest) - mean, 2) / (double)n;
    double k = 1.2825498301618641 / sqrt(square); /* pi / sqrt(6): by the variance of log x */
    for (int turn = 0; turn < 100; turn++) {
        double s0 = 0, s1 = 0, s2 = 0;
        for (size_t i = 0; i < n; i++) {
            double l = log(gap_s[i] / largest), w = exp(k * l);
            s0 += w;
            s1 += w * l;
            s2 += w * l * l;
        }
        double ratio = s1 / s0;
        double value = ratio - 1 / k - mean, slope = s2 / s0 - ratio * ratio + 1 / (k * k);
        double next = k - value / slope;
        next = next > 0 ? next : k / 2;
        if (fabs(next - k) < 1e-12 * k)
            return next;
        k = next;
    }
    return k;
}

/* Shape and scale; the gaps are sorted, positive and not all equal. */
static void fit_law(enum ftk_fit_law law, const double *gap_s, size_t n, struct ftk_fit_gaps *f)
{
    double largest = gap_s[n - 1], sum = 0;
    f->shape = law == FTK_FIT_WEIBULL ? weibull_shape(gap_s, n) : 1;
    for (size_t i = 0; i < n; i++)
        sum += pow(gap_s[i] / largest, f->shape);
    f->scale_s = largest * pow(sum / (double)n, 1 / f->shape);
}

static double below(const struct ftk_fit_gaps *f, double gap_s)
{
    return -expm1(-pow(gap_s / f->scale_s, f->shape));
}

static double distance_of(const struct ftk_fit_gaps *f, const double *gap_s, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        double p = below(f, gap_s[i]);
        most = fmax(most, fmax(p - (double)i / (double)n, (double)(i + 1) / (double)n - p));
    }
    return most;
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The share of samples of the law whose distance is as large; distances go with 1 / sqrt(n), so
 * smaller samples stand for large ones.  < 0: no memory. */
static double distance_tail(enum ftk_fit_law law, double distance, size_t n)
{
    enum { LARGEST = 1000 };
    size_t m = n < LARGEST ? n : LARGEST;
    double *x = malloc(m * sizeof *x), bound = distance * sqrt((double)n / (double)m);
    struct ftk_random r;
    int larger = 0;
    if (!x)
        return -1;
    ftk_random_seed(&r, 1, FTK_RANDOM_TEST);
    for (int s = 0; s < FTK_FIT_SAMPLES; s++) {
        struct ftk_fit_gaps f;
        for (size_t i = 0; i < m; i++)
            x[i] = ftk_random_exponential(&r, 1);
        qsort(x, m, sizeof *x, by_size);
        fit_law(law, x, m, &f);
        larger += distance_of(&f, x, m) >= bound;
    }
    free(x);
    return (larger + 1.0) / (FTK_FIT_SAMPLES + 1);
}

/* Bins of equal probability, at least five gaps in each, 2 n^(2/5) of them at most (Moore, in
 * D'Agostino & Stephens, Goodness-of-Fit Techniques, 1986). */
static struct ftk_fit_chi2 test_bins(const struct ftk_fit_gaps *f, const double *gap_s, size_t n)
{
    enum { MOST = 200 };
    int fitted = f->shape_error > 0 ? 2 : 1;
    uint64_t count[MOST] = { 0 };
    double expected[MOST];
    int bins = (int)fmin(fmin(2 * pow((double)n, 0.4), floor((double)n / 5)), MOST);
    if (bins < fitted + 2)
        return (struct ftk_fit_chi2){ 0 };
    for (size_t i = 0; i < n; i++) {
        int bin = (int)(below(f, gap_s[i]) * bins);
        count[bin < bins ? bin : bins - 1]++;
    }
    for (int i = 0; i < bins; i++)
        expected[i] = (double)n / bins;
    return chi2_of(count, expected, bins, fitted);
}

int ftk_fit_gaps(enum ftk_fit_law law, const double *gap_s, size_t n, struct ftk_fit_gaps *out)
{
    struct ftk_fit_gaps f = { 0 };
    if (n < 2 || gap_s[0] <= 0 || gap_s[0] >= gap_s[n - 1])
        return FTKIT_ERR_ARG;
    fit_law(law, gap_s, n, &f);
    /* by the information of Fisher: sqrt(6) / pi; and with the uncertainty of the shape in it */
    double root = sqrt((double)n);
    f.shape_error = law == FTK_FIT_WEIBULL ? 0.7796968012336761 * f.shape / root : 0;
    f.scale_error_s = (law == FTK_FIT_WEIBULL ? 1.0529316 : 1) * f.scale_s / f.shape / root;
    f.mean_s = f.scale_s * tgamma(1 + 1 / f.shape);
    for (size_t i = 0; i < n; i++) {
        double x = gap_s[i] / f.scale_s;
        f.log_likelihood += log(f.shape / f.scale_s) + (f.shape - 1) * log(x) - pow(x, f.shape);
    }
    f.distance = distance_of(&f, gap_s, n);
    f.distance_p = distance_tail(law, f.distance, n);
    if (f.distance_p < 0)
        return FTKIT_ERR_NOMEM;
    f.test = test_bins(&f, gap_s, n);
    *out = f;
    return FTKIT_OK;
}

/* The sum of n gaps has nearly a gamma distribution of shape n / variation^2; of exponential gaps
 * exactly of shape n. */
static void interval(double mean_s, double shape, double confidence, double *low_s, double *high_s)
{
    double df = 2 * shape, outside = (1 - confidence) / 2;
    *low_s = mean_s * df / ftk_fit_chi2_quantile(1 - outside, df);
    *high_s = mean_s * df / ftk_fit_chi2_quantile(outside, df);
}

void ftk_fit_mtbf(const double *gap_s, size_t n, double confidence, struct ftk_fit_mtbf *out)
{
    struct ftk_fit_mtbf m = { .variation = 1 };
    double square = 0;
    for (size_t i = 0; i < n; i++)
        m.mean_s += gap_s[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        square += pow(gap_s[i] - m.mean_s, 2);
    if (n > 2) /* else the gaps show nothing of their variation */
        m.variation = sqrt(square / (double)(n - 1)) / m.mean_s;
    double shape = (double)n / fmax(m.variation * m.variation, 1e-6);
    interval(m.mean_s, shape, confidence, &m.low_s, &m.high_s);
    interval(m.mean_s, (double)n, confidence, &m.low_poisson_s, &m.high_poisson_s);
    *out = m;
}

void ftk_fit_lognormal(const double *v, size_t n, double *median, double *sigma)
{
    double mean = 0, square = 0;
    for (size_t i = 0; i < n; i++)
        mean += log(v[i]) / (double)n;
    for (size_t i = 0; i < n; i++)
        square += pow(log(v[i]) - mean, 2) / (double)n;
    *median = exp(mean);
    *sigma = sqrt(square);
}
