// System calls that a signal may interrupt.
#pragma once

#include <cerrno>

namespace wconv {

// Repeats a call until it is not interrupted. Not for close, which has closed even so.
template <typename Call>
auto retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace wconv
