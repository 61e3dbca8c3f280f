/* The kernel of cuda_sums.c: XXH3-64 of blocks in memory of a device.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * scripts/ptx makes cuda_sums_ptx.h of this file.
 *
 * Source: XXH3 by Y. Collet (doc/xxhash_spec.md of xxHash, "XXH3 for long inputs").  That algorithm
 * cuts its input into blocks of 1 KiB, here called units.  A unit is 16 stripes of 64 bytes, and a
 * stripe has 8 words, one for each of the 8 accumulators.  The sum of a unit does not depend on the
 * accumulators, so threads compute the sums of many units at once.  8 threads then chain them, one
 * for each accumulator.  Other lengths than multiples of 64 KiB are not computed here.
 *
 * A thread has two words of each stripe of a unit: 4 threads for a unit, 64 units for a part of
 * 64 KiB. */
typedef unsigned long long word;
typedef word two_words __attribute__((ext_vector_type(2)));

#define KERNEL extern "C" __attribute__((global))
#define SHARED __attribute__((shared))
#define CONSTANT static __attribute__((constant)) const
#define INLINE static inline __attribute__((device, always_inline))

enum { UNITS = 64, STRIPES = 16, LANES = 8, THREADS = 256, SECRET = 24, AHEAD = 8 };

#define PRIME32_1 0x9E3779B1ull
#define PRIME32_2 0x85EBCA77ull
#define PRIME32_3 0xC2B2AE3Dull
#define PRIME64_1 0x9E3779B185EBCA87ull
#define PRIME64_2 0xC2B2AE3D27D4EB4Full
#define PRIME64_3 0x165667B19E3779F9ull
#define PRIME64_4 0x85EBCA77C2B2AE63ull
#define PRIME64_5 0x27D4EB2F165667C5ull

/* The secret of 192 bytes that XXH3 has by default. */
CONSTANT word secret[SECRET] = { 0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de,
    0x1f67b3b7a4a44072, 0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8,
    0x4c263a81e69035e0, 0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471,
    0xd8acdea946ef1938, 0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a,
    0x647378d9c97e9fc8, 0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17,
    0x9e68d429265516d3, 0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45,
    0x7e404bbbcafbd7af };

CONSTANT word starts[LANES] = { PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2,
    PRIME64_5, PRIME32_1 };

/* The word at any byte of the secret. */
INLINE word key_at(const word *of, unsigned byte)
{
    const unsigned i = byte / 8, bits = byte % 8 * 8;
    return bits == 0 ? of[i] : of[i] >> bits | of[i + 1] << (64 - bits);
}

INLINE word fold(word a, word b)
{
    return (a * b) ^ (word)((unsigned __int128)a * b >> 64);
}

INLINE word product(word key)
{
    return (key & 0xffffffffu) * (key >> 32);
}

/* The sum of a unit, for two accumulators: those of the lanes 2 * pair and 2 * pair + 1.  last: the
 * unit is the last one of the block, whose last stripe has another key. */
INLINE two_words sum_unit(const two_words *at, const word *keys, unsigned pair, bool last)
{
    two_words sum = { 0, 0 };
#pragma clang loop unroll(disable)
    for (int first = 0; first < STRIPES; first += AHEAD) {
        two_words data[AHEAD];
#pragma clang loop unroll(full)
        for (int s = 0; s < AHEAD; s++)
            data[s] = at[(first + s) * (LANES / 2)];
#pragma clang loop unroll(full)
        for (int s = 0; s < AHEAD; s++) {
            const bool end = s == AHEAD - 1 && last && first + AHEAD == STRIPES;
            const word *own = end ? keys + SECRET : keys + first + s;
            sum.x += data[s].y + product(data[s].x ^ own[2 * pair]);
            sum.y += data[s].x + product(data[s].y ^ own[2 * pair + 1]);
        }
    }
    return sum;
}

/* to[i] = XXH3-64 of the block i of parts * 64 KiB.  One group of 256 threads for each block; from
 * is a multiple of 16. */
KERNEL __attribute__((launch_bounds(THREADS))) void ftk_xxh3_blocks(
    const two_words *from, word *to, unsigned parts)
{
    static SHARED word sums[UNITS][LANES];
    static SHARED word keys[SECRET + LANES]; /* the secret, and the keys of the last stripe */
    const unsigned thread = (unsigned)__nvvm_read_ptx_sreg_tid_x();
    const unsigned block = (unsigned)__nvvm_read_ptx_sreg_ctaid_x();
    const unsigned pair = thread % (LANES / 2), unit = thread / (LANES / 2);
    const word first = (word)block * parts * UNITS + unit;
    const two_words *at = from + first * (STRIPES * LANES / 2) + pair;
    if (thread < SECRET)
        keys[thread] = secret[thread];
    else if (thread < SECRET + LANES)
        keys[thread] = key_at(secret, 121 + (thread - SECRET) * 8);
    word lane = starts[thread % LANES];
    __nvvm_bar_sync(0);
    for (unsigned part = 0; part < parts; part++, at += UNITS * STRIPES * LANES / 2) {
        const bool end = part + 1 == parts;
        const two_words sum = sum_unit(at, keys, pair, end && unit == UNITS - 1);
        sums[unit][2 * pair] = sum.x;
        sums[unit][2 * pair + 1] = sum.y;
        __nvvm_bar_sync(0);
#pragma clang loop unroll(disable)
        for (int i = 0; i < UNITS && thread < LANES; i++) {
            lane += sums[i][thread];
            if (end && i == UNITS - 1)
                break;
            lane = (lane ^ lane >> 47 ^ keys[STRIPES + thread]) * PRIME32_1;
        }
        __nvvm_bar_sync(0);
    }
    if (thread < LANES)
        sums[0][thread] = lane ^ key_at(secret, 11 + thread * 8);
    __nvvm_bar_sync(0);
    if (thread != 0)
        return;
    word sum = (word)parts * (UNITS * STRIPES * LANES * sizeof(word)) * PRIME64_1;
#pragma clang loop unroll(disable)
    for (int i = 0; i < LANES; i += 2)
        sum += fold(sums[0][i], sums[0][i + 1]);
    sum = (sum ^ sum >> 37) * 0x165667919E3779F9ull;
    to[block] = sum ^ sum >> 32;
}
