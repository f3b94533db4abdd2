#include "codegen/c/helpers.h"

#include <cctype>
#include <vector>

#include "codegen/c/expressions.h"
#include "lower/lower.h"
#include "support/check.h"

namespace autotune::c {
namespace {

// Returns the unsigned type in which arithmetic on integers of `type` wraps around. It has at least 32 bits: C widens
// shorter types to a signed int, in which a product of two 16-bit numbers may overflow.
DType Wrapping(DType type) { return DType::UInt(std::max<int>(32, type.bits)); }

const char* NameOf(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return "add";
    case BinaryOp::kSub:
      return "sub";
    case BinaryOp::kMul:
      return "mul";
    case BinaryOp::kFloorDiv:
      return "floordiv";
    case BinaryOp::kFloorMod:
      return "floormod";
    case BinaryOp::kMin:
      return "min";
    case BinaryOp::kMax:
      return "max";
    case BinaryOp::kShl:
      return "shl";
    case BinaryOp::kShr:
      return "shr";
    case BinaryOp::kEq:
      return "eq";
    case BinaryOp::kNe:
      return "ne";
    case BinaryOp::kLt:
      return "lt";
    case BinaryOp::kLe:
      return "le";
    case BinaryOp::kGt:
      return "gt";
    case BinaryOp::kGe:
      return "ge";
    default:
      CHECK(false) << ToText(op) << " is an operator of C";
      return "";
  }
}

}  // namespace

std::string TypeName(DType dtype) {
  return dtype.IsIndex() ? DType::Int(64).WithLanes(dtype.lanes).Text() : dtype.Text();
}

std::string Helpers::ParametersOf(Op op, DType type) const {
  std::string parameters;
  for (char a = 'a'; a < 'a' + Row(op).arity; ++a) parameters += (a == 'a' ? "" : ", ") + dialect_.Type(type) + " " + a;
  return parameters;
}

std::string Helpers::Define(const std::string& storage, const std::string& name, const std::string& result,
                            const std::string& parameters, const std::string& body) {
  if (!defined_.insert(name).second) return name;
  text_ += storage + " " + result + " " + name + "(" + parameters + ") {\n";
  for (size_t at = 0; at < body.size();) {
    size_t end = std::min(body.find('\n', at), body.size());
    text_ += (body[at] == '#' ? "" : "  ") + body.substr(at, end - at) + "\n";
    at = end + 1;
  }
  text_ += "}\n";
  return name;
}

std::string Helpers::ForLanes(int lanes, const std::string& statement) const {
  return "for (int i = 0; i < " + std::to_string(lanes) + "; ++i) " + statement + "\n";
}

std::string Helpers::LaneByLane(const std::string& name, const std::string& function, DType type, int arguments) {
  const std::string vector = dialect_.Type(type);
  std::string parameters, lanes;
  for (char a = 'a'; a < 'a' + arguments; ++a) {
    parameters += (lanes.empty() ? "" : ", ") + vector + " " + a;
    lanes += (lanes.empty() ? "" : ", ") + dialect_.Lane(std::string(1, a), "i");
  }
  std::string body = vector + " r = a;\n" +
                     ForLanes(type.lanes, dialect_.Lane("r", "i") + " = " + function + "(" + lanes + ");") +
                     "return r;";
  const std::string_view plain = std::string_view(function).substr(3, function.rfind('_') - 3);  // at_NAME_TYPE
  return Define(name, vector, parameters, BodyOf(plain, type, body));
}

std::string Helpers::BodyOf(std::string_view function, DType type, const std::string& lane_by_lane) const {
  const Dialect::Body special = dialect_.VectorBody(function, type);
  if (special.lines.empty()) return lane_by_lane;
  if (special.condition.empty()) return special.lines;
  return "#if " + special.condition + "\n" + special.lines + "\n#else\n" + lane_by_lane + "\n#endif";
}

std::string Helpers::ScalarBinary(BinaryOp op, DType type) {
  const std::string t = dialect_.Type(type), name = std::string("at_") + NameOf(op) + "_" + TypeName(type);
  const std::string wide = "(" + dialect_.Type(Wrapping(type)) + ")", back = "return (" + t + ")";
  std::string body;
  switch (op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
    case BinaryOp::kMul:
      body = back + "(" + wide + "a " + std::string(ToText(op)) + " " + wide + "b);";
      break;
    case BinaryOp::kShl:
      body = back + "(" + wide + "a << b);";
      break;
    case BinaryOp::kShr:
      body = back + "(a >> b);";
      break;
    case BinaryOp::kMin:
      body = "return a < b ? a : b;";
      break;
    case BinaryOp::kMax:
      body = "return a > b ? a : b;";
      break;
    case BinaryOp::kFloorDiv:
      // Processors trap when they divide the least number by -1. So a division by -1 is a negation, which wraps.
      if (type.IsSigned()) body = "if (b == -1) " + back + "(0u - " + wide + "a);\n";
      body += type.IsSigned() ? back + "(a / b - (a % b != 0 && (a % b < 0) != (b < 0)));" : back + "(a / b);";
      break;
    case BinaryOp::kFloorMod:
      if (type.IsSigned()) body = "if (b == -1) return 0;\n";
      body +=
          type.IsSigned() ? back + "(a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b : a % b);" : back + "(a % b);";
      break;
    default:
      CHECK(false) << "no helper for " << ToText(op) << " of numbers";
  }
  return Define(name, t, t + " a, " + t + " b", body);
}

