// Candidates that misbehave on a device: each gets the right status, and the next candidate is not affected.
#include <thread>

#include "rpc/system_calls.h"
#include "tests/tracker/farm.h"

namespace autotune {
namespace {

using testing::HasSubstr;

class FarmCandidates : public FarmTest {};

TEST_F(FarmCandidates, MeasuresAndChecksABatch) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  MeasureJob job = JobOf({Compile(kDouble), Compile("for (int i = 63; i >= 0; --i) y[i] = x[i] + x[i];")});
  std::vector<std::string> order;
  auto results = client->Measure(job, {.on_result = [&](const TrialResult& r) { order.push_back(r.candidate); }});
  ASSERT_TRUE(results.ok()) << results.error().Text();
  ASSERT_EQ(results->size(), 2u);
  for (const TrialResult& r : *results) {
    EXPECT_EQ(r.status, TrialStatus::kOk) << r.error;
    EXPECT_EQ(r.times.size(), 2u);
    for (double t : r.times) EXPECT_GT(t, 0);
    EXPECT_TRUE(r.checked);
    EXPECT_EQ(r.worst_error, 0);
    EXPECT_THAT(r.device, HasSubstr("local/"));
  }
  EXPECT_EQ(order, (std::vector<std::string>{"0", "1"}));
}

TEST_F(FarmCandidates, EveryKindOfFailureIsOneFailedTrial) {
  auto farm = StartLocal({.server_arguments = {"--memory-limit", "0.25"}});
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  Blob good = Compile(kDouble);
  std::vector<Blob> artifacts = {
      good,
      Compile("*(volatile int*)0 = 1;"),  // segfault
      good,
      Compile("for (volatile int forever = 1; forever;);"),  // hang
      good,
      Compile("for (int i = 0; i < 64; ++i) y[i] = 2.01f * x[i];"),  // wrong
      Compile("for (int i = 0; i < 63; ++i) y[i] = 2 * x[i];"),      // leaves one element unwritten
      Compile(std::string(kDouble) + " y[64] = 1;"),                 // writes past the end
      Compile(std::string(kDouble) + " x[0] = 3;"),                  // writes to its input
      Compile("__builtin_trap();"),                                  // illegal instruction
      Compile("c->set_error(c, \"tile 3 is empty\"); return 5;"),    // reports an error
      rpc::MakeBlob("this is no shared object"),
      Compile(kDouble, "__attribute__((constructor)) void f(void) { volatile int* volatile p = 0; *p = 1; }"),
      Compile("static volatile int n; if (n++ > 3) y[0] = 9; else " + std::string(kDouble)),  // right only at first
      Compile("static volatile int n; if (n++ == 0) " + std::string(kDouble)),  // right only in the first call
      Compile("for (;;) if (!c->workspace_alloc(c, 1 << 24)) { c->set_error(c, \"out of memory\"); return 1; }"),
      good,
  };
  MeasureJob job = JobOf(artifacts);
  job.candidates[3].run_seconds = 0.5;
  using enum TrialStatus;
  auto results = client->Measure(job);
  ASSERT_TRUE(results.ok()) << results.error().Text();
  std::vector<TrialStatus> expected = {kOk,          kRunCrashed,  kOk,          kRunTimedOut, kOk,
                                       kWrongAnswer, kWrongAnswer, kWrongAnswer, kRunCrashed,  kIllegalInstruction,
                                       kRunCrashed,  kLoadFailed,  kLoadFailed,  kWrongAnswer, kWrongAnswer,
                                       kOutOfMemory, kOk};
  EXPECT_EQ(StatusesOf(*results), expected);
  for (size_t i = 0; i < results->size(); ++i) {
    const TrialResult& r = (*results)[i];
    EXPECT_EQ(r.candidate, std::to_string(i));
    EXPECT_EQ(r.error.empty(), r.status == kOk) << i << ": " << r.error;
    EXPECT_EQ(r.times.empty(), r.status != kOk) << i;
  }
  EXPECT_THAT((*results)[1].error, HasSubstr("signal 11"));
  EXPECT_THAT((*results)[3].error, HasSubstr("ran longer than 0.5 s"));
  EXPECT_THAT((*results)[7].error, HasSubstr("after the buffer was overwritten"));
  EXPECT_THAT((*results)[10].error, HasSubstr("tile 3 is empty"));
  EXPECT_THAT((*results)[13].error, HasSubstr("calls"));
  EXPECT_THAT((*results)[14].error, HasSubstr("calls"));
}

#if defined(__x86_64__)
// Makes system calls by number, since artifacts may have no undefined symbols.
constexpr char kCall[] =
    "static long call(long n, const void* a, long b, long c) { long r; __asm__ volatile(\"syscall\" : \"=a\"(r) : "
    "\"a\"(n), \"D\"(a), \"S\"(b), \"d\"(c) : \"rcx\", \"r11\", \"memory\"); return r; }";

// The first candidates each try a forbidden system call and then compute the right result. The call ends the runner,
// and the error names it.
TEST_F(FarmCandidates, ForkingAndFillingDisksIsRefused) {
  if (!rpc::CanRestrictSystemCalls()) GTEST_SKIP() << "this build cannot restrict system calls";
  auto farm = StartLocal({.server_arguments = {"--memory-limit", "0.25"}});
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  for (pid_t runner : ChildrenOf(farm->server_pid())) {
    auto filtered = [&] {
      std::ifstream status("/proc/" + std::to_string(runner) + "/status");
      return std::string(std::istreambuf_iterator<char>(status), {}).find("Seccomp:\t2") != std::string::npos;
    };
    ASSERT_TRUE(Soon(filtered)) << "without the filter, the attempts below would do harm";
  }
  std::string filler = folder_ + "/filler";
  auto attempt = [&](const std::string& call) { return Compile(call + "; " + std::string(kDouble), kCall); };
  const std::string parent = "call(110, 0, 0, 0)";  // getppid
  const std::vector<std::pair<std::string, std::string>> forbidden = {
      {"call(57, 0, 0, 0)", "fork"},
      {"call(58, 0, 0, 0)", "vfork"},
      {"call(56, (void*)17, 0, 0)", "clone"},
      {"call(59, \"/bin/true\", 0, 0)", "execve"},
      {"call(2, \"" + filler + "\", 0101, 0600)", "open"},
      {"call(257, (void*)-100, (long)\"" + filler + "\", 0102)", "openat"},
      {"call(87, \"" + lock_ + "\", 0, 0)", "unlink"},
      {"call(62, (void*)-1, 0, 0)", "kill"},
      {"call(234, (void*)" + parent + ", " + parent + ", 19)", "tgkill"},
      {"call(200, (void*)" + parent + ", 9, 0)", "tkill"},
      {"call(434, (void*)" + parent + ", 0, 0)", "pidfd_open"},
      {"call(310, (void*)" + parent + ", 0, 0)", "process_vm_readv"},
      {"call(302, (void*)" + parent + ", 7, 0)", "prlimit64"},  // reads the server's limits
      {"call(302, 0, 7, (long)c)", "prlimit64"},                // changes the own limits
      {"call(141, 0, " + parent + ", 19)", "setpriority"},
      {"call(203, (void*)" + parent + ", 8, (long)c)", "sched_setaffinity"},
      {"call(323, 0, 0, 0)", "userfaultfd"},
      {"call(294, 0, 0, 0)", "inotify_init1"},
      {"call(272, (void*)0x20000, 0, 0)", "unshare"},
      {"call(425, (void*)8, (long)c, 0)", "io_uring_setup"},
      {"call(321, 0, 0, 0)", "bpf"},
      {"call(164, 0, 0, 0)", "settimeofday"},
      {"call(161, \"/\", 0, 0)", "chroot"},
      {"call(112, 0, 0, 0)", "setsid"},
      {"call(41, (void*)2, 1, 0)", "socket"},
      {"call(13, (void*)31, 0, 0)", "rt_sigaction"},       // takes the handler of SIGSYS away
      {"call(72, (void*)3, 8, " + parent + ")", "fcntl"},  // F_SETOWN: signals to the server
      {"call(0x40000027, 0, 0, 0)", ""},                   // getpid of the x32 ABI
  };
  std::vector<Blob> artifacts;
  for (const auto& [call, name] : forbidden) artifacts.push_back(attempt(call));
  const size_t others = artifacts.size();
  for (Blob& other : std::vector<Blob>{
           // Calls that kernels and runners need are allowed: reading a file, memory, time. This candidate opens a file
           // for
           // reading.
           Compile("long file = call(2, \"/proc/self/status\", 0, 0); "
                   "if (file < 0 || call(302, 0, 7, 0) == -1) { c->set_error(c, \"refused\"); return 1; } "
                   "call(3, (const void*)file, 0, 0); " +
                       std::string(kDouble),
                   kCall),
           // Writes forever to an open descriptor, the runner's standard error, until the deadline of the candidate.
           Compile("for (;;) call(1, (void*)2, (long)\"xxxxxxxxxxxxxxxx\", 16);", kCall),
           // Takes memory page by page.
           Compile(
               "for (;;) { volatile char* p = (char*)call(9, 0, 1 << 24, 3); if ((long)p < 0 && (long)p > -4096) "
               "{ c->set_error(c, \"out of memory\"); return 1; } *p = 1; }",
               "static long call(long n, long a, long b, long d) { register long r10 __asm__(\"r10\") = 0x22; register "
               "long r8 __asm__(\"r8\") = -1; register long r9 __asm__(\"r9\") = 0; long r; __asm__ "
               "volatile(\"syscall\" "
               ": \"=a\"(r) : \"a\"(n), \"D\"(a), \"S\"(b), \"d\"(d), \"r\"(r10), \"r\"(r8), \"r\"(r9) : \"rcx\", "
               "\"r11\", \"memory\"); return r; }"),
           // Ends itself by a signal, as abort() does.
           Compile("call(234, (void*)call(39, 0, 0, 0), call(186, 0, 0, 0), 6);", kCall), Compile(kDouble)}) {
    artifacts.push_back(std::move(other));
  }
  MeasureJob job = JobOf(std::move(artifacts));
  job.candidates[others + 1].run_seconds = 0.5;
  auto results = client->Measure(job);
  ASSERT_TRUE(results.ok()) << results.error().Text();
  for (size_t i = 0; i < results->size(); ++i) {
    // The candidate that takes memory gets it from the system, so the runner does not notice that memory ran out.
    TrialStatus expected = i == others + 1                  ? TrialStatus::kRunTimedOut
                           : i == others || i == others + 4 ? TrialStatus::kOk
                                                            : TrialStatus::kRunCrashed;
    EXPECT_EQ((*results)[i].status, expected) << i << ": " << (*results)[i].error;
    if (i >= others) continue;
    EXPECT_THAT((*results)[i].error, HasSubstr("signal 31"));
    if (const std::string& name = forbidden[i].second; !name.empty()) {
      EXPECT_TRUE((*results)[i].error.ends_with("made a forbidden system call: " + name)) << (*results)[i].error;
    }
  }
  EXPECT_THAT((*results)[others + 3].error, HasSubstr("signal 6"));
  EXPECT_FALSE(std::filesystem::exists(filler));
  EXPECT_TRUE(std::filesystem::exists(lock_));
  std::vector<pid_t> runners;
  // The active runner and its spare, which may only just have ended with the last candidate.
  EXPECT_TRUE(Soon([&] {
    runners = ChildrenOf(farm->server_pid());
    return runners.size() == 2;
  })) << runners.size()
      << " runners: no further process may be left";
  // The filter must not enable mitigations that slow memory down: the runner has those of an unfiltered process.
  auto mitigations = [](const std::string& process) {
    std::ifstream status("/proc/" + process + "/status");
    std::string found;
    for (std::string line; std::getline(status, line);) found += line.starts_with("Speculation") ? line + "\n" : "";
    return found;
  };
  for (pid_t runner : runners) EXPECT_EQ(mitigations(std::to_string(runner)), mitigations("self"));
}
#endif

TEST_F(FarmCandidates, ABrokenReferenceIsNobodysFault) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  MeasureJob job = JobOf({Compile(kDouble), Compile(kDouble), Compile(kDouble)});
  job.reference = Compile("*(volatile int*)0 = 1;");
  job.candidates[2].check = false;
  auto results = client->Measure(job);
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(StatusesOf(*results),
            (std::vector{TrialStatus::kInfrastructure, TrialStatus::kInfrastructure, TrialStatus::kOk}));
  EXPECT_THAT((*results)[0].error, HasSubstr("the reference kernel failed"));
}

