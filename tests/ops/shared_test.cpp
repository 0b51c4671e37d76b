// SPDX-License-Identifier: MIT
#include <simplx/ops/shared.hpp>

#include <simplx/core/describe.hpp>
#include <simplx/differentiate/learner.hpp>
#include <simplx/io/checkpoint.hpp>
#include <simplx/models/within.hpp>
#include <simplx/ops/dropout.hpp>
#include <simplx/ops/stop_gradient.hpp>
#include <simplx/train/trainer.hpp>

#include "generate/streams.hpp"
#include "scratch.hpp"

using namespace simplx;

namespace {

constexpr Index vocab = 11, cols = 8;

constexpr Expr square(const char* name) { return weight(name, cols, cols, normal(0.3)); }

/// What a layer has: matrices, one of them used twice, a row, and a constant.
struct Weights {
  Expr query = square("query"), twice = square("twice"), gain = vector("gain", cols, normal(1)),
       scale = fixed("scale", 1, cols, normal(1));

  constexpr Expr operator()(Expr x) const {
    x = 0.5 * (x + softmax_attention(x * query, x, x, {.count = 2}));
    return x + tanh(gain * (x * twice)) * twice * scale;
  }
};
constexpr Expr refined(Expr w, Expr x) { return x + tanh(x * w); }

template <class Blocks>
struct Model {
  constexpr Expr logits() const {
    const Expr x = embedding(weight("table", vocab, cols, normal(1)), indices("tokens", Axis::tokens));
    return Blocks{}(x) * weight("head", cols, vocab, normal(0.3));
  }
  constexpr Expr operator()() const { return cross_entropy(logits(), indices("labels", Axis::tokens)); }
};
template <int layers>
struct Stacked {
  static constexpr Expr block(Expr x) {
    return stack("refine", 2, Shared{[](Expr y) { return refined(square("w"), y); }}, Weights{}(x));
  }
  constexpr Expr operator()(Expr x) const {
    return stack("blocks", layers, Shared{[](Expr y) { return block(y); }}, x);
  }
};
struct WrittenOut {
  constexpr Expr operator()(Expr x) const {
    const auto blocks = [](Expr y) {
      const Weights weights;
      const Expr w = square("refine.w");
      for (int layer = 0; layer < 4; ++layer) y = refined(w, refined(w, weights(y)));
      return y;
    };
    return named("blocks", blocks)(x);
  }
};
inline constexpr Model<Stacked<4>> shared{};
inline constexpr Model<Stacked<1>> of_one_layer{};
inline constexpr Model<WrittenOut> written_out{};

static_assert(parameters<shared> == parameters<written_out>);
static_assert(parameter_shape<shared>("blocks.twice") == fixed_shape(cols, cols));
static_assert(has_parameter<shared>("blocks.refine.w") && !has_parameter<shared>("blocks.0.refine.w") &&
              !has_parameter<shared>("blocks.refine.0.w") && !has_parameter<shared>("blocks"));
static_assert(flops<shared>(tokens{9}) == flops<written_out>(tokens{9}));
static_assert(GraphOf<shared>::layout.parameters == GraphOf<of_one_layer>::layout.parameters);
static_assert(GraphOf<shared>::layout.constants == GraphOf<of_one_layer>::layout.constants);
static_assert(GraphOf<shared>::layout.packed_elements == GraphOf<of_one_layer>::layout.packed_elements);

/// Sequences of 5, 1, 4 and 9 tokens, one of them without a label.
TokenBatch some_batch(std::size_t first = 0, std::size_t last = 4) {
  const Index ends[] = {0, 5, 6, 10, 19};
  TokenBatch batch{.tokens = {}, .labels = {}, .offsets = {0}};
  for (Index i = ends[first]; i < ends[last]; ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>((7 * i + i * i) % vocab));
    batch.labels.push_back(i == 7 ? ignored_label : static_cast<std::int32_t>((3 * i + 1) % vocab));
  }
  for (std::size_t s = first; s < last; ++s) batch.offsets.push_back(ends[s + 1] - ends[first]);
  return batch;
}

