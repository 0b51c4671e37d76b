// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/models/published.hpp
/// The numbers of parameters that the papers state, counted as each of them counts.
///
/// `parameters<model>` counts what is trained. The code of "Simplifying Transformer Blocks" also counts what its blocks
/// hold and do not use; the encoder of NormFormer's code has no head scales, whatever its flags say.

#include <simplx/core/counts.hpp>
#include <simplx/models/code_parrot.hpp>
#include <simplx/models/crammed_bert.hpp>
#include <simplx/models/languini.hpp>
#include <simplx/models/norm_former.hpp>

#include <optional>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {
template <auto const& model, class... Models>
constexpr bool is_one_of(const Models&... models) {
  return ((static_cast<const void*>(&model) == static_cast<const void*>(&models)) || ...);
}
}  // namespace detail

/// The count behind a published figure; nothing where none is published.
///
/// Source  He & Hofmann 2024, Sec. 5 and App. C: 167M and 146M, 120M and 101M, "100M"; Shleifer et al. 2021, Tables 2
///         and 3: 124.4, 124.5, 354.7, ... 2649.5 million; 125.42, 125.50, 125.51 million
template <auto const& model>
constexpr std::optional<Index> parameters_published() {
  namespace p = presets;
  if constexpr (detail::is_one_of<model>(p::codeparrot_pre_ln, p::codeparrot_sas)) {
    return released_parameters(model);
  } else if constexpr (detail::is_one_of<model>(p::bert_pre_ln, p::bert_parallel, p::bert_v_skip_init_shaped,
                                                p::bert_sas, p::bert_sas_p, p::bert_sas_p_no_norm,
                                                p::languini_pre_ln, p::languini_sas)) {
    return parameters<model>;
  } else if constexpr (detail::is_one_of<model>(
                           p::normformer_125m_baseline, p::normformer_125m_normformer, p::normformer_125m_resscale,
                           p::normformer_355m_baseline, p::normformer_355m_normformer, p::normformer_355m_resscale,
                           p::normformer_1300m_baseline, p::normformer_1300m_normformer,
                           p::normformer_2700m_baseline, p::normformer_2700m_relu2_baseline,
                           p::normformer_2700m_normformer)) {
    return parameters<model>;
  } else if constexpr (detail::is_one_of<model>(p::normformer_mlm_baseline, p::normformer_mlm_normformer,
                                                p::normformer_mlm_resscale)) {
    const bool head_scales = model.block.head_scale != HeadScale::none;
    return parameters<model> - (head_scales ? model.layers * model.heads : 0);
  } else {
    return std::nullopt;
  }
}

}  // namespace simplx
