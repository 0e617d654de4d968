// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Replacements of the allocation functions. In a separate file, because compilers that inline a replaced operator delete
// warn that it does not match new.

#include "allocations.h"

#include <malloc.h>

#include <cstdlib>
#include <new>

namespace h5lossy::test {

Allocations allocations;

namespace {

void* held(void* memory) {
  allocations.hold(static_cast<long>(malloc_usable_size(memory)));
  return memory;
}

void given_back(void* memory) { allocations.hold(-static_cast<long>(malloc_usable_size(memory))); }

}  // namespace
}  // namespace h5lossy::test

using h5lossy::test::allocations;

extern "C" {
void* __real_malloc(std::size_t size);
void* __real_calloc(std::size_t count, std::size_t size);
void* __real_realloc(void* memory, std::size_t size);
void __real_free(void* memory);

void* __wrap_malloc(std::size_t size) {
  return allocations.allow() ? h5lossy::test::held(__real_malloc(size)) : nullptr;
}
void* __wrap_calloc(std::size_t count, std::size_t size) {
  return allocations.allow() ? h5lossy::test::held(__real_calloc(count, size)) : nullptr;
}
void* __wrap_realloc(void* memory, std::size_t size) {
  if (!allocations.allow()) return nullptr;
  h5lossy::test::given_back(memory);
  return h5lossy::test::held(__real_realloc(memory, size));
}
void __wrap_free(void* memory) {
  h5lossy::test::given_back(memory);
  __real_free(memory);
}
}

// All forms, since a sanitizer's would not call the first. None of the library's types asks for more than the usual
// alignment.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocations.allow() ? h5lossy::test::held(__real_malloc(size == 0 ? 1 : size)) : nullptr;
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return operator new(size, std::nothrow); }
void* operator new(std::size_t size) {
  void* const memory = operator new(size, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](std::size_t size) { return operator new(size); }
void operator delete(void* memory) noexcept { __wrap_free(memory); }
void operator delete[](void* memory) noexcept { __wrap_free(memory); }
void operator delete(void* memory, std::size_t) noexcept { __wrap_free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { __wrap_free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { __wrap_free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { __wrap_free(memory); }
