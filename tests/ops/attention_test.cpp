// SPDX-License-Identifier: MIT
#include <simplx/ops/attention.hpp>

#include "core/built.hpp"
#include "support.hpp"

#include <cmath>
#include <optional>
#include <span>

using namespace simplx;

namespace {

/// Attention of projections of x, by any mixing.
template <AttentionMatrix matrix>
struct Attend {
  Heads heads{.count = 2};
  constexpr Expr operator()(Expr x) const {
    auto w = [&](const char* name) { return x * weight(name, width(x), width(x), normal(0.5)); };
    auto gain = [&](const char* name) { return vector(name, heads.count); };
    switch (matrix) {
      case AttentionMatrix::softmax: return softmax_attention(w("q"), w("k"), w("v"), heads);
      case AttentionMatrix::skip_init:
        return skip_init_attention(w("q"), w("k"), w("v"), gain("alpha"), gain("beta"), heads);
      default: return shaped_attention(w("q"), w("k"), x, gain("alpha"), gain("beta"), gain("gamma"), heads);
    }
  }
};
struct Same {  // q = k = v, and the same value read by another op: one gradient, five contributions
  constexpr Expr operator()(Expr x) const {
    auto q = x * weight("q", width(x), width(x), normal(0.5));
    return q + softmax_attention(q, q, q, {.count = 2}) + softmax_attention(x, q, x, {.mask = Mask::full});
  }
};
struct FixedGains {  // gains that are not trained, and one that is computed
  constexpr Expr operator()(Expr x) const {
    auto q = x * weight("q", width(x), width(x), normal(0.5));
    return shaped_attention(q, x, x, fixed("alpha", 1, 2, ones), 2.0 * vector("beta", 2), fixed("gamma", 1, 2, ones),
                            {.count = 2});
  }
};
struct Layers {  // every layer has slopes of its own
  constexpr Expr operator()(Expr x) const {
    return stack("blocks", 3, Attend<AttentionMatrix::softmax>{{2, {}, true}}, x);
  }
};

template <AttentionMatrix matrix, Index width, Mask mask, bool alibi>
inline constexpr test::OnTokens<Attend<matrix>> model{width, {Heads{2, mask, alibi}}};
template <AttentionMatrix matrix, Index width, Mask mask, bool alibi>
inline constexpr test::OnTokens<Attend<matrix>> dropping{width, {Heads{2, mask, alibi, 0.25}}};
template <AttentionMatrix matrix, Mask mask, bool alibi, int window = 3>
inline constexpr test::OnTokens<Attend<matrix>> windowed{16, {Heads{2, mask, alibi, 0, window}}};
inline constexpr test::OnTokens<Attend<AttentionMatrix::shaped>> windowed_dropping{6, {Heads{2, {}, true, 0.25, 2}}};
template <AttentionMatrix matrix>
inline constexpr test::OnTokens<Attend<matrix>> eight{16, {Heads{8, Mask::causal, true}}};

inline constexpr test::OnTokens<Same> same_fast{16}, same_odd{6};
inline constexpr test::OnTokens<FixedGains> fixed_gains{16};
inline constexpr test::OnTokens<Layers> layers{16};
/// Queries of zero, so that all weights that are not dropped are equal.
struct Weights {
  double rate = 0;
  constexpr Expr operator()(Expr x) const {
    const Expr none = x * 0.0;
    return softmax_attention(none, none, x, {.count = 2, .mask = Mask::full, .dropout = rate});
  }
};
struct WeightsOfLayers {
  constexpr Expr operator()(Expr x) const {
    return stack("blocks", 2, [](Expr y) { return y + Weights{0.5}(y); }, x);
  }
};
inline constexpr test::OnTokens<Weights> weights{32, {0.5}}, all_weights{32};
inline constexpr Randomness training{.training = true, .key = 5, .first_sequence = 2};

template <auto const& model, class Backend = Cpu<double>>
Evaluation<model, Backend> dropped_run(const std::vector<Index>& lengths, const Randomness& random = training) {
  Evaluation<model, Backend> run(test::rows_of_lengths(lengths), 3, lengths);
  test::fill_inputs(run);
  run.random() = random;
  return run;
}
template <auto const& model>
void check_dropping() {
  auto fast = dropped_run<model>({3, 1, 20});
  auto reference = dropped_run<model, Cpu<double, Path::reference>>({3, 1, 20});
  test::check_report(check_gradients(fast, {.step = 0.02}), {});
  test::check_report(check_gradients(reference, {.step = 0.02}), {});
  auto floats = dropped_run<model, Cpu<float>>({20, 1, 33});
  auto exact = dropped_run<model, Cpu<double, Path::reference>>({20, 1, 33});
  test::run_both_ways<float>(floats, detail::subject_of(floats));
  test::run_both_ways<double>(exact, detail::subject_of(exact));
  CHECK(test::distance_of<float>(floats, exact) < 2e-5);
}

template <AttentionMatrix matrix, Index width>
void check_gradients_of() {
  test::check_model<model<matrix, width, Mask::causal, false>>();
  test::check_model<model<matrix, width, Mask::causal, true>>();
  test::check_model<model<matrix, width, Mask::full, false>>();
  test::check_model<model<matrix, width, Mask::full, true>>();
}
template <AttentionMatrix matrix>
double distance_of_floats() {
  const std::vector<Index> lengths{20, 1, 33};
  return std::max({test::distance_to_reference<model<matrix, 64, Mask::causal, false>, float>(lengths),
                   test::distance_to_reference<model<matrix, 64, Mask::causal, true>, float>(lengths),
                   test::distance_to_reference<model<matrix, 64, Mask::full, false>, float>(lengths),
                   test::distance_to_reference<model<matrix, 64, Mask::full, true>, float>(lengths)});
}

template <class A, class B>
double distance(const A& a, const B& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(double(a[i]) - double(b[i])));
  return worst;
}

}  // namespace

