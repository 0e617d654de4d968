// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// PFPL's decoder of integers: a thread block per tile. Planes are read from the payload into registers and become
// differences, which replace the payload, and then words.
#pragma once

#include "kernels/codecs/pfpl_integers_tile.cuh"
#include "kernels/codecs/pfpl_restore.cuh"

namespace h5lossy::H5L_TARGET::pfpl {

// Where byte `at` of a tile's words is in the area. A gap after 128 bytes avoids bank conflicts between threads that
// access sixteen bytes of their own 32, 64 or 128.
H5L_FN constexpr u32 place_with_gaps(u32 at) { return at + at / 128 * 16; }

// The area has more than a tile, so that rows can move apart.
inline constexpr u32 kMostMoved = kStreamBytes / 8;

struct IntegerDecodeShared : RestoreShared<place_with_gaps(kStreamBytes + kMostMoved) + 32> {
  u64 chains[kWarps], sums[kWarps];
  u32 restarts[kWarps];
  u32 row_warp;  // adds up rows for all
  WordLattice lattice;
};

template <class W>
class IntegerDecoder : ZeroRestorer<IntegerDecodeShared> {
  using U = Units<W>;
  using Sum = SumOf<W>;
  using Lanes = LanesOf<W>;
  using Packed = typename Lanes::Word;
  static constexpr u32 kPerWord = sizeof(Packed) / sizeof(W);
  static constexpr u32 kShare = U::of_thread * U::values;  // values of a thread
  static constexpr u32 kOwnWords = kShare / kPerWord, kOfPiece = kPieceBytes / sizeof(Packed);
  static constexpr u32 kPlanes = sizeof(W) == 8 ? 16 : 8;  // that are transposed together
  static constexpr u32 kSets = kWordBits<W> / kPlanes;
  // Words that are accessed at once.
  template <u32 n>
  struct alignas(n * sizeof(Packed) < 16 ? n * sizeof(Packed) : 16) LaneWords {
    Packed words[n];
  };

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
    if (thread() == 0) shared_.pieces[kStreamBytes / 32] = {};
    wait_for_copies();
    sync_block();
    is_stored_ = bytes_ == raw_bytes_;
    const bool is_full = bytes_ != 0 && !is_stored_;
    const auto predictor = static_cast<Predictor>(is_full ? byte_at(bytes_ - 1) : 0);
    if (warp() == 0) {
      if (is_full) restore_upper_bitmaps(bytes_ - 1);
    } else {
      add_up_payload(number);
    }
    const W zero = static_cast<W>(shared_.lattice.zero);
    if (is_full) {
      if (static_cast<u32>(predictor) >= kPredictors || !restore_bitmaps<false>()) return report_corrupt(plan_);
      restore_words(predictor, zero);
    } else {
      Packed words[kOwnWords];
      H5L_UNROLL for (u32 m = 0; m < kOwnWords; ++m) words[m] = is_stored_ ? stored_word(m) : Lanes::repeat(zero);
      sync_block();
      store_own(words, tile_.count());
      sync_block();
    }
    put_words(zero);
  }

 private:
  // The thread's m-th word of a tile that is stored.
  H5L_DEVICE Packed stored_word(u32 m) const {
    const u32 at = (owner_ * kOwnWords + m) * static_cast<u32>(sizeof(Packed));
    if constexpr (sizeof(W) == 8) {
      return word_at(at) | u64{word_at(at + 4)} << 32;
    } else {
      return word_at(at);
    }
  }

  // Stores the thread's words before value `end`, and up to sixteen bytes more.
  H5L_DEVICE void store_own(const Packed (&words)[kOwnWords], u32 end) const {
    H5L_UNROLL for (u32 m = 0; m < kOwnWords; m += kOfPiece) {
      LaneWords<kOfPiece> piece;
      H5L_UNROLL for (u32 i = 0; i < kOfPiece; ++i) piece.words[i] = words[m + i];
      const u32 at = owner_ * kShare + m * kPerWord;
      if (at < end) *reinterpret_cast<LaneWords<kOfPiece>*>(place(at)) = piece;
    }
  }

