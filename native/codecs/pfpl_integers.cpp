// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// PFPL for integers on a CPU: the loops over the values of one tile. Compiled once for each backend. Most are written
// for the compiler to vectorize.

#include "codecs/pfpl_integers.h"

#include "codecs/codec.h"
#include "codecs/integers.h"
#include "codecs/simd/pfpl_integers.h"
#include "codecs/simd/pfpl_zero_removal.h"
#include "codecs/simd/sums.h"
#include "codecs/words.h"

namespace h5lossy::H5L_TARGET::pfpl_integers {
namespace {

using namespace pfpl;

// Words are kept as ranks (IntegerType), so that the same unsigned arithmetic predicts words of all types: a rank
// differs from its word by a constant, which cancels in residuals.

// A tile's words as rows. A predictor that needs the row before the first one gets the tile's first word in its place.
struct Rows {
  u32 count, length;
};

// Loops over a row run to the end of a vector, which avoids scalar remainders. They read and write up to one vector
// past the row, and read one word before it. Writing past a row is safe: it only touches the next row, which is written
// later.
template <class W>
struct Words {
  static constexpr u32 kMost = kStreamBytes / sizeof(W), kRoom = 64;
  alignas(64) u8 planes[kStreamBytes];
  alignas(64) W residuals[kMost + simd::kValuesAtOnce];
  alignas(64) W words_with_room[kRoom + kMost + kRoom];
  alignas(64) W above[kMost + kRoom];  // decoding: the row above

