// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's sections of exceptions and of patches (docs/format/interp.md), compiled for one backend. Written sections
// equal those of a naive writer. The reader accepts and refuses the same sections as a naive one, restores the same
// values and changes no others. Sections are right, damaged, or garbage, and lie before and after guard pages.

#include "codecs/interp/exceptions.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <vector>

#include "check.h"
#include "for_backend.h"
#include "guarded_memory.h"
#include "random.h"
#include "values.h"

namespace h5lossy::test {
namespace {

namespace interp = H5L_TARGET::interp;
using interp::Patch;
using Bytes = std::vector<std::uint8_t>;
using Flags = std::vector<bool>;  // by place in the tile

// Reads numbers until the section ends.
class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> section) : left_(section) {}

  template <class Number>
  std::optional<Number> take() {
    if (left_.size() < sizeof(Number)) return {};
    Number number;
    std::memcpy(&number, left_.data(), sizeof number);
    left_ = left_.subspan(sizeof number);
    return number;
  }

  [[nodiscard]] std::size_t left() const { return left_.size(); }

 private:
  std::span<const std::uint8_t> left_;
};

void append(Bytes& bytes, const void* from, std::size_t size) {
  const std::size_t end = bytes.size();
  bytes.resize(end + size);
  if (size != 0) std::memcpy(bytes.data() + end, from, size);
}

template <class Number>
void append(Bytes& bytes, Number number) {
  append(bytes, &number, sizeof number);
}

// ---------------------------------------------------------------------------------------------------------------------
// Exceptions, one value at a time

using Extents = std::array<u32, 4>;

std::size_t stride_along(const Extents& extents, std::size_t axis) {
  std::size_t stride = 1;
  for (std::size_t a = axis + 1; a < 4; ++a) stride *= extents[a];
  return stride;
}

// Masks as defined on their page, one bit at a time. `decide(frequency of 1, bit)` is called for each decision, and
// returns it.
class NaiveMask {
 public:
  explicit NaiveMask(const Extents& extents) {
    std::vector<long> strides;
    for (std::size_t a = 4; a-- > 0;) {
      if (extents[a] > 1) strides.push_back(static_cast<long>(stride_along(extents, a)));
    }
    const long r = strides.size() > 1 ? strides[1] : 0, s = strides.size() > 2 ? strides[2] : 0;
    const std::size_t bold = s != 0 ? 3 : r != 0 ? 2 : 1;
    distances_ = s != 0   ? std::vector<long>{1, r, s, r - 1, s + 1, s - 1, s + r, s - r}
                 : r != 0 ? std::vector<long>{1, r, r - 1, r + 1, 2, 2 * r, r - 2, r + 2}
                          : std::vector<long>{1, 2, 3, 4};
    for (int context = 0; context < 256; ++context) {
      p_[context] = 32768;
      for (std::size_t k = 0; k < distances_.size(); ++k) {
        const int weight = distances_[k] == 0 ? 0 : k < bold ? 3 * 2048 : 2048;
        p_[context] += (context >> k & 1) != 0 ? weight : -weight;
      }
    }
    for (int context = 256; context < 260; ++context) p_[context] = 1024;
  }

  template <class Decide>
  void walk(Flags& flags, Decide&& decide) {
    for (std::size_t first = 0; first < flags.size(); first += 32) {
      if (unit(flags, first, 32, decide)) continue;
      for (std::size_t i = first; i < std::min(first + 32, flags.size()); i += 8) {
        if (unit(flags, i, 8, decide)) continue;
        for (std::size_t bit = i; bit < std::min(i + 8, flags.size()); ++bit) {
          int context = 0;
          for (std::size_t k = 0; k < distances_.size(); ++k) {
            if (distances_[k] != 0) context |= at(flags, static_cast<long>(bit) - distances_[k]) << k;
          }
          flags[bit] = decision(context, flags[bit], decide);
        }
      }
    }
  }

