// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The seventh kernel of Interp's encoder: one warp per tile runs its rANS, a chain of steps from the last code to the
// first. It needs little memory, so all tiles of many chunks run at once. Words are written before the escapes, and
// states after the front piece of the payload.
#pragma once

#include "kernels/codecs/interp_tile.cuh"

namespace h5lossy::H5L_TARGET {
namespace interp {

// Symbols are loaded in pieces of this many blocks, one piece ahead.
inline constexpr u32 kSymbolBlocks = 64;

struct CodeShared {
  alignas(16) u8 symbols[2][kSymbolBlocks * kBlockCodes];
  Rate rates[kSymbolTables][kSymbols];
  Rate class_rates[kClassContexts][kClasses];
  u8 classes[kMaxBlocks];
};

}  // namespace interp

template <>
inline constexpr u32 kThreadsWith<interp::CodeShared> = kWarpThreads;

namespace interp {

template <class T>
class TileCoder {
 public:
  H5L_DEVICE TileCoder(const TileStage<T>& stage, u32 count, CodeShared& shared)
      : stage_(stage), shared_(shared), blocks_(blocks_of(count)), plan_(stage.record().plan) {}

  // Returns the size of the payload.
  H5L_DEVICE u32 run() {
    for (u32 b = lane(); b < blocks_; b += kWarpThreads) shared_.classes[b] = stage_.classes()[b];
    if (lane() < kSymbolTables + kClassContexts) {
      const u32 row = lane();
      const bool is_class = row >= kSymbolTables;
      const CodePlan& plan = stage_.record().plan;
      const u16(&frequencies)[kSymbols] = is_class             ? kClassFrequencies[plan.model][row - kSymbolTables]
                                          : plan.has_own_table ? plan.own_table
                                                               : kSymbolFrequencies[plan.set][row];
      make_rates(frequencies, is_class ? shared_.class_rates[row - kSymbolTables] : shared_.rates[row]);
    }
    sync_warp();
    TileRecord& record = stage_.record();
    const u32 lanes = plan_.lanes, halves = borrowed_halves(plan_.raw_words, lanes), end = stage_.payload_bytes();
    u8* const payload = stage_.payload();
    words_ = reinterpret_cast<u16*>(payload + end - 4 * plan_.raw_words - plan_.escapes * plan_.escape_bytes);
    if (lane() < halves) state_ |= *reinterpret_cast<const u16*>(payload + end - kHalfBytes * (halves - lane()));
    const u8* const symbols = stage_.symbols(record.slot);
    lanes == kWarpThreads ? code_symbols(symbols) : code_symbols(symbols, lanes);
    if (!plan_.has_own_table) code_classes(lanes);
    const u32 front = record.front_end;
    if (lane() < lanes) {
      u16* const to = reinterpret_cast<u16*>(payload + front + kStateBytes * lane());
      to[0] = static_cast<u16>(state_);
      to[1] = static_cast<u16>(state_ >> 16);
    }
    const u32 begin = static_cast<u32>(reinterpret_cast<u8*>(words_) - payload);
    const u32 rest_end = end - kHalfBytes * halves, front_end = front + lanes * kStateBytes;
    sync_warp();
    if (lane() == 0) {
      record.front_end = front_end;
      record.rest_begin = begin;
      record.rest_end = rest_end;
    }
    return front_end - record.front_begin + rest_end - begin;
  }

 private:
  H5L_DEVICE void push(const Rate& rate, bool is_there) {
    const bool is_full = is_there && state_ >= rate.limit;
    const u32 full = ballot(is_full);
    words_ -= ones(full);
    if (is_full) {
      words_[ones(full & lanes_below())] = static_cast<u16>(state_);
      state_ >>= 16;
    }
    if (is_there) {
      state_ += rate.sum + static_cast<u32>(state_ * rate.reciprocal >> 43) * (kFrequencySum - rate.frequency);
    }
  }