/// Fills an evaluation, the same for all models of these names, and runs it forward and backward.
template <class Run>
void run_on_numbers(Run& run, bool training = false) {
  run.random() = {.training = training, .key = 4};
  std::ranges::fill(run.memory(), 1e30);
  test::fill_inputs(run, vocab);
  run.forward();
  for (std::size_t i = 0; i < run.output_gradient().size(); ++i) run.output_gradient()[i] = normal(3, i);
  run.backward();
}
void check_equal(std::span<const double> a, std::span<const double> b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (const double number : b) largest = std::max(largest, std::abs(number));
  CHECK(largest > 0);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) <= 1e-12 * largest);
}
void check_equal(detail::EvaluationMemory<double>& a, detail::EvaluationMemory<double>& b) {
  check_equal(a.output(), b.output());
  for (const TensorInfo& tensor : b.tensors().parameters) {
    CAPTURE(tensor.name);
    check_equal(a.gradient(tensor.name), b.gradient(tensor.name));
  }
}

template <auto const& model, class Backend>
auto evaluated() {
  Evaluation<model, Backend> run(Rows{.tokens = 9}, 3, {3, 1, 5});
  test::stir(run.tensors(), run.parameters());
  run_on_numbers(run);
  return run;
}

/// What a tensor is called where the layers of stacks whose name begins with "shared" share it: without their numbers.
std::string shared_name(const std::string& name) {
  std::string left;
  bool number = false;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    if (!number) left += (left.empty() ? "" : ".") + part;
    number = !number && part.starts_with("shared");
    begin = end + 1;
  }
  return left;
}

/// Shared layers against a stack whose layers have equal parameters each: the same bits of results and probes, and the
/// gradient is the sum over the layers.
template <auto const& together, auto const& apart>
void check_sums(bool training = false) {
  Evaluation<together, Cpu<double>> a(Rows{.tokens = 9}, 3, {3, 1, 5});
  Evaluation<apart, Cpu<double>> b(Rows{.tokens = 9}, 3, {3, 1, 5});
  test::stir(a.tensors(), a.parameters());
  for (const TensorInfo& tensor : b.tensors().parameters) {
    std::ranges::copy(a.parameter(shared_name(tensor.name)), b.parameter(tensor.name).begin());
  }
  for (const TensorInfo& tensor : b.tensors().constants) {
    std::ranges::copy(a.constant(shared_name(tensor.name)), b.constant(tensor.name).begin());
  }
  run_on_numbers(a, training), run_on_numbers(b, training);
  CHECK(std::ranges::equal(a.output(), b.output()));
  CHECK(std::ranges::equal(a.input_gradient("x"), b.input_gradient("x")));
  for (const TensorInfo& tensor : a.tensors().parameters) {
    CAPTURE(tensor.name);
    std::vector<double> sum(static_cast<std::size_t>(tensor.size()));
    for (const TensorInfo& own : b.tensors().parameters) {
      if (shared_name(own.name) != tensor.name) continue;
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += b.gradient(own.name)[i];
    }
    check_equal(a.gradient(tensor.name), sum);
  }
  const auto probes = [](auto& run) {
    std::vector<std::pair<std::string, double>> all;
    run.each_probe([&](const std::string& name, const Shape&, const double* value, const double* gradient) {
      all.push_back({name, value[0]}), all.push_back({name, gradient[0]});
    });
    return all;
  };
  CHECK(probes(a) == probes(b));
}

