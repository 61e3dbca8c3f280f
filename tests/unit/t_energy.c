/* Energy: sensors in a tree that looks like sysfs, wraps, and accounts by phase.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "energy/energy.h"
#include "energy/sensors.h"

#define CARD "intel-rapl:0"
#define PART "intel-rapl:0:0"

#define assert_near(is, want, by) assert_true(fabs((is) - (want)) <= (by))

static char root[64];

static int begin(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/t_energy.XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int end(void **state)
{
    char command[96];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

/* Write a file of a device, with its directories. */
static void put(const char *class, const char *device, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/class", root);
    (void)mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/class/%s", root, class);
    (void)mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/class/%s/%s", root, class, device);
    (void)mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/class/%s/%s/%s", root, class, device, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void put_zone(const char *device, const char *name, const char *uj, const char *range)
{
    put("powercap", device, "name", name);
    put("powercap", device, "energy_uj", uj);
    put("powercap", device, "max_energy_range_uj", range);
}

static void energy_is(const char *device, const char *uj)
{
    put("powercap", device, "energy_uj", uj);
}

/* ---- sensors ------------------------------------------------------------------------- */

/* What was used until then; -1: not known. */
static double used(struct ftk_sensors *s, double now_s)
{
    double joules;
    return ftk_sensors_read(s, now_s, &joules) ? joules : -1;
}

static void none(void **state)
{
    (void)state;
    assert_null(ftk_sensors_open(root, 0));
    assert_null(ftk_account_open(root, 0));
    assert_null(ftk_sensors_open("/no such directory", 0));
}

static void rapl(void **state)
{
    (void)state;
    put_zone(CARD, "package-0\n", "1000000\n", "262143328850\n");
    put_zone(PART, "dram\n", "5000000\n", "65712999613\n");
    put_zone("intel-rapl:0:1", "core\n", "700\n", "262143328850\n"); /* a part of the package */
    put_zone("intel-rapl:1", "psys\n", "800\n", "262143328850\n");   /* contains the package */
    put_zone("intel-rapl-mmio:0", "package-0\n", "900\n", "262143328850\n"); /* the same again */
    put_zone("intel-rapl-mmio:0:0", "dram\n", "900\n", "262143328850\n");
    put("hwmon", "hwmon0", "power1_input", "90000000\n");
    struct ftk_sensors *s = ftk_sensors_open(root, 10);
    assert_non_null(s);
    assert_string_equal(ftk_sensors_source(s), "powercap");
    energy_is(CARD, "3500000\n");
    energy_is(PART, "5250000\n");
    energy_is("intel-rapl:0:1", "900000000\n");
    energy_is("intel-rapl:1", "900000000\n");
    energy_is("intel-rapl-mmio:0", "900000000\n");
    energy_is("intel-rapl-mmio:0:0", "900000000\n");
    assert_near(used(s, 11), 2.75, 1e-9);
    assert_near(used(s, 12), 0, 1e-9);
    ftk_sensors_close(s);
}

/* A counter begins again behind its range: also several times, each seen by a reading. */
static void wraps(void **state)
{
    (void)state;
    put_zone(CARD, "package-1-die-0\n", "9000000000\n", "10000000000\n");
    struct ftk_sensors *s = ftk_sensors_open(root, 0);
    assert_non_null(s);
    energy_is(CARD, "500000000\n");
    assert_near(used(s, 5), 1500, 1e-6);
    energy_is(CARD, "9500000000\n");
    assert_near(used(s, 10), 9000, 1e-6);
    energy_is(CARD, "0\n");
    assert_near(used(s, 15), 500, 1e-6);
    /* in 11 s it may have wrapped more than once */
    energy_is(CARD, "100000000\n");
    assert_near(used(s, 26), -1, 0);
    energy_is(CARD, "200000000\n");
    assert_near(used(s, 27), 100, 1e-6);
    ftk_sensors_close(s);
}

/* Files that cannot be read, or are no numbers, are skipped when the sensors are found. */
static void unreadable(void **state)
{
    char path[256];
    (void)state;
    put_zone(CARD, "package-0\n", "1000000\n", "262143328850\n");
    put_zone("intel-rapl:1", "package-1\n", "1000000\n", "262143328850\n");
    put_zone("intel-rapl:2", "package-2\n", "none\n", "262143328850\n");
    put_zone("intel-rapl:3", "package-3\n", "-5\n", "262143328850\n");
    put_zone("intel-rapl:4", "package-4\n", "5\n", "");
    put_zone("intel-rapl:5", "package-5\n", "5 6\n", "262143328850\n");
    snprintf(path, sizeof path, "%s/class/powercap/intel-rapl:1/energy_uj", root);
    assert_int_equal(unlink(path), 0); /* root may read what nobody may read */
    assert_int_equal(mkdir(path, 0700), 0);
    struct ftk_sensors *s = ftk_sensors_open(root, 0);
    assert_non_null(s);
    energy_is(CARD, "2000000\n");
    energy_is("intel-rapl:4", "7000000\n");
    energy_is("intel-rapl:5", "7000000 6\n");
    assert_near(used(s, 1), 1, 1e-9);
    ftk_sensors_close(s);
}

/* A sensor that fails later: its energy is not known, also not that of the next interval. */
static void fails(void **state)
{
    (void)state;
    put_zone(CARD, "package-0\n", "1000000\n", "262143328850\n");
    put_zone(PART, "dram\n", "0\n", "262143328850\n");
    struct ftk_sensors *s = ftk_sensors_open(root, 0);
    assert_non_null(s);
    energy_is(PART, "");
    energy_is(CARD, "2000000\n");
    assert_near(used(s, 1), -1, 0);
    energy_is(PART, "900000000\n");
    assert_near(used(s, 2), -1, 0);
    energy_is(PART, "901000000\n");
    assert_near(used(s, 3), 1, 1e-9);
    energy_is(CARD, "1000000\n"); /* the range is far: no wrap, the driver was loaded again */
    energy_is(CARD, "262143328851\n");
    assert_true(used(s, 4) > 0);
    energy_is(CARD, "1\n");
    assert_near(used(s, 5), -1, 0);
    ftk_sensors_close(s);
}

static void hwmon(void **state)
{
    (void)state;
    put("hwmon", "hwmon0", "power1_average", "40000000\n");
    put("hwmon", "hwmon0", "power1_input", "99000000\n");
    put("hwmon", "hwmon0", "power2_average", "99000000\n"); /* may be a part of the first */
    put("hwmon", "hwmon1", "power1_input", "10000000\n");
    put("hwmon", "hwmon2", "energy1_input", "123456\n");
    put("hwmon", "hwmon2", "power1_input", "99000000\n");
    put("hwmon", "hwmon3", "temp1_input", "45000\n");
    struct ftk_sensors *s = ftk_sensors_open(root, 0);
    assert_non_null(s);
    assert_string_equal(ftk_sensors_source(s), "hwmon");
    put("hwmon", "hwmon0", "power1_average", "60000000\n");
    put("hwmon", "hwmon2", "energy1_input", "3123456\n");
    assert_near(used(s, 2), 2 * (50 + 10) + 3, 1e-9);
    assert_near(used(s, 3), 60 + 10, 1e-9);
    ftk_sensors_close(s);
}

/* The opening does not wait for the driver: its GPUs come with a later reading. */
static void await_gpus(struct ftk_sensors *s)
{
    const struct timespec t = { 0, 1000000 };
    double joules;
    assert_null(strstr(ftk_sensors_source(s), "nvml"));
    for (int i = 0; i < 10000 && !strstr(ftk_sensors_source(s), "nvml"); i++) {
        (void)ftk_sensors_read(s, 0, &joules);
        (void)nanosleep(&t, NULL);
    }
}

/* The library of the driver: one that this test compiles, with two GPUs. */
static void nvml(void **state)
{
    static const char source[] =
        "static unsigned long long mj[2] = { 1000, 50000 };\n"
        "#include <unistd.h>\n"
        "int nvmlInit_v2(void) { usleep(20000); return 0; }\n"
        "int nvmlShutdown(void) { return 0; }\n"
        "int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return 0; }\n"
        "int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d)\n"
        "{ *d = &mj[i / 2]; return i == 1; }\n"
        "int nvmlDeviceGetTotalEnergyConsumption(void *d, unsigned long long *e)\n"
        "{ *e = *(unsigned long long *)d; *(unsigned long long *)d += 1500; return 0; }\n";
    char command[512];
    (void)state;
    if (getenv("T_ENERGY_NVML")) { /* again, with the library on the path */
        struct ftk_sensors *s = ftk_sensors_open(root, 0);
        assert_non_null(s);
        await_gpus(s);
        assert_string_equal(ftk_sensors_source(s), "nvml");
        assert_near(used(s, 1), 3, 1e-9);
        ftk_sensors_close(s);
        put_zone(CARD, "package-0\n", "0\n", "262143328850\n");
        s = ftk_sensors_open(root, 0);
        await_gpus(s);
        assert_string_equal(ftk_sensors_source(s), "powercap, nvml");
        energy_is(CARD, "2000000\n");
        assert_near(used(s, 1), 5, 1e-9);
        ftk_sensors_close(s);
        return;
    }
    put("hwmon", "source", "nvml.c", source);
    snprintf(command, sizeof command,
        "cc -shared -fPIC -o '%s/libnvidia-ml.so.1' '%s/class/hwmon/source/nvml.c'", root, root);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command,
        "LD_LIBRARY_PATH='%s' T_ENERGY_NVML=1 CMOCKA_MESSAGE_OUTPUT=stdout /proc/%d/exe nvml >&2",
        root, (int)getpid());
    assert_int_equal(system(command), 0);
}

