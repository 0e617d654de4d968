// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The second and third kernels of Interp's decoder: a thread block per tile turns the steps that interp_unpack.cuh left
// into integers, in shared memory (64-bit ones: in the tile's stage), and the integers into values.
//
// In most tiles, 16 bits are enough for integers, so a multiprocessor has room for three such tiles. The second kernel
// decodes these. If a tile turns out to have larger integers, it is left to the third kernel.
//
// Passes with the same number of odd axes do not depend on each other: they form one phase, which ends with a barrier.
// Most passes have few values; the steps of these are first copied to shared memory.
#pragma once

#include "codecs/interp/masks.h"
#include "codecs/interp/units.h"
#include "kernels/codecs/interp_passes.cuh"
#include "kernels/codecs/interp_stage.cuh"
#include "kernels/common/integers.cuh"

namespace h5lossy::H5L_TARGET {

namespace interp {

// Lines to be summed are cut into pieces of this many values; lines with more than one piece have 63 pieces at most,
// all together.
inline constexpr u32 kPieceValues = 1024, kMostPieces = 64;

// The number of steps of the first passes that are copied to shared memory.
inline constexpr u32 kFirstSteps = 1024;

// A mask in coding order, and the number of bits that are not set before each of its words.
struct OrderedMask {
  u32 words[kMaxMaskWords];
  u16 ranks[kMaxMaskWords];
};

struct DecodeShared {
  static constexpr bool kIsShort = false;
  static constexpr u32 kThreadsHere = 512;
  union {  // used one after the other
    alignas(16) i32 integers[kTileValues];
    OrderedMask left_out;
  };
  PassTable passes;
  u32 passes_in_use;
  i32 first_steps[kFirstSteps];
  u64 totals[kMostPieces];
};

struct ShortDecodeShared {
  static constexpr bool kIsShort = true;
  static constexpr u32 kThreadsHere = 256;
  union {  // used one after the other
    alignas(16) i16 integers[kTileValues];
    OrderedMask left_out;
  };
  SmallPassTable passes;
  u32 passes_in_use;
};

// The same for integers.
template <class Shared>
struct WithLattice : Shared {
  WordLattice lattice;
};

// A function, since the compiler cannot tell which memory a reference stored in an object refers to.
template <class Shared>
H5L_DEVICE Shared& decode_shared() {
  return *reinterpret_cast<Shared*>(shared_memory());
}

// A tile's integers, in raster order: 16-bit and 32-bit ones are in shared memory, 64-bit ones in the tile's stage.
template <class Shared>
struct SharedIntegers {
  H5L_DEVICE auto& operator[](u32 i) const { return decode_shared<Shared>().integers[i]; }
};

// Returns false if the integer does not fit.
template <class Shared>
H5L_DEVICE bool put(SharedIntegers<Shared> integers, u32 i, i32 integer) {
  if constexpr (Shared::kIsShort) {
    const i16 half = static_cast<i16>(integer);
    integers[i] = half;
    return half == integer;
  } else {
    integers[i] = integer;
    return true;
  }
}
template <class I>
H5L_DEVICE bool put(I* integers, u32 i, I integer) {
  integers[i] = integer;
  return true;
}

}  // namespace interp

template <>
inline constexpr u32 kThreadsWith<interp::DecodeShared> = interp::DecodeShared::kThreadsHere;
template <>
inline constexpr u32 kThreadsWith<interp::ShortDecodeShared> = interp::ShortDecodeShared::kThreadsHere;
template <class Shared>
inline constexpr u32 kThreadsWith<interp::WithLattice<Shared>> = Shared::kThreadsHere;

namespace interp {

// The bits of an integer's value.
template <class T>
H5L_DEVICE Word<T> bits_of_integer(const Lattice<T>& lattice, Word<T> integer, bool is_fine) {
  const T number = static_cast<T>(static_cast<typename FloatTraits<T>::Int>(integer));
  return bit_cast<Word<T>>(value_of(number, is_fine ? lattice.fine : lattice.step));
}
template <class T>
H5L_DEVICE Word<T> bits_of_point(const OwnLattice& own, Word<T> integer) {
  const double number = static_cast<double>(static_cast<typename FloatTraits<T>::Int>(integer));
  return bit_cast<Word<T>>(own.template value_of<T>(number));
}
template <class T>
H5L_DEVICE Word<T> bits_of_integer(const blocks::FoldedQuantizer<T>& q, Word<T> integer, bool) {
  return blocks::bits_of(q, integer);
}
template <class T>
H5L_DEVICE Word<T> bits_of_integer(const Words<T>&, Word<T> integer, bool) {
  return integer;
}

// The same with a patch, for bins.
template <class T>
H5L_DEVICE Word<T> bits_of_patched(const Lattice<T>& lattice, Word<T> integer, i32 delta) {
  return bits_of_integer(lattice, static_cast<Word<T>>(integer * kUnit + static_cast<Word<T>>(i64{delta})), true);
}
template <class Q, class W>
H5L_DEVICE W bits_of_patched(const Q&, W integer, i32) {
  return integer;  // no bins that have fine points, so there are no patches
}

// The values of words.
template <class T>
class WordValues {
  using W = Word<T>;

