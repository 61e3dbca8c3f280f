! The Fortran module of ftkit: the API of ftkit.h for Fortran 2008 programs.
!
! SPDX-License-Identifier: BSD-3-Clause
!
! Every C function has a procedure of the same name here, with the arguments in the same
! order and a last argument ierr.  docs/fortran.md has the rules; ftkit.h describes each call.
! In short:
!
!   - Without ierr an error (a code below 0) ends the program with its text.  ierr is not
!     optional where news (a code above 0) must not be missed: ftkit_step, ftkit_finish,
!     ftkit_scrub, ftkit_wait.
!   - Communicators, datatypes, requests and messages are the types of mpi_f08, such as
!     type(MPI_Comm), or
!     integers of mpi and mpif.h.
!   - Data may be of any intrinsic type, kind and rank.  ftkit keeps its address: give it
!     the target attribute.  It must be contiguous; nothing is copied on the way.
!
! The interfaces are bound to ftkit_fortran.c, which reads the descriptors.
module ftkit
    use, intrinsic :: iso_c_binding, only: c_ptr, c_funptr, c_null_ptr, c_null_funptr, &
        c_int, c_int32_t, c_int64_t, c_size_t, c_double, c_char, c_f_pointer, c_funloc, &
        c_f_procpointer
    use mpi_f08, only: MPI_Comm, MPI_Datatype, MPI_Message, MPI_Request, MPI_Win
    implicit none
    private

    ! ---- Constants ----------------------------------------------------------------------
    ! FTKIT_OK and all other codes, FTKIT_MODE_..., FTKIT_LEVEL_..., FTKIT_NAME_MAX: made
    ! from ftkit.h
    include "ftkit_codes.inc"

    ! ---- Types --------------------------------------------------------------------------

    !> A context; ftkit_open() makes one.
    type, bind(c), public :: ftkit_ctx
        private
        type(c_ptr) :: handle = c_null_ptr
    end type

    !> The result of ftkit_query(); the members are those of ftkit.h.
    type, bind(c), public :: ftkit_info
        integer(c_size_t) :: size = 0
        integer(c_int) :: mode = 0
        integer(c_int) :: rank = 0
        integer(c_int) :: nranks = 0
        integer(c_int) :: nspares = 0
        integer(c_int) :: incarnation = 0
        integer(c_int) :: repairs = 0
        integer(c_int) :: rollbacks = 0
        integer(c_int) :: flush_error = 0
        integer(c_int64_t) :: committed = 0
        integer(c_int64_t) :: durable = 0
        integer(c_int64_t) :: restored = 0
        integer(c_size_t) :: region_bytes = 0
        integer(c_size_t) :: memory_bytes = 0
        real(c_double) :: checkpoint_s = 0
        real(c_double) :: repair_s = 0
        real(c_double) :: repair_detect_s = 0
        real(c_double) :: repair_supply_s = 0
        real(c_double) :: repair_rebuild_s = 0
        real(c_double) :: repair_restore_s = 0
        integer(c_int64_t) :: flushing = 0
        real(c_double) :: flush_s = 0
        integer(c_int64_t) :: sent_bytes = 0
        integer(c_int64_t) :: sent_total = 0
        integer(c_int64_t) :: log_messages = 0
        integer(c_int64_t) :: log_bytes = 0
        integer(c_int64_t) :: log_held = 0
        integer(c_int64_t) :: log_determinants = 0
        integer(c_int64_t) :: log_determinant_bytes = 0
        integer(c_int64_t) :: log_resent = 0
        integer(c_int64_t) :: log_suppressed = 0
        integer(c_int64_t) :: log_drained = 0
        integer(c_int64_t) :: log_spilled = 0
        integer(c_int64_t) :: log_differs = 0
        integer(c_int64_t) :: log_requests = 0
        integer(c_int64_t) :: line_late = 0
        integer(c_int64_t) :: line_early = 0
        integer(c_int64_t) :: line_determinants = 0
        integer(c_int64_t) :: line_open = 0
        integer(c_int64_t) :: line_waits_here = 0
        integer(c_int) :: plane = 0
        integer(c_int) :: nplanes = 0
        integer(c_int64_t) :: sdc_found = 0
        integer(c_int64_t) :: sdc_corrected = 0
        integer(c_int64_t) :: takeovers = 0
        integer(c_int64_t) :: clones = 0
        integer(c_int64_t) :: degraded = 0
        real(c_double) :: joules = 0
        integer(c_int) :: program = 0
        integer(c_int) :: nprograms = 0
        real(c_double) :: replay_s = 0
        real(c_double) :: replay_forward_s = 0
        integer(c_int64_t) :: replay_calls = 0
        real(c_double) :: catch_up_s = 0
        integer(c_int) :: idle_cores = 0
        integer(c_int64_t) :: units_elsewhere = 0
        integer(c_int64_t) :: units_helped = 0
    end type

    !> One lost process, see ftkit_failures().
    type, bind(c), public :: ftkit_failure
        integer(c_int) :: rank = 0
        integer(c_int) :: plane = 0
        integer(c_int) :: incarnation = 0
        integer(c_int) :: reason = 0
        integer(c_int) :: code = 0
    end type

    !> Why a process was lost: reason of ftkit_failure.
    integer(c_int), parameter, public :: FTKIT_LOST_UNKNOWN = 0
    integer(c_int), parameter, public :: FTKIT_LOST_SIGNAL = 1
    integer(c_int), parameter, public :: FTKIT_LOST_NODE = 2
    integer(c_int), parameter, public :: FTKIT_LOST_EXIT = 3
    integer(c_int), parameter, public :: FTKIT_LOST_ABORT = 4
    integer(c_int), parameter, public :: FTKIT_LOST_STUCK = 5

    ! ---- Procedures of the program ------------------------------------------------------

    public :: ftkit_repair_fn, ftkit_repair_integer_fn, ftkit_report_fn
    public :: ftkit_body_fn, ftkit_resize_fn, ftkit_measure_fn, ftkit_pack_fn, ftkit_unpack_fn
    public :: ftkit_files_fn, ftkit_files_ranks_fn

    abstract interface
        !> For ftkit_on_repair(): builds everything that depends on the communicator; 0 for
        !! success.  arg is the arg of ftkit_on_repair(), or c_null_ptr.
        integer function ftkit_repair_fn(ctx, comm, arg)
            import :: ftkit_ctx, MPI_Comm, c_ptr
            type(ftkit_ctx), intent(in) :: ctx
            type(MPI_Comm), intent(in) :: comm
            type(c_ptr), intent(in) :: arg
        end function

        !> The same for integer communicators: ftkit_on_repair_integer().
        integer function ftkit_repair_integer_fn(ctx, comm, arg)
            import :: ftkit_ctx, c_ptr
            type(ftkit_ctx), intent(in) :: ctx
            integer, intent(in) :: comm
            type(c_ptr), intent(in) :: arg
        end function

        !> For ftkit_set_report(): a line of one of the levels FTKIT_LEVEL_...
        subroutine ftkit_report_fn(level, line)
            integer, intent(in) :: level
            character(len=*), intent(in) :: line
        end subroutine

        !> For ftkit_escape(): the code that a failure ends.
        subroutine ftkit_body_fn(arg) bind(c)
            import :: c_ptr
            type(c_ptr), value :: arg
        end subroutine

        !> For ftkit_register_growing(): memory for count items at data; 0 for success.
        function ftkit_resize_fn(data, count, arg) result(status) bind(c)
            import :: c_ptr, c_size_t, c_int
            type(c_ptr), intent(inout) :: data
            integer(c_size_t), value :: count
            type(c_ptr), value :: arg
            integer(c_int) :: status
        end function

        !> For ftkit_register_files(): write or read files below dir, which ends with a NUL; 0 for
        !! success.
        function ftkit_files_fn(arg, dir) result(status) bind(c)
            import :: c_ptr, c_char, c_int
            type(c_ptr), value :: arg
            character(kind=c_char), intent(in) :: dir(*)
            integer(c_int) :: status
        end function

        !> For ftkit_files_any_ranks(): read files of old_ranks ranks by ftkit_files_of(); 0 for
        !! success.  name, the name of the files, ends with a NUL.
        function ftkit_files_ranks_fn(arg, ctx, name, old_ranks) result(status) bind(c)
            import :: ftkit_ctx, c_ptr, c_char, c_int
            type(c_ptr), value :: arg
            type(ftkit_ctx), value :: ctx
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int), value :: old_ranks
            integer(c_int) :: status
        end function

        !> For ftkit_unit(): compute out from in and from nothing else; 0 for success.
        function ftkit_unit_fn(in, in_bytes, out, out_bytes, arg) result(status) bind(c)
            import :: c_ptr, c_size_t, c_int
            type(c_ptr), value :: in, out, arg
            integer(c_size_t), value :: in_bytes, out_bytes
            integer(c_int) :: status
        end function

        !> For ftkit_register_serializer(): how many bytes pack will write; 0 for success.
        function ftkit_measure_fn(arg, bytes) result(status) bind(c)
            import :: c_ptr, c_size_t, c_int
            type(c_ptr), value :: arg
            integer(c_size_t), intent(out) :: bytes
            integer(c_int) :: status
        end function

        !> ... write exactly so many bytes to buf
        function ftkit_pack_fn(arg, buf, bytes) result(status) bind(c)
            import :: c_ptr, c_size_t, c_int
            type(c_ptr), value :: arg, buf
            integer(c_size_t), value :: bytes
            integer(c_int) :: status
        end function

        !> ... and read them back from buf
        function ftkit_unpack_fn(arg, buf, bytes) result(status) bind(c)
            import :: c_ptr, c_size_t, c_int
            type(c_ptr), value :: arg, buf
            integer(c_size_t), value :: bytes
            integer(c_int) :: status
        end function
    end interface

    ! ---- Contexts -----------------------------------------------------------------------

    !> Open a context on a communicator of either kind.  config is the path of an INI file;
    !! blank, or not given (ctx=ctx then): the defaults.
    interface ftkit_open
        subroutine open_integer(comm, config, ctx, ierr) bind(c, name="ftkit_f_open")
            import :: ftkit_ctx, c_int, c_char
            integer(c_int), intent(in) :: comm
            character(kind=c_char, len=*), intent(in), optional :: config
            type(ftkit_ctx), intent(out) :: ctx
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine open_f08(comm, config, ctx, ierr) bind(c, name="ftkit_f_open_f08")
            import :: ftkit_ctx, MPI_Comm, c_int, c_char
            type(MPI_Comm), intent(in) :: comm
            character(kind=c_char, len=*), intent(in), optional :: config
            type(ftkit_ctx), intent(out) :: ctx
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_open

    !> Close the context.
    interface
        subroutine ftkit_close(ctx, ierr) bind(c, name="ftkit_f_close")
            import :: ftkit_ctx, c_int
            type(ftkit_ctx), intent(inout) :: ctx
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_close

    !> The resilient communicator, as a variable of either kind.
    interface ftkit_comm
        subroutine comm_integer(ctx, comm, ierr) bind(c, name="ftkit_f_comm")
            import :: ftkit_ctx, c_int
            type(ftkit_ctx), intent(in) :: ctx
            integer(c_int), intent(out) :: comm
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine comm_f08(ctx, comm, ierr) bind(c, name="ftkit_f_comm_f08")
            import :: ftkit_ctx, MPI_Comm, c_int
            type(ftkit_ctx), intent(in) :: ctx
            type(MPI_Comm), intent(out) :: comm
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_comm

    !> Store the resilient communicator in comm now and after every repair.  The variable
    !! must live until ftkit_close(): one of the main program or a module, with target.
    interface ftkit_bind_comm
        subroutine bind_comm_integer(ctx, comm, ierr) bind(c, name="ftkit_f_bind_comm")
            import :: ftkit_ctx, c_int
            type(ftkit_ctx), intent(in) :: ctx
            integer(c_int), intent(inout), target, asynchronous :: comm
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine bind_comm_f08(ctx, comm, ierr) bind(c, name="ftkit_f_bind_comm_f08")
            import :: ftkit_ctx, MPI_Comm, c_int
            type(ftkit_ctx), intent(in) :: ctx
            type(MPI_Comm), intent(inout), target, asynchronous :: comm
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_bind_comm

    ! ---- Regions ------------------------------------------------------------------------

    !> Register data, different on every rank:
    !!   (ctx, name, data, ierr)                    intrinsic type, any kind and rank
    !!   (ctx, name, c_loc(x), count, type, ierr)   items of an MPI datatype
    interface ftkit_register
        subroutine register_data(ctx, name, data, ierr) bind(c, name="ftkit_f_register")
            import :: ftkit_ctx, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            type(*), dimension(..), intent(inout), target, asynchronous :: data
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        procedure :: register_n32_integer, register_n32_f08
        procedure :: register_n64_integer, register_n64_f08
    end interface
    public :: ftkit_register

    !> The same for data that have the same value on every rank.
    interface ftkit_register_replicated
        subroutine replicated_data(ctx, name, data, ierr) &
            bind(c, name="ftkit_f_register_replicated")
            import :: ftkit_ctx, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            type(*), dimension(..), intent(inout), target, asynchronous :: data
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        procedure :: replicated_n32_integer, replicated_n32_f08
        procedure :: replicated_n64_integer, replicated_n64_f08
    end interface
    public :: ftkit_register_replicated

    !> Register so many bytes at an address: (ctx, name, c_loc(x), bytes, ierr).
    interface ftkit_register_bytes
        procedure :: bytes_n32, bytes_n64
    end interface
    public :: ftkit_register_bytes

    !> ... that are the same on every rank.
    interface ftkit_register_replicated_bytes
        procedure :: replicated_bytes_n32, replicated_bytes_n64
    end interface
    public :: ftkit_register_replicated_bytes

    !> Register this rank's block of a global array.  Shapes are in the order of Fortran, one
    !! number for each dimension of data.  The extents of data are local + 2 x halo.  offset is
    !! the number of elements before the block.  HDF5 shows dimensions in reverse order.
    interface ftkit_register_array
        subroutine array_int32(ctx, name, data, global, local, offset, halo, ierr) &
            bind(c, name="ftkit_f_register_array")
            import :: ftkit_ctx, c_int32_t, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            type(*), dimension(..), intent(inout), target, asynchronous :: data
            integer(c_int32_t), intent(in) :: global(:), local(:), offset(:)
            integer(c_int32_t), intent(in), optional :: halo(:)
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine array_int64(ctx, name, data, global, local, offset, halo, ierr) &
            bind(c, name="ftkit_f_register_array_int64")
            import :: ftkit_ctx, c_int64_t, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            type(*), dimension(..), intent(inout), target, asynchronous :: data
            integer(c_int64_t), intent(in) :: global(:), local(:), offset(:)
            integer(c_int64_t), intent(in), optional :: halo(:)
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_register_array

    !> Register data that grow and shrink: data and count are variables that are read at
    !! each checkpoint.  Without resize the memory must come from malloc() of C.
    interface ftkit_register_growing
        subroutine growing_integer(ctx, name, data, count, datatype, resize, arg, ierr) &
            bind(c, name="ftkit_f_register_growing")
            import :: ftkit_ctx, c_ptr, c_size_t, c_int, c_char, &
                ftkit_resize_fn
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            type(c_ptr), intent(inout), target, asynchronous :: data
            integer(c_size_t), intent(inout), target, asynchronous :: count
            integer(c_int), intent(in) :: datatype
            procedure(ftkit_resize_fn), optional :: resize
            type(c_ptr), intent(in), optional :: arg
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine growing_f08(ctx, name, data, count, datatype, resize, arg, ierr) &
            bind(c, name="ftkit_f_register_growing_f08")
            import :: ftkit_ctx, MPI_Datatype, c_ptr, c_size_t, c_int, c_char, &
                ftkit_resize_fn
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            type(c_ptr), intent(inout), target, asynchronous :: data
            integer(c_size_t), intent(inout), target, asynchronous :: count
            type(MPI_Datatype), intent(in) :: datatype
            procedure(ftkit_resize_fn), optional :: resize
            type(c_ptr), intent(in), optional :: arg
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_register_growing

    !> Register an object that saves itself.
    interface
        subroutine ftkit_register_serializer(ctx, name, measure, pack, unpack, arg, ierr) &
            bind(c, name="ftkit_f_register_serializer")
            import :: ftkit_ctx, c_ptr, c_int, c_char
            import :: ftkit_measure_fn, ftkit_pack_fn, ftkit_unpack_fn
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            procedure(ftkit_measure_fn) :: measure
            procedure(ftkit_pack_fn) :: pack
            procedure(ftkit_unpack_fn) :: unpack
            type(c_ptr), intent(in), optional :: arg
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_register_serializer

    !> Register a variable that holds a communicator made inside the loop.
    interface ftkit_register_comm
        subroutine register_comm_integer(ctx, name, comm, ierr) &
            bind(c, name="ftkit_f_register_comm")
            import :: ftkit_ctx, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            integer(c_int), intent(inout), target, asynchronous :: comm
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine register_comm_f08(ctx, name, comm, ierr) &
            bind(c, name="ftkit_f_register_comm_f08")
            import :: ftkit_ctx, MPI_Comm, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            type(MPI_Comm), intent(inout), target, asynchronous :: comm
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_register_comm

    !> Register a variable that holds a window made inside the loop.
    interface ftkit_register_window
        subroutine register_window_integer(ctx, name, win, ierr) &
            bind(c, name="ftkit_f_register_window")
            import :: ftkit_ctx, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            integer(c_int), intent(inout), target, asynchronous :: win
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine register_window_f08(ctx, name, win, ierr) &
            bind(c, name="ftkit_f_register_window_f08")
            import :: ftkit_ctx, MPI_Win, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            type(MPI_Win), intent(inout), target, asynchronous :: win
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_register_window

    !> Register variables that hold requests: a scalar or an array.
    interface ftkit_register_requests
        subroutine register_requests_integer(ctx, name, requests, ierr) &
            bind(c, name="ftkit_f_register_requests")
            import :: ftkit_ctx, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            integer(c_int), dimension(..), intent(inout), target, asynchronous :: requests
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine register_requests_f08(ctx, name, requests, ierr) &
            bind(c, name="ftkit_f_register_requests_f08")
            import :: ftkit_ctx, MPI_Request, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            type(MPI_Request), dimension(..), intent(inout), target, asynchronous :: requests
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_register_requests

    !> The same for messages that a probe has matched.
    interface ftkit_register_messages
        subroutine register_messages_integer(ctx, name, messages, ierr) &
            bind(c, name="ftkit_f_register_messages")
            import :: ftkit_ctx, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            integer(c_int), dimension(..), intent(inout), target, asynchronous :: messages
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine register_messages_f08(ctx, name, messages, ierr) &
            bind(c, name="ftkit_f_register_messages_f08")
            import :: ftkit_ctx, MPI_Message, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            type(MPI_Message), dimension(..), intent(inout), target, asynchronous :: messages
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_register_messages

    !> Give a region another array, for instance after deallocate and allocate.
    interface
        subroutine ftkit_resize(ctx, name, data, ierr) bind(c, name="ftkit_f_resize")
            import :: ftkit_ctx, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            type(*), dimension(..), intent(inout), target, asynchronous :: data
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_resize

    !> The same for an address: (ctx, name, c_loc(x), count, ierr).
    interface ftkit_resize_items
        procedure :: resize_n32, resize_n64
    end interface
    public :: ftkit_resize_items

    !> Forget a region.
    interface
        subroutine ftkit_unregister(ctx, name, ierr) bind(c, name="ftkit_f_unregister")
            import :: ftkit_ctx, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_unregister

    !> The stream of a GPU whose work on a region is to be over before a set or a restore; of CUDA
    !! Fortran: transfer(stream, c_null_ptr).
    interface
        subroutine ftkit_device_stream(ctx, region, stream, ierr) &
            bind(c, name="ftkit_f_device_stream")
            import :: ftkit_ctx, c_int, c_char, c_ptr
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: region
            type(c_ptr), intent(in), value :: stream
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_device_stream

    !> How a region is compared between the replicas of a rank: FTKIT_COMPARE_EXACT or
    !! FTKIT_COMPARE_OFF.
    interface
        subroutine ftkit_compare(ctx, region, how, ierr) bind(c, name="ftkit_f_compare")
            import :: ftkit_ctx, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: region
            integer(c_int), intent(in) :: how
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_compare

    !> Attach a text to a region, for readers of the files.
    interface
        subroutine ftkit_attribute(ctx, region, name, value, ierr) &
            bind(c, name="ftkit_f_attribute")
            import :: ftkit_ctx, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: region, name, value
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_attribute

    ! ---- Checkpoint and recovery --------------------------------------------------------

    !> A value that MPI does not know of (time, a random number) is the same in every replay: data
    !! is overwritten with the value of the first execution.  At most 65536 bytes.
    interface
        subroutine ftkit_decide(ctx, data, ierr) bind(c, name="ftkit_f_decide")
            import :: ftkit_ctx, c_int
            type(ftkit_ctx), intent(in) :: ctx
            type(*), dimension(..), intent(inout) :: data
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_decide

    !> The program does not change data until the next set, or until ftkit_unshare(): the message log
    !! keeps no copies of messages that are sent from there.  data has the attribute target or is
    !! allocated.
    interface
        subroutine ftkit_share(ctx, data, ierr) bind(c, name="ftkit_f_share")
            import :: ftkit_ctx, c_int
            type(ftkit_ctx), intent(in) :: ctx
            type(*), dimension(..), intent(in), target :: data
            integer(c_int), intent(out), optional :: ierr
        end subroutine
        subroutine ftkit_unshare(ctx, data, ierr) bind(c, name="ftkit_f_unshare")
            import :: ftkit_ctx, c_int
            type(ftkit_ctx), intent(in) :: ctx
            type(*), dimension(..), intent(in), target :: data
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_share, ftkit_unshare

    !> Name a kind of work that other ranks may do for this one in a replay.
    interface
        subroutine ftkit_unit(ctx, name, fn, arg, ierr) bind(c, name="ftkit_f_unit")
            import :: ftkit_ctx, c_ptr, c_int, c_char, ftkit_unit_fn
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            procedure(ftkit_unit_fn) :: fn
            type(c_ptr), intent(in), optional :: arg
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        !> Run n units of this kind: the addresses of their inputs and outputs, and the sizes of
        !! these in bytes.
        subroutine ftkit_run_units(ctx, name, n, ins, in_bytes, outs, out_bytes, ierr) &
            bind(c, name="ftkit_f_run_units")
            import :: ftkit_ctx, c_ptr, c_int, c_size_t, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            integer(c_size_t), value :: n
            type(c_ptr), intent(in) :: ins(*), outs(*)
            integer(c_size_t), intent(in) :: in_bytes(*), out_bytes(*)
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_unit, ftkit_run_units

    !> In a loop with ftkit_step(): this rank has come to the end; let cycle follow.
    interface
        subroutine ftkit_end(ctx, ierr) bind(c, name="ftkit_f_end")
            import :: ftkit_ctx, c_int
            type(ftkit_ctx), intent(in) :: ctx
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_end

    !> Register a file to which this rank appends: a rollback shortens it to offset.
    interface
        subroutine ftkit_register_offset(ctx, name, path, offset, ierr) &
            bind(c, name="ftkit_f_register_offset")
            import :: ftkit_ctx, c_int64_t, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name, path
            integer(c_int64_t), intent(inout), target, asynchronous :: offset
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_register_offset

    !> Register files that the program writes itself.  Without write and read it gives them by
    !! ftkit_files_begin() and ftkit_files_end().
    interface
        subroutine ftkit_register_files(ctx, name, write, read, arg, ierr) &
            bind(c, name="ftkit_f_register_files")
            import :: ftkit_ctx, c_ptr, c_int, c_char, ftkit_files_fn
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            procedure(ftkit_files_fn), optional :: write, read
            type(c_ptr), intent(in), optional :: arg
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        !> Register files that all ranks write together, between the same two calls.
        subroutine ftkit_register_joint_files(ctx, name, ierr) &
            bind(c, name="ftkit_f_register_joint_files")
            import :: ftkit_ctx, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        !> dir: the directory in which to write the files of the next set.
        subroutine ftkit_files_begin(ctx, name, dir, ierr) bind(c, name="ftkit_f_files_begin")
            import :: ftkit_ctx, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            character(kind=c_char, len=*), intent(inout) :: dir
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        !> dir: the directory with the files of the restored set; ierr FTKIT_NO_SET: there are none.
        subroutine ftkit_files_read(ctx, name, dir, ierr) bind(c, name="ftkit_f_files_read")
            import :: ftkit_ctx, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            character(kind=c_char, len=*), intent(inout) :: dir
            integer(c_int), intent(out) :: ierr
        end subroutine

        !> Let files be restored on another number of ranks than wrote them, with read in place of
        !! that of ftkit_register_files(); without read: for files without callbacks.
        subroutine ftkit_files_any_ranks(ctx, name, read, ierr) &
            bind(c, name="ftkit_f_files_any_ranks")
            import :: ftkit_ctx, c_int, c_char, ftkit_files_ranks_fn
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            procedure(ftkit_files_ranks_fn), optional :: read
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        !> ranks: how many ranks wrote the restored set; ierr FTKIT_NO_SET: as many as now.
        subroutine ftkit_files_ranks(ctx, name, ranks, ierr) bind(c, name="ftkit_f_files_ranks")
            import :: ftkit_ctx, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            integer(c_int), intent(inout) :: ranks
            integer(c_int), intent(out) :: ierr
        end subroutine

        !> dir: a directory with the files of an old rank; ierr FTKIT_NO_SET: there are none.
        subroutine ftkit_files_of(ctx, name, old_rank, dir, ierr) bind(c, name="ftkit_f_files_of")
            import :: ftkit_ctx, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            integer(c_int), value :: old_rank
            character(kind=c_char, len=*), intent(inout) :: dir
            integer(c_int), intent(out) :: ierr
        end subroutine
    end interface
    public :: ftkit_register_files, ftkit_files_begin, ftkit_files_read
    public :: ftkit_register_joint_files
    public :: ftkit_files_any_ranks, ftkit_files_ranks, ftkit_files_of

    !> The call in a loop without ftkit_step().
    interface
        subroutine ftkit_checkpoint(ctx, ierr) bind(c, name="ftkit_f_checkpoint")
            import :: ftkit_ctx, c_int
            type(ftkit_ctx), intent(in) :: ctx
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_checkpoint

    !> Load the newest set; set becomes its number.
    interface
        subroutine ftkit_recover(ctx, set, ierr) bind(c, name="ftkit_f_recover")
            import :: ftkit_ctx, c_int64_t, c_int
            type(ftkit_ctx), intent(in) :: ctx
            integer(c_int64_t), intent(inout), optional :: set
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_recover

    !> Wait until every rank has come to the end of its loop; FTKIT_ROLLED_BACK: continue with
    !! the loop.
    interface
        subroutine ftkit_finish(ctx, ierr) bind(c, name="ftkit_f_finish")
            import :: ftkit_ctx, c_int
            type(ftkit_ctx), intent(in) :: ctx
            integer(c_int), intent(out) :: ierr
        end subroutine
    end interface
    public :: ftkit_finish

    !> Compare all checkpoint data in memory with their checksums, and repair them.
    interface
        subroutine ftkit_scrub(ctx, corrupt, ierr) bind(c, name="ftkit_f_scrub")
            import :: ftkit_ctx, c_int
            type(ftkit_ctx), intent(in) :: ctx
            integer(c_int), intent(inout) :: corrupt
            integer(c_int), intent(out) :: ierr
        end subroutine
    end interface
    public :: ftkit_scrub

    !> Wait until every set that was begun has reached all its levels.
    interface
        subroutine ftkit_wait(ctx, ierr) bind(c, name="ftkit_f_wait")
            import :: ftkit_ctx, c_int
            type(ftkit_ctx), intent(in) :: ctx
            integer(c_int), intent(out) :: ierr
        end subroutine
    end interface
    public :: ftkit_wait

    !> Fill info.
    interface
        subroutine ftkit_query(ctx, info, ierr) bind(c, name="ftkit_f_query")
            import :: ftkit_ctx, ftkit_info, c_int
            type(ftkit_ctx), intent(in) :: ctx
            type(ftkit_info), intent(inout) :: info
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_query

    interface
        subroutine failures_list(ctx, list, room, n, ierr) bind(c, name="ftkit_f_failures")
            import :: ftkit_ctx, ftkit_failure, c_int
            type(ftkit_ctx), intent(in) :: ctx
            type(ftkit_failure), intent(inout) :: list(*)
            integer(c_int), intent(in), value :: room
            integer(c_int), intent(out) :: n
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface

    !> Let ftkit revoke a communicator of the program when a rank fails.
    interface ftkit_track_comm
        subroutine track_comm_integer(ctx, comm, ierr) bind(c, name="ftkit_f_track_comm")
            import :: ftkit_ctx, c_int
            type(ftkit_ctx), intent(in) :: ctx
            integer(c_int), intent(in) :: comm
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine track_comm_f08(ctx, comm, ierr) bind(c, name="ftkit_f_track_comm_f08")
            import :: ftkit_ctx, MPI_Comm, c_int
            type(ftkit_ctx), intent(in) :: ctx
            type(MPI_Comm), intent(in) :: comm
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_track_comm

    !> End the tracking of a communicator.
    interface ftkit_untrack_comm
        subroutine untrack_comm_integer(ctx, comm, ierr) &
            bind(c, name="ftkit_f_untrack_comm")
            import :: ftkit_ctx, c_int
            type(ftkit_ctx), intent(in) :: ctx
            integer(c_int), intent(in) :: comm
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine untrack_comm_f08(ctx, comm, ierr) &
            bind(c, name="ftkit_f_untrack_comm_f08")
            import :: ftkit_ctx, MPI_Comm, c_int
            type(ftkit_ctx), intent(in) :: ctx
            type(MPI_Comm), intent(in) :: comm
            integer(c_int), intent(out), optional :: ierr
        end subroutine
    end interface
    public :: ftkit_untrack_comm

    !> End the job, or this rank alone when a failure is known.
    interface ftkit_abort
        subroutine abort_integer(comm, code) bind(c, name="ftkit_f_abort")
            import :: c_int
            integer(c_int), intent(in) :: comm
            integer(c_int), intent(in) :: code
        end subroutine
        subroutine abort_f08(comm, code) bind(c, name="ftkit_f_abort_f08")
            import :: MPI_Comm, c_int
            type(MPI_Comm), intent(in) :: comm
            integer(c_int), intent(in) :: code
        end subroutine
    end interface
    public :: ftkit_abort

    public :: ftkit_on_repair, ftkit_on_repair_integer, ftkit_set_report
    public :: ftkit_step, ftkit_fatal, ftkit_escape
    public :: ftkit_due, ftkit_files_end
    public :: ftkit_request, ftkit_test, ftkit_failed, ftkit_confirm, ftkit_failures
    public :: ftkit_strerror, ftkit_version, ftkit_detail

    ! ---- C functions that the procedures below use --------------------------------------

    interface
        subroutine register_items(ctx, name, data, count, datatype, ierr) &
            bind(c, name="ftkit_f_register_items")
            import :: ftkit_ctx, c_ptr, c_int64_t, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            type(c_ptr), value :: data
            integer(c_int64_t), value :: count
            integer(c_int), intent(in), optional :: datatype
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine register_replicated_items(ctx, name, data, count, datatype, ierr) &
            bind(c, name="ftkit_f_register_replicated_items")
            import :: ftkit_ctx, c_ptr, c_int64_t, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            type(c_ptr), value :: data
            integer(c_int64_t), value :: count
            integer(c_int), intent(in), optional :: datatype
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine resize_items(ctx, name, data, count, ierr) &
            bind(c, name="ftkit_f_resize_items")
            import :: ftkit_ctx, c_ptr, c_int64_t, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            type(c_ptr), value :: data
            integer(c_int64_t), value :: count
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine c_request(ctx, durable, ierr) bind(c, name="ftkit_f_request")
            import :: ftkit_ctx, c_int
            type(ftkit_ctx), intent(in) :: ctx
            integer(c_int), value :: durable
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine c_files_end(ctx, name, ok, ierr) bind(c, name="ftkit_f_files_end")
            import :: ftkit_ctx, c_int, c_char
            type(ftkit_ctx), intent(in) :: ctx
            character(kind=c_char, len=*), intent(in) :: name
            integer(c_int), value :: ok
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine c_due(ctx, due, ierr) bind(c, name="ftkit_f_due")
            import :: ftkit_ctx, c_int
            type(ftkit_ctx), intent(in) :: ctx
            integer(c_int), intent(out) :: due
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine c_test(ctx, set, done, ierr) bind(c, name="ftkit_f_test")
            import :: ftkit_ctx, c_int64_t, c_int
            type(ftkit_ctx), intent(in) :: ctx
            integer(c_int64_t), value :: set
            integer(c_int), intent(inout) :: done
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine c_on_repair(ctx, fn, arg, ierr) bind(c, name="ftkit_f_on_repair")
            import :: ftkit_ctx, c_ptr, c_funptr, c_int
            type(ftkit_ctx), intent(in) :: ctx
            type(c_funptr), value :: fn
            type(c_ptr), intent(in), optional :: arg
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine c_on_repair_f08(ctx, fn, arg, ierr) bind(c, name="ftkit_f_on_repair_f08")
            import :: ftkit_ctx, c_ptr, c_funptr, c_int
            type(ftkit_ctx), intent(in) :: ctx
            type(c_funptr), value :: fn
            type(c_ptr), intent(in), optional :: arg
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine c_set_report(fn, ierr) bind(c, name="ftkit_f_set_report")
            import :: c_funptr, c_int
            type(c_funptr), value :: fn
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        subroutine c_escape(ctx, body, arg, ierr) bind(c, name="ftkit_f_escape")
            import :: ftkit_ctx, c_funptr, c_ptr, c_int
            type(ftkit_ctx), intent(in) :: ctx
            type(c_funptr), value :: body
            type(c_ptr), intent(in), optional :: arg
            integer(c_int), intent(out), optional :: ierr
        end subroutine

        integer(c_int) function c_step(handle, code) bind(c, name="ftkit_step")
            import :: c_ptr, c_int
            type(c_ptr), value :: handle
            integer(c_int), intent(out) :: code
        end function

        integer(c_int) function c_failed(handle) bind(c, name="ftkit_failed")
            import :: c_ptr, c_int
            type(c_ptr), value :: handle
        end function

        integer(c_int) function c_confirm(handle) bind(c, name="ftkit_confirm")
            import :: c_ptr, c_int
            type(c_ptr), value :: handle
        end function

        type(c_ptr) function c_detail(handle) bind(c, name="ftkit_detail")
            import :: c_ptr
            type(c_ptr), value :: handle
        end function

        pure type(c_ptr) function c_strerror(code) bind(c, name="ftkit_strerror")
            import :: c_ptr, c_int
            integer(c_int), value :: code
        end function

        pure type(c_ptr) function c_version() bind(c, name="ftkit_version")
            import :: c_ptr
        end function

        integer(c_size_t) function c_strlen(text) bind(c, name="strlen")
            import :: c_ptr, c_size_t
            type(c_ptr), value :: text
        end function
    end interface

