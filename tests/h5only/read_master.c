/* A reader that knows HDF5 and nothing else: prints a number, writes an array as it is in
 * memory.  Usage: read_master FILE NUMBER ARRAY OUTPUT
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    hsize_t shape[2];
    int number;
    if (argc != 5)
        return 2;
    hid_t file = H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t one = H5Dopen2(file, argv[2], H5P_DEFAULT);
    hid_t all = H5Dopen2(file, argv[3], H5P_DEFAULT);
    if (H5Dread(one, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &number) < 0
        || H5Sget_simple_extent_dims(H5Dget_space(all), shape, NULL) != 2)
        return 1;
    double *value = malloc(shape[0] * shape[1] * sizeof *value);
    FILE *out = fopen(argv[4], "wb");
    if (value == NULL || out == NULL
        || H5Dread(all, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, value) < 0
        || fwrite(value, sizeof *value, shape[0] * shape[1], out) != shape[0] * shape[1])
        return 1;
    printf("%d\n", number);
    free(value);
    return fclose(out) != 0 || H5Fclose(file) < 0;
}
