// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// CUDA's driver (libcuda.so.1) and run-time compiler (libnvrtc.so), opened on first use, since the library must also
// load on machines without them. Their functions are declared here, so that building needs no CUDA headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace h5lossy::gpu {

using CudaResult = int;  // 0 is success
using CudaDevice = int;
using CudaContext = void*;
using CudaModule = void*;
using CudaFunction = void*;
using CudaStream = void*;
using CudaPointer = std::uint64_t;

inline constexpr CudaResult kCudaInvalidValue = 1, kCudaOutOfMemory = 2, kCudaInvalidImage = 200;
inline constexpr CudaResult kCudaInvalidContext = 201;
inline constexpr CudaResult kCudaNoCode = 209;  // for this device
inline constexpr CudaResult kCudaInvalidHandle = 400, kCudaNotFound = 500, kCudaOutOfResources = 701;
inline constexpr CudaResult kCudaTooManyBlocks = 720;                             // for a cooperative launch
inline constexpr CudaResult kCudaFirstOfCapture = 900, kCudaLastOfCapture = 909;  // errors of stream capture

// Attributes of devices, functions and pointers, by the driver's numbers.
inline constexpr int kMultiprocessors = 16, kComputeMajor = 75, kComputeMinor = 76, kCooperativeLaunch = 95;
inline constexpr int kMostSharedBytes = 97;  // of a thread block
inline constexpr int kMaxDynamicSharedBytes = 8, kPreferredSharedCarveout = 9;
inline constexpr int kPointerMemoryType = 2, kPointerDevice = 9;
inline constexpr unsigned kMemoryTypeDevice = 2;
inline constexpr unsigned kStreamNonBlocking = 1;

// name, symbol, parameters.
#define H5L_DRIVER_FUNCTIONS(X)                                                                                       \
  X(init, "cuInit", (unsigned))                                                                                       \
  X(driver_version, "cuDriverGetVersion", (int*))                                                                     \
  X(device_count, "cuDeviceGetCount", (int*))                                                                         \
  X(device, "cuDeviceGet", (CudaDevice*, int))                                                                        \
  X(device_name, "cuDeviceGetName", (char*, int, CudaDevice))                                                         \
  X(device_attribute, "cuDeviceGetAttribute", (int*, int, CudaDevice))                                                \
  X(retain_context, "cuDevicePrimaryCtxRetain", (CudaContext*, CudaDevice))                                           \
  X(context_state, "cuDevicePrimaryCtxGetState", (CudaDevice, unsigned*, int*))                                       \
  X(release_context, "cuDevicePrimaryCtxRelease_v2", (CudaDevice))                                                    \
  X(push_context, "cuCtxPushCurrent_v2", (CudaContext))                                                               \
  X(pop_context, "cuCtxPopCurrent_v2", (CudaContext*))                                                                \
  X(load_module, "cuModuleLoadData", (CudaModule*, const void*))                                                      \
  X(function, "cuModuleGetFunction", (CudaFunction*, CudaModule, const char*))                                        \
  X(global, "cuModuleGetGlobal_v2", (CudaPointer*, std::size_t*, CudaModule, const char*))                            \
  X(set_function_attribute, "cuFuncSetAttribute", (CudaFunction, int, int))                                           \
  X(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor", (int*, CudaFunction, int, std::size_t))                 \
  X(launch, "cuLaunchKernel",                                                                                         \
    (CudaFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CudaStream, void**, void**)) \
  X(launch_together, "cuLaunchCooperativeKernel",                                                                     \
    (CudaFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CudaStream, void**))         \
  X(allocate, "cuMemAlloc_v2", (CudaPointer*, std::size_t))                                                           \
  X(free, "cuMemFree_v2", (CudaPointer))                                                                              \
  X(allocate_pinned, "cuMemHostAlloc", (void**, std::size_t, unsigned))                                               \
  X(free_pinned, "cuMemFreeHost", (void*))                                                                            \
  X(copy_to_device, "cuMemcpyHtoDAsync_v2", (CudaPointer, const void*, std::size_t, CudaStream))                      \
  X(copy_to_host, "cuMemcpyDtoHAsync_v2", (void*, CudaPointer, std::size_t, CudaStream))                              \
  X(fill, "cuMemsetD32Async", (CudaPointer, unsigned, std::size_t, CudaStream))                                       \
  X(create_stream, "cuStreamCreate", (CudaStream*, unsigned))                                                         \
  X(wait_for_stream, "cuStreamSynchronize", (CudaStream))                                                             \
  X(capture_status, "cuStreamIsCapturing", (CudaStream, int*))                                                        \
  X(pointer_attribute, "cuPointerGetAttribute", (void*, int, CudaPointer))                                            \
  X(error_name, "cuGetErrorName", (CudaResult, const char**))

struct Driver {
#define X(name, symbol, parameters) CudaResult(*name) parameters = nullptr;
  H5L_DRIVER_FUNCTIONS(X)
#undef X
};

// Null if there is no driver, with the reason in `why`.
const Driver* open_driver(const char*& why);

// The first device whose primary context is active, such as CuPy and PyTorch use; -1 if there is none. Does not load
// the driver.
int device_with_context();

// The major version of CUDA that the driver supports; 0 if there is no driver.
int driver_major();

using NvrtcProgram = void*;

#define H5L_NVRTC_FUNCTIONS(X)                                                              \
  X(version, "nvrtcVersion", (int*, int*))                                                  \
  X(create, "nvrtcCreateProgram",                                                           \
    (NvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*)) \
  X(count_targets, "nvrtcGetNumSupportedArchs", (int*))                                     \
  X(targets, "nvrtcGetSupportedArchs", (int*))                                              \
  X(compile, "nvrtcCompileProgram", (NvrtcProgram, int, const char* const*))                \
  X(cubin_size, "nvrtcGetCUBINSize", (NvrtcProgram, std::size_t*))                          \
  X(cubin, "nvrtcGetCUBIN", (NvrtcProgram, char*))                                          \
  X(ptx_size, "nvrtcGetPTXSize", (NvrtcProgram, std::size_t*))                              \
  X(ptx, "nvrtcGetPTX", (NvrtcProgram, char*))                                              \
  X(log_size, "nvrtcGetProgramLogSize", (NvrtcProgram, std::size_t*))                       \
  X(log, "nvrtcGetProgramLog", (NvrtcProgram, char*))                                       \
  X(destroy, "nvrtcDestroyProgram", (NvrtcProgram*))

struct Nvrtc {
#define X(name, symbol, parameters) int(*name) parameters = nullptr;
  H5L_NVRTC_FUNCTIONS(X)
#undef X
};

// The C types that h5lossy.h uses; NVRTC has no C headers.
inline constexpr char kIntegers[] =
    "typedef unsigned char uint8_t; typedef unsigned int uint32_t; typedef int int32_t;\n"
    "typedef unsigned long long uint64_t; typedef long long int64_t; typedef decltype(sizeof 0) uintptr_t;\n";

// Null if there is no NVRTC. If H5LOSSY_NVRTC gives a file, only that file is tried.
const Nvrtc* open_nvrtc();

}  // namespace h5lossy::gpu
