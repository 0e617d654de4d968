// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// PFPL's decoder of integers: a thread block per tile. The stream of planes becomes residuals, in place, and then
// words.
#pragma once

#include "kernels/codecs/pfpl_integers_tile.cuh"
#include "kernels/codecs/pfpl_restore.cuh"

namespace h5lossy::H5L_TARGET::pfpl {

// Where byte `at` of a tile's words is in the area. A gap after 128 bytes avoids bank conflicts between threads that
// access sixteen bytes of their own 32, 64 or 128.
H5L_FN constexpr u32 place_with_gaps(u32 at) { return at + at / 128 * 16; }

struct IntegerDecodeShared : RestoreShared<place_with_gaps(kStreamBytes) + 32> {
  u64 chains[kWarps], sums[kWarps];
  u32 restarts[kWarps];
  u32 row_warp;  // adds up rows for all
  WordLattice lattice;
};

template <class W>
class IntegerDecoder : ZeroRestorer<IntegerDecodeShared> {
  using U = Units<W>;
  using Sum = SumOf<W>;
  using Packed = typename LanesOf<W>::Word;
  static constexpr u32 kPerWord = sizeof(Packed) / sizeof(W);
  static constexpr u32 kShare = U::of_thread * U::values;  // values of a thread
  // Planes whose bits are transposed together. Those of a warp's units are 32 pieces of the stream.
  static constexpr u32 kPlanes = sizeof(W) == 8 ? 16 : 8, kSets = kWordBits<W> / kPlanes;
  static_assert(kPlanes * U::groups == kWarpThreads);

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
    // Not warp 0 of every thread block, since these would share two of the four schedulers.
    if (thread() == 0) shared_.row_warp = warp_slot() / kWarps % kWarps;
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
    restore_residuals();
    const bool is_in_words = tile_.length % kPerWord == 0;
    const u32 length = is_in_words ? tile_.length / kPerWord : tile_.length;  // of a row, in words or values
    if (predictor == Predictor::three && is_in_words && length <= 4 * kWarpThreads) {
      if (length % 2 == 0 && length <= 2 * kWarpThreads) {
        add_narrow_rows<2, true>(zero);
      } else if (length % 4 == 0) {
        add_narrow_rows<4, true>(zero);
      } else {
        add_narrow_rows<4, false>(zero);
      }
    } else {
      sum_rows(predictor, zero);
      if (is_in_words) {
        add_rows(predictor, length, [&](u32 m) -> Packed& { return packed(m); }, LanesOf<W>());
      } else {
        add_rows(predictor, length, [&](u32 i) -> W& { return word(i); }, SingleLane<W>());
      }
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
    const u32 count = tile_.count(), groups = count / kGroupOfIntegers, grouped = groups * kGroupOfIntegers;
    const bool are_whole = groups % 32 == 0 && grouped == count;  // planes begin and end with pieces of the stream
    if (!are_whole) restore_stream<false>();
    u32 words[U::of_thread][U::words];
    H5L_UNROLL for (u32 k = 0; k < U::of_thread; ++k) { restore_unit(k, groups, are_whole, words[k]); }
    // The last values are not in groups, and follow unchanged.
    const u32 own = grouped + thread();
    W rest = 0;
    if (own < count) rest = reinterpret_cast<const W*>(shared_.area)[own];
    sync_block();
    H5L_UNROLL for (u32 k = 0; k < U::of_thread; ++k) {
      const u32 first = (k * kThreads + thread()) * U::values;
      const u32 left = first < grouped ? (grouped - first) * static_cast<u32>(sizeof(W)) / 4 : 0;  // words
      Quad* const to = reinterpret_cast<Quad*>(place(first));
      H5L_UNROLL for (u32 m = 0; m < U::words; m += 4) {
        if (m < left) to[m / 4] = {words[k][m], words[k][m + 1], words[k][m + 2], words[k][m + 3]};
      }
    }
    if (grouped != count) {
      sync_block();  // the last sixteen bytes may have been more than the last group
      if (own < count) word(own) = static_cast<W>(from_negabinary<W>(rest));
    }
    sync_block();
  }

