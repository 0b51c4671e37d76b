// SPDX-License-Identifier: MIT
#pragma once

// The blocks on offer; each model is compiled in a source of its own (blocks/).

#include "options.hpp"

#include <algorithm>

namespace train_lm {

inline constexpr Block blocks[] = {
    {"pre_ln", make_trainer<simplx::pre_ln>},
    {"parallel", make_trainer<simplx::parallel>},
    {"v_skip_init_shaped", make_trainer<simplx::v_skip_init_shaped>},
    {"sas", make_trainer<simplx::sas>},
    {"sas_p", make_trainer<simplx::sas_p>},
    {"sas_p_norm_free", make_trainer<simplx::sas_p_norm_free>},
};

inline std::vector<std::string> block_names() {
  std::vector<std::string> names;
  for (const Block& block : blocks) names.push_back(block.name);
  return names;
}

/// The block of one of these names.
inline const Block& block_named(const std::string& name) {
  return *std::ranges::find_if(blocks, [&](const Block& block) { return block.name == name; });
}

}  // namespace train_lm
