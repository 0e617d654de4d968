// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The plugin in an HDF5 library, on a machine without Python: under an emulator, for other systems.
//
//   hdf5_keeps_the_promise HDF5 write|read FILE
//
// HDF5 is the shared library, which finds the plugin by HDF5_PLUGIN_PATH. `write` writes a file with datasets of all
// codecs, types and kinds of bounds, reads it, and checks that damaged frames are refused. It ends with the file open
// and a chunk not yet written, while threads are in the pool. `read` reads a file that `write` has left, perhaps on
// another system, and closes HDF5, which unloads the plugin, with threads in the pool.

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "check.h"
#include "filter/hdf5_symbols.h"
#include "platform/platform.h"
#include "values.h"

namespace h5lossy::test {
namespace {

using hdf5::herr_t, hdf5::hid_t, hdf5::hsize_t;

// The HDF5 functions that are called here; the declarations repeat HDF5's.
#define H5L_FUNCTIONS(X)                                                                             \
  X(herr_t, H5close, (void))                                                                         \
  X(herr_t, H5open, (void))                                                                          \
  X(herr_t, H5get_libversion, (unsigned*, unsigned*, unsigned*))                                     \
  X(herr_t, H5Eset_auto2, (hid_t, void*, void*))                                                     \
  X(herr_t, H5Eprint2, (hid_t, std::FILE*))                                                          \
  X(hid_t, H5Fcreate, (const char*, unsigned, hid_t, hid_t))                                         \
  X(hid_t, H5Fopen, (const char*, unsigned, hid_t))                                                  \
  X(herr_t, H5Fclose, (hid_t))                                                                       \
  X(hid_t, H5Screate_simple, (int, const hsize_t*, const hsize_t*))                                  \
  X(herr_t, H5Sclose, (hid_t))                                                                       \
  X(hid_t, H5Pcreate, (hid_t))                                                                       \
  X(herr_t, H5Pset_chunk, (hid_t, int, const hsize_t*))                                              \
  X(herr_t, H5Pset_fill_value, (hid_t, hid_t, const void*))                                          \
  X(herr_t, H5Pset_filter, (hid_t, int, unsigned, std::size_t, const unsigned*))                     \
  X(herr_t, H5Pclose, (hid_t))                                                                       \
  X(hid_t, H5Dcreate2, (hid_t, const char*, hid_t, hid_t, hid_t, hid_t, hid_t))                      \
  X(hid_t, H5Dopen2, (hid_t, const char*, hid_t))                                                    \
  X(herr_t, H5Dwrite, (hid_t, hid_t, hid_t, hid_t, hid_t, const void*))                              \
  X(herr_t, H5Dread, (hid_t, hid_t, hid_t, hid_t, hid_t, void*))                                     \
  X(herr_t, H5Dget_chunk_storage_size, (hid_t, const hsize_t*, hsize_t*))                            \
  X(herr_t, H5Dread_chunk, (hid_t, hid_t, const hsize_t*, std::uint32_t*, void*))                    \
  X(herr_t, H5Dwrite_chunk, (hid_t, hid_t, std::uint32_t, const hsize_t*, std::size_t, const void*)) \
  X(herr_t, H5Dclose, (hid_t))

struct Hdf5 {
#define X(result, name, parameters) result(*name) parameters = nullptr;
  H5L_FUNCTIONS(X)
#undef X
  void* library = nullptr;

  explicit Hdf5(const char* path) : library(platform::open_library(path)) {
    CHECK(library != nullptr, "cannot open %s", path);
#define X(result, name, parameters) find(#name, name);
    H5L_FUNCTIONS(X)
#undef X
    unsigned version[3] = {};
    CHECK(H5open() >= 0 && H5get_libversion(version, version + 1, version + 2) >= 0, "HDF5 cannot be started");
    std::printf("HDF5 %u.%u.%u\n", version[0], version[1], version[2]);
  }

  template <class Symbol>
  void find(const char* name, Symbol& symbol) const {
    symbol = reinterpret_cast<Symbol>(platform::find_symbol(library, name));
    CHECK(symbol != nullptr, "HDF5 has no %s", name);
  }

