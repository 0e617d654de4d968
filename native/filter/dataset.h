// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Reads the properties of a dataset that is being created with the filter: cd_values, type, shape and fill value.
#pragma once

#include "filter/hdf5_symbols.h"
#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// Sets the type of values, if frames support it. Sets `are_bits` if values are not numbers, but bits that must come
// back unchanged.
[[nodiscard]] bool read_type(const hdf5::Functions& h5, hdf5::hid_t type, h5l_params& params, bool& are_bits);

// Whether values are of variable length. HDF5 calls can_apply for such a dataset only if it was opened again, before
// the first write.
[[nodiscard]] bool has_variable_length(const hdf5::Functions& h5, hdf5::hid_t type);

// Invalid requests are refused here, when the dataset is created: a filter that fails on a chunk loses the chunk.
[[nodiscard]] h5l_status read_dataset(const hdf5::Functions& h5, hdf5::hid_t dcpl, hdf5::hid_t type, hdf5::hid_t space,
                                      h5l_params& params, const Message& why);

// Separate from read_dataset, because HDF5 2.0 also calls can_apply before the first write to an opened dataset, where
// H5Pget_fill_value crashes.
[[nodiscard]] h5l_status read_fill_value(const hdf5::Functions& h5, hdf5::hid_t dcpl, hdf5::hid_t type,
                                         h5l_params& params, const Message& why);

}  // namespace h5lossy