// Clients with other versions or other seeds may use one task id for different references.
TEST_F(FarmCandidates, ATaskIdAloneNamesNoReference) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  Blob twice = Compile(kDouble), thrice = Compile("for (int i = 0; i < 64; ++i) y[i] = 3 * x[i];");
  MeasureJob job = JobOf({twice, thrice});
  using enum TrialStatus;
  auto statuses = [&] {
    auto results = client->Measure(job);
    EXPECT_TRUE(results.ok()) << results.error().Text();
    return StatusesOf(*results);
  };
  EXPECT_EQ(statuses(), (std::vector{kOk, kWrongAnswer}));
  job.reference = thrice;
  EXPECT_EQ(statuses(), (std::vector{kWrongAnswer, kOk}));
  job.task.seed = 8;  // another seed gives other inputs and other reference outputs
  EXPECT_EQ(statuses(), (std::vector{kWrongAnswer, kOk}));
  for (Candidate& c : job.candidates) c.check = false;
  EXPECT_EQ(statuses(), (std::vector{kOk, kOk}));
}

// With `integers`, candidates are compared on integers. Sums of floats in another order differ in their last bits, and
// after scaling and truncation some differ by a whole step. Sums of integers are exact.
TEST_F(FarmCandidates, StepsAreComparedOnIntegers) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  const auto in_order = [](const std::string& loop) {
    return Compile("for (int k = 1; k <= 64; ++k) { float s = 0; for (" + loop +
                   ") s += x[i]; y[k - 1] = (float)(int)(s * 4194304); }");
  };
  MeasureJob job = JobOf({in_order("int i = k - 1; i >= 0; --i")});
  job.reference = in_order("int i = 0; i < k; ++i");
  job.task.rtol = job.task.floor = 0;
  for (bool integers : {false, true, false}) {
    job.task.integers = integers;
    auto results = client->Measure(job);
    ASSERT_TRUE(results.ok()) << results.error().Text();
    EXPECT_EQ(results->at(0).status, integers ? TrialStatus::kOk : TrialStatus::kWrongAnswer) << results->at(0).error;
  }
}

