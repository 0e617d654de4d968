// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's coder, compiled for one backend, makes the same choices as the naive one, writes the same bytes, and reads
// them: for codes of all magnitudes and both widths, with every class, number of lanes and size of escapes, with planes
// that are raw in every block, and for any number of codes.

#include "codecs/interp/tile_codes.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "check.h"
#include "for_backend.h"
#include "guarded_memory.h"
#include "interp_naive_coder.h"
#include "random.h"

namespace h5lossy::test {
namespace {

namespace interp = H5L_TARGET::interp;

// What has been tried.
struct Seen {
  std::set<unsigned> classes, lanes, sets, models, escape_bytes;
  unsigned most_raw_planes = 0;
  int shortened = 0, unshortened = 0, own_tables = 0;
  unsigned largest = 0;  // frequency of an own table
};

template <class I>
I* codes_at(std::span<std::uint8_t> memory) {
  return reinterpret_cast<I*>(memory.data());
}

template <class I>
class Coder {
 public:
  // `seen` records what the coder chose.
  void check(const std::vector<I>& codes, int unit, Seen& seen) {
    const auto count = static_cast<u32>(codes.size());
    const u32 padded = interp::blocks_of(count) * interp::kBlockCodes;
    I* const in = codes_at<I>(codes_.at_end(padded * sizeof(I)));
    std::copy(codes.begin(), codes.end(), in);
    std::fill(in + count, in + padded, I{0});

    const naive::Plan first = naive::plan(codes);
    interp::Coding plan;
    interp::plan_coding(in, count, plan);
    compare(first, plan, count);
    const naive::Plan shortened = naive::shortened(codes, first);
    const naive::Plan expected = naive::with_own_table(codes, shortened);
    interp::shorten_coding(in, count, plan, scratch_.at_end(interp::kShortenBytes).data());
    compare(expected, plan, count);
    seen.shortened += shortened.cost < first.cost;
    seen.unshortened += shortened.cost == first.cost;
    seen.own_tables += plan.has_own_table;
    for (const u16 f : expected.own_table) seen.largest = std::max<unsigned>(seen.largest, f);
    const naive::Bytes bytes = naive::encode(codes, expected);
    CHECK(interp::room_of(plan) <= naive::kMaxCodedBytes<I>, "%u codes", count);
    const std::span<std::uint8_t> out = out_.at_end(interp::room_of(plan));
    const u32 written =
        interp::write_codes(in, count, plan, out.data(), scratch_.at_end(interp::kWriteScratchBytes).data());
    CHECK(written == bytes.size(), "%u codes: %u, %zu bytes", count, written, bytes.size());
    CHECK(std::equal(bytes.begin(), bytes.end(), out.begin()), "%u codes", count);

    interp::Head head;
    head.lanes = plan.lanes;
    head.set = plan.set;
    head.model = plan.model;
    head.escape_bytes = plan.escape_bytes;
    head.raw_planes = plan.raw_planes;
    head.is_closed = unit != 1;
    head.has_own_table = plan.has_own_table;
    std::copy(std::begin(plan.own_table), std::end(plan.own_table), head.own_table);
    const std::span<std::uint8_t> payload = out_.at_end(written);
    std::copy(bytes.begin(), bytes.end(), payload.begin());
    I* const steps = codes_at<I>(steps_.at_end(padded * sizeof(I)));
    CHECK(interp::read_codes(head, {}, payload.data(), written, count, steps, reading_), "%u codes", count);
    for (u32 i = 0; i < padded; ++i) {
      const I step = i < count ? naive::Wrapping<I>::times(codes[i], unit) : I{0};
      CHECK(steps[i] == step, "code %u of %u: %lld, %lld", i, count, static_cast<long long>(steps[i]),
            static_cast<long long>(step));
    }

    for (const unsigned c : expected.classes) seen.classes.insert(c);
    seen.lanes.insert(plan.lanes);
    seen.sets.insert(plan.set);
    seen.models.insert(plan.model);
    seen.escape_bytes.insert(plan.escape_bytes);
    seen.most_raw_planes = std::max(seen.most_raw_planes, plan.raw_planes);
  }

 private:
  static void compare(const naive::Plan& expected, const interp::Coding& plan, u32 count) {
    CHECK(std::equal(expected.classes.begin(), expected.classes.end(), plan.classes), "%u codes", count);
    CHECK(plan.has_own_table != expected.own_table.empty(), "%u codes", count);
    CHECK(std::equal(expected.own_table.begin(), expected.own_table.end(), plan.own_table), "%u codes", count);
    CHECK(plan.raw_planes == expected.raw_planes, "%u codes: %u, %u", count, plan.raw_planes, expected.raw_planes);
    CHECK(plan.set == expected.set, "%u codes: %u, %u", count, plan.set, expected.set);
    CHECK(plan.model == expected.model, "%u codes: %u, %u", count, plan.model, expected.model);
    CHECK(plan.lanes == expected.lanes, "%u codes: %u, %u", count, plan.lanes, expected.lanes);
    CHECK(plan.escape_bytes == expected.escape_bytes, "%u codes: %u, %u", count, plan.escape_bytes,
          expected.escape_bytes);
    CHECK(plan.cost == expected.cost, "%u codes: %llu, %llu", count, plan.cost,
          static_cast<unsigned long long>(expected.cost));
  }