std::string Helpers::Binary(BinaryOp op, DType type) {
  if (type.lanes == 1) return ScalarBinary(op, type);
  const std::string t = dialect_.Type(type), name = std::string("at_") + NameOf(op) + "_" + TypeName(type);
  const std::string parameters = t + " a, " + t + " b";
  if (IsComparison(op)) {
    const std::string result = "a " + std::string(ToText(op)) + " b";
    return Define(name, dialect_.Type(MaskOf(type.lanes)), parameters,
                  "return " + dialect_.Convert(result, MaskOf(type.lanes)) + ";");
  }
  if (type.IsBool() && (op == BinaryOp::kMin || op == BinaryOp::kMax)) {
    return Define(name, t, parameters, op == BinaryOp::kMin ? "return a & b;" : "return a | b;");
  }
  if (type.IsInt() && (op == BinaryOp::kAdd || op == BinaryOp::kSub || op == BinaryOp::kMul)) {
    const DType wrapping = DType::UInt(type.bits).WithLanes(type.lanes);
    const std::string value = "(" + dialect_.Reinterpret("a", wrapping) + " " + std::string(ToText(op)) + " " +
                              dialect_.Reinterpret("b", wrapping) + ")";
    return Define(name, t, parameters, "return " + dialect_.Reinterpret(value, type) + ";");
  }
  return LaneByLane(name, ScalarBinary(op, type.Element()), type, 2);
}

std::string Helpers::Negate(DType type) {
  const std::string t = dialect_.Type(type), name = "at_neg_" + TypeName(type);
  if (type.lanes > 1) return LaneByLane(name, Negate(type.Element()), type, 1);
  return Define(name, t, t + " a", "return (" + t + ")(0u - (" + dialect_.Type(Wrapping(type)) + ")a);");
}

std::string Helpers::Call(Op op, DType type, DType from) {
  const std::string name = "at_" + std::string(Row(op).name) + "_" + TypeName(from), t = dialect_.Type(from);
  if (op == Op::kIsNan) {
    return Define(name, dialect_.Type(type), t + " a",
                  "return " + (from.lanes > 1 ? dialect_.Convert("a != a", MaskOf(from.lanes)) : "a != a") + ";");
  }
  const int arguments = Row(op).arity;
  if (from.lanes > 1) {
    return LaneByLane(name, Call(op, type.Element(), from.Element()), from, arguments);
  }
  if (op == Op::kAbs && from.IsInt()) {
    const std::string wide = "(" + dialect_.Type(Wrapping(from)) + ")a";
    return Define(name, t, t + " a", "return (" + t + ")(a < 0 ? 0u - " + wide + " : " + wide + ");");
  }
  return Define(name, t, ParametersOf(op, from), "return " + dialect_.Call(op, from) + ";");
}

std::string Helpers::Math(Op op, DType type) {
  const std::string name = "at_" + std::string(Row(op).name) + "_" + TypeName(type);
  if (defined_.contains(name)) return name;
  Bindings bindings;
  std::vector<Expr> args;
  for (char a = 'a'; a < 'a' + Row(op).arity; ++a) {
    args.push_back(MakeExpr(type, Var{Name(std::string(1, a))}));
    bindings.vars[Name(std::string(1, a))] = {std::string(1, a)};
  }
  const Expr value = ExpandMathCall(MakeCall(op, std::move(args)), target_);
  Writer writer;
  Expressions expressions(dialect_, *this, bindings, writer);
  expressions.StartStatement({value});
  expressions.SelectLanes({0, type.lanes});
  const Code code = expressions.Whole(value);
  return Define(dialect_.Shared(), name, dialect_.Type(type), ParametersOf(op, type),
                writer.text() + "return " + code.text + ";");
}

std::string Helpers::Reinterpret(DType from, DType to) {
  const std::string a = dialect_.Type(from), b = dialect_.Type(to);
  return Define("at_" + TypeName(to) + "_of_" + TypeName(from), b, a + " a",
                "union {\n  " + a + " from;\n  " + b + " to;\n} bits = {a};\nreturn bits.to;");
}

