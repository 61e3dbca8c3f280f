#!/usr/bin/env python3
"""heat2d: the heat equation on a rectangle, in numpy, through failures.

The problem of examples/heat2d.c, and bit by bit its result, for every number of ranks.  The grid is
cut into blocks of rows with a ghost layer of one cell.  The calls that make the program survive are
in main(): open, register, and the loop with `with step:`.

SPDX-License-Identifier: BSD-3-Clause
"""
import argparse

import ftkit
import numpy as np
from mpi4py import MPI


class Grid:
    """A block of rows of the whole array, with its ghost layer."""

    def __init__(self, shape, comm):
        rows, cols = shape
        first, end = (rows * r // comm.size for r in (comm.rank, comm.rank + 1))
        self.shape, self.first = shape, first
        self.u = np.zeros((end - first + 2, cols + 2))
        self.above = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
        self.below = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
        i, j = np.mgrid[first:end, 0:cols]
        value, self.held = beginning(shape, i, j)
        self.u[1:-1, 1:-1] = value

    def advance(self, comm):
        u = self.u
        comm.Sendrecv(u[1], self.above, recvbuf=u[-1], source=self.below)
        comm.Sendrecv(u[-2], self.below, recvbuf=u[0], source=self.above)
        flow = (u[:-2, 1:-1] + u[2:, 1:-1]) + (u[1:-1, :-2] + u[1:-1, 2:]) - 4 * u[1:-1, 1:-1]
        u[1:-1, 1:-1] += np.where(self.held, 0, 0.2 * flow)  # u stays where it is: it is registered

    def gather(self, comm):
        """The whole array, on rank 0."""
        parts = comm.gather(np.ascontiguousarray(self.u[1:-1, 1:-1]))
        return np.concatenate(parts) if comm.rank == 0 else None


def beginning(shape, i, j):
    """Temperatures in the beginning, and where they stay so: on the rim, hot on a part of the left
    edge, and in two cold discs.  A hot disc is left to itself."""
    a, b = shape
    r = min(a, b)

    def inside(ci, cj, radius):
        return (i - ci) * (i - ci) + (j - cj) * (j - cj) <= radius * radius

    rim = (i == 0) | (j == 0) | (i == a - 1) | (j == b - 1)
    cold = inside(a * 0.28, b * 0.70, r * 0.06) | inside(a * 0.72, b * 0.30, r * 0.06)
    hot = np.where(rim, (j == 0) & (4 * i >= a) & (4 * i < 3 * a),
                   inside(a * 0.5, b * 0.5, r * 0.2) & ~cold)
    return 100.0 * hot, rim | cold


def main():
    parser = argparse.ArgumentParser(description="heat equation that survives the loss of ranks")
    parser.add_argument("-n", metavar="NX[xNY]", default="256x256",
                        help="cells of the grid (256x256)")
    parser.add_argument("-s", metavar="STEPS", type=int, default=1000, help="time steps (1000)")
    parser.add_argument("-o", metavar="FILE", help="write the result: NX rows of NY float64")
    parser.add_argument("-c", metavar="CONFIG", help="configuration file of ftkit")
    args = parser.parse_args()
    shape = tuple(int(n) for n in (args.n.split("x") * 2)[:2])

    with ftkit.open(MPI.COMM_WORLD, args.c) as ctx:  # spares wait in here
        # No communication from here to the loop: a replacement runs this part alone.
        comm = ctx.comm  # the working ranks, now and after every repair
        grid = Grid(shape, comm)
        ctx.register_array("u", grid.u, offset=(grid.first, 0), shape=shape, halo=1)
        ctx.attribute("u", "units", "K")  # for readers of the files
        for step in ctx.steps():
            with step:
                if step < args.s:
                    grid.advance(comm)
                    continue
                # The last messages are in the loop, so that a failure during them is repaired, too.
                whole = grid.gather(comm)
                ctx.end()
        if ctx.finished and comm.rank == 0:
            print(f"heat2d: {shape[0]} x {shape[1]} cells, {args.s} steps done "
                  f"on {comm.size} ranks")
            if args.o:
                whole.tofile(args.o)


if __name__ == "__main__":
    main()
