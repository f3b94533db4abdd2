// The printer of ir/text.h.
#include <bit>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "ir/text.h"
#include "ir/text_common.h"
#include "ir/visit.h"

namespace autotune {
namespace {

constexpr char kHex[] = "0123456789abcdef";

class Printer {
 public:
  std::string out;

  void PrintName(const Name& name) {
    const std::string& s = name.str();
    bool plain = !s.empty() && text::IsWordStart(s[0]) && !text::IsReserved(s);
    for (char c : s) plain = plain && text::IsWordChar(c);
    if (plain) {
      out += s;
    } else {
      PrintQuoted(s);
    }
  }

  void PrintQuoted(std::string_view s) {
    out += '"';
    for (char c : s) {
      unsigned char u = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        (out += '\\') += c;
      } else if (c == '\n') {
        out += "\\n";
      } else if (u < 0x20 || u == 0x7f) {
        ((out += "\\x") += kHex[u >> 4]) += kHex[u & 15];
      } else {
        out += c;
      }
    }
    out += '"';
  }

  void PrintInt(int64_t value, DType dtype) {
    if (dtype.IsBool()) {
      out += value ? "true" : "false";
    } else if (dtype == DType::UInt(64)) {
      out += std::to_string(static_cast<uint64_t>(value)) + "u64";
    } else {
      char digits[24];
      out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr - digits);
      if (!dtype.IsIndex()) out += dtype.Text();
    }
  }

  void PrintFloat(double value, DType dtype) {
    size_t start = out.size();
    bool word = true;
    if (std::isnan(value)) {
      uint64_t bits = std::bit_cast<uint64_t>(value);
      out += "nan";
      if (bits != std::bit_cast<uint64_t>(std::nan(""))) {
        out += '_';
        for (int shift = 60; shift >= 0; shift -= 4) out += kHex[(bits >> shift) & 15];
      }
    } else if (std::isinf(value)) {
      out += value < 0 ? "-inf" : "inf";
    } else {
      char digits[32];
      char* end = dtype.bits == 64 ? std::to_chars(digits, digits + sizeof digits, value).ptr
                                   : std::to_chars(digits, digits + sizeof digits, static_cast<float>(value)).ptr;
      out.append(digits, end - digits);
      if (out.find_first_of(".e", start) == std::string::npos) out += ".0";
      word = false;
    }
    if (dtype == DType::Float(32)) return;
    if (word) out += '_';
    out += dtype.Text();
  }

  void Print(const Expr& e, int outer = 0) {
    if (!e) {
      out += "<absent>";
      return;
    }
    e.Visit(Overloaded{
        [&](const IntImm& n) { PrintInt(n.value, e.dtype()); },
        [&](const FloatImm& n) { PrintFloat(n.value, e.dtype()); },
        [&](const Var& n) {
          PrintName(n.name);
          auto it = types_.find(n.name);
          DType expected = it == types_.end() ? DType::Index() : it->second;
          if (e.dtype() != expected) (out += ':') += e.dtype().Text();
        },
        [&](const Unary& n) {
          out += ToText(n.op);
          bool literal = n.op == UnaryOp::kNeg && (n.a.As<IntImm>() || n.a.As<FloatImm>());  // -1 is a literal
          if (literal) out += '(';
          Print(n.a, literal ? 0 : text::kUnaryPrecedence);
          if (literal) out += ')';
        },
        [&](const Binary& n) {
          int own = text::Precedence(n.op);
          if (own == 0) return PrintCall(ToText(n.op), {n.a, n.b});
          if (own < outer) out += '(';
          Print(n.a, own);
          ((out += ' ') += ToText(n.op)) += ' ';
          Print(n.b, own + 1);
          if (own < outer) out += ')';
        },
        [&](const Cast& n) { PrintCall(e.dtype().Text(), {n.a}); },
        [&](const Select& n) {
          PrintCall("select", {n.condition, n.a, n.b});
        },
        [&](const Load& n) { PrintAccess(n.buffer, n.indices); },
        [&](const Call& n) {
          std::string name(Row(n.op).name);
          if (Row(n.op).type == OpType::kGiven) name += "<" + e.dtype().Text() + ">";
          PrintCall(name, n.args);
        },
        [&](const Ramp& n) {
          out += "ramp(";
          Print(n.base);
          out += ", ";
          Print(n.stride);
          (out += ", ") += std::to_string(e.dtype().lanes) + ")";
        },
        [&](const Broadcast& n) {
          out += "broadcast(";
          Print(n.a);
          (out += ", ") += std::to_string(e.dtype().lanes) + ")";
        },
    });
  }