// Returns an artifact that sums products of bytes. `pair` is the sum of two neighbours' products.
Blob SumOfBytes(const std::string& pair) {
  const std::string metadata = R"({"abi_version":1,"target":"test","kernels":[{"name":"k","params":[
    {"name":"a","dtype":"u8","shape":[64],"kind":"input"},{"name":"b","dtype":"i8","shape":[64],"kind":"constant"},
    {"name":"y","dtype":"i32","shape":[1],"kind":"output"}]}]})";
  const std::string source =
      "int32_t raw(AtContext* c, void* const* p) ENTRY(\"k.raw\");\n"
      "int32_t raw(AtContext* c, void* const* p) {\n"
      "  const uint8_t* a = p[0]; const int8_t* b = p[1]; int32_t sum = 0;\n"
      "  for (int i = 0; i < 64; i += 2) { int32_t pair = a[i] * b[i] + a[i + 1] * b[i + 1]; sum += " +
      pair +
      "; }\n"
      "  *(int32_t*)p[2] = sum; return 0; }\n"
      "int32_t k(AtContext* c, const DLTensor* const* a, int32_t n) {\n"
      "  void* p[3] = {a[0]->data, a[1]->data, a[2]->data}; return raw(c, p); }\n";
  return rpc::MakeBlob(CompileArtifact(metadata, source));
}

