// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Write a compressed dataset with HDF5 in C, read it back, and print the largest error.
//
//   h5cc -shlib hdf5.c -lm -o hdf5_c
//   HDF5_PLUGIN_PATH=$(h5lossy plugin-path) ./hdf5_c a.h5

#include <hdf5.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kRows = 300, kColumns = 500, kFilter = 46412 };

static const double kBound = 1e-3;
static const float kFill = -999;

static float values[kRows][kColumns], decoded[kRows][kColumns];

static void check(int64_t result, const char* what) {
  if (result < 0) {
    fprintf(stderr, "%s failed\n", what);
    exit(1);
  }
}

// PFPL with an absolute bound; h5lossy cd-values prints the words of the others.
static void set_cd_values(unsigned cd_values[4], double bound) {
  uint64_t bits;
  memcpy(&bits, &bound, sizeof bits);
  cd_values[0] = 1;               // codec: PFPL
  cd_values[1] = 0;               // kind of bound: absolute
  cd_values[2] = (unsigned)bits;  // the float64, low word first
  cd_values[3] = (unsigned)(bits >> 32);
}

static void write_file(const char* path) {
  const hsize_t extents[] = {kRows, kColumns}, chunk[] = {100, 250};
  unsigned cd_values[4];
  set_cd_values(cd_values, kBound);

  const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  check(file, "H5Fcreate");
  const hid_t space = H5Screate_simple(2, extents, NULL);
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  check(H5Pset_chunk(creation, 2, chunk), "H5Pset_chunk");
  check(H5Pset_fill_value(creation, H5T_NATIVE_FLOAT, &kFill), "H5Pset_fill_value");  // comes back bit for bit
  check(H5Pset_filter(creation, kFilter, H5Z_FLAG_MANDATORY, 4, cd_values), "H5Pset_filter");
  const hid_t t = H5Dcreate2(file, "t", H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  check(t, "H5Dcreate2");
  check(H5Dwrite(t, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "H5Dwrite");
  check(H5Dclose(t), "H5Dclose");  // encodes what is in the chunk cache
  check(H5Pclose(creation), "H5Pclose");
  check(H5Sclose(space), "H5Sclose");
  check(H5Fclose(file), "H5Fclose");
}

int main(int count, char** arguments) {
  const char* path = count > 1 ? arguments[1] : "a.h5";
  if (H5Zfilter_avail(kFilter) <= 0) {
    fputs("HDF5 does not find h5lossy: export HDF5_PLUGIN_PATH=$(h5lossy plugin-path)\n", stderr);
    return 1;
  }
  for (int y = 0; y < kRows; ++y) {
    for (int x = 0; x < kColumns; ++x) {
      values[y][x] = y < 40 && x < 60 ? kFill : 280 + 20 * sinf((float)y / 40) * cosf((float)x / 60);
    }
  }
  write_file(path);

  const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  check(file, "H5Fopen");
  const hid_t t = H5Dopen2(file, "t", H5P_DEFAULT);
  check(t, "H5Dopen2");
  check(H5Dread(t, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, decoded), "H5Dread");
  double largest = 0;
  int changed_fill_values = 0;
  for (int i = 0; i < kRows * kColumns; ++i) {
    const float before = values[0][i], after = decoded[0][i];
    changed_fill_values += (before == kFill) != (after == kFill);
    largest = fmax(largest, fabs((double)before - after));
  }
  printf("ratio %.1f, largest error %.9f\n", (double)sizeof values / (double)H5Dget_storage_size(t), largest);
  check(H5Dclose(t), "H5Dclose");
  check(H5Fclose(file), "H5Fclose");
  return largest > kBound || changed_fill_values > 0;
}
