// SPDX-License-Identifier: MIT
#include <simplx/cpu/workspace.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
inline constexpr Decoder model{.block = pre_ln, .vocab = 8, .width = 16, .heads = 2, .layers = 2, .context = 40};
}

TEST_CASE("cpu/workspace: regions follow one another inside the memory, for the capacity and for less") {
  using W = detail::Workspace<GraphOf<model>, Cpu<float>>;
  W workspace(tokens{40});
  CHECK(workspace.capacity().tokens == 40);
  CHECK(workspace.size() * 4 >= arena_bytes<model>(tokens{40}));
  for (const Index length : {40, 7, 1}) {
    const Context<float> context = workspace.context(tokens{length}, {}, length);
    const auto inside = [&](const float* p) {
      return p >= workspace.memory().data() && p <= workspace.memory().data() + workspace.size();
    };
    for (int i = 0; i < axis_count; ++i) CHECK((inside(context.kept[i]) && inside(context.temporary[i])));
    CHECK(inside(context.scratch));
    CHECK(inside(context.outputs[0] + length));
    CHECK(context.output_gradients[0] >= context.outputs[0] + length);
    CHECK(inside(context.output_gradients[0] + length));
    CHECK(context.kept[1] + GraphOf<model>::layout.kept[Axis::tokens] * context.stride[1] <= context.temporary[0]);
  }
}

TEST_CASE("cpu/workspace: without a backward there is no room for gradients of results") {
  using W = detail::Workspace<GraphOf<model>, Cpu<float>>;
  W with(tokens{40}), without(tokens{40}, detail::Seeds::none);
  const Index results = round_up(40, alignment);  // a loss of each token
  CHECK(without.size() == with.size() - results);
  const Context<float> context = without.context(tokens{7}, {}, 7);
  CHECK(context.output_gradients[0] == nullptr);
  CHECK(context.outputs[0] == without.memory().data() + without.size() - results);
}