// The instruction vpmaddubsw saturates the sums of pairs at 16 bits. Small numbers hide this.
TEST_F(FarmCandidates, SaturatedSumsShowOverTheWholeRange) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  MeasureJob job = JobOf({SumOfBytes("pair"), SumOfBytes("pair > 32767 ? 32767 : pair < -32768 ? -32768 : pair")});
  job.reference = SumOfBytes("pair");
  using enum TrialStatus;
  for (const bool whole : {false, true, false}) {
    job.task.full_range = whole ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{};
    auto results = client->Measure(job);
    ASSERT_TRUE(results.ok()) << results.error().Text();
    EXPECT_EQ(StatusesOf(*results), (std::vector{kOk, whole ? kWrongAnswer : kOk})) << results->at(1).error;
  }
}

// Returns an artifact with the kernels k and k_bounded over 64 floats. `value` is y[i], of x; bounds are those of one
// rounding.
Blob Bounded(const std::string& value) {
  const std::string params = R"({"name":"x","dtype":"f32","shape":[64],"kind":"input"},
    {"name":"w","dtype":"f32","shape":[256],"kind":"constant"},{"name":"y","dtype":"f32","shape":[64],"kind":"output"})";
  const std::string metadata = R"({"abi_version":1,"target":"test","kernels":[{"name":"k","params":[)" + params +
                               R"(]},{"name":"k_bounded","params":[)" + params +
                               R"(,{"name":"e","dtype":"f32","shape":[64],"kind":"output"}]}]})";
  const std::string loop =
      "float *x = a[0], *y = a[2], s = 0; for (int i = 0; i < 64; ++i) s += x[i];\n"
      "  for (int i = 0; i < 64; ++i) { y[i] = " +
      value + "; ";
  const std::string source =
      "int32_t raw(AtContext* c, void* const* a) ENTRY(\"k.raw\");\n"
      "int32_t raw(AtContext* c, void* const* a) { " +
      loop +
      "} return 0; }\n"
      "int32_t k(AtContext* c, const DLTensor* const* a, int32_t n) {\n"
      "  void* p[3] = {a[0]->data, a[1]->data, a[2]->data}; return raw(c, p); }\n"
      "int32_t raw_bounded(AtContext* c, void* const* a) ENTRY(\"k_bounded.raw\");\n"
      "int32_t raw_bounded(AtContext* c, void* const* a) { float* e = a[3]; " +
      loop +
      "e[i] = 1e-5f * (y[i] < 0 ? -y[i] : y[i]); } return 0; }\n"
      "int32_t k_bounded(AtContext* c, const DLTensor* const* a, int32_t n) {\n"
      "  void* p[4] = {a[0]->data, a[1]->data, a[2]->data, a[3]->data}; return raw_bounded(c, p); }\n";
  return rpc::MakeBlob(CompileArtifact(metadata, source));
}