 public:
  H5L_DEVICE WordValues(const WordLattice& lattice, u32 value_bytes)
      : lattice_(lattice),
        zero_(static_cast<W>(lattice.zero)),
        step_(static_cast<W>(lattice.step)),
        origin_(static_cast<W>(lattice.origin)),
        mask_(static_cast<W>(~W{0}) >> (8 * (sizeof(W) - value_bytes))),
        specials_(lattice.special_count) {}

  [[nodiscard]] H5L_DEVICE W operator()(W word) const {
    const W rank = (word ^ zero_) & mask_;
    W value = (origin_ + rank * step_) & mask_;
    for (u32 i = 0; i < specials_; ++i) {
      if (rank == static_cast<W>(lattice_.special_words[i])) value = static_cast<W>(lattice_.special_values[i]);
    }
    return value;
  }

 private:
  const WordLattice& lattice_;
  const W zero_, step_, origin_, mask_;
  const u32 specials_;
};

template <class T, class Q, class Shared>
class Decoder {
  using W = Word<T>;
  static constexpr bool kIsShort = Shared::kIsShort, kOfWords = kHasWords<Q>;
  static constexpr u32 kDecodeThreads = Shared::kThreadsHere, kDecodeWarps = kDecodeThreads / kWarpThreads;
  // Warps that make the table of passes.
  static constexpr u32 kTableWarps = kDecodeWarps / 2;

 public:
  H5L_DEVICE Decoder(const DecodePlan& plan, const DecodeJob& job, u32 tile)
      : plan_(plan),
        job_(job),
        tile_(tile),
        place_(place_of(plan, job, tile)),
        shape_(place_.shape),
        by_x_(shape_.extents[3]),
        by_y_(shape_.extents[2]),
        by_z_(shape_.extents[1]),
        value_bytes_(value_bytes_of<T, kOfWords>(plan)) {}

  H5L_DEVICE void decode(const TileSpan& span) {
    const u32 raw_bytes = shape_.count * value_bytes_;
    const u8* const payload = payloads_of(plan_, job_) + span.begin;
    if constexpr (kOfWords) {
      copy_lattice(plan_.lattices + block_row(), decode_shared<Shared>().lattice);
      sync_block();
    }
    // Tiles without codes are not unpacked, so the first kernel leaves nothing for them.
    if (has_codes<T>(span, raw_bytes)) return decode_codes(payload, span.bytes);
    if constexpr (kIsShort) {
      if (thread() == 0) Stage(plan_, job_, tile_, place_).record().is_left = 0;
      if (!span.is_valid || span.bytes > raw_bytes) return report_corrupt(plan_);
      const bool is_even = (span.begin | span.bytes) % 2 == 0, is_stored = span.bytes == raw_bytes;
      if constexpr (kOfWords) {
        add_to_checksum(payload, span.bytes, 0, is_even);
        // Stored tiles of bytes may have odd sizes, and payloads behind them begin at odd addresses. The host reads all
        // but stored bytes there.
        if (!is_even && span.bytes != 0 && !(is_stored && value_bytes_ == 1)) {
          return report(plan_, gpu::DecodeStatus::other);
        }
        if (is_stored) return write_values([&](u32 i) { return stored_value(payload, i); });
      } else {
        if (!is_even) return report_corrupt(plan_);
        add_to_checksum(payload, span.bytes, 0);
        if (is_stored) return write_values([&](u32 i) { return value_at_even<W>(payload + i * sizeof(T)); });
      }
      const W constant = values_of_bits()(span.bytes == 0 ? W{0} : value_at_even<W>(payload));
      write_values([&](u32) { return constant; });
    }
  }

