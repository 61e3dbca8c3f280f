/* What the programs of foreign.F90 have in C.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdint.h>
#include <xxhash.h>

#include "core/ftk.h"
#include "log/base/find_layer.h"

/* ---- messages: token, state of the sender, step, and what follows from them ---------- */

int64_t test_hash(const void *p, int64_t bytes, int64_t seed);
int64_t test_hash(const void *p, int64_t bytes, int64_t seed)
{
    return (int64_t)XXH3_64bits_withSeed(p, (size_t)bytes, (uint64_t)seed);
}

void test_fill(int64_t *m, int words, int64_t token, int64_t state, int64_t step);
void test_fill(int64_t *m, int words, int64_t token, int64_t state, int64_t step)
{
    m[0] = token;
    m[1] = state;
    m[2] = step;
    for (int i = 3; i < words; i++)
        m[i] = (int64_t)((uint64_t)state * (uint64_t)i + (uint64_t)token);
}

int test_good(const int64_t *m, int words, int64_t token, int64_t step);
int test_good(const int64_t *m, int words, int64_t token, int64_t step)
{
    int good = m[0] == token && m[2] == step;
    for (int i = 3; i < words; i++)
        good &= m[i] == (int64_t)((uint64_t)m[1] * (uint64_t)i + (uint64_t)token);
    return good;
}

/* Sums that may go over the end. */
void test_add(int64_t *to, int64_t what);
void test_add(int64_t *to, int64_t what)
{
    *to = (int64_t)((uint64_t)*to + (uint64_t)what);
}

/* How many calls from Fortran have come to libftkit_mpi while messages were logged. */
int64_t test_from_fortran(void);
int64_t test_from_fortran(void)
{
    bool other;
    const struct ftk_mpi_layer *layer = ftk_layer_find(&other);
    return layer ? (int64_t)*layer->fortran : -1;
}
