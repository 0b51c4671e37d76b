// SPDX-License-Identifier: MIT
#include <simplx/ops/stop_gradient.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
struct Stopped {
  constexpr Expr operator()(Expr x) const { return x * stop_gradient(x * x); }
};
struct Affine {
  constexpr Expr operator()(Expr x) const {
    return relu(x * weight("w", width(x), width(x), normal(1))) + vector("b", width(x), normal(1));
  }
};
struct PartlyFrozen {
  constexpr Expr operator()(Expr x) const {
    return named("trained", Affine{})(named("frozen", frozen(Affine{}))(x)) * frozen(scalar("s", constant(2)));
  }
};
struct FrozenStack {
  constexpr Expr operator()(Expr x) const {
    x = frozen([](Expr y) { return stack("fixed", 2, Affine{}, y); })(x);
    x = stack("fixed_too", 1, frozen(Affine{}), x);
    x = stack("fixed_by_layer", 1, frozen([](int, Expr y) { return Affine{}(y); }), x);
    return stack("free", 2, Affine{}, x);
  }
};
inline constexpr test::OnTokens<Stopped> stopped{8};
inline constexpr test::OnTokens<PartlyFrozen> partly{8};
inline constexpr test::OnTokens<FrozenStack> stacks{8};
/// Without anything that wants a gradient below it, a frozen module has no backward at all.
inline constexpr auto features = [] {
  auto x = named("frozen", frozen(Affine{}))(input("x", rows_of(Axis::tokens, 8)));
  return named("trained", Affine{})(x);
};
struct Nested {
  constexpr Expr operator()(Expr x) const { return stack("inner", 3, Affine{}, x); }
};
struct Body {
  constexpr Expr operator()(Expr x) const { return stack("outer", 4, Nested{}, stack("layers", 5, Affine{}, x)); }
};
/// Wider than a panel of columns, so that no product can write over its operand.
constexpr Index body_width = 72;
/// A body of layers and a head; `body` may be frozen.
template <class B>
struct WithHead {
  B body;
  constexpr Expr operator()() const {
    return named("head", Affine{})(body(input("x", rows_of(Axis::tokens, body_width))));
  }
};
inline constexpr auto frozen_after_trained = [] {
  auto x = stack("trained", 2, Affine{}, input("x", rows_of(Axis::tokens, 8)));
  return frozen([](Expr y) { return stack("fixed", 2, Affine{}, y); })(x);
};
inline constexpr WithHead<Body> whole{};
inline constexpr WithHead<Frozen<Body>> head_alone{frozen(Body{})};
}  // namespace

TEST_SUITE_BEGIN("ops/stop_gradient");

TEST_CASE("a stopped value counts as a constant") {
  Evaluation<stopped> run(Rows{.tokens = 1});
  run.input("x")[0] = 3;
  run.forward();
  CHECK(run.output()[0] == 27);
  run.output_gradient()[0] = 1;
  run.backward();
  CHECK(run.input_gradient("x")[0] == 9);
}

TEST_CASE("frozen parameters are parameters without a gradient") {
  CHECK(gradcheck<partly>().worst < 1e-7);
  CHECK(gradcheck<stacks>().worst < 1e-7);
  CHECK(gradcheck<frozen_after_trained>().worst < 1e-7);
  const auto check = [](auto& run, auto is_frozen) {
    test::fill_inputs(run);
    run.forward();
    std::ranges::fill(run.output_gradient(), 1.0);
    run.backward();
    for (const TensorInfo& tensor : run.tensors().parameters) {
      CAPTURE(tensor.name);
      const bool frozen = is_frozen(tensor.name);
      CHECK(tensor.frozen == frozen);
      CHECK(tensor.decays == (!frozen && tensor.rank == 2));
      double size = 0;
      for (const double g : run.gradient(tensor.name)) size += std::abs(g);
      CHECK((size == 0) == frozen);
    }
  };
  Evaluation<partly> a(Rows{.tokens = 3});
  check(a, [](const std::string& name) { return name.starts_with("frozen") || name == "s"; });
  Evaluation<stacks> b(Rows{.tokens = 3});
  check(b, [](const std::string& name) { return name.starts_with("fixed"); });
  CHECK(b.tensors().parameters.size() == 12);
}

TEST_CASE("what only serves frozen parameters is not compiled") {
  using G = GraphOf<features>;
  int with_backward = 0;
  for (int s = 0; s < G::fusion.steps; ++s) with_backward += G::fusion.wanted[G::fusion.order[s]];
  CHECK(G::fusion.steps == 2);  // each product ends in its epilogue
  CHECK(with_backward == 1);
}

TEST_CASE("frozen layers keep nothing where nothing before them is trained, and give the same values") {
  // In values: the head's operand and output; of each stack, within each layer around it, two that go on to the next.
  const auto kept = [](const Columns& columns) { return columns.on[static_cast<int>(Axis::tokens)] / body_width; };
  CHECK(kept(GraphOf<head_alone>::layout.kept) <= 2 + 2 + 2 + 4 * 2);
  CHECK(kept(GraphOf<whole>::layout.kept) > 2 * (5 + 4 * 3));
  Evaluation<whole> a(Rows{.tokens = 3});
  Evaluation<head_alone> b(Rows{.tokens = 3});
  const auto run = [](auto& evaluation) {
    test::fill_inputs(evaluation);
    evaluation.forward();
    std::ranges::fill(evaluation.output_gradient(), 1.0);
    const std::vector<double> values(evaluation.output().begin(), evaluation.output().end());
    evaluation.backward();
    return values;
  };
  CHECK(run(a) == run(b));
  for (const char* name : {"head.w", "head.b"}) CHECK(std::ranges::equal(a.gradient(name), b.gradient(name)));
  CHECK(gradcheck<head_alone>().worst < 1e-7);
}

TEST_SUITE_END();
