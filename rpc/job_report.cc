#include "rpc/job_report.h"

#include <algorithm>
#include <cctype>

namespace autotune::rpc {

bool IsWebUrl(std::string_view url) {
  if (url.size() > kUrlBytes) return false;
  const size_t scheme = url.starts_with("https://") ? 8 : url.starts_with("http://") ? 7 : 0;
  const size_t end = std::min(url.find_first_of("/?#", scheme), url.size());
  if (scheme == 0 || end == scheme) return false;
  constexpr std::string_view kOfHost = "-._~:[]", kNever = "\"'<>\\^`{|}";
  const auto is_of_host = [&](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || kOfHost.find(static_cast<char>(c)) != std::string_view::npos);
  };
  const auto is_of_url = [&](unsigned char c) {
    return c > ' ' && c < 0x7f && kNever.find(static_cast<char>(c)) == std::string_view::npos;
  };
  return std::ranges::all_of(url.substr(scheme, end - scheme), is_of_host) && std::ranges::all_of(url, is_of_url);
}

}  // namespace autotune::rpc
