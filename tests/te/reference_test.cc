#include "te/reference.h"

#include <gtest/gtest.h>

#include "ir/byte_table.h"
#include "ir/visit.h"
#include "te/create_prim_func.h"

namespace autotune::te {
namespace {

const DType kF32 = DType::Float(32), kF64 = DType::Float(64);

PrimFunc MatMulRelu() {
  Tensor a = Placeholder("a", {3, 5}), b = Placeholder("b", {5, 4});
  Tensor mm = Reduce("mm", {{"m", 3}, {"n", 4}}, {{"k", 5}}, Combiner::kSum, {a, b},
                     [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                       return a({i[0], r[0]}) * b({r[0], i[1]});
                     });
  Tensor relu = Compute("relu", mm->axes, {mm}, [&](const std::vector<Expr>& i) { return Max(FloatConst(0), mm(i)); });
  return CreatePrimFunc("f", {{a}, {b}, {relu, ParamRole::kOutput}});
}

// Checks that f32 occurs only as a load of an input under a cast, and as the value stored to an output.
void ExpectWide(const PrimFunc& f) {
  for (const Buffer& b : f.allocs) EXPECT_EQ(b->dtype, kF64);
  Walk(
      f.body,
      [&](const Stmt& s) {
        if (const Store* store = s.As<Store>()) {
          EXPECT_EQ(store->value.dtype(), store->buffer->dtype);
          EXPECT_TRUE(store->buffer->dtype == kF64 || store->value.As<Cast>());
        }
        return true;
      },
      [&](const Expr& e) {
        EXPECT_TRUE(e.dtype() != kF32 || e.As<Load>() || e.As<Cast>());
        return true;
      });
}

TEST(ReferenceTest, IntermediatesAreWide) {
  PrimFunc f = MatMulRelu(), wide = ToReference(f);
  ExpectWide(wide);
  ASSERT_EQ(wide.params.size(), f.params.size());
  for (size_t i = 0; i < f.params.size(); ++i) EXPECT_TRUE(Equal(wide.params[i].buffer, f.params[i].buffer));
}

TEST(ReferenceTest, AnOutputThatIsAccumulatedGetsAWideShadow) {
  Tensor a = Placeholder("a", {3, 5});
  Tensor sum = Reduce("sum", {{"m", 3}}, {{"k", 5}}, Combiner::kSum, {a},
                      [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                        return a({i[0], r[0]});
                      });
  PrimFunc f = CreatePrimFunc("f", {{a}, {sum, ParamRole::kOutput}}), wide = ToReference(f);
  ExpectWide(wide);
  EXPECT_TRUE(f.allocs.empty());
  ASSERT_EQ(wide.allocs.size(), 1u);
  EXPECT_EQ(wide.params[1].buffer->dtype, kF32);
}

TEST(ReferenceTest, InitialisationApartReductionOutsideTheLastLoopOuterLoopParallel) {
  PrimFunc wide = ToReference(MatMulRelu());
  std::vector<std::string> loops;
  std::vector<std::string> blocks;
  Walk(wide.body, [&](const Stmt& s) {
    if (const For* loop = s.As<For>()) {
      loops.push_back(loop->var.str() + (loop->kind == LoopKind::kParallel ? " parallel" : ""));
    }
    if (const Block* block = s.As<Block>()) {
      blocks.push_back(block->name.str());
      EXPECT_FALSE(block->init);
    }
    return true;
  });
  EXPECT_EQ(blocks, (std::vector<std::string>{"mm_init", "mm", "relu"}));
  EXPECT_EQ(loops, (std::vector<std::string>{"mm_m_init parallel", "mm_n_init", "mm_m parallel", "mm_k", "mm_n",
                                             "relu_m parallel", "relu_n"}));
}

TEST(ReferenceTest, LoopsThatAreNotOneToOneStayAsTheyAre) {
  PrimFunc f = MatMulRelu();
  // Two loops of 2 iterations cover an iterator of extent 3 under a guard, so they do not map to it one to one.
  Buffer y = f.params[2].buffer;
  Block block{.name = "b",
              .iters = {{"v", IterKind::kSpatial, 3, IndexVar("i") * 2 + IndexVar("j")}},
              .predicate = IndexVar("i") * 2 + IndexVar("j") < 3,
              .body = MakeStmt(Store{y, {IndexVar("v"), 0}, FloatConst(1)})};
  f.body =
      MakeStmt(For{.var = "i", .extent = 2, .body = MakeStmt(For{.var = "j", .extent = 2, .body = MakeStmt(block)})});
  PrimFunc wide = ToReference(f);
  Walk(wide.body, [&](const Stmt& s) {
    EXPECT_TRUE(!s.As<For>() || s.As<For>()->kind == LoopKind::kSerial);
    return true;
  });
}

TEST(ReferenceTest, ExpandedOpsKeepTheirDType) {
  Tensor x = Placeholder("x", {4});
  Tensor y = Compute("y", x->axes, {x},
                     [&](const std::vector<Expr>& i) { return MakeCall(Op::kSqrt, {MakeCall(Op::kExp, {x(i)})}); });
  PrimFunc wide = ToReference(CreatePrimFunc("f", {{x}, {y, ParamRole::kOutput}}));
  int exps = 0, roots = 0;
  Walk(
      wide.body, [](const Stmt&) { return true; },
      [&](const Expr& e) {
        if (const Call* call = e.As<Call>()) {
          exps += call->op == Op::kExp && e.dtype() == kF32;
          roots += call->op == Op::kSqrt && e.dtype() == kF64;
        }
        return true;
      });
  EXPECT_EQ(exps, 1);
  EXPECT_EQ(roots, 1);
}

TEST(FullRangeInputs, BytesThatSteerNothing) {
  const DType byte = DType::Int(8), wide = DType::Int(32);
  auto inputs = [&](const Buffer& a, const Buffer& b, const Buffer& y, const Expr& value) {
    const Expr i = IndexVar(Name("i"));
    PrimFunc f;
    f.name = Name("f");
    f.params = {{a, ParamRole::kInput}, {b, ParamRole::kInput}, {y, ParamRole::kOutput}};
    f.body = MakeStmt(For{.var = Name("i"), .extent = IntConst(8), .body = MakeStmt(Store{y, {i}, value})});
    return FullRangeInputs(f);
  };
  const std::vector<Expr> shape = {IntConst(8)};
  const Buffer a = Buffer::Make(Name("a"), byte, shape), b = Buffer::Make(Name("b"), byte, shape);
  const Buffer n = Buffer::Make(Name("n"), wide, shape), y = Buffer::Make(Name("y"), wide, shape);
  const Expr i = IndexVar(Name("i")), x = MakeCast(wide, MakeLoad(a, {i})), z = MakeCast(wide, MakeLoad(b, {i}));
  using Positions = std::vector<int64_t>;
  EXPECT_EQ(inputs(a, b, y, x * z), (Positions{0, 1}));
  EXPECT_EQ(inputs(a, n, y, x + MakeLoad(n, {i})), (Positions{0, 1}));  // sums wrap around
  const Buffer r = Buffer::Make(Name("r"), DType::Float(32), shape);
  EXPECT_EQ(inputs(a, n, r, MakeCast(r->dtype, x + MakeLoad(n, {i}))), (Positions{0}));  // f32 rounds 32-bit integers
  EXPECT_EQ(inputs(a, b, y, MakeBinary(BinaryOp::kFloorDiv, x, z)), (Positions{0}));
  EXPECT_EQ(inputs(a, b, y, MakeCast(wide, MakeLoad(a, {MakeCast(DType::Index(), MakeLoad(b, {i}))}))), (Positions{0}));
  const Buffer table = Buffer::Make(Name("t"), byte, {IntConst(kByteValues)});
  EXPECT_EQ(inputs(table, b, y, MakeCast(wide, MakeLoad(table, {ByteIndex(MakeLoad(b, {i}))}))), (Positions{0, 1}));
}

TEST(TakesSteps, WhereFloatsAreRoundedConvertedOrCompared) {
  Tensor x = Placeholder("x", {4}), n = Placeholder("n", {4}, DType::Int(32));
  auto takes = [](const Tensor& of, const std::function<Expr(const Expr&)>& f) {
    Tensor y = Compute("y", of->axes, {of}, [&](const std::vector<Expr>& i) { return f(of(i)); });
    return TakesSteps(CreatePrimFunc("f", {{of}, {y, ParamRole::kOutput}}));
  };
  const auto to_bytes = [](const Expr& e) { return MakeCast(DType::Int(8), e); };
  EXPECT_TRUE(takes(x, [](const Expr& e) { return MakeCall(Op::kRound, {e}); }));
  EXPECT_TRUE(takes(x, to_bytes));
  EXPECT_TRUE(takes(x, [](const Expr& e) { return FloatConst(0) < e; }));
  EXPECT_FALSE(takes(x, [](const Expr& e) { return Max(FloatConst(0), MakeCall(Op::kExp, {e})); }));
  EXPECT_FALSE(takes(n, to_bytes));
}

}  // namespace
}  // namespace autotune::te
