/* Where the files of a program are: paths, directories, copies (place.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/compat.h"
#include "place.h"

enum { PATH_BYTES = 2 * PATH_MAX };

/* Remove "", "." and ".." from an absolute path, by its text alone.  false: it leads above "/". */
static bool normalize(char *path)
{
    char *to = path;
    for (const char *from = path; *from;) {
        const char *begin = from + strspn(from, "/");
        const size_t n = strcspn(begin, "/");
        from = begin + n;
        if (n == 0 || (n == 1 && *begin == '.'))
            continue;
        if (n == 2 && memcmp(begin, "..", 2) == 0) {
            if (to == path)
                return false;
            while (*--to != '/') {}
            continue;
        }
        *to++ = '/';
        memmove(to, begin, n);
        to += n;
    }
    *to = '\0';
    return true;
}

static bool absolute(const char *name, char *path, size_t room)
{
    char cwd[PATH_MAX] = "";
    if (*name != '/' && !getcwd(cwd, sizeof cwd))
        return false;
    const int n = snprintf(path, room, "%s/%s", cwd, name);
    return n >= 0 && (size_t)n < room && normalize(path);
}

bool ftk_scr_below(const char *prefix, const char *name, char *path, size_t room)
{
    char all[PATH_BYTES];
    const size_t n = strcmp(prefix, "/") == 0 ? 0 : strlen(prefix);
    if (!*name || name[strlen(name) - 1] == '/' || !absolute(name, all, sizeof all))
        ftk_compat_say("SCR_Route_file: '%s' is no path of a file", name);
    else if (strncmp(all, prefix, n) != 0 || all[n] != '/' || !all[n + 1])
        ftk_compat_say("SCR_Route_file: %s is not below SCR_PREFIX, %s", all, prefix);
    else if (strlen(all + n + 1) >= room)
        ftk_compat_say("SCR_Route_file: %s is too long", all);
    else {
        snprintf(path, room, "%s", all + n + 1);
        return true;
    }
    return false;
}

bool ftk_scr_make_parents(const char *dir, const char *path)
{
    char all[PATH_BYTES];
    const int n = snprintf(all, sizeof all, "%s/%s", dir, path);
    if (n < 0 || (size_t)n >= sizeof all) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (char *p = all + strlen(dir) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        if (!ftk_compat_directory(all))
            return false;
        *p = '/';
    }
    return true;
}

/* ---- copies -------------------------------------------------------------------------- */

static bool copy_bytes(int from, int to)
{
    enum { AT_ONCE = 1 << 20 };
    char *buf = malloc(AT_ONCE);
    ssize_t got = -1;
    while (buf && (got = read(from, buf, AT_ONCE)) > 0) {
        for (ssize_t at = 0, n; at < got; at += n) {
            n = write(to, buf + at, (size_t)(got - at));
            if (n < 0) {
                free(buf);
                return false;
            }
        }
    }
    free(buf);
    return got == 0;
}

static bool copy_open(int from, const char *temporary)
{
    struct stat at;
    if (fstat(from, &at) != 0)
        return false;
    const int to = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
        at.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO));
    if (to < 0)
        return false;
    const bool good = copy_bytes(from, to) && fsync(to) == 0;
    return close(to) == 0 && good;
}

bool ftk_scr_copy(const char *from, const char *to, const char *path)
{
    char source[PATH_BYTES], target[PATH_BYTES], temporary[PATH_BYTES + 16];
    snprintf(source, sizeof source, "%s/%s", from, path);
    snprintf(target, sizeof target, "%s/%s", to, path);
    snprintf(temporary, sizeof temporary, "%s.part", target);
    if (!ftk_scr_make_parents(to, path))
        return false;
    const int fd = open(source, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    bool good = copy_open(fd, temporary) && rename(temporary, target) == 0;
    const int why = errno;
    if (!good)
        (void)unlink(temporary); /* the first error counts */
    good = close(fd) == 0 && good;
    if (!good)
        errno = why;
    return good;
}
