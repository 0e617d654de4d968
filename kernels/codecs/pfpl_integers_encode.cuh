// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// PFPL's encoder of integers: a thread block per tile turns values into words, residuals and planes, in place.
#pragma once

#include "kernels/codecs/pfpl_integers_tile.cuh"
#include "kernels/codecs/pfpl_remove.cuh"

namespace h5lossy::H5L_TARGET::pfpl {

struct IntegerEncodeShared : RemoveShared<kUnitsBytes> {
  WordLattice lattice;
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
      : ZeroRemover<IntegerEncodeShared>(shared), plan_(plan) {}

  // Finds a tile's chunk.
  H5L_DEVICE void find_values(OwnTile& tile) const {
    tile.values = raw_of(plan_, tile.work.chunk);
    tile.raw_bytes = row_tile_of(plan_.shape, tile.work.index).count() * static_cast<u32>(sizeof(W));
  }

  // Values are loaded when the tile's turn comes; until then they are only prefetched.
  H5L_DEVICE void start(const OwnTile& tile) const {
    const RowTile rows = row_tile_of(plan_.shape, tile.work.index);
    const u32 lines = (rows.length * static_cast<u32>(sizeof(W)) + kLineBytes - 1) / kLineBytes;
    RowWalk at(lines);
    for (u32 i = thread(); i < lines * rows.rows; i += kThreads, at.step()) {
      prefetch(tile.values + rows.place(at.y, 0) * sizeof(W) + at.x * kLineBytes);
    }
  }

