// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// GPUs, opened on first use with the primary context, which other libraries in the process share. The caller's current
// context is restored. Failures return false or null; only std::bad_alloc is thrown.
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
#include "gpu/modules.h"
#include "gpu/sequences.h"

namespace h5lossy::gpu {

struct Kernel {
  CudaFunction function = nullptr;
  std::uint32_t shared_bytes = 0;
  std::uint32_t block_threads = 0;
  std::uint32_t resident = 0;  // thread blocks at a time; 0 if the kernel needs more shared memory than the device has
  bool is_right = true;        // false: needs a check, and has not passed one
};

class Device {
 public:
  // Device `ordinal`, opened on the first call. Null, with the reason in `why`, if opening failed or the process has
  // been forked since, which CUDA does not support.
  static Device* open(int ordinal, std::string& why);

  // The number of devices; 0, with the reason in `why`, if there are none or no driver.
  static int count(std::string& why);

  // The device that a pointer belongs to; -1 if it is not device memory.
  static int of_pointer(const void* pointer);

  [[nodiscard]] const Driver& driver() const { return driver_; }
  [[nodiscard]] CudaContext context() const { return context_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& how() const { return how_; }
  [[nodiscard]] int ordinal() const { return ordinal_; }
  // The name, and the versions of GPU and driver.
  [[nodiscard]] std::string describe() const;

  // Null if there is no kernel of this name, or it cannot be loaded now. One that needs a check is not loaded here, and
  // only the check gets it before it has been found to be right.
  const Kernel* kernel(const char* name, bool is_check);

  // For the check of kernels (offload/kernel_check.h), which holds check_mutex() meanwhile.
  std::mutex& check_mutex() { return check_mutex_; }
  // Loads kernels that have not been used before, in parallel, since NVRTC may have to compile them; false if one
  // cannot be loaded now.
  [[nodiscard]] bool load(const Names& names);
  // Those of these loaded kernels that have not passed a check.
  Names unchecked(const Names& names);
  // They have passed: stores them in the cache.
  void accept(const Names& names);
  // Together, they gave wrong results. Any of them may be right, and may pass the check with others.
  void refuse(const Names& names);
  bool is_refused(const Names& names);  // whether they include kernels that were refused together
  // Loaded kernels, and what compiled them.
  std::string describe(const Names& names);
  // All that were refused; "" if none were.
  std::string describe_refused();

  // Whether a CUDA graph is being captured on a stream.
  [[nodiscard]] bool is_captured(CudaStream stream) const;

  // Records an error. After one that makes the context unusable, the device is not used again.
  void report(CudaResult result, const char* what);
  [[nodiscard]] bool is_broken() const { return is_broken_.load(std::memory_order_relaxed); }
  // Returns the last error, or "", and clears it unless it broke the device.
  std::string take_error();

 private:
  friend class BorrowedStream;
  struct Module {  // may hold several kernels
    Code code;
    CudaModule loaded = nullptr;
  };
  Device(const Driver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}
  CudaResult start(std::string& why);  // `why` receives the reason of a failure
  Module& module_of(const char* kernel);
  CudaResult load(const char* kernel, Module& module);
  CudaResult find(const char* name, Kernel& kernel);
  const Kernel* add(const char* name);
  void note(CudaResult result, const std::string& what);

  const Driver& driver_;
  const int ordinal_;
  CudaContext context_ = nullptr;
  int major_ = 0, minor_ = 0;
  int multiprocessors_ = 0, most_shared_bytes_ = 0;
  std::string name_, how_;
  std::atomic<bool> is_broken_{false};
  std::mutex mutex_;  // guards the members below
  std::string last_error_;
  std::unordered_map<std::string, Module> modules_;  // by kernel, or by unit if that is built in
  std::unordered_map<std::string, Kernel> kernels_;
  std::vector<std::unique_ptr<class StreamBuffers>> free_streams_;
  std::uint32_t stream_count_ = 0;
  std::mutex check_mutex_;  // locked before mutex_
  std::vector<Names> refused_;
  std::condition_variable stream_is_free_;
};

// Makes a device's context current in the calling thread until the end of the scope.
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

// Launches kernels on a stream. The device's context must be current.
class StreamLauncher : public Launcher {
 public:
  StreamLauncher(Device& device, CudaStream stream, bool is_check = false)
      : device_(device), stream_(stream), is_check_(is_check) {}
  bool launch(const char* name, std::uint32_t blocks, std::uint32_t rows, const void* plan, std::size_t plan_bytes,
              bool together) override;
  bool clear(void* memory, std::size_t bytes) override;
  std::uint32_t resident_blocks(const char* name) override;
  bool fill(void* memory, std::uint32_t word, std::size_t words);
  // Whether Device::kernel had none for this launcher.
  [[nodiscard]] bool lacks_kernel() const { return lacks_kernel_; }

 private:
  const Kernel* find(const char* name);

  Device& device_;
  CudaStream stream_;
  bool is_check_, lacks_kernel_ = false;
};

// A stream with device memory and pinned host memory, used by one call at a time. Buffers grow as needed and are kept
// until the process ends.
class StreamBuffers {
 public:
  explicit StreamBuffers(Device& device) : device_(device) {}
  StreamBuffers(const StreamBuffers&) = delete;
  StreamBuffers& operator=(const StreamBuffers&) = delete;

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

// Borrows one of a device's streams and its buffers until the end of the scope. Waits if all are in use.
class BorrowedStream {
 public:
  explicit BorrowedStream(Device& device);
  ~BorrowedStream();
  BorrowedStream(const BorrowedStream&) = delete;
  BorrowedStream& operator=(const BorrowedStream&) = delete;
  StreamBuffers* operator->() const { return buffers_.get(); }

 private:
  Device& device_;
  std::unique_ptr<StreamBuffers> buffers_;
};

}  // namespace h5lossy::gpu
