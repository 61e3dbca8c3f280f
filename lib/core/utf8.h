/* Checks of text that comes from outside.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_UTF8_H
#define FTK_UTF8_H

#include <stddef.h>

/* Bytes of the UTF-8 sequence at text, of which `left` bytes are there (at least 1); 0: no valid
 * sequence (overlong, a surrogate, or cut off). */
size_t ftk_utf8_bytes(const char *text, size_t left);

/* Return the offset of the first byte that is not printable UTF-8 text in lines; `bytes` if there
 * is none. */
size_t ftk_utf8_bad_byte(const char *text, size_t bytes);

#endif
