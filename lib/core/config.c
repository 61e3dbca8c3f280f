/* Configuration: parser, checks, printing and documentation use one table of keys.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The file is read whole and checked byte by byte.  Then inih reads the lines and separates
 * key, value and comment.  inih alone is not enough: it splits lines beyond ini_max_line
 * silently into two, takes an indented line as a continuation of the last value, skips a line
 * without '=', and never reports a section.  So next_line() gives inih only trimmed lines that
 * fit, reads the sections itself, and notices when inih does not report a line as a key.
 * ini_max_line and similar variables belong to the whole process and are not changed. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "config_sense.h"
#include "format.h"
#include "teams.h"
#include "utf8.h"

#define FILE_MAX ((size_t)1 << 20) /* bytes of a configuration file */
#define LINE_BYTES_MAX 2048        /* bytes of a line: any path fits */
#define VALUE_MAX (FTK_PATH_MAX + 64)
#define ENV_NAME_MAX 64
#define WORDS_MAX 256
#define TIME_MIN_S 1e-3
#define TIME_MAX_S (100000.0 * 86400.0)
#define COUNT_MAX 1e9
#define BYTES_MAX 1e15
#define FROM_ENV (-1)
#define FROM_RUN (-2)

/* ---- The table ----------------------------------------------------------------------- */

enum type {
    T_BOOL,
    T_INT,
    T_BYTES,
    T_TIME,
    T_PERIOD,
    T_WORD,
    T_PATH,
    T_NAME,
    T_SUPPLY,
    T_START,
    T_DEADLINE
};

struct word {
    const char *text;
    int value;
};

static const struct word bools[] = { { "true", 1 }, { "false", 0 }, { "yes", 1 }, { "no", 0 },
    { "on", 1 }, { "off", 0 }, { "1", 1 }, { "0", 0 }, { NULL, 0 } };
#define WORD_OF_PLACE(NAME, word, flags, doc) { #word, FTK_PLACE_##NAME },
#define DOC_OF_PLACE(NAME, word, flags, doc) doc
static const struct word accesses[] = { { "owner", FTK_ACCESS_OWNER },
    { "group", FTK_ACCESS_GROUP }, { "all", FTK_ACCESS_ALL }, { NULL, 0 } };
static const struct word places[] = { FTK_PLACE_LIST(WORD_OF_PLACE){ NULL, 0 } };
#define WORD_OF_SCHEME(NAME, word, copies, parities, doc) { #word, FTK_SCHEME_##NAME },
#define DOC_OF_SCHEME(NAME, word, copies, parities, doc) doc
static const struct word schemes[] = { FTK_SCHEME_LIST(WORD_OF_SCHEME){ NULL, 0 } };
static const struct word maps[] = { { "pair", FTK_MAP_PAIR }, { "ring", FTK_MAP_RING },
    { NULL, 0 } };
static const struct word incrementals[] = { { "auto", FTK_INCREMENTAL_AUTO },
    { "off", FTK_INCREMENTAL_OFF }, { "on", FTK_INCREMENTAL_ON }, { NULL, 0 } };
#define WORD_OF_LEVEL(NAME, word, doc) { #word, FTK_DURABLE_##NAME },
#define DOC_OF_LEVEL(NAME, word, doc) #word ", " doc "; "
#define TWICE(NAME, word, doc) *2
#define HAS_LEVELS (1 FTK_DURABLE_LEVELS(TWICE) > 2) /* otherwise there is nothing to choose */
#if HAS_LEVELS
static const struct word formats[] = { FTK_DURABLE_LEVELS(WORD_OF_LEVEL){ NULL, 0 } };
#endif
static const struct word filters[] = { { "none", FTK_COMPRESS_NONE },
    { "deflate", FTK_COMPRESS_DEFLATE }, { NULL, 0 } };
static const struct word teams[] = { { "domain", FTK_TEAMS_DOMAIN }, { "rank", FTK_TEAMS_RANK },
    { "all", FTK_TEAMS_ALL }, { "dynamic", FTK_TEAMS_DYNAMIC }, { NULL, 0 } };
#define DET_WORD(name, word) { #word, FTK_DETS_##name },
static const struct word determinants[] = { FTK_DET_MODES(DET_WORD){ NULL, 0 } };
static const struct word lines[] = { { "together", FTK_LINE_TOGETHER }, { "apart", FTK_LINE_APART },
    { NULL, 0 } };
static const struct word compared[] = { { "regions", FTK_COMPARED_REGIONS },
    { "messages", FTK_COMPARED_MESSAGES }, { NULL, 0 } };
static const struct word lost_replicas[] = { { "compared", FTK_LOST_COMPARED },
    { "clone", FTK_LOST_CLONE }, { "replay", FTK_LOST_REPLAY }, { NULL, 0 } };
static const struct word outputs[] = { { "first", FTK_OUTPUT_FIRST }, { "all", FTK_OUTPUT_ALL },
    { NULL, 0 } };
static const struct word supplies[] = { { "spare", FTK_SUPPLY_SPARE },
    { "spawn", FTK_SUPPLY_SPAWN }, { "shrink", FTK_SUPPLY_SHRINK }, { "end", FTK_SUPPLY_END },
    { NULL, 0 } };
static const struct word starts[] = { { "newest", 0 }, { "fresh", 1 }, { "older", 2 },
    { "continue", 3 }, { NULL, 0 } };
static const uint64_t start_values[] = { FTK_START_NEWEST, FTK_START_FRESH, FTK_START_OLDER,
    FTK_START_CONTINUE }; /* of these words */
static const struct word checks[] = { { "none", FTK_DEBUG_NONE }, { "regions", FTK_DEBUG_REGIONS },
    { NULL, 0 } };
static const struct word energies[] = { { "auto", FTK_ENERGY_AUTO }, { "off", FTK_ENERGY_OFF },
    { NULL, 0 } };
static const struct word device_faults[] = { { "replace", FTK_DEVICE_REPLACE },
    { "error", FTK_DEVICE_ERROR }, { NULL, 0 } };
static const struct word device_sums[] = { { "auto", FTK_DEVICE_SUMS_AUTO },
    { "host", FTK_DEVICE_SUMS_HOST }, { NULL, 0 } };
static const struct word device_snapshots[] = { { "off", FTK_DEVICE_SNAPSHOT_OFF },
    { "auto", FTK_DEVICE_SNAPSHOT_AUTO }, { NULL, 0 } };
static const struct word levels[] = { { "none", -1 }, { "error", FTKIT_ERROR },
    { "warning", FTKIT_WARNING }, { "info", FTKIT_INFO }, { "debug", FTKIT_DEBUG }, { NULL, 0 } };

/* ascending, as format_time() needs them */
static const struct {
    const char *text;
    double s;
} units[] = { { "ms", 1e-3 }, { "s", 1 }, { "min", 60 }, { "h", 3600 }, { "d", 86400 } };
#define NUNITS (sizeof units / sizeof units[0])

/* decimal and binary, ascending, as format_bytes() needs them */
static const struct {
    const char *text;
    double bytes;
} sizes[] = { { "B", 1 }, { "kB", 1e3 }, { "KiB", 1024 }, { "MB", 1e6 }, { "MiB", 1048576 },
    { "GB", 1e9 }, { "GiB", 1073741824 }, { "TB", 1e12 } };
#define NSIZES (sizeof sizes / sizeof sizes[0])

struct key {
    const char *section, *name;
    size_t offset; /* in struct ftk_config */
    enum type type;
    double min, max;          /* T_INT; T_TIME: 0 is valid if min is 0, and no max if it is 0;
                                 T_PATH, T_NAME: min bytes */
    const struct word *words; /* T_BOOL, T_WORD, T_SUPPLY, T_START */
    const char *count;        /* T_PERIOD: what it counts */
    const char *def;
    const char *values; /* NULL: the words */
    const char *doc;
};

#define AT(member) offsetof(struct ftk_config, member)
#define BOOL T_BOOL, 0, 0, bools, NULL
#define INT(min, max) T_INT, min, max, NULL, NULL
#define BYTES T_BYTES, 0, 0, NULL, NULL
#define TIME(min) T_TIME, min, 0, NULL, NULL
#define TIME_TO(min, max) T_TIME, min, max, NULL, NULL
#define PERIOD(what) T_PERIOD, 0, 0, NULL, what
#define WORD(words) T_WORD, 0, 0, words, NULL
#define PATH(min) T_PATH, min, 0, NULL, NULL
#define NAME(min) T_NAME, min, 0, NULL, NULL
#define SUPPLY T_SUPPLY, 0, 0, supplies, NULL
#define START T_START, 0, 0, starts, NULL
#define DEADLINE T_DEADLINE, 0, 0, NULL, NULL