template <bool shares, class Block>
constexpr auto maybe_shared(const Block& block) {
  if constexpr (shares) {
    return Shared{block};
  } else {
    return block;
  }
}
struct Mixed {
  constexpr Expr operator()(Expr x) const { return Weights{}(x); }
};
struct Dropping {
  constexpr Expr operator()(Expr x) const { return x + dropout("drop", probe("h", tanh(x * square("w"))), 0.4); }
};
/// Shared stacks in layers that share nothing, both in layers that share all; layers that are evaluated again.
template <bool shares>
struct Nested {
  struct Plain {
    constexpr Expr operator()(int layer, Expr x) const {
      x = x * vector(layer == 0 ? "first" : "later", cols);
      return stack("shared_deep", 3, maybe_shared<shares>(Dropping{}), x);
    }
  };
  struct Together {
    constexpr Expr operator()(Expr x) const {
      const Expr w = square("w");
      x = tanh(x * w) * w + stack("plain", 2, Dropping{}, x);
      return stack("shared_inner", 2, maybe_shared<shares>(Mixed{}), x);
    }
  };
  constexpr Expr operator()() const {
    Expr x = stack("plain", 2, Plain{}, variable("x", rows_of(Axis::tokens, cols)));
    x = stack("shared", 3, maybe_shared<shares>(Together{}), x);
    x = stack("shared_again", 3, recompute(maybe_shared<shares>(Mixed{})), x);
    return stack("shared_first", 4, recompute_first(2, maybe_shared<shares>(Mixed{})), x);
  }
};
inline constexpr Nested<true> nested{};
inline constexpr Nested<false> nested_apart{};

/// What is left of ones.
inline constexpr auto masks_alone = [] {
  const auto drop = [](Expr x) { return x * 0.0 + probe("mask", dropout("drop", x * 0.0 + vector("one", cols), 0.5)); };
  return stack("blocks", 3, Shared{drop}, variable("x", rows_of(Axis::tokens, cols)));
};

/// A block that has other parameters in each layer: shared, it has those of the first in all.
struct AsksForTheLayer {
  constexpr Expr operator()(int layer, Expr x) const {
    return x + tanh(x * square(layer == 0 ? "first" : layer == 1 ? "second" : "third"));
  }
};
template <int recomputed_layers>
inline constexpr auto asking = [] {
  return stack("blocks", 3, Shared{recompute_first(recomputed_layers, AsksForTheLayer{})},
               variable("x", rows_of(Axis::tokens, cols)));
};
inline constexpr auto asking_once = [] {
  return stack("blocks", 3, Shared{AsksForTheLayer{}}, variable("x", rows_of(Axis::tokens, cols)));
};
static_assert(parameters<asking_once> == cols * cols && has_parameter<asking_once>("blocks.first"));
static_assert(parameters<asking<1>> == cols * cols && has_parameter<asking<1>>("blocks.first"));

inline constexpr auto frozen_layers = [] {
  const Expr x = variable("x", rows_of(Axis::tokens, cols));
  const auto all = frozen([](Expr y) { return stack("all", 2, Shared{Mixed{}}, y); });
  const auto within = [](Expr y) { return frozen(named("part", Mixed{}))(y) + y * square("trained"); };
  return stack("some", 3, Shared{within}, all(x));
};

/// A function of rows of data; its mean is a loss.
template <bool shares>
struct OfRows {
  static constexpr Expr block(Expr y) { return refined(square("w"), y); }
  constexpr Expr operator()() const {
    const Expr x = input("x", rows_of(Axis::batch, cols)) * square("first");
    if (shares) return sum(stack("blocks", 3, Shared{[](Expr y) { return block(y); }}, x), Over::columns);
    const auto three = [](Expr y) {
      const Expr w = square("w");
      return refined(w, refined(w, refined(w, y)));
    };
    return sum(named("blocks", three)(x), Over::columns);
  }
};
inline constexpr OfRows<true> of_rows{};
inline constexpr OfRows<false> of_rows_written_out{};
template <bool shares>
inline constexpr auto loss_of_rows = [] { return mean(square(OfRows<shares>{}())); };

