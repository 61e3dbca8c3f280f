// ftkit for C++17: contexts, regions and the solver loop.  A header only; link as for C.
//
// SPDX-License-Identifier: BSD-3-Clause
//
//     MPI_Init(&argc, &argv);
//     {
//         std::vector<double> x;                 // before the context: the regions outlive it
//         ftkit::context ft;                     // spares wait here
//         x.resize(n);
//         ft.region("x", x);                     // a vector may grow
//         for (auto step : ft.loop(100)) {       // restores, writes sets, repairs
//             if (step.fresh())
//                 initialise(x);
//             compute(x, ft.comm());
//         }
//         if (ft.finished())
//             write_result(x);
//     }                                          // closes
//     MPI_Finalize();
//
// Each function calls functions of ftkit.h, which has the rules; names are the same where possible.
// Registered objects, and variables of bind_comm(), must live until the context is closed, and stay
// at their address.  ftkit_checkpoint() and ftkit_recover() do not go with loop(): use request().
// The threads that may call functions of ftkit.h may call these.  Errors: an
// exception ftkit::error; a context made with std::nothrow returns the codes instead.
#ifndef FTKIT_HPP
#define FTKIT_HPP

#include <ftkit.h>

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ftkit {

// ---- errors ---------------------------------------------------------------------------------

// A call has failed.  what(): the meaning of the code, and ftkit_detail().
class error : public std::runtime_error {
public:
    error(int code, const char *detail)
        : std::runtime_error(std::string(ftkit_strerror(code)) + ": " + (detail ? detail : "")),
          code_(code)
    {
    }
    int code() const noexcept { return code_; } // enum ftkit_status
    bool fatal() const noexcept { return FTKIT_FATAL(code_); }

private:
    int code_;
};

// Thrown by the MPI call out of the body of escape().  Not a std::exception, so that handlers for
// errors of the program do not catch it.  Code that catches everything (...) should throw it again.
struct escaped {};

// Run body().  Returns FTKIT_OK, FTKIT_ESCAPED, or an error as of ftkit_escape(), which has the
// rules.  Here destructors run on the way out.  MPI calls that they make return errors.  A function
// that is noexcept ends the program when it is on the way.  Exceptions of the program itself pass
// through.
template <class Body> int escape(ftkit_ctx *ctx, Body &&body)
{
    struct call {
        typename std::remove_reference<Body>::type *body;
        std::exception_ptr error;

        // no exception may cross ftkit_escape() itself
        static void run(void *arg)
        {
            call *c = static_cast<call *>(arg);
            try {
                (*c->body)();
            } catch (const escaped &) {
            } catch (...) {
                c->error = std::current_exception();
            }
        }
        static void leave(void *) { throw escaped(); }
    };
    call c = { &body, nullptr };
    int rc = ftkit_escape(ctx, call::run, &c, call::leave);
    if (c.error)
        std::rethrow_exception(c.error);
    return rc;
}

// ---- files of another number of ranks -------------------------------------------------------

// The files of the ranks of a set that another number of ranks wrote, for checkpoint_read().
class old_files {
public:
    old_files(ftkit_ctx *ctx, const char *name, int ranks) : ctx_(ctx), name_(name), ranks_(ranks)
    {
    }
    int ranks() const noexcept { return ranks_; }
    // A directory with the files of an old rank, as ftkit_files_of(); empty: there are none.
    // Throws error.
    std::string of(int old_rank) const
    {
        char dir[1100];
        const int rc = ftkit_files_of(ctx_, name_, old_rank, dir, sizeof dir);
        if (rc < 0)
            throw error(rc, ftkit_detail(ctx_));
        return rc == FTKIT_OK ? dir : "";
    }

private:
    ftkit_ctx *ctx_;
    const char *name_;
    int ranks_;
};

// ---- types of items -------------------------------------------------------------------------

namespace detail {

// The MPI datatype of a number; MPI_DATATYPE_NULL: T is no number.
template <class T> MPI_Datatype number()
{
    if constexpr (std::is_enum_v<T> && !std::is_same_v<T, std::byte>)
        return number<std::underlying_type_t<T>>();
    else if constexpr (std::is_same_v<T, double>)
        return MPI_DOUBLE;
    else if constexpr (std::is_same_v<T, float>)
        return MPI_FLOAT;
    else if constexpr (std::is_same_v<T, long double>)
        return MPI_LONG_DOUBLE;
    else if constexpr (std::is_same_v<T, std::complex<double>>)
        return MPI_C_DOUBLE_COMPLEX;
    else if constexpr (std::is_same_v<T, std::complex<float>>)
        return MPI_C_FLOAT_COMPLEX;
    else if constexpr (std::is_same_v<T, char>)
        return MPI_CHAR;
    else if constexpr (std::is_same_v<T, bool>)
        return MPI_C_BOOL;
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 1)
        return std::is_signed_v<T> ? MPI_INT8_T : MPI_UINT8_T;
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 2)
        return std::is_signed_v<T> ? MPI_INT16_T : MPI_UINT16_T;
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 4)
        return std::is_signed_v<T> ? MPI_INT32_T : MPI_UINT32_T;
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 8)
        return std::is_signed_v<T> ? MPI_INT64_T : MPI_UINT64_T;
    else
        return MPI_DATATYPE_NULL;
}

