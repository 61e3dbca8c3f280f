/* The reader of the record of a job that owns a directory.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"
#include "store/owner.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char path[128];
    struct ftk_owner_record r = { 0 };
    char text[256];
    bool alive;
    if (!path[0]) {
        snprintf(path, sizeof path, "%s/heat.ftkit", fuzz_work());
        MUST(mkdir(path, 0777) == 0);
        snprintf(path, sizeof path, "%s/heat.ftkit/owner", fuzz_work());
        ftk_owner_pace(0, 0, 0, 5); /* without waiting for anything */
    }
    fuzz_write(path, data, bytes);
    if (ftk_owner_alive(fuzz_work(), "heat", NULL, &alive, &r) == FTKIT_OK) {
        ftk_owner_text(&r, text, sizeof text);
        MUST(strlen(text) > 0);
    }
    return 0;
}
