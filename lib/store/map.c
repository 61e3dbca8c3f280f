/* Buddies: pairs, rings, and rings of three of failure domains (see map.h).
 *
 * A set is lost when a rank and the holder of its copy are lost.  Two of n domains can fail in
 * n(n-1)/2 ways.  With pairs, the fewest of these ways lose a set: n/2, or (n+3)/2 for an odd n
 * because of its ring of three.  With a ring, n ways do.  Buddy copies: Zheng et al., Cluster 2004;
 * there the buddies are processors, here they are failure domains of any size.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <assert.h>
#include <stdlib.h>

#include "map.h"

struct member {
    int domain;
    int first; /* lowest rank of its domain: the key that orders domains */
    int rank;
};

static int compare(int a, int b)
{
    return (a > b) - (a < b);
}

static int by_domain(const void *va, const void *vb)
{
    const struct member *a = va, *b = vb;
    int c = compare(a->domain, b->domain);
    return c ? c : compare(a->rank, b->rank);
}

static int by_first(const void *va, const void *vb)
{
    const struct member *a = va, *b = vb;
    int c = compare(a->first, b->first);
    return c ? c : compare(a->rank, b->rank);
}

/* Order the ranks by domain, and in a domain by rank.  start[d] becomes the index in m of the first
 * rank of domain d, start[n] becomes nranks.  Return the number n of domains. */
static int group(int nranks, const int *domain, struct member *m, int *start)
{
    for (int r = 0; r < nranks; r++)
        m[r] = (struct member){ .domain = domain[r], .rank = r };
    qsort(m, (size_t)nranks, sizeof *m, by_domain);
    for (int i = 0; i < nranks; i++)
        m[i].first = i > 0 && m[i].domain == m[i - 1].domain ? m[i - 1].first : m[i].rank;
    qsort(m, (size_t)nranks, sizeof *m, by_first);
    int n = 0;
    for (int i = 0; i < nranks; i++)
        if (i == 0 || m[i].first != m[i - 1].first)
            start[n++] = i;
    start[n] = nranks;
    return n;
}

/* Return the domain that keeps the copies of domain d, of n >= 2. */
static int partner(int map, int d, int n)
{
    if (map == FTK_MAP_RING)
        return (d + 1) % n;
    int three = n - 3; /* where the ring of three begins when n is odd */
    if (n % 2 != 0 && d >= three)
        return three + (d - three + 1) % 3;
    return d ^ 1;
}

int ftk_map_buddies(int map, int nranks, const int *domain, int *holder)
{
    assert(nranks >= 1);
    struct member *m = malloc((size_t)nranks * sizeof *m);
    int *start = malloc(((size_t)nranks + 1) * sizeof *start);
    if (!m || !start) {
        free(m);
        free(start);
        return ftk_fail(FTKIT_ERR_NOMEM, "map of %d ranks", nranks);
    }
    int n = group(nranks, domain, m, start);
    bool alone = n == 1; /* then every rank counts as a domain */
    if (alone) {
        for (n = 0; n < nranks; n++)
            start[n] = n;
        start[n] = nranks;
    }
    for (int d = 0; d < n && nranks > 1; d++) {
        int p = partner(map, d, n);
        int size = start[p + 1] - start[p];
        /* round robin: with equal sizes the j-th copy goes to the j-th rank; with unequal sizes a
         * holder gets at most ceil(size of d / size of p) copies */
        for (int i = start[d]; i < start[d + 1]; i++)
            holder[m[i].rank] = m[start[p] + (i - start[d]) % size].rank;
    }
    if (nranks == 1)
        holder[0] = -1;
    free(m);
    free(start);
    return alone ? nranks : 0;
}

int ftk_map_groups(int size, int nranks, const int *domain, int *group_of)
{
    struct member *m = malloc((size_t)nranks * sizeof *m);
    int *start = malloc(((size_t)nranks + 1) * sizeof *start);
    if (!m || !start) {
        free(m);
        free(start);
        return ftk_fail(FTKIT_ERR_NOMEM, "map of %d ranks", nranks);
    }
    int ndomains = group(nranks, domain, m, start);
    int ngroups = nranks / size + (nranks % size != 0);
    for (int d = 0; d < ndomains && ndomains > 1; d++)
        if (start[d + 1] - start[d] > ngroups)
            ngroups = start[d + 1] - start[d];
    for (int i = 0; i < nranks; i++)
        group_of[m[i].rank] = i % ngroups;
    free(m);
    free(start);
    return ngroups;
}