  // With as many lanes as the warp has. The rates of several blocks are loaded while the previous ones are used, since
  // they do not depend on the states.
  H5L_DEVICE void code_symbols(const u8* symbols) {
    constexpr u32 at_once = 4, groups = kSymbolBlocks / at_once, bytes = kSymbolBlocks * kBlockCodes;
    const auto start = [&](u32 piece) {
      for (u32 i = 16 * lane(); i < bytes; i += 16 * kWarpThreads) {
        copy_async<16>(shared_.symbols[piece % 2] + i, symbols + piece * bytes + i);
      }
      group_copies();
    };
    u32 piece = (blocks_ + kSymbolBlocks - 1) / kSymbolBlocks - 1;
    start(piece);
    for (;; --piece) {
      if (piece != 0) {
        start(piece - 1);
        wait_for_copies_but<1>();
      } else {
        wait_for_copies();
      }
      sync_warp();
      Rate ahead[at_once];
      u32 coded = 0;
      const auto load = [&](u32 group) {
        coded = 0;
        H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
          const u32 i = group * at_once + k, b = piece * kSymbolBlocks + i;
          const u32 c = b < blocks_ ? shared_.classes[b] : 0;
          if (c == 0) continue;
          coded |= 1u << k;
          ahead[k] = shared_.rates[table_of(c)][shared_.symbols[piece % 2][i * kBlockCodes + lane()]];
        }
      };
      load(groups - 1);
      H5L_NO_UNROLL for (u32 group = groups; group-- > 0;) {
        Rate now[at_once];
        const u32 coded_now = coded;
        H5L_UNROLL for (u32 k = 0; k < at_once; ++k) now[k] = ahead[k];
        if (group != 0) load(group - 1);
        H5L_UNROLL for (u32 k = at_once; k-- > 0;) {
          if ((coded_now >> k & 1) != 0) push(now[k], true);
        }
      }
      sync_warp();  // the symbols have been read
      if (piece == 0) return;
    }
  }

  H5L_DEVICE void code_symbols(const u8* symbols, u32 lanes) {
    H5L_NO_UNROLL for (u32 b = blocks_; b-- > 0;) {
      const u32 c = shared_.classes[b];
      if (c == 0) continue;
      const Rate(&rates)[kSymbols] = shared_.rates[table_of(c)];
      H5L_NO_UNROLL for (u32 end = kBlockCodes; end != 0; end -= lanes) {
        push(rates[symbols[b * kBlockCodes + end - lanes + lane() % lanes]], lane() < lanes);
      }
    }
  }

  H5L_DEVICE void code_classes(u32 lanes) {
    const u32 share = (blocks_ + lanes - 1) / lanes;
    H5L_NO_UNROLL for (u32 j = share; j-- > 0;) {
      const u32 b = lane() * share + j;
      const bool is_there = lane() < lanes && b < blocks_;
      const u32 context = is_there && j != 0 ? shared_.classes[b - 1] : kClassContexts - 1;
      push(shared_.class_rates[context][is_there ? shared_.classes[b] : 0], is_there);
    }
  }

  const TileStage<T>& stage_;
  CodeShared& shared_;
  const u32 blocks_;
  const CodePlan plan_;
  u32 state_ = kFirstState;
  u16* words_ = nullptr;
};

template <class T, bool has_words>
H5L_DEVICE void code_tiles(const StagedPlan& plan) {
  for_tiles<has_words>(plan, [&](u32 chunk, u32 tile, const TilePlace& place, const Quantizer&, u32) {
    const TileStage<T> stage(plan, chunk, tile);
    TileRecord& record = stage.record();
    const TileKind kind = record.kind;
    u32 size = place.shape.count * (has_words ? plan.finish.value_bytes : static_cast<u32>(sizeof(T)));  // stored
    const auto shrink_to = [&](u32 coded) {
      sync_warp();  // the kind has been read
      if (coded >= size && lane() == 0) record.kind = TileKind::stored;
      size = coded < size ? coded : size;
    };
    if (kind == TileKind::constant) shrink_to(record.constant == 0 ? 0 : static_cast<u32>(sizeof(T)));
    if (kind == TileKind::coded) {
      auto& shared = *reinterpret_cast<CodeShared*>(shared_memory());
      shrink_to(TileCoder<T>(stage, has_words ? record.codes : place.shape.count, shared).run());
    }
    if (lane() == 0) plan.sizes[chunk * plan.most_tiles + tile] = size;
  });
}

}  // namespace interp
}  // namespace h5lossy::H5L_TARGET
