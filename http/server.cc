#include "http/server.h"

#include <fcntl.h>

#include <array>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <csignal>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "http/merge_patch.h"
#include "support/check.h"

namespace autotune::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;
using tcp = asio::ip::tcp;

// Of every response. A browser runs only scripts that this server sends as files, connects only to this server, shows
// the page in no frame, and guesses no types.
constexpr char kScripts[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'\r\n";
constexpr char kNoFrames[] = "Content-Security-Policy: form-action 'none'; base-uri 'none'; frame-ancestors 'none'\r\n";
constexpr char kPolicy[] =
    "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: same-origin\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n"
    "Cache-Control: no-store\r\n";
constexpr int kSendBuffer = 256 << 10;  // bytes that the system keeps for a slow reader
constexpr size_t kRefusals = 64;        // connections beyond the limit that get an answer at a time

std::string HeadOf(const Response& response, bool keep_alive) {
  std::string head =
      "HTTP/1.1 " + std::to_string(response.status) + " " +
      std::string(beast::http::obsolete_reason(beast::http::int_to_status(static_cast<unsigned>(response.status)))) +
      "\r\nContent-Type: " + (response.streams ? "text/event-stream" : response.type) + "\r\n" +
      (response.has_policy ? kNoFrames : kScripts) + kPolicy;
  for (const auto& [name, value] : response.headers) head += name + ": " + value + "\r\n";
  if (!response.streams)
    head += "Content-Length: " + std::to_string(response.body ? response.body->size() : 0) + "\r\n";
  return head + "Connection: " + (keep_alive ? "keep-alive" : "close") + "\r\n\r\n";
}

// Returns the status for a request that cannot be read; 0: the connection is over.
int StatusOf(const error_code& error) {
  using Fault = beast::http::error;
  if (error == Fault::end_of_stream) return 0;
  if (error == Fault::header_limit || error == Fault::buffer_overflow) return 431;
  if (error == Fault::body_limit) return 413;
  return error.category() == beast::http::make_error_code(Fault::bad_method).category() ? 400 : 0;
}

class Connection;

}  // namespace

struct Server::Impl : std::enable_shared_from_this<Server::Impl> {
  explicit Impl(ServerOptions given) : options(std::move(given)) {}

  void Accept();
  void Admit(tcp::socket socket);
  void Forget(const std::shared_ptr<Connection>& connection);
  void TakeState();
  void LimitMemory();
  std::shared_ptr<const std::string> Text() {
    if (!text) text = std::make_shared<const std::string>(state.Dump());
    return text;
  }

  const ServerOptions options;
  asio::io_context context{1};
  tcp::acceptor acceptor{context};
  asio::steady_timer pause{context};
  std::string host;
  int port = 0;
  bool local = false;
  std::thread thread;
  std::list<std::shared_ptr<Connection>> connections;  // in the order in which they came
  std::atomic<size_t> open = 0;
  std::atomic<int64_t> memory = 0;
  size_t streams = 0;

  std::mutex mutex;
  std::function<Json()> make;  // the next state; protected by the mutex
  // Of the server's thread:
  Json state = Json::Object();
  int64_t version = 0;
  std::shared_ptr<const std::string> text, whole, patch;  // of the latest state: its text and its events, once needed
};