TEST_SUITE_BEGIN("ops/attention");

TEST_CASE("gradients of query, key, value and gains, over ragged sequences: every mixing, mask and bias") {
  check_gradients_of<AttentionMatrix::softmax, 16>();
  check_gradients_of<AttentionMatrix::skip_init, 16>();
  check_gradients_of<AttentionMatrix::shaped, 16>();
  check_gradients_of<AttentionMatrix::shaped, 6>();  // a width that fits no vector
}

TEST_CASE("gradients where a token sees a window: every mixing, both masks, with and without bias and dropout") {
  test::check_model<windowed<AttentionMatrix::softmax, Mask::causal, false>>();
  test::check_model<windowed<AttentionMatrix::skip_init, Mask::full, true>>();
  test::check_model<windowed<AttentionMatrix::shaped, Mask::causal, true>>();
  test::check_model<windowed<AttentionMatrix::shaped, Mask::full, false>>();
  check_dropping<windowed_dropping>();
}

/// How many numbers of the results change with each token of two sequences of 5 and 7: those of whoever sees it.
template <auto const& model>
std::vector<int> seen_from() {
  Evaluation<model> run(Rows{.tokens = 12}, 2, {5, 7});
  test::fill_inputs(run);
  run.forward();
  const std::vector<double> before(run.output().begin(), run.output().end());
  std::vector<int> counts;
  for (std::size_t token = 0; token < 12; ++token) {
    test::fill_inputs(run);
    for (std::size_t c = 0; c < 16; ++c) run.input("x")[16 * token + c] += 1;
    run.forward();
    int rows = 0;
    for (std::size_t row = 0; row < 12; ++row) {
      rows += !std::equal(before.begin() + 16 * static_cast<std::ptrdiff_t>(row),
                          before.begin() + 16 * static_cast<std::ptrdiff_t>(row + 1),
                          run.output().begin() + 16 * static_cast<std::ptrdiff_t>(row));
    }
    counts.push_back(rows);
  }
  return counts;
}
TEST_CASE("a token reaches those whose window has it, and no others") {
  const std::vector<int> causal{3, 3, 3, 2, 1, 3, 3, 3, 3, 3, 2, 1}, full{3, 4, 5, 4, 3, 3, 4, 5, 5, 5, 4, 3};
  CHECK(seen_from<windowed<AttentionMatrix::softmax, Mask::causal, false>>() == causal);
  CHECK(seen_from<windowed<AttentionMatrix::shaped, Mask::causal, true>>() == causal);
  CHECK(seen_from<windowed<AttentionMatrix::shaped, Mask::full, false>>() == full);
}

TEST_CASE("in a window, too, no weights of C are dropped: those of A are") {
  const auto output_of = [](const char* gain, const Randomness& random) {
    auto run = dropped_run<windowed_dropping>({30}, random);
    for (const char* other : {"alpha", "beta", "gamma"}) std::ranges::fill(run.parameter(other), 0.0);
    std::ranges::fill(run.parameter(gain), 1.0);
    run.forward();
    return std::vector<double>(run.output().begin(), run.output().end());
  };
  CHECK(output_of("gamma", training) == output_of("gamma", {}));
  CHECK(output_of("beta", training) != output_of("beta", {}));
}

