/* The file of shared memory: a memfd of one process, which others open by its address.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An address is a process and its descriptor.  A set keeps addresses, so the process may be over,
 * and another one may have its number.  So nothing is opened before its name is that of such a
 * file, and the file is taken only with the size and the token that are meant.
 *
 * Functions that return int return 0 or errno. */
#ifndef FTK_LOG_WIN_SHARE_FILE_H
#define FTK_LOG_WIN_SHARE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A token for a file of this process; of: a number that tells the files of one moment apart. */
uint64_t ftk_share_file_token(uint64_t of);
/* A new file with memory for all its bytes.  Its first word is the token. */
int ftk_share_file_make(size_t bytes, uint64_t token, int *fd);
/* The same, with memory for a byte at its first use (core/memfd.h). */
int ftk_share_file_make_sparse(size_t bytes, uint64_t token, int *fd);
/* Whether the descriptor of a file may stay open; else it is for the program. */
bool ftk_share_file_may_stay(int fd);
/* The address of a file that this process has open. */
uint64_t ftk_share_file_address(int fd);
/* Open the file at an address, if it is the one that is meant; else ESTALE, or why it is not
 * there. */
int ftk_share_file_open(uint64_t address, size_t bytes, uint64_t token, int *fd);

#endif