namespace {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Server::Impl& server, tcp::socket socket, bool local)
      : server_(server), socket_(std::move(socket)), timer_(server.context), local_(local) {}

  bool IsWaiting() const { return phase_ == Phase::kWaiting; }
  const std::shared_ptr<const std::string>& body() const { return body_; }  // that is on its way; null: none
  int64_t Memory() const { return static_cast<int64_t>(sizeof *this + buffer_.capacity() + head_.capacity()); }

  void Read() {
    phase_ = Phase::kWaiting;
    timed_out_ = false;
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(server_.options.limits.header_bytes));
    parser_->body_limit(server_.options.limits.body_bytes);
    SetTimer(is_first_ ? server_.options.limits.request_ms : server_.options.limits.idle_ms, [this] {
      timed_out_ = true;
      error_code ignored;
      socket_.cancel(ignored);
    });
    beast::http::async_read(socket_, buffer_, *parser_, [self = shared_from_this()](error_code error, size_t bytes) {
      self->OnRead(error, bytes);
    });
  }

  // Ends a connection that waits for a request, to make room.
  void Evict() {
    const Response response = TextResponse(408, "another connection needs the place\n");
    const std::string text = HeadOf(response, false) + *response.body;
    error_code ignored;
    socket_.non_blocking(true, ignored);
    socket_.write_some(asio::buffer(text), ignored);
    Close();
  }

  void Refuse(int status, const std::string& text) {
    closes_ = true;
    Send(TextResponse(status, text + "\n"));
  }

  void Close() {
    if (phase_ == Phase::kClosed) return;
    if (phase_ == Phase::kStreaming) --server_.streams;
    phase_ = Phase::kClosed;
    StopTimer();
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_both, ignored);
    socket_.close(ignored);
    server_.Forget(shared_from_this());
  }

  // Sends what the reader of a stream lacks, unless an event is on its way. Ends the stream if its reader may not read
  // any more.
  void Pump() {
    if (phase_ != Phase::kStreaming || writes_ || sent_ == server_.version) return;
    if (goes_on_ && !goes_on_()) return Close();
    const bool follows = sent_ > 0 && sent_ + 1 == server_.version;
    auto& event = follows ? server_.patch : server_.whole;
    if (!event) event = std::make_shared<const std::string>("event: state\ndata: " + *server_.Text() + "\n\n");
    sent_ = server_.version;
    Write({}, event, [this] { Pump(); });
  }

 private:
  enum class Phase { kWaiting, kAnswering, kWriting, kStreaming, kLingering, kClosed };

  template <class F>
  void SetTimer(int64_t ms, F f) {
    timer_.expires_after(std::chrono::milliseconds(ms));
    timer_.async_wait([self = shared_from_this(), number = ++timer_number_, f = std::move(f)](error_code error) {
      if (!error && number == self->timer_number_) f();
    });
  }
  // A timer that has expired already, but was not told so yet, does nothing either.
  void StopTimer() {
    ++timer_number_;
    timer_.cancel();
  }

  void OnRead(const error_code& error, size_t bytes) {
    if (phase_ == Phase::kClosed) return;
    StopTimer();
    if (!error) return Handle();
    const bool began = bytes > 0 || buffer_.size() > 0 || parser_->got_some();
    if (timed_out_ && !is_first_ && !began) return Close();
    if (timed_out_) return Refuse(408, "no request came in time");
    const int status = StatusOf(error);
    if (status == 0) return Close();
    Refuse(status, status == 400 ? "this is no request of HTTP/1.1" : "the request is too large");
  }

  void Handle() {
    phase_ = Phase::kAnswering;
    is_first_ = false;
    const auto& message = parser_->get();
    closes_ = !message.keep_alive();
    const auto text = [](beast::string_view view) { return std::string(view.data(), view.size()); };
    const auto header = [&](beast::http::field field) { return text(message[field]); };
    using beast::http::field;
    Request request{.method = text(message.method_string()),
                    .path = text(message.target()),
                    .host = header(field::host),
                    .origin = header(field::origin),
                    .content_type = header(field::content_type),
                    .authorization = header(field::authorization),
                    .cookie = header(field::cookie),
                    .from_page = !text(message["X-Autotune"]).empty(),
                    .local = local_,
                    .body = message.body()};
    for (const char* name : {"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via"})
      request.forwarded |= message.find(name) != message.end();
    if (message.count(field::host) != 1) return Refuse(400, "a request states one host");
    if (!request.path.starts_with('/')) return Refuse(400, "the path of a request begins with a slash");
    request.path.resize(std::min(request.path.find('?'), request.path.size()));
    without_body_ = request.method == "HEAD";
    if (without_body_) request.method = "GET";
    SetTimer(server_.options.limits.answer_ms, [this] { Take(++answer_, TextResponse(503, "no answer in time\n")); });
    server_.options.on_request(
        request, [server = server_.weak_from_this(), weak = weak_from_this(), number = ++answer_](Response response) {
          const auto alive = server.lock();
          if (!alive) return;
          asio::post(alive->context, [weak, number, response = std::move(response)]() mutable {
            if (const auto self = weak.lock()) self->Take(number, std::move(response));
          });
        });
  }

  // Takes the handler's answer to the request of this number.
  void Take(int64_t number, Response response) {
    if (phase_ != Phase::kAnswering || number != answer_) return;
    StopTimer();
    if (response.sends_state) response.body = server_.Text();
    if (response.streams && server_.streams >= server_.options.limits.streams)
      response = TextResponse(503, "too many readers\n");
    Send(std::move(response));
  }

  void Send(Response response) {
    phase_ = Phase::kWriting;
    const bool streams = response.streams && !without_body_;
    if (response.streams) closes_ = true;
    goes_on_ = std::move(response.goes_on);
    std::string head = HeadOf(response, !closes_);
    if (streams) head += "retry: 1000\n\n";
    Write(std::move(head), without_body_ ? nullptr : response.body, [this, streams] {
      if (streams) return Stream();
      closes_ ? Linger() : Read();
    });
  }

  template <class F>
  void Write(std::string head, std::shared_ptr<const std::string> body, F then) {
    writes_ = true;
    head_ = std::move(head);
    body_ = std::move(body);
    SetTimer(server_.options.limits.write_ms, [this] { Close(); });
    const std::array<asio::const_buffer, 2> buffers = {asio::buffer(head_),
                                                       body_ ? asio::buffer(*body_) : asio::const_buffer()};
    asio::async_write(socket_, buffers, [self = shared_from_this(), then](error_code error, size_t) {
      self->writes_ = false;
      self->body_.reset();
      if (self->phase_ == Phase::kClosed) return;
      self->StopTimer();
      error ? self->Close() : then();
    });
  }

  void Stream() {
    phase_ = Phase::kStreaming;
    ++server_.streams;
    // A reader says nothing more; whatever comes next is its end.
    socket_.async_read_some(asio::buffer(rest_),
                            [self = shared_from_this()](const error_code&, size_t) { self->Close(); });
    Pump();
  }

  // Reads what the client still sends, for a moment: closing at once would destroy the response on its way.
  void Linger() {
    constexpr int64_t kLingerMs = 1000;
    phase_ = Phase::kLingering;
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    SetTimer(kLingerMs, [this] { Close(); });
    Drain();
  }
  void Drain() {
    socket_.async_read_some(asio::buffer(rest_), [self = shared_from_this()](const error_code& error, size_t) {
      if (self->phase_ == Phase::kClosed) return;
      error ? self->Close() : self->Drain();
    });
  }

  Server::Impl& server_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  const bool local_;
  Phase phase_ = Phase::kWaiting;
  beast::flat_buffer buffer_{32 << 10};
  std::optional<beast::http::request_parser<beast::http::string_body>> parser_;
  bool is_first_ = true, timed_out_ = false, closes_ = false, without_body_ = false, writes_ = false;
  int64_t timer_number_ = 0;  // of the latest timer
  int64_t answer_ = 0;        // number of the request that is being answered
  int64_t sent_ = 0;          // version of the state that the stream has; 0: none
  std::string head_;
  std::shared_ptr<const std::string> body_;
  std::function<bool()> goes_on_;  // of the response that is sent
  std::array<char, 512> rest_{};
};

}  // namespace