 private:
  static int at(const Flags& flags, long i) { return i >= 0 && flags[static_cast<std::size_t>(i)] ? 1 : 0; }

  template <class Decide>
  bool decision(int context, bool bit, Decide&& decide) {
    int& p = p_[context];
    bit = decide(static_cast<u32>(std::clamp(p >> 5, 8, 2040)), bit);
    p += bit ? (65535 - p) >> 4 : -(p >> 4);
    return bit;
  }

  // Whether the bits of a unit are those around it.
  template <class Decide>
  bool unit(Flags& flags, std::size_t first, long size, Decide&& decide) {
    const long begin = static_cast<long>(first);
    const int before = at(flags, begin - 1);
    for (const long distance : distances_) {
      for (long i = begin - distance; distance >= size && i < begin - distance + size; ++i) {
        if (at(flags, i) != before) return false;
      }
    }
    const std::size_t end = std::min(first + static_cast<std::size_t>(size), flags.size());
    bool differs = false;
    for (std::size_t i = first; i < end; ++i) differs |= at(flags, static_cast<long>(i)) != before;
    if (decision((size == 32 ? 256 : 258) + before, differs, decide)) return false;
    for (std::size_t i = first; i < end; ++i) flags[i] = before != 0;
    return true;
  }

  std::vector<long> distances_;
  int p_[260];
};

Bytes write_mask(const Extents& extents, Flags flags) {
  std::vector<std::pair<u32, u32>> symbols;  // the frequency of each, and those before it
  NaiveMask(extents).walk(flags, [&](u32 ones, bool bit) {
    symbols.push_back(bit ? std::pair{ones, 2048 - ones} : std::pair{2048 - ones, 0u});
    return bit;
  });
  std::uint64_t state = 1u << 16;
  std::vector<std::uint16_t> words;
  for (std::size_t i = symbols.size(); i-- > 0;) {
    const auto [frequency, before] = symbols[i];
    if (state >= std::uint64_t{frequency} << 21) {
      words.push_back(static_cast<std::uint16_t>(state));
      state >>= 16;
    }
    state = (state / frequency << 11) + state % frequency + before;
  }
  Bytes bytes;
  append(bytes, static_cast<std::uint16_t>(words.size()));
  append(bytes, static_cast<std::uint32_t>(state));
  for (std::size_t i = words.size(); i-- > 0;) append(bytes, words[i]);
  return bytes;
}

bool read_mask(Reader& in, const Extents& extents, Flags& flags) {
  const auto words = in.take<std::uint16_t>();
  const auto first = in.take<std::uint32_t>();
  if (!words || !first || in.left() < 2u * *words) return false;
  std::size_t left = *words;
  std::uint32_t state = *first;
  bool is_complete = true;
  NaiveMask(extents).walk(flags, [&](u32 ones, bool) {
    const bool bit = (state & 2047) >= 2048 - ones;
    state = (state >> 11) * (bit ? ones : 2048 - ones) + (state & 2047) - (bit ? 2048 - ones : 0);
    if (state < 1u << 16) {
      is_complete = is_complete && left != 0;
      state = state << 16 | (is_complete ? *in.take<std::uint16_t>() : 0u);
      left -= is_complete ? 1 : 0;
    }
    return bit;
  });
  return is_complete && left == 0 && state == 1u << 16;
}