template <class T>
inline constexpr bool is_number = (std::is_integral_v<T> && sizeof(T) <= 8)
    || std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, long double>
    || std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>
    || (std::is_enum_v<T> && !std::is_same_v<T, std::byte>);

template <class T> struct is_reference : std::false_type {};
template <class T> struct is_reference<std::reference_wrapper<T>> : std::true_type {};
template <class T> struct is_std_array : std::false_type {};
template <class T, std::size_t N> struct is_std_array<std::array<T, N>> : std::true_type {};
template <class T, class = void> struct has_address : std::false_type {}; // a span, a string_view
template <class T>
struct has_address<T, std::void_t<decltype(*std::declval<T &>().data())>>
    : std::bool_constant<!is_std_array<T>::value> {};

// The MPI datatype of an item: a number, or the bytes of one T, so that a set knows the size of T.
template <class T> class item {
    using one = std::remove_all_extents_t<T>;
    static_assert(!std::is_const_v<T>, "ftkit: a restore writes to a region, so it is not const");
    static_assert(!std::is_pointer_v<one> && !is_reference<one>::value
            && (!has_address<one>::value || !std::is_trivially_copyable_v<one>),
        "ftkit: an address means nothing in another process");
    static_assert(sizeof(T) <= 0x7fffffff, "ftkit: an item has at most 2 GiB; register an array");
    static_assert(is_number<T> || std::is_trivially_copyable_v<T>,
        "ftkit: items are numbers or trivially copyable; else use context::object()");

public:
    item() : type_(number<T>())
    {
        if constexpr (!is_number<T>)
            if (MPI_Type_contiguous(int(sizeof(T)), MPI_BYTE, &type_) != MPI_SUCCESS)
                type_ = MPI_DATATYPE_NULL; // the registration refuses it
    }
    ~item()
    {
        if constexpr (!is_number<T>)
            if (type_ != MPI_DATATYPE_NULL)
                (void)MPI_Type_free(&type_);
    }
    item(const item &) = delete;
    item &operator=(const item &) = delete;
    MPI_Datatype type() const { return type_; }

private:
    MPI_Datatype type_;
};

// what an object has
template <class X, class = void> struct has_data : std::false_type {};
template <class X>
struct has_data<X, std::void_t<decltype(*std::declval<X &>().data())>> : std::true_type {};
template <class X, class = void> struct has_size : std::false_type {};
template <class X>
struct has_size<X, std::void_t<decltype(std::declval<X &>().size())>> : std::true_type {};
template <class X, class = void> struct has_resize : std::false_type {};
template <class X>
struct has_resize<X, std::void_t<decltype(std::declval<X &>().resize(std::size_t()))>>
    : std::true_type {};
template <class X, class = void> struct has_handle : std::false_type {}; // std::mdspan
template <class X>
struct has_handle<X, std::void_t<decltype(*std::declval<X &>().data_handle())>> : std::true_type {};
template <class X, class = void> struct has_extent : std::false_type {};
template <class X>
struct has_extent<X,
    std::void_t<decltype(std::declval<const X &>().extent(0), std::declval<const X &>().stride(0))>>
    : std::true_type {};
template <class X, class = void> struct rank_call : std::false_type {}; // std::mdspan
template <class X>
struct rank_call<X, std::void_t<decltype(std::size_t(X::rank()))>> : std::true_type {};
template <class X, class = void> struct rank_value : std::false_type {}; // Kokkos::View
template <class X>
struct rank_value<X, std::void_t<decltype(std::size_t(X::rank))>> : std::true_type {};

