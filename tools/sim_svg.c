/* ftkit sim: a picture, the efficiency of each protocol, or with each set of costs, by the number
 * of nodes.  Lines are the formulas of the plan, points the simulations.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "sim.h"

enum { WIDTH = 800, HEIGHT = 480, LEFT = 64, RIGHT = 560, TOP = 48, BOTTOM = 420, COLOURS = 6 };

static const char *const colours[COLOURS] = { "#0067a8", "#c44500", "#007a5a", "#a3407f", "#9c6700",
    "#444444" };

struct picture {
    const struct sm_ask *sim;
    const struct sm_size *size; /* [1 + sim->nwith][n] */
    int n;
    double low, high; /* numbers of nodes, powers of 2 */
};

static double x_of(const struct picture *p, double nodes)
{
    if (p->high <= p->low)
        return (LEFT + RIGHT) / 2.0;
    return LEFT + (RIGHT - LEFT) * (log2(nodes) - p->low) / (p->high - p->low);
}

static double y_of(double efficiency)
{
    return BOTTOM - (BOTTOM - TOP) * efficiency;
}

static void axes(const struct picture *p, FILE *out)
{
    int step = p->n > 8 ? 2 : 1;
    for (int e = 0; e <= 10; e += 2)
        fprintf(out,
            "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>"
            "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%d %%</text>\n",
            LEFT, RIGHT, y_of(e / 10.0), y_of(e / 10.0), LEFT - 8, y_of(e / 10.0) + 4, 10 * e);
    for (int k = 0; k < p->n; k += step) {
        double nodes = p->size[k].plan.ask.nodes.v;
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n",
            x_of(p, nodes), BOTTOM + 20, nodes);
    }
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">nodes</text>\n",
        (LEFT + RIGHT) / 2, BOTTOM + 42);
}

/* Draw the protocol i of these sizes as the line number row. */
static void curve(const struct picture *p, const struct sm_size *size, int i, const char *name,
    int row, FILE *out)
{
    const char *colour = colours[row % COLOURS];
    int dash = row / COLOURS * 6, y = TOP + 12 + row * 22;
    fprintf(out, "<g stroke=\"%s\" fill=\"%s\"><polyline fill=\"none\" stroke-width=\"1.5\"",
        colour, colour);
    if (dash > 0)
        fprintf(out, " stroke-dasharray=\"%d 3\"", dash);
    fputs(" points=\"", out);
    for (int k = 0; k < p->n; k++)
        fprintf(out, "%.1f,%.1f ", x_of(p, size[k].plan.ask.nodes.v),
            y_of(size[k].plan.protocol[i].efficiency));
    fputs("\"/>\n", out);
    for (int k = 0; k < p->n; k++)
        if (size[k].done[i])
            fprintf(out,
                "<circle r=\"3\" cx=\"%.1f\" cy=\"%.1f\"><title>%s, %.0f nodes: %.2f %%</title>"
                "</circle>\n",
                x_of(p, size[k].plan.ask.nodes.v), y_of(ftk_sm_efficiency(&size[k], i)), name,
                size[k].plan.ask.nodes.v, 100 * ftk_sm_efficiency(&size[k], i));
    fprintf(out,
        "<line x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/><circle r=\"3\" cx=\"%d\" cy=\"%d\"/></g>"
        "<text x=\"%d\" y=\"%d\">%s</text>\n",
        RIGHT + 16, RIGHT + 40, y, y, RIGHT + 28, y, RIGHT + 48, y + 4, name);
}

static void curves(const struct picture *p, FILE *out)
{
    int row = 0, nwith = p->sim->nwith;
    for (int i = 0; i < p->size[0].plan.nprotocols; i++) {
        const struct pl_protocol *protocol = &p->size[0].plan.protocol[i];
        char name[64];
        if (nwith == 0 || protocol->kind <= PL_LOG)
            curve(p, p->size, i, ftk_pl_name(protocol, name), row++, out);
    }
    if (nwith > 0)
        fprintf(out, "<text x=\"%d\" y=\"%d\">checkpoint/restart, other costs:</text>\n",
            RIGHT + 16, TOP + 16 + row++ * 22);
    for (int w = 0; w < nwith; w++)
        curve(p, ftk_sm_row(p->size, p->n, w + 1), 0, p->sim->with[w].name, row++, out);
}

static void draw(const void *arg, FILE *out)
{
    const struct picture *p = arg;
    fprintf(out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
        "height=\"%d\" role=\"img\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<title>Efficiency by number of nodes</title>\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
        "<text x=\"12\" y=\"26\" font-size=\"16\">Efficiency by number of nodes: lines are the "
        "plan, points are simulated</text>\n",
        WIDTH, HEIGHT, WIDTH, HEIGHT);
    axes(p, out);
    curves(p, out);
    fputs("</svg>\n", out);
}

int ftk_sm_svg(const struct sm_ask *sim, const struct sm_size *size, int nsizes, const char *path)
{
    const struct picture p = { .sim = sim,
        .size = size,
        .n = nsizes,
        .low = log2(size[0].plan.ask.nodes.v),
        .high = log2(size[nsizes - 1].plan.ask.nodes.v) };
    return ftk_pl_write_svg(path, draw, &p);
}
