/* Parity groups: geometry and arithmetic of one group, without communication.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Each of the n members of a group has an object: a range of bytes.  The lengths may differ.
 * An object is cut into blocks; k = n - m consecutive blocks are a row, and one row of all
 * members is n stripes.  Stripe s has n elements, one at each member.  Element d is at member
 * (s + d) mod n, and is
 *
 *     d <  m   parity d of the stripe, at (row * m + d) * block of the member's parity,
 *     d >= m   block d - m of the member's row.
 *
 * So every member has one element of every stripe; in the n stripes of a row m of these are
 * parity and k are data.  The loss of any m members costs each stripe m elements.  Bytes beyond
 * the end of an object count as zero and are never sent.  m = 1 is the XOR of RAID 5; else the
 * code is Reed-Solomon over GF(2^8) with a Cauchy matrix, of which every square submatrix can
 * be inverted (Bloemer et al., ICSI TR-95-048); rotation as in Plank, SPE 27 (1997). */
#ifndef FTK_STORE_PARITY_H
#define FTK_STORE_PARITY_H

#include "segment.h"

enum { FTK_GROUP_MAX = 32 };

/* One coded object of a group. */
struct ftk_code {
    int n;          /* members, 2 to FTK_GROUP_MAX */
    int m;          /* parities of a stripe, 1 to n - 1 */
    uint64_t block; /* bytes, a power of two that divides FTK_SEG_BLOCK */
    uint64_t rows;
    uint64_t len[FTK_GROUP_MAX]; /* bytes of each member's object */
};

/* Choose block and rows for objects of these lengths. */
void ftk_code_init(struct ftk_code *c, int n, int m, const uint64_t *len);

static inline uint64_t ftk_code_parity_bytes(const struct ftk_code *c)
{
    return c->rows * (uint64_t)c->m * c->block;
}
static inline uint64_t ftk_code_stripes(const struct ftk_code *c)
{
    return c->rows * (uint64_t)c->n;
}

/* Element d of a stripe (stripes are numbered row by row). */
struct ftk_element {
    int member;
    bool parity;
    uint64_t offset; /* in the member's object, or in its parity */
    uint64_t bytes;  /* up to block; the rest of the block is zero */
};
struct ftk_element ftk_code_element(const struct ftk_code *c, uint64_t stripe, int d);

/* Bytes of the longest data element of a stripe; its parities are as long. */
uint64_t ftk_code_stripe_bytes(const struct ftk_code *c, uint64_t stripe);

/* How to make elements out[nout] of a stripe from elements in[n - m]. */
struct ftk_solver {
    int k, nout;
    bool xor ; /* all coefficients are one */
    unsigned char tables[32 * FTK_GROUP_MAX * FTK_GROUP_MAX];
};
int ftk_code_solve(struct ftk_solver *s, int n, int m, const int *in, const int *out, int nout);

/* Compute dst[nout] from src[k].  bytes and all addresses are multiples of 64. */
void ftk_code_apply(
    const struct ftk_solver *s, size_t bytes, unsigned char **src, unsigned char **dst);

/* Add `what` to `to`, in the field of the codes.  The codes are linear: the parity of a sum is the
 * sum of the parities.  So parity of new data = parity of old data + parity of the
 * differences. */
void ftk_code_add(void *to, const void *what, size_t bytes);

/* Whether every stripe can be solved after a loss.  Bit i of data: the object of member i is
 * lost; bit i of parity: the parity of member i is lost. */
bool ftk_code_survives(int n, int m, uint32_t data, uint32_t parity);

/* ---- the segment that holds a member's parity -------------------------------------------
 * An ordinary segment with FTK_SEG_PARITY among its flags and two regions: the group, and
 * the parities of its two objects, the data areas and the heads of the members'
 * segments. */
enum { FTK_CODED_DATA, FTK_CODED_HEAD, FTK_CODED };

struct ftk_group {
    uint32_t n, m;
    uint32_t index; /* of the member whose parity this is */
    uint32_t reserved;
    uint32_t rank[FTK_GROUP_MAX];           /* [n] */
    uint64_t len[FTK_CODED][FTK_GROUP_MAX]; /* of the members' objects */
};
_Static_assert(sizeof(struct ftk_group) == 656, "on-disk group");

struct ftk_code ftk_group_code(const struct ftk_group *g, int object);
size_t ftk_parity_seg_bytes(const struct ftk_group *g);

/* Lay out the parity segment of member g->index in buf.  Set, run, epoch, time, context and
 * number of ranks are those of like. */
void ftk_parity_begin(void *buf, const struct ftk_group *g, const struct ftk_seg_header *like);
void ftk_parity_seal(void *buf); /* fill in the checksums, after the parities */

/* The group of a segment whose head is good.  NULL, with a detail: the segment is no parity
 * segment or contradicts itself. */
const struct ftk_group *ftk_parity_group(const void *seg);
/* The parity of one object (FTK_CODED_...) in a parity segment. */
char *ftk_parity_object(void *seg, int object);

#endif
