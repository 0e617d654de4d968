// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp: closed-loop interpolation in integers. Sizes, the lattice, and the head of a payload. The format is in
// docs/format/interp.md.
#pragma once

#include "codecs/bounds.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::interp {

inline constexpr u32 kTileValues = kMaxTileValues;
inline constexpr u32 kBlockCodes = 32;  // codes that share a class
inline constexpr u32 kMaxBlocks = kTileValues / kBlockCodes;

// A mode is the set of axes that are interpolated, bit 3 - a for axis a of w, z, y, x; at most three.
inline constexpr u32 kMaxActiveAxes = 3;
inline constexpr u32 kAxesMask = 15;
inline constexpr u32 kRewritable = 16;  // in requests and frames: closed forms are not used
inline constexpr u32 kExact = 32;       // in frames: all values are bins of a step of their own
H5L_FN constexpr u32 axis_bit(u32 axis) { return 8u >> axis; }

// The coder.
inline constexpr u32 kFrequencyBits = 11;
inline constexpr u32 kFrequencySum = 1u << kFrequencyBits;
inline constexpr u32 kSymbols = 16;  // the last one is the escape
inline constexpr u32 kSymbolTables = 5;
inline constexpr u32 kTableSets = 8;  // sets of these tables
inline constexpr u32 kClasses = 16;   // class 0: all codes are 0
inline constexpr u32 kClassModels = 16;
inline constexpr u32 kClassContexts = kClasses + 1;
inline constexpr u32 kMaxLanes = 32;
inline constexpr u32 kMaxRawPlanes = 48;  // raw in every block
H5L_FN constexpr u32 raw_planes_of(u32 symbol_class) { return symbol_class > 4 ? symbol_class - 4 : 0; }
H5L_FN constexpr u32 table_of(u32 symbol_class) { return symbol_class > 5 ? 4 : symbol_class - 1; }

// The integers of a tile are 32-bit, or 64-bit if they are too far apart for that. Sums wrap.
template <class I>
using Unsigned = Select<sizeof(I) == 8, u64, u32>;

// Marks a value that has no integer.
template <class I>
inline constexpr I kNone = static_cast<I>(Unsigned<I>{1} << (8 * sizeof(I) - 1));

// Integers of a narrow tile differ from its base by less than 2 to this power.
inline constexpr u32 kNarrowBits = 22;

// ---------------------------------------------------------------------------------------------------------------------
// The lattice

inline constexpr u32 kUnitBits = 4;
inline constexpr i32 kUnit = 1 << kUnitBits;  // fine points per step
inline constexpr u32 kUnitCodes = 4;
inline constexpr i32 kParts = 64;  // parts between adjacent fine points; positions are measured in these

// Fine points are numbered -G to G. Not all of these numbers are used: from 2^15 on only even ones, from 2^16 on only
// multiples of 4, and so on, since otherwise too many numbers of the type would be fine points by chance.
inline constexpr u32 kPlainBits = 15;
inline constexpr u32 kHighestGrade = 3;
template <class T>
inline constexpr u32 kMostGrade = sizeof(T) == 4 ? kHighestGrade : 0;
template <class T>
inline constexpr i32 kFineLimit = sizeof(T) == 4 ? (1 << (kPlainBits + kMostGrade<T>)) - 1 : 1 << 20;
// All numbers up to this one are used.
template <class T>
inline constexpr i32 kPlainLimit = sizeof(T) == 4 ? (1 << kPlainBits) - 1 : kFineLimit<T>;

// If x has a bin, x / step, rounded to the type, is below this in magnitude; the bin itself may equal this, because of
// rounding. It must not be raised: "nothing drifts" depends on it (docs/design/bound.md).
template <class T>
inline constexpr Word<T> kInterpBinLimit = Word<T>{1} << (kMantissaBits<T> - 2);

// The bits of a NaN, which no number has.
template <class T>
inline constexpr Word<T> kNoMask = static_cast<Word<T>>(~Word<T>{0});

// Points that are not multiples of a number of the type, such as k / 100, or packed values with an offset. Tiles may
// use such a lattice in place of the frame's.
struct OwnLattice {
  double d =
      0;  // points per unit; if it is negative, -d is what they are apart, and their products are rounded; 0: none
  double offset = 0;

