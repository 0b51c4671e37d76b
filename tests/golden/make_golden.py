#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden files: whole models written from the equations of the papers, in float64.

PyTorch (1.13 or 2.x) serves as automatic differentiation only. Everything else is spelled out here, so
that a block can be read beside its equation. One file holds parameters, tokens, targets, logits, loss and
the gradient of every parameter, under the checkpoint keys of the library; weights are (in, out) and
multiply on the right.

  python3 tests/golden/make_golden.py [--out DIR]   write the files
  python3 tests/golden/make_golden.py --check       finite differences, same bytes twice, the files at hand

A new block is one function in the section "Blocks" and one entry in BLOCKS.
"""
import argparse
import json
import math
import os
import random
import struct
import sys

import torch

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)

IGNORED = -100  # a target that carries no loss


class Sizes:
    def __init__(self, width, heads, hidden, layers, vocab, context, batch=2):
        self.width, self.heads, self.hidden, self.layers = width, heads, hidden, layers
        self.vocab, self.context, self.batch = vocab, context, batch


SIZES = {
    "": Sizes(width=32, heads=4, hidden=128, layers=3, vocab=61, context=16),
    "_odd": Sizes(width=12, heads=2, hidden=20, layers=2, vocab=7, context=5),
}


class Parameters:
    """Parameters of one model, created when an equation first asks for them.

    All values are multiples of 1/4096, hence exact in float32 as well, and none is at its special
    initial value (gains are not 1, query weights and deltas not 0): every gradient is exercised.
    """

    def __init__(self, seed, prefix="", values=None):
        self.seed, self.prefix = seed, prefix
        self.values = {} if values is None else values

    def block(self, i):
        return Parameters(self.seed, "blocks.%d." % i, self.values)

    def weight(self, key, *shape):
        return self._get(key, shape, 0.0, 0.2)

    def gain(self, key, *shape):
        return self._get(key, shape, 1.0, 0.3)

    def _get(self, key, shape, mean, deviation):
        key = self.prefix + key
        if key not in self.values:
            # Python's generator, not torch's: its numbers do not depend on a version.
            rng = random.Random("%s/%s" % (self.seed, key))
            flat = [round(4096 * rng.gauss(mean, deviation)) / 4096 for _ in range(math.prod(shape))]
            self.values[key] = torch.tensor(flat).reshape(shape).requires_grad_()
        return self.values[key]


# ------------------------------------------------------------------------------------ Modules
def rms_norm(x, p, name):
    """x / (sqrt(mean x^2) + eps) * gain; eps stands outside the root."""
    return x / (x.square().mean(-1, keepdim=True).sqrt() + 1e-8) * p.gain(name + ".gain", x.shape[-1])


def linear(x, p, name, outputs):
    return x @ p.weight(name + ".weight", x.shape[-1], outputs)


def mlp(x, p, c):
    """max(x W1, 0) W2."""
    return linear(linear(x, p, "mlp.up", c.hidden).clamp(min=0), p, "mlp.down", c.width)


def heads(x, c):
    """(T, d) -> (H, T, d/H): head h owns column block h."""
    return torch.stack(x.chunk(c.heads, dim=1))


def columns(x):
    """(H, T, d/H) -> (T, d), the inverse of `heads`."""
    return torch.cat(list(x), dim=1)


def causal_softmax(scores):
    rows = scores.shape[-1]
    hidden = torch.ones(rows, rows).triu(diagonal=1) > 0
    return torch.softmax(scores.masked_fill(hidden, -math.inf), dim=-1)


def attention_matrix(n, p, c):
    """A = softmax(Q K^T / sqrt(d_k) + causal mask), Eq. (2)."""
    query = heads(linear(n, p, "attention.query", c.width), c)
    key = heads(linear(n, p, "attention.key", c.width), c)
    return causal_softmax(query @ key.transpose(1, 2) / math.sqrt(c.width // c.heads))


def softmax_attention(n, p, c):
    """MHA(n) = concat_h(A_h n W^V_h) W^P, Eq. (3)."""
    value = heads(linear(n, p, "attention.value", c.width), c)
    return linear(columns(attention_matrix(n, p, c) @ value), p, "attention.projection", c.width)


def shaped_attention(n, p, c, value):
    """concat_h((alpha_h I + beta_h A_h - gamma_h C) V_h), Eqs. (5) and (13); C is A at zero scores."""
    names = ("attention.alpha", "attention.beta", "attention.gamma")
    alpha, beta, gamma = (p.gain(name, c.heads)[:, None, None] for name in names)
    centre = causal_softmax(torch.zeros(len(n), len(n)))
    matrix = alpha * torch.eye(len(n)) + beta * attention_matrix(n, p, c) - gamma * centre
    return columns(matrix @ heads(value, c))


def reparameterised_value(n, p, c):
    """n (alpha I + beta Delta), Eq. (6) with W0 = I."""
    delta = p.weight("attention.value.delta", c.width, c.width)
    return p.gain("attention.value.alpha") * n + p.gain("attention.value.beta") * (n @ delta)


# ------------------------------------------------------------------------------------- Blocks
def pre_ln(x, p, c, i):
    """X' = X + MHA(N1 X); out = X' + MLP(N2 X'), Eq. (1)."""
    x = x + softmax_attention(rms_norm(x, p, "norm1"), p, c)
    return x + mlp(rms_norm(x, p, "norm2"), p, c)


def sas_p(x, p, c, i):
    """out = b_FF MLP(N X) + b_SA SA(N X), Sec. 4.3; values are N X itself except in block 0."""
    n = rms_norm(x, p, "norm1")
    value = reparameterised_value(n, p, c) if i == 0 else n
    return p.gain("mlp_gain") * mlp(n, p, c) + p.gain("attention_gain") * shaped_attention(n, p, c, value)


BLOCKS = {"pre_ln": pre_ln, "sas_p": sas_p}


# -------------------------------------------------------------------------------------- Model
def positions(c, length):
    """p_t[2k] = sin(t / 10000^(2k/d)), p_t[2k+1] = cos(same)."""
    angle = [[t / 10000 ** ((k - k % 2) / c.width) for k in range(c.width)] for t in range(length)]
    return torch.tensor([[math.cos(a) if k % 2 else math.sin(a) for k, a in enumerate(row)] for row in angle])


def decoder(block, p, c, tokens):
    """Logits (B, T, V), one sequence after the other; the head is the embedding, transposed."""
    embedding = p.weight("embedding.weight", c.vocab, c.width)
    logits = []
    for sequence in tokens:
        x = embedding[torch.tensor(sequence)] + positions(c, len(sequence))
        for i in range(c.layers):
            x = block(x, p.block(i), c, i)
        logits.append(rms_norm(x, p, "final_norm") @ embedding.T)
    return torch.stack(logits)


def mean_cross_entropy(logits, targets):
    """Mean over the labelled tokens of -log softmax(logits)[target], in nats."""
    losses = [
        torch.logsumexp(row, 0) - row[target]
        for rows, sequence in zip(logits, targets)
        for row, target in zip(rows, sequence)
        if target != IGNORED
    ]
    return torch.stack(losses).mean()


class Case:
    """One golden file: a block at one set of sizes."""

    def __init__(self, block, suffix):
        self.block, self.suffix, self.name, self.sizes = block, suffix, block + suffix, SIZES[suffix]
        c, rng = self.sizes, random.Random("tokens of " + self.name)

        def draw():
            return [[rng.randrange(c.vocab) for _ in range(c.context)] for _ in range(c.batch)]

        self.tokens, self.targets = draw(), draw()
        # Unlabelled: the first token, one in the middle, and the last of the last sequence.
        self.targets[0][0] = self.targets[0][c.context // 2] = self.targets[-1][-1] = IGNORED
        self.parameters = Parameters(self.name)

    def evaluate(self):
        logits = decoder(BLOCKS[self.block], self.parameters, self.sizes, self.tokens)
        return logits, mean_cross_entropy(logits, self.targets)

    def tensors(self):
        logits, loss = self.evaluate()
        values = self.parameters.values
        gradients = torch.autograd.grad(loss, list(values.values()))
        return {
            **values,
            **{"grad." + key: g for key, g in zip(values, gradients)},
            "logits": logits,
            "loss": loss,
            "tokens": torch.tensor(self.tokens, dtype=torch.int32),
            "targets": torch.tensor(self.targets, dtype=torch.int32),
        }

    def file(self):
        sizes = {k: str(v) for k, v in vars(self.sizes).items()}
        return encode(self.tensors(), {"block": self.block, **sizes})


# -------------------------------------------------------------------------------- safetensors
FORMATS = {torch.float64: ("F64", "d"), torch.int32: ("I32", "i")}


def encode(tensors, metadata):
    """Bytes of a safetensors file: header length, JSON header, then the data, 8-byte values first."""
    header, data = {"__metadata__": metadata}, b""
    for key in sorted(tensors, key=lambda k: (-tensors[k].element_size(), k)):
        t = tensors[key].detach()
        name, letter = FORMATS[t.dtype]
        values = t.reshape(-1).tolist()
        start = len(data)
        data += struct.pack("<%d%s" % (len(values), letter), *values)
        header[key] = {"dtype": name, "shape": list(t.shape), "data_offsets": [start, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def decode(raw):
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__")
    letters = dict(FORMATS.values())
    result = {}
    for key, entry in header.items():
        begin, end = (8 + length + o for o in entry["data_offsets"])
        layout = "<%d%s" % (math.prod(entry["shape"]), letters[entry["dtype"]])
        result[key] = (entry["shape"], struct.unpack(layout, raw[begin:end]))
    return result


# -------------------------------------------------------------------------------------- Check
def finite_difference_error(case, entries=4):
    """Largest error of the gradient at random entries of every parameter, against central differences."""
    tensors, worst, rng = case.tensors(), 0.0, random.Random(7)
    largest = max(float(t.abs().max()) for k, t in tensors.items() if k.startswith("grad."))
    for key, value in case.parameters.values.items():
        flat = value.detach().reshape(-1)  # shares its memory with the parameter
        for at in {rng.randrange(len(flat)) for _ in range(entries)}:
            kept, errors = float(flat[at]), []
            for step in (1e-4, 1e-5, 1e-6):  # a kink of the ReLU may lie inside one of them
                loss = []
                for sign in (1, -1):
                    flat[at] = kept + sign * step
                    with torch.no_grad():
                        loss.append(float(case.evaluate()[1]))
                flat[at] = kept
                slope = (loss[0] - loss[1]) / (2 * step)
                errors.append(abs(slope - float(tensors["grad." + key].reshape(-1)[at])) / largest)
            worst = max(worst, min(errors))
    return worst


def file_difference(new, old):
    """Relative difference of results, by the measure of `parity`; infinite if anything else differs."""
    a, b = decode(new), decode(old)
    if {k: v[0] for k, v in a.items()} != {k: v[0] for k, v in b.items()}:
        return math.inf
    largest = max(abs(x) for k, (_, v) in b.items() if k.startswith("grad.") for x in v)
    worst = 0.0
    for key, (_, values) in b.items():
        least = 1e-3 * largest if key.startswith("grad.") else 1e-12
        scale = max(least, max(abs(x) for x in values))
        difference = max(abs(x - y) for x, y in zip(a[key][1], values))
        computed = key.startswith("grad.") or key in ("logits", "loss")
        worst = max(worst, difference / scale if computed or difference == 0 else math.inf)
    return worst


def check(case, directory):
    failures = []
    raw = case.file()
    if raw != Case(case.block, case.suffix).file():
        failures.append("two runs differ")
    dead = [k for k, (_, v) in decode(raw).items() if k.startswith("grad.") and max(map(abs, v)) < 1e-6]
    if dead:
        failures.append("no gradient reaches " + ", ".join(dead))
    error = finite_difference_error(case)
    if error > 1e-7:
        failures.append("gradient is off")
    path = os.path.join(directory, case.name + ".safetensors")
    difference = math.inf
    if os.path.exists(path):
        with open(path, "rb") as file:
            difference = file_difference(raw, file.read())
    if difference > 1e-10:
        failures.append("file at hand differs or is missing")
    outcome = "; ".join(failures) or "ok"
    print("%-10s finite differences %.1e, file %.1e  %s" % (case.name, error, difference, outcome))
    return not failures


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description="golden files of whole models in float64")
    parser.add_argument("--out", default=here, metavar="DIR", help="folder of the files (default: here)")
    parser.add_argument("--check", action="store_true", help="check gradients and files; write nothing")
    args = parser.parse_args()
    cases = [Case(name, suffix) for name in BLOCKS for suffix in SIZES]
    if args.check:
        return 0 if all([check(case, args.out) for case in cases]) else 1
    os.makedirs(args.out, exist_ok=True)
    for case in cases:
        raw = case.file()
        path = os.path.join(args.out, case.name + ".safetensors")
        with open(path, "wb") as file:
            file.write(raw)
        print("%s: %d bytes, loss %.12f" % (path, len(raw), decode(raw)["loss"][1][0]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
