// Messages from untrusted peers: a stream of packed frames, as between server and runner, or the two frames of a
// message, as ZeroMQ delivers them. A message that decodes must encode, and decode to the same message again.
#include <variant>

#include "rpc/channel.h"
#include "rpc/message.h"
#include "support/check.h"
#include "support/json.h"
#include "tests/fuzz/target.h"

namespace autotune::rpc {
namespace {

void DecodeBoth(const Frames& frames) {
  auto decoded = Decode(frames);
  const Message* message = std::get_if<Message>(&decoded);
  if (!message) return;
  Frames encoded = Encode(*message);
  auto again = Decode(encoded);
  CHECK(std::holds_alternative<Message>(again)) << std::get<DecodeError>(again).refusal.text;
  CHECK(*Encode(std::get<Message>(again))[1] == *encoded[1]);
}

}  // namespace

// The first byte chooses a stream ('s') or the frames of a message. For a message, the second byte is the size of the
// header.
FUZZ_TARGET(wire) {
  if (input.size() < 2) return;
  if (input[0] == 's') {
    Unpacker unpacker;
    for (input.remove_prefix(1); !input.empty(); input.remove_prefix(std::min<size_t>(input.size(), 1000))) {
      unpacker.Feed(input.substr(0, 1000));
      for (;;) {
        auto frames = unpacker.Next();
        if (!frames.ok()) return;
        if (!*frames) break;
        DecodeBoth(**frames);
      }
    }
  } else {
    size_t split = std::min<size_t>(static_cast<uint8_t>(input[1]), input.size() - 2);
    input.remove_prefix(2);
    auto blob = [](std::string_view bytes) { return rpc::MakeBlob(std::string(bytes)); };
    DecodeBoth({blob(input.substr(0, split)), blob(input.substr(split))});
  }
}

}  // namespace autotune::rpc