#define BOOL_TEXT "true or false (yes, no, on, off, 1, 0)"
#define BYTES_TEXT "0, or a number such as 500MB (B, kB, KiB, MB, MiB, GB, GiB, TB)"
#define TIME_TEXT "a time of 1ms to 100000d such as 90s (ms, s, min, h, d)"
#define PERIOD_TEXT(what) "auto, a number such as '10 " what "s', or " TIME_TEXT

/* The keys of a section stand together. */
static const struct key keys[] = {
    { "context", "name", AT(name), NAME(1), "default",
        "1 to 63 printable ASCII characters without '/'",
        "The checkpoint sets of this context are stored under this name." },
    { "context", "program", AT(program), NAME(0), "",
        "up to 63 printable ASCII characters without '/', or empty for the executable's name",
        "The program that owns the sets; sets that another program has written are refused." },
    { "context", "access", AT(access), WORD(accesses), "owner", "owner, group or all",
        "Who may read the sets, the status and the event log beside their owner: nobody, the group "
        "of the directory, or all users. This holds for directories that ftkit makes; what is in "
        "them has their rights." },
    { "checkpoint", "period", AT(period), PERIOD("call"), "auto", PERIOD_TEXT("call"),
        "When ftkit_checkpoint() writes a set; auto follows cost and MTBF." },
    { "checkpoint", "line", AT(line), WORD(lines), "together", NULL,
        "Where a set is cut.  together: by all ranks in the same call of ftkit_checkpoint().  "
        "apart: by each rank in its own next call, without waiting for others; needs log.enabled "
        "(log.teams = all logs no messages)." },
    { "checkpoint", "patience", AT(patience_s), TIME(TIME_MIN_S), "60s", TIME_TEXT,
        "With line = apart: how long a set waits for a rank that does not call ftkit_checkpoint() "
        "before that rank says so in a warning; after ten times this time the set is given up." },
    { "checkpoint", "mtbf", AT(mtbf_s), TIME(TIME_MIN_S), "24h", TIME_TEXT,
        "Mean time between failures of the whole job, for automatic periods." },
    { "checkpoint", "deadline", AT(deadline_s), DEADLINE, "none",
        "none, a time since the start such as 90min, or @ and seconds since 1970",
        "The job has to be over by then: a durable set is written in time, and ftkit_checkpoint() "
        "returns FTKIT_HALT." },
    { "checkpoint", "signals", AT(signals), BOOL, "true", BOOL_TEXT,
        "Whether SIGUSR1 asks for a durable set, and SIGUSR2 or SIGTERM for a durable set and "
        "FTKIT_HALT; a signal that the program handles itself is left alone." },
    { "checkpoint", "react", AT(react_s), TIME(TIME_MIN_S), "1s", TIME_TEXT,
        "How often the ranks compare whether a signal, ftkit halt or the deadline asks for "
        "something, in one small vote; ten times as rarely with log.enabled, and more rarely where "
        "the ranks would wait for each other more than 1 % of the time." },
    { "level.memory", "scheme", AT(scheme), WORD(schemes), "buddy", NULL,
        "How sets survive in memory: " FTK_SCHEME_LIST(DOC_OF_SCHEME) "." },
    { "level.memory", "map", AT(map), WORD(maps), "pair", "pair or ring",
        "Which node keeps copies: two nodes for each other, or each node for the node before." },
    { "level.memory", "place", AT(place), WORD(places), "memory", NULL,
        "Where the sets are kept: " FTK_PLACE_LIST(DOC_OF_PLACE) ". All but the first outlive the "
                                                                 "process." },
    { "level.memory", "directory", AT(place_dir), PATH(0), "",
        "a directory of each node, or empty for /dev/shm",
        "Where the places other than memory have their files." },
    { "level.memory", "group", AT(group), INT(2, 32), "8", "2 to 32",
        "Ranks of a parity group, each on another node; fewer when there are fewer nodes." },
    { "level.memory", "parity", AT(parity), INT(1, 31), "2", "1 to 31",
        "With rs, members of a group that may be lost together; with xor it is one." },
    { "level.memory", "incremental", AT(incremental), WORD(incrementals), "auto", "auto, on or off",
        "Whether only blocks that have changed since the last set are sent to others; auto: to "
        "other nodes, while less than half of the set changes." },
    { "level.local", "scheme", AT(local_scheme), WORD(schemes), "none", NULL,
        "A second level between memory and files, for losses that the first does not survive." },
    { "level.local", "place", AT(local_place), WORD(places), "shared", NULL,
        "Where its sets are kept, as for level.memory." },
    { "level.local", "directory", AT(local_dir), PATH(0), "",
        "a directory of each node, or empty for /dev/shm",
        "Where the places other than memory have their files." },
    { "level.local", "group", AT(local_group), INT(2, 32), "8", "2 to 32",
        "Ranks of a parity group, as for level.memory." },
    { "level.local", "parity", AT(local_parity), INT(1, 31), "2", "1 to 31",
        "Members of a group that may be lost together with rs." },
    { "level.local", "every", AT(local_every), PERIOD("set"), "auto", PERIOD_TEXT("set"),
        "Which sets go to this level; auto is every fifth." },
    { "level.hdf5", "enabled", AT(h5_enabled), BOOL, "true", BOOL_TEXT,
        "Whether sets are also written to the file system as HDF5." },
    { "level.hdf5", "every", AT(h5_every), PERIOD("set"), "auto", PERIOD_TEXT("set"),
        "Which sets go to the file system; auto follows cost and MTBF." },
    { "level.hdf5", "directory", AT(h5_dir), PATH(1), ".", "an existing directory",
        "Where the sets are written, on a file system that every node sees." },
#if HAS_LEVELS
    { "level.hdf5", "format", AT(h5_level), WORD(formats), "hdf5", NULL,
        "How the sets are kept in the directory: " FTK_DURABLE_LEVELS(
            DOC_OF_LEVEL) "sets of every format are read." },
#endif
    { "level.hdf5", "keep", AT(h5_keep), INT(1, 1e6), "2", "1 to 1000000",
        "Number of complete sets to keep; older ones are removed." },
    { "level.hdf5", "writers", AT(h5_writers), INT(0, 1e6), "0", "0 to 1000000",
        "Ranks of a node that write a file each, and collect for the others; 0: up to four where "
        "the program waits, for files of 1 MiB or more, one in the background." },
    { "level.hdf5", "asynchronous", AT(h5_async), BOOL, "true", BOOL_TEXT,
        "Whether a helper thread writes the sets while the program goes on; without a memory "
        "level or a thread-safe HDF5 the program waits." },
    { "level.hdf5", "bandwidth", AT(h5_bandwidth), BYTES, "0", BYTES_TEXT,
        "Most bytes per second that the helper threads of a node write; 0 for no limit." },
    { "level.hdf5", "compress", AT(h5_compress), WORD(filters), "none", "none or deflate",
        "The filter of the datasets: less to write, more to compute; bandwidth counts the bytes "
        "before compression." },
    { "log", "enabled", AT(log_enabled), BOOL, "false", BOOL_TEXT,
        "Whether messages between teams are logged, so that only the team that has lost a "
        "rank rolls back; needs libftkit_mpi between the program and MPI." },
    { "log", "teams", AT(log_teams), WORD(teams), "domain", "domain, rank, all or dynamic",
        "Ranks that roll back together: the ranks of a failure domain, each rank alone, all; or "
        "teams of log.team_size ranks that follow the communication of the program." },
    { "log", "team_size", AT(log_team_size), INT(0, 1e6), "0", "0 to 1000000",
        "Ranks of a team, in order, instead of log.teams; 0: as log.teams says." },
    { "log", "team_list", AT(log_team_list), PATH(0), "",
        "teams of every rank such as '0-3 4-7 8,10,12 9,11', or empty",
        "The ranks of each team, instead of log.teams and log.team_size." },
    { "log", "team_file", AT(log_team_file), PATH(0), "", "a file, or empty",
        "The same from a file, a team on each line, as ftkit teams prints it." },
    { "log", "reteam", AT(log_reteam), PERIOD("set"), "auto", PERIOD_TEXT("set"),
        "With log.teams = dynamic: how often ftkit looks for better teams; auto: when a greater "
        "share of a rank's bytes goes to other teams than at the last look." },
    { "log", "reteam_gain", AT(log_reteam_gain), INT(1, 99), "20", "1 to 99",
        "Percent, with log.teams = dynamic: other teams have to log so much less; auto looks when "
        "the share between teams has grown by so much." },
    { "log", "silent", AT(log_silent), PATH(0), "", "ranks such as '0 4-7', or empty",
        "The teams of these ranks keep no messages. Each of them rolls back with a team to which "
        "it has sent a message since the last set." },
    { "log", "helpers", AT(log_helpers), INT(0, 1e6), "0", "0 to 1000000",
        "Most waiting ranks that do work units of a rank in its replay (ftkit_run_units()); 0: "
        "each rank does its own." },
    { "log", "matrix", AT(log_matrix), PATH(0), "", "a file to be written, or empty for none",
        "Messages and bytes between each pair of ranks, written by ftkit_finish(), for "
        "ftkit teams." },
    { "log", "determinants", AT(log_dets), WORD(determinants), "node", NULL,
        "Where choices that MPI leaves open are kept (which message a receive from any source "
        "got): in shared memory of the node; also in that of other nodes, sent along with "
        "messages or ahead of them; nowhere, because the messages of the program do not depend on "
        "the choices; or calls that leave a choice open are errors." },
    { "log", "check", AT(log_check), BOOL, "true", BOOL_TEXT,
        "Whether messages that a rank sends again after a failure are compared with the first." },
    { "log", "contexts", AT(log_contexts), INT(2, 64), "16", "2 to 64",
        "Number of communicators of the MPI that the opening and each repair make: two for ftkit, "
        "one for each communicator of the program as long as they last. Up to 2047 more "
        "communicators of a process share one of the MPI: there, tags are at most MPI_TAG_UB "
        "(1048575), and a receive of any tag is probed for." },
    { "log", "memory", AT(log_memory), BYTES, "1GiB", BYTES_TEXT,
        "Bytes of a rank's log that are kept in memory. When the log comes near this size, a set "
        "is written if the period is a time or auto. Beyond this size the log goes to a file of "
        "the node; 0: all of the log." },
    { "log", "directory", AT(log_dir), PATH(0), "", "a directory, or empty for TMPDIR or /tmp",
        "The directory of the file of log.memory, on a disk of the node." },
    { "files", "directory", AT(files_dir), PATH(0), "",
        "a directory of each node, or empty for /dev/shm",
        "Where the program writes files that are a part of a set (ftkit_register_files()), and "
        "gets them back: a memory file system." },
    { "files", "plain", AT(files_plain), BOOL, "true", BOOL_TEXT,
        "Whether sets on the file system have these files as the program wrote them, readable "
        "without ftkit, in files/NAME/rank-... of the set; else as bytes inside of HDF5 files." },
    { "replicas", "count", AT(replicas), INT(1, 3), "1", "1, 2 or 3",
        "Processes that carry each rank, and compute the same. Before each set is committed they "
        "compare their regions. Needs log.enabled." },
    { "replicas", "compare", AT(replica_compare), WORD(compared), "regions", "regions or messages",
        "What the replicas of a rank compare at a set. messages: the regions, and the messages "
        "that the rank has sent to other teams since the last set." },
    { "replicas", "output", AT(replica_output), WORD(outputs), "first", "first or all",
        "Whose standard output is seen: that of the first replica of each rank, or of all." },
    { "replicas", "lost", AT(replica_lost), WORD(lost_replicas), "compared",
        "compared, clone or replay",
        "What follows the loss of a replica. replay: its replacement begins at the last set, and "
        "computes again. clone: its plane stands still, and gets the state of another plane at the "
        "next set. compared: clone if two other planes are left, which are compared then; "
        "otherwise replay." },
    { "device", "fault", AT(device_fault), WORD(device_faults), "replace", "replace or error",
        "What follows an error that ends the context of a GPU, with all memory of the process "
        "there. replace: the process ends, and is replaced like a lost one, if failures are "
        "repaired in the job. error: ftkit_checkpoint() returns FTKIT_ERR_IO, and no more sets are "
        "written." },
    { "device", "sums", AT(device_sums), WORD(device_sums), "auto", "auto or host",
        "Who computes the checksums of regions in memory of a GPU. auto: the GPU, if it can; sets "
        "are the same. host: the processor." },
    { "device", "snapshot", AT(device_snapshot), WORD(device_snapshots), "off", "off or auto",
        "Whether a set with checkpoint.line = apart first copies regions in memory of a GPU on the "
        "GPU: the program goes on while these snapshots travel to the host. auto: where 1.1 times "
        "their bytes are free on the GPU. Memory of the GPU that the program asks for meanwhile "
        "may be missing." },
    { "topology", "ranks_per_node", AT(ranks_per_node), INT(0, 1e6), "0", "0 to 1000000",
        "Ranks that are lost together with a node; 0: as the host names say." },
    { "spares", "count", AT(spares), INT(0, 1e6), "0", "0 to 1000000",
        "Processes of the communicator that wait to replace lost ranks. In a job of several "
        "programs: of each program." },
    { "spares", "exit", AT(spares_exit), BOOL, "true", BOOL_TEXT,
        "Whether a spare that was never needed ends its process in ftkit_open()." },
    { "spares", "prepare", AT(spares_prepare), BOOL, "true", BOOL_TEXT,
        "Whether a spare takes the checkpoint memory of a rank while it waits; false: in a repair, "
        "which then takes longer." },
    { "recover", "supply", AT(supply), SUPPLY, "spare, spawn, end",
        "some of spare, spawn, shrink, end; each once, end last",
        "How lost ranks are replaced: by spares first, then in this order; no shrink with "
        "log.enabled." },
    { "recover", "start", AT(start), START, "newest",
        "newest, fresh, older, continue or the number of a set",
        "What a job starts from: its newest usable set, but not with other arguments than those "
        "with which the run of the set has finished; the beginning, and sets of earlier runs "
        "stay as they are; the newest usable set in the files but one, without such a set the "
        "beginning; the newest usable set, whatever the arguments are; exactly this set." },
    { "recover", "timeout", AT(timeout_s), TIME(TIME_MIN_S), "60s", TIME_TEXT,
        "A process that is stopped for this long, or does not join a repair for this long, is "
        "killed. A process that computes has at least three times its longest stretch between two "
        "calls of ftkit." },
    { "recover", "node_timeout", AT(node_timeout_s), TIME_TO(3, 3600), "10s",
        "a time of 3s to 1h such as 90s (s, min, h)",
        "A node that is silent for about this long (power, cable) counts as lost, where the "
        "runtime of MPI survives the loss of a node. ftkit run reads the variable, not a file." },
    { "recover", "stall", AT(stall_s), TIME(0), "0", "0 for off, or " TIME_TEXT,
        "When no process of a node has called ftkit for this long, the job is ended." },
    { "recover", "stall_say", AT(say_s), TIME(0), "60s", "0 for off, or " TIME_TEXT,
        "When no rank of a node has made progress for this long (or three times its longest "
        "stretch), and some wait in ftkit for others, a line says where each rank is and which "
        "rule may be broken. The job is ended when a rank has left its loop alone. A wait of 20 "
        "times that in ftkit_open() ends the job, too." },
    { "recover", "attempts", AT(attempts), INT(1, 1e6), "10", "1 to 1000000",
        "Repairs in a row that may go back to the same set before the job is ended." },
    { "recover", "exit_is_failure", AT(exit_is_failure), BOOL, "true", BOOL_TEXT,
        "Whether a rank that exits with its context open counts as failed." },
    { "report", "stderr", AT(stderr_level), WORD(levels), "warning",
        "none, error, warning, info or debug",
        "The least severe lines that the library prints to stderr; ftkit run sets info. With "
        "debug errors name places in the sources of ftkit." },
    { "report", "events", AT(events), PATH(0), "", "a directory, or empty for none",
        "The event log: each process adds lines on progress, sets, failures and repairs to the "
        "file of its node there, for ftkit report." },
    { "report", "status", AT(status_s), TIME(0), "5s", "0 for off, or " TIME_TEXT,
        "How often rank 0 writes the file for ftkit status, beside the sets on the file system." },
    { "report", "energy", AT(energy), WORD(energies), "auto", "auto or off",
        "auto: the lowest rank of each node reads the sensors of energy of the node, if it may. "
        "Not with topology.ranks_per_node." },
    { "report", "sysfs", AT(sysfs), PATH(1), "/sys", "a directory",
        "Where sysfs is, which has the sensors: other than /sys in a container." },
    { "debug", "check", AT(debug_check), WORD(checks), "none", "none or regions",
        "regions: after a rollback, warn of variables of the executable that are in no region "
        "and differ from what they were at the set (static storage, not heap or stack)." },
};
#define NKEYS ((int)(sizeof keys / sizeof keys[0]))
_Static_assert(sizeof keys / sizeof keys[0] <= FTK_CONFIG_KEYS_MAX, "room for the origins");

