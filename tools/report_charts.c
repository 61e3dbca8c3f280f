/* The charts of ftkit report over time: progress, sets, repairs, memory of the message log.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report_svg.h"

enum { EACH = 32, SPECIAL = 24, BINS = 240, SAMPLES = 1 << 15, ROW = 17 };

static struct rp_plot plot_of(const struct rp_log *log, FILE *out, double height)
{
    struct rp_plot p = {
        .out = out, .width = 960, .height = height, .left = 78, .right = 20, .top = 24, .bottom = 48
    };
    p.x0 = log->begin;
    p.x1 = fmax(log->end, log->begin + 1e-3);
    return p;
}

static double last_place(const struct rp_rank *r)
{
    double most = 0;
    for (size_t i = 0; i < r->n; i++)
        if (r->p[i].place > most)
            most = r->p[i].place;
    return most;
}

/* ---- progress ------------------------------------------------------------------------ */

/* The line of a rank, or of those of its stretches that are computed again after a rollback.  A
 * replacement has another line than a rank that went back. */
static void stretches(const struct rp_plot *p, const struct rp_rank *r, const char *class)
{
    enum { NONE, RUN, LOST, BACK } pen = NONE, after = BACK;
    static const char *const names[] = { "", "run", "lost", "back" };
    double reached = 0;
    fprintf(p->out, "<path class=\"%s\" d=\"", class);
    for (size_t i = 0; i < r->n; i++) {
        const struct rp_point *x = &r->p[i];
        if (x->kind != RP_GOES_ON)
            pen = NONE;
        if (x->kind <= RP_REPLACES)
            after = x->kind == RP_REPLACES ? LOST : BACK;
        if (isnan(x->place))
            continue;
        bool again = x->place < reached;
        int now = again ? (int)after : RUN;
        bool mine = class == names[now] || strcmp(class, names[now]) == 0;
        bool goes_on = i > 0 && pen != NONE;
        if (mine && !goes_on)
            fprintf(p->out, "M%.1f %.1f", ftk_svg_x(p, x->t), ftk_svg_y(p, x->place));
        else if (mine || (goes_on && strcmp(class, names[pen]) == 0)) {
            if (strcmp(class, names[pen]) != 0)
                fprintf(p->out, "M%.1f %.1f", ftk_svg_x(p, x[-1].t), ftk_svg_y(p, x[-1].place));
            fprintf(p->out, "L%.1f %.1f", ftk_svg_x(p, x->t), ftk_svg_y(p, x->place));
        }
        pen = now;
        if (!again) {
            reached = x->place;
            after = BACK;
        }
    }
    fputs("\"/>", p->out);
}

static void drops(const struct rp_plot *p, const struct rp_rank *r)
{
    double last = NAN;
    for (size_t i = 0; i < r->n; i++) {
        const struct rp_point *x = &r->p[i];
        if (x->kind == RP_RESTORES && last > x->place)
            fprintf(p->out, "<path class=\"drop\" d=\"M%.1f %.1fV%.1f\"/>", ftk_svg_x(p, x->t),
                ftk_svg_y(p, last), ftk_svg_y(p, x->place));
        last = isnan(x->place) ? last : x->place;
    }
}

