/* The reader of configurations: what it takes it prints so that it is taken again.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"
#include "core/config.h"

static void print(const struct ftk_config *cfg, const char *path)
{
    FILE *f = fopen(path, "w");
    MUST(f && ftk_config_print(f, cfg) == FTKIT_OK && fclose(f) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char path[128], again[128];
    static struct ftk_config cfg, second;
    if (!path[0]) {
        snprintf(path, sizeof path, "%s/in", fuzz_work());
        snprintf(again, sizeof again, "%s/again", fuzz_work());
    }
    fuzz_write(path, data, bytes);
    if (ftk_config_load(&cfg, path) != FTKIT_OK) {
        MUST(strlen(ftk_detail_text()) > 0);
        return 0;
    }
    print(&cfg, again);
    MUST(ftk_config_load(&second, again) == FTKIT_OK);
    memcpy(second.source, cfg.source, sizeof cfg.source);
    MUST(strcmp(cfg.name, second.name) == 0 && strcmp(cfg.h5_dir, second.h5_dir) == 0);
    MUST(cfg.spares == second.spares && cfg.nsupply == second.nsupply);
    return 0;
}
