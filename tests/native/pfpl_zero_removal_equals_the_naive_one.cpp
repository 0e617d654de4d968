// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Zero removal writes what docs/format/pfpl.md specifies, for streams of every size and of many densities, and can be
// undone, on every backend that this machine can run.

#include <algorithm>

#include "all_twins.h"
#include "check.h"
#include "codecs/pfpl_zero_removal.h"
#include "guarded_memory.h"
#include "pfpl_naive_zero_removal.h"
#include "random.h"

namespace h5lossy::test {
namespace {

// Runs of zeros and of other bytes. Of 256 bytes about `density` are not zero; a run has about `run` bytes.
void fill(Random& random, std::uint64_t density, std::uint64_t run, std::span<std::uint8_t> stream) {
  for (std::size_t i = 0; i < stream.size();) {
    const bool zero = random.below(256) >= density;
    const std::size_t end = std::min<std::size_t>(stream.size(), i + 1 + random.below(run));
    for (; i < end; ++i) stream[i] = zero ? std::uint8_t{0} : static_cast<std::uint8_t>(random.next());
  }
}

class ZeroRemoval {
 public:
  explicit ZeroRemoval(const Twins& twins) : twins_(twins) {}

  void check(Random& random, std::uint64_t density, std::uint64_t run, u32 size) {
    std::fill(stream_.begin(), stream_.end(), std::uint8_t{0});
    const std::span<std::uint8_t> stream = stream_.first(size);
    fill(random, density, run, stream);
    const naive::Bytes expected = naive::remove_zeros(stream);
    const u32 written = twins_.remove_zeros(stream_.data(), size, payload_.data());
    const bool same = written == expected.size() && std::equal(expected.begin(), expected.end(), payload_.begin());
    CHECK(same, "%s, size %u, density %u, runs of %u: %u bytes, %zu expected", twins_.backend, size,
          static_cast<u32>(density), static_cast<u32>(run), written, expected.size());
    if (written == 0) return;
    const bool restored = twins_.restore_zeros(payload_.data(), written, restored_.data(), size);
    CHECK(restored && std::equal(stream.begin(), stream.end(), restored_.begin()),
          "%s, size %u, density %u, runs of %u", twins_.backend, size, static_cast<u32>(density),
          static_cast<u32>(run));
  }

 private:
  const Twins& twins_;
  GuardedMemory stream_memory_{scalar::kStreamBytes};
  GuardedMemory payload_memory_{scalar::kMaxRemovedBytes};
  GuardedMemory restored_memory_{scalar::kStreamBytes};
  std::span<std::uint8_t> stream_ = stream_memory_.at_end(scalar::kStreamBytes);
  std::span<std::uint8_t> payload_ = payload_memory_.at_end(scalar::kMaxRemovedBytes);
  std::span<std::uint8_t> restored_ = restored_memory_.at_end(scalar::kStreamBytes);
};

}  // namespace
}  // namespace h5lossy::test

int main() {
  using h5lossy::scalar::kStreamBytes;
  constexpr std::uint64_t densities[] = {0, 1, 16, 128, 250, 256}, runs[] = {1, 8, 300};
  for (const h5lossy::test::Twins& twins : h5lossy::test::all_twins()) {
    h5lossy::test::Random random(3);
    h5lossy::test::ZeroRemoval zero_removal(twins);
    // Sizes of tiles: multiples of a float32.
    for (h5lossy::u32 size = 4; size <= kStreamBytes; size += 4) {
      const std::uint64_t density = densities[random.below(std::size(densities))];
      zero_removal.check(random, density, runs[random.below(std::size(runs))], size);
    }
    for (const std::uint64_t density : densities) {
      for (const std::uint64_t run : runs) {
        for (const h5lossy::u32 size : {4u, 8u, 60u, 64u, 68u, kStreamBytes - 4, kStreamBytes}) {
          zero_removal.check(random, density, run, size);
        }
      }
    }
  }
}
