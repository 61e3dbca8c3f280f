/* A fuzz target without a fuzzer: every kept input, each also cut off at many places and
 * with each of its bits flipped.
 *
 *   replay FILE...
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"

#define INPUT_MAX (1u << 20)
#define BITS_MAX 20000 /* flips of one input */

static void run(const uint8_t *data, size_t bytes)
{
    uint8_t *own = malloc(bytes ? bytes : 1); /* of its size, so that its end is watched */
    MUST(own);
    memcpy(own, data, bytes);
    (void)LLVMFuzzerTestOneInput(own, bytes);
    free(own);
}

static void replay(const char *path)
{
    static uint8_t data[INPUT_MAX];
    int fd = open(path, O_RDONLY);
    MUST(fd >= 0);
    ssize_t n = read(fd, data, sizeof data);
    MUST(n >= 0);
    close(fd);
    size_t bytes = (size_t)n;
    run(data, bytes);
    for (size_t k = 0; k < bytes; k += bytes / 200 + 1)
        run(data, k);
    for (size_t bit = 0; bit < 8 * bytes; bit += 8 * bytes / BITS_MAX + 1) {
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        run(data, bytes);
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    printf("%d inputs\n", argc - 1);
    return 0;
}
