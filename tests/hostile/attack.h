// What attackers do: connections that speak ZMTP by hand, and code of candidates that writes to the runner's channel.
// For tests only.
#pragma once
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "rpc/channel.h"
#include "rpc/message.h"
#include "support/clock.h"
#include "support/json.h"
#include "support/unique_fd.h"

namespace autotune {

inline std::string Number(size_t value, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) text += static_cast<char>(value >> shift);
  return text;
}

// Connects to a socket of this host, "ipc:///path", "/path" or "tcp://127.0.0.1:PORT". Returns none if nobody listens.
inline UniqueFd Dial(const std::string& endpoint) {
  const bool tcp = endpoint.starts_with("tcp://");
  UniqueFd fd(socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un path{.sun_family = AF_UNIX, .sun_path = {}};
  sockaddr_in port{};
  if (tcp) {
    port.sin_family = AF_INET;
    port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    port.sin_port = htons(static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
  } else {
    endpoint.substr(endpoint.find('/')).erase(0, endpoint.starts_with("ipc://") ? 2 : 0).copy(path.sun_path, 107);
  }
  const timeval patience{2, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const auto* address = tcp ? reinterpret_cast<const sockaddr*>(&port) : reinterpret_cast<const sockaddr*>(&path);
  if (connect(fd.get(), address, tcp ? sizeof port : sizeof path) != 0) fd.Reset();
  return fd;
}

// A connection that speaks ZMTP 3.0 by hand, as a DEALER without security.
class Peer {
 public:
  explicit Peer(const std::string& endpoint, bool handshake = true) : socket_(Dial(endpoint)) {
    if (handshake) Handshake();
  }
  // The side that a dealer has connected to, which speaks as a ROUTER.
  explicit Peer(UniqueFd accepted) : socket_(std::move(accepted)) { Handshake("ROUTER"); }
  bool connected() const { return static_cast<bool>(socket_); }
  // Returns false if the other side has closed the connection, or does not read.
  bool Bytes(const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t n = send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<size_t>(n);
    }
    return true;
  }
  bool Frame(std::string_view bytes, bool more) {
    return Bytes(std::string(1, static_cast<char>((more ? 1 : 0) | 2)) + Number(bytes.size(), 8) + std::string(bytes));
  }
  bool Send(const rpc::Message& message) {
    const rpc::Frames frames = rpc::Encode(message);
    for (size_t i = 0; i < frames.size(); ++i) {
      if (!Frame(*frames[i], i + 1 < frames.size())) return false;
    }
    return true;
  }
  // Returns the bytes that the other side sends until it closes the connection, until they have `last`, or for so
  // long.
  std::string Receive(int64_t milliseconds, const std::string& last = "") {
    std::string received;
    char bytes[4096];
    for (const int64_t end = BootMillis() + milliseconds; socket_ && BootMillis() < end;) {
      if (!last.empty() && received.find(last) != std::string::npos) break;
      pollfd readable{socket_.get(), POLLIN, 0};
      if (poll(&readable, 1, static_cast<int>(end - BootMillis())) <= 0) continue;
      const ssize_t n = recv(socket_.get(), bytes, sizeof bytes, 0);
      if (n <= 0) break;
      received.append(bytes, static_cast<size_t>(n));
    }
    return received;
  }
  // Sends a heartbeat, whose answer the other side owes.
  bool Ping() { return Bytes(std::string("\4\7\4PING\0\x10", 9)); }
  // Sends a message with a header and a body of our own making, which Encode would not make.
  bool SendAs(const std::string& kind, Json::Object body) {
    return Frame(Json(Json::Object{{"major", rpc::kWireMajor}, {"minor", 0}, {"kind", kind}, {"request", "r"}}).Cbor(),
                 true) &&
           Frame(Json(std::move(body)).Cbor(), false);
  }

 private:
  void Handshake(const std::string& type = "DEALER") {
    std::string greeting = std::string("\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL", 16);
    greeting.resize(64, '\0');
    const std::string ready = std::string("\x05READY\x0bSocket-Type", 18) + std::string("\0\0\0\6", 4) + type;
    Bytes(greeting + std::string("\x04", 1) + static_cast<char>(ready.size()) + ready);
    char theirs[256];
    for (size_t got = 0; got < 64 + 2;) {  // their greeting, and the begin of their READY
      const ssize_t n = recv(socket_.get(), theirs, sizeof theirs, 0);
      if (n <= 0) return socket_.Reset();
      got += static_cast<size_t>(n);
    }
  }
  UniqueFd socket_;
};

// Bytes as the initializer of a char array in C.
inline std::string BytesInC(const std::string& bytes) {
  std::string text = "{";
  for (const char byte : bytes) text += std::to_string(static_cast<int>(byte)) + ",";
  return text + "}";
}
inline std::string OnTheChannel(const rpc::Message& message) { return rpc::PackFrames(rpc::Encode(message)); }

// Code that sends bytes to the server, as if the runner did.
inline std::string Send(const std::string& bytes) {
  return "static const char bytes[] = " + BytesInC(bytes) + "; call6(44, 3, (long)bytes, sizeof bytes, 0x4000, 0, 0);";
}
// Code that starts a thread, which runs `body` for ever.
inline std::string LeaveThread(const std::string& body) {
  return "char* stack = (char*)call6(9, 0, 1 << 16, 3, 0x22, -1, 0); "
         "__asm__ volatile(\"syscall; test %%rax, %%rax; jnz 1f; call thread_body; 1:\" : : \"a\"(56L), "
         "\"D\"(0x10f00L), "
         "\"S\"(stack + (1 << 16) - 64) : \"rcx\", \"r11\", \"memory\");" +
         body;
}

}  // namespace autotune
