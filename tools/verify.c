/* ftkit verify: check every byte of the sets of a directory.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sets.h"

void ftk_verify_usage(FILE *out)
{
    fputs("usage: ftkit verify [--json] [--progress] [--context NAME] DIR [SET]...\n"
          "       ftkit verify --slots [--json] [DIR]\n"
          "\n"
          "Read every byte of sets and compare it with its checksum: manifest, all ranks\n"
          "in all parts, files of the program, master.  Name what is damaged by file, rank,\n"
          "region and block.\n"
          "SET is a number or newest, the newest complete set; without SET, all sets of DIR\n"
          "except incomplete ones.  DIR may be the directory of one set, or a link.\n"
          "\n"
          "  --context NAME  the context, when there are several in DIR\n"
          "  --json          as an object: directory, good, sets[]: context, set, good,\n"
          "                  state, bytes, damage[]: file, rank, region, block (each "
          "null:\n"
          "                  all of it), kind (missing, corrupt, format, io, crash), text.\n"
          "                  With --slots the keys of `ftkit ls --slots`\n"
          "  --progress      show the progress on standard error, also when it is no terminal\n"
          "  --slots         verify the slots in DIR (/dev/shm) that ended jobs have left on\n"
          "                  this node; a relaunch makes a damaged slot again from copies or\n"
          "                  parity, if enough of these are good\n"
          "\n"
          "An incomplete set does not count as damaged, except when SET names it.\n"
          "\n"
          "Exit code:\n"
          "  0  everything is good\n"
          "  1  something is damaged or cannot be read, or there is no such set\n"
          "  2  usage, or there is nothing to verify\n",
        out);
}

/* A part or the master, to be verified in a process of its own. */
struct job {
    const char *dir;
    const struct ftk_manifest *m;
    uint32_t part; /* m->nparts: the master */
    FILE *out;
    bool lost; /* a finding could not be written */
};

static const char *kind_of(int code)
{
    switch (code) {
    case FTKIT_ERR_NOT_FOUND:
        return "missing";
    case FTKIT_ERR_CORRUPT:
    case FTKIT_ERR_MISMATCH:
        return "corrupt";
    case FTKIT_ERR_FORMAT:
        return "format";
    case FTKIT_ERR_INTERNAL:
        return "crash";
    default:
        return "io";
    }
}

/* ---- printing ------------------------------------------------------------------------ */

struct printer {
    struct ftk_json *json; /* NULL: text */
    bool bad;
};

static bool any_damage; /* of all sets */

static void print_finding(const struct ftk_finding *f, struct printer *p)
{
    p->bad = any_damage = true;
    ftk_progress_clear();
    if (!p->json) {
        printf("  %s", ftk_tool_why(f->file)); /* a file of the program has any name */
        if (f->rank >= 0)
            printf(", rank %" PRId64, f->rank);
        if (f->region[0])
            printf(", region '%s'", f->region);
        if (f->block >= 0)
            printf(", block %" PRId64, f->block);
        printf(": %s (%s)\n", kind_of(f->code), ftk_tool_why(f->text));
        return;
    }
    struct ftk_json *j = p->json;
    ftk_json_open(j, NULL, '{');
    ftk_json_text(j, "file", f->file);
    if (f->rank >= 0)
        ftk_json_int(j, "rank", f->rank);
    else
        ftk_json_null(j, "rank");
    if (f->region[0])
        ftk_json_text(j, "region", f->region);
    else
        ftk_json_null(j, "region");
    if (f->block >= 0)
        ftk_json_int(j, "block", f->block);
    else
        ftk_json_null(j, "block");
    ftk_json_text(j, "kind", kind_of(f->code));
    ftk_json_text(j, "text", ftk_tool_why(f->text));
    ftk_json_close(j, '}');
}

static void file_finding(struct printer *p, const char *file, int code, const char *text)
{
    struct ftk_finding f = { .code = code, .rank = -1, .block = -1 };
    snprintf(f.file, sizeof f.file, "%s", file);
    snprintf(f.text, sizeof f.text, "%s", text);
    print_finding(&f, p);
}

