/* Teams that are written down: lists and files, and everything that can be wrong in them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/teams.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
enum { RANKS_MAX = 64 };

static char work[] = "/tmp/t_teams.XXXXXX"; /* we are in it: paths below are relative */

/* From memory that ends with the text, so that reading on is noticed. */
static bool parse_bytes(
    const char *text, size_t bytes, bool file, int n, int *team, struct ftk_teams_flaw *flaw)
{
    char *copy = malloc(bytes ? bytes : 1);
    assert_non_null(copy);
    if (bytes)
        memcpy(copy, text, bytes);
    bool good = ftk_teams_parse(copy, bytes, file, n, team, flaw);
    free(copy);
    return good;
}

/* The teams are "aabb": rank by rank a letter, the first team a. */
static void gives(const char *text, bool file, const char *want)
{
    int team[RANKS_MAX];
    char got[RANKS_MAX + 1] = "";
    struct ftk_teams_flaw flaw = { -1, "" };
    int n = (int)strlen(want);
    if (!parse_bytes(text, strlen(text), file, n, team, &flaw))
        fail_msg("\"%s\" is refused: line %d: %s", text, flaw.line, flaw.why);
    for (int r = 0; r < n; r++)
        got[r] = (char)('a' + team[r]);
    assert_string_equal(got, want);
    assert_true(parse_bytes(text, strlen(text), file, 0, NULL, &flaw));
}

static void refuses(const char *text, bool file, int n, int line, const char *why)
{
    int team[RANKS_MAX];
    struct ftk_teams_flaw flaw = { -1, "" };
    if (parse_bytes(text, strlen(text), file, n, team, &flaw))
        fail_msg("\"%s\" is taken", text);
    if (!strstr(flaw.why, why) || flaw.line != line)
        fail_msg(
            "\"%s\": line %d: \"%s\", not line %d: \"%s\"", text, flaw.line, flaw.why, line, why);
}

static void t_lists(void **state)
{
    (void)state;
    gives("0", false, "a");
    gives("0-3", false, "aaaa");
    gives("0-1 2-3", false, "aabb");
    gives("  0-1\t2-3 ", false, "aabb");
    gives("0,2 1,3", false, "abab");
    gives("3 2 1 0", false, "dcba");
    gives("3,1-2,0", false, "aaaa");
    gives("0-0 1-1", false, "ab");
    gives("5,0-1 4,2-3", false, "aabbba");
    gives("0\n1", false, "ab"); /* the value of a variable may have it */
    gives("007 0-6", false, "bbbbbbba");
}

static void t_files(void **state)
{
    (void)state;
    gives("0-3\n", true, "aaaa");
    gives("0-3", true, "aaaa");
    gives("0-1\n2-3\n", true, "aabb");
    gives("# teams\n\n0-1 # first\n \t\n2-3# second\n#end", true, "aabb");
    gives("0-1\r\n2-3\r\n", true, "aabb");
    gives("  0,2\n\t1,3\t\n", true, "abab");
}

