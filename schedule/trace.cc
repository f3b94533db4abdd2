#include "schedule/trace.h"

#include <charconv>
#include <cmath>

namespace autotune {
namespace {

// ---- Printing -------------------------------------------------------------------------------------------------------

struct Printer {
  std::string out;

  void Value(const Name& v) { out += v.str(); }
  void Value(int64_t v) { out += std::to_string(v); }
  void Value(double v) {
    char digits[64];
    out.append(digits, std::to_chars(digits, digits + sizeof(digits), v).ptr);
  }
  void Value(Scope v) { out += ToText(v); }
  void Value(LoopKind v) { out += ToText(v); }
  void Value(const IntArg& v) {
    if (v.sampled.empty()) {
      Value(v.value);
    } else {
      Value(v.sampled);
    }
  }
  void Value(const Factors& v) {
    if (!v.sampled.empty()) return Value(v.sampled);
    List(v.list, [&](const IntArg& f) {
      if (f == IntArg(Factors::kAuto)) {
        out += '?';
      } else {
        Value(f);
      }
    });
  }
  void Value(const DimTerm& v) {
    out += "d" + std::to_string(v.dim);
    if (v.div != IntArg(1)) out += " // ", Value(v.div);
    if (v.mod != IntArg(0)) out += " % ", Value(v.mod);
  }
  void Value(const IndexMap& v) {
    List(v.dims, [&](const DimTerm& d) { Value(d); });
  }
  template <class T>
  void Value(const std::vector<T>& v) {
    List(v, [&](const T& item) { Value(item); });
  }
  template <class T, class F>
  void List(const std::vector<T>& list, F&& item) {
    out += '[';
    for (size_t i = 0; i < list.size(); ++i) {
      if (i) out += ", ";
      item(list[i]);
    }
    out += ']';
  }
};

template <class T>
std::string StepToText(const T& step) {
  Printer p;
  p.out = T::kName;
  p.out += '(';
  bool first = true, open = true;
  std::string tail;
  ForEachField(step, [&](std::string_view name, const auto& value) {
    using V = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<V, Results>) {
      p.out += ')', open = false;
      for (size_t i = 0; i < value.names.size(); ++i) p.out += (i ? ", " : " -> ") + value.names[i].str();
    } else if constexpr (std::is_same_v<V, Decision>) {
      if (!value.decided()) return;
      p.out += " = ";
      if (value.values.size() == 1) {
        p.Value(value.values[0]);
      } else {
        p.Value(value.values);
      }
    } else {
      if (!first) p.out += ", ";
      first = false;
      if (std::is_same_v<V, int64_t> || std::is_same_v<V, double>) p.out += std::string(name) + "=";
      p.Value(value);
    }
  });
  if (open) p.out += ')';
  return std::move(p.out);
}

// ---- Parsing --------------------------------------------------------------------------------------------------------

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsNameChar(char c) { return IsNameStart(c) || (c >= '0' && c <= '9') || c == '.'; }

struct Parser {
  std::string_view text;
  size_t at = 0;

  void Skip() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r')) ++at;
  }
  bool Accept(std::string_view token) {
    Skip();
    if (text.substr(at, token.size()) != token) return false;
    at += token.size();
    return true;
  }
  Error Expected(std::string_view what) {
    Skip();
    std::string_view found = text.substr(at, 20);
    return Err("expected ", what, " at column ", at + 1, ", found ", found.empty() ? "the end" : found);
  }
  Status Expect(std::string_view token) {
    if (Accept(token)) return {};
    return Expected("'" + std::string(token) + "'");
  }
  bool AtName() {
    Skip();
    return at < text.size() && IsNameStart(text[at]);
  }
  Result<std::string_view> Word() {
    if (!AtName()) return Expected("a name");
    size_t begin = at;
    while (at < text.size() && IsNameChar(text[at])) ++at;
    return text.substr(begin, at - begin);
  }

