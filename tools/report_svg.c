/* Axes, legends and frames of the charts of ftkit report, as SVG in HTML.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report_svg.h"

double ftk_svg_x(const struct rp_plot *p, double x)
{
    double w = p->width - p->left - p->right;
    return p->left + (p->x1 > p->x0 ? (x - p->x0) / (p->x1 - p->x0) * w : 0);
}

double ftk_svg_y(const struct rp_plot *p, double y)
{
    double h = p->height - p->top - p->bottom, at = 0;
    if (p->log_y)
        at = y > 0 ? (log10(y) - log10(p->y0)) / (log10(p->y1) - log10(p->y0)) : 0;
    else if (p->y1 > p->y0)
        at = (y - p->y0) / (p->y1 - p->y0);
    return p->height - p->bottom - fmin(fmax(at, 0), 1) * h;
}

void ftk_svg_figure(FILE *out, const char *title)
{
    fprintf(out, "<figure><h3>%s</h3><ul class=\"legend\">\n", title);
}

void ftk_svg_legend(FILE *out, const char *shape, const char *text)
{
    fprintf(
        out, "<li><svg viewBox=\"0 0 34 14\" aria-hidden=\"true\">%s</svg>%s</li>\n", shape, text);
}

void ftk_svg_begin(const struct rp_plot *p, const char *label, const char *svg_class)
{
    fprintf(p->out,
        "</ul><div class=\"scroll\" tabindex=\"0\"><svg class=\"%s\" viewBox=\"0 0 %.0f %.0f\" "
        "role=\"img\" aria-label=\"%s\">\n",
        svg_class, p->width, p->height, label);
}

void ftk_svg_end(const struct rp_plot *p, const char *caption)
{
    fprintf(p->out, "</svg></div><figcaption>%s</figcaption></figure>\n", caption);
}

/* ---- axes ---------------------------------------------------------------------------- */

/* 1, 2 or 5 times a power of ten, so that there are at most n steps */
static double step_of(double span, int n)
{
    double raw = span / n, power = pow(10, floor(log10(raw)));
    double m = raw / power;
    return power * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10);
}

static void tick_number(double v, char buf[32])
{
    if (fabs(v) >= 1e7)
        snprintf(buf, 32, "%.3g", v);
    else
        snprintf(buf, 32, "%.7g", v);
}

static const char *time_unit(double span, double *scale)
{
    static const struct {
        double upto, scale;
        const char *name;
    } units[] = { { 1e-3, 1e-6, "\xc2\xb5s" }, { 1, 1e-3, "ms" }, { 600, 1, "s" },
        { 3 * 3600, 60, "min" }, { 4 * 86400, 3600, "h" }, { INFINITY, 86400, "days" } };
    int i = 0;
    while (span > units[i].upto)
        i++;
    *scale = units[i].scale;
    return units[i].name;
}

