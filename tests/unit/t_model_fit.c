/* Fits and tests of fit: the published values, samples of known laws, tables of the tests.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* after those, on which it builds */
#include <cmocka.h>

#include "ftkit.h"
#include "model/fit.h"
#include "model/random.h"

static void near(double is, double want, double tolerance)
{
    if (!(fabs(is - want) <= tolerance))
        fail_msg("%.10g is not %.10g +- %g", is, want, tolerance);
}

/* ---- chi-square ------------------------------------------------------------------------------ */

/* Tables of the distribution, and exp(-x/2) for two degrees of freedom. */
static void chi2_table(void **state)
{
    static const struct {
        double chi2, df, p;
    } rows[] = { { 3.841459, 1, 0.05 }, { 7.814728, 3, 0.05 }, { 11.344867, 3, 0.01 },
        { 18.307038, 10, 0.05 }, { 124.342113, 100, 0.05 }, { 77.929465, 100, 0.95 } };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        near(ftk_fit_chi2_tail(rows[i].chi2, rows[i].df), rows[i].p, 1e-6);
        near(ftk_fit_chi2_quantile(1 - rows[i].p, rows[i].df), rows[i].chi2, 1e-5);
    }
    for (double x = 0.01; x < 100; x *= 1.3)
        near(ftk_fit_chi2_tail(x, 2) / exp(-x / 2), 1, 1e-12);
    near(ftk_fit_chi2_tail(0, 3), 1, 0);
    near(ftk_fit_chi2_tail(200000, 200000), 0.4996, 1e-3); /* of many */
}

/* ---- multiplicity ---------------------------------------------------------------------------- */

/* Table 7.2 of Meneses: five systems of Los Alamos.  The counts are those of their log after both
 * steps; tests/failures.t counts them. */
static void table_7_2(void **state)
{
    static const struct {
        uint64_t count[FTK_FIT_BINS];
        double p, s;
    } rows[] = { { { 246, 2, 0, 0, 0 }, .9924, 7.0410 }, { { 3769, 54, 5, 1, 1 }, .9848, 6.0875 },
        { { 3148, 36, 4, 1, 0 }, .9878, 6.4146 }, { { 2207, 48, 6, 1, 1 }, .9755, 5.4300 },
        { { 94, 2, 1, 0, 0 }, .9755, 5.3970 } };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ftk_fit_sizes geometric, zipf;
        ftk_fit_geometric(rows[i].count, &geometric);
        ftk_fit_zipf(rows[i].count, 1024, &zipf);
        assert_true(geometric.fitted && zipf.fitted);
        near(geometric.parameter, rows[i].p, 0.0021);
        near(zipf.parameter, rows[i].s, 0.02 * rows[i].s);
        assert_int_equal(zipf.test.df, 3);
        /* as the source says: the law of Zipf fits all but system 12 better */
        assert_true((zipf.error < geometric.error) == (i > 0));
    }
}

/* Counts that are just those of a law. */
static void exact_sizes(void **state)
{
    struct ftk_fit_sizes f;
    const uint64_t halves[FTK_FIT_BINS] = { 8000, 4000, 2000, 1000, 1000 };
    const uint64_t zipf[FTK_FIT_BINS] = { 3600, 900, 400, 0, 0 }; /* n = 3, s = 2 */
    (void)state;
    ftk_fit_geometric(halves, &f);
    near(f.parameter, 0.5, 1e-7);
    near(f.test.chi2, 0, 1e-6);
    near(f.test.p, 1, 1e-6);
    near(f.test.least, 1000, 0.01);
    ftk_fit_zipf(zipf, 3, &f);
    near(f.parameter, 2, 1e-7);
    near(f.error, 0, 1e-12);
    assert_int_equal(f.test.df, 1); /* bins that the law excludes are none */
}

static void single_nodes(void **state)
{
    struct ftk_fit_sizes f;
    const uint64_t count[FTK_FIT_BINS] = { 17 }, wide[FTK_FIT_BINS] = { 0, 0, 0, 0, 9 };
    (void)state;
    ftk_fit_geometric(count, &f);
    assert_false(f.fitted);
    near(f.parameter, 1, 0);
    ftk_fit_zipf(count, 1024, &f);
    assert_false(f.fitted);
    ftk_fit_geometric(wide, &f); /* any tiny p */
    assert_true(f.fitted && f.parameter < 0.01);
    ftk_fit_zipf(wide, 1024, &f);
    assert_true(f.fitted && f.parameter < 0.1);
}