  void PrintList(const std::vector<Expr>& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (i) out += ", ";
      Print(list[i]);
    }
  }
  void PrintCall(std::string_view name, const std::vector<Expr>& args) {
    (out += name) += '(';
    PrintList(args);
    out += ')';
  }
  void PrintAccess(const Buffer& buffer, const std::vector<Expr>& indices) {
    PrintName(buffer->name);
    out += '[';
    PrintList(indices);
    out += ']';
  }

  void PrintBuffer(const Buffer& b) {
    PrintName(b->name);
    (out += ": ") += b->dtype.Text();
    out += '[';
    PrintList(b->shape);
    out += ']';
    if (b->scope != Scope::kGlobal) (out += ' ') += ToText(b->scope);
    if (!b->strides.empty()) {
      out += " strides [";
      PrintList(b->strides);
      out += ']';
    }
    if (b->alignment != BufferCell().alignment) out += " align " + std::to_string(b->alignment);
    for (const auto& [dim, factor, offset] : b->dim_align) {
      out += " align [" + std::to_string(dim) + ", " + std::to_string(factor) + ", " + std::to_string(offset) + "]";
    }
  }

  void PrintAnnotations(const Annotations& annotations) {
    if (annotations.empty()) return;
    out += " @{";
    bool first = true;
    for (const auto& [key, value] : annotations) {
      if (!first) out += ", ";
      first = false;
      PrintName(key);
      (out += " = ") += std::to_string(value);
    }
    out += '}';
  }

  void Indent() { out.append(2 * indent, ' '); }

  // Prints the statements of a body at the current indentation, each from a new line.
  void PrintStmts(const Stmt& s) {
    if (!s) {
      Indent();
      out += "<absent>\n";
    } else if (const Seq* seq = s.As<Seq>()) {
      for (size_t i = 0; i < seq->stmts.size(); ++i) {
        const Stmt& child = seq->stmts[i];
        // The scope of `let` and `local` ends with the list, so before other statements they need braces.
        bool group = child.As<Seq>() || (i + 1 < seq->stmts.size() && (child.As<Let>() || child.As<Alloc>()));
        if (group) {
          Indent();
          PrintBraces(child);
          out += '\n';
        } else {
          PrintStmts(child);
        }
      }
    } else {
      PrintOne(s);
    }
  }

  void PrintBraces(const Stmt& s) {
    out += "{\n";
    ++indent;
    PrintStmts(s);
    --indent;
    Indent();
    out += '}';
  }

  void PrintOne(const Stmt& s) {
    Indent();
    s.Visit(Overloaded{
        [&](const Store& n) {
          PrintAccess(n.buffer, n.indices);
          out += " = ";
          Print(n.value);
          out += '\n';
        },
        [&](const Evaluate& n) {
          out += "evaluate ";
          Print(n.value);
          out += '\n';
        },
        [&](const Seq&) {},
        [&](const If& n) {
          PrintIf(n);
          out += '\n';
        },
        [&](const For& n) {
          out += "for ";
          PrintName(n.var);
          out += " in ";
          Print(n.extent);
          if (n.kind != LoopKind::kSerial) (out += ' ') += ToText(n.kind);
          PrintAnnotations(n.annotations);
          out += ' ';
          Declare(n.var, n.extent.dtype());
          PrintBraces(n.body);
          out += '\n';
        },
        [&](const Block& n) { PrintBlock(n); },
        [&](const Alloc& n) {
          out += "local ";
          PrintBuffer(n.buffer);
          out += '\n';
          PrintStmts(n.body);
        },
        [&](const Let& n) {
          out += "let ";
          PrintName(n.var);
          out += " = ";
          Print(n.value);
          out += '\n';
          Declare(n.var, n.value.dtype());
          PrintStmts(n.body);
        },
    });
  }

  void PrintIf(const If& n) {
    out += "if ";
    Print(n.condition);
    out += ' ';
    PrintBraces(n.then_body);
    if (!n.else_body) return;
    out += " else ";
    if (const If* chained = n.else_body.As<If>()) {
      PrintIf(*chained);
    } else {
      PrintBraces(n.else_body);
    }
  }

  void PrintBlock(const Block& n) {
    out += "block ";
    PrintName(n.name);
    out += '(';
    for (size_t i = 0; i < n.iters.size(); ++i) {
      const Iter& iter = n.iters[i];
      if (i) out += ", ";
      PrintName(iter.var);
      ((out += ": ") += ToText(iter.kind)) += ' ';
      Print(iter.extent);
      out += " = ";
      Print(iter.binding);
    }
    out += ')';
    for (const Iter& iter : n.iters) Declare(iter.var, iter.extent.dtype());
    if (n.predicate) {
      out += " where ";
      Print(n.predicate);
    }
    PrintAnnotations(n.annotations);
    out += " {\n";
    ++indent;
    if (n.init) {
      Indent();
      out += "init ";
      PrintBraces(n.init);
      out += '\n';
    }
    PrintStmts(n.body);
    --indent;
    Indent();
    out += "}\n";
  }

  void PrintFunc(const PrimFunc& f) {
    out += "func ";
    PrintName(f.name);
    out += '(';
    for (size_t i = 0; i < f.params.size(); ++i) {
      out += i ? ",\n  " : "\n  ";
      PrintBuffer(f.params[i].buffer);
      (out += ' ') += ToText(f.params[i].role);
    }
    out += f.params.empty() ? ")" : "\n)";
    PrintAnnotations(f.attrs);
    out += " {\n";
    ++indent;
    for (const Buffer& buffer : f.allocs) {
      Indent();
      out += "alloc ";
      PrintBuffer(buffer);
      out += '\n';
    }
    PrintStmts(f.body);
    --indent;
    out += "}\n";
  }

  int indent = 0;

 private:
  void Declare(Name var, DType dtype) {
    if (!dtype.IsIndex() || dtype.lanes != 1) types_[var] = dtype;
  }
  std::unordered_map<Name, DType> types_;  // of variables that are not `index`
};

}  // namespace

std::string ToText(const Expr& e) {
  Printer printer;
  printer.Print(e);
  return std::move(printer.out);
}

std::string ToText(const Stmt& s, int indent) {
  Printer printer;
  printer.indent = indent;
  printer.PrintStmts(s);
  return std::move(printer.out);
}

std::string ToText(const PrimFunc& f) {
  Printer printer;
  printer.PrintFunc(f);
  return std::move(printer.out);
}

}  // namespace autotune
