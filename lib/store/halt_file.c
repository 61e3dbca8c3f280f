/* The file of `ftkit halt` (see halt_file.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "halt_file.h"

enum { TEXT_MAX = 32 };

static void path_of(const char *dir, const char *context, char path[2 * FTK_PATH_MAX])
{
    snprintf(path, (size_t)2 * FTK_PATH_MAX, "%s/%s.ftkit/halt", dir, context);
}

static size_t format(uint64_t job, char text[TEXT_MAX])
{
    return (size_t)snprintf(text, TEXT_MAX, "job = %016" PRIx64 "\n", job);
}

bool ftk_halt_file_asks(const char *dir, const char *context, uint64_t job)
{
    char path[2 * FTK_PATH_MAX], text[TEXT_MAX] = "", want[TEXT_MAX];
    path_of(dir, context, path);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        (void)close(fd); /* nothing was written */
    return n == (ssize_t)format(job, want) && strcmp(text, want) == 0;
}

int ftk_halt_file_write(const char *dir, const char *context, uint64_t job)
{
    char path[2 * FTK_PATH_MAX], text[TEXT_MAX];
    path_of(dir, context, path);
    return ftk_save_text(path, text, format(job, text));
}

void ftk_halt_file_remove(const char *dir, const char *context)
{
    char path[2 * FTK_PATH_MAX];
    path_of(dir, context, path);
    (void)unlink(path); /* the file names its job, so it halts no other */
}
