// The messages of the protocol. Each is a struct that declares its fields once; docs/wire.md says when each is sent.
// A message is sent as frames: the header, the body, then the blobs. Header and body are CBOR maps by field name:
// unknown fields are ignored, and missing ones keep their default. A new minor version may add fields and messages.
// Peers of different major versions refuse each other. Plain values. The transport is in rpc/transport.h; the state
// machines define the order of messages.
#pragma once
#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rpc/administration.h"
#include "rpc/device_info.h"
#include "rpc/encoded.h"
#include "rpc/job_report.h"
#include "rpc/limits.h"
#include "rpc/measure.h"
#include "rpc/membership.h"
#include "rpc/runner_messages.h"
#include "support/fields.h"
#include "support/result.h"

namespace autotune::rpc {

inline constexpr int kWireMajor = 2;
inline constexpr int kWireMinor = 12;

inline constexpr size_t kMaxFrames = 256;  // of a message; the bytes of a frame have a limit, too (rpc/transport.cc)

inline constexpr size_t kMostLeases = 64;     // of a server
inline constexpr size_t kMostStatuses = 64;   // words for the ends of trials
inline constexpr size_t kMostUnfit = 256;     // servers of another kind that a client names
inline constexpr size_t kMostListed = 20000;  // devices, clients or keys in a status

using Id = std::string;  // 128 random bits as 32 lower-case hexadecimal digits
// Random numbers of the operating system. Thread-safe.
Id RandomId();
int64_t RandomNumber();  // 63 bits
// Returns the digits of a server's id that tell servers apart. Who knows all of them can speak for the server.
inline Id PublicId(const Id& server) { return server.substr(0, 8); }

struct Header {
  int major = kWireMajor, minor = kWireMinor;
  std::string kind;
  // Answers carry the id of their request. A sender that gets no answer repeats the request with the same id.
  Id request;
  AUTOTUNE_FIELDS(major, minor, kind, request)
  AUTOTUNE_LIMITS({"kind", kIdBytes}, {"request", kIdBytes})
};

// The fencing token of a lease. A device remembers the highest token it has seen and refuses all lower ones.
struct Token {
  int64_t epoch = 0;    // number of the tracker's start: one more at each start
  int64_t counter = 0;  // number of the grant since that start
  auto operator<=>(const Token&) const = default;
  AUTOTUNE_FIELDS(epoch, counter)
};
// Returns whether a tracker can have given out this token. `known` is the epoch of the reader's tracker. If readers
// took any token, one with the largest epoch would make all later ones too low. No tracker starts 2^53 times.
constexpr bool IsPlausible(const Token& token, int64_t known) {
  constexpr int64_t kMostStarts = int64_t{1} << 53;
  return token.epoch >= 0 && token.counter >= 0 && token.epoch <= std::max(known, kMostStarts);
}

// --- To anyone -------------------------------------------------------------------------------------------------------

namespace code {
inline constexpr char kMalformed[] = "malformed", kWrongVersion[] = "wrong_version", kUnknownKey[] = "unknown_key",
                      kLeaseLost[] = "lease_lost", kStaleLease[] = "stale_lease", kTimedOut[] = "timed_out",
                      kKeyFailed[] = "key_failed", kTooLarge[] = "too_large", kNeedReference[] = "need_reference",
                      kUnexpected[] = "unexpected", kForbidden[] = "forbidden", kUnknownDevice[] = "unknown_device",
                      kUnknownLease[] = "unknown_lease",           // both since 2.4
    kUnknownMember[] = "unknown_member", kNotDone[] = "not_done",  // both since 2.5
    kNeedContent[] = "need_content";                               // since 2.12
}
struct Refusal {
  static constexpr std::string_view kKind = "refusal";
  std::string code;  // a constant of namespace code; later versions may add some
  std::string text;  // explanation in one line, for the user
  AUTOTUNE_FIELDS(code, text)
  AUTOTUNE_LIMITS({"code", kIdBytes}, {"text", kTextBytes})
};
struct Ping {  // tests whether the peer is still connected; the peer answers with Pong
  static constexpr std::string_view kKind = "ping";
  std::string payload;
  AUTOTUNE_FIELDS(payload)
  AUTOTUNE_LIMITS({"payload", kTextBytes})
};
struct Pong {
  static constexpr std::string_view kKind = "pong";
  std::string payload;
  // Since 2.3: of a device server, the first digits of its id (PublicId). So a tracker that has connected to an address
  // knows who listens there.
  Id server;
  AUTOTUNE_FIELDS(payload, server)
  AUTOTUNE_LIMITS({"payload", kTextBytes}, {"server", kIdBytes})
};

// --- Server and tracker ----------------------------------------------------------------------------------------------

struct HeldLease {
  Id lease;
  Token token;
  Id client;
  std::string client_name, tenant, job;
  int64_t held_ms = 0;
  int64_t deadline_ms = 0;  // until the deadline of the running candidate; 0: none runs
  std::string client_key;   // since 2.4: public key of the client; empty: it is not authenticated
  AUTOTUNE_FIELDS(lease, token, client, client_name, tenant, job, held_ms, deadline_ms, client_key)
  AUTOTUNE_LIMITS({"lease", kIdBytes}, {"client", kIdBytes}, {"client_name", kNameBytes}, {"tenant", kNameBytes},
                  {"job", kNameBytes}, {"client_key", kIdBytes})
};
// A server's registration, heartbeat and state in one message. It holds everything that a tracker knows about the
// server, so a restarted tracker knows everything after one interval.
struct ServerReport {
  static constexpr std::string_view kKind = "server_report";
  Id server;
  Id incarnation;  // new at each start of the server
  DeviceInfo device;
  bool ready = false;  // true: a runner can take candidates; a leased device stays ready while its runner is replaced
  std::vector<HeldLease> leases;
  Token highest;                          // highest token seen
  std::map<std::string, int64_t> trials;  // number of trials that ended with each status
  std::string last_error;
  std::string quarantine;  // since 2.1: why the device measures nothing; empty if it does
  std::string grant_key;   // since 2.4: for the proofs of grants (rpc/capability.h), if clients need one
  AUTOTUNE_FIELDS(server, incarnation, device, ready, leases, highest, trials, last_error, quarantine, grant_key)
  AUTOTUNE_LIMITS({"server", kIdBytes}, {"incarnation", kIdBytes}, {"leases", 0, kMostLeases},
                  {"trials", kIdBytes, kMostStatuses}, {"last_error", kTextBytes}, {"quarantine", kTextBytes},
                  {"grant_key", kIdBytes})
};
struct ReportReply {
  static constexpr std::string_view kKind = "report_reply";
  int64_t epoch = 0;
  int64_t interval_ms = 1000;  // until the next report
  std::vector<Id> revoked;     // leases that are no longer valid
  std::vector<Id> yield;       // leases whose clients must give the device back; no further candidate starts for them
  std::string unreachable;     // since 2.3: why clients cannot reach the server's address; empty if they can
  std::string next_key;        // since 2.5: public key of the tracker from a later time on; empty: it keeps its key
  AUTOTUNE_FIELDS(epoch, interval_ms, revoked, yield, unreachable, next_key)
  AUTOTUNE_LIMITS({"revoked", kIdBytes, kMostLeases}, {"yield", kIdBytes, kMostLeases}, {"unreachable", kTextBytes},
                  {"next_key", kIdBytes})
};
struct ServerGoodbye {
  static constexpr std::string_view kKind = "server_goodbye";
  Id server;
  Id incarnation;
  AUTOTUNE_FIELDS(server, incarnation)
  AUTOTUNE_LIMITS({"server", kIdBytes}, {"incarnation", kIdBytes})
};

// --- Client and tracker ----------------------------------------------------------------------------------------------

struct LeaseRequest {
  static constexpr std::string_view kKind = "lease_request";
  Id client;
  std::string client_name;  // "user@host:pid"
  std::string key;
  std::vector<Id> exclude;  // servers that have just failed this client; they are used only if there is no other
  std::string tenant, job;
  int64_t wait_ms = 0;
  std::vector<Id> unfit;  // since 2.6: servers whose devices the client cannot use; it never gets them
  AUTOTUNE_FIELDS(client, client_name, key, exclude, tenant, job, wait_ms, unfit)
  AUTOTUNE_LIMITS({"client", kIdBytes}, {"client_name", kNameBytes}, {"key", kNameBytes}, {"exclude", kIdBytes, 64},
                  {"tenant", kNameBytes}, {"job", kNameBytes}, {"unfit", kIdBytes, kMostUnfit})
};
inline constexpr size_t kMaxHolders = 8;
struct LeaseQueued {
  static constexpr std::string_view kKind = "lease_queued";
  int64_t position = 0;  // place in the queue, from 1
  std::string text;      // why the client waits
  // Holders of devices with this key, the longest holder first; at most kMaxHolders.
  std::vector<LeaseHolder> holders;
  AUTOTUNE_FIELDS(position, text, holders)
  AUTOTUNE_LIMITS({"text", kTextBytes}, {"holders", 0, kMaxHolders})
};
struct LeaseGranted {
  static constexpr std::string_view kKind = "lease_granted";
  Id lease;
  Token token;
  Id server;
  Encoded<DeviceInfo> device;
  int64_t ttl_ms = 0;
  Id incarnation;     // of the server; the grant does not hold for a later one
  std::string proof;  // since 2.4: that the lease was granted to the client's key (rpc/capability.h)
  AUTOTUNE_FIELDS(lease, token, server, device, ttl_ms, incarnation, proof)
  AUTOTUNE_LIMITS({"lease", kIdBytes}, {"server", kIdBytes}, {"incarnation", kIdBytes}, {"proof", kIdBytes})
};
struct LeaseWithdraw {  // leaves the queue; if the lease was granted meanwhile, releases it
  static constexpr std::string_view kKind = "lease_withdraw";
  Id withdrawn;  // the request id of the LeaseRequest
  AUTOTUNE_FIELDS(withdrawn)
  AUTOTUNE_LIMITS({"withdrawn", kIdBytes})
};
struct LeaseRenew {
  static constexpr std::string_view kKind = "lease_renew";
  Id lease;
  AUTOTUNE_FIELDS(lease)
  AUTOTUNE_LIMITS({"lease", kIdBytes})
};
struct LeaseRenewed {
  static constexpr std::string_view kKind = "lease_renewed";
  int64_t ttl_ms = 0;
  // true: other clients wait, and the holder's quantum is over. The holder then cancels its batch and gives the device
  // back.
  bool yield = false;
  std::string next_key;  // since 2.5: as in ReportReply
  AUTOTUNE_FIELDS(ttl_ms, yield, next_key)
  AUTOTUNE_LIMITS({"next_key", kIdBytes})
};
struct LeaseRelease {
  static constexpr std::string_view kKind = "lease_release";
  Id lease;
  std::string unreachable;  // since 2.5: why the client could not reach the server; empty: it did
  AUTOTUNE_FIELDS(lease, unreachable)
  AUTOTUNE_LIMITS({"lease", kIdBytes}, {"unreachable", kTextBytes})
};
struct LeaseReleased {
  static constexpr std::string_view kKind = "lease_released";
  Id lease;
  AUTOTUNE_FIELDS(lease)
  AUTOTUNE_LIMITS({"lease", kIdBytes})
};

struct StatusRequest {
  static constexpr std::string_view kKind = "status_request";
  std::string key;  // key of the devices to show; empty: all devices
  AUTOTUNE_FIELDS(key)
  AUTOTUNE_LIMITS({"key", kNameBytes})
};
namespace device_state {
inline constexpr char kFree[] = "free", kBusy[] = "busy", kStarting[] = "starting", kUnreachable[] = "unreachable",
                      kQuarantined[] = "quarantined",  // since 2.1
    kDrained[] = "drained", kLocked[] = "locked";      // since 2.4
}
struct DeviceStatus {
  Id server;
  std::string key, endpoint, model;
  std::vector<int> cores;
  std::string state;  // a constant of namespace device_state; later versions may add some
  Id lease;
  std::string client_name, tenant, job;
  int64_t since_ms = 0;      // time for which the device has been busy
  int64_t last_seen_ms = 0;  // time since the server's last report
  std::map<std::string, int64_t> trials;
  std::string last_error;
  // Since 2.1: reason for the state, of a quarantined or (since 2.3) an unreachable device. Since 2.4: also who holds
  // the device, until when and why.
  std::string why;
  AUTOTUNE_FIELDS(server, key, endpoint, model, cores, state, lease, client_name, tenant, job, since_ms, last_seen_ms,
                  trials, last_error, why)
  AUTOTUNE_LIMITS({"server", kIdBytes}, {"key", kNameBytes}, {"endpoint", kNameBytes}, {"model", kNameBytes},
                  {"cores", 0, kMostCores}, {"state", kIdBytes}, {"lease", kIdBytes}, {"client_name", kNameBytes},
                  {"tenant", kNameBytes}, {"job", kNameBytes}, {"trials", kIdBytes, kMostStatuses},
                  {"last_error", kTextBytes}, {"why", kTextBytes})
};
struct QueueStatus {
  std::string key, client_name, tenant, job;
  int64_t position = 0, waiting_ms = 0;
  AUTOTUNE_FIELDS(key, client_name, tenant, job, position, waiting_ms)
  AUTOTUNE_LIMITS({"key", kNameBytes}, {"client_name", kNameBytes}, {"tenant", kNameBytes}, {"job", kNameBytes})
};
struct StatusReply {
  static constexpr std::string_view kKind = "status_reply";
  int64_t epoch = 0;
  bool recovering = false;
  int64_t uptime_ms = 0;
  std::vector<DeviceStatus> devices;
  std::vector<QueueStatus> queue;
  // key that no server offers any more -> milliseconds since a server last offered it
  std::map<std::string, int64_t> absent_keys;
  int64_t grants = 0, expired = 0, malformed = 0;
  std::vector<std::string> errors;  // the latest errors
  int64_t omitted = 0;              // devices, keys and waiting clients for which the answer has no room
  std::vector<DeviceHold> holds;    // since 2.4
  std::string next_key;             // since 2.5: as in ReportReply
  AUTOTUNE_FIELDS(epoch, recovering, uptime_ms, devices, queue, absent_keys, grants, expired, malformed, errors,
                  omitted, holds, next_key)
  AUTOTUNE_LIMITS({"devices", 0, kMostListed}, {"queue", 0, kMostListed}, {"absent_keys", kNameBytes, kMostListed},
                  {"errors", kTextBytes, 64}, {"holds", 0, kMostHolds}, {"next_key", kIdBytes})
};

// --- Client and server -----------------------------------------------------------------------------------------------

struct LeaseClaim {  // proof of the lease, in every message that a client sends to a server
  Id lease;
  Token token;
  int64_t ttl_ms = 0;
  Id client;
  std::string client_name, tenant, job;
  Id incarnation;     // of LeaseGranted
  std::string proof;  // of LeaseGranted
  AUTOTUNE_FIELDS(lease, token, ttl_ms, client, client_name, tenant, job, incarnation, proof)
  AUTOTUNE_LIMITS({"lease", kIdBytes}, {"client", kIdBytes}, {"client_name", kNameBytes}, {"tenant", kNameBytes},
                  {"job", kNameBytes}, {"incarnation", kIdBytes}, {"proof", kIdBytes})
};
// A batch; its id is the header's request id. Blobs: the artifacts, then the reference if `has_reference`.
struct MeasureRequest {
  static constexpr std::string_view kKind = "measure_request";
  LeaseClaim claim;
  MeasureTask task;
  std::vector<Candidate> candidates;
  bool has_reference = false;
  // Since 2.5: if `upload_bytes` is set, the message has no blobs. The server pulls them as one sequence of so many
  // bytes, PackFrames of the blobs. `upload` is the ContentHash of the sequence, or empty for a server with
  // DeviceInfo::chunk_hashes.
  std::string upload;
  int64_t upload_bytes = 0;
  AUTOTUNE_FIELDS(claim, task, candidates, has_reference, upload, upload_bytes)
  AUTOTUNE_LIMITS({"candidates", 0, kMaxBatchCandidates}, {"upload", kIdBytes})

