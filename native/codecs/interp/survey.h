// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The basis of the choices of Interp's encoder: a survey of a chunk or a tile. It examines small groups of values in
// the original data, and estimates their cost for every set of axes, in integers, so that all backends make the same
// choices. The rules are in docs/design/interp-encoder.md, "Choosing".
#pragma once

#include "codecs/blocks.h"
#include "codecs/interp/format.h"
#include "codecs/interp/grid.h"
#include "codecs/interp/positions.h"
#include "codecs/interp/tables.h"
#include "codecs/interp/values.h"

namespace h5lossy::H5L_TARGET::interp {

inline constexpr u32 kGroupValues = 32;
inline constexpr u32 kChunkGroups = 64;
inline constexpr u32 kTileGroups = 16;
inline constexpr u32 kAxisSets = 1u << kAxes;
inline constexpr u32 kSurveyLevels = 2;
inline constexpr u32 kNoError = 0;  // for an axis along which no error was measured

// Multiples of these numbers, as fractions of 2^32, cover a box evenly: one number per axis.
H5L_TABLE u32 kSpread[kAxes] = {3679390609u, 3152041523u, 2700274806u, 2313257605u};

// The cost of a value is in units of 1/8192 bit.
inline constexpr u32 kCostsPerBit = 8192;
inline constexpr u32 kTileCost = 24 * 8 * kCostsPerBit;  // of a tile's head, table entry and states

// The extents of a tile: the chunk is halved until a piece has at most a tile's values, along the longest axis that is
// not interpolated or, once these are all 1, along the longest one that is. Safe for any dims, since headers are laid
// out before their dims have been checked.
H5L_FN void cut(const u32 (&dims)[kAxes], u32 axes, u32 (&extents)[kAxes]) {
  u64 parts[kAxes] = {1, 1, 1, 1};
  for (u32 a = 0; a < kAxes; ++a) extents[a] = dims[a] == 0 ? 1 : dims[a];
  for (;;) {
    u64 values = 1;
    u32 free = kAxes, interpolated = kAxes;  // the longest axis of each kind
    for (u32 a = 0; a < kAxes; ++a) {
      u32& longest = (axes & axis_bit(a)) != 0 ? interpolated : free;
      if (extents[a] > 1 && (longest == kAxes || extents[a] > extents[longest])) longest = a;
      if (values <= kTileValues) values *= extents[a];  // both factors are below 2^32
    }
    if (values <= kTileValues) return;
    const u32 a = free != kAxes ? free : interpolated;
    parts[a] *= 2;
    extents[a] = static_cast<u32>((dims[a] + parts[a] - 1) / parts[a]);
  }
}

// The weight codes of axes with these mean errors: the inverse ratio of the errors to the fourth power, rounded to a
// power of two.
H5L_FN u32 weight_code(u64 error, u64 least) {
  if (error == kNoError) return least == kNoError ? 0 : 1;
  const u64 t = 1024 * least / error;
  return t >= 939 ? 0 : t >= 790 ? 1 : t >= 664 ? 2 : t >= 558 ? 3 : t >= 395 ? 4 : 5;
}

// The weights of some axes, in the order w, z, y, x.
struct Weights {
  Rule rule = {};
  u32 axes[kMaxActiveAxes] = {};
  u32 count = 0;
};
H5L_FN Weights weights_of(const u64 (&errors)[kAxes], u32 set) {
  Weights weights;
  u64 least = kNoError;
  for (u32 a = 0; a < kAxes; ++a) {
    if ((set & axis_bit(a)) == 0) continue;
    weights.axes[weights.count++] = a;
    if (errors[a] != kNoError && (least == kNoError || errors[a] < least)) least = errors[a];
  }
  for (u32 i = 0; i < weights.count; ++i) weights.rule.weights[i] = weight_code(errors[weights.axes[i]], least);
  return weights;
}

// The cost of 32 codes whose magnitudes have this sum, in 1/16 bit: the least over the classes, each of which is
// modelled as a line.
struct ClassLine {
  u32 cost, slope;  // slope in 1/256
};
struct ClassLines {
  ClassLine of[kClasses];
};
H5L_FN constexpr ClassLines make_class_lines() {
  constexpr u32 kTypical[kSymbolTables] = {1, 1, 3, 5, 8};  // for each table, the line goes through this symbol and 0
  ClassLines lines = {};
  for (u32 c = 1; c < kClasses; ++c) {
    const u32 table = table_of(c), symbol = kTypical[table];
    const u16* const costs = kCosts.symbols[kUsualSet][table];
    lines.of[c].cost = 32u * costs[0] + 512 * raw_planes_of(c) + 20;
    lines.of[c].slope = (256u * static_cast<u32>(costs[symbol] - costs[0]) / ((symbol + 1) / 2)) >> raw_planes_of(c);
  }
  return lines;
}
H5L_TABLE ClassLines kClassLines = make_class_lines();

H5L_FN constexpr u64 least_line(u64 sum) {
  if (sum == 0) return 12;
  u64 least = ~u64{0};
  for (u32 c = 1; c < kClasses; ++c) {
    const u64 cost = kClassLines.of[c].cost + (kClassLines.of[c].slope * sum >> 8);
    if (cost >= least) break;  // lines become ever flatter and start ever higher
    least = cost;
  }
  return least;
}

inline constexpr u32 kCommonSums = 512;
struct GroupCosts {
  u16 of[kCommonSums];
};
H5L_FN constexpr GroupCosts make_group_costs() {
  GroupCosts costs = {};
  for (u32 sum = 0; sum < kCommonSums; ++sum) costs.of[sum] = static_cast<u16>(least_line(sum));
  return costs;
}
H5L_TABLE GroupCosts kGroupCosts = make_group_costs();

H5L_FN u64 group_cost(u64 sum) { return sum < kCommonSums ? kGroupCosts.of[sum] : least_line(sum); }

// ---------------------------------------------------------------------------------------------------------------------
// Values

// False if x is no fine point.
template <class T>
H5L_FN bool fine_point_at(const Lattice<T>& lattice, T x, i32& fine) {
  const T t = multiply(x, lattice.inverse_fine);
  if (!(magnitude(t) < static_cast<T>(kFineLimit<T> + 1))) return false;
  fine = static_cast<i32>(add(t, t < 0 ? T(-0.5) : T(0.5)));
  return multiply(static_cast<T>(fine), lattice.fine) == x;
}

#if !defined(__CUDACC__)
inline u32 swapped(u32 word) { return __builtin_bswap32(word); }
inline u64 swapped(u64 word) { return __builtin_bswap64(word); }

// Values of a chunk or a tile.
template <class T>
struct ValueReader {
  const u8* values;
  bool is_big_endian;
  // For values of another type: converts `count` of them, from `place` on, to numbers of this type.
  void (*convert)(const ValueReader& reader, u64 place, u32 count, Word<T>* bits) = nullptr;
  const Chunk* chunk = nullptr;

