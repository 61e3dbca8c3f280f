/* The page of ftkit report: texts and tables.  Names and texts of the log are foreign: everything
 * that is printed goes through ftk_rp_escape().  The page has no script.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "report.h"

static const char style[] = {
#include "report_css.h"
};

/* ---- texts --------------------------------------------------------------------------- */

void ftk_rp_escape(FILE *out, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        switch (*p) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default: /* a text that was cut may end within a character; HTML repairs that */
            fputc(*p < ' ' || *p == 127 ? ' ' : *p, out);
        }
    }
}

void ftk_rp_duration(double s, char buf[40])
{
    if (s <= 0)
        snprintf(buf, 40, "0 s");
    else if (s < 1e-3)
        snprintf(buf, 40, "%.3g \xc2\xb5s", s * 1e6);
    else if (s < 0.9995)
        snprintf(buf, 40, "%.3g ms", s * 1e3);
    else if (s < 59.95)
        snprintf(buf, 40, "%.3g s", s);
    else if (s < 3599.5)
        snprintf(buf, 40, "%d min %d s", (int)((s + 0.5) / 60), (int)(s + 0.5) % 60);
    else if (s < 48 * 3600.0)
        snprintf(buf, 40, "%d h %d min", (int)((s + 30) / 3600), (int)((s + 30) / 60) % 60);
    else
        snprintf(buf, 40, "%.1f days", s / 86400);
}

void ftk_rp_bytes(double bytes, char buf[32])
{
    ftk_bytes_text(bytes < 1.8e19 ? (uint64_t)bytes : UINT64_MAX, buf);
}

void ftk_rp_list(const struct rp_ranks *l, char *buf, size_t bytes)
{
    size_t at = 0;
    int shown = 0, last;
    buf[0] = '\0';
    for (; shown < l->named && at < 60 && at + 32 < bytes; shown = last + 1) {
        last = shown;
        while (last + 1 < l->named && l->rank[last + 1] == l->rank[last] + 1)
            last++;
        at += (size_t)snprintf(buf + at, bytes - at, "%s%d", at ? ", " : "", l->rank[shown]);
        if (last > shown)
            at += (size_t)snprintf(buf + at, bytes - at, "\xe2\x80\x93%d", l->rank[last]);
    }
    if (l->n > shown && at + 32 < bytes)
        snprintf(buf + at, bytes - at, " and %d more", l->n - shown);
}

static const char *plural(double n)
{
    return n > 0.5 && n < 1.5 ? "" : "s";
}

static void cell_text(FILE *out, const char *text)
{
    fputs("<td class=\"text\">", out);
    ftk_rp_escape(out, text);
    fputs("</td>", out);
}

static void cell_time(FILE *out, double s)
{
    char text[40];
    ftk_rp_duration(s, text);
    fprintf(out, "<td class=\"n\">%s</td>", text);
}

static void cell_bytes(FILE *out, double bytes)
{
    char text[32];
    ftk_rp_bytes(bytes, text);
    fprintf(out, "<td class=\"n\">%s</td>", text);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* ---- the headline -------------------------------------------------------------------- */

static int relaunches(const struct rp_log *log)
{
    int n = 0;
    for (size_t i = 0; i < log->nattempts; i++)
        n += log->attempts[i].again;
    return n;
}

static void head(const struct rp_log *log, FILE *out)
{
    const struct rp_group *g = &log->groups[log->main_group];
    const char *name = log->program[0] ? base_name(log->program) : g->context;
    char took[40], when[32];
    ftk_rp_duration(log->end - log->begin, took);
    ftk_time_text((int64_t)log->begin, when);
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
          "style-src 'unsafe-inline'\">\n<title>ftkit report: ",
        out);
    ftk_rp_escape(out, name);
    fputs("</title>\n<style>\n", out);
    fputs(style, out);
    fputs("</style></head><body>\n<main>\n<h1>", out);
    ftk_rp_escape(out, name);
    fprintf(out, ": %s on %d rank%s", took, log->nranks, plural(log->nranks));
    if (log->nrepairs || relaunches(log))
        fprintf(out, ", %zu failure%s", log->nrepairs + (size_t)relaunches(log),
            plural((double)log->nrepairs + relaunches(log)));
    else
        fputs(", no failure", out);
    fprintf(out, "</h1>\n<p class=\"soft\">Began %s. Run <code>", when);
    ftk_rp_escape(out, g->run);
    fputs("</code>, context <code>", out);
    ftk_rp_escape(out, g->context);
    fputs("</code>.</p>\n", out);
}

