/* Seeded random numbers for models of failures.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The generator is xoshiro256** (Blackman & Vigna, Scrambled linear pseudorandom number
 * generators, ACM TOMS 47(4), 2021), seeded by SplitMix64 as its authors advise.  Normal numbers
 * are by the polar method of Marsaglia; the other laws by inversion. */
#include "model/random.h"

#include <limits.h>
#include <math.h>

#ifdef __clang__ /* GCC contracts nothing with -std=c11 */
#pragma STDC FP_CONTRACT OFF
#endif

#define LN2_HIGH 6.93147180369123816490e-01 /* 32 bits: its product with an exponent is exact */
#define LN2_LOW 1.90821492927058770002e-10

/* ---- functions that round alike everywhere --------------------------------------------- */

/* x = m 2^k with m in [sqrt(1/2), sqrt(2)); log m = 2 artanh((m - 1) / (m + 1)). */
double ftk_random_log(double x)
{
    int k;
    double m = frexp(x, &k);
    if (m < 0.70710678118654752) {
        m *= 2;
        k--;
    }
    double s = (m - 1) / (m + 1), z = s * s, sum = 0; /* z <= 0.0295 */
    for (int i = 23; i >= 3; i -= 2)
        sum = z * (1.0 / i + sum);
    return k * LN2_HIGH + (2 * (s + s * sum) + k * LN2_LOW);
}

/* x = k log 2 + y with |y| <= log(2) / 2; a Taylor polynomial of exp(y). */
double ftk_random_exp(double x)
{
    if (x > 709.7)
        return HUGE_VAL;
    if (x < -745)
        return 0;
    double k = floor(x / (LN2_HIGH + LN2_LOW) + 0.5);
    double y = (x - k * LN2_HIGH) - k * LN2_LOW, sum = 1;
    for (int i = 14; i >= 1; i--)
        sum = 1 + y * sum / i;
    return ldexp(sum, (int)k);
}

/* ---- the generator --------------------------------------------------------------------- */

static uint64_t split_mix(uint64_t *x)
{
    uint64_t z = *x += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

void ftk_random_seed(struct ftk_random *r, uint64_t seed, enum ftk_random_stream stream)
{
    uint64_t of_stream = (uint64_t)stream;
    uint64_t x = seed ^ split_mix(&of_stream);
    for (int i = 0; i < 4; i++)
        r->s[i] = split_mix(&x);
}

static uint64_t rotate(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

uint64_t ftk_random_bits(struct ftk_random *r)
{
    uint64_t *s = r->s, out = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return out;
}

double ftk_random_unit(struct ftk_random *r)
{
    /* 52 bits, so that the half is exact and 1 does not occur */
    return ((double)(ftk_random_bits(r) >> 12) + 0.5) * 0x1p-52;
}

uint64_t ftk_random_below(struct ftk_random *r, uint64_t n)
{
    uint64_t reject = (0 - n) % n, x; /* 2^64 mod n */
    do
        x = ftk_random_bits(r);
    while (x < reject);
    return x % n;
}

/* ---- laws ------------------------------------------------------------------------------ */

double ftk_random_normal(struct ftk_random *r)
{
    double x, y, q;
    do {
        x = 2 * ftk_random_unit(r) - 1;
        y = 2 * ftk_random_unit(r) - 1;
        q = x * x + y * y;
    } while (q >= 1 || q <= 0);
    return x * sqrt(-2 * ftk_random_log(q) / q);
}

double ftk_random_exponential(struct ftk_random *r, double mean)
{
    return -mean * ftk_random_log(ftk_random_unit(r));
}

double ftk_random_weibull(struct ftk_random *r, double shape, double scale)
{
    double x = -ftk_random_log(ftk_random_unit(r));
    return scale * ftk_random_exp(ftk_random_log(x) / shape);
}

double ftk_random_lognormal(struct ftk_random *r, double median, double sigma)
{
    return median * ftk_random_exp(sigma * ftk_random_normal(r));
}

int ftk_random_geometric(struct ftk_random *r, double p)
{
    double u = ftk_random_unit(r); /* also for p = 1, so that each draw takes one number */
    if (p >= 1)
        return 1;
    double x = ceil(ftk_random_log(u) / ftk_random_log(1 - p));
    return x < 1 ? 1 : x < INT_MAX ? (int)x : INT_MAX;
}

void ftk_random_zipf_table(double s, int n, double *table)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        table[i] = sum += ftk_random_exp(-s * ftk_random_log(i + 1));
    for (int i = 0; i < n; i++)
        table[i] /= sum;
}

int ftk_random_zipf(struct ftk_random *r, const double *table, int n)
{
    double u = ftk_random_unit(r);
    int low = 0, high = n - 1; /* the first value that is u or more is in low ... high */
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (table[middle] >= u)
            high = middle;
        else
            low = middle + 1;
    }
    return low + 1;
}