static void one_rank(const struct rp_plot *p, const struct rp_rank *r, int rank, const char *class)
{
    fprintf(p->out, "<g><title>rank %d</title>", rank);
    stretches(p, r, class);
    fputs("</g>\n", p->out);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct band {
    double t[BINS], low[BINS], median[BINS], high[BINS]; /* NAN: no rank */
};

typedef double value_fn(const struct rp_rank *r, double t);

/* Of all ranks, or of enough of them, at equal distances of time */
static void make_band(
    const struct rp_log *log, const struct rp_plot *p, value_fn *fn, struct band *b)
{
    double *v = ftk_tool_alloc(SAMPLES * sizeof *v);
    int every = (log->nranks + SAMPLES - 1) / SAMPLES;
    for (int i = 0; i < BINS; i++) {
        size_t n = 0;
        b->t[i] = p->x0 + (p->x1 - p->x0) * (i + 0.5) / BINS;
        for (int r = 0; r < log->nranks; r += every) {
            double x = fn(&log->ranks[r], b->t[i]);
            if (!isnan(x))
                v[n++] = x;
        }
        if (n)
            qsort(v, n, sizeof *v, by_value);
        b->low[i] = n ? v[0] : NAN;
        b->median[i] = n ? v[n / 2] : NAN;
        b->high[i] = n ? v[n - 1] : NAN;
    }
    free(v);
}

static void line_of(const struct rp_plot *p, const double *t, const double *v, const char *class)
{
    bool pen = false;
    fprintf(p->out, "<path class=\"%s\" d=\"", class);
    for (int i = 0; i < BINS; i++) {
        if (!isnan(v[i]))
            fprintf(p->out, "%s%.1f %.1f", pen ? "L" : "M", ftk_svg_x(p, t[i]), ftk_svg_y(p, v[i]));
        pen = !isnan(v[i]);
    }
    fputs("\"/>\n", p->out);
}

static void draw_band(const struct rp_plot *p, const struct band *b)
{
    for (int i = 0; i < BINS;) {
        int k = i;
        while (k < BINS && !isnan(b->low[k]))
            k++;
        if (k > i) {
            fputs("<path class=\"band\" d=\"", p->out);
            for (int j = i; j < k; j++)
                fprintf(p->out, "%s%.1f %.1f", j > i ? "L" : "M", ftk_svg_x(p, b->t[j]),
                    ftk_svg_y(p, b->high[j]));
            for (int j = k; j-- > i;)
                fprintf(p->out, "L%.1f %.1f", ftk_svg_x(p, b->t[j]), ftk_svg_y(p, b->low[j]));
            fputs("Z\"/>\n", p->out);
        }
        i = k + 1;
    }
}

/* The ranks that have a line, and a row, of their own: all of a small job; else those that were
 * lost, and then those that went back without the others. */
static int special_ranks(const struct rp_log *log, int *which)
{
    int n = 0;
    for (int r = 0; log->nranks <= EACH && r < log->nranks; r++)
        which[n++] = r;
    if (log->nranks <= EACH)
        return n;
    for (int pass = 0; pass < 2; pass++)
        for (int r = 0; r < log->nranks && n < SPECIAL; r++) {
            const struct rp_rank *x = &log->ranks[r];
            if (pass == 0 ? x->lost > 0 : x->lost == 0 && x->back > 0)
                which[n++] = r;
        }
    return n;
}

static bool undisturbed(const struct rp_log *log)
{
    return log->nrepairs == 0 && log->nattempts < 2;
}

static void progress_legend(const struct rp_log *log, FILE *out, bool each)
{
    if (!each) {
        ftk_svg_legend(
            out, "<path class=\"band\" d=\"M0 2H34V12H0z\"/>", "slowest to fastest rank");
        ftk_svg_legend(out, "<path class=\"median\" d=\"M1 7H33\"/>", "median of the ranks");
    } else {
        ftk_svg_legend(out, "<path class=\"run\" d=\"M1 7H33\"/>", "a rank");
    }
    if (undisturbed(log))
        return;
    ftk_svg_legend(out, "<path class=\"lost\" d=\"M1 7H33\"/>",
        "the replacement of a lost rank, which computes again");
    ftk_svg_legend(
        out, "<path class=\"back\" d=\"M1 7H33\"/>", "a rank that went back, and computes again");
    ftk_svg_legend(out, "<path class=\"drop\" d=\"M17 0V14\"/>", "rollback to a set");
    ftk_svg_legend(out, "<path class=\"failure\" d=\"M17 0V14\"/>", "failure");
}

static void bar(const struct rp_plot *p, double from, double to, double y, bool again)
{
    double x = ftk_svg_x(p, from), w = ftk_svg_x(p, to) - x;
    fprintf(p->out, "<path class=\"%s\" d=\"M%.1f %.1fh%.1fv%dh%.1fz\"/>",
        again ? "bar-again" : "bar-run", x, y + 2, w, ROW - 5, -w);
}

/* Bars from one sign of life of a process to its last; what is computed again is marked. */
static void row_of(const struct rp_plot *p, const struct rp_rank *r, double y)
{
    double reached = 0, from = NAN;
    bool was = false;
    for (size_t i = 0; i < r->n; i++) {
        const struct rp_point *a = &r->p[i];
        reached = a->place > reached ? a->place : reached;
        bool again = a->place < reached;
        if (!isnan(from) && (isnan(a->place) || again != was)) {
            bar(p, from, isnan(a->place) ? r->p[i - 1].t : a->t, y, was);
            from = NAN;
        }
        if (isnan(from) && !isnan(a->place))
            from = a->t;
        was = again;
    }
    if (!isnan(from))
        bar(p, from, r->p[r->n - 1].t, y, was);
    for (size_t i = 1; i < r->n; i++) { /* where a process ended and another took its place */
        if (r->p[i].kind > RP_REPLACES)
            continue;
        double x = ftk_svg_x(p, r->p[i - 1].t), m = y + ROW / 2.0 - 0.5;
        fprintf(
            p->out, "<path class=\"cross\" d=\"M%.1f %.1fl10 10m-10 0l10 -10\"/>", x - 5, m - 5);
    }
    fputc('\n', p->out);
}

static void rows(const struct rp_log *log, FILE *out, const int *which, int n)
{
    struct rp_plot p = plot_of(log, out, 0);
    p.height = p.top + n * ROW + p.bottom;
    ftk_svg_figure(out, "Each rank");
    ftk_svg_legend(out, "<path class=\"bar-run\" d=\"M0 2H34V12H0z\"/>", "a rank computes");
    if (!undisturbed(log)) {
        ftk_svg_legend(out, "<path class=\"bar-again\" d=\"M0 2H34V12H0z\"/>",
            "a rank computes again what was lost");
        ftk_svg_legend(out, "<path class=\"cross\" d=\"M12 2l10 10m-10 0l10 -10\"/>",
            "last sign of a process that another replaced");
    }
    ftk_svg_begin(&p, "A row for each rank over time: computing, computing again, lost.", "rows");
    ftk_svg_time_axis(&p);
    ftk_svg_failures(&p, log);
    for (int i = 0; i < n; i++) {
        fprintf(out,
            "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">rank %d</text>",
            p.left - 6, p.top + i * ROW + 12, which[i]);
        row_of(&p, &log->ranks[which[i]], p.top + i * ROW);
    }
    ftk_svg_end(
        &p, log->nranks <= EACH
                ? ""
                : "The first ranks that were lost, or went back without the others, have rows.");
}

void ftk_rp_progress_chart(const struct rp_log *log, FILE *out)
{
    struct rp_plot p = plot_of(log, out, 380);
    int which[EACH > SPECIAL ? EACH : SPECIAL];
    int n = special_ranks(log, which);
    bool each = log->nranks <= EACH;
    static const char *const passes[] = { "run", "back", "lost" };
    p.y1 = 1;
    for (int r = 0; r < log->nranks; r++)
        p.y1 = fmax(p.y1, last_place(&log->ranks[r]));
    ftk_svg_figure(out, "Place of the ranks in the program over time");
    progress_legend(log, out, each);
    ftk_svg_begin(&p, "Place of the ranks in the program over wall time.", "progress");
    ftk_svg_time_axis(&p);
    ftk_svg_y_axis(&p, "place: calls of ftkit_checkpoint", RP_COUNT);
    ftk_svg_failures(&p, log);
    if (!each) {
        struct band *b = ftk_tool_alloc(sizeof *b);
        make_band(log, &p, ftk_rp_place_at, b);
        draw_band(&p, b);
        line_of(&p, b->t, b->median, "median");
        free(b);
    }
    for (int i = 0; i < n; i++)
        drops(&p, &log->ranks[which[i]]);
    for (int pass = each ? 0 : 1; pass < 3; pass++) /* what is computed again on top */
        for (int i = 0; i < n; i++)
            one_rank(&p, &log->ranks[which[i]], which[i], passes[pass]);
    ftk_svg_end(&p,
        undisturbed(log)
            ? ""
            : "A rollback is a drop to the place of the set. A gap is the time without a process.");
    if (n > 0)
        rows(log, out, which, n);
}

/* ---- sets ---------------------------------------------------------------------------- */

static const char *const level_text[RP_LEVELS] = { "level.memory", "level.local",
    "level.hdf5 (files)" };

static void symbol(FILE *out, int level, double x, double y)
{
    static const char *const shape[RP_LEVELS] = { "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
        "m-4 -4h8v8h-8z", "m0 -5l5 9h-10z" };
    fprintf(out, "<path class=\"l%d\" d=\"M%.1f %.1f%s\"/>", level, x, y, shape[level]);
}

static double slowest(const struct rp_figures *f)
{
    return f->seconds_max;
}

static double bytes_of(const struct rp_figures *f)
{
    return f->bytes;
}

static void sets_chart(const struct rp_log *log, struct rp_plot *p,
    double (*fn)(const struct rp_figures *), const char *title, enum rp_unit unit)
{
    static const char *const swatch[RP_LEVELS] = {
        "<path class=\"l0\" d=\"M13 7a4 4 0 1 0 8 0a4 4 0 1 0 -8 0\"/>",
        "<path class=\"l1\" d=\"M13 3h8v8h-8z\"/>", "<path class=\"l2\" d=\"M17 2l5 9h-10z\"/>"
    };
    ftk_svg_figure(p->out, title);
    for (int k = 0; k < RP_LEVELS; k++)
        if (log->level[k].ranks)
            ftk_svg_legend(p->out, swatch[k], level_text[k]);
    ftk_svg_begin(p, title, "sets");
    ftk_svg_time_axis(p);
    ftk_svg_y_axis(p, unit == RP_TIME ? "duration" : "bytes of all ranks", unit);
    ftk_svg_failures(p, log);
    size_t every = log->nsets / 800 + 1;
    for (int k = 0; k < RP_LEVELS; k++)
        for (size_t i = 0; i < log->nsets; i += every) {
            double worst = -1, t = 0; /* of every so many, the largest */
            for (size_t j = i; j < i + every && j < log->nsets; j++) {
                const struct rp_figures *f = &log->sets[j].level[k];
                if (f->ranks && fn(f) > worst) {
                    worst = fn(f);
                    t = f->last_t;
                }
            }
            if (worst >= 0)
                symbol(p->out, k, ftk_svg_x(p, t), ftk_svg_y(p, worst));
        }
}

void ftk_rp_sets_charts(const struct rp_log *log, FILE *out)
{
    struct rp_plot p = plot_of(log, out, 300), q = plot_of(log, out, 260);
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < log->nsets; i++)
        for (int k = 0; k < RP_LEVELS; k++) {
            const struct rp_figures *f = &log->sets[i].level[k];
            if (f->ranks && f->seconds_max > 0)
                least = fmin(least, f->seconds_max);
            most = fmax(most, f->seconds_max);
            q.y1 = fmax(q.y1, f->bytes);
        }
    if (most > 0) {
        p.log_y = true;
        p.y0 = pow(10, floor(log10(fmax(least, most * 1e-9))));
        p.y1 = pow(10, ceil(log10(most)));
        if (p.y1 <= p.y0)
            p.y1 = 10 * p.y0;
        sets_chart(log, &p, slowest, "Duration of each set, on its slowest rank", RP_TIME);
        ftk_svg_end(&p, "Sets in files are written in the background.");
    }
    if (q.y1 > 0) {
        q.y1 *= 1.05;
        sets_chart(log, &q, bytes_of, "Bytes of each set, of all ranks", RP_BYTES);
        ftk_svg_end(&q, "");
    }
}

