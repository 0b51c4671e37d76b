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

#include <simplx/core/rows_apart.hpp>
#include <simplx/differentiate/function_memory.hpp>
#include <simplx/differentiate/object.hpp>
#include <simplx/train/glob.hpp>

#include <span>
#include <string>
#include <string_view>

namespace simplx::inline SIMPLX_TARGET {

template <auto const& f, class T>
class Directional;

/// A function of named inputs with its gradient; owns its memory, and reads in place what is bound to it. One that was
/// moved from can be assigned to; else it throws.
template <auto const& f, class Backend_ = Cpu<double>>
class Function : public detail::FunctionOn<f, Backend_> {
  using Memory = detail::FunctionOn<f, Backend_>;
  using Memory::context_, Memory::pointers_, Memory::check_size, Memory::take_rows;

 public:
  using Backend = Backend_;
  using S = typename Backend::Scalar;
  using typename Memory::G;

  /// `seed` is that of the initial values of parameters that the function makes.
  ///
  /// Errors  throws Error, on a GPU, if there is none, or if its memory is short
  explicit Function(std::uint64_t seed = 0) : Memory(seed) {}

  /// Copies an Eigen object, a container or a number into the input, parameter or constant of that name.
  ///
  /// Errors  does not compile for a name the function does not have, nor for indices that are no integers; throws if
  ///         the sizes do not fit, or an index not into 32 bits
  template <Name name, class Object>
  Function& set(const Object& object) {
    constexpr int node = find<name>();
    static_assert(!detail::on_device<Object>,
                  "simplx: set copies from the host: give bind what lies on the device, which is read in place");
    static_assert(detail::NumbersFor<Object, S>,
                  "simplx: set copies an Eigen object, one number, or a container of numbers that lie one after "
                  "another (it has data() and size()): a std::vector, std::array or std::span, for example");
    const detail::ObjectSize size = detail::size_of<shape<node>>(object);
    if constexpr (is_input(node)) {
      using T = std::conditional_t<G::table.info[node].kind == Kind::indices, std::int32_t, S>;
      constexpr int number = G::layout.input[node];
      auto& buffer = storage<T>()[number];
      check_size(node, size);
      if constexpr (std::is_same_v<T, std::int32_t>) detail::check_numbers<T>(object);  // before anything changes
      const Index needed = (shape<node>.is_fixed() ? shape<node>.rows : size.rows) * shape<node>.cols;
      cpu::Buffer<T> larger(buffer.size() < needed ? needed : 0);  // before anything changes: memory may be short
      const Index rows = take_rows(node, size, detail::Holder::function);
      if (larger.size() != 0) buffer = std::move(larger);
      detail::assign<shape<node>>(object, rows, buffer.data());
      pointers_[number] = buffer.data();
    } else {
      check_size(node, size);
      S* place = G::table.info[node].kind == Kind::parameter
                     ? Memory::parameters().data() + G::layout.parameter[node]
                     : Memory::constants().data() + G::layout.constant[node];
      detail::assign_anew<shape<node>>(object, shape<node>.rows, place);
    }
    evaluated_ = false;
    return *this;
  }

  /// Reads an input where it is: the object must outlive this, and changes to it are seen. It is none of the function's
  /// own results or gradients, which are written meanwhile. On a GPU that is a DeviceBuffer of numbers, whose filling
  /// has been waited for; what lies on the host is copied at each forward().
  ///
  /// Errors  does not compile unless the object is row-major (or a vector) of this function's scalar, nor for a
  ///         temporary that owns its memory; throws if it is a block with gaps
  template <Name name, class Object_>
  Function& bind(Object_&& object) {
    using Object = std::remove_cvref_t<Object_>;
    constexpr int node = find<name>();
    static_assert(!has<name>() || is_input(node),
                  "simplx: bind reads inputs in place; parameters and constants are copied by set");
    using T = std::conditional_t<G::table.info[node].kind == Kind::indices, std::int32_t, S>;
    static_assert(
        detail::contiguous<Object, T>,
        "simplx: bind reads row-major memory of the function's scalar (std::int32_t for indices) in place: use "
        "a RowMajor matrix, a vector or a span, or copy the object with set");
    static_assert(std::is_lvalue_reference_v<Object_> || !detail::owning<Object>,
                  "simplx: bind reads memory that outlives the call, and this object ends with it: give it a name, or "
                  "copy it with set");
    if (!detail::dense(object)) {
      throw Error(std::string(name.view()) + " is a part of a larger matrix, with gaps between its rows or elements",
                  "copy it with set<\"" + std::string(name.view()) + "\">(...)");
    }
    constexpr detail::Holder holder = detail::on_device<Object> ? detail::Holder::device : detail::Holder::caller;
    static_assert(!has<name>() || holder == detail::Holder::caller || G::table.info[node].kind == Kind::input,
                  "simplx: indices are checked on the host, and sorted there: bind or set those that lie there");
    static_assert(holder == detail::Holder::caller || requires { Backend::on_device; },
                  "simplx: memory of a GPU is read by functions that run there, on Cuda<...>: copy it to the host "
                  "first");
    take_rows(node, detail::size_of<shape<node>>(object), holder);
    pointers_[G::layout.input[node]] = object.data();
    evaluated_ = false;
    return *this;
  }