  // Decodes the words into the area.
  H5L_DEVICE void restore_words(Predictor predictor, W zero) {
    const bool is_in_words = tile_.length % kPerWord == 0;
    const u32 length = is_in_words ? tile_.length / kPerWord : tile_.length;  // of a row, in words or values
    const u32 row_words = (tile_.length + kPerWord - 1) / kPerWord;
    const u32 of_lane = row_words <= 2 * kWarpThreads ? 2 * kPerWord : 4 * kPerWord;
    const u32 apart = (tile_.length + of_lane - 1) / of_lane * of_lane;
    const bool is_narrow = predictor == Predictor::three && row_words <= 4 * kWarpThreads &&
                           tile_.rows * apart * sizeof(W) <= kStreamBytes + kMostMoved;
    const bool is_along = predictor == Predictor::x || predictor == Predictor::xy;
    const bool are_summed =
        predictor == Predictor::none || (is_along && tile_.length >= kShare && tile_.count() % kGroupOfIntegers == 0);
    // In tiles that are not full some warps have nothing, and those of all thread blocks would share a scheduler.
    if (!are_summed) owner_ ^= shared_.row_warp * kWarpThreads;
    restore_differences(predictor, zero, are_summed);
    if (is_narrow) return add_narrow_rows(zero, apart);
    if (is_along && !are_summed) sum_rows(predictor, zero);
    if (!is_along && !are_summed) sum_first_row(zero);
    if (is_in_words) {
      add_rows(predictor, length, [&](u32 m) -> Packed& { return packed(m); }, Lanes());
    } else {
      add_rows(predictor, length, [&](u32 i) -> W& { return word(i); }, SingleLane<W>());
    }
  }

  // ---------------------------------------------------------------------------------------------------------------
  // From planes to residuals

  // Replaces the payload in the area by the differences, or by their sums along rows.
  H5L_DEVICE void restore_differences(Predictor predictor, W zero, bool are_summed) {
    const u32 count = tile_.count(), groups = count / kGroupOfIntegers, grouped = groups * kGroupOfIntegers;
    Packed words[kOwnWords] = {};
    if (owner_ / kWarpThreads * kWarpThreads * kShare < grouped) read_differences(groups, words);
    // The last values are not in groups, and follow as they are.
    const bool has_rest = grouped != count && warp() == 0;
    const u32 own = grouped + lane() % kGroupOfIntegers;
    u32 rest[sizeof(W) == 8 ? 2 : 1] = {};
    if (has_rest) stream_words(own * static_cast<u32>(sizeof(W)), rest);
    // Else parts of the sums are computed for all predictors, in too many registers.
    H5L_UNROLL for (u32 m = 0; m < kOwnWords; ++m) words[m] = opaque(words[m]);
    if (are_summed) sum_words(predictor, zero, words);
    sync_block();
    store_own(words, grouped);
    sync_block();
    if (grouped == count) return;
    // Behind the groups, since these are stored in pieces of sixteen bytes.
    if (has_rest && own < count && lane() < kGroupOfIntegers) {
      W bits = static_cast<W>(rest[0]);
      if constexpr (sizeof(W) == 8) bits |= W{rest[1]} << 32;
      const W add = predictor == Predictor::none ? zero : 0;
      word(own) = static_cast<W>(from_negabinary<W>(bits) + add);
    }
    sync_block();
  }

