/* Memory that processes of a node share: a file without a name, which one process makes and the
 * others open by /proc/PID/fd.  Nothing is left of it when the processes are killed.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The number of a process may be that of another one by then.  So nothing is opened before its link
 * has the name of such a file.  The caller looks at the contents: another file may have the name.
 *
 * Functions return 0 or errno. */
#ifndef FTK_MEMFD_H
#define FTK_MEMFD_H

#include <stddef.h>
#include <sys/types.h>

/* A new file with memory for all its bytes.  *fd stays after an error. */
int ftk_memfd_make(const char *name, size_t bytes, int *fd);
/* A new file whose bytes get memory at their first use, as those of malloc() do.  ENOMEM: the node
 * has less.  Where the kernel counts what it has promised, all bytes get memory now. */
int ftk_memfd_make_sparse(const char *name, size_t bytes, int *fd);
/* Copy n bytes of a file from offset at on, which this process has mapped at from.  Bytes that were
 * never used stay without memory. */
void ftk_memfd_copy(int fd, size_t at, const char *from, char *to, size_t n);
/* Open descriptor at of a process, which has the file of that name; ESTALE: it is another file.
 * *bytes: the size of the file.  *fd and *bytes stay after an error. */
int ftk_memfd_open(const char *name, pid_t pid, int at, int *fd, size_t *bytes);

#endif
