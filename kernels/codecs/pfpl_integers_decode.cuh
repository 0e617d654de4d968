// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// PFPL's decoder of integers: a thread block per tile. The stream of planes becomes residuals, in place, and then
// words.
#pragma once

#include "kernels/codecs/pfpl_integers_tile.cuh"
#include "kernels/codecs/pfpl_restore.cuh"

namespace h5lossy::H5L_TARGET::pfpl {

struct IntegerDecodeShared : RestoreShared<kUnitsBytes + 32> {
  u64 chains[kWarps], sums[kWarps];
  u32 restarts[kWarps];
  WordLattice lattice;
};

template <class W>
class IntegerDecoder : ZeroRestorer<IntegerDecodeShared> {
  using U = Units<W>;
  using Sum = SumOf<W>;
  using Packed = typename LanesOf<W>::Word;
  static constexpr u32 kPerWord = sizeof(Packed) / sizeof(W);
  static constexpr u32 kShare = U::of_thread * U::values;  // values of a thread

 public:
  H5L_DEVICE IntegerDecoder(const DecodePlan& plan, const DecodeJob& job, IntegerDecodeShared& shared)
      : ZeroRestorer<IntegerDecodeShared>(plan, job, shared) {}

  H5L_DEVICE void decode(u32 number, const TileSpan& span) {
    tile_ = row_tile_of(plan_.shape, number);
    raw_bytes_ = tile_.count() * static_cast<u32>(sizeof(W));
    if (!span.is_valid || span.bytes > raw_bytes_) return report_corrupt(plan_);
    bytes_ = span.bytes;
    load(span);
    copy_lattice(plan_.lattices + block_row(), shared_.lattice);
    wait_for_copies();
    sync_block();
    const bool is_stored = bytes_ == raw_bytes_, is_full = bytes_ != 0 && !is_stored;
    const auto predictor = static_cast<Predictor>(is_full ? byte_at(bytes_ - 1) : 0);
    if (warp() == 0) {
      if (is_full) restore_upper_bitmaps(bytes_ - 1);
    } else {
      add_up_payload(number);
    }
    if (is_stored) return put([&](u32 i) { return stored_value(i); });
    const W zero = static_cast<W>(shared_.lattice.zero);
    if (!is_full) return put([&](u32) { return value_of(zero); });
    if (static_cast<u32>(predictor) >= kPredictors || !restore_bitmaps()) return report_corrupt(plan_);
    restore_stream<false>();
    restore_residuals();
    sum_rows(predictor, zero);
    const bool is_in_words = tile_.length % kPerWord == 0;
    if (predictor == Predictor::three && is_in_words && tile_.length <= 2 * kWarpThreads * kPerWord) {
      add_narrow_rows<2>();
    } else if (predictor == Predictor::three && is_in_words && tile_.length <= 4 * kWarpThreads * kPerWord) {
      add_narrow_rows<4>();
    } else if (is_in_words) {
      add_rows(predictor, tile_.length / kPerWord, [&](u32 m) -> Packed& { return packed(m); }, LanesOf<W>());
    } else {
      add_rows(predictor, tile_.length, [&](u32 i) -> W& { return word(i); }, SingleLane<W>());
    }
    if (!put_pieces()) put([&](u32 i) { return value_of(word(i)); });
  }

 private:
  // Value i of a tile that is stored.
  H5L_DEVICE W stored_value(u32 i) const {
    const u32 at = i * static_cast<u32>(sizeof(W));
    if constexpr (sizeof(W) == 8) {
      return word_at(at) | u64{word_at(at + 4)} << 32;
    } else {
      return static_cast<W>(word_at(at));
    }
  }

  // ---------------------------------------------------------------------------------------------------------------
  // From planes to residuals

  H5L_DEVICE void restore_residuals() {
    const u32 groups = tile_.count() / kGroupOfIntegers, grouped = groups * kGroupOfIntegers;
    u32 words[U::of_thread][U::words];
    H5L_UNROLL for (u32 k = 0; k < U::of_thread; ++k) {
      transpose_unit((k * kThreads + thread()) * U::groups, groups, words[k]);
    }
    // The last values are not in groups, and follow unchanged.
    const u32 own = grouped + thread();
    W rest = 0;
    if (own < tile_.count()) rest = reinterpret_cast<const W*>(shared_.area)[own];
    sync_block();
    H5L_UNROLL for (u32 k = 0; k < U::of_thread; ++k) {
      const u32 first = (k * kThreads + thread()) * U::values;
      const u32 left = first < grouped ? (grouped - first) * static_cast<u32>(sizeof(W)) / 4 : 0;  // words
      u8* const to = shared_.area + U::place(first);
      H5L_UNROLL for (u32 m = 0; m < U::words; ++m) {
        if (m < left) reinterpret_cast<u32*>(to)[m] = words[k][m];
      }
    }
    if (own < tile_.count()) *value_in_units<W>(shared_.area, own) = rest;
    sync_block();
  }