/* ---- accounts ------------------------------------------------------------------------ */

static struct ftk_account *account(void)
{
    put_zone(CARD, "package-0\n", "0\n", "262143328850\n");
    struct ftk_account *m = ftk_account_open(root, 100);
    assert_non_null(m);
    return m;
}

static void phase_is(
    const struct ftk_account *m, enum ftk_energy_phase phase, double seconds, double joules)
{
    const struct ftk_energy_sum *sum = &ftk_account_sums(m)[phase];
    assert_near(sum->seconds, seconds, 1e-9);
    assert_near(sum->joules, joules, 1e-9);
}

static void phases(void **state)
{
    (void)state;
    struct ftk_account *m = account();
    energy_is(CARD, "10000000\n");
    ftk_account_change(m, FTK_ENERGY_SET, true, 101); /* 1 s, 10 J of RUN */
    energy_is(CARD, "12000000\n");
    ftk_account_change(m, FTK_ENERGY_FLUSH, true, 103); /* below SET */
    energy_is(CARD, "15000000\n");
    ftk_account_change(m, FTK_ENERGY_SET, false, 104);
    energy_is(CARD, "35000000\n");
    ftk_account_change(m, FTK_ENERGY_WAIT, true, 105);
    ftk_account_change(m, FTK_ENERGY_WAIT, true, 106); /* has begun */
    energy_is(CARD, "39000000\n");
    ftk_account_change(m, FTK_ENERGY_REPAIR, true, 107); /* above WAIT */
    energy_is(CARD, "40000000\n");
    ftk_account_change(m, FTK_ENERGY_REPAIR, false, 108);
    ftk_account_change(m, FTK_ENERGY_REPLAY, true, 108);
    ftk_account_change(m, FTK_ENERGY_WAIT, false, 108);
    ftk_account_change(m, FTK_ENERGY_FLUSH, false, 108);
    energy_is(CARD, "47000000\n");
    ftk_account_change(m, FTK_ENERGY_REPLAY, false, 109);
    ftk_account_change(m, FTK_ENERGY_REPLAY, false, 110); /* has ended */
    energy_is(CARD, "48000000\n");
    ftk_account_read(m, 112, 0);
    phase_is(m, FTK_ENERGY_RUN, 4, 11);
    phase_is(m, FTK_ENERGY_SET, 3, 5);
    phase_is(m, FTK_ENERGY_FLUSH, 1, 20);
    phase_is(m, FTK_ENERGY_WAIT, 2, 4);
    phase_is(m, FTK_ENERGY_REPAIR, 1, 1);
    phase_is(m, FTK_ENERGY_REPLAY, 1, 7);
    ftk_account_close(m);
}

