/* Reading failure logs: the format of Los Alamos, one of ftkit's own, events of nodes by Slurm.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The log of Los Alamos National Laboratory (LA-UR-05-7318) has a line for each failure of a node
 * in 23 systems of 1996 to 2005.  Lines of one node follow each other in the order of times. */
#define _GNU_SOURCE
#include <search.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "failures.h"

/* ---- formats -------------------------------------------------------------------------------- */

enum role { NO_ROLE, SYSTEM, NODE, TIME, END, STATE, ROLES };

struct column {
    const char *name;
    enum role role;
    bool needed;
};

struct reader;
struct format {
    const char *name;
    const struct column *columns; /* all that it may have, up to a NULL */
    int (*row)(struct reader *r); /* take in a line; 0, or TOOL_FAIL after a message */
};

static const struct column lanl_columns[] = {
    { "System", SYSTEM, true },
    { "nodenumz", NODE, true },
    { "Prob Started", TIME, true },
    { "Prob Fixed", END, true },
    { "machine type", NO_ROLE, false },
    { "nodes", NO_ROLE, false },
    { "procstot", NO_ROLE, false },
    { "procsinnode", NO_ROLE, false },
    { "nodenum", NO_ROLE, false },
    { "node install", NO_ROLE, false },
    { "node prod", NO_ROLE, false },
    { "node decom", NO_ROLE, false },
    { "fru type", NO_ROLE, false },
    { "mem", NO_ROLE, false },
    { "cputype", NO_ROLE, false },
    { "memtype", NO_ROLE, false },
    { "num intercon", NO_ROLE, false },
    { "purpose", NO_ROLE, false },
    { "Down Time", NO_ROLE, false },
    { "Facilities", NO_ROLE, false },
    { "Hardware", NO_ROLE, false },
    { "Human Error", NO_ROLE, false },
    { "Network", NO_ROLE, false },
    { "Undetermined", NO_ROLE, false },
    { "Software", NO_ROLE, false },
    { "Same Event", NO_ROLE, false },
    { NULL, NO_ROLE, false },
};

static const struct column own_columns[] = {
    { "time", TIME, true },
    { "node", NODE, true },
    { "repair", END, false },
    { NULL, NO_ROLE, false },
};

/* of sacctmgr list event, and of sinfo with a format */
static const struct column slurm_columns[] = {
    { "NodeName", NODE, true },
    { "NodeList", NODE, true },
    { "TimeStart", TIME, true },
    { "Timestamp", TIME, true },
    { "State", STATE, true },
    { "TimeEnd", END, false },
    { "Cluster", SYSTEM, false },
    { "ClusterNodes", NO_ROLE, false },
    { "CPUCount", NO_ROLE, false },
    { "Duration", NO_ROLE, false },
    { "Event", NO_ROLE, false },
    { "EventRaw", NO_ROLE, false },
    { "Reason", NO_ROLE, false },
    { "StateRaw", NO_ROLE, false },
    { "TRES", NO_ROLE, false },
    { "User", NO_ROLE, false },
    { "", NO_ROLE, false }, /* behind the last | of sacctmgr -p */
    { NULL, NO_ROLE, false },
};

struct reader {
    struct ftk_failure_input in;
    struct ftk_failure_log *log;
    const struct format *format;
    const char *system; /* the one that is wanted, NULL: any */
    struct ftk_list header;
    size_t at[ROLES]; /* the column of a role plus 1; 0: there is none */
    void *names;      /* a tree of names of nodes, see node_number() */
    double last_s;    /* time of the last record */
    int last_node;
    size_t line_first; /* records before those of this line */
};

/* A message about a field of the line. */
static int wrong(const struct reader *r, size_t column, const char *fmt, ...) FTK_PRINTF(3, 4);
static int wrong(const struct reader *r, size_t column, const char *fmt, ...)
{
    char what[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    const char *name = column <= r->header.n ? r->header.v[column - 1] : "";
    char shown[64];
    snprintf(shown, sizeof shown, "%s", ftk_tool_why(name));
    ftk_tool_say("%s:%zu: column %zu%s%s%s: %s", r->in.path, r->in.line, column, *name ? " (" : "",
        shown, *name ? ")" : "", ftk_tool_why(what));
    return TOOL_FAIL;
}

static const char *field(const struct reader *r, enum role role)
{
    return r->at[role] > 0 ? r->in.field[r->at[role] - 1] : "";
}

/* ---- records -------------------------------------------------------------------------------- */

struct node {
    char *name;
    int number;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct node *)a)->name, ((const struct node *)b)->name);
}

