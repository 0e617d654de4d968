// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A thread pool for batches of items: chunks, or tiles of one chunk.
//
// The pool is created by the first batch that can use it; its threads sleep between batches. The calling thread works
// on its batch, too, so every batch ends without the pool's help: nested and concurrent batches cannot deadlock, and a
// batch only takes longer if no thread can be started. A forked child creates its own pool. When the library is
// unloaded, and at exit, each thread finishes its current item and ends; on Windows the library stays loaded instead,
// and the system ends the threads at exit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace h5lossy {

// Processes item i of a batch. `context` is run_batch's. `worker` is below run_batch's `threads`, differs between
// threads that work on the batch at the same time, and is 0 for the calling thread. Must not throw.
using BatchItem = void (*)(const void* context, std::size_t i, std::uint32_t worker) noexcept;

// Calls item(context, i, worker) once for each i below `count`, on at most `threads` threads including the calling one,
// and waits for all of them. Items start in order, so an item may wait for earlier ones. Each thread runs with
// FloatEnvironment.
void run_batch(std::size_t count, std::uint32_t threads, BatchItem item, const void* context) noexcept;

// The same for a callable that takes (i, worker) or just (i).
template <class Call>
void run_batch(std::size_t count, std::uint32_t threads, const Call& call) noexcept {
  const BatchItem item = [](const void* context, std::size_t i, std::uint32_t worker) noexcept {
    const Call& own = *static_cast<const Call*>(context);
    if constexpr (std::is_invocable_v<Call, std::size_t, std::uint32_t>) {
      own(i, worker);
    } else {
      own(i);
    }
  };
  run_batch(count, threads, item, &call);
}

}  // namespace h5lossy