std::string Helpers::ConvertHalf(DType from, DType to) {
  const DType half = DType::Float(16), single = DType::Float(32);
  CHECK((from == half && to == single) || (from == single && to == half)) << from.Text() << " to " << to.Text();
  return Define("at_" + TypeName(to) + "_from_" + TypeName(from), dialect_.Type(to), dialect_.Type(from) + " a",
                dialect_.HalfConversion(to));
}

std::string Helpers::Select(DType type) {
  const std::string t = dialect_.Type(type);
  const DType bits = type.IsBool() ? MaskOf(type.lanes) : DType::Int(type.bits).WithLanes(type.lanes);
  const std::string b = dialect_.Type(bits);
  const std::string mask = bits.bits == 32 ? "mask" : dialect_.Convert("mask", bits);
  auto as_bits = [&](const char* value) {
    return type == bits || type.IsBool() ? value : dialect_.Reinterpret(value, bits);
  };
  const std::string value = "((m & " + as_bits("a") + ") | (~m & " + as_bits("b") + "))";
  return Define("at_select_" + TypeName(type), t, dialect_.Type(MaskOf(type.lanes)) + " mask, " + t + " a, " + t + " b",
                "const " + b + " m = " + mask + ";\nreturn " +
                    (type == bits || type.IsBool() ? value : dialect_.Reinterpret(value, type)) + ";");
}

std::string Helpers::Splat(DType type) {
  std::vector<std::string> lanes(type.lanes, type.IsBool() ? "-a" : "a");
  return Define("at_splat_" + TypeName(type), dialect_.Type(type), dialect_.Type(type.Element()) + " a",
                "return " + dialect_.Vector(type, lanes) + ";");
}

std::string Helpers::Narrow() {
  return Define(
      "at_narrow", dialect_.Type(DType::Int(32)), dialect_.Type(DType::Int(64)) + " a",
      "return a < INT32_MIN ? INT32_MIN : a > INT32_MAX ? INT32_MAX : (" + dialect_.Type(DType::Int(32)) + ")a;");
}

std::string Helpers::Any(int lanes) {
  return Define("at_any_x" + std::to_string(lanes), "int", dialect_.Type(MaskOf(lanes)) + " mask",
                "int r = 0;\n" + ForLanes(lanes, "r |= " + dialect_.Lane("mask", "i") + ";") + "return r != 0;");
}

std::string Helpers::Load(DType type) {
  const std::string name = "at_load_" + TypeName(type), t = dialect_.Type(type);
  const std::string parameters = dialect_.Pointer(type.Element(), false) + " p";
  if (!type.IsBool()) return Define(name, t, parameters, "return " + dialect_.Load(type, "p") + ";");
  return Define(name, t, parameters,
                t + " r = " + dialect_.Vector(type, std::vector<std::string>(type.lanes, "0")) + ";\n" +
                    ForLanes(type.lanes, dialect_.Lane("r", "i") + " = -(p[i] != 0);") + "return r;");
}

std::string Helpers::LoadMasked(DType type) {
  const std::string t = dialect_.Type(type);
  const std::string element = type.IsBool() ? "-(p[begin + i] != 0)" : "p[begin + i]";
  const std::string body = t + " r = " + dialect_.Vector(type, std::vector<std::string>(type.lanes, "0")) + ";\n" +
                           ForLanes(type.lanes, "if (" + dialect_.Lane("mask", "i") + ") " + dialect_.Lane("r", "i") +
                                                    " = " + element + ";") +
                           "return r;";
  return Define(
      "at_load_masked_" + TypeName(type), t,
      dialect_.Pointer(type.Element(), false) + " p, int64_t begin, " + dialect_.Type(MaskOf(type.lanes)) + " mask",
      BodyOf("load_masked", type, body));
}

std::string Helpers::LoadStrided(DType type) {
  const std::string t = dialect_.Type(type);
  std::string element = "p[begin + i * stride]";
  if (type.IsBool()) element = "-(" + element + " != 0)";
  return Define("at_load_strided_" + TypeName(type), t,
                dialect_.Pointer(type.Element(), false) + " p, int64_t begin, int64_t stride, " +
                    dialect_.Type(MaskOf(type.lanes)) + " mask",
                t + " r = " + dialect_.Vector(type, std::vector<std::string>(type.lanes, "0")) + ";\n" +
                    ForLanes(type.lanes, "if (" + dialect_.Lane("mask", "i") + ") " + dialect_.Lane("r", "i") + " = " +
                                             element + ";") +
                    "return r;");
}

std::string Helpers::Store(DType type) {
  const std::string name = "at_store_" + TypeName(type);
  const std::string parameters = dialect_.Pointer(type.Element(), true) + " p, " + dialect_.Type(type) + " v";
  if (!type.IsBool()) return Define(name, "void", parameters, dialect_.Store(type, "p", "v"));
  return Define(name, "void", parameters, ForLanes(type.lanes, "p[i] = " + dialect_.Lane("v", "i") + " != 0;"));
}

}  // namespace autotune::c
