#include "rpc/server_identity.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "support/file.h"

namespace autotune::rpc {
namespace {

constexpr size_t kIdDigits = 32;

bool IsId(const std::string& text) {
  return text.size() == kIdDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

Result<ServerIdentity> ServerIdentity::Take(const std::string& folder, const std::string& key) {
  if (folder.empty()) return ServerIdentity(RandomId(), "", UniqueFd());
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  constexpr int kMost = 1000;  // servers of one key on one host
  for (int number = 0; number < kMost; ++number) {
    const std::string path = folder + "/server-" + key + "-" + std::to_string(number);
    UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return Err("cannot keep the server's id in ", path, ": ", std::strerror(errno));
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) continue;  // of a running server
      return Err("cannot lock ", path, ": ", std::strerror(errno));
    }
    char text[kIdDigits + 1];
    const ssize_t read = pread(file.get(), text, sizeof text, 0);
    Id id(text, static_cast<size_t>(std::clamp<ssize_t>(read, 0, kIdDigits)));
    if (!IsId(id)) {  // new, or its writer was killed
      id = RandomId();
      if (ftruncate(file.get(), 0) != 0) return Err("cannot write ", path, ": ", std::strerror(errno));
      TRY(WriteAll(file.get(), id + "\n", path));
    }
    return ServerIdentity(std::move(id), path, std::move(file));
  }
  return Err("there are ", kMost, " servers of the key ", key, " on this host");
}

}  // namespace autotune::rpc