template <class T>
Bytes write_naively(const Extents& extents, const Flags& flags, const std::vector<Bits<T>>& values) {
  std::vector<Bits<T>> found;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i]) found.push_back(values[i]);
  }
  const auto times = [&](Bits<T> bits) { return std::count(found.begin(), found.end(), bits); };
  std::vector<Bits<T>> candidates;
  for (std::size_t i = 0; i < 8; ++i) candidates.push_back(found[found.size() * i / 8]);
  const auto is_new = [&](Bits<T> bits) { return std::count(candidates.begin(), candidates.end(), bits) == 0; };
  const auto other = std::find_if(found.begin(), found.end(), is_new);
  if (other != found.end()) candidates.push_back(*other);
  const Bits<T> common = *std::max_element(candidates.begin(), candidates.end(),
                                           [&](Bits<T> a, Bits<T> b) { return times(a) < times(b); });
  Flags others(flags.size());
  Bytes bits;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    others[i] = flags[i] && values[i] != common;
    if (others[i]) append(bits, values[i]);
  }
  std::set<Bits<T>> different(found.begin(), found.end());
  different.erase(common);
  if (different.size() == 1) bits.resize(sizeof(T));
  Bytes section;
  const auto append_mask = [&](const Flags& mask) {
    const Bytes bytes = write_mask(extents, mask);
    append(section, bytes.data(), bytes.size());
  };
  append(section, common);
  append(section, static_cast<std::uint16_t>(bits.empty() ? 0 : different.size() == 1 ? 3 : 1));
  append_mask(flags);
  if (!bits.empty()) append_mask(others);
  append(section, bits.data(), bits.size());
  return section;
}

// The size of the section; nothing if it must be refused.
template <class T>
std::optional<std::size_t> read_naively(const Extents& extents, std::span<const std::uint8_t> section,
                                        std::vector<Bits<T>>& values) {
  Reader in(section);
  const auto common = in.take<Bits<T>>();
  const auto head = in.take<std::uint16_t>();
  if (!common || !head || *head > 3 || *head == 2) return {};
  Flags flags(values.size()), others(values.size());
  if (!read_mask(in, extents, flags)) return {};
  if (*head != 0 && !read_mask(in, extents, others)) return {};
  std::optional<Bits<T>> alike;
  if ((*head & 2) != 0 && !(alike = in.take<Bits<T>>())) return {};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (others[i] && !flags[i]) return {};
    const std::optional<Bits<T>> bits = !others[i] ? common : alike ? alike : in.take<Bits<T>>();
    if (!bits) return {};
    if (flags[i]) values[i] = *bits;
  }
  return section.size() - in.left();
}

template <class T>
class Sections {
 public:
  explicit Sections(std::uint64_t seed) : random_(seed) {}

