/* ftkit test --regions: compare the regions of sets of two runs.  Both sets are exported by
 * `ftkit export`, region by region.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

/* One set, and the directory of its run. */
struct side {
    const char *name; /* of the run */
    char dir[FTK_PATH_MAX + 40];
    char (*contexts)[FTKIT_NAME_MAX + 1];
    size_t ncontexts;
    uint64_t set;
    struct ftk_manifest m;
};

/* A comparison; runs in a process of its own. */
struct pair {
    const struct ftk_test *t;
    const struct ftk_trial *trial[2];
    struct side side[2];
};

/* ---- which sets ---------------------------------------------------------------------- */

/* The position of a set in its run; 0: it is not known. */
static uint64_t position_of(const struct ftk_trial *x, uint64_t set)
{
    size_t i = set % FTK_PROGRESS_SETS;
    return x->facts->sets[i].set == set ? x->facts->sets[i].at : 0;
}

static bool is_complete(const struct side *s, uint64_t set)
{
    struct ftk_set_entry e;
    return ftk_sets_examine(s->dir, s->contexts[0], set, &e) == FTKIT_OK
           && e.state == FTK_SET_COMPLETE;
}

/* Find the newest pair of complete sets with one position; 0: there is none. */
static uint64_t find_sets(struct pair *c)
{
    uint64_t best = 0;
    for (size_t i = 0; i < FTK_PROGRESS_SETS; i++)
        for (size_t j = 0; j < FTK_PROGRESS_SETS; j++) {
            uint64_t a = c->trial[0]->facts->sets[i].set, b = c->trial[1]->facts->sets[j].set;
            uint64_t at = a > 0 ? position_of(c->trial[0], a) : 0;
            if (at <= best || b == 0 || position_of(c->trial[1], b) != at
                || !is_complete(&c->side[0], a) || !is_complete(&c->side[1], b))
                continue;
            best = at;
            c->side[0].set = a;
            c->side[1].set = b;
        }
    return best;
}

/* ---- which regions ------------------------------------------------------------------- */

/* Regions of a set: "R NAME" of one rank each, "- NAME" of all ranks together.  Two programs of a
 * job may have different regions of one name. */
static int list_head(const void *head, const struct ftk_manifest_part *p, void *arg)
{
    const struct ftk_seg_header *h = head;
    const struct ftk_seg_region *r = ftk_seg_regions_c(head);
    char entry[FTKIT_NAME_MAX + 32];
    (void)p;
    for (uint32_t i = 0; i < h->nregions; i++) {
        if (strncmp(r[i].name, "ftkit.", 6) == 0)
            continue; /* a region of ftkit itself: the state of the message log */
        const bool whole =
            h->nprograms <= 1 && (r[i].kind == FTK_KIND_ARRAY || r[i].kind == FTK_KIND_REPLICATED);
        if (whole)
            snprintf(entry, sizeof entry, "- %.*s", (int)sizeof r[i].name, r[i].name);
        else
            snprintf(
                entry, sizeof entry, "%" PRIu32 " %.*s", h->rank, (int)sizeof r[i].name, r[i].name);
        ftk_list_add_once(arg, entry, strlen(entry));
    }
    return FTKIT_OK;
}

static int list_regions(const struct side *s, struct ftk_list *l)
{
    int rc = FTKIT_OK;
    for (uint32_t i = 0; i < s->m.nparts && rc == FTKIT_OK; i++)
        rc = s->m.level->heads(s->dir, &s->m, i, list_head, l);
    return rc;
}

/* ---- comparing ----------------------------------------------------------------------- */

static int export_one(const struct side *s, const char *entry, char *file)
{
    char set[24], rank[24], dir[sizeof s->dir], *name = strchr(entry, ' ') + 1;
    char word[] = "export", o[] = "-o", r[] = "--rank";
    /* the options stand first: getopt() has learned from the test to stop at an argument */
    char *whole[] = { word, o, file, dir, set, name, NULL };
    char *one[] = { word, o, file, r, rank, dir, set, name, NULL };
    snprintf(dir, sizeof dir, "%s", s->dir);
    snprintf(set, sizeof set, "%" PRIu64, s->set);
    snprintf(rank, sizeof rank, "%.*s", (int)strcspn(entry, " "), entry);
    return *entry == '-' ? ftk_export_main(6, whole) : ftk_export_main(8, one);
}

