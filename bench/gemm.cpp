// SPDX-License-Identifier: MIT
//
// How fast the three products of a linear layer are, for X (M, K) and W (K, N): Y = X W, dX = dY W^T, dW += X^T dY;
// simplx's kernels against Eigen's. A program for each path: gemm; gemm-vectors, without a matrix unit; and
// gemm-bfloat16, which rounds the operands.
//
//     gemm [--only WORD] [--rounds 9] [--json]     WORD: part of a row's "shape", such as 512x128x
//
// Method: one core, both sides in turn in one process on the same floats, processor time, medians. simplx runs the
// product as a model does, through the plan of x * W. A training step packs W once for all its sequences: `simplx` is
// the product alone, `packed` packs W before each. "of_peak" is the share of the peak of multiply-adds that was
// measured just before the row, of what is multiplied: floats, floats in pieces (cpu/pieces.hpp), or pairs; "difference" is between the results, relative to their
// norm.

#include "measure.hpp"

#include <simplx/simplx.hpp>

using namespace simplx;

namespace {

using Backend = Cpu<float, Path::SIMPLX_PATH>;
#define SIMPLX_WORD(name) #name
#define SIMPLX_NAME(name) SIMPLX_WORD(name)

/// Y = X W; backward gives dX where the weight is frozen, dW where X is given.
template <Index K, Index N, bool trains_weight>
struct Product {
  constexpr Expr operator()() const {
    const Shape rows = rows_of(Axis::tokens, K);
    if constexpr (trains_weight) {
      return input("x", rows) * weight("w", K, N);
    } else {
      return variable("x", rows) * frozen(weight("w", K, N));
    }
  }
};
template <Index K, Index N, bool trains_weight>
inline constexpr Product<K, N, trains_weight> product_of{};

/// A planned product in memory of its own, which packs only when it is told to.
template <Index K, Index N, bool trains_weight>
class Planned {
  using G = GraphOf<product_of<K, N, trains_weight>>;
  using Run = Execute<G, Backend>;

 public:
  Planned(Index rows, const float* x, const float* w, const float* dy)
      : parameters_(G::layout.parameters),
        gradients_(G::layout.parameters),
        packed_(2 * G::layout.packed_elements),
        dx_(trains_weight ? 0 : rows * K),
        workspace_(simplx::Rows{.tokens = rows}),
        context_(workspace_.context(simplx::Rows{.tokens = rows}, {offsets_, 1}, rows)) {
    offsets_[1] = rows;
    std::copy_n(w, K * N, parameters_.data());
    context_.parameters = parameters_.data();
    context_.gradients = gradients_.data();
    context_.packed = packed_.data(), context_.turned = turned();
    context_.inputs[0] = x;
    context_.input_gradients[0] = dx_.data();
    std::copy_n(dy, rows * N, context_.output_gradients[0]);
    pack();
  }
  void pack() { Run::prepare(parameters_.data(), packed_.data(), turned()); }
  void forward() { Run::forward(context_); }
  void backward() { Run::backward(context_); }
  const float* y() const { return context_.outputs[0]; }
  const float* dx() const { return dx_.data(); }
  float* dw() { return gradients_.data(); }

 private:
  float* turned() { return packed_.data() + G::layout.packed_elements; }

  cpu::Buffer<float> parameters_, gradients_, packed_, dx_;
  Index offsets_[2] = {0, 0};
  detail::Workspace<G, Backend> workspace_;
  Context<float> context_;
};

struct Run {
  bench::Rows rows;
  std::string only;
  bench::Turns turns;
};

template <Index K, Index N>
void run(Run& run, Index M) {
  const std::string shape = std::to_string(M) + "x" + std::to_string(K) + "x" + std::to_string(N);
  if (shape.find(run.only) == shape.npos) return;
  const auto filled = [](Index size, std::uint64_t key) {
    cpu::Buffer<float> values(size);
    for (Index i = 0; i < size; ++i) {
      values[i] = static_cast<float>(uniform(key, static_cast<std::uint64_t>(i)) - 0.5);
    }
    return values;
  };
  const cpu::Buffer<float> xs = filled(M * K, 1), ws = filled(K * N, 2), dys = filled(M * N, 3);
  cpu::Buffer<float> ys(M * N), dxs(M * K), dws(K * N);
  const cpu::ConstMatrixMap<float> x(xs.data(), M, K), w(ws.data(), K, N), dy(dys.data(), M, N);
  cpu::MatrixMap<float> y(ys.data(), M, N), dx(dxs.data(), M, K), dw(dws.data(), K, N);
  const double flops = 2.0 * static_cast<double>(M) * static_cast<double>(K) * static_cast<double>(N);

  const auto compare = [&](const char* product, auto ours, auto pack, auto eigen, auto difference) {
    const double peak = bench::peak_of<Backend>();
    const auto times = bench::take_turns(run.turns, ours, pack, eigen);
    const double mine = times[0], packing = times[1] / 2, theirs = times[2];  // W and W^T are packed at once
    const auto rate = [&](double us) { return flops / us * 1e-3; };
    run.rows.add({{"shape", shape}, {"path", SIMPLX_NAME(SIMPLX_PATH)}, {"product", product},
                  {"simplx_gflops", rate(mine)},
                  {"packed_gflops", rate(mine + packing)}, {"eigen_gflops", rate(theirs)}, {"ratio", theirs / mine},
                  {"of_peak", rate(mine) / peak}, {"difference", difference()}});
  };
  const auto relative = [](const float* ours, const cpu::MatrixMap<float>& theirs) {
    const cpu::ConstMatrixMap<float> mine(ours, theirs.rows(), theirs.cols());
    return static_cast<double>((mine - theirs).norm() / theirs.norm());
  };
  {
    Planned<K, N, false> planned(M, xs.data(), ws.data(), dys.data());
    const auto pack = [&] { planned.pack(); };
    compare("Y", [&] { planned.forward(); }, pack, [&] { y.noalias() = x * w; },
            [&] { return relative(planned.y(), y); });
    compare("dX", [&] { planned.backward(); }, pack, [&] { dx.noalias() = dy * w.transpose(); },
            [&] { return relative(planned.dx(), dx); });
  }
  Planned<K, N, true> planned(M, xs.data(), ws.data(), dys.data());
  compare("dW", [&] { planned.backward(); }, [] {}, [&] { dw.noalias() += x.transpose() * dy; }, [&] {
    std::fill_n(planned.dw(), K * N, 0.0f);
    planned.backward();
    dw.noalias() = x.transpose() * dy;
    return relative(planned.dw(), dw);
  });
}

}  // namespace

int main(int count, char** arguments) {
  return bench::guarded([&] {
    const bench::Flags flags(count, arguments, {{"--only", ""}, {"--rounds", "9"}});
    Run all{bench::Rows(flags), flags.text("--only"), {static_cast<int>(flags.number("--rounds")), 20000}};
    for (const Index M : {512, 1024, 4096}) {
      run<128, 128>(all, M);
#ifndef SIMPLX_SMOKE  // of the tests, which have no time for all shapes
      run<128, 512>(all, M);
      run<512, 128>(all, M);
      run<256, 1024>(all, M);
      run<1024, 256>(all, M);
      run<768, 768>(all, M);
      run<768, 3072>(all, M);
      run<3072, 768>(all, M);
#endif
    }
#ifndef SIMPLX_SMOKE
    if constexpr (!Backend::rounds) run<768, 50257>(all, 512);  // no multiple of a vector: never rounded
#endif
  });
}
