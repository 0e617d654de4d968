// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's coder, compiled for one backend, reads and writes nothing outside its buffers. It refuses what the naive
// coder refuses, and otherwise gives the same codes: on damaged bytes, with the wrong head, on truncated or extended
// bytes, and on garbage.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "check.h"
#include "codecs/interp/tile_codes.h"
#include "for_backend.h"
#include "guarded_memory.h"
#include "interp_naive_coder.h"
#include "random.h"

namespace h5lossy::test {
namespace {

namespace interp = H5L_TARGET::interp;

template <class I>
class Reader {
 public:
  void check(const interp::Head& head, const naive::Bytes& bytes, u32 count) {
    const std::optional<std::vector<I>> expected = naive::decode<I>(head, bytes, count);
    check_at(bytes_.at_front(bytes.size()), head, bytes, count, expected);
    check_at(bytes_.at_end(bytes.size()), head, bytes, count, expected);
    ++(expected ? taken_ : refused_);
  }

  [[nodiscard]] int taken() const { return taken_; }
  [[nodiscard]] int refused() const { return refused_; }

 private:
  void check_at(std::span<std::uint8_t> at, const interp::Head& head, const naive::Bytes& bytes, u32 count,
                const std::optional<std::vector<I>>& expected) {
    std::copy(bytes.begin(), bytes.end(), at.begin());
    const u32 padded = interp::blocks_of(count) * interp::kBlockCodes;
    I* const steps = reinterpret_cast<I*>(steps_.at_end(padded * sizeof(I)).data());
    const bool is_read = interp::read_codes(head, {}, at.data(), static_cast<u32>(at.size()), count, steps, scratch_);
    CHECK(is_read == expected.has_value(), "%zu bytes for %u codes, %u lanes", bytes.size(), count, head.lanes);
    CHECK(!is_read || std::equal(expected->begin(), expected->end(), steps), "%zu bytes for %u codes, %u lanes",
          bytes.size(), count, head.lanes);
  }

  GuardedMemory bytes_{naive::kMaxCodedBytes<I> + 1024};
  GuardedMemory steps_{interp::kTileValues * sizeof(I)};
  interp::ReadScratch scratch_;
  int taken_ = 0;
  int refused_ = 0;
};

void damage_head(Random& random, interp::Head& head) {
  constexpr u32 kLanes[] = {1, 4, 16, 32};
  switch (random.below(5)) {
    case 0:
      head.lanes = kLanes[random.below(4)];
      break;
    case 1:
      head.model = static_cast<u32>(random.below(interp::kClassModels));
      head.set = static_cast<u32>(random.below(interp::kTableSets));
      break;
    case 2:
      head.escape_bytes = 2u << random.below(3);
      break;
    case 3:
      head.raw_planes = static_cast<u32>(random.below(random.one_in(2) ? 4 : interp::kMaxRawPlanes + 1));
      break;
    default:
      head.is_closed = !head.is_closed;
  }
}

void damage_bytes(Random& random, naive::Bytes& bytes) {
  const auto anywhere = [&] { return static_cast<std::ptrdiff_t>(random.below(bytes.size() + 1)); };
  switch (random.below(6)) {
    case 0:
      bytes.resize(random.below(bytes.size() + 1));
      break;
    case 1:
      bytes.erase(bytes.begin(), bytes.begin() + anywhere());
      break;
    case 2:
      bytes.insert(bytes.begin() + anywhere(), random.below(9), static_cast<std::uint8_t>(random.below(2)));
      break;
    default:
      if (bytes.empty()) break;
      for (std::uint64_t flips = 1 + random.below(3); flips > 0; --flips) {
        // Half of the changes are in the states and the first words, or in the last bytes.
        const std::size_t reach = random.one_in(2) ? bytes.size() : std::min<std::size_t>(bytes.size(), 150);
        const std::size_t at = random.below(reach);
        bytes[random.one_in(2) ? at : bytes.size() - 1 - at] ^= static_cast<std::uint8_t>(1u << random.below(8));
      }
  }
}

// Garbage, with no more raw planes than the reader takes.
template <class I>
void check_garbage(Random& random, Reader<I>& reader) {
  interp::Head head;
  for (int i = 0; i < 4; ++i) damage_head(random, head);
  naive::Bytes bytes(random.below(random.one_in(4) ? 5000 : 300));
  const std::uint64_t density = random.below(9);
  for (std::uint8_t& byte : bytes) byte = random.below(8) < density ? static_cast<std::uint8_t>(random.next()) : 0;
  reader.check(head, bytes, static_cast<u32>(1 + random.below(2000)));
}

template <class I>
void check_all() {
  Random random(29);
  Reader<I> reader;
  for (int round = 0; round < 3000; ++round) {
    const naive::Codes kind = naive::kAllCodes[random.below(std::size(naive::kAllCodes))];
    const auto count = static_cast<u32>(1 + random.below(round % 100 == 0 ? interp::kTileValues : 700));
    const std::vector<I> codes = naive::make_codes<I>(random, kind, count, 10 * random.fraction() - 4);
    const int unit = random.one_in(2) ? 16 : 1;
    naive::Plan plan = naive::with_own_table(codes, naive::shortened(codes, naive::plan(codes)));
    // Also plans that the encoder would not choose, but could have written.
    if (random.one_in(2)) plan.lanes = random.one_in(2) ? 32 : 16;
    if (random.one_in(4)) plan.model = static_cast<unsigned>(random.below(interp::kClassModels));
    if (random.one_in(4)) plan.set = static_cast<unsigned>(random.below(interp::kTableSets));
    interp::Head head;
    head.lanes = plan.lanes;
    head.model = plan.model;
    head.set = plan.set;
    head.escape_bytes = plan.escape_bytes;
    head.raw_planes = plan.raw_planes;
    head.is_closed = unit != 1;
    head.has_own_table = !plan.own_table.empty();
    std::copy(plan.own_table.begin(), plan.own_table.end(), head.own_table);
    const naive::Bytes bytes = naive::encode(codes, plan);
    reader.check(head, bytes, count);
    CHECK(reader.taken() > round, "an undamaged one");
    for (int i = 0; i < 5; ++i) {
      naive::Bytes damaged = bytes;
      interp::Head other = head;
      if (random.one_in(4)) {
        damage_head(random, other);
      } else {
        damage_bytes(random, damaged);
      }
      reader.check(
          other, damaged,
          random.one_in(8) ? std::min(interp::kTileValues, static_cast<u32>(1 + random.below(count + 64))) : count);
    }
    check_garbage(random, reader);
  }
  CHECK(reader.taken() > 3000 && reader.refused() > 3000, "%d taken, %d refused", reader.taken(), reader.refused());
}

}  // namespace

void check_backend() {
  check_all<i32>();
  check_all<i64>();
}

}  // namespace h5lossy::test
