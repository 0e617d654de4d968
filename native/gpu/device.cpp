// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "gpu/device.h"

#include <algorithm>
#include <exception>
#include <initializer_list>
#include <utility>

#include "platform/platform.h"
#include "runtime/pool.h"

namespace h5lossy::gpu {
namespace {

// Streams used at the same time; each has buffers for about two chunks.
constexpr std::uint32_t kMaxStreams = 8;

std::string name_of(const Driver& driver, CudaResult result) {
  const char* name = nullptr;
  driver.error_name(result, &name);
  return name == nullptr ? "error " + std::to_string(result) : name;
}

// Whether the context remains usable after this error.
bool is_recoverable(CudaResult result) {
  for (const CudaResult one : {kCudaInvalidValue, kCudaOutOfMemory, kCudaInvalidImage, kCudaNoCode, kCudaInvalidHandle,
                               kCudaNotFound, kCudaOutOfResources, kCudaTooManyBlocks}) {
    if (result == one) return true;
  }
  return result >= kCudaFirstOfCapture && result <= kCudaLastOfCapture;
}

struct Devices {
  const Driver* driver = nullptr;
  std::string why;
  int count = 0;
  std::uint64_t process = 0;
  std::mutex mutex;
  std::vector<std::unique_ptr<Device>> opened;
  std::vector<std::string> failures;
  Devices() {
    const char* reason = "";
    driver = open_driver(reason);
    process = platform::process_number();
    if (driver == nullptr) {
      why = reason;
      return;
    }
    if (const CudaResult result = driver->init(0); result != 0) {
      why = "the CUDA driver cannot be initialized: " + name_of(*driver, result);
      return;
    }
    if (driver->device_count(&count) != 0) count = 0;
    if (count == 0) why = "there is no GPU";
    opened.resize(static_cast<std::size_t>(count));
    failures.resize(static_cast<std::size_t>(count));
  }
};

// Never destroyed: HDF5 also calls filters at exit, when the driver may already be unloaded.
Devices& devices() {
  static Devices* const all = new Devices;
  return *all;
}

}  // namespace

int Device::count(std::string& why) {
  Devices& all = devices();
  why = all.why;
  return all.count;
}

Device* Device::open(int ordinal, std::string& why) {
  Devices& all = devices();
  why = all.why;
  if (all.count == 0) return nullptr;
  if (platform::process_number() != all.process) {
    why = "this process was forked after the GPU was used, and CUDA does not work in forked processes";
    return nullptr;
  }
  if (ordinal < 0 || ordinal >= all.count) {
    why = "there is no GPU " + std::to_string(ordinal) + "; there are " + std::to_string(all.count);
    return nullptr;
  }
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto i = static_cast<std::size_t>(ordinal);
  if (all.opened[i] == nullptr && all.failures[i].empty()) {
    std::unique_ptr<Device> device(new Device(*all.driver, ordinal));
    const CudaResult result = device->start(why);
    if (result == kCudaOutOfMemory) return nullptr;  // not kept as a failure: the next call may succeed
    if (result == 0) {
      all.opened[i] = std::move(device);
    } else {
      all.failures[i] = why;
    }
  }
  if (all.opened[i] == nullptr) {
    why = all.failures[i];
    return nullptr;
  }
  if (all.opened[i]->is_broken()) {
    why = all.opened[i]->take_error();
    return nullptr;
  }
  return all.opened[i].get();
}

int Device::of_pointer(const void* pointer) {
  Devices& all = devices();
  if (all.count == 0 || platform::process_number() != all.process) return -1;
  unsigned type = 0;
  int ordinal = -1;
  const auto address = static_cast<CudaPointer>(reinterpret_cast<std::uintptr_t>(pointer));
  if (all.driver->pointer_attribute(&type, kPointerMemoryType, address) != 0 || type != kMemoryTypeDevice) return -1;
  return all.driver->pointer_attribute(&ordinal, kPointerDevice, address) == 0 ? ordinal : -1;
}

CudaResult Device::start(std::string& why) {
  CudaDevice device = 0;
  char name[128] = "";
  int cooperative = 0;
  CudaResult result = driver_.device(&device, ordinal_);
  if (result == 0) result = driver_.device_name(name, sizeof name, device);
  if (result == 0) result = driver_.device_attribute(&multiprocessors_, kMultiprocessors, device);
  if (result == 0) result = driver_.device_attribute(&most_shared_bytes_, kMostSharedBytes, device);
  if (result == 0) result = driver_.device_attribute(&major_, kComputeMajor, device);
  if (result == 0) result = driver_.device_attribute(&minor_, kComputeMinor, device);
  if (result == 0) result = driver_.device_attribute(&cooperative, kCooperativeLaunch, device);
  name_ = name;
  if (result == 0 && (major_ < 8 || cooperative == 0)) {
    why = name_ + " is too old: h5lossy needs compute capability 8.0 or later";
    return kCudaNoCode;
  }
  if (result == 0) result = driver_.retain_context(&context_, device);
  if (result == 0) {
    {
      const Current current(*this);
      Module& module = module_of(first_kernel());
      result = current.ok() ? load(first_kernel(), module) : kCudaInvalidContext;
      how_ = module.code.how;
    }
    if (result != 0) driver_.release_context(device);
  }
  if (result == 0) return result;
  why = name_ + " cannot be used: ";
  why += result == kCudaNoCode && !how_.empty() ? how_ : name_of(driver_, result);
  if (result != kCudaNoCode && !how_.empty()) why += ", for kernels " + how_;
  return result;
}

// The module that holds a kernel: that of its unit, or, if NVRTC compiles it, one of its own.
Device::Module& Device::module_of(const char* kernel) {
  return modules_[is_built_in(unit_of(kernel)) ? unit_of(kernel) : kernel];
}

// Loads the module of a kernel into the current context. On failure, its code says how it was made, or why there is
// none.
CudaResult Device::load(const char* kernel, Module& module) {
  if (module.loaded != nullptr) return 0;
  if (module.code.image == nullptr) module.code = find_code(unit_of(kernel), kernel, major_, minor_);
  if (module.code.image == nullptr) return kCudaNoCode;
  CudaModule loaded = nullptr;
  const CudaResult result = driver_.load_module(&loaded, module.code.image);
  if (result == 0) module.loaded = loaded;
  return result;
}

bool Device::load(const Names& names) {
  std::vector<const char*> missing;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const std::string& name : names) {
      if (module_of(name.c_str()).code.image == nullptr) missing.push_back(name.c_str());
    }
  }
  // Without the mutex, so that other threads can use other kernels meanwhile.
  std::vector<Code> codes(missing.size());
  run_batch(missing.size(), static_cast<std::uint32_t>(missing.size()), [&](std::size_t i) {
    try {
      codes[i] = find_code(unit_of(missing[i]), missing[i], major_, minor_);
    } catch (const std::exception&) {  // out of memory; add() will try again, one kernel at a time
    }
  });
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::size_t i = 0; i < missing.size(); ++i) {
    Module& module = module_of(missing[i]);
    if (module.code.image == nullptr) module.code = std::move(codes[i]);
  }
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) { return add(name.c_str()) != nullptr; });
}

