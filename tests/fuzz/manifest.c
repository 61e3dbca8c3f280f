/* The reader of manifests: any text, with a checksum that is right.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"
#include "store/h5/h5_priv.h"
#include "core/hash.h"

static void check(const struct ftk_manifest *m)
{
    uint64_t ranks = 0;
    uint32_t *all = ftk_manifest_ranks(m);
    MUST(m->nranks > 0 && strlen(m->context) < sizeof m->context);
    for (uint32_t i = 0; i < m->nparts; i++)
        ranks += m->parts[i].nranks;
    MUST(ranks == m->nranks);
    for (uint32_t i = 0; i < m->nranks; i++)
        MUST(m->part_of[i] < m->nparts && (!all || all[i] < m->nranks));
    free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static int dirfd = -1;
    static char path[128], text[65536];
    if (dirfd < 0) {
        snprintf(path, sizeof path, "%s/%s", fuzz_work(), FTK_MANIFEST_FILE);
        dirfd = open(fuzz_work(), O_RDONLY);
        MUST(dirfd >= 0);
    }
    if (bytes > sizeof text - 64)
        return 0;
    memcpy(text, data, bytes);
    int n = snprintf(
        text + bytes, 64, "checksum = %016llx\n", (unsigned long long)XXH3_64bits(data, bytes));
    fuzz_write(path, text, bytes + (size_t)n);
    for (int raw = 0; raw < 2; raw++) {
        struct ftk_manifest m;
        if (ftk_manifest_load(dirfd, "heat", 12, &m) == FTKIT_OK) {
            check(&m);
            (void)ftk_h5_check_parts(dirfd, &m, false, NULL, NULL);
        } else {
            MUST(!m.parts && !m.part_of);
        }
        ftk_manifest_free(&m);
        fuzz_write(path, data, bytes); /* and now as it is */
    }
    return 0;
}