  // Four bytes of plane `bit`, those of groups from `group` on.
  H5L_DEVICE u32 plane(u32 bit, u32 groups, u32 group) const {
    return word_in_area((kWordBits<W> - 1 - bit) * groups + group);
  }

  H5L_DEVICE void transpose_unit(u32 group, u32 groups, u32 (&words)[U::words]) const {
    if constexpr (sizeof(W) == 8) {
      u32 bytes[4][8];  // two bytes of two groups
      H5L_UNROLL for (u32 s = 0; s < 4; ++s) {
        H5L_UNROLL for (u32 c = 0; c < 8; ++c) {
          bytes[s][c] = permute(plane(16 * s + c, groups, group), plane(16 * s + 8 + c, groups, group), 0x5410);
        }
        transpose_bytes(bytes[s]);
      }
      H5L_UNROLL for (u32 m = 0; m < U::words; ++m) {
        const u32 group_of_value = m / 16, row = 7 - m / 2 % 8, s = m % 2 * 2;
        words[m] = permute(bytes[s][row], bytes[s + 1][row], 0x6420 + 0x1111 * group_of_value);
      }
    } else {
      u32 bytes[sizeof(W)][8];
      H5L_UNROLL for (u32 s = 0; s < sizeof(W); ++s) {
        H5L_UNROLL for (u32 c = 0; c < 8; ++c) bytes[s][c] = plane(8 * s + c, groups, group);
        transpose_bytes(bytes[s]);
      }
      H5L_UNROLL for (u32 m = 0; m < U::words; ++m) {
        words[m] = gather_bytes(row_of_byte<W>(bytes, 4 * m), row_of_byte<W>(bytes, 4 * m + 1),
                                row_of_byte<W>(bytes, 4 * m + 2), row_of_byte<W>(bytes, 4 * m + 3),
                                4 * m / static_cast<u32>(sizeof(W)) / kGroupOfIntegers);
      }
    }
  }

  // ---------------------------------------------------------------------------------------------------------------
  // From residuals to words

  [[nodiscard]] H5L_DEVICE W& word(u32 i) const { return *value_in_units<W>(shared_.area, i); }
  [[nodiscard]] H5L_DEVICE Packed& packed(u32 m) const {
    return *reinterpret_cast<Packed*>(shared_.area + U::place(m * kPerWord));
  }
  [[nodiscard]] H5L_DEVICE W residual(u32 i) const { return static_cast<W>(from_negabinary<W>(word(i))); }

  // Sums along rows: all words, or, for predictors that need the row above, the first row or the differences to the row
  // above. A row continues from the first word of the row above, from `zero`, or from 0.
  H5L_DEVICE void sum_rows(Predictor predictor, W zero) {
    const u32 count = tile_.count(), length = tile_.length;
    const bool is_first_row = predictor == Predictor::y || predictor == Predictor::three;
    const u32 all = is_first_row && length < count ? length : count;
    const u32 first = thread() * kShare, last = first + kShare < all ? first + kShare : all;
    if (predictor == Predictor::none) {
      H5L_NO_UNROLL for (u32 i = first; i < last; ++i) word(i) = static_cast<W>(zero + residual(i));
      return sync_block();
    }
    const bool has_chain = predictor != Predictor::xy;
    const u32 first_x = first % length;
    Sum chain = 0, sum = 0;  // of first words, and of the words after the last of these
    bool restarts = false;
    u32 x = first_x;
    const auto add = [&](u32 i) {
      const Sum own = residual(i);
      if (x == 0) {
        chain += own;
        sum = has_chain ? 0 : own;
        restarts = true;
      } else {
        sum += own;
      }
      x = x + 1 == length ? 0 : x + 1;
    };
    H5L_NO_UNROLL for (u32 i = first; i < last; ++i) add(i);
    scan(chain, sum, restarts);
    x = first_x;
    H5L_NO_UNROLL for (u32 i = first; i < last; ++i) {
      add(i);
      const Sum begin = has_chain ? zero + chain : i < length ? Sum{zero} : 0;
      word(i) = static_cast<W>(begin + sum);
    }
    sync_block();
  }

