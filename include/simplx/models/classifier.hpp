// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/models/classifier.hpp
/// A pretrained encoder with a head for whole sequences, as both papers fine-tune theirs on GLUE, but for STS-B, a
/// regression:
///
///     x = what leaves the encoder's last norm;   logits = dropout(tanh(x_1 W + b)) C + c
///
/// x_1 is the first token of its sequence. The encoder's parameters keep their names and shapes, so that `load_body`
/// reads its checkpoint; those of the head are `head_parameters`.
///
/// Sequences lie one after the other, each as long as it is, and none sees another: there is no padding to hide.
/// Two sentences are one sequence with a token between them (train/sentences.hpp).

#include <simplx/models/encoder.hpp>

#include <string>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// Loss of each sequence of an Encoder or EncoderOf; inputs "tokens", and "labels" with one class for each sequence.
///
/// Errors  does not compile for a block: ClassifierOf<EncoderOf<MyBlock>>
template <class Body>
struct ClassifierOf {
  static constexpr bool takes_heads = requires(const Body& body, const SequenceHead& of) { body.ending_with(of); };
  static_assert(takes_heads,
                "simplx: ClassifierOf takes the model whose head it replaces, not its block: "
                "ClassifierOf<EncoderOf<MyBlock>>");
  Body encoder;  ///< its own head is not used
  SequenceHead head{};

  constexpr Expr logits() const { return encoder.ending_with(head); }
  constexpr Expr operator()() const { return cross_entropy(logits(), indices("labels", Axis::sequences)); }
};
using Classifier = ClassifierOf<Encoder>;

/// The names of what a classifier has and its encoder lacks.
inline std::vector<std::string> head_parameters() { return {"pooler.*", "classifier.*"}; }

}  // namespace simplx
