/* Hashes and parities leave the vector registers as they found them: the program's own
 * arithmetic does not pay for them (store/vector.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/hash.h"
#include "store/parity.h"

#define BYTES 65536

static unsigned char *block[6];

#if defined(__x86_64__)
/* Whether the processor can tell which parts of its state are in use. */
static int can_tell(void)
{
    return __builtin_cpu_supports("avx"); /* then it can save them */
}

/* The upper halves, of 256 or 512 bits: saving says which parts there are to be saved.  No
 * other function is called before, which might clear them. */
static int in_use(void)
{
    static unsigned char area[8192] __attribute__((aligned(64)));
    uint64_t parts;
    __asm__ volatile("xsave64 %0" : "+m"(area) : "a"(1u << 2 | 1u << 6), "d"(0) : "memory");
    memcpy(&parts, area + 512, sizeof parts);
    return (parts >> 2 & 1) || (parts >> 6 & 1);
}

static void use_them(void)
{
    __asm__ volatile("vpcmpeqd %%xmm0, %%xmm0, %%xmm0\n\tvinsertf128 $1, %%xmm0, %%ymm0, %%ymm0" ::
                         : "xmm0");
}
static void clear_them(void)
{
    __asm__ volatile("vzeroupper");
}
#else
static int can_tell(void)
{
    return 0;
}
static int in_use(void)
{
    return 0;
}
static void use_them(void)
{
}
static void clear_them(void)
{
}
#endif

static void needs_to_tell(void)
{
    if (!can_tell())
        skip();
    use_them();
    if (!in_use())
        skip();
    clear_them();
    if (in_use())
        skip(); /* it is emulated, and says so always */
}

static void hashes(void **state)
{
    (void)state;
    needs_to_tell();
    for (size_t n = 1; n <= BYTES; n *= 4) {
        volatile uint64_t h = ftk_xxh3(block[0], n);
        assert_false(in_use());
        h += ftk_xxh3_seed(block[0], n, 7);
        assert_false(in_use());
    }
    XXH3_state_t *x = XXH3_createState();
    assert_non_null(x);
    assert_int_equal(XXH_OK, XXH3_64bits_reset(x));
    assert_int_equal(XXH_OK, ftk_xxh3_update(x, block[0], BYTES));
    assert_false(in_use());
    volatile uint64_t h = XXH3_64bits_digest(x);
    (void)h;
    assert_false(in_use());
    XXH3_freeState(x);
}

static void parities(void **state)
{
    (void)state;
    needs_to_tell();
    for (int m = 1; m <= 2; m++) {
        struct ftk_solver s;
        const int in[4] = { 0, 1, 2, 3 }, out[2] = { 4, 5 };
        assert_int_equal(0, ftk_code_solve(&s, 4 + m, m, in, out, m));
        ftk_code_apply(&s, BYTES, block, block + 4);
        assert_false(in_use());
    }
}

static int make(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        block[i] = aligned_alloc(64, BYTES);
        if (!block[i])
            return 1;
        memset(block[i], 17 * i + 1, BYTES);
    }
    return 0;
}

static int drop(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++)
        free(block[i]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(hashes), cmocka_unit_test(parities) };
    return cmocka_run_group_tests(tests, make, drop);
}