// A candidate that mixes elements, as Winograd's algorithm does, is right for tame inputs only.
TEST_F(FarmCandidates, AnOutputMustNotDependOnWhatItDoesNotSee) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  MeasureJob job = JobOf({Compile(kDouble), Compile("float s = 0; for (int i = 0; i < 64; ++i) s += x[i];"
                                                    "for (int i = 0; i < 64; ++i) y[i] = (2 * x[i] + s) - s;")});
  using enum TrialStatus;
  for (const bool bounded : {false, true}) {
    job.reference = bounded ? Bounded("2 * x[i]") : Compile(kDouble);
    for (int run = 0; run < 2; ++run) {  // the second run takes the outputs that the first one has kept
      auto results = client->Measure(job);
      ASSERT_TRUE(results.ok()) << results.error().Text();
      EXPECT_EQ(StatusesOf(*results), (std::vector{kOk, bounded ? kWrongAnswer : kOk})) << results->at(0).error;
      EXPECT_THAT(results->at(1).error, bounded ? HasSubstr("outliers") : HasSubstr(""));
    }
  }
}

// The allowance is 0.001 |y| and some more than nothing: a value of 1e9 elsewhere adds nothing to it.
TEST_F(FarmCandidates, ALargeValueExcusesNoError) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  const std::string right = "i == 5 ? 1e9f : 2 * x[i]";
  auto wrong_by = [&](const std::string& factor) {
    return Compile("for (int i = 0; i < 64; ++i) { y[i] = " + right + "; if (i == 9) y[i] += " + factor +
                   " * 1e-3f * ((y[i] < 0 ? -y[i] : y[i]) + 1); }");
  };
  MeasureJob job = JobOf({wrong_by("0.1f"), wrong_by("10")});
  using enum TrialStatus;
  for (const bool bounded : {false, true}) {
    job.reference = bounded ? Bounded(right) : Compile("for (int i = 0; i < 64; ++i) y[i] = " + right + ";");
    auto results = client->Measure(job);
    ASSERT_TRUE(results.ok()) << results.error().Text();
    EXPECT_EQ(StatusesOf(*results), (std::vector{kOk, kWrongAnswer})) << results->at(0).error;
  }
}

#if defined(__x86_64__)
// A candidate makes divisions by zero fatal in its process, so the next one crashes. Alone it is right.
TEST_F(FarmCandidates, ACrashThatAnotherOneCausedIsNotCharged) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  const std::string fatal = "unsigned m = 0x1d80; __asm__ volatile(\"ldmxcsr %0\" : : \"m\"(m)); ";
  const std::string division = "volatile float zero = 0; zero = 1 / zero; ";
  MeasureJob job = JobOf({Compile(fatal + kDouble), Compile(division + kDouble), Compile(fatal + division + kDouble)});
  auto results = ClientOf(*farm)->Measure(job);
  ASSERT_TRUE(results.ok()) << results.error().Text();
  using enum TrialStatus;
  EXPECT_EQ(StatusesOf(*results), (std::vector{kOk, kOk, kRunCrashed}));
}
#endif

