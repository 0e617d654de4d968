// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "runtime/pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "platform/platform.h"
#include "runtime/float_environment.h"

namespace h5lossy {
namespace {

// On the stack of the calling thread. Members that are not atomic are guarded by the pool's mutex.
struct Batch {
  const std::size_t count;
  const BatchItem item;
  const void* const context;
  std::uint32_t free_workers;  // threads that may still join; a joining thread gets this number as its index
  std::uint32_t helpers = 0;   // pool threads working on the batch
  Batch* next = nullptr;       // in the pool's list
  std::atomic<std::size_t> taken{0};
  std::condition_variable left{};

  void work(std::uint32_t worker, const std::atomic<bool>& stop) noexcept {
    const FloatEnvironment environment;
    while (!stop.load(std::memory_order_relaxed)) {
      const std::size_t i = taken.fetch_add(1, std::memory_order_relaxed);
      if (i >= count) return;
      item(context, i, worker);
    }
  }
};

constexpr std::atomic<bool> kNever{false};

class Pool {
 public:
  void run(Batch& batch) noexcept {
    {
      const std::lock_guard lock(mutex_);
      start(batch.free_workers);
      batch.next = batches_;
      batches_ = &batch;
    }
    wake_.notify_all();
    batch.work(0, kNever);
    std::unique_lock lock(mutex_);
    remove(batch);
    batch.left.wait(lock, [&] { return batch.helpers == 0; });
  }

  // Ends the threads. Unfinished batches are completed by their calling threads.
  void end() noexcept {
    std::vector<std::thread> threads;
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      threads.swap(threads_);
    }
    wake_.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

 private:
  // Starts threads until there are `wanted`; fewer if memory or the system's limit runs out.
  void start(std::size_t wanted) noexcept {
    if (stop_ || threads_.size() >= wanted) return;
    try {
      if (!platform::prepare_for_threads()) return;
      const platform::NoSignals in_new_threads;
      threads_.reserve(wanted);
      while (threads_.size() < wanted) threads_.emplace_back([this] { serve(); });
    } catch (const std::exception&) {
    }
  }

  void serve() noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return stop_ || batches_ != nullptr; });
      if (stop_) return;
      Batch& batch = *batches_;
      ++batch.helpers;
      const std::uint32_t worker = batch.free_workers--;
      if (batch.free_workers == 0) remove(batch);
      lock.unlock();
      batch.work(worker, stop_);
      lock.lock();
      remove(batch);  // all items are taken
      if (--batch.helpers == 0) batch.left.notify_one();
    }
  }

  void remove(const Batch& batch) noexcept {
    Batch** at = &batches_;
    while (*at != nullptr && *at != &batch) at = &(*at)->next;
    if (*at != nullptr) *at = batch.next;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  Batch* batches_ = nullptr;  // those that more threads may join, newest first
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_ = false;  // written under the mutex
};

std::atomic<Pool*> current_pool = nullptr;
std::atomic<bool> fork_is_watched = false;
std::atomic<bool> unloading = false;

// A forked child has no pool threads, and the mutex may stay locked forever, so the object is not touched.
void forget_pool() { current_pool = nullptr; }

// Null while unloading, or if there is no memory for a pool.
Pool* find_pool() noexcept {
  if (unloading || platform::has_lost_its_threads()) return nullptr;
  // No lock and no function-local static: a child could inherit it locked. Registering twice does no harm.
  if (!fork_is_watched) {
    if (!platform::call_in_forked_children(forget_pool)) return nullptr;
    fork_is_watched = true;
  }
  Pool* pool = current_pool;
  if (pool != nullptr) return pool;
  Pool* const made = new (std::nothrow) Pool;
  if (made == nullptr || current_pool.compare_exchange_strong(pool, made)) return made;
  delete made;  // another thread was faster
  return pool;
}

// The pool itself is never deleted: other threads may still use it at exit.
struct AtUnload {
  ~AtUnload() {
    unloading = true;
    if (Pool* const pool = current_pool; pool != nullptr && !platform::has_lost_its_threads()) pool->end();
  }
} at_unload;

}  // namespace

void run_batch(std::size_t count, std::uint32_t threads, BatchItem item, const void* context) noexcept {
  const std::size_t useful = std::max<std::size_t>(1, std::min<std::size_t>(count, threads));
  Batch batch{.count = count, .item = item, .context = context, .free_workers = static_cast<std::uint32_t>(useful - 1)};
  Pool* const pool = useful > 1 ? find_pool() : nullptr;
  pool != nullptr ? pool->run(batch) : batch.work(0, kNever);
}

}  // namespace h5lossy
