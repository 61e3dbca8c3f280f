/* Calls of shmem.h without a type in their name, for C11.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A call has the function with a context of the type of *(dest), or of *(source).  The number of
 * arguments says whether the program gives a context.  shmem.h includes this file. */
#ifndef FTKIT_SHMEM_GENERIC_H
#define FTKIT_SHMEM_GENERIC_H

/* One association of _Generic for each type of a table: SHMEM_CALL_... with a context. */
#define SHMEM_CALL_put(name, type, mpi)                                                            \
    type:                                                                                          \
    shmem_ctx_##name##_put,
#define SHMEM_CALL_get(name, type, mpi)                                                            \
    type:                                                                                          \
    shmem_ctx_##name##_get,
#define SHMEM_CALL_put_nbi(name, type, mpi)                                                        \
    type:                                                                                          \
    shmem_ctx_##name##_put_nbi,
#define SHMEM_CALL_get_nbi(name, type, mpi)                                                        \
    type:                                                                                          \
    shmem_ctx_##name##_get_nbi,
#define SHMEM_CALL_p(name, type, mpi)                                                              \
    type:                                                                                          \
    shmem_ctx_##name##_p,
#define SHMEM_CALL_g(name, type, mpi)                                                              \
    type:                                                                                          \
    shmem_ctx_##name##_g,
#define SHMEM_CALL_iput(name, type, mpi)                                                           \
    type:                                                                                          \
    shmem_ctx_##name##_iput,
#define SHMEM_CALL_iget(name, type, mpi)                                                           \
    type:                                                                                          \
    shmem_ctx_##name##_iget,
#define SHMEM_CALL_atomic_fetch(name, type, mpi)                                                   \
    type:                                                                                          \
    shmem_ctx_##name##_atomic_fetch,
#define SHMEM_CALL_atomic_set(name, type, mpi)                                                     \
    type:                                                                                          \
    shmem_ctx_##name##_atomic_set,
#define SHMEM_CALL_atomic_swap(name, type, mpi)                                                    \
    type:                                                                                          \
    shmem_ctx_##name##_atomic_swap,
#define SHMEM_CALL_atomic_compare_swap(name, type, mpi)                                            \
    type:                                                                                          \
    shmem_ctx_##name##_atomic_compare_swap,
#define SHMEM_CALL_atomic_fetch_inc(name, type, mpi)                                               \
    type:                                                                                          \
    shmem_ctx_##name##_atomic_fetch_inc,
#define SHMEM_CALL_atomic_inc(name, type, mpi)                                                     \
    type:                                                                                          \
    shmem_ctx_##name##_atomic_inc,
#define SHMEM_CALL_atomic_fetch_add(name, type, mpi)                                               \
    type:                                                                                          \
    shmem_ctx_##name##_atomic_fetch_add,
#define SHMEM_CALL_atomic_add(name, type, mpi)                                                     \
    type:                                                                                          \
    shmem_ctx_##name##_atomic_add,
#define SHMEM_CALL_atomic_fetch_and(name, type, mpi)                                               \
    type:                                                                                          \
    shmem_ctx_##name##_atomic_fetch_and,
#define SHMEM_CALL_atomic_and(name, type, mpi)                                                     \
    type:                                                                                          \
    shmem_ctx_##name##_atomic_and,
#define SHMEM_CALL_atomic_fetch_or(name, type, mpi)                                                \
    type:                                                                                          \
    shmem_ctx_##name##_atomic_fetch_or,
#define SHMEM_CALL_atomic_or(name, type, mpi)                                                      \
    type:                                                                                          \
    shmem_ctx_##name##_atomic_or,
#define SHMEM_CALL_atomic_fetch_xor(name, type, mpi)                                               \
    type:                                                                                          \
    shmem_ctx_##name##_atomic_fetch_xor,
#define SHMEM_CALL_atomic_xor(name, type, mpi)                                                     \
    type:                                                                                          \
    shmem_ctx_##name##_atomic_xor,
#define SHMEM_PLAIN_cswap(name, type, mpi)                                                         \
    type:                                                                                          \
    shmem_##name##_cswap,
#define SHMEM_PLAIN_finc(name, type, mpi)                                                          \
    type:                                                                                          \
    shmem_##name##_finc,
#define SHMEM_PLAIN_inc(name, type, mpi)                                                           \
    type:                                                                                          \
    shmem_##name##_inc,
#define SHMEM_PLAIN_fadd(name, type, mpi)                                                          \
    type:                                                                                          \
    shmem_##name##_fadd,
#define SHMEM_PLAIN_add(name, type, mpi)                                                           \
    type:                                                                                          \
    shmem_##name##_add,
