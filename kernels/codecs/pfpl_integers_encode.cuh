// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// PFPL's encoder of integers: a thread block per tile turns values into words, residuals and planes, in place.
#pragma once

#include "kernels/codecs/pfpl_integers_tile.cuh"
#include "kernels/codecs/pfpl_remove.cuh"

namespace h5lossy::H5L_TARGET::pfpl {

struct IntegerEncodeShared : RemoveShared<kStreamBytes> {
  WordLattice lattice;
  RowTile tiles[kLoopTiles];  // of the loop's tiles
  // For flags of the bytes of a word, twice: a selector that moves these bytes to the front, and, from bit 16 on, 8
  // times how many they are.
  u32 kept[kWarpThreads];
  u32 costs[kWarps][kPredictors];
  u32 bytes;  // of the payload
};

template <class W>
class IntegerEncoder : ZeroRemover<IntegerEncodeShared> {
  using U = Units<W>;

 public:
  using Places = TilePlaces;
  static constexpr u32 kRoom = pfpl::kRoom;
  static constexpr u32 kMostWaiting = 2;

  H5L_DEVICE IntegerEncoder(IntegerEncodeShared& shared, const EncodePlan& plan)
      : ZeroRemover<IntegerEncodeShared>(shared), plan_(plan) {
    u32 selector = 0, bits = 0;
    for (u32 b = 0; b < 4; ++b) {
      if ((lane() >> b & 1) == 0) continue;
      selector |= b << bits / 2;
      bits += 8;
    }
    for (u32 at = bits / 2; at < 16; at += 4) selector |= u32{4} << at;  // of a second word, which is 0
    if (warp() == 0) shared.kept[lane()] = selector | bits << 16;
  }

  // Finds a tile's chunk, and its rows there.
  H5L_DEVICE void find_values(OwnTile& tile) const {
    tile.values = raw_of(plan_, tile.work.chunk);
    const RowTile rows = row_tile_of(plan_.shape, tile.work.index);
    tile.raw_bytes = rows.count() * static_cast<u32>(sizeof(W));
    rows_of(tile) = rows;
  }

  // Values are loaded when the tile's turn comes; until then they are only prefetched.
  H5L_DEVICE void start(const OwnTile& tile) const {
    const RowTile rows = rows_of(tile);
    const u32 lines = (rows.length * static_cast<u32>(sizeof(W)) + kLineBytes - 1) / kLineBytes;
    RowWalk at(lines);
    for (u32 i = thread(); i < lines * rows.rows; i += kThreads, at.step()) {
      prefetch(tile.values + rows.place(at.y, 0) * sizeof(W) + at.x * kLineBytes);
    }
  }

  // Returns the size of the payload, or that of the values if the tile is stored; valid in the first thread.
  H5L_DEVICE u32 measure(const OwnTile& tile) {
    rows_ = rows_of(tile).rows;
    length_ = rows_of(tile).length;
    copy_lattice(plan_.lattices + tile.work.chunk, shared_.lattice);
    sync_block();  // also: the input is free
    load_words(tile);
    sync_block();
    predictor_ = choose_predictor();
    if (!has_whole_units()) {
      replace_by_residuals();
      sync_block();
    }
    replace_by_planes();
    sync_block();
    mark_stream();
    sync_block();
    const u32 size = measure_bitmaps();
    if (thread() == 0) shared_.bytes = size == 0 ? 0 : size + 1 < tile.raw_bytes ? size + 1 : tile.raw_bytes;
    sync_block();
    bytes_ = shared_.bytes;
    return bytes_;
  }

  [[nodiscard]] H5L_DEVICE u32 room() const { return bytes_ == 0 ? 16 : (bytes_ + 15) / 16 * 16; }

  // The stream stays in shared memory until the next tile is measured.
  H5L_DEVICE void stash() {}
  H5L_DEVICE void unstash() {}

  // Writes the payload, or the values, to the ring, at byte `at`.
  H5L_DEVICE void write(const OwnTile& tile, u32 at) const {
    u8* const out = shared_.staged + at;
    if (bytes_ == 0) return;
    if (bytes_ == tile.raw_bytes) {
      const W* const values = reinterpret_cast<const W*>(tile.values);
      const RowTile rows = rows_of(tile);
      RowWalk walk(rows.length);
      for (u32 i = thread(); i < rows.count(); i += kThreads, walk.step()) {
        reinterpret_cast<W*>(out)[i] = values[rows.place(walk.y, walk.x)];
      }
      return;
    }
    write_bitmaps(out);
    write_stream(out);
    if (thread() == 0) out[bytes_ - 1] = static_cast<u8>(predictor_);
  }

