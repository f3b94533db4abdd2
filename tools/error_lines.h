// Prints errors in the style of all three programs: a line "error: WHAT IS WRONG", and a line "hint: WHAT TO DO" if
// there is something to do (support/hint.h). Thread-safe.
#pragma once
#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/error_parts.h"
#include "support/result.h"
#include "support/terminal.h"

namespace autotune::tools {

inline std::string ErrorLines(const Error& error, bool colours) {
  const ErrorParts parts = PartsOf(error);
  std::string lines = Painted("error:", Colour::kFault, colours) + " " + parts.text + "\n";
  for (const std::string& hint : parts.hints) lines += Painted("hint:", Colour::kRemark, colours) + " " + hint + "\n";
  return lines;
}

// Prints an error on standard error and returns `exit_code`.
inline int PrintError(const Error& error, int exit_code) {
  std::fputs(ErrorLines(error, ShowsColours(2)).c_str(), stderr);
  return exit_code;
}

// To be called first in main. If a standard descriptor is closed, the next file that is opened would get its number,
// and what is printed would be written into that file. So it gets a descriptor that reads nothing and that cannot be
// written, and WithOutput reports the loss.
inline void KeepStandardDescriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    if (open("/dev/null", O_RDONLY) < 0) return;  // the lowest free number, which is fd
  }
}

// To be called at the end of main: returns `exit_code`. If a part of standard output is lost, for example because the
// disk is full, prints that and returns 1 instead of 0.
inline int WithOutput(int exit_code) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && !std::ferror(stdout)) return exit_code;
  const std::string reason = flushed || errno == 0 ? "" : std::string(": ") + std::strerror(errno);
  PrintError(Err("a part of standard output is lost: it cannot be written", reason), 1);
  return exit_code == 0 ? 1 : exit_code;
}

}  // namespace autotune::tools
