// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// NVRTC, which has no standard library, compiles the codec headers for the architectures that kernels are built for.
// Skipped where there is no NVRTC; H5L_NVRTC may name the library.
//
// usage: nvrtc_takes_the_codec_headers cuda_headers.cu path/to/native

#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "check.h"

namespace h5lossy::test {
namespace {

void* open_nvrtc() {
  if (const char* const named = std::getenv("H5L_NVRTC")) {
    void* const library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    CHECK(library != nullptr, "H5L_NVRTC: %s", dlerror());
    return library;
  }
  for (const char* const name : {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so",
                                 "/usr/local/cuda/lib64/libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.12"}) {
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

// The few functions of nvrtc.h, written out.
struct Nvrtc {
  using Program = void*;
  int (*create)(Program*, const char* source, const char* name, int headers, const char* const* header_sources,
                const char* const* header_names);
  int (*compile)(Program, int count, const char* const* options);
  int (*log_size)(Program, std::size_t*);
  int (*log)(Program, char*);
  int (*cubin_size)(Program, std::size_t*);
  int (*destroy)(Program*);

  explicit Nvrtc(void* library) {
    find(library, "nvrtcCreateProgram", create);
    find(library, "nvrtcCompileProgram", compile);
    find(library, "nvrtcGetProgramLogSize", log_size);
    find(library, "nvrtcGetProgramLog", log);
    find(library, "nvrtcGetCUBINSize", cubin_size);
    find(library, "nvrtcDestroyProgram", destroy);
  }

 private:
  template <class Function>
  static void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    CHECK(function != nullptr, "NVRTC has no %s", name);
  }
};

void compile(const Nvrtc& nvrtc, const std::string& source, const std::string& include, const char* architecture) {
  Nvrtc::Program program = nullptr;
  CHECK(nvrtc.create(&program, source.c_str(), "cuda_headers.cu", 0, nullptr, nullptr) == 0, "nvrtcCreateProgram");
  const std::string folder = "-I" + include, target = std::string("--gpu-architecture=") + architecture;
  const char* const options[] = {folder.c_str(), target.c_str(), "--std=c++17",
                                 "--fmad=false", "--ftz=false",  "--prec-div=true"};
  const int result = nvrtc.compile(program, static_cast<int>(std::size(options)), options);
  std::size_t size = 0;
  CHECK(nvrtc.log_size(program, &size) == 0, "nvrtcGetProgramLogSize");
  std::string log(size, '\0');
  CHECK(nvrtc.log(program, log.data()) == 0, "nvrtcGetProgramLog");
  CHECK(result == 0, "%s:\n%s", architecture, log.c_str());
  CHECK(nvrtc.cubin_size(program, &size) == 0 && size > 0, "%s: no code", architecture);
  CHECK(nvrtc.destroy(&program) == 0, "nvrtcDestroyProgram");
}

}  // namespace
}  // namespace h5lossy::test

int main(int count, char** arguments) {
  using namespace h5lossy::test;
  CHECK(count == 3, "usage: %s cuda_headers.cu path/to/native", arguments[0]);
  void* const library = open_nvrtc();
  if (library == nullptr) return kSkipped;
  std::ifstream file(arguments[1]);
  const std::string source{std::istreambuf_iterator<char>(file), {}};
  CHECK(!source.empty(), "%s cannot be read", arguments[1]);
  const Nvrtc nvrtc(library);
  for (const char* const architecture : {"sm_80", "sm_90"}) compile(nvrtc, source, arguments[2], architecture);
}