  H5L_DEVICE void publish(OwnTile& tile, u32 bytes) const { publish_size(plan_, tile, bytes); }

  // Copies a payload to the frame.
  H5L_DEVICE u32 emit(const OwnTile& tile, u32& table_sum) const {
    const u32 begin = shared_.loop.places.begin;
    u8* const to = place_tile(plan_, tile.work.chunk, tile.work.index, begin, begin + tile.bytes, table_sum);
    return to == nullptr ? 0 : h5lossy::H5L_TARGET::emit(to, tile, shared_.staged + tile.at);
  }

 private:
  [[nodiscard]] H5L_DEVICE RowTile& rows_of(const OwnTile& tile) const {
    return shared_.tiles[&tile - shared_.loop.tiles];
  }

  // Where a byte of the tile, or of the stream, is: in rows of kRowBytes, which have their pieces swizzled.
  H5L_DEVICE static constexpr u32 place(u32 at) { return at ^ (at / kRowBytes % 8 * kPieceBytes); }

  [[nodiscard]] H5L_DEVICE W& word(u32 i) const {
    return *reinterpret_cast<W*>(shared_.input + place(i * static_cast<u32>(sizeof(W))));
  }
  // Word m of 32 bits, or of 64.
  using Lane = LanesOf<W>;
  using Packed = typename Lane::Word;
  static constexpr u32 kPerWord = sizeof(Packed) / sizeof(W);
  [[nodiscard]] H5L_DEVICE Packed& packed(u32 m) const {
    return *reinterpret_cast<Packed*>(shared_.input + place(m * static_cast<u32>(sizeof(Packed))));
  }

  [[nodiscard]] H5L_DEVICE u32 count() const { return rows_ * length_; }
  // Whether no unit has values of two rows.
  [[nodiscard]] H5L_DEVICE bool has_whole_units() const { return length_ % U::values == 0; }

  // ---------------------------------------------------------------------------------------------------------------
  // From values to words

  H5L_DEVICE void load_words(const OwnTile& tile) const {
    constexpr u32 n = kPieceBytes / sizeof(W);
    const bool are_values = ValueWords<W>::are_values(shared_.lattice);
    const W flipped = are_values ? static_cast<W>(shared_.lattice.zero) : W{0};
    const u32 count = this->count();
    const RowTile& rows = rows_of(tile);
    const W* const values = reinterpret_cast<const W*>(tile.values) + rows.first;
    const u32 pitch = rows.pitch;
    if (length_ % n == 0 && pitch % n == 0 && reinterpret_cast<u64>(values) % kPieceBytes == 0) {
      constexpr u32 at_once = 4;  // pieces in flight
      RowWalk at(length_ / n);
      H5L_NO_UNROLL for (u32 i = thread(); i < count / n; i += at_once * kThreads) {
        Quad pieces[at_once] = {};
        H5L_UNROLL for (u32 k = 0; k < at_once; ++k, at.step()) {
          if (i + k * kThreads >= count / n) continue;
          pieces[k] = reinterpret_cast<const Quad*>(values)[at.y * (pitch / n) + at.x];
        }
        u8* const to = shared_.input + place(i * kPieceBytes);
        H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {  // those behind the last one may be overwritten
          *reinterpret_cast<Quad*>(to + k * kThreads * kPieceBytes) = flip_signs(pieces[k], flipped);
        }
      }
    } else {
      RowWalk at(length_);
      for (u32 i = thread(); i < count; i += kThreads, at.step()) {
        word(i) = static_cast<W>(values[u64{at.y} * pitch + at.x] ^ flipped);
      }
    }
    if (are_values) return;
    sync_block();
    const ValueWords<W> words(shared_.lattice);
    H5L_NO_UNROLL for (u32 i = thread() * n; i < count; i += kThreads * n) {
      Quad& piece = *reinterpret_cast<Quad*>(shared_.input + place(i * static_cast<u32>(sizeof(W))));
      W values[n];
      unpack_piece(piece, values);
      words.to_words(values);
      piece = pack_piece(values);
    }
  }

