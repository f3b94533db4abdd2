#include "tests/law/bare.h"

#include <cctype>

namespace autotune::law {

std::string Bare(const std::string& text) {
  std::string bare;
  auto skip = [&](size_t& i, size_t end) {
    for (; i < end && i < text.size(); ++i) {
      if (text[i] == '\n') bare += '\n';
    }
  };
  for (size_t i = 0; i < text.size();) {
    char before = i > 0 ? text[i - 1] : ' ';
    if (text.compare(i, 2, "//") == 0) {
      skip(i, text.find('\n', i));
    } else if (text.compare(i, 2, "/*") == 0) {
      skip(i, text.find("*/", i + 2));
      i += 2;
    } else if (text.compare(i, 2, "R\"") == 0 && !std::isalnum(static_cast<unsigned char>(before))) {
      std::string close = ")" + text.substr(i + 2, text.find('(', i) - i - 2) + "\"";
      skip(i, text.find(close, i));
      i += close.size();
    } else if (text[i] == '"' || (text[i] == '\'' && !std::isalnum(static_cast<unsigned char>(before)))) {
      char quote = text[i++];
      while (i < text.size() && text[i] != quote && text[i] != '\n') i += text[i] == '\\' ? 2 : 1;
      ++i;
    } else {
      bare += text[i++];
    }
  }
  return bare;
}

size_t Behind(const std::string& text, size_t begin) {
  int open = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    if (std::string("([{").find(text[i]) != std::string::npos) ++open;
    if (std::string(")]}").find(text[i]) != std::string::npos && --open == 0) return i + 1;
  }
  return text.size();
}

}  // namespace autotune::law
