/* Cores that waiting ranks leave free (see idle.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "idle.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "dog.h"

#define FRESH_S 0.02 /* a mark holds for so long; a waiting rank looks every millisecond or so */

/* The first hardware thread of the core of a hardware thread, which stands for the core. */
static unsigned core_of(unsigned cpu)
{
    char path[96], text[32] = "";
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
    FILE *f = fopen(path, "re");
    if (!f)
        return cpu; /* not known: a core of its own */
    const bool got = fgets(text, sizeof text, f) && *text >= '0' && *text <= '9';
    (void)fclose(f); /* nothing was written */
    return got ? (unsigned)strtoul(text, NULL, 10) : cpu;
}

/* The page learns which cores this process may use: once, and not before a rank waits, because the
 * files of many cores take time. */
static void show_cores(struct ftk_watchdog *dog)
{
    cpu_set_t set;
    if (dog->cores_shown)
        return;
    dog->cores_shown = true;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return; /* more hardware threads than the set has room for: no core is idle */
    for (unsigned cpu = 0; cpu < FTK_DOG_CPUS && cpu < CPU_SETSIZE; cpu++) {
        const unsigned core = CPU_ISSET(cpu, &set) ? core_of(cpu) : FTK_DOG_CPUS;
        if (core < FTK_DOG_CPUS)
            atomic_fetch_or(&dog->page->cores[core / 64], UINT64_C(1) << core % 64);
    }
}

void ftk_idle_mark(struct ftk_watchdog *dog, double now)
{
    if (!dog)
        return;
    show_cores(dog);
    atomic_store_explicit(&dog->own->idle_s, now, memory_order_relaxed);
}

static int count_cores(const struct ftk_dog_page *p)
{
    int n = 0;
    for (int i = 0; i < FTK_DOG_CPUS / 64; i++)
        n += __builtin_popcountll(atomic_load(&p->cores[i]));
    return n;
}

/* Whether a slot is of a living working rank. */
static bool works(const struct ftk_dog_slot *s)
{
    return atomic_load(&s->pid) > 0 && atomic_load(&s->rank) >= 0
           && atomic_load(&s->state) != FTK_DOG_LEFT && !ftk_dog_vanished(s);
}

int ftk_idle_cores(struct ftk_watchdog *dog, double now)
{
    int ranks = 0, idle = 0;
    for (int i = 0; dog && i < FTK_DOG_SLOTS; i++) {
        const struct ftk_dog_slot *s = &dog->page->slots[i];
        if (!works(s))
            continue;
        ranks++;
        idle += s != dog->own && now - atomic_load(&s->idle_s) < FRESH_S;
    }
    if (idle == 0)
        return 0;
    show_cores(dog);
    return idle * count_cores(dog->page) / ranks;
}
