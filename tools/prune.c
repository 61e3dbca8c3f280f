/* ftkit prune: remove old sets.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sets.h"
#include "detect/watch_page.h"
#include "store/joint_dir.h"
#include "store/owner.h"

void ftk_prune_usage(FILE *out)
{
    fputs("usage: ftkit prune [--context NAME] [--dry-run] [--json] [--incomplete] [--keep N] DIR\n"
          "       ftkit prune --slots [--dry-run] [--json] [DIR]\n"
          "\n"
          "Remove sets, in every context of DIR.  Give --keep, --incomplete or both.\n"
          "\n"
          "  --keep N        keep the newest N complete sets, N >= 1; remove all older sets,\n"
          "                  also incomplete and damaged ones\n"
          "  --incomplete    remove all incomplete and damaged sets, also new ones\n"
          "  --context NAME  only the sets of this context\n"
          "  --dry-run       only say what would be removed\n"
          "  --json          as an object: directory, dry_run, sets[] (that are to go):\n"
          "                  context, set, state, reason (old, incomplete, damaged), removed;\n"
          "                  joint (directories of joint files that jobs have left).\n"
          "                  With --slots: dry_run, slots[]: path, bytes, removed; and\n"
          "                  other_files (their number)\n"
          "  --slots         remove the slots in DIR (/dev/shm) that level.memory and\n"
          "                  level.local of ended jobs have left on this node, although a\n"
          "                  relaunch could still use them; without DIR, remove also other\n"
          "                  files that these jobs have left in /dev/shm\n"
          "\n"
          "While a job owns the sets (see FILES in ftkit(1)), sets that are newer than the\n"
          "newest complete set are not touched: the job may be writing them.  Otherwise\n"
          "joint files that a killed job was writing are removed, too.  Only files with\n"
          "names of ftkit are removed; a directory with other files stays.\n"
          "\n"
          "Exit code:\n"
          "  0  all that was to go is removed\n"
          "  1  something could not be removed, or DIR cannot be read\n"
          "  2  usage, or there are no sets\n",
        out);
}

struct prune {
    const struct ftk_opts *o;
    const char *dir, *context;
    struct ftk_json *j; /* NULL: text */
    bool owned;         /* a job may be writing */
    size_t n;           /* sets that were found */
    size_t joint;       /* directories of joint files that were left */
};

/* Why a set is removed; NULL: it stays.  complete: number of complete sets from the newest one to
 * this one, inclusive. */
static const char *reason(const struct prune *p, const struct ftk_set_entry *e, int complete)
{
    int keep = p->o->keep;
    if (e->state == FTK_SET_COMPLETE)
        return keep > 0 && complete > keep ? "old" : NULL;
    if (p->owned && complete == 0)
        return NULL;
    if (p->o->incomplete || (keep > 0 && complete >= keep))
        return ftk_state_name(e->state);
    return NULL;
}

static void print_set(
    const struct prune *p, const struct ftk_set_entry *e, const char *why, bool removed)
{
    if (p->j) {
        ftk_json_open(p->j, NULL, '{');
        ftk_json_text(p->j, "context", p->context);
        ftk_json_uint(p->j, "set", e->set);
        ftk_json_text(p->j, "state", ftk_state_name(e->state));
        ftk_json_text(p->j, "reason", why);
        ftk_json_bool(p->j, "removed", removed);
        ftk_json_close(p->j, '}');
    } else if (removed || p->o->dry_run) {
        printf("%s set %" PRIu64 " of '%s' (%s)\n", removed ? "removed" : "would remove", e->set,
            p->context, why);
    }
}

/* Remove the directories of joint files, which only a running job needs. */
static int prune_joint(struct prune *p)
{
    const struct ftk_joint all = { p->dir, p->context, NULL };
    int rc = p->owned ? FTKIT_OK : ftk_joint_sweep(&all, 0, NULL, NULL, p->o->dry_run, &p->joint);
    if (rc == FTKIT_OK && !p->owned && !p->o->dry_run)
        rc = ftk_joint_remove(&all, 0);
    if (rc != FTKIT_OK)
        ftk_tool_say("%s", ftk_tool_why(ftk_detail_text()));
    else if (p->joint > 0 && !p->j)
        printf("%s the joint files of '%s' (left by a job)\n",
            p->o->dry_run ? "would remove" : "removed", p->context);
    return rc == FTKIT_OK ? TOOL_OK : TOOL_FAIL;
}

static int prune_context(struct prune *p)
{
    struct ftk_set_entry *e = NULL;
    struct ftk_owner_record r;
    size_t n = 0;
    int complete = 0, code = TOOL_OK;
    if (ftk_owner_alive(p->dir, p->context, ftk_dog_job_lives, &p->owned, &r) != FTKIT_OK
        || ftk_sets_survey(p->dir, p->context, &e, &n) != FTKIT_OK) {
        ftk_tool_say("%s", ftk_tool_why(ftk_detail_text()));
        return TOOL_FAIL;
    }
    p->n = n;
    for (size_t i = 0; i < n; i++) {
        complete += e[i].state == FTK_SET_COMPLETE;
        const char *why = reason(p, &e[i], complete);
        if (!why)
            continue;
        int rc = p->o->dry_run ? FTKIT_OK : ftk_sets_remove(p->dir, p->context, e[i].set);
        if (rc != FTKIT_OK) {
            ftk_tool_say("%s", ftk_tool_why(ftk_detail_text()));
            code = TOOL_FAIL;
        }
        print_set(p, &e[i], why, rc == FTKIT_OK && !p->o->dry_run);
    }
    free(e);
    return prune_joint(p) == TOOL_OK ? code : TOOL_FAIL;
}