static void free_node(void *p)
{
    struct node *node = p;
    free(node->name);
    free(node);
}

/* Nodes have numbers in the order of their first records. */
static int node_number(struct reader *r, const char *name)
{
    struct node *own = ftk_tool_alloc(sizeof *own);
    own->name = strdup(name);
    own->number = (int)r->log->nodes;
    struct node **found = own->name ? tsearch(own, &r->names, by_name) : NULL;
    if (!found) {
        fputs("ftkit: out of memory\n", stderr);
        exit(TOOL_FAIL);
    }
    if (*found == own)
        r->log->nodes++;
    else
        free_node(own);
    return (*found)->number;
}

static void add(struct reader *r, int node, double at_s, double repair_s)
{
    struct ftk_failure_log *log = r->log;
    log->v = ftk_tool_grow(log->v, log->n, &log->room, sizeof *log->v);
    if (log->n == 0)
        log->first_line = r->in.line;
    log->v[log->n++] =
        (struct ftk_coalesce_record){ .at_s = at_s, .repair_s = repair_s, .node = node };
    r->last_s = at_s;
    r->last_node = node;
}

/* Note the system of a line; whether its records are wanted. */
static bool wanted(struct reader *r)
{
    const char *name = field(r, SYSTEM);
    ftk_list_add_once(&r->log->systems, name, strlen(name));
    return !r->system || strcmp(r->system, name) == 0;
}

/* ---- Los Alamos ----------------------------------------------------------------------------- */

static int lanl_row(struct reader *r)
{
    double at, end;
    if (r->in.n != r->header.n)
        return wrong(r, r->in.n < r->header.n ? r->in.n + 1 : r->header.n + 1,
            "%zu fields, but the header has %zu", r->in.n, r->header.n);
    if (!ftk_failure_date(field(r, TIME), "%m/%d/%Y %H:%M", &at))
        return wrong(r, r->at[TIME], "'%.40s' is no time such as 6/21/2005 10:54", field(r, TIME));
    if (!ftk_failure_date(field(r, END), "%m/%d/%Y %H:%M", &end))
        return wrong(r, r->at[END], "'%.40s' is no time such as 6/21/2005 10:54", field(r, END));
    if (end < at)
        return wrong(r, r->at[END], "the time goes back: the end is before the start");
    if (!wanted(r))
        return TOOL_OK;
    bool one = r->system || r->log->systems.n == 1; /* else the caller asks for one */
    if (!*field(r, NODE) && one)
        return wrong(r, r->at[NODE], "the node is missing");
    int node = node_number(r, field(r, NODE));
    if (one && r->log->n > 0 && node == r->last_node && at < r->last_s)
        return wrong(r, r->at[TIME], "the time goes back: the line before has a later one");
    add(r, node, at, end - at);
    return TOOL_OK;
}

/* ---- the own format ------------------------------------------------------------------------- */

static bool own_time(struct reader *r, const char *text, double *at_s)
{
    bool seconds = ftk_failure_seconds(text, at_s);
    if (r->log->n == 0)
        r->log->dated = !seconds;
    return seconds ? !r->log->dated : r->log->dated && ftk_failure_iso(text, at_s);
}

static int own_row(struct reader *r)
{
    double at, repair = -1;
    size_t nodes = r->in.n - (r->at[END] > 0); /* the columns of nodes end here */
    if (!own_time(r, r->in.field[0], &at))
        return wrong(r, 1, "'%.40s' is no time such as 86400 or 2026-01-31T12:00:00%s",
            r->in.field[0], r->log->n > 0 ? ", of the same form in all lines" : "");
    if (r->log->n > 0 && at < r->last_s)
        return wrong(r, 1, "the time goes back: the line before has a later one");
    if (nodes < 2 || !*r->in.field[1])
        return wrong(r, 2, "the node is missing");
    if (r->at[END] > 0 && *r->in.field[nodes] && !ftk_failure_time(r->in.field[nodes], &repair))
        return wrong(
            r, nodes + 1, "'%.40s' is no repair time such as 1800 or 30min", r->in.field[nodes]);
    for (size_t i = 1; i < nodes; i++)
        if (*r->in.field[i])
            add(r, node_number(r, r->in.field[i]), at, repair);
    return TOOL_OK;
}

