#include "te/create_prim_func.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ir/visit.h"
#include "support/check.h"

namespace autotune::te {
namespace {

std::vector<Block> Blocks(const PrimFunc& f) {
  std::vector<Block> blocks;
  Walk(f.body, [&](const Stmt& s) {
    if (const Block* block = s.As<Block>()) blocks.push_back(*block);
    return true;
  });
  return blocks;
}

Tensor MatMul(const std::string& name, const Tensor& a, const Tensor& b) {
  return Reduce(name, {{"m", a.shape()[0]}, {"n", b.shape()[1]}}, {{"k", a.shape()[1]}}, Combiner::kSum, {a, b},
                [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                  return a({i[0], r[0]}) * b({r[0], i[1]});
                });
}

Tensor AddOne(const std::string& name, const Tensor& x) {
  return Compute(name, NaturalAxes(x.shape()), {x},
                 [&](const std::vector<Expr>& i) { return x(i) + ConstOf(1, x.dtype()); });
}

TEST(CreatePrimFuncTest, AMatrixProduct) {
  Tensor a = Placeholder("a", {3, 5}), b = Placeholder("b", {5, 4});
  PrimFunc f = CreatePrimFunc("f", {{a}, {b, ParamRole::kConstant}, {MatMul("mm", a, b), ParamRole::kOutput, "y"}},
                              {.use_fma = true});
  ASSERT_EQ(f.params.size(), 3u);
  EXPECT_EQ(f.params[1].role, ParamRole::kConstant);
  EXPECT_TRUE(f.allocs.empty());

  Buffer ba = Buffer::Make("a", DType::Float(32), {3, 5}), bb = Buffer::Make("b", DType::Float(32), {5, 4}),
         by = Buffer::Make("y", DType::Float(32), {3, 4});
  Expr m = IndexVar("v_mm_m"), n = IndexVar("v_mm_n"), k = IndexVar("v_mm_k");
  Block block{.name = "mm",
              .iters = {{"v_mm_m", IterKind::kSpatial, 3, IndexVar("mm_m")},
                        {"v_mm_n", IterKind::kSpatial, 4, IndexVar("mm_n")},
                        {"v_mm_k", IterKind::kReduce, 5, IndexVar("mm_k")}},
              .init = MakeStmt(Store{by, {m, n}, FloatConst(0)}),
              .body = MakeStmt(Store{
                  by, {m, n}, MakeCall(Op::kFma, {MakeLoad(ba, {m, k}), MakeLoad(bb, {k, n}), MakeLoad(by, {m, n})})})};
  Stmt expected = MakeStmt(block);
  expected = MakeStmt(For{.var = "mm_k", .extent = 5, .body = expected});
  expected = MakeStmt(For{.var = "mm_n", .extent = 4, .body = expected});
  expected = MakeStmt(For{.var = "mm_m", .extent = 3, .body = expected});
  EXPECT_TRUE(Equal(f.body, expected));

  PrimFunc separate = CreatePrimFunc(
      "f", {{a}, {b, ParamRole::kConstant}, {MatMul("mm", a, b), ParamRole::kOutput, "y"}}, {.use_fma = false});
  EXPECT_FALSE(Equal(separate.body, expected));
  const Store* update = Blocks(separate)[0].body.As<Store>();
  ASSERT_TRUE(update->value.As<Binary>());
  EXPECT_EQ(update->value.As<Binary>()->op, BinaryOp::kAdd);
}

TEST(CreatePrimFuncTest, TopologicalOrderEachTensorOnce) {
  Tensor x = Placeholder("x", {4});
  Tensor a = AddOne("a", x), b = AddOne("b", a);
  Tensor c = Compute("c", NaturalAxes({4}), {b, a}, [&](const std::vector<Expr>& i) { return b(i) + a(i); });
  PrimFunc f = CreatePrimFunc("f", {{x}, {c, ParamRole::kOutput}});
  std::vector<Block> blocks = Blocks(f);
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(blocks[0].name, Name("a"));
  EXPECT_EQ(blocks[1].name, Name("b"));
  EXPECT_EQ(blocks[2].name, Name("c"));
  EXPECT_EQ(f.allocs.size(), 2u);
  EXPECT_TRUE(Equal(f, CreatePrimFunc("f", {{x}, {c, ParamRole::kOutput}})));
}

// A nest between a product and its epilogue would keep the two apart.
TEST(CreatePrimFuncTest, NumbersOfNumbersComeFirst) {
  const auto blocks = [](const Shape& extent) {
    const Tensor x = Placeholder("x", {4}), z = Placeholder("z", extent);
    const Tensor wide = AddOne("wide", x), number = AddOne("number", z);
    const auto sum = [&](const std::vector<Expr>& i) {
      return wide(i) + number(extent.empty() ? std::vector<Expr>() : std::vector<Expr>{ConstOf(0, DType::Index())});
    };
    const Tensor out = Compute("out", NaturalAxes({4}), {wide, number}, sum);
    std::vector<std::string> names;
    for (const Block& block : Blocks(CreatePrimFunc("f", {{x}, {z}, {out, ParamRole::kOutput}})))
      names.push_back(block.name.str());
    return names;
  };
  EXPECT_EQ(blocks({}), (std::vector<std::string>{"number", "wide", "out"}));
  EXPECT_EQ(blocks({1}), (std::vector<std::string>{"number", "wide", "out"}));
  EXPECT_EQ(blocks({4}), (std::vector<std::string>{"wide", "number", "out"})) << "these are no single numbers";
}

TEST(CreatePrimFuncTest, WhatNothingLoadsIsLeftOut) {
  Tensor x = Placeholder("x", {4});
  Tensor a = AddOne("a", x), b = AddOne("b", a), unused = AddOne("unused", b);
  auto choice = [&](const Tensor& other) {
    return Compute("c", NaturalAxes({4}), {a, other, unused}, [&](const std::vector<Expr>& i) {
      return MakeSelect(MakeBinary(BinaryOp::kLt, unused(i), a(i)), a(i), other(i));
    });
  };
  PrimFunc f = CreatePrimFunc("f", {{x}, {choice(a), ParamRole::kOutput}});  // a choice between two equal values
  std::vector<Block> blocks = Blocks(f);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].name, Name("a"));
  EXPECT_EQ(blocks[1].name, Name("c"));
  EXPECT_EQ(f.allocs.size(), 1u);
  f = CreatePrimFunc("f", {{x}, {choice(b), ParamRole::kOutput}});
  EXPECT_EQ(Blocks(f).size(), 4u);
  EXPECT_EQ(f.allocs.size(), 3u);
}

