/* Values that contradict each other (see config_sense.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "config_sense.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "format.h"

#define AT(member) offsetof(struct ftk_config, member)
#define SLOW 1e6    /* bytes per second: a lower bandwidth is probably a mistake */
#define MANY 30     /* a period of fewer calls is probably meant so */
#define SHORT_S 1.0 /* a process may stand still for as long on a busy machine */

struct sense {
    const struct ftk_config *cfg;
    ftk_sense_fn *say;
    void *arg;
};

static void idle(const struct sense *s, const char *why, size_t key)
{
    s->say(s->arg, FTK_SENSE_IDLE, key, why);
}

static bool has_groups(const struct ftk_scheme_facts *f)
{
    return f->parities != 0;
}

static bool asks_parities(const struct ftk_scheme_facts *f)
{
    return f->parities == FTK_PARITIES_ASKED;
}

static bool has_map(const struct ftk_scheme_facts *f)
{
    return f->copies > 0;
}

/* Report a key that has an effect only with schemes for which has() is true, if the scheme is not
 * one of them.  The text ends with `one` after one scheme, with `several` after more. */
static void only_with(const struct sense *s, int scheme,
    bool (*has)(const struct ftk_scheme_facts *f), const char *one, const char *several, size_t key)
{
    char why[160];
    int n = 0;
    if (has(ftk_scheme_facts(scheme)))
        return;
    int at = snprintf(why, sizeof why, "without effect: only scheme = ");
    for (int i = 0; i < FTK_SCHEMES && at < (int)sizeof why; i++)
        if (has(ftk_scheme_facts(i)))
            at += snprintf(why + at, sizeof why - (size_t)at, "%s%s", n++ > 0 ? " and " : "",
                ftk_scheme_facts(i)->word);
    if (at < (int)sizeof why)
        snprintf(why + at, sizeof why - (size_t)at, " %s", n == 1 ? one : several);
    idle(s, why, key);
}

/* ---- levels -------------------------------------------------------------------------- */

/* Whether a level's scheme uses its group and parity. */
static void look_at_group(
    const struct sense *s, int scheme, int group, int parity, size_t at_group, size_t at_parity)
{
    char why[160];
    only_with(s, scheme, has_groups, "makes groups", "make groups", at_group);
    only_with(s, scheme, asks_parities, "asks for a number of parities",
        "ask for a number of parities", at_parity);
    if (!asks_parities(ftk_scheme_facts(scheme)) || parity < group)
        return;
    snprintf(why, sizeof why,
        "%d parities in a group of %d ranks leave no room for data: choose parity from 1 to %d, "
        "or a larger group",
        parity, group, group - 1);
    s->say(s->arg, FTK_SENSE_WRONG, at_parity, why);
}

static void look_at_memory(const struct sense *s)
{
    const struct ftk_config *c = s->cfg;
    look_at_group(s, c->scheme, c->group, c->parity, AT(group), AT(parity));
    only_with(s, c->scheme, has_map, "has a map", "have a map", AT(map));
    if (!ftk_scheme_shares(c->scheme))
        idle(s, "without effect: this scheme sends nothing to others", AT(incremental));
    if (!ftk_place_is(c->place, FTK_OUTLIVES_PROCESS))
        idle(s, "without effect: place = memory has no files", AT(place_dir));
    if (!ftk_scheme_keeps(c->scheme))
        idle(s, "without effect: scheme = none keeps nothing", AT(place));
}

static void look_at_local(const struct sense *s)
{
    static const char none[] = "without effect: level.local.scheme is none; choose a scheme";
    const struct ftk_config *c = s->cfg;
    if (!ftk_scheme_keeps(c->local_scheme)) {
        const size_t keys[] = { AT(local_place), AT(local_dir), AT(local_group), AT(local_parity),
            AT(local_every) };
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            idle(s, none, keys[i]);
        return;
    }
    look_at_group(
        s, c->local_scheme, c->local_group, c->local_parity, AT(local_group), AT(local_parity));
    if (!ftk_place_is(c->local_place, FTK_OUTLIVES_PROCESS))
        idle(s, "without effect: place = memory has no files", AT(local_dir));
    if (c->local_scheme == c->scheme && c->local_place == c->place
        && strcmp(c->local_dir, c->place_dir) == 0 && !has_groups(ftk_scheme_facts(c->scheme)))
        s->say(s->arg, FTK_SENSE_ODD, AT(local_scheme),
            "scheme and place are those of level.memory: this level stands no more than that; "
            "choose another");
}

