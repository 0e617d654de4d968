// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's predictions, compiled for one backend, equal loops that follow docs/format/interp.md, "Prediction", word by
// word: integers and codes, for boxes of all ranks, modes, predictors and weights, with exceptions, also where arithmetic
// wraps. Every position is coded once, decoding inverts encoding, and a closed form stays within half a step.

#include <algorithm>
#include <cinttypes>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "check.h"
#include "codecs/interp/prediction.h"
#include "for_backend.h"
#include "guarded_memory.h"
#include "random.h"

namespace h5lossy::test {
namespace {

namespace interp = H5L_TARGET::interp;
using interp::kNone;
using interp::Rule;
using interp::Shape;

// ---------------------------------------------------------------------------------------------------------------------
// The definition

struct Grid {
  int n[4];
  int stride[4];
  int count = 1;
  std::vector<int> active;
  explicit Grid(const u16 (&extents)[4], u32 mode) {
    for (int a = 3; a >= 0; --a) {
      n[a] = extents[a];
      stride[a] = count;
      count *= n[a];
    }
    for (int a = 0; a < 4; ++a) {
      if ((mode >> (3 - a) & 1) != 0 && n[a] > 1) active.push_back(a);
    }
  }
  [[nodiscard]] int position(const int (&c)[4]) const {
    return c[0] * stride[0] + c[1] * stride[1] + c[2] * stride[2] + c[3] * stride[3];
  }
};

using Lists = std::vector<int>[4];

template <class F>
void in_coding_order(const Lists& lists, F f) {
  int c[4], b[4] = {1, 1, 4, 8};
  for (int a = 0; a < 4; ++a) c[a] = static_cast<int>(lists[a].size());
  if (c[1] > 1) {
    b[1] = 2, b[2] = 4, b[3] = 4;
  } else if (c[2] == 1) {
    b[2] = 1, b[3] = 32;
  }
  for (int w = 0; w < c[0]; ++w) {
    for (int z = 0; z < c[1]; z += b[1]) {
      for (int y = 0; y < c[2]; y += b[2]) {
        for (int x = 0; x < c[3]; x += b[3]) {
          for (int k = z; k < std::min(z + b[1], c[1]); ++k) {
            for (int j = y; j < std::min(y + b[2], c[2]); ++j) {
              for (int i = x; i < std::min(x + b[3], c[3]); ++i) {
                const int coordinates[4] = {lists[0][static_cast<size_t>(w)], lists[1][static_cast<size_t>(k)],
                                            lists[2][static_cast<size_t>(j)], lists[3][static_cast<size_t>(i)]};
                f(coordinates);
              }
            }
          }
        }
      }
    }
  }
}

int floor_of(int a, int b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

struct Term {
  int offset, weight;
};

// No std::vector, since there is a list for each value, and sanitizers take long for each allocation.
struct Terms {
  int count;
  Term terms[4];
  Terms(std::initializer_list<Term> list) : count(static_cast<int>(list.size())) {
    std::copy(list.begin(), list.end(), terms);
  }
  [[nodiscard]] const Term* begin() const { return terms; }
  [[nodiscard]] const Term* end() const { return terms + count; }
};

// Weights in 16ths.
Terms row(int i, int s, int n, bool is_top) {
  const int last = n - 1;
  if (is_top) return {{-i, 16}};
  if (i + s > last) {
    const int d = last - i;
    if (i - 3 * s < 0) {
      const int a = (16 * d + (s + d) / 2) / (s + d);
      return {{-s, a}, {d, 16 - a}};
    }
    const int a = floor_of(-16 * d + 3 * s + d, 2 * (3 * s + d));
    const int b = (48 * d + s + d) / (2 * (s + d));
    return {{-3 * s, a}, {-s, b}, {d, 16 - a - b}};
  }
  const bool has_left = i - 3 * s >= 0, has_right = i + 3 * s <= last;
  if (!has_left && !has_right) return {{-s, 8}, {s, 8}};
  if (has_left && has_right) return {{-3 * s, -1}, {-s, 9}, {s, 9}, {3 * s, -1}};
  if (has_left) return {{-3 * s, -2}, {-s, 12}, {s, 6}};
  return {{-s, 6}, {s, 12}, {3 * s, -2}};
}

// W of the odd axes.
std::vector<int> blend(const std::vector<int>& codes, const std::vector<int>& odd) {
  const int weight_of[] = {16, 8, 4, 2, 1, 0};
  std::vector<int> weights, result;
  int sum = 0;
  for (const int i : odd) {
    weights.push_back(weight_of[codes[static_cast<size_t>(i)]]);
    sum += weights.back();
  }
  if (sum == 0) {
    weights.assign(weights.size(), 1);
    sum = static_cast<int>(weights.size());
  }
  int missing = 16;
  for (const int weight : weights) {
    result.push_back((16 * weight + sum / 2) / sum);
    missing -= result.back();
  }
  *(result.begin() + (std::max_element(weights.begin(), weights.end()) - weights.begin())) += missing;
  return result;
}

// Integers that wrap.
template <class I>
I wrapped(std::uint64_t x) {
  return static_cast<I>(static_cast<std::make_unsigned_t<I>>(x));
}

// Calls visit(position, prediction, is first), which sets q[position].
template <class I, class F>
void interpolate(const Grid& box, const std::vector<int>& codes, const std::vector<I>& q, F visit) {
  const auto is_active = [&](int a) { return std::find(box.active.begin(), box.active.end(), a) != box.active.end(); };
  const auto at = [&](int position) { return q[static_cast<size_t>(position)]; };
  Lists lists;
  for (int a = 0; a < 4; ++a) {
    for (int i = 0; i < (is_active(a) ? 1 : box.n[a]); ++i) lists[a].push_back(i);
  }
  int before = -1;
  in_coding_order(lists, [&](const int (&c)[4]) {
    const int position = box.position(c);
    visit(position, before < 0 ? I{0} : at(before), before < 0);
    before = position;
  });

  int most = 1;
  for (const int a : box.active) most = std::max(most, box.n[a]);
  int top = 1;
  while (1 << top < most - 1) ++top;
  const int na = static_cast<int>(box.active.size());
  for (int l = top; l >= 0; --l) {
    const int s = 1 << l;
    for (int c = 1; c <= 3; ++c) {
      for (int m = 1; m < 1 << na; ++m) {
        std::vector<int> odd;
        for (int i = 0; i < na; ++i) {
          if ((m >> (na - 1 - i) & 1) != 0) odd.push_back(i);
        }
        if (static_cast<int>(odd.size()) != c) continue;
        for (int a = 0; a < 4; ++a) {
          lists[a].clear();
          const int n = box.n[a];
          const auto active = std::find(box.active.begin(), box.active.end(), a);
          if (active == box.active.end()) {
            for (int i = 0; i < n; ++i) lists[a].push_back(i);
          } else if (std::find(odd.begin(), odd.end(), active - box.active.begin()) != odd.end()) {
            if (l == top) {
              lists[a].push_back(n - 1);
            } else {
              for (int i = s; i < n - 1; i += 2 * s) lists[a].push_back(i);
            }
          } else if (l == top) {
            lists[a].push_back(0);
          } else {
            for (int i = 0; i < n; i += 2 * s) lists[a].push_back(i);
            if ((n - 1) % (2 * s) != 0) lists[a].push_back(n - 1);
          }
        }
        const std::vector<int> weights = blend(codes, odd);
        in_coding_order(lists, [&](const int (&coordinates)[4]) {
          const int position = box.position(coordinates);
          std::uint64_t sum = 128;
          for (size_t k = 0; k < odd.size(); ++k) {
            const int a = box.active[static_cast<size_t>(odd[k])];
            std::uint64_t p = 0;
            const Terms terms = row(coordinates[a], s, box.n[a], l == top);
            for (const Term& term : terms) {
              p += static_cast<std::uint64_t>(static_cast<i64>(term.weight)) *
                   static_cast<std::uint64_t>(static_cast<i64>(at(position + term.offset * box.stride[a])));
            }
            sum += static_cast<std::uint64_t>(weights[k]) * p;
          }
          visit(position, static_cast<I>(wrapped<I>(sum) >> 8), false);
        });
      }
    }
  }
}

template <class I>
struct Coded {
  std::vector<I> integers, codes;
};

template <class I>
Coded<I> code_naively(const Grid& box, const std::vector<int>& weights, bool is_closed, const std::vector<I>& targets,
                      I base, u32 grade) {
  Coded<I> coded;
  std::vector<bool> is_coded(targets.size());
  coded.integers.resize(targets.size());
  interpolate(box, weights, coded.integers, [&](int position, I exact, bool is_first) {
    const auto distance = std::uint64_t{1} << grade;
    const I prediction = wrapped<I>((static_cast<std::uint64_t>(exact) + distance / 2) & (0 - distance));
    const auto at = static_cast<size_t>(position);
    CHECK(!is_coded[at], "position %d", position);
    is_coded[at] = true;
    const auto p = static_cast<std::uint64_t>(prediction);
    const auto x = static_cast<std::uint64_t>(targets[at]);
    std::uint64_t code = 0;
    if (targets[at] == kNone<I>) {
      code = 0;
    } else if (!is_closed) {
      code = x - p;
    } else if (x % 64 == 0) {
      code = static_cast<std::uint64_t>(targets[at] >> 6) - p;
    } else {
      code = 16 * static_cast<std::uint64_t>(wrapped<I>(x - 64 * p + 512) >> 10);
    }
    coded.integers[at] = is_first ? base : wrapped<I>(p + code);
    coded.codes.push_back(is_first ? I{0} : wrapped<I>(code));
  });
  CHECK(coded.codes.size() == targets.size(), "%zu codes", coded.codes.size());
  while (coded.codes.size() % 32 != 0) coded.codes.push_back(0);
  return coded;
}

// `integers` without kNone.
template <class I>
std::vector<I> code_lorenzo_naively(const Grid& box, u32 axes, const std::vector<I>& integers) {
  Lists lists;
  for (int a = 0; a < 4; ++a) {
    for (int i = 0; i < box.n[a]; ++i) lists[a].push_back(i);
  }
  std::vector<I> codes;
  in_coding_order(lists, [&](const int (&c)[4]) {
    const int position = box.position(c);
    u32 inside = 0;  // bit a: an axis of the differences, with a value before this one
    for (u32 a = 0; a < 4; ++a) {
      if ((axes >> (3 - a) & 1) != 0 && c[a] > 0) inside |= 1u << a;
    }
    const auto q = static_cast<std::uint64_t>(integers[static_cast<size_t>(position)]);
    std::uint64_t prediction = q;
    if (inside == 0) {
      for (int a = 3; a >= 0; --a) {
        if (c[a] == 0) continue;
        prediction = static_cast<std::uint64_t>(integers[static_cast<size_t>(position - box.stride[a])]);
        break;
      }
    } else {
      prediction = 0;
      for (u32 subset = 1; subset < 16; ++subset) {
        if ((subset & ~inside) != 0) continue;
        int from = position;
        bool adds = false;
        for (u32 a = 0; a < 4; ++a) {
          if ((subset >> a & 1) == 0) continue;
          from -= box.stride[a];
          adds = !adds;
        }
        const auto neighbour = static_cast<std::uint64_t>(integers[static_cast<size_t>(from)]);
        prediction += adds ? neighbour : 0 - neighbour;
      }
    }
    codes.push_back(wrapped<I>(q - prediction));
  });
  while (codes.size() % 32 != 0) codes.push_back(0);
  return codes;
}

// ---------------------------------------------------------------------------------------------------------------------
// Boxes and values

struct Setting {
  u16 extents[4];
  u32 mode;
  std::vector<int> weights;
};

std::string name_of(const Setting& s) {
  std::string name;
  for (const u16 extent : s.extents) name += std::to_string(extent) + " ";
  name += "mode " + std::to_string(s.mode);
  name += ", weights";
  for (const int code : s.weights) {
    name += ' ';
    name += std::to_string(code);
  }
  return name;
}

Setting any_setting(Random& random) {
  Setting setting;
  do {
    const u32 rank = 1 + static_cast<u32>(random.below(4));
    const u64 most = rank == 1 ? 5000 : rank == 2 ? 120 : 40;
    for (u32 a = 0; a < 4; ++a) {
      const u64 limit = random.one_in(3) ? 5 : most;
      setting.extents[a] = static_cast<u16>(a + rank < 4 ? 1 : 1 + random.below(limit));
    }
    if (random.one_in(4)) std::swap(setting.extents[random.below(4)], setting.extents[random.below(4)]);
  } while (u64{setting.extents[0]} * setting.extents[1] * setting.extents[2] * setting.extents[3] > 32768);
  do {
    setting.mode = 1 + static_cast<u32>(random.below(15));
  } while (setting.mode == 15);
  const Grid box(setting.extents, setting.mode);
  for (size_t i = 0; i < box.active.size(); ++i) setting.weights.push_back(static_cast<int>(random.below(6)));
  return setting;
}

Rule rule_of(const Setting& setting) {
  Rule rule = {};
  for (size_t i = 0; i < setting.weights.size(); ++i) rule.weights[i] = static_cast<u32>(setting.weights[i]);
  return rule;
}

// A smooth field plus noise, of about `size`; some of them exceptions.
template <class I>
std::vector<I> some_targets(Random& random, const Grid& box, double size, bool has_exceptions) {
  std::vector<I> targets(static_cast<size_t>(box.count));
  const double slope[4] = {random.fraction(), random.fraction(), random.fraction(), random.fraction()};
  const double noise = random.one_in(2) ? 1 : random.fraction() / 20;
  const u64 one_in = 1 + random.below(20);
  for (int i = 0; i < box.count; ++i) {
    double phase = 0;
    for (int a = 0; a < 4; ++a) phase += slope[a] * (i / box.stride[a] % box.n[a]);
    const double wave = phase / 8 - static_cast<double>(static_cast<int>(phase / 8)) - 0.5;
    const double x = size * (wave * (1 - noise) + noise * (random.fraction() - 0.5));
    targets[static_cast<size_t>(i)] = has_exceptions && random.one_in(one_in) ? kNone<I> : static_cast<I>(x);
  }
  return targets;
}

template <class I>
std::vector<I> hostile_integers(Random& random, const Grid& box) {
  std::vector<I> integers(static_cast<size_t>(box.count));
  for (I& integer : integers) integer = wrapped<I>(random.next() >> random.below(40));
  return integers;
}

// Whole pages, so that both ends are guarded.
u8* scratch() {
  static const GuardedMemory memory(interp::kInterpolationBytes<i32>);
  return memory.at_front(interp::kInterpolationBytes<i32>).data();
}

// Arrays with the room that the functions ask for, and not a byte more.
template <class I>
class Array {
 public:
  explicit Array(size_t count)
      : memory_(bytes(count)), data_(reinterpret_cast<I*>(memory_.at_end(bytes(count)).data())) {
    std::fill(data_, data_ + count + interp::kSpareCodes, I{0x55});
  }
  explicit Array(const std::vector<I>& from) : Array(from.size()) { std::copy(from.begin(), from.end(), data_); }
  I* data() { return data_; }
  I& operator[](size_t i) { return data_[i]; }
  const I& operator[](size_t i) const { return data_[i]; }

 private:
  static size_t bytes(size_t count) { return (count + interp::kSpareCodes) * sizeof(I); }
  GuardedMemory memory_;
  I* data_;
};

template <class I, class Found>
void check_equal(const std::vector<I>& expected, const Found& found, const Setting& setting, const char* what) {
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(expected[i] == found[i], "%s: %s %zu is %lld, not %lld", name_of(setting).c_str(), what, i,
          static_cast<long long>(found[i]), static_cast<long long>(expected[i]));
  }
}

template <bool kClosed, class I>
void check_interpolation(const Setting& setting, const std::vector<I>& targets, I base, bool is_hostile,
                         u32 grade = 0) {
  const Grid box(setting.extents, setting.mode);
  const Shape shape = interp::shape_of(setting.extents, setting.mode);
  const Rule rule = rule_of(setting);
  const Coded<I> expected = code_naively(box, setting.weights, kClosed, targets, base, grade);
  const interp::Units units = {.grade = interp::Grade(grade)};
  const size_t count = targets.size();
  Array<I> given(targets), integers(count), codes(count), rebuilt(count), steps(count);
  interp::code_interpolation<kClosed>(shape, rule, given.data(), base, integers.data(), codes.data(), scratch(), units);
  check_equal(expected.integers, integers, setting, "integer");
  check_equal(expected.codes, codes, setting, "code");

  for (size_t i = 0; i < count; ++i) steps[i] = codes[i];
  steps[0] = 77;  // not used
  interp::rebuild_interpolation(shape, rule, steps.data(), base, units.grade, rebuilt.data(), scratch());
  check_equal(expected.integers, rebuilt, setting, "rebuilt integer");

  for (size_t i = 1; i < targets.size() && !is_hostile; ++i) {
    if (targets[i] == kNone<I>) continue;
    const i64 error = kClosed ? i64{64} * expected.integers[i] - targets[i] : i64{expected.integers[i]} - targets[i];
    CHECK(std::abs(error) <= (kClosed ? 512 : 0), "%s: %lld", name_of(setting).c_str(), error);
  }
}

template <class I>
void check_lorenzo(const Setting& setting, const std::vector<I>& given, I base, u32 axes) {
  const Grid box(setting.extents, setting.mode);
  const Shape shape = interp::shape_of(setting.extents, setting.mode);
  std::vector<I> expected = given;
  for (int i = 0; i < box.count; ++i) {
    const auto at = static_cast<size_t>(i);
    if (expected[at] != kNone<I>) continue;
    int a = 3;
    while (a >= 0 && i / box.stride[a] % box.n[a] == 0) --a;
    expected[at] = a < 0 ? base : expected[static_cast<size_t>(i - box.stride[a])];
  }
  Array<I> integers(given), codes(given.size()), differences(given.size()), rebuilt(given.size());
  interp::fill_exceptions(shape, base, integers.data());
  check_equal(expected, integers, setting, "stand-in");
  interp::code_lorenzo(shape, axes, integers.data(), codes.data(), differences.data());
  std::vector<I> expected_codes = code_lorenzo_naively(box, axes, expected);
  check_equal(expected_codes, codes, setting, "Lorenzo code");
  codes[0] = 77;  // not used
  Array<I> batches(given.size());
  std::vector<bool> is_passed_on(given.size());
  const auto take = [&](u32 first, const I* from, u32 some) {
    for (u32 i = 0; i < some; ++i) {
      CHECK(first + i < given.size() && !is_passed_on[first + i], "%s: %u", name_of(setting).c_str(), first + i);
      is_passed_on[first + i] = true;
      batches[first + i] = from[i];
    }
  };
  const auto take_any = [](const void* own, u32 first, const I* from, u32 some) {
    (*static_cast<const decltype(take)*>(own))(first, from, some);
  };
  interp::rebuild_lorenzo(shape, axes, codes.data(), expected[0], rebuilt.data(), {&take, take_any});
  check_equal(expected, rebuilt, setting, "integer from Lorenzo");
  check_equal(expected, batches, setting, "integer of a batch from Lorenzo");
}

// A mask in coding order, in memory that ends with its last word.
void check_order(Random& random, const Setting& setting) {
  const Grid box(setting.extents, setting.mode);
  const Shape shape = interp::shape_of(setting.extents, setting.mode);
  std::vector<int> order[2];
  interpolate(box, setting.weights, std::vector<i32>(static_cast<size_t>(box.count)),
              [&](int position, i32, bool) { order[0].push_back(position); });
  Lists all;
  for (int a = 0; a < 4; ++a) {
    for (int i = 0; i < box.n[a]; ++i) all[a].push_back(i);
  }
  in_coding_order(all, [&](const int (&c)[4]) { order[1].push_back(box.position(c)); });
  const u32 words = static_cast<u32>(box.count + 31) / 32;
  const GuardedMemory memory[] = {GuardedMemory(4 * words), GuardedMemory(4 * words)};
  auto* const mask = reinterpret_cast<u32*>(memory[0].at_end(4 * words).data());
  auto* const ordered = reinterpret_cast<u32*>(memory[1].at_end(4 * words).data());
  std::fill(mask, mask + words, 0);
  const u64 one_in = 1 + random.below(3);
  for (u32 i = 0; i < static_cast<u32>(box.count); ++i) mask[i / 32] |= (random.one_in(one_in) ? 1u : 0u) << i % 32;
  for (const bool is_lorenzo : {false, true}) {
    interp::order_mask(shape, is_lorenzo, mask, ordered);
    u32 i = 0;
    for (const int position : order[is_lorenzo ? 1 : 0]) {
      CHECK((ordered[i / 32] >> i % 32 & 1) == (mask[position / 32] >> position % 32 & 1), "%s: bit %u",
            name_of(setting).c_str(), i);
      ++i;
    }
  }
}

template <class I>
void check_setting(Random& random, const Setting& setting) {
  const Grid box(setting.extents, setting.mode);
  for (const bool has_exceptions : {false, true}) {
    const double size = static_cast<double>(1 << random.between(6, 22));
    const std::vector<I> targets = some_targets<I>(random, box, size, has_exceptions);
    check_interpolation<false>(setting, targets, targets[0] == kNone<I> ? I{5} : targets[0], false);
    if constexpr (sizeof(I) == 4) {
      const u32 grade = static_cast<u32>(random.below(4));
      check_interpolation<true>(setting, targets, targets[0] == kNone<I> ? I{5} : (targets[0] + 32) >> 6, false, grade);
    }
    check_lorenzo(setting, targets, I{-3}, static_cast<u32>(random.below(16)));
  }
  const std::vector<I> hostile = hostile_integers<I>(random, box);
  check_interpolation<false>(setting, hostile, hostile[0], true);
  if constexpr (sizeof(I) == 4)
    check_interpolation<true>(setting, hostile, hostile[0], true, static_cast<u32>(random.below(4)));
  check_lorenzo(setting, hostile, I{-3}, static_cast<u32>(random.below(16)));
}

// Predictions move with the integers.
void check_shift(Random& random, const Setting& setting) {
  const Grid box(setting.extents, setting.mode);
  const Shape shape = interp::shape_of(setting.extents, setting.mode);
  std::vector<i32> targets = some_targets<i32>(random, box, 1 << 16, false);
  Array<i32> integers[2] = {Array<i32>(targets.size()), Array<i32>(targets.size())};
  Array<i32> codes[2] = {Array<i32>(targets.size()), Array<i32>(targets.size())};
  const i32 shift = static_cast<i32>(random.between(-(1 << 20), 1 << 20)), base = targets[0] / 64;
  for (int k = 0; k < 2; ++k) {
    Array<i32> given(targets);
    interp::code_interpolation<true>(shape, rule_of(setting), given.data(), base + k * shift, integers[k].data(),
                                     codes[k].data(), scratch());
    for (i32& x : targets) x += 64 * shift;
  }
  for (size_t i = 0; i < static_cast<size_t>(box.count); ++i) {
    CHECK(codes[0][i] == codes[1][i] && integers[0][i] + shift == integers[1][i], "%s: %zu", name_of(setting).c_str(),
          i);
  }
}

}  // namespace

void check_backend() {
  Random random(29);
  // Boxes that are cut from common chunks, and awkward ones.
  const u16 boxes[][4] = {{1, 32, 32, 32},  {1, 3, 96, 96},   {1, 1, 128, 256}, {1, 1, 1, 32768}, {1, 10, 41, 42},
                          {1, 1, 64, 512},  {334, 2, 7, 7},   {1, 8192, 2, 2},  {1, 16, 32, 64},  {5461, 1, 1, 6},
                          {1, 1, 6, 5461},  {1, 1, 4, 8192},  {1, 3641, 3, 3},  {1213, 3, 3, 3},  {1, 4096, 4, 2},
                          {2, 2, 2, 4096},  {1, 1, 16384, 2}, {1, 1, 2, 16384}, {1, 1, 1, 1},     {1, 1, 1, 2},
                          {181, 1, 181, 1}, {1, 668, 7, 7},   {331, 2, 7, 7},   {1, 2000, 4, 4},  {1500, 1, 5, 4}};
  for (const auto& box : boxes) {
    for (u32 mode = 1; mode < 15; ++mode) {
      if (!random.one_in(kCaseStep == 1 ? 3 : 9)) continue;
      Setting setting = any_setting(random);
      std::copy(std::begin(box), std::end(box), std::begin(setting.extents));
      setting.mode = mode;
      setting.weights.resize(Grid(setting.extents, mode).active.size());
      check_setting<i32>(random, setting);
      check_order(random, setting);
      if (random.one_in(4)) check_setting<i64>(random, setting);
    }
  }
  for (int i = 0; i < cases(800); ++i) {
    const Setting setting = any_setting(random);
    check_setting<i32>(random, setting);
    check_order(random, setting);
    if (i % 4 == 0) check_setting<i64>(random, setting);
    check_shift(random, setting);
  }
}

}  // namespace h5lossy::test
