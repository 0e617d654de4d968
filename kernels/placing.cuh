// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Where encoded tiles go. Their places follow from the sizes of all tiles before them in the chunk, which other thread
// blocks find out at the same time. Each item's size is published as soon as it is known, in a word of its own; a thread
// block then places the item that it encoded *before* the last one, whose predecessors have mostly been published by then:
// the sizes in between, added to the end of the last item that it placed.
//
// All thread blocks must run at the same time (a cooperative launch), and take the items one after the other, in steps of
// the grid. A thread block waits only for sizes that are published before their owners wait for anything later, so nobody
// waits for ever.
#pragma once

#include "vocabulary.cuh"

namespace h5lossy::H5L_TARGET {

using gpu::EncodePlan;

// Marks a published size; the others are below it.
inline constexpr u32 kPublishedSize = u32{1} << 31;

// `found` is what the word was a moment ago.
H5L_DEVICE u64 wait_for(const u64* word, u64 found) {
  while ((found & kPublished) == 0) {
    wait_a_little();
    found = load_relaxed(word);
  }
  return found;
}

H5L_DEVICE u64 wait_for(const u64* word) { return wait_for(word, load_relaxed(word)); }

// Sum of four sizes, those of them that `wanted` has bits for. `found` is what they were a moment ago.
H5L_DEVICE u32 wait_for_four(const u32* sizes, u32 wanted, Quad found) {
  const u32 x = (wanted & 1) != 0 ? kPublishedSize : 0, y = (wanted & 2) != 0 ? kPublishedSize : 0;
  const u32 z = (wanted & 4) != 0 ? kPublishedSize : 0, w = (wanted & 8) != 0 ? kPublishedSize : 0;
  while ((found.x & x) != x || (found.y & y) != y || (found.z & z) != z || (found.w & w) != w) {
    wait_a_little();
    found = load_relaxed_four(sizes);
  }
  return (x != 0 ? found.x : 0) % kPublishedSize + (y != 0 ? found.y : 0) % kPublishedSize +
         (z != 0 ? found.z : 0) % kPublishedSize + (w != 0 ? found.w : 0) % kPublishedSize;
}

H5L_DEVICE const Quantizer& quantizer_of(const EncodePlan& plan, u32 chunk) {
  return plan.quantizers == nullptr ? plan.quantizer : plan.quantizers[chunk];
}

H5L_DEVICE const u8* raw_of(const EncodePlan& plan, u32 chunk) { return plan.raw + chunk * plan.raw_stride; }
H5L_DEVICE u8* frame_of(const EncodePlan& plan, u32 chunk) { return plan.frames + chunk * plan.frame_stride; }

// An item, and where it is. A thread block goes from one to the next in steps of the grid, without dividing.
struct Spot {
  u32 item, chunk, index;  // the item of all, its chunk, and its number in there
};

H5L_DEVICE Spot step(const EncodePlan& plan, Spot spot) {
  spot.item += grid_blocks();
  spot.chunk += plan.chunk_step;
  spot.index += plan.index_step;
  if (spot.index >= plan.items_per_chunk) {
    spot.index -= plan.items_per_chunk;
    ++spot.chunk;
  }
  return spot;
}

// From a spot on, the first one in a chunk that this kernel is for; behind the last chunk there is none.
template <bool is_lossless>
H5L_DEVICE Spot skip_others(const EncodePlan& plan, Spot spot) {
  if (plan.quantizers == nullptr) return spot;  // all chunks are
  while (spot.chunk < plan.chunks && (plan.quantizers[spot.chunk].kind == BoundKind::lossless) != is_lossless) {
    spot = step(plan, spot);
  }
  return spot;
}

template <bool is_lossless>
H5L_DEVICE Spot first_spot(const EncodePlan& plan) {
  const u32 item = block_number();
  return skip_others<is_lossless>(plan, {item, item / plan.items_per_chunk, item % plan.items_per_chunk});
}
template <bool is_lossless>
H5L_DEVICE Spot next_spot(const EncodePlan& plan, const Spot& spot) {
  return skip_others<is_lossless>(plan, step(plan, spot));
}

// Stores `bytes` of a payload, as words from number `first_word` of it on, and adds them to the checksum. word(i) is the
// i-th one; what it has behind the end counts for nothing.
template <class Word>
H5L_DEVICE void emit(u8* to, u32 bytes, u32 first_word, u32 tile, u32& sum, Word word) {
  const u32 whole = bytes / 4, rest = bytes % 4;
  const u32 head = static_cast<u32>(0 - reinterpret_cast<u64>(to)) & 3;  // bytes up to an aligned word
  const u32 first_salt = tile * 0x85EBCA77u + (first_word + 1) * 0x9E3779B9u;
  u32 salt = first_salt + thread() * 0x9E3779B9u;
  if (head == 0) {
    u32* out = reinterpret_cast<u32*>(to) + thread();
    for (u32 i = thread(); i < whole; i += kThreads, out += kThreads, salt += kThreads * 0x9E3779B9u) {
      const u32 own = word(i);
      *out = own;
      sum += mix(own + salt);
    }
  } else {
    u32* out = reinterpret_cast<u32*>(to + head) + thread();
    const u32 aligned = bytes < head ? 0 : (bytes - head) / 4;  // words of the target: as many as `whole`, or one less
    for (u32 i = thread(); i < whole; i += kThreads, out += kThreads, salt += kThreads * 0x9E3779B9u) {
      const u32 own = word(i);
      if (i < aligned) *out = funnel_right(own, word(i + 1), 8 * head);
      sum += mix(own + salt);
    }
    const u32 last = head + 4 * aligned;
    if (thread() < head && thread() < bytes) to[thread()] = static_cast<u8>(word(0) >> (8 * thread()));
    if (bytes > head && last + thread() < bytes) {
      const u32 at = last + thread();
      to[at] = static_cast<u8>(word(at / 4) >> (8 * (at % 4)));
    }
  }
  if (rest != 0 && thread() == 0) {
    const u32 own = word(whole) & ((u32{1} << (8 * rest)) - 1);
    sum += mix(own + first_salt + whole * 0x9E3779B9u);
    for (u32 b = 0; head == 0 && b < rest; ++b) to[4 * whole + b] = static_cast<u8>(own >> (8 * b));
  }
}

H5L_DEVICE void add_checksum(const EncodePlan& plan, u32 chunk, u32 sum) {
  if (plan.with_checksum == 0) return;
  sum = sum_of_warp(sum);
  if (lane() == 0) atomic_add(plan.sums + chunk, sum);
}

// Where a tile's payload begins in its chunk's frame; null where the frame will not shrink, so that nothing is to be
// written. Writes the tile table; of a tile's parts, the first does.
H5L_DEVICE u8* place_tile(const EncodePlan& plan, u32 chunk, u32 tile, u32 begin, u32 end, bool is_first = true) {
  u8* const frame = frame_of(plan, chunk);
  const u64 payload_at = plan.header_bytes + u64{4} * plan.shape.tiles;
  if (payload_at + end >= u64{40} + plan.shape.raw_bytes) {
    if (is_first && thread() == 0 && tile + 1 == plan.shape.tiles) plan.totals[chunk] = end;
    return nullptr;
  }
  if (is_first && thread() == 0) {
    *reinterpret_cast<u32*>(frame + plan.header_bytes + u64{4} * tile) = end;
    // In the header's checksum its own word is left out.
    atomic_add(plan.table_sums + chunk, mix(end + (plan.header_bytes / 4 + tile) * 0x9E3779B9u));
    if (tile + 1 == plan.shape.tiles) plan.totals[chunk] = end;
  }
  return frame + payload_at + begin;
}

// The places of a thread block's items, where an item is a tile.
class TilePlaces {
 public:
  // Where an item of so many bytes begins in its chunk's payload. All threads call it; `totals` are kWarps words of shared
  // memory.
  H5L_DEVICE u32 begin_of(const EncodePlan& plan, const Spot& spot, u32 bytes, u32* totals) {
    const u32 item = spot.item, first = item - spot.index;
    const bool knows = known_item_ > first && known_item_ <= item;  // of the same chunk
    const u32 begin_item = knows ? known_item_ : first;
    u32 sum = 0;
    // Four sizes at once, and as many loads under way as a grid's worth of them takes.
    constexpr u32 in_flight = 2;
    for (u32 i = begin_item / 4 * 4; i < item; i += in_flight * 4 * kThreads) {
      Quad found[in_flight];
      H5L_UNROLL for (u32 k = 0; k < in_flight; ++k) {
        const u32 at = i + 4 * (k * kThreads + thread());
        found[k] = at < item ? load_relaxed_four(plan.sizes + at) : Quad{};
      }
      H5L_UNROLL for (u32 k = 0; k < in_flight; ++k) {
        const u32 at = i + 4 * (k * kThreads + thread());
        if (at >= item) continue;
        u32 wanted = item - at < 4 ? (u32{1} << (item - at)) - 1 : 15;
        if (at < begin_item) wanted &= 15u << (begin_item - at);
        sum += wait_for_four(plan.sizes + at, wanted, found[k]);
      }
    }
    sum = sum_of_warp(sum);
    if (lane() == 0) totals[warp()] = sum;
    sync_block();
    u32 begin = knows ? known_end_ : 0;
    H5L_UNROLL for (u32 w = 0; w < kWarps; ++w) begin += totals[w];
    known_item_ = item + 1;  // the next one's place is counted from here
    known_end_ = begin + bytes;
    return begin;
  }

 private:
  u32 known_item_ = 0;  // the item whose begin is known; 0: none
  u32 known_end_ = 0;
};

}  // namespace h5lossy::H5L_TARGET
