/* The settings of FTI that have a meaning here.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_FTI_CONFIG_H
#define FTK_FTI_CONFIG_H

#include <stdbool.h>

/* Read a file of settings, and make the INI file of ftkit from it.
 * said: a line names the keys without effect.  false: a line says why. */
bool ftk_fti_ini(const char *path, bool said, char *ini);

#endif
