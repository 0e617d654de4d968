// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's sections of exceptions and of patches (docs/format/interp.md), compiled for one backend: written, they are what a
// naive writer makes of them; read, they take and refuse what a naive reader does, put the same values in place and
// touch no others. Sections are right, damaged, or garbage, and lie in front of and behind guard pages.

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
// Exceptions, one value after the other

Bytes write_bitmap(const Flags& flags, std::size_t stride) {
  std::vector<std::uint32_t> words((flags.size() + 31) / 32);
  for (std::size_t i = 0; i < flags.size(); ++i) {
    const bool before = stride != 0 && i >= stride && flags[i - stride];
    if (flags[i] != before) words[i / 32] |= 1u << i % 32;
  }
  std::vector<std::uint32_t> present((words.size() + 31) / 32);
  std::uint32_t groups = 0;
  for (std::size_t w = 0; w < words.size(); ++w) {
    if (words[w] == 0) continue;
    present[w / 32] |= 1u << w % 32;
    groups |= 1u << w / 32;
  }
  Bytes bytes;
  append(bytes, groups);
  for (const std::uint32_t word : present) {
    if (word != 0) append(bytes, word);
  }
  for (const std::uint32_t word : words) {
    if (word != 0) append(bytes, word);
  }
  return bytes;
}

bool read_bitmap(Reader& in, std::size_t stride, Flags& flags) {
  const std::size_t words = (flags.size() + 31) / 32;
  std::vector<std::size_t> groups, set;
  const auto word = in.take<std::uint32_t>();
  if (!word) return false;
  for (std::size_t g = 0; g < 32; ++g) {
    if ((*word >> g & 1) != 0) groups.push_back(g);
  }
  for (const std::size_t g : groups) {
    const auto present = in.take<std::uint32_t>();
    if (!present || *present == 0) return false;
    for (std::size_t w = 0; w < 32; ++w) {
      if ((*present >> w & 1) == 0) continue;
      if (32 * g + w >= words) return false;
      set.push_back(32 * g + w);
    }
  }
  for (const std::size_t w : set) {
    const auto bits = in.take<std::uint32_t>();
    if (!bits || *bits == 0) return false;
    for (std::size_t i = 0; i < 32; ++i) {
      if ((*bits >> i & 1) == 0) continue;
      if (32 * w + i >= flags.size()) return false;
      flags[32 * w + i] = true;
    }
  }
  for (std::size_t i = stride; i < flags.size() && stride != 0; ++i) flags[i] = flags[i] != flags[i - stride];
  return true;
}

using Extents = std::array<u32, 4>;

std::size_t stride_along(const Extents& extents, std::size_t axis) {
  std::size_t stride = 1;
  for (std::size_t a = axis + 1; a < 4; ++a) stride *= extents[a];
  return stride;
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
  Bytes bitmap = write_bitmap(flags, 0);
  std::uint32_t head = 0;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    const std::size_t stride = stride_along(extents, axis);
    if (stride >= flags.size() || (axis > 0 && stride_along(extents, axis - 1) == stride)) continue;
    const Bytes changes = write_bitmap(flags, stride);
    if (changes.size() >= bitmap.size()) continue;
    bitmap = changes;
    head = static_cast<std::uint32_t>(axis + 1);
  }
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
  append(section, common);
  append(section, bits.empty() ? head : different.size() == 1 ? head | 24 : head | 8);
  append(section, bitmap.data(), bitmap.size());
  if (bits.empty()) return section;
  const Bytes bitmap_of_others = write_bitmap(others, 0);
  append(section, bitmap_of_others.data(), bitmap_of_others.size());
  append(section, bits.data(), bits.size());
  return section;
}

// The section's size; nothing where it is to be refused.
template <class T>
std::optional<std::size_t> read_naively(const Extents& extents, std::span<const std::uint8_t> section,
                                        std::vector<Bits<T>>& values) {
  Reader in(section);
  const auto common = in.take<Bits<T>>();
  const auto head = in.take<std::uint32_t>();
  if (!common || !head || *head > 31 || (*head & 7) > 4 || (*head & 24) == 16) return {};
  const std::size_t stride = (*head & 7) == 0 ? 0 : stride_along(extents, (*head & 7) - 1);
  if (stride >= values.size()) return {};
  Flags flags(values.size()), others(values.size());
  if (!read_bitmap(in, stride, flags)) return {};
  if ((*head & 8) != 0 && !read_bitmap(in, 0, others)) return {};
  std::optional<Bits<T>> alike;
  if ((*head & 16) != 0 && !(alike = in.take<Bits<T>>())) return {};
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
    const auto plan = interp::measure_exceptions<T>(extents_of(), mask, values.data(), count_, scratch);
    CHECK(plan.bytes == expected.size(), "section of %u bytes, expected %zu", plan.bytes, expected.size());
    const std::span<std::uint8_t> out = section_memory_.at_end(plan.bytes);
    const u8* const end = interp::write_exceptions(plan, mask, values.data(), count_, scratch, out.data(),
                                                   [](Bits<T> bits) { return bits; });
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
    const u8* const end =
        interp::read_exceptions(extents_of(), in.data(), in.data() + in.size(), count_, mask, others, exceptions);
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
  GuardedMemory section_memory_{400000}, mask_memory_{4096}, scratch_memory_{4096}, value_memory_{32768 * sizeof(T)};
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

// Places and differences; nothing where the section is to be refused.
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
    // The longest gap without a skip, and around it.
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
  // As many entries as there can be, of which each skips the most.
  check_read_patches<T>(memory, Bytes(4 * 32768, 0xFF), 65535, 32768);
  Bytes section(4 * 32768, 0xFF);
  section[section.size() - 2] = section[section.size() - 1] = 0;
  check_read_patches<T>(memory, section, 65535, 32768);
}

}  // namespace

void check_backend() {
  Sections<float>(1).check(1500);
  Sections<double>(2).check(1500);
  Random random(3);
  check_patches<float>(random);
  check_patches<double>(random);
}

}  // namespace h5lossy::test