static bool first_of_section(int k)
{
    return k == 0 || strcmp(keys[k].section, keys[k - 1].section) != 0;
}

static void env_name(const struct key *k, char out[ENV_NAME_MAX])
{
    snprintf(out, ENV_NAME_MAX, "FTKIT_%s_%s", k->section, k->name);
    for (char *c = out; *c; c++)
        *c = (char)(*c == '.' ? '_' : toupper((unsigned char)*c));
}

/* ---- Text ---------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void trim(const char **text, size_t *bytes)
{
    while (*bytes > 0 && is_blank(**text)) {
        (*text)++;
        (*bytes)--;
    }
    while (*bytes > 0 && is_blank((*text)[*bytes - 1]))
        (*bytes)--;
}

/* The reason why a value cannot stand in a file, or NULL.  Values from the environment obey the
 * same rules, so that they can be printed as a file. */
static const char *value_flaw(const char *text)
{
    size_t bytes = strlen(text);
    if (ftk_utf8_bad_byte(text, bytes) < bytes || strpbrk(text, "\r\n"))
        return "has a control character or is not UTF-8";
    for (const char *c = text; *c; c++)
        if ((*c == ';' || *c == '#') && (c == text || is_blank(c[-1])))
            return "has '#' or ';' behind a blank (a comment begins with ' ;')";
    return NULL;
}

