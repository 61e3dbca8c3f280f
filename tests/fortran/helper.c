/* What the Fortran test programs have in C: a fault point, contents of regions of any type,
 * the layout of structures.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <ISO_Fortran_binding.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/ftk.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* called from Fortran */

/* Fault points are there in test builds only. */
int test_fault(const char *point)
{
    return FTK_FAULT(point);
}

/* Fill all bytes of a contiguous variable with what belongs to the seed, or compare them:
 * 1 when they differ, or when the variable is not there. */
int test_bytes(const CFI_cdesc_t *d, int64_t seed, int check)
{
    unsigned char *p = d->base_addr;
    size_t bytes = d->elem_len;
    uint64_t x = (uint64_t)seed * 1000003 + 1;
    for (int i = 0; i < d->rank; i++)
        bytes *= (size_t)d->dim[i].extent;
    for (size_t i = 0; p && i < bytes; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        if (!check)
            p[i] = (unsigned char)(x >> 56);
        else if (p[i] != (unsigned char)(x >> 56))
            return 1;
    }
    return !p;
}

/* Where a variable is. */
int64_t test_address(const CFI_cdesc_t *d)
{
    return (int64_t)(intptr_t)d->base_addr;
}

/* ftkit_info: where its members are, in the order of the header, and its size after them;
 * -1 beyond. */
/* clang-format off */
#define INFO_MEMBERS(X)                                                                    \
    X(size) X(mode) X(rank) X(nranks) X(nspares) X(incarnation) X(repairs) X(rollbacks)    \
    X(flush_error) X(committed) X(durable) X(restored) X(region_bytes) X(memory_bytes)     \
    X(checkpoint_s) X(repair_s) X(repair_detect_s) X(repair_supply_s) X(repair_rebuild_s)  \
    X(repair_restore_s) X(flushing) X(flush_s) X(sent_bytes) X(sent_total) X(log_messages) \
    X(log_bytes) X(log_held) X(log_determinants) X(log_determinant_bytes) X(log_resent)    \
    X(log_suppressed) X(log_drained) X(log_spilled) X(log_differs) \
    X(log_requests) X(line_late) X(line_early) X(line_determinants) X(line_open)           \
    X(line_waits_here) X(plane) X(nplanes) X(sdc_found) X(sdc_corrected)          \
    X(takeovers) X(clones) X(degraded) X(joules) X(program) X(nprograms)     \
    X(replay_s) X(replay_forward_s) X(replay_calls) X(catch_up_s) X(idle_cores) \
    X(units_elsewhere) X(units_helped)
/* clang-format on */

int64_t test_info_offset(int i)
{
#define OFFSET(m) (int64_t) offsetof(ftkit_info, m),
    static const int64_t offsets[] = { INFO_MEMBERS(OFFSET)(int64_t) sizeof(ftkit_info) };
    return i >= 0 && (size_t)i < sizeof offsets / sizeof offsets[0] ? offsets[i] : -1;
}