  // ---------------------------------------------------------------------------------------------------------------
  // Predictors

  // The residuals of a word with all predictors; `is_first_row` says that there is no row above.
  H5L_DEVICE void all_residuals(u32 i, u32 x, bool is_first_row, bool is_first, W zero,
                                W (&residuals)[kPredictors]) const {
    const u32 length = length_;
    const W own = word(i), left = is_first ? zero : word(x == 0 ? i - length : i - 1);
    W predicted[kPredictors] = {zero, left, left, left, left};
    if (!is_first_row) {
      const u32 above = i - length;
      const W n = word(above), nw = word(x == 0 ? above : above - 1), ne = word(x + 1 == length ? above : above + 1);
      predicted[2] = n;
      predicted[3] = average(n, average(nw, ne));
      predicted[4] = static_cast<W>(n + (x == 0 ? 0 : left - nw));
    }
    H5L_UNROLL for (u32 p = 0; p < kPredictors; ++p) {
      residuals[p] = static_cast<W>(to_negabinary<W>(static_cast<W>(own - predicted[p])));
    }
  }

  // Adjacent words of a row, those above, and the values beside them.
  template <u32 n>
  struct Stretch {
    Packed own[n], above[n];
    W left, above_left, above_right;
    bool is_first_row;

    // A word of values to the left of the own ones, and of those above.
    [[nodiscard]] H5L_DEVICE Packed before(u32 m) const {
      return Lane::before(own[m], m == 0 ? left : Lane::last(own[m - 1]));
    }
    [[nodiscard]] H5L_DEVICE Packed above_before(u32 m) const {
      return Lane::before(above[m], m == 0 ? above_left : Lane::last(above[m - 1]));
    }
    [[nodiscard]] H5L_DEVICE Packed three(u32 m) const {
      const Packed behind = Lane::behind(above[m], m + 1 == n ? above_right : Lane::first(above[m + 1]));
      return Lane::average(above[m], Lane::average(above_before(m), behind));
    }
  };

  // Loads n words of row y, from value x on, a multiple of n words. In the first row, the words are above themselves.
  template <u32 n>
  H5L_DEVICE Stretch<n> stretch(u32 y, u32 x) const {
    constexpr u32 values = n * kPerWord;
    Stretch<n> all;
    const u32 first = y * length_ + x, above = y == 0 ? first : first - length_;
    load_stretch(first, all.own);
    load_stretch(above, all.above);
    const W zero = static_cast<W>(shared_.lattice.zero);
    all.left = word(x == 0 ? above : first - 1);
    if (x == 0 && y == 0) all.left = zero;
    all.above_left = word(x == 0 ? above : above - 1);
    all.above_right = word(above + values - (x + values == length_ ? 1 : 0));
    all.is_first_row = y == 0;
    return all;
  }

  template <u32 n>
  H5L_DEVICE void load_stretch(u32 first, Packed (&to)[n]) const {
    constexpr u32 bytes = n * sizeof(Packed);
    const u32 at = place(first * static_cast<u32>(sizeof(W)));
    if constexpr (bytes < kPieceBytes) {
      H5L_UNROLL for (u32 m = 0; m < n; ++m) to[m] = reinterpret_cast<const Packed*>(shared_.input + at)[m];
    } else {
      constexpr u32 in_piece = kPieceBytes / sizeof(Packed);
      H5L_UNROLL for (u32 k = 0; k < n / in_piece; ++k) {
        Packed words[in_piece];
        unpack_piece<Packed>(*reinterpret_cast<const Quad*>(shared_.input + (at ^ k * kPieceBytes)), words);
        H5L_UNROLL for (u32 m = 0; m < in_piece; ++m) to[k * in_piece + m] = words[m];
      }
    }
  }

