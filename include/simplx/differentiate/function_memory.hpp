// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/differentiate/function_memory.hpp
/// The memory of a Function, and how it is laid out once the rows of all inputs are known.

#include <simplx/core/inputs.hpp>
#include <simplx/cpu/cpu.hpp>
#include <simplx/cpu/workspace.hpp>
#include <simplx/differentiate/object.hpp>
#include <simplx/train/initialise.hpp>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// Compiled once for each number type, not for each function.
template <class S>
class FunctionMemory {
 public:
  const TensorList& tensors() const { return tensors_; }
  std::span<S> parameters() { return parameters_.span(); }
  /// Those of all parameters, element by element, as the last backward left them.
  std::span<const S> gradients() { return gradients_.span(); }
  /// What dropout draws from; see Randomness.
  Randomness& random() { return context_.random; }

 protected:
  FunctionMemory(const GraphView& graph, TensorList tensors, Index (*scratch)(const Rows&), std::uint64_t seed)
      : graph_(graph),
        scratch_(scratch),
        tensors_(std::move(tensors)),
        parameters_(graph.parameters),
        gradients_(graph.parameters),
        constants_(graph.constants),
        packed_(graph.packed) {
    initialise(tensors_.parameters, seed, parameters_.data());
    initialise(tensors_.constants, seed, constants_.data());
  }

  std::string name_of(int node) const { return std::string(graph_.label[node].name.view()); }

  void check_size(int node, const ObjectSize& size) const {
    const Shape& shape = graph_.info[node].shape;
    if (size.cols == shape.cols && (!shape.is_fixed() || size.rows == shape.rows)) return;
    const std::string rows = shape.is_fixed() ? std::to_string(shape.rows) : "any";
    throw Error(name_of(node) + " is given " + std::to_string(size.rows) + " x " + std::to_string(size.cols) +
                    " numbers",
                "the function needs " + rows + " x " + std::to_string(shape.cols));
  }
  /// The rows of an input that is about to be set.
  Index take_rows(int node, const ObjectSize& size) {
    check_size(node, size);
    const Shape& shape = graph_.info[node].shape;
    given_[graph_.input[node]] = true;
    if (shape.is_fixed()) return shape.rows;
    Index& known = input_rows_[graph_.input[node]];
    stale_ |= known != size.rows;
    return known = size.rows;
  }
  void take_lengths(std::span<const Index> lengths) {
    offsets_ = offsets_of(lengths);
    sequences_given_ = stale_ = true;
  }

  /// Results and gradients lie in memory that the first evaluation makes.
  void check_evaluated(const char* asked) const {
    if (arena_) return;
    throw Error(std::string(asked) + " without a forward()", "call forward() or value_and_grad() before");
  }

  /// The context begins at row `row` of an axis.
  void start_at(Axis axis, Index row) {
    for (int i = 0; i < graph_.count; ++i) {
      if (!graph_.is_input(i)) continue;
      const Shape& shape = graph_.info[i].shape;
      const bool whole_numbers = graph_.info[i].kind == Kind::indices;
      const Index bytes = static_cast<Index>(whole_numbers ? sizeof(std::int32_t) : sizeof(S));
      const Index skipped = shape.axis == axis ? row * shape.cols * bytes : 0;
      context_.inputs[graph_.input[i]] = static_cast<const char*>(pointers_[graph_.input[i]]) + skipped;
    }
    context_.random.first_sequence += row;  // the masks that it has among all rows
  }

  /// Sizes everything to the rows of what was bound.
  void arrange() {
    Rows rows = rows_of_inputs();
    arrange_sequences(rows);
    rows.longest_sequence = longest_of(graph_, offsets_);
    const Randomness random = context_.random;
    arena_.emplace(graph_, scratch_(rows), rows);
    context_ = arena_->context(rows, {offsets_.data(), rows.sequences}, rows.longest_sequence);
    context_.random = random;
    context_.parameters = parameters_.data();
    context_.gradients = gradients_.data();
    context_.constants = constants_.data();
    context_.packed = packed_.data();
    for (int i = 0; i < graph_.count; ++i) {
      if (graph_.info[i].kind != Kind::input || !graph_.wanted[i]) continue;
      const int number = graph_.input[i];
      const Shape& shape = graph_.info[i].shape;
      input_gradients_[number] = Buffer<S>(context_.rows_of(shape) * shape.cols);
      context_.input_gradients[number] = input_gradients_[number].data();
    }
    stale_ = false;
  }

  GraphView graph_;
  Index (*scratch_)(const Rows&);
  TensorList tensors_;
  Buffer<S> parameters_, gradients_, constants_, packed_;
  Buffer<S> inputs_[max_inputs], input_gradients_[max_inputs];
  Buffer<std::int32_t> indices_[max_inputs];
  const void* pointers_[max_inputs]{};
  Index input_rows_[max_inputs]{};
  bool given_[max_inputs]{}, sequences_given_ = false;
  std::vector<Index> offsets_{0};
  std::optional<Arena<S>> arena_;
  Context<S> context_;
  bool stale_ = true;

 private:
  Rows rows_of_inputs() const {
    Rows rows{};
    for (int i = 0; i < graph_.count; ++i) {
      if (!graph_.is_input(i)) continue;
      const int number = graph_.input[i];
      const std::string name = name_of(i);
      if (!given_[number]) {
        throw Error("the input '" + name + "' was never set", "give it by set<\"" + name + "\">(...)");
      }
      const Axis axis = graph_.info[i].shape.axis;
      Index* count = axis == Axis::tokens ? &rows.tokens : axis == Axis::sequences ? &rows.sequences
                   : axis == Axis::labelled ? &rows.labelled : axis == Axis::batch ? &rows.batch : nullptr;
      if (!count) continue;
      bool first = true;
      for (int j = 0; j < i; ++j) first &= !(graph_.is_input(j) && graph_.info[j].shape.axis == axis);
      if (!first && *count != input_rows_[number]) {
        throw Error("'" + name + "' has " + std::to_string(input_rows_[number]) +
                        " rows, another input along its axis has " + std::to_string(*count),
                    "inputs along one axis need equal numbers of rows");
      }
      *count = input_rows_[number];
    }
    return rows;
  }

  /// One sequence of all tokens unless lengths were given; rows of Axis::sequences are these sequences.
  void arrange_sequences(Rows& rows) {
    const Index inputs = rows.sequences;  // the rows of an input along that axis
    bool has_tokens = false, has_sequences = false;
    for (int i = 0; i < graph_.count; ++i) {
      has_tokens |= graph_.is_input(i) && graph_.info[i].shape.axis == Axis::tokens;
      has_sequences |= graph_.is_input(i) && graph_.info[i].shape.axis == Axis::sequences;
    }
    if (!sequences_given_) {
      offsets_.assign(1, 0);
      const Index count = has_tokens || !has_sequences ? 1 : inputs;
      for (Index s = 1; s <= count; ++s) offsets_.push_back(has_tokens ? rows.tokens : 0);
    }
    rows.sequences = static_cast<Index>(offsets_.size()) - 1;
    if (offsets_.back() != rows.tokens) {
      throw Error("the sequences have " + std::to_string(offsets_.back()) + " tokens together, not " +
                      std::to_string(rows.tokens),
                  "give the lengths of all sequences by set_sequences");
    }
    if (has_sequences && inputs != rows.sequences) {
      throw Error("an input has " + std::to_string(inputs) + " rows for " + std::to_string(rows.sequences) +
                      " sequences",
                  "give the lengths of all sequences by set_sequences");
    }
  }
};

}  // namespace detail

}  // namespace simplx
