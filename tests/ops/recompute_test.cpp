// SPDX-License-Identifier: MIT
#include <simplx/ops/recompute.hpp>

#include <simplx/ops/dropout.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

struct Net {
  constexpr Expr operator()(Expr x) const {
    auto h = relu(x * weight("up", width(x), 24, normal(0.5)));
    return x + tanh(h * weight("down", 24, width(x), normal(0.5))) * x;
  }
};
struct Layered {
  constexpr Expr operator()(int layer, Expr x) const { return layer == 0 ? x + Net{}(x) : Net{}(x) * scalar("gain"); }
};
template <bool again>
struct Model {
  constexpr Expr operator()() const {
    Expr x = variable("x", rows_of(Axis::tokens, 8));
    if (again) {
      x = named("first", recompute(Net{}))(x);
      x = stack("blocks", 4, recompute(Layered{}), x);
      return stack(
          "inner", 2, [](Expr y) { return recompute([](Expr z) { return stack("deep", 2, Net{}, z); })(y); }, x);
    }
    x = named("first", Net{})(x);
    x = stack("blocks", 4, Layered{}, x);
    return stack("inner", 2, [](Expr y) { return stack("deep", 2, Net{}, y); }, x);
  }
};
inline constexpr Model<false> kept{};
inline constexpr Model<true> recomputed{};

struct Dropping {
  constexpr Expr operator()(Expr x) const { return dropout("drop", Net{}(x), 0.5); }
};
template <bool again>
struct WithDropout {
  constexpr Expr operator()() const {
    Expr x = variable("x", rows_of(Axis::tokens, 8));
    return again ? stack("blocks", 3, recompute(Dropping{}), x) : stack("blocks", 3, Dropping{}, x);
  }
};
inline constexpr WithDropout<false> dropping{};
inline constexpr WithDropout<true> dropping_again{};

template <auto const& model>
std::vector<double> results(bool training) {
  Evaluation<model> run(Rows{.tokens = 6});
  run.random() = {.training = training, .key = 4};
  test::fill_inputs(run);
  std::ranges::fill(run.memory(), 1e30);
  run.forward();
  std::vector<double> all(run.output().begin(), run.output().end());
  for (std::size_t i = 0; i < run.output_gradient().size(); ++i) run.output_gradient()[i] = normal(3, i);
  run.backward();
  for (const auto& part : {run.gradients(), run.input_gradient("x")}) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Nobody reads again what the modules give, so its memory holds gradients by the time they are evaluated again.
template <bool again>
struct Unread {
  static constexpr Expr net(const char* name, Expr x) {
    return again ? named(name, recompute(Net{}))(x) : named(name, Net{})(x);
  }
  constexpr Expr operator()() const {
    Expr x = variable("x", rows_of(Axis::tokens, 8)) * weight("before", 8, 8, normal(0.5));
    Expr y = (2 * net("first", x) + x) * weight("between", 8, 8, normal(0.5));
    return net("second", 3 * y + x) + x + y;
  }
};
inline constexpr Unread<false> unread{};
inline constexpr Unread<true> unread_again{};

/// The first layers of a stack, whose block asks for their number or does not.
template <int layers>
struct First {
  constexpr Expr operator()() const {
    Expr x = variable("x", rows_of(Axis::tokens, 8));
    x = stack("blocks", 4, recompute_first(layers, Layered{}), x);
    return stack("equal", 3, recompute_first(layers, Net{}), x);
  }
};
inline constexpr auto scopes = [] {
  const Expr x = recompute(named("scope", Net{}))(variable("x", rows_of(Axis::tokens, 8)));
  return stack("blocks", 2, named("inner", Net{}), x);
};
inline constexpr First<0> no_layer{};
inline constexpr First<2> two_layers{};
}  // namespace

TEST_SUITE_BEGIN("ops/recompute");

TEST_CASE("the same bits, the same names, and no kept columns but those between blocks") {
  CHECK(results<kept>(false) == results<recomputed>(false));
  const TensorList a = tensors_of<kept>(), b = tensors_of<recomputed>();
  REQUIRE(a.parameters.size() == b.parameters.size());
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    CHECK(a.parameters[i].name == b.parameters[i].name);
    CHECK(a.parameters[i].offset == b.parameters[i].offset);
  }
  static_assert(parameter_shape<recomputed>("first.up") == fixed_shape(8, 24));
  static_assert(parameter_shape<recomputed>("blocks.2.gain") == fixed_shape(1, 1));
  static_assert(parameter_shape<recomputed>("inner.1.deep.0.down") == fixed_shape(24, 8));
  static_assert(!has_parameter<recomputed>("up"));
  constexpr int tokens_axis = static_cast<int>(Axis::tokens);
  // Of `blocks` what goes from layer to layer stays (3 x 8), of `inner` once (8), and the three results between.
  static_assert(GraphOf<recomputed>::layout.kept.on[tokens_axis] <= 6 * 8);
  static_assert(GraphOf<kept>::layout.kept.on[tokens_axis] > 6 * GraphOf<recomputed>::layout.kept.on[tokens_axis]);
}

TEST_CASE("the same gradients where a result is not read again; they may be added up in another order") {
  const std::vector<double> a = results<unread>(false), b = results<unread_again>(false);
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-11));
}

TEST_CASE("a module with a name is recomputed, and stacked, like one without") {
  static_assert(parameter_shape<scopes>("scope.up") == fixed_shape(8, 24));
  static_assert(parameter_shape<scopes>("blocks.1.inner.down") == fixed_shape(24, 8));
}

TEST_CASE("derivatives of every order") {
  const GradientReport report = gradcheck<recomputed>({.step = 0.002});
  CHECK(report.worst < 1e-6);
  CHECK(report.jvp < 1e-12);
  CHECK(report.hvp < 1e-5);
}

TEST_CASE("the first layers of a stack alone: the same bits, and the others keep what they kept") {
  CHECK(results<no_layer>(false) == results<two_layers>(false));
  constexpr auto kept_columns = [](const auto& layout) { return layout.kept.on[static_cast<int>(Axis::tokens)]; };
  constexpr Index none = kept_columns(GraphOf<no_layer>::layout), two = kept_columns(GraphOf<two_layers>::layout);
  static_assert(two < none && two > none / 4);
}

TEST_CASE("dropout draws the same mask twice") {
  CHECK(results<dropping>(true) != results<dropping>(false));
  CHECK(results<dropping>(true) == results<dropping_again>(true));
}

TEST_SUITE_END();