  H5L_FN bool exists() const { return d != 0; }
  H5L_FN bool has_products() const { return d < 0; }
  H5L_FN double step() const { return has_products() ? -d : 1 / d; }
  H5L_FN double points_per_unit() const { return has_products() ? -1 / d : d; }
  // The value of a point. `number` is an integer.
  template <class T>
  H5L_FN T value_of(double number) const {
    const T value = has_products() ? add(multiply(static_cast<T>(number), static_cast<T>(-d)), static_cast<T>(offset))
                                   : static_cast<T>(add(number / d, offset));
    return add(value, T{0});  // never -0.0
  }
};

// A quantizer stores both numbers as bits.
H5L_FN OwnLattice own_lattice_of(const Quantizer& q) {
  return q.stride == 1 ? OwnLattice{} : OwnLattice{bit_cast<double>(q.stride), bit_cast<double>(q.base)};
}

template <class T>
struct Lattice {
  T bound;
  T step;
  T inverse_step;
  T fine;  // step / 16
  T inverse_fine;
  bool has_fill;
  Word<T> fill_bits;
  Word<T> mask_bits = kNoMask<T>;  // of exceptions, like the fill value, though others may decode to them
  const Cuts* cuts = nullptr;
  OwnLattice own = {};  // if it exists, the other members are about the numbers of its points
  // The other members are about the distances of integers' words from `origin`; the words from `exact` on have no
  // number.
  bool has_words = false;
  Word<T> origin = 0, exact = 0;
  u32 exact_count = 1;
};

// 1 / step and 1 / fine are both rounded; they differ only in the exponent.
template <class T>
H5L_FN Lattice<T> lattice_of(const Quantizer& q) {
  const T step = static_cast<T>(q.step);
  const T inverse = static_cast<T>(q.inverse_step);
  return {.bound = static_cast<T>(q.bound),
          .step = step,
          .inverse_step = inverse,
          .fine = step / kUnit,
          .inverse_fine = inverse * kUnit,
          .has_fill = q.has_fill,
          .fill_bits = static_cast<Word<T>>(q.fill_bits),
          .cuts = q.cuts};
}

// The lattice with which tiles are encoded. With an own lattice, values are the numbers of its points, with a step of
// 1; the fill value is not one of them.
template <class T>
H5L_FN Lattice<T> tile_lattice_of(const Quantizer& q) {
  Lattice<T> lattice = lattice_of<T>(q);
  const OwnLattice own = own_lattice_of(q);
  if (!own.exists()) return lattice;
  lattice.bound = T{1} / kUnit;
  lattice.step = lattice.inverse_step = T{1};
  lattice.fine = T{1} / kUnit;
  lattice.inverse_fine = T{kUnit};
  lattice.has_fill = false;
  if (!q.has_fill) lattice.fill_bits = kNoMask<T>;
  lattice.cuts = nullptr;  // points decode exactly
  lattice.own = own;
  return lattice;
}

// The lattice of integers' words, each of which is a bin. Numbers are exact up to a limit, and the word farthest away
// has none.
template <class T>
H5L_FN Lattice<T> lattice_of_words(Word<T> origin) {
  Lattice<T> lattice = {.bound = T{1} / kUnit,
                        .step = T{1},
                        .inverse_step = T{1},
                        .fine = T{1} / kUnit,
                        .inverse_fine = T{kUnit},
                        .has_fill = false,
                        .fill_bits = kNoMask<T>};
  lattice.has_words = true;
  lattice.origin = origin;
  lattice.exact = static_cast<Word<T>>(origin ^ kSignBit<T>);
  return lattice;
}

// In the survey of a chunk, values are read as numbers, which need not be exact: the values themselves, or, if bins
// have no common width, their words.
H5L_FN bool are_words(const Quantizer& quantizer) { return quantizer.tables != nullptr || quantizer.bins != nullptr; }

template <class T>
H5L_FN Lattice<T> lattice_of_numbers(const Quantizer& quantizer) {
  Lattice<T> lattice = lattice_of_words<T>(0);
  if (are_words(quantizer)) return lattice;
  const u64 step = quantizer.kind == BoundKind::lossless ? quantizer.stride : quantizer.scale;
  lattice.step = step == 0 ? T{1} : static_cast<T>(step);
  lattice.fine = lattice.step / kUnit;
  lattice.inverse_step = T{1} / lattice.step;
  lattice.inverse_fine = lattice.inverse_step * kUnit;
  return lattice;
}

