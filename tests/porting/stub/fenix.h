/* The calls of Fenix that tests/porting/fenix.c uses, declared as in its include/fenix.h.  There
 * Fenix_Init() is a macro with setjmp(), with the arguments that this declaration has.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FENIX_STUB_H
#define FENIX_STUB_H

#include <mpi.h>

#define FENIX_SUCCESS 0
#define FENIX_DATA_SNAPSHOT_LATEST -1
#define FENIX_DATA_MEMBER_ALL -1
#define FENIX_DATA_MEMBER_ATTRIBUTE_BUFFER 11
#define FENIX_DATA_POLICY_IN_MEMORY_RAID 13

enum { FENIX_ROLE_INITIAL_RANK = 0, FENIX_ROLE_RECOVERED_RANK = 1, FENIX_ROLE_SURVIVOR_RANK = 2 };

typedef struct {
    void *impl;
} Fenix_Data_subset;
extern const Fenix_Data_subset FENIX_DATA_SUBSET_FULL;
extern Fenix_Data_subset *FENIX_DATA_SUBSET_IGNORE;

void Fenix_Init(int *role, MPI_Comm comm, MPI_Comm *newcomm, int *argc, char ***argv,
    int spare_ranks, int *error);
int Fenix_Data_group_create(int group_id, MPI_Comm comm, int start_time_stamp, int depth,
    int policy_name, void *policy_value, int *flag);
int Fenix_Data_member_create(
    int group_id, int member_id, void *buffer, int count, MPI_Datatype datatype);
int Fenix_Data_member_attr_set(
    int group_id, int member_id, int attribute_name, void *attribute_value, int *flag);
int Fenix_Data_member_store(int group_id, int member_id, const Fenix_Data_subset subset_specifier);
int Fenix_Data_commit_barrier(int group_id, int *time_stamp);
int Fenix_Data_member_restore(int group_id, int member_id, void *target_buffer, int max_count,
    int time_stamp, Fenix_Data_subset *found_data);
int Fenix_Finalize();

#endif
