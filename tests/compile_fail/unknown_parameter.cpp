// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: The shape of a parameter is asked for that the model does not have.
// expect: simplx: the model has no parameter of that name
#include <simplx/core/parameters.hpp>
#include <simplx/models/decoder.hpp>

using namespace simplx;

inline constexpr Decoder model{};
#ifdef FIXED
static_assert(parameter_shape<model>("embedding.weight") == fixed_shape(256, 128));
#else
static_assert(parameter_shape<model>("embeddings.weight") == fixed_shape(256, 128));
#endif