  template <u32 count>
  void read(u64 place, Word<T>* bits) const {
    if (convert != nullptr) {
      convert(*this, place, count, bits);
    } else {
      memcpy(bits, values + place * sizeof(T), count * sizeof(T));
    }
  }

  Word<T> bits(u64 i) const {
    const auto word = load<Word<T>>(values + i * sizeof(T));
    return is_big_endian ? swapped(word) : word;
  }

  // False if the value is no fine point.
  bool fine_point(const Lattice<T>& lattice, u64 i, i32& fine) const {
    return fine_point_at(lattice, bit_cast<T>(bits(i)), fine);
  }
};
#endif

// ---------------------------------------------------------------------------------------------------------------------
// The survey

// Costs are per value, in 1/8192 bit. A set of axes is a mask of axis_bit(); the cost of sets without samples is 0.
struct Survey {
  u64 errors[kAxes];                            // mean magnitude at the finest level, in 1/16 of a part, or kNoError
  u64 interpolation[kAxisSets][kSurveyLevels];  // codes of values that are odd along these axes, by level
  u64 magnitudes[kAxisSets][kSurveyLevels];     // mean magnitude of their errors, in 1/16 of a part
  u64 lorenzo[kAxisSets];                       // differences along these axes
  u64 exceptions;                               // their fraction, in 1/8192
  u64 changes[kAxes];  // the fraction of values where exactly one of the value and the one before it is an exception
};

// The cost of the mask of exceptions, in 1/8192 bit: some bits for each place where a value and the one before it along
// an axis differ, for the axis with the fewest such places; at most one bit per exception.
inline constexpr u64 kBitsOfTileChange = 6, kBitsOfChunkChange = 32;
H5L_FN u64 mask_cost(const Survey& survey, const u32 (&extents)[kAxes], u64 bits_of_change = kBitsOfTileChange) {
  u64 least = survey.exceptions, count = 1;
  for (u32 a = 0; a < kAxes; ++a) {
    count *= extents[a];
    if (extents[a] == 1) continue;
    const u64 cost = bits_of_change * survey.changes[a] + survey.exceptions / extents[a];
    least = cost < least ? cost : least;
  }
  return least * count;
}

// The cost of groups of codes. Codes of exceptions are 0, and other values that could not be examined count like the
// rest.
struct CostSum {
  u64 cost = 0, groups = 0;
  H5L_FN void add(u64 sum, u32 usable, u32 ordinary) {
    if (usable == 0 && ordinary != 0) return;
    ++groups;
    if (ordinary != 0) cost += group_cost(usable == ordinary ? sum : sum * ordinary / usable);
  }
  // Converts from 1/16 bit for 32 values.
  H5L_FN u64 mean() const { return groups == 0 ? 0 : cost * (kCostsPerBit / 16 / kGroupValues) / groups; }
};

// The extents of a group: those of a brick of codes, but at most those of the box.
H5L_FN void shape_group(const u32 (&dims)[kAxes], u32 (&extents)[kAxes]) {
  const bool is_deep = dims[1] > 1, is_flat = !is_deep && dims[2] > 1;
  const u32 brick[kAxes] = {1, is_deep ? 2u : 1u, is_deep || is_flat ? 4u : 1u, is_deep ? 4u : is_flat ? 8u : 32u};
  for (u32 a = 0; a < kAxes; ++a) extents[a] = brick[a] < dims[a] ? brick[a] : dims[a];
}

#if !defined(__CUDACC__)

// The part of a survey that works on positions, whatever the type of values.
class SurveyOfPositions {
 public:
  struct Group {
    u32 ordinary;
    i32 errors[kAxes][kSurveyLevels][kGroupValues];
  };