/// A block of one's own in a model of the library.
struct Block {
  MultiHeadAttention attention{.heads = 2};
  Mlp mlp{.hidden = 16};
  constexpr Expr operator()(int layer, Expr x) const {
    x += named("attention", attention.at(layer))(named("norm1", RmsNorm{})(x));
    return x + named("mlp", mlp)(named("norm2", RmsNorm{})(x));
  }
};
inline constexpr DecoderOf<Shared<Block>> decoder{
    .block = {}, .vocab = 16, .width = 8, .layers = 5, .context = 32, .observed = true};
inline constexpr DecoderOf<Shared<Block>> deep{.block = {}, .vocab = 16, .width = 8, .layers = 60, .context = 32};
inline constexpr DecoderOf<Shared<Block>> kept{.block = {}, .vocab = 16, .width = 8, .layers = 5, .context = 32};
inline constexpr DecoderOf<Block> own{.block = {}, .vocab = 16, .width = 8, .layers = 5, .context = 32};
inline constexpr auto& recomputed = with_recomputed<kept, 3>;
static_assert(within<kept, arena_bytes_on<recomputed, Cpu<float>>(tokens{32}), tokens{32}>.recomputed == 3);
static_assert(parameters<decoder> == parameters<deep> && parameters<kept> < parameters<own>);
static_assert(has_parameter<decoder>("blocks.attention.query.weight"));
constexpr Rows rows = tokens{32};
static_assert(flops<kept>(rows) == flops<own>(rows) && kept_bytes<kept>(rows) == kept_bytes<own>(rows));
static_assert(arena_bytes<kept>(rows) == arena_bytes<own>(rows));
static_assert(arena_bytes<recomputed>(rows) < arena_bytes<kept>(rows));

template <auto const& model>
constexpr int stack_of = [] {
  for (int i = 0; i < GraphOf<model>::count; ++i) {
    if (GraphOf<model>::table.info[i].stack) return i;
  }
  return -1;
}();
template <auto const& model>
constexpr int distinct = GraphOf<model>::template layers_of<stack_of<model>>::distinct;
static_assert(distinct<decoder> == 1 && distinct<deep> == 1 && distinct<recomputed> == 2);
static_assert(distinct<asking_once> == 1 && distinct<asking<0>> == 1 && distinct<asking<1>> == 2);

template <auto const& model>
std::vector<float> trained(int threads) {
  Trainer<model> trainer({.batch = 4, .context = 9, .seed = 3, .threads = threads});
  for (int step = 0; step < 3; ++step) trainer.step(some_batch(), AdamW{.learning_rate = 1e-2});
  return {trainer.parameters().begin(), trainer.parameters().end()};
}

}  // namespace

TEST_SUITE_BEGIN("ops/shared");

TEST_CASE("tensors have the names, places and initial values of layers that are written out") {
  const TensorList a = tensors_of<shared>(), b = tensors_of<written_out>();
  const auto check = [](const std::vector<TensorInfo>& x, const std::vector<TensorInfo>& y) {
    REQUIRE(x.size() == y.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      CHECK(x[i].name == y[i].name);
      CHECK(x[i].shape == y[i].shape);
      CHECK(x[i].offset == y[i].offset);
      CHECK(x[i].init == y[i].init);
    }
  };
  check(a.parameters, b.parameters), check(a.constants, b.constants);
  Evaluation<shared, Cpu<double>> drawn(tokens{1}, 5);
  Evaluation<written_out, Cpu<double>> drawn_too(tokens{1}, 5);
  CHECK(std::ranges::equal(drawn.parameters(), drawn_too.parameters()));
  CHECK(std::ranges::equal(drawn.constants(), drawn_too.constants()));
}