  GuardedMemory codes_{interp::kTileValues * sizeof(I)};
  GuardedMemory steps_{interp::kTileValues * sizeof(I)};
  GuardedMemory out_{naive::kMaxCodedBytes<I> + 1024};
  GuardedMemory scratch_{interp::kWriteScratchBytes};
  interp::ReadScratch reading_;
};

template <class I>
void check_all() {
  Random random(23);
  Coder<I> coder;
  Seen seen;
  const auto check = [&](naive::Codes kind, std::size_t count, double bits) {
    const std::vector<I> codes = naive::make_codes<I>(random, kind, count, bits);
    coder.check(codes, random.one_in(2) ? 16 : 1, seen);
  };
  for (const naive::Codes kind : naive::kAllCodes) {
    for (std::size_t count = 1; count <= 100; ++count) check(kind, count, 8 * random.fraction() - 4);
    for (const std::size_t count : {1000u, 4097u, 12345u, 32767u, 32768u})
      check(kind, count, 8 * random.fraction() - 4);
  }
  for (double bits = -5; bits < 12; bits += 0.5) check(naive::Codes::laplacian, interp::kTileValues, bits);
  CHECK(seen.classes.size() == interp::kClasses, "%zu classes", seen.classes.size());
  CHECK(seen.shortened > 0 && seen.unshortened > 0, "%d, %d", seen.shortened, seen.unshortened);
  for (double bits = -2; bits < 24; bits += 0.25) check(naive::Codes::uniform, interp::kTileValues, bits);
  CHECK(seen.own_tables > 10 && seen.largest > 1482, "%d tables, %u", seen.own_tables, seen.largest);
  CHECK(seen.lanes.size() == 4, "%zu numbers of lanes", seen.lanes.size());
  CHECK(seen.sets.size() == interp::kTableSets, "%zu sets of tables", seen.sets.size());
  CHECK(seen.models.size() == interp::kClassModels, "%zu models", seen.models.size());
  CHECK(seen.escape_bytes.size() == (sizeof(I) == 4 ? 2 : 3), "%zu sizes of escapes", seen.escape_bytes.size());
  CHECK(seen.most_raw_planes == (sizeof(I) == 4 ? 20 : 48), "%u raw planes", seen.most_raw_planes);
}

// Quotients for all frequencies: of the smallest and the largest states, and where a quotient changes.
void check_quotients() {
  Random random(29);
  for (u32 frequency = 1; frequency <= interp::kFrequencySum; ++frequency) {
    const u64 reciprocal = interp::reciprocal_of(frequency);
    const auto check = [&](u64 state) {
      const u32 quotient = interp::quotient_of(static_cast<u32>(state), reciprocal);
      CHECK(quotient == state / frequency, "%llu / %u: %u", static_cast<unsigned long long>(state), frequency,
            quotient);
    };
    constexpr u32 most = 1u << 21;
    for (u32 i = 0; i < 1000; ++i) {
      const u64 quotient = i < 500 ? i % 2 == 0 ? i / 2 + 1 : most - i / 2 : 1 + random.below(most);
      check(quotient * frequency - 1);
      if (quotient < most) check(quotient * frequency);
    }
  }
}

// Bytes that must never change. An escape of 4 bytes, two blocks, raw planes.
void check_golden() {
  std::vector<i32> codes(40);
  for (int i = 0; i < 40; ++i) codes[static_cast<std::size_t>(i)] = (i * i * 7 % 23 - 11) * (i < 32 ? 3 : 0);
  codes[5] = 100000;
  codes[39] = -1;
  const naive::Bytes golden = {0xBB, 0x07, 0x70, 0x04, 0x90, 0x7C, 0x40, 0x0D, 0x03, 0x00, 0x07, 0x24,
                               0xE0, 0x03, 0x56, 0x00, 0x6E, 0x3B, 0x9A, 0x24, 0x59, 0x4D, 0x80, 0x42,
                               0x01, 0x40, 0x92, 0x5A, 0x4D, 0x59, 0x9C, 0x18, 0x39, 0x4E, 0x41, 0x00,
                               0x82, 0x20, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x00};
  const naive::Bytes bytes = naive::encode(codes, naive::shortened(codes, naive::plan(codes)));
  CHECK(bytes == golden, "%zu bytes", bytes.size());
  Seen seen;
  Coder<i32>().check(codes, 16, seen);
}

}  // namespace

void check_backend() {
  check_quotients();
  check_golden();
  check_all<i32>();
  check_all<i64>();
}

}  // namespace h5lossy::test
