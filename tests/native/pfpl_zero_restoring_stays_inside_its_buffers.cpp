// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Zero restoring reads and writes nothing outside its buffers, accepts and refuses payloads as docs/format/pfpl.md
// specifies, and gives the same result as the naive version: on garbage, on damaged payloads, and on payloads that no
// encoder writes; on every backend that this machine can run.

#include <algorithm>
#include <utility>

#include "all_twins.h"
#include "check.h"
#include "codecs/pfpl_zero_removal.h"
#include "guarded_memory.h"
#include "pfpl_naive_zero_removal.h"
#include "random.h"

namespace h5lossy::test {
namespace {

using naive::Bytes;
using naive::kBitmapBytes;

class ZeroRestoring {
 public:
  explicit ZeroRestoring(const Twins& twins) : twins_(twins) {}

  void check(const Bytes& payload, u32 size) {
    const std::optional<Bytes> expected = naive::restore_zeros(payload, size);
    check_between(payload_memory_.at_front(payload.size()), payload, size, expected);
    check_between(payload_memory_.at_end(payload.size()), payload, size, expected);
    ++(expected ? taken_ : refused_);
  }

  [[nodiscard]] int taken() const { return taken_; }
  [[nodiscard]] int refused() const { return refused_; }

 private:
  void check_between(std::span<std::uint8_t> at, const Bytes& payload, u32 size, const std::optional<Bytes>& expected) {
    std::copy(payload.begin(), payload.end(), at.begin());
    const u32 overrun = std::min(twins_.stream_overrun, scalar::kStreamBytes - (size + 7) / 8 * 8);
    const std::span<std::uint8_t> stream = stream_memory_.at_end((size + 7) / 8 * 8 + overrun);
    const bool restored = twins_.restore_zeros(at.data(), static_cast<u32>(at.size()), stream.data(), size);
    CHECK(restored == expected.has_value(), "%s: payload of %zu bytes for %u bytes", twins_.backend, payload.size(),
          size);
    CHECK(!restored || std::equal(expected->begin(), expected->end(), stream.begin()),
          "%s: payload of %zu bytes for %u bytes", twins_.backend, payload.size(), size);
  }

  const Twins& twins_;
  GuardedMemory payload_memory_{2 * scalar::kMaxRemovedBytes};
  GuardedMemory stream_memory_{scalar::kStreamBytes};
  int taken_ = 0;
  int refused_ = 0;
};

u32 random_size(Random& random) {
  return random.one_in(4) ? scalar::kStreamBytes : static_cast<u32>(4 * (1 + random.below(scalar::kStreamBytes / 4)));
}

Bytes garbage(Random& random, std::size_t size) {
  Bytes bytes(size);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
  return bytes;
}

// About `density` of 256 bits are set.
std::uint8_t sparse_byte(Random& random, std::uint64_t density) {
  unsigned byte = 0;
  for (unsigned i = 0; i < 8; ++i) byte |= (random.below(256) < density ? 1u : 0u) << i;
  return static_cast<std::uint8_t>(byte);
}

// A payload of the right size with bitmaps of any kind: kept bytes that repeat the one before, "non-zero" bytes that
// are zero, bits behind the stream's end.
Bytes odd_payload(Random& random) {
  Bytes changes(kBitmapBytes[3]);
  Bytes payload;
  std::uint64_t density = 1 + random.below(255);
  for (std::uint8_t& byte : changes) byte = sparse_byte(random, density);
  payload = changes;
  for (std::size_t level = 3; level-- > 0;) {
    Bytes bitmap(kBitmapBytes[level]), kept;
    for (std::size_t i = 0; i < bitmap.size(); ++i) {
      bitmap[i] = i == 0 ? std::uint8_t{0} : bitmap[i - 1];
      if (naive::bit(changes, i)) kept.push_back(bitmap[i] = sparse_byte(random, density));
    }
    payload.insert(payload.begin(), kept.begin(), kept.end());
    changes = bitmap;
    if (random.one_in(2)) density = 1 + random.below(255);
  }
  Bytes values = garbage(random, naive::ones(changes));
  if (random.one_in(2)) std::fill(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), 0);
  payload.insert(payload.begin(), values.begin(), values.end());
  return payload;
}

// A payload of zero removal with a few bytes changed, or cut, or longer.
Bytes damaged_payload(Random& random, u32 size) {
  Bytes stream(size);
  const std::uint64_t density = random.below(257);
  for (std::uint8_t& byte : stream) byte = random.below(256) < density ? static_cast<std::uint8_t>(random.next()) : 0;
  Bytes payload = naive::remove_zeros(stream);
  for (std::uint64_t changes = random.below(4); changes > 0 && !payload.empty(); --changes) {
    // Half of the changes meet the bitmaps, at the end.
    const std::size_t reach = random.one_in(2) ? payload.size() : std::min<std::size_t>(payload.size(), 40);
    payload[payload.size() - 1 - random.below(reach)] ^= static_cast<std::uint8_t>(1 + random.below(255));
  }
  if (random.one_in(8)) payload.resize(random.below(payload.size() + 1));
  if (random.one_in(8))
    payload.erase(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(random.below(payload.size() + 1)));
  if (random.one_in(8)) payload.insert(payload.begin(), random.below(9), std::uint8_t{1});
  return payload;
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy::test;
  for (const Twins& twins : all_twins()) {
    Random random(4);
    ZeroRestoring restoring(twins);
    for (int i = 0; i < 2000; ++i) {
      restoring.check(garbage(random, random.below(i < 1000 ? 64 : 2 * h5lossy::scalar::kMaxRemovedBytes)),
                      random_size(random));
      restoring.check(odd_payload(random), random_size(random));
      const h5lossy::u32 size = random_size(random);
      restoring.check(damaged_payload(random, size), size);
    }
    // The generators are worth something only if both happen often.
    CHECK(restoring.taken() > 500 && restoring.refused() > 500, "%d taken, %d refused", restoring.taken(),
          restoring.refused());
  }
}
