/* Numbers in text, with a point in every locale of the program.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A program that calls setlocale(LC_ALL, "") may have a decimal comma.  What the library writes for
 * others to read, or reads, must not depend on that.  So the library formats a double only by these
 * functions and by those that use them: ftk_fail...(), ftk_report() (tests/lint.t).
 * Threads: any.  Only the locale of the calling thread changes, and only during the call. */
#ifndef FTK_FORMAT_H
#define FTK_FORMAT_H

#include <locale.h>
#include <stdarg.h>

#include "ftk.h"

/* As snprintf() and vsnprintf(). */
int ftk_format(char *out, size_t bytes, const char *fmt, ...) FTK_PRINTF(3, 4);
int ftk_vformat(char *out, size_t bytes, const char *fmt, va_list ap) FTK_PRINTF(3, 0);

/* Enter the C locale, for a piece of code that reads or writes numbers in other ways.  The result
 * is for ftk_locale_leave(). */
locale_t ftk_locale_enter(void);
void ftk_locale_leave(locale_t before);

#endif
