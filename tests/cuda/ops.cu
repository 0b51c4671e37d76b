// SPDX-License-Identifier: MIT
/// A model of the ops that decoders do without, and the forward pass of one that they have, for nvcc: compiled, not run,
/// by nvcc.py.
#include <simplx/blocks/tokens.hpp>
#include <simplx/cuda/evaluation.cuh>
#include <simplx/cuda/stream.cuh>
#include <simplx/models/decoder.hpp>
#include <simplx/ops/activation.hpp>
#include <simplx/ops/custom.hpp>

using namespace simplx;

struct Moves {
  constexpr Expr operator()(Expr x) const {
    const Expr heads = log_softmax(slice_columns(x, 0, 12)), up = x * weight("w", 768, 384, normal(0.02));
    return x + dropout("drop", shift(x, 1), 0.1) * repeat_columns(heads, 64) + concatenate(gelu(up), up);
  }
};
struct Results {
  Expr sequences, tokens, weights, loss;
};
inline constexpr auto moves = [] {
  constexpr auto wave =
      with_pull_back([](Expr h) { return sin(h); }, [](Expr dy, Expr, Expr h) { return dy * cos(h); });
  const Expr x = stack("blocks", 2, Moves{}, variable("x", rows_of(Axis::tokens, 768)));
  const Expr q = rotary(wave(x), 12, hyper("base", 10000)), k = softmax(cumulative_sum(x));
  const Expr w = slice_rows(transpose(weight("w", 768, 20, normal(1))), 2, 9);
  return Results{first_of_sequence(q * stop_gradient(k)) * mean_of_sequence(repeat_over_sequence(sum_of_sequence(q))) *
                     max(q),
                 log_sum_exp(q, Over::columns) * max(k, Over::columns) + batched_matmul(q, k, 1, 768, 1),
                 multiply(transpose(q) * k, max(w, Over::rows)),
                 linear_cross_entropy(x, weight("table", 50257, 768, normal(0.02)), indices("labels", Axis::tokens),
                                      vector("bias", 50257, zeros))};
};
template class simplx::Evaluation<moves, Cuda<>>;

inline constexpr auto head = [] {
  return linear_cross_entropy(variable("x", rows_of(Axis::tokens, 768)), weight("table", 50257, 768, normal(0.02)),
                              indices("labels", Axis::tokens));
};
template class simplx::Evaluation<head, Cuda<Precision::bfloat16>>;

inline constexpr Decoder decoder{.block = sas_p, .width = 64, .layers = 2};
template class simplx::Inference<logits_of<decoder>, Cuda<Precision::bfloat16>>;
template class simplx::Stream<logits_of<decoder>, Cuda<Precision::bfloat16>>;

/// What remembers rows, and heads that share keys, token by token.
struct Remembers {
  constexpr Expr operator()() const {
    const Expr x = embedding(weight("table", 256, 64, normal(1)), indices("tokens", Axis::tokens));
    const Expr y = SelfAttention<AttentionMatrix::softmax, Linear>{.heads = 4, .key_heads = 2}(rotary(x, 4, 10000.0));
    return (y + shift(x, 2) + cumulative_sum(x)) * weight("head", 64, 256, normal(0.02));
  }
};
inline constexpr Remembers remembers{};
template class simplx::Stream<remembers, Cuda<>>;
