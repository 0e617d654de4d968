// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The code in native/codecs/simd/ for the words of one block, compiled for one backend, equals naive loops: differences
// for any prediction and their sums, planes and back, and bins of hostile values. For blocks of 32 and 64 values of
// both types. Planes are written at most kPlanesOverrun bytes past their end, and not read past it.

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "check.h"
#include "codecs/cuszp2.h"
#include "codecs/simd/block_bins.h"
#include "codecs/simd/block_planes.h"
#include "codecs/simd/block_rows.h"
#include "for_backend.h"
#include "guarded_memory.h"
#include "random.h"
#include "values.h"

namespace h5lossy::test {
namespace {

namespace rows = H5L_TARGET::simd;
namespace blocks = H5L_TARGET::blocks;
using H5L_TARGET::cuszp2::before;

template <u32 n, class W>
rows::Rows<n, W> to_rows(const std::vector<W>& words) {
  return rows::load_rows<n, W>(words.data());
}

template <u32 n, class W>
std::vector<W> to_words(const rows::Rows<n, W>& block) {
  std::vector<W> words(n);
  rows::store_rows(block, words.data());
  return words;
}

template <class W>
W sign_last(W difference) {
  const bool is_negative = difference >> (8 * sizeof(W) - 1) != 0;
  return static_cast<W>((is_negative ? W{0} - difference : difference) << 1 | (is_negative ? 1 : 0));
}

// Numbers of up to `bits` bits, signed; with bits 0 all zeros.
template <u32 n, class W>
std::vector<W> numbers(Random& random, u32 bits) {
  std::vector<W> words(n);
  for (W& word : words) {
    const auto magnitude = bits == 0 ? W{0} : static_cast<W>(static_cast<W>(random.next()) >> (8 * sizeof(W) - bits));
    word = random.one_in(2) ? magnitude : static_cast<W>(W{0} - magnitude);
  }
  return words;
}

// The numbers with the largest magnitude, all of one sign, so that sums are largest.
template <u32 n, class W>
std::vector<W> extremes(u32 bits) {
  const auto largest = static_cast<W>(bits == 0 ? 0 : static_cast<W>(~W{0}) >> (8 * sizeof(W) - bits));
  return std::vector<W>(n, bits % 2 == 0 ? largest : static_cast<W>(W{0} - largest));
}

template <class W>
u32 planes_of(const std::vector<W>& words) {
  W any = 0;
  for (const W word : words) any |= word;
  return blocks::width_of(any);
}

template <u32 n, class W>
std::vector<u8> planes_naively(const std::vector<W>& words, u32 planes) {
  std::vector<u8> bytes(planes * (n / 8));
  for (u32 p = 0; p < planes; ++p) {
    for (u32 e = 0; e < n; ++e) bytes[p * (n / 8) + e / 8] |= static_cast<u8>((words[e] >> p & 1) << (7 - e % 8));
  }
  return bytes;
}

template <u32 n, class W>
class Block {
 public:
  explicit Block(Random& random) : random_(random) {}

