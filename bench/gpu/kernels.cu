// SPDX-License-Identifier: MIT
//
// How near each kernel is to its floor, at the shapes of GPT-2 124M: 65,536 tokens, 768 columns, 12 heads of 64,
// attention over contexts of 1024 and of 128. The floor is bytes over the measured rate of a copy, for products and
// attention FLOPs over the measured rate of a product of the same numbers. Ceilings come first.

#include "device.cuh"

#include <simplx/cuda/evaluation.cuh>
#include <simplx/ops/activation.hpp>

using namespace bench;

namespace {

constexpr Index tokens = 65536;
constexpr int width = 768, hidden = 3072, heads = 12, vocab = 50304;  // padded, as training.cu says

struct Bench {
  GpuStream stream;
  Products products;
  double copy_rate = 0, product_rate = 0;

  Bench() {}

  template <class Work>
  void time(const char* name, double bytes, double flops, const Work& work, double rate = 0) {
    tell(name, bytes, flops, median_ms(stream, 10, work), rate);  // the first waits for its launch
  }
  template <class Work, class Before>
  void time(const char* name, double bytes, double flops, const Work& work, double rate, const Before& before) {
    tell(name, bytes, flops, median_ms(stream, 1, work, before), rate);
  }
  void tell(const char* name, double bytes, double flops, double ms, double rate) const {
    const double floor = std::max(bytes / copy_rate, flops / (rate != 0 ? rate : product_rate)) * 1e3;
    Row().add("kernel", name).add("us", ms * 1e3).add("floor_us", floor * 1e3).add("of_floor", floor / ms);
  }
};

void products_of_a_layer(Bench& bench) {
  struct Call {
    const char* name;
    ProductShape shape;
  };
  const Call calls[] = {
      {"up", {.rows = tokens, .cols = hidden, .inner = width}},
      {"up dx", {.rows = tokens, .cols = width, .inner = hidden, .transpose_b = true}},
      {"up dw", {.rows = width, .cols = hidden, .inner = tokens, .transpose_a = true, .write = Write::accumulate}},
      {"query", {.rows = tokens, .cols = width, .inner = width}},
      {"query dw", {.rows = width, .cols = width, .inner = tokens, .transpose_a = true, .write = Write::accumulate}}};
  const auto x = some_numbers<float>(tokens * hidden, bench.stream);
  DeviceBuffer<float> copy(rounded_scratch(tokens, hidden));
  bench.time("rounding to bfloat16", 6.0 * tokens * hidden, 0, [&] {
    float* place = copy.data();
    round_to_bfloat16<hidden>(bench.stream, x.data(), tokens, place);
  });
  for (const Factors factors : {Factors::exact, Factors::tf32}) {
    for (Call call : calls) {
      call.shape.factors = factors;
      const double rate = measured_product_rate(bench.stream, bench.products, call.shape);
      Row().add("product", call.name).add("precision", factors == Factors::tf32 ? "tf32" : "float32")
          .add("tflops", rate * 1e-12);
    }
  }
  for (const Call& call : calls) {  // the results of the first kind are floats, those that nobody else reads are not
    const double wide = measured_product_rate<__nv_bfloat16>(bench.stream, bench.products, call.shape);
    Row().add("product", call.name).add("precision", "bfloat16 to float32").add("tflops", wide * 1e-12);
    const double rate = measured_product_rate<__nv_bfloat16, __nv_bfloat16>(bench.stream, bench.products, call.shape);
    Row().add("product", call.name).add("precision", "bfloat16").add("tflops", rate * 1e-12);
  }
}

/// Products with the epilogues of cuBLASLt, and plain ones with the library's kernels behind them.
void epilogues_of_a_layer(Bench& bench) {
  using T = __nv_bfloat16;
  const GpuStream& stream = bench.stream;
  const auto x = some_numbers<T>(tokens * width, stream), w = some_numbers<T>(width * hidden, stream);
  const auto residual = some_numbers<T>(tokens * hidden, stream);
  DeviceBuffer<T> y(tokens * hidden), aux(tokens * hidden);
  const auto time = [&](const char* name, const ProductShape& shape, const ProductEpilogue<T>& by) {
    const auto multiply = [&](const ProductEpilogue<T>& with) {
      bench.products.multiply(stream, shape, x.data(), w.data(), y.data(), with);
    };
    const double fused = median_ms(stream, 10, [&] { multiply(by); });
    const double apart = median_ms(stream, 10, [&] {
      multiply({});
      finish_product(stream, shape, x.data(), w.data(), y.data(), by);
    });
    Row().add("epilogue", name).add("fused_us", fused * 1e3).add("apart_us", apart * 1e3);
  };
  const ProductShape up{.rows = tokens, .cols = hidden, .inner = width, .ld_a = width, .ld_b = hidden, .ld_y = hidden};
  ProductShape down_dx = up;
  down_dx.transpose_b = true, down_dx.ld_b = width;
  const auto with_aux = [&](Epilogue function) {
    return ProductEpilogue<T>{.function = function, .aux = aux.data(), .ld_aux = hidden};
  };
  time("up, relu", up, {.function = Epilogue::relu});
  time("up, gelu and its operand", up, with_aux(Epilogue::gelu_aux));
  time("down dx, pull-back of gelu", down_dx, with_aux(Epilogue::dgelu));
  time("up and a residual", up, ProductEpilogue<T>{.residual = residual.data()});
}

void rows_of_a_layer(Bench& bench) {
  constexpr double unit = 4.0 * tokens * width;  // a tensor, in bytes
  const auto x = some_numbers<float>(tokens * width, bench.stream), gain = some_numbers<float>(width, bench.stream);
  DeviceBuffer<float> y(tokens * width), saved(2 * tokens), dgain(width), dbias(width),
      parts(norm_parts<width>(tokens) * 2 * width);
  dgain.fill_with_zero(bench.stream), dbias.fill_with_zero(bench.stream);
  bench.time("rms_norm", 2 * unit, 0, [&] {
    rms_norm<float, width>(bench.stream, x.data(), gain.data(), One<float>(1e-8), y.data(), saved.data(), tokens);
  });
  bench.time("rms_norm backward", 3 * unit, 0, [&] {
    rms_norm_backward<float, width>(bench.stream, x.data(), gain.data(), One<float>(1e-8), saved.data(), x.data(),
                                    y.data(), dgain.data(), parts.data(), tokens);
  });
  bench.time("layer_norm", 2 * unit, 0, [&] {
    layer_norm<float, width>(bench.stream, x.data(), gain.data(), gain.data(), One<float>(1e-5), y.data(),
                             saved.data(), tokens);
  });
  bench.time("layer_norm backward", 3 * unit, 0, [&] {
    layer_norm_backward<float, width>(bench.stream, x.data(), gain.data(), saved.data(), x.data(), y.data(),
                                      dgain.data(), dbias.data(), parts.data(), tokens);
  });
  bench.time("add", 3 * unit, 0, [&] { add(bench.stream, x.data(), tokens * width, y.data()); });
}

/// T: what query, key, value, the result's gradient and without gains the result are stored as; rate: of products of
/// that kind.
template <AttentionMatrix matrix, Mask mask, class Cores, class T, bool drops = false>
void attention_of_a_layer(Bench& bench, std::string name, Index context, double rate) {
  constexpr AttentionSize size{.heads = heads, .key_width = width / heads, .value_width = width / heads,
                               .matrix = matrix, .mask = mask, .drops = drops};
  const Index sequences = tokens / context;
  name += " attention, T = " + std::to_string(context);
  using Out = std::conditional_t<matrix == AttentionMatrix::softmax, T, float>;
  const auto x = some_numbers<T>(tokens * width, bench.stream), dout = some_numbers<T>(tokens * width, bench.stream);
  const auto gains = some_numbers<float>(heads, bench.stream);
  DeviceBuffer<Out> out(tokens * width);
  std::vector<Index> offsets;
  for (Index s = 0; s <= sequences; ++s) offsets.push_back(s * context);
  DeviceBuffer<Index> places(std::ssize(offsets));
  places.copy_from(offsets, bench.stream);
  DeviceBuffer<float> log_sum_exp(tokens * heads), dq(tokens * width), dk(tokens * width), dv(tokens * width),
      dgains(3 * heads), scratch(attention_backward_scratch<size, Cores>(tokens, sequences, context));
  dgains.fill_with_zero(bench.stream);
  DeviceBuffer<float> dropped(1);
  DeviceBuffer<detail::Draw> step(1);
  dropped.copy_from(std::vector{0.1f}, bench.stream), step.copy_from(std::vector{detail::Draw{}}, bench.stream);
  MixedOperands<T, T, T, float> in{x.data(), x.data(), x.data(), gains.data(), gains.data(), gains.data()};
  if (drops) in.draw = {dropped.data(), step.data(), 1};
  const double seen = mask == Mask::causal ? (context + 1) / 2.0 : context;  // what the mask leaves of a row
  const double flops = 4.0 * tokens * seen * width;
  const double unit = 1.0 * tokens * width, bytes = sizeof(T), of_out = sizeof(Out);
  bench.time(name.c_str(), (3 * bytes + of_out) * unit, flops, [&] {
    attention<size, Cores>(bench.stream, places.data(), sequences, context, in, out.data(), log_sum_exp.data());
  }, rate);
  const AttentionGradients<float> to{dq.data(), dk.data(), dv.data(), dgains.data(), dgains.data() + heads,
                                     dgains.data() + 2 * heads};
  bench.time((name + ", backward").c_str(), (4 * bytes + of_out + 12) * unit, 2.5 * flops, [&] {
    attention_backward<size, Cores, Write::store, Write::store, Write::store>(
        bench.stream, places.data(), sequences, context, in, log_sum_exp.data(), out.data(), dout.data(), to,
        scratch.data());
  }, rate);
}

template <class Cores, class T>
void causal_attention(Bench& bench, const std::string& of, double rate) {
  for (const Index context : {1024, 128}) {
    attention_of_a_layer<AttentionMatrix::softmax, Mask::causal, Cores, T>(bench, "softmax" + of, context, rate);
    attention_of_a_layer<AttentionMatrix::shaped, Mask::causal, Cores, T>(bench, "shaped" + of, context, rate);
    attention_of_a_layer<AttentionMatrix::softmax, Mask::causal, Cores, T, true>(bench, "softmax" + of + " dropped",
                                                                                 context, rate);
  }
}

/// A graph whose passes run again and again on what one Evaluation has copied to the device.
template <auto const& model, Precision precision>
class Passes : Evaluation<model, Cuda<precision>> {
  using Base = Evaluation<model, Cuda<precision>>;
  using Base::device_, Base::gpu_;

