// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/trainer.cuh>

#include "allocations.hpp"
#include "cuda/kernels.hpp"

#include <simplx/blocks/tokens.hpp>
#include <simplx/models/decoder.hpp>
#include <simplx/ops/attention.hpp>
#include <simplx/ops/softmax.hpp>
#include <simplx/train/batches.hpp>

using namespace simplx;
using namespace simplx::gpu;

namespace {

inline constexpr Decoder model{
    .block = sas_p, .vocab = 13, .width = 8, .heads = 2, .hidden = 16, .layers = 2, .context = 9};
/// Layers that share their parameters.
inline constexpr DecoderOf<Shared<ConfiguredBlock>> looped{
    .block = {{.config = pre_ln, .heads = 2, .hidden = 16, .dropout = 0.2}}, .vocab = 13, .width = 8, .layers = 3,
    .context = 9};
using OnDevice = Trainer<model, Cuda<Precision::float64>>;
using OnCpu = Trainer<model, Cpu<double>>;

/// Four sequences of several lengths, or others, two labels missing.
TokenBatch some_batch(int seed = 1, std::initializer_list<Index> lengths = {9, 4, 1, 7}) {
  TokenBatch batch;
  batch.offsets = {0};
  for (const Index length : lengths) {
    for (Index i = 0; i < length; ++i) {
      batch.tokens.push_back(
          static_cast<std::int32_t>(bits(static_cast<std::uint64_t>(seed), batch.tokens.size()) % 13));
      batch.labels.push_back((batch.tokens.back() * 5 + 3) % 13);
    }
    batch.offsets.push_back(batch.offsets.back() + length);
  }
  for (const std::size_t label : {3, 10}) {
    if (label < batch.labels.size()) batch.labels[label] = ignored_label;
  }
  return batch;
}

/// The sequences [first, last) of a batch.
TokenBatch part_of(const TokenBatch& batch, std::size_t first, std::size_t last) {
  TokenBatch part;
  const auto begin = batch.offsets[first], end = batch.offsets[last];
  part.tokens.assign(batch.tokens.begin() + begin, batch.tokens.begin() + end);
  part.labels.assign(batch.labels.begin() + begin, batch.labels.begin() + end);
  for (std::size_t i = first; i <= last; ++i) part.offsets.push_back(batch.offsets[i] - begin);
  return part;
}

/// Down the gradient, or up.
template <class S, bool up>
struct TurnedStep {
  static constexpr bool second_moment = false;
  S rate;
  template <class V>
  SIMPLX_HD void operator()(V& p, V g, V&, V&) const {
    p = up ? p + rate * g : p - rate * g;
  }
};
template <bool up>
struct Turned {
  static constexpr const char* name = "turned";
  Turned with(const ParameterSettings&) const { return *this; }
  template <class S>
  TurnedStep<S, up> at(long) const {
    return {S(0.1)};
  }
};

double farthest(std::span<const double> a, std::span<const double> b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    worst = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(worst, difference);
  }
  return worst;
}

const AdamW adamw{.learning_rate = 1e-2};

/// Weights that are dropped.
inline constexpr auto dropped_weights = [] {
  const Expr x = embedding(weight("embedding", 13, 4), indices("tokens", Axis::tokens));
  const Expr head = dropout("mask", weight("head", 4, 13, normal(1)), hyper("rate", 0.5));
  return cross_entropy(x * head, indices("labels", Axis::tokens));
};

/// With a loss of its own beside that of labels, in every row.
struct WithZLoss {
  constexpr Expr operator()() const {
    const Expr x = embedding(weight("embedding", 13, 8, normal(1)), indices("tokens", Axis::tokens));
    const Expr h = x + softmax_attention(x, x * weight("key", 8, 8, normal(1)), x, {.count = 2, .mask = Mask::causal});
    const Expr logits = h * weight("head", 8, 13, normal(1));
    return cross_entropy(logits, indices("labels", Axis::tokens)) + square(log_sum_exp(logits, Over::columns));
  }
};
inline constexpr WithZLoss with_z_loss{};

}  // namespace

