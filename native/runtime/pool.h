// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Threads that share the items of a batch: chunks, or tiles of one chunk.
//
// The pool comes into being with the first batch that can use it, and its threads sleep between batches. The thread that
// has a batch works on it too, so each batch ends even if no other thread ever comes: nested and concurrent batches
// cannot wait for each other, and where no thread can be started a batch just takes longer. A forked child has no
// threads, and makes a pool of its own. When the library is unloaded, and at exit, the threads end with the chunk that
// they are at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace h5lossy {

// Work on one item of a batch. `context` is what run_batch got. No two threads that are at the batch at a time have the
// same seat; seats are below run_batch's `threads`, and the caller's is 0. Must not throw.
using BatchItem = void (*)(const void* context, std::size_t i, std::uint32_t seat) noexcept;

// Calls item(context, i, seat) once for each i below `count`, on at most `threads` threads, the caller's among them, and
// returns when all is done. Items are begun in their order, so an item may wait for those before it. The floating-point
// settings of each thread are those of FloatEnvironment.
void run_batch(std::size_t count, std::uint32_t threads, BatchItem item, const void* context) noexcept;

// The same with a callable that takes (i, seat) or just (i).
template <class Call>
void run_batch(std::size_t count, std::uint32_t threads, const Call& call) noexcept {
  const BatchItem item = [](const void* context, std::size_t i, std::uint32_t seat) noexcept {
    const Call& own = *static_cast<const Call*>(context);
    if constexpr (std::is_invocable_v<Call, std::size_t, std::uint32_t>) {
      own(i, seat);
    } else {
      own(i);
    }
  };
  run_batch(count, threads, item, &call);
}

}  // namespace h5lossy