  static constexpr u32 scratch_bytes(u32 groups) { return groups * static_cast<u32>(sizeof(Group)); }

 protected:
  // The place of a group.
  struct Place {
    u32 origin[kAxes];
    u64 first;
  };

  // Interpolation may work along the axes `along`.
  SurveyOfPositions(const u32 (&dims)[kAxes], u32 along) : along_(along) {
    u64 stride = 1;
    for (u32 a = kAxes; a-- > 0;) {
      dims_[a] = dims[a];
      strides_[a] = stride;
      stride *= dims[a];
      if (dims[a] > 1) set_ |= axis_bit(a);
    }
    along_ &= set_;
    shape_group(dims, shape_);
    for (u32 z = 0; z < shape_[1]; ++z) {
      for (u32 y = 0; y < shape_[2]; ++y) {
        for (u32 x = 0; x < shape_[3]; ++x, ++count_) {
          const u32 at[kAxes] = {0, z, y, x};
          offsets_[count_] = 0;
          for (u32 a = 0; a < kAxes; ++a) {
            before_step_[a][at[a] + 1] |= 1u << count_;
            offsets_[count_] += at[a] * strides_[a];
          }
        }
      }
    }
    all_ = static_cast<u32>(blocks::first_bits(count_));
    values_ = stride;
    for (auto& before : before_step_) {
      for (u32 step = 0; step < kGroupValues; ++step) before[step + 1] |= before[step];
    }
  }