/* ---- repairs ------------------------------------------------------------------------- */

static void repair_bar(const struct rp_plot *p, const struct rp_repair *r, size_t i)
{
    double y = p->top + 26 * (double)i + 4, x = p->left, sum = 0;
    char text[40];
    fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">F%zu</text>", p->left - 8,
        y + 14, i + 1);
    for (int k = 0; k < RP_PHASES; k++) {
        sum += r->phase[k];
        double w = ftk_svg_x(p, fmin(sum, p->x1)) - x;
        ftk_rp_duration(r->phase[k], text);
        fprintf(p->out,
            "<g><title>%s: %s</title><path class=\"p%d\" d=\"M%.1f %.1fh%.1fv18h%.1fz\"/>",
            ftk_rp_phase_names[k], text, k, x, y, w, -w);
        if (w > 60)
            fprintf(p->out,
                "<text class=\"inside\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>",
                x + w / 2, y + 13, text);
        fputs("</g>", p->out);
        x += w;
    }
    ftk_rp_duration(r->seconds, text);
    fprintf(p->out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
        ftk_svg_x(p, r->seconds) + 6, y + 14, text);
}

void ftk_rp_repairs_chart(const struct rp_log *log, FILE *out)
{
    size_t n = log->nrepairs < 40 ? log->nrepairs : 40;
    double most = 0;
    struct rp_plot p = { .out = out,
        .width = 960,
        .height = 52 + 26 * (double)n,
        .left = 60,
        .right = 90,
        .top = 6,
        .bottom = 46 };
    for (size_t i = 0; i < n; i++)
        most = fmax(most, log->repairs[i].seconds);
    ftk_svg_figure(out, "Phases of each repair");
    for (int k = 0; k < RP_PHASES; k++) {
        char shape[64];
        snprintf(shape, sizeof shape, "<path class=\"p%d\" d=\"M0 2H34V12H0z\"/>", k);
        ftk_svg_legend(out, shape, ftk_rp_phase_names[k]);
    }
    ftk_svg_begin(&p, "Stacked bars: the phases of each repair.", "repairs");
    p.x1 = most > 0 ? most : 1;
    ftk_svg_x_axis(&p, "duration of the repair", 0);
    for (size_t i = 0; i < n; i++)
        repair_bar(&p, &log->repairs[i], i);
    ftk_svg_end(&p, log->nrepairs > n ? "The first 40 repairs are drawn." : "");
}

