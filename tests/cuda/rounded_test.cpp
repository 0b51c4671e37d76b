// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/rounded.cuh>

#include "cuda/kernels.hpp"

using namespace simplx;
using namespace simplx::gpu;

namespace {

template <Index cols>
void check_rounding(Index rows, Index first = 0) {
  CAPTURE(cols);
  const auto numbers = test::numbers<float>(first + rows * cols, 1);
  const Index stride = rounded_stride(cols);
  auto to = test::unwritten<float>(rounded_scratch(rows, cols) + 4);
  float* scratch = to.data();
  const Rounded found = round_to_bfloat16<cols>(nullptr, numbers.data() + first, rows, scratch);
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

}  // namespace

TEST_SUITE_BEGIN("cuda/rounded");

TEST_CASE("numbers are rounded to nearest, rows begin on 16 bytes and are padded with zero") {
  check_rounding<8>(3);
  check_rounding<24>(40);
  check_rounding<24>(5, 1);  // not on 16 bytes
  check_rounding<1>(2);
  check_rounding<77>(9);
  check_rounding<16>(0);
}

TEST_CASE("parameters are rounded in their places") {
  const auto numbers = test::numbers<float>(48, 1);
  std::vector<__nv_bfloat16> to(48, std::numeric_limits<float>::quiet_NaN());
  round_parameters(nullptr, numbers.data(), 48, to.data());
  for (std::size_t i = 0; i < 48; ++i) CHECK(float(to[i]) == float(__float2bfloat16(numbers[i])));
}

TEST_SUITE_END();
