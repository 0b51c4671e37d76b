// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/tensor_cores.cuh>

#include "cuda/attention_bfloat16.hpp"

using namespace simplx;
using namespace simplx::gpu;

namespace {

using By = test::AttentionBy<TensorCores<>>;

}  // namespace

TEST_SUITE_BEGIN("cuda/attention_bfloat16");

TEST_CASE("mixings, masks and biases give what the reference gives, and the same bits under every schedule") {
  const auto with = []<AttentionMatrix matrix, Mask mask, bool alibi>() {
    constexpr AttentionSize size{2, 3, 5, matrix, mask, alibi};
    By::check<size>(8);
    By::check_schedules<size>();
  };
  with.operator()<AttentionMatrix::shaped, Mask::full, true>();
  if constexpr (!test::sanitized) {  // which takes long to compile
    with.operator()<AttentionMatrix::softmax, Mask::causal, true>();
    with.operator()<AttentionMatrix::skip_init, Mask::full, false>();
    with.operator()<AttentionMatrix::shaped, Mask::causal, false>();
  }
}

TEST_CASE("D without a pass over scores, where gains are small: means of all values and of those before") {
  constexpr AttentionSize full{1, 64, 64, AttentionMatrix::shaped, Mask::full};
  By::check<full>(8, test::Attention<float>(full, {33}));
  if constexpr (!test::sanitized) {
    constexpr AttentionSize causal{1, 64, 64, AttentionMatrix::shaped, Mask::causal};
    By::check<full>(8, test::Attention<float>(full, {270, 3}));
    By::check<causal>(8, test::Attention<float>(causal, {270, 3}));
  }
}

TEST_CASE("widths of an instruction, between, and of several; tiles shrink with width") {
  By::check<AttentionSize{1, 64, 64, AttentionMatrix::shaped}>(8);
  if constexpr (!test::sanitized) {
    By::check<AttentionSize{.heads = 1, .key_width = 1, .value_width = 1}>(8);
    By::check<AttentionSize{2, 8, 32, AttentionMatrix::shaped}>(8);
    By::check<AttentionSize{1, 33, 64, AttentionMatrix::shaped, Mask::full, true}>(8);
    constexpr AttentionSize wide{1, 200, 130};
    By::check<wide>(8, test::Attention<float>(wide, {20, 17}));
  }
}

TEST_CASE("operands of bfloat16: tiles in one place and in two, rows that tiles do not fill, padded columns") {
  // Three passes over tiles.
  By::check_operands<AttentionSize{2, 8, 24, AttentionMatrix::shaped, Mask::causal}>({70, 0, 3});
  if constexpr (!test::sanitized) {
    By::check_operands<AttentionSize{1, 64, 64, AttentionMatrix::softmax, Mask::causal}>({130});
    By::check_operands<AttentionSize{1, 64, 64, AttentionMatrix::shaped, Mask::causal}>({290, 5});  // several tiles
    By::check_operands<AttentionSize{1, 64, 64, AttentionMatrix::shaped, Mask::full}>({290, 5});
    By::check_operands<AttentionSize{1, 64, 64, AttentionMatrix::shaped, Mask::full, true}, test::set, void>({70});
    // dK and dV alone.
    By::check_operands<AttentionSize{1, 16, 8, AttentionMatrix::softmax, Mask::full}, test::skip>({65, 1});
    By::check_operands<AttentionSize{1, 128, 96, AttentionMatrix::skip_init, Mask::causal}>({40});  // one place
    By::check_operands<AttentionSize{2, 12, 20, AttentionMatrix::skip_init, Mask::causal}>({33});  // through registers
  }
}

TEST_CASE("dropped weights are those of the reference: tiles copied or loaded, results kept or not") {
  constexpr bool drops = true;
  By::check<AttentionSize{2, 3, 5, AttentionMatrix::shaped, Mask::full, true, drops}>(8);
  By::check_operands<AttentionSize{2, 8, 24, AttentionMatrix::shaped, Mask::causal, false, drops}>({70, 0, 3});
  if constexpr (!test::sanitized) {
    By::check<AttentionSize{1, 64, 64, AttentionMatrix::softmax, Mask::causal, false, drops}>(8);
    By::check<AttentionSize{1, 64, 64, AttentionMatrix::shaped, Mask::full, false, drops}>(8);
    By::check<AttentionSize{2, 3, 5, AttentionMatrix::skip_init, Mask::full, false, drops}, test::set, test::set,
              test::set, void>(8);
    By::check_operands<AttentionSize{1, 64, 64, AttentionMatrix::shaped, Mask::causal, true, drops}>({130, 5});
  }
}

TEST_CASE("windows: tiles copied or loaded, results kept or not; the same bits under every schedule") {
  constexpr AttentionSize copied{1, 16, 8, AttentionMatrix::softmax, Mask::full, false, false, 66};
  By::check_operands<copied>({150, 1});
  if constexpr (!test::sanitized) {
    test::each_window<1, 64, 64>([]<AttentionSize size>() {
      const test::Attention<float> given(size, test::window_lengths);
      constexpr Write scores = size.window == 1 ? test::skip : test::set;  // with one key they matter to nothing
      By::check<size, scores, scores>(8, given);
      if constexpr (size.drops) By::check<size, test::set, test::set, test::set, void>(8, given);
    });
  }
}

TEST_CASE("scores that grow from tile to tile: sums are scaled anew") {
  By::check_growing<AttentionSize{1, 64, 64, AttentionMatrix::softmax, Mask::causal}>();
  By::check_growing<AttentionSize{2, 16, 8, AttentionMatrix::shaped, Mask::full}>();
}

TEST_CASE("gradients are added to what is there, those that are not wanted are not touched") {
  By::check<AttentionSize{2, 3, 5, AttentionMatrix::shaped}, test::more, test::more, test::more>(8);
  By::check<AttentionSize{2, 3, 5, AttentionMatrix::skip_init}, test::set, test::skip, test::skip>(8);
  By::check<AttentionSize{2, 3, 5, AttentionMatrix::skip_init}, test::skip, test::skip, test::more>(8);
}

TEST_CASE("the same where the result was not kept") {
  By::check<AttentionSize{2, 3, 5, AttentionMatrix::shaped, Mask::full, true}, test::set, test::set, test::set, void>(
      8);
}

TEST_CASE("the identity at initialisation, bit for bit") {
  By::check_identity<AttentionSize{2, 3, 5, AttentionMatrix::shaped, Mask::causal}>();
  By::check_identity<AttentionSize{1, 64, 64, AttentionMatrix::shaped, Mask::causal}>();
  By::check_identity<AttentionSize{2, 3, 5, AttentionMatrix::shaped, Mask::full}>();
  By::check_identity<AttentionSize{1, 64, 64, AttentionMatrix::shaped, Mask::full}>();
  By::check_identity<AttentionSize{2, 3, 5, AttentionMatrix::shaped, Mask::causal, false, false, 20}>();
}

TEST_CASE("queries and keys have no gradient where beta is zero, as at initialisation") {
  By::check_unused_scores<AttentionSize{2, 8, 24, AttentionMatrix::skip_init, Mask::causal}>();
  By::check_unused_scores<AttentionSize{1, 64, 64, AttentionMatrix::shaped, Mask::full}>();
}

TEST_CASE("nothing to attend to") {
  constexpr AttentionSize size{2, 3, 5, AttentionMatrix::shaped};
  By::check<size>(1, test::Attention<float>(size, {}));
  By::check<size>(1, test::Attention<float>(size, {0, 0}));
}

TEST_SUITE_END();