TEST(CreatePrimFuncTest, EveryNameIsBoundOnce) {
  Tensor x = Placeholder("y", {4, 4}), w = Placeholder("y", {4, 4});
  Tensor y = AddOne("y", MatMul("y", MatMul("y", x, w), w));
  Tensor z = AddOne("y_m", AddOne("y_out", y));  // names that clash with derived names
  PrimFunc f = CreatePrimFunc("f", {{x}, {w}, {z, ParamRole::kOutput}});
  std::set<std::string> names;
  size_t count = 0;
  auto bind = [&](const Name& name) { names.insert(name.str()), ++count; };
  for (const Param& p : f.params) bind(p.buffer->name);
  for (const Buffer& b : f.allocs) bind(b->name);
  Walk(f.body, [&](const Stmt& s) {
    if (const For* loop = s.As<For>()) bind(loop->var);
    if (const Block* block = s.As<Block>()) {
      bind(block->name);
      for (const Iter& iter : block->iters) bind(iter.var);
    }
    return true;
  });
  EXPECT_EQ(names.size(), count);
  EXPECT_EQ(Blocks(f).size(), 5u);
}

TEST(CreatePrimFuncTest, OutputsHaveTheirLogicalShape) {
  Tensor x = Placeholder("x", {2, 12});
  auto collapsed = [&](const std::string& name) {
    return Compute(name, {{"n", 2}, {"m", 12}}, {x}, [&](const std::vector<Expr>& i) { return x(i); }, {2, 3, 4});
  };
  Tensor inner = collapsed("inner");
  Tensor y = Compute("y", inner->axes, {inner}, [&](const std::vector<Expr>& i) { return inner.AtAxes(i); }, {2, 3, 4});
  PrimFunc f = CreatePrimFunc("f", {{x}, {y, ParamRole::kOutput}});
  EXPECT_EQ(ConstShape(f.allocs[0]), (Shape{2, 12}));
  EXPECT_EQ(ConstShape(f.params[1].buffer), (Shape{2, 3, 4}));
  const Store* store = Blocks(f)[1].body.As<Store>();
  Expr m = IndexVar("v_y_m");
  EXPECT_TRUE(Equal(store->indices[1], FloorDiv(m, 4)));
  EXPECT_TRUE(Equal(store->indices[2], FloorMod(m, 4)));
  // With both outputs, the first is also a parameter, and loads of it refer to that parameter.
  PrimFunc both = CreatePrimFunc("f", {{x}, {inner, ParamRole::kOutput}, {y, ParamRole::kOutput}});
  EXPECT_TRUE(both.allocs.empty());
  const Load* load = Blocks(both)[1].body.As<Store>()->value.As<Load>();
  ASSERT_TRUE(load);
  EXPECT_EQ(load->indices.size(), 3u);
}

