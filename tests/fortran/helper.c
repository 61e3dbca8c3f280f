/* What the Fortran test programs have in C: a fault point, the layout of structures.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stddef.h>
#include <stdint.h>

#include "ftk.h"

/* Fault points are there in test builds only. */
int test_fault(const char *point);
int test_fault(const char *point)
{
    return FTK_FAULT(point);
}

#define INFO_MEMBERS(X)                                                                  \
    X(size) X(mode) X(rank) X(nranks) X(nspares) X(incarnation) X(repairs) X(rollbacks)  \
    X(flush_error) X(committed) X(durable) X(restored) X(region_bytes) X(memory_bytes)   \
    X(checkpoint_s) X(repair_s) X(repair_detect_s) X(repair_supply_s)                    \
    X(repair_rebuild_s) X(repair_restore_s) X(flushing) X(flush_s) X(sent_bytes)         \
    X(sent_total) X(log_messages) X(log_bytes) X(log_held) X(log_determinants)           \
    X(log_determinant_bytes) X(log_resent) X(log_suppressed) X(log_drained)              \
    X(log_spilled) X(log_differs)

/* Where the members of ftkit_info are, in the order of the header, and its size after them;
 * -1 beyond. */
int64_t test_info_offset(int i);
int64_t test_info_offset(int i)
{
#define OFFSET(m) (int64_t)offsetof(ftkit_info, m),
    static const int64_t offsets[] = { INFO_MEMBERS(OFFSET)(int64_t) sizeof(ftkit_info) };
    return i >= 0 && (size_t)i < sizeof offsets / sizeof offsets[0] ? offsets[i] : -1;
}
