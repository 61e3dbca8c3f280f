/* Basic types of the items of a region, as segments and files name them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_BASIC_H
#define FTK_BASIC_H

/* Basic types; values are on disk.  elem_bytes of the record is the packed size of one
 * item, a multiple of the size of its basic type. */
enum ftk_basic {
    FTK_T_OPAQUE = 0, /* bytes without a basic type of their own */
    FTK_T_I8 = 1,
    FTK_T_I16 = 2,
    FTK_T_I32 = 3,
    FTK_T_I64 = 4,
    FTK_T_U8 = 5,
    FTK_T_U16 = 6,
    FTK_T_U32 = 7,
    FTK_T_U64 = 8,
    FTK_T_F32 = 9,
    FTK_T_F64 = 10,
    FTK_T_LONGDOUBLE = 11,  /* x87 or IEEE quad: 16 bytes */
    FTK_T_C32 = 12,         /* complex of two F32 */
    FTK_T_C64 = 13,         /* complex of two F64 */
    FTK_T_CLONGDOUBLE = 14, /* complex of two LONGDOUBLE */
    FTK_T_CHAR = 15,        /* text */
    FTK_T_BOOL = 16         /* C bool, one byte */
};

#endif
