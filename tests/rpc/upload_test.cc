#include "rpc/upload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rpc/channel.h"
#include "rpc/content_hash.h"
#include "support/rng.h"
#include "tests/rpc/server_world.h"

namespace autotune::rpc {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Memory for small uploads.
std::shared_ptr<SharedMemory> Memory() { return std::make_shared<SharedMemory>(1 << 16); }

constexpr Intake::Options kSmall = {.chunk_bytes = 10, .most_pulled_bytes = 80};

std::string Packed(const std::vector<std::string>& blobs) {
  Frames frames;
  for (const std::string& blob : blobs) frames.push_back(Bytes(blob));
  return PackFrames(frames);
}

Blob PartOf(const std::string& packed, const UploadPull& pull) {
  return Bytes(packed.substr(static_cast<size_t>(pull.offset), static_cast<size_t>(pull.bytes)));
}

// The whole way of an upload, by chunks that arrive `delay` milliseconds after they were pulled.
struct Transfer {
  explicit Transfer(std::string bytes, Intake::Options options = kSmall)
      : packed(std::move(bytes)),
        intake(ContentHash(packed), static_cast<int64_t>(packed.size()), options, 0, memory) {}
  void Add(const std::vector<UploadPull>& pulls) {
    for (const UploadPull& pull : pulls) open.push_back(pull);
    most_open = std::max(most_open, open.size());
  }
  // Delivers the chunk of one open pull.
  void Arrive(size_t index, int64_t delay) {
    const UploadPull pull = open[index];
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(index));
    now += delay;
    sent += pull.bytes;
    Add(intake.On({pull.offset, 0}, PartOf(packed, pull), now));
  }

  std::string packed;
  std::shared_ptr<SharedMemory> memory = Memory();
  Intake intake;
  std::vector<UploadPull> open;
  size_t most_open = 0;
  int64_t now = 0, sent = 0;
};

