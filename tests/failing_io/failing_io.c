// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause
//
// For LD_PRELOAD: makes calls that read or write files fail, or logs those that change them.
//
//   FAILING_IO_PATH   Part of the path of the affected files.
//   FAILING_IO_LOG    A file that every call is appended to, as a Call and its bytes or new name.
//   FAILING_IO_COUNT  A file that the number of calls is written to at the end.
//   FAILING_IO_FIRST  The number of the first call that fails, from 0.
//   FAILING_IO_LAST   The number of the last one.
//   FAILING_IO_ERRNO  The errno of the failure; 0: only half is read or written.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum Kind { WRITE, TRUNCATE, SYNC, RESERVE, RENAME };

struct Call {
  uint32_t kind;
  uint32_t size;  // of what follows
  uint64_t offset;
};

static long calls;

static long number_in(const char* name, long otherwise) {
  const char* text = getenv(name);
  return text == NULL ? otherwise : strtol(text, NULL, 10);
}

static int is_meant(const char* path) {
  const char* part = getenv("FAILING_IO_PATH");
  return part != NULL && strstr(path, part) != NULL;
}

static int is_meant_file(int file) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return is_meant(path);
}

// Returns how the next call has to fail: -1 not at all, 0 by half, else with this errno.
static int failure(void) {
  const long call = calls++;
  const long first = number_in("FAILING_IO_FIRST", -1);
  if (first < 0 || call < first || call > number_in("FAILING_IO_LAST", first)) return -1;
  return (int)number_in("FAILING_IO_ERRNO", EIO);
}

static void note(enum Kind kind, uint64_t offset, const void* bytes, size_t size) {
  const char* path = getenv("FAILING_IO_LOG");
  if (path == NULL) return;
  const int saved = errno;
  const int log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
  const struct Call call = {kind, (uint32_t)size, offset};
  const struct iovec parts[] = {{(void*)&call, sizeof call}, {(void*)bytes, size}};
  if (log < 0 || writev(log, parts, 2) != (ssize_t)(sizeof call + size)) abort();
  close(log);
  errno = saved;
}

__attribute__((destructor)) static void tell(void) {
  const char* path = getenv("FAILING_IO_COUNT");
  FILE* file = path == NULL ? NULL : fopen(path, "w");
  if (file == NULL) return;
  fprintf(file, "%ld", calls);
  fclose(file);
}

#define NEXT(function) ((__typeof__(&function))dlsym(RTLD_NEXT, #function))

// Fails if it has to; otherwise makes the call.
#define FAIL_IF_DUE(half)                  \
  do {                                     \
    const int code = failure();            \
    if (code == 0) {                       \
      half;                                \
    }                                      \
    if (code > 0) return errno = code, -1; \
  } while (0)

#define WRITE_AT(function, offset_type)                                            \
  ssize_t function(int file, const void* bytes, size_t size, offset_type offset) { \
    if (!is_meant_file(file)) return NEXT(function)(file, bytes, size, offset);    \
    FAIL_IF_DUE(size = (size + 1) / 2);                                            \
    const ssize_t done = NEXT(function)(file, bytes, size, offset);                \
    if (done > 0) note(WRITE, (uint64_t)offset, bytes, (size_t)done);              \
    return done;                                                                   \
  }
WRITE_AT(pwrite, off_t)
WRITE_AT(pwrite64, off64_t)

#define READ_AT(function, offset_type)                                       \
  ssize_t function(int file, void* bytes, size_t size, offset_type offset) { \
    if (is_meant_file(file)) FAIL_IF_DUE(size = (size + 1) / 2);             \
    return NEXT(function)(file, bytes, size, offset);                        \
  }
READ_AT(pread, off_t)
READ_AT(pread64, off64_t)

ssize_t write(int file, const void* bytes, size_t size) {
  if (!is_meant_file(file)) return NEXT(write)(file, bytes, size);
  FAIL_IF_DUE(size = (size + 1) / 2);
  const off_t offset = lseek(file, 0, SEEK_CUR);
  const ssize_t done = NEXT(write)(file, bytes, size);
  if (done > 0) note(WRITE, (uint64_t)offset, bytes, (size_t)done);
  return done;
}

#define TRUNCATE_TO(function, offset_type)                       \
  int function(int file, offset_type size) {                     \
    if (!is_meant_file(file)) return NEXT(function)(file, size); \
    FAIL_IF_DUE();                                               \
    const int status = NEXT(function)(file, size);               \
    if (status == 0) note(TRUNCATE, (uint64_t)size, NULL, 0);    \
    return status;                                               \
  }
TRUNCATE_TO(ftruncate, off_t)
TRUNCATE_TO(ftruncate64, off64_t)

#define SYNC_TO_DISK(function)                             \
  int function(int file) {                                 \
    if (!is_meant_file(file)) return NEXT(function)(file); \
    FAIL_IF_DUE();                                         \
    const int status = NEXT(function)(file);               \
    if (status == 0) note(SYNC, 0, NULL, 0);               \
    return status;                                         \
  }
SYNC_TO_DISK(fsync)
SYNC_TO_DISK(fdatasync)

#define ALLOCATE(function, offset_type)                                        \
  int function(int file, int mode, offset_type offset, offset_type size) {     \
    if (!is_meant_file(file)) return NEXT(function)(file, mode, offset, size); \
    FAIL_IF_DUE();                                                             \
    const int status = NEXT(function)(file, mode, offset, size);               \
    if (status == 0) note(RESERVE, (uint64_t)offset, NULL, 0);                 \
    return status;                                                             \
  }
ALLOCATE(fallocate, off_t)
ALLOCATE(fallocate64, off64_t)

int rename(const char* from, const char* to) {
  if (!is_meant(from)) return NEXT(rename)(from, to);
  FAIL_IF_DUE();
  const int status = NEXT(rename)(from, to);
  if (status == 0) note(RENAME, 0, to, strlen(to));
  return status;
}
