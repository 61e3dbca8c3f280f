/* ftkit config --ranks: the job as text and as JSON.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

static const char *const loss_names[] = { "processes:", "all processes of nodes:", "nodes:" };
static const char *const source_words[] = { "level.memory", "level.local", "files", "nothing" };
static const char *const source_keys[] = { "level_memory", "level_local", "files", "nothing" };

/* ---- memory -------------------------------------------------------------------------- */

/* "2.00 x, 2.0 GiB", or without bytes that were not given. */
static void times_text(const struct ftk_job *job, uint64_t bytes, char out[64])
{
    char size[32];
    int n = snprintf(out, 64, "%.2f x", (double)bytes / (double)job->data);
    ftk_bytes_text(bytes, size);
    if (job->ask.bytes > 0 && n > 0)
        snprintf(out + n, 64 - (size_t)n, ", %s", size);
}

static void print_level(
    const struct ftk_job *job, int level, int scheme, const char *dir, FILE *out)
{
#define WORD(NAME, word, flags, doc) #word,
    static const char *const places[] = { FTK_PLACE_LIST(WORD) };
#undef WORD
    const struct ftk_job_level *l = &job->level[level];
    char steady[64], peak[64], where[FTK_PATH_MAX + 16] = "";
    if (!job->w.level[level].on && level != FTK_LEVEL_MEMORY) {
        fprintf(out, "  %-13s off\n", source_words[level]);
        return;
    }
    times_text(job, l->steady, steady);
    times_text(job, l->peak, peak);
    if (*dir && job->w.level[level].outlives)
        snprintf(where, sizeof where, " in %s", dir);
    fprintf(out, "  %-13s %s; while a set is committed %s  (%s, %s%s)\n", source_words[level],
        steady, peak, ftk_scheme_facts(scheme)->word, places[job->w.level[level].place], where);
}

static void print_memory(const struct ftk_job *job, FILE *out)
{
    char text[64], log[32], set[32], all[32];
    const struct ftk_config *c = job->cfg;
    fprintf(out, "\nMemory of a rank, as a multiple of its registered bytes\n");
    print_level(job, FTK_LEVEL_MEMORY, c->scheme, c->place_dir, out);
    print_level(job, FTK_LEVEL_LOCAL, c->local_scheme, c->local_dir, out);
    times_text(job, job->held, text);
    if (job->held > 0)
        fprintf(out, "  %-13s %s more while a set is written to the file system\n", "files", text);
    times_text(job, job->segment, text);
    if (c->h5_enabled)
        fprintf(out, "  %-13s %s more at each rank that writes for others\n", "", text);
    ftk_bytes_text((uint64_t)c->log_memory, log);
    if (job->teams > 0)
        fprintf(out, "  %-13s up to %s more (log.memory)\n", "message log", log);
    if (!(job->ask.bytes > 0))
        return;
    ftk_bytes_text(job->node_steady, set);
    ftk_bytes_text(job->node_peak, all);
    fprintf(out, "  %-13s %s; at most %s  (%d rank%s, with the registered data)\n", "a node", set,
        all, job->most_ranks, FTK_S(job->most_ranks));
    if (!c->h5_enabled)
        return;
    ftk_bytes_text(job->files_set, set);
    ftk_bytes_text(job->files_all, all);
    fprintf(out, "\nFile system: %s for a set; at most %s for %d set%s (level.hdf5.keep + 1)%s\n",
        set, all, c->h5_keep + 1, FTK_S(c->h5_keep + 1),
        c->h5_compress == FTK_COMPRESS_NONE ? "" : ", before compression");
}

/* ---- losses -------------------------------------------------------------------------- */

/* Digits behind the point, so that a share that is not all or nothing does not look like it. */
static int digits_of(double percent)
{
    int digits = 1;
    double rest = percent < 50 ? percent : 100 - percent;
    while (digits < 6 && rest < 0.6 * pow(10, -digits))
        digits++;
    return digits;
}