/* Up to 60 bytes of text for a message, whole characters only. */
static const char *shown(const char *text, char out[64])
{
    size_t n = strlen(text);
    if (n > 60) {
        n = 57;
        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
            n--;
    }
    snprintf(out, 64, "%.*s%s", (int)n, text, text[n] ? "..." : "");
    return out;
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

size_t ftk_config_distance(const char *a, const char *b)
{
    size_t row[97];
    size_t na = strnlen(a, 96), nb = strnlen(b, 96);
    for (size_t j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t above = row[j];
            bool same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
            row[j] = min3(above + 1, row[j - 1] + 1, diagonal + !same);
            diagonal = above;
        }
    }
    return row[nb];
}

/* The values of a key as a text: "none, own or buddy". */
static const char *values_of(const struct key *k, char text[WORDS_MAX])
{
    size_t at = 0;
    if (k->values)
        return k->values;
    for (const struct word *w = k->words; w->text && at < WORDS_MAX; w++)
        at += (size_t)snprintf(text + at, WORDS_MAX - at, "%s%s",
            w == k->words   ? ""
            : (w + 1)->text ? ", "
                            : " or ",
            w->text);
    return text;
}

/* The most likely key: a key of the same name in another section, else the nearest section.key,
 * else (outside any section) the nearest name. */
static const struct key *nearest_key(const char *section, const char *name)
{
    char full[FTK_PATH_MAX], candidate[128];
    const struct key *best = NULL;
    size_t best_distance = 0;
    snprintf(full, sizeof full, "%s%s%s", section, *section ? "." : "", name);
    for (int k = 0; k < NKEYS; k++) {
        snprintf(candidate, sizeof candidate, "%s.%s", keys[k].section, keys[k].name);
        size_t d = strcmp(name, keys[k].name) == 0 ? 0
                   : *section                      ? ftk_config_distance(full, candidate)
                                                   : ftk_config_distance(name, keys[k].name);
        if (!best || d < best_distance) {
            best = &keys[k];
            best_distance = d;
        }
    }
    return best;
}

static const char *nearest_section(const char *section)
{
    int best = 0;
    for (int k = 1; k < NKEYS; k++)
        if (ftk_config_distance(section, keys[k].section)
            < ftk_config_distance(section, keys[best].section))
            best = k;
    return keys[best].section;
}

/* ---- Values -----------------------------------------------------------------------------
 * Each parse_...() writes the value into the configuration and returns NULL, or returns a text
 * that says what is wrong. */

static const struct word *find_word(const struct word *words, const char *text)
{
    for (; words->text; words++)
        if (strcasecmp(words->text, text) == 0)
            return words;
    return NULL;
}

static const char *parse_word(const struct key *k, const char *text, int *value)
{
    const struct word *w = find_word(k->words, text);
    if (!w)
        return "is not among the words known here";
    *value = w->value;
    return NULL;
}

/* A decimal number without sign or exponent; *rest points behind the number and blanks. */
static bool parse_number(const char *text, double *value, const char **rest)
{
    char digits[64], *end;
    size_t n = strspn(text, "0123456789.");
    if (n == 0 || n >= sizeof digits)
        return false;
    memcpy(digits, text, n);
    digits[n] = '\0';
    *value = strtod(digits, &end);
    *rest = text + n + strspn(text + n, " \t");
    return end == digits + n;
}

static const char *parse_int(const struct key *k, const char *text, int *value)
{
    const char *rest;
    double v = 0;
    if (text[strspn(text, "0123456789")] || !parse_number(text, &v, &rest))
        return "is not a whole number";
    if (v < k->min || v > k->max)
        return "is out of range";
    *value = (int)v;
    return NULL;
}

/* 0, or a number with a unit; whole bytes. */
static const char *parse_bytes(const char *text, double *bytes)
{
    const char *rest;
    double v = 0;
    size_t u = 0;
    if (!parse_number(text, &v, &rest))
        return "is not a number of bytes";
    if (!*rest && v > 0)
        return "has no unit: the unit is missing";
    while (*rest && u < NSIZES && strcmp(rest, sizes[u].text) != 0)
        u++;
    if (u == NSIZES)
        return "has an unknown unit";
    v *= sizes[u].bytes;
    if (v > BYTES_MAX || (v > 0 && v < 1))
        return "is out of range";
    *bytes = v;
    return NULL;
}

static const char *parse_time(const char *text, bool zero, double *seconds)
{
    const char *rest;
    double v = 0;
    size_t u = 0;
    if (!parse_number(text, &v, &rest))
        return "is not a time";
    if (!*rest && v > 0)
        return "has no unit: the unit is missing";
    while (*rest && u < NUNITS && strcmp(rest, units[u].text) != 0)
        u++;
    if (u == NUNITS)
        return "has an unknown unit";
    v *= units[u].s;
    if (v > 0 ? v < TIME_MIN_S || v > TIME_MAX_S : !zero)
        return "is out of range";
    *seconds = v;
    return NULL;
}

static const char *parse_time_key(const struct key *k, const char *text, double *seconds)
{
    double v = 0;
    const char *why = parse_time(text, k->min <= 0, &v);
    if (!why && v > 0 && (v < k->min || (k->max > 0 && v > k->max)))
        why = "is out of range";
    if (!why)
        *seconds = v;
    return why;
}

const char *ftk_config_time(const char *text, double *seconds)
{
    return parse_time(text, false, seconds);
}

const char *ftk_config_bytes(const char *text, double *bytes)
{
    return parse_bytes(text, bytes);
}

static const char *parse_period(const struct key *k, const char *text, struct ftk_period *period)
{
    const char *rest;
    double v = 0;
    if (strcasecmp(text, "auto") == 0) {
        *period = (struct ftk_period){ .kind = FTK_PERIOD_AUTO };
        return NULL;
    }
    if (!parse_number(text, &v, &rest))
        return "is neither auto nor a number nor a time";
    size_t n = strlen(k->count);
    if (*rest && (strncmp(rest, k->count, n) != 0 || (rest[n] && strcmp(rest + n, "s") != 0))) {
        const char *why = parse_time(text, false, &v);
        if (!why)
            *period = (struct ftk_period){ .kind = FTK_PERIOD_SECONDS, .value = v };
        return why;
    }
    if (memchr(text, '.', (size_t)(rest - text)))
        return "is not a whole number and has no unit of time";
    if (v < 1 || v > COUNT_MAX)
        return "is out of range";
    *period = (struct ftk_period){ FTK_PERIOD_COUNT, v, *rest == '\0' };
    return NULL;
}

static const char *parse_path(const struct key *k, const char *text, char *path)
{
    size_t bytes = strlen(text);
    if (bytes < (size_t)k->min)
        return "is empty";
    if (bytes >= FTK_PATH_MAX)
        return "is too long";
    if (text[0] == '~')
        return "begins with ~, which only a shell expands: write the whole path";
    for (const char *c = strchr(text, '$'); c; c = strchr(c + 1, '$'))
        if (c[1] == '{' || c[1] == '(' || c[1] == '_' || isalpha((unsigned char)c[1]))
            return "has a variable ($), which only a shell expands: write the whole path";
    memset(path, 0, FTK_PATH_MAX);
    memcpy(path, text, bytes);
    return NULL;
}

