/* ftkit repair: repair sets as far as possible without the job.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sets.h"
#include "detect/watch_page.h"
#include "store/owner.h"

void ftk_repair_usage(FILE *out)
{
    fputs("usage: ftkit repair [--json] [--progress] [--context NAME] [--dry-run] DIR [SET]...\n"
          "\n"
          "Repair sets where possible, and report damage that cannot be repaired:\n"
          "\n"
          "  - files that interrupted writes have left are removed\n"
          "  - a damaged or missing manifest is made again from the parts, when all parts\n"
          "    exist and every byte of them is good; so is a master\n"
          "  - a damaged part, or a damaged file of the program, cannot be repaired, because\n"
          "    the file system has no second copy: restart from an older set\n"
          "\n"
          "SET is a number or newest, the newest complete set; without SET, all sets of DIR.\n"
          "A set without its manifest is not complete: name its number.\n"
          "\n"
          "  --context NAME  the context, when there are several in DIR\n"
          "  --dry-run       only say what would be done\n"
          "  --json          as an object: directory, dry_run, good, sets[]: context, set,\n"
          "                  state (before), good (after), steps[]: file, result (removed,\n"
          "                  made, failed, incomplete), text (null: removed and made have none)\n"
          "  --progress      show the progress on standard error, also when it is no terminal\n"
          "\n"
          "The sets of a running job are not touched.  An incomplete set without all its\n"
          "parts does not count as damaged: `ftkit prune --incomplete` removes it.\n"
          "\n"
          "Exit code:\n"
          "  0  everything is good now\n"
          "  1  something cannot be repaired, a job uses the sets, or there is no such set\n"
          "  2  usage, or there are no sets\n",
        out);
}

/* A set under repair. */
struct patient {
    const char *dir, *context;
    uint64_t set;
    const struct ftk_level_ops *level;
    bool dry_run;
    struct ftk_json *j; /* NULL: text */
    struct ftk_manifest m;
    bool has_manifest;
    uint32_t part;  /* for verify_one() */
    uint64_t bytes; /* of its files */
    bool incomplete;
    int done, failed; /* numbers of repairs */
};

/* Report a step.  result: "removed", "made", "failed" or "incomplete"; why: NULL for the first
 * two. */
static void report_step(struct patient *p, const char *file, const char *result, const char *why)
{
    ftk_progress_clear();
    ftk_json_open(p->j, NULL, '{');
    ftk_json_text(p->j, "file", file);
    ftk_json_text(p->j, "result", result);
    if (why)
        ftk_json_text(p->j, "text", ftk_tool_why(why));
    else
        ftk_json_null(p->j, "text");
    ftk_json_close(p->j, '}');
}

static void did(struct patient *p, const char *file, const char *result)
{
    p->done++;
    if (p->j) {
        report_step(p, file, result, NULL);
        return;
    }
    ftk_progress_clear();
    printf("set %" PRIu64 " of '%s': %s: %s%s\n", p->set, p->context, file,
        p->dry_run ? "would be " : "",
        strcmp(result, "made") == 0 ? "made again from the parts" : result);
}

static bool any_failure; /* of all sets */

static void cannot(struct patient *p, const char *file, const char *why)
{
    p->failed++;
    any_failure = true;
    if (p->j) {
        report_step(p, file, "failed", why);
        return;
    }
    ftk_progress_clear();
    printf("set %" PRIu64 " of '%s': %s: cannot be repaired: %s\n", p->set, p->context, file,
        ftk_tool_why(why));
}

static void is_incomplete(struct patient *p, const char *why)
{
    if (p->j) {
        report_step(p, "manifest", "incomplete", why);
        return;
    }
    ftk_progress_clear();
    printf("set %" PRIu64 " of '%s': incomplete: %s\n", p->set, p->context, why);
}

/* ---- steps that read, each in a process of its own ----------------------------------- */

static void print_finding(const struct ftk_finding *f, void *arg)
{
    fputs(ftk_tool_why(f->file), arg); /* a file of the program has any name */
    fprintf(arg, "%s%s: %s\n", f->region[0] ? ", region " : "", f->region, ftk_tool_why(f->text));
}

static int verify_one(void *arg, FILE *out)
{
    struct patient *p = arg;
    int rc = p->part < p->m.nparts ? p->level->verify(p->dir, &p->m, p->part, print_finding, out)
                                   : p->level->verify_extra(p->dir, &p->m, print_finding, out);
    return rc == FTKIT_OK ? TOOL_OK : TOOL_FAIL;
}

#define NOT_THERE 3 /* exit code: parts are missing */