TEST_SUITE_BEGIN("cuda/trainer");

TEST_CASE("rows without a label are no part of the loss, nor of its gradient") {
  Trainer<with_z_loss, Cuda<Precision::float64>> device({.batch = 4, .context = 9});
  Trainer<with_z_loss, Cpu<double>> cpu({.batch = 4, .context = 9});
  const TokenBatch batch = some_batch();
  CHECK(device.loss(batch) == doctest::Approx(cpu.loss(batch)).epsilon(1e-13));
  for (int i = 0; i < 2; ++i) {
    const StepResult mine = device.step(batch, adamw), its = cpu.step(batch, adamw);
    CHECK(mine.loss == doctest::Approx(its.loss).epsilon(1e-13));
    CHECK(mine.gradient_norm == doctest::Approx(its.gradient_norm).epsilon(1e-12));
  }
  CHECK(farthest(device.parameters(), cpu.parameters()) < 1e-12);
}


template <auto const& model>
void check_steps() {
  const TrainerOptions options{.batch = 4, .seed = 3, .groups = {{.name = "embedding.*", .weight_decay = 0}}};
  Trainer<model, Cuda<Precision::float64>> device(options);
  Trainer<model, Cpu<double>> cpu(options);
  CHECK(farthest(device.parameters(), cpu.parameters()) == 0);
  const auto compare_step = [&](const auto& optimiser, int seed) {
    const StepResult mine = device.step(some_batch(seed), optimiser), its = cpu.step(some_batch(seed), optimiser);
    CHECK(std::abs(mine.loss - its.loss) < 1e-13);
    CHECK(std::abs(mine.gradient_norm - its.gradient_norm) < 1e-12);
    CHECK(mine.labelled == its.labelled);
    CHECK(farthest(device.parameters(), cpu.parameters()) < 1e-12);
  };
  for (int step = 0; step < 4; ++step) compare_step(adamw, step);
  const Sgd sgd{.learning_rate = 0.1, .momentum = 0.9};
  for (int step = 0; step < 3; ++step) compare_step(sgd, step);
  CHECK(farthest(device.state().first_moments, cpu.state().first_moments) < 1e-12);
  CHECK(device.steps() == 7);
  CHECK(device.state().count.moment_steps == 3);
  CHECK(std::abs(device.loss(some_batch(9)) - cpu.loss(some_batch(9))) < 1e-13);
  const std::vector<std::int32_t> tokens{1, 5, 3};
  CHECK(farthest(device.logits(tokens), cpu.logits(tokens)) < 1e-12);
}
TEST_CASE("steps are those of the CPU: loss, norm, parameters, moments") {
  check_steps<model>();
  check_steps<looped>();
}

TEST_CASE("logits that training stores as bfloat16 are given as floats") {
  static constexpr Decoder eights{.block = pre_ln, .vocab = 16, .width = 16, .heads = 2, .layers = 1, .context = 8};
  using Rounding = Trainer<eights, Cuda<Precision::bfloat16>>;
  static_assert(stores_bfloat16<Rounding::Backend, Rounding::G, Rounding::Model::logits_node()>);
  Rounding device({.seed = 3});
  Trainer<eights> cpu({.seed = 3});
  const std::vector<std::int32_t> tokens{1, 5, 3};
  const std::span<const float> rounded = device.logits(tokens), exact = cpu.logits(tokens);
  REQUIRE(rounded.size() == exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) CHECK(std::abs(rounded[i] - exact[i]) < 0.003);
}

