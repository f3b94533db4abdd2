#include "rpc/from.h"

#include "rpc/rules.h"

namespace autotune::rpc {
namespace {

template <class T, class... Alternatives>
inline constexpr bool kIsOneOf = (std::is_same_v<T, Alternatives> || ...);

}  // namespace

Roles SendersOf(const Body& body) {
  return std::visit(
      []<class T>(const T&) -> Roles {
        if constexpr (kIsOneOf<T, ServerReport, ServerGoodbye, MeasureAccepted, ResultReport, ServerBeat, UploadPull,
                               CallReply>) {
          return {Role::kServer};
        } else if constexpr (kIsOneOf<T, ReportReply, LeaseQueued, LeaseGranted, LeaseRenewed, LeaseReleased,
                                      StatusReply, DeviceHeld, LeaseRevoked, MemberInvited, MemberRevoked, MembersReply,
                                      KeyRotated>) {
          return {Role::kTracker};
        } else if constexpr (kIsOneOf<T, LeaseRequest, LeaseWithdraw, LeaseRenew, LeaseRelease, MeasureRequest,
                                      ResultAck, BatchCancel, ClientBeat, LeaseEnd, UploadLink, UploadChunk, Call,
                                      JobReport>) {
          return {Role::kClient};
        } else if constexpr (kIsOneOf<T, DeviceHold, LeaseRevoke, MemberInvite, MemberRevoke, MembersRequest,
                                      KeyRotate>) {
          return {Role::kAdmin};
        } else if constexpr (kIsOneOf<T, Refusal, Ping, Pong, StatusRequest>) {
          return {Role::kTracker, Role::kServer, Role::kClient, Role::kAdmin};
        } else {
          static_assert(kIsOneOf<T, RunnerHello, RunnerRequest, RunnerProgress, RunnerReference, RunnerResult,
                                 RunnerProbe, RunnerCall, RunnerAhead>,
                        "say who may send this message");
          return {};
        }
      },
      body);
}

std::optional<Refusal> RefusalOf(const From& from, const Message& message) {
  if (from.roles.HasOneOf(SendersOf(message.body)) || !Holds(Rule::kRoles)) return std::nullopt;
  return Refusal{code::kForbidden, "the sender may not send a " + std::string(KindOf(message.body))};
}

}  // namespace autotune::rpc