  void check(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      make_tile();
      const Bytes section = write_naively<T>(extents_, flags_, values_);
      check_written(section);
      check_read(section);
      for (int damage = 0; damage < 8; ++damage) check_read(damaged(section));
      Bytes garbage(random_.below(60));
      for (std::uint8_t& byte : garbage) byte = static_cast<std::uint8_t>(random_.one_in(2) ? 0 : random_.next());
      check_read(garbage);
    }
    CHECK(taken_ > rounds && refused_ > rounds, "%d taken, %d refused", taken_, refused_);
  }

 private:
  // Masks of all kinds: random, the same in each slice along some axis, runs, a few values, all.
  void make_tile() {
    const u32 most[] = {3, 12, 40, random_.one_in(4) ? 32768u : 300u};
    do {
      for (std::size_t a = 0; a < 4; ++a)
        extents_[a] = random_.one_in(3) ? 1 : 1 + static_cast<u32>(random_.below(most[a]));
      count_ = extents_[0] * extents_[1] * extents_[2] * extents_[3];
    } while (count_ > 32768 || (count_ > 4000 && !random_.one_in(8)));
    flags_.assign(count_, false);
    const std::uint64_t density = 1 + random_.below(random_.one_in(3) ? 2000 : 6), kind = random_.below(4);
    const std::size_t period = stride_along(extents_, random_.below(4)), run = 1 + random_.below(200);
    bool is_on = false;
    for (std::size_t i = 0; i < count_; ++i) {
      if (kind != 3 || i % run == 0) is_on = random_.one_in(density);
      flags_[i] = is_on;
      if (kind == 1 && i >= period) flags_[i] = flags_[i - period] != random_.one_in(500);
      if (kind == 2) flags_[i] = i % period < period / 2;
    }
    flags_[random_.below(count_)] = true;
    values_.resize(count_);
    const std::uint64_t kinds = 1 + random_.below(3);
    for (Bits<T>& value : values_) {
      value = static_cast<Bits<T>>(kinds < 3 ? 7 + random_.below(kinds) * random_.below(2) : random_.next());
    }
  }

  Bytes damaged(Bytes section) {
    switch (random_.below(4)) {
      case 0:
        section.resize(random_.below(section.size() + 1));
        break;
      case 1:
        section[random_.below(section.size())] ^= static_cast<std::uint8_t>(1u << random_.below(8));
        break;
      case 2:
        section[random_.below(std::min<std::size_t>(section.size(), 40))] ^=
            static_cast<std::uint8_t>(1u << random_.below(8));
        break;
      default:
        section[random_.below(section.size())] = static_cast<std::uint8_t>(random_.next());
    }
    return section;
  }

  void check_written(const Bytes& expected) {
    std::vector<i32> integers(count_);
    for (std::size_t i = 0; i < count_; ++i)
      integers[i] = flags_[i] ? interp::kNone<i32> : static_cast<i32>(random_.next() >> 40);
    const u32 words = interp::mask_words(count_);
    auto* const mask = reinterpret_cast<u32*>(mask_memory_.at_end(4 * words).data());
    auto* const scratch = reinterpret_cast<u32*>(scratch_memory_.at_end(4 * words).data());
    interp::find_exceptions(integers.data(), count_, mask);
    std::vector<u32> again(words);
    const std::vector<long long> wide(integers.begin(), integers.end());
    std::vector<long long> marked = wide;
    for (std::size_t i = 0; i < count_; ++i) {
      if (flags_[i]) marked[i] = interp::kNone<long long>;
    }
    interp::find_exceptions(marked.data(), count_, again.data());
    for (u32 i = 0; i < 32 * words; ++i) {
      const bool expected_bit = i < count_ && flags_[i];
      CHECK((mask[i / 32] >> i % 32 & 1) == (expected_bit ? 1 : 0), "bit %u of %u", i, count_);
      CHECK(mask[i / 32] == again[i / 32], "word %u of %u", i / 32, words);
    }
    const std::span<std::uint8_t> values = value_memory_.at_end(count_ * sizeof(T));
    std::memcpy(values.data(), values_.data(), values.size());
    const std::vector<u32> before(mask, mask + words);
    const auto neighbours = interp::mask_neighbours_of(extents_of());
    auto& decisions =
        *reinterpret_cast<interp::MaskDecisions*>(decision_memory_.at_end(sizeof(interp::MaskDecisions)).data());
    const auto plan = interp::measure_exceptions<T>(neighbours, mask, values.data(), count_, scratch, decisions);
    CHECK(plan.bytes + 2 * interp::kMaskLoss >= expected.size() && plan.bytes <= expected.size() + 20,
          "section of %u bytes, expected %zu", plan.bytes, expected.size());
    const std::span<std::uint8_t> out = section_memory_.at_end(expected.size());
    const std::span<std::uint8_t> words_memory = word_memory_.at_end(interp::kMaskScratchBytes);
    const u8* const end = interp::write_exceptions(plan, mask, values.data(), count_, decisions, words_memory.data(),
                                                   out.data(), [](Bits<T> bits) { return bits; });
    CHECK(std::equal(before.begin(), before.end(), mask), "the mask of %u values was changed", count_);
    CHECK(end == out.data() + out.size(), "%td bytes of %zu", end - out.data(), out.size());
    CHECK(std::equal(out.begin(), out.end(), expected.begin()), "section of %zu bytes", out.size());
  }

  void check_read(const Bytes& section) {
    std::vector<Bits<T>> expected(count_, static_cast<Bits<T>>(0x5A5A5A5A5A5A5A5Aull));
    const std::vector<Bits<T>> untouched = expected;
    const std::optional<std::size_t> size = read_naively<T>(extents_, section, expected);
    const bool at_front = random_.one_in(2);
    const std::span<std::uint8_t> in =
        at_front ? section_memory_.at_front(section.size()) : section_memory_.at_end(section.size());
    std::copy(section.begin(), section.end(), in.begin());
    const u32 words = interp::mask_words(count_);
    auto* const mask = reinterpret_cast<u32*>(mask_memory_.at_end(4 * words).data());
    auto* const others = reinterpret_cast<u32*>(scratch_memory_.at_end(4 * words).data());
    interp::Exceptions<T> exceptions;
    const u8* const end = interp::read_exceptions(interp::mask_neighbours_of(extents_of()), in.data(),
                                                  in.data() + in.size(), count_, mask, others, exceptions);
    CHECK((end != nullptr) == size.has_value(), "section of %zu bytes, %s", section.size(),
          size ? "was refused" : "was not refused");
    ++(size ? taken_ : refused_);
    if (!size) return;
    CHECK(end == in.data() + *size, "%td bytes, expected %zu", end - in.data(), *size);
    const std::span<std::uint8_t> values = value_memory_.at_end(count_ * sizeof(T));
    std::memcpy(values.data(), untouched.data(), values.size());
    interp::restore_exceptions(exceptions, mask, others, count_, values.data());
    CHECK(std::memcmp(values.data(), expected.data(), values.size()) == 0, "%u values", count_);
  }

  using Array = u32[4];
  const Array& extents_of() {
    std::copy(extents_.begin(), extents_.end(), array_);
    return array_;
  }

  Random random_;
  GuardedMemory section_memory_{400000}, mask_memory_{4096}, scratch_memory_{4096}, value_memory_{32768 * sizeof(T)},
      decision_memory_{sizeof(interp::MaskDecisions)}, word_memory_{interp::kMaskScratchBytes};
  Extents extents_ = {};
  Array array_ = {};
  u32 count_ = 0;
  Flags flags_;
  std::vector<Bits<T>> values_;
  int taken_ = 0, refused_ = 0;
};

