// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Writes the same values to two datasets of a file in subfiles, all ranks together, twice: `given` without a filter and
// `lossy` with the plugin's.
//
//     mpiexec -n RANKS subfiling FILE CD_VALUE...

#include <H5FDsubfiling.h>
#include <hdf5.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS 50  // of each rank
#define COLUMNS 96

static void require(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "%s failed\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static hid_t open_dataset(hid_t file, const char* name, hid_t space, int is_new, size_t count,
                          const unsigned* cd_values) {
  if (!is_new) return H5Dopen2(file, name, H5P_DEFAULT);
  const hsize_t chunk[2] = {16, 32};
  const hid_t create = H5Pcreate(H5P_DATASET_CREATE);
  require(H5Pset_chunk(create, 2, chunk) >= 0, "H5Pset_chunk");
  if (count != 0) require(H5Pset_filter(create, 46412, 0, count, cd_values) >= 0, "H5Pset_filter");
  return H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, create, H5P_DEFAULT);
}

int main(int argc, char** argv) {
  int provided = 0, rank = 0, ranks = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  require(provided == MPI_THREAD_MULTIPLE, "MPI_Init_thread");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);

  unsigned cd_values[32];
  const int count = argc - 2;
  require(count > 0 && count <= 32, "the command line");
  for (int i = 0; i < count; ++i) cd_values[i] = (unsigned)strtoul(argv[i + 2], NULL, 10);

  const hid_t access = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
  require(H5Pset_mpi_params(access, MPI_COMM_WORLD, MPI_INFO_NULL) >= 0, "H5Pset_mpi_params");
  require(H5Pset_fapl_subfiling(access, NULL) >= 0, "H5Pset_fapl_subfiling");
  require(H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE) >= 0, "H5Pset_dxpl_mpio");

  const hsize_t all[2] = {(hsize_t)ROWS * ranks, COLUMNS}, own[2] = {ROWS, COLUMNS}, at[2] = {(hsize_t)ROWS * rank, 0};
  const hid_t space = H5Screate_simple(2, all, NULL), memory = H5Screate_simple(2, own, NULL);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, own, NULL);
  static float values[ROWS * COLUMNS];
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < ROWS * COLUMNS; ++i) values[i] = sinf(0.01f * (float)i + (float)rank) + (float)pass;
    const hid_t file =
        pass == 0 ? H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, access) : H5Fopen(argv[1], H5F_ACC_RDWR, access);
    require(file >= 0, "opening the file");
    for (int is_lossy = 0; is_lossy < 2; ++is_lossy) {
      const hid_t dataset =
          open_dataset(file, is_lossy ? "lossy" : "given", space, pass == 0, is_lossy ? (size_t)count : 0, cd_values);
      require(H5Dwrite(dataset, H5T_NATIVE_FLOAT, memory, space, transfer, values) >= 0, "H5Dwrite");
      require(H5Dclose(dataset) >= 0, "H5Dclose");
    }
    require(H5Fclose(file) >= 0, "H5Fclose");
  }
  MPI_Finalize();
  return 0;
}
