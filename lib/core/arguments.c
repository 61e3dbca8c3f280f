/* The command line of this process (see arguments.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "ftk.h"

#define ARGS_MAX (1 << 20)

static char *command_line;
static size_t command_bytes;
static char directory[FTK_PATH_MAX];

__attribute__((constructor)) static void keep_command_line(void)
{
    size_t cap = 4096;
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? 1 : 0;
    while (n > 0 && command_bytes < ARGS_MAX) {
        char *more = realloc(command_line, cap + 1);
        if (!more)
            break; /* the replacement will have fewer arguments, or none */
        command_line = more;
        n = read(fd, command_line + command_bytes, cap - command_bytes);
        command_bytes += n > 0 ? (size_t)n : 0;
        cap = command_bytes == cap ? 2 * cap : cap;
    }
    if (fd >= 0)
        (void)close(fd); /* only read from */
    if (command_line)
        command_line[command_bytes] = '\0';
    if (!getcwd(directory, sizeof directory))
        directory[0] = '\0';
}

const char *ftk_arguments(size_t *bytes)
{
    *bytes = command_bytes;
    return command_line;
}

const char *ftk_arguments_directory(void)
{
    return directory;
}

void ftk_arguments_executable(char path[FTK_PATH_MAX])
{
    static const char deleted[] = " (deleted)"; /* the kernel's mark */
    const size_t tail = sizeof deleted - 1;
    ssize_t n = readlink("/proc/self/exe", path, FTK_PATH_MAX - 1);
    path[n > 0 ? n : 0] = '\0';
    if (n > (ssize_t)tail && strcmp(path + n - tail, deleted) == 0)
        path[n - (ssize_t)tail] = '\0';
}
