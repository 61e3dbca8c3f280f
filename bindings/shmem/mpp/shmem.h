/* The name of the header in programs that are older than OpenSHMEM 1.2.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "../shmem.h"
