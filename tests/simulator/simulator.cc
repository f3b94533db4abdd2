#include "tests/simulator/simulator.h"

#include <cmath>

namespace autotune {

using rpc::Message;

namespace {

// Until then nothing fails, so that all keys become known: a client that asks for an unknown key is refused.
constexpr int64_t kCalmStartMs = 4000;
constexpr int64_t kNoticeMs = 4000;  // after which ZeroMQ's heartbeats notice a party that does not answer

}  // namespace

Simulator::Simulator(Options options)
    : options_(std::move(options)),
      rng_(options_.seed),
      // The end of a lease may be lost on its way to a server, which then keeps the lease until it expires.
      ledger_({.unknown_tokens = options_.weather.forget_epoch, .accuracy = options_.weather.loss > 0 ? 0 : 0.01}) {
  for (size_t key = 0; key < options_.servers.size(); ++key) {
    for (int i = 0; i < options_.servers[key]; ++i) servers_.push_back({.key = "key" + std::to_string(key)});
  }
  clients_.resize(static_cast<size_t>(options_.clients + options_.hoarders));
  parties_.resize(1 + servers_.size() + clients_.size());
  for (Party& party : parties_) {
    party.rate = 1 + options_.weather.drift * (2 * rng_.Uniform() - 1);
    party.offset = rng_.Below(1000000000);
  }
  StartTracker();
  for (size_t s = 0; s < servers_.size(); ++s) StartServer(static_cast<int>(s));
  for (int c = 0; c < options_.clients + options_.hoarders; ++c) {
    Client& client = clients_[static_cast<size_t>(c)];
    client.key = "key" + std::to_string(c < options_.clients ? static_cast<size_t>(c) % options_.servers.size() : 0);
    client.jobs_left = options_.jobs;
    c < options_.clients ? StartClient(c) : StartHoarder(c);
  }
  if (options_.wall) {
    ledger_.Add({.what = Entry::What::kFault,
                 .server = PartyOf(ServerParty(0)).name,
                 .client = PartyOf(ClientParty(0)).name,
                 .until = kForever});
  }
  KeepConnected();
  if (options_.weather.fault_every_ms > 0) Post(kCalmStartMs, [this] { NextFault(); });
}

Simulator::~Simulator() = default;

// --- Time and processes ----------------------------------------------------------------------------------------------

void Simulator::Post(int64_t delay, Action action) {
  events_.push({now_ + std::max<int64_t>(0, delay), ++event_number_, std::move(action)});
}

void Simulator::Step() {
  // The top of a priority queue is constant; its action moves out, since it is popped next.
  Event event = std::move(const_cast<Event&>(events_.top()));
  events_.pop();
  now_ = event.at;
  event.action();
}

void Simulator::Run(int64_t max_ms) {
  while (now_ < max_ms && !AllDone()) Step();
  if (AllDone()) ledger_.Close(now_);
}

void Simulator::RunFor(int64_t ms) {
  for (const int64_t end = now_ + ms; now_ < end;) Step();
}

void Simulator::RunLeased(int64_t device_ms) {
  while (ledger_.leased_ms() < device_ms) Step();
  closing_ = true;
  Run(now_ + int64_t{24} * 3600 * 1000);
}

int64_t Simulator::Clock(int party) const {
  const Party& p = parties_[static_cast<size_t>(party)];
  return p.offset + static_cast<int64_t>(static_cast<double>(now_) * p.rate);
}

// Calls `action` in this incarnation of a party, when `delay` milliseconds of its clock have passed.
void Simulator::Later(int party, int64_t delay, Action action) {
  Party& p = PartyOf(party);
  // One millisecond more, since the clock counts whole ones.
  const auto true_delay = static_cast<int64_t>(std::ceil(static_cast<double>(delay) / p.rate)) + (delay > 0);
  Post(true_delay,
       [=, this, incarnation = p.incarnation, action = std::move(action)] { In(party, incarnation, action); });
}

// Calls `action` in a party, unless it is down or has restarted. If it is frozen, calls it later.
void Simulator::In(int party, int64_t incarnation, Action action) {
  Party& p = PartyOf(party);
  if (!p.up || p.incarnation != incarnation) return;
  if (now_ < p.frozen_until) {
    p.inputs.push_back([=, this, action = std::move(action)] { In(party, incarnation, action); });
  } else {
    action();
  }
}

void Simulator::Freeze(int party, int64_t ms) {
  Party& p = PartyOf(party);
  if (!p.up) return;
  BookFault(party, now_ + ms);
  if (now_ >= p.frozen_until) p.frozen_since = now_;
  p.frozen_until = std::max(p.frozen_until, now_ + ms);
  Post(p.frozen_until - now_, [this, party] { Thaw(party); });
}

void Simulator::Suspend(int64_t ms) {
  for (size_t party = 0; party < parties_.size(); ++party) Freeze(static_cast<int>(party), ms);
}

// Hands a party that goes on what has arrived while it was frozen.
void Simulator::Thaw(int party) {
  Party& p = PartyOf(party);
  if (now_ < p.frozen_until) return;  // frozen again since
  auto inputs = std::exchange(p.inputs, {});
  for (auto& input : inputs) input();
}

// --- Network ---------------------------------------------------------------------------------------------------------

bool Simulator::Reaches(int from, int to, const Link& link) const {
  const Party &a = parties_[static_cast<size_t>(from)], &b = parties_[static_cast<size_t>(to)];
  return a.up && b.up && now_ >= link.cut_until;
}

// Sends a message over a connection. It arrives with the connection that it was sent on, or not at all.
void Simulator::Transmit(int from, int to, const Link& link, const Message& message,
                         std::function<void(const Message&)> deliver) {
  if (!link.number || rng_.Uniform() < options_.weather.loss) return;
  chunks_ += message.As<rpc::UploadChunk>() != nullptr;
  const bool encoded = ++transmitted_ % options_.encoded == 0;
  // A message is a value that shares nothing with its sender but constant blobs.
  const auto letter = std::make_shared<const Letter>(encoded ? Letter{{}, rpc::Encode(message), std::move(deliver)}
                                                             : Letter{message, {}, std::move(deliver)});
  Action arrive = [this, &link, from, to, letter, number = link.number, incarnation = PartyOf(to).incarnation] {
    if (link.number != number || !Reaches(from, to, link)) return;
    In(to, incarnation, [this, letter] { Open(*letter); });
  };
  if (rng_.Uniform() < options_.weather.repeat) Post(1 + rng_.Below(20 * options_.weather.max_delay_ms), arrive);
  Post(1 + rng_.Below(options_.weather.max_delay_ms), std::move(arrive));
}

void Simulator::Open(const Letter& letter) {
  if (letter.frames.empty()) return letter.deliver(letter.message);
  auto decoded = rpc::Decode(letter.frames);
  if (auto* error = std::get_if<rpc::DecodeError>(&decoded)) return Violation("wire", error->refusal.text);
  letter.deliver(std::get<Message>(decoded));
}

void Simulator::Connect(int from, int to, Link& link, Action connected) {
  if (!Reaches(from, to, link) || now_ < PartyOf(to).frozen_until) return;
  link.number = ++connections_;
  link.incarnation = PartyOf(to).incarnation;
  In(from, PartyOf(from).incarnation, std::move(connected));
}

void Simulator::Disconnect(Client& client, int c) {
  client.server.number = 0;
  if (!client.node) return;
  In(ClientParty(c), PartyOf(ClientParty(c)).incarnation,
     [this, c] { clients_[static_cast<size_t>(c)].node->OnServerDisconnected(); });
}

// Returns whether a process listens at the endpoint of this client's server.
bool Simulator::Listens(const Client& client) const {
  return client.at_incarnation == 0 ||
         client.at_incarnation == parties_[static_cast<size_t>(ServerParty(client.at))].incarnation;
}

// Once a second: breaks the connections of those who do not answer, and makes the missing ones.
void Simulator::KeepConnected() {
  const auto frozen = [&](const Party& p) { return now_ < p.frozen_until; };
  // A party notices that another is gone or silent only while it runs itself.
  const auto misses = [&](const Party& p, const Party& other) {
    return !frozen(p) && (!other.up || (frozen(other) && now_ - other.frozen_since >= kNoticeMs));
  };
  const auto broken = [&](int from, int to, const Link& link) {
    const Party &a = PartyOf(from), &b = PartyOf(to);
    const bool cut = now_ < link.cut_until && now_ - link.cut_since >= kNoticeMs;
    return link.number && (misses(a, b) || misses(b, a) || cut);
  };
  const auto keep = [&](int from, Link& link, Action connected) {
    if (broken(from, kTracker, link)) link.number = 0;
    if (!link.number) Connect(from, kTracker, link, std::move(connected));
  };
  for (size_t s = 0; s < servers_.size(); ++s) {
    Server& server = servers_[s];
    keep(ServerParty(static_cast<int>(s)), server.tracker, [&server] { server.node->OnTrackerConnected(); });
  }
  for (size_t i = 0; i < clients_.size(); ++i) {
    Client& client = clients_[i];
    const int c = static_cast<int>(i);
    keep(ClientParty(c), client.tracker, [&client] {
      if (client.node) client.node->OnTrackerConnected();
    });
    if (client.at < 0) continue;
    const int server = ServerParty(client.at);
    if (broken(ClientParty(c), server, client.server) ||
        (client.server.number && PartyOf(server).incarnation != client.server.incarnation)) {
      Disconnect(client, c);
    } else if (!client.server.number && Listens(client)) {
      Connect(ClientParty(c), server, client.server, [&client] {
        if (client.node) client.node->OnServerConnected();
      });
    }
    if (client.uploads.number && !client.server.number) client.uploads.number = 0;
    if (client.wants_uploads && client.server.number) ConnectUploads(c);
  }
  Post(1000, [this] { KeepConnected(); });
}

// ---------------------------------------------------------------------------------------------------------------------

void Simulator::Violation(std::string_view promise, const std::string& text) {
  node_violations_.push_back(std::string(promise) + ": at " + std::to_string(now_) + " ms: " + text);
}

std::vector<std::string> Simulator::Violations() const {
  std::vector<std::string> all = ledger_.violations();
  all.insert(all.end(), node_violations_.begin(), node_violations_.end());
  if (!AllDone()) all.push_back("progress: at " + std::to_string(now_) + " ms: jobs are not done");
  return all;
}

bool Simulator::AllDone() const {
  for (const Client& client : clients_) {
    if (client.hoarder) continue;
    if (!client.node || (client.jobs_left != 0 && !closing_) || client.node->HasJob()) return false;
  }
  return true;
}

int Simulator::Busy() const {
  int busy = 0;
  if (tracker_) {
    for (const auto& device : tracker_->Status("", Clock(kTracker)).devices) busy += device.state == "busy";
  }
  return busy;
}

bool Simulator::Holds(int client) const {
  const Client& c = clients_[static_cast<size_t>(client)];
  return c.node && c.node->HasLease();
}

int Simulator::Holding() const {
  int holding = 0;
  for (int c = 0; c < options_.clients; ++c) holding += Holds(c);
  return holding;
}

}  // namespace autotune
