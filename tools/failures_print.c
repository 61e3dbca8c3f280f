/* What ftkit failures says of a log: text, JSON.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "failures.h"

/* ---- text ------------------------------------------------------------------------------------ */

#define LEAST_P 1e-4 /* what is smaller is of no interest */

struct text {
    char s[40];
};

/* "8.34 h" */
static struct text time_text(double s)
{
    static const struct {
        const char *unit;
        double s;
    } units[] = { { "s", 1 }, { "min", 60 }, { "h", 3600 }, { "d", 86400 } };
    struct text t = { "" };
    size_t u = 3;
    while (u > 0 && s < 2 * units[u].s)
        u--;
    snprintf(t.s, sizeof t.s, "%.4g %s", s / units[u].s, units[u].unit);
    return t;
}

static struct text moment_text(const struct ftk_failure_result *r, double at_s)
{
    struct text t = { "" };
    if (r->log->dated)
        ftk_time_text((int64_t)floor(at_s), t.s);
    else
        snprintf(t.s, sizeof t.s, "%.0f s", at_s);
    return t;
}

/* A probability; one below least is not distinguished from it. */
static struct text p_text(double p, double least)
{
    struct text t = { "" };
    if (p <= least)
        snprintf(t.s, sizeof t.s, "p <= %g", least);
    else
        snprintf(t.s, sizeof t.s, "p = %.2g", p);
    return t;
}

static void print_test(const struct ftk_fit_chi2 *t)
{
    if (t->df == 0) {
        puts("    chi-square: too few failures");
        return;
    }
    printf(
        "    chi-square %.4g, %d degrees of freedom, %s", t->chi2, t->df, p_text(t->p, LEAST_P).s);
    if (t->least < 5)
        printf(" (rough: it expects %.2g failures in a bin)", t->least);
    putchar('\n');
}

static void print_sizes(const struct ftk_failure_result *r)
{
    static const char *const bin[FTK_FIT_BINS] = { "1", "2", "3", "4", "> 4" };
    puts("\nNodes per failure");
    for (int i = 0; i < FTK_FIT_BINS; i++)
        printf("  %3s: %" PRIu64 "\n", bin[i], r->count[i]);
    printf("  the largest: %d\n", r->most);
    if (!r->geometric.fitted) {
        puts("  No failure took more than one node: there is nothing to fit.");
        return;
    }
    printf("  geometric: p = %.4f, sum of squared errors %.3g\n", r->geometric.parameter,
        r->geometric.error);
    print_test(&r->geometric.test);
    printf("  Zipf: s = %.4f (of %d nodes), sum of squared errors %.3g\n", r->zipf.parameter,
        r->nodes, r->zipf.error);
    print_test(&r->zipf.test);
}

static void print_law(const struct ftk_fit_gaps *f)
{
    if (f->shape_error > 0)
        printf("  Weibull: shape %.4f +- %.4f, scale %s +- %s, mean %s\n", f->shape, f->shape_error,
            time_text(f->scale_s).s, time_text(f->scale_error_s).s, time_text(f->mean_s).s);
    else
        printf("  exponential: mean %s +- %s\n", time_text(f->mean_s).s,
            time_text(f->scale_error_s).s);
    printf("    Kolmogorov-Smirnov: distance %.4f, %s\n", f->distance,
        p_text(f->distance_p, 1.0 / (FTK_FIT_SAMPLES + 1)).s);
    print_test(&f->test);
}

static double likelihood_ratio(const struct ftk_failure_result *r)
{
    return fmax(0, 2 * (r->weibull.log_likelihood - r->exponential.log_likelihood));
}

static void print_gaps(const struct ftk_failure_result *r)
{
    printf("\nTime between failures\n  MTBF %s", time_text(r->mtbf.mean_s).s);
    printf(", 95 %% interval %s to %s", time_text(r->mtbf.low_s).s, time_text(r->mtbf.high_s).s);
    printf(" (%s to %s if the gaps were exponential)\n", time_text(r->mtbf.low_poisson_s).s,
        time_text(r->mtbf.high_poisson_s).s);
    printf("  gaps: %zu, standard deviation / mean %.3f\n", r->gaps, r->mtbf.variation);
    if (!r->fitted) {
        puts("  Two different gaps are needed for a fit.");
        return;
    }
    print_law(&r->exponential);
    print_law(&r->weibull);
    double ratio = likelihood_ratio(r);
    printf("  Likelihood ratio of Weibull to exponential: 2 log = %.4g, %s\n", ratio,
        p_text(ftk_fit_chi2_tail(ratio, 1), LEAST_P).s);
}

/* The options of ftkit plan: the law of multiplicity with the smaller error, of those it takes. */
static void print_plan(const struct ftk_failure_result *r)
{
    bool zipf = r->geometric.fitted && r->zipf.error < r->geometric.error;
    double parameter = zipf ? r->zipf.parameter : r->geometric.parameter;
    printf("\nFor ftkit plan, of a job on the whole machine\n  --mtbf %.6gs", r->mtbf.mean_s);
    if (parameter >= 0.01)
        printf(" --multiplicity %s:%.4g", zipf ? "zipf" : "geometric", parameter);
    putchar('\n');
}