/* ---- gaps ------------------------------------------------------------------------------------ */

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double *sample(uint64_t seed, size_t n, double shape, double scale)
{
    struct ftk_random r;
    double *x = malloc(n * sizeof *x);
    assert_non_null(x);
    ftk_random_seed(&r, seed, FTK_RANDOM_GAPS);
    for (size_t i = 0; i < n; i++)
        x[i] = ftk_random_weibull(&r, shape, scale);
    qsort(x, n, sizeof *x, by_size);
    return x;
}

/* 10^5 gaps give the parameters back within 2 %, and the tests pass. */
static void known_laws(void **state)
{
    static const double shapes[] = { 0.5, 0.7, 1, 1.5, 4 };
    enum { N = 100000 };
    (void)state;
    const size_t next = getenv("FTKIT_TEST_ALL") ? 1 : 2;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i += next) {
        struct ftk_fit_gaps weibull, exponential;
        double *x = sample(11 + i, N, shapes[i], 28800), mean = 0;
        for (size_t k = 0; k < N; k++)
            mean += x[k] / N;
        assert_int_equal(ftk_fit_gaps(FTK_FIT_WEIBULL, x, N, &weibull), FTKIT_OK);
        near(weibull.shape, shapes[i], 0.02 * shapes[i]);
        near(weibull.scale_s, 28800, 0.02 * 28800);
        near(weibull.shape, shapes[i], 4 * weibull.shape_error);
        near(weibull.scale_s, 28800, 4 * weibull.scale_error_s);
        assert_true(weibull.distance_p > 0.005 && weibull.test.p > 0.001);
        assert_int_equal(ftk_fit_gaps(FTK_FIT_EXPONENTIAL, x, N, &exponential), FTKIT_OK);
        near(exponential.mean_s, mean, 1e-9 * mean);
        near(exponential.shape, 1, 0);
        assert_true((exponential.distance_p > 0.005) == (i == 2));
        assert_true((exponential.test.p > 0.001) == (i == 2));
        assert_true(weibull.log_likelihood >= exponential.log_likelihood);
        free(x);
    }
}

static double likelihood(const double *x, size_t n, double shape, double scale)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += log(shape / scale) + (shape - 1) * log(x[i] / scale) - pow(x[i] / scale, shape);
    return sum;
}

/* No neighbour is likelier; a unit of time changes the scale alone. */
static void greatest_likelihood(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        size_t n = 2 + 3 * (size_t)seed;
        double *x = sample(seed, n, 0.3 * (double)seed, 1e-3);
        struct ftk_fit_gaps f, g;
        assert_int_equal(ftk_fit_gaps(FTK_FIT_WEIBULL, x, n, &f), FTKIT_OK);
        double best = likelihood(x, n, f.shape, f.scale_s);
        near(f.log_likelihood, best, 1e-6);
        for (int way = 0; way < 4; way++) {
            double shape = f.shape * (way == 0 ? 0.99 : way == 1 ? 1.01 : 1);
            double scale = f.scale_s * (way == 2 ? 0.99 : way == 3 ? 1.01 : 1);
            assert_true(likelihood(x, n, shape, scale) < best);
        }
        for (size_t i = 0; i < n; i++)
            x[i] *= 1e12;
        assert_int_equal(ftk_fit_gaps(FTK_FIT_WEIBULL, x, n, &g), FTKIT_OK);
        near(g.shape / f.shape, 1, 1e-9);
        near(g.scale_s / f.scale_s / 1e12, 1, 1e-9);
        near(g.distance, f.distance, 1e-9);
        free(x);
    }
}

static void no_fit(void **state)
{
    const double equal[] = { 5, 5, 5 }, zero[] = { 0, 1, 2 }, two[] = { 1, 2 };
    struct ftk_fit_gaps f = { .shape = 77 };
    (void)state;
    for (int law = FTK_FIT_EXPONENTIAL; law <= FTK_FIT_WEIBULL; law++) {
        assert_int_equal(ftk_fit_gaps((enum ftk_fit_law)law, equal, 3, &f), FTKIT_ERR_ARG);
        assert_int_equal(ftk_fit_gaps((enum ftk_fit_law)law, zero, 3, &f), FTKIT_ERR_ARG);
        assert_int_equal(ftk_fit_gaps((enum ftk_fit_law)law, two, 1, &f), FTKIT_ERR_ARG);
        near(f.shape, 77, 0);
    }
    assert_int_equal(ftk_fit_gaps(FTK_FIT_WEIBULL, two, 2, &f), FTKIT_OK);
    assert_int_equal(f.test.df, 0); /* too few for bins */
}