/* ---- memory of the message log ------------------------------------------------------- */

static double held_at(const struct rp_rank *r, double t)
{
    const struct rp_point *p = ftk_rp_point_at(r, t);
    return p && p->held >= 0 && p[1].kind > RP_REPLACES ? p->held : NAN;
}

void ftk_rp_memory_chart(const struct rp_log *log, FILE *out)
{
    struct rp_plot p = plot_of(log, out, 280);
    struct band *b = ftk_tool_alloc(sizeof *b);
    p.y1 = fmax(log->held_max * 1.05, 1);
    ftk_svg_figure(out, "Bytes that the message log keeps in memory");
    ftk_svg_legend(out, "<path class=\"most\" d=\"M1 7H33\"/>", "the rank that keeps most");
    ftk_svg_legend(out, "<path class=\"median\" d=\"M1 7H33\"/>", "median of the ranks");
    ftk_svg_legend(out, "<path class=\"band\" d=\"M0 2H34V12H0z\"/>", "least to most");
    ftk_svg_begin(&p, "Bytes that the message log keeps over time.", "memory");
    ftk_svg_time_axis(&p);
    ftk_svg_y_axis(&p, "bytes of a rank", RP_BYTES);
    ftk_svg_failures(&p, log);
    make_band(log, &p, held_at, b);
    draw_band(&p, b);
    line_of(&p, b->t, b->high, "most");
    line_of(&p, b->t, b->median, "median");
    ftk_svg_end(&p, "Each committed set empties the log.");
    free(b);
}