/* ---- Slurm ---------------------------------------------------------------------------------- */

/* Whether a state says that the node does not work: DOWN, DOWN*, DOWN+DRAIN, FAIL, FAILING, an
 * error; a star: it does not answer.  A node that is powered down to save energy works. */
static bool is_down(const char *state)
{
    static const char *const words[] = { "down", "fail", "err", "not_responding" };
    const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    if (strchr(state, '*'))
        return true;
    for (const char *p = state + strcspn(state, letters); *p; p += strcspn(p, letters)) {
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            if (strncasecmp(p, words[i], strlen(words[i])) == 0)
                return true;
        p += strspn(p, letters);
    }
    return false;
}

enum { NAME_BYTES = 256, MOST_NODES = 1000000 };

/* Add a record for each node of a name with lists of numbers, such as "rack[1-2]n[08-10,17]"; len
 * bytes of begin are the name.  false: the name is malformed. */
static bool add_nodes(struct reader *r, const char *begin, size_t len, double at, double repair)
{
    char name[NAME_BYTES];
    const char *open = memchr(begin, '[', len);
    const char *close = open ? memchr(open, ']', len - (size_t)(open - begin)) : NULL;
    bool room = r->log->n - r->line_first < MOST_NODES;
    if (len == 0 || len >= sizeof name || (open && !close) || !room)
        return false;
    if (!open) {
        snprintf(name, sizeof name, "%.*s", (int)len, begin);
        add(r, node_number(r, name), at, repair);
        return true;
    }
    for (const char *p = open + 1; p <= close; p++) {
        char *end;
        int digits = (int)strspn(p, "0123456789");
        unsigned long first = strtoul(p, &end, 10), last = first;
        if (digits > 0 && *end == '-') {
            const char *second = end + 1;
            last = strtoul(second, &end, 10);
            digits = end == second ? 0 : digits;
        }
        if (digits == 0 || digits > 9 || (*end != ',' && end != close) || last < first
            || last - first >= MOST_NODES)
            return false;
        for (unsigned long i = first; i <= last; i++) {
            int n = snprintf(name, sizeof name, "%.*s%0*lu%.*s", (int)(open - begin), begin, digits,
                i, (int)(begin + len - close - 1), close + 1);
            if (n >= (int)sizeof name || !add_nodes(r, name, (size_t)n, at, repair))
                return false;
        }
        p = end;
    }
    return true;
}

/* The same for names with commas between them. */
static bool add_list(struct reader *r, const char *list, double at, double repair)
{
    for (;;) {
        size_t len = 0;
        for (bool inside = false; list[len] && (inside || list[len] != ','); len++)
            inside = list[len] == '[' || (inside && list[len] != ']');
        if (!add_nodes(r, list, len, at, repair))
            return false;
        if (!list[len])
            return true;
        list += len + 1;
    }
}

static int slurm_row(struct reader *r)
{
    double at, end = 0;
    const char *until = field(r, END);
    bool known = *until && strcasecmp(until, "Unknown") != 0 && strcasecmp(until, "None") != 0;
    if (r->in.n != r->header.n)
        return wrong(r, r->in.n < r->header.n ? r->in.n + 1 : r->header.n + 1,
            "%zu fields, but the header has %zu", r->in.n, r->header.n);
    if (!*field(r, NODE) || !is_down(field(r, STATE))) {
        r->log->others++; /* an event of the cluster, or a node that is drained and works */
        return TOOL_OK;
    }
    if (!ftk_failure_iso(field(r, TIME), &at))
        return wrong(
            r, r->at[TIME], "'%.40s' is no time such as 2026-01-31T12:00:00", field(r, TIME));
    if (known && !ftk_failure_iso(until, &end))
        return wrong(r, r->at[END], "'%.40s' is no time such as 2026-01-31T12:00:00", until);
    if (known && end < at)
        return wrong(r, r->at[END], "the time goes back: the end is before the start");
    if (!wanted(r))
        return TOOL_OK;
    r->line_first = r->log->n;
    if (!add_list(r, field(r, NODE), at, known ? end - at : -1))
        return wrong(
            r, r->at[NODE], "'%.40s' is no list of nodes such as n[1-3,7]", field(r, NODE));
    return TOOL_OK;
}

