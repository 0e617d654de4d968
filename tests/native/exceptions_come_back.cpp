// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The section of exceptions of cuSZp2 and AATROX (docs/format/block-codecs.md, "Exceptions"). Written sections equal
// those of a naive writer. The reader accepts and refuses the same sections as a naive one, restores the same values
// and changes no others. Sections are right, damaged, or garbage, and lie before and after guard pages.

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <vector>

#include "check.h"
#include "codecs/block_tiles.h"
#include "frames.h"
#include "guarded_memory.h"
#include "random.h"
#include "values.h"

namespace h5lossy::test {
namespace {

namespace blocks = scalar::blocks;

// A tile's blocks: which positions are inside of the data, and which of these are exceptions.
struct Block {
  std::uint64_t inside;
  std::uint64_t exceptions;
};

// All in u32 words, as the page says; W is the word of a value.
template <class W>
class Naive {
 public:
  Naive(std::uint32_t block_values, const std::vector<Block>& tile) : n_(block_values), tile_(tile) {}

  [[nodiscard]] std::size_t groups() const { return (tile_.size() + 31) / 32; }

  [[nodiscard]] Bytes write(const std::vector<W>& values) const {
    std::uint32_t set = 0;
    std::optional<W> common;
    std::vector<std::uint32_t> flags(3 * groups());
    Bytes masks, bits;
    const W* next = values.data();
    for (std::size_t b = 0; b < tile_.size(); ++b) {
      const auto [inside, exceptions] = tile_[b];
      const std::vector<W> mine = exceptions_of(tile_[b], next);
      next += std::popcount(inside);
      if (mine.empty()) continue;
      if (!common) common = mine[0];
      const std::uint32_t bit = 1u << b % 32;
      set |= 1u << b / 32;
      flags[3 * (b / 32)] |= bit;
      if (exceptions == inside) {
        flags[3 * (b / 32) + 1] |= bit;
      } else {
        append(masks, &exceptions, n_ / 8);
      }
      if (std::all_of(mine.begin(), mine.end(), [&](W value) { return value == *common; })) {
        flags[3 * (b / 32) + 2] |= bit;
      } else {
        append(bits, mine.data(), mine.size() * sizeof(W));
      }
    }
    Bytes section;
    if (set == 0) return section;
    append(section, &set, 4);
    append(section, &*common, sizeof(W));
    for (std::size_t g = 0; g < groups(); ++g) {
      if ((set >> g & 1) != 0) append(section, &flags[3 * g], 12);
    }
    section.insert(section.end(), masks.begin(), masks.end());
    section.insert(section.end(), bits.begin(), bits.end());
    return section;
  }

  // Nothing if the section must be refused.
  [[nodiscard]] std::optional<std::vector<W>> read(const Bytes& section, std::vector<W> values) const {
    left_ = section;
    const auto set = take<std::uint32_t>();
    const auto common = take<W>();
    if (!set || !common || *set == 0 || (std::uint64_t{*set} >> groups()) != 0) return {};
    std::vector<std::uint32_t> flags(3 * groups());
    for (std::size_t g = 0; g < groups(); ++g) {
      if ((*set >> g & 1) == 0) continue;
      for (std::size_t i = 0; i < 3; ++i) {
        const auto word = take<std::uint32_t>();
        if (!word) return {};
        flags[3 * g + i] = *word;
      }
      const std::uint32_t present = flags[3 * g], full = flags[3 * g + 1], uniform = flags[3 * g + 2];
      const std::size_t mine = std::min<std::size_t>(32, tile_.size() - 32 * g);
      if (present == 0 || (full & ~present) != 0 || (uniform & ~present) != 0) return {};
      if ((std::uint64_t{present} >> mine) != 0) return {};
    }
    std::vector<std::uint64_t> masks(tile_.size());
    for (std::size_t b = 0; b < tile_.size(); ++b) {
      const std::uint64_t inside = tile_[b].inside;
      if (!is_set(flags, 0, b)) continue;
      masks[b] = inside;
      if (is_set(flags, 1, b)) continue;
      const auto mask = take_mask();
      if (!mask || *mask == 0 || (*mask & ~inside) != 0 || *mask == inside) return {};
      masks[b] = *mask;
    }
    std::size_t value = 0;
    for (std::size_t b = 0; b < tile_.size(); ++b) {
      for (std::uint32_t e = 0; e < n_; ++e) {
        if ((tile_[b].inside >> e & 1) == 0) continue;
        if ((masks[b] >> e & 1) != 0) {
          const std::optional<W> bits = is_set(flags, 2, b) ? common : take<W>();
          if (!bits) return {};
          values[value] = *bits;
        }
        ++value;
      }
    }
    if (!left_.empty()) return {};
    return values;
  }