TEST(ContentHash, IsBlake2bAlsoInParts) {
  EXPECT_EQ(ContentHash(""), "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
  EXPECT_EQ(ContentHash("abc"), "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
  ContentHasher hasher;
  for (const char* part : {"a", "", "bc"}) hasher.Add(part);
  EXPECT_EQ(hasher.Finish(), ContentHash("abc"));
}

TEST(Upload, BlobsArriveWholeInAnyOrderAndAfterBreaks) {
  Rng rng(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> blobs;
    for (int64_t i = 0, n = 1 + rng.Below(4); i < n; ++i)
      blobs.emplace_back(static_cast<size_t>(rng.Below(200)), static_cast<char>('a' + i));
    Transfer t(Packed(blobs));
    t.Add(t.intake.Begin(0));
    while (!t.intake.IsComplete()) {
      ASSERT_FALSE(t.open.empty());
      if (rng.Below(10) == 0) {  // the connection breaks, and with it all that was pulled
        t.open.clear();
        t.Add(t.intake.Begin(t.now));
      } else {
        t.Arrive(static_cast<size_t>(rng.Below(static_cast<int64_t>(t.open.size()))), rng.Below(3000));
      }
    }
    EXPECT_THAT(t.open, IsEmpty());
    Result<std::vector<Blob>> taken = t.intake.Take();
    ASSERT_TRUE(taken.ok()) << taken.error().Text();
    std::vector<std::string> texts;
    for (const Blob& blob : *taken) texts.emplace_back(*blob);
    EXPECT_EQ(texts, blobs);
  }
}

// The more arrives in a second, the more is pulled at a time, up to the limit.
TEST(Upload, PullsAsMuchAsArrivesInASecond) {
  const auto most_open = [](int64_t delay) {
    Transfer t(Packed({std::string(2000, 'x')}));
    t.Add(t.intake.Begin(0));
    while (!t.intake.IsComplete()) t.Arrive(0, delay);
    EXPECT_EQ(t.sent, static_cast<int64_t>(t.packed.size()));
    return t.most_open;
  };
  EXPECT_EQ(most_open(0), 8u);
  EXPECT_GE(most_open(250), 2u);
  EXPECT_LE(most_open(250), 4u);
  EXPECT_EQ(most_open(1500), 1u);
}

TEST(Upload, ABreakRepeatsOnlyWhatWasOnItsWay) {
  Transfer t(Packed({std::string(1000, 'x')}));
  t.Add(t.intake.Begin(0));
  for (int i = 0; i < 60; ++i) t.Arrive(0, 0);
  t.open.clear();
  t.Add(t.intake.Begin(t.now));
  EXPECT_EQ(t.open.front().offset, 600);
  while (!t.intake.IsComplete()) t.Arrive(0, 0);
  EXPECT_EQ(t.sent, static_cast<int64_t>(t.packed.size()));
}

TEST(Upload, OtherChunksChangeNothing) {
  Transfer t(Packed({std::string(100, 'x')}));
  EXPECT_THAT(t.intake.On({0, 0}, Bytes(std::string(10, 'x')), 0), IsEmpty()) << "nothing is pulled yet";
  t.Add(t.intake.Begin(0));
  EXPECT_THAT(t.intake.On({0, 0}, Bytes("x"), 0), IsEmpty()) << "too short";
  EXPECT_THAT(t.intake.On({5, 0}, Bytes(std::string(10, 'x')), 0), IsEmpty());
  EXPECT_THAT(t.intake.On({-10, 0}, Bytes(std::string(10, 'x')), 0), IsEmpty());
  EXPECT_EQ(std::string_view(t.memory->data(), 100), std::string(100, '\0'));
  t.Arrive(0, 0);
  EXPECT_THAT(t.intake.On({0, 0}, Bytes(std::string(10, 'x')), 0), IsEmpty()) << "it is there already";
}

// As if somebody on the path had dropped the frames between the offset of one chunk and the bytes of another.
TEST(Upload, AChunkWithTheHashOfAnotherOneChangesNothing) {
  const std::string packed = Packed({std::string(30, 'x')}), hash;
  Intake intake(hash, static_cast<int64_t>(packed.size()), kSmall, 0, Memory());
  const UploadPull pull = intake.Begin(0).at(0);
  const Blob chunk = PartOf(packed, pull), other = PartOf(packed, {20, 10});
  const int64_t right = HashOfChunk(*chunk);
  EXPECT_THAT(intake.On({0, right}, other, 0), IsEmpty());
  EXPECT_THAT(intake.On({0, 0}, chunk, 0), IsEmpty());
  EXPECT_THAT(intake.On({0, right}, chunk, 0), Not(IsEmpty()));
}

TEST(Upload, ClientsCutTheSequenceOfTheirBlobs) {
  const std::vector<Blob> blobs = {Bytes("abc"), Bytes(""), Bytes(std::string(20, 'x')), Bytes("d"), Bytes("")};
  const std::string whole = PackFrames(blobs);
  const std::vector<Blob> parts = PackedParts(blobs);
  const auto size = static_cast<int64_t>(whole.size());
  for (int64_t offset = 0; offset < size; ++offset)
    for (int64_t bytes = 1; offset + bytes <= size; ++bytes)
      EXPECT_EQ(*ChunkOf(parts, {offset, bytes}), *PartOf(whole, {offset, bytes}));
}

TEST(Upload, ClientsAnswerOnlySensiblePulls) {
  const std::vector<Blob> parts = PackedParts({Bytes(std::string(992, 'x'))});  // 1000 bytes with the head
  EXPECT_EQ(*ChunkOf(parts, {990, 10}), "xxxxxxxxxx");
  for (const UploadPull& pull : {UploadPull{991, 10},
                                 {-1, 10},
                                 {0, 0},
                                 {0, -1},
                                 {1000, 1},
                                 {0, 1 << 30},
                                 {std::numeric_limits<int64_t>::max(), 10},
                                 {0, std::numeric_limits<int64_t>::max()}})
    EXPECT_EQ(ChunkOf(parts, pull), nullptr);
}

// --- The server's session --------------------------------------------------------------------------------------------

const From kChunks = {.peer = "chunks", .roles = kUnauthenticated};
const From kNewChunks = {.peer = "new chunks", .roles = kUnauthenticated};

struct UploadWorld : ServerWorld {
  UploadWorld() : ServerWorld({.server = kServer, .incarnation = "i1", .device = {.key = "cpu"}, .uploads = kSmall}) {}
  // Sends a batch whose blobs are `packed`, with the given hash.
  void Announce(const std::string& packed, const std::string& hash) {
    MeasureRequest request = Batch(1, 2);
    request.upload = hash;
    request.upload_bytes = static_cast<int64_t>(packed.size());
    Say("b", request, {});
  }
  void Link(const From& from = kChunks) { Hear(from, {"l", UploadLink{Claim(1)}, {}}); }
  void Hear(const From& from, const Message& message) {
    sent.clear();
    Take(session.On(from, message, now));
  }
  // Answers `most` pulls, or until there are none. Returns the bytes that were pulled. `sent` has the last messages.
  int64_t Feed(const std::string& packed, int most = 1000, const From& over = kChunks) {
    int64_t bytes = 0;
    for (std::deque<Message> heard(sent.begin(), sent.end()); !heard.empty() && most > 0; heard.pop_front()) {
      const auto* pull = heard.front().As<UploadPull>();
      if (!pull) continue;
      --most;
      bytes += pull->bytes;
      const Blob chunk = PartOf(packed, *pull);
      Hear(over, {heard.front().request, UploadChunk{pull->offset, HashOfChunk(*chunk)}, {chunk}});
      heard.insert(heard.end(), sent.begin(), sent.end());
    }
    return bytes;
  }
};

TEST(ServerUpload, ABatchIsMeasuredOnceItIsThere) {
  const std::string packed = Packed({std::string(100, 'x')});
  for (const bool link_first : {true, false}) {
    UploadWorld w;
    if (link_first) w.Link();
    w.Announce(packed, link_first ? ContentHash(packed) : "");
    if (!link_first) w.Link();
    EXPECT_FALSE(w.started);
    EXPECT_EQ(w.Feed(packed), static_cast<int64_t>(packed.size()));
    ASSERT_TRUE(w.started);
    w.sent.clear();
    w.Finish();
    EXPECT_EQ(w.Results().size(), 1u);
  }
}

TEST(ServerUpload, AnUploadWithAnotherHashIsRefused) {
  const std::string packed = Packed({std::string(100, 'x')});
  for (const auto& [bytes, hash, why] :
       {std::tuple{packed, ContentHash("other"), "does not have the hash"},
        {std::string(50, '\1'), ContentHash(std::string(50, '\1')), "too many frames"},
        {std::string(50, '\1'), "", "too many frames"},
        {std::string(2, '\1'), ContentHash(std::string(2, '\1')), "not a list of blobs"},
        {Packed({}), ContentHash(Packed({})), "no such blob"}}) {
    UploadWorld w;
    w.Announce(bytes, hash);
    w.Link();
    w.Feed(bytes);
    EXPECT_FALSE(w.started);
    EXPECT_THAT(w.RefusalText(), HasSubstr(why));
    w.Say("x", ClientBeat{ServerWorld::Claim(1), "b"});
    EXPECT_EQ(w.sent.back().As<ServerBeat>()->batch, "") << "the batch is gone";
  }
}

TEST(ServerUpload, ResumesOverANewConnection) {
  const std::string packed = Packed({std::string(1000, 'x')});
  UploadWorld w;
  w.Announce(packed, ContentHash(packed));
  w.Link();
  EXPECT_EQ(w.Feed(packed, 40), 400);
  w.Link(kNewChunks);
  EXPECT_EQ(w.Feed(packed, 1000, kNewChunks), static_cast<int64_t>(packed.size()) - 400);
  EXPECT_TRUE(w.started);
}

TEST(ServerUpload, ARepeatedLinkPullsNothingTwice) {
  const std::string packed = Packed({std::string(100, 'x')});
  UploadWorld w;
  w.Announce(packed, ContentHash(packed));
  w.Link();
  const std::vector<Message> pulls = w.sent;
  ASSERT_EQ(pulls.size(), 1u);
  w.Link();
  EXPECT_THAT(w.sent, IsEmpty());
  w.sent = pulls;
  EXPECT_EQ(w.Feed(packed), static_cast<int64_t>(packed.size()));
  EXPECT_TRUE(w.started);
}

// The connection for chunks is not the one that results go to, and nobody else's chunks count.
TEST(ServerUpload, ChunksComeOverTheirConnectionOnly) {
  const std::string packed = Packed({std::string(5, 'x')});
  UploadWorld w;
  w.Announce(packed, ContentHash(packed));
  w.Link();
  const auto pull = *w.sent.front().As<UploadPull>();
  w.Hear(ServerWorld::kPeer, {"b", UploadChunk{pull.offset, 0}, {PartOf(packed, pull)}});
  EXPECT_THAT(w.sent, IsEmpty());
  w.Hear({.peer = "stranger", .roles = kUnauthenticated}, {"l", UploadLink{ServerWorld::Claim(0)}, {}});
  EXPECT_THAT(w.RefusalText(), HasSubstr("stale_lease"));
  w.Hear(kChunks, {"b", UploadChunk{pull.offset, 0}, {PartOf(packed, pull)}});
  const auto next = *w.sent.front().As<UploadPull>();
  w.Hear(kChunks, {"b", UploadChunk{next.offset, 0}, {PartOf(packed, next)}});
  EXPECT_TRUE(w.started);
}

TEST(ServerUpload, CancelledOrLostUploadsEnd) {
  const std::string packed = Packed({std::string(100, 'x')});
  UploadWorld w;
  w.Announce(packed, ContentHash(packed));
  w.Link();
  const auto pull = *w.sent.front().As<UploadPull>();
  w.Say("x", BatchCancel{ServerWorld::Claim(1), "b"});
  EXPECT_EQ(w.Statuses(),
            (std::map<std::string, TrialStatus>{{"0", TrialStatus::kCancelled}, {"1", TrialStatus::kCancelled}}));
  w.Hear(kChunks, {"b", UploadChunk{pull.offset, 0}, {PartOf(packed, pull)}});
  EXPECT_THAT(w.sent, IsEmpty());
  EXPECT_FALSE(w.started);
  // A client that beats but whose chunks do not come loses the device.
  UploadWorld stalled;
  stalled.Announce(packed, ContentHash(packed));
  stalled.Link();
  for (int second = 0; second < 70 && stalled.session.Busy(); ++second) {
    stalled.Pass(1000);
    if (stalled.session.Busy()) stalled.Say("x", ClientBeat{ServerWorld::Claim(1), "b"});
  }
  EXPECT_FALSE(stalled.session.Busy());
  EXPECT_THAT(stalled.events.back().why, HasSubstr("upload"));
}

TEST(ServerUpload, TooLargeOnesAreRefused) {
  UploadWorld w;
  const auto refusal = [&](int64_t counter, int64_t bytes, std::vector<Blob> blobs = {}) {
    MeasureRequest request = ServerWorld::Batch(counter, 1);
    request.upload = ContentHash("");
    request.upload_bytes = bytes;
    w.Say("b" + std::to_string(counter), request, std::move(blobs));
    return w.RefusalText();
  };
  EXPECT_EQ(refusal(1, kMostPackedBytes), "");
  EXPECT_THAT(refusal(2, kMostPackedBytes + 1), HasSubstr("too_large"));
  EXPECT_THAT(refusal(3, 0), HasSubstr("malformed"));
  EXPECT_THAT(refusal(4, -1), HasSubstr("malformed"));
  EXPECT_THAT(refusal(5, 100, {Bytes("x")}), HasSubstr("malformed"));
}

}  // namespace
}  // namespace autotune::rpc
