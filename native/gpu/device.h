// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// GPUs: opened when first asked for, with the primary context that other libraries in the process use too. The caller's
// current context is left as it was. Nothing here throws but for want of host memory; what fails returns false or null.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpu/driver.h"
#include "gpu/sequences.h"

namespace h5lossy::gpu {

struct Kernel {
  CudaFunction function = nullptr;
  std::uint32_t shared_bytes = 0;
  std::uint32_t block_threads = 0;
  std::uint32_t resident = 0;  // thread blocks; 0: it takes more shared memory than the device has
};

class Device {
 public:
  // Device `ordinal`, opened on the first call; null where that failed or the process has been forked since (CUDA does not
  // survive that). `why` says what was wrong.
  static Device* open(int ordinal, std::string& why);

  // How many there are; 0 without a driver, and then `why` says so.
  static int count(std::string& why);

  // The device that a pointer belongs to; -1: it is no device memory.
  static int of_pointer(const void* pointer);

  [[nodiscard]] const Driver& driver() const { return driver_; }
  [[nodiscard]] CudaContext context() const { return context_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& how() const { return how_; }
  [[nodiscard]] int ordinal() const { return ordinal_; }

  // Null: there is none of this name, it does not fit the device, or cannot be loaded now.
  const Kernel* kernel(const char* name);

  // Notes an error. After one that leaves the context of no use, the device is not used again.
  void report(CudaResult result, const char* what);
  [[nodiscard]] bool is_broken() const { return is_broken_.load(std::memory_order_relaxed); }
  // The last error, which is forgotten then, unless it broke the device. "": there was none.
  std::string take_error();

 private:
  friend class LaneUse;
  Device(const Driver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}
  CudaResult start(std::string& why);  // `why` says what was wrong
  CudaResult load(const char* unit, std::string& how);
  CudaResult find(const char* name, Kernel& kernel, std::string& how);
  void note(CudaResult result, const std::string& what);

  const Driver& driver_;
  const int ordinal_;
  CudaContext context_ = nullptr;
  int major_ = 0, minor_ = 0;
  int multiprocessors_ = 0, most_shared_bytes_ = 0;
  std::string name_, how_;
  std::atomic<bool> is_broken_{false};
  std::mutex mutex_;  // of what follows
  std::string last_error_;
  struct Unit {  // of kernels, loaded when the first of them is asked for
    CudaModule module = nullptr;
    std::vector<char> image;
  };
  std::unordered_map<std::string, Unit> units_;
  std::unordered_map<std::string, Kernel> kernels_;
  std::vector<std::unique_ptr<class Lane>> free_lanes_;
  std::uint32_t lanes_ = 0;
  std::condition_variable lane_is_free_;
};

// Makes a device's context the calling thread's for as long as it lives.
class Current {
 public:
  explicit Current(Device& device) : device_(device), ok_(device.driver().push_context(device.context()) == 0) {}
  ~Current() {
    CudaContext popped = nullptr;
    if (ok_) device_.driver().pop_context(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  Device& device_;
  bool ok_;
};

// Starts kernels on a stream. The device's context is current.
class StreamLauncher : public Launcher {
 public:
  StreamLauncher(Device& device, CudaStream stream) : device_(device), stream_(stream) {}
  bool launch(const char* kernel, std::uint32_t blocks, std::uint32_t rows, const void* plan, std::size_t plan_bytes,
              bool together) override;
  bool clear(void* memory, std::size_t bytes) override;
  std::uint32_t resident_blocks(const char* kernel) override;

 private:
  Device& device_;
  CudaStream stream_;
};

// A stream with memory of the device and pinned memory of the host, for one call at a time. Both grow to what is needed
// and stay, as long as the process lives.
class Lane {
 public:
  explicit Lane(Device& device) : device_(device) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  [[nodiscard]] bool reserve(std::size_t device_bytes, std::size_t pinned_bytes);
  [[nodiscard]] CudaStream stream() const { return stream_; }
  [[nodiscard]] std::size_t memory_bytes() const { return memory_bytes_; }
  [[nodiscard]] std::uint8_t* memory() const { return reinterpret_cast<std::uint8_t*>(memory_); }
  [[nodiscard]] std::uint8_t* pinned() const { return pinned_; }

 private:
  Device& device_;
  CudaStream stream_ = nullptr;
  CudaPointer memory_ = 0;
  std::size_t memory_bytes_ = 0;
  std::uint8_t* pinned_ = nullptr;
  std::size_t pinned_bytes_ = 0;
};

// A lane of a device's, for as long as it lives; waits where all are taken.
class LaneUse {
 public:
  explicit LaneUse(Device& device);
  ~LaneUse();
  LaneUse(const LaneUse&) = delete;
  LaneUse& operator=(const LaneUse&) = delete;
  Lane* operator->() const { return lane_.get(); }

 private:
  Device& device_;
  std::unique_ptr<Lane> lane_;
};

}  // namespace h5lossy::gpu