// Finds a kernel, and loads it if need be. The caller holds the mutex.
const Kernel* Device::add(const char* name) {
  if (const auto found = kernels_.find(name); found != kernels_.end()) return &found->second;
  // Failures are not kept: the next call may find free memory, or no capture in progress.
  Kernel kernel;
  if (const CudaResult result = find(name, kernel); result != 0) {
    const std::string& how = module_of(name).code.how;
    note(result, how.empty() ? name : name + (", " + how));
    return nullptr;
  }
  return &kernels_.emplace(name, kernel).first->second;
}

const Kernel* Device::kernel(const char* name, bool is_check) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = kernels_.find(name);
  if (found == kernels_.end()) return needs_check(unit_of(name)) ? nullptr : add(name);
  return is_check || found->second.is_right ? &found->second : nullptr;
}

Names Device::unchecked(const Names& names) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Names found;
  for (const std::string& name : names) {
    if (!kernels_.at(name).is_right) found.push_back(name);
  }
  return found;
}

void Device::accept(const Names& names) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::string& name : names) {
    kernels_.at(name).is_right = true;
    const Code& code = module_of(name.c_str()).code;
    keep_code(code.path, code.memory);
  }
}

void Device::refuse(const Names& names) {
  const std::lock_guard<std::mutex> lock(mutex_);
  refused_.push_back(names);
}