static const char *parse_name(const struct key *k, const char *text, char *name)
{
    size_t bytes = strlen(text);
    if (bytes < (size_t)k->min)
        return "is empty";
    if (bytes > FTKIT_NAME_MAX)
        return "is too long";
    for (const char *c = text; *c; c++)
        if (*c < 0x20 || *c > 0x7e || *c == '/')
            return "has a character that is not allowed";
    memset(name, 0, FTKIT_NAME_MAX + 1);
    memcpy(name, text, bytes);
    return NULL;
}

static const char *parse_supply(const struct key *k, const char *text, struct ftk_config *cfg)
{
    int n = 0;
    memset(cfg->supply, 0, sizeof cfg->supply);
    for (;;) {
        char item[16];
        size_t bytes = strcspn(text, ","), all = bytes;
        const char *from = text;
        trim(&from, &bytes);
        snprintf(item, sizeof item, "%.*s", bytes < 15 ? (int)bytes : 15, from);
        const struct word *w = find_word(k->words, item);
        if (!w)
            return bytes ? "has an unknown word" : "has an empty place in the list";
        for (int i = 0; i < n; i++)
            if (cfg->supply[i] == w->value)
                return "has a word twice";
        if (n > 0 && cfg->supply[n - 1] == FTK_SUPPLY_END)
            return "has words after end";
        cfg->supply[n++] = w->value; /* there is room, because no word appears twice */
        cfg->nsupply = n;
        if (!text[all])
            return NULL;
        text += all + 1;
    }
}

/* newest, fresh, or the number of a set. */
/* 0: none; > 0: seconds since the start; < 0: the negative of seconds since 1970. */
static const char *parse_deadline(const char *text, double *deadline)
{
    const char *rest;
    double at = 0;
    *deadline = 0;
    if (strcmp(text, "none") == 0)
        return NULL;
    if (*text != '@')
        return parse_time(text, false, deadline);
    if (!parse_number(text + 1, &at, &rest) || *rest)
        return "has no number of seconds after the @";
    if (at < 1 || at > 1e12)
        return "is out of range";
    *deadline = -at;
    return NULL;
}

static const char *parse_start(const struct key *k, const char *text, uint64_t *start)
{
    const struct word *w = find_word(k->words, text);
    if (w) {
        *start = start_values[w->value];
        return NULL;
    }
    errno = 0;
    unsigned long long v = strtoull(text, NULL, 10);
    if (!*text || text[strspn(text, "0123456789")])
        return "is neither newest nor fresh nor older nor continue nor a number";
    if (v == 0 || v >= INT64_MAX || errno != 0)
        return "is out of range";
    *start = v;
    return NULL;
}

static const char *parse_value(const struct key *k, const char *text, struct ftk_config *cfg)
{
    void *at = (char *)cfg + k->offset;
    const char *why = value_flaw(text);
    int value = 0;
    if (why)
        return why;
    switch (k->type) {
    case T_BOOL:
        why = parse_word(k, text, &value);
        *(bool *)at = value != 0;
        return why;
    case T_INT:
        return parse_int(k, text, at);
    case T_BYTES:
        return parse_bytes(text, at);
    case T_TIME:
        return parse_time_key(k, text, at);
    case T_PERIOD:
        return parse_period(k, text, at);
    case T_WORD:
        return parse_word(k, text, at);
    case T_PATH:
        return parse_path(k, text, at);
    case T_NAME:
        return parse_name(k, text, at);
    case T_SUPPLY:
        return parse_supply(k, text, cfg);
    case T_START:
        return parse_start(k, text, at);
    case T_DEADLINE:
        return parse_deadline(text, at);
    }
    return "has no type";
}

/* Replace out by a shorter text with another unit, if the text parses to exactly v. */
static void format_unit(double v, const char *name, double unit, char *out, size_t bytes)
{
    char text[64];
    for (int digits = 1; digits <= 15; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v / unit);
        if (strchr(text, 'e') || strtod(text, NULL) * unit != v)
            continue;
        if (strlen(text) + strlen(name) < strlen(out))
            snprintf(out, bytes, "%s%s", text, name);
        return;
    }
}

/* The shortest text that parses to exactly these seconds. */
static void format_time(double s, char *out, size_t bytes)
{
    snprintf(out, bytes, s > 0 ? "%.17gs" : "0", s);
    for (size_t u = 0; s > 0 && u < NUNITS; u++)
        format_unit(s, units[u].text, units[u].s, out, bytes);
}

static void format_bytes(double n, char *out, size_t bytes)
{
    snprintf(out, bytes, n > 0 ? "%.17gB" : "0", n);
    for (size_t u = 0; n > 0 && u < NSIZES; u++)
        format_unit(n, sizes[u].text, sizes[u].bytes, out, bytes);
}

static void format_period(const struct key *k, const struct ftk_period *p, char *out, size_t bytes)
{
    if (p->kind == FTK_PERIOD_AUTO)
        snprintf(out, bytes, "auto");
    else if (p->kind == FTK_PERIOD_COUNT)
        snprintf(out, bytes, "%.0f %s%s", p->value, k->count, p->value > 1 ? "s" : "");
    else
        format_time(p->value, out, bytes);
}

static const char *word_text(const struct word *words, int value)
{
    while (words->text && words->value != value)
        words++;
    return words->text ? words->text : "?";
}

static void format_supply(
    const struct key *k, const struct ftk_config *cfg, char *out, size_t bytes)
{
    size_t used = 0;
    *out = '\0';
    for (int i = 0; i < cfg->nsupply && i < FTK_SUPPLY_STEPS && used < bytes; i++)
        used += (size_t)snprintf(
            out + used, bytes - used, "%s%s", i ? ", " : "", word_text(k->words, cfg->supply[i]));
}

static void format_start(const struct key *k, uint64_t start, char *out, size_t bytes)
{
    snprintf(out, bytes, "%llu", (unsigned long long)start);
    for (const struct word *w = k->words; w->text; w++)
        if (start_values[w->value] == start)
            snprintf(out, bytes, "%s", w->text);
}

static void format_deadline(double deadline, char *out, size_t bytes)
{
    if (deadline > 0)
        format_time(deadline, out, bytes);
    else if (deadline < 0)
        snprintf(out, bytes, "@%.17g", -deadline);
    else
        snprintf(out, bytes, "none");
}

static void format_value(const struct key *k, const struct ftk_config *cfg, char *out, size_t bytes)
{
    const void *at = (const char *)cfg + k->offset;
    switch (k->type) {
    case T_BOOL:
        snprintf(out, bytes, "%s", word_text(k->words, *(const bool *)at));
        break;
    case T_INT:
        snprintf(out, bytes, "%d", *(const int *)at);
        break;
    case T_BYTES:
        format_bytes(*(const double *)at, out, bytes);
        break;
    case T_TIME:
        format_time(*(const double *)at, out, bytes);
        break;
    case T_PERIOD:
        format_period(k, at, out, bytes);
        break;
    case T_WORD:
        snprintf(out, bytes, "%s", word_text(k->words, *(const int *)at));
        break;
    case T_PATH:
    case T_NAME:
        snprintf(out, bytes, "%s", (const char *)at);
        break;
    case T_SUPPLY:
        format_supply(k, cfg, out, bytes);
        break;
    case T_START:
        format_start(k, *(const uint64_t *)at, out, bytes);
        break;
    case T_DEADLINE:
        format_deadline(*(const double *)at, out, bytes);
        break;
    }
}

/* ---- Loading ------------------------------------------------------------------------- */

struct loader {
    struct ftk_config cfg;
    int set_on[NKEYS];     /* line of each key; 0: default, FROM_ENV: environment */
    int section_on[NKEYS]; /* line of each section, at its first key; 0: none */
    const char *path;      /* NULL for none */
    const char *env;       /* variable being read, for messages; NULL: the file */
    const char *pos, *end; /* the unread rest */
    int line;              /* line being read, from 1 */
    int section;           /* first key of the section, -1 before any */
    bool pending;          /* inih has a line and must report it as a key */
    bool has_value;        /* the line was too long for inih: value has its value */
    char value[LINE_BYTES_MAX + 1];
    int rc; /* the first failure: nothing is read after it */
};

/* Return the end of a long path, which identifies the file better than the beginning. */
static const char *path_tail(const char *path)
{
    size_t n = strlen(path);
    if (n <= 160)
        return path;
    path += n - 160;
    while (((unsigned char)*path & 0xc0) == 0x80)
        path++;
    return path;
}

/* "file:line" or the name of the variable. */
static void say_place(const struct loader *p, char *out, size_t bytes)
{
    if (p->env) {
        snprintf(out, bytes, "environment variable %s", p->env);
        return;
    }
    const char *tail = path_tail(p->path);
    snprintf(out, bytes, "%s%s:%d", tail == p->path ? "" : "...", tail, p->line);
}

