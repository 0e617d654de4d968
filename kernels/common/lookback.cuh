// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Decoupled look-back: where encoded tiles go. A tile's offset is the sum of the sizes of all earlier tiles of its
// chunk, which other thread blocks encode at the same time. Each tile publishes its size in a word of its own as soon
// as it is known, and adds it to the sum of its group of 32 tiles. A thread block places a tile only after it has
// encoded a few later ones, when most predecessors have been published: it adds a few sums and sizes to the end of the
// last tile that it placed.
//
// All thread blocks must be resident (a cooperative launch), and each takes every n-th item. A thread block waits
// only for sizes of earlier items, which their owners publish before they wait for anything later, so there is no
// deadlock.
#pragma once

#include "frame/header.h"
#include "kernels/common/device_primitives.cuh"

namespace h5lossy::H5L_TARGET {

using gpu::EncodePlan;

// A size is at most 2^15 bytes, so the sum of a group is below 2^26. The highest bit marks a complete word: sizes are
// stored with it, and a group's sum gets it when 32 tiles have added kOneOfGroup.
using gpu::kGroupTiles;
inline constexpr u32 kComplete = u32{1} << 31;
inline constexpr u32 kOneOfGroup = kComplete / kGroupTiles;

// Polls until the word is published; `found` is its last value.
H5L_DEVICE u64 wait_for(const u64* word, u64 found) {
  while ((found & kPublished) == 0) {
    wait_a_little();
    found = load_relaxed(word);
  }
  return found;
}

H5L_DEVICE u64 wait_for(const u64* word) { return wait_for(word, load_relaxed(word)); }

H5L_DEVICE const Quantizer& quantizer_of(const EncodePlan& plan, u32 chunk) {
  return plan.quantizers == nullptr ? plan.quantizer : plan.quantizers[chunk];
}

H5L_DEVICE const u8* raw_of(const EncodePlan& plan, u32 chunk) { return plan.raw + chunk * plan.raw_stride; }
H5L_DEVICE u8* frame_of(const EncodePlan& plan, u32 chunk) { return plan.frames + chunk * plan.frame_stride; }

// An item and its position. A thread block goes from one to the next in steps of the grid, without dividing.
struct WorkItem {
  u32 item, chunk, index;  // the item's number in the batch, its chunk, and its number in the chunk
};

H5L_DEVICE WorkItem step(const EncodePlan& plan, WorkItem work) {
  work.item += grid_blocks();
  work.chunk += plan.chunk_step;
  work.index += plan.index_step;
  if (work.index >= plan.items_per_chunk) {
    work.index -= plan.items_per_chunk;
    ++work.chunk;
  }
  return work;
}

// The first item at or after `work` in a chunk that this kernel encodes. If there is none, its chunk is past the last
// one.
template <bool is_lossless>
H5L_DEVICE WorkItem skip_others(const EncodePlan& plan, WorkItem work) {
  if (plan.quantizers == nullptr) return work;  // this kernel encodes all chunks
  while (work.chunk < plan.chunks && (plan.quantizers[work.chunk].kind == BoundKind::lossless) != is_lossless) {
    work = step(plan, work);
  }
  return work;
}

template <bool is_lossless>
H5L_DEVICE WorkItem first_item(const EncodePlan& plan) {
  const u32 item = block_number();
  return skip_others<is_lossless>(plan, {item, item / plan.items_per_chunk, item % plan.items_per_chunk});
}
template <bool is_lossless>
H5L_DEVICE WorkItem next_item(const EncodePlan& plan, const WorkItem& work) {
  return skip_others<is_lossless>(plan, step(plan, work));
}

// A tile (or part of one) of a thread block, and the place of its payload in the staging ring.
struct OwnTile {
  const u8* values;
  u32 raw_bytes;
  WorkItem work;
  u32 bytes;  // of the payload
  u32 at;
};

// Copies `bytes` of a payload, from word `first_word` on, and returns their checksum. Bytes of the last word past the
// end are not included.
H5L_DEVICE u32 emit(u8* to, const u32* words, u32 bytes, u32 first_word, u32 tile) {
  constexpr u32 at_once = 4;  // words of a thread
  const u32 whole = bytes / 4, rest = bytes % 4;
  const u32 head = static_cast<u32>(0 - reinterpret_cast<u64>(to)) & 3;  // bytes before the first aligned word
  const u32 first_salt = salt_of(tile, first_word);
  u32 salt = first_salt + thread() * kWordSalt;
  u32* out = reinterpret_cast<u32*>(to + head) + thread();
  u32 sum = 0;
  const u32 aligned = bytes < head ? 0 : (bytes - head) / 4;  // aligned words of the target: `whole`, or one less
  u32 i = thread();
  H5L_NO_UNROLL for (; i + (at_once - 1) * kThreads < whole; i += at_once * kThreads) {
    u32 own[at_once];
    H5L_UNROLL for (u32 k = 0; k < at_once; ++k) own[k] = words[i + k * kThreads];
    H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
      const u32 at = i + k * kThreads, next = head != 0 && at < aligned ? words[at + 1] : 0;
      if (at < aligned) out[k * kThreads] = funnel_right(own[k], next, 8 * head);
      sum += mix(own[k] + (salt + k * kThreads * kWordSalt));
    }
    out += at_once * kThreads;
    salt += at_once * kThreads * kWordSalt;
  }
  H5L_NO_UNROLL for (; i < whole; i += kThreads) {
    const u32 own = words[i];
    if (i < aligned) *out = head != 0 ? funnel_right(own, words[i + 1], 8 * head) : own;
    sum += mix(own + salt);
    out += kThreads;
    salt += kThreads * kWordSalt;
  }
  if (head != 0) {
    const u32 last = head + 4 * aligned;
    if (thread() < head && thread() < bytes) to[thread()] = static_cast<u8>(words[0] >> (8 * thread()));
    if (bytes > head && last + thread() < bytes) {
      const u32 at = last + thread();
      to[at] = static_cast<u8>(words[at / 4] >> (8 * (at % 4)));
    }
  }
  if (rest != 0 && thread() == 0) {
    const u32 own = words[whole] & ((u32{1} << (8 * rest)) - 1);
    sum += mix(own + first_salt + whole * kWordSalt);
    for (u32 b = 0; head == 0 && b < rest; ++b) to[4 * whole + b] = static_cast<u8>(own >> (8 * b));
  }
  return sum;
}