/* ---- one file ------------------------------------------------------------------------ */

static void send_finding(const struct ftk_finding *f, void *arg)
{
    struct job *job = arg;
    job->lost |= fwrite(f, sizeof *f, 1, job->out) != 1;
}

static int verify_file(void *arg, FILE *out)
{
    struct job *job = arg;
    job->out = out;
    ftk_detail_clear();
    int rc = job->part < job->m->nparts
                 ? job->m->level->verify(job->dir, job->m, job->part, send_finding, job)
                 : job->m->level->verify_extra(job->dir, job->m, send_finding, job);
    return rc == FTKIT_OK && !job->lost ? TOOL_OK : TOOL_FAIL;
}

static void verify_isolated(struct printer *p, struct job *job, const char *file, uint64_t bytes)
{
    struct ftk_isolated r;
    struct ftk_finding f;
    ftk_isolate(verify_file, job, bytes, &r);
    size_t n = r.text ? r.bytes / sizeof f : 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(&f, r.text + i * sizeof f, sizeof f);
        print_finding(&f, p);
    }
    if (r.why[0])
        file_finding(p, file, FTKIT_ERR_INTERNAL, r.why);
    else if (n == 0 && r.code != TOOL_OK)
        file_finding(p, file, FTKIT_ERR_IO, "cannot be opened");
    free(r.text);
}

/* ---- one set ------------------------------------------------------------------------- */

/* The bytes of all parts, UINT64_MAX at most. */
static uint64_t bytes_of(const struct ftk_manifest *m)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < m->nparts; i++)
        if (__builtin_add_overflow(all, m->parts[i].file_bytes, &all))
            return UINT64_MAX;
    return all;
}

static void verify_parts(struct printer *p, const char *dir, const struct ftk_manifest *m)
{
    struct job job = { .dir = dir, .m = m };
    uint64_t all = bytes_of(m);
    ftk_progress_work(all, "verifying set %" PRIu64 " of '%s'", m->set, m->context);
    for (uint32_t i = 0; i < m->nparts; i++) {
        char name[FTK_SETS_DIR_NAME_MAX];
        uint64_t bytes = m->parts[i].file_bytes;
        m->level->part_name(m->parts[i].part, name);
        job.part = i;
        verify_isolated(p, &job, name, bytes);
    }
    if (!m->level->extra)
        return;
    job.part = m->nparts;
    ftk_progress_work(0, "verifying the master of set %" PRIu64 " of '%s'", m->set, m->context);
    verify_isolated(p, &job, m->level->extra, all / 16);
}

static void set_head(struct printer *p, const char *context, const struct ftk_set_entry *e)
{
    ftk_progress_clear();
    if (!p->json) {
        printf("set %" PRIu64 " of '%s':\n", e->set, context);
        return;
    }
    ftk_json_open(p->json, NULL, '{');
    ftk_json_text(p->json, "context", context);
    ftk_json_uint(p->json, "set", e->set);
    ftk_json_text(p->json, "state", ftk_state_name(e->state));
    ftk_json_uint(p->json, "bytes", e->bytes);
    ftk_json_open(p->json, "damage", '[');
}

static void set_tail(struct printer *p)
{
    ftk_progress_clear();
    if (!p->json) {
        printf("  %s\n", p->bad ? "damaged" : "good");
        return;
    }
    ftk_json_close(p->json, ']');
    ftk_json_bool(p->json, "good", !p->bad);
    ftk_json_close(p->json, '}');
}

/* TOOL_OK: the set is good; else TOOL_FAIL. */
static int verify_set(
    const char *dir, const char *context, const struct ftk_set_entry *e, struct ftk_json *j)
{
    struct printer p = { .json = j };
    struct ftk_manifest m;
    set_head(&p, context, e);
    int rc = ftk_sets_manifest(dir, context, e->set, &m);
    if (rc == FTKIT_OK) {
        verify_parts(&p, dir, &m);
        ftk_manifest_free(&m);
    } else {
        file_finding(&p, "manifest", rc, ftk_detail_text());
    }
    set_tail(&p);
    fflush(stdout);
    return p.bad ? TOOL_FAIL : TOOL_OK;
}

