// Who may read and do what over HTTP. Readers on the same host need no token, unless a proxy forwards them or a page of
// another site has sent their browser here. Everybody else, and whoever does more than read, shows a token. Pure
// functions, thread-safe.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace autotune::http {

struct Visitor {
  std::string name;       // of the token's owner; empty: a reader on this host
  bool operates = false;  // may do more than read
};

// Returns the owner of a token, or nothing. It must not take longer for a token that is nearly right.
using FindVisitor = std::function<std::optional<Visitor>(std::string_view token)>;

// Compares in a time that depends on the lengths alone.
bool EqualInConstantTime(std::string_view a, std::string_view b);

// Returns the token of the header `Authorization: Bearer TOKEN` or, without that header, of the cookie; empty: none.
std::string TokenOf(const Request& request);
inline constexpr char kTokenCookie[] = "autotune_token";

// Returns whether a host of a URL, with its port or without, names the reader's own machine. A name that merely
// resolves to it does not: pages of other sites may bear such a name.
bool IsOwnHost(std::string_view host);

struct Admission {
  std::optional<Visitor> visitor;
  Response refusal = {};  // if there is no visitor
};
// Decides about a request that reads.
Admission AdmitReader(const Request& request, const FindVisitor& find);
// Decides about a request that changes something: its token must allow it, and if a browser sends it, then from a page
// of this server.
Admission AdmitOperator(const Request& request, const FindVisitor& find);
// Returns whether a browser has sent the request from a page of another server.
bool IsCrossOrigin(const Request& request);

}  // namespace autotune::http