static int compare_region(const struct pair *c, const char *entry, char why[FTK_WHY_MAX])
{
    char path[2][FTK_PATH_MAX + 64], name[FTKIT_NAME_MAX + 64];
    const char *region = strchr(entry, ' ') + 1;
    bool good = true;
    snprintf(name, sizeof name, "region '%s'%s%.*s", region, *entry == '-' ? "" : " of rank ",
        *entry == '-' ? 0 : (int)strcspn(entry, " "), entry);
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s.npy", c->t->dir, c->trial[i]->name);
        if (good && export_one(&c->side[i], entry, path[i]) != TOOL_OK) {
            snprintf(why, FTK_WHY_MAX, "%s of set %" PRIu64 " of %s cannot be read", name,
                c->side[i].set, c->trial[i]->name);
            good = false;
        }
    }
    int rc = good ? ftk_compare_files(path[0], path[1], name, c->t->tolerance, why) : 1;
    for (int i = 0; i < 2; i++)
        (void)unlink(path[i]); /* it may not exist */
    return rc;
}

/* Both sides are open: compare region by region. */
static int compare_sets(const struct pair *c, uint64_t at, char why[FTK_WHY_MAX])
{
    struct ftk_list l[2] = { { 0 }, { 0 } };
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++)
        if (list_regions(&c->side[i], &l[i]) != FTKIT_OK) {
            snprintf(why, FTK_WHY_MAX, "%s", ftk_tool_why(ftk_detail_text()));
            rc = 1;
        }
    for (size_t i = 0; rc == 0 && i < l[0].n; i++) {
        const char *entry = l[0].v[i];
        if (ftk_list_has(&l[1], entry, strlen(entry)))
            rc = compare_region(c, entry, why);
    }
    if (rc == 0 && l[0].n != l[1].n) {
        snprintf(why, FTK_WHY_MAX, "the sets have %zu regions undisturbed, and %zu here", l[0].n,
            l[1].n);
        rc = 1;
    }
    size_t len = strlen(why);
    if (rc != 0)
        snprintf(why + len, FTK_WHY_MAX - len,
            " (sets %" PRIu64 " and %" PRIu64 " of call %" PRIu64 ")", c->side[0].set,
            c->side[1].set, at);
    ftk_list_free(&l[0]);
    ftk_list_free(&l[1]);
    return rc;
}

static int open_side(struct pair *c, int i, char why[FTK_WHY_MAX])
{
    struct side *s = &c->side[i];
    s->name = c->trial[i]->name;
    snprintf(s->dir, sizeof s->dir, "%s/%s", c->t->dir, s->name);
    if (ftk_sets_dir_contexts(s->dir, &s->contexts, &s->ncontexts) == FTKIT_OK && s->ncontexts == 1)
        return 0;
    snprintf(why, FTK_WHY_MAX, "%s has sets of %zu contexts; --regions compares those of one",
        s->name, s->ncontexts);
    return 1;
}

static int compare_all(void *arg, FILE *out)
{
    struct pair *c = arg;
    char why[FTK_WHY_MAX] = "";
    int rc = open_side(c, 0, why);
    rc = rc == 0 ? open_side(c, 1, why) : rc;
    uint64_t at = rc == 0 ? find_sets(c) : 0;
    if (rc == 0 && at == 0) {
        snprintf(why, sizeof why,
            "no call has a complete set of both runs: choose --period so that the last sets are "
            "of the same call");
        rc = 1;
    }
    for (int i = 0; i < 2 && rc == 0; i++)
        if (ftk_sets_open(c->side[i].dir, c->side[i].contexts[0], c->side[i].set, &c->side[i].m)
            != FTKIT_OK) {
            snprintf(why, sizeof why, "%s", ftk_tool_why(ftk_detail_text()));
            rc = 1;
        }
    if (rc == 0)
        rc = compare_sets(c, at, why);
    for (int i = 0; i < 2; i++) {
        ftk_manifest_free(&c->side[i].m);
        free(c->side[i].contexts);
    }
    fputs(why, out);
    return rc;
}

int ftk_compare_regions(const struct ftk_test *t, const struct ftk_trial *a,
    const struct ftk_trial *b, char why[FTK_WHY_MAX])
{
    struct pair c = { .t = t, .trial = { a, b } };
    struct ftk_isolated r;
    ftk_tool_name("test");
    ftk_isolate(compare_all, &c, 0, &r);
    if (r.code != 0)
        snprintf(why, FTK_WHY_MAX, "%s", r.why[0] ? r.why : r.text ? r.text : "");
    free(r.text);
    return r.code != 0;
}
