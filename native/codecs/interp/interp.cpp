// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's encoder on a CPU: the forms that a tile can take, and the choice among them. decode.h has the decoder.
// Compiled once for each backend.

#include "codecs/interp/format.h"

#include <new>

#include "codecs/block_tiles.h"
#include "codecs/codec.h"
#include "codecs/interp/choice.h"
#include "codecs/interp/decode.h"
#include "codecs/interp/exceptions.h"
#include "codecs/interp/integers.h"
#include "codecs/interp/mask_value.h"
#include "codecs/interp/memory.h"
#include "codecs/interp/own_step.h"
#include "codecs/interp/patches.h"
#include "codecs/interp/prediction.h"
#include "codecs/interp/tile_writer.h"
#include "codecs/interp/values.h"

namespace h5lossy::H5L_TARGET::interp {
namespace {

inline constexpr u32 kModeMask = kAxesMask | kRewritable;

// ---------------------------------------------------------------------------------------------------------------------
// Forms

// What is known of a tile before it is coded.
struct Prospects {
  bool can_close = false;
  u64 interpolation_cost = 0;  // estimates, in 1/8192 bit
  u64 lorenzo_cost = 0;
  u64 second_cost = 0;  // Lorenzo along the second best axes
  u64 mask_cost = 0;    // of exceptions
  u32 second_axes = 0;
  Form interpolation;
  Form lorenzo;  // on bins
  u64 cost() const { return (interpolation_cost < lorenzo_cost ? interpolation_cost : lorenzo_cost) + mask_cost; }
};

// ---------------------------------------------------------------------------------------------------------------------
// The choice of a form

template <class T, class Positions>
Prospects survey_tile(const Shape& shape, const u8* values, const Positions& positions, u8* scratch) {
  Survey survey;
  const u32 fit = shape.count / 1024;
  const u32 groups = fit < 4 ? 4 : fit > kTileGroups ? kTileGroups : fit;
  static_assert(SurveyOfPositions::scratch_bytes(kTileGroups) <= sizeof(Arrays<i32>::codes[0]));
  Surveyor<T, Positions>(ValueReader<T>{values, false}, shape.extents, positions, shape.axes)
      .run(groups, scratch, survey);
  Prospects prospects;
  prospects.interpolation.rule = weights_of(survey.errors, shape.axes).rule;
  prospects.interpolation_cost = interpolation_cost(survey, shape.extents, shape.axes);
  prospects.lorenzo.is_lorenzo = true;
  prospects.lorenzo_cost = lorenzo_cost(survey, shape.extents, prospects.lorenzo.lorenzo_axes);
  prospects.second_cost = lorenzo_cost(survey, shape.extents, prospects.second_axes, prospects.lorenzo.lorenzo_axes);
  prospects.mask_cost = mask_cost(survey, shape.extents);
  return prospects;
}

// Tries Lorenzo on bins, also along the second best axes if their estimate is nearly as good, since samples are small.
template <class Writer>
u64 attempt_lorenzo(Writer& writer, const Prospects& prospects) {
  const u64 cost = writer.attempt(prospects.lorenzo);
  if (64 * prospects.second_cost >= 65 * prospects.lorenzo_cost) return cost;
  Form form = prospects.lorenzo;
  form.lorenzo_axes = prospects.second_axes;
  const u64 second = writer.attempt(form);
  return second < cost ? second : cost;
}

// Tries interpolation and Lorenzo on bins: first the one with the lower estimate; then the other one if its estimate is
// less than 31/32 of the cost of the first.
template <class Writer>
void attempt_both(Writer& writer, const Form& interpolation, const Prospects& prospects, bool has_interpolation) {
  if (!has_interpolation) {
    attempt_lorenzo(writer, prospects);
  } else if (prospects.interpolation_cost <= prospects.lorenzo_cost) {
    if (is_beaten(writer.attempt(interpolation), prospects.lorenzo_cost)) attempt_lorenzo(writer, prospects);
  } else {
    if (is_beaten(attempt_lorenzo(writer, prospects), prospects.interpolation_cost)) writer.attempt(interpolation);
  }
}

bool may_close(const Shape& shape, const Summary& summary, bool is_rewritable) {
  return !is_rewritable && summary.without_fine <= shape.count / 128 && shape.active != 0;
}

// Tries the forms of a tile with more than one integer. `known` is the result of a survey, if there was one.
template <class T>
void choose_form(TileWriter<T, Lattice<T>>& writer, const Lattice<T>& lattice, bool can_close, const Shape& shape,
                 const u8* values, const Summary& summary, Memory<T>& memory, const Prospects* known) {
  const u32 count = shape.count;
  const bool is_decoded = summary.beside_bins > count / 128;  // most values were decoded before
  const u32 grade = can_close && summary.may_be_graded ? closed_grade<T>(memory.positions, count) : 0;
  if (can_close && is_decoded) {
    Form form = {.is_fine = true, .is_closed = true, .grade = grade};
    form.rule = recognise_rule<T>(shape, memory.positions, Grade(grade));
    for (form.unit_code = 0; form.unit_code < kUnitCodes; form.unit_code = next_unit_code(form.unit_code)) {
      writer.attempt(form, count / 8);
      if (writer.patches() <= count / 1024) return;
    }
  }
  const AbsolutePositions<T> positions(lattice, can_close);
  const Prospects prospects = known != nullptr ? *known : survey_tile<T>(shape, values, positions, writer.scratch());
  Form interpolation = prospects.interpolation;
  interpolation.is_fine = interpolation.is_closed = can_close;
  interpolation.grade = grade;
  attempt_both(writer, interpolation, prospects, shape.active != 0);
  if (!is_decoded) return;
  // Forms on fine points that are not closed: no value needs a patch.
  Form form = prospects.lorenzo;
  form.is_fine = true;
  writer.attempt(form);
  if (shape.active == 0) return;
  form = prospects.interpolation;
  form.is_fine = true;
  writer.attempt(form);
}

// Tries a tile that has a mask value with it and without it: first the variant with the lower estimate, then the other
// one if it may be as good.
template <class T>
void choose_mask(TileWriter<T, Lattice<T>>& writer, const Lattice<T>& lattice, bool is_rewritable, const Shape& shape,
                 const u8* values, const Summary& summary, Memory<T>& memory) {
  if (lattice.has_words && shape.count >= 2 && may_be_labels<T>(values, shape.count)) writer.attempt_labels();
  const MaskValue<T> mask = shape.count < 2 ? MaskValue<T>() : find_mask_value(lattice, values, shape.count);
  if (!mask.exists()) {
    choose_form(writer, lattice, may_close(shape, summary, is_rewritable), shape, values, summary, memory, nullptr);
    writer.attempt_finer_units();
    return;
  }
  Lattice<T> lattices[2] = {lattice, lattice};
  lattices[1].mask_bits = mask.bits;
  Summary summaries[2] = {summary, summary}, one;
  i32 place;
  classify(lattice, reinterpret_cast<const u8*>(&mask.bits), 1, &place, one);
  const u32 masked = count_equal<T>(values, shape.count, mask.bits);
  summaries[1].exceptions += masked * (1 - one.exceptions);
  summaries[1].without_fine -= masked * one.without_fine;
  summaries[1].beside_bins -= masked * one.beside_bins;
  Prospects prospects[2];
  for (u32 i = 0; i < 2; ++i) {
    const AbsolutePositions<T> positions(lattices[i], may_close(shape, summaries[i], is_rewritable));
    prospects[i] = survey_tile<T>(shape, values, positions, writer.scratch());
  }
  const u32 first = prospects[1].cost() < prospects[0].cost() ? 1 : 0;
  if (writer.cost() < prospects[first].cost() / kCostUnits) return;  // labels are better
  for (u32 n = 0; n < 2; ++n) {
    const u32 i = first ^ n;
    if (i != first && !is_rivalled(writer.cost(), prospects[i].cost())) return;
    if (i == 1 || i != first) {  // otherwise they have already been found
      place_equal<T>(values, shape.count, mask.bits, i == 1 ? kNone<i32> : place, memory.positions);
    }
    writer.mask(lattices[i], mask, summaries[i]);
    const u64 before = writer.cost();
    const bool can_close = may_close(shape, summaries[i], is_rewritable);
    choose_form(writer, lattices[i], can_close, shape, values, summaries[i], memory, &prospects[i]);
    if (writer.cost() < before) writer.attempt_finer_units();
  }
}

template <class T>
void choose_mask(TileWriter<T, blocks::FoldedQuantizer<T>>& writer, const blocks::FoldedQuantizer<T>& q, bool,
                 const Shape& shape, const u8* values, const Summary&, Memory<T>&) {
  const Prospects prospects = survey_tile<T>(shape, values, PointwisePositions<T>(q), writer.scratch());
  attempt_both(writer, prospects.interpolation, prospects, shape.active != 0);
}

// ---------------------------------------------------------------------------------------------------------------------
// Tiles

template <class T>
Summary summarize(const Lattice<T>& lattice, const u8* values, u32 count, i32* positions) {
  Summary summary;
  classify(lattice, values, count, positions, summary);
  return summary;
}

template <class T>
Summary summarize(const blocks::FoldedQuantizer<T>& q, const u8* values, u32 count, i32* positions) {
  Summary summary;
  BinSummary bins;
  find_bins<T>(q, values, nullptr, count, 0, positions, bins);
  for (u32 i = 0; i < count; ++i) positions[i] = kNone<i32>;
  summary.exceptions = bins.exceptions;
  return summary;
}

// The values to encode: numbers of points if the tile has a lattice of its own, or numbers of words; NaN where
// safeguards make exceptions.
template <class T>
const u8* values_to_encode(const Lattice<T>& lattice, const u8* values, u32 count, T* numbers) {
  const auto encode_each = [values, count, numbers](auto encoded) {
    for (u32 i = 0; i < count; ++i) numbers[i] = bit_cast<T>(encoded(load<Word<T>>(values + i * sizeof(T))));
    return reinterpret_cast<const u8*>(numbers);
  };
  if (lattice.has_words) return encode_each([l = lattice](Word<T> word) { return number_of_word(l, word); });
  if (lattice.cuts != nullptr) {
    return encode_each([&](Word<T> bits) { return is_guarded(lattice, bits) ? kNoMask<T> : bits; });
  }
  if (!lattice.own.exists()) return values;
  return encode_each(
      [own = lattice.own, fill = lattice.fill_bits](Word<T> bits) { return number_of<T>(own, fill, bits); });
}
template <class T>
const u8* values_to_encode(const blocks::FoldedQuantizer<T>&, const u8* values, u32, T*) {
  return values;
}

template <class T, class Q>
u32 encode_tile(const Q& q, u32 mode, const Tile& tile, const u8* originals, u32 value_bytes, u8* payload,
                u8* workspace) {
  const Shape shape = shape_of(tile.boxes[0].extents, mode & kAxesMask);
  Memory<T>& memory = *new (workspace) Memory<T>;
  const u32 count = shape.count;
  const u8* const values = values_to_encode(q, originals, count, memory.numbers);
  const Summary summary = summarize<T>(q, values, count, memory.positions);
  Word<T> constant;
  if (find_constant<T>(q, values, originals, memory.positions, count, summary.exceptions, summary.beside_bins,
                       constant)) {
    return blocks::write_constant<T>(constant, count, payload);
  }
  TileWriter<T, Q> writer(q, shape, summary, values, originals, value_bytes, payload, memory);
  choose_mask<T>(writer, q, (mode & (kRewritable | kExact)) != 0, shape, values, summary, memory);
  return writer.size();
}

template <class T>
u32 encode(const Quantizer& quantizer, u32 mode, const Tile& tile, const u8* values, u8* payload, u8* workspace) {
  if (tile.count == 0) return kStoreTile;
  if (quantizer.kind == BoundKind::pointwise_relative) {
    return encode_tile<T>(blocks::folded_quantizer<T>(quantizer), mode, tile, values, sizeof(T), payload, workspace);
  }
  return encode_tile<T>(tile_lattice_of<T>(quantizer), mode, tile, values, sizeof(T), payload, workspace);
}

template <class T>
bool decode(const Quantizer& quantizer, u32 mode, const Tile& tile, const u8* payload, u32 payload_bytes, u8* values,
            u8* workspace) {
  return decode_tile<T>(ValueRule<T>(quantizer), mode, tile, payload, payload_bytes, values, workspace);
}

template <class T>
inline constexpr u32 kWorkspaceBytes = static_cast<u32>(
    kEncodes && sizeof(Memory<T>) > sizeof(DecodeMemory<T>) ? sizeof(Memory<T>) : sizeof(DecodeMemory<T>));

// ---------------------------------------------------------------------------------------------------------------------
// Tiles of integers. Their words are stored after the workspace of the other type

template <class T>
inline constexpr u32 kIntegerWorkspaceBytes = kWorkspaceBytes<T> + kTileValues * sizeof(T);

template <class T>
u32 encode_words(const Quantizer& quantizer, u32 mode, const Tile& tile, const u8* values, const IntegerType& type,
                 u8* payload, u8* workspace) {
  u8* const words = workspace + kWorkspaceBytes<T>;
  const Lattice<T> lattice = read_words<T>(quantizer, type, values, tile.count, words, workspace);
  const u32 size = encode_tile<T>(lattice, mode | kRewritable, tile, words, type.bytes, payload, workspace);
  return size < tile.count * type.bytes ? size : kStoreTile;
}

template <class W, bool is_signed>
u32 encode_integers(const Quantizer& quantizer, u32 mode, const Tile& tile, const u8* values, u8* payload,
                    u8* workspace) {
  if (tile.count == 0) return kStoreTile;
  return encode_words<LaneOf<W>>(quantizer, mode, tile, values, {sizeof(W), is_signed}, payload, workspace);
}

template <class W, bool is_signed>
bool decode_integers(const Quantizer& quantizer, u32 mode, const Tile& tile, const u8* payload, u32 payload_bytes,
                     u8* values, u8* workspace) {
  using T = LaneOf<W>;
  u8* const words = workspace + kWorkspaceBytes<T>;
  if (!decode_tile<T>(ValueRule<T>(), mode, tile, payload, payload_bytes, words, workspace)) return false;
  write_values<W, is_signed>(quantizer, words, tile.count, values, workspace);
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Modes

bool has_mode(u32 requested) {
  return (requested & ~kModeMask) == 0 && count_ones(requested & kAxesMask) <= kMaxActiveAxes;
}

template <class T, class Positions>
u32 survey_chunk(const Chunk& chunk, const ValueReader<T>& reader, const Positions& positions, u32 allowed,
                 u8* workspace) {
  Survey survey;
  Surveyor<T, Positions>(reader, chunk.dims, positions, kAxesMask).run(kChunkGroups, workspace, survey);
  return cheapest_axes(survey, chunk.dims, allowed);
}

template <class T>
u32 choose_axes(const Chunk& chunk, bool is_rewritable, u8* workspace) {
  const ValueReader<T> reader = {chunk.values, chunk.big_endian};
  if (chunk.quantizer.kind == BoundKind::pointwise_relative) {
    const PointwisePositions<T> positions(blocks::folded_quantizer<T>(chunk.quantizer));
    return survey_chunk(chunk, reader, positions, ~0u, workspace);
  }
  const Lattice<T> lattice = lattice_of<T>(chunk.quantizer);
  const u32 allowed = is_rewritable ? ~0u : recognise_axes(lattice, reader, chunk.dims);
  return survey_chunk(chunk, reader, AbsolutePositions<T>(lattice, !is_rewritable), allowed, workspace);
}

template <class T>
u32 choose_integer_axes(const Chunk& chunk, u8* workspace) {
  const AbsolutePositions<T> positions(lattice_of_numbers<T>(chunk.quantizer), false);
  return survey_chunk(chunk, numbers_of<T>(chunk), positions, ~0u, workspace);
}

bool take_own_step(const Chunk& chunk, Quantizer& quantizer) {
  if (quantizer.kind == BoundKind::pointwise_relative || chunk.values == nullptr) return false;
  return chunk.value_bytes == 4 ? interp::take_own_step<float>(chunk, quantizer)
                                : interp::take_own_step<double>(chunk, quantizer);
}

u32 choose_mode(const Chunk& chunk, u32 requested, u8* workspace) {
  if (chunk.quantizer.is_exact) requested |= kExact;
  if ((requested & kAxesMask) != 0) return requested;
  if (chunk.rank <= 1) return requested | axis_bit(kAxes - 1);
  if (chunk.values == nullptr) return kNoMode;
  if (chunk.value_class != ValueClass::floating) {
    return requested | (chunk.value_bytes <= 2 ? choose_integer_axes<float>(chunk, workspace)
                                               : choose_integer_axes<double>(chunk, workspace));
  }
  const bool is_rewritable = (requested & (kRewritable | kExact)) != 0;
  const u32 axes = chunk.value_bytes == 4 ? choose_axes<float>(chunk, is_rewritable, workspace)
                                          : choose_axes<double>(chunk, is_rewritable, workspace);
  return requested | axes;
}

u32 possible_modes(const Chunk& chunk, u32 requested, u32 (&modes)[kMostPossibleModes]) {
  modes[0] = requested | ((requested & kAxesMask) == 0 ? axis_bit(kAxes - 1) : 0);
  if ((requested & kAxesMask) != 0 || chunk.rank <= 1) return 1;
  const AxisCandidates candidates = candidates_of(chunk.dims);
  for (u32 c = 0; c < candidates.count; ++c) modes[c] = requested | candidates.axes[c];
  return candidates.count;
}

u32 header_dims(u32 mode) { return has_mode(mode & ~kExact) && (mode & kAxesMask) != 0 ? kAxes : kNoMode; }

TileLayout layout(u32 mode, u32 value_bytes, const u32 (&dims)[kAxes]) {
  TileLayout result = {.box = {}};
  cut(dims, mode & kAxesMask, result.box);
  u32 values = 1;
  for (const u32 extent : result.box) values *= extent;
  result.stage_bytes = stage_bytes_of(value_bytes, values);
  result.encode_stage_bytes = encode_stage_bytes_of(value_bytes, values);
  return result;
}

template <class W, bool is_signed>
constexpr TileFunctions integer_functions = {
    kIntegerWorkspaceBytes<LaneOf<W>>, H5L_ENCODER((encode_integers<W, is_signed>)), decode_integers<W, is_signed>};

// Stages are those of the floats that hold the words.
TileLayout layout_of_integers(u32 mode, u32 value_bytes, const u32 (&dims)[kAxes]) {
  return layout(mode, value_bytes <= 2 ? sizeof(float) : sizeof(double), dims);
}

constexpr Codec kIntegers = {
    .spare_bytes = kPayloadSpare,
    .has_lossless = true,
    .has_mode = has_mode,
    .choose_mode = H5L_ENCODER(choose_mode),
    .choice_bytes = SurveyOfPositions::scratch_bytes(kChunkGroups),
    .possible_modes = H5L_ENCODER(possible_modes),
    .layout_bits = kAxesMask,
    .ignored_bits = kRewritable | kExact,
    .header_dims = header_dims,
    .layout = layout_of_integers,
    .float32 = {},
    .float64 = {},
    .integers = {{integer_functions<u8, false>, integer_functions<u16, false>, integer_functions<u32, false>,
                  integer_functions<u64, false>},
                 {integer_functions<u8, true>, integer_functions<u16, true>, integer_functions<u32, true>,
                  integer_functions<u64, true>}},
};

}  // namespace

extern const Codec codec;
const Codec codec = {
    .spare_bytes = kPayloadSpare,
    .step_rule = {.share = 4057.0 / 4096, .least_bound = 32},
    .has_mode = has_mode,
    .choose_mode = H5L_ENCODER(choose_mode),
    .choice_bytes = SurveyOfPositions::scratch_bytes(kChunkGroups),
    .possible_modes = H5L_ENCODER(possible_modes),
    .take_own_step = H5L_ENCODER(take_own_step),
    .layout_bits = kAxesMask,
    .ignored_bits = kRewritable | kExact,
    .header_dims = header_dims,
    .layout = layout,
    .auto_mode_count = 0,
    .float32 = {kWorkspaceBytes<float>, H5L_ENCODER(encode<float>), decode<float>},
    .float64 = {kWorkspaceBytes<double>, H5L_ENCODER(encode<double>), decode<double>},
    .for_integers = &kIntegers,
};

}  // namespace h5lossy::H5L_TARGET::interp
