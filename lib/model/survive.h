/* Which share of random failures of nodes leaves all data in the memory of the others.
 *
 * Source: Meneses, PhD thesis, University of Illinois (2013), sections 7.2 and 7.3.  The thesis has
 * no parity groups.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_MODEL_SURVIVE_H
#define FTK_MODEL_SURVIVE_H

/* ---- multiplicity: how many nodes one failure takes ------------------------------------ */

enum ftk_model_law {
    FTK_MODEL_GEOMETRIC, /* f(x) = (1 - p)^(x - 1) p */
    FTK_MODEL_ZIPF       /* f(x) = x^-s / sum of i^-s, i = 1 .. n */
};

struct ftk_model_multiplicity {
    enum ftk_model_law law;
    double parameter; /* p or s */
};

/* The mean number of nodes of a failure, of n nodes. */
double ftk_model_mean_nodes(const struct ftk_model_multiplicity *multiplicity, int n);

/* ---- placement: where the data of a node are, beside its own memory --------------------- */

enum ftk_model_map {
    FTK_MODEL_PAIR,  /* two nodes have a copy of each other's data */
    FTK_MODEL_RING,  /* each node has a copy of the data of the node before it */
    FTK_MODEL_PARITY /* groups that survive the loss of `parity` members */
};

struct ftk_model_placement {
    enum ftk_model_map map;
    int group, parity; /* with FTK_MODEL_PARITY: nodes of a group, of which so many may be lost */
};

/* The probability that the loss of f of n nodes loses no determinant (COMM of section 7.3: each
 * lost node exchanges messages with so many others, which have its determinants, and none of them
 * is lost). */
double ftk_model_comm(int n, int f, int acquaintances);

/* Survivability, the sum of s(i) p(i): s(i) is the probability that all data survive the loss of i
 * nodes (CKPT of section 7.3), times comm if acquaintances > 0. */
double ftk_model_survivability(const struct ftk_model_placement *placement,
    const struct ftk_model_multiplicity *multiplicity, int n, int acquaintances);

/* Memory for one set, in units of its data, own copy included. */
double ftk_model_memory(const struct ftk_model_placement *placement);

#endif