struct node {
    const struct ftk_opts *o;
    struct ftk_json *j; /* NULL: text */
};

/* Remove a slot, unless it is in use.  An exit code. */
static int prune_slot(const char *path, int fd, const struct stat *st, void *arg)
{
    const struct node *n = arg;
    bool dry_run = n->o->dry_run;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return TOOL_OK;
    bool removed = !dry_run && unlink(path) == 0;
    if (!removed && !dry_run)
        ftk_tool_say("cannot remove %s: %s", path, strerror(errno));
    if (n->j) {
        ftk_json_open(n->j, NULL, '{');
        ftk_json_text(n->j, "path", path);
        ftk_json_uint(n->j, "bytes", (uint64_t)st->st_size);
        ftk_json_bool(n->j, "removed", removed);
        ftk_json_close(n->j, '}');
    } else if (removed || dry_run) {
        printf("%s %s (%lld bytes)\n", removed ? "removed" : "would remove", path,
            (long long)st->st_size);
    }
    return removed || dry_run ? TOOL_OK : TOOL_FAIL;
}

/* Pages of watchdogs and determinants are only in /dev/shm. */
static int prune_node(const struct ftk_opts *o, struct ftk_json *j)
{
    struct node node = { .o = o, .j = j };
    if (j) {
        ftk_json_open(j, NULL, '{');
        ftk_json_bool(j, "dry_run", o->dry_run);
        ftk_json_open(j, "slots", '[');
    }
    int code = ftk_slots_each(o, prune_slot, &node);
    int n = o->nargs == 0 ? ftk_dog_sweep(o->dry_run) : 0;
    if (j) {
        ftk_json_close(j, ']');
        ftk_json_int(j, "other_files", n > 0 ? n : 0);
        ftk_json_close(j, '}');
    } else if (n > 0) {
        printf("%s %d other file%s of jobs that are gone\n",
            o->dry_run ? "would remove" : "removed", n, n == 1 ? "" : "s");
    }
    return ftk_tool_end(code);
}

/* 0, or TOOL_USAGE after a message. */
static int check_args(const struct ftk_opts *o)
{
    int code = ftk_opts_args(o, ftk_prune_usage, !o->slots, "DIR");
    if (code)
        return code;
    if (o->slots && (o->keep >= 0 || o->incomplete || o->context))
        return ftk_usage_wrong(
            ftk_prune_usage, "--slots has no use for --keep, --incomplete and --context");
    if (o->keep == 0)
        return ftk_usage_wrong(ftk_prune_usage, "--keep is 1 or more: one complete set stays");
    if (!o->slots && o->keep < 0 && !o->incomplete)
        return ftk_usage_wrong(
            ftk_prune_usage, "which sets are to go? Give --keep N, --incomplete or both");
    return 0;
}

static int prune_sets(const struct ftk_where *w, const struct ftk_opts *o, struct ftk_json *j)
{
    size_t all = 0, joint = 0;
    int code = TOOL_OK;
    if (j) {
        ftk_json_open(j, NULL, '{');
        ftk_json_text(j, "directory", w->dir);
        ftk_json_bool(j, "dry_run", o->dry_run);
        ftk_json_open(j, "sets", '[');
    }
    for (size_t i = 0; i < w->n; i++) {
        struct prune p = { .o = o, .dir = w->dir, .context = w->contexts[i], .j = j };
        int bad = prune_context(&p);
        code = bad ? bad : code;
        all += p.n;
        joint += p.joint;
    }
    if (j) {
        ftk_json_close(j, ']');
        ftk_json_uint(j, "joint", joint);
        ftk_json_close(j, '}');
    }
    if (all == 0 && code == TOOL_OK) {
        ftk_tool_say("no sets in %s", w->dir);
        code = TOOL_USAGE;
    }
    return code;
}

int ftk_prune_main(int argc, char **argv)
{
    struct ftk_opts o;
    struct ftk_where w;
    struct ftk_json json = { .out = stdout };
    int code = ftk_opts_parse(argc, argv,
        OPT_JSON | OPT_CONTEXT | OPT_KEEP | OPT_INCOMPLETE | OPT_DRY_RUN | OPT_SLOTS,
        ftk_prune_usage, &o);
    if (code)
        return code - 1;
    struct ftk_json *j = o.json ? &json : NULL;
    code = check_args(&o);
    if (code == 0 && o.slots)
        return prune_node(&o, j);
    if (code == 0)
        code = ftk_where_find(o.args[0], o.context, &w);
    if (code)
        return code;
    code = ftk_where_set(&w, &o, false);
    if (code == 0)
        code = prune_sets(&w, &o, j);
    ftk_where_free(&w);
    return ftk_tool_end(code);
}