TEST_CASE("a training goes on from a state of either backend") {
  OnDevice device({.batch = 4, .seed = 3});
  OnCpu cpu({.batch = 4, .seed = 3});
  device.step(some_batch(1), adamw);
  for (double& constant : device.constants()) constant *= 1.25;  // epsilons, positions
  device.constant("final_norm.epsilon")[0] *= 2;
  cpu.restore(device.state());
  CHECK(farthest(device.constants(), cpu.constants()) == 0);
  const StepResult on_cpu = cpu.step(some_batch(2), adamw), here = device.step(some_batch(2), adamw);
  CHECK(std::abs(on_cpu.loss - here.loss) < 1e-13);
  OnDevice other({.batch = 4, .seed = 3});
  other.restore(cpu.state());
  other.step(some_batch(3), adamw), cpu.step(some_batch(3), adamw);
  CHECK(farthest(other.parameters(), cpu.parameters()) < 1e-12);
  CHECK_THROWS_WITH_AS(OnDevice({.batch = 4, .seed = 4}).restore(cpu.state()),
                       doctest::Contains("seed: 3 there, 4 here"), Error);
}

TEST_CASE("what is written into the parameters counts from the next call on") {
  OnDevice device({.batch = 4, .seed = 3});
  OnCpu cpu({.batch = 4, .seed = 3});
  const double before = device.loss(some_batch());
  device.parameter("blocks.0.mlp.up.weight")[3] += 0.5;
  cpu.parameter("blocks.0.mlp.up.weight")[3] += 0.5;
  CHECK(device.loss(some_batch()) != before);
  CHECK(std::abs(device.loss(some_batch()) - cpu.loss(some_batch())) < 1e-13);
  CHECK_THROWS_WITH_AS(device.parameter("nothing"), doctest::Contains("no parameter named 'nothing'"), Error);
}

TEST_CASE("rounded parameters follow those that an update, a state or the host has written") {
  using Rounds = Trainer<model, Cuda<Precision::bfloat16>>;
  const TrainerOptions options{.batch = 4, .seed = 3, .groups = {{.name = "*.mlp.*", .learning_rate_factor = 0}}};
  Rounds trainer(options), anew(options);
  const auto goes_on_the_same = [&] {
    anew.restore(trainer.state());  // rounds what it is given
    const double expected = anew.step(some_batch(5), adamw).loss, found = trainer.step(some_batch(5), adamw).loss;
    CHECK(found == expected);
    CHECK(std::ranges::equal(trainer.parameters(), anew.parameters()));
  };
  for (int seed = 1; seed <= 3; ++seed) {
    static_cast<void>(anew.parameters());  // to be rounded before a step, where the other's update has done it
    CHECK(trainer.step(some_batch(seed), adamw).loss == anew.step(some_batch(seed), adamw).loss);
  }
  const double untouched = trainer.loss(some_batch());
  goes_on_the_same();
  for (float& weight : trainer.parameter("blocks.1.mlp.up.weight")) weight += 0.5f;
  CHECK(std::abs(trainer.loss(some_batch()) - untouched) > 1e-3);
  goes_on_the_same();
  trainer.accumulate(some_batch(1), 19);
  for (float& weight : trainer.parameter("blocks.0.mlp.up.weight")) weight += 0.5f;  // before the update, and frozen
  trainer.update(adamw);
  goes_on_the_same();
}

TEST_CASE("numbers of an optimiser that would spoil the parameters are refused, and nothing has changed") {
  OnDevice device({.batch = 4, .seed = 3});
  const std::vector<double> before(device.parameters().begin(), device.parameters().end());
  const AdamW broken{.learning_rate = std::numeric_limits<double>::quiet_NaN()};
  CHECK_THROWS_WITH_AS(device.step(some_batch(), broken), doctest::Contains("learning_rate is nan"), Error);
  CHECK_THROWS_WITH_AS(device.update(broken), doctest::Contains("learning_rate is nan"), Error);
  CHECK(device.steps() == 0);
  CHECK(std::ranges::equal(before, device.parameters()));
}

