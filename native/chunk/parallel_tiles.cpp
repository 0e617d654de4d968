// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/parallel_tiles.h"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

#include "chunk/tile_encoder.h"
#include "chunk/tile_runs.h"
#include "chunk/workspace.h"
#include "frame/bytes.h"

namespace h5lossy {
namespace {

// One thread's encoder, and its buffer for the payloads of a run of tiles.
struct Worker {
  TileEncoder encoder;
  Workspace payloads;
};

// Assigns positions in the frame to runs. A thread waits for the sizes of all earlier runs, and publishes its own
// before it copies, so that threads copy in parallel. Without std::atomic::wait: libstdc++'s uses a static object that
// keeps a library from being unloaded.
class Room {
 public:
  explicit Room(std::size_t bytes) : bytes_(bytes) {}

  // Waits for the earlier runs and sets `begin` to the position of this run. False if it or an earlier one does not
  // fit.
  bool take(std::uint32_t first, std::uint32_t last, std::size_t bytes, std::size_t& begin) {
    {
      std::unique_lock lock(mutex_);
      turn_.wait(lock, [&] { return next_ == first || full_; });
      begin = used_;
      if (bytes > bytes_ - used_) full_ = true;
      if (!full_) used_ += bytes;
      next_ = last;
    }
    turn_.notify_all();
    return !is_full();
  }

  [[nodiscard]] bool is_full() const { return full_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t used() const { return used_; }

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  const std::size_t bytes_;
  std::size_t used_ = 0;
  std::uint32_t next_ = 0;  // tile
  std::atomic<bool> full_ = false;
};

}  // namespace

h5l_status encode_tiles_in_parallel(const TileJob& job, std::uint32_t threads, EncodedTiles& encoded,
                                    const Message& why) try {
  const Geometry& geometry = job.choice.geometry;
  const std::uint32_t tiles = geometry.tiles();
  const std::size_t run_bytes = tiles_in_run(geometry.max_tile_bytes()) * geometry.max_tile_bytes();
  std::vector<Worker> workers;
  workers.reserve(threads);
  for (std::uint32_t i = 0; i < threads; ++i) {
    workers.push_back({TileEncoder(job.params, job.quantizer, job.choice), Workspace(run_bytes)});
    if (!workers.back().encoder.ok() || !workers.back().payloads.ok()) {
      return why.fail(H5L_OUT_OF_MEMORY, "out of memory for a workspace");
    }
  }

  Room room(job.payloads.size());
  std::atomic<std::uint32_t> sum = 0;
  for_runs(0, tiles, geometry.max_tile_bytes(), threads,
           [&](std::uint32_t first, std::uint32_t last, std::uint32_t index) {
             if (room.is_full()) return;
             Worker& worker = workers[index];
             std::size_t bytes = 0;
             std::uint32_t own_sum = 0;
             for (std::uint32_t tile = first; tile < last; ++tile) {
               const std::span<const std::uint8_t> payload = worker.encoder.encode(job.raw, tile);
               const auto size = static_cast<std::uint32_t>(payload.size());
               if (size != 0) std::memcpy(worker.payloads.data() + bytes, payload.data(), size);
               if (job.checksum != nullptr) own_sum += job.checksum(payload.data(), size, tile, 0);
               bytes += size;
               write_u32(job.table.data() + kTileEntryBytes * tile, static_cast<std::uint32_t>(bytes));
             }
             std::size_t begin = 0;
             if (!room.take(first, last, bytes, begin)) return;
             if (bytes != 0) std::memcpy(job.payloads.data() + begin, worker.payloads.data(), bytes);
             for (std::uint32_t tile = first; tile < last; ++tile) {
               std::uint8_t* const entry = job.table.data() + kTileEntryBytes * tile;
               write_u32(entry, static_cast<std::uint32_t>(read_u32(entry) + begin));
             }
             sum.fetch_add(own_sum, std::memory_order_relaxed);
           });
  encoded.fit = !room.is_full();
  encoded.payload_bytes = room.used();
  encoded.sum = sum.load(std::memory_order_relaxed);
  return H5L_OK;
} catch (const std::bad_alloc&) {
  return why.fail(H5L_OUT_OF_MEMORY, "out of memory for several threads");
}

}  // namespace h5lossy