/* A share as text; "all" and "none" only if this is sure. */
static void share_text(const struct ftk_survival *s, uint64_t hits, bool sure, char out[40])
{
    double percent = 100 * (double)hits / (double)s->looked;
    double error = 100 * ftk_survival_error(s, hits);
    bool whole = hits == 0 || hits == s->looked;
    if (whole && sure)
        snprintf(out, 40, "%s", hits == 0 ? "none" : "all");
    else if (whole)
        snprintf(out, 40, "%s %.*f %%", hits == 0 ? "<" : ">", digits_of(error),
            hits == 0 ? error : 100 - error);
    else if (s->exact)
        snprintf(out, 40, "%.*f %%", digits_of(percent), percent);
    else
        snprintf(out, 40, "%.*f +- %.*f %%", digits_of(percent) + 1, percent,
            digits_of(percent) + 1, error);
}

/* Whether the running job goes on after all losses of a kind, or after none, whatever a sample
 * says. */
static bool is_sure_in_job(const struct ftk_job *job, const struct ftk_survival *s)
{
    const struct ftk_config *c = job->cfg;
    int lost = s->loss == FTK_LOSS_PROCESSES ? s->k : s->k * job->most_ranks;
    bool more = false;
    for (int i = 0; i < c->nsupply; i++)
        more = more || c->supply[i] == FTK_SUPPLY_SPAWN || c->supply[i] == FTK_SUPPLY_SHRINK;
    return s->exact || ftk_world_ends(&job->w, s->loss)
           || (more && lost < job->w.nranks && c->h5_enabled && !c->log_enabled);
}

static bool is_possible(const struct ftk_job *job, int source)
{
    return source == FTK_SOURCE_LOCAL   ? job->w.level[FTK_LEVEL_LOCAL].on
           : source == FTK_SOURCE_FILES ? job->cfg->h5_enabled
           : source == FTK_SOURCE_NONE  ? !job->cfg->h5_enabled
                                        : true;
}

static void loss_text(const struct ftk_survival *s, char out[64])
{
    static const char *const one[] = { "process", "node", "node" };
    static const char *const more[] = { "processes", "nodes", "nodes" };
    snprintf(out, 64, "%s%d %s", s->loss == FTK_LOSS_NODE_PROCESSES ? "all processes of " : "",
        s->k, (s->k == 1 ? one : more)[s->loss]);
}

/* A spare of the lost node is lost, too. */
int ftk_job_missing(const struct ftk_world *w, int *worst)
{
    int missing = 0;
    *worst = 0;
    for (int n = 0; n < w->nnodes; n++) {
        int more = w->first[n + 1] - w->first[n] - (w->nspares - w->spares[n]);
        *worst = more > missing ? n : *worst;
        missing = more > missing ? more : missing;
    }
    return missing;
}

static void print_spares(const struct ftk_job *job, FILE *out)
{
    const struct ftk_world *w = &job->w;
    const struct ftk_config *c = job->cfg;
    int worst = 0;
    const char *then = "the job ends, and ftkit run relaunches it";
    const int missing = ftk_job_missing(w, &worst);
    const int ranks = w->first[worst + 1] - w->first[worst];
    if (missing == 0)
        return;
    for (int i = c->nsupply - 1; i >= 0 && ranks < w->nranks; i--)
        then = c->supply[i] == FTK_SUPPLY_SPAWN    ? "the others are spawned"
               : c->supply[i] == FTK_SUPPLY_SHRINK ? "the job goes on without the others"
                                                   : then;
    fprintf(out, "  %s node with %d rank%s may be lost, and other nodes have %d spare%s: %s.\n",
        w->repairs == FTK_REPAIRS_NODES ? "A" : "All processes of a", ranks, FTK_S(ranks),
        ranks - missing, FTK_S(ranks - missing), then);
}

