// Checks every intrinsic: its description and its implementation are well-formed, touch all elements of their
// parameters, and compute the same bits. A program computes the same with and without tensorize.
// tests/codegen/intrinsic_test.cc compiles intrinsics.
#include "schedule/intrinsic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "arith/region.h"
#include "ir/interp.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "tests/close.h"
#include "tests/ir/random_program.h"
#include "tests/schedule/case.h"
#include "tests/schedule/intrinsic.h"
#include "tests/schedule/zoo.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

// Returns the first element that differs between the two programs' outputs, for integers and for floats, or "".
std::string Mismatch(const PrimFunc& description, const PrimFunc& implementation, uint64_t seed) {
  PrimFunc want = zoo::Standalone(description), got = zoo::Standalone(implementation);
  for (bool floats : {false, true}) {
    std::vector<InterpArray> a = floats ? zoo::NormalArgs(want, seed) : test::RandomArgs(want, seed), b = a;
    for (auto [program, args] : {std::pair{&want, &a}, std::pair{&got, &b}}) {
      Status ran = Interpret(*program, *args);
      if (!ran.ok()) return ran.error().Text();
    }
    if (std::string difference = test::Difference(want, b, a, {0, 0}); !difference.empty()) return difference;
  }
  return "";
}

// Returns the name of a parameter of which the program does not touch all elements, or "".
std::string Untouched(const PrimFunc& program) {
  std::map<Name, std::vector<Region>> touched;
  RegionMap iters;
  auto add = [&](const auto& access) {
    auto [known, is_new] = touched.try_emplace(access.buffer->name, access.indices.size());
    for (size_t d = 0; d < access.indices.size(); ++d) {
      std::optional<Region> region = RegionOf(access.indices[d], iters, {}), whole = region;
      if (region && !is_new) whole = Union(known->second[d], *region);
      if (whole) known->second[d] = *whole;
    }
  };
  Walk(program.body, [&](const Stmt& s) {
    const Block* block = s.As<Block>();
    if (!block) return true;
    for (const Iter& iter : block->iters) iters.push_back({iter.var, {LinearForm(), *AsInt(iter.extent) - 1}});
    ForEachLoad(block->body, add);
    ForEachStore(block->body, add);
    return false;
  });
  for (const Param& param : program.params) {
    const std::vector<Region>& box = touched[param.buffer->name];
    bool all = !box.empty();
    for (size_t d = 0; d < box.size(); ++d) all = all && box[d].span + 1 == *AsInt(param.buffer->shape[d]);
    if (!all) return param.buffer->name.str();
  }
  return "";
}

TEST(Intrinsics, ImplementationsDoWhatDescriptionsSay) {
  std::set<std::string> names;
  for (const Intrinsic& intrinsic : Intrinsics()) {
    SCOPED_TRACE(intrinsic.name.str());
    EXPECT_TRUE(names.insert(intrinsic.name.str()).second) << "two intrinsics have this name";
    EXPECT_EQ(FindIntrinsic(intrinsic.name), &intrinsic);
    const auto &want = intrinsic.description.params, &got = intrinsic.implementation.params;
    ASSERT_EQ(want.size(), got.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(Equal(want[i].buffer, got[i].buffer));
      EXPECT_EQ(want[i].role, got[i].role);
    }
    for (const PrimFunc& program : {intrinsic.description, intrinsic.implementation}) {
      Status verified = Verify(program, Dialect::kSchedulable);
      ASSERT_TRUE(verified.ok()) << verified.error().Text();
      EXPECT_TRUE(program.allocs.empty());
      EXPECT_EQ(Untouched(program), "");
    }
    for (uint64_t seed = 0; seed < 5; ++seed) {
      EXPECT_EQ(Mismatch(intrinsic.description, intrinsic.implementation, seed), "");
    }
  }
  EXPECT_EQ(FindIntrinsic("nothing"), nullptr);
}

// The check finds wrong implementations: those with a sum in place of each product or, if there is no product, with 1
// added to each stored value.
TEST(Intrinsics, WrongImplementationsAreFound) {
  for (const Intrinsic& intrinsic : Intrinsics()) {
    SCOPED_TRACE(intrinsic.name.str());
    const PrimFunc& right = intrinsic.implementation;
    PrimFunc wrong = right;
    wrong.body = RewriteStmt(right.body, nullptr, [](const Expr& e) {
      const Binary* product = e.As<Binary>();
      const Call* call = e.As<Call>();
      if (call && call->op == Op::kFma) return call->args[0] + call->args[2];
      return product && product->op == BinaryOp::kMul ? product->a + product->b : e;
    });
    if (Equal(wrong, right)) {
      auto one_more = [](const Stmt& s) {
        const Store* store = s.As<Store>();
        if (!store) return s;
        return MakeStmt(Store{store->buffer, store->indices, store->value + ConstOf(1, store->value.dtype())});
      };
      wrong.body = RewriteStmt(right.body, one_more, nullptr);
    }
    EXPECT_THAT(Mismatch(intrinsic.description, wrong, 1), HasSubstr("elements differ"));
  }
}

TEST(Intrinsics, ReplaceLoopsOfRealPrograms) {
  PrimFunc f = zoo::Dense(5, 16, 8);
  Schedule axpy = zoo::Scheduled(f, R"(
split(dense_n, [?, 8])
reorder([dense_k, dense_n_0, dense_n_1])
decompose_reduction(dense, dense_k)
tensorize(dense_n_1, axpy_f32x8)
parallel(dense_m)
)");
  EXPECT_THAT(ToText(axpy.func()), HasSubstr("in 8 vectorized"));
  zoo::ExpectSame(f, axpy.func());
  zoo::ExpectSame(f, zoo::Scheduled(f, ToText(axpy.trace())).func());
}

}  // namespace
}  // namespace autotune
