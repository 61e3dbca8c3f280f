/* The settings of SCR that have a meaning here.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Three sources: variables SCR_... of the environment, SCR_Config(), and a file of lines
 * NAME = value.  The first one that names a setting decides. */
#ifndef FTK_SCR_SETTINGS_H
#define FTK_SCR_SETTINGS_H

#include <stdbool.h>

enum ftk_scr_setting {
    FTK_SCR_PREFIX,     /* SCR_PREFIX: directory of the sets, and of files of the program */
    FTK_SCR_CACHE,      /* SCR_CACHE_BASE: where files are until a set has them */
    FTK_SCR_COPY,       /* SCR_COPY_TYPE: SINGLE, PARTNER, XOR, RS */
    FTK_SCR_SET_SIZE,   /* SCR_SET_SIZE: ranks that share parity */
    FTK_SCR_FAILURES,   /* SCR_SET_FAILURES: losses in such a group */
    FTK_SCR_BACKGROUND, /* SCR_FLUSH_ASYNC */
    FTK_SCR_OPENED,     /* those before are read once, when the context is opened */
    FTK_SCR_FLUSH = FTK_SCR_OPENED, /* SCR_FLUSH: each so many checkpoints go to files; 0: none */
    FTK_SCR_INTERVAL,               /* SCR_CHECKPOINT_INTERVAL, in calls */
    FTK_SCR_SECONDS,                /* SCR_CHECKPOINT_SECONDS */
    FTK_SCR_OVERHEAD,               /* SCR_CHECKPOINT_OVERHEAD, in percent */
    FTK_SCR_SETTINGS
};

/* Read the environment and the file, in the first call.  said: a line names the settings without
 * effect.  false: a line says why. */
bool ftk_scr_settings(bool said);

/* The directory of the program, absolute, without a slash at its end. */
const char *ftk_scr_prefix(void);

/* A whole number that is not negative; without a value: fallback. */
long ftk_scr_number(enum ftk_scr_setting setting, long fallback);

/* The INI file of ftkit. */
void ftk_scr_ini(char *ini);

/* SCR_Config(): opened: the settings before FTK_SCR_OPENED cannot be changed any more. */
const char *ftk_scr_config(const char *setting, bool opened);

#endif