  // Chooses the first predictor that leaves the fewest bytes on the samples, which are concatenated.
  H5L_DEVICE Predictor choose_predictor() const {
    const Samples samples(rows_, length_);
    u32 costs[kPredictors] = {};
    if (has_whole_units()) {
      count_whole_groups(samples, costs);
    } else {
      count_groups(samples, costs);
    }
    H5L_UNROLL for (u32 p = 0; p < kPredictors; ++p) {
      const u32 all = sum_of_warp(costs[p]);
      if (lane() == 0) shared_.costs[warp()][p] = all;
    }
    sync_block();
    const u32 predictors = rows_ > 1 ? kPredictors : 2, p = lane();  // with one row, the others equal `x`
    u32 cost = ~u32{0};
    if (p < predictors) {
      cost = p;
      H5L_UNROLL for (u32 w = 0; w < kWarps; ++w) cost += shared_.costs[w][p] * 8;
    }
    return static_cast<Predictor>(least_of_warp(cost) % 8);
  }

  // Samples have whole groups, which are in one row each.
  H5L_DEVICE void count_whole_groups(const Samples& samples, u32 (&costs)[kPredictors]) const {
    constexpr u32 n = kGroupOfIntegers / kPerWord;
    const u32 groups = samples.count / kGroupOfIntegers;
    const RowDivider rows(length_), numbers(groups);
    const Packed zeros = Lane::repeat(static_cast<W>(shared_.lattice.zero));
    H5L_NO_UNROLL for (u32 g = thread(); g < samples.number * groups; g += kThreads) {
      const u32 number = numbers.row(g);
      const u32 i = samples.first + number * samples.apart + (g - number * groups) * kGroupOfIntegers, y = rows.row(i);
      const Stretch<n> all = stretch<n>(y, i - y * length_);
      Packed used[kPredictors] = {};
      H5L_UNROLL for (u32 m = 0; m < n; ++m) {
        const Packed own = all.own[m], before = all.before(m), above = all.above[m];
        used[0] |= Lane::residual(own, zeros);
        used[1] |= Lane::residual(own, before);
        used[2] |= Lane::residual(own, above);
        used[3] |= Lane::residual(own, all.three(m));
        used[4] |= Lane::residual(own, Lane::add(above, Lane::subtract(before, all.above_before(m))));
      }
      H5L_UNROLL for (u32 p = 0; p < kPredictors; ++p) {
        costs[p] += count_ones(u64{Lane::any(all.is_first_row && p > 1 ? used[1] : used[p])});
      }
    }
  }

  H5L_DEVICE void count_groups(const Samples& samples, u32 (&costs)[kPredictors]) const {
    const u32 count = samples.number * samples.count;
    const W zero = static_cast<W>(shared_.lattice.zero);
    const RowDivider rows(length_), numbers(samples.count);
    H5L_NO_UNROLL for (u32 g = thread() * kGroupOfIntegers; g < count; g += kThreads * kGroupOfIntegers) {
      W used[kPredictors] = {};
      const u32 number = numbers.row(g);
      u32 left = (number + 1) * samples.count - g, i = samples.first + number * samples.apart + samples.count - left;
      u32 x = i - rows.row(i) * length_;
      H5L_NO_UNROLL for (u32 k = g; k < g + kGroupOfIntegers && k < count; ++k) {
        W residuals[kPredictors];
        all_residuals(i, x, i < length_, i == 0, zero, residuals);
        H5L_UNROLL for (u32 p = 0; p < kPredictors; ++p) used[p] |= residuals[p];
        ++i;
        if (--left == 0) {
          left = samples.count;
          i += samples.apart - samples.count;
          x = i - rows.row(i) * length_;
        } else {
          x = x + 1 == length_ ? 0 : x + 1;
        }
      }
      H5L_UNROLL for (u32 p = 0; p < kPredictors; ++p) costs[p] += count_ones(u64{used[p]});
    }
  }

  H5L_DEVICE void replace_by_residuals() const {
    const W zero = static_cast<W>(shared_.lattice.zero);
    if (length_ % kPerWord == 0) {
      const RowDivider rows(length_ / kPerWord);
      replace_words([&](u32 m) { return residuals_of_word(m, rows, zero); });
    } else {
      const RowDivider rows(length_);
      replace_words([&](u32 m) { return single_residuals(m, rows, zero); });
    }
  }

  // Runs from the last word to the first, since residuals need the words before them.
  template <class Residuals>
  H5L_DEVICE void replace_words(Residuals residuals) const {
    const u32 words = (count() + kPerWord - 1) / kPerWord;
    for (u32 round = (words + kThreads - 1) / kThreads; round-- > 0;) {
      const u32 m = round * kThreads + thread();
      const Packed own = m < words ? residuals(m) : Packed{0};
      sync_block();
      if (m < words) packed(m) = own;
    }
  }

