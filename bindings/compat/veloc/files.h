/* Files of a checkpoint that the program writes itself, where VELOC_Route_file() says.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_VELOC_FILES_H
#define FTK_VELOC_FILES_H

#include <stdbool.h>

/* Register the files, behind ftk_compat_open().  A job whose sets cannot have files that are
 * written between two calls (lines apart, replicas) goes on without.  Returns a code of ftkit. */
int ftk_veloc_files_register(void);

/* A checkpoint begins: no file is there.  false: a line says why. */
bool ftk_veloc_files_begin(void);
/* The files of the checkpoint are written; ok false: they are of no use.  false: as above. */
bool ftk_veloc_files_end(bool ok);
/* A restart begins: the files of the restored checkpoint can be had.  false: as above. */
bool ftk_veloc_files_read(void);

/* The path of a file of the checkpoint that is written, or of the one that is read, with a NUL at
 * its end [VELOC_MAX_NAME].  A checkpoint that is read, and has one file, gives that for any name.
 * false: as above. */
bool ftk_veloc_files_route(const char *original, bool reading, char *routed);

#endif