// Copies the whole payload of a tile from `staged`.
H5L_DEVICE u32 emit(u8* to, const OwnTile& tile, const u8* staged) {
  return emit(to, reinterpret_cast<const u32*>(staged), tile.bytes, 0, tile.work.index);
}

// Adds the sums that a thread block has collected for a chunk: payload checksum and tile table. Atomic additions of
// every tile to one address would serialize. Resets the first thread's `table_sum`.
H5L_DEVICE void add_sums(const EncodePlan& plan, u32 chunk, u32 sum, u32& table_sum) {
  sum = sum_of_warp(sum);
  if (plan.with_checksum != 0 && lane() == 0) atomic_add(plan.sums + chunk, sum);
  if (thread() != 0) return;
  atomic_add(plan.table_sums + chunk, table_sum);
  table_sum = 0;
}

// Returns where a tile's payload goes, or null if the frame will not shrink and nothing is written. Writes the tile
// table, and adds the entry to its sum; if a tile has several parts, only its first part does this.
H5L_DEVICE u8* place_tile(const EncodePlan& plan, u32 chunk, u32 tile, u32 begin, u32 end, u32& table_sum,
                          bool is_first = true) {
  u8* const frame = frame_of(plan, chunk);
  const u64 payload_at = plan.header_bytes + u64{kTileEntryBytes} * plan.shape.tiles;
  if (payload_at + end >= u64{kHeaderBytes} + plan.shape.raw_bytes) {
    if (is_first && thread() == 0 && tile + 1 == plan.shape.tiles) plan.totals[chunk] = end;
    return nullptr;
  }
  if (is_first && thread() == 0) {
    *reinterpret_cast<u32*>(frame + plan.header_bytes + u64{kTileEntryBytes} * tile) = end;
    table_sum += table_sum_share(end, plan.header_bytes, tile);
    if (tile + 1 == plan.shape.tiles) plan.totals[chunk] = end;
  }
  return frame + payload_at + begin;
}

// Called by one thread.
H5L_DEVICE void publish_size(const EncodePlan& plan, OwnTile& tile, u32 bytes) {
  const WorkItem& work = tile.work;
  tile.bytes = bytes;
  store_relaxed(plan.sizes + work.item, kComplete | bytes);
  atomic_add(plan.group_sums + work.chunk * plan.groups_per_chunk + work.index / kGroupTiles, kOneOfGroup | bytes);
}

// Finds the offsets of a thread block's tiles. Called by one warp, with its state in shared memory.
class TilePlaces {
 public:
  struct Shared {
    u32 known_item;  // one past the last item placed; 0: none
    u32 known_end;
    u32 begin;  // offset of the last item placed
  };