  // The number behind a macro of HDF5's headers.
  [[nodiscard]] hid_t number(const char* name) const {
    const hid_t* found = nullptr;
    find(name, found);
    return *found;
  }
};

constexpr hid_t kDefault = 0, kAll = 0;

// Returns a number of HDF5's; on failure, ends with HDF5's message.
template <class Result>
Result must(const Hdf5& h5, Result result, const std::string& what) {
  if (result < 0) {
    h5.H5Eprint2(kDefault, stderr);
    CHECK(result >= 0, "%s", what.c_str());
  }
  return result;
}

// A dataset of a few chunks, each of which is a slab of contiguous values; or of one large chunk, which several threads
// share.
constexpr hsize_t kChunk[] = {12, 20, 24}, kLargeChunk[] = {64, 128, 128};
constexpr hsize_t kChunks = 3;

struct Layout {
  hsize_t extents[3], chunk[3];
  explicit Layout(bool is_large) {
    for (int axis = 0; axis < 3; ++axis) extents[axis] = chunk[axis] = is_large ? kLargeChunk[axis] : kChunk[axis];
    if (!is_large) extents[0] *= kChunks;
  }
  [[nodiscard]] std::size_t chunk_values() const { return chunk[0] * chunk[1] * chunk[2]; }
  [[nodiscard]] std::size_t values() const { return extents[0] * extents[1] * extents[2]; }
};

struct Request {
  unsigned codec, mode;
};

constexpr Request kRequests[] = {
#define H5L_CODEC(number, name) {number, 0},
#include "runtime/codecs.def"
    {H5L_CODEC_CUSZP2, 0x10},         {H5L_CODEC_CUSZP2, 0x21},        {H5L_CODEC_CUSZP2, 0x32},
    {H5L_CODEC_AUTO, H5L_AUTO_SPEED}, {H5L_CODEC_AUTO, H5L_AUTO_SIZE},
};

struct Type {
  const char *stored, *own;  // in the file and in memory
};

constexpr Type kFloat = {"H5T_IEEE_F32LE_g", "H5T_NATIVE_FLOAT_g"};

hid_t create(const Hdf5& h5, hid_t file, const std::string& name, const Type& type, const Layout& layout,
             const Request& request, const Setting& setting, const void* fill) {
  std::uint64_t bound = 0;
  std::memcpy(&bound, &setting.bound, sizeof bound);
  const unsigned words[] = {request.codec, setting.kind, static_cast<unsigned>(bound),
                            static_cast<unsigned>(bound >> 32), request.mode};
  const hid_t space = must(h5, h5.H5Screate_simple(3, layout.extents, nullptr), name);
  const hid_t list = must(h5, h5.H5Pcreate(h5.number("H5P_CLS_DATASET_CREATE_ID_g")), name);
  must(h5, h5.H5Pset_chunk(list, 3, layout.chunk), name);
  if (fill != nullptr) must(h5, h5.H5Pset_fill_value(list, h5.number(type.own), fill), name);
  must(h5, h5.H5Pset_filter(list, H5L_FILTER_ID, hdf5::kFlagMandatory, std::size(words), words), name);
  const hid_t dataset =
      must(h5, h5.H5Dcreate2(file, name.c_str(), h5.number(type.stored), space, kDefault, list, kDefault), name);
  h5.H5Pclose(list);
  h5.H5Sclose(space);
  return dataset;
}

// Writes or reads and checks, one after the other, all datasets of a file.
class File {
 public:
  File(const Hdf5& h5, const char* path, bool writes)
      : h5_(h5),
        writes_(writes),
        file_(writes ? h5.H5Fcreate(path, 2, kDefault, kDefault) : h5.H5Fopen(path, 0, kDefault)) {
    must(h5, file_, path);
  }

  void all() {
    for (const Request& request : kRequests) {
      floats<float>(request, kFloat, false);
      floats<double>(request, {"H5T_IEEE_F64BE_g", "H5T_NATIVE_DOUBLE_g"}, false);
      if (request.codec == H5L_CODEC_AUTO || request.codec == H5L_CODEC_PFPL) {
        integers<std::int8_t>(request, {"H5T_STD_I8LE_g", "H5T_NATIVE_INT8_g"});
        integers<std::uint16_t>(request, {"H5T_STD_U16BE_g", "H5T_NATIVE_UINT16_g"});
        integers<std::int32_t>(request, {"H5T_STD_I32LE_g", "H5T_NATIVE_INT32_g"});
        integers<std::uint64_t>(request, {"H5T_STD_U64LE_g", "H5T_NATIVE_UINT64_g"});
      }
    }
    for (const Request& request : kRequests) {
      floats<float>(request, kFloat, true);
    }
  }

