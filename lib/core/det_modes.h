/* The modes of log.determinants.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One line for each mode: its name in the code, and its word in the configuration.  The line makes
 * the constant FTK_DETS_<name>, the word, and the entry ftk_mode_<word> in the table of modes
 * (log/mode.h says how to add one). */
#ifndef FTK_DET_MODES_H
#define FTK_DET_MODES_H

#define FTK_DET_MODES(X)                                                                           \
    X(NODE, node)                                                                                  \
    X(CAUSAL, causal)                                                                              \
    X(PESSIMISTIC, pessimistic)                                                                    \
    X(RELAXED, relaxed)                                                                            \
    X(REFUSE, refuse)

#define FTK_DET_CONSTANT(name, word) FTK_DETS_##name,
enum ftk_determinants { FTK_DET_MODES(FTK_DET_CONSTANT) FTK_DETS };

#endif