bool Device::is_refused(const Names& names) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(refused_.begin(), refused_.end(), [&](const Names& together) {
    return std::all_of(together.begin(), together.end(), [&](const std::string& name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    });
  });
}

std::string Device::describe(const Names& names) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text + " (" + module_of(names.front().c_str()).code.how + ")";
}

std::string Device::describe_refused() {
  Names all;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Names& together : refused_) all.insert(all.end(), together.begin(), together.end());
  }
  return all.empty() ? "" : describe(all);
}

std::string Device::describe() const {
  int version = 0;
  driver_.driver_version(&version);
  return name_ + " (compute capability " + std::to_string(major_) + "." + std::to_string(minor_) + ", driver of CUDA " +
         std::to_string(version / 1000) + "." + std::to_string(version / 10 % 100) + ")";
}

bool Device::is_captured(CudaStream stream) const {
  int status = 0;
  return driver_.capture_status(stream, &status) != 0 || status != 0;
}

CudaResult Device::find(const char* name, Kernel& kernel) {
  Module& module = module_of(name);
  CudaResult result = load(name, module);
  kernel.is_right = module.code.is_checked;
  const std::string symbol = std::string("h5l_") + name;
  CudaPointer sizes_at = 0;
  std::size_t size = 0;
  std::uint32_t sizes[2] = {};  // bytes of shared memory, and number of thread blocks
  int resident = 0;
  if (result == 0) result = driver_.function(&kernel.function, module.loaded, symbol.c_str());
  if (result == 0) result = driver_.global(&sizes_at, &size, module.loaded, (symbol + "_sizes").c_str());
  if (result == 0 && size != sizeof sizes) result = kCudaNotFound;
  // On the null stream, which cannot be captured, so the first use of a kernel must not be in a capture.
  if (result == 0) result = driver_.copy_to_host(sizes, sizes_at, sizeof sizes, nullptr);
  if (result == 0) result = driver_.wait_for_stream(nullptr);
  if (result == 0 && sizes[0] > static_cast<std::uint32_t>(most_shared_bytes_)) return 0;
  if (result == 0) {
    result = driver_.set_function_attribute(kernel.function, kMaxDynamicSharedBytes, static_cast<int>(sizes[0]));
  }
  if (result == 0) driver_.set_function_attribute(kernel.function, kPreferredSharedCarveout, 100);
  if (result == 0) result = driver_.occupancy(&resident, kernel.function, static_cast<int>(sizes[1]), sizes[0]);
  if (result == 0 && resident <= 0) result = kCudaOutOfResources;
  kernel.shared_bytes = sizes[0];
  kernel.block_threads = sizes[1];
  kernel.resident = static_cast<std::uint32_t>(resident * multiprocessors_);
  return result;
}

void Device::report(CudaResult result, const char* what) {
  const std::lock_guard<std::mutex> lock(mutex_);
  note(result, what);
}

// The caller holds the mutex.
void Device::note(CudaResult result, const std::string& what) {
  last_error_ = name_ + ": " + what + ": " + name_of(driver_, result);
  if (!is_recoverable(result)) is_broken_.store(true, std::memory_order_relaxed);
}

std::string Device::take_error() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return is_broken() ? last_error_ : std::exchange(last_error_, {});
}