static const char *byte_unit(double most, double *scale)
{
    static const char *const names[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    int i = 0;
    *scale = 1;
    while (most / *scale >= 2048 && i < 6) {
        *scale *= 1024;
        i++;
    }
    return names[i];
}

void ftk_svg_x_axis(const struct rp_plot *p, const char *title, double least)
{
    double scale, span = p->x1 - p->x0, bottom = p->height - p->bottom;
    const char *unit = time_unit(fmax(span, least), &scale);
    double step = step_of(fmax(span, 1e-6) / scale, 10);
    for (int i = 0; i <= 12 && i * step * scale <= span * 1.0001; i++) {
        char text[32];
        double x = ftk_svg_x(p, p->x0 + i * step * scale);
        tick_number(i * step, text);
        fprintf(p->out,
            "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/><text class=\"tick\" x=\"%.1f\" "
            "y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
            x, p->top, bottom, x, bottom + 17, text);
    }
    fprintf(p->out,
        "<path class=\"axis\" d=\"M%.1f %.1fV%.1fH%.1f\"/><text x=\"%.1f\" y=\"%.1f\" "
        "text-anchor=\"middle\">%s (%s)</text>\n",
        p->left, p->top, bottom, p->width - p->right, (p->left + p->width - p->right) / 2,
        bottom + 36, title, unit);
}

void ftk_svg_time_axis(const struct rp_plot *p)
{
    ftk_svg_x_axis(p, "wall time since the start of the run", 1.001);
}

static void y_tick(const struct rp_plot *p, double v, const char *text)
{
    double y = ftk_svg_y(p, v);
    fprintf(p->out,
        "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/><text class=\"tick\" x=\"%.1f\" y=\"%.1f\" "
        "text-anchor=\"end\">%s</text>\n",
        p->left, y, p->width - p->right, p->left - 6, y + 4, text);
}

static void y_title(const struct rp_plot *p, const char *title, const char *unit)
{
    double middle = (p->top + p->height - p->bottom) / 2;
    fprintf(p->out,
        "<text transform=\"rotate(-90)\" x=\"%.1f\" y=\"16\" text-anchor=\"middle\">%s%s%s%s"
        "</text>\n",
        -middle, title, *unit ? " (" : "", unit, *unit ? ")" : "");
}

static void log_axis(const struct rp_plot *p, const char *title, enum rp_unit unit)
{
    char text[40];
    for (int e = (int)lround(log10(p->y0)); e <= (int)lround(log10(p->y1)); e++) {
        double v = pow(10, e), scale = 1;
        const char *name = unit == RP_TIME ? time_unit(v < 1 ? v : 1.001, &scale) : "";
        if (unit == RP_TIME && v <= 1e-3 * 1.0001 && v >= 1e-3 * 0.9999) {
            scale = 1e-3;
            name = "ms";
        }
        snprintf(text, sizeof text, "%g %s", round(v / scale * 1e6) / 1e6, name);
        y_tick(p, v, text);
    }
    y_title(p, title, "log scale");
}

void ftk_svg_y_axis(const struct rp_plot *p, const char *title, enum rp_unit unit)
{
    double scale = 1;
    const char *name = "";
    if (p->log_y) {
        log_axis(p, title, unit);
        return;
    }
    if (unit == RP_BYTES)
        name = byte_unit(p->y1, &scale);
    else if (unit == RP_TIME)
        name = time_unit(p->y1, &scale);
    double step = step_of(fmax(p->y1 - p->y0, 1e-9) / scale, 6);
    for (int i = 0; i <= 12 && p->y0 + i * step * scale <= p->y1 * 1.0001; i++) { /* y0 is 0 */
        char text[32];
        tick_number(i * step, text);
        y_tick(p, p->y0 + i * step * scale, text);
    }
    y_title(p, title, name);
}

enum { REPAIRS = 200, ATTEMPTS = 50, NAMED = 20, LETTER = 8 };

struct mark {
    double x;
    int repair; /* number, from 1; 0: the job was lost */
};

static int by_x(const void *a, const void *b)
{
    const struct mark *x = a, *y = b;
    return (x->x > y->x) - (x->x < y->x);
}

/* "F2-F4, job lost": the marks, which are too near to each other for labels of their own. */
static int label_of(const struct mark *m, size_t n, char text[64])
{
    int first = 0, last = 0, lost = 0;
    for (size_t i = 0; i < n; i++) {
        first = first ? first : m[i].repair;
        last = m[i].repair ? m[i].repair : last;
        lost += m[i].repair == 0;
    }
    int at = first == last ? 0 : snprintf(text, 64, "F%d\xe2\x80\x93", first);
    if (last)
        at += snprintf(text + at, (size_t)(64 - at), "F%d", last);
    if (lost)
        at += snprintf(text + at, (size_t)(64 - at), "%sjob lost", last ? ", " : "");
    return at;
}

/* One label for marks that are too near to each other, until no label meets the next one. */
static void labels(const struct rp_plot *p, const struct mark *m, size_t n)
{
    char text[64];
    double free_x = 0; /* behind the last label */
    for (size_t i = 0, k; i < n; i = k) {
        double middle, half;
        for (k = i + 1;; k++) {
            middle = (m[i].x + m[k - 1].x) / 2;
            half = LETTER * label_of(m + i, k - i, text) / 2.0;
            if (k == n || m[k].x - LETTER > middle + half + LETTER)
                break;
        }
        middle = middle - half < free_x ? free_x + half : middle;
        fprintf(p->out,
            "<text class=\"mark\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", middle,
            p->top - 5, text);
        free_x = middle + half;
    }
}

void ftk_svg_failures(const struct rp_plot *p, const struct rp_log *log)
{
    struct mark m[REPAIRS + ATTEMPTS];
    size_t n = 0;
    for (size_t i = 0; i < log->nrepairs && i < REPAIRS; i++) {
        const struct rp_repair *x = &log->repairs[i];
        m[n++] = (struct mark){ ftk_svg_x(p, x->t - x->seconds), (int)i + 1 };
    }
    for (size_t i = 0; i < log->nattempts && i < ATTEMPTS; i++)
        if (log->attempts[i].again)
            m[n++] = (struct mark){ ftk_svg_x(p, log->attempts[i].end), 0 };
    if (n)
        qsort(m, n, sizeof *m, by_x);
    for (size_t i = 0; i < n; i++)
        fprintf(p->out, "<path class=\"failure\" d=\"M%.1f %.1fV%.1f\"/>\n", m[i].x, p->top,
            p->height - p->bottom);
    if (log->nrepairs <= NAMED && log->nattempts <= NAMED)
        labels(p, m, n);
}
