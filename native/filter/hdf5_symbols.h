// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// HDF5's functions, looked up in the libhdf5 that called the filter. Nothing is linked: a process can hold several
// copies (one in each of the h5py, netCDF4 and PyTables wheels), and an undefined H5 symbol would keep the plugin from
// loading. See docs/design/hdf5.md.
//
// The declarations repeat HDF5's, unchanged since 1.10, so that building needs no HDF5 headers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "h5lossy.h"

namespace h5lossy::hdf5 {

using hid_t = std::int64_t;
using herr_t = int;
using htri_t = int;
using hsize_t = unsigned long long;

inline constexpr unsigned kFlagMandatory = 0x0000;
inline constexpr unsigned kFlagOptional = 0x0001;
inline constexpr unsigned kFlagReverse = 0x0100;
inline constexpr int kClassUnknown = -1;
inline constexpr int kClassInteger = 0;
inline constexpr int kClassFloat = 1;
inline constexpr int kClassBitfield = 4;
inline constexpr int kClassString = 3;
inline constexpr int kClassCompound = 6;
inline constexpr int kClassEnum = 8;
inline constexpr int kClassVariableLength = 9;
inline constexpr int kClassComplex = 11;  // HDF5 2.0
inline constexpr int kOrderLittle = 0;
inline constexpr int kOrderBig = 1;
inline constexpr int kSignNone = 0;
inline constexpr int kSignTwosComplement = 1;
inline constexpr int kNormImplied = 0;
inline constexpr int kFillUserDefined = 2;
inline constexpr int kLayoutChunked = 2;
inline constexpr unsigned kObjectDataset = 0x0002;
inline constexpr hid_t kObjectsOfAllFiles = 0x001F;
inline constexpr int kPluginTypeFilter = 0;
inline constexpr int kFilterClassVersion = 1;

// H5Z_class2_t.
struct FilterClass {
  int version;
  int id;
  unsigned encoder_present;
  unsigned decoder_present;
  const char* name;
  htri_t (*can_apply)(hid_t dcpl, hid_t type, hid_t space);
  herr_t (*set_local)(hid_t dcpl, hid_t type, hid_t space);
  std::size_t (*filter)(unsigned flags, std::size_t cd_count, const unsigned* cd_values, std::size_t size,
                        std::size_t* capacity, void** buffer);
};

struct Functions {
  int (*get_class)(hid_t type);
  std::size_t (*get_size)(hid_t type);
  int (*get_order)(hid_t type);
  std::size_t (*get_precision)(hid_t type);
  int (*get_sign)(hid_t type);
  herr_t (*get_fields)(hid_t type, std::size_t* sign, std::size_t* exponent, std::size_t* exponent_bits,
                       std::size_t* mantissa, std::size_t* mantissa_bits);
  std::size_t (*get_exponent_bias)(hid_t type);
  int (*get_norm)(hid_t type);
  int (*get_member_count)(hid_t type);
  int (*get_member_index)(hid_t type, const char* name);
  hid_t (*get_member_type)(hid_t type, unsigned member);
  std::size_t (*get_member_offset)(hid_t type, unsigned member);
  hid_t (*get_base_type)(hid_t type);
  htri_t (*is_variable_string)(hid_t type);
  int (*get_extents)(hid_t space, hsize_t* extents, hsize_t* max_extents);
  int (*get_rank)(hid_t space);
  int (*get_filter)(hid_t dcpl, unsigned index, unsigned* flags, std::size_t* cd_count, unsigned* cd_values,
                    std::size_t name_size, char* name, unsigned* config);
  herr_t (*modify_filter)(hid_t dcpl, int id, unsigned flags, std::size_t cd_count, const unsigned* cd_values);
  herr_t (*fill_value_defined)(hid_t dcpl, int* status);
  herr_t (*get_fill_value)(hid_t dcpl, hid_t type, void* value);
  const char* version_text;  // "HDF5 library version: 2.0.0"
  std::ptrdiff_t (*get_object_ids)(hid_t file, unsigned types, std::size_t room, hid_t* ids);
  hid_t (*get_dataset_type)(hid_t dataset);
  hid_t (*get_creation_list)(hid_t dataset);
  int (*get_layout)(hid_t dcpl);
  int (*get_chunk)(hid_t dcpl, int room, hsize_t* extents);
  int (*get_filter_count)(hid_t dcpl);
  herr_t (*close_type)(hid_t type);
  herr_t (*close_list)(hid_t list);
  herr_t (*push_error)(hid_t stack, const char* file, const char* function, unsigned line, hid_t error_class,
                       hid_t major, hid_t minor, const char* format, ...);
  const hid_t* error_class;
  const hid_t* error_major;
  const hid_t* error_minor;

  // Pushes a message onto HDF5's error stack, which h5py and the tools print.
  void push(const h5l_message& message) const;
};

// Finds the functions of the HDF5 whose code contains `return_address`. False if they cannot be reached (a program that
// links HDF5 statically and hides its symbols).
[[nodiscard]] bool find_functions(void* return_address, Functions& functions);

}  // namespace h5lossy::hdf5