 private:
  static void append(Bytes& bytes, const void* from, std::size_t size) {
    const auto* const begin = static_cast<const std::uint8_t*>(from);
    bytes.insert(bytes.end(), begin, begin + size);
  }

  [[nodiscard]] std::vector<W> exceptions_of(const Block& block, const W* values) const {
    std::vector<W> found;
    for (std::uint32_t e = 0; e < n_; ++e) {
      if ((block.inside >> e & 1) == 0) continue;
      if ((block.exceptions >> e & 1) != 0) found.push_back(*values);
      ++values;
    }
    return found;
  }

  static bool is_set(const std::vector<std::uint32_t>& flags, std::size_t which, std::size_t block) {
    return (flags[3 * (block / 32) + which] >> block % 32 & 1) != 0;
  }

  template <class Number>
  [[nodiscard]] std::optional<Number> take() const {
    if (left_.size() < sizeof(Number)) return {};
    Number number;
    std::memcpy(&number, left_.data(), sizeof number);
    left_ = left_.subspan(sizeof number);
    return number;
  }

  [[nodiscard]] std::optional<std::uint64_t> take_mask() const {
    return n_ == 32 ? std::optional<std::uint64_t>(take<std::uint32_t>()) : take<std::uint64_t>();
  }

  std::uint32_t n_;
  const std::vector<Block>& tile_;
  mutable std::span<const std::uint8_t> left_;
};

template <class T, u32 n, u32 max_blocks>
class Check {
  using W = scalar::Word<T>;

 public:
  explicit Check(std::uint64_t seed) : random_(seed) {}

  void run() {
    make_tile();
    const Naive<W> naive(n, blocks_);
    const Bytes expected = naive.write(values_);
    check_written(expected);
    if (expected.empty()) return;
    check_read(naive, expected);
    CHECK(read_, "a section of %zu bytes is refused", expected.size());
    for (int i = 0; i < 40; ++i) check_read(naive, damaged(expected));
    for (int i = 0; i < 10; ++i) check_read(naive, garbage());
    check_hostile(naive, expected);
  }

  [[nodiscard]] int taken() const { return taken_; }
  [[nodiscard]] int refused() const { return refused_; }

 private:
  // Up to all blocks; some of their positions are outside of the data, as at the edges of arrays, or only positions
  // after the last value are. Exceptions have any density, are in some of the blocks, and often are all equal.
  void make_tile() {
    blocks_.resize(1 + random_.below(random_.one_in(3) ? max_blocks : std::min<u32>(max_blocks, 70)));
    const bool has_gaps = n == 64 && random_.one_in(2);
    const std::uint64_t whole = blocks::first_bits(n), density = random_.below(9), affected = 1 + random_.below(8);
    inside_.clear();
    for (Block& block : blocks_) {
      block.inside = whole;
      if (has_gaps && random_.one_in(2)) block.inside = random_.next() | std::uint64_t{1} << random_.below(64);
      block.exceptions = 0;
      const bool is_affected = random_.one_in(affected);
      for (u32 e = 0; e < n && is_affected; ++e) {
        block.exceptions |= std::uint64_t{random_.below(8) < density ? 1u : 0u} << e;
      }
      if (random_.one_in(8)) block.exceptions = whole;
      if (&block == &blocks_.back() && !has_gaps)
        block.inside = blocks::first_bits(1 + static_cast<u32>(random_.below(n)));
      block.exceptions &= block.inside;
      inside_.push_back(block.inside);
    }
    u32 count = 0;
    for (const Block& block : blocks_) count += static_cast<u32>(std::popcount(block.inside));
    values_.resize(count);
    const std::uint64_t kinds = 1 + random_.below(3);
    for (W& value : values_) value = static_cast<W>(kinds < 3 ? 7 + random_.below(kinds) : random_.next());
    insides_ =
        has_gaps ? blocks::Insides<n>(static_cast<u32>(blocks_.size()), inside_.data()) : blocks::Insides<n>(count);
  }

