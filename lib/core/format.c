/* Numbers in text (see format.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <locale.h>
#include <pthread.h>
#include <stdio.h>

#include "format.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t c_locale; /* is never freed: 0 when there was no memory for it */

static void make(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

locale_t ftk_locale_enter(void)
{
    (void)pthread_once(&once, make); /* fails only for a bad argument */
    return uselocale(c_locale);      /* 0 changes nothing */
}

void ftk_locale_leave(locale_t before)
{
    uselocale(before);
}

int ftk_vformat(char *out, size_t bytes, const char *fmt, va_list ap)
{
    locale_t before = ftk_locale_enter();
    int n = vsnprintf(out, bytes, fmt, ap);
    ftk_locale_leave(before);
    return n;
}

int ftk_format(char *out, size_t bytes, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = ftk_vformat(out, bytes, fmt, ap);
    va_end(ap);
    return n;
}