  // For values that are adjacent in a row.
  H5L_DEVICE Packed residuals_of_word(u32 m, const RowDivider& rows, W zero) const {
    const u32 y = rows.row(m), x = m - y * rows.length, last = rows.length - 1;
    const Packed own = packed(m), zeros = Lane::repeat(zero);
    if (predictor_ == Predictor::none) return Lane::to_negabinary(Lane::subtract(own, zeros));
    if (y == 0 || predictor_ == Predictor::x) {
      const W before = x != 0 ? Lane::last(packed(m - 1)) : y == 0 ? zero : Lane::first(packed(m - rows.length));
      return Lane::to_negabinary(Lane::subtract(own, Lane::before(own, before)));
    }
    const u32 above = m - rows.length;
    const Packed n = packed(above);
    if (predictor_ == Predictor::y) return Lane::to_negabinary(Lane::subtract(own, n));
    const W nw = x == 0 ? Lane::first(n) : Lane::last(packed(above - 1));
    if (predictor_ == Predictor::three) {
      const W ne = x == last ? Lane::last(n) : Lane::first(packed(above + 1));
      const Packed predicted = Lane::average(n, Lane::average(Lane::before(n, nw), Lane::behind(n, ne)));
      return Lane::to_negabinary(Lane::subtract(own, predicted));
    }
    // The differences between the row and the row above, and then the differences of these.
    const Packed more = Lane::subtract(own, n);
    const W before = x == 0 ? W{0} : static_cast<W>(Lane::last(packed(m - 1)) - nw);
    return Lane::to_negabinary(Lane::subtract(more, Lane::before(more, before)));
  }

  // For values whose rows begin anywhere.
  H5L_DEVICE Packed single_residuals(u32 m, const RowDivider& rows, W zero) const {
    Packed all = 0;
    H5L_NO_UNROLL for (u32 k = 0; k < kPerWord; ++k) {
      const u32 i = m * kPerWord + k;
      if (i >= count()) break;
      const u32 y = rows.row(i), x = i - y * rows.length;
      W residuals[kPredictors];
      all_residuals(i, x, y == 0, i == 0, zero, residuals);
      W own = residuals[0];
      H5L_UNROLL for (u32 p = 1; p < kPredictors; ++p) {
        if (static_cast<u32>(predictor_) == p) own = residuals[p];
      }
      all |= static_cast<Packed>(Packed{own} << (8 * sizeof(W) * k % (8 * sizeof(Packed))));
    }
    return all;
  }

  // ---------------------------------------------------------------------------------------------------------------
  // From residuals to planes

  static constexpr u32 kUnitWords = U::words * 4 / sizeof(Packed);

  // The residuals of a unit in a row.
  H5L_DEVICE void residuals_of_unit(u32 y, u32 x, Packed (&residuals)[kUnitWords]) const {
    const Stretch<kUnitWords> all = stretch<kUnitWords>(y, x);
    if (predictor_ == Predictor::three && !all.is_first_row) {
      H5L_UNROLL for (u32 m = 0; m < kUnitWords; ++m) residuals[m] = Lane::residual(all.own[m], all.three(m));
      return;
    }
    // The others are sums of some of three words; not a branch each, since the code is long.
    const bool is_none = predictor_ == Predictor::none, is_xy = predictor_ == Predictor::xy && !all.is_first_row;
    const bool is_y = predictor_ == Predictor::y && !all.is_first_row;
    const Packed ones = static_cast<Packed>(~Packed{0}), above = is_y || is_xy ? ones : 0,
                 above_before = is_xy ? ones : 0;
    const Packed before = is_none || is_y ? 0 : ones;
    const Packed fixed = is_none ? Lane::repeat(static_cast<W>(shared_.lattice.zero)) : Packed{0};
    H5L_UNROLL for (u32 m = 0; m < kUnitWords; ++m) {
      const Packed beside = Lane::subtract((all.before(m) & before) | fixed, all.above_before(m) & above_before);
      residuals[m] = Lane::residual(all.own[m], Lane::add(all.above[m] & above, beside));
    }
  }

