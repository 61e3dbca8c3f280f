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
#include "store/owner.h"

void ftk_prune_usage(FILE *out)
{
    fputs("usage: ftkit prune [--context NAME] [--dry-run] [--incomplete] [--keep N] DIR\n"
          "       ftkit prune --slots [--dry-run] [DIR]\n"
          "\n"
          "Remove sets, in every context of DIR.  Give --keep, --incomplete or both.\n"
          "\n"
          "  --keep N        keep the newest N complete sets, N >= 1; remove all older sets,\n"
          "                  also incomplete and damaged ones\n"
          "  --incomplete    remove all incomplete and damaged sets, also new ones\n"
          "  --context NAME  only the sets of this context\n"
          "  --dry-run       only say what would be removed\n"
          "  --slots         remove the slots in DIR (/dev/shm) that level.memory and\n"
          "                  level.local of ended jobs have left on this node, although a\n"
          "                  relaunch could still use them; without DIR, remove also other\n"
          "                  files that these jobs have left in /dev/shm\n"
          "\n"
          "While a job owns the sets (see FILES in ftkit(1)), sets that are newer than the\n"
          "newest complete set are not touched: the job may be writing them.  Only files\n"
          "with names of ftkit are removed; a directory with other files stays.\n"
          "\n"
          "Exit code: 0; 1 when something could not be removed; 2 usage, or no sets are "
          "there.\n",
        out);
}

struct prune {
    const struct ftk_opts *o;
    const char *dir, *context;
    bool owned; /* a job may be writing */
    size_t n;   /* sets that were found */
};

/* Why a set is removed; NULL: it stays.  complete: number of complete sets from the newest one to
 * this one, inclusive. */
static const char *reason(const struct prune *p, const struct ftk_h5_entry *e, int complete)
{
    int keep = p->o->keep;
    if (e->state == FTK_H5_COMPLETE)
        return keep > 0 && complete > keep ? "old" : NULL;
    if (p->owned && complete == 0)
        return NULL;
    if (p->o->incomplete || (keep > 0 && complete >= keep))
        return ftk_state_name(e->state);
    return NULL;
}

static int prune_context(struct prune *p)
{
    struct ftk_h5_entry *e = NULL;
    struct ftk_owner_record r;
    size_t n = 0;
    int complete = 0, code = TOOL_OK;
    if (ftk_owner_alive(p->dir, p->context, &p->owned, &r) != FTKIT_OK
        || ftk_h5_survey(p->dir, p->context, &e, &n) != FTKIT_OK) {
        ftk_tool_say("%s", ftk_tool_why(ftk_detail_text()));
        return TOOL_FAIL;
    }
    p->n = n;
    for (size_t i = 0; i < n; i++) {
        complete += e[i].state == FTK_H5_COMPLETE;
        const char *why = reason(p, &e[i], complete);
        if (!why)
            continue;
        if (!p->o->dry_run && ftk_h5_remove(p->dir, p->context, e[i].set) != FTKIT_OK) {
            ftk_tool_say("%s", ftk_tool_why(ftk_detail_text()));
            code = TOOL_FAIL;
            continue;
        }
        printf("%s set %" PRIu64 " of '%s' (%s)\n", p->o->dry_run ? "would remove" : "removed",
            e[i].set, p->context, why);
    }
    free(e);
    return code;
}

/* Remove a slot, unless it is in use.  An exit code. */
static int prune_slot(const char *path, int fd, const struct stat *st, void *arg)
{
    const struct ftk_opts *o = arg;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return TOOL_OK;
    if (!o->dry_run && unlink(path) != 0) {
        ftk_tool_say("cannot remove %s: %s", path, strerror(errno));
        return TOOL_FAIL;
    }
    printf("%s %s (%lld bytes)\n", o->dry_run ? "would remove" : "removed", path,
        (long long)st->st_size);
    return TOOL_OK;
}

/* Pages of watchdogs and determinants are only in /dev/shm. */
static int prune_node(struct ftk_opts *o)
{
    int code = ftk_slots_each(o, prune_slot, o);
    int n = o->nargs == 0 ? ftk_dog_sweep(o->dry_run) : 0;
    if (n > 0)
        printf("%s %d other file%s of jobs that are gone\n",
            o->dry_run ? "would remove" : "removed", n, n == 1 ? "" : "s");
    return ftk_tool_end(code);
}

int ftk_prune_main(int argc, char **argv)
{
    struct ftk_opts o;
    struct ftk_where w;
    size_t all = 0;
    int code = ftk_opts_parse(argc, argv,
        OPT_CONTEXT | OPT_KEEP | OPT_INCOMPLETE | OPT_DRY_RUN | OPT_SLOTS, ftk_prune_usage, &o);
    if (code)
        return code - 1;
    if (o.slots && o.nargs <= 1 && o.keep < 0 && !o.incomplete && !o.context)
        return prune_node(&o);
    if (o.slots || o.nargs != 1 || o.keep == 0 || (o.keep < 0 && !o.incomplete)) {
        ftk_prune_usage(stderr);
        return TOOL_USAGE;
    }
    code = ftk_where_find(o.args[0], o.context, &w);
    if (code)
        return code;
    code = ftk_where_set(&w, &o, false);
    for (size_t i = 0; i < w.n && code != TOOL_USAGE; i++) {
        struct prune p = { .o = &o, .dir = w.dir, .context = w.contexts[i] };
        int bad = prune_context(&p);
        code = bad ? bad : code;
        all += p.n;
    }
    if (all == 0 && code == TOOL_OK) {
        ftk_tool_say("no sets in %s", w.dir);
        code = TOOL_USAGE;
    }
    ftk_where_free(&w);
    return ftk_tool_end(code);
}