TEST_CASE("losses and gradients are those of layers that are written out") {
  auto fast = evaluated<shared, Cpu<double>>();
  auto fast_too = evaluated<written_out, Cpu<double>>();
  check_equal(fast, fast_too);
  auto reference = evaluated<shared, Cpu<double, Path::reference>>();
  auto reference_too = evaluated<written_out, Cpu<double, Path::reference>>();
  check_equal(reference, reference_too);
}

TEST_CASE("derivatives of every order, of nested stacks too") {
  test::check_op<shared>();
  const GradientReport report = gradcheck<nested>({.step = 0.002});
  CHECK(report.worst < 1e-6);
  CHECK(report.jvp < 1e-12);
  CHECK(report.hvp < 1e-5);
}

TEST_CASE("gradients are the sum over layers, whatever is nested and evaluated again; each draws its own mask") {
  check_sums<nested, nested_apart>();
  check_sums<nested, nested_apart>(true);
  Evaluation<nested, Cpu<double>> run(Rows{.tokens = 9}, 3, {3, 1, 5});
  test::fill_inputs(run);
  run.forward();
  const std::vector<double> plain(run.output().begin(), run.output().end());
  run.random() = {.training = true, .key = 4};
  run.forward();
  CHECK(!std::ranges::equal(plain, run.output()));
  std::vector<std::vector<double>> masks;
  Evaluation<masks_alone, Cpu<double>> drawing(Rows{.tokens = 9});
  test::fill_inputs(drawing);
  drawing.random() = run.random();
  drawing.forward();
  drawing.each_probe([&](const std::string&, const Shape&, const double* value, const double*) {
    masks.emplace_back(value, value + 9 * cols);
  });
  REQUIRE(masks.size() == 3);
  CHECK((masks[0] != masks[1] && masks[1] != masks[2] && masks[0] != masks[2]));
}

TEST_CASE("what is frozen has no gradient, and what is not has that of all layers") {
  test::check_op<frozen_layers>();
  Evaluation<frozen_layers, Cpu<double>> run(Rows{.tokens = 9}, 3, {3, 1, 5});
  run_on_numbers(run);
  const auto zero = [&](const char* name) {
    return std::ranges::all_of(run.gradient(name), [](double g) { return g == 0; });
  };
  CHECK(zero("all.twice"));
  CHECK(zero("some.part.query"));
  CHECK(!zero("some.trained"));
}

TEST_CASE("functions and learners have them, too") {
  const Eigen::MatrixXd x = Eigen::MatrixXd::Random(5, cols);
  Function<of_rows> f;
  Function<of_rows_written_out> g;
  f.set<"x">(x), g.set<"x">(x);
  check_equal(f.parameter("blocks.w"), g.parameter("blocks.w"));
  CHECK((f.row_gradients<"first">() - g.row_gradients<"first">()).norm() < 1e-12);
  for (int again = 0; again < 2; ++again) {  // the second time nothing is left of the first
    f.forward(), g.forward();
    f.output_gradient().setOnes(), g.output_gradient().setOnes();
    f.backward(), g.backward();
    check_equal(f.gradient("blocks.w"), g.gradient("blocks.w"));
  }
  Learner<loss_of_rows<true>, Cpu<double>> learner{{.seed = 2}};
  Learner<loss_of_rows<false>, Cpu<double>> other{{.seed = 2}};
  learner.set<"x">(x), other.set<"x">(x);
  for (int step = 0; step < 3; ++step) learner.step(Sgd{.learning_rate = 0.1}), other.step(Sgd{.learning_rate = 0.1});
  check_equal(learner.parameters(), other.parameters());
}

