// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// can_apply, set_local and the filter when reading, called by a program that contains HDF5: this one, with fake versions of
// a few HDF5 functions. So every result of HDF5 can be tested, including failures, and with sanitizers. The Python tests use
// the real HDF5.
//
// usage: plugin_reads_the_dataset_from_hdf5 path/to/libh5lossy.so

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstdarg>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "filter/hdf5_symbols.h"

namespace h5lossy::test {
namespace {

using hdf5::herr_t;
using hdf5::hid_t;
using hdf5::hsize_t;

// The properties of the dataset in the fake HDF5, and the calls that it received.
struct Hdf5 {
  int type_class = hdf5::kClassFloat;
  std::size_t size = 4;
  int order = hdf5::kOrderLittle;
  std::size_t precision = 32;
  std::size_t sign = 31, exponent = 23, exponent_bits = 8, mantissa = 0, mantissa_bits = 23;
  std::size_t exponent_bias = 127;
  int integer_sign = hdf5::kSignTwosComplement;
  int norm = hdf5::kNormImplied;
  bool is_variable_string = false;
  std::vector<hsize_t> extents = {100, 200};
  int first_filter = H5L_FILTER_ID;
  std::vector<unsigned> words = {1, 0, 3539053052u, 1062232653u};  // absolute 0.001
  int fill_status = 1;                                             // default
  std::vector<std::uint8_t> fill = std::vector<std::uint8_t>(8);   // in the type's byte order
  std::string fails;                                               // the function that fails
  std::vector<int> filters_behind;
  std::vector<hid_t> open;  // identifiers of open datasets, all like this one

  int fills_read = 0;
  unsigned flags = 1;  // optional, as h5py says
  std::string pushed;

  // Of complex numbers.
  std::vector<std::string> members = {"r", "i"};
  std::size_t size_of_both = 8, second_offset = 4;
  int open_components = 0;

  [[nodiscard]] bool failing(const char* function) const { return fails == function; }
  [[nodiscard]] bool is_complex() const {
    return type_class == hdf5::kClassCompound || type_class == hdf5::kClassComplex;
  }
};

Hdf5 fake;

constexpr hid_t kDcpl = 10, kType = 11, kSpace = 12;
constexpr hid_t kComponent = 13;  // of a complex number: the float that the rest describes

}  // namespace
}  // namespace h5lossy::test