static void lost_sentence(const struct rp_log *log, FILE *out)
{
    char took[40];
    uint64_t n = log->nrepairs + log->more_repairs;
    ftk_rp_duration(log->repair_seconds, took);
    fprintf(out,
        "<p>%" PRId64 " process%s lost in %" PRIu64 " failure%s. ftkit repaired the running "
        "job %s; this took %s%s.",
        log->lost, log->lost == 1 ? " was" : "es were", n, plural((double)n),
        n == 1 ? "once" : "each time", took, n == 1 ? "" : " altogether");
    bool few = log->nrepairs == 1 && log->repairs[0].back.n < log->nranks;
    if (few)
        fprintf(out, " %d of %d ranks rolled back; the other ranks went on.",
            log->repairs[0].back.n, log->nranks);
    fputs("</p>\n", out);
}

static void headline(const struct rp_log *log, FILE *out)
{
    char end[400];
    bool good;
    int again = relaunches(log);
    char number[16];
    snprintf(number, sizeof number, "%d", again);
    if (log->nrepairs)
        lost_sentence(log, out);
    if (again)
        fprintf(out, "<p>The whole job was lost %s%s and was started again.</p>\n",
            again == 1 ? "once" : number, again == 1 ? "" : " times");
    if (log->again >= 1)
        fprintf(out,
            "<p>The ranks executed about %.0f calls of ftkit_checkpoint a second time: %.2g %% of "
            "the %.0f calls of all ranks.</p>\n",
            log->again, 100 * log->again / fmax(log->calls, 1), log->calls);
    else if (log->nrepairs || again)
        fputs("<p>No work was lost.</p>\n", out);
    ftk_rp_ending(log, end, sizeof end, &good);
    fprintf(out, "<p class=\"end %s\">", good ? "good" : "bad");
    ftk_rp_escape(out, end);
    fputs("</p>\n", out);
}

static void tile(FILE *out, const char *name, const char *value, const char *more)
{
    fprintf(out, "<div><dt>%s</dt><dd>%s<small>%s</small></dd></div>\n", name, value, more);
}

static void tiles(const struct rp_log *log, FILE *out)
{
    char value[64], more[160], took[40];
    fputs("<dl class=\"tiles\">\n", out);
    ftk_rp_duration(log->end - log->begin, value);
    snprintf(more, sizeof more, "%zu attempt%s", log->nattempts, plural((double)log->nattempts));
    tile(out, "Wall time", value, more);
    snprintf(value, sizeof value, "%d", log->nranks);
    snprintf(more, sizeof more, "%d node%s, %d spare%s%s", log->nodes, plural(log->nodes),
        log->spares, plural(log->spares), log->teams > 1 ? ", in teams" : "");
    tile(out, "Ranks", value, more);
    snprintf(value, sizeof value, "%" PRId64, log->lost);
    ftk_rp_duration(log->repair_seconds, took);
    snprintf(more, sizeof more, "repaired in %s", took);
    tile(out, "Lost processes", value, log->lost ? more : "no failure");
    snprintf(value, sizeof value, "%.2g %%", 100 * log->again / fmax(log->calls, 1));
    snprintf(more, sizeof more, "%.0f of %.0f calls", log->again, log->calls);
    tile(out, "Executed again", value, more);
    snprintf(value, sizeof value, "%" PRIu64, log->level[RP_MEMORY].sets);
    snprintf(more, sizeof more, "and %" PRIu64 " in files", log->level[RP_FILES].sets);
    tile(out, "Sets in memory", value, more);
    if (log->has_log) {
        ftk_rp_bytes(log->held_max, value);
        tile(out, "Message log", value, "kept by the rank that keeps most");
    }
    fputs("</dl>\n", out);
}

/* ---- tables -------------------------------------------------------------------------- */

void ftk_rp_table(FILE *out, const char *titles)
{
    /* a narrow page shows each row as a list, with the titles of the columns from the style */
    fputs("<div class=\"scroll\" tabindex=\"0\"><table class=\"list\" style=\"", out);
    int column = 1;
    for (const char *t = titles; *t; t += strcspn(t, "|") + (t[strcspn(t, "|")] == '|'), column++) {
        bool number = *t == '#';
        fprintf(out, "--c%d:'%.*s';", column, (int)strcspn(t, "|") - number, t + number);
    }
    fputs("\"><tr class=\"head\">", out);
    for (const char *t = titles; *t; t += strcspn(t, "|") + (t[strcspn(t, "|")] == '|')) {
        bool number = *t == '#';
        fprintf(out, "<th%s>%.*s</th>", number ? " class=\"n\"" : "", (int)strcspn(t, "|") - number,
            t + number);
    }
    fputs("</tr>\n", out);
}

