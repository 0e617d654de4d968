// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Linux and macOS.

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "platform/platform.h"

#if defined(__linux__)
#include <sched.h>
#endif

namespace h5lossy::platform {

Module::Module(const void* address) {
  Dl_info found;
  if (dladdr(address, &found) == 0) return;
  base_ = found.dli_fbase;
  handle_ = dlopen(found.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_LOCAL);
}

Module::~Module() {
  if (handle_ != nullptr) dlclose(handle_);  // another reference keeps it loaded
}

// There is no handle on a program.
void* Module::find(const char* symbol) const { return dlsym(handle_ != nullptr ? handle_ : RTLD_DEFAULT, symbol); }

bool Module::holds(const void* address) const {
  Dl_info found;
  return base_ != nullptr && dladdr(address, &found) != 0 && found.dli_fbase == base_;
}

std::string_view Module::image() const { return {}; }

bool find_allocator(const void*, Allocator& found) {
  found = {std::malloc, std::calloc, std::free};
  return true;
}

void* open_library(const char* name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }

void* find_symbol(void* library, const char* symbol) { return dlsym(library, symbol); }

bool is_loaded(const char* name) {
  void* const loaded = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  if (loaded != nullptr) dlclose(loaded);
  return loaded != nullptr;
}

const char kCudaDriver[] = "libcuda.so.1";

std::string nvrtc_name(int major) { return major == 0 ? "libnvrtc.so" : "libnvrtc.so." + std::to_string(major); }

Variable::Variable(const char* name) noexcept : text_(std::getenv(name)) {
  if (text_ != nullptr && *text_ == '\0') text_ = nullptr;
}

std::string cache_home() {
  if (const Variable all("XDG_CACHE_HOME"); all.text() != nullptr) return all.text();
  const Variable home("HOME");
  return home.text() == nullptr ? "" : std::string(home.text()) + "/.cache";
}

void make_folder(const char* path) { mkdir(path, 0700); }

File open_to_read(const char* path) { return File(std::fopen(path, "re")); }

std::uint64_t process_number() { return static_cast<std::uint64_t>(getpid()); }

std::uint32_t usable_cpus() {
#if defined(__linux__)
  cpu_set_t set;
  // Fails on machines with more CPUs than the set holds; then all CPUs count.
  if (sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<std::uint32_t>(CPU_COUNT(&set));
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

struct SignalMask {
  sigset_t set;
};

NoSignals::NoSignals() : before_(new SignalMask) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_->set);
}

NoSignals::~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_->set, nullptr); }

bool call_in_forked_children(void (*function)()) { return pthread_atfork(nullptr, nullptr, function) == 0; }

bool prepare_for_threads() { return true; }

bool has_lost_its_threads() { return false; }

}  // namespace h5lossy::platform