TEST_CASE("a step in parts is the step; parts can be discarded") {
  const TokenBatch whole = some_batch(), first = part_of(whole, 0, 2), second = part_of(whole, 2, 4);
  const Index labelled = labelled_tokens(whole);
  OnDevice one({.batch = 4, .seed = 3}), parts({.batch = 4, .seed = 3});
  parts.accumulate(second, 1000);
  CHECK_THROWS_WITH_AS(parts.state(), doctest::Contains("half accumulated"), Error);
  CHECK_THROWS_WITH_AS(parts.update(adamw), doctest::Contains("not 1000 as announced"), Error);
  parts.accumulate(first, labelled);
  parts.accumulate(second, labelled);
  const StepResult a = one.step(whole, adamw), b = parts.update(adamw);
  CHECK(std::abs(a.loss - b.loss) < 1e-13);
  CHECK(farthest(one.parameters(), parts.parameters()) < 1e-12);
  std::vector<double> gradient(one.parameters().size()), other(gradient), short_one(3);
  one.loss_and_gradient(whole, gradient), parts.loss_and_gradient(whole, other);
  CHECK(farthest(gradient, other) < 1e-12);
  CHECK_THROWS_WITH_AS(one.loss_and_gradient(whole, short_one), doctest::Contains("a gradient of 3 elements"), Error);
  OnCpu cpu({.batch = 4, .seed = 3});
  cpu.restore(one.state());
  const StepResult expected = cpu.loss_and_gradient(whole, other), found = one.loss_and_gradient(whole, gradient);
  CHECK(farthest(gradient, other) < 1e-12);
  CHECK(found.gradient_norm == doctest::Approx(expected.gradient_norm).epsilon(1e-12));
}

TEST_CASE("dropped weights have one mask for a step, whatever its parts") {
  const TrainerOptions options{.batch = 4, .context = 9, .seed = 3};
  Trainer<dropped_weights, Cuda<Precision::float64>> whole(options), parts(options);
  Trainer<dropped_weights, Cpu<double>> cpu(options);
  const TokenBatch batch = some_batch();
  const double loss = cpu.step(batch, adamw).loss;
  CHECK(whole.step(batch, adamw).loss == doctest::Approx(loss).epsilon(1e-12));
  for (const std::size_t first : {0, 1}) parts.accumulate(part_of(batch, first, first ? 4 : 1), labelled_tokens(batch));
  CHECK(parts.update(adamw).loss == doctest::Approx(loss).epsilon(1e-12));
  CHECK(farthest(whole.parameters(), cpu.parameters()) < 1e-12);
  CHECK(farthest(parts.parameters(), cpu.parameters()) < 1e-12);
}

TEST_CASE("a parameter that is frozen is no culprit") {
  const TrainerOptions options{.batch = 4, .groups = {{.name = "embedding.*", .learning_rate_factor = 0}}};
  OnDevice device(options);
  OnCpu cpu(options);
  const auto culprit = [](auto& trainer) {
    trainer.parameter("blocks.1.mlp.down.weight")[0] = std::numeric_limits<double>::quiet_NaN();
    return trainer.step(some_batch(), adamw).culprit;
  };
  const std::string found = culprit(device);
  CHECK(found == culprit(cpu));
  CHECK(found != "embedding.weight");
}

TEST_CASE("a loss that is not finite changes nothing and names the parameter") {
  OnDevice device({.batch = 4, .seed = 3});
  device.step(some_batch(), adamw);
  device.parameter("blocks.1.mlp.down.weight")[0] = std::numeric_limits<double>::quiet_NaN();
  const auto of = [](std::span<const double> values) { return std::vector<double>(values.begin(), values.end()); };
  const auto moments = of(device.state().first_moments);
  const StepResult result = device.step(some_batch(), adamw);
  CHECK_FALSE(result.finite);
  CHECK(result.culprit == "embedding.weight");
  CHECK(of(device.state().first_moments) == moments);
  CHECK_FALSE(device.step(some_batch(), Sgd{}).finite);  // moments begin anew with its first update
  CHECK(of(device.state().first_moments) == moments);
  CHECK(device.state().count.optimiser == "adamw");
  CHECK(device.steps() == 1);
  std::vector<double> gradient(device.parameters().size());
  const StepResult alone = device.loss_and_gradient(some_batch(), gradient);
  CHECK_FALSE(alone.finite);
  CHECK(alone.culprit == "embedding.weight");
  device.parameter("blocks.1.mlp.down.weight")[0] = 0;
  CHECK(device.step(some_batch(), adamw).finite);
}