/* ---- the command --------------------------------------------------------------------- */

static int verify_named(const struct ftk_where *w, const struct ftk_opts *o, struct ftk_json *j)
{
    size_t n = 0;
    uint64_t *sets = ftk_tool_alloc((size_t)o->nargs * sizeof *sets);
    int code = ftk_sets_named(w, o, sets, &n);
    for (size_t i = 0; i < n; i++) {
        struct ftk_set_entry e;
        int rc = ftk_sets_examine(w->dir, w->contexts[0], sets[i], &e);
        if (rc != FTKIT_OK) {
            ftk_set_missing(w->dir, rc);
            code = TOOL_FAIL;
            continue;
        }
        int bad = verify_set(w->dir, w->contexts[0], &e, j);
        code = bad ? bad : code;
    }
    free(sets);
    return code;
}

/* Verify all sets that are not incomplete; *all counts them. */
static int verify_all(const struct ftk_where *w, struct ftk_json *j, size_t *all)
{
    int code = TOOL_OK;
    for (size_t i = 0; i < w->n; i++) {
        struct ftk_set_entry *e = NULL;
        size_t n = 0;
        if (ftk_sets_survey(w->dir, w->contexts[i], &e, &n) != FTKIT_OK) {
            ftk_tool_say("%s", ftk_tool_why(ftk_detail_text()));
            code = TOOL_FAIL;
        }
        for (size_t k = 0; k < n; k++) {
            if (e[k].state == FTK_SET_INCOMPLETE)
                continue;
            (*all)++;
            if (verify_set(w->dir, w->contexts[i], &e[k], j) != TOOL_OK)
                code = TOOL_FAIL;
        }
        free(e);
    }
    return code;
}

static int check_args(const struct ftk_opts *o)
{
    uint64_t set;
    if (o->slots && o->context)
        return ftk_usage_wrong(ftk_verify_usage, "--slots has no use for --context");
    if (o->slots)
        return ftk_opts_args(o, ftk_verify_usage, 0, "DIR");
    if (o->nargs < 1)
        return ftk_opts_args(o, ftk_verify_usage, 1, "DIR");
    for (int i = 1; i < o->nargs; i++)
        if (ftk_set_number(o->args[i], &set) != 0)
            return TOOL_USAGE;
    return 0;
}

int ftk_verify_main(int argc, char **argv)
{
    struct ftk_opts o;
    struct ftk_where w;
    struct ftk_json json = { .out = stdout };
    int code = ftk_opts_parse(
        argc, argv, OPT_JSON | OPT_CONTEXT | OPT_SLOTS | OPT_PROGRESS, ftk_verify_usage, &o);
    if (code)
        return code - 1;
    code = check_args(&o);
    if (code == 0 && o.slots)
        return ftk_slots_list(&o, true);
    if (code == 0)
        code = ftk_where_find(o.args[0], o.context, &w);
    if (code)
        return code;
    code = ftk_where_set(&w, &o, true);
    if (code == 0 && o.nargs > 1)
        code = ftk_where_single(&w);
    if (code != 0) {
        ftk_where_free(&w);
        return code;
    }
    struct ftk_json *j = o.json ? &json : NULL;
    if (j) {
        ftk_json_open(j, NULL, '{');
        ftk_json_text(j, "directory", w.dir);
        ftk_json_open(j, "sets", '[');
    }
    size_t n = 0;
    code = o.nargs > 1 ? verify_named(&w, &o, j) : verify_all(&w, j, &n);
    if (o.nargs == 1 && n == 0 && code == TOOL_OK) {
        ftk_tool_say("no finished set in %s: nothing was verified", w.dir);
        code = TOOL_USAGE;
    }
    if (j) {
        ftk_json_close(j, ']');
        ftk_json_bool(j, "good", code == TOOL_OK);
        ftk_json_close(j, '}');
    }
    if (any_damage && !j)
        ftk_tool_say("there is damage: `ftkit repair %s` makes manifests and masters again", w.dir);
    ftk_where_free(&w);
    return ftk_tool_end(code);
}
