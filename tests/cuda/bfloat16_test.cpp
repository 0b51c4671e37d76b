// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/bfloat16.cuh>

#include "cuda/on_device.hpp"

#include <simplx/blocks/tokens.hpp>
#include <simplx/models/decoder.hpp>

using namespace simplx;

namespace {

/// Widths that are multiples of eight, as tensor cores want rows to be, and others.
constexpr Decoder even{
    .block = sas_p, .vocab = 16, .width = 16, .heads = 2, .layers = 2, .context = 9, .positions = Positions::learned};
constexpr Decoder odd{
    .block = pre_ln, .vocab = 11, .width = 10, .heads = 2, .layers = 2, .context = 9, .positions = Positions::learned};

template <Index cols>
void check_rounding(Index rows, Index first = 0) {
  CAPTURE(cols);
  const auto numbers = test::numbers<float>(first + rows * cols, 1);
  const Index stride = rounded_stride(cols);
  DeviceBuffer<float> from(std::ssize(numbers)), to(rounded_scratch(rows, cols) + 4);
  from.copy_from(numbers, nullptr);
  float* scratch = to.data();
  const Rounded found = round_to_bfloat16<cols>(nullptr, from.data() + first, rows, scratch);
  CHECK(scratch == to.data() + rounded_scratch(rows, cols));
  CHECK(found.stride == stride);
  CHECK(reinterpret_cast<std::uintptr_t>(found.data) % 16 == 0);
  bool same = true;
  for (Index row = 0; row < rows; ++row) {
    for (Index col = 0; col < stride; ++col) {
      const float number = col < cols ? numbers[static_cast<std::size_t>(first + row * cols + col)] : 0.0f;
      same = same && float(found.data[row * stride + col]) == float(__float2bfloat16(number));
    }
  }
  CHECK(same);
  CHECK(std::isnan(scratch[0]));
}

template <auto const& model>
void check_model() {
  const std::vector<Index> lengths{4, 9, 2};
  const auto on_cpu = test::all_of<model, Cpu<double, Path::reference>>(15, lengths, {});
  const auto rounded = test::same_bits([&] { return test::all_of<model, Cuda<Precision::bfloat16>>(15, lengths, {}); });
  test::check_close(rounded, on_cpu, 0.03);
  double farthest = 0;
  for (std::size_t i = 0; i < on_cpu.size(); ++i) farthest = std::max(farthest, std::abs(on_cpu[i] - rounded[i]));
  CHECK(farthest > 1e-4);  // it was rounded
}

}  // namespace

TEST_SUITE_BEGIN("cuda/bfloat16");

TEST_CASE("numbers are rounded to nearest, rows begin on 16 bytes and are padded with zero") {
  check_rounding<8>(3);
  check_rounding<24>(40);
  check_rounding<24>(5, 1);  // not on 16 bytes
  check_rounding<1>(2);
  check_rounding<77>(9);
  check_rounding<16>(0);
}

TEST_CASE("a model: products and attention are rounded, all else is not, and every gradient is near that of the CPU") {
  check_model<even>();
  check_model<odd>();
}

TEST_SUITE_END();