void ftk_failure_text(const struct ftk_failure_result *r)
{
    printf("%s, format: %s", ftk_tool_why(r->path), r->log->format);
    if (r->system)
        printf(", system %s", ftk_tool_why(r->system));
    printf("\n  records: %zu, of %zu nodes, from %s to %s\n", r->log->n, r->log->nodes,
        moment_text(r, r->first_s).s, moment_text(r, r->last_s).s);
    if (r->log->others > 0)
        printf("  lines about something else than a node that is down: %zu\n", r->log->others);
    printf("  failures of nodes: %zu (same node within %s: one)\n", r->kept,
        time_text(r->same_node_s).s);
    printf("  failures of the machine: %zu (nodes within %s: one)\n", r->failures,
        time_text(r->together_s).s);
    print_sizes(r);
    print_gaps(r);
    if (r->repairs > 0)
        printf("\nRepair times\n  failures with one: %zu, mean %s\n"
               "  lognormal: median %s, sigma %.3f\n",
            r->repairs, time_text(r->repair_mean_s).s, time_text(r->repair_median_s).s,
            r->repair_sigma);
    print_plan(r);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_test(struct ftk_json *j, const struct ftk_fit_chi2 *t)
{
    if (t->df == 0) {
        ftk_json_null(j, "chi_square");
        return;
    }
    ftk_json_open(j, "chi_square", '{');
    ftk_json_real(j, "value", t->chi2);
    ftk_json_int(j, "df", t->df);
    ftk_json_real(j, "p", t->p);
    ftk_json_real(j, "least_expected", t->least);
    ftk_json_close(j, '}');
}

static void json_sizes(
    struct ftk_json *j, const char *name, const char *parameter, const struct ftk_fit_sizes *f)
{
    if (!f->fitted) {
        ftk_json_null(j, name);
        return;
    }
    ftk_json_open(j, name, '{');
    ftk_json_real(j, parameter, f->parameter);
    ftk_json_real(j, "error", f->error);
    json_test(j, &f->test);
    ftk_json_close(j, '}');
}

static void json_law(struct ftk_json *j, const char *name, const struct ftk_fit_gaps *f)
{
    ftk_json_open(j, name, '{');
    ftk_json_real(j, "shape", f->shape);
    ftk_json_real(j, "shape_error", f->shape_error);
    ftk_json_real(j, "scale_s", f->scale_s);
    ftk_json_real(j, "scale_error_s", f->scale_error_s);
    if (isfinite(f->mean_s))
        ftk_json_real(j, "mean_s", f->mean_s);
    else
        ftk_json_null(j, "mean_s"); /* a tiny shape */
    ftk_json_real(j, "log_likelihood", f->log_likelihood);
    ftk_json_real(j, "distance", f->distance);
    ftk_json_real(j, "distance_p", f->distance_p);
    json_test(j, &f->test);
    ftk_json_close(j, '}');
}

static void json_log(struct ftk_json *j, const struct ftk_failure_result *r)
{
    ftk_json_text(j, "file", r->path);
    ftk_json_text(j, "format", r->log->format);
    if (r->system)
        ftk_json_text(j, "system", r->system);
    else
        ftk_json_null(j, "system");
    ftk_json_uint(j, "records", r->log->n);
    ftk_json_uint(j, "nodes", r->log->nodes);
    ftk_json_uint(j, "other_lines", r->log->others);
    ftk_json_real(j, "first_s", r->first_s);
    ftk_json_real(j, "last_s", r->last_s);
    ftk_json_real(j, "same_node_s", r->same_node_s);
    ftk_json_real(j, "together_s", r->together_s);
    ftk_json_uint(j, "node_failures", r->kept);
    ftk_json_uint(j, "failures", r->failures);
    ftk_json_open(j, "sizes", '[');
    for (int i = 0; i < FTK_FIT_BINS; i++)
        ftk_json_uint(j, NULL, r->count[i]);
    ftk_json_close(j, ']');
    ftk_json_int(j, "largest", r->most);
}

void ftk_failure_json(const struct ftk_failure_result *r)
{
    struct ftk_json j = { .out = stdout };
    ftk_json_open(&j, NULL, '{');
    json_log(&j, r);
    json_sizes(&j, "geometric", "p", &r->geometric);
    json_sizes(&j, "zipf", "s", &r->zipf);
    ftk_json_int(&j, "zipf_nodes", r->nodes);
    ftk_json_uint(&j, "gaps", r->gaps);
    ftk_json_real(&j, "mtbf_s", r->mtbf.mean_s);
    ftk_json_real(&j, "mtbf_low_s", r->mtbf.low_s);
    ftk_json_real(&j, "mtbf_high_s", r->mtbf.high_s);
    ftk_json_real(&j, "mtbf_low_poisson_s", r->mtbf.low_poisson_s);
    ftk_json_real(&j, "mtbf_high_poisson_s", r->mtbf.high_poisson_s);
    ftk_json_real(&j, "gap_variation", r->mtbf.variation);
    if (r->fitted) {
        json_law(&j, "exponential", &r->exponential);
        json_law(&j, "weibull", &r->weibull);
        ftk_json_real(&j, "likelihood_ratio", likelihood_ratio(r));
    }
    ftk_json_uint(&j, "repairs", r->repairs);
    if (r->repairs > 0) {
        ftk_json_real(&j, "repair_mean_s", r->repair_mean_s);
        ftk_json_real(&j, "repair_median_s", r->repair_median_s);
        ftk_json_real(&j, "repair_sigma", r->repair_sigma);
    }
    ftk_json_close(&j, '}');
}