void Server::Impl::Accept() {
  acceptor.async_accept([this](error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error) {
      Admit(std::move(socket));
      return Accept();
    }
    // No descriptor is left, or the peer has gone already.
    constexpr int64_t kPauseMs = 200;
    pause.expires_after(std::chrono::milliseconds(kPauseMs));
    pause.async_wait([this](error_code ended) {
      if (!ended) Accept();
    });
  });
}

void Server::Impl::Admit(tcp::socket socket) {
  error_code gone, ignored;
  const tcp::endpoint peer = socket.remote_endpoint(gone);
  if (gone) return;
  fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::send_buffer_size(kSendBuffer), ignored);
  const asio::ip::address& from = peer.address();
  const bool from_here =
      from.is_loopback() || (from.is_v6() && from.to_v6().is_v4_mapped() &&
                             asio::ip::make_address_v4(asio::ip::v4_mapped, from.to_v6()).is_loopback());
  if (connections.size() >= options.limits.connections) {
    for (const auto& other : connections) {
      if (!other->IsWaiting()) continue;
      std::shared_ptr(other)->Evict();
      break;
    }
  }
  if (connections.size() >= options.limits.connections + kRefusals) return;
  const bool full = connections.size() >= options.limits.connections;
  connections.push_back(std::make_shared<Connection>(*this, std::move(socket), from_here));
  open = connections.size();
  full ? connections.back()->Refuse(503, "too many connections") : connections.back()->Read();
}

