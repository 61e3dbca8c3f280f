/* The proof of a collective (see proof.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "proof.h"

#include <string.h>

#include "core/hash.h"

#define WIPE 0xa5

struct seal {
    uint64_t bytes;
    int32_t from, to; /* ranks; to FTK_PROOF_ALL: all ranks */
    uint64_t sum;     /* checksum of the data and the members above, seeded with the kind of call */
};

size_t ftk_proof_bytes(size_t bytes)
{
    return bytes + sizeof(struct seal);
}

void ftk_proof_wipe(void *result, size_t bytes)
{
    memset(result, WIPE, bytes);
}

/* ---- blocks -------------------------------------------------------------------------- */

static struct seal seal_of(
    enum ftk_proof_kind kind, const void *data, size_t bytes, int from, int to)
{
    struct seal s = { .bytes = bytes, .from = from, .to = to };
    s.sum = ftk_xxh3_seed(&s, offsetof(struct seal, sum), (uint64_t)kind);
    s.sum = bytes > 0 ? ftk_xxh3_seed(data, bytes, s.sum) : s.sum;
    return s;
}

char *ftk_proof_put(
    enum ftk_proof_kind kind, char *at, const void *data, size_t bytes, int from, int to)
{
    struct seal s = seal_of(kind, data, bytes, from, to);
    if (bytes > 0)
        memcpy(at, data, bytes);
    memcpy(at + bytes, &s, sizeof s);
    return at + ftk_proof_bytes(bytes);
}

bool ftk_proof_holds(enum ftk_proof_kind kind, const char *at, size_t bytes, int from, int to)
{
    struct seal s = seal_of(kind, at, bytes, from, to);
    return memcmp(at + bytes, &s, sizeof s) == 0;
}

bool ftk_proof_take(enum ftk_proof_kind kind, const char *result, int n, const size_t *lengths,
    size_t each, int to, void *out)
{
    const char *at = result;
    for (int i = 0; i < n; i++) {
        size_t bytes = lengths ? lengths[i] : each;
        if (!ftk_proof_holds(kind, at, bytes, i, to))
            return false;
        at += ftk_proof_bytes(bytes);
    }
    at = result;
    for (int i = 0; i < n; i++) {
        size_t bytes = lengths ? lengths[i] : each;
        if (bytes > 0)
            memcpy(out, at, bytes);
        out = bytes > 0 ? (char *)out + bytes : out;
        at += ftk_proof_bytes(bytes);
    }
    return true;
}

/* ---- reductions ---------------------------------------------------------------------- */

uint64_t ftk_proof_number(int rank)
{
    uint64_t r = (uint64_t)rank;
    return ftk_xxh3_seed(&r, sizeof r, FTK_PROOF_REDUCE);
}

uint64_t ftk_proof_sum(int n)
{
    static int last; /* communicators of one size follow each other */
    static uint64_t sum;
    if (n == last)
        return sum;
    sum = 0;
    for (int i = 0; i < n; i++)
        sum += ftk_proof_number(i);
    last = n;
    return sum;
}

void ftk_proof_reduce(const int64_t *in, int64_t *inout, size_t words)
{
    inout[0] = (int64_t)((uint64_t)in[0] + (uint64_t)inout[0]);
    for (size_t w = 1; w < words; w++)
        inout[w] = in[w] < inout[w] ? in[w] : inout[w];
}

/* ---- the end of a call ---------------------------------------------------------------- */

enum ftk_proof_end ftk_proof_end(bool success, bool holds)
{
    if (!success)
        return FTK_PROOF_FAILED;
    return holds ? FTK_PROOF_PROVEN : FTK_PROOF_UNPROVEN;
}
