// ftkit for C++: a failure leaves the body of the solver loop by an exception.
//
// SPDX-License-Identifier: BSD-3-Clause
//
//     while (ftkit_step(ft, &rc))
//         ftkit::escape(ft, [&] { one_step(state); });
//
// ftkit_escape() of ftkit.h has the rules.  Here destructors run on the way out.  MPI calls that
// they make return errors.  A function that is noexcept ends the program when it is on the way.
#ifndef FTKIT_HPP
#define FTKIT_HPP

#include <ftkit.h>

#include <exception>
#include <type_traits>
#include <utility>

namespace ftkit {

// Thrown by the MPI call.  Not a std::exception, so that handlers for errors of the program do not
// catch it.  Code that catches everything (...) should throw it again.
struct escaped {};

// Run body().  Returns FTKIT_OK, FTKIT_ESCAPED, or an error as of ftkit_escape().  Exceptions of
// the program itself pass through.
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

} // namespace ftkit

#endif