void Server::Impl::Forget(const std::shared_ptr<Connection>& connection) {
  connections.remove(connection);
  open = connections.size();
}

void Server::Impl::TakeState() {
  std::function<Json()> next;
  {
    std::lock_guard lock(mutex);
    next = std::exchange(make, nullptr);
  }
  if (!next) return;
  Json after = WithoutNulls(next());
  const Json change = MergePatch(state, after);
  state = std::move(after);
  ++version;
  whole.reset();
  text.reset();
  patch = std::make_shared<const std::string>("event: patch\ndata: " + change.Dump() + "\n\n");
  for (const auto& connection : std::list(connections)) connection->Pump();  // a copy, since some may close
  LimitMemory();
}

// Cuts off readers who hold old texts, if these take too much memory together.
void Server::Impl::LimitMemory() {
  constexpr int64_t kCopies = 3;  // of the state: this one, the next one, and what it is made of
  int64_t bytes = kCopies * MemoryOf(state), texts = 0;
  std::map<const std::string*, std::vector<std::shared_ptr<Connection>>> holders;
  for (const auto& connection : connections) {
    bytes += connection->Memory();
    if (connection->body()) holders[connection->body().get()].push_back(connection);
  }
  for (const auto& latest : {text, whole, patch})
    if (latest) bytes += static_cast<int64_t>(latest->size());
  for (const auto& [body, its] : holders) {
    if (body == text.get() || body == whole.get() || body == patch.get()) continue;
    texts += static_cast<int64_t>(body->size());
    if (texts <= options.limits.held_bytes) continue;
    texts -= static_cast<int64_t>(body->size());
    for (const auto& holder : its) holder->Close();
  }
  memory = bytes + texts;
}

namespace {

// Splits "HOST:PORT".
Result<tcp::endpoint> EndpointOf(const std::string& text) {
  const size_t colon = text.rfind(':');
  const auto bad = [&] { return Err("'", text, "' is no HOST:PORT with an IP address or localhost as HOST"); };
  if (colon == std::string::npos || colon == 0) return bad();
  std::string host = text.substr(0, colon);
  const std::string digits = text.substr(colon + 1);
  if (digits.empty() || digits.size() > 5 || digits.find_first_not_of("0123456789") != std::string::npos) return bad();
  const int port = std::stoi(digits);
  if (host == "localhost") host = "127.0.0.1";
  if (host == "*") host = "0.0.0.0";
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  error_code error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (error || port > 65535) return bad();
  return tcp::endpoint(address, static_cast<uint16_t>(port));
}

}  // namespace

Server::Server(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  const tcp::endpoint wanted = TRY(EndpointOf(options.address));
  auto impl = std::make_shared<Impl>(std::move(options));
  error_code error;
  impl->acceptor.open(wanted.protocol(), error);
  if (!error) fcntl(impl->acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
  if (!error) impl->acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) impl->acceptor.bind(wanted, error);
  if (!error) impl->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return Err("cannot listen at ", impl->options.address, ": ", error.message());
  const tcp::endpoint bound = impl->acceptor.local_endpoint();
  impl->host = bound.address().is_v6() ? "[" + bound.address().to_string() + "]" : bound.address().to_string();
  impl->port = bound.port();
  impl->local = bound.address().is_loopback();
  impl->Accept();
  // Signals are for the other threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  impl->thread = std::thread([raw = impl.get()] { raw->context.run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::~Server() {
  impl_->context.stop();
  impl_->thread.join();
  impl_->connections.clear();
}

const std::string& Server::host() const { return impl_->host; }
int Server::port() const { return impl_->port; }
bool Server::is_local() const { return impl_->local; }

std::string Server::Url() const {
  std::string host = impl_->host == "0.0.0.0" ? "127.0.0.1" : impl_->host == "[::]" ? "[::1]" : impl_->host;
  return "http://" + host + ":" + std::to_string(impl_->port) + "/";
}

void Server::Publish(std::function<Json()> make) {
  {
    std::lock_guard lock(impl_->mutex);
    const bool posted = impl_->make != nullptr;
    impl_->make = std::move(make);
    if (posted) return;
  }
  asio::post(impl_->context, [impl = impl_.get()] { impl->TakeState(); });
}

int64_t Server::Memory() const { return impl_->memory; }
size_t Server::Connections() const { return impl_->open; }

}  // namespace autotune::http
