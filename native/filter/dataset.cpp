// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "filter/dataset.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <span>

#include "chunk/integers.h"
#include "chunk/params.h"
#include "filter/cd_values.h"
#include "filter/say_once.h"
#include "frame/frame.h"
#include "frame/swap.h"
#include "runtime/registry.h"

namespace h5lossy {
namespace {

using hdf5::hid_t;

// Whether the type is an integer that fills its bytes; if so, sets the type.
bool read_integer_type(const hdf5::Functions& h5, hid_t type, h5l_params& params) {
  const std::size_t size = h5.get_size(type);
  const int order = h5.get_class(type) == hdf5::kClassInteger ? h5.get_order(type) : -1;
  const int sign = order >= 0 ? h5.get_sign(type) : -1;  // for other types, HDF5 would print an error
  const std::uint32_t value_class = sign == hdf5::kSignNone ? H5L_CLASS_UNSIGNED : H5L_CLASS_SIGNED;
  const bool is_known = (order == hdf5::kOrderLittle || order == hdf5::kOrderBig) &&
                        (sign == hdf5::kSignNone || sign == hdf5::kSignTwosComplement) && size <= 8 &&
                        is_integer_type(value_class, static_cast<std::uint32_t>(size)) &&
                        h5.get_precision(type) == 8 * size;
  if (!is_known) return false;
  params.value_bytes = static_cast<std::uint32_t>(size);
  params.value_class = value_class;
  params.big_endian = order == hdf5::kOrderBig && size > 1 ? 1 : 0;
  return true;
}

// The supported floats.
struct FloatFormat {
  std::uint32_t value_class, value_bytes;
  std::size_t mantissa_bits, exponent_bits, bias;
};
constexpr FloatFormat kFloatFormats[] = {
    {H5L_CLASS_FLOAT, 4, 23, 8, 127},
    {H5L_CLASS_FLOAT, 8, 52, 11, 1023},
    {H5L_CLASS_HALF, 2, 10, 5, 15},
    {H5L_CLASS_BFLOAT, 2, 7, 8, 127},
};

// Whether the type is one of these, and not another float of the same size (bfloat16 in 4 bytes, VAX, …); if so, sets
// the type.
bool read_float_type(const hdf5::Functions& h5, hid_t type, h5l_params& params) {
  std::size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
  const int order = h5.get_class(type) == hdf5::kClassFloat ? h5.get_order(type) : -1;
  if ((order != hdf5::kOrderLittle && order != hdf5::kOrderBig) ||
      h5.get_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) < 0) {
    return false;
  }
  for (const auto& [value_class, value_bytes, m, e, bias] : kFloatFormats) {
    if (h5.get_size(type) != value_bytes || h5.get_precision(type) != 8 * value_bytes || sign != m + e ||
        exponent != m || exponent_bits != e || mantissa != 0 || mantissa_bits != m ||
        h5.get_exponent_bias(type) != bias || h5.get_norm(type) != hdf5::kNormImplied) {
      continue;
    }
    params.value_class = value_class;
    params.value_bytes = value_bytes;
    params.big_endian = order == hdf5::kOrderBig ? 1 : 0;
    return true;
  }
  return false;
}

// Whether the type is IEEE float32 or float64; if so, sets the type. Closes it.
bool read_component(const hdf5::Functions& h5, hid_t type, h5l_params& params) {
  if (type < 0) return false;
  const bool is_float = read_float_type(h5, type, params) && params.value_class == H5L_CLASS_FLOAT;
  h5.close_type(type);
  return is_float;
}

// Whether the type is a complex number: HDF5's own, or, as in h5py, a compound of two equal floats, r and i. If so,
// sets the type.
bool read_complex_type(const hdf5::Functions& h5, hid_t type, h5l_params& params) {
  const int type_class = h5.get_class(type);
  h5l_params imaginary = {};
  bool is_complex = false;
  if (type_class == hdf5::kClassComplex) {
    is_complex = read_component(h5, h5.get_base_type(type), params);
  } else if (type_class == hdf5::kClassCompound && h5.get_member_count(type) == 2) {
    is_complex = h5.get_member_index(type, "r") == 0 && h5.get_member_index(type, "i") == 1 &&
                 read_component(h5, h5.get_member_type(type, 0), params) &&
                 read_component(h5, h5.get_member_type(type, 1), imaginary) &&
                 params.value_bytes == imaginary.value_bytes && params.big_endian == imaginary.big_endian &&
                 h5.get_member_offset(type, 0) == 0 && h5.get_member_offset(type, 1) == params.value_bytes;
  }
  is_complex = is_complex && h5.get_size(type) == std::size_t{2} * params.value_bytes;
  if (is_complex) params.value_class = H5L_CLASS_COMPLEX;
  return is_complex;
}

// Whether values of the type are bits that must come back unchanged: an enum, a bit field, or an integer that does not
// fill its bytes. If so, sets the type to unsigned integers.
bool read_bits_type(const hdf5::Functions& h5, hid_t type, h5l_params& params) {
  const int type_class = h5.get_class(type);
  if (type_class != hdf5::kClassEnum && type_class != hdf5::kClassBitfield && type_class != hdf5::kClassInteger) {
    return false;
  }
  const std::size_t size = h5.get_size(type);
  const int order = h5.get_order(type);
  if ((order != hdf5::kOrderLittle && order != hdf5::kOrderBig) || size > 8 ||
      !is_integer_type(H5L_CLASS_UNSIGNED, static_cast<std::uint32_t>(size))) {
    return false;
  }
  params.value_bytes = static_cast<std::uint32_t>(size);
  params.value_class = H5L_CLASS_UNSIGNED;
  params.big_endian = order == hdf5::kOrderBig && size > 1 ? 1 : 0;
  return true;
}

h5l_status check_dataset_type(const hdf5::Functions& h5, hid_t type, h5l_params& params, const Message& why) {
  bool are_bits = false;
  if (read_type(h5, type, params, are_bits)) {
    if (!are_bits || params.bound_kind == H5L_BOUND_LOSSLESS) return check_type(params, why);
    return why.fail(H5L_UNSUPPORTED,
                    "this dataset holds an enum, a bit field or integers that do not fill their bytes, which take no "
                    "error bound; give lossless, or create it without this filter");
  }
  return why.fail(H5L_UNSUPPORTED,
                  "only float32, float64 and integers of 8, 16, 32 and 64 bits, halves and complex numbers can be "
                  "compressed within an error bound, and this dataset has another type; create it without this filter "
                  "or convert the data");
}

// Filters that treat their input as the dataset's values and reduce its precision, which would destroy a frame. All
// other filters treat it as bytes, and may follow h5lossy.
constexpr int kFiltersForValues[] = {
    5,      // nbit
    6,      // scaleoffset
    32002,  // SCIL
    32013,  // ZFP
    32014,  // fpzip
    32017,  // SZ
    32018,  // FCIDECOMP
    32019,  // JPEG
    32020,  // B3D
    32022,  // BitGroom
    32023,  // Granular BitRound
    32024,  // SZ3
    32028,  // SPERR
    32030,  // FFMPEG
};

h5l_status check_filters_behind(const hdf5::Functions& h5, hid_t dcpl, const Message& why) {
  const int count = h5.get_filter_count(dcpl);
  for (int i = 1; i < count; ++i) {
    std::size_t words = 0;
    unsigned flags = 0, config = 0;
    char name[64] = "";
    const int id = h5.get_filter(dcpl, static_cast<unsigned>(i), &flags, &words, nullptr, sizeof name, name, &config);
    if (std::find(std::begin(kFiltersForValues), std::end(kFiltersForValues), id) != std::end(kFiltersForValues)) {
      return why.fail(H5L_INVALID_ARGUMENT,
                      "filter %d (%.40s) after h5lossy would treat the compressed bytes as numbers and destroy them; "
                      "remove one of the two filters (gzip, shuffle and fletcher32 may come after h5lossy)",
                      id, name);
    }
  }
  return H5L_OK;
}

// The requested cd_values. A filter before ours (shuffle, scale-offset, another compressor) would change the values,
// and the bound would apply to its output instead of the data.
h5l_status read_request(const hdf5::Functions& h5, hid_t dcpl, h5l_params& params, const Message& why) {
  unsigned words[H5L_MAX_CD_VALUES] = {};
  std::size_t count = H5L_MAX_CD_VALUES;
  unsigned flags = 0, config = 0;
  char name[64] = "";
  const int first = h5.get_filter(dcpl, 0, &flags, &count, words, sizeof name, name, &config);
  if (first < 0) return why.fail(H5L_INTERNAL, "HDF5 cannot report the dataset's filters");
  if (first != H5L_FILTER_ID) {
    return why.fail(
        H5L_INVALID_ARGUMENT,
        "filter %d (%.40s) comes before h5lossy and would change the values that the bound applies to; put h5lossy "
        "first, or remove the other filter",
        first, name);
  }
  h5l_message refusal;
  const std::span<const unsigned> given(words, std::min<std::size_t>(count, H5L_MAX_CD_VALUES));
  if (const h5l_status status = unpack_cd_values(given, params, Message(&refusal)); status != H5L_OK) {
    static std::atomic_flag said;
    say_once(said, "%s", refusal.text);  // NCO passes on only one word, and netCDF drops HDF5's error stack
    return why.fail(status, "%s", refusal.text);
  }
  return check_filters_behind(h5, dcpl, why);
}

// The chunk's extents without those of 1; leading extents are multiplied together if there are more than H5L_MAX_RANK.
h5l_status read_shape(const hdf5::Functions& h5, hid_t space, h5l_params& params, const Message& why) {
  constexpr int max_hdf5_rank = 32;
  hdf5::hsize_t extents[max_hdf5_rank + 1];
  int rank = h5.get_rank(space);
  if (rank < 0 || rank > max_hdf5_rank || h5.get_extents(space, extents, nullptr) < 0) {
    return why.fail(H5L_INTERNAL, "HDF5 cannot report the chunk's shape");
  }
  if (params.value_class == H5L_CLASS_COMPLEX) extents[rank++] = 2;  // components are the last axis
  hdf5::hsize_t bytes = params.value_bytes;
  for (int i = 0; i < rank; ++i) {
    if (extents[i] == 0 || bytes > kMaxRawBytes / extents[i]) {
      return why.fail(H5L_UNSUPPORTED,
                      "chunk is too large: at most %zu bytes (4 GiB) are allowed; choose smaller chunks", kMaxRawBytes);
    }
    bytes *= extents[i];
  }
  hdf5::hsize_t* const end = std::remove(extents, extents + rank, hdf5::hsize_t{1});
  hdf5::hsize_t* begin = extents;
  for (; end - begin > H5L_MAX_RANK; ++begin) begin[1] *= begin[0];
  params.rank = static_cast<std::uint32_t>(end - begin);
  std::transform(begin, end, params.shape, [](hdf5::hsize_t extent) { return static_cast<std::uint32_t>(extent); });
  return H5L_OK;
}

}  // namespace

