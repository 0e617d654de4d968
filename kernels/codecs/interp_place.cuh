// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The last kernels of Interp's encoder: they copy payloads to their places in the frames, and then write the headers.
#pragma once

#include "kernels/codecs/interp_tile.cuh"
#include "kernels/common/frame_header.cuh"

namespace h5lossy::H5L_TARGET::interp {

// The payload of a tile, as 16-bit halves.
template <class T, bool has_words>
class TilePayload {
  using W = Word<T>;

 public:
  H5L_DEVICE TilePayload(const StagedPlan& plan, u32 chunk, const TileStage<T>& stage, const TileValues<T>& values)
      : plan_(plan),
        chunk_(chunk),
        kind_(stage.record().kind),
        constant_(static_cast<W>(stage.record().constant)),
        front_((stage.record().front_end - stage.record().front_begin) / 2),
        first_(reinterpret_cast<const u16*>(stage.payload() + stage.record().front_begin)),
        rest_(reinterpret_cast<const u16*>(stage.payload() + stage.record().rest_begin)),
        values_(values) {}

  [[nodiscard]] H5L_DEVICE u32 half(u32 i) const {
    constexpr u32 halves = sizeof(T) / 2;
    if (kind_ == TileKind::coded) return i < front_ ? first_[i] : rest_[i - front_];
    if (has_words && kind_ == TileKind::stored) return byte(2 * i) | byte(2 * i + 1) << 8;
    const W bits = kind_ == TileKind::constant ? constant_ : values_.bits(i / halves);
    return static_cast<u16>(bits >> 16 * (i % halves));
  }

 private:
  // A byte of a stored tile of integers; 0 behind its end. Values are where their words are.
  [[nodiscard]] H5L_DEVICE u32 byte(u32 i) const {
    const u32 bytes = plan_.finish.value_bytes, value = i / bytes;
    if (value >= values_.count()) return 0;
    const u64 place =
        static_cast<u64>(values_.at(value) - reinterpret_cast<const W*>(encoded_of<has_words>(plan_, chunk_)));
    return raw_of(plan_.finish.encode, chunk_)[place * bytes + i % bytes];
  }

  const StagedPlan& plan_;
  const u32 chunk_;
  const TileKind kind_;
  const W constant_;
  const u32 front_;
  const u16* const first_;
  const u16* const rest_;
  const TileValues<T>& values_;
};

// Whether a frame of this size is what the chunk gets. The host may find a smaller one of another codec for floats; if
// there is none, the chunk may still be stored.
template <bool has_words>
H5L_DEVICE bool is_kept(u64 frame_bytes, u64 raw_bytes) {
  return frame_bytes < kHeaderBytes + raw_bytes && (has_words || !saves_little(frame_bytes, raw_bytes));
}

// The launch has a column of thread blocks per chunk (block_row).
template <class T, bool has_words>
H5L_DEVICE void place_tiles(const StagedPlan& plan) {
  const gpu::EncodePlan& encode = plan.finish.encode;
  u32* const totals = reinterpret_cast<FinishShared*>(shared_memory())->totals;
  const u32 chunk = block_row();
  if (is_skipped<has_words>(plan.quantizers[chunk])) return;
  const ChunkForm form = plan.forms[chunk];
  const u32* const sizes = plan.sizes + u64{chunk} * plan.most_tiles;
  const u64 payload_at = encode.header_bytes + u64{kTileEntryBytes} * form.tiles;
  u8* const frame = frame_of(encode, chunk);
  H5L_NO_UNROLL for (u32 tile = block_number(); tile < form.tiles; tile += grid_blocks()) {
    u32 before = 0, behind = 0, begin = 0, rest = 0;
    for (u32 i = thread(); i < form.tiles; i += kThreads) (i < tile ? before : behind) += sizes[i];
    sync_block();
    scan_of_block(before, totals, begin);
    sync_block();
    scan_of_block(behind, totals, rest);
    const u32 bytes = sizes[tile], end = begin + bytes, all = begin + rest;
    if (tile == 0 && thread() == 0) encode.totals[chunk] = all;
    if (!is_kept<has_words>(payload_at + all, encode.shape.raw_bytes)) return;
    const TilePlace place = place_of(plan, form, tile);
    const TileValues<T> values(encoded_of<has_words>(plan, chunk), encode.shape.dims, place);
    const TilePayload<T, has_words> payload(plan, chunk, TileStage<T>(plan, chunk, tile), values);
    u16* const to = reinterpret_cast<u16*>(frame + payload_at + begin);
    u32 sum = 0;
    H5L_NO_UNROLL for (u32 i = thread(); i < (bytes + 3) / 4; i += kThreads) {
      const bool has_both = 4 * i + 2 < bytes;
      const u32 low = payload.half(2 * i), high = has_both ? payload.half(2 * i + 1) : 0;
      if constexpr (has_words) {  // stored tiles may have an odd number of bytes
        const u32 size = bytes - 4 * i < 4 ? bytes - 4 * i : 4;
        store_some(frame + payload_at + begin + 4 * i, size, low | high << 16);
      } else {
        to[2 * i] = static_cast<u16>(low);
        if (has_both) to[2 * i + 1] = static_cast<u16>(high);
      }
      sum += checksum_share(low | high << 16, tile, i);
    }
    sum = sum_of_warp(sum);
    if (encode.with_checksum != 0 && lane() == 0) atomic_add(encode.sums + chunk, sum);
    if (thread() != 0) continue;
    reinterpret_cast<u32*>(frame + encode.header_bytes)[tile] = end;
    atomic_add(encode.table_sums + chunk, table_sum_share(end, encode.header_bytes, tile));
  }
}

// Does what finish_frames does, for chunks whose tiles and modes differ.
template <bool has_words>
H5L_DEVICE void finish(const StagedPlan& plan) {
  gpu::FinishPlan own = plan.finish;
  const u32 chunk = block_row();
  const ChunkForm form = plan.forms[chunk];
  const u64 bytes = own.encode.header_bytes + u64{kTileEntryBytes} * form.tiles + own.encode.totals[chunk];
  bool is_left = !is_skipped<has_words>(plan.quantizers[chunk]) && saves_little(bytes, own.encode.shape.raw_bytes);
  if constexpr (has_words) is_left = plan.are_left[chunk] != 0;
  if (is_left) {
    if (block_number() == 0 && thread() == 0) own.frame_bytes[chunk] = 0;
    return;
  }
  own.encode.quantizers = plan.quantizers;
  own.encode.mode = form.mode;
  own.encode.shape.tiles = form.tiles;
  finish_frames<false, has_words>(own);
}

}  // namespace h5lossy::H5L_TARGET::interp
