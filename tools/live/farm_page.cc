#include "tools/live/farm_page.h"

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "http/site.h"
#include "rpc/administration.h"
#include "support/clock.h"
#include "support/file_watch.h"
#include "support/state_folder.h"
#include "support/utf8.h"
#include "tools/live/farm_view.h"
#include "tools/live/page_files.h"
#include "tracker/members.h"

namespace autotune::tools {
namespace {

constexpr int64_t kPublishMs = 1000;
constexpr int64_t kStaleMs = 5000;  // without a snapshot, the tracker is not well

http::Response JsonResponse(int status, const std::string& member, const std::string& text) {
  return {.status = status,
          .type = "application/json",
          .body = std::make_shared<const std::string>(Json(Json::Object{{member, text}}).Dump())};
}

std::string TextIn(const Json& wish, const char* member) {
  const auto* text = wish[member].As<std::string>();
  return text && text->size() <= rpc::kNameBytes && IsUtf8(*text) ? *text : "";
}

// Returns the message to the tracker that a wish of the page means.
Result<rpc::Body> MessageOf(const Json& wish, const std::string& who) {
  const std::string what = TextIn(wish, "do"), note = TextIn(wish, "note");
  if (what == "release") return rpc::Body(rpc::LeaseRevoke{TextIn(wish, "lease"), who});
  rpc::DeviceHold hold{.pattern = TextIn(wish, "pattern"), .note = note, .who = who};
  if (const auto* for_ms = wish["for_ms"].As<int64_t>()) hold.for_ms = *for_ms;
  if (what == "drain") {
    hold.how = rpc::hold::kDrain;
  } else if (what == "undrain") {
    hold.how = rpc::hold::kNone;
  } else {
    return Err("this page knows drain, undrain and release");
  }
  return rpc::Body(std::move(hold));
}

// Says for the operator what has happened.
http::Response ResponseOf(const rpc::Body& answer) {
  if (const auto* refusal = std::get_if<rpc::Refusal>(&answer)) return JsonResponse(409, "error", refusal->text);
  if (const auto* revoked = std::get_if<rpc::LeaseRevoked>(&answer))
    return JsonResponse(200, "done", revoked->key + " was taken from " + revoked->client_name);
  const auto* held = std::get_if<rpc::DeviceHeld>(&answer);
  if (!held) return JsonResponse(500, "error", "the tracker answered with something else");
  const size_t count = held->devices.size() + static_cast<size_t>(held->omitted);
  const std::string state = held->devices.empty() ? "changed" : held->devices.front().state;
  return JsonResponse(
      200, "done",
      count == 1 ? held->devices.front().key + " is " + state : std::to_string(count) + " devices have changed");
}

}  // namespace

struct FarmPage::Impl {
  Impl(Loop& its_loop, Tracker& its_tracker, FarmPageOptions given)
      : loop(its_loop), tracker(its_tracker), options(std::move(given)), view(options.version) {}

  void Publish() {
    auto snapshot = std::make_shared<const FarmSnapshot>(tracker.Snapshot());
    site->Publish([this, snapshot] {
      taken = BootMillis();
      return view.Take(*snapshot);
    });
  }
  std::string Trouble() const {
    const int64_t age = BootMillis() - taken;
    return age <= kStaleMs ? "" : "the tracker has not said anything for " + std::to_string(age / 1000) + " s";
  }

  struct Reader {
    std::string name, key;
    bool operates = false;
  };
  void ReadReaders() {
    const Result<Members> members = ReadFarmMembers(options.state_folder);
    if (!members.ok()) return;  // the tracker says so
    std::vector<Reader> read;
    for (const rpc::Member& member : members->members)
      if (IsPageRole(member.role)) read.push_back({member.name, member.public_key, member.role == kOperatorRole});
    std::lock_guard lock(mutex);
    readers = std::move(read);
  }
  // For the server's thread. Looks at all of them, whichever fits.
  std::optional<http::Visitor> Find(std::string_view token) {
    const std::string key = PageKeyOf(token);
    std::optional<http::Visitor> found;
    std::lock_guard lock(mutex);
    for (const Reader& reader : readers)
      if (http::EqualInConstantTime(reader.key, key)) found = http::Visitor{reader.name, reader.operates};
    return found;
  }
  // For the server's thread.
  void Act(const http::Visitor& visitor, const Json& wish, http::Answer answer) {
    Result<rpc::Body> message = MessageOf(wish, visitor.name);
    if (!message.ok()) return answer(JsonResponse(400, "error", message.error().Text()));
    loop.Post([this, watch = std::weak_ptr(alive), body = std::move(*message), who = visitor.name,
               answer = std::move(answer)] {
      if (watch.expired()) return;
      answer(ResponseOf(tracker.Administer(body, who)));
      Publish();
    });
  }

  Loop& loop;
  Tracker& tracker;
  const FarmPageOptions options;
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);
  std::mutex mutex;
  std::vector<Reader> readers;  // protected by the mutex
  // Of the server's thread:
  FarmView view;
  std::atomic<int64_t> taken = BootMillis();  // time of the latest snapshot
  std::unique_ptr<http::Site> site;
  std::unique_ptr<FileWatch> members_watch;
  Loop::Watch timer;
};

FarmPage::FarmPage(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FarmPage::~FarmPage() = default;

Result<std::unique_ptr<FarmPage>> FarmPage::Start(Loop& loop, Tracker& tracker, FarmPageOptions options) {
  auto impl = std::make_unique<Impl>(loop, tracker, std::move(options));
  Impl* raw = impl.get();
  TRY(MakePrivateFolder(raw->options.state_folder));
  raw->members_watch =
      TRY(FileWatch::Start(loop, MembersFile(raw->options.state_folder), [raw] { raw->ReadReaders(); }));
  raw->ReadReaders();
  raw->site =
      TRY(http::Site::Start({.address = raw->options.address,
                             .files = FarmFiles(),
                             .find = [raw](std::string_view token) { return raw->Find(token); },
                             .metrics = [raw] { return raw->view.Metrics(); },
                             .trouble = [raw] { return raw->Trouble(); },
                             .act = [raw](const http::Visitor& visitor, const Json& wish,
                                          http::Answer answer) { raw->Act(visitor, wish, std::move(answer)); }}));
  raw->Publish();
  raw->timer = loop.Every(kPublishMs, [raw] { raw->Publish(); });
  return std::unique_ptr<FarmPage>(new FarmPage(std::move(impl)));
}

std::string FarmPage::Url() const { return impl_->site->server().Url(); }
int64_t FarmPage::Memory() const { return impl_->site->server().Memory(); }
bool FarmPage::is_local() const { return impl_->site->server().is_local(); }

}  // namespace autotune::tools