/* Fail with the place and a text. */
FTK_PRINTF(2, 3) static int fail_here(struct loader *p, const char *fmt, ...)
{
    char text[FTK_DETAIL_MAX], place[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    say_place(p, place, sizeof place);
    return ftk_fail(FTKIT_ERR_CONFIG, "%s: %s", place, text);
}

static int set_key(struct loader *p, int k, const char *text)
{
    char value[64], values[WORDS_MAX];
    const char *why = parse_value(&keys[k], text, &p->cfg);
    if (!why) {
        p->set_on[k] = p->env ? FROM_ENV : p->line;
        return FTKIT_OK;
    }
    if (value_flaw(text)) /* do not show a value with such bytes */
        return fail_here(p, "the value of %s.%s %s", keys[k].section, keys[k].name, why);
    return fail_here(p, "%s.%s = '%s' %s; allowed: %s", keys[k].section, keys[k].name,
        shown(text, value), why, values_of(&keys[k], values));
}

static int open_section(struct loader *p, const char *text, size_t bytes)
{
    char name[LINE_BYTES_MAX + 1], part[64];
    const char *close = memchr(text, ']', bytes);
    if (!close)
        return fail_here(p, "a section begins here and has no ']'");
    const char *behind = close + 1, *from = text + 1;
    size_t left = (size_t)(text + bytes - behind), n = (size_t)(close - from);
    trim(&behind, &left);
    if (left > 0 && *behind != ';' && *behind != '#')
        return fail_here(p, "only a comment may follow a section's ']'");
    trim(&from, &n);
    memcpy(name, from, n);
    name[n] = '\0';
    for (int k = 0; k < NKEYS; k++) {
        if (!first_of_section(k) || strcmp(keys[k].section, name) != 0)
            continue;
        if (p->section_on[k])
            return fail_here(
                p, "section [%s] appears twice, first on line %d", name, p->section_on[k]);
        p->section_on[k] = p->line;
        p->section = k;
        return FTKIT_OK;
    }
    return fail_here(
        p, "unknown section '%s': did you mean '%s'?", shown(name, part), nearest_section(name));
}

/* Give a line to inih, without its value when inih has no room for it. */
static int give_line(struct loader *p, const char *text, size_t bytes, char *buf, size_t room)
{
    size_t head = bytes;
    p->has_value = bytes + 2 > room;
    if (p->has_value) {
        head = 0;
        while (head < bytes && text[head] != '=' && text[head] != ':')
            head++;
        if (head == bytes)
            return fail_here(p, "a long line that is not 'key = value'");
        head++;
        if (head + 2 > room)
            return fail_here(p, "the key is too long");
        const char *value = text + head;
        size_t n = 0, all = bytes - head;
        while (n < all && !(n > 0 && value[n] == ';' && is_blank(value[n - 1])))
            n++;
        trim(&value, &n);
        memcpy(p->value, value, n);
        p->value[n] = '\0';
    }
    memcpy(buf, text, head);
    memcpy(buf + head, "\n", 2);
    return FTKIT_OK;
}

/* The reader of inih: the next line, trimmed; a blank line in place of lines without a key. */
static char *next_line(char *buf, int room, void *stream)
{
    struct loader *p = stream;
    if (p->pending)
        p->rc = fail_here(p, "this is neither 'key = value' nor a section nor a comment");
    p->pending = false;
    if (p->rc != FTKIT_OK || p->pos == p->end || room < 3)
        return NULL;
    const char *text = p->pos;
    const char *newline = memchr(text, '\n', (size_t)(p->end - text));
    size_t bytes = (size_t)((newline ? newline : p->end) - text);
    p->pos = newline ? newline + 1 : p->end;
    p->line++;
    trim(&text, &bytes);
    memcpy(buf, "\n", 2);
    if (bytes > LINE_BYTES_MAX) {
        p->rc = fail_here(p, "the line is longer than %d bytes", LINE_BYTES_MAX);
    } else if (bytes > 0 && *text == '[') {
        p->rc = open_section(p, text, bytes);
    } else if (bytes > 0 && *text != ';' && *text != '#') {
        p->rc = give_line(p, text, bytes, buf, (size_t)room);
        p->pending = p->rc == FTKIT_OK;
    }
    return p->rc == FTKIT_OK ? buf : NULL;
}

/* The handler of inih: one key.  inih knows no section, see next_line(). */
static int on_key(void *user, const char *section, const char *name, const char *value)
{
    struct loader *p = user;
    char part[64];
    (void)section;
    if (!name || !value)
        return 0; /* the line stays pending, so next_line() reports it */
    p->pending = false;
    if (p->section < 0) {
        const struct key *near = nearest_key("", name);
        p->rc = fail_here(p, "key '%s' is outside any section: did you mean '%s.%s'?",
            shown(name, part), near->section, near->name);
        return 0;
    }
    const char *in = keys[p->section].section;
    for (int k = p->section; k < NKEYS && strcmp(keys[k].section, in) == 0; k++) {
        if (strcmp(keys[k].name, name) != 0)
            continue;
        p->rc = p->set_on[k] ? fail_here(
                    p, "key '%s.%s' appears twice, first on line %d", in, name, p->set_on[k])
                             : set_key(p, k, p->has_value ? p->value : value);
        return p->rc == FTKIT_OK;
    }
    const struct key *near = nearest_key(in, name);
    p->rc = fail_here(p, "unknown key '%s.%s': did you mean '%s.%s'?", in, shown(name, part),
        near->section, near->name);
    return 0;
}

static int fail_file(const char *path, const char *why)
{
    const char *tail = path_tail(path);
    return ftk_fail(
        FTKIT_ERR_CONFIG, "configuration file %s%s: %s", tail == path ? "" : "...", tail, why);
}

/* Fail with FTKIT_ERR_CONFIG, as for every mistake in a configuration. */
static int fail_file_errno(const char *path, int err)
{
    char why[64];
    return fail_file(path, strerror_r(err, why, sizeof why));
}

static int fail_size(const char *path, uint64_t bytes)
{
    char why[96];
    uint64_t mib = FILE_MAX, kib = 1024; /* KiB where MiB would be too coarse */
    if (bytes >= 10 * mib)
        snprintf(why, sizeof why, "is %llu MiB, more than a configuration can be",
            (unsigned long long)(bytes / mib));
    else
        snprintf(why, sizeof why, "is %llu KiB, more than a configuration can be",
            (unsigned long long)((bytes + kib - 1) / kib));
    return fail_file(path, why);
}

static int read_all(const char *path, int fd, char *text, size_t *bytes)
{
    size_t got = 0;
    while (got <= FILE_MAX) {
        ssize_t n = read(fd, text + got, FILE_MAX + 1 - got);
        if (n == 0)
            break;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_file_errno(path, errno);
        got += (size_t)n;
    }
    if (got > FILE_MAX) /* the file grew after fstat() */
        return fail_size(path, got);
    *bytes = got;
    return FTKIT_OK;
}

/* Read the whole file; *text comes from malloc().  Only regular files: a pipe would
 * block or be empty on all processes but one. */
static int read_file(const char *path, char **text, size_t *bytes)
{
    struct stat st;
    int rc = FTKIT_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fail_file_errno(path, errno);
    char *buf = NULL;
    if (fstat(fd, &st) != 0)
        rc = fail_file_errno(path, errno);
    else if (S_ISDIR(st.st_mode))
        rc = fail_file(path, "is a directory");
    else if (!S_ISREG(st.st_mode))
        rc = fail_file(path, "is not a regular file");
    else if ((uint64_t)st.st_size > FILE_MAX)
        rc = fail_size(path, (uint64_t)st.st_size);
    else if (!(buf = malloc(FILE_MAX + 1)))
        rc = ftk_fail_errno(ENOMEM, "configuration file %s", path_tail(path));
    else
        rc = read_all(path, fd, buf, bytes);
    close(fd); /* nothing was written, so there is nothing to lose */
    if (rc == FTKIT_OK)
        *text = buf;
    else
        free(buf);
    return rc;
}

static int check_bytes(struct loader *p)
{
    size_t bytes = (size_t)(p->end - p->pos);
    size_t bad = ftk_utf8_bad_byte(p->pos, bytes);
    if (bad == bytes)
        return FTKIT_OK;
    p->line = 1;
    for (size_t i = 0; i < bad; i++)
        p->line += p->pos[i] == '\n';
    unsigned char byte = (unsigned char)p->pos[bad];
    if (byte == 0)
        return fail_here(p, "a NUL byte: this is not a text file");
    return fail_here(p, "byte 0x%02x: %s", byte,
        byte < 0x80 ? "control characters are not allowed" : "this is not UTF-8");
}

static int load_file(struct loader *p)
{
    char *text = NULL;
    size_t bytes = 0;
    if (strlen(p->path) >= FTK_PATH_MAX)
        return fail_file(p->path, "the path is too long");
    int rc = read_file(p->path, &text, &bytes);
    if (rc != FTKIT_OK)
        return rc;
    size_t skip = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    p->pos = text + skip;
    p->end = text + bytes;
    rc = check_bytes(p);
    if (rc == FTKIT_OK) {
        int ini = ini_parse_stream(next_line, p, on_key, p);
        rc = p->rc;
        if (rc == FTKIT_OK && (p->pending || p->pos != p->end || ini < 0))
            rc = fail_here(p, "cannot be read by inih (code %d)", ini);
    }
    p->pos = p->end = NULL;
    free(text);
    memcpy(p->cfg.source, p->path, strlen(p->path));
    return rc;
}

static bool is_variable(const char *name)
{
    char known[ENV_NAME_MAX];
    for (int k = 0; k < NKEYS; k++) {
        env_name(&keys[k], known);
        if (strcmp(name, known) == 0)
            return true;
    }
    return false;
}

/* Return the key for which a variable was most likely meant: the variable begins like the variables
 * of a section, or is nearly the variable of a key.  NULL: it is no variable of ftkit. */
static const struct key *meant_by(const char *variable)
{
    const struct key *best = NULL;
    size_t least = 3;
    bool ours = false;
    for (int k = 0; k < NKEYS; k++) {
        char name[ENV_NAME_MAX];
        env_name(&keys[k], name);
        size_t section = strlen(name) - strlen(keys[k].name); /* with its underscore */
        if (!ours && strncmp(variable, name, section) == 0) {
            ours = true;
            least = SIZE_MAX;
        }
        size_t d = ftk_config_distance(variable, name);
        if (d < least) {
            least = d;
            best = &keys[k];
        }
    }
    return best;
}

/* Whether a variable is of ftkit and no key: `ftkit run`, the tests and bindings/compat use it; or
 * an installation says with it where ftkit is. */
static bool is_other(const char *name)
{
    static const char *const begin[] = { "RUN_", "TEST_", "FAULT" };
    static const char *const all[] = { "SPAWNED", "GUARD", "HALVES", "MPIRUN", "NO_INSTALL", "ROOT",
        "HOME", "DIR", "BASE", "PREFIX", "PATH", "VERSION", "BIN", "LIB", "LIBDIR", "INC",
        "INCLUDE", "DOC", "MOD", "LICENSE", "VELOC_CONFIG" };
    name += strlen("FTKIT_");
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
        if (strncmp(name, begin[i], strlen(begin[i])) == 0)
            return true;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(name, all[i]) == 0)
            return true;
    return false;
}

