/* The verdict of `ftkit test`: what happened, and what a difference probably comes from.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#define NAMED 20 /* variables in the text */

/* ---- lines of a run ------------------------------------------------------------------ */

static FILE *errors_of(const struct ftk_test *t, const struct ftk_trial *x)
{
    char path[FTK_PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s.err", t->dir, x->name);
    return fopen(path, "re");
}

/* Add the variables that debug.check has named: "hidden of solver.c". */
static void add_variables(const struct ftk_test *t, const struct ftk_trial *x, struct ftk_list *l)
{
    static const char mark[] = "debug.check: ";
    char *line = NULL;
    size_t room = 0;
    FILE *f = errors_of(t, x);
    while (f && getline(&line, &room, f) > 0) {
        const char *name = strstr(line, mark);
        const char *end = name ? strstr(name, " has ") : NULL;
        name += name ? sizeof mark - 1 : 0;
        if (end && end > name && strstr(end, "is in no region"))
            ftk_list_add_once(l, name, (size_t)(end - name));
    }
    free(line);
    if (f)
        (void)fclose(f); /* it was only read */
}

/* The last line of `ftkit run`, without the name of the command; "": there is none. */
static void last_line(const struct ftk_test *t, const struct ftk_trial *x, char *text, size_t bytes)
{
    static const char mark[] = "ftkit run: ";
    char *line = NULL;
    size_t room = 0;
    FILE *f = errors_of(t, x);
    text[0] = '\0';
    while (f && getline(&line, &room, f) > 0)
        if (strncmp(line, mark, sizeof mark - 1) == 0 && !strstr(line, "again: --")
            && !strstr(line, "was not injected"))
            snprintf(text, bytes, "%.*s", (int)strcspn(line + sizeof mark - 1, "\n"),
                line + sizeof mark - 1);
    free(line);
    if (f)
        (void)fclose(f); /* it was only read */
}

void ftk_test_failure(const struct ftk_test *t, const struct ftk_trial *x, char why[FTK_WHY_MAX])
{
    char line[FTK_WHY_MAX / 2];
    last_line(t, x, line, sizeof line);
    if (x->code == TOOL_TIMEOUT)
        snprintf(why, FTK_WHY_MAX,
            "the run did not end within its time (%.0f s); %s.err shows where each rank was",
            x->seconds, x->name);
    else if (x->code > 128)
        snprintf(why, FTK_WHY_MAX, "the run ended by signal %d (%s)%s%s", x->code - 128,
            strsignal(x->code - 128), *line ? ": " : "", line);
    else
        snprintf(why, FTK_WHY_MAX, "the run ended with exit code %d%s%s", x->code,
            *line ? ": " : "", line);
}

bool ftk_test_unfit(const struct ftk_test *t, const struct ftk_trial *first, char why[FTK_WHY_MAX])
{
    const struct ftk_facts *f = first->facts;
    char failure[FTK_WHY_MAX];
    why[0] = '\0';
    if (first->code == TOOL_TIMEOUT || (first->code != 0 && f->opened)) {
        ftk_test_failure(t, first, failure);
        snprintf(why, FTK_WHY_MAX, "the undisturbed run failed: %.900s", failure);
    } else if (!f->opened) {
        snprintf(why, FTK_WHY_MAX,
            "the program has opened no context (exit code %d): only a program that calls "
            "ftkit_open, ftkit_recover and ftkit_checkpoint survives a kill",
            first->code);
    } else if (f->calls == 0) {
        snprintf(why, FTK_WHY_MAX,
            "the program never called ftkit_checkpoint, so there is no set to go back to");
    } else if (f->set_s < 0) {
        snprintf(why, FTK_WHY_MAX,
            "no set was written: see undisturbed.err, and the configuration of level.memory and "
            "level.hdf5");
    }
    return why[0] != '\0';
}

const char *ftk_test_course(const struct ftk_trial *x)
{
    const struct ftk_facts *f = x->facts;
    if (f->killed == 0)
        return "the run ended before";
    if (x->code != 0)
        return "failed";
    if (f->attempts > 1)
        return x->same ? "relaunched, the results are the same" : "relaunched, other results";
    if (!f->repaired)
        return x->same ? "no repair was necessary, the results are the same"
                       : "no repair was necessary, other results";
    return x->same ? "repaired in the job, the results are the same"
                   : "repaired in the job, other results";
}

/* ---- the likely reason --------------------------------------------------------------- */

static size_t put(char *text, size_t at, const char *fmt, ...) FTK_PRINTF(3, 4);
static size_t put(char *text, size_t at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text + at, FTK_WHY_MAX - at, fmt, ap);
    va_end(ap);
    at += n > 0 ? (size_t)n : 0;
    return at < FTK_WHY_MAX ? at : FTK_WHY_MAX - 1;
}

