// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/differentiate/function_inputs.hpp
/// What a Function was given on the host, whatever evaluates it: inputs, sequences, and how many rows they make.

#include <simplx/core/inputs.hpp>
#include <simplx/cpu/memory.hpp>
#include <simplx/differentiate/object.hpp>
#include <simplx/train/initialise.hpp>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace simplx::inline SIMPLX_TARGET::detail {

/// Whose memory an input is: that of the caller may change, and may be that of a GPU.
enum class Holder : unsigned char { nobody, function, caller, device };

/// Whether an object holds what it was made with: no longer once that was moved elsewhere.
class Present {
 public:
  Present() = default;
  Present(Present&& other) noexcept : present_(std::exchange(other.present_, false)) {}
  Present& operator=(Present&& other) noexcept {
    present_ = std::exchange(other.present_, false);
    return *this;
  }
  explicit operator bool() const { return present_; }

 private:
  bool present_ = true;
};

/// Compiled once for each number type, not for each function.
template <class S>
class FunctionInputs {
 public:
  const TensorList& tensors() const { return tensors_; }
  /// What dropout draws from; see Randomness.
  Randomness& random() { return context_.random; }

 protected:
  FunctionInputs(const GraphView& graph, TensorList tensors) : graph_(graph), tensors_(std::move(tensors)) {}

  /// Errors  throws for what was moved from: its results and gradients lie in memory of another
  void check_present() const {
    if (!present_) throw Error("this function was moved from", "use the one that it was moved to, or assign one to it");
  }
  std::string name_of(int node) const { return std::string(graph_.label[node].name.view()); }

  void check_size(int node, const ObjectSize& size) const {
    check_present();
    const Shape& shape = graph_.info[node].shape;
    if (size.cols == shape.cols && (!shape.is_fixed() || size.rows == shape.rows)) return;
    const std::string cols = std::to_string(shape.cols);
    throw Error(name_of(node) + " is given " + std::to_string(size.rows) + " x " + std::to_string(size.cols) +
                    " numbers",
                shape.is_fixed() ? "the function needs " + std::to_string(shape.rows) + " x " + cols
                                 : "the function needs rows of " + cols + ", any number of them");
  }
  /// The rows of an input that is about to be given.
  Index take_rows(int node, const ObjectSize& size, Holder holder) {
    check_size(node, size);
    const Shape& shape = graph_.info[node].shape;
    const int number = graph_.input[node];
    holder_[number] = holder;
    changed_[number] = true;
    if (shape.is_fixed()) return shape.rows;
    Index& known = input_rows_[number];
    stale_ |= known != size.rows;
    return known = size.rows;
  }
  void take_lengths(std::span<const Index> lengths) {
    check_present();
    bool same = sequences_given_ && lengths.size() + 1 == offsets_.size();
    for (std::size_t s = 0; same && s < lengths.size(); ++s) same = offsets_[s + 1] - offsets_[s] == lengths[s];
    if (same) return;
    offsets_ = offsets_of(lengths);
    sequences_given_ = stale_ = true;
  }

  /// Counts the rows of everything that was given, sequences among them.
  void count_rows() {
    check_present();
    rows_ = rows_of_inputs();
    arrange_sequences(rows_);
    rows_.longest_sequence = longest_of(graph_, offsets_);
  }
  /// Makes an arena that holds these rows, and the most of each kind so far; whether it had to.
  template <class Memory>
  bool make_room(std::optional<Memory>& arena, Index (*scratch)(const Rows&)) {
    if (arena && arena->capacity().hold(rows_)) return false;
    const Rows room = arena ? arena->capacity().or_more(rows_) : rows_;
    arena.reset();  // the larger one comes in its place, not beside it
    arena.emplace(graph_, scratch(room), room);
    return true;
  }
  Index size_of(int node) const {
    const Shape& shape = graph_.info[node].shape;
    return context_.rows_of(shape) * shape.cols;
  }

