// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "gpu/driver.h"

#include <initializer_list>
#include <string>

#include "platform/platform.h"

namespace h5lossy::gpu {
namespace {

template <class Function>
bool find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(platform::find_symbol(library, symbol));
  return function != nullptr;
}

struct Opened {
  Driver driver;
  bool is_open = false;
  std::string why;
};

Opened open() {
  Opened opened;
  void* const library = platform::open_library(platform::kCudaDriver);
  if (library == nullptr) {
    opened.why = std::string("there is no CUDA driver (") + platform::kCudaDriver + ")";
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
  why = opened.why.c_str();
  return opened.is_open ? &opened.driver : nullptr;
}

int device_with_context() {
  if (!platform::is_loaded(platform::kCudaDriver)) return -1;
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
      const platform::Variable named("H5LOSSY_NVRTC");
      if (named.text() != nullptr) {
        library = platform::open_library(named.text());
      } else {
        // A driver cannot load code compiled by an NVRTC of a later major version.
        const int best = driver_major() == 12 ? 12 : 13;
        for (const int major : {best, 12, 0}) {
          if (library == nullptr) library = platform::open_library(platform::nvrtc_name(major).c_str());
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