#define SHMEM_PLAIN_swap(name, type, mpi)                                                          \
    type:                                                                                          \
    shmem_##name##_swap,
#define SHMEM_PLAIN_fetch(name, type, mpi)                                                         \
    type:                                                                                          \
    shmem_##name##_fetch,
#define SHMEM_PLAIN_set(name, type, mpi)                                                           \
    type:                                                                                          \
    shmem_##name##_set,
#define SHMEM_PLAIN_wait_until(name, type, mpi)                                                    \
    type:                                                                                          \
    shmem_##name##_wait_until,
#define SHMEM_PLAIN_test(name, type, mpi)                                                          \
    type:                                                                                          \
    shmem_##name##_test,

struct shmem_ft_no_type;
/* The function of the type of *(at). */
#define SHMEM_OF(TYPES, CALL, at) _Generic(*(at), TYPES(CALL) struct shmem_ft_no_type * : (void *)0)
#define SHMEM_PLAIN(TYPES, CALL, at, ...) SHMEM_OF(TYPES, CALL, at)(at, __VA_ARGS__)
#define SHMEM_DEFAULT(TYPES, CALL, at, ...)                                                        \
    SHMEM_OF(TYPES, CALL, at)(SHMEM_CTX_DEFAULT, at, __VA_ARGS__)
#define SHMEM_GIVEN(TYPES, CALL, ctx, at, ...) SHMEM_OF(TYPES, CALL, at)(ctx, at, __VA_ARGS__)
/* SHMEM_DEFAULT for so many arguments, and SHMEM_GIVEN for one more. */
#define SHMEM_PICK_2(a, b, c, pick, ...) pick
#define SHMEM_WAY_2(...) SHMEM_PICK_2(__VA_ARGS__, SHMEM_GIVEN, SHMEM_DEFAULT, )
#define SHMEM_PICK_3(a, b, c, d, pick, ...) pick
#define SHMEM_WAY_3(...) SHMEM_PICK_3(__VA_ARGS__, SHMEM_GIVEN, SHMEM_DEFAULT, )
#define SHMEM_PICK_4(a, b, c, d, e, pick, ...) pick
#define SHMEM_WAY_4(...) SHMEM_PICK_4(__VA_ARGS__, SHMEM_GIVEN, SHMEM_DEFAULT, )
#define SHMEM_PICK_6(a, b, c, d, e, f, g, pick, ...) pick
#define SHMEM_WAY_6(...) SHMEM_PICK_6(__VA_ARGS__, SHMEM_GIVEN, SHMEM_DEFAULT, )

#define SHMEM_SWAP_TYPES(X) SHMEM_INTEGERS(X) SHMEM_REALS(X)
#define SHMEM_OLD_SWAP_TYPES(X) SHMEM_OLD_TYPES(X) SHMEM_REALS(X)
/* those of int32_t and int64_t; the types of C that have no such name are in the list */
#define SHMEM_BIT_GENERIC(X) SHMEM_BIT_TYPES(X) X(int32, int32_t, ) X(int64, int64_t, )

#define shmem_put(...) SHMEM_WAY_4(__VA_ARGS__)(SHMEM_RMA_TYPES, SHMEM_CALL_put, __VA_ARGS__)
#define shmem_get(...) SHMEM_WAY_4(__VA_ARGS__)(SHMEM_RMA_TYPES, SHMEM_CALL_get, __VA_ARGS__)
#define shmem_put_nbi(...)                                                                         \
    SHMEM_WAY_4(__VA_ARGS__)(SHMEM_RMA_TYPES, SHMEM_CALL_put_nbi, __VA_ARGS__)
#define shmem_get_nbi(...)                                                                         \
    SHMEM_WAY_4(__VA_ARGS__)(SHMEM_RMA_TYPES, SHMEM_CALL_get_nbi, __VA_ARGS__)
#define shmem_p(...) SHMEM_WAY_3(__VA_ARGS__)(SHMEM_RMA_TYPES, SHMEM_CALL_p, __VA_ARGS__)
#define shmem_g(...) SHMEM_WAY_2(__VA_ARGS__)(SHMEM_RMA_TYPES, SHMEM_CALL_g, __VA_ARGS__)
#define shmem_iput(...) SHMEM_WAY_6(__VA_ARGS__)(SHMEM_RMA_TYPES, SHMEM_CALL_iput, __VA_ARGS__)
#define shmem_iget(...) SHMEM_WAY_6(__VA_ARGS__)(SHMEM_RMA_TYPES, SHMEM_CALL_iget, __VA_ARGS__)
#define shmem_atomic_fetch(...)                                                                    \
    SHMEM_WAY_2(__VA_ARGS__)(SHMEM_SWAP_TYPES, SHMEM_CALL_atomic_fetch, __VA_ARGS__)
