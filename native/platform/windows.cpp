// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <direct.h>
#include <windows.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <thread>
#include <type_traits>

#include "platform/platform.h"

namespace h5lossy::platform {
namespace {

HMODULE module_at(const void* address) {
  HMODULE found = nullptr;
  GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                     static_cast<const char*>(address), &found);
  return found;
}

// Any pointer to a function or variable.
template <class Symbol>
Symbol cast(FARPROC symbol) {
  return reinterpret_cast<Symbol>(reinterpret_cast<void*>(symbol));
}

// A module's PE headers. All offsets are from its load address.
class Headers {
 public:
  explicit Headers(const void* base) : base_(static_cast<const char*>(base)) {
    nt_ = at<IMAGE_NT_HEADERS>(static_cast<DWORD>(at<IMAGE_DOS_HEADER>(0)->e_lfanew));
  }

  [[nodiscard]] std::string_view image() const { return {base_, nt_->OptionalHeader.SizeOfImage}; }

  // The address of a function that the module imports by name, from any library; null if it imports none.
  [[nodiscard]] void* find_import(const char* wanted) const {
    const IMAGE_DATA_DIRECTORY& directory = nt_->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_IMPORT];
    if (directory.VirtualAddress == 0) return nullptr;
    for (auto* library = at<IMAGE_IMPORT_DESCRIPTOR>(directory.VirtualAddress); library->Name != 0; ++library) {
      if (library->OriginalFirstThunk == 0) continue;
      auto* name = at<IMAGE_THUNK_DATA>(library->OriginalFirstThunk);
      auto* address = at<IMAGE_THUNK_DATA>(library->FirstThunk);
      for (; name->u1.AddressOfData != 0; ++name, ++address) {
        if (IMAGE_SNAP_BY_ORDINAL(name->u1.Ordinal)) continue;
        if (std::strcmp(at<IMAGE_IMPORT_BY_NAME>(static_cast<DWORD>(name->u1.AddressOfData))->Name, wanted) == 0) {
          return reinterpret_cast<void*>(address->u1.Function);
        }
      }
    }
    return nullptr;
  }

 private:
  template <class T>
  const T* at(DWORD offset) const {
    return reinterpret_cast<const T*>(base_ + offset);
  }

  const char* base_;
  const IMAGE_NT_HEADERS* nt_;
};

}  // namespace

Module::Module(const void* address) : handle_(module_at(address)), base_(handle_) {}

Module::~Module() = default;

void* Module::find(const char* symbol) const { return handle_ == nullptr ? nullptr : find_symbol(handle_, symbol); }

bool Module::holds(const void* address) const { return handle_ != nullptr && module_at(address) == handle_; }

std::string_view Module::image() const { return handle_ == nullptr ? std::string_view() : Headers(base_).image(); }

bool find_allocator(const void* address, Allocator& found) {
  const void* const base = module_at(address);
  if (base == nullptr) return false;
  const Headers headers(base);
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(headers.find_import(name));
    return function != nullptr;
  };
  return find("malloc", found.allocate) && find("calloc", found.allocate_zeros) && find("free", found.release);
}

void* open_library(const char* name) {
  // For a library named by its path, its folder is searched for its dependencies, too.
  std::string path = name;
  std::replace(path.begin(), path.end(), '/', '\\');
  const bool is_path = path.find('\\') != path.npos;
  return LoadLibraryExA(path.c_str(), nullptr, is_path ? LOAD_WITH_ALTERED_SEARCH_PATH : 0);
}

void* find_symbol(void* library, const char* symbol) {
  return cast<void*>(GetProcAddress(static_cast<HMODULE>(library), symbol));
}

bool is_loaded(const char* name) { return GetModuleHandleA(name) != nullptr; }

const char kCudaDriver[] = "nvcuda.dll";

std::string nvrtc_name(int major) {
  return major == 0 ? "nvrtc64.dll" : "nvrtc64_" + std::to_string(major) + "0_0.dll";
}

Variable::Variable(const char* name) noexcept {
  // The size includes the final zero, the length does not: they are equal only if the variable has just changed.
  const DWORD size = GetEnvironmentVariableA(name, nullptr, 0);
  if (size <= 1) return;
  memory_.reset(new (std::nothrow) char[size]);
  if (memory_ == nullptr) return;
  const DWORD length = GetEnvironmentVariableA(name, memory_.get(), size);
  if (length != 0 && length < size) text_ = memory_.get();
}

std::string cache_home() {
  const Variable local("LOCALAPPDATA");
  return local.text() == nullptr ? "" : local.text();
}

// Folders of a user are not readable by others.
void make_folder(const char* path) { _mkdir(path); }

File open_to_read(const char* path) { return File(std::fopen(path, "rbN")); }

std::uint64_t process_number() { return GetCurrentProcessId(); }

std::uint32_t usable_cpus() {
  DWORD_PTR own = 0, all = 0;
  // Zero if the process has CPUs of several groups of 64; then all CPUs count.
  if (GetProcessAffinityMask(GetCurrentProcess(), &own, &all) != 0 && own != 0) {
    return static_cast<std::uint32_t>(std::popcount(own));
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

struct SignalMask {};

// Windows has neither signals from other processes nor fork.
NoSignals::NoSignals() = default;
NoSignals::~NoSignals() = default;

bool call_in_forked_children(void (*)()) { return true; }

bool prepare_for_threads() {
  static const char inside = 0;
  HMODULE own = nullptr;
  return GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN, &inside, &own) != 0;
}

bool has_lost_its_threads() {
  // No import library exports this function.
  static const auto is_ending =
      cast<BOOLEAN(NTAPI*)(void)>(GetProcAddress(GetModuleHandleA("ntdll.dll"), "RtlDllShutdownInProgress"));
  return is_ending != nullptr && is_ending() != 0;
}

}  // namespace h5lossy::platform
