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
  bool may_be_called = false;  // it runs filters in the thread that called it, which holds its lock
  bool checks_sizes = false;   // it compares the size of a filter's output with that of a chunk
  OpenDatasets datasets;

  explicit Caller(void* return_address);

  // There are few, and they are never freed: HDF5 calls filters at exit, too. Null if there is no memory.
  static Caller* at(void* return_address) noexcept;

  // Whether a frame matches the chunk that HDF5 will read, as far as HDF5 says.
  OpenDatasets::Verdict judge(const Call& call, bool describe_chunk, const FrameHeader& header) noexcept;
};

}  // namespace h5lossy
