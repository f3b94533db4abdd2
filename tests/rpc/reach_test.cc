#include "rpc/reach.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "support/clock.h"
#include "support/unique_fd.h"

namespace autotune::rpc {
namespace {

using testing::HasSubstr;

// Returns what is known of an endpoint once it has changed, or after 5 s.
std::string Found(const std::string& endpoint) {
  const auto reach = Reach::Begin({endpoint});
  for (const int64_t end = BootMillis() + 5000; BootMillis() < end && reach->Text() == endpoint + " (no answer)";)
    usleep(10000);
  return reach->Text();
}

TEST(Reach, TellsWhyNobodyAnswers) {
  EXPECT_EQ(Found("tcp://127.0.0.1:1"), "tcp://127.0.0.1:1 (connection refused)");
  EXPECT_EQ(Found("tcp://[::1]:1").substr(0, 15), "tcp://[::1]:1 (");
  EXPECT_THAT(Found("tcp://no-such-host.invalid:1"), HasSubstr("(the name is unknown: "));
  EXPECT_EQ(Found("ipc:///no/such/socket"), "ipc:///no/such/socket (No such file or directory)");
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  ASSERT_EQ(listen(listener.get(), 8), 0);
  const std::string open = "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  EXPECT_EQ(Found(open), open + " (accepts connections, but no server of this farm answers)");
  const auto both = Reach::Begin({"tcp://127.0.0.1:1", open});
  EXPECT_THAT(both->Text(), testing::StartsWith("tcp://127.0.0.1:1 ("));
  EXPECT_THAT(both->Text(), HasSubstr("), " + open + " ("));
}

}  // namespace
}  // namespace autotune::rpc