  // The differences of the thread's groups.
  H5L_DEVICE void read_differences(u32 groups, Packed (&words)[kOwnWords]) const {
    constexpr u32 units = U::of_thread, lanes = kWarpThreads / kPlanes;  // that look whether a plane is used
    constexpr u32 own_groups = kShare / kGroupOfIntegers;
    u32 bytes[units][kSets][8];
    H5L_UNROLL for (u32 s = 0; s < kSets; ++s) {
      // Planes without a nonzero byte in the pieces that contain the warp's groups are not read.
      const u32 first = kWordBits<W> - kPlanes * (s + 1);
      const u32 of_warp = (first + lane() / lanes) * groups + owner_ / kWarpThreads * kWarpThreads * own_groups;
      const StreamPiece* const pieces = shared_.pieces + of_warp / 32 + lane() % lanes * units;
      u32 flags = 0;
      H5L_UNROLL for (u32 j = 0; j <= units; ++j) flags |= pieces[j].flags;
      const u32 used = ballot(flags != 0);
      u32 planes[kPlanes][units] = {};
      H5L_UNROLL for (u32 i = 0; i < kPlanes; ++i) {
        const bool is_used = (used >> (i * lanes) & ((1u << lanes) - 1)) != 0;
        if (is_used) stream_words((first + i) * groups + owner_ * own_groups, planes[i]);
      }
      H5L_UNROLL for (u32 k = 0; k < units; ++k) {
        H5L_UNROLL for (u32 c = 0; c < 8; ++c) {
          bytes[k][s][c] = planes[kPlanes - 1 - c][k];
          if constexpr (sizeof(W) == 8) {  // two bytes of two groups
            bytes[k][s][c] = permute(bytes[k][s][c], planes[7 - c][k], 0x5410);
          }
        }
        if (used != 0) transpose_bytes(bytes[k][s]);
      }
    }
    H5L_UNROLL for (u32 k = 0; k < units; ++k) {
      if constexpr (sizeof(W) == 8) {
        H5L_UNROLL for (u32 v = 0; v < kShare; ++v) {
          const u32 pair = 0x6420 + 0x1111 * (v / 8), row = 7 - v % 8;
          const u64 low = permute(bytes[k][0][row], bytes[k][1][row], pair);
          const u64 high = permute(bytes[k][2][row], bytes[k][3][row], pair);
          words[v] = from_negabinary<u64>(low | high << 32);
        }
      } else {
        // Four rows of bytes are four words, each with the bytes of one group.
        H5L_UNROLL for (u32 m = 0; m < U::words / 4; ++m) {
          const u32 a = row_of_byte<W>(bytes[k], 4 * m), b = row_of_byte<W>(bytes[k], 4 * m + 1);
          const u32 c = row_of_byte<W>(bytes[k], 4 * m + 2), d = row_of_byte<W>(bytes[k], 4 * m + 3);
          H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
            const u32 pairs = i < 2 ? 0x5140 : 0x7362;
            const u32 word = permute(permute(a, b, pairs), permute(c, d, pairs), i % 2 == 0 ? 0x5410 : 0x7632);
            words[k * U::words + m + i * (U::words / 4)] = Lanes::from_negabinary(word);
          }
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

  // Replaces words by the sums of their values and of all before these.
  template <u32 n>
  H5L_DEVICE static void add_along(Packed (&words)[n]) {
    H5L_UNROLL for (u32 k = 0; k < n; ++k) {
      Packed own = words[k];
      H5L_UNROLL for (u32 by = 1; by < kPerWord; by *= 2) own = Lanes::add(own, own << (by * kWordBits<W>));
      words[k] = k == 0 ? own : Lanes::add(own, Lanes::repeat(Lanes::last(words[k == 0 ? 0 : k - 1])));
    }
  }
  template <u32 n>
  H5L_DEVICE static void add_to_all(Packed (&words)[n], W value) {
    H5L_UNROLL for (u32 k = 0; k < n; ++k) words[k] = Lanes::add(words[k], Lanes::repeat(value));
  }

  // Sums along rows, for predictors x and xy: a row continues from the first word of the row above, or from 0, and the
  // first one from `zero`. Here at most one row begins in a thread's words.
  H5L_DEVICE void sum_words(Predictor predictor, W zero, Packed (&words)[kOwnWords]) {
    if (predictor == Predictor::none) return add_to_all(words, zero);
    const u32 first = thread() * kShare, of_row = first % tile_.length;
    const u32 begin = of_row == 0 ? 0 : tile_.length - of_row;  // the thread's value that begins a row
    const bool begins = begin < kShare, has_chain = predictor == Predictor::x;
    add_along(words);
    Packed at_begin = 0, before_begin = 0;
    H5L_UNROLL for (u32 m = 0; m < kOwnWords; ++m) {
      words[m] = opaque(words[m]);
      if (m == begin / kPerWord) at_begin = words[m];
      if (m + 1 == begin / kPerWord) before_begin = words[m];
    }
    const u32 shift = begin % kPerWord * kWordBits<W>;
    const W before = static_cast<W>(Lanes::left_of(at_begin, before_begin, false) >> shift);
    const W with_first = static_cast<W>(at_begin >> shift);
    Sum chain = begins && has_chain ? static_cast<W>(with_first - before) : 0;
    Sum sum = Lanes::last(words[kOwnWords - 1]) - (begins ? Sum{has_chain ? with_first : before} : 0);
    scan(chain, sum, begins);
    const W head = static_cast<W>((has_chain || first < tile_.length ? zero : 0) + chain + sum);
    const W rest = static_cast<W>((has_chain || first == 0 ? zero : 0) + chain - before);
    const Packed heads = Lanes::repeat(head), rests = Lanes::repeat(rest), are_rest = ~Packed{0} << shift;
    H5L_UNROLL for (u32 m = 0; m < kOwnWords; ++m) {
      const Packed mixed = (heads & ~are_rest) | (rests & are_rest);
      words[m] = Lanes::add(words[m], m < begin / kPerWord ? heads : m == begin / kPerWord ? mixed : rests);
    }
  }

  // The same for words in the area, in rows of any length.
  H5L_DEVICE void sum_rows(Predictor predictor, W zero) {
    const u32 all = tile_.count(), length = tile_.length;
    const u32 first = thread() * kShare, last = first + kShare < all ? first + kShare : all;
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

  // The same for the first row, for predictors that need the row above.
  H5L_DEVICE void sum_first_row(W zero) const {
    if (warp() == shared_.row_warp) {
      Sum before = zero;
      for (u32 first = 0; first < tile_.length; first += kWarpThreads) {
        const u32 x = first + lane();
        const Sum sum = before + scan_of_warp(x < tile_.length ? Sum{word(x)} : Sum{0});
        if (x < tile_.length) word(x) = static_cast<W>(sum);
        before = shuffle(sum, kWarpThreads - 1);
      }
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

  // Replaces differences by inverted words, with predictor `three`, if a warp can hold a row in registers.
  H5L_DEVICE void add_narrow_rows(W zero, u32 apart) {
    inverted_ = ~Packed{0};
    spread_ = apart - tile_.length;
    if (spread_ != 0) move_rows(apart / (2 * kPerWord));
    if (warp() == shared_.row_warp) {
      if (apart <= 2 * kWarpThreads * kPerWord) {
        add_rows_of<2>(zero);
      } else {
        add_rows_of<4>(zero);
      }
    }
    sync_block();
  }

  // Moves rows apart: from one to the next are `length` times two words. The last ones are the first to move.
  H5L_DEVICE void move_rows(u32 length) const {
    constexpr u32 at_once = 2, of_block = at_once * kThreads;
    const RowDivider rows(length);
    const u32 all = tile_.rows * length;
    H5L_NO_UNROLL for (u32 left = (all + of_block - 1) / of_block; left-- > 0;) {
      const u32 first = left * of_block + thread();
      LaneWords<2> own[at_once];
      H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
        const u32 i = first + k * kThreads, y = rows.row(i);
        if (i >= all) continue;
        const u32 from = y * tile_.length + (i - y * length) * 2 * kPerWord;
        if constexpr (kPerWord == 1) {
          own[k] = {packed(from), packed(from + 1)};
        } else {
          const u32 at = from * static_cast<u32>(sizeof(W)), at_word = at & ~3u;
          const u32 low = area_word(at_word), middle = area_word(at_word + 4);
          const u32 high = at == at_word ? 0 : area_word(at_word + 8);  // another thread may write what is not needed
          own[k] = {funnel_right(low, middle, 8 * at), funnel_right(middle, high, 8 * at)};
        }
      }
      sync_block();
      H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
        if (first + k * kThreads < all) reinterpret_cast<LaneWords<2>&>(packed(2 * (first + k * kThreads))) = own[k];
      }
    }
    sync_block();
  }

  // The same with `n` words per lane. The average of inverted words is rounded down, which takes fewer instructions.
  template <u32 n>
  H5L_DEVICE void add_rows_of(W zero) const {
    const u32 length = (tile_.length + spread_) / kPerWord, first = lane() * n;
    const u32 last = (tile_.length - 1) / kPerWord, of_last = (tile_.length - 1) % kPerWord + 1;
    const bool is_there = first < length;  // lanes past the row only take part in shuffles
    const auto row = [&](u32 y) { return reinterpret_cast<LaneWords<n>*>(&packed(y * length + first)); };
    LaneWords<n> above = {};
    if (is_there) above = *row(0);
    // The first row is summed up.
    add_along(above.words);
    const Sum sum = Lanes::last(above.words[n - 1]);
    add_to_all(above.words, static_cast<W>(zero + scan_of_warp(sum) - sum));
    H5L_UNROLL for (u32 k = 0; k < n; ++k) above.words[k] = ~above.words[k];
    if (is_there) *row(0) = above;
    for (u32 y = 1; y < tile_.rows; ++y) {
      LaneWords<n> differences = {};
      if (is_there) differences = *row(y);
      const Packed left = shuffle_up(above.words[n - 1], 1), right = shuffle(above.words[0], lane() + 1);
      LaneWords<n> next;
      H5L_UNROLL for (u32 k = 0; k < n; ++k) {
        const Packed own = above.words[k];
        const u32 ends = first + k == last ? of_last : 0;
        const Packed nw = Lanes::left_of(own, k == 0 ? left : above.words[k == 0 ? 0 : k - 1], first + k == 0);
        const Packed ne = Lanes::right_of(own, k + 1 == n ? right : above.words[k + 1 == n ? 0 : k + 1], ends);
        next.words[k] = Lanes::subtract(Lanes::lower_average(own, Lanes::lower_average(nw, ne)), differences.words[k]);
      }
      above = next;
      if (is_there) *row(y) = above;
    }
  }

  // Four bytes of the words from byte `at` on, which is a multiple of four.
  [[nodiscard]] H5L_DEVICE u32 area_word(u32 at) const {
    return *reinterpret_cast<const u32*>(shared_.area + place_with_gaps(at));
  }

  // Adds to each row but the first what is predicted from the rows above. Rows have `length` words.
  template <class At, class Lane>
  H5L_DEVICE void add_rows(Predictor predictor, u32 length, At at, Lane) const {
    using Word = typename Lane::Word;
    if (predictor == Predictor::three) {
      H5L_NO_UNROLL for (u32 y = 1; y < tile_.rows; ++y) {
        const u32 row = y * length, above = row - length;
        H5L_NO_UNROLL for (u32 x = thread(); x < length; x += kThreads) {
          const Word n = at(above + x);
          const Word nw = Lane::left_of(n, at(above + (x == 0 ? 0 : x - 1)), x == 0);
          const Word ne =
              Lane::right_of(n, at(above + (x + 1 == length ? x : x + 1)), x + 1 == length ? Lane::values : 0);
          at(row + x) = Lane::add(at(row + x), Lane::average(n, Lane::average(nw, ne)));
        }
        sync_block();
      }
    } else if (predictor == Predictor::y || predictor == Predictor::xy) {
      for (u32 x = thread(); x < length; x += kThreads) {
        Word above = at(x);
        u32 i = x;
        H5L_NO_UNROLL for (u32 y = 1; y < tile_.rows; ++y) {
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
    if (!is_stored_) to_values(values);
    return values[0];
  }

  template <u32 n>
  H5L_DEVICE void to_values(W (&words)[n]) const {
    const WordLattice& lattice = shared_.lattice;
    W values[n];
    H5L_UNROLL for (u32 k = 0; k < n; ++k) {
      values[k] = static_cast<W>(static_cast<W>(lattice.origin) + product(words[k], static_cast<W>(lattice.step)));
    }
    H5L_NO_UNROLL for (u32 i = 0; i < lattice.special_count; ++i) {
      const W word = static_cast<W>(lattice.special_words[i]), value = static_cast<W>(lattice.special_values[i]);
      H5L_UNROLL for (u32 k = 0; k < n; ++k) values[k] = words[k] == word ? value : values[k];
    }
    H5L_UNROLL for (u32 k = 0; k < n; ++k) words[k] = values[k];
  }

  // The same for sixteen bytes, most of which have no special word.
  H5L_DEVICE void to_values(LaneWords<kOfPiece>& piece) const {
    const WordLattice& lattice = shared_.lattice;
    bool has_special = false;
    H5L_NO_UNROLL for (u32 i = 0; i < lattice.special_count; ++i) {
      const Packed word = Lanes::repeat(static_cast<W>(lattice.special_words[i]));
      H5L_UNROLL for (u32 k = 0; k < kOfPiece; ++k) has_special |= Lanes::has_zero(piece.words[k] ^ word);
    }
    if (has_special) {
      W values[kPieceBytes / sizeof(W)];
      unpack_piece(bit_cast<Quad>(piece), values);
      to_values(values);
      piece = bit_cast<LaneWords<kOfPiece>>(pack_piece(values));
    } else {
      const W step = static_cast<W>(lattice.step), origin = static_cast<W>(lattice.origin);
      H5L_UNROLL for (u32 k = 0; k < kOfPiece; ++k) piece.words[k] = Lanes::multiply_add(piece.words[k], step, origin);
    }
  }

  // Stores the requested values, one at a time.
  H5L_DEVICE void put() const {
    W* const raw = reinterpret_cast<W*>(raw_of(plan_));
    RowWalk at(tile_.length);
    H5L_NO_UNROLL for (u32 i = thread(); i < tile_.count(); i += kThreads, at.step()) {
      const u64 place = tile_.place(at.y, at.x) - plan_.first;  // wraps to a huge number before the first
      if (place < plan_.wanted) raw[place] = value_of(word(i + at.y * spread_) ^ static_cast<W>(inverted_));
    }
  }

  // Stores the words as values.
  H5L_DEVICE void put_words(W zero) const {
    constexpr u32 n = kPieceBytes / sizeof(W);
    const u64 last = tile_.place(tile_.rows - 1, tile_.length - 1);
    if (tile_.first < plan_.first || last - plan_.first >= plan_.wanted) return put();
    u8* const to = raw_of(plan_) + (tile_.first - plan_.first) * sizeof(W);
    const WordLattice& lattice = shared_.lattice;
    const bool has_step = lattice.step != 1 || lattice.special_count != 0 || static_cast<W>(lattice.origin) != zero;
    const bool are_ranks = is_stored_ || !has_step;
    const Packed flipped = is_stored_ || has_step ? inverted_ : inverted_ ^ Lanes::repeat(zero);
    const auto put_piece = [&](LaneWords<kOfPiece> piece, u8* place) {
      H5L_UNROLL for (u32 k = 0; k < kOfPiece; ++k) piece.words[k] ^= flipped;
      if (!are_ranks) to_values(piece);
      store_streaming(reinterpret_cast<Quad*>(place), bit_cast<Quad>(piece));
    };
    if (tile_.length % n != 0 || spread_ != 0 || tile_.pitch % n != 0 || reinterpret_cast<u64>(to) % kPieceBytes != 0) {
      put_pieces(to, put_piece);
      return put_ends(to);
    }
    const u32 of_row = tile_.length / n, between = (tile_.pitch - tile_.length) * static_cast<u32>(sizeof(W));
    const u32 inverse = (of_row + (1 << 21) - 1) / of_row;  // of numbers up to 2^10, for numbers below that
    for (u32 i = thread(); i < tile_.count() / n; i += kThreads) {
      const u32 y = i * inverse >> 21;
      put_piece(reinterpret_cast<const LaneWords<kOfPiece>&>(word(i * n)), to + (i * kPieceBytes + y * between));
    }
  }

  // Stores sixteen bytes at a time where these are whole in a row, at any alignment.
  template <class Put>
  H5L_DEVICE void put_pieces(u8* to, Put put_piece) const {
    const u32 bytes = tile_.length * static_cast<u32>(sizeof(W));              // of a row
    const u32 apart = (tile_.length + spread_) * static_cast<u32>(sizeof(W));  // from a row to the next
    const u32 of_row = (bytes + 2 * kPieceBytes - 2) / kPieceBytes;            // pieces that a row may overlap
    const RowDivider pieces(of_row);
    H5L_NO_UNROLL for (u32 i = thread(); i < tile_.rows * of_row; i += kThreads) {
      const u32 y = pieces.row(i);
      u8* const row = to + u64{y} * tile_.pitch * sizeof(W);
      const u32 at = (i - y * of_row) * kPieceBytes - static_cast<u32>(reinterpret_cast<u64>(row)) % kPieceBytes;
      if (at >= bytes || bytes - at < kPieceBytes) continue;  // at wraps to a huge number before the row
      const u32 from = y * apart + at;
      u32 words[5];
      H5L_UNROLL for (u32 k = 0; k < 5; ++k) words[k] = area_word((from & ~3u) + 4 * k);
      H5L_UNROLL for (u32 k = 0; k < 4; ++k) words[k] = funnel_right(words[k], words[k + 1], 8 * from);
      put_piece(bit_cast<LaneWords<kOfPiece>>(Quad{words[0], words[1], words[2], words[3]}), row + at);
    }
  }

  // Stores the values at the ends of rows that are not in whole pieces of sixteen bytes.
  H5L_DEVICE void put_ends(u8* to) const {
    constexpr u32 n = kPieceBytes / sizeof(W);
    const u32 length = tile_.length, most = length < n - 1 ? length : n - 1;
    const RowDivider ends(2 * most);
    H5L_NO_UNROLL for (u32 i = thread(); i < tile_.rows * 2 * most; i += kThreads) {
      const u32 y = ends.row(i), number = i - y * 2 * most;
      W* const row = reinterpret_cast<W*>(to) + u64{y} * tile_.pitch;
      const u32 skipped = static_cast<u32>(reinterpret_cast<u64>(row)) % kPieceBytes / static_cast<u32>(sizeof(W));
      const u32 some = (n - skipped) % n, head = some < length ? some : length;
      const u32 rest = (skipped + length) % n, tail = rest < length - head ? rest : length - head;
      const bool is_head = number < most;
      const u32 x = is_head ? number : length - 1 - (number - most);
      if (is_head ? number < head : number - most < tail)
        row[x] = value_of(word(y * (length + spread_) + x) ^ static_cast<W>(inverted_));
    }
  }

  bool is_stored_ = false;
  Packed inverted_ = 0;   // which bits of the words in the area are inverted: all (see add_narrow_rows) or none
  u32 owner_ = thread();  // whose share of the values the thread has
  u32 spread_ = 0;        // values between rows of words, of no use
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
