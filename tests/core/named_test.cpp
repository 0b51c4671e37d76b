// SPDX-License-Identifier: MIT
#include <simplx/core/named.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

struct Inner {
  constexpr Expr operator()(Expr x) const { return x * vector("gain", width(x)); }
};
struct Outer {
  constexpr Expr operator()(Expr x) const {
    auto shared = weight("shared", 4, 4);  // made here, given to nobody
    return named("left", Inner{})(x * shared) + named("right", Inner{})(x * shared);
  }
};
struct Net {
  constexpr Expr operator()() const {
    auto mine = vector("mine", 4);
    auto x = variable("x", rows_of(Axis::tokens, 4)) * mine;
    x = named("given", [](Expr y, Expr gain) { return y * gain + vector("own", 4); })(x, mine);
    return named("outer", Outer{})(x);
  }
};
inline constexpr Net net{};

/// A module with two results, which share what one of them is made of.
struct Both {
  Expr left, right;
};
struct TwoHeads {
  constexpr Both operator()(Expr x) const {
    const Expr shared = x * weight("shared", 4, 4);
    return {shared * weight("left", 4, 2), shared};
  }
};
inline constexpr auto two_heads = [] {
  const auto [a, b] = named("heads", TwoHeads{})(variable("x", rows_of(Axis::tokens, 4)));
  const auto [c, d] = frozen(named("fixed", TwoHeads{}))(b);
  const auto same = named("none", [](Expr x, Expr y) { return Both{y, x}; })(a, c);
  return Both{same.left + same.right, d};
};

}  // namespace

TEST_SUITE_BEGIN("core/named");

TEST_CASE("a scope names what is made in it, never what it is given") {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : tensors_of<net>().parameters) names.push_back(tensor.name);
  std::ranges::sort(names);
  CHECK(names == std::vector<std::string>{"given.own", "mine", "outer.left.gain", "outer.right.gain", "outer.shared"});
}

TEST_CASE("a module may have several results: what both are made of is named, and frozen, once") {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : tensors_of<two_heads>().parameters) {
    names.push_back(tensor.name);
    CHECK(tensor.frozen == tensor.name.starts_with("fixed"));
  }
  std::ranges::sort(names);
  CHECK(names == std::vector<std::string>{"fixed.left", "fixed.shared", "heads.left", "heads.shared"});
  CHECK(gradcheck<two_heads>().worst < 1e-7);
}

TEST_CASE("a model that returns what it is given") {
  struct Same {
    constexpr Expr operator()() const {
      return named("scope", [](Expr x) { return x; })(variable("x", rows_of(Axis::tokens, 4)));
    }
  };
  static constexpr Same same{};
  Evaluation<same> run(Rows{.tokens = 2});
  test::fill_inputs(run);
  run.forward();
  CHECK(std::ranges::equal(run.output(), run.input("x")));
}

TEST_SUITE_END();