static void print_losses(const struct ftk_job *job, FILE *out)
{
    char text[64];
    bool sampled = false;
    int silent_s = 0;
    fprintf(out, "\nShares of all ways to lose so much at once\n  %-24s %-20s", "lost",
        "repaired in the job");
    for (int i = 0; i < FTK_SOURCES; i++)
        if (is_possible(job, i))
            fprintf(out, " data: %-14s", source_words[i]);
    fputc('\n', out);
    for (int i = 0; i < job->nlosses; i++) {
        const struct ftk_survival *s = &job->loss[i];
        loss_text(s, text);
        fprintf(out, "  %-24s", text);
        share_text(s, s->in_job, is_sure_in_job(job, s), text);
        fprintf(out, " %-20s", text);
        for (int k = 0; k < FTK_SOURCES; k++) {
            if (!is_possible(job, k))
                continue;
            share_text(s, s->source[k], s->exact, text);
            fprintf(out, " %-20s", text);
        }
        fputc('\n', out);
        sampled = sampled || !s->exact;
    }
    fprintf(out, "  This holds from the time when the level has its first complete set.\n");
    if (sampled)
        fprintf(out,
            "  +-, <, >: of a random sample, right with a probability of 99.9 %%. All other "
            "shares are counted.\n");
    if (job->w.repairs != FTK_REPAIRS_NOTHING && job->w.nnodes > 1)
        print_spares(job, out);
    if (job->w.repairs == FTK_REPAIRS_NODES && ftk_runtime_node_timeout(&silent_s) == 0)
        fprintf(out, "  A silent node counts as lost after about %d s (recover.node_timeout).\n",
            silent_s);
    if (job->w.repairs == FTK_REPAIRS_NODES && job->w.nnodes > 1 && getenv("SLURM_JOB_ID"))
        fprintf(out,
            "  Slurm ends the Slurm job when it notices the loss of a node (SlurmdTimeout), unless "
            "it was submitted with --no-kill.\n");
    if (job->w.repairs == FTK_REPAIRS_PROCESSES)
        fprintf(out,
            "  A lost node takes its MPI daemon along: this mpirun ends the job, and ftkit "
            "run relaunches it.\n");
}

/* ---- age, teams, summary ------------------------------------------------------------- */

static void age_text(const struct ftk_job_age *a, char out[96])
{
    static const struct {
        double s;
        const char *name;
    } units[] = { { 86400, "d" }, { 3600, "h" }, { 60, "min" }, { 1, "s" }, { 1e-3, "ms" } };
    char time[40] = "", calls[40] = "";
    size_t u = 0;
    while (u + 1 < sizeof units / sizeof *units && a->s < 2 * units[u].s)
        u++;
    double v = a->s / units[u].s;
    if (a->s > 0)
        snprintf(time, sizeof time, "%.*f %s", v < 10 ? 1 : 0, v, units[u].name);
    if (a->calls > 0)
        snprintf(calls, sizeof calls, "%.0f call%s of ftkit_checkpoint", a->calls, FTK_S(a->calls));
    snprintf(out, 96, "%s%s%s", time, *time && *calls ? " and " : "", calls);
}

static void print_age(const struct ftk_job *job, FILE *out)
{
    char text[96];
    const struct ftk_config *c = job->cfg;
    fprintf(out, "\nHow old the data are at most, about\n");
    for (int i = 0; i < FTK_SOURCE_NONE; i++) {
        if (!is_possible(job, i) || (i == FTK_SOURCE_MEMORY && !job->w.level[i].on))
            continue;
        age_text(&job->age[i], text);
        fprintf(out, "  %-13s %s%s\n", source_words[i], text,
            i == FTK_SOURCE_FILES ? ", and the time that writing a set takes" : "");
    }
    if (c->period.kind == FTK_PERIOD_AUTO || (c->h5_enabled && c->h5_every.kind == FTK_PERIOD_AUTO))
        fprintf(out, "  Periods that are auto: by Daly from checkpoint.mtbf, with 0.5 s for a set; "
                     "the job measures the cost.\n");
}