 private:
  // Value i of a tile of integers that is stored.
  [[nodiscard]] H5L_DEVICE W stored_value(const u8* payload, u32 i) const {
    const u8* const at = payload + i * value_bytes_;
    if constexpr (sizeof(W) == 4) {
      return value_bytes_ == 1 ? load_constant(at) : half_at(at);
    } else {
      return value_bytes_ == 4 ? value_at_even<u32>(at) : value_at_even<W>(at);
    }
  }

  template <class V>
  H5L_DEVICE static V value_at_even(const u8* from) {
    V bits = 0;
    H5L_UNROLL for (u32 i = 0; i < sizeof(V); i += 2) bits |= static_cast<V>(half_at(from + i)) << (8 * i);
    return bits;
  }

  // Called by the warps from `first_warp` on. Only payloads of integers may not be even: begin, or end, at an odd
  // address.
  H5L_DEVICE void add_to_checksum(const u8* payload, u32 bytes, u32 first_warp, bool is_even = true) const {
    const u32 own_thread = thread() - first_warp * kWarpThreads, threads = kDecodeThreads - first_warp * kWarpThreads;
    PayloadSum sum(plan_, job_, tile_);
    if (!sum.is_enabled()) return;
    constexpr u32 at_once = 4;
    const u32 words = (bytes + 3) / 4;
    H5L_NO_UNROLL for (u32 first = own_thread; first < words; first += at_once * threads) {
      u32 own[at_once];
      H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
        const u32 at = 4 * (first + k * threads);
        if (!is_even) {
          own[k] = at < bytes ? load_some(payload + at, bytes - at < 4 ? bytes - at : 4) : 0;
          continue;
        }
        own[k] = at < bytes ? half_at(payload + at) : 0;
        if (at + 2 < bytes) own[k] |= half_at(payload + at + 2) << 16;
      }
      H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
        const u32 i = first + k * threads;
        sum.add(own[k], i, i < words);
      }
    }
    sum.finish();
  }

  H5L_DEVICE void decode_codes(const u8* payload, u32 bytes) {
    const Stage stage(plan_, job_, tile_, place_);
    const StageRecord record = stage.record();
    const Head& head = record.head;
    const bool is_narrow = sizeof(T) == 4 || head.is_narrow;
    if constexpr (kIsShort) {
      // Some warps compute the checksum of the payload while the others make the table of passes.
      const bool is_fine =
          record.is_fine != 0 && (kIsLattice<Q> || (!head.is_fine && head.patches == 0 && !head.own_lattice.exists()));
      const bool may_be_short =
          head.predictor != kLorenzo && is_narrow && shape_.axes == axes_in_use() && SmallPassTable::has_room(shape_);
      if (warp() >= kTableWarps || !is_fine || !may_be_short) {
        const u32 first = is_fine && may_be_short ? kTableWarps : 0;
        add_to_checksum(payload, bytes, first);
      }
      if (!is_fine) {
        const bool is_left = kOfWords && are_labels(payload, bytes);  // the host reads these
        return report(plan_, is_left ? gpu::DecodeStatus::other : gpu::DecodeStatus::corrupt);
      }
      if (may_be_short && rebuild_interpolation(stage, record, stage.steps<i32>(), SharedIntegers<Shared>{})) {
        return finish(payload, stage, record, SharedIntegers<Shared>{});
      }
      if (thread() == 0) stage.record().is_left = 1;
    } else {
      if constexpr (sizeof(T) == 8) {
        if (!is_narrow) return rebuild(payload, stage, record, stage.steps<i64>(), stage.integers());
      }
      rebuild(payload, stage, record, stage.steps<i32>(), SharedIntegers<Shared>{});
    }
  }

