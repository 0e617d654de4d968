// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Which kernels a call launches, if it wants values.

#include <algorithm>
#include <utility>

#include "gpu/sequences.h"

namespace h5lossy::gpu {
namespace {

// Launches nothing, and lists what would be launched.
class Listing : public Launcher {
 public:
  bool launch(const char* kernel, std::uint32_t, std::uint32_t, const void*, std::size_t, bool) override {
    add(kernel);
    return true;
  }
  bool clear(void*, std::size_t) override { return true; }
  std::uint32_t resident_blocks(const char* kernel) override {
    add(kernel);
    return 65535;
  }
  Names kernels;

 private:
  void add(const char* kernel) {
    if (std::find(kernels.begin(), kernels.end(), kernel) == kernels.end()) kernels.emplace_back(kernel);
  }
};

}  // namespace

Names kernels_of(const EncodeCall& call) {
  Listing listing;
  if (call.plan.big_endian != 0) listing.launch("swap_values", 0, 0, nullptr, 0, false);
  static_cast<void>(encode(listing, call, nullptr));
  return std::move(listing.kernels);
}

Names kernels_of(DecodeCall call) {
  Listing listing;
  call.wanted = std::max(call.wanted, decltype(call.wanted){1});
  static_cast<void>(decode(listing, call, nullptr));
  if (call.big_endian) listing.launch("swap_values", 0, 0, nullptr, 0, false);
  return std::move(listing.kernels);
}

}  // namespace h5lossy::gpu