  /// The context, which is that of all rows, begins at row `row` of an axis and has one of them.
  void start_at(Axis axis, Index row) {
    context_.rows[static_cast<int>(axis)] = 1;
    for (int i = 0; i < graph_.count; ++i) {
      if (!graph_.is_input(i)) continue;
      const Shape& shape = graph_.info[i].shape;
      if (shape.axis != axis) continue;
      const bool whole_numbers = graph_.info[i].kind == Kind::indices;
      const Index bytes = static_cast<Index>(whole_numbers ? sizeof(std::int32_t) : sizeof(S));
      const void*& place = context_.inputs[graph_.input[i]];
      place = static_cast<const char*>(place) + row * shape.cols * bytes;
    }
    context_.random.first_sequence += row;  // the masks that it has among all rows
  }

  GraphView graph_;
  TensorList tensors_;
  cpu::Buffer<S> inputs_[max_inputs];
  cpu::Buffer<std::int32_t> indices_[max_inputs];
  const void* pointers_[max_inputs]{};  ///< to what was given
  Holder holder_[max_inputs]{};
  bool changed_[max_inputs]{};  ///< given anew since whoever evaluates has looked
  Rows rows_;                   ///< of everything that was given
  std::vector<Index> offsets_{0};
  Context<S> context_;  ///< of the last evaluation, where that lies
  bool stale_ = true;   ///< rows are not those of the context

 private:
  Rows rows_of_inputs() const {
    Rows rows{};
    for (int i = 0; i < graph_.count; ++i) {
      if (!graph_.is_input(i)) continue;
      const int number = graph_.input[i];
      if (holder_[number] == Holder::nobody) {
        const std::string name = name_of(i);
        throw Error("the input '" + name + "' was never set", "give it by set<\"" + name + "\">(...)");
      }
      const Axis axis = graph_.info[i].shape.axis;
      Index* count = axis == Axis::tokens ? &rows.tokens : axis == Axis::sequences ? &rows.sequences
                   : axis == Axis::labelled ? &rows.labelled : axis == Axis::batch ? &rows.batch : nullptr;
      if (!count) continue;
      bool first = true;
      for (int j = 0; j < i; ++j) first &= !(graph_.is_input(j) && graph_.info[j].shape.axis == axis);
      if (!first && *count != input_rows_[number]) {
        throw Error("'" + name_of(i) + "' has " + std::to_string(input_rows_[number]) +
                        " rows, another input along its axis has " + std::to_string(*count),
                    "inputs along one axis need equal numbers of rows");
      }
      *count = input_rows_[number];
    }
    return rows;
  }

  /// One sequence of all tokens unless lengths were given; rows of Axis::sequences are these sequences. Tokens that no
  /// input has, as those of repeat_over_sequence, are those of the lengths.
  void arrange_sequences(Rows& rows) {
    const Index inputs = rows.sequences;  // the rows of an input along that axis
    bool has_tokens = false, makes_tokens = false, has_sequences = false;
    for (int i = 0; i < graph_.count; ++i) {
      makes_tokens |= graph_.info[i].shape.axis == Axis::tokens;
      has_tokens |= graph_.is_input(i) && graph_.info[i].shape.axis == Axis::tokens;
      has_sequences |= graph_.is_input(i) && graph_.info[i].shape.axis == Axis::sequences;
    }
    if (!sequences_given_) {
      offsets_.assign(1, 0);
      const Index count = has_tokens || !has_sequences ? 1 : inputs;
      for (Index s = 1; s <= count; ++s) offsets_.push_back(has_tokens ? rows.tokens : 0);
    }
    if (makes_tokens && !has_tokens && !sequences_given_) {
      throw Error("nothing that was given has tokens, and the function makes some",
                  "give the lengths of all sequences by set_sequences");
    }
    if (makes_tokens && !has_tokens) rows.tokens = offsets_.back();
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

  Index input_rows_[max_inputs]{};
  bool sequences_given_ = false;
  Present present_;
};

}  // namespace simplx::inline SIMPLX_TARGET::detail
