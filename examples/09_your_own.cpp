// SPDX-License-Identifier: MIT
//
// Lesson 9: an op and a block of your own.
//
//     squared ReLU   y = max(x, 0)^2,   dx = 2 max(x, 0) dy                                       [So et al. 2021]
//     my block       X_out = X + ShapedAttention(N) + W2 squared_relu(W1 N),   N = Norm(X)
//
// An elementwise op is a shape rule (inherited), a function f and its derivative d. From these come the loop, the end
// of a matrix product, the reverse schedule, forward mode and second derivatives; gradcheck<model>() holds all of them
// against differences. A block is a struct with an operator(): whatever it makes is trained.
//
//     g++ -std=c++20 -O2 -I include -I /usr/include/eigen3 examples/09_your_own.cpp -pthread && ./a.out

#include <simplx/simplx.hpp>

#include <cstdio>

/// The rules are written once, for numbers, vectors, dual numbers and the formulas that describe prints.
template <>
struct simplx::op<"squared_relu"> : simplx::elementwise {
  static constexpr bool needs_inputs = true;  // d reads x, so x is kept (or computed again)
  static constexpr auto f(auto x) {
    const auto positive = max(decltype(x){}, x);
    return positive * positive;
  }
  template <int operand>
  static constexpr auto d(auto dy, auto /*y*/, auto x) {
    return 2.0 * max(decltype(x){}, x) * dy;
  }
};
constexpr simplx::Expr squared_relu(simplx::At x) { return simplx::apply<"squared_relu">({}, x); }

using namespace simplx;

struct SquaredRelu {
  constexpr Expr operator()(Expr x) const { return squared_relu(x); }
};

/// Parallel, with one skip around both branches; sizes come from what it is given.
struct MyBlock {
  int heads;

  constexpr Expr operator()(Expr x) const {
    auto n = named("norm", RmsNorm{})(x);  // used three times, computed once
    auto attention = named("attention", SelfAttention<AttentionMatrix::shaped>{.heads = heads})(n);
    return x + attention + named("mlp", MlpOf<SquaredRelu>{.hidden = 4 * width(x)})(n);
  }
};

inline constexpr DecoderOf<MyBlock> mine{.block = {.heads = 2}, .vocab = 32, .width = 32, .layers = 2, .context = 32};
inline constexpr Decoder usual{.block = sas_p, .vocab = 32, .width = 32, .heads = 2, .layers = 2, .context = 32};

int main() {
  std::printf("%s\n", describe<mine>().c_str());

  const GradientReport report = gradcheck<mine>();
  std::printf("derivatives are %s\n", report.holds() ? "right" : "wrong");

  // Sequences of 32 numbers that count upwards in steps of 1, 2 or 3: the step must be read off the text.
  TokenBatch batch = make_batch(12, 32);
  batch.offsets = {0};
  for (int s = 0; s < 12; ++s) {
    for (int t = 0; t < 32; ++t) {
      batch.tokens.push_back((5 * s + (s % 3 + 1) * t) % 32);
      batch.labels.push_back((5 * s + (s % 3 + 1) * (t + 1)) % 32);
    }
    batch.offsets.push_back(32 * (s + 1));
  }
  const auto learn = [&]<auto const& model>(const char* name) {
    Trainer<model> trainer{{.batch = 12, .seed = 1}};
    std::printf("%-9s %td parameters, loss", name, parameters<model>);
    for (int step = 0; step <= 60; ++step) {
      const double loss = trainer.step(batch, AdamW{.learning_rate = 1e-2}).loss;
      if (step % 20 == 0) std::printf("  %.3f", loss);
    }
    std::printf("\n");
  };
  learn.template operator()<mine>("my block");
  learn.template operator()<usual>("SAS-P");
}
