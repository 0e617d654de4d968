// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A CUDA driver and an NVRTC in one library, with one GPU: it runs the emulated kernels, one launch at a time. "Compiled"
// code is the name of a kernel. A test can make a kernel's results wrong, allocations fail, and streams appear captured.

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "emulated_codecs.h"
#include "gpu/driver.h"

#define H5L_EXPORTED extern "C" __attribute__((visibility("default")))

// Set by tests, and read by them.
H5L_EXPORTED char fake_wrong_kernel[64];
H5L_EXPORTED int fake_fails_to_allocate, fake_is_captured, fake_compiled, fake_launched;
char fake_wrong_kernel[64] = "";
int fake_fails_to_allocate = 0, fake_is_captured = 0, fake_compiled = 0, fake_launched = 0;

namespace {

using namespace h5lossy;
using namespace h5lossy::gpu;
using namespace h5lossy::test;

constexpr int kError = 900;  // of those after which the context is usable

std::recursive_mutex mutex;

struct FakeKernel {
  std::string name;
  std::uint32_t sizes[2] = {};  // as kernels/common/entry_points.cuh has them
};

std::map<std::string, FakeKernel>& loaded() {
  static std::map<std::string, FakeKernel> all;
  return all;
}

// A byte of what a kernel has made.
std::uint8_t* result_of(const EncodePlan& plan, const std::string&) { return plan.frames + plan.header_bytes + 9; }
std::uint8_t* result_of(const FinishPlan& plan, const std::string&) { return plan.encode.frames + 9; }
std::uint8_t* result_of(const StagedPlan& plan, const std::string&) { return plan.finish.encode.frames + 9; }
std::uint8_t* result_of(const DecodePlan& plan, const std::string&) { return plan.raw; }
std::uint8_t* result_of(const OpenPlan& plan, const std::string&) {
  return reinterpret_cast<std::uint8_t*>(plan.decode.statuses);
}
std::uint8_t* result_of(const RangePlan& plan, const std::string&) {
  return reinterpret_cast<std::uint8_t*>(&plan.quantizers->step) + 4;
}
std::uint8_t* result_of(const IntegerPlan& plan, const std::string&) {
  return reinterpret_cast<std::uint8_t*>(&plan.lattices->first);
}
std::uint8_t* result_of(const AutoPlan& plan, const std::string&) {
  return reinterpret_cast<std::uint8_t*>(plan.picked);
}
std::uint8_t* result_of(const PackPlan& plan, const std::string&) { return plan.packed + 16; }
std::uint8_t* result_of(const SwapPlan& plan, const std::string&) { return plan.values; }
std::uint8_t* result_of(const ChunkPlan& plan, const std::string& name) {
  return name == "gather_chunks" ? plan.chunk_values : plan.array;
}

CudaResult launch(CudaFunction function, unsigned blocks, unsigned rows, void** arguments, bool together) {
  const std::string& name = static_cast<const FakeKernel*>(static_cast<void*>(function))->name;
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  ++fake_launched;
  launch_codec_kernel(name, blocks, rows, arguments[0], together);
  if (name != fake_wrong_kernel) return 0;
  with_codec_kernel(
      name, [&]<class Plan>(const Kernel<Plan>&) { *result_of(*static_cast<const Plan*>(arguments[0]), name) ^= 1; });
  return 0;
}

}  // namespace

// ---- The driver -----------------------------------------------------------------------------------------------------