static void look_at_files(const struct sense *s)
{
    const struct ftk_config *c = s->cfg;
    if (!c->h5_enabled) {
        const size_t keys[] = { AT(h5_every), AT(h5_dir), AT(h5_keep), AT(h5_writers), AT(h5_async),
            AT(h5_bandwidth), AT(h5_compress), AT(files_plain) };
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            idle(s, "without effect: level.hdf5.enabled is false", keys[i]);
        if (!*c->events)
            idle(s, "without effect: there are neither sets on the file system nor event logs",
                AT(access));
        return;
    }
    if (!c->h5_async)
        idle(s, "without effect: level.hdf5.asynchronous is false, and it is for helper threads",
            AT(h5_bandwidth));
    else if (c->h5_bandwidth > 0 && c->h5_bandwidth < SLOW)
        s->say(s->arg, FTK_SENSE_ODD, AT(h5_bandwidth),
            "less than 1 MB per second: a GB takes more than 16 minutes; 0 is for no limit");
}

/* Whether any set survives the loss of a process. */
static void look_at_all_levels(const struct sense *s)
{
    const struct ftk_config *c = s->cfg;
    if (c->h5_enabled || ftk_scheme_shares(c->local_scheme))
        return;
    if (!ftk_scheme_keeps(c->scheme) && !ftk_scheme_keeps(c->local_scheme))
        s->say(s->arg, FTK_SENSE_WRONG, AT(scheme),
            "none, and there is no other level: no set survives anything; choose a scheme, or "
            "level.hdf5.enabled = true");
    else if ((!ftk_scheme_keeps(c->scheme)
                 || (!ftk_scheme_shares(c->scheme)
                     && !ftk_place_is(c->place, FTK_OUTLIVES_PROCESS)))
             && (!ftk_scheme_keeps(c->local_scheme)
                 || !ftk_place_is(c->local_place, FTK_OUTLIVES_PROCESS)))
        s->say(s->arg, FTK_SENSE_ODD, AT(scheme),
            "each set has one copy, in the process it is of, and there are no files: the loss "
            "of a process ends the job; choose buddy, or place = shared");
}

/* ---- replicas ------------------------------------------------------------------------ */

static void look_at_replicas(const struct sense *s)
{
    const struct ftk_config *c = s->cfg;
    const char *wrong = NULL;
    if (c->replicas == 1) {
        idle(s, "without effect: replicas.count is 1", AT(replica_compare));
        idle(s, "without effect: replicas.count is 1", AT(replica_output));
        idle(s, "without effect: replicas.count is 1", AT(replica_lost));
        return;
    }
    if (!c->log_enabled)
        wrong =
            "replicas need log.enabled (ftkit run --log): a replica that differs goes back alone";
    else if (c->log_dets != FTK_DETS_NODE && c->log_dets != FTK_DETS_REFUSE)
        wrong = "replicas need log.determinants = node or refuse";
    else if (*c->log_team_list || *c->log_team_file)
        wrong = "replicas need log.teams or log.team_size, not a list of teams";
    else if (c->log_teams == FTK_TEAMS_DYNAMIC)
        wrong = "replicas need teams that stay the same, not log.teams = dynamic";
    else if (c->line == FTK_LINE_APART)
        wrong = "replicas need checkpoint.line = together: they are compared when all have the set";
    if (wrong)
        s->say(s->arg, FTK_SENSE_WRONG, AT(replicas), wrong);
}

/* ---- the rest ------------------------------------------------------------------------ */

static void look_at_silent(const struct sense *s)
{
    const struct ftk_config *c = s->cfg;
    const bool by_words = c->log_team_size == 0 && !*c->log_team_list && !*c->log_team_file;
    if (*c->log_silent && c->replicas > 1)
        s->say(s->arg, FTK_SENSE_WRONG, AT(log_silent),
            "silent teams need replicas.count = 1: replicas compare the messages in their logs");
    else if (*c->log_silent && c->log_teams == FTK_TEAMS_DYNAMIC)
        s->say(s->arg, FTK_SENSE_WRONG, AT(log_silent),
            "silent teams need teams that stay the same, not log.teams = dynamic");
    else if (*c->log_silent && by_words && c->log_teams == FTK_TEAMS_ALL)
        s->say(s->arg, FTK_SENSE_WRONG, AT(log_silent),
            "log.teams is all: one team of all ranks keeps no messages, and has no other team");
}

