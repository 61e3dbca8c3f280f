/* The communication matrix in ftkit report: a heat map with the teams as boxes.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>

#include "report_svg.h"

enum { SHADES = 12, HEAVIEST = 12 };

/* 0: nothing; else 1 .. SHADES by the logarithm of the bytes */
static int shade(const struct rp_matrix *m, double bytes, double least)
{
    if (bytes <= 0)
        return 0;
    double span = log(m->max / least);
    int k = span > 0 ? 1 + (int)((SHADES - 1) * log(bytes / least) / span + 0.5) : SHADES;
    return k < 1 ? 1 : k > SHADES ? SHADES : k;
}

static double opacity(int k)
{
    return 0.08 + 0.92 * k / SHADES;
}

/* One path for each shade: cells side by side in a row are one rectangle. */
static void cells(
    FILE *out, const struct rp_matrix *m, double x, double y, double side, double least)
{
    double c = side / m->n;
    for (int k = 1; k <= SHADES; k++) {
        fprintf(out, "<path class=\"heat\" fill-opacity=\"%.2f\" d=\"", opacity(k));
        for (int i = 0; i < m->n; i++)
            for (int j = 0, e; j < m->n; j = e) {
                for (e = j; e < m->n; e++)
                    if (shade(m, m->bytes[i * m->n + e], least) != k)
                        break;
                if (e > j)
                    fprintf(out, "M%.2f %.2fh%.2fv%.2fH%.2fz", x + j * c, y + i * c, (e - j) * c, c,
                        x + j * c);
                e += e == j;
            }
        fputs("\"/>\n", out);
    }
}

/* A box for each team, at the place of its ranks on the diagonal */
static void boxes(const struct rp_log *log, FILE *out, double x, double y, double side)
{
    const struct rp_matrix *m = &log->matrix;
    double each = side / log->nranks;
    if (log->teams < 1)
        return;
    fputs("<path class=\"team\" d=\"", out);
    for (int i = 0, k; i < log->nranks; i = k) {
        int team = log->ranks[m->order[i]].team;
        for (k = i; k < log->nranks && log->ranks[m->order[k]].team == team;)
            k++;
        if (team >= 0)
            fprintf(out, "M%.1f %.1fh%.1fv%.1fh%.1fz", x + i * each, y + i * each, (k - i) * each,
                (k - i) * each, -(k - i) * each);
    }
    fputs("\"/>\n", out);
}

static void ticks(const struct rp_log *log, FILE *out, double x, double y, double side)
{
    const struct rp_matrix *m = &log->matrix;
    int every = 1;
    while (log->nranks / every > 16)
        every *= 2;
    for (int i = 0; i < log->nranks; i += every) {
        double at = (i + (log->nranks <= RP_CELLS ? 0.5 : 0)) * side / log->nranks;
        fprintf(out,
            "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%d</text>"
            "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%d</text>\n",
            x + at, y + side + 17, m->order[i], x - 6, y + at + 4, m->order[i]);
    }
    fprintf(out,
        "<path class=\"axis\" d=\"M%.1f %.1fh%.1fv%.1fh%.1fz\"/>"
        "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">receiver (rank)</text>"
        "<text transform=\"rotate(-90)\" x=\"%.1f\" y=\"16\" text-anchor=\"middle\">sender "
        "(rank)</text>\n",
        x, y, side, side, -side, x + side / 2, y + side + 38, -(y + side / 2));
}

/* The colours, from the least to the most bytes of a cell */
static void key(FILE *out, const struct rp_matrix *m, double x, double y, double h, double least)
{
    for (int k = 1; k <= SHADES; k++)
        fprintf(out, "<path class=\"heat\" fill-opacity=\"%.2f\" d=\"M%.1f %.1fh16v%.1fh-16z\"/>",
            opacity(k), x, y + h - k * h / SHADES, h / SHADES);
    for (int k = 0; k <= 2; k++) {
        char text[32];
        ftk_rp_bytes(least * pow(m->max / least, k / 2.0), text);
        fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", x + 22,
            y + h - k * h / 2
                + (k == 2    ? 10
                    : k == 1 ? 4
                             : 0),
            text);
    }
    fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\">bytes (log scale)</text>\n", x, y - 8);
}

static void heaviest(const struct rp_log *log, FILE *out)
{
    const struct rp_matrix *m = &log->matrix;
    double above = INFINITY;
    fputs("<details><summary>Pairs of ranks with most bytes</summary>", out);
    ftk_rp_table(out, "#sender|#receiver|#messages|#bytes|teams");
    for (int n = 0; n < HEAVIEST;) {
        double next = 0; /* the largest value below those that are printed */
        for (int i = 0; i < m->n * m->n; i++)
            if (m->bytes[i] < above && m->bytes[i] > next)
                next = m->bytes[i];
        if (next <= 0)
            break;
        for (int i = 0; i < m->n * m->n && n < HEAVIEST; i++) {
            if (m->bytes[i] < next || m->bytes[i] > next)
                continue;
            char bytes[32];
            int from = m->order[i / m->n], to = m->order[i % m->n];
            ftk_rp_bytes(m->bytes[i], bytes);
            fprintf(out,
                "<tr><td class=\"n\">%d</td><td class=\"n\">%d</td><td class=\"n\">%.0f"
                "</td><td class=\"n\">%s</td><td>%s</td></tr>\n",
                from, to, m->messages[i], bytes,
                log->ranks[from].team == log->ranks[to].team ? "the same" : "different");
            n++;
        }
        above = next;
    }
    fputs("</table></div></details>\n", out);
}

void ftk_rp_matrix_chart(const struct rp_log *log, FILE *out)
{
    const struct rp_matrix *m = &log->matrix;
    struct rp_plot p = { .out = out, .width = 740, .height = 610 };
    double least = m->max, x = 70, y = 24, side = 520;
    for (int i = 0; i < m->n * m->n; i++)
        if (m->bytes[i] > 0 && m->bytes[i] < least)
            least = m->bytes[i];
    ftk_svg_figure(out, "Bytes sent from rank to rank");
    ftk_svg_legend(out, "<path class=\"team\" d=\"M4 1H30V13H4z\"/>",
        "a team: messages within a team are not logged");
    ftk_svg_begin(
        &p, "Heat map of bytes from sender to receiver, with the teams as boxes.", "matrix square");
    cells(out, m, x, y, side, least);
    ticks(log, out, x, y, side);
    boxes(log, out, x, y, side);
    key(out, m, x + side + 20, y + 20, 200, least);
    ftk_svg_end(
        &p, log->nranks > m->n
                ? "Ranks are in the order of their teams. Each cell is the sum of a block of ranks."
                : "Ranks are in the order of their teams.");
    if (log->nranks <= m->n)
        heaviest(log, out);
}
