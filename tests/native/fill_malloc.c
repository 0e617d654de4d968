/* SPDX-FileCopyrightText: The h5lossy authors
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * For LD_PRELOAD: fills all memory from malloc, realloc and the aligned allocators with 0xFF, which is NaN as a float and
 * far out of range as a count, so that a result that depends on uninitialized memory is always wrong. MALLOC_PERTURB_
 * cannot do that: it takes 1 to 255 and fills with the complement, so never with 0xFF. glibc only. */
#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <string.h>

void* __libc_malloc(size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

static void* filled(void* memory, size_t bytes) { return memory == NULL ? NULL : memset(memory, 0xFF, bytes); }

void* malloc(size_t bytes) { return filled(__libc_malloc(bytes), bytes); }

void* realloc(void* old, size_t bytes) {
  const size_t before = old == NULL ? 0 : malloc_usable_size(old);
  char* const memory = __libc_realloc(old, bytes);
  if (memory != NULL && bytes > before) memset(memory + before, 0xFF, bytes - before);
  return memory;
}

void* memalign(size_t alignment, size_t bytes) { return filled(__libc_memalign(alignment, bytes), bytes); }

void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  void* const found = memalign(alignment, bytes);
  if (found == NULL) return ENOMEM;
  *memory = found;
  return 0;
}
