// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/halves.cuh
/// Which values Cuda<Precision::bfloat16> stores as bfloat16: those that nobody reads but products with weights and
/// attention, which would round them. It is known at compile time. A residual stream, logits, what elementwise ops read
/// and every gradient are float.

#include <simplx/core/graph.hpp>
#include <simplx/cuda/products.cuh>

#include <array>
#include <cstring>
#include <type_traits>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

constexpr bool is_attention(Tag op) {
  return op == Tag("softmax_attention") || op == Tag("skip_init_attention") || op == Tag("shaped_attention");
}

/// For each node whether its value is stored in bfloat16.
template <class G>
constexpr auto halves_of() {
  std::array<bool, G::count> half{};
  for (int i = 0; i < G::count; ++i) {
    const Info& info = G::table.info[i];
    const Tag op = G::flat.label[i].op;
    const bool written = (info.kind == Kind::map && G::fusion.group[i] == i) || op == Tag("matmul") ||
                         op == Tag("rms_norm") || op == Tag("layer_norm") || is_attention(op);
    const bool fits = !info.shape.is_fixed() && info.shape.cols % 8 == 0;  // rows on 16 bytes
    half[static_cast<std::size_t>(i)] = written && fits && !info.result && !info.observed;
  }
  std::array<bool, G::count> read{};
  for (int reader = 0; reader < G::count; ++reader) {
    const Info& info = G::table.info[reader];
    const Tag op = G::flat.label[reader].op;
    for (int a = 0; a < info.argument_count; ++a) {
      const auto node = static_cast<std::size_t>(info.arguments[a]);
      const bool rounds = op == Tag("matmul") ? a == 0 : is_attention(op) && a < 3;
      half[node] = half[node] && rounds;
      read[node] = true;
    }
  }
  for (std::size_t i = 0; i < half.size(); ++i) half[i] = half[i] && read[i];
  return half;
}
template <class G>
inline constexpr auto halves = halves_of<G>();

}  // namespace detail

/// Whether a backend stores the value of a node as bfloat16.
template <class Backend, class G, int node>
inline constexpr bool is_half = Backend::halves && detail::halves<G>[static_cast<std::size_t>(node)];

/// What a value lies in memory as.
template <bool half, class S>
using Stored = std::conditional_t<half, __nv_bfloat16, S>;

/// A place whose numbers are stored so.
template <bool half, class S>
SIMPLX_HD auto* stored(S* place) {
  using To = std::conditional_t<std::is_const_v<S>, const Stored<half, std::remove_const_t<S>>, Stored<half, S>>;
  return reinterpret_cast<To*>(place);
}

/// to = value, rounded to nearest if that is a bfloat16.
template <class S>
__device__ __forceinline__ void set_rounded(S& to, S value) {
  to = value;
}
__device__ __forceinline__ void set_rounded(__nv_bfloat16& to, float value) { to = __float2bfloat16(value); }

__device__ __forceinline__ float wide(float value) { return value; }
__device__ __forceinline__ double wide(double value) { return value; }
__device__ __forceinline__ float wide(__nv_bfloat16 value) { return __bfloat162float(value); }

}  // namespace simplx