static void t_bad_lists(void **state)
{
    static const struct {
        const char *text;
        int n;
        const char *why;
    } bad[] = {
        { "", 4, "rank 0 is in no team (0 of 4" },
        { " ", 4, "rank 0 is in no team" },
        { "0-2", 4, "rank 3 is in no team (3 of 4 ranks are)" },
        { "0 1 3", 4, "rank 2 is in no team" },
        { "0-4", 4, "rank 4 is out of range: the ranks are 0 to 3" },
        { "0-3 4", 4, "rank 4 is out of range" },
        { "0-999999999", 4, "rank 999999999 is out of range" },
        { "0-3 1000000000", 4, "a rank is above 999999999" },
        { "0-99999999999999999999999999", 4, "a rank is above" },
        { "18446744073709551616", 4, "a rank is above" },
        { "0-3 3", 4, "rank 3 is in another team already" },
        { "0-3,2", 4, "rank 2 is in this team already" },
        { "0,0 1-3", 4, "rank 0 is in this team already" },
        { "3-0", 4, "the range 3-0 ends before it begins" },
        { "0-", 4, "a rank is missing" },
        { "0- 3", 4, "a rank is missing" },
        { "0 -3", 4, "'-' where a rank should be" },
        { "-1", 4, "'-' where a rank should be" },
        { "0--3", 4, "'-' where a rank should be" },
        { "0-1-2", 4, "'-' behind a rank" },
        { "0,", 4, "a rank is missing" },
        { ",0", 4, "a rank is missing" },
        { "0,,1", 4, "a rank is missing" },
        { "0, 1", 4, "a rank is missing" },
        { "0 ,1", 4, "a rank is missing" },
        { "0-,1", 4, "a rank is missing" },
        { "x", 4, "'x' where a rank should be" },
        { "0x3", 4, "'x' behind a rank" },
        { "0;1", 4, "';' behind a rank" },
        { "0-3 # all", 4, "'#' where a rank should be" },
        { "+1", 4, "'+' where a rank should be" },
        { "1.5", 4, "'.' behind a rank" },
        { "0-3\001", 4, "byte 0x01 behind a rank" },
        { "\3770", 4, "byte 0xff where a rank should be" },
        { "0-3", 0, "rank 3 is out of range" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++)
        refuses(bad[i].text, false, bad[i].n, 0, bad[i].why);
}

static void t_bad_files(void **state)
{
    (void)state;
    refuses("", true, 2, 0, "rank 0 is in no team");
    refuses("# nothing\n", true, 2, 0, "rank 0 is in no team");
    refuses("0\n", true, 2, 0, "rank 1 is in no team");
    refuses("0\n\n# c\n1-x\n", true, 2, 4, "'x' where a rank should be");
    refuses("0\n1 2\n", true, 3, 2, "a blank in a team");
    refuses("0, 1\n", true, 2, 1, "a rank is missing");
    refuses("0\n1\n1\n", true, 2, 3, "rank 1 is in another team already");
    refuses("0\n1\n2", true, 2, 3, "rank 2 is out of range: the ranks are 0 to 1");
    refuses("0-\n1\n", true, 2, 1, "a rank is missing");
    refuses("0,#1\n", true, 2, 1, "a rank is missing");
}

/* Bytes that are no text, in the middle and at the end. */
static void t_bytes(void **state)
{
    int team[4];
    struct ftk_teams_flaw flaw;
    (void)state;
    assert_false(parse_bytes("0-1\0"
                             "2-3",
        7, true, 4, team, &flaw));
    assert_string_equal(flaw.why, "byte 0x00 behind a rank");
    assert_false(parse_bytes("0-1\n\0", 5, true, 4, team, &flaw));
    assert_int_equal(flaw.line, 2);
    assert_false(parse_bytes("\xef\xbb\xbf"
                             "0-3",
        6, true, 4, team, &flaw));
}

/* Only the form: what a list says without the ranks of a job. */
static void t_form(void **state)
{
    struct ftk_teams_flaw flaw;
    (void)state;
    assert_true(parse_bytes("5-9 5", 5, false, 0, NULL, &flaw));
    assert_false(parse_bytes("5-9 x", 5, false, 0, NULL, &flaw));
    assert_false(parse_bytes(" ", 1, false, 0, NULL, &flaw));
}

/* What is taken is a team for every rank, whatever the text. */
static void t_random(void **state)
{
    static const char letters[] = "0123456789--,,,  \n\n#x";
    unsigned seed = 7, taken = 0;
    (void)state;
    for (int i = 0; i < 200000; i++) {
        char text[24];
        int team[4];
        struct ftk_teams_flaw flaw;
        seed = seed * 1664525u + 1013904223u;
        size_t bytes = (seed >> 16) % sizeof text;
        for (size_t k = 0; k < bytes; k++) {
            seed = seed * 1664525u + 1013904223u;
            text[k] = letters[(seed >> 16) % (sizeof letters - 1)];
        }
        int n = 1 + i % 3;
        if (!parse_bytes(text, bytes, i % 2, n, team, &flaw))
            continue;
        taken++;
        for (int r = 0; r < n; r++)
            assert_in_range(team[r], 0, n - 1);
    }
    assert_true(taken > 100);
}

static void put_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void fails(int rc, const char *what)
{
    assert_int_equal(rc, FTKIT_ERR_CONFIG);
    if (!strstr(ftk_detail_text(), what))
        fail_msg("\"%s\" is not in \"%s\"", what, ftk_detail_text());
}

/* Whose teams have a rank of the list: "x" for each. */
static void silences(const char *list, const int *team, const char *want)
{
    bool silent[RANKS_MAX];
    char got[RANKS_MAX + 1] = "";
    const int n = (int)strlen(want);
    struct ftk_teams_flaw flaw;
    assert_int_equal(ftk_teams_silent(list, team, n, silent), FTKIT_OK);
    for (int r = 0; r < n; r++)
        got[r] = silent[r] ? 'x' : '-';
    assert_string_equal(got, want);
    assert_true(!*list || ftk_teams_parse_ranks(list, 0, NULL, &flaw));
}

static void t_silent(void **state)
{
    static const int pairs[] = { 0, 0, 2, 2, 4, 4 }, mixed[] = { 0, 1, 2, 0, 1, 2 };
    bool silent[4];
    (void)state;
    silences("", NULL, "------");
    silences("0 4-5", NULL, "x---xx");
    silences(" 0,4-5\t2 ", NULL, "x-x-xx");
    silences("3", pairs, "--xx--");
    silences("0 1 5", pairs, "xx--xx"); /* two ranks of a team */
    silences("4", mixed, "-x--x-");
    fails(ftk_teams_silent("0 4", NULL, 4, silent), "log.silent: rank 4 is out of range");
    fails(ftk_teams_silent("0 2-1", NULL, 4, silent), "log.silent: the range 2-1 ends before");
    fails(ftk_teams_silent("0-2 1", NULL, 4, silent), "log.silent: rank 1 is there twice");
    fails(ftk_teams_silent("2,2", NULL, 4, silent), "log.silent: rank 2 is there twice");
    fails(ftk_teams_silent("auto", NULL, 4, silent), "log.silent: 'a' where a rank should be");
    fails(ftk_teams_silent("1;2", NULL, 4, silent), "log.silent: ';' behind a rank");
    fails(ftk_teams_silent("1,", NULL, 4, silent), "log.silent: a rank is missing");
    fails(ftk_teams_silent(" ", NULL, 4, silent), "log.silent: there is no rank in it");
    fails(ftk_teams_silent("99999999999", NULL, 4, silent), "log.silent: a rank is above");
}

static void t_sources(void **state)
{
    int team[4];
    (void)state;
    assert_int_equal(ftk_teams_of_list("0-1 2-3", 4, team), FTKIT_OK);
    assert_int_equal(team[3], 1);
    fails(ftk_teams_of_list("0-1 2", 4, team), "log.team_list: rank 3 is in no team");
    put_file("good", "0,2\n1,3\n");
    assert_int_equal(ftk_teams_of_file("good", 4, team), FTKIT_OK);
    assert_int_equal(team[2], 0);
    put_file("bad", "0,2\n1,4\n");
    fails(ftk_teams_of_file("bad", 4, team), "log.team_file: bad:2: rank 4 is out of range");
    put_file("bad", "0,2\n1\n");
    fails(ftk_teams_of_file("bad", 4, team), "log.team_file: bad: rank 3 is in no team");
    put_file("bad", "");
    fails(ftk_teams_of_file("bad", 4, team), "log.team_file: bad: rank 0 is in no team");
    fails(ftk_teams_of_file("not/there", 4, team), "not/there: No such file");
    fails(ftk_teams_of_file(".", 4, team), ".: Is a directory");
    assert_int_equal(mkfifo("fifo", 0600), 0);
    fails(ftk_teams_of_file("fifo", 4, team), "fifo: it is not a regular file");
    assert_int_equal(truncate("bad", (off_t)65 << 20), 0);
    fails(ftk_teams_of_file("bad", 4, team), "bad: File too large");
}

static int setup_all(void **state)
{
    (void)state;
    return !mkdtemp(work) || chdir(work) != 0;
}

static int teardown_all(void **state)
{
    (void)state;
    unlink("good");
    unlink("bad");
    unlink("fifo");
    return chdir("/") != 0 || rmdir(work) != 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_lists),
        cmocka_unit_test(t_files),
        cmocka_unit_test(t_bad_lists),
        cmocka_unit_test(t_bad_files),
        cmocka_unit_test(t_bytes),
        cmocka_unit_test(t_form),
        cmocka_unit_test(t_random),
        cmocka_unit_test(t_sources),
        cmocka_unit_test(t_silent),
    };
    return cmocka_run_group_tests_name("teams", tests, setup_all, teardown_all);
}
