/* The reader of the mark of a run that has finished.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"
#include "store/finished.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char path[128];
    static struct ftk_finished f;
    static const char text[] = "model\0-n\0012\0: air\0config", directories[] = "/tmp\0/tmp";
    const struct ftk_finished_start start = {
        .text = text, .bytes = sizeof text, .directories = directories, .nprograms = 2
    };
    char why[256] = "";
    if (!path[0]) {
        snprintf(path, sizeof path, "%s/heat.ftkit", fuzz_work());
        MUST(mkdir(path, 0777) == 0);
        snprintf(path, sizeof path, "%s/heat.ftkit/" FTK_FINISHED_FILE, fuzz_work());
    }
    fuzz_write(path, data, bytes);
    if (ftk_finished_read(fuzz_work(), "heat", &f) == FTKIT_OK
        && ftk_finished_differs(&f, &start, why, sizeof why))
        MUST(strlen(why) > 0);
    return 0;
}
