// Lexer of the IR text (docs/ir.md): words, numbers, punctuation, and the first error. It is the base class of the
// parsers of expressions and of statements, each of which adds its layer of the grammar. Internal to ir/.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "ir/dtype.h"
#include "ir/name.h"
#include "support/result.h"

namespace autotune::text {

enum class Kind { kEnd, kWord, kQuoted, kNumber, kPunct };

struct Token {
  Kind kind = Kind::kEnd;
  std::string_view text;  // of the source
  size_t pos = 0;
};

class Lexer {
 protected:
  explicit Lexer(std::string_view source) : source_(source) { Advance(); }  // `source` outlives the lexer

  // Only the first error is kept. It moves the lexer to the end of the text (Kind::kEnd), so that parsing loops end.
  bool ok() const { return error_.empty(); }
  void Fail(size_t pos, const std::string& message);
  void Fail(const std::string& message) { Fail(tok_.pos, message); }  // at the current token
  void Expected(std::string_view what);                               // "expected `what`, found ..."
  Error TakeError() { return Error("IR text: " + error_); }

  // tok_ is the current token.
  void Advance();
  char AfterToken() const { return At(next_); }  // the character right behind it; '\0' at the end of the text
  bool Is(std::string_view punct) const { return tok_.kind == Kind::kPunct && tok_.text == punct; }
  bool IsWord(std::string_view word) const { return tok_.kind == Kind::kWord && tok_.text == word; }
  bool AtName() const;  // a quoted name, or a word that is not reserved
  bool Accept(std::string_view punct);
  bool AcceptWord(std::string_view word);
  void Expect(std::string_view punct);
  void ExpectWord(std::string_view word);

  // For lookahead: Here remembers the position, and GoBack returns to it after more tokens were read.
  struct Mark {
    Token token;
    size_t next;
  };
  Mark Here() const { return {tok_, next_}; }
  void GoBack(const Mark& mark) { tok_ = mark.token, next_ = mark.next; }

  // Each fails if the text has something else. `what` says in the error what was expected.
  std::string ParseNameText(std::string_view what);
  Name ParseName(std::string_view what);
  int64_t ParseInt(std::string_view what, int64_t low, int64_t high);
  DType ParseDType();

  Token tok_;

 private:
  char At(size_t i) const { return i < source_.size() ? source_[i] : '\0'; }
  void SkipWord();
  void SkipNumber();
  std::string Unquote(const Token& token);

  std::string_view source_;
  size_t next_ = 0;  // where the token behind tok_ starts, or white space before it
  std::string error_;
};

}  // namespace autotune::text