/* ---- the file ------------------------------------------------------------------------------- */

static const struct format lanl = { "Los Alamos", lanl_columns, lanl_row };
static const struct format own = { "ftkit", own_columns, own_row };
static const struct format slurm = { "Slurm", slurm_columns, slurm_row };

/* Find the roles of the columns. */
static int take_header(struct reader *r)
{
    static const char known[] =
        "unknown column; ftkit knows `time,node,repair`, the columns of the "
        "Los Alamos log, and those of `sacctmgr list event -P`";
    const struct column *all = r->format->columns, *c;
    for (size_t i = 0; i < r->in.n; i++)
        ftk_list_add(&r->header, "%s", r->in.field[i]);
    for (size_t i = 0; i < r->in.n; i++) {
        for (c = all; c->name && strcasecmp(c->name, r->in.field[i]) != 0; c++)
            ;
        if (!c->name || (!*c->name && i + 1 < r->in.n))
            return wrong(r, i + 1, "%s", known);
        if (c->role == NO_ROLE)
            continue;
        if (r->at[c->role] > 0 && r->format != &own)
            return wrong(r, i + 1, "a second column for the same as column %zu", r->at[c->role]);
        if (r->format == &own && (c->role == TIME ? i > 0 : c->role == END && i + 1 < r->in.n))
            return wrong(r, i + 1, "the order is time,node[,node...][,repair]");
        r->at[c->role] = i + 1;
    }
    for (c = all; c->name; c++)
        if (c->needed && r->at[c->role] == 0)
            return wrong(r, r->in.n + 1, "the column %s is missing", c->name);
    return TOOL_OK;
}

static int read_all(struct reader *r)
{
    int got = ftk_failure_line(&r->in);
    if (got == 0) {
        ftk_tool_say("%s: the file is empty", r->in.path);
        return TOOL_FAIL;
    }
    if (got < 0)
        return TOOL_FAIL;
    r->format = r->in.separator == '|'                    ? &slurm
                : strcasecmp(r->in.field[0], "time") == 0 ? &own
                                                          : &lanl;
    r->log->format = r->format->name;
    r->log->dated = true;
    int code = take_header(r);
    while (code == TOOL_OK && (got = ftk_failure_line(&r->in)) > 0)
        code = r->format->row(r);
    return got < 0 ? TOOL_FAIL : code;
}

int ftk_failures_read(const char *path, const char *system, struct ftk_failure_log *log)
{
    struct reader r = { .log = log, .system = system };
    *log = (struct ftk_failure_log){ 0 };
    int code = ftk_failure_open(&r.in, path);
    if (code)
        return code;
    code = read_all(&r);
    if (code == TOOL_OK && log->n > 0)
        snprintf(log->where, sizeof log->where, "%zu (%s)", r.at[TIME], r.header.v[r.at[TIME] - 1]);
    int closed = ftk_failure_close(&r.in, code == TOOL_OK);
    ftk_list_free(&r.header);
    tdestroy(r.names, free_node);
    return code ? code : closed;
}

/* Say which systems the file has. */
static void say_systems(const char *path, const char *system, const struct ftk_failure_log *log)
{
    char *all = log->systems.n > 0 ? ftk_tool_join(log->systems.v) : NULL;
    if (!all)
        ftk_tool_say("%s: --system has no use: the file does not name systems", path);
    else if (system)
        ftk_tool_say("%s: no records of system %s; there are %s", path, system, all);
    else
        ftk_tool_say("%s: %zu systems: choose one by --system: %s", path, log->systems.n, all);
    free(all);
}

int ftk_failures_read_one(const char *path, const char *system, struct ftk_failure_log *log)
{
    int code = ftk_failures_read(path, system, log);
    bool choice = system ? log->systems.n == 0 || log->n == 0 : log->systems.n > 1;
    if (code == TOOL_OK && choice) {
        say_systems(path, system, log);
        code = TOOL_FAIL;
    } else if (code == TOOL_OK && log->n == 0) {
        ftk_tool_say(
            "%s: no failure of a node; lines about something else: %zu", path, log->others);
        code = TOOL_FAIL;
    }
    return code;
}

void ftk_failures_free(struct ftk_failure_log *log)
{
    ftk_list_free(&log->systems);
    free(log->v);
}
