#include "rpc/query_tracker.h"

#include <memory>
#include <optional>

#include "rpc/transport.h"
#include "support/hint.h"
#include "support/loop.h"
#include "support/utf8.h"

namespace autotune::rpc {
namespace {

// Why a tracker does not answer, as far as the connection shows.
Error NoAnswer(const Address& tracker, const DealerSocket& socket) {
  const std::string why = WhyRefused(socket);
  if (!why.empty()) return WithHint(Err(why), "ask the farm's administrator for a new join file");
  const Error error = Err("no tracker answers at ", tracker.Text(), " (is rpc_tracker running there?)");
  if (IsTcp(tracker.endpoints[0])) return error;
  return WithHint(error, "a tracker on another host is reached with a join file: --join FILE");
}

}  // namespace

std::string WhyRefused(const DealerSocket& socket) {
  const std::string tracker = "the tracker at " + socket.endpoint();
  switch (socket.refused()) {
    case DealerSocket::Refused::kNo:
      return "";
    case DealerSocket::Refused::kUnknown:
      return tracker + " refuses this join file: the member was revoked or invited again";
    case DealerSocket::Refused::kOtherKey:
      return tracker + " has another key than this join file says, or is another program";
  }
  return "";
}

Result<Message> QueryTracker(const Address& tracker, TrackerQuery query) {
  constexpr int64_t kAgainMs = 1000;
  Loop loop;
  std::optional<Result<Message>> result;
  const Message ping{RandomId(), Ping{}, {}}, question{RandomId(), std::move(query.body), {}};
  bool knows = query.first_minor == 0;  // the tracker knows this kind of message
  std::unique_ptr<DealerSocket> socket;
  const auto on_message = [&](Message message) {
    const bool is_pong = message.request == ping.request && message.As<Pong>();
    if (is_pong && message.minor >= query.first_minor) {
      if (!std::exchange(knows, true)) socket->Send(question);
      return;
    }
    if (message.request != question.request && message.request != ping.request) return;
    if (is_pong) {
      result = WithHint(Err("the tracker at ", tracker.Text(), " has wire version ", kWireMajor, ".", message.minor,
                            ", which knows no ", KindOf(question.body)),
                        "install a later rpc_tracker there");
    } else if (const auto* refusal = message.As<Refusal>()) {
      result = Err(OneLine(refusal->text));
    } else {
      result = std::move(message);
    }
    loop.Stop();
  };
  const auto send = [&] { socket->Send(knows ? question : ping); };
  socket = TRY(DealerSocket::Connect(loop, tracker, {.on_message = on_message, .on_connected = send},
                                     DealerSocket::Peers::kTracker));
  const auto timeout = loop.After(static_cast<int64_t>(query.timeout_seconds * 1000), [&] { loop.Stop(); });
  const auto again = loop.Every(kAgainMs, [&] {
    if (socket->refused() != DealerSocket::Refused::kNo) return loop.Stop();
    send();
  });
  loop.Run();
  if (result) return std::move(*result);
  return NoAnswer(tracker, *socket);
}

Result<StatusReply> QueryStatus(const Address& tracker, const std::string& key, double timeout_seconds) {
  const Message answer = TRY(QueryTracker(tracker, {.body = StatusRequest{key}, .timeout_seconds = timeout_seconds}));
  if (const auto* status = answer.As<StatusReply>()) return *status;
  return Err("the tracker at ", tracker.Text(), " answers with a ", KindOf(answer.body));
}

}  // namespace autotune::rpc