  void sum_up(const Group* all, u32 groups, Survey& survey) const {
    survey.exceptions = values_seen_ == 0 ? 0 : exceptions_ * kCostsPerBit / values_seen_;
    for (u32 a = 0; a < kAxes; ++a) {
      const u64 error = error_counts_[a] == 0 ? kNoError : 16 * (error_sums_[a] + 8) / error_counts_[a];
      survey.errors[a] = error_counts_[a] != 0 && error == kNoError ? 1 : error;
      survey.changes[a] = pairs_[a] == 0 ? kCostsPerBit : changes_[a] * kCostsPerBit / pairs_[a];
    }
    for (u32 set = 0; set < kAxisSets; ++set) {
      survey.lorenzo[set] = lorenzo_[set].mean();
      measure_interpolation(all, groups, set, survey);
    }
  }

  // Measures the errors of interpolation along one axis, at half steps 1 and 2.
  void measure_errors(u32 axis, u32 middle_copy, const u32 (&copies)[kSurveyLevels][4],
                      i32 (&errors)[kSurveyLevels][kGroupValues]) {
    const i32(&here)[kGroupValues] = at_[middle_copy];
    for (u32 level = 0; level < kSurveyLevels; ++level) {
      i32 near[4][kGroupValues];
      for (u32 t = 0; t < 4; ++t) memcpy(near[t], at_[copies[level][t]], sizeof near[t]);
      if (dims_[axis] == 2) {  // each value predicts the other
        for (u32 i = 0; i < kGroupValues; ++i) {
          near[2][i] = near[2][i] == kUnusable ? near[1][i] : near[2][i];
          near[1][i] = near[2][i];
        }
      }
      const bool takes_two = dims_[axis] < 7 && dims_[axis] > 2;  // hardly any value has four
      constexpr u32 kNotTypical = ~u32{0};
      u32 typical[kGroupValues];
      for (u32 i = 0; i < kGroupValues; ++i) {
        const i32 a = near[0][i], b = near[1][i], c = near[2][i], d = near[3][i];
        const bool has_two = (here[i] != kUnusable) & (b != kUnusable) & (c != kUnusable);
        const bool has_four = has_two & (a != kUnusable) & (d != kUnusable);
        const u32 middle = static_cast<u32>(b) + static_cast<u32>(c);
        const u32 outer = static_cast<u32>(a) + static_cast<u32>(d);
        const i32 four = static_cast<i32>(9 * middle - outer) >> 4, two = static_cast<i32>(middle) >> 1;
        const i32 error = static_cast<i32>(static_cast<u32>(here[i]) - static_cast<u32>(has_four ? four : two));
        errors[level][i] = has_two ? error : kUnusable;
        typical[i] = has_four | (takes_two & has_two) ? static_cast<u32>(error < 0 ? -error : error) : kNotTypical;
      }
      if (level != 0) continue;
      u32 sum = 0, count = 0;
      for (u32 i = 0; i < kGroupValues; ++i) {  // vectorized
        sum += typical[i] == kNotTypical ? 0 : typical[i];
        count += typical[i] == kNotTypical ? 0 : 1;
      }
      error_sums_[axis] += sum;
      error_counts_[axis] += count;
    }
  }

