// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The filter for h5wasm, HDF5 in WebAssembly: a decode-only plugin that needs only what h5wasm offers to plugins.

#include <cstdint>
#include <cstdlib>

#include "h5lossy.h"
#include "h5lossy_decode.h"

namespace h5lossy {
namespace {

// From H5Zpublic.h and H5PLextern.h.
constexpr unsigned kFlagReverse = 0x0100;
constexpr int kPluginTypeFilter = 0;

// H5Z_class2_t.
struct FilterClass {
  int version;
  int id;
  unsigned encoder_present;
  unsigned decoder_present;
  const char* name;
  int (*can_apply)(std::int64_t dcpl, std::int64_t type, std::int64_t space);
  int (*set_local)(std::int64_t dcpl, std::int64_t type, std::int64_t space);
  std::size_t (*filter)(unsigned flags, std::size_t cd_count, const unsigned* cd_values, std::size_t size,
                        std::size_t* capacity, void** buffer);
};

constexpr std::size_t kFailed = 0;

std::size_t filter(unsigned flags, std::size_t, const unsigned*, std::size_t size, std::size_t* capacity,
                   void** buffer) {
  h5ld_info info;
  if ((flags & kFlagReverse) == 0 || h5ld_inspect(*buffer, size, &info) != H5LD_OK) return kFailed;
  const auto bytes = static_cast<std::size_t>(info.raw_bytes);
  void* const values = std::malloc(bytes);
  if (values == nullptr) return kFailed;
  if (h5ld_decode(*buffer, size, H5LD_AS_STORED, values, bytes) != H5LD_OK) {
    std::free(values);
    return kFailed;
  }
  std::free(*buffer);
  *buffer = values;
  *capacity = bytes;
  return bytes;
}

constexpr FilterClass kFilterClass = {
    1, H5L_FILTER_ID, 0, 1, "h5lossy, for reading only", nullptr, nullptr, filter,
};

}  // namespace
}  // namespace h5lossy

using namespace h5lossy;

extern "C" {

[[gnu::visibility("default")]] int H5PLget_plugin_type(void) { return kPluginTypeFilter; }

[[gnu::visibility("default")]] const void* H5PLget_plugin_info(void) { return &kFilterClass; }

}  // extern "C"