#define shmem_atomic_set(...)                                                                      \
    SHMEM_WAY_3(__VA_ARGS__)(SHMEM_SWAP_TYPES, SHMEM_CALL_atomic_set, __VA_ARGS__)
#define shmem_atomic_swap(...)                                                                     \
    SHMEM_WAY_3(__VA_ARGS__)(SHMEM_SWAP_TYPES, SHMEM_CALL_atomic_swap, __VA_ARGS__)
#define shmem_atomic_compare_swap(...)                                                             \
    SHMEM_WAY_4(__VA_ARGS__)(SHMEM_INTEGERS, SHMEM_CALL_atomic_compare_swap, __VA_ARGS__)
#define shmem_atomic_fetch_inc(...)                                                                \
    SHMEM_WAY_2(__VA_ARGS__)(SHMEM_INTEGERS, SHMEM_CALL_atomic_fetch_inc, __VA_ARGS__)
#define shmem_atomic_inc(...)                                                                      \
    SHMEM_WAY_2(__VA_ARGS__)(SHMEM_INTEGERS, SHMEM_CALL_atomic_inc, __VA_ARGS__)
#define shmem_atomic_fetch_add(...)                                                                \
    SHMEM_WAY_3(__VA_ARGS__)(SHMEM_INTEGERS, SHMEM_CALL_atomic_fetch_add, __VA_ARGS__)
#define shmem_atomic_add(...)                                                                      \
    SHMEM_WAY_3(__VA_ARGS__)(SHMEM_INTEGERS, SHMEM_CALL_atomic_add, __VA_ARGS__)
#define shmem_atomic_fetch_and(...)                                                                \
    SHMEM_WAY_3(__VA_ARGS__)(SHMEM_BIT_GENERIC, SHMEM_CALL_atomic_fetch_and, __VA_ARGS__)
#define shmem_atomic_and(...)                                                                      \
    SHMEM_WAY_3(__VA_ARGS__)(SHMEM_BIT_GENERIC, SHMEM_CALL_atomic_and, __VA_ARGS__)
#define shmem_atomic_fetch_or(...)                                                                 \
    SHMEM_WAY_3(__VA_ARGS__)(SHMEM_BIT_GENERIC, SHMEM_CALL_atomic_fetch_or, __VA_ARGS__)
#define shmem_atomic_or(...)                                                                       \
    SHMEM_WAY_3(__VA_ARGS__)(SHMEM_BIT_GENERIC, SHMEM_CALL_atomic_or, __VA_ARGS__)
#define shmem_atomic_fetch_xor(...)                                                                \
    SHMEM_WAY_3(__VA_ARGS__)(SHMEM_BIT_GENERIC, SHMEM_CALL_atomic_fetch_xor, __VA_ARGS__)
#define shmem_atomic_xor(...)                                                                      \
    SHMEM_WAY_3(__VA_ARGS__)(SHMEM_BIT_GENERIC, SHMEM_CALL_atomic_xor, __VA_ARGS__)

/* Waiting, and the atomic calls of OpenSHMEM before 1.4, have no context. */
#define shmem_wait_until(...) SHMEM_PLAIN(SHMEM_SYNC_TYPES, SHMEM_PLAIN_wait_until, __VA_ARGS__)
#define shmem_test(...) SHMEM_PLAIN(SHMEM_SYNC_TYPES, SHMEM_PLAIN_test, __VA_ARGS__)
#define shmem_cswap(...) SHMEM_PLAIN(SHMEM_OLD_TYPES, SHMEM_PLAIN_cswap, __VA_ARGS__)
#define shmem_finc(...) SHMEM_PLAIN(SHMEM_OLD_TYPES, SHMEM_PLAIN_finc, __VA_ARGS__)
#define shmem_inc(...) SHMEM_PLAIN(SHMEM_OLD_TYPES, SHMEM_PLAIN_inc, __VA_ARGS__)
#define shmem_fadd(...) SHMEM_PLAIN(SHMEM_OLD_TYPES, SHMEM_PLAIN_fadd, __VA_ARGS__)
#define shmem_add(...) SHMEM_PLAIN(SHMEM_OLD_TYPES, SHMEM_PLAIN_add, __VA_ARGS__)
#define shmem_swap(...) SHMEM_PLAIN(SHMEM_OLD_SWAP_TYPES, SHMEM_PLAIN_swap, __VA_ARGS__)
#define shmem_fetch(...) SHMEM_PLAIN(SHMEM_OLD_SWAP_TYPES, SHMEM_PLAIN_fetch, __VA_ARGS__)
#define shmem_set(...) SHMEM_PLAIN(SHMEM_OLD_SWAP_TYPES, SHMEM_PLAIN_set, __VA_ARGS__)

#endif