template <class T>
H5L_FN T value_of(T integer, T unit) {
  return add(multiply(integer, unit), T{0});  // never -0.0
}

// ---------------------------------------------------------------------------------------------------------------------
// The head of a payload

enum Predictor : u32 { kFourPoints, kLorenzo };

inline constexpr u32 kGradeShift = 6;   // in byte 2, of closed tiles
inline constexpr u32 kWeightCodes = 6;  // they select the weights 16, 8, 4, 2, 1, 0
inline constexpr u32 kLeastHeadBytes = 4;
inline constexpr u32 kOwnTableBytes = 22;
inline constexpr u32 kOwnLatticeBytes = 16;
inline constexpr u32 kLeastOwnLanes = 16;  // in tiles with a table of their own
inline constexpr u32 kMostHeadBytes = 8;   // without the base, a table and a lattice

struct Head {
  u32 predictor = kFourPoints;
  bool is_fine = false;    // integers are fine points, otherwise bins
  bool is_closed = false;  // codes count whole steps: the unit is 16
  u32 lanes = 1;           // 1, 4, 16 or 32
  bool has_exceptions = false;
  bool is_narrow = false;  // all integers differ from base by less than 2^22
  u32 model = 0;
  u32 set = 0;                       // of symbol tables
  u32 escape_bytes = 2;              // 2, 4 or 8
  u32 raw_planes = 0;                // of every block
  u32 weights[kMaxActiveAxes] = {};  // weight codes of the active axes
  u32 lorenzo_axes = 0;
  u32 patches = 0;  // entries
  i64 base = 0;
  u32 unit_code = 0;           // selects the units of closed tiles
  u32 grade = 0;               // of closed tiles: predictions are multiples of 2 to this power
  bool has_own_table = false;  // a table of symbols, in place of classes
  u16 own_table[kSymbols] = {};
  OwnLattice own_lattice = {};  // if it exists, integers are the numbers of its points
  H5L_FN u32 unit_bits() const { return is_closed ? kUnitBits : 0; }
};

// Returns the end of the head.
template <class T>
H5L_FN u8* write_head(const Head& head, u8* out) {
  const u32 lanes = head.lanes == 1 ? 0 : head.lanes == 4 ? 1 : head.lanes == 16 ? 2 : 3;
  const u32 escapes = head.escape_bytes == 2 ? 0 : head.escape_bytes == 4 ? 1 : 2;
  const bool is_short = head.base == static_cast<short>(head.base);
  u32 rule = head.lorenzo_axes;
  if (head.predictor != kLorenzo) {
    rule = head.weights[0] + kWeightCodes * (head.weights[1] + kWeightCodes * head.weights[2]);
  }
  out[0] =
      static_cast<u8>(u32{!head.has_own_table} | head.predictor << 1 | u32{head.is_fine} << 2 |
                      u32{head.is_closed} << 3 | lanes << 4 | u32{head.has_exceptions} << 6 | u32{head.is_narrow} << 7);
  out[1] = static_cast<u8>(head.model | escapes << 4 | u32{head.raw_planes != 0} << 6 | u32{head.patches != 0} << 7);
  out[2] = static_cast<u8>(head.set | u32{is_short} << 3 | head.unit_code << 4 | u32{head.own_lattice.exists()} << 6 |
                           head.grade << kGradeShift);
  out[3] = static_cast<u8>(rule);
  out += kLeastHeadBytes;
  const auto put = [&out](auto number) {
    store(out, number);
    out += sizeof number;
  };
  if (is_short) {
    put(static_cast<u16>(head.base));
  } else {
    put(static_cast<Word<T>>(head.base));
  }
  if (head.raw_planes != 0) put(static_cast<u16>(head.raw_planes));
  if (head.patches != 0) put(static_cast<u16>(head.patches));
  if (head.has_own_table) {
    memset(out, 0, kOwnTableBytes);
    for (u32 s = 0; s < kSymbols; ++s) {
      // The eleven bits from bit 11 * s on span three bytes.
      const u32 bit = kFrequencyBits * s, shifted = (u32{head.own_table[s]} << bit % 8) - (1u << bit % 8);
      for (u32 i = 0; i < 3 && bit / 8 + i < kOwnTableBytes; ++i) out[bit / 8 + i] |= static_cast<u8>(shifted >> 8 * i);
    }
    out += kOwnTableBytes;
  }
  if (head.own_lattice.exists()) {
    put(bit_cast<u64>(head.own_lattice.d));
    put(bit_cast<u64>(head.own_lattice.offset));
  }
  return out;
}