  W* words() { return words_with_room + kRoom; }
};

inline constexpr u32 kLineBytes = 64;

template <class W>
constexpr u32 whole_vectors(u32 count) {
  return (count + kLanes<W> - 1) / kLanes<W> * kLanes<W>;
}

// ---------------------------------------------------------------------------------------------------------------------
// Values and words

template <class T>
Lattice lattice_of(const Quantizer& quantizer) {
  using W = typename T::Word;
  return H5L_TARGET::lattice_of(quantizer, static_cast<W>(~W{0}), T::sign);
}

// Ignores exact values.
template <class T>
void bins_of(const Lattice& lattice, u32 count, typename T::Word* words) {
  using W = typename T::Word;
  using Number = Quotient<W>;
  if constexpr (sizeof(W) == 4) {
    if (lattice.bins != nullptr) {
      for (u32 i = 0; i < count; ++i) words[i] = word_in_bins(*lattice.bins, T::sign, words[i]) ^ T::sign;
      return;
    }
  }
  const W first = static_cast<W>(lattice.rank_of(lattice.first));
  if constexpr (sizeof(W) == 8) {
    u64 place;
    for (u32 i = 0; i < count; ++i) words[i] = lattice.rank_of(lattice.divide(words[i], place));
  } else {
    const Number ahead = static_cast<Number>(lattice.shift) + Number{0.5};
    const Number inverse = 1 / static_cast<Number>(lattice.step);
    for (u32 i = 0; i < count; ++i) {
      const Number steps = (static_cast<Number>(static_cast<W>(words[i] ^ T::sign)) + ahead) * inverse;
      words[i] = static_cast<W>(first + static_cast<W>(static_cast<u32>(steps)));
    }
  }
}

template <class T>
void words_of(const Lattice& lattice, const u8* values, u32 count, typename T::Word* words) {
  using W = typename T::Word;
  memcpy(words, values, count * sizeof(W));
  if (lattice.step == 1 && lattice.bins == nullptr) {
    for (u32 i = 0; i < count && T::sign != 0; ++i) words[i] ^= T::sign;
    return;
  }
  bins_of<T>(lattice, count, words);
  const auto rank_of = [](u64 word) { return static_cast<W>(static_cast<W>(word) ^ T::sign); };
  for (u32 j = 0; j < lattice.exact_count; ++j) {
    const ExactValue& exact = lattice.exact[j];
    const W value = rank_of(exact.value), code = rank_of(exact.word), bin = rank_of(exact.bin);
    const W below = rank_of(exact.below), above = rank_of(exact.above);
    for (u32 i = 0; i < count; ++i) {
      const W rank = rank_of(load<W>(values + i * sizeof(W)));
      const W beside = rank > value ? above : below;
      words[i] = rank == value ? code : words[i] == bin ? beside : words[i];
    }
  }
}

template <class T>
void values_on_lattice(const Lattice& lattice, const typename T::Word* words, u32 count, u8* values) {
  using W = typename T::Word;
  const W origin = static_cast<W>(lattice.origin + T::sign * lattice.step), step = static_cast<W>(lattice.step);
  for (u32 i = 0; i < count; ++i) store(values + i * sizeof(W), static_cast<W>(origin + product(words[i], step)));
}

template <class T>
void values_of(const Lattice& lattice, const typename T::Word* words, u32 count, u8* values) {
  using W = typename T::Word;
  if (lattice.step == 1 && lattice.bins == nullptr) {
    for (u32 i = 0; i < count; ++i) store(values + i * sizeof(W), static_cast<W>(words[i] ^ T::sign));
    return;
  }
  if (lattice.bins != nullptr) {
    if constexpr (sizeof(W) == 4) {
      for (u32 i = 0; i < count; ++i)
        store(values + i * sizeof(W), value_from_bins(*lattice.bins, T::sign, words[i] ^ T::sign));
    }
  } else {
    values_on_lattice<T>(lattice, words, count, values);
  }
  for (u32 j = 0; j < lattice.special_count; ++j) {
    const W word = static_cast<W>(lattice.rank_of(lattice.special[j].word));
    const W value = static_cast<W>(lattice.special[j].value);
    for (u32 i = 0; i < count; ++i) {
      const W before = load<W>(values + i * sizeof(W));
      store(values + i * sizeof(W), words[i] == word ? value : before);
    }
  }
}

// The same with tables. Larger types have none.
template <class W>
void look_up_words(const WordTables& tables, const u8* values, u32 count, W* words) {
  if constexpr (sizeof(W) <= 2) {
    for (u32 i = 0; i < count; ++i) words[i] = static_cast<W>(tables.ranks[load<W>(values + i * sizeof(W))]);
  }
}

template <class W>
void look_up_values(const WordTables& tables, const W* words, u32 count, u8* values) {
  if constexpr (sizeof(W) <= 2) {
    for (u32 i = 0; i < count; ++i) store(values + i * sizeof(W), static_cast<W>(tables.values[words[i]]));
  }
}

template <class T>
void to_words(const Quantizer& quantizer, const u8* values, u32 count, u8* ranks) {
  auto* const words = reinterpret_cast<typename T::Word*>(ranks);
  if (quantizer.tables != nullptr) {
    look_up_words(*quantizer.tables, values, count, words);
  } else {
    words_of<T>(lattice_of<T>(quantizer), values, count, words);
  }
}

// Not inlined, since other codecs call it too.
template <class T>
[[gnu::noinline]] void to_values(const Quantizer& quantizer, const u8* ranks, u32 count, u8* values) {
  const auto* const words = reinterpret_cast<const typename T::Word*>(ranks);
  if (quantizer.tables != nullptr) {
    look_up_values(*quantizer.tables, words, count, values);
  } else {
    values_of<T>(lattice_of<T>(quantizer), words, count, values);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Predictors

// Computes the residuals, in negabinary, of the words from number `first` on: whole rows, or parts of them. Rows are
// adjacent in memory, so only the ends of rows need another prediction.
template <class W>
void residuals_of(Predictor predictor, u32 length, const W* words, u32 first, u32 count, W zero, W* __restrict__ out) {
  if (first < length && predictor > Predictor::x) {  // no row above
    const u32 left = length - first, n = count < left ? count : left;
    residuals_of(Predictor::x, length, words, first, n, zero, out);
    if (n != count) residuals_of(predictor, length, words, first + n, count - n, zero, out + n);
    return;
  }
  const W *const own = words + first, *const above = own - length;
  const auto everywhere = [&](auto predicted) {
    for (u32 i = 0; i < count; i += kLanes<W>) {
      const Vector<W> difference = simd::load_lanes<W>(own + i) - predicted(i);
      simd::store_lanes(out + i, (difference + kNegabinaryMask<W>)^kNegabinaryMask<W>);
    }
  };
  const auto at_ends = [&](u32 end, auto predicted) {  // the ends of rows: 0 or length - 1
    for (u32 i = (end + length - first % length) % length; i < count; i += length) {
      out[i] = to_negabinary(static_cast<W>(own[i] - predicted(i)));
    }
  };
  const auto at = [](const W* row) { return simd::load_lanes<W>(row); };
  switch (predictor) {
    case Predictor::none:
      return everywhere([&](u32) { return simd::all_lanes(zero); });
    case Predictor::x:
      everywhere([&](u32 i) { return at(own + i - 1); });
      return at_ends(0, [&](u32 i) { return first + i == 0 ? zero : above[i]; });
    case Predictor::y:
      return everywhere([&](u32 i) { return at(above + i); });
    case Predictor::three:
      everywhere([&](u32 i) {
        return simd::average_lanes(at(above + i), simd::average_lanes(at(above + i - 1), at(above + i + 1)));
      });
      at_ends(0, [&](u32 i) { return average(above[i], average(above[i], above[length == 1 ? i : i + 1])); });
      return at_ends(length - 1,
                     [&](u32 i) { return average(above[i], average(above[length == 1 ? i : i - 1], above[i])); });
    case Predictor::xy:
      everywhere([&](u32 i) { return at(above + i) + at(own + i - 1) - at(above + i - 1); });
      return at_ends(0, [&](u32 i) { return above[i]; });
  }
}

// Inverse of residuals_of, for one row. `above` becomes a copy of the row: loading a vector that was just stored as
// parts of two others would stall.
template <class W>
void words_of_row(Predictor predictor, W before, u32 length, const W* residuals, W* above, W* __restrict__ row) {
  constexpr u32 n = kLanes<W>;
  const auto residual = [&](u32 x) { return from_negabinary<W>(simd::load_lanes<W>(residuals + x)); };
  const auto put = [&](u32 x, Vector<W> words) {
    simd::store_lanes(row + x, words);
    simd::store_lanes(above + x, words);
  };
  // Computes running sums of the residuals, up to the end of a vector if they are added in vectors.
  const auto add_up = [&](W start) {
    for (u32 x = 0; x < length; x += n) simd::store_lanes(row + x, residual(x));
    simd::running_sums(row, kVectorBytes > 16 ? whole_vectors<W>(length) : length, start);
  };
  switch (predictor) {
    case Predictor::none:
      for (u32 x = 0; x < length; x += n) simd::store_lanes(row + x, residual(x) + before);
      return;
    case Predictor::x:
      add_up(before);
      above[0] = row[0];
      return;
    case Predictor::y:
      for (u32 x = 0; x < length; x += n) put(x, residual(x) + simd::load_lanes<W>(above + x));
      return;
    case Predictor::three: {
      Vector<W> left = simd::all_lanes(above[0]), own = simd::load_lanes<W>(above);
      for (u32 x = 0; x < length; x += n) {
        Vector<W> right = simd::load_lanes<W>(above + x + n);
        const Vector<W> w = simd::lanes_from<W, n - 1>(left, own);
        Vector<W> e = simd::lanes_from<W, 1>(own, right);
        if (x + n >= length) e ^= (e ^ own) & simd::only_lane<W>(length - 1 - x);
        put(x, residual(x) + simd::average_lanes(own, simd::average_lanes(w, e)));
        left = own;
        own = right;
      }
      return;
    }
    case Predictor::xy:  // the differences to the row above are running sums of residuals
      add_up(0);
      for (u32 x = 0; x < length; x += n) put(x, simd::load_lanes<W>(row + x) + simd::load_lanes<W>(above + x));
      return;
  }
}

// The same for all rows of a tile that have few words, such as the colours of a pixel, for which vectors are too long.
// The row above stays in registers.
template <class W, u32 length>
void words_of_short_rows(Predictor predictor, u32 rows, W zero, const W* residuals, W* __restrict__ words) {
  W above[length];
  const auto for_rows = [&](auto predicted) {
    for (u32 y = 0; y < rows; ++y, residuals += length, words += length) {
      W row[length];
      for (u32 x = 0; x < length; ++x) {
        const W before = x != 0 ? row[x - 1] : W{0};
        row[x] = static_cast<W>(predicted(x, before) + from_negabinary<W>(residuals[x]));
        words[x] = row[x];
      }
      for (u32 x = 0; x < length; ++x) above[x] = row[x];
    }
  };
  const auto except_in_first = [&](auto predicted) {
    const u32 all = rows;
    rows = 1;
    for_rows([&](u32 x, W before) { return x == 0 ? zero : before; });
    rows = all - 1;
    for_rows(predicted);
  };
  switch (predictor) {
    case Predictor::none:
      return for_rows([&](u32, W) { return zero; });
    case Predictor::x:
      return except_in_first([&](u32 x, W before) { return x == 0 ? above[0] : before; });
    case Predictor::y:
      return except_in_first([&](u32 x, W) { return above[x]; });
    case Predictor::three:
      return except_in_first([&](u32 x, W) {
        const W left = above[x == 0 ? x : x - 1], right = above[x == length - 1 ? x : x + 1];
        return average(above[x], average(left, right));
      });
    case Predictor::xy:
      return except_in_first(
          [&](u32 x, W before) { return x == 0 ? above[0] : static_cast<W>(above[x] + before - above[x - 1]); });
  }
}

template <class W>
void words_from_residuals(Predictor predictor, const Rows& rows, W zero, Words<W>& work) {
  const u32 length = rows.length;
  W *const words = work.words(), *const above = work.above;
  if constexpr (kEncodes) {  // too much code for the library that only decodes
    const auto short_rows = length == 2   ? words_of_short_rows<W, 2>
                            : length == 3 ? words_of_short_rows<W, 3>
                            : length == 4 ? words_of_short_rows<W, 4>
                                          : nullptr;
    if (short_rows != nullptr) return short_rows(predictor, rows.count, zero, work.residuals, words);
  }
  const bool is_none = predictor == Predictor::none;
  // The first row has no row above, so all predictors but `none` use the previous word.
  words_of_row(is_none ? predictor : Predictor::x, zero, length, work.residuals, above, words);
  if (!is_none) memcpy(above, words, length * sizeof(W));
  for (u32 y = 1; y < rows.count; ++y) {
    const W before = is_none ? zero : above[0];
    words_of_row(predictor, before, length, work.residuals + y * length, above, words + y * length);
  }
}

// Chooses the first predictor that leaves the fewest bytes on the samples, which are concatenated.
template <class W>
Predictor choose_predictor(const Rows& rows, const W* words, W zero, W* residuals) {
  const u32 predictors = rows.count > 1 ? kPredictors : 2;  // one row: the others are `x`
  const Samples samples(rows.count, rows.length);
  const u32 n = samples.count, count = samples.number * n;
  Predictor best = Predictor::none;
  u32 least = ~u32{0};
  for (u32 p = 0; p < predictors; ++p) {
    const Predictor predictor = static_cast<Predictor>(p);
    for (u32 i = 0; i < samples.number; ++i) {
      residuals_of(predictor, rows.length, words, samples.first + i * samples.apart, n, zero, residuals + i * n);
    }
    memset(residuals + count, 0, kGroupOfIntegers * sizeof(W) + kVectorBytes);
    const u32 cost = simd::count_plane_bytes(residuals, count);
    if (cost < least) {
      least = cost;
      best = predictor;
    }
  }
  return best;
}

// ---------------------------------------------------------------------------------------------------------------------
// Planes

// Converts batches of groups from residuals to planes. The last batch has fewer bytes in each plane.
template <class W>
void to_planes(const W* residuals, u32 groups, u8* planes) {
  constexpr u32 n = simd::kGroupsAtOnce;
  u32 first = 0;
  for (; first + n <= groups; first += n, residuals += simd::kValuesAtOnce) {
    simd::batch_to_planes(residuals, groups, planes + first);
  }
  if (first == groups) return;
  alignas(64) u8 part[kWordBits<W> * n];
  simd::batch_to_planes(residuals, n, part);
  for (u32 j = 0; j < kWordBits<W>; ++j) memcpy(planes + j * groups + first, part + j * n, groups - first);
}

template <class W>
void from_planes(const u8* planes, u32 groups, W* residuals) {
  constexpr u32 n = simd::kGroupsAtOnce;
  alignas(64) u8 part[kWordBits<W> * n];
  for (u32 first = 0; first < groups; first += n, residuals += simd::kValuesAtOnce) {
    const u8* from = planes + first;
    u32 stride = groups;
    if (groups - first < n) {
      memset(part, 0, sizeof part);
      for (u32 j = 0; j < kWordBits<W>; ++j) memcpy(part + j * n, from + j * groups, groups - first);
      from = part;
      stride = n;
    }
    simd::batch_from_planes(from, stride, residuals);
  }
}

// ---------------------------------------------------------------------------------------------------------------------

Rows rows_of(const Tile& tile) {
  const u16(&extents)[kAxes] = tile.boxes[0].extents;
  return {u32{extents[0]} * extents[1] * extents[2], extents[3]};
}

// Prefetches one of several parts of the rows ahead. Few cache lines can be in flight at a time, so this is done
// between the stages, and into L2, since rows that are a power of two apart evict each other from L1.
[[gnu::noinline]] void fetch_ahead(const Tile& tile, u32 part, u32 parts) {
  asm volatile("");  // GCC removes calls of functions that only prefetch
  const RowsAhead& rows = tile.ahead;
  for (u32 y = rows.count * part / parts; y < rows.count * (part + 1) / parts; ++y) {
    const u8* const row = rows.first + y * rows.apart;
    for (u32 i = 0; i < rows.bytes; i += kLineBytes) __builtin_prefetch(row + i, 0, 2);
    __builtin_prefetch(row + rows.bytes - 1, 0, 2);
  }
}

template <class T>
u32 encode(const Quantizer& quantizer, u32, const Tile& tile, const u8* values, u8* payload, u8* workspace) {
  using W = typename T::Word;
  auto& work = *reinterpret_cast<Words<W>*>(workspace);
  u8* const planes = work.planes;
  W *const words = work.words(), *const residuals = work.residuals;
  const Rows rows = rows_of(tile);
  const W zero = T::sign;  // the rank of word 0
  const u32 raw_bytes = tile.count * static_cast<u32>(sizeof(W));
  if (tile.count == 0) return kStoreTile;
  const auto fetch = [&](u32 sixth) { fetch_ahead(tile, sixth, 6); };
  fetch(0);
  to_words<T>(quantizer, values, tile.count, reinterpret_cast<u8*>(words));
  fetch(1);
  const Predictor predictor = choose_predictor(rows, words, zero, residuals);
  fetch(2);
  residuals_of(predictor, rows.length, words, 0, tile.count, zero, residuals);
  fetch(3);
  const u32 groups = tile.count / kGroupOfIntegers, grouped = groups * kGroupOfIntegers;
  to_planes(residuals, groups, planes);
  fetch(4);
  memcpy(planes + grouped * sizeof(W), residuals + grouped, (tile.count - grouped) * sizeof(W));
  for (u32 i = raw_bytes; i % 8 != 0; ++i) planes[i] = 0;  // zero removal reads eight bytes at a time
  const u32 size = simd::remove_zeros(planes, raw_bytes, payload);
  fetch(5);
  if (size == 0) return 0;
  payload[size] = static_cast<u8>(predictor);
  return size + 1 < raw_bytes ? size + 1 : kStoreTile;
}

template <class T>
bool decode(const Quantizer& quantizer, u32, const Tile& tile, const u8* payload, u32 payload_bytes, u8* values,
            u8* workspace) {
  using W = typename T::Word;
  auto& work = *reinterpret_cast<Words<W>*>(workspace);
  u8* const planes = work.planes;
  W* const residuals = work.residuals;
  const u32 raw_bytes = tile.count * static_cast<u32>(sizeof(W));
  const u8 predictor = payload[payload_bytes - 1];
  if (predictor >= kPredictors) return false;
  const auto fetch = [&](u32 fourth) { fetch_ahead(tile, fourth, 4); };
  fetch(0);
  if (!simd::restore_zeros(payload, payload_bytes - 1, planes, raw_bytes)) return false;
  const u32 groups = tile.count / kGroupOfIntegers, grouped = groups * kGroupOfIntegers;
  fetch(1);
  from_planes(planes, groups, residuals);
  fetch(2);
  memcpy(residuals + grouped, planes + grouped * sizeof(W), (tile.count - grouped) * sizeof(W));
  words_from_residuals<W>(static_cast<Predictor>(predictor), rows_of(tile), T::sign, work);
  fetch(3);
  to_values<T>(quantizer, reinterpret_cast<const u8*>(work.words()), tile.count, values);
  return true;
}

bool has_mode(u32 requested) { return requested == 0; }
u32 choose_mode(const Chunk&, u32, u8*) { return 0; }
u32 header_dims(u32 mode) { return mode == 0 ? 3 : kNoMode; }
TileLayout layout(u32, u32 value_bytes, const u32 (&dims)[kAxes]) { return integer_layout(value_bytes, dims); }

template <class W, bool is_signed>
constexpr TileFunctions functions = {sizeof(Words<W>), H5L_ENCODER((encode<IntegerType<W, is_signed>>)),
                                     decode<IntegerType<W, is_signed>>};

template <class W, bool is_signed>
constexpr WordFunctions words_of_type = {H5L_ENCODER((to_words<IntegerType<W, is_signed>>)),
                                         to_values<IntegerType<W, is_signed>>};

}  // namespace

extern const Codec codec;
const Codec codec = {
    .spare_bytes = kMaxRemovedBytes - kStreamBytes,
    .has_lossless = true,
    .has_mode = has_mode,
    .choose_mode = H5L_ENCODER(choose_mode),
    .header_dims = header_dims,
    .layout = layout,
    .float32 = {},
    .float64 = {},
    .integers = {{functions<u8, false>, functions<u16, false>, functions<u32, false>, functions<u64, false>},
                 {functions<u8, true>, functions<u16, true>, functions<u32, true>, functions<u64, true>}},
};

}  // namespace h5lossy::H5L_TARGET::pfpl_integers

namespace h5lossy::H5L_TARGET {

using pfpl_integers::words_of_type;
const WordFunctions word_functions[kIntegerClasses][kIntegerSizes] = {
    {words_of_type<u8, false>, words_of_type<u16, false>, words_of_type<u32, false>, words_of_type<u64, false>},
    {words_of_type<u8, true>, words_of_type<u16, true>, words_of_type<u32, true>, words_of_type<u64, true>}};

}  // namespace h5lossy::H5L_TARGET