// Objects of one block whose shape is not known here: matrices with strides of their own.
template <class X, class = void> struct has_own_shape : std::false_type {};
template <class X>
struct has_own_shape<X, std::void_t<decltype(std::declval<X &>().outerStride())>>
    : std::true_type {};

// Its data() is not const when the object is: the object does not own the items.
template <class X, class = void> struct is_shallow : has_handle<X> {};
template <class X>
struct is_shallow<X, std::void_t<decltype(*std::declval<const X &>().data())>>
    : std::bool_constant<!std::is_const_v<
          std::remove_reference_t<decltype(*std::declval<const X &>().data())>>> {};

// A view of several dimensions: extents, strides, and the address of the first item.
template <class X>
inline constexpr bool is_view = has_extent<X>::value
    && (rank_call<X>::value || rank_value<X>::value)
    && (has_data<X>::value || has_handle<X>::value);

// Whether the items outlive the statement, as far as the type says.
template <class X>
inline constexpr bool lives_on
    = std::is_lvalue_reference_v<X> || is_shallow<std::remove_reference_t<X>>::value;

template <class X> constexpr std::size_t rank_of()
{
    if constexpr (rank_call<X>::value)
        return X::rank();
    else
        return X::rank;
}

template <class X> auto *data_of(X &x)
{
    if constexpr (has_handle<X>::value)
        return x.data_handle();
    else
        return x.data();
}

// The last dimension varies fastest, and no gap is between items.
template <class X> bool is_dense(const X &x)
{
    std::size_t below = 1;
    for (std::size_t d = 0; d < rank_of<X>(); d++)
        if (x.extent(d) == 0)
            return true;
    for (std::size_t d = rank_of<X>(); d-- > 0; below *= std::size_t(x.extent(d)))
        if (x.extent(d) > 1 && std::size_t(x.stride(d)) != below)
            return false;
    return true;
}

// Functions of ftkit_container for an object with data(), size() and resize().
template <class X> struct box {
    using T = std::remove_reference_t<decltype(*std::declval<X &>().data())>;

    static void *data(void *arg) noexcept { return static_cast<X *>(arg)->data(); }
    static std::size_t count(void *arg) noexcept { return static_cast<X *>(arg)->size(); }
    static int resize(void *arg, std::size_t n)
    {
        try {
            static_cast<X *>(arg)->resize(n);
            return 0;
        } catch (const std::exception &e) {
            std::fprintf(stderr, "ftkit::context::region: resize: %s\n", e.what());
        } catch (...) { // no exception may cross ftkit
        }
        return -1;
    }
};

// Functions of ftkit_serializer for an object with checkpoint_measure() and so on.
template <class X> struct packer {
    template <class F> static int guarded(F f)
    {
        try {
            f();
            return 0;
        } catch (const std::exception &e) {
            std::fprintf(stderr, "ftkit::context::object: %s\n", e.what());
        } catch (...) { // no exception may cross ftkit
        }
        return -1;
    }
    static int measure(void *arg, std::size_t *bytes)
    {
        return guarded([&] { *bytes = checkpoint_measure(*static_cast<const X *>(arg)); });
    }
    static int pack(void *arg, void *to, std::size_t bytes)
    {
        return guarded([&] { checkpoint_pack(*static_cast<const X *>(arg), to, bytes); });
    }
    static int unpack(void *arg, const void *from, std::size_t bytes)
    {
        return guarded([&] { checkpoint_unpack(*static_cast<X *>(arg), from, bytes); });
    }
};

// Functions of ftkit_files for an object with checkpoint_write() and checkpoint_read().
template <class X> struct filer {
    template <class F> static int guarded(F f)
    {
        try {
            f();
            return 0;
        } catch (const std::exception &e) {
            std::fprintf(stderr, "ftkit::context::files: %s\n", e.what());
        } catch (...) { // no exception may cross ftkit
        }
        return -1;
    }
    static int write(void *arg, const char *dir)
    {
        return guarded([&] { checkpoint_write(*static_cast<const X *>(arg), std::string(dir)); });
    }
    static int read(void *arg, const char *dir)
    {
        return guarded([&] { checkpoint_read(*static_cast<X *>(arg), std::string(dir)); });
    }
    static int read_ranks(void *arg, ftkit_ctx *ctx, const char *name, int old_ranks)
    {
        const old_files old(ctx, name, old_ranks);
        return guarded([&] { checkpoint_read(*static_cast<X *>(arg), old); });
    }
};

