/* The places of segments: one line each.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A line makes the number of the place, the word of the configuration with its documentation, and
 * the entry in the table of store/place.c.  The file of a place other than memory (store/place_*.c)
 * defines the operations, const struct ftk_place_ops ftk_place_<word>. */
#ifndef FTK_PLACES_H
#define FTK_PLACES_H

#include <stdbool.h>

enum ftk_place_flags {
    FTK_OUTLIVES_PROCESS = 1, /* a segment is in a slot, which stays when its process ends */
    FTK_OUTLIVES_CONTEXT = 2, /* a slot stays when the program closes the context, too */
    FTK_OF_RUN = 4            /* slots belong to one `ftkit run`, not to a directory */
};

/* number, word, enum ftk_place_flags, documentation after "Where they are kept: " */
#define FTK_PLACE_LIST(X)                                                                          \
    X(MEMORY, memory, 0, "in the process")                                                         \
    X(SHARED, shared, FTK_OUTLIVES_PROCESS | FTK_OF_RUN, "; in shared memory")                     \
    X(FILE, file, FTK_OUTLIVES_PROCESS | FTK_OUTLIVES_CONTEXT, ", in files of the node")           \
    X(PMEM, pmem, FTK_OUTLIVES_PROCESS | FTK_OUTLIVES_CONTEXT,                                     \
        ", in persistent memory (a build with libpmem)")

enum ftk_place_number {
#define NUMBER(NAME, word, flags, doc) FTK_PLACE_##NAME,
    FTK_PLACE_LIST(NUMBER)
#undef NUMBER
        FTK_PLACES
};

/* Whether a place has all of the flags. */
static inline bool ftk_place_is(int place, int flags)
{
#define FLAGS(NAME, word, flags, doc) flags,
    static const int all[] = { FTK_PLACE_LIST(FLAGS) };
#undef FLAGS
    return (all[place] & flags) == flags;
}

#endif