  bool IsUploaded() const { return !upload.empty() || upload_bytes != 0; }
};
struct MeasureAccepted {
  static constexpr std::string_view kKind = "measure_accepted";
  int64_t candidates = 0;
  AUTOTUNE_FIELDS(candidates)
};
struct ResultReport {  // repeated until acknowledged; the header's request id is that of the batch
  static constexpr std::string_view kKind = "result_report";
  TrialResult result;
  AUTOTUNE_FIELDS(result)
};
struct ResultAck {
  static constexpr std::string_view kKind = "result_ack";
  Id batch;
  std::string candidate;
  AUTOTUNE_FIELDS(batch, candidate)
  AUTOTUNE_LIMITS({"batch", kIdBytes}, {"candidate", kNameBytes})
};
struct BatchCancel {  // candidates that have not begun get status "cancelled"
  static constexpr std::string_view kKind = "batch_cancel";
  LeaseClaim claim;
  Id batch;
  AUTOTUNE_FIELDS(claim, batch)
  AUTOTUNE_LIMITS({"batch", kIdBytes})
};
struct ClientBeat {
  static constexpr std::string_view kKind = "client_beat";
  LeaseClaim claim;
  Id batch;  // the batch that the client waits for, or empty
  AUTOTUNE_FIELDS(claim, batch)
  AUTOTUNE_LIMITS({"batch", kIdBytes})
};
struct ServerBeat {
  static constexpr std::string_view kKind = "server_beat";
  Id batch;               // the batch that the server works on or holds results of, or empty
  int64_t remaining = 0;  // candidates without a result
  std::string waits;      // since 2.7: what a call that measures waits for, for people; empty: nothing, or not for long
  AUTOTUNE_FIELDS(batch, remaining, waits)
  AUTOTUNE_LIMITS({"batch", kIdBytes}, {"waits", kTextBytes})
};
// --- Uploads (since 2.5). The header's request id of pulls and chunks is that of the batch.
struct UploadLink {  // the first message over a connection that is for chunks only
  static constexpr std::string_view kKind = "upload_link";
  LeaseClaim claim;
  AUTOTUNE_FIELDS(claim)
};
struct UploadPull {  // the server can take this chunk
  static constexpr std::string_view kKind = "upload_pull";
  int64_t offset = 0, bytes = 0;
  AUTOTUNE_FIELDS(offset, bytes)
};
struct UploadChunk {  // its bytes are the blob
  static constexpr std::string_view kKind = "upload_chunk";
  int64_t offset = 0;
  int64_t hash = 0;  // since 2.10: Hash64 of its bytes, if the request has no `upload`
  AUTOTUNE_FIELDS(offset, hash)
};
// --- Calls (since 2.6): a client calls functions in a process of the server that is its own (rpc/remote_device.h).
// Calls of one session run one after the other, in the order of their numbers. A repeated call is answered again and
// never runs twice. Since 2.7, a client may send further calls before the reply to the first one: so many of which it
// lacks the replies, and so many bytes with these replies.
inline constexpr int64_t kMostOpenCalls = 16;        // [chosen]
inline constexpr int64_t kMostOpenBytes = 32 << 20;  // [chosen]
struct Call {                                        // blob: the function and its arguments (rpc/remote_value.h)
  static constexpr std::string_view kKind = "call";
  LeaseClaim claim;
  Id session;              // made up by the client; the first call of another session gets a fresh process
  int64_t number = 0;      // from 1
  double seconds = 0;      // longest duration; then the process is killed, and the session is over
  bool exclusive = false;  // the call measures: nothing else is measured on this host meanwhile
  // Since 2.7: the client has the replies to the calls up to this number. Earlier clients send a call when they have
  // the reply to the one before it.
  int64_t answered = -1;
  // Since 2.12: the ContentHash of the last `content_bytes` bytes of the blob, which the server may keep for the
  // client's later sessions; empty: it may keep nothing. If they are `left_out`, the server adds those that it has
  // kept, or refuses the call as `need_content`.
  std::string content;
  int64_t content_bytes = 0;
  bool left_out = false;
  AUTOTUNE_FIELDS(claim, session, number, seconds, exclusive, answered, content, content_bytes, left_out)
  AUTOTUNE_LIMITS({"session", kIdBytes}, {"content", kIdBytes})
};
inline constexpr int kContentMinor = 12;  // minor version of servers that know Call::content
struct CallReply {                        // blob: the function's result, if the status is "ok"
  static constexpr std::string_view kKind = "call_reply";
  Id session;
  int64_t number = 0;
  TrialStatus status = TrialStatus::kOk;
  std::string error;      // why the function has not run to its end
  std::string disturbed;  // of an exclusive call: what ran beside it; empty: nothing
  AUTOTUNE_FIELDS(session, number, status, error, disturbed)
  AUTOTUNE_LIMITS({"session", kIdBytes}, {"error", kTextBytes}, {"disturbed", kTextBytes})
};
struct LeaseEnd {  // the client gives the device back
  static constexpr std::string_view kKind = "lease_end";
  LeaseClaim claim;
  AUTOTUNE_FIELDS(claim)
};

struct Body;
// Returns the claim of a message that a client sends to a server; null if it has none.
const LeaseClaim* ClaimOf(const Body& body);

// The one list of all messages.
using AnyBody =
    std::variant<Refusal, Ping, Pong, ServerReport, ReportReply, ServerGoodbye, LeaseRequest, LeaseQueued, LeaseGranted,
                 LeaseWithdraw, LeaseRenew, LeaseRenewed, LeaseRelease, LeaseReleased, StatusRequest, StatusReply,
                 MeasureRequest, MeasureAccepted, ResultReport, ResultAck, BatchCancel, ClientBeat, ServerBeat,
                 LeaseEnd, RunnerHello, RunnerRequest, RunnerProgress, RunnerReference, RunnerResult, RunnerProbe,
                 DeviceHold, DeviceHeld, LeaseRevoke, LeaseRevoked, MemberInvite, MemberInvited, MemberRevoke,
                 MemberRevoked, MembersRequest, MembersReply, KeyRotate, KeyRotated, UploadLink, UploadPull,
                 UploadChunk, Call, CallReply, RunnerCall, JobReport, RunnerAhead>;
// One of them. A type of its own, so that only one file compiles the copies and destructors of thirty types.
struct Body : AnyBody {
  using AnyBody::AnyBody;
  using AnyBody::operator=;
  Body(const Body& other);
  Body(Body&& other) noexcept;
  Body& operator=(const Body& other);
  Body& operator=(Body&& other) noexcept;
  ~Body();
};

struct Message {
  Id request;
  Body body;
  std::vector<Blob> blobs;
  int minor = kWireMinor;  // of a received message: the sender's minor version

  template <class T>
  const T* As() const {
    return std::get_if<T>(&body);
  }
};
std::string_view KindOf(const Body& body);

using Frames = std::vector<Blob>;
// Makes the frames of a message for a peer of version `major`. Cuts texts that are too long and escapes those that are
// not UTF-8, so that the peer takes the message: some texts come from candidates and drivers.
Frames Encode(const Message& message, int major = kWireMajor);
// Returns the frames of the same message, of this kind, with another request id. The rest is shared.
Frames WithRequest(Frames frames, std::string_view kind, const Id& request);
// The error of Decode, with the answer to send. Decode never throws, whatever the bytes.
struct DecodeError {
  Id request;              // the request id; empty if it could not be read
  Refusal refusal;         // wrong_version or malformed
  int major = kWireMajor;  // version of the peer, to which the answer is encoded
};
std::variant<Message, DecodeError> Decode(const Frames& frames);

}  // namespace autotune::rpc
