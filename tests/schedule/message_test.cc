// Every message with which a step is refused has a test that provokes it. The messages are the error literals in the
// sources; the traces of tests/schedule/golden provoke them (golden_test checks that). For a message in the file of a
// primitive, the refused step must be of that file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "schedule/replay.h"
#include "schedule/sample.h"
#include "tests/ir/messages.h"
#include "tests/read.h"
#include "tests/schedule/golden.h"
#include "tests/schedule/zoo.h"

namespace autotune {
namespace {

namespace fs = std::filesystem;

TEST(Messages, AreReadFromSources) {
  std::vector<Message> found = MessagesIn("f.cc", "Err(", R"(
    MyErr("no");
    return Err("a (b) '", x(1, "not this"), "'", ", c "
               "d");
    status = Err(reason);)");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].text, "a (b) '...', c d");
  EXPECT_EQ(found[0].line, 3);
  EXPECT_TRUE(std::regex_match("a (b) 'q', c d", std::regex(found[0].pattern)));
  EXPECT_FALSE(std::regex_match("a (b) 'q', c", std::regex(found[0].pattern)));
  EXPECT_EQ(found[1].text, "...");
}

TEST(Messages, AllAreProvoked) {
  std::vector<Message> messages;
  std::map<std::string, std::string> file_of;  // step type -> its file
  static const std::regex kApplies(R"(Status ApplyStep\(State& \w+, (\w+)& \w+\))");
  for (const auto& entry : fs::recursive_directory_iterator(AUTOTUNE_SOURCE_DIR "/schedule")) {
    if (entry.path().extension() != ".cc") continue;
    std::string source = test::ReadAll(entry.path()), file = fs::relative(entry.path(), AUTOTUNE_SOURCE_DIR).string();
    for (Message& message : MessagesIn(file, "Err(", source)) messages.push_back(std::move(message));
    for (std::sregex_iterator it(source.begin(), source.end(), kApplies), end; it != end; ++it)
      file_of[(*it)[1]] = file;
  }
  ASSERT_EQ(file_of.size(), std::variant_size_v<AnyStep>);
  EXPECT_GT(messages.size(), 120u);

  std::set<std::pair<std::string, std::string>> provoked;  // the step's file, or "" for any file; the message
  for (const fs::path& path : zoo::GoldenFiles()) {
    for (const auto& [text, message] : zoo::ReadGolden(path).fails) {
      auto trace = ParseTrace(text);
      std::string name = trace.ok() ? text.substr(0, text.rfind('(')) : "";
      name = name.substr(name.rfind('\n') + 1);
      std::string type;  // for step split_it: SplitIt
      for (size_t i = 0; i < name.size(); ++i) {
        if (name[i] != '_') type += i == 0 || name[i - 1] == '_' ? static_cast<char>(toupper(name[i])) : name[i];
      }
      provoked.insert({trace.ok() ? file_of[type] : "", message});
    }
  }
  // A trace cannot express these errors.
  auto refused = [&](const auto& result) {
    ASSERT_FALSE(result.ok());
    provoked.insert({"", result.error().message});
  };
  PrimFunc f = zoo::Dense(2, 2, 2);
  Rng rng(1);
  refused(DrawTile(0, 2, 4, 1, 4, rng));
  refused(Schedule(f).Apply(Split{"dense_m", {1, 2}, {Name(), Name("x")}}));
  refused(ReplayFrom(Snapshot(), {}));

  std::string missing;
  for (const Message& message : messages) {
    std::regex pattern(message.pattern);
    bool primitive = message.file.starts_with("schedule/primitive/");
    bool found = std::any_of(provoked.begin(), provoked.end(), [&](const auto& p) {
      return (!primitive || p.first == message.file) && std::regex_match(p.second, pattern);
    });
    if (!found) missing += message.file + ":" + std::to_string(message.line) + ": " + message.text + "\n";
  }
  EXPECT_EQ(missing, "") << "no trace provokes these messages; add some to tests/schedule/golden";
}

}  // namespace
}  // namespace autotune
