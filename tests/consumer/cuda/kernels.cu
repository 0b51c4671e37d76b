// SPDX-License-Identifier: MIT
// The one source that nvcc compiles: a sum on the GPU, in a program with names of its own.
#include <simplx/cuda/products.cuh>
#include <simplx/cuda/reduce.cuh>
#include <simplx/cuda/upload.cuh>

#include <string_view>
#include <vector>

using namespace simplx;

namespace {

struct Number {};
struct Upload {};

void check(cudaError_t, std::string_view) {}
constexpr int launch = 1;

}  // namespace

double sum_on_gpu(const std::vector<float>& numbers) {
  const GpuStream stream;
  const gpu::Products products;  // none is asked for, but cuBLASLt must start
  DeviceBuffer<float> values(static_cast<Index>(numbers.size())), total(1);
  std::vector<float> sum(1);
  values.copy_from(numbers, stream);
  gpu::column_sums<Write::store>(stream, values.data(), {.row = 1}, static_cast<int>(numbers.size()), 1, total.data());
  total.copy_to(sum, stream);
  stream.synchronize();
  check(cudaGetLastError(), "the sum was not taken");
  static_assert(launch + sizeof(Number) + sizeof(Upload) == 3);
  return sum[0];
}
