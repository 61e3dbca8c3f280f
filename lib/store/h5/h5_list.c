/* Place "hdf5": list the complete sets, and remove old sets.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <unistd.h>

#include "h5_offline.h"
#include "h5_priv.h"

struct numbers {
    uint64_t *v;
    size_t n;
};

/* The set of one number. */
struct one {
    int how;         /* result of ftk_h5_open_set() */
    uint64_t run;    /* of a complete set */
    bool unfinished; /* see ftk_h5_is_unfinished() */
};

static int evaluate(const char *dir, const char *context, const struct numbers *all, struct one *v)
{
    for (size_t i = 0; i < all->n; i++) {
        struct ftk_h5_manifest m = { 0 };
        v[i].how = ftk_h5_open_set(dir, context, all->v[i], false, &m);
        v[i].run = m.run;
        ftk_h5_manifest_free(&m);
        if (v[i].how == FTKIT_ERR_NOMEM)
            return v[i].how;
        int fd = v[i].how == FTKIT_OK ? -1 : ftk_h5_open_dir(dir, context, all->v[i]);
        v[i].unfinished = fd >= 0 && ftk_h5_is_unfinished(fd);
        if (fd >= 0)
            close(fd);
    }
    return FTKIT_OK;
}

/* The numbers of all sets, and the state of each; *v is malloc'd [all->n]. */
static int survey_sets(const char *dir, const char *context, struct numbers *all, struct one **v)
{
    int rc = ftk_h5_numbers(dir, context, &all->v, &all->n);
    if (rc == FTKIT_OK && !(*v = calloc(all->n + 1, sizeof **v)))
        rc = ftk_fail(FTKIT_ERR_NOMEM, "list of sets");
    if (rc == FTKIT_OK)
        rc = evaluate(dir, context, all, *v);
    return rc;
}

int ftk_h5_list(const char *dir, const char *context, uint64_t **sets, int *nsets)
{
    struct numbers all = { 0 };
    struct one *v = NULL;
    int rc = survey_sets(dir, context, &all, &v);
    if (rc == FTKIT_OK) {
        int n = 0;
        for (size_t i = 0; i < all.n; i++)
            if (v[i].how == FTKIT_OK)
                all.v[n++] = all.v[i];
        *sets = all.v;
        *nsets = n;
    } else {
        free(all.v);
    }
    free(v);
    return rc;
}

int ftk_h5_prune(const char *dir, const char *context, uint64_t run, int keep)
{
    struct numbers all = { 0 };
    struct one *v = NULL;
    if (keep < 1)
        return ftk_fail(FTKIT_ERR_ARG, "cannot keep %d sets", keep);
    int rc = survey_sets(dir, context, &all, &v);
    int complete = 0;
    for (size_t i = 0; v && i < all.n; i++) {
        bool own = v[i].how == FTKIT_OK && v[i].run == run;
        complete += own;
        /* a set that is newer than the newest complete set stays: it may still be written */
        if (complete == 0 || !(own ? complete > keep : v[i].unfinished))
            continue;
        int failed = ftk_h5_remove(dir, context, all.v[i]);
        if (rc == FTKIT_OK)
            rc = failed;
    }
    free(all.v);
    free(v);
    return rc;
}
