// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/differentiate/object.hpp
/// How values of a function meet the user's objects: Eigen matrices and vectors, containers, spans, single numbers.

#include <simplx/core/error.hpp>
#include <simplx/core/shape.hpp>

#include <Eigen/Core>

#include <concepts>
#include <cstdint>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>

namespace simplx::inline SIMPLX_TARGET::detail {

template <class Object>
concept EigenObject = std::is_base_of_v<Eigen::EigenBase<Object>, Object>;
template <class Object>
concept Container = requires(const Object& object) {
  object.data();
  { object.size() } -> std::convertible_to<std::size_t>;
};

/// What is copied number by number, of which each becomes a T; characters are no numbers.
template <class Number, class T>
concept NumberFor = std::constructible_from<T, Number> && !std::same_as<Number, char>;
template <class Object, class T>
concept NumbersFor = EigenObject<Object> || NumberFor<Object, T> || requires(const Object& object) {
  requires Container<Object>;
  requires NumberFor<std::remove_cvref_t<decltype(*object.data())>, T>;
};

struct ObjectSize {
  Index rows, cols;
};

/// Rows and columns of an object that stands for a value of that shape; a vector may stand for a row or a column.
template <Shape shape, class Object>
constexpr ObjectSize size_of(const Object& object) {
  if constexpr (EigenObject<Object>) {
    if (object.rows() == 1 || object.cols() == 1) {
      const Index size = object.size();
      const bool fits = shape.is_fixed() ? size == shape.rows * shape.cols && (shape.rows == 1 || shape.cols == 1)
                                         : shape.cols == 1 || object.cols() == shape.cols;
      if (fits) return {size / shape.cols, shape.cols};
    }
    return {object.rows(), object.cols()};
  } else if constexpr (Container<Object>) {
    const Index size = static_cast<Index>(object.size());
    return size % shape.cols == 0 ? ObjectSize{size / shape.cols, shape.cols} : ObjectSize{1, size};
  } else {
    return {1, 1};
  }
}

/// Eigen's view of rows x shape.cols numbers, row by row.
template <Shape shape, class S>
auto object_map(S* data, Index rows) {
  // Sizes beyond a page are dynamic to Eigen, which would keep a copy of them on the stack.
  constexpr bool small = shape.columns() * static_cast<Index>(sizeof(S)) <= 4096;
  constexpr bool rows_are_fixed = shape.is_fixed() && (small || shape.rows == 1);
  constexpr int fixed_rows = rows_are_fixed ? static_cast<int>(shape.rows) : Eigen::Dynamic;
  constexpr int cols = small || shape.cols == 1 ? static_cast<int>(shape.cols) : Eigen::Dynamic;
  using Matrix = Eigen::Matrix<std::remove_const_t<S>, fixed_rows, cols, cols == 1 ? Eigen::ColMajor : Eigen::RowMajor>;
  return Eigen::Map<std::conditional_t<std::is_const_v<S>, const Matrix, Matrix>>(data, rows, shape.cols);
}

/// Whether an object's memory is what a kernel reads: its scalars row by row without gaps.
template <class Object, class S>
concept contiguous = requires(const Object& object) {
  { object.data() } -> std::convertible_to<const S*>;
} && (!EigenObject<Object> || bool(Object::IsVectorAtCompileTime) || bool(Object::IsRowMajor));

/// A Ref to constant numbers holds a copy of what it cannot refer to.
template <class Object>
inline constexpr bool may_hold_a_copy = false;
template <class Matrix, int options, class Stride>
inline constexpr bool may_hold_a_copy<Eigen::Ref<const Matrix, options, Stride>> = true;

/// Whether an object's memory ends with it, or may: views of what others own are no such objects.
template <class Object>
concept owning = (EigenObject<Object> &&
                  (std::is_base_of_v<Eigen::PlainObjectBase<Object>, Object> || may_hold_a_copy<Object>)) ||
                 (!EigenObject<Object> && !std::ranges::borrowed_range<Object>);

/// Whether an object's memory is that of a GPU, as a DeviceBuffer's is.
template <class Object>
concept on_device = requires { requires Object::on_device; };

/// Whether it lies without gaps in this very object: blocks of a larger matrix do not.
template <class Object>
bool dense(const Object& object) {
  if constexpr (EigenObject<Object>) {
    const bool one_row = Object::IsRowMajor && object.rows() == 1;
    return object.innerStride() == 1 &&
           (bool(Object::IsVectorAtCompileTime) || one_row || object.outerStride() == object.cols());
  } else {
    return true;
  }
}

/// A number of an object as a kernel reads it.
///
/// Errors  throws Error for an index that the kernels' 32 bits do not hold; does not compile for one that is no integer
template <class T, class Number>
T number_as(const Number& number) {
  if constexpr (std::is_same_v<T, std::int32_t>) {
    static_assert(std::integral<Number>,
                  "simplx: indices are whole numbers: give them as integers, such as std::int32_t, not as fractions");
    if (!std::in_range<T>(+number)) {
      throw Error("the index " + std::to_string(+number) + " does not fit into 32 bits",
                  "indices are rows of a table, or -100 for labels that carry no loss");
    }
  }
  return static_cast<T>(number);
}

/// Errors  as number_as
template <class T, class Object>
void check_numbers(const Object& object) {
  if constexpr (EigenObject<Object>) {
    const auto& matrix = object.derived().matrix().eval();
    for (Index col = 0; col < matrix.cols(); ++col) {
      for (Index row = 0; row < matrix.rows(); ++row) number_as<T>(matrix(row, col));
    }
  } else if constexpr (Container<Object>) {
    for (std::size_t i = 0; i < object.size(); ++i) number_as<T>(object.data()[i]);
  } else {
    number_as<T>(object);
  }
}

/// Copies an object to row-major memory, which it does not read.
///
/// Errors  as number_as
template <Shape shape, class Object, class T>
void assign(const Object& object, Index rows, T* to) {
  if constexpr (EigenObject<Object>) {
    const auto& matrix = object.derived().matrix();
    const auto numbers_of = [](const auto& values) {
      if constexpr (std::is_same_v<T, std::int32_t>) {
        return values.unaryExpr([](typename Object::Scalar number) { return number_as<T>(number); });
      } else {
        return values.template cast<T>();
      }
    };
    const auto copy_vector = [&] {  // a row may stand for a column, and the other way round
      using Column = Eigen::Matrix<T, Eigen::Dynamic, 1>;
      Eigen::Map<Column>(to, matrix.size()) = numbers_of(matrix.reshaped());
    };
    if constexpr (bool(Object::IsVectorAtCompileTime)) {
      copy_vector();
    } else if (matrix.rows() == rows && matrix.cols() == shape.cols) {
      object_map<shape>(to, rows) = numbers_of(matrix);
    } else {
      copy_vector();
    }
  } else if constexpr (Container<Object>) {
    const auto* from = object.data();
    for (Index i = 0; i < rows * shape.cols; ++i) to[i] = number_as<T>(from[i]);
  } else {
    *to = number_as<T>(object);
  }
}
/// The same to memory that the object may read: parameter + parameter.transpose().
template <Shape shape, class Object, class T>
void assign_anew(const Object& object, Index rows, T* to) {
  if constexpr (EigenObject<Object>) {
    assign<shape>(object.derived().matrix().eval(), rows, to);
  } else {
    assign<shape>(object, rows, to);
  }
}

}  // namespace simplx::detail
