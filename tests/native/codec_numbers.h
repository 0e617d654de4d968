// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The codecs' numbers by name, for tests of one of them.
#pragma once

#include <cstdint>

namespace h5lossy::test::codec {

enum : std::uint32_t {
#define H5L_CODEC(number, name) name = number,
#include "runtime/codecs.def"
#undef H5L_CODEC
};

}  // namespace h5lossy::test::codec