  H5L_DEVICE explicit TilePlaces(Shared& shared) : shared_(shared) {
    if (thread() == 0) shared_.known_item = 0;
  }

  // Prefetches the words that a tile's offset depends on; find() waits for them. Call it early enough to hide their
  // latency.
  H5L_DEVICE void prefetch(const EncodePlan& plan, const WorkItem& work) {
    const Words words(plan, work, shared_);
    head_ = words.load_head();
    sum_ = words.load_sum(words.first_group);
    tail_ = words.load_tail();
  }

  // Computes the tile's offset in its chunk's payload.
  H5L_DEVICE void find(const EncodePlan& plan, const OwnTile& tile) {
    const Words words(plan, tile.work, shared_);
    while ((head_ & sum_ & tail_ & kComplete) == 0) {
      wait_a_little();
      if ((head_ & kComplete) == 0) head_ = words.load_head();
      if ((sum_ & kComplete) == 0) sum_ = words.load_sum(words.first_group);
      if ((tail_ & kComplete) == 0) tail_ = words.load_tail();
    }
    u32 sum = head_ % kOneOfGroup + sum_ % kOneOfGroup + tail_ % kOneOfGroup;
    for (u32 group = words.first_group + kWarpThreads; group < words.end_group; group += kWarpThreads) {
      u32 found = words.load_sum(group);
      while ((found & kComplete) == 0) {
        wait_a_little();
        found = words.load_sum(group);
      }
      sum += found % kOneOfGroup;
    }
    const u32 begin = words.known_end + sum_of_warp(sum);
    sync_warp();  // all lanes have read the state
    if (lane() != 0) return;
    shared_.begin = begin;
    shared_.known_item = tile.work.item + 1;  // the look-back of the next tile ends here
    shared_.known_end = begin + tile.bytes;
  }

 private:
  // The words to add: a lane has at most one size before the first whole group, and one after the last.
  struct Words {
    H5L_DEVICE Words(const EncodePlan& plan, const WorkItem& work, const Shared& shared) {
      const u32 first = work.item - work.index, known = shared.known_item;
      const bool is_same_chunk = known > first && known <= work.item;  // the last item placed is in the same chunk
      const u32 begin = is_same_chunk ? known - first : 0;
      known_end = is_same_chunk ? shared.known_end : 0;
      first_group = (begin + kGroupTiles - 1) / kGroupTiles;
      end_group = work.index / kGroupTiles;
      const u32 whole = first_group * kGroupTiles;
      const u32 head_end = work.index < whole ? work.index : whole;
      const u32 tail_begin = work.index < whole ? work.index : end_group * kGroupTiles;
      sizes = plan.sizes + first + lane();
      sums = plan.group_sums + work.chunk * plan.groups_per_chunk + lane();
      head = begin + lane() < head_end ? begin : kNone;
      tail = tail_begin + lane() < work.index ? tail_begin : kNone;
    }

    [[nodiscard]] H5L_DEVICE u32 load_head() const { return head == kNone ? kComplete : load_relaxed(sizes + head); }
    [[nodiscard]] H5L_DEVICE u32 load_tail() const { return tail == kNone ? kComplete : load_relaxed(sizes + tail); }
    [[nodiscard]] H5L_DEVICE u32 load_sum(u32 group) const {
      return group + lane() < end_group ? load_relaxed(sums + group) : kComplete;
    }

    static constexpr u32 kNone = ~u32{0};
    const u32* sizes;
    const u32* sums;
    u32 head, tail, first_group, end_group, known_end;
  };

  Shared& shared_;
  u32 head_ = kComplete, sum_ = kComplete, tail_ = kComplete;
};

// ---------------------------------------------------------------------------------------------------------------------
// The loop of a thread block over its tiles

// Tiles of a thread block in flight: those that wait in the ring, the current and the next one. A power of two.
inline constexpr u32 kLoopTiles = 8;

// State of the thread block. It is in shared memory, since values need the registers.
template <class Places>
struct LoopShared {
  typename Places::Shared places;
  OwnTile tiles[kLoopTiles];  // tile i of the thread block is at i % kLoopTiles
  // Accessed by the first thread, for the chunk of the current checksums. Aligned, since compilers would load its
  // neighbours with it.
  alignas(16) u32 table_sum;
};

