#include "http/site.h"

#include <algorithm>

#include "support/check.h"
#include "support/hint.h"

namespace autotune::http {
namespace {

Response OfFile(const File& file, int status = 200) {
  return {.status = status, .type = file.type, .body = std::make_shared<const std::string>(file.bytes)};
}

// Says to a client how it shows a token, if it needs one.
Response Challenge(Response refusal) {
  if (refusal.status == 401) refusal.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"autotune\"");
  return refusal;
}

Response NotAllowed(const std::string& methods) {
  Response response = TextResponse(405, "this path takes " + methods + "\n");
  response.headers.emplace_back("Allow", methods);
  return response;
}

// The form with its first hidden element shown, which says that the token is not valid.
Response RefusingForm(const File& form) {
  constexpr std::string_view kHidden = " hidden>";
  std::string text(form.bytes);
  if (const size_t at = text.find(kHidden); at != std::string::npos) text.erase(at, kHidden.size() - 1);
  return {.status = 401, .type = form.type, .body = std::make_shared<const std::string>(std::move(text))};
}

// Returns the value of a field of a form whose values need no escapes; "" if it has others.
std::string FieldOf(std::string_view form, const std::string& name) {
  if (!form.starts_with(name + "=")) return "";
  form.remove_prefix(name.size() + 1);
  form = form.substr(0, form.find('&'));
  const bool is_plain = std::all_of(form.begin(), form.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
  return is_plain ? std::string(form) : "";
}

}  // namespace

Result<std::unique_ptr<Site>> Site::Start(SiteOptions options) {
  std::unique_ptr<Site> site(new Site(std::move(options)));
  const SiteOptions& given = site->options_;
  site->server_ = TRY(Server::Start(
      {.address = given.address,
       .limits = given.limits,
       .on_request = [raw = site.get()](const Request& request, Answer answer) { raw->Serve(request, answer); }}));
  if (!given.find && !site->server_->is_local()) {
    return WithHint(Err(given.address, " can be reached from other hosts, and this page has no tokens"),
                    "listen at 127.0.0.1, and reach it from elsewhere by ssh -L");
  }
  return site;
}

Site::~Site() = default;

const File* Site::Find(std::string_view path) const {
  const auto file = std::ranges::find(options_.files, path, &File::path);
  return file == options_.files.end() ? nullptr : &*file;
}

void Site::Serve(const Request& request, const Answer& answer) {
  if (request.method == "GET") {
    const auto made = options_.made.find(request.path);
    if (made == options_.made.end()) return answer(Get(request));
    Admission admission = AdmitReader(request, options_.find);
    return admission.visitor ? made->second(answer) : answer(Challenge(admission.refusal));
  }
  const bool logs_in = request.path == "/login" && options_.find, acts = request.path == "/act" && options_.act;
  if (request.method != "POST") return answer(NotAllowed(logs_in || acts ? "POST" : "GET, HEAD"));
  if (logs_in) return answer(LogIn(request));
  if (acts) return Act(request, answer);
  answer(NotAllowed("GET, HEAD"));
}

Response Site::Get(const Request& request) const {
  if (request.path == "/healthz") {
    const std::string trouble = options_.trouble ? options_.trouble() : "";
    return trouble.empty() ? TextResponse(200, "ok\n") : TextResponse(503, trouble + "\n");
  }
  // The style of the form is no secret.
  const Admission admission = AdmitReader(request, options_.find);
  const File* file = Find(request.path);
  if (!admission.visitor) {
    if (file && request.path.ends_with(".css")) return OfFile(*file);
    const File* form = options_.find && request.path == "/" ? Find("/login") : nullptr;
    return Challenge(form ? OfFile(*form, admission.refusal.status) : admission.refusal);
  }
  if (request.path == "/events") {
    // A token may be revoked while its owner reads.
    return {.streams = true,
            .goes_on = [this, request] { return AdmitReader(request, options_.find).visitor.has_value(); }};
  }
  if (request.path == "/status.json") return {.type = "application/json", .sends_state = true};
  if (request.path == "/me") {
    const Json me = Json::Object{{"name", admission.visitor->name}, {"operates", admission.visitor->operates}};
    return {.type = "application/json", .body = std::make_shared<const std::string>(me.Dump())};
  }
  if (request.path == "/metrics" && options_.metrics) {
    return {.type = "text/plain; version=0.0.4; charset=utf-8",
            .body = std::make_shared<const std::string>(options_.metrics())};
  }
  if (request.path == "/login" || (request.path == "/act" && options_.act))
    return request.path == "/login" && file ? OfFile(*file) : NotAllowed("POST");
  return file ? OfFile(*file) : TextResponse(404, "there is no such page\n");
}

Response Site::LogIn(const Request& request) const {
  if (IsCrossOrigin(request)) return TextResponse(403, "a page of another server has sent this form\n");
  const std::string token = FieldOf(request.body, "token");
  if (token.empty() || !options_.find(token)) {
    const File* form = Find("/login");
    return form ? RefusingForm(*form) : TextResponse(401, "this token is not valid, or not any more\n");
  }
  Response response = TextResponse(303, "");
  response.headers.emplace_back("Location", "/");
  response.headers.emplace_back("Set-Cookie",
                                std::string(kTokenCookie) + "=" + token + "; HttpOnly; SameSite=Strict; Path=/");
  return response;
}

void Site::Act(const Request& request, const Answer& answer) const {
  Admission admission = AdmitOperator(request, options_.find);
  if (!admission.visitor) return answer(admission.refusal);
  const Result<Json> wish = Json::Parse(request.body);
  if (!wish.ok() || !wish->As<Json::Object>()) return answer(TextResponse(400, "expected an object of JSON\n"));
  options_.act(*admission.visitor, *wish, answer);
}

}  // namespace autotune::http
