/* Generating a failure log by laws with given parameters.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "failures.h"
#include "model/random.h"

/* ---- the recipe ------------------------------------------------------------------------------ */

/* One law of the recipe, "zipf:5.4" or "weibull:0.7,8h": its name and its numbers. */
struct law {
    char name[16];
    char number[2][32];
    int n;
};

/* Cut the first law off the text.  A comma ends it, if a name and a colon follow. */
static const char *cut(const char **text, struct law *law)
{
    *law = (struct law){ .n = 0 };
    size_t len = strcspn(*text, ":,");
    if ((*text)[len] != ':' || len == 0 || len >= sizeof law->name)
        return "a law is a name, a colon and numbers, such as zipf:5.4";
    memcpy(law->name, *text, len);
    const char *p = *text + len;
    while (*p && (*p == ':' || p[1 + strcspn(p + 1, ":,")] != ':')) {
        p++;
        len = strcspn(p, ":,");
        if (law->n == 2 || len == 0 || len >= sizeof law->number[0])
            return "a law has one number or two";
        memcpy(law->number[law->n++], p, len);
        p += len;
        if (*p == ':')
            return "a colon follows a name only";
    }
    *text = *p ? p + 1 : p;
    return NULL;
}

static bool in_range(const char *text, double low, double high, double *v)
{
    return ftk_failure_seconds(text, v) && *v >= low && *v <= high;
}

static const char *take_gaps(struct ftk_failure_recipe *r, const struct law *law)
{
    bool weibull = strcmp(law->name, "weibull") == 0;
    r->gap_shape = 1;
    if (r->gap_scale_s > 0)
        return "one law of the gaps, exponential or weibull";
    if (law->n != 1 + weibull)
        return weibull ? "weibull has a shape and a scale, such as weibull:0.7,8h"
                       : "exponential has a mean, such as exponential:8h";
    if (weibull && !in_range(law->number[0], 0.05, 20, &r->gap_shape))
        return "the shape of weibull is 0.05 to 20";
    if (!ftk_failure_time(law->number[weibull], &r->gap_scale_s) || r->gap_scale_s <= 0)
        return "the mean or scale of the gaps is a time such as 8h";
    return NULL;
}

static const char *take_sizes(struct ftk_failure_recipe *r, const struct law *law)
{
    bool zipf = strcmp(law->name, "zipf") == 0;
    if (r->p > 0 || r->s > 0)
        return "one law of the nodes per failure, geometric or zipf";
    if (law->n != 1 || !in_range(law->number[0], 0.001, zipf ? 20 : 1, zipf ? &r->s : &r->p))
        return zipf ? "zipf has a number s of 0.001 to 20"
                    : "geometric has a number p of 0.001 to 1";
    return NULL;
}

static const char *take_repairs(struct ftk_failure_recipe *r, const struct law *law)
{
    if (r->median_s > 0 || law->n != 2 || !ftk_failure_time(law->number[0], &r->median_s)
        || r->median_s <= 0 || !in_range(law->number[1], 0, 10, &r->sigma))
        return "the repair times have a median and a sigma, such as lognormal:1h,1.2";
    return NULL;
}

const char *ftk_failure_recipe(struct ftk_failure_recipe *r)
{
    const char *text = r->text, *why;
    struct law law;
    do {
        why = cut(&text, &law);
        if (why)
            return why;
        if (strcmp(law.name, "exponential") == 0 || strcmp(law.name, "weibull") == 0)
            why = take_gaps(r, &law);
        else if (strcmp(law.name, "geometric") == 0 || strcmp(law.name, "zipf") == 0)
            why = take_sizes(r, &law);
        else if (strcmp(law.name, "lognormal") == 0)
            why = take_repairs(r, &law);
        else
            why = "the laws are exponential, weibull, geometric, zipf, lognormal";
    } while (!why && *text);
    if (!why && r->gap_scale_s <= 0)
        why = "the law of the gaps is missing, such as weibull:0.7,8h";
    return why;
}

/* ---- the log --------------------------------------------------------------------------------- */

struct sources {
    struct ftk_random gaps, sizes, nodes, repairs;
    double *zipf; /* its table */
    int *node;    /* all nodes, in the order of the last drawing */
};

static int draw_size(const struct ftk_failure_recipe *r, struct sources *s)
{
    int size = 1;
    if (s->zipf)
        size = ftk_random_zipf(&s->sizes, s->zipf, r->nodes);
    else if (r->p > 0)
        size = ftk_random_geometric(&s->sizes, r->p);
    return size < r->nodes ? size : r->nodes;
}

/* Print distinct nodes: the beginning of a shuffle. */
static void print_nodes(const struct ftk_failure_recipe *r, struct sources *s, int size)
{
    for (int i = 0; i < size; i++) {
        int j = i + (int)ftk_random_below(&s->nodes, (uint64_t)(r->nodes - i)), other = s->node[j];
        s->node[j] = s->node[i];
        s->node[i] = other;
        printf(",n%d", other);
    }
}

void ftk_failure_generate(const struct ftk_failure_recipe *r)
{
    struct sources s = { .node = ftk_tool_alloc((size_t)r->nodes * sizeof *s.node) };
    double at_s = 0;
    ftk_random_seed(&s.gaps, r->seed, FTK_RANDOM_GAPS);
    ftk_random_seed(&s.sizes, r->seed, FTK_RANDOM_SIZES);
    ftk_random_seed(&s.nodes, r->seed, FTK_RANDOM_NODES);
    ftk_random_seed(&s.repairs, r->seed, FTK_RANDOM_REPAIRS);
    for (int i = 0; i < r->nodes; i++)
        s.node[i] = i;
    if (r->s > 0) {
        s.zipf = ftk_tool_alloc((size_t)r->nodes * sizeof *s.zipf);
        ftk_random_zipf_table(r->s, r->nodes, s.zipf);
    }
    printf("# ftkit failures --generate %s --events %d --nodes %d --seed %llu\n"
           "# A line is a failure: read it with --same-node 0 --together 0.\ntime,node%s\n",
        r->text, r->events, r->nodes, r->seed, r->median_s > 0 ? ",repair" : "");
    for (int i = 0; i < r->events; i++) {
        at_s += ftk_random_weibull(&s.gaps, r->gap_shape, r->gap_scale_s);
        printf("%.6f", at_s);
        print_nodes(r, &s, draw_size(r, &s));
        if (r->median_s > 0)
            printf(",%.6f", ftk_random_lognormal(&s.repairs, r->median_s, r->sigma));
        putchar('\n');
    }
    free(s.zipf);
    free(s.node);
}
