/* The other group of an intercommunicator.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "log/vcomm/inter.h"

struct ftk_remote *ftk_remote_new(int members)
{
    struct ftk_remote *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->member = malloc(((size_t)members + 1) * sizeof *r->member);
    r->index = malloc((size_t)ftk_log.n * sizeof *r->index);
    if (r->member && r->index)
        return r;
    ftk_remote_free(r);
    return NULL;
}

void ftk_remote_free(struct ftk_remote *r)
{
    if (!r)
        return;
    free(r->member);
    free(r->index);
    free(r);
}

struct ftk_remote *ftk_remote_copy(const struct ftk_remote *from)
{
    struct ftk_remote *r = ftk_remote_new(from->size);
    if (!r)
        return NULL;
    r->size = from->size;
    r->first = from->first;
    memcpy(r->member, from->member, (size_t)from->size * sizeof *r->member);
    memcpy(r->index, from->index, (size_t)ftk_log.n * sizeof *r->index);
    return r;
}

bool ftk_remote_seal(struct ftk_vcomm *vc)
{
    struct ftk_remote *r = vc->remote;
    int lowest = ftk_log.n;
    for (int w = 0; w < ftk_log.n; w++)
        r->index[w] = -1;
    for (int i = 0; i < vc->size; i++) {
        int w = ftk_vcomm_world(vc, i);
        lowest = w < lowest ? w : lowest;
    }
    r->first = false;
    for (int i = 0; i < r->size; i++) {
        int w = r->member[i];
        if (r->index[w] >= 0)
            return false;
        r->index[w] = i;
        r->first = r->first || w < lowest;
    }
    for (int i = 0; i < vc->size; i++)
        if (r->index[ftk_vcomm_world(vc, i)] >= 0)
            return false;
    return true;
}