// What the plugin finds by dlsym. Each checks that it was given the right handle.
extern "C" {
#pragma GCC visibility push(default)
using namespace h5lossy::test;

hid_t H5E_ERR_CLS_g = 20, H5E_PLINE_g = 21, H5E_CANTINIT_g = 22;
char H5_lib_vers_info_g[] = "HDF5 library version: 1.14.6";

int H5Tget_class(hid_t type) {
  CHECK(type == kType || type == kComponent, "%lld", static_cast<long long>(type));
  if (fake.failing("H5Tget_class")) return -1;
  return type == kComponent ? h5lossy::hdf5::kClassFloat : fake.type_class;
}
std::size_t H5Tget_size(hid_t type) {
  if (fake.failing("H5Tget_size")) return 0;
  return type == kType && fake.is_complex() ? fake.size_of_both : fake.size;
}
int H5Tget_nmembers(hid_t) { return fake.failing("H5Tget_nmembers") ? -1 : static_cast<int>(fake.members.size()); }
int H5Tget_member_index(hid_t, const char* name) {
  const auto found = std::find(fake.members.begin(), fake.members.end(), name);
  return found == fake.members.end() ? -1 : static_cast<int>(found - fake.members.begin());
}
hid_t H5Tget_member_type(hid_t, unsigned) {
  if (fake.failing("H5Tget_member_type")) return -1;
  ++fake.open_components;
  return kComponent;
}
std::size_t H5Tget_member_offset(hid_t, unsigned member) { return member * fake.second_offset; }
hid_t H5Tget_super(hid_t) {
  if (fake.failing("H5Tget_super")) return -1;
  ++fake.open_components;
  return kComponent;
}
int H5Tis_variable_str(hid_t type) {
  CHECK(type == kType, "%lld", static_cast<long long>(type));
  return fake.failing("H5Tis_variable_str") ? -1 : fake.is_variable_string ? 1 : 0;
}
int H5Tget_order(hid_t) { return fake.failing("H5Tget_order") ? -1 : fake.order; }
std::size_t H5Tget_precision(hid_t) { return fake.failing("H5Tget_precision") ? 0 : fake.precision; }
int H5Tget_sign(hid_t) {
  CHECK(fake.type_class == h5lossy::hdf5::kClassInteger, "HDF5 would print an error");
  return fake.failing("H5Tget_sign") ? -1 : fake.integer_sign;
}
herr_t H5Tget_fields(hid_t, std::size_t* sign, std::size_t* exponent, std::size_t* exponent_bits, std::size_t* mantissa,
                     std::size_t* mantissa_bits) {
  if (fake.failing("H5Tget_fields")) return -1;
  *sign = fake.sign;
  *exponent = fake.exponent;
  *exponent_bits = fake.exponent_bits;
  *mantissa = fake.mantissa;
  *mantissa_bits = fake.mantissa_bits;
  return 0;
}
std::size_t H5Tget_ebias(hid_t) { return fake.failing("H5Tget_ebias") ? 0 : fake.exponent_bias; }
int H5Tget_norm(hid_t) { return fake.failing("H5Tget_norm") ? -1 : fake.norm; }
int H5Sget_simple_extent_ndims(hid_t space) {
  CHECK(space == kSpace, "%lld", static_cast<long long>(space));
  return fake.failing("H5Sget_simple_extent_ndims") ? -1 : static_cast<int>(fake.extents.size());
}
int H5Sget_simple_extent_dims(hid_t, hsize_t* extents, hsize_t*) {
  if (fake.failing("H5Sget_simple_extent_dims")) return -1;
  std::copy(fake.extents.begin(), fake.extents.end(), extents);
  return static_cast<int>(fake.extents.size());
}
int H5Pget_filter2(hid_t dcpl, unsigned index, unsigned* flags, std::size_t* count, unsigned* words,
                   std::size_t name_size, char* name, unsigned* config) {
  CHECK(dcpl == kDcpl && index <= fake.filters_behind.size(), "%lld, filter %u", static_cast<long long>(dcpl), index);
  if (fake.failing("H5Pget_filter2")) return -1;
  if (index > 0) {
    *count = 0;
    std::memset(name, '\0', name_size);
    return fake.filters_behind[index - 1];
  }
  *flags = fake.flags;
  *config = 3;
  std::copy_n(fake.words.begin(), std::min(*count, fake.words.size()), words);
  *count = fake.words.size();  // all that there are, as HDF5 says it
  if (name_size != 0) {
    std::memset(name, 'n', name_size);
    name[name_size - 1] = '\0';
  }
  return fake.first_filter;
}
herr_t H5Pmodify_filter(hid_t dcpl, int id, unsigned flags, std::size_t count, const unsigned* words) {
  CHECK(dcpl == kDcpl && id == H5L_FILTER_ID, "%lld, filter %d", static_cast<long long>(dcpl), id);
  if (fake.failing("H5Pmodify_filter")) return -1;
  fake.flags = flags;
  fake.words.assign(words, words + count);
  return 0;
}
herr_t H5Pfill_value_defined(hid_t, int* status) {
  *status = fake.fill_status;
  return fake.failing("H5Pfill_value_defined") ? -1 : 0;
}
herr_t H5Pget_fill_value(hid_t, hid_t type, void* value) {
  CHECK(type == kType, "%lld", static_cast<long long>(type));
  ++fake.fills_read;
  if (fake.failing("H5Pget_fill_value")) return -1;
  std::memcpy(value, fake.fill.data(), fake.size);
  return 0;
}
std::ptrdiff_t H5Fget_obj_ids(hid_t, unsigned types, std::size_t room, hid_t* ids) {
  CHECK(types == h5lossy::hdf5::kObjectDataset, "types %u", types);
  std::copy_n(fake.open.begin(), std::min(room, fake.open.size()), ids);
  return static_cast<std::ptrdiff_t>(fake.open.size());
}
hid_t H5Dget_type(hid_t) { return kType; }
hid_t H5Dget_create_plist(hid_t) { return kDcpl; }
int H5Pget_layout(hid_t) { return h5lossy::hdf5::kLayoutChunked; }
int H5Pget_chunk(hid_t, int room, hsize_t* extents) {
  std::copy_n(fake.extents.begin(), std::min<std::size_t>(static_cast<std::size_t>(room), fake.extents.size()),
              extents);
  return static_cast<int>(fake.extents.size());
}
int H5Pget_nfilters(hid_t) { return 1 + static_cast<int>(fake.filters_behind.size()); }
herr_t H5Tclose(hid_t type) {
  if (type == kComponent) --fake.open_components;
  return type == kType || type == kComponent ? 0 : -1;
}
herr_t H5Pclose(hid_t list) { return list == kDcpl ? 0 : -1; }
herr_t H5Epush2(hid_t, const char*, const char*, unsigned, hid_t error_class, hid_t major, hid_t minor,
                const char* format, ...) {
  CHECK(error_class == 20 && major == 21 && minor == 22, "class %lld", static_cast<long long>(error_class));
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fake.pushed = text;
  return 0;
}
#pragma GCC visibility pop
}

