/* Checks of text (see utf8.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdbool.h>

#include "utf8.h"

size_t ftk_utf8_bytes(const char *text, size_t left)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n = s[0] < 0x80                    ? 1
               : s[0] >= 0xc2 && s[0] <= 0xdf ? 2
               : (s[0] & 0xf0) == 0xe0        ? 3
               : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                              : 0;
    if (n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f)
        || (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

size_t ftk_utf8_bad_byte(const char *text, size_t bytes)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t i = 0;
    while (i < bytes) {
        size_t n = ftk_utf8_bytes(text + i, bytes - i);
        bool line_end = s[i] == '\n' || (s[i] == '\r' && (i + 1 == bytes || s[i + 1] == '\n'));
        if (n == 0 || s[i] == 0x7f || (s[i] < 0x20 && s[i] != '\t' && !line_end))
            break;
        i += n;
    }
    return i;
}