  // The axes with more than one value.
  [[nodiscard]] H5L_DEVICE u32 axes_in_use() const {
    u32 axes = 0;
    H5L_UNROLL for (u32 a = 0; a < kAxes; ++a) axes |= shape_.extents[a] > 1 ? axis_bit(a) : 0;
    return axes;
  }

  template <class I, class Integers>
  H5L_DEVICE void rebuild(const u8* payload, const Stage& stage, const StageRecord& record, I* steps,
                          Integers integers) {
    const Head& head = record.head;
    if (head.predictor == kLorenzo) {
      rebuild_lorenzo(stage, record, steps, integers);
    } else {
      rebuild_interpolation(stage, record, steps, integers);
    }
    finish(payload, stage, record, integers);
  }

  // From integers to values.
  template <class Integers>
  H5L_DEVICE void finish(const u8* payload, const Stage& stage, const StageRecord& record, Integers integers) {
    const Head& head = record.head;
    const Q q = quantizer_of<T, Q>(job_);
    const auto value_of = values_of_bits();
    const auto integer_at = [&](u32 i) {
      return static_cast<W>(static_cast<typename FloatTraits<T>::Int>(integers[i])) + static_cast<W>(head.base);
    };
    const bool has_own_lattice = head.own_lattice.exists();
    const auto bits_at = [&](u32 i) {
      return has_own_lattice ? bits_of_point<T>(head.own_lattice, integer_at(i))
                             : bits_of_integer(q, integer_at(i), head.is_fine);
    };
    if (head.has_exceptions) {
      write_values([&](u32 i) {
        const u32 w = i / kMaskBits, bit = 1u << i % kMaskBits;
        if ((stage.mask()[w] & bit) == 0) return value_of(bits_at(i));
        const u32 others = stage.others()[w];
        if ((others & bit) == 0) return value_of(static_cast<W>(record.common));
        const u32 rank = stage.ranks()[w] + ones(others & (bit - 1));
        return value_of(value_at_even<W>(payload + record.others_at + rank * record.others_stride));
      });
    } else {
      write_values([&](u32 i) { return value_of(bits_at(i)); });
    }
    if (!kIsLattice<Q> || head.is_closed || head.patches == 0) return;
    sync_block();  // the values that patches replace have been written
    if (warp() != 0) return;
    for_patches_by_warp(payload + record.patches_at, head.patches, shape_.count, [&](u32 i, i32 delta) {
      if (head.has_exceptions && (stage.mask()[i / kMaskBits] >> i % kMaskBits & 1) != 0) return;
      write_value(i, bits_of_patched(q, integer_at(i), delta));
    });
  }

  // -------------------------------------------------------------------------------------------------------------------
  // From steps to integers

  // Only lattices have closed tiles.
  H5L_DEVICE static Grade grade_of_tile(const Head& head) {
    if constexpr (kIsLattice<Q>) return Grade(head.grade);
    return {};
  }

