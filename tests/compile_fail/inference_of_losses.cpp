// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: Inference is of logits; a decoder gives the loss of each token, from labels that are not known then.
// expect: error: .*simplx: Inference needs a model of indices
#include <simplx/generate/inference.hpp>
#include <simplx/models/decoder.hpp>

using namespace simplx;

inline constexpr Decoder model{.block = sas_p, .vocab = 16, .width = 16, .heads = 2, .layers = 2, .context = 8};
#ifdef FIXED
template class simplx::Inference<logits_of<model>>;
#else
template class simplx::Inference<model>;
#endif
