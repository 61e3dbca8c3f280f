/* Clears the upper halves of vector registers, so that the program's arithmetic stays fast.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * libxxhash's and ISA-L's code for AVX leaves the upper halves of the registers in use.  Scalar
 * code that was compiled for SSE, as most programs are, then pays for merging these halves in every
 * instruction until they are cleared: a solver ran at less than half its speed after a set, or a
 * message, had been hashed. */
#ifndef FTK_VECTOR_H
#define FTK_VECTOR_H

static inline void ftk_vector_done(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx"))
        __asm__ volatile("vzeroupper" ::
                             : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                         "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
#endif
}

#endif