static int make_manifest(void *arg, FILE *out)
{
    struct patient *p = arg;
    struct ftk_manifest m;
    ftk_detail_clear();
    int rc = p->level->derive(p->dir, p->context, p->set, print_finding, out, &m);
    if (rc == FTKIT_OK) {
        if (!p->dry_run)
            rc = p->level->commit(p->dir, 0, &m);
        ftk_manifest_free(&m);
    }
    if (rc != FTKIT_OK)
        fprintf(out, "%s\n", ftk_tool_why(ftk_detail_text()));
    return rc == FTKIT_OK ? TOOL_OK : rc == FTKIT_ERR_LOST ? NOT_THERE : TOOL_FAIL;
}

static int make_extra(void *arg, FILE *out)
{
    const struct patient *p = arg;
    int rc = p->level->make_extra(p->dir, &p->m);
    if (rc != FTKIT_OK)
        fprintf(out, "%s\n", ftk_tool_why(ftk_detail_text()));
    return rc == FTKIT_OK ? TOOL_OK : TOOL_FAIL;
}

/* Run one of these functions; its exit code.  why gets the first line of its output. */
static int run(ftk_isolated_fn *fn, struct patient *p, char why[FTK_DETAIL_MAX])
{
    struct ftk_isolated r;
    ftk_isolate(fn, p, p->bytes, &r);
    snprintf(why, FTK_DETAIL_MAX, "%s", r.why[0] ? r.why : r.text ? r.text : "");
    why[strcspn(why, "\n")] = '\0';
    free(r.text);
    return r.code;
}

/* ---- the steps --------------------------------------------------------------------------
 * In this order: each step may rely on the repairs of the steps before.  A step without anything
 * to repair does nothing. */

static void report_litter(const char *name, void *arg)
{
    did(arg, name, "removed");
}

static void mend_litter(struct patient *p)
{
    if (p->level->leftovers
        && p->level->leftovers(p->dir, p->context, p->set, p->dry_run, report_litter, p)
               != FTKIT_OK)
        cannot(p, "directory", ftk_detail_text());
}

static void no_manifest(struct patient *p, const char *why)
{
    cannot(p, "manifest", why);
}

static void mend_manifest(struct patient *p)
{
    char why[FTK_DETAIL_MAX];
    p->has_manifest = ftk_sets_manifest(p->dir, p->context, p->set, &p->m) == FTKIT_OK;
    if (p->has_manifest)
        return;
    if (!p->level->derive) { /* the detail is of the manifest */
        snprintf(why, sizeof why, "%s", ftk_detail_text());
        (p->incomplete ? is_incomplete : no_manifest)(p, why);
        return;
    }
    int code = run(make_manifest, p, why);
    if (code == NOT_THERE && p->incomplete) {
        is_incomplete(p, why);
    } else if (code != TOOL_OK) {
        cannot(p, "manifest", why);
    } else {
        did(p, "manifest", "made");
        p->has_manifest = ftk_sets_manifest(p->dir, p->context, p->set, &p->m) == FTKIT_OK;
    }
}

/* Parts are only checked: the file system has no parity to repair them from. */
static void mend_parts(struct patient *p)
{
    for (p->part = 0; p->has_manifest && p->part < p->m.nparts; p->part++) {
        char name[FTK_SETS_DIR_NAME_MAX], why[FTK_DETAIL_MAX];
        p->level->part_name(p->m.parts[p->part].part, name);
        if (run(verify_one, p, why) != TOOL_OK)
            cannot(p, name, why);
    }
}

static void mend_extra(struct patient *p)
{
    char why[FTK_DETAIL_MAX];
    const char *extra = p->level->extra;
    if (!p->has_manifest || !extra)
        return;
    p->part = p->m.nparts;
    if (run(verify_one, p, why) == TOOL_OK)
        return;
    if (p->failed > 0)
        cannot(p, extra, "it is made from the parts");
    else if (!p->dry_run && run(make_extra, p, why) != TOOL_OK)
        cannot(p, extra, why);
    else
        did(p, extra, "made");
}

static void (*const steps[])(
    struct patient *p) = { mend_litter, mend_manifest, mend_parts, mend_extra };

static int repair_set(const struct ftk_where *w, const char *context, const struct ftk_set_entry *e,
    bool dry_run, struct ftk_json *j)
{
    struct patient p = { .dir = w->dir,
        .context = context,
        .set = e->set,
        .level = ftk_sets_level_of(w->dir, context, e->set),
        .dry_run = dry_run,
        .j = j,
        .bytes = e->bytes,
        .incomplete = e->state == FTK_SET_INCOMPLETE };
    ftk_progress_work(0, "repairing set %" PRIu64 " of '%s'", e->set, context);
    if (j) {
        ftk_json_open(j, NULL, '{');
        ftk_json_text(j, "context", context);
        ftk_json_uint(j, "set", e->set);
        ftk_json_text(j, "state", ftk_state_name(e->state));
        ftk_json_open(j, "steps", '[');
    }
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        steps[i](&p);
    if (j) {
        ftk_json_close(j, ']');
        ftk_json_bool(j, "good", p.failed == 0 && p.has_manifest && !(p.done && dry_run));
        ftk_json_close(j, '}');
    }
    ftk_manifest_free(&p.m);
    fflush(stdout);
    return p.failed ? TOOL_FAIL : TOOL_OK;
}

