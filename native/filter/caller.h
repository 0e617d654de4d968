// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The HDF5 libraries that call the filter. A process can hold several.
#pragma once

#include <span>

#include "filter/hdf5_symbols.h"
#include "filter/open_datasets.h"
#include "frame/frame.h"

namespace h5lossy {

// What HDF5 passes to the filter function.
struct Call {
  void* return_address;
  unsigned flags;
  std::span<const unsigned> cd_values;
};

// One HDF5 library, as it calls the filter.
struct Caller {
  hdf5::Functions h5;
  bool has_functions = false;  // those of the library that holds the return address
  bool may_be_called = false;  // filters run in the thread that holds the library's lock
  bool checks_sizes = false;   // the library compares the size of a filter's output with the chunk size
  OpenDatasets datasets;

  explicit Caller(void* return_address);

  // Never freed, because HDF5 also calls filters at exit. Null if out of memory.
  static Caller* at(void* return_address) noexcept;

  // Whether a frame matches the chunk that HDF5 will read, according to HDF5's open datasets.
  OpenDatasets::Verdict check(const Call& call, bool describe_chunk, const FrameHeader& header) noexcept;
};

}  // namespace h5lossy
