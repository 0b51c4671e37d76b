// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/models/within.hpp
/// A model that fits into so many bytes: as many of its first layers as that takes are evaluated again in backward.
///
///     constexpr Decoder large{.block = sas_p, .width = 768, .heads = 12, .layers = 12, .context = 1024};
///     constexpr auto& model = within<large, 300'000'000, tokens{1024}>;  // 286 MB instead of 418:
///     static_assert(model.recomputed == 6);                             // forward takes half as long again

#include <simplx/core/counts.hpp>

#include <algorithm>

namespace simplx::inline SIMPLX_TARGET {

/// The model with that number of recomputed layers. A model of your own has members `layers` and `recomputed`, and
/// stack("...", layers, recompute_first(recomputed, block), x).
template <auto const& model, int recomputed_layers>
inline constexpr auto with_recomputed = [] {
  auto copy = model;
  copy.recomputed = recomputed_layers;
  return copy;
}();

namespace detail {

/// The fewest layers that have to be recomputed, from a first guess on: bytes fall from layer to layer, if not evenly.
template <auto const& model, Index bytes, Rows rows, class Backend, int guess>
constexpr int settle_recomputed() {
  constexpr auto fits = []<int layers>(std::integral_constant<int, layers>) {
    return arena_bytes_on<with_recomputed<model, layers>, Backend>(rows) <= bytes;
  };
  if constexpr (guess < model.layers && !fits(std::integral_constant<int, guess>{})) {
    return settle_recomputed<model, bytes, rows, Backend, guess + 1>();
  } else if constexpr (guess > 1) {
    if constexpr (fits(std::integral_constant<int, guess - 1>{})) {
      return settle_recomputed<model, bytes, rows, Backend, guess - 1>();
    } else {
      return guess;
    }
  } else {
    return guess;
  }
}

template <auto const& model, Index bytes, Rows rows, class Backend>
constexpr int fewest_recomputed() {
  constexpr Index none = arena_bytes_on<with_recomputed<model, 0>, Backend>(rows);
  if constexpr (none <= bytes) {
    return 0;
  } else {
    constexpr int layers = model.layers;
    constexpr Index one = arena_bytes_on<with_recomputed<model, 1>, Backend>(rows);
    constexpr Index all = arena_bytes_on<with_recomputed<model, layers>, Backend>(rows);
    static_assert(all <= bytes,
                  "simplx: the model does not fit into these bytes even if every layer is recomputed; allow more, or "
                  "give it fewer rows");
    constexpr Index guess = one <= bytes ? 1 : 1 + (layers - 1) * (one - bytes) / std::max<Index>(one - all, 1);
    return settle_recomputed<model, bytes, rows, Backend, static_cast<int>(std::clamp<Index>(guess, 1, layers))>();
  }
}

}  // namespace detail

/// The model with as few recomputed layers as keep an evaluation of these rows within so many bytes (arena_bytes_on);
/// parameters, names, values and gradients stay what they are.
///
/// Errors  does not compile if the model does not fit with all its layers recomputed
/// Cost    the forward of the recomputed layers once more; to the compiler, three or four plans of the model
template <auto const& model, Index bytes, Rows rows, class Backend = Cpu<float, Path::fast>>
inline constexpr auto within =
    with_recomputed<model, detail::fewest_recomputed<model, bytes, rows, Backend>()>;

}  // namespace simplx
