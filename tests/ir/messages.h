// Finds in C++ sources the messages that refuse programs and steps. Tests use the list to check that every message is
// provoked by a test. This is not a parser of C++: it understands only calls and string literals.
#pragma once
#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace autotune {

struct Message {
  std::string file;
  int line = 0;
  std::string text;     // the literal parts, with ... for other expressions
  std::string pattern;  // regular expression for all texts that the message can have
};

// Returns one message for each call of a function in a source text; "Err(", for example, names the calls. Each literal
// argument is kept; ... stands for any other expression.
inline std::vector<Message> MessagesIn(const std::string& file, const std::string& call, const std::string& source) {
  std::vector<Message> messages;
  for (size_t at = 0; (at = source.find(call, at)) != std::string::npos;) {
    size_t begin = at;
    at += call.size();
    if (begin > 0 && (isalnum(source[begin - 1]) || source[begin - 1] == '_')) continue;
    Message message{file, 1 + static_cast<int>(std::count(source.begin(), source.begin() + begin, '\n')), "", ""};
    bool other = false;  // a non-literal has occurred since the last literal
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

}  // namespace autotune
