/* SPDX-FileCopyrightText: The h5lossy authors
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A fake CUDA driver (libcuda.so.1) that records calls. It has one GPU, whose context is active if the test sets it, and which
 * cannot be used. It exports every function in native/gpu/driver.h.
 */
#include <string.h>

extern int fake_is_active;
extern char fake_calls[1000]; /* names, in order */

int fake_is_active = 0;
char fake_calls[1000] = "";

static int called(const char* name, int result) {
  if (strlen(fake_calls) + strlen(name) + 2 < sizeof fake_calls) strcat(strcat(fake_calls, name), " ");
  return result;
}

#define H5L_FAKE(parameters, name) \
  int name parameters;             \
  int name parameters

H5L_FAKE((int* count), cuDeviceGetCount) {
  *count = 1;
  return called("count", 0);
}
H5L_FAKE((int* device, int ordinal), cuDeviceGet) {
  *device = ordinal;
  return called("device", 0);
}
H5L_FAKE((int device, unsigned* flags, int* is_active), cuDevicePrimaryCtxGetState) {
  *flags = (unsigned)device;
  *is_active = fake_is_active;
  return called("state", 0);
}
H5L_FAKE((unsigned flags), cuInit) { return called("init", flags == 0 ? 100 : 1); } /* CUDA_ERROR_NO_DEVICE */

#define H5L_REFUSED(name) \
  H5L_FAKE((void), name) { return called(#name, 999); }
H5L_REFUSED(cuCtxPopCurrent_v2)
H5L_REFUSED(cuCtxPushCurrent_v2)
H5L_REFUSED(cuDeviceGetAttribute)
H5L_REFUSED(cuDeviceGetName)
H5L_REFUSED(cuDevicePrimaryCtxRelease_v2)
H5L_REFUSED(cuDevicePrimaryCtxRetain)
H5L_REFUSED(cuDriverGetVersion)
H5L_REFUSED(cuFuncSetAttribute)
H5L_REFUSED(cuGetErrorName)
H5L_REFUSED(cuLaunchCooperativeKernel)
H5L_REFUSED(cuLaunchKernel)
H5L_REFUSED(cuMemAlloc_v2)
H5L_REFUSED(cuMemFreeHost)
H5L_REFUSED(cuMemFree_v2)
H5L_REFUSED(cuMemHostAlloc)
H5L_REFUSED(cuMemcpyDtoHAsync_v2)
H5L_REFUSED(cuMemcpyHtoDAsync_v2)
H5L_REFUSED(cuMemsetD32Async)
H5L_REFUSED(cuModuleGetFunction)
H5L_REFUSED(cuModuleGetGlobal_v2)
H5L_REFUSED(cuModuleLoadData)
H5L_REFUSED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
H5L_REFUSED(cuPointerGetAttribute)
H5L_REFUSED(cuStreamCreate)
H5L_REFUSED(cuStreamIsCapturing)
H5L_REFUSED(cuStreamSynchronize)