// The staging area is a ring of payloads. Returns where `room` bytes fit, if the newest payload ends at `head` and the
// oldest begins at `tail`, or kNoRoom. All are multiples of 16.
inline constexpr u32 kNoRoom = ~u32{0};
H5L_DEVICE u32 place_in_ring(u32 head, u32 tail, u32 room, u32 size) {
  if (head <= tail) return head + room <= tail ? head : kNoRoom;
  if (head + room <= size) return head;
  return room <= tail ? 0 : kNoRoom;
}

// Each tile is measured, its size published, and its payload written to the ring. When enough payloads wait there, the
// oldest one is copied to its place in the frame. If the ring is full, the oldest is copied first, and the words of the
// new tile are stashed in its row of values meanwhile, so that they take no registers during the copy.
//
// The time per tile varies. The more tiles wait, the less a thread block stalls for earlier ones, but the ring must
// hold them and one more.
//
// An Encoder has
// - Places, kMostWaiting (tiles) and kRoom (bytes of the ring; enough for any payload);
// - find_values(tile); start(tile), which starts to load them; measure(tile), whose result is valid in the first thread
//   and is passed to publish(tile, result); and room(), the size of the measured payload, rounded up to 16 bytes;
// - stash() and unstash(), write(tile, at), and emit(tile, table_sum), which returns a checksum.
template <bool is_lossless, class Encoder>
H5L_DEVICE void encode_tiles(const EncodePlan& plan, Encoder& encoder, LoopShared<typename Encoder::Places>& shared) {
  static_assert(Encoder::kMostWaiting + 2 <= kLoopTiles);
  typename Encoder::Places places(shared.places);
  u32 number = 0, oldest = 0;  // tiles from `oldest` to `number` are in the ring
  u32 head = 0;                // end of the newest payload in the ring
  u32 sum = 0;                 // checksum of what the thread has copied for the current chunk
  bool is_stashed = false;
  if (thread() == 0) {
    shared.tiles[0].work = first_item<is_lossless>(plan);
    encoder.find_values(shared.tiles[0]);
    shared.table_sum = 0;
  }
  sync_block();
  if (shared.tiles[0].work.chunk < plan.chunks) encoder.start(shared.tiles[0]);
  while (true) {
    OwnTile& tile = shared.tiles[number % kLoopTiles];
    OwnTile& next = shared.tiles[(number + 1) % kLoopTiles];
    const OwnTile& waiting = shared.tiles[oldest % kLoopTiles];
    const bool has_tile = tile.work.chunk < plan.chunks;
    if (!has_tile && oldest == number) return;
    const auto prefetch_place = [&] {
      if (warp() != 0) return;
      sync_warp();
      places.prefetch(plan, waiting.work);
    };
    bool is_written = false, places_one = true;
    if (has_tile) {  // words live in registers only here
      if (is_stashed) {
        encoder.unstash();
        sync_block();  // before the rows are overwritten
      } else {
        if (thread() == 0) {
          next.work = next_item<is_lossless>(plan, tile.work);
          encoder.find_values(next);
        }
        const auto measured = encoder.measure(tile);  // its barriers protect the payload emitted last
        if (thread() == 0) encoder.publish(tile, measured);
      }
      constexpr u32 size = Encoder::kRoom;
      const bool is_empty = oldest == number;
      const u32 room = encoder.room(), tail = is_empty ? size : waiting.at;
      const u32 at = place_in_ring(is_empty ? 0 : head, tail, room, size);
      is_written = at != kNoRoom;
      // Also if another tile of this size would not fit into the ring.
      places_one = !is_empty && (!is_written || number - oldest == Encoder::kMostWaiting ||
                                 place_in_ring(at + room, tail, room, size) == kNoRoom);
      if (places_one) prefetch_place();
      if (is_written) {
        if (next.work.chunk < plan.chunks) encoder.start(next);
        if (thread() == 0) tile.at = at;
        head = at + room;
        encoder.write(tile, at);
      } else {
        encoder.stash();
      }
    } else {
      sync_block();  // before the last place is overwritten
      prefetch_place();
    }
    if (places_one) {
      if (warp() == 0) places.find(plan, waiting);
      sync_block();
      sum += encoder.emit(waiting, shared.table_sum);
      if (shared.tiles[(oldest + 1) % kLoopTiles].work.chunk != waiting.work.chunk) {
        add_sums(plan, waiting.work.chunk, sum, shared.table_sum);
        sum = 0;
      }
      ++oldest;
    } else {
      sync_block();  // after write(), the shared memory of measure() is free
    }
    is_stashed = has_tile && !is_written;
    if (is_written) ++number;
  }
}

}  // namespace h5lossy::H5L_TARGET
