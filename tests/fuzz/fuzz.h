/* What the fuzz targets share.  Each is one function in the form of libFuzzer; replay.c
 * calls it on kept inputs where there is no fuzzer.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FUZZ_H
#define FUZZ_H

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* What must hold, also where assert() is off. */
#define MUST(x)                                                                                    \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* A directory of this process, removed at its end as far as it is one file per name. */
static char fuzz_dir[64];

static void fuzz_remove(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", fuzz_dir);
    if (system(command) != 0)
        fprintf(stderr, "%s stays\n", fuzz_dir);
}

static inline const char *fuzz_work(void)
{
    if (!fuzz_dir[0]) {
        /* in memory, if there is such a place: inputs are written thousands of times */
        snprintf(fuzz_dir, sizeof fuzz_dir, "%s/ftkit-fuzz.XXXXXX",
            access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        MUST(mkdtemp(fuzz_dir));
        atexit(fuzz_remove);
    }
    return fuzz_dir;
}

static inline void fuzz_write(const char *path, const void *data, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    MUST(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
    close(fd);
}

#endif
