/* Requests of `ftkit run` to the ranks (core/requests.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The ranks of this node look at a page; the others hear of a request in the next vote of all
 * ranks.  A request for a halt is sent as SIGUSR2, too, for the case that no rank of this node is
 * left. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "asks.h"
#include "core/requests.h"

static struct ftk_requests *page; /* NULL: not mapped, signals alone */

void ftk_asks_begin(const struct ftk_run *r)
{
    char path[FTK_PATH_MAX];
    void *at = MAP_FAILED;
    snprintf(path, sizeof path, "%.*s/" FTK_REQUESTS_FILE, FTK_PATH_MAX - 32, r->dir);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 && ftruncate(fd, sizeof *page) == 0)
        at = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        ftk_run_say(
            "cannot make %s: %s; the ranks are asked by signals alone", path, strerror(errno));
    else
        page = at;
    if (fd >= 0)
        close(fd);
}

void ftk_asks_attempt(void)
{
    if (!page)
        return;
    atomic_store(&page->own, 0);
    atomic_store(&page->readers, 0);
}

/* Hand a signal on to the ranks. */
static void hand_on(pid_t mpirun, int sig)
{
    kill(mpirun, sig); /* it has ended if this fails, which watch() sees */
}

void ftk_asks_set(pid_t mpirun)
{
    bool heard = page && atomic_load(&page->readers);
    int own = page ? atomic_load(&page->own) : 0;
    if (page && !(own & FTK_OWN_ALL))
        atomic_fetch_add(&page->sets, 1);
    if (!heard || (own & (FTK_OWN_ALL | FTK_OWN_USR1))) /* both would be two requests */
        hand_on(mpirun, SIGUSR1);
}

bool ftk_asks_halt(pid_t mpirun, int sig)
{
    int own = page ? atomic_load(&page->own) : 0;
    if (sig == SIGUSR2 && (own & FTK_OWN_ALL)) {
        hand_on(mpirun, sig);
        return false;
    }
    if (page) {
        atomic_store(&page->sig, sig);
        atomic_fetch_add(&page->halts, 1);
    }
    if (sig == SIGUSR2 || !(own & (FTK_OWN_ALL | FTK_OWN_USR2)))
        hand_on(mpirun, SIGUSR2);
    return true;
}