static size_t put_variables(char *text, size_t at, const struct ftk_list *l)
{
    for (size_t i = 0; i < l->n && i < NAMED; i++)
        at = put(text, at, "%s%s", i ? ", " : "", l->v[i]);
    if (l->n > NAMED)
        at = put(text, at, " and %zu more", l->n - NAMED);
    return at;
}

static void reason(enum ftk_verdict v, const struct ftk_trial *bad, const struct ftk_list *vars,
    char text[FTK_WHY_MAX])
{
    size_t at = 0;
    text[0] = '\0';
    if (v == FTK_UNSTABLE) {
        (void)put(text, 0,
            "two undisturbed runs have different results: the program itself is not "
            "deterministic, so a difference says nothing about the kills. Make its results the "
            "same in each run, or allow the difference by --tolerance");
        return;
    }
    if ((v == FTK_DIFFERS || v == FTK_FAILED) && vars->n > 0) {
        at = put(text, at,
            "these variables are in no region, and after a rollback they were not as at the "
            "set: ");
        at = put_variables(text, at, vars);
        at = put(text, at, ". Register those that the loop needs");
    } else if (v == FTK_SAME && vars->n > 0) {
        at = put(text, at,
            "these variables are in no region and changed after a set, without an effect on "
            "what was compared: ");
        at = put_variables(text, at, vars);
    } else if (v == FTK_DIFFERS) {
        at = put(text, at,
            "debug.check names no variable. It sees variables of static storage only: a variable "
            "on the heap or on the stack may be in no region");
    }
    if (bad && bad->facts->before_set > 0)
        at = put(text, at, "%sa kill came before the first set, so the job began anew",
            at ? ". Also, " : "");
    if (bad && v == FTK_DIFFERS && bad->facts->attempts > 1)
        (void)put(text, at,
            "%sthe job was relaunched: a file to which the program appends has "
            "the lines of all attempts",
            at ? ". Also, " : "");
}

/* ---- printing ------------------------------------------------------------------------ */

static const char *const words[] = {
    [FTK_SAME] = "same",
    [FTK_UNFIT] = "unfit",
    [FTK_FAILED] = "failed",
    [FTK_DIFFERS] = "differs",
    [FTK_UNSTABLE] = "not deterministic",
    [FTK_UNTESTED] = "untested",
};

struct counts {
    size_t kills, injected, survived, repaired, relaunched;
};

static bool compares(const struct ftk_test *t)
{
    return t->files.n > 0 || t->regions || t->output;
}

static void print_text(const struct ftk_test *t, enum ftk_verdict v, const struct counts *c,
    const struct ftk_trial *bad, const char *why)
{
    if (v == FTK_UNFIT) {
        printf("not tested: %s\n", bad->why);
        return;
    }
    if (v == FTK_UNTESTED) {
        printf("not tested: each run ended before its kill was due\n");
        return;
    }
    printf("survived %zu of %zu kills", c->survived, c->injected);
    if (c->repaired > 0 || c->relaunched > 0)
        printf(" (%zu repaired in the job, %zu by a relaunch)", c->repaired, c->relaunched);
    if (v == FTK_SAME)
        printf(compares(t) ? "; the results are the same\n"
                           : "; no results were compared: name them by --compare, --regions or "
                             "--stdout\n");
    else
        printf("; first, %s %s '%s': %s\n", bad->name, bad->option, bad->fault, bad->why);
    if (*why)
        printf("%s: %s\n",
            v == FTK_SAME       ? "note"
            : v == FTK_UNSTABLE ? "reason"
                                : "likely reason",
            why);
    if (c->injected < c->kills)
        printf(
            "in %zu runs nothing was killed, because they ended before\n", c->kills - c->injected);
}