  void check_written(const Bytes& expected) {
    const auto* const values = reinterpret_cast<const u8*>(values_.data());
    blocks::Exceptions<T, n, max_blocks> exceptions;
    u32 found = 0;
    for (u32 b = 0; b < blocks_.size(); ++b) {
      const u64 mask = blocks::to_values(blocks_[b].exceptions, blocks_[b].inside);
      found += static_cast<u32>(std::popcount(mask));
      if (mask != 0) exceptions.add(b, blocks_[b].exceptions, blocks_[b].inside);
    }
    CHECK(exceptions.count() == found, "%u exceptions, expected %u", exceptions.count(), found);
    const u32 size = exceptions.measure(insides_, values);
    CHECK(size == expected.size(), "section of %u bytes, expected %zu", size, expected.size());
    const std::span<std::uint8_t> out = section_memory_.at_end(size);
    const u8* const end = exceptions.write(insides_, values, out.data());
    CHECK(end == out.data() + size, "%td bytes of %u", end - out.data(), size);
    CHECK(std::equal(out.begin(), out.end(), expected.begin()), "section of %u bytes", size);
  }

  void check_read(const Naive<W>& naive, const Bytes& section) {
    std::vector<W> decoded(values_.size(), static_cast<W>(0x5A5A5A5A5A5A5A5Aull));
    const std::optional<std::vector<W>> expected = naive.read(section, decoded);
    for (const bool at_end : {true, false}) {
      const std::span<std::uint8_t> in =
          at_end ? section_memory_.at_end(section.size()) : section_memory_.at_front(section.size());
      const std::size_t raw_bytes = decoded.size() * sizeof(W);
      const std::span<std::uint8_t> out =
          at_end ? values_memory_.at_end(raw_bytes) : values_memory_.at_front(raw_bytes);
      std::copy(section.begin(), section.end(), in.begin());
      std::memcpy(out.data(), decoded.data(), raw_bytes);
      read_ = blocks::restore_exceptions<T, n>(insides_, in.data(), static_cast<u32>(in.size()), out.data());
      CHECK(read_ == expected.has_value(), "a section of %zu bytes for %zu blocks: %s", section.size(), blocks_.size(),
            read_ ? "taken" : "refused");
      CHECK(!read_ || std::memcmp(out.data(), expected->data(), raw_bytes) == 0,
            "a section of %zu bytes for %zu blocks", section.size(), blocks_.size());
    }
    ++(read_ ? taken_ : refused_);
  }

  // Changes a few bits or words, half of the time near the beginning, or the length.
  Bytes damaged(Bytes section) {
    for (std::uint64_t changes = random_.below(3); changes > 0; --changes) {
      const std::size_t reach = random_.one_in(2) ? section.size() : std::min<std::size_t>(section.size(), 40);
      const std::size_t at = random_.below(reach);
      section[at] ^= static_cast<std::uint8_t>(1u << random_.below(8));
      if (random_.one_in(4)) std::memset(section.data() + at / 4 * 4, random_.one_in(2) ? 0 : 0xFF, 4);
    }
    if (random_.one_in(4)) section.resize(4 * random_.below(section.size() / 4 + 4));
    return section;
  }

  Bytes garbage() {
    Bytes section(random_.below(120));
    for (std::uint8_t& byte : section) byte = static_cast<std::uint8_t>(random_.one_in(3) ? 0 : random_.next());
    if (section.size() >= 4 && random_.one_in(2)) {
      const std::uint32_t groups = 1;
      std::memcpy(section.data(), &groups, sizeof groups);
    }
    return section;
  }