static void look_at_log(const struct sense *s)
{
    const size_t keys[] = { AT(log_teams), AT(log_team_size), AT(log_team_list), AT(log_team_file),
        AT(log_reteam), AT(log_reteam_gain), AT(log_silent), AT(log_helpers), AT(log_matrix),
        AT(log_dets), AT(log_check), AT(log_contexts), AT(log_memory), AT(log_dir) };
    const struct ftk_config *c = s->cfg;
    if (c->line == FTK_LINE_APART && !c->log_enabled)
        s->say(s->arg, FTK_SENSE_WRONG, AT(line),
            "apart needs log.enabled, because messages cross the line; log.teams = all logs none");
    else if (c->line == FTK_LINE_APART && c->log_dets != FTK_DETS_NODE
             && c->log_dets != FTK_DETS_REFUSE)
        s->say(s->arg, FTK_SENSE_WRONG, AT(line),
            "apart needs log.determinants = node or refuse: the others need a line at which all "
            "ranks meet");
    if (!c->log_enabled) {
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            idle(s, "without effect: log.enabled is false; use ftkit run --log", keys[i]);
        return;
    }
    look_at_silent(s);
    if (c->log_helpers > 0 && c->replicas > 1)
        s->say(s->arg, FTK_SENSE_WRONG, AT(log_helpers),
            "help in a replay needs replicas.count = 1: with replicas another process goes on");
    if (c->log_teams == FTK_TEAMS_DYNAMIC) {
        if (c->line == FTK_LINE_APART)
            s->say(s->arg, FTK_SENSE_WRONG, AT(log_teams),
                "dynamic needs checkpoint.line = together: other teams begin where all ranks meet");
        return;
    }
    idle(s, "without effect: log.teams is not dynamic", AT(log_reteam));
    idle(s, "without effect: log.teams is not dynamic", AT(log_reteam_gain));
    if (c->log_team_size > 0 || *c->log_team_list || *c->log_team_file)
        idle(s, "without effect: another key of [log] says what the teams are", AT(log_teams));
}

/* Other libraries count minutes or seconds where ftkit counts calls. */
static void look_at_unit(
    const struct sense *s, const struct ftk_period *p, const char *what, size_t key)
{
    char why[160];
    if (!p->bare || p->value < MANY)
        return;
    ftk_format(why, sizeof why,
        "a number without a unit counts %s: write '%.0f %s', '%.0fs' or '%.0fmin'", what, p->value,
        what, p->value, p->value);
    s->say(s->arg, FTK_SENSE_ODD, key, why);
}

static void look_at_times(const struct sense *s)
{
    const struct ftk_config *c = s->cfg;
    look_at_unit(s, &c->period, "calls", AT(period));
    look_at_unit(s, &c->local_every, "sets", AT(local_every));
    look_at_unit(s, &c->h5_every, "sets", AT(h5_every));
    if (c->period.kind != FTK_PERIOD_AUTO
        && (!c->h5_enabled || c->h5_every.kind != FTK_PERIOD_AUTO))
        idle(s, "without effect: no period is auto", AT(mtbf_s));
    if (c->stall_s > 0 && c->stall_s < c->timeout_s)
        s->say(s->arg, FTK_SENSE_ODD, AT(stall_s),
            "shorter than recover.timeout: the job is ended before a process that hangs is "
            "replaced; choose a longer one");
    if (c->timeout_s < SHORT_S)
        s->say(s->arg, FTK_SENSE_ODD, AT(timeout_s),
            "shorter than 1s: a busy machine stops a process for as long, and the process is "
            "killed; choose a longer one");
    if (c->timeout_s > c->mtbf_s)
        s->say(s->arg, FTK_SENSE_ODD, AT(timeout_s),
            "longer than checkpoint.mtbf: the next failure is due before a process that is "
            "stopped is replaced; choose a shorter one");
    if (c->period.kind == FTK_PERIOD_SECONDS && c->period.value > c->mtbf_s)
        s->say(s->arg, FTK_SENSE_ODD, AT(period),
            "longer than checkpoint.mtbf: a failure is due before the next set; choose a shorter "
            "one");
}

void ftk_config_sense(const struct ftk_config *cfg, ftk_sense_fn *say, void *arg)
{
    const struct sense s = { cfg, say, arg };
    look_at_memory(&s);
    look_at_local(&s);
    look_at_files(&s);
    look_at_all_levels(&s);
    look_at_log(&s);
    look_at_replicas(&s);
    look_at_times(&s);
}
