// SPDX-License-Identifier: MIT
// The one source that nvcc compiles: a sum on the GPU.
#include <simplx/cuda/products.cuh>
#include <simplx/cuda/reduce.cuh>

#include <vector>

double sum_on_gpu(const std::vector<float>& numbers) {
  const simplx::GpuStream stream;
  const simplx::Products products;  // none is asked for, but cuBLASLt must start
  simplx::DeviceBuffer<float> values(static_cast<simplx::Index>(numbers.size()));
  simplx::DeviceBuffer<float> total(1);
  std::vector<float> sum(1);
  values.copy_from(numbers, stream);
  simplx::column_sums<simplx::Write::store>(stream, values.data(), {.row = 1}, static_cast<int>(numbers.size()), 1,
                                            total.data());
  total.copy_to(sum, stream);
  stream.synchronize();
  return sum[0];
}
