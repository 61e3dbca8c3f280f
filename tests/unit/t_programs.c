/* Several programs in one job: commands as text, and which set a rank may restore.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/arguments.h"
#include "recover/command.h"
#include "recover/programs.h"
#include "set/pack.h"

/* ---- commands -------------------------------------------------------------------------- */

/* Numbers of arguments and variables, directory, executable, arguments, variables. */
#define TEXT "2 3\0/run/ocean\0/bin/model\0-n\0three words\0FTKIT_X=1\0LD_PRELOAD=a\0ROLE=sea\0"

static struct ftk_command read_text(const char *text, size_t bytes)
{
    struct ftk_command c;
    assert_int_equal(ftk_command_read(text, bytes, &c), bytes);
    return c;
}

#define READ(text) read_text(text, sizeof(text) - 1)

static void reads(void **state)
{
    (void)state;
    struct ftk_command c = READ(TEXT);
    assert_string_equal(c.directory, "/run/ocean");
    assert_string_equal(ftk_command_name(&c), "model");
    assert_int_equal(c.nargs, 2);
    assert_string_equal(c.args[1], "three words");
    assert_null(c.args[2]);
    assert_int_equal(c.nvariables, 3);
    assert_string_equal(c.variables[2], "ROLE=sea");
    ftk_command_free(&c);
    assert_int_equal(ftk_command_read(NULL, 0, &c), 0);
    assert_string_equal(c.executable, "");
    ftk_command_free(&c);
}

/* Commands follow each other in the table of the programs. */
static void finds(void **state)
{
    static const char all[] = TEXT "0 1\0/run\0/bin/air\0ROLE=air\0" TEXT;
    static const char *const names[] = { "model", "air", "model" };
    (void)state;
    for (int k = 0; k < 3; k++) {
        struct ftk_command c;
        ftk_command_of(all, sizeof all - 1, k, &c);
        assert_string_equal(ftk_command_name(&c), names[k]);
        assert_string_equal(c.variables[c.nvariables - 1], k == 1 ? "ROLE=air" : "ROLE=sea");
        ftk_command_free(&c);
    }
}

static void spawns(void **state)
{
    (void)state;
    char extra[] = "FTKIT_Y=2";
    const char *command;
    struct ftk_command c = READ(TEXT), plain = READ("1 0\0/\0/bin/model\0a\0");
    const char *const want[] = { "FTKIT_X=1", "LD_PRELOAD=a", "ROLE=sea", "FTKIT_Y=2", "/bin/model",
        "-n", "three words" };
    char **args = ftk_command_spawn(&c, extra, &command);
    assert_string_equal(command, "/usr/bin/env");
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_string_equal(args[i], want[i]);
    assert_null(args[sizeof want / sizeof *want]);
    free(args);
    args = ftk_command_spawn(&plain, NULL, &command);
    assert_string_equal(command, "/bin/model");
    assert_string_equal(args[0], "a");
    assert_null(args[1]);
    free(args);
    char deep[MPI_MAX_INFO_VAL + 300];
    memset(deep, 'd', sizeof deep - 1);
    deep[0] = '/';
    deep[sizeof deep - 1] = '\0';
    plain.directory = deep;
    args = ftk_command_spawn(&plain, NULL, &command);
    assert_true(ftk_command_goes(&plain));
    assert_string_equal(command, "/usr/bin/env");
    assert_string_equal(args[0], "-C");
    assert_string_equal(args[1], deep);
    free(args);
    ftk_command_free(&c);
    ftk_command_free(&plain);
}

static void own_command(void **state)
{
    (void)state;
    size_t bytes, length;
    assert_int_equal(setenv("FTKIT_MINE", "1", 1), 0);
    char *text = ftk_command_write(&bytes);
    assert_non_null(text);
    struct ftk_command c = read_text(text, bytes);
    assert_string_equal(ftk_command_name(&c), "t_programs");
    assert_string_equal(c.directory, ftk_arguments_directory());
    assert_non_null(ftk_arguments(&length));
    bool found = false;
    for (int i = 0; i < c.nvariables; i++) {
        found = found || strcmp(c.variables[i], "FTKIT_MINE=1") == 0;
        assert_int_not_equal(strncmp(c.variables[i], "PWD=", 4), 0);
    }
    assert_true(found);
    ftk_command_free(&c);
    free(text);
}

/* A command, and whether it is the same as TEXT. */
struct variant {
    const char *text;
    size_t bytes;
    bool same;
};
#define VARIANT(text, same)                                                                        \
    {                                                                                              \
        text, sizeof(text) - 1, same                                                               \
    }

static void compare(const struct variant *v, size_t n,
    bool (*is_same)(const struct ftk_command *a, const struct ftk_command *b))
{
    struct ftk_command c = READ(TEXT);
    for (size_t i = 0; i < n; i++) {
        struct ftk_command d = read_text(v[i].text, v[i].bytes);
        assert_int_equal(is_same(&c, &d), v[i].same);
        assert_int_equal(is_same(&d, &c), v[i].same);
        ftk_command_free(&d);
    }
    ftk_command_free(&c);
}

static void same(void **state)
{
    (void)state;
    static const struct variant v[] = {
        VARIANT(TEXT, true),
        VARIANT("2 2\0/run/ocean\0/bin/model\0-n\0three words\0LD_PRELOAD=a\0ROLE=sea\0", true),
        VARIANT("2 2\0/run/ocean\0/bin/model\0-n\0three words\0LD_PRELOAD=a\0ROLE=air\0", false),
        VARIANT("2 1\0/run/ocean\0/bin/model\0-n\0three words\0LD_PRELOAD=a\0", false),
        VARIANT("2 2\0/run/air\0/bin/model\0-n\0three words\0LD_PRELOAD=a\0ROLE=sea\0", false),
        VARIANT("2 2\0/run/ocean\0/opt/model\0-n\0three words\0LD_PRELOAD=a\0ROLE=sea\0", false),
        VARIANT("1 2\0/run/ocean\0/bin/model\0-n\0LD_PRELOAD=a\0ROLE=sea\0", false),
        VARIANT("0 0\0\0\0", false),
    };
    compare(v, sizeof v / sizeof *v, ftk_command_same);
}