TEST_CASE("a window as wide as the sequences is none") {
  const auto output_of = []<auto const& model>() {
    Evaluation<model> run(Rows{.tokens = 40}, 1, {7, 33});
    test::fill_inputs(run);
    run.forward();
    return std::vector<double>(run.output().begin(), run.output().end());
  };
  CHECK(output_of.operator()<windowed<AttentionMatrix::skip_init, Mask::causal, true, 33>>() ==
        output_of.operator()<model<AttentionMatrix::skip_init, 16, Mask::causal, true>>());
  CHECK(distance(output_of.operator()<windowed<AttentionMatrix::shaped, Mask::full, true, 33>>(),
                 output_of.operator()<model<AttentionMatrix::shaped, 16, Mask::full, true>>()) < 1e-14);
  CHECK(output_of.operator()<windowed<AttentionMatrix::skip_init, Mask::causal, true, 32>>() !=
        output_of.operator()<model<AttentionMatrix::skip_init, 16, Mask::causal, true>>());
}

TEST_CASE("a window below 0 is refused, and what shaped attention refuses, in a window, too") {
  const auto rule = [](int window, int heads, int gains) {
    const Expr x = input("x", rows_of(Axis::tokens, 4));
    const auto gain = [&](const char* name) { return vector(name, gains); };
    const Heads how{.count = heads, .dropout = 0.1, .window = window};
    return test::Built{shaped_attention(x, x, x, gain("alpha"), gain("beta"), gain("gamma"), how)}.root.node->rule;
  };
  CHECK(rule(0, 2, 2).empty());
  CHECK(rule(1, 2, 2).empty());
  CHECK(rule(-1, 2, 2) == Tag("window"));
  CHECK(rule(1, 3, 3) == Tag("heads"));
  CHECK(rule(1, 2, 3) == Tag("gains per head"));
}

TEST_CASE("one value as query, key and value; gains that are fixed or computed; layers") {
  test::check_model<same_fast>();
  test::check_model<same_odd>();
  test::check_model<fixed_gains>();
  test::check_model<layers>();
}

TEST_CASE("floats agree with the reference") {
  CHECK(distance_of_floats<AttentionMatrix::softmax>() < 2e-5);
  CHECK(distance_of_floats<AttentionMatrix::skip_init>() < 2e-5);
  CHECK(distance_of_floats<AttentionMatrix::shaped>() < 2e-5);
}

template <auto const& model>
void check_identity() {
  Evaluation<model> run(Rows{.tokens = 40}, 1, {7, 33});
  test::fill_inputs(run);
  std::ranges::fill(run.parameter("q"), 0.0);
  run.forward();
  CHECK(distance(run.output(), run.input("x")) < 1e-14);

  for (std::size_t i = 0; i < run.output_gradient().size(); ++i) run.output_gradient()[i] = normal(5, i);
  run.backward();
  for (std::size_t h = 0; h < 2; ++h) {
    CHECK(run.gradient("beta")[h] != 0);
    CHECK(run.gradient("beta")[h] + run.gradient("gamma")[h] == doctest::Approx(0).epsilon(1e-13));
  }
  CHECK(std::ranges::any_of(run.gradient("q"), [](double g) { return std::abs(g) > 1e-6; }));
  CHECK(std::ranges::all_of(run.gradient("k"), [](double g) { return g == 0; }));

  run.parameter("q")[0] = 1;
  run.forward();
  CHECK(distance(run.output(), run.input("x")) > 1e-3);
}

TEST_CASE("zero queries, gains of one: the identity; d beta = -d gamma, keys learn nothing; other queries break it") {
  check_identity<model<AttentionMatrix::shaped, 16, Mask::causal, false>>();
  check_identity<model<AttentionMatrix::shaped, 16, Mask::causal, true>>();
  check_identity<model<AttentionMatrix::shaped, 16, Mask::full, false>>();
  check_identity<model<AttentionMatrix::shaped, 16, Mask::full, true>>();
  check_identity<windowed<AttentionMatrix::shaped, Mask::causal, true, 5>>();
}