// What a context has, at one address while the context is moved.
struct state {
    ftkit_ctx *ctx = nullptr;
    std::int64_t i = 0, n = 0; // the pass, and the passes
    int code = FTKIT_OK;       // of the opening; then of the last ftkit_step()
    int news = FTKIT_OK;       // the last code that no pass has seen
    int failed = FTKIT_OK;     // loop() could not register the pass
    int thrown = FTKIT_OK;     // the last error, if an exception has said it
    bool throws = false;
    bool over = false;  // the loop has ended
    bool again = false; // a call in this pass has restored the regions: the pass is made again

    int check(int rc)
    {
        thrown = rc < 0 && throws ? rc : int(FTKIT_OK);
        if (thrown < 0)
            throw error(rc, ftkit_detail(ctx));
        return rc;
    }

    // Go to the next pass.  Returns false behind the last one.
    bool next()
    {
        again = false;
        if (!ctx || failed < 0) {
            code = ctx ? failed : code;
            return false;
        }
        while (ftkit_step(ctx, &code)) {
            if (i < n) {
                news = FTKIT_OK;
                return true;
            }
            if (code != FTKIT_OK)
                news = code;
            check(ftkit_end(ctx));
        }
        over = true;
        check(code);
        return false;
    }
};

} // namespace detail

// ---- the loop -------------------------------------------------------------------------------

// One pass of the loop.  Converts to its number.
class step {
public:
    operator long() const noexcept { return index_; }
    long index() const noexcept { return index_; } // 0, 1, ...; a rollback sets it back
    int code() const noexcept { return code_; }    // as of ftkit_step() in the body
    bool fresh() const noexcept { return code_ == FTKIT_NO_SET; }
    bool rolled_back() const noexcept { return code_ == FTKIT_ROLLED_BACK; }

private:
    friend class passes;
    step(std::int64_t index, int code) : index_(long(index)), code_(code) {}
    long index_;
    int code_;
};

// The range of context::loop().
class passes {
public:
    struct sentinel {};
    class iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = step;
        using difference_type = std::ptrdiff_t;
        using pointer = const step *;
        using reference = step;

        step operator*() const { return step(s_->i, s_->code); }
        iterator &operator++()
        {
            if (!s_->again)
                s_->i++; // a rollback sets it back
            more_ = s_->next();
            return *this;
        }
        friend bool operator!=(const iterator &i, sentinel) { return i.more_; }
        friend bool operator==(const iterator &i, sentinel) { return !i.more_; }

    private:
        friend class passes;
        iterator(detail::state *s, bool more) : s_(s), more_(more) {}
        detail::state *s_;
        bool more_;
    };

    iterator begin() { return iterator(s_, s_ && s_->next()); }
    sentinel end() { return {}; }

private:
    friend class context;
    explicit passes(detail::state *s) : s_(s) {}
    detail::state *s_;
};

// ---- contexts -------------------------------------------------------------------------------

// A context is movable, but not in its loop.  The destructor closes it.  A moved-from context, and
// one of a spare that was never needed (spares.exit = false), is empty.
class context {
public:
    // ftkit_open().  config: path of an INI file, or NULL.
    explicit context(MPI_Comm comm = MPI_COMM_WORLD, const char *config = nullptr)
        : context(std::nothrow, comm, config)
    {
        state_->throws = true;
        check(state_->code);
    }

    // No function throws ftkit::error; look at code() after this one.
    explicit context(const std::nothrow_t &, MPI_Comm comm = MPI_COMM_WORLD,
        const char *config = nullptr)
        : state_(new detail::state)
    {
        state_->code = ftkit_open(comm, config, &state_->ctx);
    }

    context(context &&) noexcept = default;
    context &operator=(context &&other) noexcept
    {
        if (this != &other) {
            shut();
            state_ = std::move(other.state_);
        }
        return *this;
    }
    context(const context &) = delete;
    context &operator=(const context &) = delete;
    ~context() { shut(); }

    // ftkit_close().  FTKIT_OK, FTKIT_HALT, or an error.
    int close() { return *this ? check(ftkit_close(&state_->ctx)) : int(FTKIT_OK); }

