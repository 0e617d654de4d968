// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The vector code of every backend that this machine can run, each function by itself, gives what its definition gives: on
// random, sparse, empty and full input, on hostile values, for all numbers of groups, and to addresses of any alignment.
// (Zero removal has tests of its own.)

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <vector>

#include "all_twins.h"
#include "check.h"
#include "codecs/pfpl.h"
#include "quantizers.h"
#include "random.h"
#include "values.h"

namespace h5lossy::test {
namespace {

template <class T>
void check_words(const Twins& twins, Random& random, const Setting& setting, std::uint64_t hostile_one_in) {
  using W = scalar::Word<T>;
  constexpr u32 count = 256;
  Values<T> source(random, setting, hostile_one_in);
  const std::vector<Bits<T>> values = source.make(count);
  const Bits<T> fills[] = {kSign<T>, values[7], values[8] ^ 1, 12345, source.hostile()};
  const Quantizer quantizer = make_quantizer<T>(setting, random.one_in(2), fills[random.below(std::size(fills))]);
  const std::vector<std::uint8_t> raw = to_bytes<T>(values, false);

  std::vector<W> words(count), bits(count), expected(count);
  const bool have_words = twins.words<W>().words_of(quantizer, raw.data(), count, words.data());
  // Words of values, and any others.
  std::vector<W> others = words;
  for (W& word : others) {
    if (random.one_in(4)) word = static_cast<W>(random.next() >> random.below(64));
  }
  twins.words<W>().bits_of(quantizer, others.data(), count, bits.data());
  scalar::pfpl::with_quantizer<T>(quantizer, [&](const auto& q) {
    bool expect_words = true;
    for (u32 i = 0; i < count; ++i) expect_words &= scalar::pfpl::word_of(q, static_cast<W>(values[i]), expected[i]);
    CHECK(have_words == expect_words, "%s, float%zu: kind %u, bound %.17g", twins.backend, 8 * sizeof(T), setting.kind,
          setting.bound);
    for (u32 i = 0; i < count; ++i) {
      CHECK(words[i] == expected[i], "%s, float%zu: kind %u, bound %.17g, value 0x%" PRIx64, twins.backend,
            8 * sizeof(T), setting.kind, setting.bound, std::uint64_t{values[i]});
      CHECK(bits[i] == scalar::pfpl::bits_of(q, others[i]), "%s, float%zu: kind %u, bound %.17g, word 0x%" PRIx64,
            twins.backend, 8 * sizeof(T), setting.kind, setting.bound, std::uint64_t{others[i]});
    }
  });
}

// From words to the planes of their residuals, bit by bit: docs/format/pfpl.md.
template <class W>
std::vector<W> planes_naively(const std::vector<W>& words, u32 groups) {
  constexpr u32 n = scalar::kWordBits<W>;
  std::vector<W> planes(words.size());
  for (u32 i = 0; i < words.size(); ++i) {
    const W before = i == 0 ? W{0} : words[i - 1];
    const W residual = scalar::to_negabinary(static_cast<W>(words[i] - before));
    for (u32 j = 0; j < n; ++j) planes[j * groups + i / n] |= ((residual >> (n - 1 - j)) & 1) << (n - 1 - i % n);
  }
  return planes;
}

template <class T>
void check_planes(const Twins& twins, Random& random, u32 groups) {
  using W = scalar::Word<T>;
  constexpr u32 n = scalar::kWordBits<W>;
  std::vector<W> words(groups * n);
  // Residuals of any width, with zeros below or not, in some of the groups only, or anywhere.
  const std::uint64_t shift = random.below(n + 1), low_zeros = random.one_in(2) ? 0 : random.below(n);
  const std::uint64_t used_one_in = 1 + random.below(3);
  W word = 0;
  for (u32 i = 0; i < words.size(); ++i) {
    const bool used = (i / n) % used_one_in == 0;
    const W random_word = static_cast<W>(random.next());
    const W residual = shift == n || !used ? W{0} : static_cast<W>(random_word >> shift);
    words[i] = word += static_cast<W>(residual >> low_zeros << low_zeros);
  }
  const std::vector<W> expected = planes_naively(words, groups);
  std::vector<W> planes(words.size(), W{0x55});
  const u32 done = twins.words<W>().to_planes(words.data(), groups, planes.data());
  for (u32 j = 0; j < n; ++j) {
    for (u32 g = 0; g < done; ++g) {
      CHECK(planes[j * groups + g] == expected[j * groups + g], "%s: plane %u of group %u of %u, words of %u bits",
            twins.backend, j, g, groups, n);
    }
  }
  // To memory of any alignment that a word has.
  std::vector<W> room(words.size() + 64 / sizeof(W) + 1, W{0x55});
  W* const again = room.data() + random.below(64 / sizeof(W));
  const u32 read = twins.words<W>().from_planes(expected.data(), groups, random.one_in(2), again);
  CHECK(read == done, "%s: %u and %u groups of %u", twins.backend, done, read, groups);
  CHECK(std::equal(again, again + read * n, words.begin()), "%s: %u groups, words of %u bits", twins.backend, groups,
        n);
  CHECK(again[read * n] == 0x55, "%s wrote behind %u groups", twins.backend, read);
  // All that a full tile has is done by vectors, or nothing.
  if (groups == 16384 / sizeof(W) / n) CHECK(done == groups || done == 0, "%s: %u of %u", twins.backend, done, groups);
}

template <class W>
void check_sums(const Twins& twins, Random& random) {
  for (u32 count = 0; count < 100; ++count) {
    std::vector<W> words(count), expected(count);
    W sum = static_cast<W>(random.next());
    const W first = sum;
    for (u32 i = 0; i < count; ++i) expected[i] = sum += words[i] = static_cast<W>(random.next());
    const W last = twins.words<W>().running_sums(words.data(), count, first);
    CHECK(last == sum && words == expected, "%s: %u words of %zu bytes", twins.backend, count, sizeof(W));
  }
}

// Pointwise-relative bins are found without a division; the definition has one. Both agree wherever the bin is within the
// limit, and none is within it elsewhere: docs/design/bound.md.
template <class T>
void check_steps(const Twins& twins, Random& random) {
  using W = scalar::Word<T>;
  constexpr W most = scalar::kInfinity<T> - 1 - scalar::kOne<T>, limit = scalar::kPointwiseBinLimit<T>;
  constexpr u32 group = 64;
  std::vector<W> values, words;
  for (int i = 0; i < 20000; ++i) {
    // S of every size, from 3 on, also next to powers of two.
    const W power = W{1} << random.below(scalar::kMantissaBits<T>);
    const W width = random.one_in(2) ? power : power + static_cast<W>(random.below(power));
    Quantizer quantizer;
    quantizer.kind = BoundKind::pointwise_relative;
    quantizer.scale = 2 * (random.one_in(4) && width > 1 ? width - 1 : width) + 1;
    if (quantizer.scale > (u64{1} << scalar::kMantissaBits<T>)+1) quantizer.scale = 3;
    const auto q = scalar::pointwise_quantizer<T>(quantizer);
    values.clear();
    const auto add = [&](W distance) {
      if (distance > most) return;
      values.push_back(scalar::kOne<T> + distance);
      values.push_back(scalar::kOne<T> - (distance < scalar::kOne<T> ? distance : scalar::kOne<T> - 1));
    };
    for (int j = 0; j < 20; ++j) {
      // Just at the border between two numbers of steps: of any size, at the limit, and the largest.
      const W all = most / q.scale;
      const W reach = all < limit + 3 ? all : limit + 3;
      const W steps = j == 0 ? reach : j == 1 ? all : static_cast<W>(random.below(u64{reach >> random.below(20)} + 1));
      const W border = steps * q.scale + q.scale / 2;
      for (W distance : {border - 1, border, border + 1, steps * q.scale}) add(distance);
    }
    add(most);
    add(static_cast<W>(random.below(most)));
    values.resize((values.size() + group - 1) / group * group, scalar::kOne<T>);
    words.resize(values.size());
    const auto* const raw = reinterpret_cast<const std::uint8_t*>(values.data());
    CHECK(twins.words<W>().words_of(quantizer, raw, static_cast<u32>(values.size()), words.data()), "%s, float%zu",
          twins.backend, 8 * sizeof(T));
    for (std::size_t k = 0; k < values.size(); ++k) {
      const bool is_up = values[k] >= scalar::kOne<T>;
      const W distance = is_up ? values[k] - scalar::kOne<T> : scalar::kOne<T> - values[k];
      const W steps = (distance + q.scale / 2) / q.scale;
      W bin = 0, expected = 0;
      const bool is_good = scalar::quantize(q, values[k], bin);
      CHECK(!is_good || (steps <= limit && bin == (is_up ? steps : W{0} - steps)), "float%zu: 0x%" PRIx64 " / %" PRIu64,
            8 * sizeof(T), std::uint64_t{values[k]}, std::uint64_t{q.scale});
      scalar::pfpl::word_of(q, values[k], expected);
      CHECK(words[k] == expected, "%s, float%zu: 0x%" PRIx64 " / %" PRIu64, twins.backend, 8 * sizeof(T),
            std::uint64_t{values[k]}, std::uint64_t{q.scale});
    }
  }
}

template <class T>
void check_all() {
  Random random(17);
  for (const Twins& twins : all_twins()) check_steps<T>(twins, random);
  for (const Setting& setting : settings<T>()) {
    for (const std::uint64_t hostile_one_in : {0u, 1000u, 30u, 2u, 1u}) {
      for (int i = 0; i < 100; ++i) {
        for (const Twins& twins : all_twins()) check_words<T>(twins, random, setting, hostile_one_in);
      }
    }
  }
  for (const Twins& twins : all_twins()) {
    check_sums<scalar::Word<T>>(twins, random);
    for (u32 groups = 1; groups <= 16384 / (8 * sizeof(T) * sizeof(T)); ++groups) {
      for (int i = 0; i < 5; ++i) check_planes<T>(twins, random, groups);
    }
  }
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  h5lossy::test::check_all<float>();
  h5lossy::test::check_all<double>();
}