  // The chain and the sum before the thread's values.
  H5L_DEVICE void scan(Sum& chain, Sum& sum, bool restarts) {
    u32 has_restart = restarts ? 1 : 0;
    for (u32 by = 1; by < kWarpThreads; by *= 2) {
      const Sum before = shuffle_up(sum, by);
      const u32 restart_before = shuffle_up(has_restart, by);
      if (lane() >= by && has_restart == 0) sum += before;
      if (lane() >= by) has_restart |= restart_before;
    }
    if (lane() == kWarpThreads - 1) {
      shared_.sums[warp()] = sum;
      shared_.restarts[warp()] = has_restart;
    }
    const Sum before = shuffle_up(sum, 1);
    const u32 restart_before = shuffle_up(has_restart, 1);
    Sum total = 0;
    chain = scan_of_block(chain, reinterpret_cast<Sum*>(shared_.chains), total);
    Sum behind = 0;
    for (u32 w = 0; w < warp(); ++w) {
      behind = static_cast<Sum>(shared_.sums[w]) + (shared_.restarts[w] != 0 ? 0 : behind);
    }
    sum = lane() == 0 ? behind : before + (restart_before != 0 ? 0 : behind);
  }

  // The same for predictor `three`, if a warp can hold a row in registers: `n` words per lane.
  template <u32 n>
  H5L_DEVICE void add_narrow_rows() const {
    using Lane = LanesOf<W>;
    const u32 length = tile_.length / kPerWord, first = lane() * n;
    if (warp() == 0) {
      Packed above[n];
      H5L_UNROLL for (u32 k = 0; k < n; ++k) above[k] = first + k < length ? packed(first + k) : 0;
      u32 row = 0;
      for (u32 y = 1; y < tile_.rows; ++y) {
        row += length;
        Packed residuals[n];
        H5L_UNROLL for (u32 k = 0; k < n; ++k) residuals[k] = first + k < length ? packed(row + first + k) : 0;
        const W left_of_lane = Lane::last(shuffle_up(above[n - 1], 1)),
                right_of_lane = Lane::first(shuffle(above[0], lane() + 1));
        Packed predicted[n];
        H5L_UNROLL for (u32 k = 0; k < n; ++k) {
          const bool is_last = first + k + 1 == length;
          const W left = first + k == 0 ? Lane::first(above[0])
                         : k == 0       ? left_of_lane
                                        : Lane::last(above[k == 0 ? 0 : k - 1]);
          const W right = is_last      ? Lane::last(above[k])
                          : k + 1 == n ? right_of_lane
                                       : Lane::first(above[k + 1 == n ? k : k + 1]);
          const Packed beside = Lane::average(Lane::before(above[k], left), Lane::behind(above[k], right));
          predicted[k] = Lane::average(above[k], beside);
        }
        H5L_UNROLL for (u32 k = 0; k < n; ++k) {
          above[k] = Lane::add(Lane::from_negabinary(residuals[k]), predicted[k]);
          if (first + k < length) packed(row + first + k) = above[k];
        }
      }
    }
    sync_block();
  }

  // Adds to each row but the first what is predicted from the rows above. Rows have `length` words.
  template <class At, class Lane>
  H5L_DEVICE void add_rows(Predictor predictor, u32 length, At at, Lane) const {
    using Word = typename Lane::Word;
    if (predictor == Predictor::three) {
      for (u32 y = 1; y < tile_.rows; ++y) {
        const u32 row = y * length, above = row - length;
        for (u32 x = thread(); x < length; x += kThreads) {
          const Word n = at(above + x), residual = Lane::from_negabinary(at(row + x));
          const W left = x == 0 ? Lane::first(n) : Lane::last(at(above + x - 1));
          const W right = x + 1 == length ? Lane::last(n) : Lane::first(at(above + x + 1));
          at(row + x) =
              Lane::add(residual, Lane::average(n, Lane::average(Lane::before(n, left), Lane::behind(n, right))));
        }
        sync_block();
      }
    } else if (predictor == Predictor::y || predictor == Predictor::xy) {
      for (u32 x = thread(); x < length; x += kThreads) {
        Word above = at(x);
        u32 i = x;
        for (u32 y = 1; y < tile_.rows; ++y) {
          i += length;
          const Word own = at(i);
          above = Lane::add(above, predictor == Predictor::y ? Lane::from_negabinary(own) : own);
          at(i) = above;
        }
      }
      sync_block();
    }
  }