  template <auto prediction>
  void check(const std::vector<W>& differences) {
    const std::string name = std::to_string(n) + " words of " + std::to_string(8 * sizeof(W)) + " bits";
    const W edge = random_.one_in(2) ? W{0} : static_cast<W>(random_.next());
    // Differences, and the bins from which they are computed.
    std::vector<W> bins(n), words(n);
    for (u32 i = 0; i < n; ++i) {
      bins[i] = static_cast<W>(differences[i] + (i == 0 ? edge : bins[prediction(i)]));
      words[i] = sign_last(differences[i]);
    }
    const auto block = to_rows<n>(bins);
    rows::Rows<n, W> result;
    rows::differences<prediction>(block, rows::edge_of(edge), result);
    CHECK(to_words(result) == words, "%s", name.c_str());
    rows::signs_last(to_rows<n>(differences), result);
    CHECK(to_words(result) == words, "%s", name.c_str());
    CHECK(rows::first_of(block) == bins[0] && rows::word_of<W>(rows::last_of(block)) == bins[n - 1], "%s",
          name.c_str());
    CHECK(blocks::width_of(rows::any_bits(to_rows<n>(words))) == planes_of(words), "%s", name.c_str());
    const bool is_constant = std::all_of(bins.begin(), bins.end(), [&](W bin) { return bin == bins[0]; });
    CHECK(rows::all_are(block, bins[0]) == is_constant, "%s", name.c_str());

    // Some of the words, the first of which differs.
    const u64 mask = random_.next() & blocks::first_bits(n);
    std::vector<W> kept(n), with_first = words;
    for (u32 i = 0; i < n; ++i) kept[i] = (mask >> i & 1) != 0 ? words[i] : W{0};
    with_first[0] = 5;
    CHECK(to_words(rows::keep(to_rows<n>(words), mask)) == kept, "%s, mask 0x%llx", name.c_str(), mask);
    CHECK(to_words(rows::either(to_rows<n>(kept), rows::keep(to_rows<n>(words), ~mask))) == words, "%s", name.c_str());
    CHECK(rows::all_are_equal(to_rows<n>(kept), to_rows<n>(words)) == (kept == words), "%s", name.c_str());
    CHECK(to_words(rows::with_first(to_rows<n>(words), W{5})) == with_first, "%s", name.c_str());

    // Planes, also more than needed; then all of them back.
    const u32 most = 8 * sizeof(W), least = planes_of(words);
    const u32 planes = random_.one_in(4) ? least + static_cast<u32>(random_.below(most - least + 1)) : least;
    const std::vector<u8> bytes = planes_naively<n>(words, planes);
    const std::span<std::uint8_t> out = written_.at_end(bytes.size() + rows::kPlanesOverrun);
    std::vector<W> masked = words;
    for (const W first_mask : {static_cast<W>(~W{0}), W{1}}) {
      masked[0] = words[0] & first_mask;
      const std::vector<u8> expected = planes_naively<n>(masked, planes);
      const u8* const end = rows::store_planes_masked<n>(to_rows<n>(words), first_mask, planes, out.data());
      CHECK(end == out.data() + bytes.size(), "%s, %u planes: %td bytes", name.c_str(), planes, end - out.data());
      CHECK(std::equal(expected.begin(), expected.end(), out.begin()), "%s, %u planes", name.c_str(), planes);
    }
    const u8* const end = rows::store_planes<n>(to_rows<n>(words), planes, out.data());
    CHECK(end == out.data() + bytes.size(), "%s, %u planes: %td bytes", name.c_str(), planes, end - out.data());
    CHECK(std::equal(bytes.begin(), bytes.end(), out.begin()), "%s, %u planes", name.c_str(), planes);

    const std::span<std::uint8_t> in = read_.at_end(bytes.size());
    std::copy(bytes.begin(), bytes.end(), in.begin());
    for (const bool keep_first : {true, false}) {
      std::vector<W> rest = differences;
      if (!keep_first) rest[0] = 0;
      std::vector<W> sums(n);
      for (u32 i = 0; i < n; ++i) sums[i] = static_cast<W>(rest[i] + (i == 0 ? edge : sums[prediction(i)]));
      rows::LoadedPlanes<n, W> loaded;
      loaded.load(in.data(), planes);
      loaded.differences(keep_first, result);
      CHECK(to_words(result) == rest, "%s, %u planes", name.c_str(), planes);
      rows::Edge<W> last = rows::edge_of(edge);
      loaded.template bins<prediction>(keep_first, last, result);
      CHECK(to_words(result) == sums, "%s, %u planes", name.c_str(), planes);
      if (prediction(n - 1) == n - 2) {
        CHECK(rows::word_of<W>(last) == sums[n - 1], "%s, %u planes", name.c_str(), planes);
      }
    }
  }