// Whether a payload of integers is that of labels (labels.h), which have another head.
inline constexpr u32 kIsLabels = 128;  // in byte 2
H5L_FN bool are_labels(const u8* payload, u32 bytes) {
  return bytes >= kLeastHeadBytes && (payload[2] & kIsLabels) != 0;
}

// Whether all points are numbers, or infinite; if points are computed in the values' type, which has `value_bytes`, d
// and offset must be numbers of it.
H5L_FN bool is_usable(const OwnLattice& own, u32 value_bytes) {
  const auto is_number = [](double x) { return (bit_cast<u64>(x) & ~kSignBit<double>) < kInfinity<double>; };
  const auto is_of_type = [=](double x) { return value_bytes == 8 || static_cast<double>(static_cast<float>(x)) == x; };
  return own.exists() && is_number(own.d) && is_number(own.offset) &&
         (!own.has_products() || (is_of_type(own.d) && is_of_type(own.offset)));
}

// Returns the end of the head; nullptr if no encoder writes such a head. `active` is the number of axes along which the
// tile is interpolated; the axes of Lorenzo differences need not be among them.
H5L_FN const u8* read_head(const u8* in, const u8* end, u32 active, u32 value_bytes, Head& head) {
  constexpr u8 kLanes[] = {1, 4, 16, 32};
  if (end - in < static_cast<i64>(kLeastHeadBytes)) return nullptr;
  head.has_own_table = (in[0] & 1) == 0;
  head.predictor = in[0] >> 1 & 1;
  head.is_fine = (in[0] & 4) != 0;
  head.is_closed = (in[0] & 8) != 0;
  head.lanes = kLanes[in[0] >> 4 & 3];
  head.has_exceptions = (in[0] & 64) != 0;
  head.is_narrow = (in[0] & 128) != 0;
  head.model = in[1] & 15;
  head.escape_bytes = 2u << (in[1] >> 4 & 3);
  const bool has_raw_planes = (in[1] & 64) != 0, has_patches = (in[1] & 128) != 0, is_short = (in[2] & 8) != 0;
  head.set = in[2] & 7;
  u32 rule = in[3];
  head.unit_code = in[2] >> 4 & 3;
  head.grade = head.is_closed ? in[2] >> kGradeShift : 0;
  const bool has_own_lattice = !head.is_closed && (in[2] & 64) != 0;
  if (head.escape_bytes > 8 || (in[2] >> 7 != 0 && !head.is_closed) || (head.unit_code != 0 && !head.is_closed))
    return nullptr;
  if (head.has_own_table && (head.model != 0 || head.set != 0 || head.lanes < kLeastOwnLanes)) return nullptr;
  const bool is_lorenzo = head.predictor == kLorenzo;
  if (is_lorenzo && rule > kAxesMask) return nullptr;
  head.lorenzo_axes = is_lorenzo ? rule : 0;
  for (u32 i = 0; i < kMaxActiveAxes && !is_lorenzo; ++i, rule /= kWeightCodes) {
    head.weights[i] = rule % kWeightCodes;
    if (i >= active && rule != 0) return nullptr;
  }
  if (!is_lorenzo && rule != 0) return nullptr;
  if (head.is_closed && (!head.is_fine || is_lorenzo)) return nullptr;
  if (head.is_fine && !head.is_closed && has_patches) return nullptr;
  if (has_own_lattice && (head.is_fine || has_patches)) return nullptr;
  if (value_bytes == 4 && !is_lorenzo && !head.is_narrow) return nullptr;
  in += kLeastHeadBytes;
  const u32 rest = (is_short ? 2 : value_bytes) + 2 * (u32{has_raw_planes} + u32{has_patches}) +
                   (head.has_own_table ? kOwnTableBytes : 0) + (has_own_lattice ? kOwnLatticeBytes : 0);
  if (end - in < static_cast<i64>(rest)) return nullptr;
  const auto take = [&in] {
    in += 2;
    return load<u16>(in - 2);
  };
  if (is_short) {
    head.base = static_cast<short>(take());
  } else {
    head.base = value_bytes == 4 ? static_cast<i32>(load<u32>(in)) : static_cast<i64>(load<u64>(in));
    in += value_bytes;
  }
  head.raw_planes = has_raw_planes ? take() : 0;
  head.patches = has_patches ? take() : 0;
  u32 sum = 0;
  for (u32 s = 0; s < kSymbols && head.has_own_table; ++s) {
    const u32 bit = kFrequencyBits * s;
    const u32 three =
        u32{in[bit / 8]} | u32{in[bit / 8 + 1]} << 8 | (s + 1 < kSymbols ? u32{in[bit / 8 + 2]} << 16 : 0);
    head.own_table[s] = static_cast<u16>((three >> bit % 8 & (kFrequencySum - 1)) + 1);
    sum += head.own_table[s];
  }
  if (head.has_own_table && sum != kFrequencySum) return nullptr;
  if (head.has_own_table) in += kOwnTableBytes;
  if (has_own_lattice) {
    head.own_lattice = {bit_cast<double>(load<u64>(in)), bit_cast<double>(load<u64>(in + 8))};
    in += kOwnLatticeBytes;
    if (!is_usable(head.own_lattice, value_bytes)) return nullptr;
  }
  const bool is_used = (head.raw_planes != 0) == has_raw_planes && (head.patches != 0) == has_patches;
  return is_used && head.raw_planes <= kMaxRawPlanes ? in : nullptr;
}

