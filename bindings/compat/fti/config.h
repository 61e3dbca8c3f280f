/* The settings of FTI that have a meaning here.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_FTI_CONFIG_H
#define FTK_FTI_CONFIG_H

#include <stdbool.h>

enum { FTK_FTI_PATH_BYTES = 1100 };

/* What a run leaves to the next one. */
struct ftk_fti_keep {
    bool last; /* keep_last_ckpt: the next run goes on from the last checkpoint */
    bool over; /* a run has finished, and left nothing: this one begins anew */
    char mark[FTK_FTI_PATH_BYTES]; /* the file in glbl_dir that says so */
};

/* Read a file of settings, and make the INI file of ftkit from it.
 * said: a line names the keys without effect.  false: a line says why. */
bool ftk_fti_ini(const char *path, bool said, struct ftk_fti_keep *keep, char *ini);

#endif
