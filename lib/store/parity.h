/* Parity groups: geometry and arithmetic of one group, without communication.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The n members of a group each have an object (a range of bytes, not all of one length).
 * It is cut into blocks; k = n - m consecutive ones make a row, and a row of all members
 * makes n stripes.  Stripe s has n elements, one with each member: element d lies with
 * member (s + d) mod n, and is
 *
 *     d <  m   parity d of the stripe, at (row * m + d) * block of the member's parity,
 *     d >= m   block d - m of the member's row.
 *
 * So every member is in every stripe, m times with parity and k times with data, and the
 * loss of any m members costs each stripe m elements.  What lies beyond the end of an
 * object counts as zero and never travels.  m = 1 is the XOR of RAID 5; else the code is
 * Reed-Solomon over GF(2^8) with a Cauchy matrix, every square part of which can be
 * inverted (Bloemer et al., ICSI TR-95-048); rotation as in Plank, SPE 27 (1997). */
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
    uint64_t bytes;  /* that are not zero by definition, up to block */
};
struct ftk_element ftk_code_element(const struct ftk_code *c, uint64_t stripe, int d);

/* Bytes of the longest data element of a stripe, and so of its parities. */
uint64_t ftk_code_stripe_bytes(const struct ftk_code *c, uint64_t stripe);

/* How to make elements out[nout] of a stripe from elements in[n - m]. */
struct ftk_solver {
    int k, nout;
    bool xor ; /* all coefficients are one */
    unsigned char tables[32 * FTK_GROUP_MAX * FTK_GROUP_MAX];
};
int ftk_code_solve(struct ftk_solver *s, int n, int m, const int *in, const int *out, int nout);

/* dst[nout] from src[k], bytes a multiple of 64, addresses too. */
void ftk_code_apply(
    const struct ftk_solver *s, size_t bytes, unsigned char **src, unsigned char **dst);

/* Add in the field of the codes.  They are linear: the parity of a sum is the sum of the
 * parities, so that a parity of old data plus that of the differences is that of the new. */
void ftk_code_add(void *to, const void *what, size_t bytes);

/* Whether every stripe can be solved when elements are lost: bit i of data or of parity
 * stands for the object or the parity of member i. */
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

/* Lay out the parity segment of member g->index in buf; like gives set, run, context and
 * number of ranks. */
void ftk_parity_begin(void *buf, const struct ftk_group *g, const struct ftk_seg_header *like);
void ftk_parity_seal(void *buf); /* checksums, once the parities are there */

/* Group and parity of a segment whose head is good; NULL, with a detail, when it is no
 * parity segment or contradicts itself. */
const struct ftk_group *ftk_parity_group(const void *seg);
char *ftk_parity_object(void *seg, int object);

#endif