 private:
  static constexpr std::size_t kMostBytes = n * sizeof(W) + rows::kPlanesOverrun;
  Random& random_;
  GuardedMemory written_{kMostBytes}, read_{kMostBytes};
};

template <u32 n, class W, auto prediction>
void check_prediction(Random& random) {
  Block<n, W> block(random);
  // A word has its sign bit below its magnitude, so one bit less is left.
  for (u32 bits = 0; bits < 8 * sizeof(W); ++bits) {
    block.template check<prediction>(extremes<n, W>(bits));
    for (int i = 0; i < 30; ++i) {
      std::vector<W> words = numbers<n, W>(random, bits);
      if (random.one_in(2)) {  // sparse, and a first one that stands out
        for (W& word : words) word = random.one_in(8) ? word : W{0};
        words[0] = numbers<n, W>(random, 8 * sizeof(W) - 1)[0];
      }
      block.template check<prediction>(words);
    }
  }
}

template <class T, u32 n, class Q>
void check_bins(const Q& q, const std::vector<Bits<T>>& values, const std::string& name) {
  using W = Bits<T>;
  static_assert(sizeof(W) == sizeof(T));
  const rows::Bins<T, Q> quantizer(q);
  rows::Rows<n, H5L_TARGET::Word<T>> block;
  const auto* const from = reinterpret_cast<const u8*>(values.data());
  u64 exceptions = 0;
  std::vector<H5L_TARGET::Word<T>> bins(n);
  for (u32 i = 0; i < n; ++i) {
    if (!blocks::bin_of(q, values[i], bins[i])) exceptions |= u64{1} << i;
  }
  CHECK(quantizer.exceptions(from, block) == exceptions, "%s", name.c_str());
  const auto found = to_words(block);
  for (u32 i = 0; i < n; ++i) CHECK((exceptions >> i & 1) != 0 || found[i] == bins[i], "%s, value %u", name.c_str(), i);
  if (quantizer.from_values(from, block)) CHECK(exceptions == 0 && to_words(block) == bins, "%s", name.c_str());

  std::vector<W> decoded(n);
  quantizer.to_values(to_rows<n>(bins), reinterpret_cast<u8*>(decoded.data()));
  for (u32 i = 0; i < n; ++i) CHECK(decoded[i] == blocks::bits_of(q, bins[i]), "%s, value %u", name.c_str(), i);
}

template <class T, u32 n>
void check_values(Random& random) {
  using H5L_TARGET::absolute_quantizer;
  for (const Setting& setting : settings<T>()) {
    for (const std::uint64_t hostile_one_in : {0u, 30u, 2u, 1u}) {
      for (int i = 0; i < 200; ++i) {
        Values<T> source(random, setting, hostile_one_in);
        Quantizer quantizer;
        quantizer.kind = static_cast<BoundKind>(setting.kind);
        quantizer.has_fill = random.one_in(2);
        const Bits<T> fills[] = {kSign<T>, Bits<T>{0}, std::bit_cast<Bits<T>>(T{-999}), source.hostile()};
        quantizer.fill_bits = fills[random.below(std::size(fills))];
        const std::vector<Bits<T>> values = source.make(n);
        const std::string name = std::to_string(n) + " values, kind " + std::to_string(setting.kind) + ", bound " +
                                 std::to_string(setting.bound);
        if (setting.kind == H5L_BOUND_POINTWISE_RELATIVE) {
          quantizer = H5L_TARGET::make_pointwise<T>(quantizer, setting.bound);
          if (quantizer.kind != BoundKind::lossless)
            check_bins<T, n>(blocks::folded_quantizer<T>(quantizer), values, name);
        } else if (setting.kind == H5L_BOUND_ABSOLUTE) {
          quantizer = H5L_TARGET::make_absolute<T>(quantizer, setting.bound);
          if (quantizer.kind != BoundKind::lossless) check_bins<T, n>(absolute_quantizer<T>(quantizer), values, name);
        }
      }
    }
  }
}

template <class T>
void check_all(Random& random) {
  using W = H5L_TARGET::Word<T>;
  check_prediction<32, W, blocks::before_in_run>(random);
  check_prediction<64, W, before<2>>(random);
  check_prediction<64, W, before<3>>(random);
  check_values<T, 32>(random);
  check_values<T, 64>(random);
}

}  // namespace

void check_backend() {
  Random random(17);
  check_all<float>(random);
  check_all<double>(random);
}

}  // namespace h5lossy::test
