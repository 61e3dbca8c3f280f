/* The state of the log in a set, as its sections.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_OLD_IMAGE_H
#define FTK_LOG_OLD_IMAGE_H

#include "log/base/part.h"

enum {
    FTK_STATE_MAGIC = 0x6c6b7466,
    FTK_STATE_VERSION = 7,
    FTK_STATE_OLDEST = 2,   /* this version has no remote groups (vcomm_image.c) */
    FTK_STATE_REQUESTS = 4, /* the first version that has requests */
    FTK_STATE_TAIL = 5,     /* the first version that has a tail; older heads lack its length */
    FTK_STATE_SET_UP = 6,   /* the first version that has the record of set-up; the same */
    FTK_STATE_NAMES = 7     /* the first version whose sections have names */
};

struct ftk_state_section {
    uint64_t name;           /* the characters of the name, from the lowest byte on; then 0 */
    const uint64_t *w, *end; /* its words */
};

struct ftk_state {
    uint64_t version, calls, ranks;
    struct ftk_state_section v[FTK_PARTS_MOST]; /* [n] */
    size_t n;
};

static inline uint64_t ftk_state_name(const struct ftk_part *p)
{
    uint64_t name = 0;
    for (size_t i = 0; i < sizeof name && p->name[i] != 0; i++)
        name |= (uint64_t)(unsigned char)p->name[i] << 8 * i;
    return name;
}

/* The sections of a version before FTK_STATE_NAMES in the words from w to end.
 * FTKIT_ERR_FORMAT. */
int ftk_old_image_split(struct ftk_state *s, const uint64_t *w, const uint64_t *end);

#endif
