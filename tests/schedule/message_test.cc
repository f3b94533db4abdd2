// Every message by which a step is refused has a test that provokes it: the sources' error literals, found by reading
// them, beside the messages that tests/schedule/golden provokes (golden_test checks that it does). A message of a
// primitive's file counts only if a step of that file was refused with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "schedule/query.h"
#include "schedule/replay.h"
#include "schedule/sample.h"
#include "tests/schedule/golden.h"
#include "tests/schedule/zoo.h"

namespace autotune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

struct Message {
  std::string file;
  int line = 0;
  std::string text;     // with ... for what is not literal
  std::string pattern;  // a regular expression for what it can say
};

// The arguments of every call of Err( in a source text: literals, and ... for everything else.
std::vector<Message> MessagesIn(const std::string& file, const std::string& source) {
  std::vector<Message> messages;
  for (size_t at = 0; (at = source.find("Err(", at)) != std::string::npos;) {
    size_t begin = at;
    at += 4;
    if (begin > 0 && (isalnum(source[begin - 1]) || source[begin - 1] == '_')) continue;
    Message message{file, 1 + static_cast<int>(std::count(source.begin(), source.begin() + begin, '\n')), "", ""};
    bool other = false;  // something that is no literal since the last one
    auto end_of_other = [&] {
      if (other) message.text += "...", message.pattern += ".*";
      other = false;
    };
    int depth = 1;
    for (; depth > 0 && at < source.size(); ++at) {
      char c = source[at];
      if (c == '"' && depth == 1) {
        end_of_other();
        for (++at; source[at] != '"'; ++at) {
          if (source[at] == '\\') ++at;
          message.text += source[at];
          if (std::string_view("()[]{}.*+?^$|\\/").find(source[at]) != std::string_view::npos) message.pattern += '\\';
          message.pattern += source[at];
        }
      } else if (c == '"') {
        for (++at; source[at] != '"'; ++at) at += source[at] == '\\';
      } else {
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
        other |= depth > 0 && c != ',' && !isspace(static_cast<unsigned char>(c));
      }
    }
    end_of_other();
    messages.push_back(message);
  }
  return messages;
}

TEST(Messages, AreReadFromSources) {
  std::vector<Message> found = MessagesIn("f.cc", R"(
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

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Messages, AllAreProvoked) {
  std::vector<Message> messages;
  std::map<std::string, std::string> file_of;  // step type -> its file
  static const std::regex kApplies(R"(Status ApplyStep\(State& \w+, (\w+)& \w+\))");
  for (const auto& entry : fs::recursive_directory_iterator(AUTOTUNE_SOURCE_DIR "/schedule")) {
    if (entry.path().extension() != ".cc") continue;
    std::string source = ReadFile(entry.path()), file = fs::relative(entry.path(), AUTOTUNE_SOURCE_DIR).string();
    for (Message& message : MessagesIn(file, source)) messages.push_back(std::move(message));
    for (std::sregex_iterator it(source.begin(), source.end(), kApplies), end; it != end; ++it)
      file_of[(*it)[1]] = file;
  }
  ASSERT_EQ(file_of.size(), std::variant_size_v<Step>);
  EXPECT_GT(messages.size(), 120u);

  std::set<std::pair<std::string, std::string>> provoked;  // file of the step, or none; message
  for (const fs::path& path : zoo::GoldenFiles()) {
    for (const auto& [text, message] : zoo::ReadGolden(path).fails) {
      auto trace = ParseTrace(text);
      std::string name = trace.ok() ? text.substr(0, text.rfind('(')) : "";
      name = name.substr(name.rfind('\n') + 1);
      std::string type;  // split_it -> SplitIt
      for (size_t i = 0; i < name.size(); ++i) {
        if (name[i] != '_') type += i == 0 || name[i - 1] == '_' ? static_cast<char>(toupper(name[i])) : name[i];
      }
      provoked.insert({trace.ok() ? file_of[type] : "", message});
    }
  }
  // What no trace can say.
  auto refused = [&](const auto& result) {
    ASSERT_FALSE(result.ok());
    provoked.insert({"", result.error().message});
  };
  PrimFunc f = zoo::Dense(2, 2, 2);
  Rng rng(1);
  refused(DrawTile(0, 2, 4, 1, 4, rng));
  refused(Schedule(f).Apply(Split{"dense_m", {1, 2}, {Name(), Name("x")}}));
  refused(ReplayFrom(Snapshot(), {}));
  f.params.erase(f.params.begin());
  refused(BuffersReadBy(f, "dense"));

  std::string missing;
  for (const Message& message : messages) {
    std::regex pattern(message.pattern);
    bool primitive = message.file.starts_with("schedule/primitive/");
    bool found = std::any_of(provoked.begin(), provoked.end(), [&](const auto& p) {
      return (!primitive || p.first == message.file) && std::regex_match(p.second, pattern);
    });
    if (!found) missing += message.file + ":" + std::to_string(message.line) + ": " + message.text + "\n";
  }
  EXPECT_EQ(missing, "") << "nothing provokes these messages; add traces to tests/schedule/golden";
}

}  // namespace
}  // namespace autotune