TEST_CASE("a training has the same bits each time, under every schedule") {
  test::same_bits([] {
    OnDevice trainer({.batch = 4, .seed = 3});
    for (int step = 0; step < 2; ++step) trainer.step(some_batch(step), adamw);
    return std::vector<double>(trainer.parameters().begin(), trainer.parameters().end());
  });
}

/// The calls of CUDA that work makes, and how often the host asks for memory between them.
struct HostWork {
  static inline std::vector<std::string> calls{};
  static inline int depth = 0;
  static void watch(const char* name, bool begins) {
    test::counting_allocations = false;
    depth += begins ? 1 : -1;
    if (begins && depth == 1) calls.push_back(name);
    test::counting_allocations = depth == 0;
  }
  template <class F>
  static long allocations_of(const F& f) {
    calls.clear();
    emulation::Call::watch = watch;
    const long allocations = test::allocations_of(f);
    emulation::Call::watch = nullptr;
    return allocations;
  }
};

inline constexpr Decoder dropping{.block = pre_ln, .vocab = 13, .width = 8, .heads = 2, .hidden = 16, .layers = 2,
                                  .context = 9, .dropout = 0.2, .attention_dropout = 0.2};

template <auto const& of>
void check_one_call() {
  using S = double;
  Trainer<of, Cuda<Precision::float64>> device({.batch = 4, .seed = 3, .sequences_per_step = 8});
  Trainer<of, Cpu<S>> cpu({.batch = 4, .seed = 3, .sequences_per_step = 8});
  for (int step = 0; step < 5; ++step) {
    CAPTURE(step);
    const TokenBatch batch = some_batch(step);
    const AdamW optimiser{.learning_rate = 1e-2 / (1 + step)};  // another table each time
    StepResult mine;
    const long allocations = HostWork::allocations_of([&] { mine = device.step(batch, optimiser); });
    const StepResult its = cpu.step(batch, optimiser);
    CHECK(std::abs(mine.loss - its.loss) < 1e-13);
    CHECK(std::abs(mine.gradient_norm - its.gradient_norm) < 1e-12);
    if (step < 2) continue;
    CHECK(allocations == 0);
    CHECK(HostWork::calls == std::vector<std::string>{"cudaGraphLaunch", "cudaStreamSynchronize"});
  }
  CHECK(farthest(device.parameters(), cpu.parameters()) < 1e-12);
  for (int step = 5; step < 8; ++step) {  // the second part is laid out while the first may still be on its way
    const TokenBatch first = some_batch(step), second = some_batch(step + 10);
    const Index labelled = labelled_tokens(first) + labelled_tokens(second);
    device.accumulate(first, labelled), device.accumulate(second, labelled);
    cpu.accumulate(first, labelled), cpu.accumulate(second, labelled);
    CHECK(std::abs(device.update(adamw).loss - cpu.update(adamw).loss) < 1e-13);
  }
  CHECK(farthest(device.parameters(), cpu.parameters()) < 1e-12);
}

TEST_CASE("a step of known sizes is one call, also with dropout, and the host allocates nothing") {
  check_one_call<model>();
  check_one_call<dropping>();
}

