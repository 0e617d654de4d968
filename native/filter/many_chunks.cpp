// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Many chunks per call, by functions of the caller's HDF5. Nothing here throws.

#include "h5lossy_chunks.h"

#include <algorithm>
#include <cstdint>

#include "frame/message.h"

namespace h5lossy {
namespace {

constexpr std::int64_t kDefaultList = 0;
constexpr std::int64_t kDefaultStack = 0;
constexpr int kStop = 1;         // H5_ITER_STOP
constexpr int kFromOutside = 1;  // H5E_WALK_DOWNWARD: begins at the function that was called
constexpr std::uint64_t kNotStored = ~0ull;
constexpr std::uint64_t kEverything = ~0ull;
constexpr std::uint64_t kNoAddress = ~0ull;  // HADDR_UNDEF

// H5E_error2_t.
struct Error {
  std::int64_t numbers[3];
  unsigned line;
  const char* function_and_file[2];
  const char* description;
};

// What was called and what went wrong, of HDF5's stack of errors.
struct Reason {
  h5l_message outer, inner;
};

int read_error(unsigned n, const void* error, void* data) {
  const auto* const description = static_cast<const Error*>(error)->description;
  auto& reason = *static_cast<Reason*>(data);
  static_cast<void>(Message(n == 0 ? &reason.outer : &reason.inner).fail(H5L_OK, "%s", description));
  return 0;
}

h5l_write_end fail(const h5l_hdf5& hdf5, const Message& why) {
  Reason reason{};
  hdf5.walk_errors(kDefaultStack, kFromOutside, read_error, &reason);
  static_cast<void>(why.fail(H5L_INTERNAL, "%s (%s)", reason.outer.text, reason.inner.text));
  return H5L_WRITE_FAILED;
}

// What h5l_list_chunks fills.
struct Listing {
  std::size_t rank, capacity;
  std::uint64_t* rows;
  std::size_t count;
};

int list_chunk(const std::uint64_t* place, unsigned mask, std::uint64_t address, std::uint64_t bytes, void* data) {
  auto& listing = *static_cast<Listing*>(data);
  if (listing.count == listing.capacity) return kStop;
  if (address == kNoAddress) return 0;  // of a damaged index
  std::uint64_t* const rest = std::copy_n(place, listing.rank, listing.rows + listing.count * (listing.rank + 3));
  rest[0] = mask, rest[1] = address, rest[2] = bytes;
  return ++listing.count == listing.capacity ? kStop : 0;
}

}  // namespace
}  // namespace h5lossy

extern "C" {

h5l_write_end h5l_write_chunks(const h5l_hdf5* hdf5, std::int64_t file, std::int64_t dataset, std::uint32_t rank,
                               std::size_t count, const std::uint64_t* places, const void* const* frames,
                               const std::size_t* frame_bytes, const h5l_space* space, std::size_t* written,
                               h5l_message* message) {
  const h5lossy::Message why(message);
  for (*written = 0; *written < count; ++*written, places += rank) {
    const std::size_t bytes = frame_bytes[*written];
    std::uint64_t end = 0, old = h5lossy::kNotStored;  // unchanged if no chunk at all is stored
    if (space->reserved != h5lossy::kEverything) {
      if (hdf5->get_eoa(file, &end) < 0) return h5lossy::fail(*hdf5, why);
      if (end > space->reserved || space->reserved - end < space->index_bytes ||
          space->reserved - end - space->index_bytes < bytes) {
        return H5L_WRITE_NEEDS_SPACE;
      }
    }
    // This fails for a damaged index, as writing will.
    const bool is_known = hdf5->get_chunk_storage_size(dataset, places, &old) >= 0;
    if (hdf5->write_chunk(dataset, h5lossy::kDefaultList, 0, places, bytes, frames[*written]) < 0) {
      return h5lossy::fail(*hdf5, why);
    }
    if (!is_known || old == h5lossy::kNotStored || old == bytes || space->stated == h5lossy::kEverything) continue;
    // Not for all of HDF5's drivers.
    if (hdf5->get_eoa(file, &end) < 0 || end > space->stated) {
      ++*written;
      return H5L_WRITE_NEEDS_FLUSH;
    }
    if (hdf5->flush_dataset(dataset) < 0) return h5lossy::fail(*hdf5, why);
  }
  return H5L_WRITE_DONE;
}

h5l_status h5l_list_chunks(const h5l_hdf5* hdf5, std::int64_t dataset, std::uint32_t rank, std::size_t capacity,
                           std::uint64_t* rows, std::size_t* count, h5l_message* message) {
  const h5lossy::Message why(message);
  h5lossy::Listing listing{rank, capacity, rows, 0};
  const int status = hdf5->iterate_chunks(dataset, h5lossy::kDefaultList, h5lossy::list_chunk, &listing);
  *count = listing.count;
  if (status >= 0) return H5L_OK;
  h5lossy::fail(*hdf5, why);
  return H5L_CORRUPT;
}

}  // extern "C"