namespace h5lossy::test {
namespace {

const hdf5::FilterClass* filter = nullptr;

// Both callbacks take the dataset; returns the words that are stored.
std::vector<unsigned> taken(const Hdf5& dataset, const char* what) {
  fake = dataset;
  CHECK(filter->can_apply(kDcpl, kType, kSpace) > 0, "%s: %s", what, fake.pushed.c_str());
  CHECK(fake.fills_read == 0, "%s: HDF5 2.0 crashes if can_apply asks for the fill value", what);
  CHECK(fake.words == dataset.words && fake.flags == dataset.flags, "%s: can_apply stores nothing", what);
  CHECK(filter->set_local(kDcpl, kType, kSpace) >= 0, "%s: %s", what, fake.pushed.c_str());
  CHECK(fake.flags == hdf5::kFlagMandatory, "%s: flags 0x%x", what, fake.flags);
  CHECK(fake.words.size() == 16, "%s: %zu words", what, fake.words.size());
  CHECK(fake.open_components == 0, "%s: %d types are left open", what, fake.open_components);
  return fake.words;
}

// Neither takes it, and HDF5's error stack says why.
void refused(const Hdf5& dataset, const char* what, const char* message) {
  for (const auto callback : {filter->can_apply, filter->set_local}) {
    fake = dataset;
    CHECK(callback(kDcpl, kType, kSpace) < 0, "%s is taken", what);
    CHECK(fake.pushed.find("h5lossy: ") == 0 && fake.pushed.find(message) != std::string::npos, "%s: %s", what,
          fake.pushed.c_str());
    CHECK(fake.words == dataset.words && fake.flags == dataset.flags, "%s: stored all the same", what);
    CHECK(fake.open_components == 0, "%s: %d types are left open", what, fake.open_components);
  }
}

template <class Change>
void refused_with(const char* what, const char* message, Change change) {
  Hdf5 dataset;
  change(dataset);
  refused(dataset, what, message);
}

Hdf5 float64() {
  Hdf5 dataset;
  dataset.size = 8;
  dataset.precision = 64;
  dataset.sign = 63;
  dataset.exponent = 52;
  dataset.exponent_bits = 11;
  dataset.mantissa_bits = 52;
  dataset.exponent_bias = 1023;
  return dataset;
}

// A user-defined fill value, in the type's byte order.
template <class T>
void set_fill(Hdf5& dataset, T value) {
  dataset.fill_status = hdf5::kFillUserDefined;
  std::memcpy(dataset.fill.data(), &value, sizeof value);
  if (dataset.order == hdf5::kOrderBig) std::reverse(dataset.fill.begin(), dataset.fill.begin() + sizeof value);
}

std::vector<unsigned> expected_words(unsigned type_and_rank, const std::vector<unsigned>& shape, unsigned flags = 0,
                                     std::uint64_t fill = 0) {
  std::vector<unsigned> words = {1, 0, 3539053052u, 1062232653u, flags, type_and_rank};
  words.insert(words.end(), shape.begin(), shape.end());
  words.resize(16);
  words[14] = static_cast<unsigned>(fill);
  words[15] = static_cast<unsigned>(fill >> 32);
  return words;
}

void check_types() {
  const std::vector<unsigned> shape = {100, 200};
  CHECK(taken({}, "float32") == expected_words(0x02000401, shape), "float32");
  CHECK(taken(float64(), "float64") == expected_words(0x02000801, shape), "float64");
  Hdf5 big = float64();
  big.order = hdf5::kOrderBig;
  CHECK(taken(big, "big-endian") == expected_words(0x02010801, shape), "big-endian");

  const char* const message = "only float32, float64 and integers";
  refused_with("a string", message, [](Hdf5& h) { h.type_class = hdf5::kClassString; });
  refused_with("a float of 2 bytes with fields of 4", message, [](Hdf5& h) { h.size = 2, h.precision = 16; });
  refused_with("long double", message, [](Hdf5& h) { h.size = 16, h.precision = 80; });
  refused_with("24 bits in 4 bytes", message, [](Hdf5& h) { h.precision = 24; });
  refused_with("bfloat16 in 4 bytes", message, [](Hdf5& h) { h.mantissa = 16, h.mantissa_bits = 7; });
  refused_with("another exponent", message, [](Hdf5& h) { h.exponent_bits = 7; });
  refused_with("a sign elsewhere", message, [](Hdf5& h) { h.sign = 0; });
  refused_with("another bias", message, [](Hdf5& h) { h.exponent_bias = 128; });
  refused_with("no implied bit", message, [](Hdf5& h) { h.norm = 1; });
  refused_with("VAX order", message, [](Hdf5& h) { h.order = 2; });
  for (const char* const function : {"H5Tget_class", "H5Tget_size", "H5Tget_order", "H5Tget_precision", "H5Tget_fields",
                                     "H5Tget_ebias", "H5Tget_norm"}) {
    refused_with(function, message, [&](Hdf5& h) { h.fails = function; });
  }
}

// HDF5 asks only before the first write to such a dataset that was opened again.
void check_variable_length() {
  for (const int type_class : {hdf5::kClassVariableLength, hdf5::kClassString}) {
    fake = {};
    fake.type_class = type_class;
    fake.is_variable_string = type_class == hdf5::kClassString;
    CHECK(filter->can_apply(kDcpl, kType, kSpace) == 0 && fake.pushed.empty(), "class %d: %s", type_class,
          fake.pushed.c_str());
  }
  refused_with("a string of unknown kind", "this dataset has another type", [](Hdf5& h) {
    h.type_class = hdf5::kClassString;
    h.fails = "H5Tis_variable_str";
  });
}

Hdf5 half(std::size_t mantissa_bits, std::size_t bias) {
  Hdf5 dataset;
  dataset.size = 2;
  dataset.precision = 16;
  dataset.sign = 15;
  dataset.exponent = mantissa_bits;
  dataset.exponent_bits = 15 - mantissa_bits;
  dataset.mantissa_bits = mantissa_bits;
  dataset.exponent_bias = bias;
  return dataset;
}

void check_halves() {
  const std::vector<unsigned> shape = {100, 200};
  CHECK(taken(half(10, 15), "float16") == expected_words(0x02003201, shape), "float16");
  CHECK(taken(half(7, 127), "bfloat16") == expected_words(0x02004201, shape), "bfloat16");
  refused(half(10, 16), "float16 of another bias", "this dataset has another type");
}

void check_complex() {
  const std::vector<unsigned> shape = {100, 200, 2};  // the last axis: the two parts of each
  for (const int type_class : {hdf5::kClassCompound, hdf5::kClassComplex}) {
    Hdf5 dataset;
    dataset.type_class = type_class;
    CHECK(taken(dataset, "complex64") == expected_words(0x03005401, shape), "class %d", type_class);
    dataset = float64();
    dataset.type_class = type_class;
    dataset.size_of_both = 16;
    dataset.second_offset = 8;
    CHECK(taken(dataset, "complex128") == expected_words(0x03005801, shape), "class %d", type_class);
    const char* const function = type_class == hdf5::kClassCompound ? "H5Tget_member_type" : "H5Tget_super";
    dataset.fails = function;
    refused(dataset, function, "this dataset has another type");
  }
  const auto refused_compound = [](const char* what, auto change) {
    Hdf5 dataset;
    dataset.type_class = hdf5::kClassCompound;
    change(dataset);
    refused(dataset, what, "this dataset has another type");
  };
  refused_compound("three members", [](Hdf5& h) { h.members = {"r", "i", "j"}; });
  refused_compound("other names", [](Hdf5& h) { h.members = {"x", "y"}; });
  refused_compound("the imaginary part first", [](Hdf5& h) { h.members = {"i", "r"}; });
  refused_compound("a gap between them", [](Hdf5& h) { h.second_offset = 8, h.size_of_both = 12; });
  refused_compound("a gap behind them", [](Hdf5& h) { h.size_of_both = 12; });
  refused_compound("H5Tget_nmembers", [](Hdf5& h) { h.fails = "H5Tget_nmembers"; });
}

// Bits that only have to come back are unsigned integers, without loss.
void check_bits() {
  const auto bits = [](int type_class, std::size_t size) {
    Hdf5 dataset;
    dataset.type_class = type_class;
    dataset.size = size;
    dataset.precision = 8 * size - 1;
    return dataset;
  };
  for (const int type_class : {hdf5::kClassEnum, hdf5::kClassBitfield, hdf5::kClassInteger}) {
    refused(bits(type_class, 2), "bits within a bound", "which take no error bound; give lossless");
    for (const unsigned size : {1u, 2u, 4u, 8u}) {
      Hdf5 dataset = bits(type_class, size);
      dataset.words = {1, 3, 0, 0};
      std::vector<unsigned> expected = expected_words(0x02001001 | size << 8, {100, 200});
      std::copy_n(dataset.words.begin(), 4, expected.begin());
      CHECK(taken(dataset, "bits") == expected, "class %d, %u bytes", type_class, size);
    }
    refused(bits(type_class, 3), "3 bytes", "this dataset has another type");
  }
}

void check_integers() {
  const std::vector<unsigned> shape = {100, 200};
  const auto integer = [](std::size_t size, int sign, int order = hdf5::kOrderLittle) {
    Hdf5 dataset;
    dataset.type_class = hdf5::kClassInteger;
    dataset.size = size;
    dataset.precision = 8 * size;
    dataset.integer_sign = sign;
    dataset.order = order;
    return dataset;
  };
  for (const unsigned size : {1u, 2u, 4u, 8u}) {
    const unsigned unsigned_type = (0x10 | size) << 8, signed_type = (0x20 | size) << 8;
    const unsigned big = size == 1 ? 0 : 1u << 16;
    CHECK(taken(integer(size, hdf5::kSignNone), "unsigned") == expected_words(0x02000001 | unsigned_type, shape), "%u",
          size);
    CHECK(taken(integer(size, hdf5::kSignTwosComplement, hdf5::kOrderBig), "signed") ==
              expected_words(0x02000001 | signed_type | big, shape),
          "%u", size);
  }
  Hdf5 filled = integer(2, hdf5::kSignTwosComplement, hdf5::kOrderBig);
  set_fill(filled, std::int16_t{-2});
  CHECK(taken(filled, "a fill value") == expected_words(0x02012201, shape, 256, 0xFFFE), "a fill value");
  set_fill(filled, std::int16_t{0});
  CHECK(taken(filled, "zero") == expected_words(0x02012201, shape), "zero, which is exact in any case");

  const auto refused_integer = [&](const char* what, const char* message, auto change) {
    Hdf5 dataset = integer(2, hdf5::kSignNone);
    change(dataset);
    refused(dataset, what, message);
  };
  const char* const message = "integers of 8, 16, 32 and 64 bits";
  refused_integer("3 bytes", message, [](Hdf5& h) { h.size = 3, h.precision = 24; });
  refused_integer("16 bytes", message, [](Hdf5& h) { h.size = 16, h.precision = 128; });
  refused_integer("a sign to come", "which take no error bound", [](Hdf5& h) { h.integer_sign = 2; });
  refused_integer("H5Tget_sign", "which take no error bound", [](Hdf5& h) { h.fails = "H5Tget_sign"; });
  refused_integer("a codec of floats", "integers are encoded by PFPL and Interp", [](Hdf5& h) { h.words[0] = 3; });
  refused_integer("a pointwise-relative bound", "pointwise-relative", [](Hdf5& h) { h.words[1] = 1; });
}

void check_requests() {
  // Words that were stored once, for another dataset, are written anew.
  Hdf5 stored;
  stored.words = expected_words(0x01010801, {7}, 256, 12345);
  CHECK(taken(stored, "stored words") == expected_words(0x02000401, {100, 200}), "stored words");
  stored.words.resize(40, 9);
  CHECK(taken(stored, "words past the 16th") == expected_words(0x02000401, {100, 200}), "words past the 16th");

  refused_with("a filter in front", "filter 2 (nnn", [](Hdf5& h) { h.first_filter = 2; });
  refused_with("scaleoffset behind", "would treat the compressed bytes as numbers",
               [](Hdf5& h) { h.filters_behind = {1, 6}; });
  refused_with("a bound of 0", "must be greater than 0", [](Hdf5& h) { h.words = {1, 0, 0, 0}; });
  // Each codec and mode is stored as requested.
  for (const auto& [codec, mode] : {std::pair{0u, 0u}, {1u, 0u}, {2u, 0u}, {2u, 0x11u}, {2u, 0x32u}, {3u, 0u}}) {
    Hdf5 dataset;
    dataset.words[0] = codec;
    dataset.words.push_back(mode);
    std::vector<unsigned> expected = expected_words(0x02000401, {100, 200}, mode);
    expected[0] = codec;
    CHECK(taken(dataset, "a codec") == expected, "codec %u, mode %u", codec, mode);
  }
  refused_with("a codec to come", "codec 99", [](Hdf5& h) { h.words[0] = 99; });
  refused_with("a mode that there is not", "no mode 3", [](Hdf5& h) { h.words = {2, 0, 0, 0x3FF00000, 3}; });
  refused_with("a mode for auto", "must be 0 (for speed) or 1", [](Hdf5& h) { h.words = {0, 0, 0, 0x3FF00000, 2}; });
  refused_with("no words", "at least 4 words", [](Hdf5& h) { h.words = {}; });
  refused_with("H5Pget_filter2", "cannot report", [](Hdf5& h) { h.fails = "H5Pget_filter2"; });
}

void check_shapes() {
  const auto words_of = [](std::vector<hsize_t> extents) {
    Hdf5 dataset;
    dataset.extents = std::move(extents);
    return taken(dataset, "a shape");
  };
  CHECK(words_of({5}) == expected_words(0x01000401, {5}), "rank 1");
  CHECK(words_of({1, 5, 1, 7, 1}) == expected_words(0x02000401, {5, 7}), "extents of 1 are left out");
  CHECK(words_of({1, 1, 1}) == expected_words(0x00000401, {}), "one value");
  CHECK(words_of({2, 3, 4, 5, 6, 7, 8, 9}) == expected_words(0x08000401, {2, 3, 4, 5, 6, 7, 8, 9}), "rank 8");
  CHECK(words_of({2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) == expected_words(0x08000401, {24, 5, 6, 7, 8, 9, 10, 11}),
        "rank 10");
  CHECK(words_of(std::vector<hsize_t>(32, 1)) == expected_words(0x00000401, {}), "rank 32");
  constexpr hsize_t most = (0xFFFFFFFFu - 40u) / 4;
  CHECK(words_of({most}) == expected_words(0x01000401, {static_cast<unsigned>(most)}), "the largest chunk");

  const auto too_large = [](std::vector<hsize_t> extents) {
    refused_with("a shape", "chunk is too large", [&](Hdf5& h) { h.extents = std::move(extents); });
  };
  too_large({most + 1});
  too_large({1u << 16, 1u << 14});
  too_large({hsize_t{1} << 62, 4});
  too_large({~hsize_t{0}, ~hsize_t{0}});
  too_large(std::vector<hsize_t>(32, 4));
  refused_with("rank 33", "cannot report the chunk's shape", [](Hdf5& h) { h.extents.assign(33, 1); });
  for (const char* const function : {"H5Sget_simple_extent_ndims", "H5Sget_simple_extent_dims"}) {
    refused_with(function, "cannot report the chunk's shape", [&](Hdf5& h) { h.fails = function; });
  }
}

void check_fill_values() {
  const std::vector<unsigned> shape = {100, 200};
  for (const int order : {hdf5::kOrderLittle, hdf5::kOrderBig}) {
    const unsigned big = order == hdf5::kOrderBig ? 0x10000 : 0;
    Hdf5 f32, f64 = float64();
    f32.order = f64.order = order;
    set_fill(f32, -999.0f);
    CHECK(taken(f32, "-999") == expected_words(0x02000401 | big, shape, 256, 0xC479C000u), "-999");
    set_fill(f64, 1e20);
    CHECK(taken(f64, "1e20") == expected_words(0x02000801 | big, shape, 256, std::bit_cast<std::uint64_t>(1e20)),
          "1e20");
    set_fill(f32, -0.0f);
    CHECK(taken(f32, "-0.0") == expected_words(0x02000401 | big, shape, 256, 0x80000000u), "-0.0");
    set_fill(f32, 0.0f);
    CHECK(taken(f32, "0.0") == expected_words(0x02000401 | big, shape), "0.0 needs no care");
    set_fill(f64, std::bit_cast<double>(0xFFF8000000000123u));
    CHECK(taken(f64, "NaN") == expected_words(0x02000801 | big, shape), "NaN needs no care");
  }
  Hdf5 dataset;
  set_fill(dataset, -999.0f);
  for (const int status : {0, 1}) {  // undefined, default
    dataset.fill_status = status;
    CHECK(taken(dataset, "no fill value") == expected_words(0x02000401, shape), "fill value of status %d", status);
  }

  dataset.fill_status = hdf5::kFillUserDefined;
  for (const char* const function : {"H5Pfill_value_defined", "H5Pget_fill_value", "H5Pmodify_filter"}) {
    fake = dataset;
    fake.fails = function;
    CHECK(filter->set_local(kDcpl, kType, kSpace) < 0, "%s fails, and set_local does not", function);
    CHECK(fake.flags == 1 && fake.words == dataset.words, "%s fails: stored all the same", function);
  }
}

void check_negative_ids() {
  for (int which = 0; which < 3; ++which) {
    fake = {};
    hid_t ids[] = {kDcpl, kType, kSpace};
    ids[which] = -1;
    CHECK(filter->can_apply(ids[0], ids[1], ids[2]) < 0, "id %d", which);
    CHECK(filter->set_local(ids[0], ids[1], ids[2]) < 0, "id %d", which);
  }
}

// The filter called as HDF5 calls it; empty where it fails.
std::vector<std::uint8_t> filtered(unsigned flags, const std::vector<unsigned>& words, std::vector<std::uint8_t> in) {
  std::size_t capacity = in.size();
  void* buffer = std::malloc(in.size());
  std::memcpy(buffer, in.data(), in.size());
  const std::size_t size = filter->filter(flags, words.size(), words.data(), in.size(), &capacity, &buffer);
  const auto* const bytes = static_cast<const std::uint8_t*>(buffer);
  std::vector<std::uint8_t> out(bytes, bytes + size);
  std::free(buffer);
  return out;
}

// A frame that agrees with its cd_values is read only where the open datasets agree with it, too.
void check_reading() {
  fake = {};
  fake.words = expected_words(0x02000401, {100, 200});
  fake.flags = hdf5::kFlagMandatory;
  const Hdf5 right = fake;
  const std::vector<std::uint8_t> chunk(100 * 200 * 4);
  const std::vector<std::uint8_t> frame = filtered(hdf5::kFlagMandatory, fake.words, chunk);
  CHECK(!frame.empty(), "%s", fake.pushed.c_str());
  hid_t next = 100;
  const auto reads = [&](void (*change)(Hdf5&), std::size_t datasets = 1) {
    fake = right;
    change(fake);
    for (std::size_t i = 0; i < datasets; ++i) fake.open.push_back(next++);  // HDF5 gives no identifier twice
    const std::vector<std::uint8_t> values = filtered(hdf5::kFlagReverse, right.words, frame);
    CHECK(values.empty() ? !fake.pushed.empty() : values == chunk, "%zu bytes", values.size());
    return !values.empty();
  };
  CHECK(reads([](Hdf5&) {}), "%s", fake.pushed.c_str());
  CHECK(reads([](Hdf5&) {}, 200), "%s", fake.pushed.c_str());
  CHECK(reads([](Hdf5& h) { h.extents = {1, 100, 200, 1}; }), "%s", fake.pushed.c_str());
  CHECK(!reads([](Hdf5& h) { h.extents = {100, 201}; }), "a larger chunk");
  CHECK(!reads([](Hdf5& h) { h.extents = {10, 200}; }), "a smaller chunk");
  CHECK(!reads([](Hdf5& h) { h.extents.assign(32, hsize_t{1} << 40); }), "an endless chunk");
  CHECK(!reads([](Hdf5& h) { h.extents = {50, 200}, h.size = 8; }), "another type");
  CHECK(!reads([](Hdf5& h) { h.order = hdf5::kOrderBig; }), "another byte order");
  CHECK(reads([](Hdf5& h) { h.extents = {100, 201}, h.words[14] = 1; }), "another dataset's cd_values");
}

}  // namespace
}  // namespace h5lossy::test

int main(int count, char** arguments) {
  CHECK(count == 2, "usage: %s path/to/libh5lossy.so", arguments[0]);
  void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  CHECK(library != nullptr, "%s", dlerror());
  const auto info = reinterpret_cast<const void* (*)()>(dlsym(library, "H5PLget_plugin_info"));
  CHECK(info != nullptr, "%s", dlerror());
  filter = static_cast<const h5lossy::hdf5::FilterClass*>(info());
  check_types();
  check_variable_length();
  check_halves();
  check_complex();
  check_bits();
  check_integers();
  check_requests();
  check_shapes();
  check_fill_values();
  check_negative_ids();
  check_reading();
}
