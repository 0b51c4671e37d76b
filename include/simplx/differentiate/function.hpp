// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/differentiate/function.hpp
/// Function<f>: a function of named inputs with its gradient, bound to Eigen objects, spans and numbers.
///
///     inline constexpr auto least_squares = [] {
///       auto A = input("A", rows_of(Axis::batch, 8)), y = input("y", rows_of(Axis::batch, 1));
///       auto w = variable("w", fixed_shape(8, 1));                       // its gradient is wanted
///       return mean(square(A * w - y));
///     };
///
///     Function<least_squares> f;
///     f.bind<"A">(A).bind<"y">(y).set<"w">(w);       // A is row-major and read in place; w is copied
///     double loss = f.value_and_grad();
///     w -= 0.1 * f.gradient<"w">();
///
/// The compiler derives the gradient; here is only memory. Rows of an axis are those of what was bound last.

#include <simplx/differentiate/object.hpp>
#include <simplx/train/evaluation.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

/// What a function holds, and how it is laid out: compiled once for each number type, not for each function.
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
    offsets_.assign(1, 0);
    for (const Index length : lengths) offsets_.push_back(offsets_.back() + length);
    sequences_given_ = stale_ = true;
  }

  /// Every index must name a row of the table that it looks up, every label a class or -100.
  void check_indices(int node, Index bound, std::int32_t nothing) const {
    const auto* values = static_cast<const std::int32_t*>(context_.inputs[graph_.input[node]]);
    for (Index row = 0; row < context_.rows_of(graph_.info[node].shape); ++row) {
      if ((values[row] >= 0 && values[row] < bound) || values[row] == nothing) continue;
      throw Error("'" + name_of(node) + "' names " + std::to_string(values[row]) + " in row " + std::to_string(row),
                  "it must be at least 0 and below " + std::to_string(bound));
    }
  }

  /// Inputs begin at row `row` of an axis.
  void start_at(Axis axis, Index row) {
    for (int i = 0; i < graph_.count; ++i) {
      if (!graph_.is_input(i)) continue;
      const Shape& shape = graph_.info[i].shape;
      const bool whole_numbers = graph_.info[i].kind == Kind::indices;
      const Index bytes = static_cast<Index>(whole_numbers ? sizeof(std::int32_t) : sizeof(S));
      const Index skipped = shape.axis == axis ? row * shape.cols * bytes : 0;
      context_.inputs[graph_.input[i]] = static_cast<const char*>(pointers_[graph_.input[i]]) + skipped;
    }
  }

  /// Sizes everything to the rows of what was bound.
  void arrange() {
    Rows rows = rows_of_inputs();
    arrange_sequences(rows);
    for (std::size_t s = 0; s + 1 < offsets_.size(); ++s) {
      rows.longest_sequence = std::max(rows.longest_sequence, offsets_[s + 1] - offsets_[s]);
    }
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

template <auto const& f, class Backend_ = Cpu<double>>
class Function : public detail::FunctionMemory<typename Backend_::Scalar> {
  using Memory = detail::FunctionMemory<typename Backend_::Scalar>;
  using Memory::context_, Memory::parameters_, Memory::gradients_, Memory::constants_, Memory::packed_,
      Memory::pointers_, Memory::inputs_, Memory::indices_, Memory::stale_, Memory::check_size, Memory::take_rows;

 public:
  using Backend = Backend_;
  using S = typename Backend::Scalar;
  using G = GraphOf<f>;
  using Run = Execute<G, Backend>;

  /// `seed` is that of the initial values of parameters that the function makes.
  explicit Function(std::uint64_t seed = 0)
      : Memory(view_of<G>, tensors_of<f>(), detail::graph_scratch<G, Backend>, seed) {}

  /// Copies an Eigen object, a container or a number into the input, parameter or constant of that name.
  ///
  /// Errors  does not compile for a name the function does not have; throws if the sizes do not fit
  template <Name name, class Object>
  Function& set(const Object& object) {
    constexpr int node = find<name>();
    const detail::ObjectSize size = detail::size_of<shape<node>>(object);
    if constexpr (is_input(node)) {
      using T = std::conditional_t<G::table.info[node].kind == Kind::indices, std::int32_t, S>;
      constexpr int number = G::layout.input[node];
      auto& buffer = storage<T>()[number];
      const Index rows = take_rows(node, size);
      if (buffer.size() < rows * shape<node>.cols) buffer = Buffer<T>(rows * shape<node>.cols);
      detail::assign<shape<node>>(object, rows, buffer.data());
      pointers_[number] = buffer.data();
    } else {
      check_size(node, size);
      S* place = G::table.info[node].kind == Kind::parameter ? parameters_.data() + G::layout.parameter[node]
                                                             : constants_.data() + G::layout.constant[node];
      detail::assign<shape<node>>(object, shape<node>.rows, place);
    }
    return *this;
  }

  /// Reads an input where it is: the object must outlive this, and changes to it are seen.
  ///
  /// Errors  does not compile unless the object is row-major (or a vector) of this function's scalar; throws if it is
  ///         a block with gaps
  template <Name name, class Object>
  Function& bind(const Object& object) {
    constexpr int node = find<name>();
    static_assert(is_input(node), "simplx: bind reads inputs in place; parameters and constants are copied by set");
    using T = std::conditional_t<G::table.info[node].kind == Kind::indices, std::int32_t, S>;
    static_assert(
        detail::contiguous<Object, T>,
        "simplx: bind reads row-major memory of the function's scalar (std::int32_t for indices) in place: use "
        "a RowMajor matrix, a vector or a span, or copy the object with set");
    if (!detail::dense(object)) {
      throw Error(std::string(name.view()) + " is a part of a larger matrix, with gaps between its rows or elements",
                  "copy it with set<\"" + std::string(name.view()) + "\">(...)");
    }
    take_rows(node, detail::size_of<shape<node>>(object));
    pointers_[G::layout.input[node]] = object.data();
    return *this;
  }

  /// Lengths of the packed sequences on the axis of tokens; one sequence unless given.
  Function& set_sequences(std::span<const Index> lengths) {
    Memory::take_lengths(lengths);
    return *this;
  }

  /// Evaluates all results.
  ///
  /// Errors  throws if an input is missing, if inputs along one axis have different numbers of rows, or if an index is
  ///         out of range. Views of results and gradients end when the number of rows changes.
  void forward() {
    if (stale_) Memory::arrange();
    for (int i = 0; i < G::layout.inputs; ++i) context_.inputs[i] = pointers_[i];
    check_indices();
    Run::prepare(parameters_.data(), packed_.data());
    Run::forward(context_);
  }
  /// Gradients of everything that wants one, from those of the results: see `seed`.
  ///
  /// Errors  throws unless it follows a forward() of the same rows
  void backward() {
    if (stale_) {
      throw Error("backward() without a forward() of these rows", "call forward() after set, bind and set_sequences");
    }
    std::ranges::fill(gradients_, S(0));
    Run::backward(context_);
  }

  /// The first result, a number.
  S value() {
    static_assert(result_shape(0) == fixed_shape(1, 1),
                  "simplx: value() is for functions whose first result is one number; use forward() and output<k>()");
    forward();
    return context_.outputs[0][0];
  }
  /// The same; afterwards gradient<name>() holds its gradients.
  S value_and_grad() {
    const S result = value();
    seed_first_result();
    backward();
    return result;
  }

  /// Result k.
  template <int k = 0>
  auto output() const {
    return detail::object_map<result_shape(k)>(context_.outputs[k], context_.rows_of(result_shape(k)));
  }
  /// The gradient of result k, to be filled before backward(), which uses it up.
  template <int k = 0>
  auto seed() {
    return detail::object_map<result_shape(k)>(context_.output_gradients[k], context_.rows_of(result_shape(k)));
  }
  /// The gradient with respect to an input or parameter, as the last backward left it.
  template <Name name>
  auto gradient() {
    constexpr int node = find<name>();
    static_assert(G::fusion.wanted[node],
                  "simplx: the gradient of this input is not wanted: make it a variable(...), or use with_respect_to");
    S* place = nullptr;
    if constexpr (is_input(node)) {
      place = context_.input_gradients[G::layout.input[node]];
    } else {
      place = gradients_.data() + G::layout.parameter[node];
    }
    return detail::object_map<shape<node>>(place, context_.rows_of(shape<node>));
  }

  /// One gradient for each row of the first result, (rows, 1): row r of the answer is the gradient of result r with
  /// respect to a static value, flattened. Rows must not depend on each other.
  ///
  /// Cost    one evaluation of a single row for each row
  template <Name name>
  Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> row_gradients() {
    constexpr int node = find<name>();
    constexpr Shape result = result_shape(0);
    static_assert(shape<node>.is_fixed() && !result.is_fixed() && result.cols == 1 && result.axis != Axis::tokens,
                  "simplx: row_gradients is for a first result of shape (rows, 1), rows that are not tokens of a "
                  "sequence, and a static value; of one number gradient<name>() is the gradient");
    forward();  // checks what was set
    const Context<S> whole = context_;
    const Index rows = whole.rows_of(result), size = shape<node>.columns();
    Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> all(rows, size);
    for (Index row = 0; row < rows; ++row) {
      context_ = whole;
      context_.rows[static_cast<int>(result.axis)] = 1;
      Memory::start_at(result.axis, row);
      Run::forward(context_);
      seed_first_result();
      backward();
      const auto g = gradient<name>();
      std::copy_n(g.data(), size, all.row(row).data());
    }
    context_ = whole;
    return all;
  }

  /// A parameter that the function makes, in place.
  template <Name name>
  auto parameter() {
    constexpr int node = find<name>();
    static_assert(G::table.info[node].kind == Kind::parameter,
                  "simplx: this name is no parameter but an input or a constant, which set or bind gives");
    return detail::object_map<shape<node>>(parameters_.data() + G::layout.parameter[node], shape<node>.rows);
  }

 private:
  template <Name name>
  static constexpr int find() {
    constexpr int node = [] {
      for (int i = 0; i < G::count; ++i) {
        const Kind kind = G::table.info[i].kind;
        const bool named = is_input(i) || kind == Kind::parameter || kind == Kind::constant;
        if (named && G::flat.label[i].name == name) return i;
      }
      return -1;
    }();
    static_assert(node >= 0,
                  "simplx: the function uses no input, parameter or constant of that name; with scopes it is as in "
                  "tensors()");
    return node;
  }
  static constexpr bool is_input(int node) {
    return G::table.info[node].kind == Kind::input || G::table.info[node].kind == Kind::indices;
  }
  template <int node>
  static constexpr Shape shape = G::table.info[node].shape;
  static constexpr Shape result_shape(int k) {
    for (int i = 0; i < G::count; ++i) {
      if (G::table.info[i].result && G::layout.output[i] == k) return G::table.info[i].shape;
    }
    return {};
  }
  template <class T>
  auto& storage() {
    if constexpr (std::is_same_v<T, S>) {
      return inputs_;
    } else {
      return indices_;
    }
  }

  /// Of the first result one, of the others nothing.
  void seed_first_result() {
    for (int k = 0; k < G::layout.outputs; ++k) {
      std::fill_n(context_.output_gradients[k], context_.rows_of(result_shape(k)) * result_shape(k).cols, S(k == 0));
    }
  }

  void check_indices() const {
    detail::unroll<0, G::count>([&]<int i>(std::integral_constant<int, i>) {
      if constexpr (G::table.info[i].kind == Kind::kernel && detail::index_operand<op_of<G, i>>() >= 0) {
        constexpr int node = G::table.info[i].arguments[detail::index_operand<op_of<G, i>>()];
        Memory::check_indices(node, op_of<G, i>::index_bound(this->context_, shape<G::table.info[i].arguments[0]>),
                              op_of<G, i>::index_of_nothing);
      }
    });
  }
};

}  // namespace simplx