const Kernel* StreamLauncher::find(const char* name) {
  const Kernel* const kernel = device_.kernel(name, is_check_);
  if (kernel == nullptr) lacks_kernel_ = true;
  return kernel;
}

bool StreamLauncher::launch(const char* name, std::uint32_t blocks, std::uint32_t rows, const void* plan, std::size_t,
                            bool together) {
  const Kernel* const kernel = find(name);
  if (kernel == nullptr) return false;
  void* arguments[] = {const_cast<void*>(plan)};
  const Driver& driver = device_.driver();
  const CudaResult result = together ? driver.launch_together(kernel->function, blocks, rows, 1, kernel->block_threads,
                                                              1, 1, kernel->shared_bytes, stream_, arguments)
                                     : driver.launch(kernel->function, blocks, rows, 1, kernel->block_threads, 1, 1,
                                                     kernel->shared_bytes, stream_, arguments, nullptr);
  if (result != 0) device_.report(result, name);
  return result == 0;
}

bool StreamLauncher::clear(void* memory, std::size_t bytes) { return fill(memory, 0, bytes / 4); }

bool StreamLauncher::fill(void* memory, std::uint32_t word, std::size_t words) {
  if (words == 0) return true;
  const auto address = static_cast<CudaPointer>(reinterpret_cast<std::uintptr_t>(memory));
  const CudaResult result = device_.driver().fill(address, word, words, stream_);
  if (result != 0) device_.report(result, "memset");
  return result == 0;
}

std::uint32_t StreamLauncher::resident_blocks(const char* name) {
  const Kernel* const kernel = find(name);
  return kernel == nullptr ? 0 : kernel->resident;
}

bool StreamBuffers::reserve(std::size_t device_bytes, std::size_t pinned_bytes) {
  const Driver& driver = device_.driver();
  CudaResult result = 0;
  // A failing call may write garbage to its result, so set members only after success.
  if (stream_ == nullptr) {
    CudaStream stream = nullptr;
    result = driver.create_stream(&stream, kStreamNonBlocking);
    if (result == 0) stream_ = stream;
  }
  if (result == 0 && device_bytes > memory_bytes_) {
    if (memory_ != 0) driver.free(memory_);
    memory_ = 0;
    memory_bytes_ = 0;
    CudaPointer memory = 0;
    result = driver.allocate(&memory, device_bytes);
    if (result == 0) {
      memory_ = memory;
      memory_bytes_ = device_bytes;
    }
  }
  if (result == 0 && pinned_bytes > pinned_bytes_) {
    if (pinned_ != nullptr) driver.free_pinned(pinned_);
    pinned_ = nullptr;
    pinned_bytes_ = 0;
    void* memory = nullptr;
    result = driver.allocate_pinned(&memory, pinned_bytes, 1);  // CU_MEMHOSTALLOC_PORTABLE
    if (result == 0) {
      pinned_ = static_cast<std::uint8_t*>(memory);
      pinned_bytes_ = pinned_bytes;
    }
  }
  if (result != 0) device_.report(result, "memory for a chunk");
  return result == 0;
}

BorrowedStream::BorrowedStream(Device& device) : device_(device) {
  std::unique_lock<std::mutex> lock(device.mutex_);
  device.stream_is_free_.wait(lock,
                              [&] { return !device.free_streams_.empty() || device.stream_count_ < kMaxStreams; });
  if (device.free_streams_.empty()) {
    device.free_streams_.reserve(kMaxStreams);  // so that the destructor does not allocate
    buffers_ = std::make_unique<StreamBuffers>(device);
    ++device.stream_count_;
    return;
  }
  buffers_ = std::move(device.free_streams_.back());
  device.free_streams_.pop_back();
}

BorrowedStream::~BorrowedStream() {
  {
    const std::lock_guard<std::mutex> lock(device_.mutex_);
    device_.free_streams_.push_back(std::move(buffers_));
  }
  device_.stream_is_free_.notify_one();
}

}  // namespace h5lossy::gpu
