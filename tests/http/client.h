// A client of HTTP for tests: it sends any bytes, and reads what comes. For one thread.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "support/clock.h"
#include "support/unique_fd.h"

namespace autotune::http {

// A connection to a port of 127.0.0.1.
class RawClient {
 public:
  explicit RawClient(int port, int receive_buffer = 0) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  bool connected() const { return connected_; }
  bool Send(const std::string& bytes) const {
    return send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  void EndSending() const { shutdown(fd_.get(), SHUT_WR); }
  // Reads until the text contains `end`, the server closes, or the time is over. Returns all that came so far.
  const std::string& ReadUntil(const std::string& end, int64_t ms = 20000) {
    for (const int64_t until = BootMillis() + ms; text_.find(end) == std::string::npos || end.empty();) {
      pollfd wait{fd_.get(), POLLIN, 0};
      const int64_t left = until - BootMillis();
      if (left <= 0 || poll(&wait, 1, static_cast<int>(left)) <= 0) break;
      char bytes[16384];
      const ssize_t n = recv(fd_.get(), bytes, sizeof bytes, 0);
      if (n <= 0) {
        closed_ = true;
        break;
      }
      text_.append(bytes, static_cast<size_t>(n));
    }
    return text_;
  }
  const std::string& ReadAll(int64_t ms = 20000) { return ReadUntil("", ms); }
  bool closed() const { return closed_; }
  void Clear() { text_.clear(); }

 private:
  UniqueFd fd_;
  std::string text_;
  bool connected_ = false, closed_ = false;
};

inline int StatusIn(const std::string& response) {
  return response.starts_with("HTTP/1.1 ") ? std::atoi(response.c_str() + 9) : 0;
}
inline std::string BodyIn(const std::string& response) {
  const size_t end = response.find("\r\n\r\n");
  return end == std::string::npos ? "" : response.substr(end + 4);
}

// Sends one request and returns the whole response.
inline std::string Fetch(int port, const std::string& method, const std::string& path, const std::string& headers = "",
                         const std::string& body = "") {
  RawClient client(port);
  const std::string host = headers.find("Host:") == std::string::npos ? "Host: 127.0.0.1\r\n" : "";
  client.Send(method + " " + path + " HTTP/1.1\r\n" + host + headers + "Connection: close\r\n" +
              (body.empty() ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n") + "\r\n" + body);
  return client.ReadAll();
}

}  // namespace autotune::http
