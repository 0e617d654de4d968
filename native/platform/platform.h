// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Everything that differs between operating systems. CMakeLists.txt compiles posix.cpp or windows.cpp; no other source
// tests for the operating system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace h5lossy::platform {

// ---- Libraries ------------------------------------------------------------------------------------------------------

// The library or program whose code holds an address. It has to stay loaded.
class Module {
 public:
  explicit Module(const void* address);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // A function or variable that the module exports; null if there is none. For a program, all loaded code may be
  // searched; holds() tells whether the result is the module's own.
  [[nodiscard]] void* find(const char* symbol) const;
  [[nodiscard]] bool holds(const void* address) const;

  // The module's code and data in memory. Empty if find() finds everything.
  [[nodiscard]] std::string_view image() const;

 private:
  void* handle_ = nullptr;
  const void* base_ = nullptr;
};

// malloc, calloc and free. On Windows, each C library in a process has its own, and a buffer must be freed by the C
// library that allocated it.
struct Allocator {
  void* (*allocate)(std::size_t bytes);
  void* (*allocate_zeros)(std::size_t count, std::size_t bytes);
  void (*release)(void* memory);
};

// The allocator of the module whose code holds an address. False if it cannot be found.
[[nodiscard]] bool find_allocator(const void* address, Allocator& found);

// Opens a library for the rest of the process; null if it cannot be opened.
void* open_library(const char* name);
void* find_symbol(void* library, const char* symbol);
[[nodiscard]] bool is_loaded(const char* name);

extern const char kCudaDriver[];
// The file name of NVRTC for a major version of CUDA; 0: any version.
[[nodiscard]] std::string nvrtc_name(int major);

// ---- Environment and files ------------------------------------------------------------------------------------------

// The current value of an environment variable. Windows' C libraries keep copies of the environment, and one does not
// see changes made through another.
class Variable {
 public:
  explicit Variable(const char* name) noexcept;
  // Null if it is not set, or empty.
  [[nodiscard]] const char* text() const { return text_; }

 private:
  const char* text_ = nullptr;
  std::unique_ptr<char[]> memory_;  // only where the system gives a copy
};

// The folder of the user's caches; "" if there is none.
[[nodiscard]] std::string cache_home();

// Makes a folder that only the user can read, unless it exists.
void make_folder(const char* path);

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// Opens a file that programs started by this one do not inherit; null if it cannot be opened.
[[nodiscard]] File open_to_read(const char* path);

// ---- Processes and threads ------------------------------------------------------------------------------------------

[[nodiscard]] std::uint64_t process_number();

// The CPUs of the process's affinity mask, at least 1.
[[nodiscard]] std::uint32_t usable_cpus();

// Threads started while one of these exists get no signals: those go to the host's own threads.
class NoSignals {
 public:
  NoSignals();
  ~NoSignals();
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  std::unique_ptr<struct SignalMask> before_;
};

// Makes each forked child call a function. False if that is impossible.
[[nodiscard]] bool call_in_forked_children(void (*function)());

// Called before this library starts threads. False if they could outlive its code. Windows cannot wait for threads
// while it unloads a library, so a library that has started one stays until the process ends.
[[nodiscard]] bool prepare_for_threads();

// Whether the process is exiting and the system has already ended all other threads, whatever locks they held.
[[nodiscard]] bool has_lost_its_threads();

}  // namespace h5lossy::platform
