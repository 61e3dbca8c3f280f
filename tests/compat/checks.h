/* Checks of single calls.  Each rank counts its own.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef CHECKS_H
#define CHECKS_H
#include <stdio.h>

static int checks, failed, rank;

#define IS(want, call)                                                                             \
    do {                                                                                           \
        const long long is_ = (long long)(call);                                                   \
        checks++;                                                                                  \
        if (is_ != (want)) {                                                                       \
            failed++;                                                                              \
            fprintf(stderr, "not ok: line %d, rank %d: %s is %lld\n", __LINE__, rank, #call, is_); \
        }                                                                                          \
    } while (0)

#endif
