// Name: an interned identifier, so that equality is a comparison of pointers. Variables, buffers and blocks of one
// PrimFunc are identified by name, and each name is bound once in it, so substitution and references in schedule traces
// need no second kind of identity. Thread-safe. Interned text lives until the process ends.
#pragma once
#include <functional>
#include <ostream>
#include <string>
#include <string_view>

namespace autotune {

class Name {
 public:
  Name() = default;  // no name
  Name(std::string_view text);
  Name(const std::string& text) : Name(std::string_view(text)) {}
  Name(const char* text) : Name(std::string_view(text)) {}
  const std::string& str() const;
  bool empty() const { return text_ == nullptr; }
  bool operator==(const Name& other) const = default;
  bool operator<(const Name& other) const { return str() < other.str(); }  // by text: the same in every process

 private:
  friend struct std::hash<Name>;
  const std::string* text_ = nullptr;
};

inline std::ostream& operator<<(std::ostream& out, const Name& name) { return out << name.str(); }

}  // namespace autotune

template <>
struct std::hash<autotune::Name> {
  size_t operator()(const autotune::Name& name) const { return std::hash<const void*>()(name.text_); }
};
