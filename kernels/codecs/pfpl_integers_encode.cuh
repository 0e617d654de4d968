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
    H5L_NO_UNROLL for (u32 i = thread(); i < lines * rows.rows; i += kThreads, at.step()) {
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
      H5L_NO_UNROLL for (u32 i = thread(); i < rows.count(); i += kThreads, walk.step()) {
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
    const W zero = static_cast<W>(shared_.lattice.zero);
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
          *reinterpret_cast<Quad*>(to + k * kThreads * kPieceBytes) = flip_signs(pieces[k], zero);
        }
      }
    } else {
      constexpr u32 at_once = 2, value_bytes = sizeof(W);  // short code is faster
      const bool are_adjacent = pitch == length_;          // as one row
      const u32 length = are_adjacent ? count : length_;
      const u32 of_row = (length + 2 * n - 2) / n;  // aligned pieces that a row may overlap
      const u32 all = are_adjacent ? of_row : rows_ * of_row, chunk_bytes = plan_.shape.raw_bytes;
      RowWalk at(of_row);
      H5L_NO_UNROLL for (u32 i = thread(); i < all; i += at_once * kThreads) {
        Quad pieces[at_once] = {};
        u32 xs[at_once], first[at_once];
        H5L_UNROLL for (u32 k = 0; k < at_once; ++k, at.step()) {
          const u32 row = (static_cast<u32>(rows.first) + at.y * pitch) * value_bytes;
          const u32 skipped = (static_cast<u32>(reinterpret_cast<u64>(tile.values)) + row) % kPieceBytes;
          const u32 from = row + at.x * kPieceBytes - skipped;  // wraps before the chunk, and xs before the row
          xs[k] = at.x * n - skipped / value_bytes;
          first[k] = at.y * length;
          if (i + k * kThreads >= all || xs[k] + n - 1 >= length + n - 1) continue;
          if (from < chunk_bytes && chunk_bytes - from >= kPieceBytes) {
            pieces[k] = *reinterpret_cast<const Quad*>(tile.values + from);
          } else {  // also outside the chunk
            H5L_NO_UNROLL for (u32 v = 0; v < n; ++v, ++xs[k]) {
              if (xs[k] < length) word(first[k] + xs[k]) = static_cast<W>(values[at.y * pitch + xs[k]] ^ zero);
            }
            xs[k] = length;
          }
        }
        H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
          if (i + k * kThreads >= all) continue;
          W own[n];
          unpack_piece(flip_signs(pieces[k], zero), own);
          const u32 to = (first[k] + xs[k]) * value_bytes, in_piece = to % kPieceBytes;  // of the tile, and the next
          const u32 low = place(to), high = place(to - in_piece + kPieceBytes) + in_piece - kPieceBytes;
          H5L_UNROLL for (u32 v = 0; v < n; ++v) {
            const u32 own_to = (in_piece + v * value_bytes < kPieceBytes ? low : high) + v * value_bytes;
            if (xs[k] + v < length) *reinterpret_cast<W*>(shared_.input + own_to) = own[v];
          }
        }
      }
    }
    if (are_values) return;
    sync_block();
    const ValueWords<W> words(shared_.lattice);
    H5L_NO_UNROLL for (u32 i = thread() * n; i < count; i += kThreads * n) {
      Quad& piece = *reinterpret_cast<Quad*>(shared_.input + place(i * static_cast<u32>(sizeof(W))));
      W values[n];
      unpack_piece(piece, values);
      words.ranks_to_words(values);
      piece = pack_piece(values);
    }
  }

  // ---------------------------------------------------------------------------------------------------------------
  // Predictors

  static constexpr u32 kUnitWords = U::words * 4 / sizeof(Packed), kGroupWords = kGroupOfIntegers / kPerWord;

  // Adjacent words, those above, and the values beside them. `is_whole`: they are in one row, and begin at a multiple
  // of n words.
  template <u32 n, bool is_whole>
  struct Stretch {
    Packed own[n], above[n];
    Packed left, above_left, above_right;  // words that have these values
    u32 starts, ends;                      // flags of values that begin or end a row, except the first one
    u32 firsts;                            // flags of values in the first row

    // A word of values to the left of the own ones, and of those above.
    [[nodiscard]] H5L_DEVICE Packed before(u32 m) const {
      return at_starts(m, Lane::left_of(own[m], m == 0 ? left : own[m == 0 ? 0 : m - 1]));
    }
    [[nodiscard]] H5L_DEVICE Packed above_before(u32 m) const {
      return at_starts(m, Lane::left_of(above[m], m == 0 ? above_left : above[m == 0 ? 0 : m - 1]));
    }
    [[nodiscard]] H5L_DEVICE Packed three(u32 m) const {
      Packed behind = Lane::right_of(above[m], m + 1 == n ? above_right : above[m + 1 == n ? m : m + 1]);
      if constexpr (!is_whole) behind = select(Lane::mask(ends, m), above[m], behind);
      return Lane::average(above[m], Lane::average(above_before(m), behind));
    }
    // In the first row, all predictors but `none` are `x`.
    [[nodiscard]] H5L_DEVICE Packed in_first_row(u32 m, Packed in_it, Packed otherwise) const {
      return select(Lane::mask(firsts, m), in_it, otherwise);
    }

   private:
    [[nodiscard]] H5L_DEVICE Packed at_starts(u32 m, Packed word) const {
      return is_whole ? word : select(Lane::mask(starts, m), above[m], word);
    }
    H5L_DEVICE static Packed select(Packed mask, Packed a, Packed b) {
      return static_cast<Packed>((a & mask) | (b & ~mask));
    }
  };

  // Loads n words from value `first` on. In the first row, what is above has no meaning.
  template <u32 n, bool is_whole>
  H5L_DEVICE Stretch<n, is_whole> stretch(u32 first, const RowDivider& rows) const {
    constexpr u32 values = n * kPerWord;
    Stretch<n, is_whole> all = {};
    const u32 y = rows.row(first), x = first - y * length_;
    const u32 above = is_whole && y == 0 ? first : first - length_;
    all.left = Lane::repeat(near_word(is_whole && x == 0 ? above : first - 1));
    all.above_left = Lane::repeat(near_word(is_whole && x == 0 ? above : above - 1));
    all.above_right = Lane::repeat(near_word(above + values - (is_whole && x + values == length_ ? 1 : 0)));
    if constexpr (is_whole) {
      load_stretch(first, all.own);
      load_stretch(above, all.above);
      all.firsts = y == 0 ? ~u32{0} : 0;
    } else {
      if constexpr (n == kUnitWords) {
        load_stretch(first, all.own);
      } else {
        load_anywhere(first, all.own);
      }
      load_anywhere(above, all.above);
      if (y == 0) all.firsts = flags_below<kPerWord>(length_ - x < values ? length_ - x : values);
      H5L_NO_UNROLL for (u32 v = x == 0 ? 0 : length_ - x; v <= values; v += length_) {
        if (v < values && first + v != 0) all.starts |= Lane::flag(v);
        if (v != 0) all.ends |= Lane::flag(v - 1);
      }
    }
    if (first == 0) all.left = Lane::repeat(static_cast<W>(shared_.lattice.zero));
    return all;
  }

  // A value. Before the first row, and behind the last value, any one.
  [[nodiscard]] H5L_DEVICE W near_word(u32 i) const { return word(i % (kStreamBytes / sizeof(W))); }

  template <u32 n>
  H5L_DEVICE void load_anywhere(u32 first, Packed (&to)[n]) const {
    const u32 at = first * static_cast<u32>(sizeof(W));
    Packed words[n + 1];
    H5L_UNROLL for (u32 m = 0; m <= n; ++m) {
      words[m] = packed((at / static_cast<u32>(sizeof(Packed)) + m) % (kStreamBytes / sizeof(Packed)));
    }
    H5L_UNROLL for (u32 m = 0; m < n; ++m) to[m] = Lane::shifted(words[m], words[m + 1], first);
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
      count_groups<true>(samples, costs);
    } else {
      count_groups<false>(samples, costs);
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

  template <bool is_whole>
  H5L_DEVICE void count_groups(const Samples& samples, u32 (&costs)[kPredictors]) const {
    const u32 count = samples.number * samples.count;
    const RowDivider rows(length_), numbers(samples.count);
    const Packed zeros = Lane::repeat(static_cast<W>(shared_.lattice.zero));
    const u32 own = (thread() ^ (kThreads - kWarpThreads)) * kGroupOfIntegers;  // the first warp has other work
    H5L_NO_UNROLL for (u32 g = own; g < count; g += kThreads * kGroupOfIntegers) {
      Packed used[kPredictors] = {};
      u32 number = numbers.row(g), at = g - number * samples.count, wanted = kGroupOfIntegers;
      H5L_NO_UNROLL for (; wanted != 0 && number < samples.number; ++number, at = 0) {
        u32 inside = ~u32{0};
        if constexpr (is_whole) {
          wanted = 0;  // samples have whole groups
        } else {
          const u32 left = samples.count - at, own = left < wanted ? left : wanted;
          inside = flags_below<kPerWord>(own);
          wanted -= own;
        }
        const u32 first = samples.first + number * samples.apart + at;
        const Stretch<kGroupWords, is_whole> all = stretch<kGroupWords, is_whole>(first, rows);
        H5L_UNROLL for (u32 m = 0; m < kGroupWords; ++m) {
          const Packed before = all.before(m), above = all.above[m];
          const Packed xy = Lane::add(above, Lane::subtract(before, all.above_before(m)));
          const Packed predicted[kPredictors] = {zeros, before, all.in_first_row(m, before, above),
                                                 all.in_first_row(m, before, all.three(m)),
                                                 all.in_first_row(m, before, xy)};
          H5L_UNROLL for (u32 p = 0; p < kPredictors; ++p) {
            const Packed residual = Lane::residual(all.own[m], predicted[p]);
            used[p] |= is_whole ? residual : residual & Lane::mask(inside, m);
          }
        }
      }
      H5L_UNROLL for (u32 p = 0; p < kPredictors; ++p) costs[p] += count_ones(u64{Lane::any(used[p])});
    }
  }

  // The residuals of a unit.
  template <bool is_whole>
  H5L_DEVICE void residuals_of_unit(u32 first, const RowDivider& rows, Packed (&residuals)[kUnitWords]) const {
    const Stretch<kUnitWords, is_whole> all = stretch<kUnitWords, is_whole>(first, rows);
    const bool is_first_row = is_whole && all.firsts != 0;
    if (predictor_ == Predictor::three && !is_first_row) {
      H5L_UNROLL for (u32 m = 0; m < kUnitWords; ++m) residuals[m] = Lane::residual(all.own[m], all.three(m));
    } else {
      // The others are sums of some of three words; not a branch each, since the code is long.
      const bool is_none = predictor_ == Predictor::none, is_xy = predictor_ == Predictor::xy && !is_first_row;
      const bool is_y = predictor_ == Predictor::y && !is_first_row;
      const Packed ones = static_cast<Packed>(~Packed{0}), above = is_y || is_xy ? ones : Packed{0};
      const Packed above_before = is_xy ? ones : Packed{0}, before = is_none || is_y ? Packed{0} : ones;
      const Packed fixed = is_none ? Lane::repeat(static_cast<W>(shared_.lattice.zero)) : Packed{0};
      H5L_UNROLL for (u32 m = 0; m < kUnitWords; ++m) {
        const Packed beside = Lane::subtract((all.before(m) & before) | fixed, all.above_before(m) & above_before);
        residuals[m] = Lane::residual(all.own[m], Lane::add(all.above[m] & above, beside));
      }
    }
    if (is_whole || all.firsts == 0 || predictor_ == Predictor::none) return;
    Packed own[kUnitWords];
    load_stretch(opaque(first), own);  // again, since they would take too many registers
    H5L_UNROLL for (u32 m = 0; m < kUnitWords; ++m) {
      const Packed before = Lane::left_of(own[m], m == 0 ? all.left : own[m == 0 ? 0 : m - 1]);
      residuals[m] = all.in_first_row(m, Lane::residual(own[m], before), residuals[m]);
    }
  }

  // ---------------------------------------------------------------------------------------------------------------
  // From residuals to planes

  // The number of a thread's unit: the last ones of tiles that are not full are those of different warps.
  H5L_DEVICE static u32 unit_number(u32 k) { return k * kThreads + (thread() ^ k * kWarpThreads); }

  H5L_DEVICE void replace_by_planes() const {
    const u32 count = this->count(), groups = count / kGroupOfIntegers, grouped = groups * kGroupOfIntegers;
    const bool are_whole = has_whole_units();
    const RowDivider rows(length_);
    W* const rest = reinterpret_cast<W*>(shared_.bitmap0);  // of the unit that ends with values in no group
    Planes planes[U::of_thread] = {};
    H5L_NO_UNROLL for (u32 k = 0; k < U::of_thread; ++k) {  // short code is faster
      move_up(planes);
      const u32 first = unit_number(k) * U::values;
      if (!any_in_warp(first < count)) continue;
      Packed residuals[kUnitWords];
      if (are_whole) {
        residuals_of_unit<true>(first, rows, residuals);
      } else {
        residuals_of_unit<false>(first, rows, residuals);
        if (grouped - first < U::values) {
          H5L_UNROLL for (u32 m = 0; m < kUnitWords; ++m) reinterpret_cast<Packed*>(rest)[m] = residuals[m];
        }
      }
      transpose_unit(residuals, planes[U::of_thread - 1].bits);
    }
    sync_block();
    const u32 raw_bytes = count * static_cast<u32>(sizeof(W));
    // Zeros follow the stream, up to the end of its last run; planes that share words are combined with zeros.
    const bool share_words = groups % U::groups != 0;
    const u32 end = (raw_bytes + kRunBytes - 1) / kRunBytes * (kRunBytes / 4);
    H5L_NO_UNROLL for (u32 at = (share_words ? 0 : raw_bytes / 4) + thread(); at < end; at += kThreads) {
      *reinterpret_cast<u32*>(shared_.input + place(4 * at)) = 0;
    }
    if (share_words || raw_bytes % 4 != 0) sync_block();
    if (groups == kStreamBytes / kWordBits<W>) {
      H5L_UNROLL for (u32 k = 0; k < U::of_thread; ++k) { put_planes(unit_number(k) * U::groups, planes[k]); }
    } else {
      H5L_NO_UNROLL for (u32 k = 0; k < U::of_thread; ++k) {
        put_planes(unit_number(k) * U::groups, groups, planes[0]);
        move_up(planes);
      }
    }
    if (share_words) sync_block();
    if (grouped + thread() < count) word(grouped + thread()) = rest[grouped % U::values + thread()];
  }

  // bits[s][c]: bit c of byte s of a unit's values, a byte for each group.
  struct Planes {
    u32 bits[sizeof(W)][8];
    // Plane j of the stream, whose planes begin with the most significant one.
    [[nodiscard]] H5L_DEVICE u32 operator[](u32 j) const {
      const u32 bit = kWordBits<W> - 1 - j;
      return bits[bit / 8][bit % 8];
    }
  };

  // Moves each element to the place before it: loops cannot index registers.
  template <class T, u32 n>
  H5L_DEVICE static void move_up(T (&all)[n]) {
    H5L_UNROLL for (u32 i = 0; i + 1 < n; ++i) all[i] = all[i + 1];
  }

  // Writes the bytes of a unit's groups, in a full tile: planes begin at constant places.
  using Part = Select<U::groups == 4, u32, u16>;
  H5L_DEVICE void put_planes(u32 group, const Planes& planes) const {
    const u32 at = place(group);
    H5L_UNROLL for (u32 j = 0; j < kWordBits<W>; ++j) {
      const u32 plane = place(j * (kStreamBytes / kWordBits<W>)), swizzle = plane % kRowBytes;
      *reinterpret_cast<Part*>(shared_.input + (plane - swizzle) + (at ^ swizzle)) = static_cast<Part>(planes[j]);
    }
  }

  // In any tile; where planes share words, these are zeros before.
  H5L_DEVICE void put_planes(u32 group, u32 groups, const Planes& planes) const {
    if (group >= groups) return;
    const u32 left = groups - group, there = left >= 4 ? ~u32{0} : (u32{1} << 8 * left) - 1;
    if (groups % U::groups == 0) {
      H5L_UNROLL for (u32 j = 0; j < kWordBits<W>; ++j, group += groups) {
        *reinterpret_cast<Part*>(shared_.input + place(group)) = static_cast<Part>(planes[j]);
      }
    } else {
      H5L_UNROLL for (u32 j = 0; j < kWordBits<W>; ++j, group += groups) {
        const u32 own = planes[j] & there, at = group / 4 * 4, shift = 8 * (group % 4);
        const u32 behind = funnel_left(own, 0, shift);
        atomic_or(reinterpret_cast<u32*>(shared_.input + place(at)), own << shift);
        if (behind != 0) atomic_or(reinterpret_cast<u32*>(shared_.input + place(at + 4)), behind);
      }
    }
  }

  // ---------------------------------------------------------------------------------------------------------------
  // From planes to the payload. A thread has some runs of the stream, each with a word of bitmap0.

  static constexpr u32 kRunBytes = 32, kRuns = kStreamBytes / kRunBytes / kThreads;

  // The number of a run: adjacent threads have adjacent ones, and all warps have some of those that are used.
  H5L_DEVICE static u32 run_number(u32 i) { return i * kThreads + thread(); }

  H5L_DEVICE void load_run(u32 number, u32 (&words)[8]) const {
    const u32 at = place(number * kRunBytes);
    H5L_UNROLL for (u32 k = 0; k < 2; ++k) {
      u32 piece[4];
      unpack_piece<u32>(*reinterpret_cast<const Quad*>(shared_.input + (at ^ k * kPieceBytes)), piece);
      H5L_UNROLL for (u32 w = 0; w < 4; ++w) words[4 * k + w] = piece[w];
    }
  }

  // Builds bitmap0.
  H5L_DEVICE void mark_stream() const {
    H5L_NO_UNROLL for (u32 i = 0; i < kRuns; ++i) {
      u32 words[8], flags = 0;
      load_run(run_number(i), words);
      u32 used = 0;
      H5L_UNROLL for (u32 w = 0; w < 8; ++w) used |= words[w];
      const bool is_there = run_number(i) * kRunBytes < count() * sizeof(W);
      if (any_in_warp(is_there && used != 0)) {  // else zeros in all of them, as in a plane that is not used
        H5L_UNROLL for (u32 w = 8; w-- > 0;) flags = funnel_left(flags_of_bytes(words[w]), flags, 4);
      }
      shared_.bitmap0[run_number(i)] = is_there ? flags : 0;
    }
  }

  // Moves the bytes that are not zero together, and writes them in whole words, which may begin with bytes of earlier
  // runs. Then bytes behind a run's last whole word are written.
  H5L_DEVICE void write_stream(u8* payload) const {
    u32 before = static_cast<u32>(payload - shared_.staged) % 4;
    const u32 all_kept = shared_.kept[lane()];
    payload -= before;
    static_assert(kRuns == kWarps);  // and each total is of kThreads runs
    u32 rests[kRuns] = {}, begins[kRuns] = {}, ends[kRuns] = {};
    H5L_NO_UNROLL for (u32 i = 0; i < kRuns; ++i) {
      move_up(rests);
      move_up(begins);
      move_up(ends);
      const u32 number = run_number(i), flags = shared_.bitmap0[number];
      const u32 begin = before + shared_.places[number];
      before += shared_.totals[i] & 0xFFFF;
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
      const u32 end = bits / 8, last = end / 4 * 4;
      rests[kRuns - 1] = word;
      ends[kRuns - 1] = end;
      begins[kRuns - 1] = begin > last ? begin : last;
    }
    sync_block();
    H5L_UNROLL for (u32 i = 0; i < kRuns; ++i) {
      H5L_UNROLL for (u32 b = 0; b < 3; ++b) {
        const u32 at = ends[i] / 4 * 4 + b;
        if (at >= begins[i] && at < ends[i]) payload[at] = static_cast<u8>(rests[i] >> 8 * b);
      }
    }
  }

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