/* ---- the command --------------------------------------------------------------------- */

/* Whether no living job owns the sets. */
static bool is_free(const struct ftk_where *w, const char *context)
{
    bool alive = false;
    char owner[256];
    struct ftk_owner_record r;
    if (ftk_owner_alive(w->dir, context, ftk_dog_job_lives, &alive, &r) != FTKIT_OK) {
        ftk_tool_say("%s", ftk_tool_why(ftk_detail_text()));
        return false;
    }
    if (!alive)
        return true;
    ftk_owner_text(&r, owner, sizeof owner);
    ftk_tool_say(
        "the sets of '%s' are left alone: they belong to %s, which is alive; repair them when it "
        "has ended",
        context, owner);
    return false;
}

/* Repair all sets of a context; *all counts them. */
static int repair_context(const struct ftk_where *w, const char *context, const struct ftk_opts *o,
    struct ftk_json *j, size_t *all)
{
    struct ftk_set_entry *e = NULL;
    size_t n = 0;
    int code = TOOL_OK;
    if (!is_free(w, context))
        return TOOL_FAIL;
    if (ftk_sets_survey(w->dir, context, &e, &n) != FTKIT_OK) {
        ftk_tool_say("%s", ftk_tool_why(ftk_detail_text()));
        return TOOL_FAIL;
    }
    *all += n;
    for (size_t i = 0; i < n; i++)
        if (repair_set(w, context, &e[i], o->dry_run, j) != TOOL_OK)
            code = TOOL_FAIL;
    free(e);
    return code;
}

/* Repair the sets that the arguments name. */
static int repair_named(const struct ftk_where *w, const struct ftk_opts *o, struct ftk_json *j)
{
    size_t n = 0;
    if (!is_free(w, w->contexts[0]))
        return TOOL_FAIL;
    uint64_t *sets = ftk_tool_alloc((size_t)o->nargs * sizeof *sets);
    int code = ftk_sets_named(w, o, sets, &n);
    for (size_t i = 0; i < n; i++) {
        struct ftk_set_entry e;
        int rc = ftk_sets_examine(w->dir, w->contexts[0], sets[i], &e);
        if (rc != FTKIT_OK)
            ftk_set_missing(w->dir, rc);
        if (rc != FTKIT_OK || repair_set(w, w->contexts[0], &e, o->dry_run, j) != TOOL_OK)
            code = TOOL_FAIL;
    }
    free(sets);
    return code;
}

static int repair(const struct ftk_where *w, const struct ftk_opts *o)
{
    struct ftk_json json = { .out = stdout }, *j = o->json ? &json : NULL;
    size_t all = 0;
    int code = TOOL_OK;
    if (j) {
        ftk_json_open(j, NULL, '{');
        ftk_json_text(j, "directory", w->dir);
        ftk_json_bool(j, "dry_run", o->dry_run);
        ftk_json_open(j, "sets", '[');
    }
    if (o->nargs > 1)
        code = repair_named(w, o, j);
    for (size_t i = 0; i < w->n && o->nargs == 1; i++) {
        int bad = repair_context(w, w->contexts[i], o, j, &all);
        code = bad ? bad : code;
    }
    if (all == 0 && o->nargs == 1 && code == TOOL_OK) {
        ftk_tool_say("no sets in %s", w->dir);
        code = TOOL_USAGE;
    }
    if (any_failure && !j)
        ftk_tool_say(
            "restart from an older set: `ftkit ls %s` lists the sets, and `ftkit run --set "
            "N` starts from set N",
            w->dir);
    if (j) {
        ftk_json_close(j, ']');
        ftk_json_bool(j, "good", code == TOOL_OK);
        ftk_json_close(j, '}');
    }
    return code;
}

static int check_args(const struct ftk_opts *o)
{
    uint64_t set;
    if (o->nargs < 1)
        return ftk_opts_args(o, ftk_repair_usage, 1, "DIR");
    for (int i = 1; i < o->nargs; i++)
        if (ftk_set_number(o->args[i], &set) != 0)
            return TOOL_USAGE;
    return 0;
}

int ftk_repair_main(int argc, char **argv)
{
    struct ftk_opts o;
    struct ftk_where w;
    int code = ftk_opts_parse(
        argc, argv, OPT_JSON | OPT_CONTEXT | OPT_DRY_RUN | OPT_PROGRESS, ftk_repair_usage, &o);
    if (code)
        return code - 1;
    code = check_args(&o);
    if (code == 0)
        code = ftk_where_find(o.args[0], o.context, &w);
    if (code)
        return code;
    code = ftk_where_set(&w, &o, true);
    if (code == 0 && o.nargs > 1)
        code = ftk_where_single(&w);
    if (code == 0)
        code = repair(&w, &o);
    ftk_where_free(&w);
    return ftk_tool_end(code);
}