  // The dataset that a program left in HDF5's memory when it ended.
  void unfinished(bool is_left_open) {
    const Request pfpl = {H5L_CODEC_PFPL, 0};
    const Setting setting = {H5L_BOUND_ABSOLUTE, 1e-3};
    const auto values = make<float>(setting, Layout(true).values(), 17);
    dataset<float>("unfinished", kFloat, Layout(true), pfpl, setting, values, nullptr, is_left_open,
                   [&](const auto& read) { check<float>("unfinished", Layout(true), setting, values, read, nullptr); });
  }

  void close() { must(h5_, h5_.H5Fclose(file_), "the file"); }

  [[nodiscard]] int count() const { return count_; }

  // Every damaged frame is refused, and HDF5 continues to work.
  void damage(const Request& request) {
    const Setting setting = {H5L_BOUND_ABSOLUTE, 1e-2};
    const Layout layout(false);
    const auto values = make<float>(setting, layout.values(), request.codec);
    const std::string name = "damaged_" + std::to_string(request.codec) + "_" + std::to_string(request.mode);
    const hid_t own = h5_.number(kFloat.own);
    const hid_t dataset = create(h5_, file_, name, kFloat, layout, request, setting, nullptr);
    must(h5_, h5_.H5Dwrite(dataset, own, kAll, kAll, kDefault, values.data()), name);
    must(h5_, h5_.H5Dclose(dataset), name);
    const hid_t again = must(h5_, h5_.H5Dopen2(file_, name.c_str(), kDefault), name);
    const hsize_t first[3] = {};
    hsize_t bytes = 0;
    must(h5_, h5_.H5Dget_chunk_storage_size(again, first, &bytes), name);
    std::vector<std::uint8_t> frame(bytes);
    std::uint32_t mask = 0;
    must(h5_, h5_.H5Dread_chunk(again, kDefault, first, &mask, frame.data()), name);
    std::vector<Bits<float>> read(values.size());
    const auto is_read = [&](const std::vector<std::uint8_t>& chunk) {
      must(h5_, h5_.H5Dwrite_chunk(again, kDefault, 0, first, chunk.size(), chunk.data()), name);
      return h5_.H5Dread(again, own, kAll, kAll, kDefault, read.data()) >= 0;
    };
    const std::size_t step = frame.size() / 150 + 1;
    for (std::size_t at = 0; at < frame.size(); at += at < 64 ? 1 : step) {
      std::vector<std::uint8_t> damaged = frame;
      damaged[at] = static_cast<std::uint8_t>(damaged[at] ^ (1u << at % 8));
      CHECK(!is_read(damaged), "%s: byte %zu of %zu was changed", name.c_str(), at, frame.size());
      if (at == 0) continue;  // HDF5 stores no empty chunk
      damaged.assign(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(at));
      CHECK(!is_read(damaged), "%s: %zu of %zu bytes are there", name.c_str(), at, frame.size());
    }
    CHECK(is_read(frame), "%s: the whole frame", name.c_str());
    must(h5_, h5_.H5Dclose(again), name);
  }

 private:
  template <class T>
  static std::vector<Bits<T>> make(const Setting& setting, std::size_t count, std::uint64_t seed) {
    Random random(seed);
    return Values<T>(random, setting, 40).make(count);
  }

  template <class T>
  static void check(const std::string& name, const Layout& layout, const Setting& setting,
                    const std::vector<Bits<T>>& values, const std::vector<Bits<T>>& read, const Bits<T>* fill) {
    h5l_params params = {};
    params.bound_kind = setting.kind;
    params.bound = setting.bound;
    params.maybe_padded = 1;
    params.has_fill = fill != nullptr ? 1 : 0;
    params.fill_bits = fill != nullptr ? *fill : 0;
    const std::size_t chunk = layout.chunk_values();
    for (std::size_t at = 0; at < values.size(); at += chunk) {
      check_promise<T>(name.c_str(), params, std::span(values).subspan(at, chunk), std::span(read).subspan(at, chunk));
    }
  }