 public:
  explicit Passes(Index rows) : Base(Rows{.tokens = rows}, 1, {rows}) {
    this->random().training = true;
    for (auto& input : this->inputs_) {
      for (std::size_t i = 0; i < input.span().size(); ++i) input.span()[i] = static_cast<float>(normal(1, i % 4095));
    }
    for (auto& numbers : this->indices_) {
      const auto drawn = random_batch(1, numbers.size(), vocab).labels;
      std::ranges::copy(drawn, numbers.span().begin());
    }
    Base::forward();
    std::ranges::fill(this->output_gradient(), 1.0f);
    Base::backward();
  }
  struct Work {
    double bytes = 0, flops = 0;
  };
  void time(const Bench& bench, const std::string& name, Work forward, Work backward, double rate = 0) {
    const auto run_forward = [&] { Base::Run::forward(device_); };
    const auto run_backward = [&] { Base::Run::backward(device_); };
    const auto tell = [&](const std::string& pass, const Work& work, const auto& run, const auto& before) {
      bench.tell(pass.c_str(), work.bytes, work.flops, median_ms(gpu_.stream(), 1, run, before), rate);
    };
    tell(name, forward, run_forward, [] {});
    tell(name + " backward", backward, run_backward, run_forward);  // which may write over values of forward
  }
  /// Both as a step of training runs them.
  void time_step(const Bench& bench, const std::string& name, Work work, double rate = 0) {
    device_.results_after_backward = true;
    const double ms = median_ms(gpu_.stream(), 1, [&] { Base::Run::forward(device_), Base::Run::backward(device_); });
    bench.tell((name + " in a step").c_str(), work.bytes, work.flops, ms, rate);
  }
};

inline constexpr auto mapped = [] {
  const Expr x = variable("x", rows_of(Axis::tokens, width)), y = variable("y", rows_of(Axis::tokens, width));
  return gelu(x) * y + x;
};
inline constexpr auto dropped = [] { return dropout("drop", variable("x", rows_of(Axis::tokens, width)), 0.1); };
inline constexpr auto tiled = [] {
  return linear_cross_entropy(variable("x", rows_of(Axis::tokens, width)),
                              weight("table", vocab, width, simplx::normal(0.02)), indices("labels", Axis::tokens));
};

void graphs_of_a_model(Bench& bench, double rate_of_bfloat16) {
  constexpr double unit = 4.0 * tokens * width;
  Passes<mapped, Precision::float32>(tokens).time(bench, "gelu(x) y + x", {.bytes = 3 * unit}, {.bytes = 5 * unit});
  Passes<dropped, Precision::float32>(tokens).time(bench, "dropout", {.bytes = 2 * unit}, {.bytes = 2 * unit});
  constexpr Index rows = 8192;
  constexpr double product = 2.0 * rows * vocab * width;  // backward makes the logits again
  Passes<tiled, Precision::float32>(rows).time(bench, "tiled loss", {.flops = product}, {.flops = 3 * product});
  Passes<tiled, Precision::bfloat16> in_bfloat16(rows);
  in_bfloat16.time(bench, "bfloat16 tiled loss", {.flops = product}, {.flops = 3 * product}, rate_of_bfloat16);
  in_bfloat16.time_step(bench, "bfloat16 tiled loss", {.flops = 3 * product}, rate_of_bfloat16);
}

void embeddings(Bench& bench) {
  constexpr double unit = 4.0 * tokens * width;
  const std::vector<std::int32_t> words = random_batch(1, tokens, vocab).tokens;
  IndexRuns sorted;
  sorted.sort(words);
  DeviceBuffer<std::int32_t> indices(tokens), rows(tokens);
  DeviceBuffer<IndexRun> runs(std::ssize(sorted.runs()));
  indices.copy_from(words, bench.stream);
  rows.copy_from(sorted.rows(), bench.stream), runs.copy_from(sorted.runs(), bench.stream);
  const auto table = some_numbers<float>(Index(vocab) * width, bench.stream);
  DeviceBuffer<float> y(tokens * width), dtable(Index(vocab) * width);
  y.fill_with_zero(bench.stream), dtable.fill_with_zero(bench.stream);
  bench.time("embedding", 2 * unit, 0, [&] {
    embedding<float, width>(bench.stream, table.data(), indices.data(), y.data(), tokens);
  });
  bench.time("embedding backward", unit + 8.0 * static_cast<double>(runs.size()) * width, 0, [&] {
    embedding_backward<float, width>(bench.stream, rows.data(), runs.data(), runs.size(), y.data(), dtable.data());
  });
}

void ends_of_a_model(Bench& bench) {
  constexpr Index rows = 8192;  // their logits are 1.6 GB
  const auto logits = some_numbers<float>(rows * vocab, bench.stream), dloss = some_numbers<float>(rows, bench.stream);
  DeviceBuffer<float> dlogits(rows * vocab), loss(rows), saved(2 * rows);
  DeviceBuffer<std::int32_t> labels(rows);
  labels.copy_from(random_batch(1, rows, vocab).labels, bench.stream);
  bench.time("cross_entropy", 4.0 * rows * vocab, 0, [&] {
    cross_entropy<float, vocab>(bench.stream, logits.data(), labels.data(), One<float>(0.0), loss.data(),
                                saved.data(), rows);
  });
  bench.time("cross_entropy backward", 8.0 * rows * vocab, 0, [&] {
    cross_entropy_backward<float, vocab>(bench.stream, logits.data(), labels.data(), One<float>(0.0),
                                         saved.data(), dloss.data(), dlogits.data(), rows);
  });
  auto rounded = some_numbers<__nv_bfloat16>(rows * vocab, bench.stream);
  DeviceBuffer<__nv_bfloat16> slopes(rows * vocab);
  bench.time("cross_entropy of bfloat16", 2.0 * rows * vocab, 0, [&] {
    cross_entropy<float, vocab>(bench.stream, rounded.data(), labels.data(), One<float>(0.0), loss.data(),
                                saved.data(), rows);
  });
  bench.time("cross_entropy backward of bfloat16", 4.0 * rows * vocab, 0, [&] {
    cross_entropy_backward<float, vocab>(bench.stream, rounded.data(), labels.data(), One<float>(0.0),
                                         saved.data(), dloss.data(), slopes.data(), rows);
  });
  bench.time("cross_entropy and backward of bfloat16", 4.0 * rows * vocab, 0, [&] {  // in place, as in a step
    cross_entropy_and_backward<float, vocab>(bench.stream, rounded.data(), labels.data(), One<float>(0.0), dloss.data(),
                                             loss.data(), rounded.data(), rows);
  });
  constexpr Index parameters = 124'000'000;
  auto values = some_numbers<float>(parameters, bench.stream), first = some_numbers<float>(parameters, bench.stream);
  const auto drawn = some_numbers<float>(parameters, bench.stream);
  DeviceBuffer<float> gradient(parameters), second(parameters);  // the squares' means begin with none below zero
  second.fill_with_zero(bench.stream);
  copy(bench.stream, drawn, gradient.data());
  Upload<UpdateSegmentOf<float, AdamW>> segments(1);
  const Index chunks = update_segments<float>({{0, parameters, {}}}, AdamW{}, 2, segments.host().data());
  segments.send(bench.stream);
  DeviceBuffer<double> parts(squared_norm_parts(chunks)), totals(2);
  totals.fill_with_zero(bench.stream);
  const UpdateBuffers<float> buffers{values.data(), gradient.data(), first.data(), second.data()};
  bench.time("squared_norm", 4.0 * parameters, 0, [&] {
    squared_norm(bench.stream, segments.data(), 1, chunks, gradient.data(), parts.data());
  });
  DeviceBuffer<__nv_bfloat16> narrow(parameters);
  bench.time("adamw", 34.0 * parameters, 0, [&] {
    update(bench.stream, segments.data(), 1, chunks, buffers, narrow.data(), parts.data(), 1.0, totals.data(),
           totals.data() + 1);
  }, 0, [&] { copy(bench.stream, drawn, gradient.data()); });  // an update clears its gradient
}

}  // namespace

