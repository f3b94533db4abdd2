#include "codegen/identifiers.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

namespace autotune {
namespace {

// Keywords of C99 to C23, OpenCL C and CUDA C, macros that GCC has without -std, and the names that emitted functions
// use for themselves.
constexpr std::string_view kReserved[] = {
    "auto",    "break",    "case",    "char",          "const",         "continue",  "default",  "do",
    "double",  "else",     "enum",    "extern",        "float",         "for",       "goto",     "if",
    "inline",  "int",      "long",    "main",          "register",      "restrict",  "return",   "short",
    "signed",  "sizeof",   "static",  "struct",        "switch",        "typedef",   "union",    "unsigned",
    "void",    "while",    "asm",     "typeof",        "typeof_unqual", "alignas",   "alignof",  "constexpr",
    "false",   "nullptr",  "true",    "static_assert", "thread_local",  "bool",      "half",     "kernel",
    "global",  "local",    "private", "constant",      "vec",           "AtContext", "AtTensor", "AtArgument",
    "args",    "begin",    "closure", "code",          "context",       "count",     "end",      "lane",
    "memory",  "num_args", "r",       "shared",        "task",          "tasks",     "tensors",  "unix",
    "linux",   "i386",     "barrier", "prefetch",      "uchar",         "ushort",    "uint",     "ulong",
    "event_t", "generic",  "pipe",    "size_t"};

// Types and macros of stdint.h: int8_t, uintptr_t, SIZE_MAX, INT64_C ...
bool IsOfStdint(const std::string& id) {
  if ((id.starts_with("int") || id.starts_with("uint")) && id.ends_with("_t")) return true;
  if (std::any_of(id.begin(), id.end(), [](unsigned char c) { return std::islower(c); })) return false;
  return id.ends_with("_MAX") || id.ends_with("_MIN") || id.ends_with("_C") || id.ends_with("_WIDTH");
}

// Names that emitted sources use: t1, t2 ... are temporaries, f32x8 ... vector types, at_... functions. Names that
// begin with '_' belong to the compiler.
bool IsOurs(const std::string& id) {
  const bool digits_follow = std::all_of(id.begin() + 1, id.end(), [](unsigned char c) { return std::isdigit(c); });
  if (id[0] == 't' && id.size() > 1 && digits_follow) return true;
  if (id[0] == '_' || id.starts_with("at_")) return true;
  return (id[0] == 'f' || id[0] == 'i' || id[0] == 'u') && id.size() > 1 &&
         std::all_of(id.begin() + 1, id.end(), [](unsigned char c) { return std::isdigit(c) || c == 'x'; });
}

}  // namespace

std::string IdentifierOf(const std::string& text) {
  std::string id;
  for (unsigned char ch : text) id += ch < 128 && std::isalnum(ch) ? static_cast<char>(ch) : '_';
  if (id.empty() || std::isdigit(static_cast<unsigned char>(id[0])) || id[0] == '_') id = "v" + id;
  const bool reserved = std::find(std::begin(kReserved), std::end(kReserved), id) != std::end(kReserved);
  return reserved || IsOurs(id) || IsOfStdint(id) ? id + "_" : id;
}

}  // namespace autotune
