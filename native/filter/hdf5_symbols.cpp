// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "filter/hdf5_symbols.h"

#include <cctype>
#include <cstdio>
#include <string_view>

#include "platform/platform.h"

namespace h5lossy::hdf5 {
namespace {

// Finds "HDF5 library version: 2.0.0" in a library's memory; "" if it is missing. The memory also holds the format
// string that prints it.
const char* find_version(std::string_view image) {
  constexpr std::string_view beginning = "HDF5 library version: ";
  for (std::size_t at = image.find(beginning); at != image.npos; at = image.find(beginning, at + 1)) {
    const char* const number = image.data() + at + beginning.size();
    if (std::isdigit(static_cast<unsigned char>(*number)) != 0) return image.data() + at;
  }
  return "";
}

// The functions of a library whose names all have this prefix.
bool find_prefixed(const platform::Module& library, const char* prefix, Functions& f) {
  const auto find = [&](const char* name, auto& symbol) {
    char prefixed[64];
    std::snprintf(prefixed, sizeof prefixed, "%s%s", prefix, name);
    symbol = reinterpret_cast<std::remove_reference_t<decltype(symbol)>>(library.find(prefixed));
    return symbol != nullptr;
  };
  const bool found =
      find("H5Tget_class", f.get_class) && find("H5Tget_size", f.get_size) && find("H5Tget_order", f.get_order) &&
      find("H5Tget_precision", f.get_precision) && find("H5Tget_sign", f.get_sign) &&
      find("H5Tget_fields", f.get_fields) && find("H5Tget_ebias", f.get_exponent_bias) &&
      find("H5Tget_norm", f.get_norm) && find("H5Tget_nmembers", f.get_member_count) &&
      find("H5Tget_member_index", f.get_member_index) && find("H5Tget_member_type", f.get_member_type) &&
      find("H5Tget_member_offset", f.get_member_offset) && find("H5Tget_super", f.get_base_type) &&
      find("H5Tis_variable_str", f.is_variable_string) && find("H5Sget_simple_extent_dims", f.get_extents) &&
      find("H5Sget_simple_extent_ndims", f.get_rank) && find("H5Pget_filter2", f.get_filter) &&
      find("H5Pmodify_filter", f.modify_filter) && find("H5Pfill_value_defined", f.fill_value_defined) &&
      find("H5Pget_fill_value", f.get_fill_value) && find("H5Fget_obj_ids", f.get_object_ids) &&
      find("H5Dget_type", f.get_dataset_type) && find("H5Dget_create_plist", f.get_creation_list) &&
      find("H5Pget_layout", f.get_layout) && find("H5Pget_chunk", f.get_chunk) &&
      find("H5Pget_nfilters", f.get_filter_count) && find("H5Tclose", f.close_type) && find("H5Pclose", f.close_list) &&
      find("H5Epush2", f.push_error) && find("H5E_ERR_CLS_g", f.error_class) && find("H5E_PLINE_g", f.error_major) &&
      find("H5E_CANTINIT_g", f.error_minor);
  if (!found) return false;
  // Not part of HDF5's API: libhdf5.so exports it, hdf5.dll does not.
  if (!find("H5_lib_vers_info_g", f.version_text)) f.version_text = find_version(library.image());
  return true;
}

}  // namespace

void Functions::push(const h5l_message& message) const {
  constexpr hid_t default_stack = 0;
  push_error(default_stack, "h5lossy", "h5lossy", 0, *error_class, *error_major, *error_minor, "h5lossy: %s",
             message.text);
}

bool find_functions(void* return_address, Functions& f) {
  const platform::Module library(return_address);
  // VTK prefixes the names of its HDF5.
  if (!find_prefixed(library, "", f) && !find_prefixed(library, "vtkhdf5_", f)) return false;
  // A search of all loaded code can find a different HDF5 than the caller's.
  return library.holds(reinterpret_cast<const void*>(f.get_class));
}

}  // namespace h5lossy::hdf5