    explicit operator bool() const noexcept { return get() != nullptr; }
    // NULL: empty, or closed, also by MPI_Finalize().
    ftkit_ctx *get() const noexcept
    {
        int ended = 0;
        return state_ && state_->ctx && MPI_Finalized(&ended) == MPI_SUCCESS && !ended
            ? state_->ctx
            : nullptr;
    }
    const char *detail() const noexcept { return ftkit_detail(get()); }

    // The code of the opening, of the last pass, or that with which the loop has ended.
    int code() const noexcept { return state_ ? state_->code : int(FTKIT_ERR_ARG); }

    // The resilient communicator; a repair replaces it, so ask again in each pass.
    MPI_Comm comm() const noexcept { return ftkit_comm(get()); }
    int bind_comm(MPI_Comm &comm) { return check(ftkit_bind_comm(get(), &comm)); }

    // ---- regions: before the loop, the same on all ranks

    // Register what each rank has for itself: a number, an object that is trivially copyable, an
    // array of these, or an object with data() and size() such as std::array and std::span.  With
    // resize(), as std::vector and std::string have it, the size may change in the loop.  Views of
    // several dimensions (std::mdspan, Kokkos::View) are saved as one piece: their items must be
    // dense, the last dimension fastest (FTKIT_ERR_TYPE).
    template <class X> int region(const char *name, X &&x)
    {
        using V = std::remove_reference_t<X>;
        if constexpr (detail::has_resize<V>::value && detail::has_data<V>::value) {
            static_assert(std::is_lvalue_reference_v<X>, "ftkit: the container must live on");
            static_assert(!detail::is_view<V>, "ftkit: a view with resize() loses its shape");
            using box = detail::box<V>;
            const ftkit_container ops
                = { sizeof ops, box::data, box::count, box::resize, sizeof x };
            const detail::item<typename box::T> item;
            return check(
                ftkit_register_container(get(), name, &ops, std::addressof(x), item.type()));
        } else {
            return flat(ftkit_register, name, std::forward<X>(x));
        }
    }

    // Register n items at data, as ftkit_register().
    template <class T> int region(const char *name, T *data, std::size_t n)
    {
        return add_items(ftkit_register, name, data, n);
    }

    // Register what is the same on every rank, bytes of padding included.
    template <class X> int replicated(const char *name, X &&x)
    {
        static_assert(!detail::has_resize<std::remove_reference_t<X>>::value,
            "ftkit: a replicated region cannot grow; use an array, or a span of the items");
        return flat(ftkit_register_replicated, name, std::forward<X>(x));
    }

    // Register this rank's block of a global array, as ftkit_register_array().  data: the first
    // item in memory, halo included.
    template <class T>
    int array(const char *name, T *data, const std::vector<std::size_t> &global,
        const std::vector<std::size_t> &local, const std::vector<std::size_t> &offset,
        const std::vector<std::size_t> &halo = {})
    {
        static_assert(detail::is_number<T>, "ftkit: the items of a global array are numbers");
        if (local.size() != global.size() || offset.size() != global.size()
            || (!halo.empty() && halo.size() != global.size()))
            return refuse(FTKIT_ERR_ARG, name, "shapes of different numbers of dimensions");
        return check(
            ftkit_register_array(get(), name, data, detail::number<T>(), int(global.size()),
                global.data(), local.data(), offset.data(), halo.empty() ? nullptr : halo.data()));
    }

    // The same for a view, which has the extents of the block with its halo.
    template <class X, class = std::enable_if_t<detail::is_view<std::remove_reference_t<X>>>>
    int array(const char *name, X &&view, const std::vector<std::size_t> &global,
        const std::vector<std::size_t> &offset, const std::vector<std::size_t> &halo = {})
    {
        static_assert(detail::lives_on<X>, "ftkit: the object, or its items, must live on");
        std::vector<std::size_t> local(detail::rank_of<std::remove_reference_t<X>>());
        for (std::size_t d = 0; d < local.size(); d++) {
            const std::size_t both = halo.size() == local.size() ? 2 * halo[d] : 0;
            if (std::size_t(view.extent(d)) < both)
                return refuse(FTKIT_ERR_ARG, name, "the view is smaller than the halo");
            local[d] = std::size_t(view.extent(d)) - both;
        }
        if (!detail::is_dense(view))
            return refuse(FTKIT_ERR_TYPE, name, not_dense());
        return array(name, detail::data_of(view), global, local, offset, halo);
    }

