/* ftkit: the program.  One table of subcommands.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "sets.h"
#include "store/sets_dir.h"
#include "test.h"
#include "tools.h"

struct command {
    const char *name;
    int (*main)(int argc, char **argv);
    void (*usage)(FILE *out); /* NULL: not shown */
    const char *what;
};

static int help_main(int argc, char **argv);
static int version_main(int argc, char **argv);
static void help_usage(FILE *out);
static void version_usage(FILE *out);

static const struct command commands[] = {
    { "run", ftk_run_main, ftk_run_usage,
        "start a job under mpirun; restart a lost job from its newest set" },
    { "test", ftk_test_main, ftk_test_usage, "test a program with kills, and compare its results" },
    { "status", ftk_status_main, ftk_status_usage, "show what a running job does" },
    { "halt", ftk_halt_main, ftk_halt_usage, "ask a running job to stop with a durable set" },
    { "ls", ftk_ls_main, ftk_ls_usage, "list the checkpoint sets of a directory" },
    { "show", ftk_show_main, ftk_show_usage, "show what is in a set" },
    { "verify", ftk_verify_main, ftk_verify_usage, "check every byte of sets" },
    { "repair", ftk_repair_main, ftk_repair_usage, "repair damaged sets where possible" },
    { "prune", ftk_prune_main, ftk_prune_usage, "remove old sets" },
    { "export", ftk_export_main, ftk_export_usage, "write a region of a set to a file" },
    { "teams", ftk_teams_main, ftk_teams_usage,
        "propose teams for the message log from a communication matrix" },
    { "failures", ftk_failures_main, ftk_failures_usage,
        "fit the failures in a log of a machine, or generate a log" },
    { "report", ftk_report_main, ftk_report_usage, "make a page in HTML from the event log" },
    { "plan", ftk_plan_main, ftk_plan_usage, "plan periods, scheme, teams and spares from costs" },
    { "sim", ftk_sim_main, ftk_sim_usage, "simulate a planned job on a machine that fails" },
    { "config", ftk_config_main, ftk_config_usage,
        "print the configuration in force, and what it survives" },
    { "help", help_main, help_usage, "explain a command" },
    { "version", version_main, version_usage, "print the version" },
    { "emulate-agent", ftk_emulate_agent, NULL, "" },
    { "slurm-agent", ftk_slurm_agent, NULL, "" },
};
#define NCOMMANDS (sizeof commands / sizeof commands[0])

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < NCOMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

/* ---- the small commands -------------------------------------------------------------- */

static void version_usage(FILE *out)
{
    fputs("usage: ftkit version [--json]\n"
          "\n"
          "Print the version of ftkit, and whether its MPI can repair a running job.\n"
          "\n"
          "  --json  as an object: version, ulfm (true: repair in the job), mpirun\n"
          "\n"
          "Exit code:\n"
          "  0  the version is printed\n"
          "  1  standard output cannot be written\n"
          "  2  usage\n",
        out);
}

static int version_main(int argc, char **argv)
{
    struct ftk_opts o;
    struct ftk_json j = { .out = stdout };
    int code = ftk_opts_parse(argc, argv, OPT_JSON, version_usage, &o);
    if (code)
        return code - 1;
    code = ftk_opts_args(&o, version_usage, 0, "");
    if (code)
        return code;
    if (o.json) {
        ftk_json_open(&j, NULL, '{');
        ftk_json_text(&j, "version", ftkit_version());
        ftk_json_bool(&j, "ulfm", ftk_mpirun_ulfm());
        ftk_json_text(&j, "mpirun", FTKIT_MPIRUN);
        ftk_json_close(&j, '}');
        return ftk_tool_end(TOOL_OK);
    }
    printf("ftkit %s (%s)\n", ftkit_version(),
        ftk_mpirun_ulfm() ? "repair in the job by ULFM" : "no ULFM: restart only");
    return ftk_tool_end(TOOL_OK);
}

static void help_usage(FILE *out)
{
    fputs("usage: ftkit help [COMMAND]\n"
          "       ftkit help --list\n"
          "\n"
          "Explain a command; without COMMAND, list the commands.  `ftkit COMMAND --help` and\n"
          "ftkit-COMMAND(1) have the same text.\n"
          "\n"
          "  --list  the commands for scripts: name, tab, purpose\n"
          "\n"
          "Exit code:\n"
          "  0  the text is printed\n"
          "  1  standard output cannot be written\n"
          "  2  usage, or there is no such command\n",
        out);
}

static void list_commands(FILE *out, const char *fmt)
{
    for (size_t i = 0; i < NCOMMANDS; i++)
        if (commands[i].usage)
            fprintf(out, fmt, commands[i].name, commands[i].what);
}

static void overview(FILE *out)
{
    fputs("usage: ftkit COMMAND [ARGUMENT]...\n\n", out);
    list_commands(out, "  %-8s  %s\n");
    fputs("\n`ftkit help COMMAND` explains one of them.\n", out);
}

static int unknown_command(const char *name)
{
    struct ftk_list l = { 0 };
    for (size_t i = 0; i < NCOMMANDS; i++)
        if (commands[i].usage)
            ftk_list_add(&l, "%s", commands[i].name);
    const char *near = ftk_usage_nearest(name, &l);
    fprintf(stderr, "ftkit: no command '%s'", ftk_tool_why(name));
    if (near)
        fprintf(stderr, ": did you mean %s?", near);
    fputs("\n`ftkit help` lists the commands\n", stderr);
    ftk_list_free(&l);
    return TOOL_USAGE;
}

const char *ftk_command_with(const char *option)
{
    for (size_t i = 0; i < NCOMMANDS; i++)
        if (commands[i].usage && ftk_usage_has(commands[i].usage, option))
            return commands[i].name;
    return NULL;
}

static int help_main(int argc, char **argv)
{
    ftk_tool_name("help");
    if (argc > 2)
        return ftk_usage_wrong(help_usage, "one command at a time");
    const struct command *c = argc > 1 ? find(argv[1]) : NULL;
    if (argc < 2)
        overview(stdout);
    else if (strcmp(argv[1], "--list") == 0)
        list_commands(stdout, "%s\t%s\n");
    else if (argv[1][0] == '-')
        return ftk_usage_unknown(help_usage, argv[1]);
    else if (!c || !c->usage)
        return unknown_command(argv[1]);
    else
        c->usage(stdout);
    return ftk_tool_end(TOOL_OK);
}

int main(int argc, char **argv)
{
    ftk_sets_dir_of_any_user(); /* the user names the directory */
    if (argc < 2) {
        overview(stderr);
        return TOOL_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    const struct command *c = find(name);
    if (!c)
        return unknown_command(name);
    if (c->usage && argc == 3 && strcmp(argv[2], "--help") == 0) {
        c->usage(stdout);
        return TOOL_OK;
    }
    return c->main(argc - 1, argv + 1);
}