  // The residuals of a thread's k-th unit.
  H5L_DEVICE void restore_unit(u32 k, u32 groups, bool are_whole, u32 (&words)[U::words]) const {
    const u32 group = (k * kThreads + thread()) * U::groups;
    u32 bytes[kSets][8];
    H5L_UNROLL for (u32 s = 0; s < kSets; ++s) {
      u32 planes[kPlanes];
      const u32 first = kWordBits<W> - kPlanes * (s + 1);
      u32 used = ~0u;
      if (are_whole) {
        const u32 apart = groups / 32;
        const u32 of_lane =
            (first + lane() / U::groups) * apart + (k * kWarps + warp()) * U::groups + lane() % U::groups;
        used = ballot(shared_.pieces[of_lane].flags != 0);
        H5L_UNROLL for (u32 i = 0; i < kPlanes; ++i) {
          const bool is_used = (used >> (i * U::groups) & ((1u << U::groups) - 1)) != 0;
          planes[i] = is_used ? stream_word((first + i) * apart + group / 32, group / 4 % 8) : 0;
        }
      } else {
        H5L_UNROLL for (u32 i = 0; i < kPlanes; ++i) planes[i] = word_in_area((first + i) * groups + group);
      }
      H5L_UNROLL for (u32 c = 0; c < 8; ++c) {
        bytes[s][c] = planes[kPlanes - 1 - c];
        if constexpr (sizeof(W) == 8) {  // two bytes of two groups
          bytes[s][c] = permute(bytes[s][c], planes[7 - c], are_whole && group % 4 != 0 ? 0x7632 : 0x5410);
        }
      }
      if (used != 0) transpose_bytes(bytes[s]);
    }
    if constexpr (sizeof(W) == 8) {
      H5L_UNROLL for (u32 m = 0; m < U::words; m += 2) {
        const u32 pair = 0x6420 + 0x1111 * (m / 16), row = 7 - m / 2 % 8;
        const u64 low = permute(bytes[0][row], bytes[1][row], pair), high = permute(bytes[2][row], bytes[3][row], pair);
        const u64 residual = from_negabinary<u64>(low | high << 32);
        words[m] = static_cast<u32>(residual);
        words[m + 1] = static_cast<u32>(residual >> 32);
      }
    } else {
      // Four rows of bytes are four words, each with the bytes of one group.
      H5L_UNROLL for (u32 m = 0; m < U::words / 4; ++m) {
        const u32 a = row_of_byte<W>(bytes, 4 * m), b = row_of_byte<W>(bytes, 4 * m + 1);
        const u32 c = row_of_byte<W>(bytes, 4 * m + 2), d = row_of_byte<W>(bytes, 4 * m + 3);
        H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
          const u32 pairs = i < 2 ? 0x5140 : 0x7362;
          const u32 word = permute(permute(a, b, pairs), permute(c, d, pairs), i % 2 == 0 ? 0x5410 : 0x7632);
          words[m + i * (U::words / 4)] = LanesOf<W>::from_negabinary(word);
        }
      }
    }
  }

  // ---------------------------------------------------------------------------------------------------------------
  // From residuals to words

  [[nodiscard]] H5L_DEVICE u8* place(u32 i) const {
    return shared_.area + place_with_gaps(i * static_cast<u32>(sizeof(W)));
  }
  [[nodiscard]] H5L_DEVICE W& word(u32 i) const { return *reinterpret_cast<W*>(place(i)); }
  [[nodiscard]] H5L_DEVICE Packed& packed(u32 m) const { return *reinterpret_cast<Packed*>(place(m * kPerWord)); }

