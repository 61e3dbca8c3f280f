/* The context of a program that asks MPI_COMM_WORLD for rank and size before its library begins.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The spares would be among the ranks then.  So the linker hands MPI_Init to early.c (--wrap), and
 * the context is open when MPI_Init returns: from then on MPI_COMM_WORLD has the working ranks
 * (with the message log).  The context is closed in MPI_Finalize, so a program may also communicate
 * after the end of its library. */
#ifndef FTK_COMPAT_EARLY_H
#define FTK_COMPAT_EARLY_H

/* Open the context on MPI_COMM_WORLD.  Each library with early.c defines this function; MPI_Init
 * calls it.  The library notes whether the context could be opened. */
void ftk_compat_open_early(void);

#endif
