#include "http/access.h"

namespace autotune::http {
namespace {

Admission Refused(int status, const std::string& why) { return {std::nullopt, TextResponse(status, why + "\n")}; }

constexpr char kNeedsToken[] = "this needs a token: rpc_tracker invite NAME --role viewer, on the tracker's host";

bool HasBearer(const Request& request) { return request.authorization.starts_with("Bearer "); }

}  // namespace

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference = difference | static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

std::string TokenOf(const Request& request) {
  if (HasBearer(request)) return request.authorization.substr(7);
  std::string_view rest = request.cookie;
  const std::string name = std::string(kTokenCookie) + "=";
  while (!rest.empty()) {
    std::string_view item = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    while (item.starts_with(' ')) item.remove_prefix(1);
    if (item.starts_with(name)) return std::string(item.substr(name.size()));
  }
  return "";
}

bool IsOwnHost(std::string_view host) {
  const size_t colon = host.rfind(':');
  if (colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos) {
    if (host.substr(colon + 1).find_first_not_of("0123456789") != std::string_view::npos) return false;
    host = host.substr(0, colon);
  }
  if (host == "localhost" || host == "[::1]") return true;
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos;
}

Admission AdmitReader(const Request& request, const FindVisitor& find) {
  const std::string token = TokenOf(request);
  if (!token.empty() && find) {
    if (auto visitor = find(token)) return {std::move(visitor), {}};
  }
  if (HasBearer(request)) return Refused(401, "this token is not valid, or not any more");
  if (!request.local || request.forwarded) return Refused(401, kNeedsToken);
  if (!IsOwnHost(request.host))
    return Refused(421, "without a token, readers on this host ask for localhost or 127.0.0.1");
  return {Visitor(), {}};
}

Admission AdmitOperator(const Request& request, const FindVisitor& find) {
  if (IsCrossOrigin(request)) return Refused(403, "a page of another server has sent this request");
  Admission admission = AdmitReader(request, find);
  if (!admission.visitor) return admission;
  if (!admission.visitor->operates)
    return Refused(admission.visitor->name.empty() ? 401 : 403,
                   "this needs an operator's token: rpc_tracker invite NAME --role operator, on the tracker's host");
  if (!request.content_type.starts_with("application/json") || !request.from_page)
    return Refused(403, "the request must have the type application/json and the header X-Autotune");
  // A browser states the origin. Without a browser, there is no cookie.
  if (request.origin.empty() && !HasBearer(request)) return Refused(403, "the request states no origin");
  return admission;
}

bool IsCrossOrigin(const Request& request) {
  if (request.origin.empty()) return false;
  for (const char* scheme : {"http://", "https://"})
    if (request.origin == scheme + request.host) return false;
  return true;
}

}  // namespace autotune::http
