// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "gpu/driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <initializer_list>

namespace h5lossy::gpu {
namespace {

template <class Function>
bool find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  return function != nullptr;
}

struct Opened {
  Driver driver;
  bool is_open = false;
  const char* why = "";
};

Opened open() {
  Opened opened;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // stays open
  if (library == nullptr) {
    opened.why = "there is no CUDA driver (libcuda.so.1)";
    return opened;
  }
  bool has_all = true;
#define X(name, symbol, parameters) has_all = find(library, symbol, opened.driver.name) && has_all;
  H5L_DRIVER_FUNCTIONS(X)
#undef X
  opened.why = "the CUDA driver is too old: it lacks functions that h5lossy calls";
  opened.is_open = has_all;
  return opened;
}

}  // namespace

const Driver* open_driver(const char*& why) {
  static const Opened opened = open();
  why = opened.why;
  return opened.is_open ? &opened.driver : nullptr;
}

int device_with_context() {
  void* const loaded = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (loaded == nullptr) return -1;
  dlclose(loaded);
  const char* why = nullptr;
  const Driver* const driver = open_driver(why);
  int count = 0;
  if (driver == nullptr || driver->device_count(&count) != 0) return -1;  // fails before cuInit
  for (int i = 0; i < count; ++i) {
    CudaDevice device = 0;
    unsigned flags = 0;
    int is_active = 0;
    const bool is_known = driver->device(&device, i) == 0 && driver->context_state(device, &flags, &is_active) == 0;
    if (is_known && is_active != 0) return i;
  }
  return -1;
}

int driver_major() {
  int version = 0;
  const char* why = nullptr;
  if (const Driver* const driver = open_driver(why); driver != nullptr) driver->driver_version(&version);
  return version / 1000;
}

const Nvrtc* open_nvrtc() {
  static const struct Compiler {
    Nvrtc functions;
    bool is_open = false;
    Compiler() {
      void* library = nullptr;
      const char* const named = std::getenv("H5LOSSY_NVRTC");
      if (named != nullptr && *named != '\0') {
        library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
      } else {
        // A driver cannot load code compiled by an NVRTC of a later major version.
        const char* const best = driver_major() == 12 ? "libnvrtc.so.12" : "libnvrtc.so.13";
        for (const char* const name : {best, "libnvrtc.so.12", "libnvrtc.so"}) {
          if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        }
      }
      if (library == nullptr) return;
      is_open = true;
#define X(name, symbol, parameters) is_open = find(library, symbol, functions.name) && is_open;
      H5L_NVRTC_FUNCTIONS(X)
#undef X
    }
  } compiler;
  return compiler.is_open ? &compiler.functions : nullptr;
}

}  // namespace h5lossy::gpu