  // Measures the differences along each set of axes: sums over the corners of a box, with alternating signs.
  void measure_differences(const Place& place, const u32 (&back)[kAxisSets], u32 ordinary) {
    i32 sums[kAxisSets][kGroupValues];
    i32 usable[kAxisSets][kGroupValues];
    for (u32 set = 0; set < kAxisSets; ++set) {
      if ((set & ~set_) != 0) continue;
      const i32(&corner)[kGroupValues] = at_[back[set]];
      const bool is_odd = (count_ones(set) & 1) != 0;
      for (u32 i = 0; i < kGroupValues; ++i) {
        const i32 bin = nearest_bin(corner[i]);
        usable[set][i] = corner[i] != kUnusable ? -1 : 0;
        sums[set][i] = is_odd ? -bin : bin;
      }
    }
    for (u32 a = 0; a < kAxes; ++a) {
      if ((set_ & axis_bit(a)) != 0) count_changes(at_[back[0]], usable[axis_bit(a)], place.origin, a);
    }
    for (u32 a = 0; a < kAxes; ++a) {
      for (u32 set = 0; set < kAxisSets; ++set) {
        if ((set & ~set_) != 0 || (set & axis_bit(a)) == 0) continue;
        const u32 rest = set ^ axis_bit(a);
        for (u32 i = 0; i < kGroupValues; ++i) {
          sums[set][i] += sums[rest][i];
          usable[set][i] &= usable[rest][i];
        }
      }
    }
    for (u32 set = 1; set < kAxisSets; ++set) {
      if ((set & ~set_) != 0) continue;
      u32 sum = 0;
      for (u32 i = 0; i < kGroupValues; ++i) sum += counted(sums[set][i], usable[set][i]);  // vectorized
      lorenzo_[set].add(sum / kCounted, sum % kCounted, ordinary);
    }
  }

  // Counts a code if it is usable (-1, otherwise 0): one sum holds both the magnitudes, at most 2^19 each, and their
  // number.
  static constexpr u32 kCounted = 2 * kGroupValues;
  static u32 counted(i32 code, i32 usable) {
    return (static_cast<u32>(code < 0 ? -code : code) * kCounted + 1) & static_cast<u32>(usable);
  }

  // Counts how often exactly one of two neighbours along an axis is an exception.
  void count_changes(const i32* here, const i32* is_before_usable, const u32 (&origin)[kAxes], u32 axis) {
    const auto differs = [&](u32 i) { return (here[i] != kUnusable) != (is_before_usable[i] != 0) ? 1u : 0u; };
    u32 any = 0, changed = 0;
    for (u32 i = 0; i < kGroupValues; ++i) any |= differs(i);
    for (u32 i = 0; any != 0 && i < kGroupValues; ++i) changed |= differs(i) << i;
    const u32 inside = origin[axis] == 0 ? all_ & ~before_step_[axis][1] : all_;
    pairs_[axis] += count_ones(inside);
    changes_[axis] += count_ones(changed & inside);
  }

  void measure_interpolation(const Group* all, u32 groups, u32 set, Survey& survey) const {
    u64(&costs)[kSurveyLevels] = survey.interpolation[set];
    u64(&magnitudes)[kSurveyLevels] = survey.magnitudes[set];
    for (u32 level = 0; level < kSurveyLevels; ++level) costs[level] = magnitudes[level] = 0;
    if (set == 0 || (set & ~along_) != 0 || count_ones(set) > kMaxActiveAxes) return;
    const Weights weights = weights_of(survey.errors, set);
    const Blend blend = blend_of(weights.rule, (1u << weights.count) - 1);
    for (u32 level = 0; level < kSurveyLevels; ++level) {
      CostSum total;
      u64 magnitude = 0, errors_seen = 0;
      for (u32 g = 0; g < groups; ++g) {
        if (all[g].ordinary == 0) {
          total.add(0, 0, 0);
          continue;
        }
        u32 sums[kGroupValues] = {};
        i32 usable[kGroupValues];
        for (i32& each : usable) each = -1;
        for (u32 k = 0; k < weights.count; ++k) {
          const u32 share = blend.weights[k];
          if (share == 0) continue;
          u32 errors[kGroupValues];  // local, so that it cannot alias `sums`
          memcpy(errors, all[g].errors[weights.axes[k]][level], sizeof(errors));
          for (u32 i = 0; i < kGroupValues; ++i) {  // vectorized
            usable[i] &= errors[i] == static_cast<u32>(kUnusable) ? 0 : -1;
            sums[i] += share * errors[i];
          }
        }
        u32 sum = 0, exact_sum = 0;
        for (u32 i = 0; i < kGroupValues; ++i) {  // vectorized
          const i32 error = static_cast<i32>(sums[i] + 8) >> 4;
          sum += counted(nearest_bin(error), usable[i]);
          exact_sum += static_cast<u32>((error < 0 ? -error : error) & usable[i]);
        }
        total.add(sum / kCounted, sum % kCounted, all[g].ordinary);
        magnitude += exact_sum;
        errors_seen += sum % kCounted;
      }
      costs[level] = total.groups != 0 ? total.mean() : level == 0 ? 0 : costs[level - 1];
      magnitudes[level] = errors_seen != 0 ? 16 * magnitude / errors_seen : level == 0 ? 0 : magnitudes[level - 1];
    }
  }

