# A recipe for Spack: not run here.  It follows Spack's documentation of MakefilePackage.
#
# The administrator fills in homepage and git, or url with a version() and its sha256, before the first
# `spack install ftkit`: the sources do not name a site.  A file of this name goes into packages/ftkit/ of
# a repository of recipes (`spack repo create`, `spack repo add`).  With Spack before 1.0 the first line of
# the imports is `from spack.package import *` alone.
#
# SPDX-License-Identifier: BSD-3-Clause
from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *


class Ftkit(MakefilePackage):
    """User-level fault mitigation for MPI programs: checkpoints in memory and in HDF5, repair in the
    running job, message log."""

    homepage = "FILL-IN"
    git = "FILL-IN"

    license("BSD-3-Clause")

    version("0.1.0", tag="v0.1.0")

    variant("fortran", default=True, description="The module for Fortran")
    variant("pmem", default=False, description="Sets in persistent memory (place = pmem)")
    variant("metis", default=True, description="ftkit teams proposes teams")
    variant("report", default=True, description="ftkit report makes pages")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("gmake", type="build")
    depends_on("perl", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi")
    depends_on("hdf5+threadsafe")
    depends_on("xxhash")
    depends_on("inih")
    depends_on("isa-l")
    depends_on("pmdk", when="+pmem")
    depends_on("metis", when="+metis")
    depends_on("jansson", when="+report")
    # Any MPI will do.  Repair in the running job and the message log need an Open MPI 5 with ULFM.

    def options(self, spec, prefix):
        def yes(variant):
            return "yes" if spec.satisfies(variant) else "no"

        mpi = spec["mpi"]
        return [
            f"PREFIX={prefix}",
            f"MPICC={mpi.mpicc}",
            f"MPIFC={mpi.mpifc}" if spec.satisfies("+fortran") else "MPIFC=/nonexistent",
            f"WITH_PMEM={yes('+pmem')}",
            f"WITH_METIS={yes('+metis')}",
            f"WITH_JANSSON={yes('+report')}",
            "PYDIR=",  # the module for Python is installed by pip: docs/python.md
        ]

    def setup_build_environment(self, env):
        env.set("FTKIT_NO_INSTALL", "1")

    def build(self, spec, prefix):
        make(*self.options(spec, prefix), "all")

    def install(self, spec, prefix):
        make(*self.options(spec, prefix), "install")
