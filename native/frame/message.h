// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Sets the message and returns the status of a failure in one statement: `return why.fail(H5L_CORRUPT, "…")`.
#pragma once

#include "h5lossy.h"

#if defined(H5L_DECODE_ONLY)

namespace h5lossy {

// The decode-only library has one text for each status, and no formatting code.
class Message {
 public:
  explicit Message(h5l_message*) {}

  template <class... Values>
  h5l_status fail(h5l_status status, const char*, const Values&...) const {
    return status;
  }
};

}  // namespace h5lossy

#else

#include <cstdarg>
#include <cstdio>

namespace h5lossy {

class Message {
 public:
  // `target` may be null if the text is not needed.
  explicit Message(h5l_message* target) : target_(target) {
    if (target_ != nullptr) target_->text[0] = '\0';
  }

  [[gnu::format(printf, 3, 4)]] h5l_status fail(h5l_status status, const char* format, ...) const {
    if (target_ != nullptr) {
      va_list arguments;
      va_start(arguments, format);
      std::vsnprintf(target_->text, sizeof target_->text, format, arguments);
      va_end(arguments);
    }
    return status;
  }

 private:
  h5l_message* target_;
};

}  // namespace h5lossy

#endif