static void print_teams(const struct ftk_job *job, FILE *out)
{
    if (job->teams == 0)
        return;
    fprintf(out, "\nMessage log: %d team%s of %d", job->teams, FTK_S(job->teams), job->team_least);
    if (job->team_most > job->team_least)
        fprintf(out, " to %d", job->team_most);
    fprintf(out, " rank%s\n", FTK_S(job->team_most));
    if (job->silent > 0)
        fprintf(out,
            "  %d team%s keep%s no messages (log.silent), and roll%s back with each team to "
            "which %s sent since the last set: the shares below are without %s\n",
            job->silent, FTK_S(job->silent), job->silent == 1 ? "s" : "",
            job->silent == 1 ? "s" : "", job->silent == 1 ? "it has" : "they have",
            job->silent == 1 ? "it" : "them");
    fprintf(out, "  1 process     rolls back 1 team: %.1f %% of the ranks on average\n",
        100 * job->team_share);
    if (job->w.nnodes > 1)
        fprintf(out, "  1 node        rolls back at most %d team%s: %.1f %% of the ranks\n",
            job->node_teams, FTK_S(job->node_teams), 100 * job->node_share);
    fprintf(out, "  All ranks roll back when level.memory has not all data.\n");
}

/* What one kind of loss costs, in one line: "any 2, 98.4 % of all losses of 3 at once". */
static void print_kind(const struct ftk_job *job, int loss, FILE *out)
{
    int any = 0;
    const struct ftk_survival *part = NULL, *last = NULL;
    for (int i = 0; i < job->nlosses; i++) {
        const struct ftk_survival *s = &job->loss[i];
        if (s->loss != loss)
            continue;
        last = s;
        if (!part && s->exact && s->source[FTK_SOURCE_MEMORY] == s->looked)
            any = s->k;
        else if (!part)
            part = s;
    }
    if (!last)
        return;
    fprintf(out, "  %-24s", loss_names[loss]);
    if (any > 0)
        fprintf(out, "any %d", any);
    if (part && part->source[FTK_SOURCE_MEMORY] > 0) {
        char share[40];
        share_text(part, part->source[FTK_SOURCE_MEMORY], part->exact, share);
        fprintf(out, "%s%s of all losses of %d%s", any > 0 ? "; " : "", share, part->k,
            part->k > 1 ? " at once" : "");
    } else if (any == 0) {
        fprintf(out, "none%s",
            loss == FTK_LOSS_NODES && ftk_world_ends(&job->w, loss)
                    && !job->w.level[FTK_LEVEL_MEMORY].outlives
                ? ", because level.memory.place = memory ends with the job"
                : "");
    }
    fputc('\n', out);
}

static void print_summary(const struct ftk_job *job, FILE *out)
{
    char memory[96], other[96];
    const struct ftk_world *w = &job->w;
    bool files = job->cfg->h5_enabled;
    age_text(&job->age[FTK_SOURCE_MEMORY], memory);
    age_text(&job->age[FTK_SOURCE_FILES], other);
    fprintf(out, "level.memory survives these losses, at the price of up to about %s:\n", memory);
    for (int loss = FTK_LOSS_PROCESSES; loss <= FTK_LOSS_NODES; loss++)
        print_kind(job, loss, out);
    if (w->level[FTK_LEVEL_LOCAL].on) {
        age_text(&job->age[FTK_SOURCE_LOCAL], memory);
        fprintf(out, "More is in level.local, at the price of up to about %s (see the table).\n",
            memory);
    }
    if (files)
        fprintf(out, "Everything else costs up to about %s (the files).\n", other);
    else
        fprintf(out, "Everything else is lost: there are no files.\n");
}

