#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes random models over the ops of the library as C++, each with the values that a plain interpreter gives them.

    generate.py --seed 1 --count 50 --files 3 folder         writes folder/graphs_0.cpp ... graphs_2.cpp

The interpreter below knows nothing of the library: a value is a list of rows. A node is taken only if its values are
of moderate size and far from kinks, so that finite differences of it mean something.
"""
import argparse
import math
import os
import random

MASK = (1 << 64) - 1
LENGTHS = [3, 1, 5]  # of the sequences on the axis of tokens
ROWS = {"tokens": sum(LENGTHS), "batch": 3, "sequences": len(LENGTHS)}
MARGIN = 0.04  # distance from kinks
LARGEST = 6.0
LEAVES = 7  # of every graph, those that it uses
GRAPHS_OF_A_MODEL = 2  # compiled together, which costs less than apart


# ------------------------------------------------------------------- the numbers of tests/compiled_graphs/check.hpp

def scramble(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def key_of(seed, name):
    value = 0xCBF29CE484222325
    for c in name.encode():
        value = ((value ^ c) * 0x100000001B3) & MASK
    return scramble((value + scramble((seed + 0x9E3779B97F4A7C15) & MASK)) & MASK)


def bits(key, counter):
    return scramble((key + (counter + 1) * 0x9E3779B97F4A7C15) & MASK)


def entry(name, k):
    """Element k of the tensor of that name, between -1.1 and 1.1, at least 0.1 in size."""
    u = ((bits(key_of(7, name), k) >> 12) + 0.5) * 2.0 ** -52
    return 2 * u - 1 + (-0.1 if u < 0.5 else 0.1)


# ----------------------------------------------------------------------------------------------- values by hand

class Refused(Exception):
    """This node would have a kink nearby, no value, or an operand that does not suit."""


def require(condition):
    if not condition:
        raise Refused


class Value:
    """Rows of numbers; `axis` names what the rows count, None if their number is static."""

    def __init__(self, axis, data):
        self.axis, self.data = axis, data

    rows = property(lambda self: len(self.data))
    cols = property(lambda self: len(self.data[0]))
    shape = property(lambda self: (self.axis, self.rows, self.cols))

    def at(self, r, c):
        return self.data[r if self.rows > 1 else 0][c if self.cols > 1 else 0]


def elementwise(f, *operands):
    """f of every element, rows, columns and numbers spread."""
    axes = {v.axis for v in operands if v.axis}
    require(len(axes) < 2)
    axis = axes.pop() if axes else None
    rows, cols = (max(getattr(v, n) for v in operands) for n in ("rows", "cols"))
    for v in operands:
        require(v.cols in (1, cols) and v.rows in (1, rows))
        require(v.axis == axis or v.rows == 1)
    return Value(axis, [[f(*(v.at(r, c) for v in operands)) for c in range(cols)] for r in range(rows)])


def away(*distances):
    require(all(abs(d) > MARGIN for d in distances))


def rows_apart(x):
    """Lists of row numbers that belong together: sequences of tokens, otherwise all rows."""
    if x.axis != "tokens":
        return [list(range(x.rows))]
    starts = [sum(LENGTHS[:i]) for i in range(len(LENGTHS))]
    return [list(range(s, s + n)) for s, n in zip(starts, LENGTHS)]


def reduced(f, x, over):
    if over == "rows":
        return Value(None, [[f(column) for column in zip(*x.data)]])
    if over == "columns":
        return Value(x.axis, [[f(row)] for row in x.data])
    return Value(None, [[f([e for row in x.data for e in row])]])


def log_sum_exp(numbers):
    return math.log(sum(math.exp(e) for e in numbers))


def largest(numbers):
    ordered = sorted(numbers)
    require(len(ordered) < 2 or ordered[-1] - ordered[-2] > MARGIN)
    return ordered[-1]


def matmul(a, b):
    require(b.axis is None and a.cols == b.rows)
    return Value(a.axis, [[sum(row[k] * b.data[k][j] for k in range(b.rows)) for j in range(b.cols)] for row in a.data])


def transposed(a):
    return [list(column) for column in zip(*a.data)]


def kinked(f, *distances_of):
    def with_margin(*x):
        away(*(d(*x) for d in distances_of))
        return f(*x)
    return with_margin


def sigmoid(e):
    return 1 / (1 + math.exp(-e))


def gelu_tanh(e):
    return 0.5 * e * (1 + math.tanh(0.7978845608028654 * (e + 0.044715 * e ** 3)))


def gelu(e):
    return 0.5 * e * (1 + math.erf(e * math.sqrt(0.5)))


def normalised(row, gain, bias, kind):
    n = len(row)
    if kind == "LayerNorm":
        mean = sum(row) / n
        s = 1 / math.sqrt(sum((e - mean) ** 2 for e in row) / n + 0.3)
        return [gain[c] * (e - mean) * s + bias[c] for c, e in enumerate(row)]
    square = sum(e * e for e in row) / n
    r = math.sqrt(square + 0.3) if kind == "RmsNormInside" else math.sqrt(square) + 0.3
    return [gain[c] * e / r for c, e in enumerate(row)]


# ----------------------------------------------------------------------------------------------- random models

UNARY = {  # C++ text and function
    "relu({0})": kinked(lambda e: max(e, 0.0), lambda e: e),
    "exp(0.5 * {0})": lambda e: math.exp(0.5 * e),
    "log(square({0}) + 0.5)": lambda e: math.log(e * e + 0.5),
    "log1p(square({0}))": lambda e: math.log1p(e * e),
    "sin({0})": math.sin,
    "cos(2.0 * {0})": lambda e: math.cos(2 * e),
    "tanh({0})": math.tanh,
    "sigmoid({0})": sigmoid,
    "softplus({0})": lambda e: math.log1p(math.exp(e)),
    "erf({0})": math.erf,
    "sqrt(square({0}) + 0.5)": lambda e: math.sqrt(e * e + 0.5),
    "rsqrt(square({0}) + 0.5)": lambda e: 1 / math.sqrt(e * e + 0.5),
    "square({0})": lambda e: e * e,
    "pow({0}, 3.0)": lambda e: e ** 3,
    "abs({0})": kinked(abs, lambda e: e),
    "clamp({0}, -0.9, 0.8)": kinked(lambda e: min(max(e, -0.9), 0.8), lambda e: e + 0.9, lambda e: e - 0.8),
    "leaky_relu({0}, hyper(\"slope{n}\", 0.2))": kinked(lambda e: e if e > 0 else 0.2 * e, lambda e: e),
    "relu_squared({0})": kinked(lambda e: max(e, 0.0) ** 2, lambda e: e),
    "gelu({0})": gelu,
    "gelu_tanh({0})": gelu_tanh,
    "silu({0})": lambda e: e * sigmoid(e),
    "-{0}": lambda e: -e,
    "1.0 - {0} / 2.0": lambda e: 1 - e / 2,
    "with_pull_back([](Expr x) {{ return sin(x); }}, [](Expr dy, Expr, Expr x) {{ return multiply(dy, cos(x)); }})({0})": math.sin,
    "probe(\"probe{n}\", {0})": lambda e: e,
    "grad(multiply(sin({0}), {0}), {0})": lambda e: math.cos(e) * e + math.sin(e),
}
BINARY = {
    "{0} + {1}": lambda a, b: a + b,
    "{0} - {1}": lambda a, b: a - b,
    "multiply({0}, {1})": lambda a, b: a * b,
    "{0} / (square({1}) + 0.5)": lambda a, b: a / (b * b + 0.5),
    "max({0}, {1})": kinked(max, lambda a, b: a - b),
    "min({0}, {1})": kinked(min, lambda a, b: a - b),
    "pow(square({0}) + 0.5, {1})": lambda a, b: (a * a + 0.5) ** b,
    "grad(tanh(multiply({0}, {1})), {0})": None,  # see below: the gradient of what is spread is a sum
}
TERNARY = {
    "select({0} > {1}, {2}, square({0}))": kinked(lambda a, b, c: c if a > b else a * a, lambda a, b, c: a - b),
    "multiply({0}, {1}) + {2}": lambda a, b, c: a * b + c,
    "clamp({0}, {1} - 1.0, {2} + 1.0)": kinked(lambda a, b, c: min(max(a, b - 1), c + 1), lambda a, b, c: a - b + 1,
                                              lambda a, b, c: a - c - 1, lambda a, b, c: c - b + 2),
}
REDUCTIONS = {"sum": sum, "mean": lambda x: sum(x) / len(x), "max": largest, "log_sum_exp": log_sum_exp}


class Model:
    """One graph; its names and nodes are numbered from `base`, so that several can be compiled as one model."""

    def __init__(self, rng, base):
        self.rng, self.base, self.nodes, self.kinds = rng, base, [], set()  # nodes: (text, arguments, value)
        self.width = rng.choice([2, 3, 5, 8, 9])
        w = self.width
        self.leaf("variable", "x", "tokens", ROWS["tokens"], w)
        self.leaf(rng.choice(["variable", "input"]), "b", "batch", ROWS["batch"], w)
        self.leaf("vector", "row", None, 1, w)
        self.leaf("scalar", "number", None, 1, 1)
        self.leaf("weight", "square", None, w, w)
        self.leaf("weight", "narrow", None, w, 4)
        self.leaf("weight", "wide", None, 4, w)
        tries = 0
        while len(self.nodes) < LEAVES + rng.randint(6, 10) and tries < 500:
            tries += 1
            try:
                self.add_op()
            except (Refused, OverflowError, ZeroDivisionError):
                pass

    def leaf(self, kind, name, axis, rows, cols):
        name = f"{name}{self.base}"
        text = {"variable": f'variable("{name}", rows_of(Axis::{axis}, {cols}))', "input": f'input("{name}", rows_of(Axis::{axis}, {cols}))',
                "vector": f'vector("{name}", {cols})', "scalar": f'scalar("{name}")', "weight": f'weight("{name}", {rows}, {cols})'}[kind]
        data = [[entry(name, r * cols + c) for c in range(cols)] for r in range(rows)]
        self.nodes.append((text, [], Value(axis, data)))

    def add(self, kind, text, arguments, value):
        require(value.cols <= 24)
        require(all(math.isfinite(e) and abs(e) < LARGEST for row in value.data for e in row))
        require(any(abs(e) > 1e-3 for row in value.data for e in row))
        n = self.base + len(self.nodes)
        self.nodes.append((text.format(*(f"v{self.base + i}" for i in arguments), n=n), arguments, value))
        self.kinds.add(kind)

    def below(self, node):
        """A node and all that it needs."""
        return {node}.union(*(self.below(k) for k in self.nodes[node][1]))

    def parameter(self, name, rows, cols):
        return Value(None, [[entry(name, r * cols + c) for c in range(cols)] for r in range(rows)])

    def add_op(self):
        rng, n = self.rng, len(self.nodes)
        used = {i for node in self.nodes for i in node[1]}
        unused = [i for i in range(LEAVES, n) if i not in used]

        def pick():  # what nobody uses yet, so that the nodes are one graph; leaves; anything
            chance = rng.random()
            return rng.choice(unused or [0]) if chance < 0.55 else rng.randrange(LEAVES) if chance < 0.75 else rng.randrange(n)
        a, b, c = pick(), pick(), pick()
        x, y, z = (self.nodes[i][2] for i in (a, b, c))
        kind = rng.choice(["unary", "unary", "binary", "binary", "ternary", "reduce", "softmax", "columns", "rows", "rows",
                           "product", "product", "norm", "stack", "batched"])
        if kind == "unary":
            text = rng.choice(list(UNARY))
            self.add(text, text, [a], elementwise(UNARY[text], x))
        elif kind == "binary":
            text = rng.choice(list(BINARY))
            if text.startswith("grad"):
                require(a not in self.below(b))  # there would be another way to it
                whole = elementwise(lambda p, q: q / math.cosh(p * q) ** 2, x, y)
                over_rows, over_columns = whole.rows > x.rows, whole.cols > x.cols
                self.add(text, text, [a, b], reduced(sum, whole, "all" if over_rows and over_columns else "rows") if over_rows
                         else reduced(sum, whole, "columns") if over_columns else whole)
            else:
                self.add(text, text, [a, b], elementwise(BINARY[text], x, y))
        elif kind == "ternary":
            text = rng.choice(list(TERNARY))
            self.add(text, text, [a, b, c], elementwise(TERNARY[text], x, y, z))
        elif kind == "reduce":
            name, over = rng.choice(list(REDUCTIONS)), rng.choice(["rows", "columns", "all"])
            self.add(name + over, f"{name}({{0}}, Over::{over})", [a], reduced(REDUCTIONS[name], x, over))
        elif kind == "softmax":
            log = rng.random() < 0.5
            rows = [[e - log_sum_exp(row) for e in row] for row in x.data]
            name = "log_softmax" if log else "softmax"
            self.add(name, name + "({0})", [a], Value(x.axis, rows if log else [[math.exp(e) for e in row] for row in rows]))
        elif kind == "columns":
            how = rng.choice(["slice", "concatenate", "gated"])
            if how == "slice":
                begin = rng.randrange(x.cols)
                count = rng.randint(1, x.cols - begin)
                self.add(how, f"slice_columns({{0}}, {begin}, {count})", [a], Value(x.axis, [row[begin:begin + count] for row in x.data]))
            elif how == "concatenate":
                require((x.axis, x.rows) == (y.axis, y.rows))
                self.add(how, "concatenate({0}, {1}, {0})", [a, b], Value(x.axis, [p + q + p for p, q in zip(x.data, y.data)]))
            else:
                require(x.cols % 2 == 0)
                half = x.cols // 2
                name, f = rng.choice([("glu", sigmoid), ("swiglu", lambda e: e * sigmoid(e)), ("geglu", gelu),
                                      ("reglu", kinked(lambda e: max(e, 0.0), lambda e: e))])
                self.add(name, name + "({0})", [a], Value(x.axis, [[row[k] * f(row[half + k]) for k in range(half)] for row in x.data]))
        elif kind == "rows":
            how = rng.choice(["shift", "cumulative_sum", "first", "slice_rows", "gather"])
            if how == "shift":
                by = rng.choice([-2, -1, 1, 2])
                out = [[0.0] * x.cols for _ in x.data]
                for group in rows_apart(x):
                    for r in group:
                        if r - by in group:
                            out[r] = x.data[r - by]
                self.add(how, f"shift({{0}}, {by})", [a], Value(x.axis, out))
            elif how == "cumulative_sum":
                out = [None] * x.rows
                for group in rows_apart(x):
                    for r in group:
                        out[r] = [sum(x.data[s][k] for s in group if s <= r) for k in range(x.cols)]
                self.add(how, "cumulative_sum({0})", [a], Value(x.axis, out))
            elif how == "first":
                require(x.axis == "tokens")
                self.add(how, "first_of_sequence({0})", [a], Value("sequences", [x.data[group[0]] for group in rows_apart(x)]))
            elif how == "slice_rows":
                require(x.axis is None and x.rows > 1)
                begin = rng.randrange(x.rows)
                count = rng.randint(1, x.rows - begin)
                self.add(how, f"slice_rows({{0}}, {begin}, {count})", [a], Value(None, x.data[begin:begin + count]))
            else:
                require(x.rows >= 3)
                axis = rng.choice(["tokens", "batch"])
                index = [bits(key_of(7, f"index{self.base + n}"), r) % 3 for r in range(ROWS[axis])]
                self.add(how, f'gather({{0}}, indices("index{self.base + n}", Axis::{axis}))', [a], Value(axis, [x.data[r] for r in index]))
        elif kind == "product":
            how = rng.choice(["matmul", "matmul", "turned", "contract", "transpose"])
            if how == "matmul":
                require(y.axis is None and y.rows > 1 and x.shape != (None, 1, 1))
                self.add(how, "{0} * {1}", [a, b], matmul(x, y))
            elif how == "turned":
                require(y.axis is None)
                self.add(how, "{0} * transpose({1})", [a, b], matmul(x, Value(None, transposed(y))))
            elif how == "contract":
                require(x.axis and (x.axis, x.rows) == (y.axis, y.rows))
                self.add(how, "transpose({0}) * {1}", [a, b], matmul(Value(None, transposed(x)), Value(None, y.data)))
            else:
                require(x.axis is None)
                self.add(how, "transpose({0})", [a], Value(None, transposed(x)))
        elif kind == "batched":
            require((x.axis, x.rows) == (y.axis, y.rows) and x.axis)
            inner = math.gcd(x.cols, y.cols)
            p, q = x.cols // inner, y.cols // inner
            out = [[sum(u[i * inner + k] * v[k * q + j] for k in range(inner)) for i in range(p) for j in range(q)]
                   for u, v in zip(x.data, y.data)]
            self.add(kind, f"batched_matmul({{0}}, {{1}}, {p}, {inner}, {q})", [a, b], Value(x.axis, out))
        elif kind == "norm":
            require(x.cols > 1)
            name, scope = rng.choice(["RmsNorm", "RmsNormInside", "LayerNorm"]), f"norm{self.base + n}"
            gain, bias = (self.parameter(f"{scope}.{which}", 1, x.cols).data[0] for which in ("gain", "bias"))
            self.add(name, f'named("{scope}", {name}{{{{0.3}}}})({{0}})', [a],
                     Value(x.axis, [normalised(row, gain, bias, name) for row in x.data]))
        else:
            layers, recomputes, shares = rng.randint(1, 3), rng.random() < 0.5, rng.random() < 0.5
            block = f'[](Expr x) {{{{ return x + tanh(x * weight("w", {x.cols}, {x.cols})) * scalar("s"); }}}}'
            value = x
            for layer in range(layers):
                scope = f"stack{self.base + n}." + ("" if shares else f"{layer}.")
                w, s = self.parameter(scope + "w", x.cols, x.cols), entry(scope + "s", 0)
                require(x.cols > 1)
                value = elementwise(lambda e, p: e + s * math.tanh(p), value, matmul(value, w))
            if shares:
                block = f"Shared{{{{{block}}}}}"
            self.add("recompute" if recomputes else "stack",
                     f'stack("stack{self.base + n}", {layers}, ' +
                     (f"recompute({block})" if recomputes else block) + ", {0})", [a], value)

    def results(self):
        """The one or two nodes that need most; not those that others use."""
        used = {i for node in self.nodes for i in node[1]}
        ends = [i for i in range(LEAVES, len(self.nodes)) if i not in used]
        return sorted(ends, key=lambda i: -len(self.below(i)))[:2]

    def lines(self):
        needed = set().union(*(self.below(i) for i in self.results()))
        return [f"    Expr v{self.base + i} = {self.nodes[i][0]};" for i in sorted(needed)]

    def names_and_values(self):
        for i in self.results():
            numbers = [repr(float(e)) for row in self.nodes[i][2].data for e in row]
            lines = (", ".join(numbers[k:k + 6]) for k in range(0, len(numbers), 6))
            yield f"v{self.base + i}", "{" + ",\n     ".join(lines) + "}"

    def differentiable(self):
        """Something in it is trained: a result that uses none of its leaves would be no test."""
        return any(i < LEAVES and i != 1 for node in self.nodes[LEAVES:] for i in node[1])


def model_of(name, graphs):
    """A model of several graphs, and the test that holds it against their values."""
    results = [result for graph in graphs for result in graph.names_and_values()]
    lines = [line for graph in graphs for line in graph.lines()]
    fields = ", ".join(f"r{k}" for k in range(len(results)))
    return "\n".join([
        "", "namespace {", f"struct {name} {{", "  struct Results {", f"    Expr {fields};", "  };", "  constexpr Results operator()() const {",
        *lines, "    return {" + ", ".join(v for v, _ in results) + "};", "  }", "};",
        f"inline constexpr {name} {name.lower()}{{}};", "}  // namespace",
        f'TEST_CASE("compiled_graphs/{name}") {{', f"  test::check_compiled<{name.lower()}>({{",
        "    " + ",\n    ".join(values for _, values in results) + "});", "}", ""])


HEADER = """// SPDX-License-Identifier: MIT
// Written by tests/compiled_graphs/generate.py; do not edit.
#include "compiled_graphs/check.hpp"

using namespace simplx;
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--files", type=int, default=3)
    parser.add_argument("folder")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    os.makedirs(options.folder, exist_ok=True)
    texts = [HEADER] * options.files
    seen, made, waiting = set(), 0, []
    while made < options.count:
        graph = Model(rng, 100 * len(waiting))
        if len(graph.nodes) < LEAVES + 6 or not graph.differentiable() or len(graph.results()) + len(waiting) < 2:
            continue
        seen |= graph.kinds
        made += 1
        waiting.append(graph)
        if len(waiting) == GRAPHS_OF_A_MODEL or made == options.count:
            number = (made - 1) // GRAPHS_OF_A_MODEL
            texts[number % options.files] += model_of(f"Graph{number}", waiting)
            waiting = []
    for number, text in enumerate(texts):
        with open(os.path.join(options.folder, f"graphs_{number}.cpp"), "w", encoding="utf-8") as file:
            file.write(text)
    print(f"{made} graphs, {len(seen)} kinds of op")


if __name__ == "__main__":
    main()
