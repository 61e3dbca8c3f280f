/* Files that a command writes (see output.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/access.h"
#include "output.h"

/* Whether path leads to what cannot be replaced.  /dev/stdout may lead to a regular file. */
static bool is_kept(const char *path)
{
    struct stat st;
    if ((strncmp(path, "/dev/", 5) == 0 && strncmp(path, "/dev/shm/", 9) != 0)
        || strncmp(path, "/proc/", 6) == 0)
        return true;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/* A descriptor of the device or pipe itself; -1 with errno.  Nobody may read a pipe of another
 * user, and its opening could wait for ever. */
static int open_kept(const char *path)
{
    struct stat st;
    int err = ftk_access_link(path);
    if (!err && stat(path, &st) != 0)
        err = errno;
    if (!err && S_ISFIFO(st.st_mode) && st.st_uid != geteuid())
        err = EPERM;
    if (!err)
        return open(path, O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC);
    errno = err;
    return -1;
}

bool ftk_output_begin(struct ftk_output *o, const char *path)
{
    int fd = -1;
    *o = (struct ftk_output){ .path = path };
    if (is_kept(path)) {
        fd = open_kept(path);
    } else {
        o->tmp = malloc(strlen(path) + 8);
        if (o->tmp)
            fd = mkostemp(strcat(strcpy(o->tmp, path), ".XXXXXX"), O_CLOEXEC);
    }
    o->f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (o->f)
        return true;
    const int err = errno;
    if (fd >= 0)
        (void)close(fd); /* nothing was written */
    if (fd >= 0 && o->tmp)
        (void)unlink(o->tmp);
    free(o->tmp);
    errno = err;
    return false;
}

bool ftk_output_end(struct ftk_output *o)
{
    const mode_t mask = umask(0);
    (void)umask(mask);
    int err = 0;
    if (fflush(o->f) != 0 || ferror(o->f))
        err = errno ? errno : EIO;
    if (!err && o->tmp && fchmod(fileno(o->f), 0666 & ~mask) != 0)
        err = errno;
    if (fclose(o->f) != 0 && !err)
        err = errno;
    if (!err && o->tmp && rename(o->tmp, o->path) != 0)
        err = errno;
    if (err && o->tmp)
        (void)unlink(o->tmp);
    free(o->tmp);
    errno = err;
    return err == 0;
}