  H5L_DEVICE void replace_by_planes() const {
    const u32 count = this->count(), groups = count / kGroupOfIntegers, grouped = groups * kGroupOfIntegers;
    const bool has_values = has_whole_units();
    const RowDivider rows(has_values ? length_ / U::values : 1);
    u32 planes[U::of_thread][sizeof(W)][8];
    H5L_UNROLL for (u32 k = 0; k < U::of_thread; ++k) {
      const u32 unit = k * kThreads + thread();
      Packed residuals[kUnitWords] = {};
      if (!has_values) {
        load_stretch(unit * U::values, residuals);
      } else if (unit * U::values < count) {
        const u32 y = rows.row(unit);
        residuals_of_unit(y, (unit - y * rows.length) * U::values, residuals);
      }
      transpose_unit(residuals, planes[k]);
    }
    const u32 own = grouped + thread();
    W rest = 0;
    if (own < count) rest = word(own);
    sync_block();
    const u32 raw_bytes = count * static_cast<u32>(sizeof(W));
    for (u32 at = raw_bytes / 4 + thread(); at < kStreamBytes / 4; at += kThreads) {  // zeros follow the stream
      *reinterpret_cast<u32*>(shared_.input + place(4 * at)) = 0;
    }
    if (raw_bytes % 4 != 0) sync_block();
    H5L_UNROLL for (u32 k = 0; k < U::of_thread; ++k)
        put_planes((k * kThreads + thread()) * U::groups, groups, planes[k]);
    if (own < count) word(own) = rest;
  }

  // Writes the bytes of a unit's groups.
  H5L_DEVICE void put_planes(u32 group, u32 groups, const u32 (&planes)[sizeof(W)][8]) const {
    using Part = Select<U::groups == 4, u32, u16>;
    const u32 left = group < groups ? groups - group : 0;
    constexpr u32 most = kStreamBytes / kWordBits<W>;
    if (groups == most) {  // planes begin at constant places
      const u32 at = place(group);
      H5L_UNROLL for (u32 j = 0; j < kWordBits<W>; ++j) {
        const u32 plane = place(j * most), swizzle = plane % kRowBytes;
        *reinterpret_cast<Part*>(shared_.input + (plane - swizzle) + (at ^ swizzle)) =
            static_cast<Part>(plane_of(planes, j));
      }
    } else if (groups % U::groups == 0) {
      if (left == 0) return;
      H5L_UNROLL for (u32 j = 0; j < kWordBits<W>; ++j, group += groups) {
        *reinterpret_cast<Part*>(shared_.input + place(group)) = static_cast<Part>(plane_of(planes, j));
      }
    } else {
      H5L_NO_UNROLL for (u32 b = 0; b < U::groups && b < left; ++b) {
        u32 at = group + b;
        H5L_UNROLL for (u32 j = 0; j < kWordBits<W>; ++j, at += groups) {
          shared_.input[place(at)] = static_cast<u8>(plane_of(planes, j) >> 8 * b);
        }
      }
    }
  }
  // Plane j of the stream, whose planes begin with the most significant one.
  H5L_DEVICE static u32 plane_of(const u32 (&planes)[sizeof(W)][8], u32 j) {
    const u32 bit = kWordBits<W> - 1 - j;
    return planes[bit / 8][bit % 8];
  }

  // ---------------------------------------------------------------------------------------------------------------
  // From planes to the payload. A thread has some runs of the stream, each with a word of bitmap0.

  static constexpr u32 kRunBytes = 32, kRuns = kStreamBytes / kRunBytes / kThreads;

  // The number of a run: adjacent threads have adjacent ones, and each warp as many planes.
  H5L_DEVICE static u32 run_number(u32 i) { return (kRuns * warp() + i) * kWarpThreads + lane(); }

  H5L_DEVICE void load_run(u32 number, u32 (&words)[8]) const {
    const u32 at = place(number * kRunBytes);
    const Quad low = *reinterpret_cast<const Quad*>(shared_.input + at);
    const Quad high = *reinterpret_cast<const Quad*>(shared_.input + (at ^ kPieceBytes));
    words[0] = low.x;
    words[1] = low.y;
    words[2] = low.z;
    words[3] = low.w;
    words[4] = high.x;
    words[5] = high.y;
    words[6] = high.z;
    words[7] = high.w;
  }