int main() {
  return guarded([] {
    Bench bench;
    bench.copy_rate = measured_copy_rate(bench.stream);
    const ProductShape large{.rows = 8192, .cols = 8192, .inner = 8192};
    bench.product_rate = measured_product_rate(bench.stream, bench.products, large);
    ProductShape rounded = large;
    rounded.factors = Factors::tf32;
    Row().add("ceiling", "copy").add("tb_per_s", bench.copy_rate * 1e-12);
    Row().add("ceiling", "product float32").add("tflops", bench.product_rate * 1e-12);
    Row().add("ceiling", "product tf32")
        .add("tflops", measured_product_rate(bench.stream, bench.products, rounded) * 1e-12);
    const double rate = measured_product_rate<__nv_bfloat16>(bench.stream, bench.products, large);
    Row().add("ceiling", "product bfloat16").add("tflops", rate * 1e-12);
    products_of_a_layer(bench);
    epilogues_of_a_layer(bench);
    rows_of_a_layer(bench);
    embeddings(bench);
    graphs_of_a_model(bench, rate);
    causal_attention<CudaCores<float>, float>(bench, "", bench.product_rate);
    causal_attention<BFloat16Cores, __nv_bfloat16>(bench, " bfloat16", rate);
    for (const Index context : {1024, 128}) {
      attention_of_a_layer<AttentionMatrix::softmax, Mask::full, BFloat16Cores, __nv_bfloat16>(
          bench, "softmax bfloat16 full", context, rate);
      attention_of_a_layer<AttentionMatrix::shaped, Mask::full, BFloat16Cores, __nv_bfloat16>(
          bench, "shaped bfloat16 full", context, rate);
    }
    ends_of_a_model(bench);
  });
}
