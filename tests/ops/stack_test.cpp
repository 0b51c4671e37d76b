// SPDX-License-Identifier: MIT
#include <simplx/ops/stack.hpp>

#include <simplx/ops/recompute.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

struct Mixed {  // layers that differ, one of them a stack of its own, and one that ignores nothing but its gradient's
                // place
  constexpr Expr operator()(int layer, Expr x) const {
    if (layer == 1) return x + relu(x * weight("w", width(x), width(x), normal(0.4)));
    if (layer == 2) return x * weight("m", width(x), width(x), normal(0.4)) * vector("r", width(x));
    if (layer == 4) return stack("inner", 3, Inner{}, x);
    return x + x * weight("w", width(x), width(x), normal(0.4)) * scalar("s");
  }
  struct Inner {
    constexpr Expr operator()(int layer, Expr x) const {
      if (layer == 1) return x + x * weight("p", width(x), width(x));
      return probe("h", x * weight("q", width(x), width(x), normal(0.4))) + vector("b", width(x));
    }
  };
};
struct InTheMiddle {  // the stack's input has another reader, its result too
  constexpr Expr operator()(Expr x) const {
    auto h = x * vector("in", width(x));
    auto y = stack("blocks", 6, Mixed{}, h);
    return y * y + h;
  }
};
struct SameWay {
  constexpr Expr operator()(Expr x) const { return x; }
};
struct Doubles {
  constexpr Expr operator()(Expr x) const { return x + x; }
};
struct Trivial {
  constexpr Expr operator()(Expr x) const {
    return stack("same", 3, SameWay{}, x) + stack("double", 3, Doubles{}, x * vector("g", width(x)));
  }
};
struct Forgetful {  // the result does not depend on the carry: its gradient is zero
  constexpr Expr operator()(Expr x) const { return x * 0.0 + vector("only", width(x)); }
};
struct Forgets {
  constexpr Expr operator()(Expr x) const { return stack("f", 2, Forgetful{}, x) * x; }
};
struct Affine {
  constexpr Expr operator()(Expr x) const {
    return tanh(x * weight("w", width(x), width(x), normal(1))) + vector("b", width(x));
  }
};
/// What the layers are given wants no gradient, and would not be kept for anything else.
inline constexpr auto first_in_line = [] {
  return stack("s", 2, Affine{}, tanh(input("x", rows_of(Axis::tokens, 8))));
};
inline constexpr auto first_and_forgetful = [] {
  return recompute([](Expr x) { return stack("s", 2, Affine{}, x); })(tanh(input("x", rows_of(Axis::tokens, 8))));
};
inline constexpr test::OnTokens<InTheMiddle> middle{8}, middle_odd{3};
inline constexpr test::OnTokens<Trivial> trivial{8};
inline constexpr test::OnTokens<Forgets> forgets{8};

}  // namespace

TEST_SUITE_BEGIN("ops/stack");

TEST_CASE("stacks of different layers, nested, between other readers of their input") {
  test::check_model<middle>({.step = 2e-3});
  test::check_model<middle_odd>({.step = 2e-3});
}

TEST_CASE("blocks that do next to nothing") {
  test::check_model<trivial>();
  test::check_model<forgets>();
  Evaluation<trivial> run(Rows{.tokens = 1});
  test::fill_inputs(run);
  run.forward();
  CHECK(run.output()[3] == doctest::Approx(9 * run.input("x")[3]));
}

TEST_CASE("equal layers share one graph, whatever their number and order") {
  using Layers = GraphOf<middle>::layers_of<[] {
    using G = GraphOf<middle>;
    for (int i = 0; i < G::count; ++i) {
      if (G::table.info[i].stack) return i;
    }
    return -1;
  }()>;
  static_assert(Layers::layers == 6 && Layers::distinct == 4);
  static_assert(Layers::grouping.which[0] == 0 && Layers::grouping.which[3] == 0 && Layers::grouping.which[5] == 0);
}

TEST_CASE("probes of every layer can be read, under their full names") {
  Evaluation<middle> run(Rows{.tokens = 2});
  test::fill_inputs(run);
  run.forward();
  std::ranges::fill(run.output_gradient(), 1.0);
  run.backward();
  std::vector<std::string> names;
  run.each_probe([&](const std::string& name, const Shape&, const double* value, const double* gradient) {
    names.push_back(name);
    CHECK(std::isfinite(value[0]));
    CHECK(gradient[0] != 0);
  });
  CHECK(names == std::vector<std::string>{"blocks.4.inner.0.h", "blocks.4.inner.2.h"});
}

TEST_CASE("layers are trained where what they are given wants no gradient") {
  test::check_op<first_in_line>();
  test::check_op<first_and_forgetful>();
}

TEST_SUITE_END();
