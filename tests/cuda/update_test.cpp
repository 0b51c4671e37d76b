// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/update.cuh>

#include "cuda/kernels.hpp"
#include "cuda/on_cpu.hpp"

#include <simplx/train/adamw.hpp>
#include <simplx/train/sgd.hpp>

using namespace simplx;
using namespace simplx::gpu;

namespace {

template <class S>
struct State {
  std::vector<S> parameters, gradients, first, second;
  std::vector<__nv_bfloat16> rounded;
  explicit State(Index size)
      : parameters(test::numbers<S>(size, 1)), gradients(test::numbers<S>(size, 2)), first(test::numbers<S>(size, 3)),
        second(test::numbers<S>(size, 4)) {
    for (S& v : second) v *= v;
    rounded.assign(parameters.begin(), parameters.end());
  }
  UpdateBuffers<S> buffers() { return {parameters.data(), gradients.data(), first.data(), second.data()}; }
  std::vector<S> all() const { return test::joined<S>({parameters, gradients, first, second}); }
};

/// One tensor that does not decay, one of more than a chunk, a frozen one, an epsilon of its own; then more than a warp
/// has lanes, every other of which decays.
const std::vector<SettingsRun>& runs() {
  static const std::vector<SettingsRun> all = [] {
    std::vector<SettingsRun> runs{{0, 16, {.decays = false}},
                                  {16, 4416, {}},
                                  {4416, 4432, {.learning_rate_factor = 0}},
                                  {4432, 4560, {.learning_rate_factor = 0.5, .epsilon = 1e-3}}};
    for (Index i = 4560; i < 5200; i += 16) runs.push_back({i, i + 16, {.decays = i % 32 == 0}});
    return runs;
  }();
  return all;
}
constexpr Index size = 5200;
constexpr AdamW adamw{.learning_rate = 0.01, .weight_decay = 0.2};
constexpr Sgd nesterov{.learning_rate = 0.1, .momentum = 0.8, .nesterov = true, .weight_decay = 0.1};

/// The kernels, over any state; the norm comes last.
template <class S, class Optimiser>
std::vector<S> run(State<S>& state, const Optimiser& optimiser, double limit, double loss = 1, long step = 3) {
  std::vector<UpdateSegmentOf<S, Optimiser>> segments(runs().size());
  const auto count = static_cast<int>(segments.size());
  const Index chunks = update_segments<S>(runs(), optimiser, step, segments.data());
  auto parts = test::unwritten<double>(squared_norm_parts(chunks)), norm = test::unwritten<double>(1);
  const std::vector<double> losses{loss};
  squared_norm(nullptr, segments.data(), count, chunks, state.gradients.data(), parts.data());
  update(nullptr, segments.data(), count, chunks, state.buffers(), state.rounded.data(), parts.data(), limit,
         losses.data(), norm.data());
  const std::vector<__nv_bfloat16> expected(state.parameters.begin(), state.parameters.end());
  CHECK(std::memcmp(state.rounded.data(), expected.data(), size * sizeof expected[0]) == 0);
  auto all = state.all();
  all.push_back(static_cast<S>(norm[0]));
  return all;
}

/// What the Trainer does on a CPU, with the same gradient.
template <class Optimiser>
double step_on_cpu(State<double>& state, const Optimiser& optimiser, double limit, long step = 3) {
  long double squared = 0;
  for (const SettingsRun& run : runs()) {
    for (Index i = run.begin; i < run.end; ++i) {
      double& g = state.gradients[static_cast<std::size_t>(i)];
      if (run.settings.frozen()) g = 0;
      squared += static_cast<long double>(g) * g;
    }
  }
  const auto norm = static_cast<double>(std::sqrt(squared));
  for (const SettingsRun& run : runs()) {
    if (run.settings.frozen()) continue;
    update_range(optimiser.with(run.settings).template at<double>(step), clip_factor(norm, limit), state.buffers(),
                 run.begin, run.end);
  }
  return norm;
}

template <class S, class Optimiser>
void check(const Optimiser& optimiser, double limit) {
  CAPTURE(limit);
  const auto found = test::same_bits([&] {
    State<S> state(size);
    return run(state, optimiser, limit);
  });
  const State<S> narrow(size);
  State<double> exact(size);  // from the numbers of S
  exact.parameters.assign(narrow.parameters.begin(), narrow.parameters.end());
  exact.gradients.assign(narrow.gradients.begin(), narrow.gradients.end());
  exact.first.assign(narrow.first.begin(), narrow.first.end());
  exact.second.assign(narrow.second.begin(), narrow.second.end());
  const auto expected = test::on_cpu([&](auto state) {
    const double norm = step_on_cpu(state, optimiser, limit);
    auto all = state.all();
    all.push_back(norm);
    return all;
  }, exact);
  const auto part = [](const auto& v, Index k) {  // parameters, gradients, moments, norm
    const auto begin = v.begin() + k * size;
    return std::remove_cvref_t<decltype(v)>(begin, begin + std::min<Index>(size, v.end() - begin));
  };
  for (Index k = 0; k < 5; ++k) {
    CAPTURE(k);
    CHECK(test::distance(part(found, k), part(expected, k)) < 8);
  }
}

}  // namespace

TEST_SUITE_BEGIN("cuda/update");

TEST_CASE("parameters, moments and norm are those of a CPU") {
  check<double>(adamw, 0);
  check<double>(adamw, 1);
  check<float>(adamw, 1);
  check<double>(nesterov, 1);
  check<float>(Sgd{.learning_rate = 0.1}, 0);
}

TEST_CASE("chunks cover the segments, each chunk of one segment") {
  std::vector<UpdateSegmentOf<float, AdamW>> segments(runs().size());
  CHECK(update_segments<float>(runs(), adamw, 1, segments.data()) == 46);
  std::vector<Index> first;
  for (const auto& segment : segments) first.push_back(segment.first_chunk);
  first.resize(6);
  CHECK(first == std::vector<Index>{0, 1, 4, 5, 6, 7});
  CHECK(update_segments<float>({}, adamw, 1, segments.data()) == 0);
}

TEST_CASE("a gradient or a loss that is not finite changes nothing") {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto unchanged = [](float gradient, double loss) {
    State<float> state(size);
    state.gradients[100] = gradient;
    const State<float> before = state;
    const auto found = run(state, adamw, 1, loss);
    CHECK(std::isfinite(found.back()) == std::isfinite(gradient));
    CHECK(std::memcmp(state.all().data(), before.all().data(), sizeof(float) * 4 * size) == 0);
  };
  unchanged(infinity, 1);
  unchanged(nan, 1);
  unchanged(1, infinity);
  unchanged(1, nan);
}

TEST_CASE("an optimiser that begins finds moments of zero, and leaves none of another's") {
  const auto begins = [](const auto& optimiser) {
    State<double> state(size), zero(size);
    zero.first.assign(size, 0), zero.second.assign(size, 0);
    CHECK(run(state, optimiser, 1, 1, 1) == run(zero, optimiser, 1, 1, 1));
  };
  begins(adamw), begins(nesterov);
}

TEST_CASE("what is frozen may be anything") {
  State<float> state(size);
  state.gradients[4420] = std::numeric_limits<float>::quiet_NaN();
  const float parameter = state.parameters[4420];
  CHECK(std::isfinite(run(state, adamw, 1).back()));
  CHECK(state.parameters[4420] == parameter);
  CHECK(state.gradients[4420] == 0);
}

TEST_SUITE_END();
