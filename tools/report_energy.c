/* The energy of a run: what sensors have measured, or else what a model says.  One figure is never
 * of both.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The model has two powers of a node, as `ftkit plan` and `ftkit sim`: H while it computes, L while
 * it writes a set or repairs.  It takes the time of these from the lines `set` and `repair`. */
#include <math.h>
#include <string.h>

#include "model/rollback.h"
#include "report.h"

const char *const ftk_rp_energy_names[RP_ENERGY_PHASES] = { "run", "set", "flush", "repair",
    "replay", "wait" };

/* ---- figures ------------------------------------------------------------------------- */

/* The time in which all nodes together were in the job. */
static double node_seconds(const struct rp_log *log)
{
    double sum = 0;
    for (size_t i = 0; i < log->nattempts; i++) {
        const struct rp_attempt *a = &log->attempts[i];
        if (a->opened > 0)
            sum += fmax((a->end > 0 ? a->end : log->end) - a->opened, 0);
    }
    return sum * log->nodes;
}

/* Sets of a line apart are written beside the work of the program. */
static bool is_apart(const struct rp_log *log)
{
    for (size_t i = 0; i < log->nkeys; i++)
        if (strcmp(log->keys[i].key, "checkpoint.line") == 0)
            return strcmp(log->keys[i].value, "apart") == 0;
    return false;
}

static void spend(struct rp_energy *x, int phase, double seconds, double watts)
{
    x->seconds[phase] = seconds;
    x->joules[phase] = seconds * watts;
}

static void apply_model(struct rp_log *log)
{
    struct rp_energy *x = &log->energy;
    double set_s = 0, repair_s = log->repair_seconds * log->nodes;
    for (int k = 0; k < RP_FILES && !is_apart(log); k++) {
        const struct rp_figures *f = &log->level[k];
        if (f->ranks > 0)
            set_s += f->seconds_sum / (double)f->ranks * (double)f->sets * log->nodes;
    }
    spend(x, RP_ENERGY_SET, set_s, FTK_MODEL_IDLE_W);
    spend(x, RP_ENERGY_REPAIR, repair_s, FTK_MODEL_IDLE_W);
    spend(x, RP_ENERGY_RUN, fmax(x->node_seconds - set_s - repair_s, 0), FTK_MODEL_BUSY_W);
    x->nodes = log->nodes;
}

void ftk_rp_energy_sum(struct rp_log *log)
{
    struct rp_energy *x = &log->energy;
    x->node_seconds = node_seconds(log);
    if (!x->measured)
        apply_model(log);
    for (int p = 0; p < RP_ENERGY_PHASES; p++) {
        x->all_seconds += x->seconds[p];
        x->all_joules += x->joules[p];
    }
}

/* ---- JSON ---------------------------------------------------------------------------- */

void ftk_rp_energy_json(struct ftk_json *j, const struct rp_log *log)
{
    const struct rp_energy *x = &log->energy;
    ftk_json_open(j, "energy", '{');
    ftk_json_text(j, "kind", x->measured ? "measured" : "model");
    ftk_json_text(j, "source", x->source);
    ftk_json_int(j, "nodes", x->nodes);
    ftk_json_real(j, "node_seconds", x->node_seconds);
    ftk_json_real(j, "seconds", x->all_seconds);
    ftk_json_real(j, "joules", x->all_joules);
    ftk_json_open(j, "phases", '[');
    for (int p = 0; p < RP_ENERGY_PHASES; p++) {
        if (x->seconds[p] <= 0)
            continue;
        ftk_json_open(j, NULL, '{');
        ftk_json_text(j, "phase", ftk_rp_energy_names[p]);
        ftk_json_real(j, "seconds", x->seconds[p]);
        ftk_json_real(j, "joules", x->joules[p]);
        ftk_json_close(j, '}');
    }
    ftk_json_close(j, ']');
    ftk_json_close(j, '}');
}

/* ---- the page ------------------------------------------------------------------------ */

static void cell_energy(FILE *out, double joules)
{
    static const char *const units[] = { "J", "kJ", "MJ", "GJ", "TJ" };
    int k = 0;
    for (; k < 4 && joules >= 999.5; k++)
        joules /= 1000;
    fprintf(out, "<td class=\"n\">%.3g %s</td>", joules, units[k]);
}

static void row(FILE *out, const char *name, double seconds, double joules)
{
    char text[40];
    ftk_rp_duration(seconds, text);
    fprintf(out, "<tr><td>%s</td><td class=\"n\">%s</td>", name, text);
    cell_energy(out, joules);
    fprintf(out, "<td class=\"n\">%.3g W</td></tr>\n", joules / seconds);
}

void ftk_rp_energy_page(const struct rp_log *log, FILE *out)
{
    const struct rp_energy *x = &log->energy;
    const char *kind = x->measured ? "measured" : "model";
    char titles[128];
    if (x->all_seconds <= 0)
        return;
    fputs("<section id=\"energy\"><h2>Energy</h2>\n<p>", out);
    if (x->measured) {
        fprintf(out, "<strong>Measured</strong> on %d of %d node%s, by ", x->nodes, log->nodes,
            log->nodes == 1 ? "" : "s");
        ftk_rp_escape(out, x->source);
        fprintf(out, ". The sensors cover %.3g %% of the time of all nodes.",
            100 * fmin(x->all_seconds / fmax(x->node_seconds, 1e-9), 1));
    } else {
        fprintf(out,
            "<strong>Model</strong>, because no sensor was read: a node draws %g W while it "
            "computes, and %g W while it writes a set or repairs.",
            FTK_MODEL_BUSY_W, FTK_MODEL_IDLE_W);
    }
    fputs("</p>\n", out);
    snprintf(titles, sizeof titles, "phase|#time, all nodes|#energy (%s)|#power of a node (%s)",
        kind, kind);
    ftk_rp_table(out, titles);
    for (int p = 0; p < RP_ENERGY_PHASES; p++)
        if (x->seconds[p] > 0)
            row(out, ftk_rp_energy_names[p], x->seconds[p], x->joules[p]);
    row(out, "all", x->all_seconds, x->all_joules);
    fputs("</table></div></section>\n", out);
}