bool read_type(const hdf5::Functions& h5, hid_t type, h5l_params& params, bool& are_bits) {
  const auto is_one = {read_integer_type, read_float_type, read_complex_type};
  if (std::any_of(is_one.begin(), is_one.end(), [&](auto read) { return read(h5, type, params); })) return true;
  are_bits = read_bits_type(h5, type, params);
  return are_bits;
}

bool has_variable_length(const hdf5::Functions& h5, hid_t type) {
  const int type_class = h5.get_class(type);
  return type_class == hdf5::kClassVariableLength ||
         (type_class == hdf5::kClassString && h5.is_variable_string(type) > 0);
}

h5l_status read_dataset(const hdf5::Functions& h5, hid_t dcpl, hid_t type, hid_t space, h5l_params& params,
                        const Message& why) {
  const Backend* backend = nullptr;
  if (const h5l_status status = choose_backend(backend, why); status != H5L_OK) return status;
  if (const h5l_status status = read_request(h5, dcpl, params, why); status != H5L_OK) return status;
  params.has_fill = 0;  // set by another dataset, if the cd_values were copied from it
  params.fill_bits = 0;
  if (const h5l_status status = check_dataset_type(h5, type, params, why); status != H5L_OK) return status;
  if (const h5l_status status = check_exact_values(params, why); status != H5L_OK) return status;
  return read_shape(h5, space, params, why);
}