TEST_CASE("a step that was recorded serves no batch that differs in one size: tokens, sequences or the longest one") {
  OnDevice device({.batch = 4, .seed = 3});
  OnCpu cpu({.batch = 4, .seed = 3});
  const std::initializer_list<Index> sizes[] = {{5, 5}, {5, 5}, {9, 1}, {5, 3, 2}, {5, 4}};
  for (const auto& lengths : sizes) {
    const TokenBatch batch = some_batch(1, lengths);
    CHECK(std::abs(device.step(batch, adamw).loss - cpu.step(batch, adamw).loss) < 1e-13);
  }
  CHECK(farthest(device.parameters(), cpu.parameters()) < 1e-12);
}

TEST_CASE("optimisers of one name with other kernels each have their own") {
  const auto losses = [](auto&& trainer) {
    std::vector<double> all;
    for (int step = 0; step < 4; ++step) all.push_back(trainer.step(some_batch(), Turned<false>{}).loss);
    for (int step = 0; step < 4; ++step) all.push_back(trainer.step(some_batch(), Turned<true>{}).loss);
    return all;
  };
  const TrainerOptions options{.batch = 4, .context = 9, .seed = 3};
  const auto found = losses(OnDevice(options)), expected = losses(OnCpu(options));
  CHECK(farthest(found, expected) < 1e-12);
  CHECK(found[3] < found[0]);
  CHECK(found[7] > found[4]);
}

TEST_CASE("an update that finds no memory leaves the step as it was") {
  OnDevice device({.batch = 4, .seed = 3}), other({.batch = 4, .seed = 3});
  device.accumulate(some_batch(), labelled_tokens(some_batch()));
  const std::size_t taken = emulation::device().allocations.bytes(emulation::Memory::device);
  const std::size_t memory = std::exchange(emulation::device().memory, taken);
  CHECK_THROWS_WITH_AS(device.update(adamw), doctest::Contains("short of memory"), Error);
  emulation::device().memory = memory;
  const StepResult found = device.update(adamw), expected = other.step(some_batch(), adamw);
  CHECK(found.loss == expected.loss);
  CHECK(farthest(device.parameters(), other.parameters()) == 0);
}

TEST_CASE("where nothing can be recorded, steps are the same, and it says why") {
  const TrainerOptions options{.batch = 4, .seed = 3};
  OnDevice recorded(options), plain(options);
  for (int step = 0; step < 4; ++step) {
    CAPTURE(step);
    const StepResult its = recorded.step(some_batch(step), adamw);
    emulation::Call::watch = [](const char*, bool) { emulation::device().spoil_captures(); };
    const StepResult mine = plain.step(some_batch(step), adamw);
    emulation::Call::watch = nullptr;
    CHECK(mine.loss == its.loss);
    CHECK(mine.gradient_norm == its.gradient_norm);
    CHECK(recorded.not_recorded() == "");
    CHECK((plain.not_recorded() == "") == (step == 0));
  }
  CHECK(plain.not_recorded().ends_with("operation failed due to a previous error during capture"));
  CHECK(farthest(plain.parameters(), recorded.parameters()) == 0);
}

/// An MLP whose products do all of it in bfloat16.
constexpr Decoder with(Activation activation, bool biases) {
  BlockConfig block = pre_ln;
  block.activation = activation;
  block.mlp_bias = block.query_key_bias = block.value_projection_bias = biases;
  return {.block = block, .vocab = 13, .width = 16, .heads = 2, .hidden = 128, .layers = 2, .context = 9};
}
inline constexpr Decoder plain_relu = with(Activation::relu, false), biased_relu = with(Activation::relu, true),
                         biased_gelu = with(Activation::gelu_tanh, true);