  // Builds bitmap0.
  H5L_DEVICE void mark_stream() const {
    H5L_NO_UNROLL for (u32 i = 0; i < kRuns; ++i) {
      u32 words[8], flags = 0;
      load_run(run_number(i), words);
      H5L_UNROLL for (u32 w = 8; w-- > 0;) flags = funnel_left(flags_of_bytes(words[w]), flags, 4);
      shared_.bitmap0[run_number(i)] = flags;
    }
  }

  // Moves the bytes that are not zero together, and writes them in whole words, which may begin with bytes of earlier
  // runs. Then bytes behind a run's last whole word are written.
  H5L_DEVICE void write_stream(u8* payload) const {
    H5L_UNROLL for (u32 w = 0; w < kWarps; ++w) {
      if (w < warp()) payload += shared_.totals[w] & 0xFFFF;
    }
    const u32 before = static_cast<u32>(payload - shared_.staged) % 4, all_kept = shared_.kept[lane()];
    payload -= before;
    u32 rests[kRuns], begins[kRuns], ends[kRuns];
    H5L_UNROLL for (u32 i = 0; i < kRuns; ++i) {
      const u32 number = run_number(i), flags = shared_.bitmap0[number];
      const u32 begin = before + shared_.places[number];
      u32 word = 0, bits = 8 * begin;  // the next word, and 8 times the place behind its bytes
      if (any_in_warp(flags != 0)) {
        u8* out = payload + begin / 4 * 4;
        u32 words[8];
        load_run(number, words);
        H5L_UNROLL for (u32 w = 0; w < 8; ++w) {
          const u32 kept = shuffle(all_kept, flags >> 4 * w), own = permute_signed(words[w], 0, kept);
          word |= own << bits % 32;
          const u32 behind = funnel_left(own, 0, bits), end = bits + (kept >> 16);
          if (((bits ^ end) & 32) != 0) {
            *reinterpret_cast<u32*>(out) = word;
            out += 4;
            word = behind;
          }
          bits = end;
        }
      }
      rests[i] = word;
      ends[i] = bits / 8;
      begins[i] = begin > ends[i] / 4 * 4 ? begin : ends[i] / 4 * 4;
    }
    sync_block();
    H5L_UNROLL for (u32 i = 0; i < kRuns; ++i) {
      H5L_UNROLL for (u32 b = 0; b < 3; ++b) {
        const u32 at = ends[i] / 4 * 4 + b;
        if (at >= begins[i] && at < ends[i]) payload[at] = static_cast<u8>(rests[i] >> 8 * b);
      }
    }
  }

  // planes[s][c]: bit c of byte s of all values, a byte for each group.
  H5L_DEVICE static void transpose_unit(const Packed (&unit)[kUnitWords], u32 (&planes)[sizeof(W)][8]) {
    u32 words[U::words];
    H5L_UNROLL for (u32 m = 0; m < U::words; ++m) {
      words[m] = static_cast<u32>(unit[4 * m / sizeof(Packed)] >> (32 * m % (8 * sizeof(Packed))));
    }
    H5L_UNROLL for (u32 s = 0; s < sizeof(W); ++s) {
      H5L_UNROLL for (u32 row = 0; row < 8; ++row) {
        const u32 q = (7 - row) * static_cast<u32>(sizeof(W)) + s;  // byte s of value 7 - row of the first group
        u32 own[4] = {};
        H5L_UNROLL for (u32 b = 0; b < U::groups; ++b) own[b] = words[2 * sizeof(W) * b + q / 4];
        planes[s][row] = gather_bytes(own[0], own[1], own[2], own[3], q % 4);
      }
      transpose_bytes(planes[s]);
    }
  }

  const EncodePlan& plan_;
  u32 rows_ = 0, length_ = 0;
  Predictor predictor_ = Predictor::none;
  u32 bytes_ = 0;
};

template <class W>
H5L_DEVICE void encode_integers(const EncodePlan& plan) {
  auto& shared = *reinterpret_cast<IntegerEncodeShared*>(shared_memory());
  IntegerEncoder<W> encoder(shared, plan);
  encode_tiles<false>(plan, encoder, shared.loop);
}

}  // namespace h5lossy::H5L_TARGET::pfpl