TEST_CASE("slopes are a named constant of each head, in every layer") {
  Evaluation<eight<AttentionMatrix::shaped>> run(Rows{.tokens = 5});
  const auto slopes = run.constant("slopes");
  CHECK(slopes.size() == 8);
  for (std::size_t h = 0; h < 8; ++h) CHECK(slopes[h] == std::exp2(-static_cast<double>(h + 1)));
  CHECK(parameters<eight<AttentionMatrix::shaped>> == 2 * 16 * 16 + 3 * 8);
  Evaluation<layers> deep(Rows{.tokens = 5});
  CHECK(deep.constant("blocks.2.slopes")[1] == std::exp2(-8));
}

TEST_CASE("with its slopes at zero a bias is none") {
  Evaluation<model<AttentionMatrix::softmax, 16, Mask::causal, true>> biased(Rows{.tokens = 40}, 1, {7, 33});
  Evaluation<model<AttentionMatrix::softmax, 16, Mask::causal, false>> plain(Rows{.tokens = 40}, 1, {7, 33});
  test::fill_inputs(biased), test::fill_inputs(plain);
  biased.forward(), plain.forward();
  CHECK(distance(biased.output(), plain.output()) > 1e-3);
  std::ranges::fill(biased.constant("slopes"), 0.0);
  biased.forward();
  CHECK(distance(biased.output(), plain.output()) < 1e-14);
}

TEST_CASE("where weights are dropped: gradients against differences, floats and vectors against the reference") {
  check_dropping<dropping<AttentionMatrix::softmax, 16, Mask::causal, false>>();
  check_dropping<dropping<AttentionMatrix::softmax, 64, Mask::full, true>>();
  check_dropping<dropping<AttentionMatrix::skip_init, 64, Mask::full, false>>();
  check_dropping<dropping<AttentionMatrix::shaped, 64, Mask::causal, true>>();
  check_dropping<dropping<AttentionMatrix::shaped, 6, Mask::full, false>>();
}

/// Values of two identities for each sequence: A_ij of head h is in row i and column 16 h + j.
void fill_identities(std::span<double> x, const std::vector<Index>& lengths) {
  std::size_t row = 0;
  for (const Index length : lengths) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(length); ++i, ++row) {
      for (std::size_t c = 0; c < 32; ++c) x[32 * row + c] = c % 16 == i ? 1 : 0;
    }
  }
}
template <auto const& model>
std::vector<double> weights_of(const std::vector<Index>& lengths, const Randomness& random,
                               std::optional<double> rate = {}) {
  auto run = dropped_run<model>(lengths, random);
  if (rate) run.constant("dropout.rate")[0] = *rate;
  fill_identities(run.input("x"), lengths);
  run.forward();
  return {run.output().begin(), run.output().end()};
}

TEST_CASE("weights are dropped in training alone, and the others make up for them; the rate is set by name") {
  const auto whole = weights_of<weights>({16}, {});
  CHECK(whole == weights_of<all_weights>({16}, training));
  CHECK(std::ranges::all_of(whole, [](double w) { return w == 1.0 / 16; }));
  struct Case {
    double rate, kept;
    int dropped;
  };
  for (const Case& c : {Case{0.5, 2, 256}, {0.1, 1 / 0.9, 51}, {0, 1, 0}, {-1, 1, 0}, {1, 0, 512}, {2, 0, 512}}) {
    CAPTURE(c.rate);
    const auto w = weights_of<weights>({16}, training, c.rate);
    CHECK(std::ranges::all_of(w, [&](double x) { return x == 0 || std::abs(x - c.kept / 16) < 1e-15; }));
    CHECK(std::abs(std::ranges::count(w, 0.0) - c.dropped) <= 57);  // 5 deviations
  }
}

/// How often both drop or neither: half of the time if they have nothing to do with one another.
int agreeing(const std::vector<double>& a, const std::vector<double>& b, std::size_t shift = 0) {
  int count = 0;
  for (std::size_t i = 0; i + shift < a.size(); ++i) count += (a[i] == 0) == (b[i + shift] == 0);
  return count;
}

TEST_CASE("what is dropped depends on seed and step, sequence and head, not on how sequences are packed or divided") {
  const auto packed = weights_of<weights>({16, 9, 16}, training);
  const auto part = [](const std::vector<double>& all, std::size_t row, std::size_t rows) {
    return std::vector(all.begin() + 32 * static_cast<std::ptrdiff_t>(row),
                       all.begin() + 32 * static_cast<std::ptrdiff_t>(row + rows));
  };
  CHECK(part(packed, 16, 9) == weights_of<weights>({9}, {.training = true, .key = 5, .first_sequence = 3}));
  CHECK(part(packed, 25, 16) == weights_of<weights>({16}, {.training = true, .key = 5, .first_sequence = 4}));
  const auto first = part(packed, 0, 16), third = part(packed, 25, 16);
  const auto other_step = weights_of<weights>({16}, {.training = true, .key = 6, .first_sequence = 2});
  CHECK(std::abs(agreeing(first, third) - 256) < 57);
  CHECK(std::abs(agreeing(first, other_step) - 256) < 57);
  CHECK(std::abs(agreeing(first, first, 16) - 256) < 57);  // a head and the other, or the next query
}