H5L_EXPORTED CudaResult cuInit(unsigned) {
  list_codec_kernels();
  return 0;
}
H5L_EXPORTED CudaResult cuDeviceGetCount(int* count) { return *count = 1, 0; }
H5L_EXPORTED CudaResult cuDeviceGet(CudaDevice* device, int ordinal) { return *device = ordinal, 0; }
H5L_EXPORTED CudaResult cuDeviceGetName(char* name, int size, CudaDevice) {
  std::snprintf(name, static_cast<std::size_t>(size), "Fake GPU");
  return 0;
}
H5L_EXPORTED CudaResult cuDeviceGetAttribute(int* value, int attribute, CudaDevice) {
  *value = attribute == kComputeMajor      ? 9
           : attribute == kComputeMinor    ? 0
           : attribute == kMostSharedBytes ? 1 << 20
           : attribute == kMultiprocessors ? 16
                                           : 1;
  return 0;
}
H5L_EXPORTED CudaResult cuDriverGetVersion(int* version) { return *version = 13000, 0; }
H5L_EXPORTED CudaResult cuDevicePrimaryCtxGetState(CudaDevice, unsigned* flags, int* is_active) {
  return *flags = 0, *is_active = 1, 0;
}
H5L_EXPORTED CudaResult cuDevicePrimaryCtxRetain(CudaContext*, CudaDevice) { return 0; }
H5L_EXPORTED CudaResult cuDevicePrimaryCtxRelease_v2(CudaDevice) { return 0; }
H5L_EXPORTED CudaResult cuCtxPushCurrent_v2(CudaContext) { return 0; }
H5L_EXPORTED CudaResult cuCtxPopCurrent_v2(CudaContext*) { return 0; }
H5L_EXPORTED CudaResult cuModuleLoadData(CudaModule* module, const void* image) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  const std::string name = static_cast<const char*>(image) + 4;  // behind "\x7F" "ELF"
  FakeKernel& kernel = loaded()[name];
  kernel.name = name;
  const bool found = with_codec_kernel(name, [&](const auto& listed) {
    kernel.sizes[0] = static_cast<std::uint32_t>(listed.shared_bytes);
    kernel.sizes[1] = listed.block_threads;
  });
  *module = reinterpret_cast<CudaModule>(&kernel);
  return found ? 0 : kCudaInvalidImage;
}
H5L_EXPORTED CudaResult cuModuleGetFunction(CudaFunction* function, CudaModule module, const char* name) {
  *function = reinterpret_cast<CudaFunction>(module);
  return "h5l_" + static_cast<const FakeKernel*>(static_cast<void*>(module))->name == name ? 0 : kCudaNotFound;
}
H5L_EXPORTED CudaResult cuModuleGetGlobal_v2(CudaPointer* pointer, std::size_t* size, CudaModule module, const char*) {
  const auto* const kernel = static_cast<const FakeKernel*>(static_cast<void*>(module));
  *pointer = static_cast<CudaPointer>(reinterpret_cast<std::uintptr_t>(kernel->sizes));
  *size = sizeof kernel->sizes;
  return 0;
}
H5L_EXPORTED CudaResult cuFuncSetAttribute(CudaFunction, int, int) { return 0; }
H5L_EXPORTED CudaResult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CudaFunction, int, std::size_t) {
  return *blocks = 1, 0;
}
H5L_EXPORTED CudaResult cuLaunchKernel(CudaFunction function, unsigned blocks, unsigned rows, unsigned, unsigned,
                                       unsigned, unsigned, unsigned, CudaStream, void** arguments, void**) {
  return launch(function, blocks, rows, arguments, false);
}
H5L_EXPORTED CudaResult cuLaunchCooperativeKernel(CudaFunction function, unsigned blocks, unsigned rows, unsigned,
                                                  unsigned, unsigned, unsigned, unsigned, CudaStream,
                                                  void** arguments) {
  return launch(function, blocks, rows, arguments, true);
}
H5L_EXPORTED CudaResult cuMemAlloc_v2(CudaPointer* pointer, std::size_t bytes) {
  if (fake_fails_to_allocate != 0) return kCudaOutOfMemory;
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  *pointer = static_cast<CudaPointer>(reinterpret_cast<std::uintptr_t>(memory));
  return 0;
}
H5L_EXPORTED CudaResult cuMemFree_v2(CudaPointer pointer) {
  return std::free(reinterpret_cast<void*>(static_cast<std::uintptr_t>(pointer))), 0;
}
H5L_EXPORTED CudaResult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return *memory = std::malloc(bytes), 0;
}
H5L_EXPORTED CudaResult cuMemFreeHost(void* memory) { return std::free(memory), 0; }
H5L_EXPORTED CudaResult cuMemcpyHtoDAsync_v2(CudaPointer to, const void* from, std::size_t bytes, CudaStream) {
  return std::memcpy(reinterpret_cast<void*>(static_cast<std::uintptr_t>(to)), from, bytes), 0;
}
H5L_EXPORTED CudaResult cuMemcpyDtoHAsync_v2(void* to, CudaPointer from, std::size_t bytes, CudaStream stream) {
  // As the null stream, which cannot be captured.
  if (stream == nullptr && fake_is_captured != 0) return kError;
  return std::memcpy(to, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(from)), bytes), 0;
}
H5L_EXPORTED CudaResult cuMemsetD32Async(CudaPointer to, unsigned word, std::size_t words, CudaStream) {
  for (std::size_t i = 0; i < words; ++i) {
    std::memcpy(reinterpret_cast<void*>(static_cast<std::uintptr_t>(to) + 4 * i), &word, sizeof word);
  }
  return 0;
}
H5L_EXPORTED CudaResult cuStreamCreate(CudaStream* stream, unsigned) {
  return *stream = reinterpret_cast<CudaStream>(std::malloc(1)), 0;
}
H5L_EXPORTED CudaResult cuStreamSynchronize(CudaStream) { return 0; }
H5L_EXPORTED CudaResult cuStreamIsCapturing(CudaStream, int* status) { return *status = fake_is_captured, 0; }
// All memory is the GPU's.
H5L_EXPORTED CudaResult cuPointerGetAttribute(void* value, int attribute, CudaPointer) {
  const unsigned found = attribute == kPointerMemoryType ? kMemoryTypeDevice : 0;
  return std::memcpy(value, &found, sizeof found), 0;
}
H5L_EXPORTED CudaResult cuGetErrorName(CudaResult, const char** name) { return *name = "FAKE_ERROR", 0; }

