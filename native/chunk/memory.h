// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Arrays of plain data from malloc: null instead of an exception if memory runs out.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace h5lossy {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

template <class T>
using Array = std::unique_ptr<T[], Free>;

template <class T>
Array<T> allocate(std::size_t count) {
  return Array<T>(static_cast<T*>(std::malloc(count * sizeof(T))));
}

}  // namespace h5lossy
