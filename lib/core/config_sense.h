/* Values that are valid one by one, and contradict each other.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_CONFIG_SENSE_H
#define FTK_CONFIG_SENSE_H

#include "config.h"

enum ftk_sense {
    FTK_SENSE_IDLE, /* the key has no effect: a warning if it is set by file or variable */
    FTK_SENSE_ODD,  /* a warning in any case */
    FTK_SENSE_WRONG /* refused */
};

/* Called for each finding.  key: offset of the key in struct ftk_config; why: the mistake and its
 * remedy. */
typedef void ftk_sense_fn(void *arg, enum ftk_sense kind, size_t key, const char *why);

/* Call say for each contradiction in a configuration.  Precondition: each value is in its range. */
void ftk_config_sense(const struct ftk_config *cfg, ftk_sense_fn *say, void *arg);

#endif
