# ftkit: user-level fault mitigation for MPI programs.
#
#   make            libraries, the ftkit program, examples
#   make demo       a solver is killed twice, finishes, and is restarted from HDF5
#   make check      the tests
#   make check-source  the part of make check that reads the sources or builds them in another way
#   make check-long the long failure campaigns
#   make lammps     LAMMPS, once, and an example that runs it (docs/lammps.md)
#   make campaign   HOURS=1 of random jobs with faults; CASE=seed:number runs one (docs/reliability.md)
#   make bench      benchmarks with their physical bounds
#   make install    PREFIX=/usr/local, LIBDIR=lib below it, DESTDIR=
#   make deb        Debian packages in build/deb, checked by lintian (as root; docs/install.md)
#   make deps       only install and find what is needed, and say what is missing
#   make lint       clang-tidy, cppcheck, the format of the sources and make layers
#   make layers     fails when a file of the library refers upward, or files in a circle, or when a
#                   field of a context is written outside its owner
#   make model      check the model of the message log with spin
#   make fuzz       FUZZ_S=30 seconds per reader of foreign bytes (needs clang)
#   make site       the documentation as a site in build/site (needs mkdocs)
#
# MPI_HOME=, or MPICC= and MPIFC=, choose an MPI; PYTHON= a Python; BUILD= another build directory; SAN=1 sanitizers,
# in build-san; V=1 shows the commands; WITH_PMEM=no, WITH_METIS=no and WITH_JANSSON=no leave these libraries out.

BUILD ?= $(if $(filter 1,$(SAN)),build-san,build)
PREFIX ?= /usr/local
# of the libraries, below PREFIX
LIBDIR ?= lib
WERROR ?= $(if $(CI),1)
CC_OPT ?= -O2 -g
VERSION := 0.1.0
SOVERSION := 0

# a line for each file that is made; V=1: the commands
ifeq ($(filter-out 0,$(V)),)
.SILENT:
say = echo "  $@";
endif

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:

