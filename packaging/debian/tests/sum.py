# Relaxes towards a mean over all ranks; rank 0 prints the sum.
#
# SPDX-License-Identifier: BSD-3-Clause
import sys

import ftkit
import numpy as np

with ftkit.open() as ctx:
    comm = ctx.comm
    x = np.full(1000, comm.rank + 0.125)
    total = np.zeros(1)
    ctx.register("x", x)
    ctx.register_replicated("total", total)
    for step in ctx.steps(100):
        with step:
            if step.rolled_back and comm.rank == 0:
                print("continues at step", int(step), file=sys.stderr)
            total[0] = comm.allreduce(x[0])
            x[:] = 0.75 * x + 0.25 * total[0] / comm.size
    if ctx.finished and comm.rank == 0:
        print("sum", total[0])