  /// Lengths of the packed sequences on the axis of tokens; one sequence unless given.
  ///
  /// Errors  throws if one is below 0; then nothing has changed
  Function& set_sequences(std::span<const Index> lengths) {
    Memory::take_lengths(lengths);
    evaluated_ = false;
    return *this;
  }

  /// Evaluates all results.
  ///
  /// Errors  throws if an input is missing, if inputs along one axis have different numbers of rows, if the sequences
  ///         are not all tokens or too long for the positions, or if an index is out of range. Views of results and
  ///         gradients end when the number of rows changes.
  void forward() {
    evaluated_ = false;  // unless all inputs are as they should be
    Memory::check_present();
    if (Memory::stale_) {
      differentiated_ = false;
      Memory::arrange();
    }
    Memory::take_inputs();
    evaluate();
  }
  /// Gradients of everything that wants one, from those of the results: see `output_gradient`.
  ///
  /// Errors  throws unless it follows a forward() of what was set, bound and given as sequences
  /// Cost    a second one after the same forward() evaluates that again, if the first wrote over values (of logits)
  void backward() {
    Memory::check_present();
    if (!evaluated_) {
      throw Error("backward() without a forward() of these inputs", "call forward() after set, bind and set_sequences");
    }
    if (used_up_) evaluate();
    used_up_ = G::uses_up_values;
    Memory::differentiate();
    differentiated_ = true;
  }

  /// The first result, a number.
  S value() {
    static_assert(!G::sound || result_shape(0) == fixed_shape(1, 1),
                  "simplx: value() is for functions whose first result is one number; use forward() and output<k>()");
    forward();
    return Memory::result(0)[0];
  }
  /// The same; afterwards gradient<name>() holds its gradients.
  S value_and_grad() {
    const S result = value();
    seed_first_result();
    backward();
    return result;
  }

  /// Result k.
  ///
  /// Errors  throws, as `output_gradient` and `gradient` do, unless it follows a forward()
  template <int k = 0>
  auto output() const {
    check_arranged("output()");
    return detail::object_map<result_shape(k)>(Memory::result(k), context_.rows_of(result_shape(k)));
  }
  /// The gradient of result k: those of all results are to be filled before each backward(), which writes over some and
  /// leaves others; forward() leaves them as they are.
  template <int k = 0>
  auto output_gradient() {
    check_arranged("output_gradient()");
    return detail::object_map<result_shape(k)>(Memory::result_gradient(k), context_.rows_of(result_shape(k)));
  }
  /// The gradient with respect to an input or parameter, as the last backward left it: inputs that were set since, of
  /// as many rows or others, change it no sooner than they are evaluated.
  ///
  /// Errors  throws without a backward() after the first evaluation of so many rows, and after row_gradients
  template <Name name>
  auto gradient() {
    constexpr int node = find<name>();
    static_assert(!has<name>() || G::fusion.wanted[node],
                  "simplx: the gradient of this input is not wanted: make it a variable(...), or use with_respect_to");
    check_differentiated();
    S* place = nullptr;
    if constexpr (is_input(node)) {
      place = Memory::input_gradient(G::layout.input[node]);
    } else {
      place = const_cast<S*>(Memory::gradients().data()) + G::layout.parameter[node];
    }
    return detail::object_map<shape<node>>(place, context_.rows_of(shape<node>));
  }

  /// The gradient with respect to a parameter by its name in tensors(), which may lie within a stack.
  ///
  /// Errors  throws as `gradient<name>`, and for an unknown name, with the nearest ones
  std::span<const S> gradient(std::string_view name) {
    check_differentiated();
    return slice_of(Memory::tensors().parameters, Memory::gradients(), name, "parameter");
  }

  /// One gradient for each row of the first result, (rows, 1): row r of the answer is the gradient of result r with
  /// respect to a static value, flattened.
  ///
  /// Afterwards results are those of all rows, as after forward().
  ///
  /// Errors  does not compile if rows of the first result read others
  /// Cost    one evaluation of a single row for each row, and two of all
  template <Name name>
  Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> row_gradients() {
    constexpr int node = find<name>();
    constexpr Shape result = result_shape(0);
    static_assert(!has<name>() || (shape<node>.is_fixed() && !result.is_fixed() && result.cols == 1 &&
                                   rows_are_apart(result.axis)),
                  "simplx: row_gradients is for a first result of shape (rows, 1), rows that are neither tokens nor "
                  "sequences of them, and a static value; of one number gradient<name>() is the gradient");
    constexpr int first = std::max(result_node(0), 0);
    static_assert(!has<name>() || !rows_are_apart(result.axis) || detail::keeps_rows_apart<G, result.axis>(first),
                  "simplx: row_gradients evaluates one row after the other, and rows of this function read others: it "
                  "reduces over rows (Over::rows, Over::all, transpose(a) * b), moves them, or has a kernel that does "
                  "not say rows_apart. For each row set all of output_gradient() to 0 but that row to 1, and call "
                  "backward()");
    forward();  // checks what was set
    const Context<S> whole = context_;
    const Index rows = whole.rows_of(result), size = shape<node>.columns();
    Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> all(rows, size);
    Memory::stale_ = true;  // an exception would leave the context of one row
    for (Index row = 0; row < rows; ++row) {
      context_ = whole;
      Memory::start_at(result.axis, row);
      evaluate();
      seed_first_result();
      backward();
      const auto g = gradient<name>();
      std::copy_n(g.data(), size, all.row(row).data());
    }
    context_ = whole;
    Memory::stale_ = false;
    forward();  // results of all rows again; the gradients were those of one
    differentiated_ = false;
    return all;
  }

