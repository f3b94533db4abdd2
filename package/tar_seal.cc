#include "package/tar_seal.h"

#include <cstdio>

#include "support/hash.h"
#include "support/utf8.h"

namespace autotune {
namespace {

constexpr std::string_view kFirstLine = "autotune-seal 1\n";  // with the version of the format
constexpr char kAdvice[] = "; copy the file again, or compile the model again";

std::string Line(const std::string& name, std::string_view bytes) {
  char text[64];
  std::snprintf(text, sizeof text, "%08x %zu ", Crc32(bytes), bytes.size());
  return text + name + "\n";
}

// Returns the name at the end of a line of the seal.
std::string_view NameOf(std::string_view line) {
  size_t begin = line.find(' ');
  if (begin != std::string_view::npos) begin = line.find(' ', begin + 1);
  return begin == std::string_view::npos ? std::string_view() : line.substr(begin + 1);
}

}  // namespace

std::string SealText(const std::vector<std::pair<std::string, std::string_view>>& members) {
  std::string text(kFirstLine);
  for (const auto& [name, bytes] : members) text += Line(name, bytes);
  return text;
}

Status CheckSealText(std::string_view seal, const std::map<std::string, std::string>& members) {
  if (!seal.starts_with(kFirstLine))
    return Err("its ", kSealMember, " is damaged or of a newer version of autotune", kAdvice);
  seal.remove_prefix(kFirstLine.size());
  size_t listed = 0;
  for (; !seal.empty(); ++listed) {
    const size_t end = seal.find('\n');
    const std::string_view line = seal.substr(0, end);
    const std::string name(NameOf(line));
    const auto member = members.find(name);
    if (end == std::string_view::npos || member == members.end())
      return Err("member ", OneLine(name), ", which its ", kSealMember, " lists, is missing", kAdvice);
    if (seal.substr(0, end + 1) != Line(name, member->second))
      return Err("member ", OneLine(name), " is damaged: its bytes are not those that were written", kAdvice);
    seal.remove_prefix(end + 1);
  }
  // No line occurs twice, so each member has one if there are as many lines as members.
  if (listed != members.size())
    return Err("its ", kSealMember, " lists ", listed, " members, but it has ", members.size(), kAdvice);
  return {};
}

}  // namespace autotune