// ---------------------------------------------------------------------------------------------------------------------
// Flags of exceptions, and entries of patches: u16 each, a gap of up to 12 bits and four bits that stand for -8 to 8
// without 0

inline constexpr u32 kHasOthers = 1, kOthersAreAlike = 2;

inline constexpr u32 kSkip = 0xFFFF;  // an entry that only skips kSkipped places
inline constexpr u32 kSkipped = 4095;
H5L_FN constexpr i32 patch_of(u32 entry) { return static_cast<i32>(entry & 15) - ((entry & 15) < 8 ? 8 : 7); }
H5L_FN constexpr u16 entry_of(u32 gap, i32 delta) {
  return static_cast<u16>(gap << 4 | static_cast<u32>(delta < 0 ? delta + 8 : delta + 7));
}
H5L_FN constexpr u32 patches_bytes(u32 entries) { return 2 * entries; }

inline constexpr u32 kRecentWords = 4;  // of labels

// The bytes of a literal of labels, for words that are at most this much above the least one.
H5L_FN u32 literal_bytes_of(u64 range) {
  u32 bytes = 1;
  while (bytes < 8 && range >> 8 * bytes != 0) bytes *= 2;
  return bytes;
}

// Labels that cost more are given up, in 1/16 bit: per word, and what they cost besides literals and decisions.
inline constexpr u64 kMostLabelCost = 2 * 16, kLabelOverhead = 128 * 10;

// ---------------------------------------------------------------------------------------------------------------------
// What the first kernel of the GPU's decoder leaves to the later ones: a record, two masks and ranks, steps, and room
// for 64-bit integers (kernels/codecs/interp_stage.cuh)

inline constexpr u32 kStageRecordBytes = 256;
// The room of a stage, in values and in bytes, for whole tiles of this many values.
H5L_FN constexpr u32 stage_values(u32 values) { return (values + 127) / 128 * 128; }
constexpr u32 stage_bytes_of(u32 lane_bytes, u32 values) {
  return kStageRecordBytes + stage_values(values) / 16 * (2 + 2 + 1) +
         stage_values(values) * (lane_bytes == 4 ? 1 + 4 : 1 + 16);
}

// The same for the GPU's encoder (kernels/codecs/interp_tile.cuh): a record, two bytes and four words per 32 values,
// patches and codes of two forms, and room for a payload.
inline constexpr u32 kTileRecordBytes = 512, kPayloadSpare = 2048;
H5L_FN constexpr u32 encode_stage_values(u32 values) { return (values + 511) / 512 * 512; }
H5L_FN constexpr u32 encode_stage_bytes_of(u32 value_bytes, u32 values) {
  const u32 room = encode_stage_values(values);
  return kTileRecordBytes + room / 32 * (2 + 4 * 4) + 2 * room + 2 * room * value_bytes + room * value_bytes +
         kPayloadSpare;
}

}  // namespace h5lossy::H5L_TARGET::interp