  /// A parameter that the function makes, in place.
  template <Name name>
  auto parameter() {
    constexpr int node = find<name>();
    static_assert(!has<name>() || G::table.info[node].kind == Kind::parameter,
                  "simplx: this name is no parameter but an input or a constant, which set or bind gives");
    Memory::check_present();
    return detail::object_map<shape<node>>(Memory::parameters().data() + G::layout.parameter[node], shape<node>.rows);
  }
  /// The same by its name in tensors(), which may lie within a stack: "blocks.0.mlp.up.weight".
  ///
  /// Errors  throws Error for an unknown name, with the nearest ones
  std::span<S> parameter(std::string_view name) {
    return slice_of(Memory::tensors().parameters, Memory::parameters(), name, "parameter");
  }
  std::span<S> constant(std::string_view name) {
    return slice_of(Memory::tensors().constants, Memory::constants(), name, "constant");
  }

 protected:
  static constexpr int result_node(int k) { return view_of<G>.result_node(k); }
  static constexpr Shape result_shape(int k) {
    const int node = result_node(k);
    return node < 0 ? Shape{} : G::table.info[node].shape;
  }

  bool evaluated_ = false;       ///< what was set, bound and given as sequences
  bool differentiated_ = false;  ///< there are gradients of these rows

 private:
  template <auto const&, class>
  friend class Directional;

  /// The node of that name, or -1.
  template <Name name>
  static constexpr int node_of() {
    for (int i = 0; i < G::count; ++i) {
      const Kind kind = G::table.info[i].kind;
      const bool named = is_input(i) || kind == Kind::parameter || kind == Kind::constant;
      if (named && G::flat.label[i].name == name) return i;
    }
    return -1;
  }
  /// Whether there is one; where there is none nothing more is said than that, of a broken rule nothing here.
  template <Name name>
  static constexpr bool has() {
    return G::sound && node_of<name>() >= 0;
  }
  template <Name name>
  static constexpr int find() {
    static_assert(!G::sound || has<name>(),
                  "simplx: the function uses no input, parameter or constant of that name; with scopes it is as in "
                  "tensors(); those within a stack or recompute are found by parameter(\"name\") and "
                  "gradient(\"name\")");
    return has<name>() ? node_of<name>() : 0;
  }
  /// Whether a row along this axis can be evaluated by itself.
  static constexpr bool rows_are_apart(Axis axis) {
    bool of_tokens = axis == Axis::tokens;
    for (int i = 0; i < G::count; ++i) {
      of_tokens |= axis == Axis::sequences && G::table.info[i].shape.axis == Axis::tokens;
    }
    return !of_tokens;
  }
  static constexpr bool is_input(int node) {
    return G::table.info[node].kind == Kind::input || G::table.info[node].kind == Kind::indices;
  }
  template <int node>
  static constexpr Shape shape = G::table.info[node].shape;
  template <class T>
  auto& storage() {
    if constexpr (std::is_same_v<T, S>) {
      return Memory::inputs_;
    } else {
      return Memory::indices_;
    }
  }

  /// Results and gradients lie in memory that the first evaluation makes.
  void check_arranged(const char* asked) const {
    Memory::check_present();
    if (Memory::arranged()) return;
    throw Error(std::string(asked) + " without a forward()", "call forward() or value_and_grad() before");
  }
  void check_differentiated() const {
    check_arranged("gradient()");
    if (differentiated_) return;
    throw Error("gradient() without a backward()",
                "call value_and_grad(), or forward(), output_gradient() and backward()");
  }
  void evaluate() {
    Memory::evaluate();
    evaluated_ = true;
    used_up_ = false;
  }
  /// Of the first result one, of the others nothing.
  void seed_first_result() {
    for (int k = 0; k < G::layout.outputs; ++k) {
      std::fill_n(Memory::result_gradient(k), context_.rows_of(result_shape(k)) * result_shape(k).cols, S(k == 0));
    }
  }

  bool used_up_ = false;  ///< backward has written over values of the last evaluation
};

}  // namespace simplx