  // Inserts steps of 0 for the exceptions that have no codes. Called by the whole thread block after a barrier, when
  // the passes are known and there are no integers yet; ends with a barrier.
  template <class I>
  H5L_DEVICE void put_back(const Stage& stage, const StageRecord& record, u32 passes, I* steps) {
    const u32 count = shape_.count, words = mask_words(count);
    if (record.codes == count) return;
    OrderedMask& ordered = decode_shared<Shared>().left_out;
    for (u32 w = thread(); w < words; w += kDecodeThreads) ordered.words[w] = 0;
    sync_block();
    for_quads<kDecodeWarps>(decode_shared<Shared>().passes, 0, passes, [&](const Pass& pass, u32 number) {
      PassQuad quad;
      if (!find_quad(pass, number, quad)) return;
      H5L_UNROLL for (u32 j = 0; j < kQuad; ++j) {
        const u32 place = quad.places[j], code = quad.codes[j];
        const bool is_left_out = (stage.mask()[place / kMaskBits] >> place % kMaskBits & 1) != 0;
        // The first value always has a code.
        if (!quad.has(j) || !is_left_out || code == 0) continue;
        atomic_add(ordered.words + code / kMaskBits, 1u << code % kMaskBits);
      }
    });
    sync_block();
    u32 before = 0;
    for (u32 first = 0; warp() == 0 && first < words; first += kWarpThreads) {
      const u32 w = first + lane();
      const u32 own = w < words ? ones(~ordered.words[w] & inside_of(w, count)) : 0;
      const u32 sum = before + scan_of_warp(own);
      before = shuffle(sum, kWarpThreads - 1);
      if (w < words) ordered.ranks[w] = static_cast<u16>(sum - own);
    }
    sync_block();
    // From the end on, so that each step is read before its place is written.
    constexpr u32 at_once = 8, share = at_once * kDecodeThreads;
    H5L_NO_UNROLL for (u32 end = (count + share - 1) / share * share; end != 0; end -= share) {
      I own[at_once];
      H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
        const u32 i = end - share + k * kDecodeThreads + thread(), w = i / kMaskBits, bit = 1u << i % kMaskBits;
        const u32 left_out = i < count ? ordered.words[w] : ~u32{0};
        own[k] = (left_out & bit) != 0 ? I{0} : steps[ordered.ranks[w] + ones(~left_out & (bit - 1))];
      }
      sync_block();
      H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
        const u32 i = end - share + k * kDecodeThreads + thread();
        if (i < count) steps[i] = own[k];
      }
    }
    if (thread() == 0) stage.record().codes = count;  // if the third kernel decodes this tile
    sync_block();
  }

  // False if some integers do not fit.
  template <class I, class Integers>
  H5L_DEVICE bool rebuild_interpolation(const Stage& stage, const StageRecord& record, I* steps, Integers integers) {
    const Head& head = record.head;
    const Rule rule = {{head.weights[0], head.weights[1], head.weights[2]}};
    auto& table = decode_shared<Shared>().passes;
    if (warp() < kTableWarps) {
      const u32 passes = table.begin_interpolation(shape_, rule, thread(), kTableWarps * kWarpThreads);
      if (thread() == 0) decode_shared<Shared>().passes_in_use = passes;
    }
    constexpr bool has_first_steps = sizeof(I) == 4 && !kIsShort;
    const auto copy_first_steps = [&] {
      if constexpr (has_first_steps) {
        for (u32 i = thread(); i < kFirstSteps && i < shape_.count; i += kDecodeThreads) {
          decode_shared<Shared>().first_steps[i] = steps[i];
        }
      }
    };
    if constexpr (!kOfWords) copy_first_steps();
    sync_block();
    const u32 passes = decode_shared<Shared>().passes_in_use;
    if (warp() == 0) table.finish_interpolation(shape_, passes);
    sync_block();
    if constexpr (kOfWords) {
      put_back(stage, record, passes, steps);
      copy_first_steps();
      sync_block();
    }
    // Pass 0: each integer is predicted by the previous one, rounded. That is the sum of all steps before, each
    // rounded.
    const u32 first = table.passes[0].count;
    const Grade grade = grade_of_tile(head);
    if constexpr (!kIsShort) {
      sum_lines<I>(steps, first, 1, Lines{}, [&](Unsigned<I> step) { return grade.rounded(step); });
    }
    if (kIsShort || first == 1) {
      if (thread() == 0) integers[0] = 0;
    } else {
      run_passes<false>(0, 1, grade, steps, steps, integers);
    }
    const I* first_steps = steps;
    if constexpr (has_first_steps) {
      if (first == 1) first_steps = decode_shared<Shared>().first_steps;
    }
    sync_block();
    bool has_room = true;
    for_phases(shape_, passes, [&](u32 from, u32 end) {
      has_room &= run_passes<true>(from, end, grade, steps, first_steps, integers);
    });
    return !kIsShort || !any_in_block(!has_room);
  }

  // Runs passes that do not depend on each other. Without predictions, the steps are the integers. `first_steps` has
  // the steps of the first passes. False if some of the thread's integers do not fit.
  template <bool is_predicted, class I, class Integers>
  H5L_DEVICE bool run_passes(u32 first, u32 end, const Grade& grade, const I* steps, const I* first_steps,
                             Integers integers) {
    using U = Unsigned<I>;
    const auto& table = decode_shared<Shared>().passes;
    bool has_room = true;
    for_quads<kDecodeWarps>(table, first, end, [&](const Pass& pass, u32 number) {
      PassQuad quad;
      if (!find_quad(pass, number, quad)) return;
      const I* const from = !kIsShort && pass.begin + pass.count <= kFirstSteps ? first_steps : steps;
      U sums[kQuad];
      H5L_UNROLL for (u32 j = 0; j < kQuad; ++j) sums[j] = static_cast<U>(from[quad.codes[j]]);
      if constexpr (is_predicted) {
        U predicted[kQuad];
        predict_quad<I>(table, pass, quad, integers, predicted);
        H5L_UNROLL for (u32 j = 0; j < kQuad; ++j) {
          sums[j] += grade.rounded(static_cast<U>(static_cast<I>(predicted[j]) >> 8));
        }
      }
      H5L_UNROLL for (u32 j = 0; j < kQuad; ++j) {
        if (quad.has(j)) has_room &= put(integers, quad.places[j], static_cast<I>(sums[j]));
      }
    });
    return has_room;
  }

  // Lorenzo differences are undone by sums along each of their axes, in any order. Where the coordinates along all
  // these axes are 0, each integer is a difference to the previous one along the last other axis. So these integers are
  // summed first, along one axis after the other.
  template <class I, class Integers>
  H5L_DEVICE void rebuild_lorenzo(const Stage& stage, const StageRecord& record, I* steps, Integers integers) {
    const u32 axes = record.head.lorenzo_axes;
    PassTable& table = decode_shared<Shared>().passes;
    if (thread() == 0) table.make_for_box(shape_);
    sync_block();
    if constexpr (kOfWords) put_back(stage, record, 1, steps);
    run_passes<false>(0, 1, Grade(), steps, steps, integers);
    sync_block();
    const auto as_it_is = [](Unsigned<I> number) { return number; };
    for (u32 a = 0; a < kAxes; ++a) {
      if ((axes & axis_bit(a)) != 0) continue;
      Lines lines;
      for (u32 b = 0; b < a; ++b) {
        if ((axes & axis_bit(b)) == 0) lines.add(shape_.extents[b], shape_.strides[b]);
      }
      sum_lines<I>(integers, shape_.extents[a], shape_.strides[a], lines, as_it_is);
    }
    for (u32 a = 0; a < kAxes; ++a) {
      if ((axes & axis_bit(a)) == 0) continue;
      Lines lines;
      for (u32 b = kAxes; b-- > 0;) {
        if (b != a) lines.add(shape_.extents[b], shape_.strides[b]);
      }
      sum_lines<I>(integers, shape_.extents[a], shape_.strides[a], lines, as_it_is);
    }
  }

  // Lines along one axis. Where they begin depends on up to three other axes.
  struct Lines {
    u32 count = 1;
    u32 extents[kAxes - 1] = {1, 1, 1}, strides[kAxes - 1] = {};
    u32 axes = 0;

    H5L_DEVICE void add(u32 extent, u32 stride) {
      if (extent == 1) return;
      extents[axes] = extent;
      strides[axes++] = stride;
      count *= extent;
    }
    [[nodiscard]] H5L_DEVICE u32 begin(u32 line) const {
      const u32 rest = line / extents[0];
      return line % extents[0] * strides[0] + rest % extents[1] * strides[1] + rest / extents[1] * strides[2];
    }
  };

  // Replaces each of the n numbers of a line by the sum up to it. Of each number, rounded(number) counts in all sums
  // behind it, and the rest only in its own; they are equal unless there is one line, without a stride. Called by the
  // whole thread block after a barrier; ends with a barrier.
  template <class I, class Numbers, class Rounded>
  H5L_DEVICE void sum_lines(Numbers numbers, u32 n, u32 stride, const Lines& lines, Rounded rounded) {
    using U = Unsigned<I>;
    if (n == 1) return;
    if (stride != 1 && lines.count >= kDecodeThreads / 4) {
      for (u32 line = thread(); line < lines.count; line += kDecodeThreads) {
        u32 at = lines.begin(line);
        U sum = static_cast<U>(numbers[at]);
        for (u32 i = 1; i < n; ++i) {
          at += stride;
          sum += static_cast<U>(numbers[at]);
          numbers[at] = static_cast<I>(sum);
        }
      }
      return sync_block();
    }
    const u32 pieces = (n + kPieceValues - 1) / kPieceValues;
    const auto for_pieces = [&](auto visit) {
      for (u32 i = warp(); i < lines.count * pieces; i += kDecodeWarps) {
        const u32 line = i / pieces, piece = i % pieces, first = piece * kPieceValues;
        visit(lines.begin(line), first, first + kPieceValues < n ? first + kPieceValues : n, i, piece);
      }
    };
    for_pieces([&](u32 line, u32 first, u32 end, u32 i, u32) {
      U before = 0;
      for (u32 k = first; k < end; k += kWarpThreads) {
        const u32 at = line + (k + lane()) * stride;
        const U own = k + lane() < end ? static_cast<U>(numbers[at]) : U{0}, step = rounded(own);
        const U sum = before + scan_of_warp(step);
        if (k + lane() < end) numbers[at] = static_cast<I>(sum + (own - step));
        before = shuffle(sum, kWarpThreads - 1);
      }
      if (pieces > 1 && lane() == 0) decode_shared<Shared>().totals[i] = before;
    });
    sync_block();
    if (pieces == 1) return;
    for_pieces([&](u32 line, u32 first, u32 end, u32 i, u32 piece) {
      U before = 0;
      for (u32 k = 1; k <= piece; ++k) before += static_cast<U>(decode_shared<Shared>().totals[i - k]);
      for (u32 k = first + lane(); k < end; k += kWarpThreads) {
        I& number = numbers[line + k * stride];
        number = static_cast<I>(static_cast<U>(number) + before);
      }
    });
    sync_block();
  }

  // -------------------------------------------------------------------------------------------------------------------
  // Values

  // What gives the values of words; the bits of floats are those of values.
  [[nodiscard]] H5L_DEVICE auto values_of_bits() const {
    if constexpr (kOfWords) {
      return WordValues<T>(decode_shared<Shared>().lattice, value_bytes_);
    } else {
      return [](W bits) { return bits; };
    }
  }

  H5L_DEVICE static Quad quad_of(const u32 (&words)[4]) { return {words[0], words[1], words[2], words[3]}; }
  H5L_DEVICE static Quad quad_of(const u64 (&words)[2]) {
    return {static_cast<u32>(words[0]), static_cast<u32>(words[0] >> 32), static_cast<u32>(words[1]),
            static_cast<u32>(words[1] >> 32)};
  }

  // A value's number in the chunk.
  [[nodiscard]] H5L_DEVICE u32 number_of(u32 i) const {
    const u32(&extents)[kAxes] = shape_.extents;
    const u32(&begin)[kAxes] = place_.begin;
    const u32(&dims)[kAxes] = plan_.shape.dims;
    const u32 row = by_x_.quotient(i), slice = by_y_.quotient(row), w = by_z_.quotient(slice);
    const u32 x = i - row * extents[3], y = row - slice * extents[2], z = slice - w * extents[1];
    return (((begin[0] + w) * dims[1] + begin[1] + z) * dims[2] + begin[2] + y) * dims[3] + begin[3] + x;
  }

  H5L_DEVICE void write_value(u32 i, W bits) const {
    const u32 number = number_of(i);
    if (number < plan_.first || number >= plan_.first + plan_.wanted) return;
    u8* const raw = raw_of(plan_);
    const auto write = [&](auto value) { reinterpret_cast<decltype(value)*>(raw)[number - plan_.first] = value; };
    if constexpr (!kOfWords) {
      write(bits);
    } else if constexpr (sizeof(W) == 4) {
      value_bytes_ == 1 ? write(static_cast<u8>(bits)) : write(static_cast<u16>(bits));
    } else {
      value_bytes_ == 4 ? write(static_cast<u32>(bits)) : write(bits);
    }
  }

  // Several values of integers at once, if they fill a word. False if that is not possible.
  template <class Bits>
  H5L_DEVICE bool write_narrow_values(Bits bits) const {
    if (value_bytes_ >= sizeof(u32)) return false;
    const u32 in_word = static_cast<u32>(sizeof(u32)) / value_bytes_;
    const u32 all = shape_.extents[3] | plan_.shape.dims[3] | place_.begin[3];
    u8* const raw = raw_of(plan_);
    if (plan_.wanted != plan_.shape.count || all % in_word != 0 || reinterpret_cast<u64>(raw) % sizeof(u32) != 0) {
      return false;
    }
    H5L_NO_UNROLL for (u32 i = thread() * in_word; i < shape_.count; i += kDecodeThreads * in_word) {
      u32 word = 0;
      H5L_NO_UNROLL for (u32 k = 0; k < in_word; ++k) word |= static_cast<u32>(bits(i + k)) << (8 * k * value_bytes_);
      *reinterpret_cast<u32*>(raw + u64{number_of(i)} * value_bytes_) = word;
    }
    return true;
  }

  // bits(i) returns the bits of value i of the tile.
  template <class Bits>
  H5L_DEVICE void write_values(Bits bits) const {
    if constexpr (kOfWords) {
      if (write_narrow_values(bits)) return;
      H5L_NO_UNROLL for (u32 i = thread(); i < shape_.count; i += kDecodeThreads) write_value(i, bits(i));
      return;
    }
    constexpr u32 in_quad = sizeof(Quad) / sizeof(W);
    W* const raw = reinterpret_cast<W*>(raw_of(plan_));
    const u32 all = shape_.extents[3] | plan_.shape.dims[3] | place_.begin[3];
    const bool in_quads =
        plan_.wanted == plan_.shape.count && all % in_quad == 0 && reinterpret_cast<u64>(raw) % sizeof(Quad) == 0;
    if (!in_quads) {
      H5L_NO_UNROLL for (u32 i = thread(); i < shape_.count; i += kDecodeThreads) write_value(i, bits(i));
      return;
    }
    H5L_NO_UNROLL for (u32 i = thread() * in_quad; i < shape_.count; i += kDecodeThreads * in_quad) {
      W words[in_quad];
      H5L_UNROLL for (u32 k = 0; k < in_quad; ++k) words[k] = bits(i + k);
      store_streaming(reinterpret_cast<Quad*>(raw + number_of(i)), quad_of(words));
    }
  }

  const DecodePlan& plan_;
  const DecodeJob& job_;
  const u32 tile_;
  const TilePlace place_;
  const Shape& shape_;
  const Divisor by_x_, by_y_, by_z_;
  const u32 value_bytes_;
};

template <class T, class Q, class Shared>
H5L_DEVICE void decode(const DecodePlan& plan) {
  DecodeJob job = plan.jobs[block_row()];
  if constexpr (!Shared::kIsShort) {
    if (job.form != plan.form || block_number() >= job.tiles.wanted) return;
    const u32 tile = job.tiles.first + block_number();
    if (Stage(plan, job, tile, place_of(plan, job, tile)).record().is_left == 0) return;
    job.check_table = 0;  // the second kernel has checked it
  }
  for_own_items<1, false>(plan, job, kTileValues * sizeof(T), [&](u32 tile, u32, const TileSpan& span) {
    Decoder<T, Q, Shared>(plan, job, tile).decode(span);
  });
}

}  // namespace interp
}  // namespace h5lossy::H5L_TARGET