/// Some steps and a gradient where cuBLASLt refuses every epilogue, and where it takes them.
template <auto const& of, Precision precision>
void check_refused(double tolerance) {
  using Device = Trainer<of, Cuda<precision>>;
  const TrainerOptions options{.batch = 4, .seed = 3};
  const auto train = [&](Device& device, std::vector<float>& gradient) {
    for (const TensorInfo& tensor : device.tensors().parameters) {  // biases begin at zero
      std::uint64_t number = 0;
      for (float& p : device.parameter(tensor.name)) {
        p += static_cast<float>(0.2 * normal(key_of(16, tensor.name), number++));
      }
    }
    gradient.resize(device.parameters().size());
    std::vector<double> losses{device.loss_and_gradient(some_batch(), gradient).loss};
    for (int step = 0; step < 5; ++step) {
      const TokenBatch batch = some_batch(step);
      StepResult result;
      const long allocations = HostWork::allocations_of([&] { result = device.step(batch, adamw); });
      losses.push_back(result.loss);
      CAPTURE(step);
      CHECK(std::ranges::count(HostWork::calls, "cublasLtMatmulAlgoGetHeuristic") == 0);  // all asked for by gradient
      if (step < 2) continue;
      CHECK(allocations == 0);
      CHECK(HostWork::calls == std::vector<std::string>{"cudaGraphLaunch", "cudaStreamSynchronize"});
    }
    CHECK(device.not_recorded() == "");
    return losses;
  };
  std::vector<float> expected, found;
  std::vector<double> losses, others;
  {
    Device device(options);
    losses = train(device, expected);
    CHECK(device.not_fused().empty());
  }
  const emulation::Refusing refusing(emulation::Refusing::How::by_status, [](const std::string& name) {
    return name.find(", default") == std::string::npos;
  });
  const auto allocated = [] { return emulation::device().allocations.bytes(emulation::Memory::device); };
  const std::size_t before = allocated();
  Device device(options);
  others = train(device, found);
  CHECK(static_cast<std::size_t>(device.bytes()) == allocated() - before);
  const std::vector<std::string> kinds = device.not_fused();
  const auto told = [&](const std::string& epilogue) {
    return std::ranges::any_of(kinds, [&](const std::string& line) {
      return line.find("epilogue " + epilogue + ", was refused") != std::string::npos;
    });
  };
  constexpr bool biases = of.block.mlp_bias, relu = of.block.activation == Activation::relu;
  CHECK(told("bias") == biases);
  if (precision == Precision::bfloat16) {
    CHECK(told(std::string(relu ? "relu" : "gelu_aux") + (biases ? "_bias" : "")));
    CHECK(told("dgelu") == !relu);
    CHECK(told("sums_of_b") == biases);
  }
  for (std::size_t i = 0; i < losses.size(); ++i) CHECK(std::abs(losses[i] - others[i]) <= tolerance);
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double exact = expected[i], apart = found[i] - exact;
    difference += apart * apart, norm += exact * exact;
  }
  CHECK(std::sqrt(difference / norm) <= tolerance);
}

TEST_CASE("where cuBLASLt refuses every epilogue, steps are the same to rounding, still one call, and it says so") {
  check_refused<plain_relu, Precision::bfloat16>(0);  // rounding before a function that does not round changes nothing
  check_refused<biased_relu, Precision::bfloat16>(0.04);  // and before a bias moves single numbers to ReLU's other side
  check_refused<biased_gelu, Precision::bfloat16>(0.02);
  check_refused<biased_relu, Precision::tf32>(1e-5);
  check_refused<biased_relu, Precision::float32>(1e-5);
}

TEST_CASE("it tells all bytes that it has on the device") {
  const auto allocated = [] { return emulation::device().allocations.bytes(emulation::Memory::device); };
  const std::size_t before = allocated();
  OnDevice device({.batch = 4});
  CHECK(static_cast<std::size_t>(device.bytes()) == allocated() - before);
  device.step(some_batch(), adamw);
  CHECK(static_cast<std::size_t>(device.bytes()) == allocated() - before);
}

TEST_CASE("batches are checked") {
  OnDevice device({.batch = 2});
  CHECK_THROWS_WITH_AS(device.step(some_batch(), adamw), doctest::Contains("a batch of 4 sequences"), Error);
  CHECK_THROWS_WITH_AS(OnDevice({.context = 10}), doctest::Contains("the model's positions end at 9"), Error);
}

TEST_SUITE_END();
