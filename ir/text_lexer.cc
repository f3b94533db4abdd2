#include "ir/text_lexer.h"

#include <charconv>

#include "ir/text_common.h"

namespace autotune::text {

void Lexer::Fail(size_t pos, const std::string& message) {
  if (!ok()) return;
  size_t line = 1, start = 0;
  for (size_t i = 0; i < pos && i < source_.size(); ++i) {
    if (source_[i] == '\n') ++line, start = i + 1;
  }
  error_ = "line " + std::to_string(line) + ", column " + std::to_string(pos - start + 1) + ": " + message;
  tok_ = Token{Kind::kEnd, {}, pos};
}

void Lexer::Expected(std::string_view what) {
  std::string found =
      tok_.kind == Kind::kEnd ? "the end of the text" : "'" + std::string(tok_.text.substr(0, 40)) + "'";
  Fail("expected " + std::string(what) + ", found " + found);
}

void Lexer::Advance() {
  if (!ok()) return;
  while (next_ < source_.size()) {
    char c = source_[next_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++next_;
    } else if (c == '#') {
      while (next_ < source_.size() && source_[next_] != '\n') ++next_;
    } else {
      break;
    }
  }
  size_t start = next_;
  if (start == source_.size()) {
    tok_ = Token{Kind::kEnd, {}, start};
    return;
  }
  char c = source_[start];
  Kind kind = Kind::kPunct;
  if (IsWordStart(c)) {
    kind = Kind::kWord;
    SkipWord();
  } else if (IsDigit(c)) {
    kind = Kind::kNumber;
    SkipNumber();
  } else if (c == '"') {
    kind = Kind::kQuoted;
    ++next_;
    while (next_ < source_.size() && source_[next_] != '"' && source_[next_] != '\n') {
      next_ += source_[next_] == '\\' && next_ + 1 < source_.size() ? 2 : 1;
    }
    if (next_ >= source_.size() || source_[next_] != '"') return Fail(start, "a quoted name that does not end");
    ++next_;
  } else {
    static constexpr std::string_view kPairs[] = {"//", "<=", ">=", "==", "!=", "&&", "||", "<<", ">>"};
    next_ += 1;
    for (std::string_view pair : kPairs) {
      if (source_.substr(start, 2) == pair) next_ = start + 2;
    }
  }
  tok_ = Token{kind, source_.substr(start, next_ - start), start};
}

void Lexer::SkipWord() {
  while (next_ < source_.size() && IsWordChar(source_[next_])) ++next_;
}

void Lexer::SkipNumber() {
  auto digits = [&] {
    while (IsDigit(At(next_))) ++next_;
  };
  digits();
  if (At(next_) == '.' && IsDigit(At(next_ + 1))) ++next_, digits();
  if (At(next_) == 'e') {
    size_t exponent = next_ + 1 + (At(next_ + 1) == '-' || At(next_ + 1) == '+');
    if (IsDigit(At(exponent))) next_ = exponent, digits();
  }
  SkipWord();
}

bool Lexer::Accept(std::string_view punct) {
  if (!Is(punct)) return false;
  Advance();
  return true;
}

bool Lexer::AcceptWord(std::string_view word) {
  if (!IsWord(word)) return false;
  Advance();
  return true;
}

void Lexer::Expect(std::string_view punct) {
  if (!Accept(punct)) Expected("'" + std::string(punct) + "'");
}

void Lexer::ExpectWord(std::string_view word) {
  if (!AcceptWord(word)) Expected("'" + std::string(word) + "'");
}

bool Lexer::AtName() const {
  return tok_.kind == Kind::kQuoted || (tok_.kind == Kind::kWord && !IsReserved(tok_.text));
}

std::string Lexer::ParseNameText(std::string_view what) {
  if (tok_.kind == Kind::kWord && IsReserved(tok_.text)) {
    Fail("'" + std::string(tok_.text) + "' is a reserved word: quote it to use it as a name");
  }
  if (!AtName()) {
    Expected(what);
    return "";
  }
  std::string name = tok_.kind == Kind::kQuoted ? Unquote(tok_) : std::string(tok_.text);
  Advance();
  return name;
}

Name Lexer::ParseName(std::string_view what) {
  if (tok_.kind == Kind::kWord && !IsReserved(tok_.text)) {
    Name name(tok_.text);
    Advance();
    return name;
  }
  std::string name = ParseNameText(what);
  return name.empty() ? Name() : Name(name);
}

std::string Lexer::Unquote(const Token& token) {
  std::string out;
  std::string_view s = token.text.substr(1, token.text.size() - 2);
  auto hex = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '\\') {
      out += s[i];
      continue;
    }
    char c = ++i < s.size() ? s[i] : '\0';
    if (c == '"' || c == '\\') {
      out += c;
    } else if (c == 'n') {
      out += '\n';
    } else if (c == 'x' && i + 2 < s.size() && hex(s[i + 1]) >= 0 && hex(s[i + 2]) >= 0) {
      out += static_cast<char>(hex(s[i + 1]) * 16 + hex(s[i + 2]));
      i += 2;
    } else {
      Fail(token.pos + 1 + i, "an unknown escape; use \\\", \\\\, \\n or \\x1f");
      return out;
    }
  }
  return out;
}

int64_t Lexer::ParseInt(std::string_view what, int64_t low, int64_t high) {
  bool negative = Accept("-");
  int64_t value = 0;
  if (tok_.kind != Kind::kNumber) return Expected(what), 0;
  std::string digits = (negative ? "-" : "") + std::string(tok_.text);
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < low || value > high) {
    return Expected(std::string(what) + " between " + std::to_string(low) + " and " + std::to_string(high)), 0;
  }
  Advance();
  return value;
}

DType Lexer::ParseDType() {
  if (tok_.kind == Kind::kWord) {
    if (auto dtype = DType::Parse(tok_.text)) {
      Advance();
      return *dtype;
    }
  }
  Expected("a dtype such as f32, i8 or index");
  return DType::Index();
}

}  // namespace autotune::text
