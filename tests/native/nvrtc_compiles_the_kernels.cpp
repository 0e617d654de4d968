// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A library built without nvcc compiles its kernels when a GPU is first used, and finds them compiled the next time. No
// GPU is needed for that. For a GPU that NVRTC does not support, it makes PTX. Skipped if the kernels are built in or left
// out, and if there is no NVRTC.
//   nvrtc_compiles_the_kernels all      whole units, to PTX, which takes a fraction of the time, and two single kernels
//   nvrtc_compiles_the_kernels single   a kernel for each way that kernels differ, for another NVRTC

#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "check.h"
#include "gpu/driver.h"
#include "gpu/modules.h"

namespace {

bool starts_with(const std::string& text, const char* start) { return text.rfind(start, 0) == 0; }

bool is_machine_code(const h5lossy::gpu::Code& code) {
  return code.image != nullptr && std::memcmp(code.image,
                                              "\x7F"
                                              "ELF",
                                              4) == 0;
}

bool has_symbol(const h5lossy::gpu::Code& code, const char* kernel) {
  const std::string all(code.memory.begin(), code.memory.end());
  return all.find("h5l_" + std::string(kernel) + "_sizes") != std::string::npos;
}

bool is_ptx(const h5lossy::gpu::Code& code) {
  const std::string text(code.memory.begin(), code.memory.end());
  return text.find(".version") != std::string::npos && text.back() == '\0';
}

constexpr int kHopper = 9, kNotYetThere = 99;  // major numbers of compute capabilities

// A kernel, or with null all of a unit.
h5lossy::gpu::Code compile_and_find_again(const char* unit, const char* kernel, int major) {
  using namespace h5lossy;
  const char* const name = kernel == nullptr ? unit : kernel;
  gpu::Code code = gpu::find_code(unit, kernel, major, 0);
  CHECK(starts_with(code.how, "compiled by NVRTC"), "%s: %s", name, code.how.c_str());
  if (major == kHopper) {
    CHECK(is_machine_code(code), "%s: no cubin", name);
  } else {
    CHECK(is_ptx(code) && code.how.find(" for compute_") != std::string::npos, "%s: %s", name, code.how.c_str());
  }
  if (!code.is_checked) {  // not in the cache before its results are known to be right
    CHECK(!std::filesystem::exists(code.path), "%s", code.path.c_str());
    gpu::keep_code(code.path, code.memory);
  }
  CHECK(code.is_checked == !gpu::needs_check(unit), "%s", name);
  const gpu::Code again = gpu::find_code(unit, kernel, major, 0);
  CHECK(starts_with(again.how, "compiled earlier, in "), "%s: %s", name, again.how.c_str());
  // The driver compiles PTX again, in each process.
  CHECK(again.is_checked == (major == kHopper || !gpu::needs_check(unit)), "%s", name);
  CHECK(again.memory == code.memory, "%s: the cache holds something else", name);
  return code;
}

}  // namespace

int main(int count, char** arguments) {
  using namespace h5lossy;
  CHECK(count == 2, "usage: %s all|single", arguments[0]);
  char folder[] = "/tmp/h5lossy-kernels-XXXXXX";
  CHECK(mkdtemp(folder) != nullptr, "no folder");
  setenv("H5LOSSY_CACHE_DIR", folder, 1);
  const auto end = [&](int status) {
    std::filesystem::remove_all(folder);
    return status;
  };

  const gpu::Code first = gpu::find_code("codecs", gpu::first_kernel(), kHopper, 0);
  if (starts_with(first.how, "built in") || starts_with(first.how, "this build") || gpu::open_nvrtc() == nullptr) {
    return end(test::kSkipped);
  }
  std::vector<const char*> kernels = {"assess_copy_to_host", "pfpl_encode_f32_pointwise"};
  if (starts_with(arguments[1], "single")) {
    kernels.insert(kernels.end(),
                   {"pfpl_decode_f64_absolute", "cuszp2_encode_f64_absolute_3d", "aatrox_encode_f32_absolute",
                    "aatrox_decode_f64_pointwise", "interp_encode_f32_absolute", "interp_decode_f64_pointwise",
                    "assess_plane_stencils_f64"});
  }
  for (const char* const kernel : kernels) {
    const gpu::Code single = compile_and_find_again(gpu::unit_of(kernel), kernel, kHopper);
    CHECK(has_symbol(single, kernel), "%s: %s", kernel, single.how.c_str());
    CHECK(!has_symbol(single, "pfpl_decode_f32_absolute") && !has_symbol(single, "assess_points_f32"),
          "not a single kernel");
  }
  compile_and_find_again("assess", "assess_copy_to_host", kNotYetThere);
  if (starts_with(arguments[1], "all")) {
    for (const char* const unit : {"codecs", "assess"}) compile_and_find_again(unit, nullptr, kNotYetThere);
  }
  return end(0);
}