  // Returns the size of the payload, or that of the values if the tile is stored; valid in the first thread.
  H5L_DEVICE u32 measure(const OwnTile& tile) {
    tile_ = row_tile_of(plan_.shape, tile.work.index);
    copy_lattice(plan_.lattices + tile.work.chunk, shared_.lattice);
    sync_block();  // also: the input is free
    load_words(tile.values);
    sync_block();
    predictor_ = choose_predictor();
    replace_by_residuals();
    sync_block();
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
      RowWalk walk(tile_.length);
      for (u32 i = thread(); i < tile_.count(); i += kThreads, walk.step()) {
        reinterpret_cast<W*>(out)[i] = values[tile_.place(walk.y, walk.x)];
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
  [[nodiscard]] H5L_DEVICE W& word(u32 i) const { return *value_in_units<W>(shared_.input, i); }
  // Word m of 32 bits, or of 64.
  using Lane = LanesOf<W>;
  using Packed = typename Lane::Word;
  static constexpr u32 kPerWord = sizeof(Packed) / sizeof(W);
  [[nodiscard]] H5L_DEVICE Packed& packed(u32 m) const {
    return *reinterpret_cast<Packed*>(shared_.input + U::place(m * kPerWord));
  }

  // ---------------------------------------------------------------------------------------------------------------
  // From values to words

  H5L_DEVICE void load_words(const u8* chunk) const {
    constexpr u32 n = kPieceBytes / sizeof(W);
    const ValueWords<W> words(shared_.lattice);
    const W zero = static_cast<W>(shared_.lattice.zero);
    const bool are_values = words.are_values();
    const u8* const first = chunk + tile_.first * sizeof(W);
    if (tile_.length % n == 0 && tile_.pitch % n == 0 && reinterpret_cast<u64>(first) % kPieceBytes == 0) {
      RowWalk at(tile_.length / n);
      constexpr u32 at_once = 4;  // pieces in flight
      H5L_NO_UNROLL for (u32 i = thread() * n; i < tile_.count(); i += at_once * kThreads * n) {
        Quad pieces[at_once];
        H5L_UNROLL for (u32 k = 0; k < at_once; ++k, at.step()) {
          const u8* const from = first + (u64{at.y} * tile_.pitch + at.x * n) * sizeof(W);
          if (i + k * kThreads * n < tile_.count()) pieces[k] = *reinterpret_cast<const Quad*>(from);
        }
        H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
          const u32 own = i + k * kThreads * n;
          if (own >= tile_.count()) break;
          Quad piece = flip_signs(pieces[k], zero);
          if (!are_values) {
            W values[n];
            unpack_piece(pieces[k], values);
            words.to_words(values);
            piece = pack_piece(values);
          }
          u32* const to = reinterpret_cast<u32*>(shared_.input + U::place(own));
          to[0] = piece.x;
          to[1] = piece.y;
          to[2] = piece.z;
          to[3] = piece.w;
        }
      }
      return;
    }
    const W* const values = reinterpret_cast<const W*>(chunk);
    RowWalk at(tile_.length);
    for (u32 i = thread(); i < tile_.count(); i += kThreads, at.step()) {
      W own[1] = {values[tile_.place(at.y, at.x)]};
      words.to_words(own);
      word(i) = own[0];
    }
  }

  // ---------------------------------------------------------------------------------------------------------------
  // Predictors

  // The residuals of a word with all predictors; `is_first_row` says that there is no row above.
  H5L_DEVICE void all_residuals(u32 i, u32 x, bool is_first_row, bool is_first, W zero,
                                W (&residuals)[kPredictors]) const {
    const u32 length = tile_.length;
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

  // Chooses the first predictor that leaves the fewest bytes on the samples, which are concatenated.
  H5L_DEVICE Predictor choose_predictor() const {
    const Samples samples(tile_.rows, tile_.length);
    const u32 count = samples.number * samples.count;
    const W zero = static_cast<W>(shared_.lattice.zero);
    u32 costs[kPredictors] = {};
    const RowDivider rows(tile_.length), numbers(samples.count);
    H5L_NO_UNROLL for (u32 g = thread() * kGroupOfIntegers; g < count; g += kThreads * kGroupOfIntegers) {
      W used[kPredictors] = {};
      const u32 number = numbers.row(g);
      u32 left = (number + 1) * samples.count - g, i = samples.first + number * samples.apart + samples.count - left;
      u32 x = i - rows.row(i) * tile_.length;
      H5L_NO_UNROLL for (u32 k = g; k < g + kGroupOfIntegers && k < count; ++k) {
        W residuals[kPredictors];
        all_residuals(i, x, i < tile_.length, i == 0, zero, residuals);
        H5L_UNROLL for (u32 p = 0; p < kPredictors; ++p) used[p] |= residuals[p];
        ++i;
        if (--left == 0) {
          left = samples.count;
          i += samples.apart - samples.count;
          x = i - rows.row(i) * tile_.length;
        } else {
          x = x + 1 == tile_.length ? 0 : x + 1;
        }
      }
      H5L_UNROLL for (u32 p = 0; p < kPredictors; ++p) costs[p] += count_ones(u64{used[p]});
    }
    H5L_UNROLL for (u32 p = 0; p < kPredictors; ++p) {
      const u32 all = sum_of_warp(costs[p]);
      if (lane() == 0) shared_.costs[warp()][p] = all;
    }
    sync_block();
    u32 best = 0, least = ~u32{0};
    const u32 predictors = tile_.rows > 1 ? kPredictors : 2;  // with one row, the others equal `x`
    for (u32 p = 0; p < predictors; ++p) {
      u32 cost = 0;
      for (u32 w = 0; w < kWarps; ++w) cost += shared_.costs[w][p];
      if (cost < least) {
        least = cost;
        best = p;
      }
    }
    return static_cast<Predictor>(best);
  }

  H5L_DEVICE void replace_by_residuals() const {
    const W zero = static_cast<W>(shared_.lattice.zero);
    if (tile_.length % kPerWord == 0) {
      const RowDivider rows(tile_.length / kPerWord);
      replace_words([&](u32 m) { return residuals_of_word(m, rows, zero); });
    } else {
      const RowDivider rows(tile_.length);
      replace_words([&](u32 m) { return single_residuals(m, rows, zero); });
    }
  }

  // Runs from the last word to the first, since residuals need the words before them.
  template <class Residuals>
  H5L_DEVICE void replace_words(Residuals residuals) const {
    const u32 words = (tile_.count() + kPerWord - 1) / kPerWord;
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
      if (i >= tile_.count()) break;
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

  H5L_DEVICE void replace_by_planes() const {
    const u32 count = tile_.count(), groups = count / kGroupOfIntegers, grouped = groups * kGroupOfIntegers;
    u32 planes[U::of_thread][sizeof(W)][8];
    H5L_UNROLL for (u32 k = 0; k < U::of_thread; ++k) {
      const u32 first = (k * kThreads + thread()) * U::values;
      u32 words[U::words];
      H5L_UNROLL for (u32 m = 0; m < U::words; ++m) {
        words[m] = reinterpret_cast<const u32*>(shared_.input + U::place(first))[m];
      }
      transpose_unit(words, planes[k]);
    }
    const u32 own = grouped + thread();
    W rest = 0;
    if (own < count) rest = word(own);
    sync_block();
    const u32 raw_bytes = count * static_cast<u32>(sizeof(W));
    for (u32 at = raw_bytes / 4 + thread(); at < kStreamBytes / 4; at += kThreads) {  // zeros follow the stream
      reinterpret_cast<u32*>(shared_.input)[at] = 0;
    }
    if (raw_bytes % 4 != 0) sync_block();
    H5L_UNROLL for (u32 k = 0; k < U::of_thread; ++k) {
      const u32 group = (k * kThreads + thread()) * U::groups;
      const u32 left = group < groups ? groups - group : 0;
      H5L_UNROLL for (u32 s = 0; s < sizeof(W); ++s) {
        H5L_UNROLL for (u32 c = 0; c < 8; ++c) {
          put_plane((kWordBits<W> - 1 - (8 * s + c)) * groups + group, planes[k][s][c], left);
        }
      }
    }
    if (own < count) reinterpret_cast<W*>(shared_.input)[own] = rest;
  }

  // Does the same as take_stream and write_planes do with words in registers, but in loops, since this code is long
  // enough.
  H5L_DEVICE void mark_stream() const {
    u8* const bytes = reinterpret_cast<u8*>(shared_.bitmap0);
    H5L_NO_UNROLL for (u32 first = thread(); first < kStreamBytes / 4; first += 4 * kThreads) {
      H5L_UNROLL for (u32 w = first; w < first + 4 * kThreads; w += kThreads) {
        const u32 flags = nonzero_bytes_of_word(stream_word(w));
        const u32 next = shuffle_xor(flags, 1);
        if (lane() % 2 == 0) bytes[w / 2] = static_cast<u8>(flags | next << 4);
      }
    }
  }

  H5L_DEVICE void write_stream(u8* bytes) const {
    H5L_NO_UNROLL for (u32 w = 0; w < kWarps; ++w) {  // each warp has measured 8 words of a thread
      H5L_UNROLL for (u32 j = 0; j < 8; ++j) {
        const u32 number = (8 * w + j) * kThreads + thread();
        const u32 own = stream_word(number);
        if (any_in_warp(own != 0)) write_bytes(bytes, number, own);
      }
      bytes += shared_.totals[w] & 0xFFFF;
    }
  }

  [[nodiscard]] H5L_DEVICE u32 stream_word(u32 w) const { return reinterpret_cast<const u32*>(shared_.input)[w]; }

  // Writes the bytes of a unit's groups; `left` bytes remain before the plane's end.
  H5L_DEVICE void put_plane(u32 at, u32 bytes, u32 left) const {
    u8* const to = shared_.input + at;
    if (U::groups == 4 && left >= 4 && at % 4 == 0) {
      *reinterpret_cast<u32*>(to) = bytes;
    } else {
      H5L_NO_UNROLL for (u32 b = 0; b < U::groups; ++b) {
        if (b < left) to[b] = static_cast<u8>(bytes >> (8 * b));
      }
    }
  }

  // planes[s][c]: bit c of byte s of all values, a byte for each group.
  H5L_DEVICE static void transpose_unit(const u32 (&words)[U::words], u32 (&planes)[sizeof(W)][8]) {
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
  RowTile tile_ = {};
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