contains

    ! ---- Texts --------------------------------------------------------------------------

    function text_of(from) result(text)
        type(c_ptr), intent(in) :: from
        character(len=:), allocatable :: text
        character(kind=c_char), pointer :: c(:)
        integer :: i
        call c_f_pointer(from, c, [c_strlen(from)])
        allocate (character(len=size(c)) :: text)
        do i = 1, size(c)
            text(i:i) = c(i)
        end do
    end function

    !> The text of a status code.
    function ftkit_strerror(code) result(text)
        integer, intent(in) :: code
        character(len=:), allocatable :: text
        text = text_of(c_strerror(code))
    end function

    !> The version of the library, "major.minor.patch".
    function ftkit_version() result(text)
        character(len=:), allocatable :: text
        text = text_of(c_version())
    end function

    !> Text about the last failed call on the context; without ctx, about the last failed call
    !! without a context.
    function ftkit_detail(ctx) result(text)
        type(ftkit_ctx), intent(in), optional :: ctx
        character(len=:), allocatable :: text
        type(c_ptr) :: handle
        handle = c_null_ptr
        if (present(ctx)) handle = ctx%handle
        text = text_of(c_detail(handle))
    end function

    ! ---- Logical arguments --------------------------------------------------------------

    !> The head of the loop, do while (ftkit_step(ctx, ierr)): .true. for the body, .false. at
    !! the end of the loop.
    logical function ftkit_step(ctx, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        integer, intent(out) :: ierr
        ftkit_step = c_step(ctx%handle, ierr) /= 0
    end function

    !> Whether a code is an error after which the program cannot continue.
    pure logical function ftkit_fatal(code)
        integer, intent(in) :: code
        ftkit_fatal = code < -39
    end function

    !> The ranks that were lost, and why: as many as list has room for.  n: the number of all.
    subroutine ftkit_failures(ctx, list, n, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        type(ftkit_failure), intent(inout) :: list(:)
        integer(c_int), intent(out) :: n
        integer(c_int), intent(out), optional :: ierr
        call failures_list(ctx, list, size(list, kind=c_int), n, ierr)
    end subroutine

    !> .true. when a failure is known that the next ftkit_checkpoint() will repair.
    logical function ftkit_failed(ctx)
        type(ftkit_ctx), intent(in) :: ctx
        ftkit_failed = c_failed(ctx%handle) /= 0
    end function

    !> .true. when a failure explains a result that the program's own check rejects.  Looks for
    !> a failure for up to 2 s.
    logical function ftkit_confirm(ctx)
        type(ftkit_ctx), intent(in) :: ctx
        ftkit_confirm = c_confirm(ctx%handle) /= 0
    end function

    !> Whether the next ftkit_checkpoint() will write a set.
    logical function ftkit_due(ctx, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        integer, intent(out), optional :: ierr
        integer(c_int) :: due
        call c_due(ctx, due, ierr)
        ftkit_due = due /= 0
    end function

    !> The files of ftkit_files_begin() are written; not ok: they are removed.
    subroutine ftkit_files_end(ctx, name, ok, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        character(len=*), intent(in) :: name
        logical, intent(in) :: ok
        integer, intent(out), optional :: ierr
        call c_files_end(ctx, name, merge(1_c_int, 0_c_int, ok), ierr)
    end subroutine

    !> Write a set at the next ftkit_checkpoint(), to the file system too when durable.
    subroutine ftkit_request(ctx, durable, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        logical, intent(in) :: durable
        integer, intent(out), optional :: ierr
        call c_request(ctx, merge(1_c_int, 0_c_int, durable), ierr)
    end subroutine

    !> Whether the set is complete on the file system.
    subroutine ftkit_test(ctx, set, done, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        integer(c_int64_t), intent(in) :: set
        logical, intent(inout) :: done
        integer, intent(out), optional :: ierr
        integer(c_int) :: answer
        answer = merge(1_c_int, 0_c_int, done)
        call c_test(ctx, set, answer, ierr)
        done = answer /= 0
    end subroutine

    ! ---- Addresses ----------------------------------------------------------------------

    subroutine register_n32_integer(ctx, name, data, count, datatype, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        character(kind=c_char, len=*), intent(in) :: name
        type(c_ptr), intent(in) :: data
        integer(c_int32_t), intent(in) :: count
        integer(c_int), intent(in) :: datatype
        integer(c_int), intent(out), optional :: ierr
        call register_items(ctx, name, data, int(count, c_int64_t), datatype, ierr)
    end subroutine

    subroutine register_n32_f08(ctx, name, data, count, datatype, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        character(kind=c_char, len=*), intent(in) :: name
        type(c_ptr), intent(in) :: data
        integer(c_int32_t), intent(in) :: count
        type(MPI_Datatype), intent(in) :: datatype
        integer(c_int), intent(out), optional :: ierr
        call register_items(ctx, name, data, int(count, c_int64_t), datatype%MPI_VAL, ierr)
    end subroutine

    subroutine register_n64_integer(ctx, name, data, count, datatype, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        character(kind=c_char, len=*), intent(in) :: name
        type(c_ptr), intent(in) :: data
        integer(c_int64_t), intent(in) :: count
        integer(c_int), intent(in) :: datatype
        integer(c_int), intent(out), optional :: ierr
        call register_items(ctx, name, data, count, datatype, ierr)
    end subroutine

    subroutine register_n64_f08(ctx, name, data, count, datatype, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        character(kind=c_char, len=*), intent(in) :: name
        type(c_ptr), intent(in) :: data
        integer(c_int64_t), intent(in) :: count
        type(MPI_Datatype), intent(in) :: datatype
        integer(c_int), intent(out), optional :: ierr
        call register_items(ctx, name, data, count, datatype%MPI_VAL, ierr)
    end subroutine

    subroutine replicated_n32_integer(ctx, name, data, count, datatype, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        character(kind=c_char, len=*), intent(in) :: name
        type(c_ptr), intent(in) :: data
        integer(c_int32_t), intent(in) :: count
        integer(c_int), intent(in) :: datatype
        integer(c_int), intent(out), optional :: ierr
        call register_replicated_items( &
            ctx, name, data, int(count, c_int64_t), datatype, ierr)
    end subroutine

    subroutine replicated_n32_f08(ctx, name, data, count, datatype, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        character(kind=c_char, len=*), intent(in) :: name
        type(c_ptr), intent(in) :: data
        integer(c_int32_t), intent(in) :: count
        type(MPI_Datatype), intent(in) :: datatype
        integer(c_int), intent(out), optional :: ierr
        call register_replicated_items( &
            ctx, name, data, int(count, c_int64_t), datatype%MPI_VAL, ierr)
    end subroutine

    subroutine replicated_n64_integer(ctx, name, data, count, datatype, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        character(kind=c_char, len=*), intent(in) :: name
        type(c_ptr), intent(in) :: data
        integer(c_int64_t), intent(in) :: count
        integer(c_int), intent(in) :: datatype
        integer(c_int), intent(out), optional :: ierr
        call register_replicated_items(ctx, name, data, count, datatype, ierr)
    end subroutine

    subroutine replicated_n64_f08(ctx, name, data, count, datatype, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        character(kind=c_char, len=*), intent(in) :: name
        type(c_ptr), intent(in) :: data
        integer(c_int64_t), intent(in) :: count
        type(MPI_Datatype), intent(in) :: datatype
        integer(c_int), intent(out), optional :: ierr
        call register_replicated_items(ctx, name, data, count, datatype%MPI_VAL, ierr)
    end subroutine

    subroutine bytes_n32(ctx, name, data, bytes, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        character(kind=c_char, len=*), intent(in) :: name
        type(c_ptr), intent(in) :: data
        integer(c_int32_t), intent(in) :: bytes
        integer(c_int), intent(out), optional :: ierr
        call register_items(ctx, name, data, int(bytes, c_int64_t), ierr=ierr)
    end subroutine

    subroutine bytes_n64(ctx, name, data, bytes, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        character(kind=c_char, len=*), intent(in) :: name
        type(c_ptr), intent(in) :: data
        integer(c_int64_t), intent(in) :: bytes
        integer(c_int), intent(out), optional :: ierr
        call register_items(ctx, name, data, bytes, ierr=ierr)
    end subroutine

    subroutine replicated_bytes_n32(ctx, name, data, bytes, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        character(kind=c_char, len=*), intent(in) :: name
        type(c_ptr), intent(in) :: data
        integer(c_int32_t), intent(in) :: bytes
        integer(c_int), intent(out), optional :: ierr
        call register_replicated_items(ctx, name, data, int(bytes, c_int64_t), ierr=ierr)
    end subroutine

    subroutine replicated_bytes_n64(ctx, name, data, bytes, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        character(kind=c_char, len=*), intent(in) :: name
        type(c_ptr), intent(in) :: data
        integer(c_int64_t), intent(in) :: bytes
        integer(c_int), intent(out), optional :: ierr
        call register_replicated_items(ctx, name, data, bytes, ierr=ierr)
    end subroutine

    subroutine resize_n32(ctx, name, data, count, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        character(kind=c_char, len=*), intent(in) :: name
        type(c_ptr), intent(in) :: data
        integer(c_int32_t), intent(in) :: count
        integer(c_int), intent(out), optional :: ierr
        call resize_items(ctx, name, data, int(count, c_int64_t), ierr)
    end subroutine

    subroutine resize_n64(ctx, name, data, count, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        character(kind=c_char, len=*), intent(in) :: name
        type(c_ptr), intent(in) :: data
        integer(c_int64_t), intent(in) :: count
        integer(c_int), intent(out), optional :: ierr
        call resize_items(ctx, name, data, count, ierr)
    end subroutine

    ! ---- Callbacks ----------------------------------------------------------------------
    ! C keeps the address of the procedure and calls the functions below, which know its interface.

    !> Run body(arg) so that a failure ends it: the first MPI call that fails because of the failure
    !> does not return.  ierr is then FTKIT_ESCAPED.
    subroutine ftkit_escape(ctx, body, arg, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        procedure(ftkit_body_fn) :: body
        type(c_ptr), intent(in), optional :: arg
        integer, intent(out), optional :: ierr
        call c_escape(ctx, c_funloc(body), arg, ierr)
    end subroutine

    !> Set the procedure that builds everything that depends on the communicator.  It must be a
    !! module procedure or external: an internal procedure is gone when its host returns.
    subroutine ftkit_on_repair(ctx, fn, arg, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        procedure(ftkit_repair_fn) :: fn
        type(c_ptr), intent(in), optional :: arg
        integer, intent(out), optional :: ierr
        call c_on_repair_f08(ctx, c_funloc(fn), arg, ierr)
    end subroutine

    !> The same with an integer communicator.
    subroutine ftkit_on_repair_integer(ctx, fn, arg, ierr)
        type(ftkit_ctx), intent(in) :: ctx
        procedure(ftkit_repair_integer_fn) :: fn
        type(c_ptr), intent(in), optional :: arg
        integer, intent(out), optional :: ierr
        call c_on_repair(ctx, c_funloc(fn), arg, ierr)
    end subroutine

    function call_repair(handle, comm, fn, arg) result(status) &
        bind(c, name="ftkit_f_call_repair")
        type(c_ptr), value :: handle
        integer(c_int), intent(in) :: comm
        type(c_funptr), value :: fn
        type(c_ptr), intent(in) :: arg
        integer(c_int) :: status
        procedure(ftkit_repair_integer_fn), pointer :: p
        call c_f_procpointer(fn, p)
        status = p(ftkit_ctx(handle), comm, arg)
    end function

    function call_repair_f08(handle, comm, fn, arg) result(status) &
        bind(c, name="ftkit_f_call_repair_f08")
        type(c_ptr), value :: handle
        type(MPI_Comm), intent(in) :: comm
        type(c_funptr), value :: fn
        type(c_ptr), intent(in) :: arg
        integer(c_int) :: status
        procedure(ftkit_repair_fn), pointer :: p
        call c_f_procpointer(fn, p)
        status = p(ftkit_ctx(handle), comm, arg)
    end function

    !> Set the report callback: fn gets every line; without fn there is no callback.  A helper
    !! thread may call fn; fn must not call ftkit.
    subroutine ftkit_set_report(fn, ierr)
        procedure(ftkit_report_fn), optional :: fn
        integer, intent(out), optional :: ierr
        if (present(fn)) then
            call c_set_report(c_funloc(fn), ierr)
        else
            call c_set_report(c_null_funptr, ierr)
        end if
    end subroutine

    subroutine call_report(fn, level, line) bind(c, name="ftkit_f_call_report")
        type(c_funptr), value :: fn
        integer(c_int), value :: level
        type(c_ptr), value :: line
        procedure(ftkit_report_fn), pointer :: p
        call c_f_procpointer(fn, p)
        call p(level, text_of(line))
    end subroutine

    !> End the program: an error of a call without ierr.
    subroutine stop_with(text) bind(c, name="ftkit_f_stop")
        type(c_ptr), value :: text
        error stop text_of(text)
    end subroutine

end module ftkit