# On all processors, at most 16, when there is one goal and make was not told otherwise.  Two goals, as in
# "make clean all", keep their order.
ifeq ($(filter-out 0 1,$(words $(MAKECMDGOALS)))$(filter -j% --jobserver%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell n=$$(nproc 2>/dev/null || echo 1); echo $$((n < 16 ? n : 16)))
endif

# what was asked for, not what an earlier $(BUILD)/mpi.mk has found
asked := MPI_HOME="$(MPI_HOME)" MPICC="$(MPICC)" MPIFC="$(MPIFC)" HDF5_PKG="$(HDF5_PKG)" PYTHON="$(PYTHON)"
goals := $(or $(MAKECMDGOALS),all)
ifneq ($(filter-out clean help format deb,$(goals)),)
include $(BUILD)/mpi.mk
endif

$(BUILD)/mpi.mk: scripts/deps scripts/openmpi scripts/source-package scripts/mpi4py
	@mkdir -p $(BUILD)
	@$(asked) scripts/deps >$@.tmp && mv $@.tmp $@

# ---- flags ------------------------------------------------------------------------------

# what may be left out: yes, no, or nothing for what scripts/deps has found
with = $(if $($1),$(if $(filter-out yes no,$($1)),$(error $1 is yes or no),$($1)),$2)
PMEM := $(call with,WITH_PMEM,$(HAVE_PMEM))
METIS := $(call with,WITH_METIS,$(HAVE_METIS))
JANSSON := $(call with,WITH_JANSSON,$(HAVE_JANSSON))
ifneq ($(filter yesno,$(PMEM)$(HAVE_PMEM) $(METIS)$(HAVE_METIS) $(JANSSON)$(HAVE_JANSSON)),)
$(error WITH_PMEM, WITH_METIS or WITH_JANSSON asks for a library that is missing: see make deps)
endif
PKGS := $(HDF5_PKG) libxxhash inih libisal
PKG_CFLAGS = $(shell pkg-config --cflags $(PKGS) $(if $(filter yes,$(PMEM)),libpmem))
METIS_LIBS := $(if $(filter yes,$(METIS)),-lmetis) # of the ftkit program alone
JANSSON_LIBS := $(if $(filter yes,$(JANSSON)),$(shell pkg-config --libs jansson)) # the same
PKG_LIBS = $(shell pkg-config --libs $(PKGS)) $(HDF5_LIBS) -lpthread -lm
# of programs that start often (ftkit, and tests): a static HDF5, where there is one, is loaded in less
# time; not with sanitizers, whose programs are few
RUN_LIBS = $(if $(and $(HDF5_STATIC),$(if $(SAN),,1)),$(HDF5_STATIC) $(shell pkg-config --libs \
    $(filter-out $(HDF5_PKG),$(PKGS))) -lpthread -lm,$(PKG_LIBS))
WARN := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
    -Wvla $(if $(WERROR),-Werror)
ifeq ($(SAN),1)
# without the optimizer, which takes half of the time and hides accesses; two warnings guess by it
SAN_OPT ?= -O0 -g1
CC_OPT := $(SAN_OPT) -fsanitize=address,undefined -fno-omit-frame-pointer \
    -fno-sanitize-recover=undefined -Wno-format-truncation -Wno-maybe-uninitialized
# a set has the variables of a program of SHMEM as one piece of memory: no red zones between them
SHMEM_CFLAGS := $(if $(findstring clang,$(FTKIT_CC)),-mllvm -asan-globals=0,--param asan-globals=0)
endif
# the wrapper's compiler can be changed: FTKIT_CC=clang
ifneq ($(FTKIT_CC),)
export OMPI_CC := $(FTKIT_CC)
export MPICH_CC := $(FTKIT_CC)
endif
# the wrapper in $(shell), which does not have what the Makefile exports
ASK_CC := $(if $(FTKIT_CC),OMPI_CC='$(FTKIT_CC)' MPICH_CC='$(FTKIT_CC)') $(MPICC)
GEN := $(BUILD)/gen
CFLAGS_ALL = -std=c11 $(CC_OPT) $(WARN) -Iinclude -Ilib -I$(GEN) $(PKG_CFLAGS) $(CPPFLAGS) $(CFLAGS)
# stores, and calls of the C library, for what GCC does by rep stos, which costs three times that
PLAIN := -mmemset-strategy=libcall:-1:noalign -mmemcpy-strategy=libcall:-1:noalign
PLAIN := $(if $(MPICC),$(shell $(ASK_CC) $(PLAIN) -E -x c /dev/null >/dev/null 2>&1 && echo "$(PLAIN)"))
LIB_CFLAGS = $(CFLAGS_ALL) $(PMIX_CFLAGS) $(PLAIN) -fPIC -fvisibility=hidden
# programs of tests are built fast: by the linker gold where it is there, and without the optimizer, which
# takes most of the time; one warning guesses by the optimizer
TEST_CFLAGS = $(CFLAGS_ALL) $(if $(SAN),,-O0 -Wno-maybe-uninitialized)
TEST_LD := $(if $(MPICC),$(shell $(ASK_CC) -fuse-ld=gold -Wl,--version >/dev/null 2>&1 && echo -fuse-ld=gold))

# ---- libraries --------------------------------------------------------------------------

# System and MPI differences live in pairs of files with one interface.
# The log has handles of its own that fit into those of Open MPI, and repairs.
SKIP = $(if $(filter ulfm,$(MPI_KIND)),lib/core/mpi_plain.c lib/core/log_none.c,lib/core/mpi_ulfm.c lib/log/%) \
    $(if $(filter yes,$(HAVE_PMIX)),lib/core/mpi_notify_none.c,lib/core/mpi_notify_pmix.c) \
    $(if $(filter yes,$(PMEM)),lib/store/place_pmem_none.c,lib/store/place_pmem.c)
LIB_SRC = $(filter-out $(SKIP),$(wildcard lib/*.c lib/*/*.c lib/*/*/*.c))
CALLS_OBJ := $(if $(filter ulfm,$(MPI_KIND)),$(GEN)/mpi_calls.o)
LIB_OBJ = $(LIB_SRC:%.c=$(BUILD)/rel/%.o) $(CALLS_OBJ)
# a checksum of the sources: ranks of different builds do not understand each other
SOURCES := $(sort $(wildcard include/*.h lib/*.[ch] lib/*/*.[ch] lib/*/*/*.[ch]))
# sources that name a fault point have a second object, for tests.  Of the headers only lib/core/ftk.h names
# fault points (tests/lint.t), so the objects of the other sources are the same.
FAULT_SRC := $(shell grep -lE 'FTK_FAULT|ftk_fault_' $(LIB_SRC))
TEST_OBJ = $(FAULT_SRC:%.c=$(BUILD)/flt/%.o) $(CALLS_OBJ) \
    $(patsubst %.c,$(BUILD)/rel/%.o,$(filter-out $(FAULT_SRC),$(LIB_SRC)))

# libftkit_mpi gives the program's calls to the log: there is none without ULFM
LIBS := libftkit $(if $(filter ulfm,$(MPI_KIND)),libftkit_mpi)
SO := $(BUILD)/libftkit.so.$(VERSION)
LAYER := $(filter %_mpi.a,$(LIBS:%=$(BUILD)/%.a))
LIBS_OUT := $(foreach l,$(LIBS:%=$(BUILD)/%),$l.a $l.so.$(VERSION) $l.so $l.so.$(SOVERSION))
TEST_LIB := $(BUILD)/libftkit-test.a # with fault points, for tests only

# The module for Fortran, where the MPI has a compiler for it (FORTRAN is its name).
FMOD := $(BUILD)/fortran
FLIB := $(if $(FORTRAN),$(BUILD)/libftkit_fortran)
FLIB_OBJ := $(addprefix $(FMOD)/,ftkit.o ftkit_fortran.o paths.o \
    $(if $(LAYER),send_mpifh.o send_f08.o)) # whether calls come to the log: where there is one
FLIB_OUT := $(if $(FLIB),$(foreach e,a so.$(VERSION) so so.$(SOVERSION),$(FLIB).$e))
FCFLAGS = $(CFLAGS_ALL) -idirafter $(FORTRAN_INCLUDE) # C that reads Fortran's descriptors
FFLAGS_ALL = -std=f2018 $(CC_OPT) -Wall -Wextra $(if $(WERROR),-Werror) $(FFLAGS)
FFLAGS_OLD = -std=legacy $(CC_OPT) -Wall $(if $(WERROR),-Werror) $(FFLAGS)

# OpenSHMEM, for programs that survive by the message log.  There is no static library: its variables
# would be among those of the program, which are symmetric memory.
SHMEM := $(if $(LAYER),$(BUILD)/libftkit_shmem)
SHMEM_OBJ := $(patsubst bindings/shmem/%.c,$(BUILD)/shmem/%.o,$(wildcard bindings/shmem/*.c))
SHMEM_OUT := $(if $(SHMEM),$(foreach e,so.$(VERSION) so so.$(SOVERSION),$(SHMEM).$e))

# The library of the module for Python, which needs no Python to be built.
PYLIB := $(BUILD)/libftkit_python
PYLIB_OUT := $(foreach e,so.$(VERSION) so so.$(SOVERSION),$(PYLIB).$e)

# Headers and libraries with the calls of other libraries.  They are shared, because the linker option
# --wrap of the program must not change their own calls.
PEERS := veloc fti scr
EARLY := veloc scr # their context is open when MPI_Init returns
COMPAT_OUT := $(foreach l,$(PEERS),$(foreach e,so.$(VERSION) so so.$(SOVERSION),$(BUILD)/libftkit_$l.$e))
COMPAT_OBJ = $(patsubst bindings/%.c,$(BUILD)/%.o,$(wildcard bindings/compat/common/*.c \
    $(if $(filter $1,$(EARLY)),bindings/compat/early/*.c) bindings/compat/$1/*.c))

EXAMPLES := $(patsubst examples/%.c,$(BUILD)/examples/%,$(wildcard examples/*.c))
# those in Fortran, in a directory of their own because one is named as its twin in C
FEX := $(FMOD)/examples
FEX_SHARED := $(FEX)/example.o $(FEX)/example_report.o
FEX_NAMES := $(if $(FORTRAN),heat2d ssor3d wave_f77)
FEXAMPLES := $(FEX_NAMES:%=$(BUILD)/examples/fortran/%)
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/t_*.c))
UNIT := $(if $(LAYER),$(UNIT),$(filter-out %/t_image %/t_late %/t_match %/t_match_cases %/t_match_tags %/t_match_changes %/t_tail %/t_overtake %/t_typemap %/t_apart %/t_control %/t_det %/t_quiesce %/t_relay %/t_silent %/t_units %/t_vcomm,$(UNIT))) # of the message log
MPI_TESTS := $(patsubst tests/mpi/%.c,$(BUILD)/mpi/%,$(wildcard tests/mpi/*.c))
CONFORM := $(if $(LAYER),$(patsubst tests/conform/%.c,$(BUILD)/conform/%,$(wildcard tests/conform/*.c)))
FTESTS := $(if $(FORTRAN),$(patsubst tests/fortran/%.f90,$(BUILD)/ftests/%,$(wildcard tests/fortran/*.f90)))
# one source for mpif.h and the modules mpi and mpi_f08; calls, refused and windows: with libftkit_mpi
FBIND := $(if $(FORTRAN),$(foreach b,mpifh mpi f08,$(foreach p,regions $(if $(LAYER),calls bare \
    refused windows),$(BUILD)/ftests/$p_$b)))
FTESTS += $(FBIND) $(if $(and $(FORTRAN),$(LAYER)),$(foreach b,MPIFH F08,$(BUILD)/ftests/past_$b))
SHMEM_EXAMPLES := $(if $(SHMEM),$(patsubst examples/%.c,$(BUILD)/examples/%,$(wildcard examples/shmem/*.c)))
COMPAT_TESTS := $(foreach l,$(PEERS),$(patsubst tests/compat/%.c,$(BUILD)/compat-tests/%,$(wildcard tests/compat/$l_*.c)))
SHMEM_TESTS := $(if $(SHMEM),$(patsubst tests/shmem/%.c,$(BUILD)/shmem-tests/%,$(wildcard tests/shmem/*.c)))
BENCH := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(filter-out $(if $(SHMEM),,%/shmem.c %/shmem_model.c %/shmem_rma.c),$(wildcard tests/bench/*.c)))
# the examples again, with fault points, for the failure tests
EXAMPLES_FLT := $(patsubst examples/%.c,$(BUILD)/flt-examples/%,$(wildcard examples/*.c)) \
    $(FEX_NAMES:%=$(BUILD)/flt-examples/fortran/%)
# targets of the fuzzer: FUZZ with it, REPLAY only for what is in tests/fuzz/corpus
FUZZ_SRC := $(filter-out tests/fuzz/replay.c,$(wildcard tests/fuzz/*.c))
FUZZ := $(FUZZ_SRC:tests/fuzz/%.c=$(BUILD)/fuzzers/%)
REPLAY := $(FUZZ_SRC:tests/fuzz/%.c=$(BUILD)/replay/%)
PROGRAM := $(BUILD)/ftkit
REPORT_SRC := $(filter-out tools/report_none.c,$(wildcard tools/report*.c))
PROGRAM_SRC := $(filter-out $(if $(filter yes,$(METIS)),tools/cut_none.c,tools/cut_metis.c) \
    $(if $(filter yes,$(JANSSON)),tools/report_none.c,$(REPORT_SRC)),$(wildcard tools/*.c))
PROGRAM_OBJ := $(PROGRAM_SRC:%.c=$(BUILD)/rel/%.o)
MANUAL := $(BUILD)/manual

.PHONY: all deps lib tests lammps model fuzz fuzzers demo check check-source check-long device-check campaign bench install deb lint layers format site clean help
all: lib $(PROGRAM) $(MANUAL)/stamp $(EXAMPLES) $(FEXAMPLES) $(SHMEM_EXAMPLES)
deps: $(BUILD)/mpi.mk
	@sed -n 's/^# /ftkit: /p' $<
lib: $(LIBS_OUT) $(FLIB_OUT) $(SHMEM_OUT) $(PYLIB_OUT) $(COMPAT_OUT)

# what depends on the functions of this MPI; only files that change are written
GEN_MPI := $(addprefix $(GEN)/,pmpi.h mpi_real.h mpi_calls.h mpi_calls.c wrap.c wrap_fortran.c \
    mpi-support.md)
LAYER_OBJ := $(GEN)/wrap.o $(GEN)/wrap_fortran.o
LAYER_STATIC_OBJ := $(GEN)/static/wrap.o $(GEN)/static/wrap_fortran.o
$(GEN)/mpi.i: $(BUILD)/mpi.mk
	@$(say) mkdir -p $(@D)
	@echo '#include <mpi.h>' >$(GEN)/mpi.c
	$(MPICC) -std=c11 $(CFLAGS) -E -dD -MMD -MP -MF $(GEN)/mpi.d -MT $@ -o $@ $(GEN)/mpi.c
$(GEN)/stamp: $(GEN)/mpi.i lib/log/mpi/mpi.tab scripts/wrappers scripts/Fortran.pm
	@$(say)
	scripts/wrappers $(if $(LAYER),,--pmpi) $< lib/log/mpi/mpi.tab $(GEN)
	@touch $@
$(GEN_MPI): $(GEN)/stamp ;

$(BUILD)/rel/%.o: %.c $(BUILD)/mpi.mk | $(GEN)/pmpi.h
	@$(say) mkdir -p $(@D)
	$(MPICC) $(LIB_CFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/flt/%.o: %.c $(BUILD)/mpi.mk | $(GEN)/pmpi.h
	@$(say) mkdir -p $(@D)
	$(MPICC) $(LIB_CFLAGS) -DFTK_FAULTS -MMD -MP -c $< -o $@
$(GEN)/mpi_calls.o: $(GEN)/mpi_calls.c $(BUILD)/mpi.mk
	@$(say)
	$(MPICC) $(LIB_CFLAGS) -MMD -MP -c $< -o $@
$(LAYER_OBJ): %.o: %.c $(BUILD)/mpi.mk
	@$(say)
	$(MPICC) $(CFLAGS_ALL) -fPIC -MMD -MP -c $< -o $@
$(LAYER_STATIC_OBJ): $(GEN)/static/%.o: $(GEN)/%.c $(BUILD)/mpi.mk
	@$(say) mkdir -p $(@D)
	$(MPICC) $(CFLAGS_ALL) -DFTK_LAYER_STATIC -fPIC -MMD -MP -c $< -o $@

# files whose variables a check of the program's own is to pass over
$(BUILD)/rel/lib/set/debug_regions.o $(BUILD)/flt/lib/set/debug_regions.o: CFLAGS += \
    -DFTK_OWN_FILES='"$(notdir $(LIB_SRC)) mpi_calls.c wrap.c wrap_fortran.c"'

# what is in the libraries changes with what is left out
$(BUILD)/options: FORCE
	@$(say) mkdir -p $(@D)
	@echo "$(PMEM) $(METIS) $(JANSSON)" | cmp -s - $@ || echo "$(PMEM) $(METIS) $(JANSSON)" >$@
FORCE:
$(BUILD)/libftkit.a $(SO) $(TEST_LIB) $(PROGRAM): $(BUILD)/options

$(BUILD)/libftkit.a: $(LIB_OBJ)
	@$(say) rm -f $@
	ar rcs $@ $(LIB_OBJ)
$(TEST_LIB): $(TEST_OBJ)
	@$(say) rm -f $@
	ar rcs $@ $(TEST_OBJ)
$(SO): $(LIB_OBJ) lib/libftkit.map
	@$(say)
	$(MPICC) $(CC_OPT) -shared -Wl,-soname,libftkit.so.$(SOVERSION) \
	    -Wl,--version-script=lib/libftkit.map -Wl,--no-undefined \
	    -o $@ $(LIB_OBJ) $(PKG_LIBS) $(LDFLAGS)
$(BUILD)/libftkit_mpi.a: $(LAYER_STATIC_OBJ)
	@$(say) rm -f $@
	ar rcs $@ $^
$(BUILD)/libftkit_mpi.so.$(VERSION): $(LAYER_OBJ) lib/libftkit_mpi.map
	@$(say)
	$(MPICC) $(CC_OPT) -shared -Wl,-soname,libftkit_mpi.so.$(SOVERSION) \
	    -Wl,--version-script=lib/libftkit_mpi.map -Wl,--no-undefined \
	    -o $@ $(LAYER_OBJ) $(LDFLAGS)

# the constants of ftkit.h as those of Fortran, written by a program that includes it
$(FMOD)/codes: bindings/fortran/codes.c $(BUILD)/mpi.mk
	@$(say) mkdir -p $(@D)
	$(MPICC) $(CFLAGS_ALL) -MMD -MP -o $@ $<
$(GEN)/ftkit_codes.inc: $(FMOD)/codes
	@$(say) mkdir -p $(@D)
	$< >$@
$(FMOD)/ftkit.o: bindings/fortran/ftkit.f90 $(GEN)/ftkit_codes.inc
	@$(say)
	$(MPIFC) $(FFLAGS_ALL) -fPIC -I$(GEN) -J$(FMOD) -c $< -o $@
$(FMOD)/ftkit.mod: $(FMOD)/ftkit.o ;
# COMMON blocks, as mpif.h has them, are out of fashion in 2018
$(FMOD)/send_mpifh.o: FFLAGS += -std=f2008 -Wno-unused-parameter
$(FMOD)/send_%.o: bindings/fortran/send_%.f90 $(BUILD)/mpi.mk
	@$(say) mkdir -p $(@D)
	$(MPIFC) $(FFLAGS_ALL) -fPIC -c $< -o $@
$(FMOD)/ftkit_fortran.o $(FMOD)/paths.o: $(FMOD)/%.o: bindings/fortran/%.c $(BUILD)/mpi.mk $(GEN)/stamp
	@$(say) mkdir -p $(@D)
	$(MPICC) $(FCFLAGS) -fPIC -MMD -MP -c $< -o $@
$(BUILD)/libftkit_fortran.a: $(FLIB_OBJ)
	@$(say) rm -f $@
	ar rcs $@ $^
# a library finds libftkit beside it; LIB_RPATH= where the loader finds both
LIB_RPATH ?= -Wl,-rpath,'$$ORIGIN'
$(BUILD)/libftkit_fortran.so.$(VERSION): $(FLIB_OBJ) bindings/fortran/libftkit_fortran.map $(SO)
	@$(say)
	$(MPIFC) $(CC_OPT) -shared -Wl,-soname,libftkit_fortran.so.$(SOVERSION) \
	    $(LIB_RPATH) \
	    -Wl,--version-script=bindings/fortran/libftkit_fortran.map -Wl,--no-undefined \
	    -o $@ $(FLIB_OBJ) $(SO) -lpthread $(LDFLAGS)

$(BUILD)/shmem/%.o: bindings/shmem/%.c $(BUILD)/mpi.mk
	@$(say) mkdir -p $(@D)
	$(MPICC) $(CFLAGS_ALL) -fPIC -fvisibility=hidden -MMD -MP -c $< -o $@
# its calls of MPI go to libftkit_mpi beside it
$(BUILD)/libftkit_shmem.so.$(VERSION): $(SHMEM_OBJ) bindings/shmem/libftkit_shmem.map \
    $(BUILD)/libftkit_mpi.so $(BUILD)/libftkit_mpi.so.$(SOVERSION) $(BUILD)/libftkit.so \
    $(BUILD)/libftkit.so.$(SOVERSION)
	@$(say)
	$(MPICC) $(CC_OPT) -shared -Wl,-soname,libftkit_shmem.so.$(SOVERSION) \
	    $(LIB_RPATH) \
	    -Wl,--version-script=bindings/shmem/libftkit_shmem.map -Wl,--no-undefined \
	    -o $@ $(SHMEM_OBJ) $(BUILD)/libftkit_mpi.so $(BUILD)/libftkit.so $(LDFLAGS)

$(BUILD)/python/ftkit_python.o: bindings/python/ftkit_python.c $(BUILD)/mpi.mk
	@$(say) mkdir -p $(@D)
	$(MPICC) $(CFLAGS_ALL) -fPIC -fvisibility=hidden -MMD -MP -c $< -o $@
$(PYLIB).so.$(VERSION): $(BUILD)/python/ftkit_python.o bindings/python/libftkit_python.map $(SO)
	@$(say)
	$(MPICC) $(CC_OPT) -shared -Wl,-soname,libftkit_python.so.$(SOVERSION) \
	    $(LIB_RPATH) \
	    -Wl,--version-script=bindings/python/libftkit_python.map -Wl,--no-undefined \
	    -o $@ $< $(SO) $(LDFLAGS)

$(BUILD)/compat/%.o: bindings/compat/%.c $(BUILD)/mpi.mk
	@$(say) mkdir -p $(@D)
	$(MPICC) $(CFLAGS_ALL) -Ibindings/compat $(if $(LAYER),-DFTK_COMPAT_LOG) -fPIC -fvisibility=hidden -MMD -MP -c $< -o $@
# their calls of MPI go to libftkit_mpi beside them, where there is one
define compat_library
$(BUILD)/libftkit_$1.so.$(VERSION): $(call COMPAT_OBJ,$1) bindings/compat/$1/libftkit_$1.map \
    $(foreach l,$(LIBS),$(BUILD)/$l.so $(BUILD)/$l.so.$(SOVERSION))
	@$$(say)
	$(MPICC) $(CC_OPT) -shared -Wl,-soname,libftkit_$1.so.$(SOVERSION) $$(LIB_RPATH) \
	    -Wl,--version-script=bindings/compat/$1/libftkit_$1.map -Wl,--no-undefined \
	    -o $$@ $(call COMPAT_OBJ,$1) $(if $(LAYER),$(BUILD)/libftkit_mpi.so) $(BUILD)/libftkit.so $(LDFLAGS)
endef
$(foreach l,$(PEERS),$(eval $(call compat_library,$l)))

$(BUILD)/%.so $(BUILD)/%.so.$(SOVERSION): $(BUILD)/%.so.$(VERSION)
	ln -sf $(<F) $(BUILD)/$*.so
	ln -sf $(<F) $(BUILD)/$*.so.$(SOVERSION)

$(PROGRAM): $(PROGRAM_OBJ) $(BUILD)/libftkit.a
	@$(say)
	$(MPICC) $(CC_OPT) -o $@ $(PROGRAM_OBJ) $(BUILD)/libftkit.a $(METIS_LIBS) $(JANSSON_LIBS) $(RUN_LIBS) $(LDFLAGS)
$(GEN)/sources.h: FORCE # a file may come or go, or be older than the one before
	@mkdir -p $(@D)
	@new=$@.$$$$; cat $(SOURCES) | cksum | awk '{ printf "#define FTK_SOURCES 0x%06x\n", $$1 % 16777216 }' >$$new && \
	    if cmp -s $$new $@; then rm $$new; else mv $$new $@; fi # another make may do the same
$(BUILD)/rel/lib/core/build.o $(BUILD)/flt/lib/core/build.o: $(GEN)/sources.h
# the style of the page, as a string in C
$(GEN)/report_css.h: tools/report.css
	@$(say) mkdir -p $(@D)
	sed 's/[\\"]/\\&/g; s/^/"/; s/$$/\\n"/' $< >$@
$(BUILD)/rel/tools/report_page.o: $(GEN)/report_css.h
$(PROGRAM_OBJ): CFLAGS += -DFTKIT_MPIRUN='"$(MPIRUN)"' -DFTKIT_MPI_KIND='"$(MPI_KIND)"' \
    -DFTKIT_LIBDIR='"$(LIBDIR)"'

# manual pages and completion, from the texts of the program and the comments of the header
$(MANUAL)/stamp: $(PROGRAM) scripts/manual scripts/ftkit.1.in $(wildcard scripts/Manual/*.pm) \
    include/ftkit.h README.md
	@$(say) rm -rf $(@D)
	scripts/manual $(PROGRAM) $(@D)
	@touch $@
$(BUILD)/examples/%: examples/%.c $(BUILD)/libftkit.a
	@$(say) mkdir -p $(@D)
	$(MPICC) $(CFLAGS_ALL) -MMD -MP -o $@ $< $(BUILD)/libftkit.a $(PKG_LIBS) $(LDFLAGS)
$(BUILD)/flt-examples/%: examples/%.c $(TEST_LIB)
	@$(say) mkdir -p $(@D)
	$(MPICC) $(CFLAGS_ALL) -MMD -MP -o $@ $< $(TEST_LIB) $(RUN_LIBS) $(TEST_LD) $(LDFLAGS)

# an example that needs LAMMPS, which scripts/lammps builds once: no part of `make all`.  The second one has
# fault points, for tests/long/lammps.t.
LAMMPS = $(shell scripts/lammps --prefix $(MPICC))
LAMMPS_CXX = $(MPICXX) -std=c++17 $(CC_OPT) -Wall -Wextra -Wno-missing-field-initializers -Iinclude \
    -isystem $(LAMMPS)/include -MMD -MP -o $@ $<
LAMMPS_LIBS = -L$(LAMMPS)/lib -Wl,-rpath,$(LAMMPS)/lib -llammps
lammps: $(BUILD)/libftkit.a $(TEST_LIB)
	scripts/lammps $(MPICC)
	@$(MAKE) --no-print-directory $(BUILD)/lammps/melt $(BUILD)/flt-lammps/melt
$(BUILD)/lammps/melt: examples/lammps/melt.cpp $(BUILD)/libftkit.a
	@$(say) mkdir -p $(@D)
	$(LAMMPS_CXX) $(LAMMPS_LIBS) $(BUILD)/libftkit.a $(PKG_LIBS) $(LDFLAGS)
$(BUILD)/flt-lammps/melt: examples/lammps/melt.cpp $(TEST_LIB)
	@$(say) mkdir -p $(@D)
	$(LAMMPS_CXX) $(LAMMPS_LIBS) $(TEST_LIB) $(RUN_LIBS) $(LDFLAGS)

# -J: module files of the examples stay apart from that of ftkit
$(FEX)/example.o: examples/fortran/example.f90 $(BUILD)/mpi.mk
	@$(say) mkdir -p $(@D)
	$(MPIFC) $(FFLAGS_ALL) -J$(FEX) -c $< -o $@
$(FEX)/example_report.o: $(FEX)/example.o
$(FEX)/heat2d.o $(FEX)/ssor3d.o: $(FEX_SHARED)
$(FEX)/%.o: examples/fortran/%.f90 $(FMOD)/ftkit.mod
	@$(say)
	$(MPIFC) $(FFLAGS_ALL) -I$(FMOD) -J$(FEX) -c $< -o $@
$(FEX)/%.o: examples/fortran/%.f $(FMOD)/ftkit.mod
	@$(say) mkdir -p $(@D)
	$(MPIFC) $(FFLAGS_OLD) -I$(FMOD) -c $< -o $@
.PRECIOUS: $(FEX)/%.o
$(BUILD)/examples/fortran/%: $(FEX)/%.o $(FEX_SHARED) $(BUILD)/libftkit_fortran.a $(BUILD)/libftkit.a
	@$(say) mkdir -p $(@D)
	$(MPIFC) $(CC_OPT) -o $@ $^ $(PKG_LIBS) $(LDFLAGS)
# with fault points, and with the layer, so that the message log can be switched on
$(BUILD)/flt-examples/fortran/%: $(FEX)/%.o $(FEX_SHARED) $(BUILD)/libftkit_fortran.a $(LAYER) $(TEST_LIB)
	@$(say) mkdir -p $(@D)
	$(MPIFC) $(CC_OPT) -o $@ $^ $(RUN_LIBS) $(TEST_LD) $(LDFLAGS)

# ---- tests ------------------------------------------------------------------------------

# programs in Fortran, with what they have in C; -J: their own modules stay apart
FC_OBJ := $(BUILD)/ftests/helper.o $(if $(LAYER),$(BUILD)/ftests/messages.o)
$(BUILD)/ftests/%: tests/fortran/%.f90 $(FC_OBJ) $(BUILD)/libftkit_fortran.a $(TEST_LIB)
	@$(say) mkdir -p $(@D)/$*.mods
	$(MPIFC) $(FFLAGS_ALL) -Wno-unused-parameter -I$(FMOD) -J$(@D)/$*.mods -o $@ $< $(FC_OBJ) \
	    $(BUILD)/libftkit_fortran.a $(TEST_LIB) $(RUN_LIBS) $(TEST_LD) $(LDFLAGS)
# Old Fortran is what mpif.h asks for: one procedure is called with arguments of many types,
# which is all that -w is silent about; the same source is compiled with warnings for the
# modules.  gnu: COMMON is no error in it.
FFOR_mpifh := -DUSE_MPIFH -std=legacy -w
FFOR_mpi = -DUSE_MPI $(FFLAGS_ALL)
FFOR_f08 = -DUSE_F08 $(FFLAGS_ALL)
FBIND_calls := foreign p2p edges coll ahead calls
FBIND_bare := $(FBIND_calls)
FBIND_refused := refused
FBIND_windows := windows
FBIND_regions := regions
FBIND_SRC = $(FBIND_$(firstword $(subst _, ,$(@F))):%=tests/fortran/%.F90)
$(BUILD)/ftests/regions_mpi $(BUILD)/ftests/regions_f08: FFLAGS += -std=gnu -Wno-unused-parameter
$(FBIND): $(wildcard tests/fortran/*.F90 tests/fortran/*.h tests/fortran/*.inc) \
    $(FC_OBJ) $(BUILD)/libftkit_fortran.a $(LAYER) $(TEST_LIB)
	@$(say) mkdir -p $@.mods
	$(MPIFC) -cpp -ffree-line-length-none $(CC_OPT) $(FFOR_$(lastword $(subst _, ,$(@F)))) \
	    -Wno-compare-reals -Itests/fortran -I$(FMOD) -J$@.mods -o $@ $(FBIND_SRC) $(FC_OBJ) \
	    $(if $(filter calls_% refused_% windows_%,$(@F)),$(LAYER)) $(BUILD)/libftkit_fortran.a $(TEST_LIB) \
	    $(RUN_LIBS) $(TEST_LD) $(LDFLAGS)
# what comes before libftkit_mpi wins
$(BUILD)/ftests/past_%: tests/fortran/small.f90 tests/fortran/behind.c \
    $(BUILD)/libftkit_fortran.a $(LAYER) $(TEST_LIB)
	@$(say) mkdir -p $@.mods
	$(MPICC) $(CFLAGS_ALL) -D$* -c -o $@.o tests/fortran/behind.c
	$(MPIFC) $(FFLAGS_ALL) -I$(FMOD) -J$@.mods -Wl,--allow-multiple-definition -o $@ $< $@.o \
	    $(LAYER) $(BUILD)/libftkit_fortran.a $(TEST_LIB) $(RUN_LIBS) $(TEST_LD) $(LDFLAGS)
$(BUILD)/ftests/%.o: tests/fortran/%.c $(BUILD)/mpi.mk $(if $(LAYER),$(GEN)/stamp)
	@$(say) mkdir -p $(@D)
	$(MPICC) $(FCFLAGS) -DFTK_FAULTS -DFTK_PROGRAM -MMD -MP -c $< -o $@

$(BUILD)/unit/%: tests/unit/%.c $(TEST_LIB)
	@$(say) mkdir -p $(@D)
	$(MPICC) $(TEST_CFLAGS) -DFTK_FAULTS -MMD -MP -o $@ $< $(TEST_LIB) -lcmocka $(PKG_LIBS) $(TEST_LD) $(LDFLAGS)
# counts communicators behind libftkit_mpi, where also ftkit's own calls come by
HANDLES := Comm_dup Comm_split Comm_spawn Comm_get_parent Intercomm_create Intercomm_merge Comm_free \
    Comm_disconnect
WRAPPED := $(HANDLES) Finalize
$(BUILD)/handles.o: tests/lib/handles.c Makefile $(BUILD)/mpi.mk
	@$(say)
	$(MPICC) $(CFLAGS_ALL) $(foreach h,$(HANDLES),-DMPI_$h=__wrap_PMPI_$h \
	    -DPMPI_$h=__real_PMPI_$h) -MMD -MP -c $< -o $@
# libraries that tests preload
PRELOADS := $(patsubst %,$(BUILD)/%.so,jump halves slow hang count kill reap torn leave freed trace)
# checks that closing resets the variables of lib/log
empty :=
comma := ,
$(BUILD)/state.o: tests/lib/state.c Makefile $(BUILD)/mpi.mk | $(GEN)/pmpi.h
	@$(say)
	$(MPICC) $(CFLAGS_ALL) \
	    -DLOG_FILES='":$(subst $(empty) $(empty),:,$(notdir $(filter lib/log/%,$(LIB_SRC)))):"' \
	    -MMD -MP -c $< -o $@
# a driver of CUDA without a device: programs find it by LD_LIBRARY_PATH
FAKECUDA := $(BUILD)/fakecuda/libcuda.so.1
FAKECUDA_SRC := $(wildcard tests/lib/fakecuda*.c)
$(FAKECUDA): $(FAKECUDA_SRC) $(wildcard tests/lib/fakecuda*.h) $(BUILD)/mpi.mk
	@$(say) mkdir -p $(@D)
	$(MPICC) $(CFLAGS_ALL) -fPIC -shared -Wl,-soname,libcuda.so.1 -o $@ $(FAKECUDA_SRC)
$(BUILD)/unit/t_sums $(BUILD)/unit/t_device $(BUILD)/unit/t_device_dead $(BUILD)/unit/t_api_device: | $(FAKECUDA)
# the same by the names of HIP alone
FAKEHIP := $(BUILD)/fakehip/libamdhip64.so.6
$(FAKEHIP): tests/lib/fakehip.c tests/lib/fakehip.h $(FAKECUDA_SRC) $(wildcard tests/lib/fakecuda*.h) $(BUILD)/mpi.mk
	@$(say) mkdir -p $(@D)
	$(MPICC) $(CFLAGS_ALL) -fPIC -fvisibility=hidden -shared -Wl,-soname,$(@F) -o $@ $(filter %.c,$^)
$(BUILD)/unit/t_hip: | $(FAKEHIP) $(FAKECUDA)
$(PRELOADS): $(BUILD)/%.so: tests/lib/%.c $(BUILD)/mpi.mk
	@$(say)
	$(MPICC) $(CFLAGS_ALL) -fPIC -shared -o $@ $<
$(BUILD)/state_end.o: tests/lib/state_end.c $(BUILD)/mpi.mk
	@$(say)
	$(MPICC) $(CFLAGS_ALL) -MMD -MP -c $< -o $@
$(BUILD)/mpi/%: tests/mpi/%.c $(BUILD)/handles.o $(BUILD)/state.o $(BUILD)/state_end.o $(LAYER) $(TEST_LIB)
	@$(say) mkdir -p $(@D)
	$(MPICC) $(TEST_CFLAGS) -DFTK_FAULTS -DFTK_PROGRAM -MMD -MP -o $@ $< $(BUILD)/handles.o \
	    $(BUILD)/state.o $(WRAPPED:%=-Wl,--wrap=PMPI_%) $(LAYER) $(TEST_LIB) $(BUILD)/state_end.o \
	    $(RUN_LIBS) $(TEST_LD) $(LDFLAGS)
# with the shared libraries, as programs of SHMEM have to be
define build_shmem
	@$(say) mkdir -p $(@D)
	$(MPICC) $(CFLAGS_ALL) $(SHMEM_CFLAGS) -Ibindings/shmem -no-pie -MMD -MP -o $@ $< -L$(BUILD) \
	    -Wl,-rpath,$(abspath $(BUILD)) -lftkit_shmem -Wl,--push-state,--no-as-needed -lftkit_mpi \
	    -Wl,--pop-state -lftkit $(LDFLAGS)
endef
$(BUILD)/shmem-tests/%: tests/shmem/%.c $(SHMEM_OUT)
	$(build_shmem)
$(BUILD)/examples/shmem/%: examples/shmem/%.c $(SHMEM_OUT)
	$(build_shmem)
# as the pkg-config files say
COMPAT_WRAP = $(shell sed -n 's/^wrap=//p' scripts/ftkit-compat-$(firstword $(subst _, ,$*)).pc.in)
$(BUILD)/compat-tests/%: tests/compat/%.c $(COMPAT_OUT)
	@$(say) mkdir -p $(@D)
	$(MPICC) $(TEST_CFLAGS) -Ibindings/compat/$(firstword $(subst _, ,$*)) $(COMPAT_WRAP) -MMD -MP -o $@ $< \
	    -L$(BUILD) -Wl,-rpath,$(abspath $(BUILD)) -lftkit_$(firstword $(subst _, ,$*)) \
	    $(if $(LAYER),-Wl$(comma)--push-state$(comma)--no-as-needed -lftkit_mpi -Wl$(comma)--pop-state) -lftkit $(LDFLAGS)
$(BUILD)/conform/%: tests/conform/%.c $(LAYER) $(TEST_LIB)
	@$(say) mkdir -p $(@D)
	$(MPICC) $(TEST_CFLAGS) -Itests/mpi -DFTK_PROGRAM -MMD -MP -o $@ $< $(LAYER) $(TEST_LIB) \
	    $(RUN_LIBS) $(TEST_LD) $(LDFLAGS)
$(addprefix $(BUILD)/bench/,apart log log_recover program replica units vote win): $(LAYER)
$(BUILD)/bench/shmem $(BUILD)/bench/shmem_model $(BUILD)/bench/shmem_rma: $(BUILD)/bench/%: tests/bench/%.c $(SHMEM_OUT)
	$(build_shmem)
$(BUILD)/bench/%: tests/bench/%.c $(BUILD)/libftkit.a
	@$(say) mkdir -p $(@D)
	$(MPICC) $(CFLAGS_ALL) -MMD -MP -o $@ $< $(filter $(LAYER),$^) $(BUILD)/libftkit.a \
	    $(PKG_LIBS) $(LDFLAGS)

# readers of the ftkit program, beside those of the library
FUZZ_failures := tools/failures_read.c tools/failures_input.c tools/list.c
$(BUILD)/replay/failures $(BUILD)/fuzzers/failures: $(FUZZ_failures)
$(BUILD)/replay/%: tests/fuzz/%.c tests/fuzz/replay.c $(TEST_LIB)
	@$(say) mkdir -p $(@D)
	$(MPICC) $(CFLAGS_ALL) -Itools -DFTK_FAULTS -MMD -MP -o $@ $< tests/fuzz/replay.c $(FUZZ_$*) \
	    $(TEST_LIB) $(PKG_LIBS) $(LDFLAGS)
$(BUILD)/fuzzers/%: tests/fuzz/%.c $(TEST_LIB)
	@$(say) mkdir -p $(@D)
	$(MPICC) $(CFLAGS_ALL) -Itools -DFTK_FAULTS -fsanitize=fuzzer -MMD -MP -o $@ $< $(FUZZ_$*) \
	    $(TEST_LIB) $(PKG_LIBS) $(LDFLAGS)
fuzzers: $(FUZZ)
FUZZ_S ?= 30
model:
	scripts/model
fuzz: $(BUILD)/mpi.mk
	$(MAKE) BUILD=$(BUILD)/fuzz MPICC="$(MPICC)" FTKIT_CC=clang \
	    CC_OPT="-O1 -g -fsanitize=fuzzer-no-link,address,undefined \
	    -fno-sanitize-recover=undefined" fuzzers
	BUILD=$(BUILD)/fuzz FUZZ_S=$(FUZZ_S) scripts/fuzz $(notdir $(FUZZ))

DEVICE_CHECK := $(BUILD)/unit/t_sums $(BUILD)/unit/t_device $(BUILD)/bench/device
tests: all $(TEST_LIB) $(UNIT) $(MPI_TESTS) $(CONFORM) $(FTESTS) $(SHMEM_TESTS) $(COMPAT_TESTS) $(EXAMPLES_FLT) $(PRELOADS) $(FAKECUDA) $(FAKEHIP) $(DEVICE_CHECK)
check: tests
	BUILD=$(BUILD) MPI_KIND=$(MPI_KIND) scripts/check
check-source: tests
	BUILD=$(BUILD) MPI_KIND=$(MPI_KIND) scripts/check --source
check-long: tests
	BUILD=$(BUILD) MPI_KIND=$(MPI_KIND) scripts/check --long
HOURS ?= 1
SEED ?= 1
campaign: tests
	BUILD=$(BUILD) MPI_KIND=$(MPI_KIND) tests/campaign/run --seed $(SEED) --hours $(HOURS) $(if $(CASE),--case $(CASE)) \
	    $(if $(JOBS),--jobs $(JOBS)) $(if $(STATE),--state $(STATE))
device-check: all $(DEVICE_CHECK) $(BUILD)/flt-examples/heat_gpu
	BUILD=$(BUILD) MPI_KIND=$(MPI_KIND) scripts/device-check
demo: all
	BUILD=$(BUILD) MPI_KIND=$(MPI_KIND) scripts/demo
bench: all $(BENCH)
	BUILD=$(BUILD) MPI_KIND=$(MPI_KIND) scripts/bench $(ROWS)

# ---- installation -----------------------------------------------------------------------

D = $(DESTDIR)$(PREFIX)
L = $(D)/$(LIBDIR)
# of the module file for Fortran, below PREFIX
FMODDIR ?= include/ftkit-fortran-$(FORTRAN)
# the way from the libraries to PREFIX
UP = $(subst $(empty) $(empty),/,$(patsubst %,..,$(subst /, ,$(LIBDIR))))
# the MPI that the library was linked with: CMake compares that of a project with it
MPILIB = $(shell ldd $(SO) | sed -n 's/^[[:space:]]*libmpi[a-z]*[.]so[^ ]* => \([^ ]*\) .*/\1/p' | head -n 1)
SUBST = sed -e 's|@VERSION@|$(VERSION)|g; s|@SOVERSION@|$(SOVERSION)|g; s|@PKGS@|$(PKGS)|g; s|@HDF5_LIBS@|$(HDF5_LIBS)|g; s|@MPICC@|$(MPICC)|g; s|@MPILIB@|$(MPILIB)|g; \
    s|@MPICXX@|$(MPICXX)|g; s|@MPIFC@|$(MPIFC)|g; s|@FMODDIR@|$(FMODDIR)|g; s|@LIBDIR@|$(LIBDIR)|g; s|@UP@|$(UP)|g; \
    s|@LAYER_LIBS@|$(if $(LAYER),-Wl$(comma)--push-state$(comma)--no-as-needed -lftkit_mpi -Wl$(comma)--pop-state)|g'
# where the Python looks in this prefix, or where one in this prefix looks
PYDIR ?= $(shell $(or $(PYTHON),python3) -c 'import sys; p = "$(PREFIX)"; print(next((d for d in sys.path \
    if d.startswith(p + "/lib") and d.endswith("-packages")), \
    p + "/lib/python%d.%d/site-packages" % sys.version_info[:2]))' 2>/dev/null)
# where zsh of Debian looks: packages have a place of their own
ZSH = $(D)/share/zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)
install: all
	install -d $(D)/bin $(D)/include $(L)/pkgconfig $(L)/cmake/ftkit \
	    $(D)/share/man/man1 $(D)/share/man/man3 $(D)/share/bash-completion/completions $(ZSH)
	install -m 755 $(PROGRAM) $(D)/bin/ftkit
	install -m 644 $(MANUAL)/man1/*.1 $(D)/share/man/man1
	install -m 644 $(MANUAL)/man3/*.3 $(D)/share/man/man3
	install -m 644 $(MANUAL)/completion/ftkit $(D)/share/bash-completion/completions/ftkit
	install -m 644 $(MANUAL)/completion/_ftkit $(ZSH)/_ftkit
	install -m 644 include/ftkit.h include/ftkit.hpp $(D)/include
	for l in $(LIBS) $(notdir $(FLIB)); do \
	    install -m 644 $(BUILD)/$$l.a $(L)/$$l.a && \
	    install -m 755 $(BUILD)/$$l.so.$(VERSION) $(L)/$$l.so.$(VERSION) && \
	    ln -sf $$l.so.$(VERSION) $(L)/$$l.so.$(SOVERSION) && \
	    ln -sf $$l.so.$(SOVERSION) $(L)/$$l.so || exit 1; \
	done
	$(if $(LAYER),install -d $(D)/share/doc/ftkit)
	$(if $(LAYER),install -m 644 $(GEN)/mpi-support.md $(D)/share/doc/ftkit/mpi-support.md)
	$(SUBST) scripts/ftkit.pc.in >$(L)/pkgconfig/ftkit.pc
	$(if $(LAYER),$(SUBST) scripts/ftkit-mpi.pc.in >$(L)/pkgconfig/ftkit-mpi.pc)
	$(if $(FLIB),install -d $(D)/$(FMODDIR))
	$(if $(FLIB),install -m 644 $(FMOD)/ftkit.mod $(D)/$(FMODDIR)/ftkit.mod)
	$(if $(FLIB),$(SUBST) scripts/ftkit-fortran.pc.in >$(L)/pkgconfig/ftkit-fortran.pc)
	$(if $(SHMEM),install -d $(D)/include/ftkit-shmem/mpp)
	$(if $(SHMEM),install -m 644 bindings/shmem/shmem.h bindings/shmem/shmem_generic.h $(D)/include/ftkit-shmem)
	$(if $(SHMEM),install -m 644 bindings/shmem/mpp/shmem.h $(D)/include/ftkit-shmem/mpp)
	$(if $(SHMEM),install -m 755 $(SHMEM).so.$(VERSION) $(L))
	$(if $(SHMEM),ln -sf libftkit_shmem.so.$(VERSION) $(L)/libftkit_shmem.so.$(SOVERSION))
	$(if $(SHMEM),ln -sf libftkit_shmem.so.$(SOVERSION) $(L)/libftkit_shmem.so)
	$(if $(SHMEM),$(SUBST) scripts/ftkit-shmem.pc.in >$(L)/pkgconfig/ftkit-shmem.pc)
	install -m 755 $(PYLIB).so.$(VERSION) $(L)
	ln -sf libftkit_python.so.$(VERSION) $(L)/libftkit_python.so.$(SOVERSION)
	$(if $(PYDIR),install -d $(DESTDIR)$(PYDIR)/ftkit)
	$(if $(PYDIR),install -m 644 bindings/python/ftkit/*.py $(DESTDIR)$(PYDIR)/ftkit)
	install -d $(PEERS:%=$(L)/pkgconfig/ftkit-compat/%) $(PEERS:%=$(D)/include/ftkit-compat/%)
	for l in $(PEERS); do \
	    install -m 644 bindings/compat/$$l/$$l.h $(D)/include/ftkit-compat/$$l && \
	    install -m 755 $(BUILD)/libftkit_$$l.so.$(VERSION) $(L) && \
	    ln -sf libftkit_$$l.so.$(VERSION) $(L)/libftkit_$$l.so.$(SOVERSION) && \
	    ln -sf libftkit_$$l.so.$(SOVERSION) $(L)/libftkit_$$l.so && \
	    $(SUBST) scripts/ftkit-compat-$$l.pc.in >$(L)/pkgconfig/ftkit-compat/$$l/$$l.pc || exit 1; \
	done
	$(SUBST) scripts/ftkit-config.cmake.in >$(L)/cmake/ftkit/ftkit-config.cmake
	$(SUBST) scripts/ftkit-config-version.cmake.in \
	    >$(L)/cmake/ftkit/ftkit-config-version.cmake
	@echo "  $(D)"

deb:
	MPI_HOME="$(MPI_HOME)" MPICC="$(MPICC)" scripts/deb build $(BUILD)/deb

# ---- care -------------------------------------------------------------------------------

lint: $(BUILD)/mpi.mk $(GEN)/pmpi.h $(GEN)/report_css.h $(GEN)/sources.h layers
	BUILD=$(BUILD) MPICC="$(MPICC)" CFLAGS_ALL="$(CFLAGS_ALL)" LIB_SRC="$(LIB_SRC)" \
	    FORTRAN_INCLUDE="$(FORTRAN_INCLUDE)" scripts/lint
layers: lib
	scripts/layers $(BUILD)
	scripts/owners
site: $(PROGRAM) $(GEN)/stamp
	BUILD=$(BUILD) scripts/site
format:
	clang-format-14 -i $$(git ls-files '*.c' '*.h')
clean:
	rm -rf $(BUILD)
help:
	@sed -n '2,20s/^# \{0,1\}//p' Makefile

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