TEST_CASE("a trainer's gradient is that of layers that are written out, with the same bits for any number of threads") {
  Trainer<written_out, Cpu<double>> other({.batch = 4, .context = 9, .seed = 3});
  test::stir(other.tensors(), other.parameters());
  std::vector<double> expected(other.parameters().size()), gradient(expected.size());
  const StepResult told = other.loss_and_gradient(some_batch(), expected);
  for (const int threads : {1, 2, 3}) {
    CAPTURE(threads);
    Trainer<shared, Cpu<double>> trainer({.batch = 4, .context = 9, .seed = 3, .threads = threads});
    std::ranges::copy(other.parameters(), trainer.parameters().begin());
    CHECK(trainer.loss_and_gradient(some_batch(), gradient).loss == doctest::Approx(told.loss).epsilon(1e-12));
    check_equal(gradient, expected);
  }
  const std::vector<float> alone = trained<shared>(1);
  CHECK(trained<shared>(2) == alone);
  for (int again = 0; again < 10; ++again) REQUIRE(trained<shared>(3) == alone);
}

TEST_CASE("two parts of a step are the step") {
  Trainer<shared> whole({.batch = 4, .context = 9, .seed = 3, .threads = 2});
  Trainer<shared> parts({.batch = 2, .context = 9, .seed = 3, .threads = 2, .sequences_per_step = 4});
  for (int step = 0; step < 3; ++step) {
    whole.step(some_batch(), AdamW{.learning_rate = 1e-2});
    parts.accumulate(some_batch(0, 2), 18);
    parts.accumulate(some_batch(2, 4), 18);
    parts.update(AdamW{.learning_rate = 1e-2});
    CHECK(std::ranges::equal(whole.parameters(), parts.parameters()));
  }
}

TEST_CASE("a decoder of shared layers trains with the same bits where some are evaluated again") {
  const std::vector<float> expected = trained<kept>(2);
  CHECK(trained<recomputed>(2) == expected);
  CHECK(trained<recomputed>(3) == expected);
  CHECK(trained<with_recomputed<kept, 5>>(1) == expected);
}

TEST_CASE("the input of each layer is observed") {
  Evaluation<decoder, Cpu<double>> run(Rows{.tokens = 3});
  run.forward();
  std::vector<std::string> names;
  run.each_probe([&](const std::string& name, const Shape&, const double*, const double*) { names.push_back(name); });
  CHECK(names == std::vector<std::string>{"blocks.0.input", "blocks.1.input", "blocks.2.input", "blocks.3.input",
                                          "blocks.4.input"});
}

TEST_CASE("a stream remembers each layer for itself") {
  CHECK(test::stream_error<logits_of<shared>, double>(40, {1}) < 1e-12);
  CHECK(test::stream_error<logits_of<shared>, double>(40, {7, 2}, 4) < 1e-12);
  CHECK(test::stream_error<logits_of<recomputed>, double>(32, {1, 5}) < 1e-12);
  CHECK(cache_bytes<logits_of<kept>>(32) == cache_bytes<logits_of<own>>(32));
}

TEST_CASE("a checkpoint has one set of parameters, which an Inference loads") {
  Trainer<kept> trainer({.batch = 4, .context = 9, .seed = 3});
  trainer.step(some_batch(), AdamW{.learning_rate = 1e-2});
  const test::Scratch folder;
  save_checkpoint(folder.path / "model.safetensors", trainer);
  const auto names = tensors_of<kept>().parameters;
  CHECK(std::ranges::count(names, "blocks.mlp.up.weight", &TensorInfo::name) == 1);
  Inference<logits_of<kept>> net({.seed = 7});
  load_checkpoint(folder.path / "model.safetensors", net);
  const auto tokens = test::some_tokens(9, 16);
  CHECK(std::ranges::equal(net.logits(tokens), trainer.logits(tokens)));
  Inference<logits_of<own>> other({.seed = 7});
  CHECK_THROWS_AS(load_checkpoint(folder.path / "model.safetensors", other), Error);
}

TEST_CASE("a description says which layers share") {
  CHECK(describe<kept>().find("blocks, layers 0 1 2 3 4, which share their parameters:\n") != std::string::npos);
  CHECK(describe<own>().find("blocks, layers 0 1 2 3 4:\n") != std::string::npos);
}

TEST_SUITE_END();