  // The errors that the page names, each in a section that is otherwise right.
  void check_hostile(const Naive<W>& naive, const Bytes& section) {
    const auto refused = [&](const Bytes& changed, const char* what) {
      check_read(naive, changed);
      CHECK(!read_, "%s: taken, for %zu blocks", what, blocks_.size());
    };
    const auto with = [&](std::size_t at, std::uint32_t bits, bool set) {
      Bytes changed = section;
      std::uint32_t word;
      std::memcpy(&word, changed.data() + at, sizeof word);
      word = set ? word | bits : word & ~bits;
      std::memcpy(changed.data() + at, &word, sizeof word);
      return changed;
    };
    const std::size_t present_at = 4 + sizeof(W), full_at = present_at + 4, uniform_at = present_at + 8;
    std::uint32_t present;
    std::memcpy(&present, section.data() + present_at, sizeof present);
    refused(with(0, ~0u, false), "groups of 0");
    if (naive.groups() < 32) refused(with(0, 1u << naive.groups(), true), "a group behind the last one");
    refused(with(present_at, ~0u, false), "present of 0");
    if (present != ~0u) {
      refused(with(full_at, ~present, true), "full that is no subset");
      refused(with(uniform_at, ~present, true), "uniform that is no subset");
    }
    if (blocks_.size() < 32) refused(with(present_at, 1u << blocks_.size(), true), "a block behind the last one");
    for (const std::size_t size : {std::size_t{0}, std::size_t{4}, section.size() - 4}) {
      refused(Bytes(section.begin(), section.begin() + static_cast<std::ptrdiff_t>(size)),
              "a section that is too short");
    }
    Bytes longer = section;
    longer.resize(section.size() + 4);
    refused(longer, "a section that is too long");

    // The first mask, if there is one.
    std::uint32_t groups, masks = 0;
    std::memcpy(&groups, section.data(), sizeof groups);
    for (int g = 0; g < std::popcount(groups); ++g) {
      std::uint32_t flags[2];
      std::memcpy(flags, section.data() + present_at + 12 * static_cast<std::size_t>(g), sizeof flags);
      masks += static_cast<std::uint32_t>(std::popcount(flags[0] & ~flags[1]));
    }
    if (masks == 0) return;
    const auto mask_block = std::find_if(blocks_.begin(), blocks_.end(), [](const Block& block) {
      return block.exceptions != 0 && block.exceptions != block.inside;
    });
    const std::size_t mask_at = present_at + 12 * static_cast<std::size_t>(std::popcount(groups));
    const auto with_mask = [&](std::uint64_t mask) {
      Bytes changed = section;
      std::memcpy(changed.data() + mask_at, &mask, n / 8);
      return changed;
    };
    refused(with_mask(0), "a mask of 0");
    refused(with_mask(mask_block->inside), "a mask of all");
    const std::uint64_t outside = blocks::first_bits(n) & ~mask_block->inside;
    // One exception fewer inside and one outside of the data, so that the length stays right.
    const std::uint64_t fewer = mask_block->exceptions & (mask_block->exceptions - 1);
    if (outside != 0) refused(with_mask(fewer | std::bit_floor(outside)), "a mask beyond the data");
  }

  Random random_;
  std::vector<Block> blocks_;
  std::vector<u64> inside_;
  std::vector<W> values_;
  blocks::Insides<n> insides_{0};
  GuardedMemory section_memory_{max_blocks * n * sizeof(W) + max_blocks * 8 + 1024};
  GuardedMemory values_memory_{max_blocks * n * sizeof(W)};
  bool read_ = false;
  int taken_ = 0;
  int refused_ = 0;
};

template <class T, u32 n, u32 max_blocks>
void check_all(int times) {
  Check<T, n, max_blocks> check(19);
  for (int i = 0; i < times; ++i) check.run();
  // The generators are useful only if both outcomes are frequent.
  CHECK(check.taken() > 2 * times && check.refused() > 5 * times, "%d taken, %d refused", check.taken(),
        check.refused());
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  using h5lossy::test::check_all;
  check_all<float, 32, 128>(500);
  check_all<double, 32, 128>(500);
  check_all<float, 64, 64>(500);
  check_all<double, 64, 64>(500);
  check_all<float, 32, 1024>(100);
  check_all<double, 32, 1024>(100);
}