  template <class T>
  void floats(const Request& request, const Type& type, bool is_large) {
    const Layout layout(is_large);
    const T missing = static_cast<T>(-999);
    const Bits<T> fill = std::bit_cast<Bits<T>>(missing);
    unsigned number = 0;
    for (const Setting& setting : settings<T>()) {
      const bool has_fill = ++number % 2 == 0;
      if (is_large && number > 1) break;
      auto values = make<T>(setting, layout.values(), number);
      if (has_fill) {
        for (std::size_t i = 0; i < values.size(); i += 7) values[i] = fill;
      }
      const std::string name = std::to_string(request.codec) + "_" + std::to_string(request.mode) + "_float" +
                               std::to_string(8 * sizeof(T)) + "_" + std::to_string(number) +
                               (is_large ? "_large" : "");
      const Bits<T>* const exact = has_fill ? &fill : nullptr;
      dataset<T>(name, type, layout, request, setting, values, exact, false,
                 [&](const auto& read) { check<T>(name, layout, setting, values, read, exact); });
    }
  }

  template <class T>
  void integers(const Request& request, const Type& type) {
    const Layout layout(false);
    for (const unsigned bound : {0u, 3u}) {
      Random random(bound + 1);
      std::vector<T> values(layout.values());
      T level = 40;
      for (T& value : values)
        value =
            random.one_in(50) ? static_cast<T>(random.next()) : static_cast<T>(level + static_cast<T>(random.below(9)));
      const Setting setting = {bound == 0 ? unsigned{H5L_BOUND_LOSSLESS} : unsigned{H5L_BOUND_ABSOLUTE}, 1.0 * bound};
      const std::string name = std::to_string(request.codec) + "_" + std::to_string(request.mode) + "_" +
                               (type.stored + 8) + "_" + std::to_string(bound);
      dataset<T>(name, type, layout, request, setting, values, nullptr, false, [&](const auto& read) {
        for (std::size_t i = 0; i < values.size(); ++i) {
          const T larger = std::max(values[i], read[i]), smaller = std::min(values[i], read[i]);
          CHECK(larger == smaller || static_cast<std::uint64_t>(larger) - static_cast<std::uint64_t>(smaller) <= bound,
                "%s: value %zu is off by more than %u", name.c_str(), i, bound);
        }
      });
    }
  }

  template <class T, class Words, class Check>
  void dataset(const std::string& name, const Type& type, const Layout& layout, const Request& request,
               const Setting& setting, const Words& values, const void* fill, bool is_left_open,
               const Check& check_values) {
    static_assert(sizeof values[0] == sizeof(T));
    const hid_t own = h5_.number(type.own);
    ++count_;
    if (writes_) {
      const hid_t dataset = create(h5_, file_, name, type, layout, request, setting, fill);
      must(h5_, h5_.H5Dwrite(dataset, own, kAll, kAll, kDefault, values.data()), name);
      if (!is_left_open) must(h5_, h5_.H5Dclose(dataset), name);
      return;
    }
    const hid_t dataset = must(h5_, h5_.H5Dopen2(file_, name.c_str(), kDefault), name);
    Words read(values.size());
    must(h5_, h5_.H5Dread(dataset, own, kAll, kAll, kDefault, read.data()), name);
    must(h5_, h5_.H5Dclose(dataset), name);
    check_values(read);
  }

  const Hdf5& h5_;
  const bool writes_;
  const hid_t file_;
  int count_ = 0;
};

void write(const Hdf5& h5, const std::string& path) {
  File file(h5, path.c_str(), true);
  file.all();
  for (const Request& request : kRequests) file.damage(request);
  file.close();
  File(h5, (path + ".unfinished").c_str(), true).unfinished(true);
}

void read(const Hdf5& h5, const std::string& path) {
  File file(h5, path.c_str(), false), unfinished(h5, (path + ".unfinished").c_str(), false);
  file.all();
  file.close();
  unfinished.unfinished(false);
  unfinished.close();
  must(h5, h5.H5close(), "HDF5's end");
  std::printf("%d datasets keep the promise\n", file.count() + unfinished.count());
}

}  // namespace
}  // namespace h5lossy::test

int main(int arguments, char** argument) {
  using namespace h5lossy::test;
  const std::string task = arguments == 4 ? argument[2] : "";
  CHECK(task == "write" || task == "read", "usage: %s HDF5 write|read FILE", argument[0]);
  const char threads[] = "H5LOSSY_NUM_THREADS";
  CHECK(h5lossy::platform::Variable(threads).text() != nullptr, "set %s to 2 or more: this is about threads, too",
        threads);
  const Hdf5 h5(argument[1]);
  h5.H5Eset_auto2(kDefault, nullptr, nullptr);  // errors are expected
  task == "write" ? write(h5, argument[3]) : read(h5, argument[3]);
}