// Stops the runners of a server once, while a candidate of 200 ms runs.
TEST_F(FarmCandidates, AStoppedRunnerIsNotTheCandidatesFault) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  MeasureJob job = JobOf({Compile(kDouble), Compile(kDouble)});
  for (Candidate& candidate : job.candidates) {
    candidate.min_repeat_ms = 100;
    candidate.load_seconds = candidate.run_seconds = 1;
  }
  int results_before = 0;
  auto results = ClientOf(*farm)->Measure(job, {.on_result = [&](const TrialResult&) {
                                            if (results_before++ > 0) return;
                                            for (pid_t p : ChildrenOf(farm->server_pid())) kill(p, SIGSTOP);
                                          }});
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(StatusesOf(*results), std::vector(2, TrialStatus::kOk)) << results->at(1).error;
}

// Stops them for most of the time that a candidate has, whose work takes the better part of a second. It does not run
// again, and its times are no good ones.
TEST_F(FarmCandidates, TheTimeOfAStopDoesNotCount) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  const std::string works =  // products that wait for each other
      "static int done; volatile float factor = 1.0001f; float product = 1, one = factor; "
      "if (!done++) for (long i = 0; i < 1000000000; ++i) product *= one; factor = product; ";
  MeasureJob job = JobOf({Compile(kDouble), Compile(works + kDouble)});
  for (Candidate& candidate : job.candidates) candidate.load_seconds = candidate.run_seconds = 4;
  std::thread stop;
  auto results = ClientOf(*farm)->Measure(job, {.on_result = [&](const TrialResult&) {
                                            if (stop.joinable()) return;
                                            stop = std::thread([children = ChildrenOf(farm->server_pid())] {
                                              for (pid_t p : children) kill(p, SIGSTOP);
                                              usleep(3'200'000);
                                              for (pid_t p : children) kill(p, SIGCONT);
                                            });
                                          }});
  stop.join();
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(StatusesOf(*results), std::vector(2, TrialStatus::kOk)) << results->at(1).error;
  EXPECT_GE(results->at(1).elapsed, 3.2) << "it was run again";
  EXPECT_EQ(results->at(0).disturbed, "");
  EXPECT_EQ(results->at(1).disturbed, "something stopped the runner");
}

TEST_F(FarmCandidates, OversizedAndInvalidCandidatesFailAlone) {
  auto farm = StartLocal();
  ASSERT_TRUE(farm);
  auto client = ClientOf(*farm);
  MeasureJob job = JobOf({rpc::MakeBlob(std::string(rpc::kMaxBlobBytes + 1, 'x')), Compile(kDouble)});
  job.candidates.push_back(job.candidates[1]);
  job.candidates.back().id = "none";
  job.candidates.back().blob = 9;
  auto results = client->Measure(job);
  ASSERT_TRUE(results.ok()) << results.error().Text();
  EXPECT_EQ(StatusesOf(*results),
            (std::vector{TrialStatus::kUploadFailed, TrialStatus::kOk, TrialStatus::kUploadFailed}));
  job.candidates[1].id = job.candidates[0].id;
  EXPECT_FALSE(client->Measure(job).ok());
}

TEST_F(FarmCandidates, TheRunnerMayBeWrapped) {
  auto farm = StartLocal({.server_arguments = {"--runner-prefix", "env WRAPPED=1"}});
  ASSERT_TRUE(farm);
  auto results = ClientOf(*farm)->Measure(JobOf({Compile(kDouble)}));
  ASSERT_TRUE(results.ok());
  EXPECT_EQ(results->front().status, TrialStatus::kOk) << results->front().error;
  // A runner prefix that does not work is an error of the device, and the farm says why it does not start.
  auto broken = LocalFarm::Start({.server_arguments = {"--runner-prefix", "/no/such/emulator"}, .start_seconds = 2});
  ASSERT_FALSE(broken.ok());
  EXPECT_THAT(broken.error().Text(), HasSubstr("/no/such/emulator"));
}

}  // namespace
}  // namespace autotune
