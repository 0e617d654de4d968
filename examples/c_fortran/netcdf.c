// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Write a compressed variable with netCDF in C, read it back, and print the largest error.
//
//   cc netcdf.c $(pkg-config --cflags --libs netcdf) -lm -o netcdf_c
//   HDF5_PLUGIN_PATH=$(h5lossy plugin-path) ./netcdf_c a.nc

#include <math.h>
#include <netcdf.h>
#include <netcdf_filter.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kSteps = 10, kLatitudes = 90, kLongitudes = 180, kFilter = 46412 };

static const double kBound = 1e-3;
static const float kFill = 1e20f;

static float values[kSteps][kLatitudes][kLongitudes], decoded[kSteps][kLatitudes][kLongitudes];

static void check(int status, const char* what) {
  if (status != NC_NOERR) {
    fprintf(stderr, "%s: %s\n", what, nc_strerror(status));
    exit(1);
  }
}

static void write_file(const char* path) {
  // PFPL (1) with an absolute bound (0), a float64 with its low word first; h5lossy cd-values prints others.
  uint64_t bits;
  memcpy(&bits, &kBound, sizeof bits);
  const unsigned cd_values[] = {1, 0, (unsigned)bits, (unsigned)(bits >> 32)};
  const size_t chunk[] = {1, kLatitudes, kLongitudes}, start[] = {0, 0, 0},
               extents[] = {kSteps, kLatitudes, kLongitudes};

  int file, dims[3], tas;
  // Without NC_CLASSIC_MODEL it works as well.
  check(nc_create(path, NC_CLOBBER | NC_NETCDF4 | NC_CLASSIC_MODEL, &file), "nc_create");
  check(nc_def_dim(file, "time", NC_UNLIMITED, &dims[0]), "nc_def_dim");
  check(nc_def_dim(file, "lat", kLatitudes, &dims[1]), "nc_def_dim");
  check(nc_def_dim(file, "lon", kLongitudes, &dims[2]), "nc_def_dim");
  check(nc_def_var(file, "tas", NC_FLOAT, 3, dims, &tas), "nc_def_var");
  check(nc_def_var_fill(file, tas, NC_FILL, &kFill), "nc_def_var_fill");  // comes back bit for bit
  check(nc_def_var_chunking(file, tas, NC_CHUNKED, chunk), "nc_def_var_chunking");
  check(nc_def_var_filter(file, tas, kFilter, 4, cd_values), "nc_def_var_filter");  // before nc_enddef
  check(nc_enddef(file), "nc_enddef");
  check(nc_put_vara_float(file, tas, start, extents, &values[0][0][0]), "nc_put_vara_float");
  check(nc_close(file), "nc_close");
}

int main(int count, char** arguments) {
  const char* path = count > 1 ? arguments[1] : "a.nc";
  for (int time = 0; time < kSteps; ++time) {
    for (int lat = 0; lat < kLatitudes; ++lat) {
      for (int lon = 0; lon < kLongitudes; ++lon) {
        const float wave = sinf((float)(lat + time) / 15) * cosf((float)lon / 30);
        values[time][lat][lon] = lat < 20 && lon < 50 ? kFill : 280 + 20 * wave;
      }
    }
  }
  write_file(path);

  int file, tas;
  check(nc_open(path, NC_NOWRITE, &file), "nc_open");
  check(nc_inq_varid(file, "tas", &tas), "nc_inq_varid");
  check(nc_get_var_float(file, tas, &decoded[0][0][0]), "nc_get_var_float");
  check(nc_close(file), "nc_close");
  double largest = 0;
  int changed_fill_values = 0;
  for (int i = 0; i < kSteps * kLatitudes * kLongitudes; ++i) {
    const float before = values[0][0][i], after = decoded[0][0][i];
    changed_fill_values += (before == kFill) != (after == kFill);
    if (before != kFill) largest = fmax(largest, fabs((double)before - after));
  }
  printf("largest error %.9f\n", largest);
  return largest > kBound || changed_fill_values > 0;
}
