/* HIP, the interface of devices of AMD, by the calls of the driver of CUDA.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The calls, flags and codes of HIP that ftkit uses are those of CUDA by another name.  So the
 * table of cuda.h serves both.  HIP has devices where CUDA has contexts: each device is one. */
#ifndef FTK_HIP_H
#define FTK_HIP_H

#include "cuda.h"

/* The functions of HIP 5, 6 or 7, without those for kernels (from `allocate` to `launch`), which
 * are NULL; NULL: HIP is not in this process, or lacks one of them.  ftkit never loads HIP.  Any
 * thread may call it.
 *
 * A call that fails does not leave an error for hipGetLastError(): if the thread had none, it has
 * none. */
const struct ftk_cuda *ftk_hip_find(void);

#endif