// ---------------------------------------------------------------------------------------------------------------------
// Patches

std::vector<std::uint16_t> write_patches_naively(const std::vector<Patch>& patches) {
  std::vector<std::uint16_t> entries;
  int at = -1;
  for (const Patch& patch : patches) {
    for (; patch.place - at - 1 >= 4095; at += 4095) entries.push_back(0xFFFF);
    const int code = patch.delta < 0 ? patch.delta + 8 : patch.delta + 7;
    entries.push_back(static_cast<std::uint16_t>((patch.place - at - 1) * 16 + code));
    at = patch.place;
  }
  return entries;
}

// Places and differences; nothing if the section must be refused.
std::optional<std::vector<Patch>> read_patches_naively(std::span<const std::uint8_t> section, u32 entries, u32 count) {
  std::vector<Patch> patches;
  Reader in(section);
  std::int64_t at = -1;
  for (u32 i = 0; i < entries; ++i) {
    const auto entry = in.take<std::uint16_t>();
    if (!entry) return {};
    if (*entry == 0xFFFF) {
      at += 4095;
      continue;
    }
    at += *entry / 16 + 1;
    if (at >= count) return {};
    const int code = *entry % 16;
    patches.push_back({static_cast<u16>(at), static_cast<interp::i8>(code < 8 ? code - 8 : code - 7)});
  }
  return patches;
}