    // Register an object of any kind through three functions of its namespace, as
    // ftkit_register_serializer():
    //     std::size_t checkpoint_measure(const X &);
    //     void checkpoint_pack(const X &, void *to, std::size_t bytes);
    //     void checkpoint_unpack(X &, const void *from, std::size_t bytes);
    // Functions of a base of X save this base only.  An exception in one of them is
    // FTKIT_ERR_CALLBACK; its text goes to standard error.
    template <class X> int object(const char *name, X &x)
    {
        using packer = detail::packer<X>;
        const ftkit_serializer ops = { sizeof ops, packer::measure, packer::pack, packer::unpack };
        return check(ftkit_register_serializer(get(), name, &ops, std::addressof(x)));
    }

    // Register files that an object writes itself through two functions of its namespace, as
    // ftkit_register_files():
    //     void checkpoint_write(const X &, const std::string &dir);
    //     void checkpoint_read(X &, const std::string &dir);
    // They do not communicate.  An exception in one of them is FTKIT_ERR_CALLBACK; its text goes to
    // standard error.
    template <class X> int files(const char *name, X &x)
    {
        using filer = detail::filer<X>;
        const ftkit_files ops = { sizeof ops, filer::write, filer::read };
        return check(ftkit_register_files(get(), name, &ops, std::addressof(x)));
    }

    // The same without functions: the program writes between files_begin() and files_end() when a
    // set is due, and reads the files of files_read() after FTKIT_ROLLED_BACK.
    int files(const char *name)
    {
        return check(ftkit_register_files(get(), name, nullptr, nullptr));
    }
    // Files that all ranks write together, as ftkit_register_joint_files(): the same three calls,
    // which are collective then.
    int joint_files(const char *name) { return check(ftkit_register_joint_files(get(), name)); }
    // The next ftkit_step() writes a set, as ftkit_due().
    bool due() { return check(ftkit_due(get())) > 0; }
    // The directory; empty after an error.
    std::string files_begin(const char *name) { return directory(ftkit_files_begin, name); }
    int files_end(const char *name, bool ok = true)
    {
        return check(ftkit_files_end(get(), name, ok));
    }
    // The directory; empty if no set with files was restored.
    std::string files_read(const char *name) { return directory(ftkit_files_read, name); }

    // Let files of an object be restored on another number of ranks, as ftkit_files_any_ranks(),
    // by a function of its namespace:
    //     void checkpoint_read(X &, const ftkit::old_files &);
    template <class X> int files_any_ranks(const char *name, X &)
    {
        return check(ftkit_files_any_ranks(get(), name, detail::filer<X>::read_ranks));
    }
    // The same without functions: after FTKIT_ROLLED_BACK the program looks at files_ranks().
    int files_any_ranks(const char *name)
    {
        return check(ftkit_files_any_ranks(get(), name, nullptr));
    }
    // How many ranks wrote the restored set; 0: as many as now, or there is none.
    int files_ranks(const char *name)
    {
        int ranks = 0;
        return check(ftkit_files_ranks(get(), name, &ranks)) == FTKIT_OK ? ranks : 0;
    }
    // A directory with the files of an old rank; empty: there are none.
    std::string files_of(const char *name, int old_rank)
    {
        char dir[1100];
        return check(ftkit_files_of(get(), name, old_rank, dir, sizeof dir)) == FTKIT_OK ? dir : "";
    }

    // ---- the loop

    // Passes 0 to n - 1 of the solver loop, as ftkit_step() and ftkit_end(): a range for `for`.
    // The number of the pass is a replicated region of this name.  Do not leave the range by
    // `break`: call end(), and continue.  No pass is made by an empty context, and by one in which
    // the region could not be registered: code() says why.
    passes loop(std::int64_t n, const char *name = "step") &
    {
        if (*this) {
            state_->n = n;
            state_->failed = ftkit_register_replicated(get(), name, &state_->i, 1, MPI_INT64_T);
            check(state_->failed);
        }
        return passes(state_.get());
    }

    // All work is done before n passes: ftkit_end().  `continue` comes next.
    int end() { return check(ftkit_end(get())); }

    // The loop has ended, and all ranks have come to its end.  False after a halt.
    bool finished() const noexcept { return state_ && state_->over && code() == FTKIT_OK; }
    // Behind the loop: the last code other than FTKIT_OK after which no pass was made.
    // FTKIT_ROLLED_BACK: set again what is not registered; FTKIT_NO_SET; or an error.
    int news() const noexcept { return state_ ? state_->news : int(FTKIT_OK); }

