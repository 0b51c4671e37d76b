// SPDX-License-Identifier: MIT
#include <simplx/generate/stream.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
inline constexpr Decoder model{.block = sas_p, .vocab = 16, .width = 16, .heads = 2, .layers = 3, .context = 40};
}

TEST_SUITE_BEGIN("generate/stream");
TEST_CASE("x") {
  Inference<logits_of<model>, Cpu<double>> net(3);
  for (auto& p : net.parameters()) p += 0.1;
  Stream<logits_of<model>, Cpu<double>> stream(net);
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < 40; ++i) tokens.push_back(i * 7 % 16);
  auto all = net.logits(tokens);
  double worst = 0, largest = 0;
  for (int i = 0; i < 40; ++i) {
    auto row = stream.feed({&tokens[i], 1});
    for (int v = 0; v < 16; ++v) worst = std::max(worst, std::abs(row[v] - all[i * 16 + v])), largest = std::max(largest, std::abs(row[v]));
  }
  MESSAGE(worst << " of " << largest);
}
TEST_SUITE_END();
