/* The settings of VeloC that have a meaning here.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_VELOC_CONFIG_H
#define FTK_VELOC_CONFIG_H

#include <stdbool.h>

struct ftk_veloc_config {
    char persistent[1024]; /* "": no files */
    long interval_s;       /* of persistent checkpoints, 0: all, -1: none */
    long versions;         /* kept there, 0: all */
    bool waits;            /* mode = sync */
};

/* Read a file of settings, and the variables VELOC_... of the environment, which come first.
 * said: a line names the keys without effect.  false: a line says why. */
bool ftk_veloc_read(const char *path, bool said, struct ftk_veloc_config *config);

bool ftk_veloc_same(const struct ftk_veloc_config *a, const struct ftk_veloc_config *b);

/* The file among the arguments of the process, or that of FTKIT_VELOC_CONFIG.  false: there is
 * none. */
bool ftk_veloc_find(char *path, unsigned long bytes);

/* The INI file of ftkit; config may be NULL. */
void ftk_veloc_ini(const struct ftk_veloc_config *config, char *ini);

#endif
