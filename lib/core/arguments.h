/* The command line of this process, kept before main() runs: a program may write into its
 * arguments (strtok() on an option, a title for ps), and change its working directory.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_ARGUMENTS_H
#define FTK_ARGUMENTS_H

#include "ftk.h"

/* The command and its arguments, each with its NUL, and one more NUL behind them; NULL, and 0
 * bytes: not known. */
const char *ftk_arguments(size_t *bytes);
/* The working directory then; "": not known. */
const char *ftk_arguments_directory(void);
/* The path of the executable, without the mark of the kernel for a file that was replaced after the
 * start; "": not known. */
void ftk_arguments_executable(char path[FTK_PATH_MAX]);

#endif
