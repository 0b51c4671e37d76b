// SPDX-License-Identifier: MIT
#include <simplx/cpu/attention_size.hpp>

#include <doctest/doctest.h>

#include <type_traits>

using namespace simplx;

namespace {
template <AttentionSize size>
struct Kernel {};
}  // namespace

TEST_CASE("cpu/attention_size: a size is a constant of a kernel, and all that it says tells kernels apart") {
  using Plain = Kernel<AttentionSize{.heads = 4, .key_width = 8, .value_width = 8}>;
  CHECK(std::is_same_v<Plain, Kernel<AttentionSize{4, 8, 8, AttentionMatrix::softmax, Mask::causal, false}>>);
  CHECK(!std::is_same_v<Plain, Kernel<AttentionSize{4, 8, 8, AttentionMatrix::skip_init}>>);
  CHECK(!std::is_same_v<Plain, Kernel<AttentionSize{4, 8, 8, AttentionMatrix::softmax, Mask::full}>>);
  CHECK(!std::is_same_v<Plain, Kernel<AttentionSize{4, 8, 8, AttentionMatrix::softmax, Mask::causal, true}>>);
  const AttentionOperands<float> in{};
  CHECK((!in.query && !in.alpha && !in.slopes));  // what is not given is absent
}
