/* Writes the constants of ftkit.h as Fortran parameters.  Run when the module is built, so that
 * there is only one table of codes.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "ftkit.h"

static void line(const char *name, int value)
{
    printf("    integer, parameter, public :: FTKIT_%s = %d\n", name, value);
}

int main(void)
{
#define CODE(name, value, text) line(#name, value);
    FTKIT_STATUS_LIST(CODE)
#define SAME(name) line(#name, FTKIT_##name);
    SAME(MODE_RESTART)
    SAME(MODE_GLOBAL)
    SAME(MODE_TEAM)
    /* Fortran knows no case: FTKIT_INFO would be the type ftkit_info */
    line("COMPARE_EXACT", FTKIT_COMPARE_EXACT);
    line("COMPARE_OFF", FTKIT_COMPARE_OFF);
    line("LEVEL_ERROR", FTKIT_ERROR);
    line("LEVEL_WARNING", FTKIT_WARNING);
    line("LEVEL_INFO", FTKIT_INFO);
    line("LEVEL_DEBUG", FTKIT_DEBUG);
    SAME(NAME_MAX)
    SAME(DIMS_MAX)
    SAME(VERSION_MAJOR)
    SAME(VERSION_MINOR)
    SAME(VERSION_PATCH)
    return ferror(stdout) != 0;
}