template <class T>
void check_read_patches(const GuardedMemory& memory, const Bytes& section, u32 entries, u32 count) {
  const std::span<std::uint8_t> in = memory.at_end(section.size());
  std::copy(section.begin(), section.end(), in.begin());
  const std::optional<std::vector<Patch>> expected = read_patches_naively(section, entries, count);
  const u8* const end = interp::read_patches(in.data(), in.data() + in.size(), entries, count);
  CHECK((end != nullptr) == expected.has_value(), "%u entries of %u values, %s", entries, count,
        expected ? "were refused" : "were not refused");
  if (!expected) return;
  CHECK(end == in.data() + interp::patches_bytes(entries), "%u entries", entries);
  interp::Lattice<T> lattice = {};
  lattice.fine = 1;
  const std::vector<i32> integers(count, 100);
  std::vector<T> values(count, T{-1}), expected_values = values;
  std::vector<i32> steps(count, 1000), expected_steps = steps;
  for (const Patch& patch : *expected) {
    expected_values[patch.place] = static_cast<T>(16 * 93 + patch.delta);
    expected_steps[patch.place] += patch.delta;
  }
  interp::restore_patches(lattice, in.data(), entries, integers.data(), -7, reinterpret_cast<u8*>(values.data()));
  interp::patch_steps(in.data(), entries, steps.data());
  CHECK(values == expected_values && steps == expected_steps, "%u entries of %u values", entries, count);
}

template <class T>
void check_patches(Random& random) {
  const GuardedMemory memory(200000);
  for (int i = 0; i < 600; ++i) {
    const u32 count = 1 + static_cast<u32>(random.below(random.one_in(2) ? 200 : 32768));
    const std::uint64_t gap = 1 + random.below(random.one_in(2) ? 10 : 10000);
    std::vector<Patch> list;
    for (std::uint64_t place = random.below(gap); place < count; place += 1 + random.below(gap)) {
      const auto magnitude = random.between(1, 8);
      list.push_back({static_cast<u16>(place), static_cast<interp::i8>(random.one_in(2) ? magnitude : -magnitude)});
    }
    // The longest gap without a skip, and gaps of nearly that length.
    if (i % 3 == 0 && count > 20000) {
      const u32 first = static_cast<u32>(random.below(3)), second = first + (i % 2 == 0 ? 4095 : 2 * 4095);
      list = {{static_cast<u16>(first), -8}, {static_cast<u16>(second - 1 + random.below(3)), 8}};
    }
    const interp::Patches patches{list.data(), static_cast<u32>(list.size()), static_cast<u32>(list.size())};
    const std::vector<std::uint16_t> expected = write_patches_naively(list);
    const u32 entries = interp::measure_patches(patches);
    CHECK(entries == expected.size(), "%u entries, expected %zu", entries, expected.size());
    Bytes section;
    for (const std::uint16_t entry : expected) append(section, entry);
    const std::span<std::uint8_t> out = memory.at_end(interp::patches_bytes(entries));
    CHECK(interp::write_patches(patches, out.data()) == out.data() + out.size(), "%u entries", entries);
    CHECK(out.size() == section.size() && std::equal(out.begin(), out.end(), section.begin()), "%u entries", entries);

    check_read_patches<T>(memory, section, entries, count);
    check_read_patches<T>(memory, section, entries + static_cast<u32>(random.below(3)), count);
    check_read_patches<T>(memory, section, entries, 1 + static_cast<u32>(random.below(count)));
    for (int damage = 0; damage < 4 && !section.empty(); ++damage) {
      Bytes damaged = section;
      if (random.one_in(3)) damaged.resize(random.below(section.size()));
      if (!damaged.empty()) damaged[random.below(damaged.size())] ^= static_cast<std::uint8_t>(1u << random.below(8));
      check_read_patches<T>(memory, damaged, entries, count);
    }
  }
  // The largest number of entries, each of which skips as much as possible.
  check_read_patches<T>(memory, Bytes(4 * 32768, 0xFF), 65535, 32768);
  Bytes section(4 * 32768, 0xFF);
  section[section.size() - 2] = section[section.size() - 1] = 0;
  check_read_patches<T>(memory, section, 65535, 32768);
}

}  // namespace

void check_backend() {
  Sections<float>(1).check(cases(1500));
  Sections<double>(2).check(cases(1500));
  Random random(3);
  check_patches<float>(random);
  check_patches<double>(random);
}

}  // namespace h5lossy::test