TEST(CreatePrimFuncTest, AnAnchorThatIsTheOutputHasACopyAsEpilogue) {
  Tensor x = Placeholder("x", {6, 5});
  auto sum = [&](const Shape& shape) {
    return Reduce(
        "sum", {{"m", 6}}, {{"k", 5}}, Combiner::kSum, {x},
        [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
          return x({i[0], r[0]});
        },
        shape);
  };
  PrimFunc f = CreatePrimFunc("f", {{x}, {sum({2, 3}), ParamRole::kOutput, "y"}});
  std::vector<Block> blocks = Blocks(f);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].body.As<Store>()->buffer->name, Name("sum_out"));
  EXPECT_EQ(blocks[1].name, Name("sum_store"));
  EXPECT_EQ(blocks[1].body.As<Store>()->buffer->name, Name("y"));
  EXPECT_EQ(Blocks(CreatePrimFunc("f", {{x}, {sum({6}), ParamRole::kOutput, "y"}})).size(), 1u);
}

TEST(CreatePrimFuncTest, MissingOrWrongParametersAreOurBug) {
  Tensor x = Placeholder("x", {4});
  Tensor y = AddOne("y", x);
  EXPECT_THROW(CreatePrimFunc("f", {{y, ParamRole::kOutput}}), InternalError);
  EXPECT_THROW(CreatePrimFunc("f", {{x}, {y, ParamRole::kInput}}), InternalError);
  EXPECT_THROW(CreatePrimFunc("f", {{x}, {x}, {y, ParamRole::kOutput}}), InternalError);
  EXPECT_NO_THROW(CreatePrimFunc("f", {{x}, {y, ParamRole::kOutput}}));
}

TEST(TensorTest, BodiesLoadOnlyTheirInputsAndUseOnlyTheirAxes) {
  Tensor x = Placeholder("x", {4}), z = Placeholder("z", {4});
  EXPECT_THROW(Compute("y", NaturalAxes({4}), {x}, [&](const std::vector<Expr>& i) { return z(i); }), InternalError);
  EXPECT_THROW(Compute("y", NaturalAxes({4}), {x}, [&](const std::vector<Expr>&) { return x({IndexVar("j")}); }),
               InternalError);
  EXPECT_THROW(Placeholder("x", {0, 3}), InternalError);
  EXPECT_NO_THROW(Compute("y", NaturalAxes({4}), {x}, [&](const std::vector<Expr>& i) { return x(i); }));
}

TEST(TensorTest, Identities) {
  EXPECT_EQ(IdentityOf(Combiner::kMax, DType::Float(32)).As<FloatImm>()->value, -INFINITY);
  EXPECT_EQ(*AsInt(IdentityOf(Combiner::kMax, DType::Int(8))), -128);
  EXPECT_EQ(*AsInt(IdentityOf(Combiner::kMin, DType::Int(8))), 127);
  EXPECT_EQ(*AsInt(IdentityOf(Combiner::kMin, DType::UInt(8))), 255);
  EXPECT_EQ(*AsInt(IdentityOf(Combiner::kMax, DType::Int(64))), INT64_MIN);
  EXPECT_EQ(*AsInt(IdentityOf(Combiner::kMin, DType::Int(64))), INT64_MAX);
}

}  // namespace
}  // namespace autotune::te