// ---- NVRTC ----------------------------------------------------------------------------------------------------------

H5L_EXPORTED int nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, 0; }
H5L_EXPORTED int nvrtcCreateProgram(NvrtcProgram* program, const char*, const char*, int, const char* const*,
                                    const char* const*) {
  return *program = new std::string, 0;
}
H5L_EXPORTED int nvrtcGetNumSupportedArchs(int* count) { return *count = 1, 0; }
H5L_EXPORTED int nvrtcGetSupportedArchs(int* numbers) { return *numbers = 90, 0; }
H5L_EXPORTED int nvrtcCompileProgram(NvrtcProgram program, int count, const char* const* options) {
  const std::string start = "--define-macro=H5L_WANTED_";
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i];
    if (!option.starts_with(start)) continue;
    const std::string name = option.substr(start.size(), option.find('=', start.size()) - start.size());
    *static_cast<std::string*>(program) = std::string(
                                              "\x7F"
                                              "ELF") +
                                          name + '\0';
  }
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  ++fake_compiled;
  return 0;
}
H5L_EXPORTED int nvrtcGetCUBINSize(NvrtcProgram program, std::size_t* size) {
  return *size = static_cast<const std::string*>(program)->size(), 0;
}
H5L_EXPORTED int nvrtcGetCUBIN(NvrtcProgram program, char* code) {
  const auto& all = *static_cast<const std::string*>(program);
  return std::memcpy(code, all.data(), all.size()), 0;
}
H5L_EXPORTED int nvrtcGetPTXSize(NvrtcProgram, std::size_t*) { return 1; }
H5L_EXPORTED int nvrtcGetPTX(NvrtcProgram, char*) { return 1; }
H5L_EXPORTED int nvrtcGetProgramLogSize(NvrtcProgram, std::size_t* size) { return *size = 0, 0; }
H5L_EXPORTED int nvrtcGetProgramLog(NvrtcProgram, char*) { return 0; }
H5L_EXPORTED int nvrtcDestroyProgram(NvrtcProgram* program) { return delete static_cast<std::string*>(*program), 0; }
