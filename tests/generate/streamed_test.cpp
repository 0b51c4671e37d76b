// SPDX-License-Identifier: MIT
#include <simplx/generate/streamed.hpp>

#include <simplx/nn/attention.hpp>
#include <simplx/ops/cross_entropy.hpp>

#include "streams.hpp"

using namespace simplx;

namespace {

/// A model of tokens around a module: (tokens, 12) -> (tokens, 12), in two layers and once outside.
template <class Module>
struct Around {
  Module module{};
  constexpr Expr operator()() const {
    auto x = embedding(weight("table", 11, 12), indices("tokens", Axis::tokens)) +
             positions(fixed("places", 40, 12, sinusoid));
    return module(stack("layers", 2, module, x)) * weight("head", 12, 11);
  }
};

struct Shifts {
  constexpr Expr operator()(Expr x) const { return x + shift(x, 1) + square(shift(x, 7)) + shift(x, 0) + shift(x, 45); }
};
struct Sums {
  constexpr Expr operator()(Expr x) const { return tanh(cumulative_sum(x)); }
};
struct Turned {
  constexpr Expr operator()(Expr x) const {
    return softmax_attention(rotary(x, 3, hyper("base", 50)), rotary(x * weight("key", 12, 12), 3, 50.0), x,
                             {.count = 3, .dropout = 0.5});
  }
};
/// All that reads no row but its own.
struct Rowwise {
  constexpr Expr operator()(Expr x) const {
    constexpr auto mine = with_pull_back([](Expr y) { return softmax(y); }, [](Expr dy, Expr, Expr) { return dy; });
    auto halves = split_columns(x);
    auto products = batched_matmul(halves.first, halves.second, 2, 3, 2);  // (tokens, 4)
    auto wide = concatenate(products, max(x, Over::columns), log_sum_exp(x, Over::columns), halves.first);
    auto scale = sum(square(weight("scale", 3, 4)));  // of weights alone
    return layer_norm(dropout("drop", mine(wide) + wide, 0.5), vector("gain", 12), vector("bias", 12), 1e-5) * scale +
           stop_gradient(x) / (1.0 + mean(square(x), Over::columns)) + log_softmax(x * transpose(weight("w", 12, 12)));
  }
};

inline constexpr Around<Shifts> shifts{};
inline constexpr Around<Sums> sums{};
inline constexpr Around<Turned> turned{};
inline constexpr Around<Rowwise> rowwise{};
inline constexpr Around<MultiHeadAttention> grouped{.module = {.heads = 6, .key_heads = 2, .head_norm = true}};

template <auto const& model>
void check() {
  CHECK(test::stream_error<model, double>(40, {1}) < 1e-12);
  CHECK(test::stream_error<model, double>(40, {9, 1, 4}, 5) < 1e-12);
}

/// Nodes of one op in a model of them, and whether they stream.
template <auto const& model, Tag name>
constexpr bool streams() {
  using G = Graph<Untrained<model>>;
  bool all = true;
  detail::unroll<0, G::count>([&]<int i>(std::integral_constant<int, i>) {
    if constexpr (G::flat.label[i].op == name) all &= streamed_on<Cpu<float>, name>::template possible<Frame<G, i, float>>;
  });
  return all;
}
inline constexpr auto forwards = [] { return shift(input("x", rows_of(Axis::tokens, 3)), 2); };
inline constexpr auto backwards = [] { return shift(input("x", rows_of(Axis::tokens, 3)), -2); };
inline constexpr auto looks_up = [] {
  return gather(input("x", rows_of(Axis::tokens, 3)), indices("i", Axis::tokens));
};
inline constexpr auto looks_up_weights = [] { return gather(weight("x", 4, 3), indices("i", Axis::tokens)); };
inline constexpr auto of_columns = [] { return max(input("x", rows_of(Axis::tokens, 3)), Over::columns); };
inline constexpr auto of_rows = [] { return max(input("x", rows_of(Axis::tokens, 3)), Over::rows); };
inline constexpr auto first = [] { return first_of_sequence(input("x", rows_of(Axis::tokens, 3))); };

static_assert(streams<forwards, "shift">() && !streams<backwards, "shift">());
static_assert(streams<looks_up_weights, "embedding">() && !streams<looks_up, "embedding">());
static_assert(streams<of_columns, "maximum">() && !streams<of_rows, "maximum">());
static_assert(!streams<first, "first_of_sequence">());

}  // namespace

TEST_SUITE_BEGIN("generate/streamed");

TEST_CASE("shifts and running sums remember rows, by layer") {
  check<shifts>();
  check<sums>();
}
TEST_CASE("positions and rotary positions count the tokens before") { check<turned>(); }
TEST_CASE("ops that read their own row alone, and what is made of weights, run as they are") { check<rowwise>(); }

TEST_CASE("grouped queries") { check<grouped>(); }

TEST_CASE("what a node remembers of each token, up to so many, comes before what it remembers once") {
  constexpr Remembered three{.per_token = 3, .once = 4}, of_five{.per_token = 3, .once = 4, .most_tokens = 5};
  static_assert(three.elements(8) == round_up(3 * 8 + 4, alignment) && of_five.elements(8) == round_up(19, alignment));
  static_assert(of_five.elements(5) == of_five.elements(1 << 20) && Remembered{}.elements(8) == 0);
  double numbers[100];
  const StreamMemory<double> all{.stores = numbers, .capacity = 8, .scratch = numbers + 90, .apart = 7};
  const StreamMemory<double> own = all.own(three), less = all.own(of_five);
  CHECK((own.stores == numbers && own.once == numbers + 24 && own.capacity == 8));
  CHECK((less.stores == numbers && less.once == numbers + 15 && less.capacity == 5));
  CHECK((own.scratch == numbers + 90 && own.apart == 7));
}

TEST_SUITE_END();