/* ---- failures ------------------------------------------------------------------------ */

static void sources(const struct rp_log *log, FILE *out, const struct rp_repair *x)
{
    fputs("<td class=\"text\">", out);
    for (int i = 0; i < RP_SOURCES && x->source[i].ranks; i++) {
        char text[128];
        ftk_rp_source(log, x->source[i].from, x->source[i].number, text, sizeof text);
        fprintf(out, "%s%" PRIu64 " rank%s: ", i ? "<br>" : "", x->source[i].ranks,
            plural((double)x->source[i].ranks));
        ftk_rp_escape(out, text);
    }
    fputs("</td>", out);
}

static void repair_row(const struct rp_log *log, FILE *out, size_t i)
{
    const struct rp_repair *x = &log->repairs[i];
    char text[200];
    fprintf(out, "<tr><td>F%zu</td>", i + 1);
    cell_time(out, x->t - x->seconds - log->begin);
    ftk_rp_list(&x->replaced, text, sizeof text);
    cell_text(out, x->replaced.n ? text : "none");
    if (x->back.n >= log->nranks)
        fputs("<td class=\"text\">all ranks</td>", out);
    else {
        ftk_rp_list(&x->back, text, sizeof text);
        cell_text(out, x->back.n ? text : "none");
    }
    if (x->line)
        fprintf(out, "<td class=\"n\">%" PRId64 "</td>", x->line);
    else
        fputs("<td class=\"n\">start</td>", out);
    cell_time(out, x->seconds);
    for (int k = 0; k < RP_PHASES; k++)
        cell_time(out, x->phase[k]);
    if (x->replay >= 0)
        cell_time(out, x->replay);
    else
        fputs("<td class=\"n\">none</td>", out);
    if (ftk_rp_replay_speed(x) > 0)
        fprintf(out, "<td class=\"n\">%.3g</td>", ftk_rp_replay_speed(x));
    else
        fputs("<td class=\"n\">?</td>", out);
    if (x->catch_up >= 0)
        cell_time(out, x->catch_up);
    else
        fputs("<td class=\"n\">?</td>", out);
    sources(log, out, x);
    if (x->spares >= 0)
        fprintf(out, "<td class=\"n\">%" PRId64 "</td></tr>\n", x->spares);
    else
        fputs("<td class=\"n\">?</td></tr>\n", out);
}

static void attempts(const struct rp_log *log, FILE *out)
{
    fputs("<h3>Attempts</h3>", out);
    ftk_rp_table(
        out, "#attempt|#began at|#context open after|continued from|#ended at|how it ended");
    for (size_t i = 0; i < log->nattempts && i < 100; i++) {
        const struct rp_attempt *a = &log->attempts[i];
        fprintf(out, "<tr><td class=\"n\">%zu</td>", i + 1);
        cell_time(out, fmax(a->begin - log->begin, 0));
        if (a->opened > 0)
            cell_time(out, fmax(a->opened - a->begin, 0));
        else
            fputs("<td class=\"n\">never</td>", out);
        fputs("<td class=\"text\">", out);
        if (a->start_set > 0) {
            fprintf(out, "set %" PRId64 ", from ", a->start_set);
            ftk_rp_escape(out, log->from[a->start_from]);
        } else
            fputs("the start of the program", out);
        fputs("</td>", out);
        if (a->end > 0)
            cell_time(out, fmax(a->end - log->begin, 0));
        else
            fputs("<td class=\"n\">?</td>", out);
        cell_text(out, a->how[0] ? a->how : a->end > 0 ? "" : "not in the log");
        fputs("</tr>\n", out);
    }
    fputs("</table></div>\n", out);
}

static void failures(const struct rp_log *log, FILE *out)
{
    fputs("<section id=\"failures\"><h2>Failures and repairs</h2>\n", out);
    if (log->nrepairs == 0)
        fputs("<p>No process was lost and replaced in the running job.</p>\n", out);
    else {
        ftk_rp_repairs_chart(log, out);
        ftk_rp_table(out,
            "failure|#at|replaced ranks|rolled back|#to set|#repair|#detect|#supply|#rebuild|"
            "#restore|#replay|#replay speed|#catch-up|data from|#spares left");
        for (size_t i = 0; i < log->nrepairs && i < 200; i++)
            repair_row(log, out, i);
        fputs("</table></div>\n<p class=\"note\">The figures of a repair are those of its slowest "
              "survivor. The replay is that of the slowest rank that went back; at speed 2 it made "
              "the same calls twice as fast as before the failure. The catch-up is the step that "
              "the failure broke off.",
            out);
        uint64_t more = log->nrepairs + log->more_repairs;
        if (more > 200)
            fprintf(out, " %" PRIu64 " more repairs are not shown.", more - 200);
        if (log->more_restores)
            fprintf(out, " Where the data came from is counted for the first %zu restored ranks.",
                log->nrestores);
        fputs("</p>\n", out);
    }
    attempts(log, out);
    fputs("</section>\n", out);
}