  Status Value(Name& v) {
    v = Name(TRY(Word()));
    return {};
  }
  template <class Number>
  Status ParseNumber(Number& v, std::string_view what) {
    Skip();
    auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), v);
    if (error != std::errc()) return Expected(what);
    at = end - text.data();
    return {};
  }
  Status Value(int64_t& v) { return ParseNumber(v, "an integer"); }
  Status Value(double& v) {
    size_t begin = at;
    TRY(ParseNumber(v, "a number"));
    if (!std::isnan(v)) return {};  // no step takes NaN
    at = begin;
    return Expected("a number");
  }
  Status Value(Scope& v) {
    size_t begin = at;
    std::optional<Scope> scope = EnumFromText<Scope>(TRY(Word()));
    if (!scope) {
      at = begin;
      return Expected("a scope");
    }
    v = *scope;
    return {};
  }
  Status Value(LoopKind& v) {
    size_t begin = at;
    std::optional<LoopKind> kind = EnumFromText<LoopKind>(TRY(Word()));
    if (!kind || !IsBound(*kind)) {
      at = begin;
      return Expected("an axis, blockIdx.x to threadIdx.z,");
    }
    v = *kind;
    return {};
  }
  Status Value(IntArg& v) {
    v = IntArg(0);
    return AtName() ? Value(v.sampled) : Value(v.value);
  }
  Status Value(Factors& v) {
    if (AtName()) return Value(v.sampled);
    return List(v.list, [&](IntArg& f) -> Status {
      if (!Accept("?")) {
        TRY(Value(f));
        if (f.sampled.empty() && f.value < 1) return Expected("a positive factor or ? before here");
        return {};
      }
      f = IntArg(Factors::kAuto);
      return {};
    });
  }
  Status Value(DimTerm& v) {
    TRY(Expect("d"));
    TRY(Value(v.dim));
    if (Accept("//")) TRY(Value(v.div));
    if (Accept("%")) TRY(Value(v.mod));
    return {};
  }
  Status Value(IndexMap& v) {
    return List(v.dims, [&](DimTerm& d) { return Value(d); });
  }
  template <class T>
  Status Value(std::vector<T>& v) {
    return List(v, [&](T& item) { return Value(item); });
  }
  template <class T, class F>
  Status List(std::vector<T>& list, F&& item) {
    list.clear();
    TRY(Expect("["));
    if (Accept("]")) return {};
    do {
      list.emplace_back();
      TRY(item(list.back()));
    } while (Accept(","));
    return Expect("]");
  }
};

template <class T>
Status ParseFields(Parser& p, T& step) {
  bool first = true, open = true;
  Status status;
  auto close = [&]() -> Status {
    if (!open) return {};
    open = false;
    return p.Expect(")");
  };
  auto field = [&](std::string_view name, auto& value) -> Status {
    using V = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<V, Results>) {
      TRY(close());
      if (!p.Accept("->")) return {};
      do {
        value.names.emplace_back();
        TRY(p.Value(value.names.back()));
      } while (p.Accept(","));
    } else if constexpr (std::is_same_v<V, Decision>) {
      TRY(close());
      if (!p.Accept("=")) return {};
      p.Skip();
      if (p.text.substr(p.at, 1) == "[") return p.Value(value.values);
      value.values.emplace_back();
      return p.Value(value.values.back());
    } else {
      if (!first) TRY(p.Expect(","));
      first = false;
      if (std::is_same_v<V, int64_t> || std::is_same_v<V, double>) {
        TRY(p.Expect(name));
        TRY(p.Expect("="));
      }
      return p.Value(value);
    }
    return {};
  };
  ForEachField(step, [&](std::string_view name, auto& value) {
    if (status.ok()) status = field(name, value);
  });
  TRY(std::move(status));
  TRY(close());
  p.Skip();
  if (p.at != p.text.size()) return p.Expected("the end of the step");
  return {};
}

template <size_t I = 0>
Result<Step> ParseNamed(Parser& p, std::string_view name) {
  if constexpr (I == std::variant_size_v<AnyStep>) {
    return Err("unknown step '", name, "'");
  } else {
    using T = std::variant_alternative_t<I, AnyStep>;
    if (name != T::kName) return ParseNamed<I + 1>(p, name);
    T step;
    TRY(ParseFields(p, step));
    return Step(std::move(step));
  }
}

}  // namespace

std::string ToText(const Step& step) {
  return std::visit([](const auto& s) { return StepToText(s); }, step);
}

std::string ToText(const Trace& trace) {
  std::string text;
  for (const Step& step : trace) text += ToText(step) + "\n";
  return text;
}

Result<Step> ParseStep(std::string_view line) {
  Parser p{line};
  std::string_view name = TRY(p.Word());
  TRY(p.Expect("("));
  return TRY_NOTE(ParseNamed(p, name), "in the step '" + std::string(line.substr(0, 200)) + "'");
}

Result<Trace> ParseTrace(std::string_view text) {
  Trace trace;
  for (int number = 1; !text.empty(); ++number) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    size_t start = line.find_first_not_of(" \t\r");
    if (start == std::string_view::npos || line[start] == '#') continue;
    trace.push_back(TRY_NOTE(ParseStep(line), "line " + std::to_string(number)));
  }
  return trace;
}

bool Equal(const Step& a, const Step& b) {
  return std::visit(
      [&](const auto& x) {
        const auto* y = std::get_if<std::decay_t<decltype(x)>>(&b);
        return y && x.FieldsTuple() == y->FieldsTuple();
      },
      a);
}

bool Equal(const Trace& a, const Trace& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Equal(a[i], b[i])) return false;
  }
  return true;
}

const Decision* DecisionOf(const Step& step) {
  return std::visit(
      [](const auto& s) -> const Decision* {
        if constexpr (IsSampling<std::decay_t<decltype(s)>>) {
          return &s.decision;
        } else {
          return nullptr;
        }
      },
      step);
}

Step::Step(const Step& other) = default;
Step::Step(Step&& other) noexcept = default;
Step& Step::operator=(const Step& other) = default;
Step& Step::operator=(Step&& other) noexcept = default;
Step::~Step() = default;

Decision* DecisionOf(Step& step) { return const_cast<Decision*>(DecisionOf(std::as_const(step))); }

}  // namespace autotune