  // Sums along rows: all words, or, for predictors that need the row above, the first row or the differences to the row
  // above. A row continues from the first word of the row above, from `zero`, or from 0.
  H5L_DEVICE void sum_rows(Predictor predictor, W zero) {
    const u32 count = tile_.count(), length = tile_.length;
    const bool is_first_row = predictor == Predictor::y || predictor == Predictor::three;
    const u32 all = is_first_row && length < count ? length : count;
    const u32 first = thread() * kShare, last = first + kShare < all ? first + kShare : all;
    if (predictor == Predictor::none) {
      H5L_NO_UNROLL for (u32 i = first; i < last; ++i) word(i) = static_cast<W>(zero + word(i));
      return sync_block();
    }
    const bool has_chain = predictor != Predictor::xy;
    const u32 first_x = first % length;
    Sum chain = 0, sum = 0;  // of first words, and of the words after the last of these
    bool restarts = false;
    u32 x = first_x;
    const auto add = [&](u32 i) {
      const Sum own = word(i);
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

  // All words with predictor `three`, if a warp can hold a row in registers: `n` words per lane, which it accesses
  // at once if rows are a multiple of that.
  template <u32 n, bool are_whole>
  H5L_DEVICE void add_narrow_rows(W zero) const {
    using Lane = LanesOf<W>;
    const u32 length = tile_.length / kPerWord, first = lane() * n;
    if (warp() == shared_.row_warp) {
      LaneWords<n> residuals = {}, above;
      load_words<are_whole>(0, first, residuals);
      // The first row is summed up.
      Packed sum = 0;
      H5L_UNROLL for (u32 k = 0; k < n; ++k) {
        Packed own = residuals.words[k];
        for (u32 by = 1; by < kPerWord; by *= 2) own = Lane::add(own, own << (by * kWordBits<W>));
        sum = above.words[k] = Lane::add(own, Lane::repeat(Lane::last(sum)));
      }
      const Sum total = Lane::last(sum);
      const Packed before = Lane::repeat(static_cast<W>(zero + scan_of_warp(total) - total));
      H5L_UNROLL for (u32 k = 0; k < n; ++k) above.words[k] = Lane::add(above.words[k], before);
      store_words<are_whole>(0, first, above);
      for (u32 row = length; row < tile_.rows * length; row += length) {
        load_words<are_whole>(row, first, residuals);
        const Packed left = shuffle_up(above.words[n - 1], 1), right = shuffle(above.words[0], lane() + 1);
        LaneWords<n> next;
        H5L_UNROLL for (u32 k = 0; k < n; ++k) {
          const Packed own = above.words[k];
          const Packed nw = Lane::left_of(own, k == 0 ? left : above.words[k - 1], first + k == 0);
          const Packed ne = Lane::right_of(own, k + 1 == n ? right : above.words[k + 1], first + k + 1 == length);
          next.words[k] = Lane::add(residuals.words[k], Lane::average(own, Lane::average(nw, ne)));
        }
        above = next;
        store_words<are_whole>(row, first, above);
      }
    }
    sync_block();
  }

  // The words of a lane, from word `first` of a row on; words past the row's end are not touched.
  template <u32 n>
  struct alignas(n * sizeof(Packed) < 16 ? n * sizeof(Packed) : 16) LaneWords {
    Packed words[n];
  };
  template <bool are_whole, u32 n>
  H5L_DEVICE void load_words(u32 row, u32 first, LaneWords<n>& own) const {
    const u32 length = tile_.length / kPerWord;
    if constexpr (are_whole) {
      if (first < length) own = reinterpret_cast<const LaneWords<n>&>(packed(row + first));
    } else {
      H5L_UNROLL for (u32 k = 0; k < n; ++k) {
        if (first + k < length) own.words[k] = packed(row + first + k);
      }
    }
  }
  template <bool are_whole, u32 n>
  H5L_DEVICE void store_words(u32 row, u32 first, const LaneWords<n>& own) const {
    const u32 length = tile_.length / kPerWord;
    if constexpr (are_whole) {
      if (first < length) reinterpret_cast<LaneWords<n>&>(packed(row + first)) = own;
    } else {
      H5L_UNROLL for (u32 k = 0; k < n; ++k) {
        if (first + k < length) packed(row + first + k) = own.words[k];
      }
    }
  }

  // Adds to each row but the first what is predicted from the rows above. Rows have `length` words.
  template <class At, class Lane>
  H5L_DEVICE void add_rows(Predictor predictor, u32 length, At at, Lane) const {
    using Word = typename Lane::Word;
    if (predictor == Predictor::three) {
      for (u32 y = 1; y < tile_.rows; ++y) {
        const u32 row = y * length, above = row - length;
        for (u32 x = thread(); x < length; x += kThreads) {
          const Word n = at(above + x);
          const Word nw = Lane::left_of(n, at(above + (x == 0 ? 0 : x - 1)), x == 0);
          const Word ne = Lane::right_of(n, at(above + (x + 1 == length ? x : x + 1)), x + 1 == length);
          at(row + x) = Lane::add(at(row + x), Lane::average(n, Lane::average(nw, ne)));
        }
        sync_block();
      }
    } else if (predictor == Predictor::y || predictor == Predictor::xy) {
      for (u32 x = thread(); x < length; x += kThreads) {
        Word above = at(x);
        u32 i = x;
        for (u32 y = 1; y < tile_.rows; ++y) {
          i += length;
          above = Lane::add(above, at(i));
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
    const RowDivider pieces(tile_.length / n);
    const u64 between = u64{tile_.pitch - tile_.length} * sizeof(W);  // bytes from a row to the next
    for (u32 i = thread(); i < tile_.count() / n; i += kThreads) {
      const Quad ranks = *reinterpret_cast<const Quad*>(place(i * n));
      Quad piece = flip_signs(ranks, zero);
      if (!are_values) {
        W values[n];
        unpack_piece(ranks, values);
        to_values(values);
        piece = pack_piece(values);
      }
      store_streaming(reinterpret_cast<Quad*>(to + i * kPieceBytes + pieces.row(i) * between), piece);
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