    // A set is due in the next ftkit_step(), as ftkit_request().
    int request(bool durable) { return check(ftkit_request(get(), durable)); }

    // Calls in which the ranks may roll back.  Use these in the loop, and not those of C: after
    // FTKIT_ROLLED_BACK, `continue` begins the restored pass.  Codes from 3 to -39 are returned,
    // the others are exceptions.
    [[nodiscard]] int wait() { return in_pass(ftkit_wait(get())); }
    [[nodiscard]] int scrub(int *corrupt = nullptr) { return in_pass(ftkit_scrub(get(), corrupt)); }

    // Run body() as ftkit_escape().
    template <class Body> int escape(Body &&body)
    {
        return check(ftkit::escape(get(), std::forward<Body>(body)));
    }
    bool confirm() { return ftkit_confirm(get()) != 0; }

    ftkit_info query() const
    {
        ftkit_info info = {};
        info.size = sizeof info;
        (void)ftkit_query(get(), &info);
        return info;
    }

    // The ranks of the last repair, as ftkit_failures().
    std::vector<ftkit_failure> failures()
    {
        int n = 0;
        check(ftkit_failures(get(), nullptr, &n));
        std::vector<ftkit_failure> list(std::size_t(n < 0 ? 0 : n));
        if (n > 0)
            check(ftkit_failures(get(), list.data(), &n));
        return list;
    }

private:
    static const char *not_dense()
    {
        return "the items of the view have gaps, or the last dimension is not the fastest";
    }

    int check(int rc) const
    {
        if (state_)
            return state_->check(rc);
        if (rc < 0) // of a context that was moved from
            throw error(rc, ftkit_detail(nullptr));
        return rc;
    }
    int in_pass(int rc) const
    {
        if (state_ && rc == FTKIT_ROLLED_BACK)
            state_->again = true;
        return FTKIT_FATAL(rc) ? check(rc) : rc;
    }
    template <class Call> std::string directory(Call call, const char *name)
    {
        char dir[1100];
        return check(call(get(), name, dir, sizeof dir)) == FTKIT_OK ? dir : "";
    }
    int refuse(int rc, const char *name, const char *why) const
    {
        if (!state_ || state_->throws)
            throw error(rc, (std::string("region '") + name + "': " + why).c_str());
        return rc;
    }

    // What no exception has said goes to standard error: a destructor throws none.
    void shut() noexcept
    {
        if (!*this) // MPI_Finalize() has closed it, and has said so
            return;
        int rc = ftkit_close(&state_->ctx);
        if (rc < 0 && rc != state_->thrown)
            std::fprintf(stderr, "ftkit::context: %s: %s\n", ftkit_strerror(rc),
                ftkit_detail(nullptr));
        if (rc == FTKIT_HALT)
            std::fprintf(stderr, "ftkit::context: %s\n", ftkit_strerror(rc));
    }

    template <class Register, class X> int flat(Register add, const char *name, X &&x)
    {
        using V = std::remove_reference_t<X>;
        static_assert(detail::lives_on<X>, "ftkit: the object, or its items, must live on");
        static_assert(detail::is_view<V> || !detail::has_handle<V>::value,
            "ftkit: a view without dimensions");
        static_assert(!detail::has_own_shape<V>::value,
            "ftkit: the items may have gaps; register a pointer and a count, or use object()");
        if constexpr (std::is_array_v<V>) {
            using T = std::remove_all_extents_t<V>;
            return add_items(add, name, reinterpret_cast<T *>(&x), sizeof x / sizeof(T));
        } else if constexpr (detail::is_view<V>) {
            std::size_t n = 1;
            for (std::size_t d = 0; d < detail::rank_of<V>(); d++)
                n *= std::size_t(x.extent(d));
            if (!detail::is_dense(x))
                return refuse(FTKIT_ERR_TYPE, name, not_dense());
            return add_items(add, name, detail::data_of(x), n);
        } else if constexpr (detail::has_data<V>::value && detail::has_size<V>::value) {
            return add_items(add, name, x.data(), x.size());
        } else {
            return add_items(add, name, std::addressof(x), 1);
        }
    }

    template <class Register, class T>
    int add_items(Register add, const char *name, T *data, std::size_t n)
    {
        const detail::item<T> item;
        return check(add(get(), name, static_cast<void *>(data), n, item.type()));
    }

    std::unique_ptr<detail::state> state_;
};

} // namespace ftkit

#endif
