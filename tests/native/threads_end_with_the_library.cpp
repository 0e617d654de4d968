// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The library starts no thread when it is loaded, and ends its threads when it is unloaded.

#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "check.h"
#include "h5lossy.h"

namespace {

int count_threads() {
  int threads = -1;
  std::FILE* const status = std::fopen("/proc/self/status", "r");
  if (status == nullptr) std::exit(h5lossy::test::kSkipped);
  for (char line[256]; std::fgets(line, sizeof line, status) != nullptr;) std::sscanf(line, "Threads: %d", &threads);
  std::fclose(status);
  return threads;
}

/// The threads there are once `expected` are left, or after ten seconds. A thread that has been joined is still counted
/// until the kernel has released it: pthread_join returns when the thread's id is cleared, a little earlier.
int count_threads_left(int expected) {
  int threads = count_threads();
  for (int wait = 0; wait < 10000 && threads != expected; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    threads = count_threads();
  }
  return threads;
}

}  // namespace

int main(int, char** arguments) {
  for (int round = 0; round < 20; ++round) {
    void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(library != nullptr, "%s", dlerror());
    CHECK(count_threads() == 1, "%d threads after loading", count_threads());
    const auto encode = reinterpret_cast<decltype(&h5l_encode_batch)>(dlsym(library, "h5l_encode_batch"));
    constexpr std::size_t kCount = 8, kBytes = 4096;
    h5l_params params = {};
    params.bound = 1e-3;
    params.value_bytes = 4;
    const std::vector<unsigned char> raw(kBytes);
    std::vector<std::vector<unsigned char>> frames(kCount, std::vector<unsigned char>(kBytes + 40));
    std::vector<const void*> in(kCount, raw.data());
    std::vector<void*> out;
    for (auto& frame : frames) out.push_back(frame.data());
    const std::vector<std::size_t> in_bytes(kCount, kBytes), room(kCount, kBytes + 40);
    std::vector<std::size_t> written(kCount);
    std::vector<h5l_status> statuses(kCount);
    h5l_message message;
    CHECK(encode(&params, nullptr, kCount, in.data(), in_bytes.data(), out.data(), room.data(), written.data(),
                 statuses.data(), nullptr, 4, &message) == H5L_OK,
          "%s", message.text);
    CHECK(count_threads() == 4, "%d threads after a batch", count_threads());
    dlclose(library);
    const int left = count_threads_left(1);
    CHECK(left == 1, "%d threads after unloading", left);
  }
}