void ftk_job_print(const struct ftk_job *job, FILE *out)
{
    const struct ftk_world *w = &job->w;
    fprintf(out, "%d rank%s and %d spare%s on %d node%s, at most %d rank%s on a node\n\n",
        w->nranks, FTK_S(w->nranks), w->nspares, FTK_S(w->nspares), w->nnodes, FTK_S(w->nnodes),
        job->most_ranks, FTK_S(job->most_ranks));
    print_summary(job, out);
    print_losses(job, out);
    print_age(job, out);
    print_teams(job, out);
    print_memory(job, out);
}

/* ---- JSON ---------------------------------------------------------------------------- */

static void json_level(const struct ftk_job *job, int level, struct ftk_json *j)
{
    const struct ftk_job_level *l = &job->level[level];
    ftk_json_open(j, source_keys[level], '{');
    ftk_json_bool(j, "on", job->w.level[level].on);
    ftk_json_real(j, "steady", (double)l->steady / (double)job->data);
    ftk_json_real(j, "committing", (double)l->peak / (double)job->data);
    if (job->ask.bytes > 0) {
        ftk_json_uint(j, "steady_bytes", l->steady);
        ftk_json_uint(j, "committing_bytes", l->peak);
    }
    ftk_json_close(j, '}');
}

static void json_loss(const struct ftk_survival *s, struct ftk_json *j)
{
    static const char *const names[] = { "processes", "node_processes", "nodes" };
    ftk_json_open(j, NULL, '{');
    ftk_json_text(j, "lost", names[s->loss]);
    ftk_json_int(j, "at_once", s->k);
    ftk_json_bool(j, "exact", s->exact);
    ftk_json_uint(j, "looked_at", s->looked);
    ftk_json_uint(j, "in_job", s->in_job);
    for (int i = 0; i < FTK_SOURCES; i++)
        ftk_json_uint(j, source_keys[i], s->source[i]);
    ftk_json_real(j, "error", ftk_survival_error(s, s->source[FTK_SOURCE_MEMORY]));
    ftk_json_close(j, '}');
}

static void json_age(const struct ftk_job *job, struct ftk_json *j)
{
    ftk_json_open(j, "age", '{');
    for (int i = 0; i < FTK_SOURCE_NONE; i++) {
        if (!is_possible(job, i)) {
            ftk_json_null(j, source_keys[i]);
            continue;
        }
        ftk_json_open(j, source_keys[i], '{');
        ftk_json_real(j, "seconds", job->age[i].s);
        ftk_json_real(j, "calls", job->age[i].calls);
        ftk_json_close(j, '}');
    }
    ftk_json_close(j, '}');
}

void ftk_job_json(const struct ftk_job *job, struct ftk_json *j)
{
    ftk_json_open(j, "job", '{');
    ftk_json_int(j, "ranks", job->w.nranks);
    ftk_json_int(j, "spares", job->w.nspares);
    ftk_json_int(j, "nodes", job->w.nnodes);
    ftk_json_bool(j, "repairs", job->w.repairs);
    ftk_json_bool(j, "repairs_nodes", job->w.repairs == FTK_REPAIRS_NODES);
    json_level(job, FTK_LEVEL_MEMORY, j);
    json_level(job, FTK_LEVEL_LOCAL, j);
    if (job->ask.bytes > 0) {
        ftk_json_uint(j, "node_bytes", job->node_steady);
        ftk_json_uint(j, "node_most_bytes", job->node_peak);
        ftk_json_uint(j, "file_set_bytes", job->files_set);
        ftk_json_uint(j, "file_most_bytes", job->files_all);
    }
    ftk_json_open(j, "losses", '[');
    for (int i = 0; i < job->nlosses; i++)
        json_loss(&job->loss[i], j);
    ftk_json_close(j, ']');
    json_age(job, j);
    if (job->teams > 0) {
        ftk_json_int(j, "teams", job->teams);
        ftk_json_int(j, "teams_silent", job->silent);
        ftk_json_real(j, "rolled_back_process", job->team_share);
        ftk_json_real(j, "rolled_back_node", job->node_share);
    }
    ftk_json_close(j, '}');
}
