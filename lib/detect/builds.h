/* Whether the processes of a communicator have one build of ftkit.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_BUILDS_H
#define FTK_BUILDS_H

#include "core/build.h"
#include "sure.h"

/* Two processes of different builds. */
struct ftk_builds {
    bool differ; /* false: there is one build, and nothing below is set */
    int process[2];
    char text[2][FTK_BUILD_TEXT];
};

/* Compare the builds of all members of s->comm, with the same result on all; rank: of this process
 * in it.  Collective.  The call comes before anything else is exchanged with processes that may be
 * of another build: the form of other messages may depend on the build. */
int ftk_builds_compare(const struct ftk_sure *s, int rank, struct ftk_builds *b);

#endif