  // ---------------------------------------------------------------------------------------------------------------
  // Values

  [[nodiscard]] H5L_DEVICE W value_of(W rank) const {
    W values[1] = {rank};
    to_values(values);
    return values[0];
  }

  template <u32 n>
  H5L_DEVICE void to_values(W (&words)[n]) const {
    const WordLattice& lattice = shared_.lattice;
    const W step = static_cast<W>(lattice.step), origin = static_cast<W>(lattice.origin);
    W values[n];
    H5L_UNROLL for (u32 k = 0; k < n; ++k) values[k] = static_cast<W>(origin + product(words[k], step));
    for (u32 i = 0; i < lattice.special_count; ++i) {
      const W word = static_cast<W>(lattice.special_words[i]), value = static_cast<W>(lattice.special_values[i]);
      H5L_UNROLL for (u32 k = 0; k < n; ++k) values[k] = words[k] == word ? value : values[k];
    }
    H5L_UNROLL for (u32 k = 0; k < n; ++k) words[k] = values[k];
  }

  // Stores the requested values, one at a time.
  template <class ValueOf>
  H5L_DEVICE void put(ValueOf value_of_number) const {
    W* const raw = reinterpret_cast<W*>(raw_of(plan_));
    RowWalk at(tile_.length);
    for (u32 i = thread(); i < tile_.count(); i += kThreads, at.step()) {
      const u64 place = tile_.place(at.y, at.x) - plan_.first;  // wraps to a huge number before the first
      if (place < plan_.wanted) raw[place] = value_of_number(i);
    }
  }

  // Stores all words as values, 16 bytes at a time. False if that is not possible.
  H5L_DEVICE bool put_pieces() const {
    constexpr u32 n = kPieceBytes / sizeof(W);
    u8* const to = raw_of(plan_) + (tile_.first - plan_.first) * sizeof(W);
    const u64 last = tile_.place(tile_.rows - 1, tile_.length - 1);
    const bool is_inside = tile_.first >= plan_.first && last - plan_.first < plan_.wanted;
    if (!is_inside || tile_.length % n != 0 || tile_.pitch % n != 0 || reinterpret_cast<u64>(to) % kPieceBytes != 0) {
      return false;
    }
    const WordLattice& lattice = shared_.lattice;
    const W zero = static_cast<W>(lattice.zero);
    const bool are_values = lattice.step == 1 && lattice.special_count == 0 && static_cast<W>(lattice.origin) == zero;
    RowWalk at(tile_.length / n);
    for (u32 i = thread() * n; i < tile_.count(); i += kThreads * n, at.step()) {
      const u32* const from = reinterpret_cast<const u32*>(shared_.area + U::place(i));
      const Quad ranks = {from[0], from[1], from[2], from[3]};
      Quad piece = flip_signs(ranks, zero);
      if (!are_values) {
        W values[n];
        unpack_piece(ranks, values);
        to_values(values);
        piece = pack_piece(values);
      }
      u8* const place = to + (u64{at.y} * tile_.pitch + at.x * n) * sizeof(W);
      store_streaming(reinterpret_cast<Quad*>(place), piece);
    }
    return true;
  }

  RowTile tile_ = {};
};

// The kernel also finishes a call: it copies stored frames and compares the checksums.
template <class W>
H5L_DEVICE void decode_integers(const DecodePlan& plan) {
  auto& shared = *reinterpret_cast<IntegerDecodeShared*>(shared_memory());
  const DecodeJob job = plan.jobs[block_row()];
  for_own_items<1, true>(plan, job, kStreamBytes, [&](u32 tile, u32, const TileSpan& span) {
    IntegerDecoder<W>(plan, job, shared).decode(tile, span);
  });
  if (job.form == FrameForm::stored) copy_stored(plan, job);
  check_sums(plan, job);
}

}  // namespace h5lossy::H5L_TARGET::pfpl