/* Quantiles of the exponential law, bent: the more, the larger is the distance. */
static struct ftk_fit_gaps bent(enum ftk_fit_law law, size_t n, double by)
{
    double *x = malloc(n * sizeof *x);
    struct ftk_fit_gaps f;
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        double u = ((double)i + 0.5) / (double)n;
        x[i] = -log(1 - (u + by * sin(4 * 3.14159265358979 * u) / 13));
    }
    assert_int_equal(ftk_fit_gaps(law, x, n, &f), FTKIT_OK);
    free(x);
    return f;
}

/* Whether a distance that is just significant by a table has this probability.  Tables for
 * parameters that are estimated: Stephens, JASA 69 (1974), exponential; Chandra, Singpurwalla &
 * Stephens, JASA 76 (1981), of many Weibull gaps. */
static void significant(enum ftk_fit_law law, double critical, double p)
{
    enum { N = 400 };
    const double root = sqrt(N);
    double low = 0, high = 1;
    struct ftk_fit_gaps f = { 0 };
    for (int i = 0; i < 8; i++) {
        double by = (low + high) / 2, d;
        f = bent(law, N, by);
        d = law == FTK_FIT_EXPONENTIAL ? (f.distance - 0.2 / N) * (root + 0.26 + 0.5 / root)
                                       : root * f.distance;
        *(d < critical ? &low : &high) = by;
    }
    near(f.distance_p, p, 4 * sqrt(p * (1 - p) / FTK_FIT_SAMPLES) + 0.1 * p);
}

static void distance_tables(void **state)
{
    (void)state;
    significant(FTK_FIT_EXPONENTIAL, 1.094, 0.05);
    significant(FTK_FIT_WEIBULL, 0.874, 0.05);
    if (!getenv("FTKIT_TEST_ALL"))
        return;
    significant(FTK_FIT_EXPONENTIAL, 0.990, 0.10);
    significant(FTK_FIT_EXPONENTIAL, 1.308, 0.01);
    significant(FTK_FIT_WEIBULL, 0.803, 0.10);
    significant(FTK_FIT_WEIBULL, 1.007, 0.01);
}

/* ---- MTBF, repairs --------------------------------------------------------------------------- */

/* Ten failures in 1000 h: the usual interval is 2000 / 34.17 to 2000 / 9.59 h. */
static void mtbf(void **state)
{
    const double gaps[10] = { 1, 2, 3, 5, 14, 44, 77, 154, 300, 400 }, pair[] = { 1, 3 };
    struct ftk_fit_mtbf m;
    (void)state;
    ftk_fit_mtbf(gaps, 10, 0.95, &m);
    near(m.mean_s, 100, 1e-9);
    near(m.low_poisson_s, 2000 / 34.169607, 1e-4);
    near(m.high_poisson_s, 2000 / 9.590777, 1e-4);
    near(m.variation, 1.4213296, 1e-6);
    assert_true(m.low_s < m.low_poisson_s && m.high_s > m.high_poisson_s);
    ftk_fit_mtbf(pair, 2, 0.95, &m);
    near(m.low_s, m.low_poisson_s, 0);
    near(m.mean_s, 2, 1e-12);
}

/* The interval has the true mean in 95 of 100 samples, also of gaps that vary much. */
static void coverage(void **state)
{
    enum { TIMES = 1000, N = 200 };
    int inside = 0, poisson = 0;
    const double mean = tgamma(1 + 1 / 0.7);
    (void)state;
    for (uint64_t seed = 1; seed <= TIMES; seed++) {
        struct ftk_fit_mtbf m;
        double *x = sample(seed, N, 0.7, 1);
        ftk_fit_mtbf(x, N, 0.95, &m);
        inside += m.low_s < mean && mean < m.high_s;
        poisson += m.low_poisson_s < mean && mean < m.high_poisson_s;
        free(x);
    }
    near(inside, 944, 3); /* docs/failures.md; mathematical functions may round differently */
    near(poisson, 824, 3);
}

static void repairs(void **state)
{
    const double v[] = { 1, 100 };
    double median, sigma;
    (void)state;
    ftk_fit_lognormal(v, 2, &median, &sigma);
    near(median, 10, 1e-12);
    near(sigma, log(10), 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(chi2_table), cmocka_unit_test(table_7_2),
        cmocka_unit_test(exact_sizes), cmocka_unit_test(single_nodes), cmocka_unit_test(known_laws),
        cmocka_unit_test(greatest_likelihood), cmocka_unit_test(no_fit),
        cmocka_unit_test(distance_tables), cmocka_unit_test(mtbf), cmocka_unit_test(coverage),
        cmocka_unit_test(repairs) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