/* ---- sets ---------------------------------------------------------------------------- */

static void sets(const struct rp_log *log, FILE *out)
{
    static const char *const names[RP_LEVELS] = { "level.memory", "level.local", "level.hdf5" };
    fputs("<section id=\"sets\"><h2>Checkpoint sets</h2>\n", out);
    if (log->nsets == 0) {
        fputs("<p>The log has no set.</p></section>\n", out);
        return;
    }
    ftk_rp_table(out,
        "level|#sets|#bytes of a set|#sent to other ranks|#duration, mean|#slowest rank|errors");
    for (int k = 0; k < RP_LEVELS; k++) {
        const struct rp_figures *f = &log->level[k];
        double n = fmax((double)f->sets, 1);
        if (f->ranks == 0 && f->sets == 0)
            continue;
        fprintf(out, "<tr><td>%s</td><td class=\"n\">%" PRIu64 "</td>", names[k], f->sets);
        cell_bytes(out, f->bytes / n);
        if (k == RP_FILES)
            fputs("<td class=\"n\">\xe2\x80\x93</td>", out);
        else
            cell_bytes(out, f->sent / n);
        cell_time(out, f->seconds_sum / fmax((double)f->ranks, 1));
        cell_time(out, f->seconds_max);
        if (f->code < 0)
            fprintf(out, "<td class=\"level-error\">%s</td></tr>\n", ftkit_strerror((int)f->code));
        else
            fputs("<td>none</td></tr>\n", out);
    }
    fputs("</table></div>\n", out);
    if (log->stride > 1)
        fprintf(out,
            "<p class=\"note\">The charts have every set whose number is a multiple of %" PRIu64
            ".</p>\n",
            log->stride);
    ftk_rp_sets_charts(log, out);
    fputs("</section>\n", out);
}

/* ---- the rest ------------------------------------------------------------------------ */

static void traffic(const struct rp_log *log, FILE *out)
{
    const struct rp_matrix *m = &log->matrix;
    char all[32], between[32], kept[32];
    if (!m->bytes || m->total <= 0)
        return;
    ftk_rp_bytes(m->total, all);
    ftk_rp_bytes(m->between, between);
    ftk_rp_bytes(fmax(m->between - m->unkept, 0), kept);
    fprintf(out,
        "<section id=\"traffic\"><h2>Communication</h2>\n<p>The ranks sent %.0f messages "
        "with %s. %s of it (%.1f %%) went from one team to another, so the message log kept ",
        m->total_messages, all, between, 100 * m->between / m->total);
    if (m->unkept > 0)
        fprintf(out, "%s: silent teams keep nothing.</p>\n", kept);
    else
        fputs("it.</p>\n", out);
    ftk_rp_matrix_chart(log, out);
    fputs("</section>\n", out);
}

static void text_table(const struct rp_log *log, FILE *out, bool information)
{
    static const char *const names[] = { "error", "warning", "info" };
    ftk_rp_table(out, "#first at|rank|level|#times|text");
    for (size_t i = 0; i < log->ntexts; i++) {
        const struct rp_text *x = &log->texts[i];
        if ((x->level >= 2) != information)
            continue;
        fputs("<tr>", out);
        cell_time(out, fmax(x->t - log->begin, 0));
        if (x->rank >= 0)
            fprintf(out, "<td>%d</td>", x->rank);
        else
            fputs("<td>\xe2\x80\x93</td>", out);
        fprintf(out, "<td class=\"level-%s\">%s</td><td class=\"n\">%" PRIu64 "</td>",
            names[x->level], names[x->level], x->count);
        cell_text(out, x->text);
        fputs("</tr>\n", out);
    }
    fputs("</table></div>\n", out);
}

