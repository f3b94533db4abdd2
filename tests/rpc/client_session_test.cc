#include "rpc/client_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rpc/channel.h"
#include "rpc/content_hash.h"
#include "tests/rpc/bytes.h"
#include "tests/rpc/client_world.h"

namespace autotune::rpc {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<TrialStatus> kBothCancelled(2, TrialStatus::kCancelled);

TEST(ClientSession, TheTextOfAWaitIsFitForATerminal) {
  ClientWorld w;
  w.Start(1);
  const std::string name(79, 'n');
  w.Queue({2, "busy\n", {{"ann\x1b[2J", "", "a\tb", 3000}, {name + "\u00e4", "", "", 3000}}});
  EXPECT_EQ(w.waits.at(0).text, "busy\\x0a; held by ann\\x1b[2J (job a\\x09b) for 3 s, " + name + "... for 3 s");
}

TEST(ClientSession, AWaitIsReportedWithThePlaceAndTheHolders) {
  ClientWorld w;
  w.Start(1);
  EXPECT_THAT(w.waits, IsEmpty());
  LeaseQueued queued{2, "1 of 1 devices `cpu` busy; place 2 in the queue", {{"ann@lab:4", "", "resnet", 250000}}};
  w.now = 40;
  w.Queue(queued);
  ASSERT_EQ(w.waits.size(), 1u);
  EXPECT_EQ(w.waits[0].position, 2);
  EXPECT_EQ(w.waits[0].waited_ms, 40);
  EXPECT_EQ(w.waits[0].text,
            "1 of 1 devices `cpu` busy; place 2 in the queue; held by ann@lab:4 (job resnet) for 4 min");
  ASSERT_EQ(w.waits[0].holders.size(), 1u);
  // Only the time changes: the wait is not reported again within five seconds.
  for (int second = 1; second <= 4; ++second) {
    w.Pass(1000);
    queued.holders[0].held_ms += 1000;
    w.Queue(queued);
  }
  EXPECT_EQ(w.waits.size(), 1u);
  w.Pass(1000);
  w.Queue(queued);
  ASSERT_EQ(w.waits.size(), 2u);
  // A change of the place, the holder or the reason is reported at once.
  queued.position = 1;
  w.Queue(queued);
  queued.holders[0].client_name = "bob@lab:5";
  w.Queue(queued);
  queued.text = "no device `cpu` is connected";
  w.Queue(queued);
  EXPECT_EQ(w.waits.size(), 5u);
  w.Grant();
  w.Pass(3900);
  EXPECT_EQ(w.waits.size(), 5u);  // no report after the grant
}

TEST(ClientSession, ManyHoldersFitALine) {
  ClientWorld w;
  w.Start(1);
  LeaseQueued queued{1, "5 of 5 devices `cpu` busy", {}};
  for (int i = 0; i < 5; ++i) queued.holders.push_back({"u" + std::to_string(i), "", "", 3000});
  w.Queue(queued);
  EXPECT_EQ(w.waits.at(0).text, "5 of 5 devices `cpu` busy; held by u0 for 3 s, u1 for 3 s, u2 for 3 s and others");
  EXPECT_EQ(w.waits.at(0).holders.size(), 5u);
}

TEST(ClientSession, ASilentTrackerIsReportedToo) {
  ClientWorld w;
  w.Start(1);
  w.Pass(2900);
  EXPECT_THAT(w.waits, IsEmpty());
  w.Pass(200);
  ASSERT_EQ(w.waits.size(), 1u);
  EXPECT_EQ(w.waits[0].text, "the tracker does not answer");
  EXPECT_EQ(w.waits[0].position, 0);
  w.Pass(5000);
  EXPECT_EQ(w.waits.size(), 2u);
  w.Queue({1, "1 of 1 devices `cpu` busy", {}});
  EXPECT_EQ(w.waits.size(), 3u);
  w.Pass(33000);
  EXPECT_EQ(w.done, 1);
  EXPECT_EQ(w.error, "the tracker does not answer");
}

TEST(ClientSession, CancelEndsAWaitAtOnceWithoutTheTracker) {
  ClientWorld w;
  w.Start(2);
  w.Pass(5000);  // the tracker does not answer
  EXPECT_EQ(w.done, 0);
  w.Take(w.session.Cancel(w.now));
  EXPECT_EQ(w.done, 1);
  EXPECT_EQ(w.error, "");
  EXPECT_EQ(w.Statuses(), kBothCancelled);
  Id request = w.LeaseRequestId();
  ASSERT_TRUE(w.Last<LeaseWithdraw>(w.tracker));
  EXPECT_EQ(w.Last<LeaseWithdraw>(w.tracker)->As<LeaseWithdraw>()->withdrawn, request);
  // The client returns a grant that was on its way.
  w.Grant();
  EXPECT_TRUE(w.Last<LeaseRelease>(w.tracker));
  EXPECT_FALSE(w.session.HasLease());
}

TEST(ClientSession, CancelDoesNotWaitForAServerThatNeverAcceptedTheBatch) {
  ClientWorld w;
  w.Start(2);
  w.Grant();
  ASSERT_EQ(w.Count<MeasureRequest>(w.server), 1);
  w.Take(w.session.Cancel(w.now));
  EXPECT_EQ(w.done, 1);
  EXPECT_EQ(w.Statuses(), kBothCancelled);
  EXPECT_TRUE(w.Last<LeaseEnd>(w.server));  // makes a server that has received the batch drop it
}

// A candidate of an accepted batch may be running, so Cancel waits for its result.
TEST(ClientSession, CancelWaitsForTheCandidateThatRuns) {
  ClientWorld w;
  w.Start(2);
  w.Grant();
  w.Accept();
  w.Take(w.session.Cancel(w.now));
  EXPECT_EQ(w.done, 0);
  Id batch = w.Last<MeasureRequest>(w.server)->request;
  EXPECT_EQ(w.Last<BatchCancel>(w.server)->As<BatchCancel>()->batch, batch);
  TrialResult ran{.candidate = "0", .status = TrialStatus::kOk}, other{.candidate = "1"};
  other.status = TrialStatus::kCancelled;
  w.Hear(batch, ResultReport{ran});
  w.Hear(batch, ResultReport{other});
  EXPECT_EQ(w.done, 1);
  EXPECT_EQ(w.Statuses(), (std::vector{TrialStatus::kOk, TrialStatus::kCancelled}));
}

// A server cancels what it was not asked to cancel if the device goes to another client. The client must neither charge
// these candidates nor send them there again.
TEST(ClientSession, CandidatesThatTheServerCancelledGoToAnotherDevice) {
  ClientWorld w;
  w.Start(2);
  w.Grant(1, "s1");
  w.Accept();
  const Id batch = w.Last<MeasureRequest>(w.server)->request;
  const int sent = w.Count<MeasureRequest>(w.server);
  w.Hear(batch, ResultReport{{.candidate = "0", .status = TrialStatus::kOk}});
  w.Hear(batch, ResultReport{{.candidate = "1", .status = TrialStatus::kCancelled}});
  EXPECT_EQ(w.Statuses(), std::vector{TrialStatus::kOk});
  EXPECT_EQ(w.Count<MeasureRequest>(w.server), sent);
  EXPECT_EQ(w.Count<LeaseEnd>(w.server), 1);
  w.Grant(2, "s1");  // the device may be granted again
  const auto& again = *w.Last<MeasureRequest>(w.server)->As<MeasureRequest>();
  ASSERT_EQ(again.candidates.size(), 1u);
  EXPECT_EQ(again.candidates[0].id, "1");
}

// Two devices fail while they run candidate 0, so it goes to no third one. Candidate 1, which has not run, does.
TEST(ClientSession, ACandidateThatBreaksTwoDevicesGoesToNoThird) {
  ClientWorld w;
  w.Start(2);
  for (int64_t device = 1; device <= 2; ++device) {
    EXPECT_THAT(w.results, IsEmpty());
    w.Grant(device, "s" + std::to_string(device));
    const Id batch = w.Last<MeasureRequest>(w.server)->request;
    EXPECT_EQ(w.Last<MeasureRequest>(w.server)->As<MeasureRequest>()->candidates.size(), 2u);
    w.Hear(batch, ResultReport{{.candidate = "0", .status = TrialStatus::kDeviceError, .started = 1000}});
    w.Hear(batch, ResultReport{{.candidate = "1", .status = TrialStatus::kDeviceError}});
  }
  EXPECT_EQ(w.Statuses(), std::vector{TrialStatus::kDeviceError});
  w.Grant(3, "s3");
  const auto& last = *w.Last<MeasureRequest>(w.server)->As<MeasureRequest>();
  ASSERT_EQ(last.candidates.size(), 1u);
  EXPECT_EQ(last.candidates[0].id, "1");
  w.Hear(w.Last<MeasureRequest>(w.server)->request, ResultReport{{.candidate = "1", .status = TrialStatus::kOk}});
  EXPECT_EQ(w.done, 1);
  EXPECT_EQ(w.error, "");
}

// A server that cannot be reached is named at once, since other devices may have addresses of the same kind.
TEST(ClientSession, AServerOutOfReachIsNamed) {
  for (const bool answers : {false, true}) {
    ClientWorld w({.max_losses = 2});
    w.Start(1);
    for (int64_t grant = 1; grant <= 2; ++grant) {
      LeaseGranted granted{"lease" + std::to_string(grant), {1, grant}, "s1", {}, 10000};
      granted.device = Encoded<DeviceInfo>({.endpoint = "tcp://127.0.0.1:4711"});
      w.HearTracker(w.LeaseRequestId(), granted);
      if (answers) w.Accept();
      w.Pass(5000);
      EXPECT_EQ(w.waits.size(), answers ? 0u : static_cast<size_t>(grant));
    }
    EXPECT_EQ(w.done, 1);
    if (answers) {
      EXPECT_THAT(w.error, HasSubstr("has been silent for 5 s"));
    } else {
      EXPECT_THAT(w.error, HasSubstr("no answer from the device server at tcp://127.0.0.1:4711: this address must"));
      EXPECT_THAT(w.error, HasSubstr(w.waits.back().text));
      const auto told = std::ranges::find_if(w.tracker, [](const Message& m) {
        return m.As<LeaseRelease>() && !m.As<LeaseRelease>()->unreachable.empty();
      });
      ASSERT_NE(told, w.tracker.end());
      EXPECT_EQ(told->As<LeaseRelease>()->unreachable, "no answer from the device server at tcp://127.0.0.1:4711");
    }
  }
}

TEST(ClientSession, ABatchThatGotLostIsSentAgainWhileOthersWait) {
  ClientWorld w;
  w.Start(2);
  w.Grant();
  w.Pass(3000);
  w.Renewed(true);
  int sent = w.Count<MeasureRequest>(w.server);
  for (int second = 0; second < 4; ++second) {
    w.Hear("x", ServerBeat{});  // the server is alive but does not know the batch
    w.Pass(1000);
  }
  EXPECT_GT(w.Count<MeasureRequest>(w.server), sent);
  EXPECT_GT(w.Count<BatchCancel>(w.server), 2);
}

// A server that closes all connections listens again at once.
TEST(ClientSession, AConnectionThatIsMadeAgainKeepsTheDevice) {
  ClientWorld w;
  w.Start(1);
  w.Grant(1, "s1");
  const int requests = w.Count<LeaseRequest>(w.tracker), batches = w.Count<MeasureRequest>(w.server);
  w.Take(w.session.OnServerDisconnected(w.now));
  w.Pass(400);
  w.Take(w.session.OnServerConnected(w.now));
  EXPECT_EQ(w.Count<MeasureRequest>(w.server), batches + 1) << "the batch was not accepted yet";
  w.Hear("x", ServerBeat{});
  w.Pass(3000);
  EXPECT_EQ(w.Count<LeaseRequest>(w.tracker), requests);
  w.Take(w.session.OnServerDisconnected(w.now));
  w.Pass(600);
  EXPECT_EQ(w.Count<LeaseRequest>(w.tracker), requests + 1);
}

TEST(ClientSession, ALostDeviceIsAvoidedForAWhileOnly) {
  ClientWorld w;
  w.Start(1);
  w.Grant(1, "s1");
  w.Take(w.session.OnServerDisconnected(w.now));
  w.Pass(1500);
  auto excluded = [&] { return w.Last<LeaseRequest>(w.tracker)->As<LeaseRequest>()->exclude; };
  EXPECT_EQ(excluded(), std::vector<Id>{"s1"});
  for (int second = 0; second < 58; ++second) {
    w.Pass(1000);
    w.Queue({1, "", {}});
  }
  EXPECT_EQ(excluded(), std::vector<Id>{"s1"});
  w.Pass(3000);
  EXPECT_THAT(excluded(), IsEmpty());
}

// What tracker and server sent while the client stood still is unread when it goes on.
TEST(ClientSession, AStopOfTheClientIsNotTheSilenceOfOthers) {
  ClientWorld w;
  w.Start(1);
  w.Pass(200);
  w.now += 60000;
  w.Pass(200);
  EXPECT_EQ(w.done, 0) << w.error;
  w.Grant();
  w.Accept();
  w.Pass(200);
  w.now += 60000;
  w.Pass(200);
  EXPECT_EQ(w.Count<LeaseRelease>(w.tracker), 0) << "the device is kept";
  w.Pass(5000);  // a silence of the server, while the client runs
  EXPECT_EQ(w.Count<LeaseRelease>(w.tracker), 1);
}

TEST(ClientSession, AGrantThatWasMissedDoesNotRestartTheWait) {
  ClientWorld w({.wait_ms = 60000});
  w.Start(1);
  for (int second = 0; second < 20; ++second) {
    w.Pass(1000);
    w.Queue({1, "", {}});
  }
  Id first = w.LeaseRequestId();
  w.HearTracker(first, Refusal{code::kLeaseLost, "the lease of this request has ended"});
  EXPECT_NE(w.LeaseRequestId(), first);
  EXPECT_EQ(w.Last<LeaseRequest>(w.tracker)->As<LeaseRequest>()->wait_ms, 40000);
}

// A job that no server takes is no error, since servers may take the jobs of other tasks.
TEST(ClientSession, AJobThatCannotBeSentFailsAlone) {
  for (bool large_reference : {true, false}) {
    ClientWorld w;
    auto job = std::make_shared<MeasureJob>(*ClientWorld::Job(2));
    if (large_reference) job->reference = Bytes(std::string(kMaxUploadedBlobBytes + 1, 'x'));
    w.Take(w.session.Start(job, w.now));
    if (!large_reference) {
      w.Grant();
      w.Hear(w.Last<MeasureRequest>(w.server)->request, Refusal{code::kTooLarge, "a batch has at most 1 artifact"});
    }
    EXPECT_EQ(w.done, 1);
    EXPECT_EQ(w.error, "");
    EXPECT_EQ(w.Statuses(), std::vector<TrialStatus>(2, TrialStatus::kInfrastructure));
    for (const TrialResult& result : w.results) EXPECT_THAT(result.error, HasSubstr("at most"));
    // The next job is measured.
    w.results.clear();
    w.Start(1);
    if (large_reference) w.Grant();
    w.Hear(w.Last<MeasureRequest>(w.server)->request, ResultReport{{.candidate = "0", .status = TrialStatus::kOk}});
    EXPECT_EQ(w.done, 2);
    EXPECT_EQ(w.Statuses(), std::vector{TrialStatus::kOk});
  }
}

TEST(ClientSession, ABatchIsUploadedIfItIsLargeAndTheDeviceTakesUploads) {
  for (const auto& [bytes, uploads] : {std::pair{100, true}, {20, true}, {100, false}}) {
    ClientWorld w({.inline_bytes = 50});
    w.uploads = uploads;
    auto job = std::make_shared<MeasureJob>(*ClientWorld::Job(1));
    job->artifacts[0] = Bytes(std::string(static_cast<size_t>(bytes), 'x'));
    w.Take(w.session.Start(job, w.now));
    w.Grant();
    const Message message = *w.Last<MeasureRequest>(w.server);
    const auto& request = *message.As<MeasureRequest>();
    if (bytes < 50 || !uploads) {
      EXPECT_EQ(message.blobs.size(), 1u);
      EXPECT_EQ(request.upload + std::to_string(w.upload_connections), "0");
      continue;
    }
    EXPECT_EQ(message.blobs.size(), 0u);
    EXPECT_EQ(w.upload_connections, 1);
    w.Take(w.session.OnUploadsConnected(w.now));
    EXPECT_EQ(w.chunks.back().As<UploadLink>()->claim.lease, "lease1");
    w.chunks.clear();
    w.Hear("another batch", UploadPull{0, 10});
    w.Hear(message.request, UploadPull{0, request.upload_bytes + 1});
    EXPECT_THAT(w.chunks, IsEmpty());
    w.Hear(message.request, UploadPull{request.upload_bytes - 10, 10});
    EXPECT_EQ(*w.chunks.back().blobs[0], "xxxxxxxxxx");
  }
}

TEST(ClientSession, ChunksHaveAHashWhereServersLookAtIt) {
  for (const bool chunks : {true, false}) {
    ClientWorld w({.inline_bytes = 0});
    w.uploads = true;
    w.chunk_hashes = chunks;
    w.Start(1);
    w.Grant();
    const Message message = *w.Last<MeasureRequest>(w.server);
    const auto& request = *message.As<MeasureRequest>();
    EXPECT_EQ(request.upload, chunks ? "" : ContentHash(PackFrames({Bytes("artifact")})));
    EXPECT_EQ(request.upload_bytes, 16);
    w.Take(w.session.OnUploadsConnected(w.now));
    w.Hear(message.request, UploadPull{8, 8});
    EXPECT_EQ(w.chunks.back().As<UploadChunk>()->hash, chunks ? HashOfChunk("artifact") : 0);
  }
}

// Each connection for chunks needs a link that arrives, or the server cannot pull.
TEST(ClientSession, AnUploadLinkIsRepeatedUntilAPullComes) {
  ClientWorld w({.inline_bytes = 0});
  w.uploads = true;
  w.Start(1);
  w.Grant();
  w.Accept();
  const Id batch = w.Last<MeasureRequest>(w.server)->request;
  w.Pass(3000);
  w.Hear("", ServerBeat{batch});
  EXPECT_THAT(w.chunks, IsEmpty()) << "there is no connection yet";
  for (int connection = 1; connection <= 2; ++connection) {
    w.chunks.clear();
    w.Take(w.session.OnUploadsConnected(w.now));
    w.Pass(4500);
    EXPECT_EQ(w.Count<UploadLink>(w.chunks), 3);
    w.Hear("another batch", UploadPull{0, 1});
    w.Pass(2000);
    EXPECT_EQ(w.Count<UploadLink>(w.chunks), 4);
    w.Hear(batch, UploadPull{0, 1});
    w.Pass(4500);
    EXPECT_EQ(w.Count<UploadLink>(w.chunks), 4);
    w.Hear("", ServerBeat{batch});
  }
}

TEST(ClientSession, ArtifactsThatOnlyAnUploadCanHoldAreMeasuredWhereItIsTaken) {
  for (const bool uploads : {true, false}) {
    ClientWorld w;
    w.uploads = uploads;
    auto job = std::make_shared<MeasureJob>(*ClientWorld::Job(3));
    job->artifacts[0] = Bytes(std::string(kMaxBlobBytes + 1, 'x'));
    job->artifacts[1] = Bytes(std::string(kMaxUploadedBlobBytes + 1, 'x'));  // nowhere
    w.Take(w.session.Start(job, w.now));
    w.Grant();
    const Message request = *w.Last<MeasureRequest>(w.server);
    EXPECT_EQ(request.As<MeasureRequest>()->candidates.size(), uploads ? 2u : 1u);
    EXPECT_EQ(w.Statuses(), std::vector<TrialStatus>(uploads ? 1 : 2, TrialStatus::kUploadFailed));
  }
}

// If devices are lost again and again before the first result, all jobs would fail, which is an error.
TEST(ClientSession, ALossOfAllDevicesIsAnError) {
  ClientWorld w({.max_losses = 2});
  w.Start(2);
  for (int64_t loss = 1; loss <= 2; ++loss) {
    EXPECT_EQ(w.done, 0);
    w.Grant(loss);
    w.Take(w.session.OnServerDisconnected(w.now));
    w.Pass(1500);
  }
  EXPECT_EQ(w.done, 1);
  EXPECT_THAT(w.error, HasSubstr("lost the device 2 times without a result"));
  EXPECT_EQ(w.Statuses(), std::vector<TrialStatus>(2, TrialStatus::kInfrastructure));
}

TEST(ClientSession, DeadlinesAreCutToWhatServersTake) {
  ClientWorld w;
  auto job = std::make_shared<MeasureJob>(*ClientWorld::Job(2));
  job->task.reference_seconds = 1e7;
  job->candidates[0].run_seconds = 1e9;
  job->candidates[1].run_seconds = 20;
  w.Take(w.session.Start(job, 0));
  w.Grant();
  const auto& request = *w.Last<MeasureRequest>(w.server)->As<MeasureRequest>();
  EXPECT_EQ(request.task.reference_seconds, kMaxDeadlineSeconds);
  EXPECT_EQ(request.candidates[0].run_seconds, kMaxDeadlineSeconds);
  EXPECT_EQ(request.candidates[1].run_seconds, 20);
}

}  // namespace
}  // namespace autotune::rpc