  u32 dims_[kAxes];
  u64 strides_[kAxes];
  u32 along_;
  u32 set_ = 0;  // axes with more than one value
  u32 shape_[kAxes];
  u32 count_ = 0;
  u64 offsets_[kGroupValues];
  // Copies of the group being examined.
  static constexpr u32 kMaxCopies = kAxisSets + kAxes * (4 * kSurveyLevels - 1);
  i32 at_[kMaxCopies][kGroupValues];
  u32 inside_[kMaxCopies];                         // a bit per value of a copy: whether it is in the box
  u64 values_ = 0;                                 // of the box
  u32 all_ = 0;                                    // a bit per value of a group
  u32 before_step_[kAxes][kGroupValues + 1] = {};  // by axis and step: the values nearer to the first one than a step

  u64 values_seen_ = 0, exceptions_ = 0;
  u64 error_sums_[kAxes] = {};
  u64 error_counts_[kAxes] = {};
  u64 pairs_[kAxes] = {};
  u64 changes_[kAxes] = {};
  CostSum lorenzo_[kAxisSets];
};

template <class T, class Positions>
class Surveyor : SurveyOfPositions {
 public:
  using SurveyOfPositions::scratch_bytes;

  Surveyor(const ValueReader<T>& reader, const u32 (&dims)[kAxes], Positions positions, u32 along)
      : SurveyOfPositions(dims, along), reader_(reader), positions_(positions) {
    for (auto& copy : bits_) {
      for (Word<T>& bits : copy) bits = kOutside;
    }
  }

  void run(u32 groups, u8* scratch, Survey& survey) {
    Group* const all = new (scratch) Group[groups];
    for (u32 g = 0; g < groups; ++g) visit(g, all[g]);
    sum_up(all, groups, survey);
  }

 private:
  // Reads a copy of a group: its values moved by the same number of values along each axis of a set. Returns the number
  // of the copy. Values outside of the box are replaced by other values of the box, or stay unchanged.
  u32 read_copy(const Place& place, u32 set, i32 move) {
    u64 first = place.first;
    u32 inside = all_;
    for (u32 a = 0; a < kAxes; ++a) {
      if ((set & axis_bit(a)) == 0) continue;
      const i64 begin = i64{place.origin[a]} + move, left = dims_[a] - begin, extent = shape_[a];
      first += static_cast<u64>(move) * strides_[a];
      if (begin < 0) inside &= ~before_step_[a][-begin < extent ? -begin : extent];
      if (left < extent) inside &= before_step_[a][left > 0 ? left : 0];
    }
    inside_[copies_] = inside;
    Word<T>(&bits)[kGroupValues] = bits_[copies_];
    if (shape_[3] == 4) {
      read_rows<4>(first, inside, bits);
    } else if (shape_[3] == 8) {
      read_rows<8>(first, inside, bits);
    } else if (shape_[3] == 32) {
      read_rows<32>(first, inside, bits);
    } else {
      read_rows<1>(first, inside, bits);
    }
    return copies_++;
  }

