/* The standard input of a process that becomes rank 0 (see input.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "input.h"

static bool is_null(void)
{
    struct stat st;
    return fstat(STDIN_FILENO, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

void ftk_input_take(void)
{
    const char *input = getenv(FTK_INPUT_VARIABLE);
    char *path = NULL;
    long long from = input ? strtoll(input, &path, 10) : 0;
    if (!path || *path != ' ' || !is_null())
        return;
    path++;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || lseek(fd, (off_t)from, SEEK_SET) < 0 || dup2(fd, STDIN_FILENO) < 0)
        ftk_report(FTKIT_WARNING,
            "standard input: %s: %s: this process is rank 0 now, and finds no input", path,
            strerror(errno));
    else
        clearerr(stdin); /* it may have met the end of /dev/null */
    if (fd >= 0)
        (void)close(fd); /* read only */
}
