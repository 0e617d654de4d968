// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Writes 64 x 256 float32 in chunks of 16 x 64 with the filter 46412, and reads them again. For test_static_hdf5.py,
// which links it with HDF5 inside, so that the plugin cannot reach HDF5's functions.
//
// usage: static_hdf5 FILE FLAG WORD...

#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRows = 64, kColumns = 256, kMostWords = 16 };

static float value(int i) { return (float)(i % 1000) * 0.37f; }

int main(int count, char** arguments) {
  static float values[kRows * kColumns], read[kRows * kColumns];
  unsigned words[kMostWords];
  int word_count = 0;
  for (int i = 3; i < count && word_count < kMostWords; ++i) {
    words[word_count++] = (unsigned)strtoul(arguments[i], NULL, 10);
  }
  for (int i = 0; i < kRows * kColumns; ++i) values[i] = value(i);

  const hsize_t extents[] = {kRows, kColumns}, chunk[] = {16, 64};
  const hid_t file = H5Fcreate(arguments[1], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(2, extents, NULL);
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(creation, 2, chunk);
  if (H5Pset_filter(creation, 46412, (unsigned)atoi(arguments[2]), (size_t)word_count, words) < 0) return 2;
  hid_t x = H5Dcreate2(file, "x", H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  if (x < 0) return 3;
  if (H5Dwrite(x, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) return 4;
  if (H5Dclose(x) < 0 || H5Fflush(file, H5F_SCOPE_LOCAL) < 0) return 5;

  x = H5Dopen2(file, "x", H5P_DEFAULT);
  if (H5Dread(x, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, read) < 0) return 6;
  double largest = 0;
  for (int i = 0; i < kRows * kColumns; ++i) {
    const double error = (double)read[i] - values[i];
    if (error > largest || -error > largest) largest = error < 0 ? -error : error;
  }
  printf("%.17g %llu\n", largest, (unsigned long long)H5Dget_storage_size(x));
  H5Dclose(x);
  H5Pclose(creation);
  H5Sclose(space);
  return H5Fclose(file) < 0;
}