static int check_names(void)
{
    for (char **e = environ; *e; e++) {
        char name[ENV_NAME_MAX], near[ENV_NAME_MAX];
        size_t n = strcspn(*e, "=");
        if (strncmp(*e, "FTKIT_", 6) != 0 || n >= sizeof name)
            continue;
        memcpy(name, *e, n);
        name[n] = '\0';
        if (is_variable(name) || is_other(name))
            continue;
        const struct key *k = meant_by(name);
        if (!k)
            return ftk_fail(FTKIT_ERR_CONFIG,
                "unknown environment variable %s: no key has it (`ftkit config` prints all keys)",
                name);
        env_name(k, near);
        return ftk_fail(
            FTKIT_ERR_CONFIG, "unknown environment variable %s: did you mean %s?", name, near);
    }
    return FTKIT_OK;
}

static int load_environment(struct loader *p)
{
    int named = check_names();
    if (named != FTKIT_OK)
        return named;
    for (int k = 0; k < NKEYS; k++) {
        char name[ENV_NAME_MAX], text[VALUE_MAX] = "";
        env_name(&keys[k], name);
        const char *value = getenv(name);
        if (!value)
            continue;
        size_t bytes = strlen(value);
        trim(&value, &bytes); /* as for a value in a file */
        p->env = name;
        if (bytes >= sizeof text)
            return fail_here(p, "the value is too long (%zu bytes)", bytes);
        memcpy(text, value, bytes);
        text[bytes] = '\0';
        int rc = set_key(p, k, text);
        if (rc != FTKIT_OK)
            return rc;
        p->env = NULL;
    }
    return FTKIT_OK;
}

static const struct key *key_named(const char *section, const char *name)
{
    const struct key *k = keys;
    while (strcmp(k->section, section) != 0 || strcmp(k->name, name) != 0)
        k++;
    return k;
}

/* The text of a key in a job without a file.  Return NULL, or a text about the mistake. */
static const char *text_without_file(const struct key *k, char text[VALUE_MAX])
{
    char variable[ENV_NAME_MAX];
    env_name(k, variable);
    const char *value = getenv(variable);
    if (!value)
        value = k->def;
    size_t bytes = strlen(value);
    trim(&value, &bytes);
    if (bytes >= VALUE_MAX)
        return "is too long";
    memcpy(text, value, bytes);
    text[bytes] = '\0';
    return NULL;
}

const char *ftk_config_time_of(const char *section, const char *name, double *seconds)
{
    char text[VALUE_MAX];
    const struct key *k = key_named(section, name);
    const char *why = text_without_file(k, text);
    return why ? why : parse_time_key(k, text, seconds);
}

const char *ftk_config_word_of(const char *section, const char *name, int *value)
{
    char text[VALUE_MAX];
    const struct key *k = key_named(section, name);
    const char *why = text_without_file(k, text);
    return why ? why : parse_word(k, text, value);
}

static int key_at(size_t offset)
{
    int k = 0;
    while (keys[k].offset != offset)
        k++;
    return k;
}

/* Fail with the place at which a key is set. */
static int fail_key(struct loader *p, int k, const char *why)
{
    char name[ENV_NAME_MAX];
    if (p->set_on[k] == 0)
        return ftk_fail(FTKIT_ERR_CONFIG, "%s.%s: %s", keys[k].section, keys[k].name, why);
    env_name(&keys[k], name);
    p->env = p->set_on[k] == FROM_ENV ? name : NULL;
    p->line = p->set_on[k];
    int rc = fail_here(p, "%s.%s: %s", keys[k].section, keys[k].name, why);
    p->env = NULL;
    return rc;
}

/* A directory that the configuration names must exist; the default is made when it is used. */
static int check_directory(struct loader *p)
{
    char text[64], why[320];
    const char *dir = p->cfg.h5_dir;
    struct stat st;
    int k = key_at(AT(h5_dir));
    if (!p->cfg.h5_enabled || p->set_on[k] == 0)
        return FTKIT_OK;
    int err = stat(dir, &st) != 0 ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
    if (err == 0)
        return FTKIT_OK;
    snprintf(why, sizeof why, "missing path '%.160s': %s; make the directory or name another one",
        path_tail(dir), strerror_r(err, text, sizeof text));
    return fail_key(p, k, why);
}

/* Only one key may give the teams, and a list must have the form of a list.  Whether the teams fit
 * the job is checked when its ranks are known. */
static int check_teams(struct loader *p)
{
    const struct ftk_config *c = &p->cfg;
    const int list = key_at(AT(log_team_list)), file = key_at(AT(log_team_file));
    struct ftk_teams_flaw flaw;
    if (*c->log_team_list && *c->log_team_file)
        return fail_key(p, file, "log.team_list says what the teams are: only one of them can");
    if (c->log_team_size > 0 && (*c->log_team_list || *c->log_team_file))
        return fail_key(p, *c->log_team_list ? list : file,
            "log.team_size is not 0: only one of them can say what the teams are");
    if (c->log_teams == FTK_TEAMS_DYNAMIC && c->log_team_size == 0)
        return fail_key(p, key_at(AT(log_teams)), "dynamic needs log.team_size");
    if (*c->log_team_list
        && !ftk_teams_parse(c->log_team_list, strlen(c->log_team_list), false, 0, NULL, &flaw))
        return fail_key(p, list, flaw.why);
    if (*c->log_silent && !ftk_teams_parse_ranks(c->log_silent, 0, NULL, &flaw))
        return fail_key(p, key_at(AT(log_silent)), flaw.why);
    return FTKIT_OK;
}

/* Teams and their messages belong to a fixed number of ranks. */
static int check_supply(struct loader *p)
{
    bool shrinks = false;
    for (int i = 0; i < p->cfg.nsupply; i++)
        shrinks = shrinks || p->cfg.supply[i] == FTK_SUPPLY_SHRINK;
    if (!p->cfg.log_enabled || !shrinks)
        return FTKIT_OK;
    return fail_key(p, key_at(AT(supply)),
        "shrink cannot be together with log.enabled: the message log "
        "needs all ranks to be replaced");
}

