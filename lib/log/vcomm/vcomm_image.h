/* The virtual communicators of a line in a set.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_VCOMM_IMAGE_H
#define FTK_LOG_VCOMM_IMAGE_H

#include "log/log.h"

/* Reading: make constructs the missing
 * communicators and detaches others.  pass(): the address behind n images, NULL: they are cut
 * short. */
int ftk_vcomm_image_context(MPI_Comm comm);            /* log_ops.h: context_of */
int ftk_vcomm_of_context(int context, MPI_Comm *comm); /* log_ops.h: comm_back */
size_t ftk_vcomm_images_words(void);
uint64_t *ftk_vcomm_images_write(uint64_t *w);
int ftk_vcomm_images_read(const uint64_t *w, const uint64_t *end, bool make);
const uint64_t *ftk_vcomm_images_pass(const uint64_t *w, const uint64_t *end, uint64_t n);

#endif
