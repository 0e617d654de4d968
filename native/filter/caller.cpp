// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "filter/caller.h"

#include <cstdio>
#include <map>
#include <mutex>
#include <new>
#include <utility>

namespace h5lossy {

Caller::Caller(void* return_address) : h5{} {
  unsigned major = 0, minor = 0;
  has_functions = hdf5::find_functions(return_address, h5);
  // H5get_libversion would take the lock.
  if (!has_functions || std::sscanf(h5.version_text, "HDF5 library version: %u.%u", &major, &minor) != 2) {
    return;
  }
  const std::pair version(major, minor);
  may_be_called = version < std::pair(2u, 3u);
  checks_sizes = version >= std::pair(2u, 2u);
}

Caller* Caller::at(void* return_address) noexcept {
  try {
    static std::mutex& mutex = *new std::mutex;
    static auto& callers = *new std::map<void*, Caller>;
    const std::lock_guard lock(mutex);
    return &callers.try_emplace(return_address, return_address).first->second;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

OpenDatasets::Verdict Caller::check(const Call& call, bool describe_chunk, const FrameHeader& header) noexcept {
  try {
    return may_be_called
               ? datasets.check(h5, call.cd_values, (call.flags & hdf5::kFlagOptional) != 0, describe_chunk, header)
               : OpenDatasets::Verdict::kUnknown;
  } catch (const std::bad_alloc&) {
    return OpenDatasets::Verdict::kUnknown;
  }
}

}  // namespace h5lossy
