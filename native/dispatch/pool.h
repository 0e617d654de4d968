// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Threads that share the chunks of a batch.
//
// The pool comes into being with the first batch that can use it, and its threads sleep between batches. The thread that
// has a batch works on it too, so each batch ends even if no other thread ever comes: nested and concurrent batches
// cannot wait for each other, and where no thread can be started a batch just takes longer. A forked child has no
// threads, and makes a pool of its own. When the library is unloaded, and at exit, the threads end with the chunk that
// they are at.
#pragma once

#include <cstddef>
#include <cstdint>

namespace h5lossy {

// Work on one item of a batch. `context` is what run_batch got. Must not throw.
using BatchItem = void (*)(const void* context, std::size_t i) noexcept;

// Calls item(context, i) once for each i below `count`, on at most `threads` threads, the caller's among them, and
// returns when all is done. The floating-point settings of each thread are those of FloatEnvironment.
void run_batch(std::size_t count, std::uint32_t threads, BatchItem item, const void* context) noexcept;

// The same with a callable.
template <class Call>
void run_batch(std::size_t count, std::uint32_t threads, const Call& call) noexcept {
  run_batch(
      count, threads, [](const void* context, std::size_t i) noexcept { (*static_cast<const Call*>(context))(i); },
      &call);
}

}  // namespace h5lossy
