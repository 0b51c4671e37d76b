// SPDX-License-Identifier: MIT
#pragma once

/// \file bench/gpu/device.cuh
/// What the programs of this folder share: times on the device, its ceilings, rows of results, the models.

#include <simplx/blocks/tokens.hpp>
#include <simplx/cuda/trainer.cuh>
#include <simplx/models/decoder.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace bench {

using namespace simplx;
using namespace simplx::gpu;

/// An object on a line of its own; numbers, words and lists of either. What is not finite is told in the words of
/// Python's parser.
class Row {
 public:
  Row& add(const char* name, const std::string& word) { return put(name, '"' + word + '"'); }
  Row& add(const char* name, double number) { return put(name, told(number)); }
  Row& add(const char* name, std::span<const double> numbers) {
    std::string list;
    for (const double number : numbers) list += (list.empty() ? "" : ", ") + told(number);
    return put(name, '[' + list + ']');
  }
  Row& add(const char* name, const std::vector<std::string>& words) {
    std::string list;
    for (const std::string& word : words) list += (list.empty() ? "\"" : ", \"") + word + '"';
    return put(name, '[' + list + ']');
  }
  ~Row() {
    std::printf("{%s}\n", text_.c_str());
    std::fflush(stdout);
  }

 private:
  static std::string told(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
    char text[40];
    std::snprintf(text, sizeof text, "%.6g", number);
    return text;
  }
  Row& put(const char* name, const std::string& value) {
    text_ += (text_.empty() ? "\"" : ", \"") + std::string(name) + "\": " + value;
    return *this;
  }
  std::string text_;
};

/// Two points of a stream's work, and the time between them.
class Interval {
 public:
  Interval() {
    check(cudaEventCreate(&begin_), "no event was created");
    check(cudaEventCreate(&end_), "no event was created");
  }
  Interval(const Interval&) = delete;
  ~Interval() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  /// Milliseconds that work takes on the stream.
  template <class Work>
  double of(const GpuStream& stream, const Work& work) {
    check(cudaEventRecord(begin_, stream), "no time was taken");
    work();
    check(cudaEventRecord(end_, stream), "no time was taken");
    check(cudaEventSynchronize(end_), "the work has failed");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_), "no time was taken");
    return static_cast<double>(milliseconds);
  }

 private:
  cudaEvent_t begin_, end_;
};

/// The median of 20 rounds of `each` calls, in milliseconds for a call, after three rounds to warm up. `before` is done
/// in front of each round, in no time that counts.
template <class Work, class Before>
double median_ms(const GpuStream& stream, int each, const Work& work, const Before& before) {
  Interval interval;
  std::vector<double> times;
  for (int round = 0; round < 23; ++round) {
    before();
    const double ms = interval.of(stream, [&] {
      for (int i = 0; i < each; ++i) work();
    });
    if (round >= 3) times.push_back(ms / each);
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}
template <class Work>
double median_ms(const GpuStream& stream, int each, const Work& work) {
  return median_ms(stream, each, work, [] {});
}

/// Copies within the device.
template <class T>
void copy(const GpuStream& stream, const DeviceBuffer<T>& from, T* to) {
  check(cudaMemcpyAsync(to, from.data(), from.bytes(), cudaMemcpyDeviceToDevice, stream), "nothing was copied");
}

/// Bytes a second of a copy of 1 GiB within the device, read and write counted.
inline double measured_copy_rate(const GpuStream& stream) {
  constexpr Index size = Index(1) << 28;
  DeviceBuffer<float> from(size), to(size);
  from.fill_with_zero(stream);
  const double ms = median_ms(stream, 1, [&] { copy(stream, from, to.data()); });
  return 2 * static_cast<double>(to.bytes()) / ms * 1e3;
}

/// Numbers that a multiplier cannot skip: small ones of both signs, of which 4095 are drawn, for the host's logarithms
/// would take minutes. The period is odd, so that no two rows of a matrix are the same.
template <class S>
DeviceBuffer<S> some_numbers(Index size, const GpuStream& stream) {
  constexpr std::size_t period = 4095;
  std::vector<S> host(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < host.size(); ++i) {
    host[i] = i < period ? static_cast<S>(normal(1, i)) : host[i - period];
  }
  DeviceBuffer<S> buffer(size);
  buffer.copy_from(host, stream);
  stream.synchronize();
  return buffer;
}

/// FLOPs a second of a product.
template <class S = float, class Y = float>
double measured_product_rate(const GpuStream& stream, Products& products, const ProductShape& shape) {
  const auto a = some_numbers<S>(shape.rows * shape.inner, stream);
  const auto b = some_numbers<S>(shape.inner * shape.cols, stream);
  DeviceBuffer<Y> y(shape.rows * shape.cols);
  y.fill_with_zero(stream);
  const double ms = median_ms(stream, 10, [&] { products.multiply(stream, shape, a.data(), b.data(), y.data()); });
  return 2.0 * static_cast<double>(shape.rows) * static_cast<double>(shape.cols) * static_cast<double>(shape.inner) /
         ms * 1e3;
}

/// A batch of random tokens.
inline TokenBatch random_batch(Index sequences, Index context, Index vocab, std::uint64_t seed = 1) {
  TokenBatch batch;
  batch.offsets.push_back(0);
  for (Index i = 0; i < sequences * context; ++i) {
    const auto draw = [&](std::uint64_t which) {
      const std::uint64_t random = bits(seed + which, static_cast<std::uint64_t>(i));
      return static_cast<std::int32_t>(random % static_cast<std::uint64_t>(vocab));
    };
    batch.tokens.push_back(draw(0));
    batch.labels.push_back(draw(1));
    if ((i + 1) % context == 0) batch.offsets.push_back(i + 1);
  }
  return batch;
}

/// Runs a program's body; an error ends it with its sentence and status 2: 1 says that something does not hold.
template <class Body>
int guarded(const Body& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}

}  // namespace bench
