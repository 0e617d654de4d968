// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "dispatch/parallel_tiles.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <vector>

#include "dispatch/tile_encoder.h"
#include "dispatch/workspace.h"
#include "format/bytes.h"

namespace h5lossy {
namespace {

// A thread is woken for at least this much: about 100 us of work, several times what the waking takes.
constexpr std::size_t kLeastThreadBytes = 1 << 20;

// What one thread needs to encode runs.
struct Worker {
  TileEncoder encoder;
  Workspace payloads;
};

// Where in the frame the runs begin. Who encodes a run learns it from who encodes the run before, as soon as that one
// knows its size; then both copy at the same time.
class Begins {
 public:
  Begins(std::uint32_t runs, std::size_t room) : begins_(std::size_t{runs} + 1), room_(room) {
    for (auto& begin : begins_) begin.store(kUnknown, std::memory_order_relaxed);
    begins_[0].store(0, std::memory_order_relaxed);
  }

  // Waits for the run's begin and tells its end. False where there is no room for it, nor for those behind it.
  bool place(std::uint32_t run, std::size_t bytes, std::size_t& begin) {
    begins_[run].wait(kUnknown, std::memory_order_acquire);
    begin = begins_[run].load(std::memory_order_acquire);
    const bool fits = begin != kFull && begin + bytes <= room_;
    tell(run, fits ? static_cast<std::uint32_t>(begin + bytes) : kFull);
    return fits;
  }

  // Ends it all where a run before this one did not fit.
  bool is_full(std::uint32_t run) {
    if (!full_.load(std::memory_order_relaxed)) return false;
    tell(run, kFull);
    return true;
  }

  [[nodiscard]] bool end(std::size_t& bytes) const {
    bytes = begins_.back().load(std::memory_order_relaxed);
    return bytes != kFull;
  }

 private:
  // No place in a frame: a chunk is smaller than 4 GiB by more than this.
  static constexpr std::uint32_t kUnknown = UINT32_MAX, kFull = UINT32_MAX - 1;

  void tell(std::uint32_t run, std::uint32_t end) {
    if (end == kFull) full_.store(true, std::memory_order_relaxed);
    begins_[run + 1].store(end, std::memory_order_release);
    begins_[run + 1].notify_all();
  }

  std::vector<std::atomic<std::uint32_t>> begins_;
  std::size_t room_;
  std::atomic<bool> full_ = false;
};
static_assert(kMaxRawBytes < UINT32_MAX - 1);

}  // namespace

std::uint32_t threads_for_chunk(std::uint32_t threads, std::size_t raw_bytes) {
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(raw_bytes / kLeastThreadBytes, 1, threads));
}

h5l_status encode_tiles(const h5l_params& params, const Quantizer& quantizer, const Choice& choice,
                        std::span<const std::uint8_t> raw, std::span<std::uint8_t> table,
                        std::span<std::uint8_t> payloads, ChecksumFunction checksum, std::uint32_t threads,
                        EncodedTiles& encoded, const Message& why) try {
  const Geometry& geometry = choice.geometry;
  const std::uint32_t tiles = geometry.tiles();
  const std::uint32_t run_tiles = tiles_in_run(geometry.max_tile_bytes());
  const std::uint32_t runs = count_runs(tiles, run_tiles);
  threads = std::min(threads, runs);
  std::vector<Worker> workers;
  workers.reserve(threads);
  for (std::uint32_t i = 0; i < threads; ++i) {
    workers.push_back({TileEncoder(params, quantizer, choice), Workspace(run_tiles * geometry.max_tile_bytes())});
    if (!workers.back().encoder.ok() || !workers.back().payloads.ok()) {
      return why.fail(H5L_OUT_OF_MEMORY, "no memory for a workspace");
    }
  }

  Begins begins(runs, payloads.size());
  std::atomic<std::uint32_t> sum = 0;
  run_batch(runs, threads, [&](std::size_t i, std::uint32_t seat) {
    const auto run = static_cast<std::uint32_t>(i);
    if (begins.is_full(run)) return;
    Worker& worker = workers[seat];
    const std::uint32_t first = run * run_tiles, last = std::min(tiles, first + run_tiles);
    std::size_t bytes = 0;
    std::uint32_t own_sum = 0;
    for (std::uint32_t tile = first; tile < last; ++tile) {
      const std::span<const std::uint8_t> payload = worker.encoder.encode(raw, tile);
      const auto size = static_cast<std::uint32_t>(payload.size());
      if (size != 0) std::memcpy(worker.payloads.data() + bytes, payload.data(), size);
      if (checksum != nullptr) own_sum += checksum(payload.data(), size, tile, 0);
      bytes += size;
      write_u32(table.data() + kTileEntryBytes * tile, static_cast<std::uint32_t>(bytes));
    }
    std::size_t begin = 0;
    if (!begins.place(run, bytes, begin)) return;
    if (bytes != 0) std::memcpy(payloads.data() + begin, worker.payloads.data(), bytes);
    for (std::uint32_t tile = first; tile < last; ++tile) {
      std::uint8_t* const entry = table.data() + kTileEntryBytes * tile;
      write_u32(entry, static_cast<std::uint32_t>(read_u32(entry) + begin));
    }
    sum.fetch_add(own_sum, std::memory_order_relaxed);
  });
  encoded.fit = begins.end(encoded.payload_bytes);
  encoded.sum = sum.load(std::memory_order_relaxed);
  return H5L_OK;
} catch (const std::bad_alloc&) {
  return why.fail(H5L_OUT_OF_MEMORY, "no memory for the work of several threads");
}

std::uint32_t sum_payload(const Frame& frame, ChecksumFunction checksum, std::uint32_t threads) {
  if (frame.header.codec == H5L_CODEC_STORED) {
    return checksum(frame.payload.data(), static_cast<std::uint32_t>(frame.payload.size()), 0, 0);
  }
  constexpr std::size_t typical_tile_bytes = 16 << 10;
  std::atomic<std::uint32_t> sum = 0;
  for_tiles(0, frame.tiles, typical_tile_bytes, threads, [&](std::uint32_t tile, std::uint32_t) {
    const std::span<const std::uint8_t> payload = frame.tile_payload(tile);
    const std::uint32_t own = checksum(payload.data(), static_cast<std::uint32_t>(payload.size()), tile, 0);
    sum.fetch_add(own, std::memory_order_relaxed);
  });
  return sum.load(std::memory_order_relaxed);
}

}  // namespace h5lossy