static bool has_same_hash(const struct ftk_command *a, const struct ftk_command *b)
{
    return ftk_command_hash(a) == ftk_command_hash(b);
}

/* What tells the sets of two programs apart: not the paths, nor what ftkit itself sets. */
static void hashes(void **state)
{
    (void)state;
    static const struct variant v[] = {
        VARIANT("2 2\0/home/ocean\0/opt/model\0-n\0three words\0LD_PRELOAD=a\0ROLE=sea\0", true),
        VARIANT("2 2\0/run/ocean\0/bin/model\0-n\0three words\0LD_PRELOAD=a\0ROLE=air\0", false),
        VARIANT("2 2\0/run/air\0/bin/model\0-n\0three words\0LD_PRELOAD=a\0ROLE=sea\0", false),
        VARIANT("2 2\0/run/ocean\0/bin/model\0-n\0two words\0LD_PRELOAD=a\0ROLE=sea\0", false),
    };
    compare(v, sizeof v / sizeof *v, has_same_hash);
}

/* ---- sets ------------------------------------------------------------------------------ */

/* Two programs of two ranks each; this is rank 2, of program 1. */
static struct ftk_program list[] = { { 2, 0, 11, 21 }, { 2, 1, 12, 22 } };
static int of[] = { 0, 0, 1, 1 };

static struct ftkit_ctx *several(void)
{
    static struct ftkit_ctx ctx;
    memset(&ctx, 0, sizeof ctx);
    ctx.nranks = 4;
    ctx.rank = 2;
    strcpy(ctx.identity.program, "b");
    ctx.programs = (struct ftk_programs){ .n = 2, .own = 1, .list = list, .of = of, .nof = 4 };
    return &ctx;
}

static struct ftk_seg_header header(const struct ftkit_ctx *ctx)
{
    struct ftk_seg_header h = { .nranks = 4,
        .rank = 2,
        .nprograms = 2,
        .program_number = 1,
        .programs_sum = ftk_programs_sum(ctx),
        .executable = 12,
        .command = 22,
        .program = "b" };
    return h;
}

static void refused(const struct ftkit_ctx *ctx, const struct ftk_seg_header *h, const char *why)
{
    assert_int_equal(ftk_programs_check(ctx, h), FTKIT_ERR_UNSUPPORTED);
    if (!strstr(ftk_detail_text(), why))
        fail_msg("'%s' has no '%s'", ftk_detail_text(), why);
}

static void sets(void **state)
{
    (void)state;
    struct ftkit_ctx *ctx = several();
    struct ftk_seg_header h = header(ctx);
    assert_int_equal(ftk_programs_check(ctx, &h), FTKIT_OK);
    h.command = 99; /* other arguments */
    assert_int_equal(ftk_programs_check(ctx, &h), FTKIT_OK);
    h.command = 21; /* those of the other program */
    refused(ctx, &h, "was of program 0 of this job");
    h = header(ctx);
    h.executable = 11;
    refused(ctx, &h, "was of program 0 of this job");
    h.executable = 13;
    refused(ctx, &h, "was of another program than in this job");
    strcpy(ctx->cfg.program, "x"); /* context.program: the executable has another name */
    assert_int_equal(ftk_programs_check(ctx, &h), FTKIT_OK);
    h.executable = 11;
    refused(ctx, &h, "was of program 0 of this job");
    h = header(ctx);
    h.programs_sum++;
    refused(ctx, &h, "another number of ranks of a program");
    h = header(ctx);
    h.nprograms = 1;
    refused(ctx, &h, "is of a job of 1 program, and this job has 2");
}

static void one_program(void **state)
{
    (void)state;
    struct ftkit_ctx *ctx = several();
    struct ftk_seg_header h = header(ctx);
    ctx->programs = (struct ftk_programs){ .n = 0 };
    refused(ctx, &h, "is of a job of 2 programs, and this job has 1");
    h.nprograms = 1;
    assert_int_equal(ftk_programs_check(ctx, &h), FTKIT_OK);
    h.nprograms = 0; /* an older ftkit wrote it, perhaps on other ranks */
    h.nranks = 3;
    assert_int_equal(ftk_programs_check(ctx, &h), FTKIT_OK);
}

/* A set of an older ftkit: its ranks are in the order of the processes. */
static void older(void **state)
{
    (void)state;
    struct ftkit_ctx *ctx = several();
    struct ftk_seg_header h = { .nranks = 4, .rank = 2, .program = "b" };
    assert_int_equal(ftk_programs_check(ctx, &h), FTKIT_OK);
    ctx->programs.mixed = true;
    refused(ctx, &h, "was written by an older ftkit");
    ctx->programs.mixed = false;
    h.program[0] = 'a';
    refused(ctx, &h, "was written by an older ftkit");
    h.program[0] = 'b';
    h.nranks = 3;
    refused(ctx, &h, "was written by an older ftkit");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(reads), cmocka_unit_test(finds),
        cmocka_unit_test(spawns), cmocka_unit_test(own_command), cmocka_unit_test(same),
        cmocka_unit_test(hashes), cmocka_unit_test(sets), cmocka_unit_test(one_program),
        cmocka_unit_test(older) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