TEST_CASE("a rate that is no probability is refused, by its thousandths") {
  const auto model = [](double rate) {
    const Expr x = input("x", rows_of(Axis::tokens, 4));
    return test::Built{softmax_attention(x, x, x, {.count = 2, .alibi = true, .dropout = rate})};
  };
  CHECK(model(1).root.node->kind == Kind::kernel);
  for (const double rate : {-0.1, 1.5, std::nan("")}) CHECK(model(rate).root.node->rule == Tag("dropout rate"));
  CHECK(model(1.5).root.node->left == 1500);
}

TEST_CASE("layers have rates and masks of their own") {
  static constexpr test::OnTokens<WeightsOfLayers> of_layers{32};
  auto run = dropped_run<of_layers>({16});
  fill_identities(run.input("x"), {16});
  /// The weights of one layer, where the other drops all.
  const auto weights_of_one = [&](const char* one, const char* other) {
    CHECK(run.constant(one)[0] == 0.5);
    run.constant(other)[0] = 1;
    run.forward();
    run.constant(other)[0] = 0.5;
    std::vector<double> found(run.output().begin(), run.output().end());
    for (std::size_t i = 0; i < found.size(); ++i) found[i] -= run.input("x")[i];
    return found;
  };
  const auto first = weights_of_one("blocks.0.dropout.rate", "blocks.1.dropout.rate");
  const auto second = weights_of_one("blocks.1.dropout.rate", "blocks.0.dropout.rate");
  CHECK(std::abs(std::ranges::count(first, 0.0) - 256) < 57);
  CHECK(std::abs(agreeing(first, second) - 256) < 57);
}

TEST_CASE("FLOPs: a causal mask saves half of the scores, a full one nothing") {
  constexpr auto& causal_model = model<AttentionMatrix::shaped, 16, Mask::causal, true>;
  constexpr auto& full_model = model<AttentionMatrix::shaped, 16, Mask::full, false>;
  const Rows rows{.tokens = 64, .sequences = 2};
  const double products = 2 * (2.0 * 64 * 16 * 16), dense = 2.0 * 64 * 32 * (16 + 16);
  CHECK(flops<causal_model>(rows) == products + dense);
  CHECK(flops<full_model>(rows) == products + dense);
  CHECK(causal_flops<full_model>(rows) == products + dense);
  CHECK(causal_flops<causal_model>(rows) == products + 2.0 * 64 * 16.5 * (16 + 16));

  constexpr auto& near_model = windowed<AttentionMatrix::softmax, Mask::causal, false>;
  constexpr auto& both_sides = windowed<AttentionMatrix::softmax, Mask::full, false>;
  const double all_products = 3 * (2.0 * 64 * 16 * 16), pair = 2.0 * 2 * (16 + 16);  // of both sequences
  CHECK(flops<near_model>(rows) == all_products + pair * 32 * 3);
  CHECK(causal_flops<near_model>(rows) == all_products + pair * (1 + 2 + 30 * 3));
  CHECK(flops<both_sides>(rows) == all_products + pair * (2 * (3 + 4) + 28 * 5));
  CHECK(flops<both_sides>({.tokens = 4, .sequences = 2}) == 4 * 3 * 2.0 * 16 * 16 + pair * 4);  // all of two see all
}

TEST_CASE("mask and bias belong to the graph") {
  static constexpr auto& a = model<AttentionMatrix::softmax, 16, Mask::causal, false>;
  static constexpr auto& b = model<AttentionMatrix::softmax, 16, Mask::full, false>;
  static constexpr auto& c = model<AttentionMatrix::softmax, 16, Mask::causal, true>;
  static constexpr auto& d = windowed<AttentionMatrix::softmax, Mask::causal, false>;
  static_assert(same_graph<a, a>() && !same_graph<a, b>() && !same_graph<a, c>() && !same_graph<a, d>());
}

TEST_SUITE_END();
