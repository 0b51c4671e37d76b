// SPDX-License-Identifier: MIT
#include <simplx/core/parameters.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
inline constexpr Decoder model{
    .block = sas_p, .vocab = 61, .width = 32, .heads = 4, .hidden = 128, .layers = 3, .context = 16};
static_assert(parameter_shape<model>("blocks.1.mlp.up.weight") == fixed_shape(32, 128));
static_assert(parameter_shape<model>("blocks.0.attention.value.alpha") == fixed_shape(1, 1));
static_assert(!has_parameter<model>("blocks.3.mlp.up.weight") && !has_parameter<model>("blocks.x.mlp") &&
              !has_parameter<model>("blocks"));
}  // namespace

TEST_CASE("core/parameters: tensors cover the flat buffer once, aligned, under the names of checkpoints") {
  const TensorList list = tensors_of<model>();
  Index end = 0, total = 0;
  for (const TensorInfo& tensor : list.parameters) {
    CHECK(tensor.offset == end);
    CHECK(tensor.offset % alignment == 0);
    end += round_up(tensor.size(), alignment);
    total += tensor.size();
    CHECK(parameter_shape<model>(tensor.name) == tensor.shape);
  }
  CHECK(end == GraphOf<model>::layout.parameters);
  CHECK(total == parameters<model>);
  CHECK(list.parameters.front().name == "embedding.weight");
  CHECK(list.parameters.back().name == "final_norm.gain");
  Index constants = 0;
  std::vector<std::string> names;
  for (const TensorInfo& tensor : list.constants) {
    CHECK(tensor.offset == constants);
    constants += round_up(tensor.size(), alignment);
    names.push_back(tensor.name);
  }
  CHECK(constants == GraphOf<model>::layout.constants);
  CHECK(std::ranges::count(names, "blocks.2.norm1.epsilon") == 1);
  CHECK(std::ranges::count(names, "position.table") == 1);
}
