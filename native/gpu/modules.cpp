// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "gpu/modules.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "gpu/driver.h"

// Made by native/CMakeLists.txt.
struct H5LEmbeddedFile {
  const char* name;  // as it is included; of a fatbin the unit's
  const char* begin;
  const char* end;
};
extern "C" const H5LEmbeddedFile h5l_embedded_files[];  // the last one has no name (null)

namespace h5lossy::gpu {
namespace {

const H5LEmbeddedFile* find_file(const char* name) {
  for (const H5LEmbeddedFile* file = h5l_embedded_files; file->name != nullptr; ++file) {
    if (std::strcmp(file->name, name) == 0) return file;
  }
  return nullptr;
}

// FNV-1a of all sources: a cache must not outlive them.
std::uint64_t hash_of_sources() {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const H5LEmbeddedFile* file = h5l_embedded_files; file->name != nullptr; ++file) {
    for (const char* at = file->begin; at != file->end; ++at) {
      hash = (hash ^ static_cast<unsigned char>(*at)) * 0x100000001B3u;
    }
  }
  return hash;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// "" where there is no place for a cache.
std::string cache_folder() {
  if (const std::string own = variable("H5LOSSY_CACHE_DIR"); !own.empty()) return own;
  if (const std::string all = variable("XDG_CACHE_HOME"); !all.empty()) return all + "/h5lossy";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/h5lossy";
}

bool read_file(const std::string& path, std::vector<char>& bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  bytes.assign(std::istreambuf_iterator<char>(file), {});
  return !bytes.empty();
}

// Several processes may do this at the same time: each writes a file of its own, and the last name wins.
void write_file(const std::string& folder, const std::string& path, const std::vector<char>& bytes) {
  for (std::size_t at = folder.find('/', 1);; at = folder.find('/', at + 1)) {
    mkdir(folder.substr(0, at).c_str(), 0700);
    if (at == std::string::npos) break;
  }
  const std::string part = path + "." + std::to_string(getpid());
  std::ofstream file(part, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();  // fails where the disk is full
  if (!file || std::rename(part.c_str(), path.c_str()) != 0) std::remove(part.c_str());
}

// What h5lossy.h needs of the C library, which NVRTC does not have.
constexpr char kIntegers[] =
    "typedef unsigned char uint8_t; typedef unsigned int uint32_t; typedef int int32_t;\n"
    "typedef unsigned long long uint64_t; typedef long long int64_t; typedef unsigned long uintptr_t;\n";

// What NVRTC compiles for: the GPU, or if NVRTC does not know it, PTX for the newest earlier architecture, which the driver
// then compiles.
struct Target {
  int number = 0;  // ten times the compute capability
  bool is_gpu = true;
  [[nodiscard]] std::string name() const { return (is_gpu ? "sm_" : "compute_") + std::to_string(number); }
};

Target find_target(const Nvrtc& nvrtc, int wanted) {
  int count = 0;
  if (nvrtc.count_targets(&count) != 0 || count <= 0) return {wanted};
  std::vector<int> known(static_cast<std::size_t>(count));
  if (nvrtc.targets(known.data()) != 0) return {wanted};
  int best = 0;
  for (const int one : known) {
    if (one <= wanted && one > best) best = one;
  }
  return {best != 0 ? best : wanted, best == wanted || best == 0};
}

bool compile(const Nvrtc& nvrtc, const std::string& main_source, const Target& target, std::vector<char>& made,
             std::string& log) {
  std::vector<std::string> texts{kIntegers, ""};
  std::vector<const char*> names{"stdint.h", "stddef.h"};
  std::vector<const char*> headers;
  for (const H5LEmbeddedFile* file = h5l_embedded_files; file->name != nullptr; ++file) {
    texts.emplace_back(file->begin, file->end);
    names.push_back(file->name);
  }
  for (const std::string& text : texts) headers.push_back(text.c_str());
  const H5LEmbeddedFile* const main = find_file(main_source.c_str());
  if (main == nullptr) return false;
  const std::string source(main->begin, main->end);
  NvrtcProgram program = nullptr;
  if (nvrtc.create(&program, source.c_str(), main_source.c_str(), static_cast<int>(names.size()), headers.data(),
                   names.data()) != 0) {
    return false;
  }
  const std::string architecture = "--gpu-architecture=" + target.name();
  const char* const options[] = {architecture.c_str(), "--std=c++20", "--fmad=false",
                                 "--device-as-default-execution-space"};
  bool is_done = nvrtc.compile(program, static_cast<int>(std::size(options)), options) == 0;
  std::size_t size = 0;
  if (!is_done && nvrtc.log_size(program, &size) == 0 && size > 0) {
    log.resize(size);
    nvrtc.log(program, log.data());
  }
  const auto size_of = target.is_gpu ? nvrtc.cubin_size : nvrtc.ptx_size;
  const auto take = target.is_gpu ? nvrtc.cubin : nvrtc.ptx;
  is_done = is_done && size_of(program, &size) == 0 && size > 0;
  if (is_done) {
    made.resize(size);
    is_done = take(program, made.data()) == 0;
  }
  nvrtc.destroy(&program);
  return is_done;
}

}  // namespace

Code find_code(const char* unit, int major, int minor) {
  Code code;
  const std::string main_source = "kernels/" + std::string(unit) + "/kernels.cu";
  if (const H5LEmbeddedFile* const built_in = find_file(unit); built_in != nullptr) {
    code.image = built_in->begin;
    code.how = "built in";
    return code;
  }
  if (find_file(main_source.c_str()) == nullptr) {
    code.how = "this build has no kernels";
    return code;
  }
  char name[64];
  std::snprintf(name, sizeof name, "/%s-%016" PRIx64 "-sm_%d%d.cubin", unit, hash_of_sources(), major, minor);
  const std::string folder = cache_folder();
  if (!folder.empty() && read_file(folder + name, code.memory)) {
    code.how = "compiled earlier, in " + folder + name;
    code.image = code.memory.data();
    return code;
  }
  const Nvrtc* const nvrtc = open_nvrtc();
  if (nvrtc == nullptr) {
    const std::string named = variable("H5LOSSY_NVRTC");
    code.how = "the kernels were not built in, and there is no NVRTC to compile them: ";
    code.how += named.empty() ? "no libnvrtc.so.13 or .12 was found; H5LOSSY_NVRTC may name its file"
                              : "H5LOSSY_NVRTC names " + named + ", which can't be loaded";
    return code;
  }
  int version[2] = {};
  nvrtc->version(&version[0], &version[1]);
  const std::string nvrtc_name = "NVRTC " + std::to_string(version[0]) + "." + std::to_string(version[1]);
  if (const int driver = driver_major(); driver != 0 && version[0] > driver) {
    const std::string fitting = std::to_string(driver);
    code.how = nvrtc_name + " makes kernels that this driver, of CUDA " + fitting + ", can't load; libnvrtc.so." +
               fitting + " would do, which H5LOSSY_NVRTC may name";
    return code;
  }
  const Target target = find_target(*nvrtc, 10 * major + minor);
  std::string log;
  if (!compile(*nvrtc, main_source, target, code.memory, log)) {
    code.memory.clear();
    code.how = nvrtc_name + " cannot compile the kernels: " + log.substr(0, 400);
    return code;
  }
  if (!folder.empty()) write_file(folder, folder + name, code.memory);
  code.how = "compiled by " + nvrtc_name + (target.is_gpu ? "" : " for " + target.name());
  code.image = code.memory.data();
  return code;
}

}  // namespace h5lossy::gpu
