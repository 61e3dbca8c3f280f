/* ftkit plan: a picture of the protocols, a bar for each with the shares of its time.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include "output.h"
#include "plan.h"

enum { WIDTH = 800, NAMES = 210, BARS = 470, HEAD = 84, ROW = 30, BAR = 20 };

/* of PL_PARTS; without colours their order and the thin lines between them distinguish them */
static const char *const colours[PL_PARTS] = { "#0067a8", "#a3407f", "#007a5a", "#c44500",
    "#9c6700" };

static void legend(FILE *out)
{
    static const char *const text[PL_PARTS] = { "work", "log, or replicas", "sets",
        "lost work done again", "restarts" };
    static const int at[PL_PARTS] = { 0, 70, 205, 265, 425 };
    for (int i = 0; i < PL_PARTS; i++)
        fprintf(out,
            "<rect x=\"%d\" y=\"52\" width=\"12\" height=\"12\" fill=\"%s\"/>"
            "<text x=\"%d\" y=\"63\">%s</text>\n",
            NAMES + at[i], colours[i], NAMES + at[i] + 17, text[i]);
}

static void bar(const struct pl_plan *plan, int row, FILE *out)
{
    const struct pl_protocol *p = &plan->protocol[row];
    struct pl_part part[PL_PARTS];
    char name[64];
    double all = 0, x = NAMES;
    int y = HEAD + row * ROW;
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\"%s>%s</text>\n", NAMES - 8,
        y + BAR - 5, row == plan->best ? " font-weight=\"bold\"" : "", ftk_pl_name(p, name));
    if (!p->feasible) {
        fprintf(out, "<text x=\"%d\" y=\"%d\">no progress</text>\n", NAMES, y + BAR - 5);
        return;
    }
    ftk_pl_parts(&p->cost, part);
    for (int i = 0; i < PL_PARTS; i++)
        all += part[i].s;
    for (int i = 0; i < PL_PARTS; i++) {
        double w = BARS * part[i].s / all;
        fprintf(out,
            "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\" stroke=\"white\" "
            "stroke-width=\"0.5\"><title>%s: %.2f %%</title></rect>\n",
            x, y, w, BAR, colours[i], part[i].text, 100 * part[i].s / all);
        x += w;
    }
    fprintf(out, "<text x=\"%d\" y=\"%d\">%.2f %%</text>\n", NAMES + BARS + 8, y + BAR - 5,
        100 * p->efficiency);
}

static void picture(const void *arg, FILE *out)
{
    const struct pl_plan *plan = arg;
    char mtbf[40];
    int height = HEAD + plan->nprotocols * ROW + 12;
    fprintf(out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
        "height=\"%d\" role=\"img\" font-family=\"sans-serif\" font-size=\"13\">\n"
        "<title>Expected efficiency of protocols</title>\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
        "<text x=\"12\" y=\"26\" font-size=\"16\">Where the time of %.0f nodes goes, with a "
        "failure every %s</text>\n",
        WIDTH, height, WIDTH, height, plan->ask.nodes.v, ftk_pl_duration(plan->ask.mtbf.v, mtbf));
    legend(out);
    for (int i = 0; i < plan->nprotocols; i++)
        bar(plan, i, out);
    fputs("</svg>\n", out);
}

int ftk_pl_write_svg(const char *path, void (*draw)(const void *arg, FILE *out), const void *arg)
{
    struct ftk_output out;
    bool good = ftk_output_begin(&out, path);
    if (good) {
        draw(arg, out.f);
        good = ftk_output_end(&out);
    }
    if (!good)
        ftk_tool_say("--svg %s: %s", ftk_tool_why(path), strerror(errno));
    return good ? TOOL_OK : TOOL_FAIL;
}

int ftk_pl_svg(const struct pl_plan *plan, const char *path)
{
    return ftk_pl_write_svg(path, picture, plan);
}
