/* ftkit sim --with: the job with other costs.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stddef.h>
#include <string.h>

#include "sim.h"

static const struct {
    const char *key;
    size_t at; /* in struct pl_ask */
    double low;
    bool level; /* which a job may do without */
} costs[SM_COSTS] = {
    { "memory", offsetof(struct pl_ask, cost[PL_MEMORY]), 1e-9, true },
    { "local", offsetof(struct pl_ask, cost[PL_LOCAL]), 1e-9, true },
    { "files", offsetof(struct pl_ask, cost[PL_FILES]), 1e-9, false },
    { "flush", offsetof(struct pl_ask, flush), 0, false },
    { "repair", offsetof(struct pl_ask, repair), 0, false },
    { "relaunch", offsetof(struct pl_ask, relaunch), 0, false },
};

const struct pl_value *ftk_sm_cost(const struct pl_ask *ask, int i)
{
    return (const struct pl_value *)((const char *)ask + costs[i].at);
}

const char *ftk_sm_cost_key(int i)
{
    return costs[i].key;
}

/* ---- the option ---------------------------------------------------------------------- */

static bool parse_name(const char *text, size_t n, struct sm_ask *ask)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  " ._+-"; /* no need to escape them in a picture */
    struct sm_with *w = &ask->with[ask->nwith];
    if (n == 0 || n > SM_NAME_MAX || strspn(text, allowed) < n) {
        ftk_tool_say("--with: '%s': a name has 1 to %d letters, digits, spaces and . _ + -",
            ftk_tool_why(text), SM_NAME_MAX);
        return false;
    }
    memcpy(w->name, text, n);
    w->name[n] = '\0';
    for (int i = 0; i < ask->nwith; i++)
        if (strcmp(ask->with[i].name, w->name) == 0) {
            ftk_tool_say("--with: there are two of the name '%s'", w->name);
            return false;
        }
    return true;
}

/* The cost whose key and '=' are at the beginning of text; SM_COSTS: none. */
static int cost_at(const char *text)
{
    int i = 0;
    for (; i < SM_COSTS; i++) {
        size_t n = strlen(costs[i].key);
        if (strncmp(text, costs[i].key, n) == 0 && text[n] == '=')
            break;
    }
    return i;
}

/* Parse KEY=T at the beginning of text; the result is the text behind, or NULL after a message. */
static const char *parse_cost(const char *text, struct sm_with *w)
{
    int i = cost_at(text);
    if (i == SM_COSTS) {
        ftk_tool_say("--with: '%s' is not KEY=T, with memory, local, files, flush, repair or "
                     "relaunch as KEY",
            ftk_tool_why(text));
        return NULL;
    }
    if (w->named[i]) {
        ftk_tool_say("--with: '%s' has two times for %s", w->name, costs[i].key);
        return NULL;
    }
    w->named[i] = true;
    const char *value = text + strlen(costs[i].key) + 1, *rest = NULL;
    if (costs[i].level && strncmp(value, "none", strlen("none")) == 0)
        rest = value + strlen("none");
    else if (ftk_pl_time(value, costs[i].low, &w->value[i].v, &rest))
        w->value[i].from = PL_GIVEN;
    if (rest && (*rest == ',' || *rest == '\0'))
        return rest;
    ftk_tool_say("--with: %s: '%s' is not a time such as 90s%s%s", costs[i].key,
        ftk_tool_why(value), costs[i].low > 0 ? ", more than 0" : "",
        costs[i].level ? ", nor none" : "");
    return NULL;
}

bool ftk_sm_with_parse(const char *text, struct sm_ask *ask)
{
    struct sm_with *w = &ask->with[ask->nwith];
    const char *rest = strchr(text, ':');
    if (ask->nwith == SM_WITH) {
        ftk_tool_say("--with: at most %d of them", SM_WITH);
        return false;
    }
    if (!rest) {
        ftk_tool_say("--with: '%s' is not NAME:KEY=T,... such as slower:memory=40s,repair=2min",
            ftk_tool_why(text));
        return false;
    }
    if (!parse_name(text, (size_t)(rest - text), ask))
        return false;
    do
        rest = parse_cost(rest + 1, w);
    while (rest && *rest == ',');
    ask->nwith += rest != NULL;
    return rest != NULL;
}

/* ---- the job ------------------------------------------------------------------------- */

bool ftk_sm_with_apply(const struct sm_with *with, struct pl_ask *ask)
{
    for (int i = 0; i < SM_COSTS; i++) {
        struct pl_value *v = (struct pl_value *)((char *)ask + costs[i].at);
        if (with->named[i])
            *v = with->value[i];
        else if (v->from == PL_ASSUMED)
            *v = (struct pl_value){ 0, PL_UNKNOWN, 0 }; /* may follow from another cost */
    }
    ftk_pl_assume(ask);
    if (ask->cost[PL_FILES].from != PL_UNKNOWN)
        return true;
    ftk_tool_say("--with: '%s' needs files or flush: what does a set on files cost?", with->name);
    return false;
}