/* Add a line to the warnings; without effect when there is no more room. */
static void warn_key(struct loader *p, int k, const char *why)
{
    char name[ENV_NAME_MAX], place[256] = "";
    char *out = p->cfg.warnings;
    size_t used = strlen(out), room = sizeof p->cfg.warnings - used;
    env_name(&keys[k], name);
    p->env = p->set_on[k] == FROM_ENV ? name : NULL;
    p->line = p->set_on[k];
    if (p->set_on[k] != 0)
        say_place(p, place, sizeof place);
    p->env = NULL;
    int n = snprintf(out + used, room, "%s%s%s.%s: %s\n", place, *place ? ": " : "",
        keys[k].section, keys[k].name, why);
    if (n < 0 || (size_t)n >= room)
        out[used] = '\0';
}

/* Called for each finding of ftk_config_sense(): the first refused value ends the loading. */
static void on_sense(void *arg, enum ftk_sense kind, size_t offset, const char *why)
{
    struct loader *p = arg;
    int k = key_at(offset);
    if (kind == FTK_SENSE_WRONG && p->rc == FTKIT_OK)
        p->rc = fail_key(p, k, why);
    else if (kind == FTK_SENSE_ODD || (kind == FTK_SENSE_IDLE && p->set_on[k] != 0))
        warn_key(p, k, why);
}

/* Whether `ftkit run` has set a variable, and not the user. */
static bool run_sets(const char *name)
{
    const char *list = getenv(FTK_CONFIG_RUN_SETS);
    size_t n = strlen(name);
    while (list && *list) {
        size_t item = strcspn(list, ",");
        if (item == n && strncmp(list, name, n) == 0)
            return true;
        list += item + (list[item] == ',');
    }
    return false;
}

static void report_origin(const struct loader *p, struct ftk_config_origin *origin)
{
    *origin = (struct ftk_config_origin){ .line = { 0 } };
    for (int k = 0; k < NKEYS; k++) {
        char name[ENV_NAME_MAX];
        env_name(&keys[k], name);
        origin->line[k] = p->set_on[k] == FROM_ENV && run_sets(name) ? FROM_RUN : p->set_on[k];
    }
}

static int load_layers(struct ftk_config *cfg, const char *path, struct ftk_config_origin *origin)
{
    struct loader p = { .path = path, .section = -1, .rc = FTKIT_OK };
    int rc = FTKIT_OK;
    for (int k = 0; k < NKEYS; k++) {
        const char *why = parse_value(&keys[k], keys[k].def, &p.cfg);
        if (why)
            return ftk_fail(
                FTKIT_ERR_INTERNAL, "default of %s.%s %s", keys[k].section, keys[k].name, why);
    }
    if (path)
        rc = load_file(&p);
    if (rc == FTKIT_OK)
        rc = load_environment(&p);
    if (rc == FTKIT_OK)
        rc = check_directory(&p);
    if (rc == FTKIT_OK)
        rc = check_teams(&p);
    if (rc == FTKIT_OK)
        rc = check_supply(&p);
    if (rc == FTKIT_OK) {
        ftk_config_sense(&p.cfg, on_sense, &p);
        rc = p.rc;
    }
    if (rc != FTKIT_OK)
        return rc;
    *cfg = p.cfg;
    if (origin)
        report_origin(&p, origin);
    return rc;
}

int ftk_config_load_origin(
    struct ftk_config *cfg, const char *path, struct ftk_config_origin *origin)
{
    locale_t before = ftk_locale_enter();
    int rc = load_layers(cfg, path, origin);
    ftk_locale_leave(before);
    return rc;
}

int ftk_config_load(struct ftk_config *cfg, const char *path)
{
    return ftk_config_load_origin(cfg, path, NULL);
}

/* ---- Printing ------------------------------------------------------------------------ */

static int check_written(FILE *out)
{
    if (fflush(out) == 0 && !ferror(out))
        return FTKIT_OK;
    return ftk_fail_errno(errno ? errno : EIO, "writing the configuration");
}

void ftk_config_from_run(struct ftk_config_origin *origin, const char *section, const char *name)
{
    for (int k = 0; k < NKEYS; k++)
        if (strcmp(keys[k].section, section) == 0 && strcmp(keys[k].name, name) == 0)
            origin->line[k] = FROM_RUN;
}

static int each(const struct ftk_config *cfg, const struct ftk_config_origin *origin,
    ftk_config_fn *fn, void *arg)
{
    struct ftk_config again;
    char value[VALUE_MAX] = "", env[ENV_NAME_MAX], values[WORDS_MAX];
    int rc = FTKIT_OK;
    for (int k = 0; rc == FTKIT_OK && k < NKEYS; k++) {
        const struct key *key = &keys[k];
        int line = origin ? origin->line[k] : 0;
        format_value(key, cfg, value, sizeof value);
        const char *why = parse_value(key, value, &again);
        if (why) /* not from ftk_config_load() */
            return ftk_fail(FTKIT_ERR_ARG, "the value of %s.%s %s", key->section, key->name, why);
        env_name(key, env);
        const struct ftk_config_item item = { .section = key->section,
            .name = key->name,
            .value = value,
            .values = values_of(key, values),
            .def = key->def,
            .doc = key->doc,
            .variable = env,
            .from = line == FROM_RUN   ? FTK_FROM_RUN
                    : line == FROM_ENV ? FTK_FROM_ENVIRONMENT
                    : line > 0         ? FTK_FROM_FILE
                                       : FTK_FROM_DEFAULT,
            .line = line > 0 ? line : 0 };
        rc = fn(arg, &item);
    }
    return rc;
}

int ftk_config_each(const struct ftk_config *cfg, const struct ftk_config_origin *origin,
    ftk_config_fn *fn, void *arg)
{
    locale_t before = ftk_locale_enter();
    int rc = each(cfg, origin, fn, arg);
    ftk_locale_leave(before);
    return rc;
}

struct printing {
    FILE *out;
    const char *file; /* the configuration file, as it can stand in a comment */
    const char *section;
    bool origin; /* say where values come from */
};

static void print_origin(const struct printing *p, const struct ftk_config_item *item)
{
    if (!p->origin)
        return;
    if (item->from == FTK_FROM_FILE)
        fprintf(p->out, "# From: %s:%d\n", p->file, item->line);
    else if (item->from == FTK_FROM_ENVIRONMENT)
        fprintf(p->out, "# From: environment variable %s\n", item->variable);
    else
        fprintf(p->out, "# From: %s\n", item->from == FTK_FROM_RUN ? "ftkit run" : "default");
}

static int print_item(void *arg, const struct ftk_config_item *item)
{
    struct printing *p = arg;
    if (!p->section || strcmp(p->section, item->section) != 0)
        fprintf(p->out, "\n[%s]\n", item->section);
    p->section = item->section;
    fprintf(p->out, "# %s\n# Values: %s.\n# Default: '%s'.  Environment: %s.\n", item->doc,
        item->values, item->def, item->variable);
    print_origin(p, item);
    fprintf(p->out, "%s =%s%s\n", item->name, *item->value ? " " : "", item->value);
    return FTKIT_OK;
}

int ftk_config_print_origin(
    FILE *out, const struct ftk_config *cfg, const struct ftk_config_origin *origin)
{
    bool name_it = *cfg->source && !value_flaw(cfg->source);
    struct printing p = {
        .out = out, .file = name_it ? cfg->source : "the file", .origin = origin != NULL
    };
    fprintf(out, "# ftkit configuration in force%s%s\n", name_it ? ", from " : "",
        name_it ? cfg->source : "");
    int rc = ftk_config_each(cfg, origin, print_item, &p);
    return rc == FTKIT_OK ? check_written(out) : rc;
}

int ftk_config_print(FILE *out, const struct ftk_config *cfg)
{
    return ftk_config_print_origin(out, cfg, NULL);
}

int ftk_config_document(FILE *out)
{
    char env[ENV_NAME_MAX], values[WORDS_MAX];
    for (int k = 0; k < NKEYS; k++) {
        const struct key *key = &keys[k];
        if (first_of_section(k))
            fprintf(out,
                "%s## [%s]\n\n"
                "| Key | Values | Default | Environment variable | Meaning |\n"
                "| --- | --- | --- | --- | --- |\n",
                k ? "\n" : "", key->section);
        env_name(key, env);
        const char *tick = *key->def ? "`" : "";
        fprintf(out, "| `%s` | %s | %s%s%s | `%s` | %s |\n", key->name, values_of(key, values),
            tick, *key->def ? key->def : "empty", tick, env, key->doc);
    }
    return check_written(out);
}