  template <u32 length>
  void read_rows(u64 first, u32 inside, Word<T> (&bits)[kGroupValues]) {
    // Where the first and the last row begin; possibly before the values, in which case the number wraps.
    const u64 last = first + offsets_[count_ - length];
    const bool all_there = first <= values_ - length && last <= values_ - length && reader_.convert == nullptr;
    if (all_there) [[likely]] {
      const u8* const from = reader_.values + first * sizeof(T);
      const u32 count = count_;
#pragma GCC unroll 8
      for (u32 i = 0; i < count; i += length) memcpy(bits + i, from + offsets_[i] * sizeof(T), length * sizeof(T));
    }
    for (u32 i = 0; !all_there && i < count_; i += length) {
      const u64 from = first + offsets_[i];
      if (from <= values_ - length) {
        reader_.template read<length>(from, bits + i);
        continue;
      }
      for (u32 k = 0; k < length; ++k) {
        if ((inside >> (i + k) & 1) != 0) reader_.template read<1>(from + k, bits + i + k);
      }
    }
    for (u32 i = 0; reader_.is_big_endian && i < count_; ++i) bits[i] = swapped(bits[i]);
  }

  void visit(u32 g, Group& group) {
    Place place = {};
    for (u32 a = 0; a < kAxes; ++a) {
      const u32 fraction = (g + 1) * kSpread[a] + 0x9E3779B9u;
      place.origin[a] = static_cast<u32>(u64{fraction} * (dims_[a] - shape_[a] + 1) >> 32);
      place.first += place.origin[a] * strides_[a];
    }
    copies_ = 0;
    const u32 here = read_copy(place, 0, 0);
    values_seen_ += count_;
    group.ordinary = 0;
    if (!positions_.start(bits_[here], count_)) {
      exceptions_ += count_;
      for (CostSum& sum : lorenzo_) sum.add(0, 0, 0);
      for (u32 a = 0; a < kAxes; ++a) pairs_[a] += (set_ & axis_bit(a)) != 0 ? count_ : 0;
      return;
    }
    u32 along[kAxes][kSurveyLevels][4];
    u32 back[kAxisSets];  // copies one step back
    for (u32 set = 0; set < kAxisSets; ++set) {
      if ((set & ~set_) == 0) back[set] = set == 0 ? here : read_copy(place, set, -1);
    }
    for (u32 a = 0; a < kAxes; ++a) {
      if ((along_ & axis_bit(a)) == 0) continue;
      for (u32 level = 0; level < kSurveyLevels; ++level) {
        const i32 s = 1 << level;
        const i32 moves[4] = {-3 * s, -s, s, 3 * s};
        for (u32 t = 0; t < 4; ++t) {
          along[a][level][t] = moves[t] == -1 ? back[axis_bit(a)] : read_copy(place, axis_bit(a), moves[t]);
        }
      }
    }
    // All copies in one call, which avoids store-forwarding stalls.
    positions_.convert(bits_[0], copies_ * kGroupValues, at_[0]);
    for (u32 copy = 0; copy < copies_; ++copy) {
      const u32 inside = inside_[copy];
      if (inside == ~u32{0}) continue;
      for (u32 i = 0; i < kGroupValues; ++i) at_[copy][i] = (inside >> i & 1) != 0 ? at_[copy][i] : kUnusable;
    }
    for (u32 i = 0; i < kGroupValues; ++i) group.ordinary += at_[here][i] != kUnusable ? 1 : 0;
    exceptions_ += count_ - group.ordinary;
    for (u32 a = 0; a < kAxes; ++a) {
      if ((along_ & axis_bit(a)) != 0) measure_errors(a, here, along[a], group.errors[a]);
    }
    measure_differences(place, back, group.ordinary);
  }

  static constexpr Word<T> kOutside = kInfinity<T>;  // has no position, like other exceptions
  ValueReader<T> reader_;
  Positions positions_;
  u32 copies_ = 0;
  Word<T> bits_[kMaxCopies][kGroupValues];
};

#endif

}  // namespace h5lossy::H5L_TARGET::interp