static void print_trial(struct ftk_json *j, const struct ftk_trial *x)
{
    ftk_json_open(j, NULL, '{');
    ftk_json_text(j, "name", x->name);
    ftk_json_text(j, "option", x->option);
    ftk_json_text(j, "fault", x->fault);
    ftk_json_int(j, "killed", x->facts->killed);
    ftk_json_int(j, "code", x->code);
    ftk_json_real(j, "seconds", x->seconds);
    ftk_json_uint(j, "calls", x->facts->calls);
    ftk_json_bool(j, "repaired", x->facts->repaired);
    ftk_json_int(j, "attempts", x->facts->attempts);
    ftk_json_bool(j, "same", x->code == 0 && x->same);
    ftk_json_text(j, "why", x->why);
    ftk_json_close(j, '}');
}

static void print_json(const struct ftk_test *t, enum ftk_verdict v, const struct ftk_trial *all,
    size_t n, const struct ftk_list *vars, const char *why)
{
    struct ftk_json j = { .out = stdout };
    ftk_json_open(&j, NULL, '{');
    ftk_json_text(&j, "verdict", words[v]);
    ftk_json_text(&j, "reason", why);
    ftk_json_uint(&j, "seed", t->seed);
    ftk_json_text(&j, "directory", t->dir);
    ftk_json_bool(&j, "compared", compares(t));
    ftk_json_open(&j, "variables", '[');
    for (size_t i = 0; i < vars->n; i++)
        ftk_json_text(&j, NULL, vars->v[i]);
    ftk_json_close(&j, ']');
    ftk_json_open(&j, "runs", '[');
    for (size_t i = 0; i < n; i++)
        print_trial(&j, &all[i]);
    ftk_json_close(&j, ']');
    ftk_json_close(&j, '}');
}

/* ---- the verdict --------------------------------------------------------------------- */

static enum ftk_verdict decide(const struct ftk_trial *all, size_t n, const struct ftk_trial *again,
    struct counts *c, const struct ftk_trial **bad)
{
    enum ftk_verdict v = FTK_SAME;
    *bad = &all[0];
    if (n == 1)
        return FTK_UNFIT;
    for (size_t i = 1; i < n; i++) {
        const struct ftk_trial *x = &all[i];
        bool good = x->code == 0 && x->same;
        c->kills++;
        c->injected += x->facts->killed > 0;
        c->survived += good && x->facts->killed > 0;
        c->relaunched += good && x->facts->killed > 0 && x->facts->attempts > 1;
        c->repaired += good && x->facts->repaired && x->facts->attempts == 1;
        if (good || v != FTK_SAME)
            continue;
        v = x->code != 0 ? FTK_FAILED : FTK_DIFFERS;
        *bad = x;
    }
    if (again && again->code == 0 && !again->same && v == FTK_DIFFERS)
        return FTK_UNSTABLE;
    return v == FTK_SAME && c->injected == 0 ? FTK_UNTESTED : v;
}

enum ftk_verdict ftk_test_judge(
    const struct ftk_test *t, const struct ftk_trial *all, size_t n, const struct ftk_trial *again)
{
    struct counts c = { 0 };
    struct ftk_list vars = { 0 };
    const struct ftk_trial *bad;
    char why[FTK_WHY_MAX];
    enum ftk_verdict v = decide(all, n, again, &c, &bad);
    for (size_t i = 1; i < n; i++)
        add_variables(t, &all[i], &vars);
    if (v == FTK_UNFIT)
        snprintf(why, sizeof why, "%s", bad->why);
    else
        reason(v, bad, &vars, why);
    if (t->json)
        print_json(t, v, all, n, &vars, why);
    else
        print_text(t, v, &c, bad, v == FTK_UNFIT ? "" : why);
    ftk_list_free(&vars);
    return v;
}
