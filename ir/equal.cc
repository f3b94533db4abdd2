// Equality with the path of the first mismatch, and hashing, both derived from the nodes' field declarations.
#include <bit>

#include "ir/visit.h"
#include "support/hash.h"

namespace autotune {
namespace {

// Compares two values of any field type. If they differ, returns false and, with `explain`, sets `path` to the path of
// the first mismatch.
struct Comparer {
  std::string path;
  bool explain = false;

  bool Fail(std::string_view what) {
    if (explain && path.empty()) path = what;
    return false;
  }
  template <class T>
  bool Field(std::string_view name, const T& a, const T& b) {
    if (Same(a, b)) return true;
    if (explain) path = std::string(name) + (path.empty() || path[0] == ':' || path[0] == '[' ? "" : ".") + path;
    return false;
  }
  template <class T>
  requires(HasFields<const T>) bool Same(const T& a, const T& b) {
    auto names = FieldNames<T>();
    return std::apply(
        [&](const auto&... x) {
          return std::apply(
              [&](const auto&... y) {
                size_t i = 0;
                return (Field(names[i++], x, y) && ...);
              },
              b.FieldsTuple());
        },
        a.FieldsTuple());
  }
  template <class T>
  bool Same(const std::vector<T>& a, const std::vector<T>& b) {
    if (a.size() != b.size())
      return Fail(": " + std::to_string(a.size()) + " != " + std::to_string(b.size()) + " elements");
    for (size_t i = 0; i < a.size(); ++i) {
      if (!Field("[" + std::to_string(i) + "]", a[i], b[i])) return false;
    }
    return true;
  }
  bool Same(int64_t a, int64_t b) { return a == b || Fail(": " + std::to_string(a) + " != " + std::to_string(b)); }
  bool Same(double a, double b) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) ||
           Fail(": " + std::to_string(a) + " != " + std::to_string(b));
  }
  bool Same(const Name& a, const Name& b) { return a == b || Fail(": " + a.str() + " != " + b.str()); }
  bool Same(const Annotations& a, const Annotations& b) { return a == b || Fail(": annotations differ"); }
  bool Same(Op a, Op b) { return a == b || Fail(": " + std::string(Row(a).name) + " != " + std::string(Row(b).name)); }
  template <class E>
  requires(HasEnumNames<E>) bool Same(E a, E b) {
    return a == b || Fail(": " + std::string(ToText(a)) + " != " + std::string(ToText(b)));
  }
  bool Same(DType a, DType b) { return a == b || Fail(": " + a.Text() + " != " + b.Text()); }
  bool Same(const Expr& a, const Expr& b) {
    if (a.get() == b.get()) return true;
    if (!a || !b) return Fail(": one side is absent");
    return Field("dtype", a.dtype(), b.dtype()) && SameNode(a.get()->node, b.get()->node);
  }
  bool Same(const Stmt& a, const Stmt& b) {
    if (a.get() == b.get()) return true;
    if (!a || !b) return Fail(": one side is absent");
    return SameNode(a.get()->node, b.get()->node);
  }
  template <class Node>
  bool SameNode(const Node& a, const Node& b) {
    if (a.index() != b.index()) return Fail(": different kinds of node");
    return std::visit([&](const auto& x) { return Same(x, std::get<std::decay_t<decltype(x)>>(b)); }, a);
  }
  bool Same(const Buffer& a, const Buffer& b) {
    if (a.get() == b.get()) return true;
    if (!a || !b) return Fail(": one side is absent");
    return Field("name", a->name, b->name) && Field("dtype", a->dtype, b->dtype) &&
           Field("shape", a->shape, b->shape) && Field("strides", a->strides, b->strides) &&
           Field("scope", a->scope, b->scope) && Field("alignment", a->alignment, b->alignment) &&
           Field("dim_align", a->dim_align, b->dim_align);
  }
  bool Same(const PrimFunc& a, const PrimFunc& b) {
    return Field("name", a.name, b.name) && Field("params", a.params, b.params) &&
           Field("allocs", a.allocs, b.allocs) && Field("attrs", a.attrs, b.attrs) && Field("body", a.body, b.body);
  }
};

struct Hasher {
  uint64_t state = 0;

  void Add(uint64_t v) { state = HashCombine(state, v * 0x9e3779b97f4a7c15ULL); }
  template <class T>
  requires(HasFields<const T>) void Value(const T& v) {
    std::apply([&](const auto&... field) { (Value(field), ...); }, v.FieldsTuple());
  }
  template <class T>
  void Value(const std::vector<T>& list) {
    Add(list.size());
    for (const T& item : list) Value(item);
  }
  void Value(int64_t v) { Add(static_cast<uint64_t>(v)); }
  void Value(double v) { Add(std::bit_cast<uint64_t>(v)); }
  void Value(const Name& v) { Add(Hash64(v.str())); }
  void Value(const Annotations& v) {
    for (const auto& [key, value] : v) Add(Hash64(key)), Value(value);
  }
  template <class E>
  requires(std::is_enum_v<E>) void Value(E v) { Add(static_cast<uint64_t>(v)); }
  void Value(DType v) { Add((uint64_t{static_cast<uint8_t>(v.code)} << 32) | (uint64_t{v.bits} << 16) | v.lanes); }
  void Value(const Expr& e) {
    if (!e) return Add(0);
    Value(e.dtype());
    Add(e.get()->node.index() + 1);
    e.Visit([&](const auto& node) { Value(node); });
  }
  void Value(const Stmt& s) {
    if (!s) return Add(0);
    Add(s.get()->node.index() + 1);
    s.Visit([&](const auto& node) { Value(node); });
  }
  void Value(const Buffer& b) {
    Value(b->name), Value(b->dtype), Value(b->shape), Value(b->strides), Value(b->scope), Value(b->alignment);
    if (!b->dim_align.empty()) Value(b->dim_align);
  }
};

}  // namespace

bool Equal(const Expr& a, const Expr& b) { return Comparer().Same(a, b); }
bool Equal(const Stmt& a, const Stmt& b) { return Comparer().Same(a, b); }
bool Equal(const Buffer& a, const Buffer& b) { return Comparer().Same(a, b); }
bool Equal(const PrimFunc& a, const PrimFunc& b) { return Comparer().Same(a, b); }

std::string FirstMismatch(const PrimFunc& a, const PrimFunc& b) {
  Comparer comparer;
  comparer.explain = true;
  return comparer.Same(a, b) ? "" : comparer.path;
}

uint64_t StructuralHash(const Expr& e) {
  Hasher hasher;
  hasher.Value(e);
  return hasher.state;
}

uint64_t StructuralHash(const PrimFunc& f) {
  Hasher hasher;
  hasher.Value(f.name);
  hasher.Value(f.params);
  hasher.Value(f.allocs);
  hasher.Value(f.attrs);
  hasher.Value(f.body);
  return hasher.state;
}

}  // namespace autotune