/* Phases shorter than a millisecond share a reading, by time. */
static void short_phases(void **state)
{
    (void)state;
    struct ftk_account *m = account();
    energy_is(CARD, "4000000\n");
    ftk_account_change(m, FTK_ENERGY_SET, true, 100.0003);
    ftk_account_change(m, FTK_ENERGY_SET, false, 100.0006);
    phase_is(m, FTK_ENERGY_SET, 0, 0);
    ftk_account_read(m, 100.0012, 1); /* the last reading is not that old */
    phase_is(m, FTK_ENERGY_SET, 0, 0);
    ftk_account_read(m, 100.0012, 0.001);
    phase_is(m, FTK_ENERGY_RUN, 0.0009, 3);
    phase_is(m, FTK_ENERGY_SET, 0.0003, 1);
    ftk_account_close(m);
}

/* An interval whose energy is not known counts as neither energy nor time. */
static void unknown(void **state)
{
    (void)state;
    struct ftk_account *m = account();
    energy_is(CARD, "");
    ftk_account_change(m, FTK_ENERGY_REPAIR, true, 101);
    energy_is(CARD, "9000000\n");
    ftk_account_change(m, FTK_ENERGY_REPAIR, false, 102);
    energy_is(CARD, "9500000\n");
    ftk_account_read(m, 103, 0);
    phase_is(m, FTK_ENERGY_RUN, 1, 0.5);
    phase_is(m, FTK_ENERGY_REPAIR, 0, 0);
    ftk_account_close(m);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(none, begin, end),
        cmocka_unit_test_setup_teardown(rapl, begin, end),
        cmocka_unit_test_setup_teardown(wraps, begin, end),
        cmocka_unit_test_setup_teardown(unreadable, begin, end),
        cmocka_unit_test_setup_teardown(fails, begin, end),
        cmocka_unit_test_setup_teardown(hwmon, begin, end),
        cmocka_unit_test_setup_teardown(nvml, begin, end),
        cmocka_unit_test_setup_teardown(phases, begin, end),
        cmocka_unit_test_setup_teardown(short_phases, begin, end),
        cmocka_unit_test_setup_teardown(unknown, begin, end),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