static void texts(const struct rp_log *log, FILE *out)
{
    const uint64_t *n = log->count_of_level;
    fputs("<section id=\"texts\"><h2>Warnings and errors</h2>\n", out);
    fprintf(out, "<p>%" PRIu64 " error%s and %" PRIu64 " warning%s.</p>\n", n[0],
        plural((double)n[0]), n[1], plural((double)n[1]));
    if (n[0] + n[1])
        text_table(log, out, false);
    if (n[2]) {
        fprintf(out, "<details><summary>Information: %" PRIu64 " line%s</summary>\n", n[2],
            plural((double)n[2]));
        text_table(log, out, true);
        fputs("</details>\n", out);
    }
    if (log->more_texts)
        fprintf(out, "<p class=\"note\">%" PRIu64 " more lines are only counted.</p>\n",
            log->more_texts);
    fputs("</section>\n", out);
}

static void row(FILE *out, const char *name, const char *value)
{
    fputs("<tr><td><code>", out);
    ftk_rp_escape(out, name);
    fputs("</code></td>", out);
    cell_text(out, value);
    fputs("</tr>\n", out);
}

static void configuration(const struct rp_log *log, FILE *out)
{
    fputs("<section id=\"configuration\"><h2>Configuration and versions</h2>\n"
          "<div class=\"scroll\" tabindex=\"0\"><table>\n",
        out);
    row(out, "program", log->program[0] ? log->program : "not in the log");
    row(out, "ftkit of the program", log->version[0] ? log->version : "not in the log");
    row(out, "ftkit of this page", ftkit_version());
    row(out, "mode", log->mode[0] ? log->mode : "not in the log");
    row(out, "job", log->job[0] ? log->job : "not in the log");
    fputs("</table></div>\n", out);
    if (log->nkeys) {
        fprintf(out,
            "<details><summary>%zu keys of the configuration</summary>"
            "<div class=\"scroll\" tabindex=\"0\"><table>\n",
            log->nkeys);
        for (size_t i = 0; i < log->nkeys; i++)
            row(out, log->keys[i].key, log->keys[i].value);
        fputs("</table></div></details>\n", out);
    } else {
        fputs("<p>The log has no configuration.</p>\n", out);
    }
    fputs("</section>\n", out);
}

static void about(const struct rp_log *log, FILE *out)
{
    size_t others = 0;
    fprintf(out,
        "<section id=\"log\"><h2>About the log</h2>\n<p>%zu file%s with %" PRIu64
        " lines, of which %" PRIu64 " are of this run.",
        log->nfiles, plural((double)log->nfiles), log->lines, log->used);
    if (log->bad) {
        fprintf(out, " %" PRIu64 " line%s could not be read; the first: <code>", log->bad,
            plural((double)log->bad));
        ftk_rp_escape(out, log->first_bad);
        fputs("</code>.", out);
    }
    if (log->unknown)
        fprintf(out, " %" PRIu64 " events are of a kind that this version does not know.",
            log->unknown);
    fputs(" Clocks of different nodes may differ; durations are of one process each.</p>\n", out);
    for (size_t i = 0; i < log->ngroups && others < 50; i++) {
        const struct rp_group *g = &log->groups[i];
        char when[32];
        if (g->chosen)
            continue;
        ftk_time_text((int64_t)g->first, when);
        fputs(others++ ? "" : "<p>The files have other runs, too:</p><ul>\n", out);
        fputs("<li><code>--run ", out);
        ftk_rp_escape(out, g->run);
        fprintf(out, "</code>, %d ranks, began %s, context <code>", g->nranks, when);
        ftk_rp_escape(out, g->context);
        fputs("</code></li>\n", out);
    }
    fprintf(out, "%s</section>\n", others ? "</ul>" : "");
}

void ftk_rp_page(const struct rp_log *log, FILE *out)
{
    head(log, out);
    headline(log, out);
    tiles(log, out);
    fputs("<section id=\"progress\"><h2>Progress</h2>\n", out);
    if (log->unknown_base)
        fprintf(out,
            "<p class=\"note\">The log does not say where set %" PRIu64
            " is in the program: places count from this set.</p>\n",
            log->unknown_base);
    ftk_rp_progress_chart(log, out);
    fputs("</section>\n", out);
    failures(log, out);
    sets(log, out);
    if (log->has_log) {
        fputs("<section id=\"memory\"><h2>Message log</h2>\n", out);
        ftk_rp_memory_chart(log, out);
        fputs("</section>\n", out);
    }
    traffic(log, out);
    ftk_rp_energy_page(log, out);
    texts(log, out);
    configuration(log, out);
    about(log, out);
    fprintf(out,
        "</main><footer>Made by ftkit %s. One file, no network.</footer>\n</body></html>\n",
        ftkit_version());
}