h5l_status read_fill_value(const hdf5::Functions& h5, hid_t dcpl, hid_t type, h5l_params& params, const Message& why) {
  int defined = 0;
  if (h5.fill_value_defined(dcpl, &defined) < 0) return why.fail(H5L_INTERNAL, "HDF5 cannot report the fill value");
  if (defined != hdf5::kFillUserDefined) return H5L_OK;
  std::uint8_t value[16] = {};
  if (h5.get_fill_value(dcpl, type, value) < 0) return why.fail(H5L_INTERNAL, "HDF5 cannot report the fill value");
  if (params.value_class == H5L_CLASS_COMPLEX && params.bound_kind != H5L_BOUND_LOSSLESS &&
      std::memcmp(value, value + params.value_bytes, params.value_bytes) != 0) {
    return why.fail(
        H5L_UNSUPPORTED,
        "the fill value of a complex dataset must have equal real and imaginary parts, as 0 or NaN in both; "
        "give another one, or lossless");
  }
  std::memcpy(&params.fill_bits, value, params.value_bytes);
  if (params.big_endian != 0) {
    params.fill_bits = swap_bytes(params.fill_bits) >> (64 - 8 * params.value_bytes);
  }
  params.has_fill = fill_must_match_exactly(params) ? 1 : 0;
  return check_exact_values(params, why);
}

}  // namespace h5lossy
