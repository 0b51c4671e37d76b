#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden files: whole models written from the equations of the papers, in float64.

PyTorch (1.13 or 2.x) serves as automatic differentiation only. Everything else is spelled out here, so
that a block can be read beside its equation. One file holds parameters, tokens, targets, logits, loss and
the gradient of every parameter, under the checkpoint keys of the library; weights are (in, out) and
multiply on the right.

  python3 tests/golden/make_golden.py [--out DIR]   write the files
  python3 tests/golden/make_golden.py --check       finite differences, same bytes twice, the files at hand

A new block is one function in the section "Blocks" and one entry in BLOCKS; names are those of the library.
As a module, `Model(block, sizes)` evaluates any weights (tests/programs/parity_test.py).
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
    def __init__(self, width, heads, hidden, layers, vocab, context, batch=2, window=0):
        self.width, self.heads, self.hidden, self.layers = width, heads, hidden, layers
        self.vocab, self.context, self.batch, self.window = vocab, context, batch, window


SIZES = {
    "": Sizes(width=32, heads=4, hidden=128, layers=3, vocab=61, context=16),
    "_small": Sizes(width=16, heads=2, hidden=24, layers=2, vocab=19, context=8),
    "_odd": Sizes(width=12, heads=2, hidden=20, layers=2, vocab=7, context=5),  # fit no vector
    "_three": Sizes(width=12, heads=3, hidden=20, layers=2, vocab=7, context=5),  # nor a power of two
    "_window": Sizes(width=12, heads=2, hidden=20, layers=2, vocab=7, context=9, window=4),
}


class Parameters:
    """Parameters of one model, created when an equation first asks for them.

    All values are multiples of 1/4096, hence exact in float32 as well, and none is at its special
    initial value (gains are not 1, query weights and deltas not 0): every gradient is exercised.
    """

    def __init__(self, seed, prefix="", values=None):
        self.seed, self.prefix = seed, prefix
        self.values = {} if values is None else values  # by key; those that are not trained need no gradient

    def block(self, i):
        return Parameters(self.seed, "blocks.%d." % i, self.values)

    def trained(self):
        return {key: value for key, value in self.values.items() if value.requires_grad}

    def weight(self, key, *shape):
        return self._get(key, shape, 0.0, 0.2)

    def gain(self, key, *shape):
        return self._get(key, shape, 1.0, 0.3)

    def bias(self, key, *shape):
        return self._get(key, shape, 0.0, 0.3)

    def constant(self, key, *shape):
        return self._get(key, shape, 0.0, 0.3, trained=False)

    def _get(self, key, shape, mean, deviation, trained=True):
        key = self.prefix + key
        if key not in self.values:
            # Python's generator, not torch's: its numbers do not depend on a version.
            rng = random.Random("%s/%s" % (self.seed, key))
            flat = [round(4096 * rng.gauss(mean, deviation)) / 4096 for _ in range(math.prod(shape))]
            self.values[key] = torch.tensor(flat).reshape(shape).requires_grad_(trained)
        return self.values[key]


# ------------------------------------------------------------------------------------ Modules
def rms_norm(x, p, name):
    """x / (sqrt(mean x^2) + eps) * gain; eps stands outside the root."""
    return x / (x.square().mean(-1, keepdim=True).sqrt() + 1e-8) * p.gain(name + ".gain", x.shape[-1])


def layer_norm(x, p, name, epsilon=1e-5):
    """(x - mean) / sqrt(var + eps) * gain + bias with the biased variance."""
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / (centred.square().mean(-1, keepdim=True) + epsilon).sqrt()
    return scaled * p.gain(name + ".gain", x.shape[-1]) + p.bias(name + ".bias", x.shape[-1])


def linear(x, p, name, outputs):
    return x @ p.weight(name + ".weight", x.shape[-1], outputs)


def reparameterised(x, p, name, alpha=None, beta=None, base=False):
    """x (alpha W0 + beta Delta), Eq. (6). Gains are trained unless given; W0 is a given matrix or I."""
    d = x.shape[-1]
    alpha = p.gain(name + ".alpha") if alpha is None else alpha
    beta = p.gain(name + ".beta") if beta is None else beta
    start = x @ p.constant(name + ".base", d, d) if base else x
    return alpha * start + beta * (x @ p.weight(name + ".delta", d, d))


def mlp(x, p, c, slope=0.0):
    """max(x W1, slope x W1) W2."""
    h = linear(x, p, "mlp.up", c.hidden)
    return linear(torch.where(h >= 0, h, slope * h), p, "mlp.down", c.width)


def heads(x, c):
    """(T, d) -> (H, T, d/H): head h owns column block h."""
    return torch.stack(x.chunk(c.heads, dim=1))


def columns(x):
    """(H, T, d/H) -> (T, d), the inverse of `heads`."""
    return torch.cat(list(x), dim=1)


def alibi_slopes(count):
    """2^(-8 h / n), h = 1..n, n the largest power of two <= count; the rest: 1st, 3rd, ... slope of 2n heads."""
    n = 2 ** int(math.log2(count))
    slopes = [2 ** (-8 * h / n) for h in range(1, n + 1)]
    return slopes + [2 ** (-8 * h / (2 * n)) for h in range(1, 2 * n + 1, 2)][: count - n]


def mask(rows, c, alibi, full=False):
    """(H, T, T): minus infinity for j > i unless all is seen, and outside a window; ALiBi: -m_h |i - j|."""
    hidden = torch.ones(rows, rows).triu(diagonal=rows if full else 1) > 0
    distance = torch.arange(rows)[:, None] - torch.arange(rows)[None, :]
    if c.window:
        hidden |= distance.abs() >= c.window
    slopes = torch.tensor(alibi_slopes(c.heads) if alibi else [0.0] * c.heads)
    return (-slopes[:, None, None] * distance).masked_fill(hidden, -math.inf)


def softmax_of(query, key, c, alibi=False, full=False):
    """A_h = softmax(Q_h K_h^T / sqrt(d_k) + mask), Eq. (2)."""
    scores = heads(query, c) @ heads(key, c).transpose(1, 2) / math.sqrt(c.width // c.heads)
    return torch.softmax(scores + mask(len(query), c, alibi, full), dim=-1)


def attention_matrix(n, p, c, alibi=False, full=False):
    """The same of Q = n W^Q and K = n W^K."""
    query, key = linear(n, p, "attention.query", c.width), linear(n, p, "attention.key", c.width)
    return softmax_of(query, key, c, alibi, full)


def per_head(p, c, *names):
    return (p.gain("attention." + name, c.heads)[:, None, None] for name in names)


def softmax_attention(n, p, c, value, alibi=False, full=False):
    """concat_h(A_h V_h), Eq. (3)."""
    return columns(attention_matrix(n, p, c, alibi, full) @ heads(value, c))


def skip_init_attention(n, p, c, value):
    """concat_h((alpha_h I + beta_h A_h) V_h), Eq. (4)."""
    alpha, beta = per_head(p, c, "alpha", "beta")
    return columns((alpha * torch.eye(len(n)) + beta * attention_matrix(n, p, c)) @ heads(value, c))


def shaped_attention(n, p, c, value, alibi=False, full=False):
    """concat_h((alpha_h I + beta_h A_h - gamma_h C) V_h), Eqs. (5) and (13); C is A at zero scores."""
    alpha, beta, gamma = per_head(p, c, "alpha", "beta", "gamma")
    centre = torch.softmax(mask(len(n), c, alibi, full), dim=-1)
    matrix = alpha * torch.eye(len(n)) + beta * attention_matrix(n, p, c, alibi, full) - gamma * centre
    return columns(matrix @ heads(value, c))


VALUE, PROJECTION = "attention.value", "attention.projection"


def dense_attention(n, p, c, alibi=False):
    """MHA(n) = concat_h(A_h n W^V_h) W^P."""
    value = linear(n, p, VALUE, c.width)
    return linear(softmax_attention(n, p, c, value, alibi), p, PROJECTION, c.width)


def first_value(n, p, i):
    """n (alpha I + beta Delta) in block 0, n itself in all others."""
    return reparameterised(n, p, VALUE) if i == 0 else n


# ------------------------------------------------------------------------------------- Blocks
def pre_ln(x, p, c, i):
    """X' = X + MHA(N1 X); out = X' + MLP(N2 X'), Eq. (1)."""
    x = x + dense_attention(rms_norm(x, p, "norm1"), p, c)
    return x + mlp(rms_norm(x, p, "norm2"), p, c)


def pre_ln_alibi(x, p, c, i):
    x = x + dense_attention(rms_norm(x, p, "norm1"), p, c, alibi=True)
    return x + mlp(rms_norm(x, p, "norm2"), p, c)


def pre_ln_reparam_trainable(x, p, c, i):
    """As pre_ln, V and P = alpha I + beta Delta with trained gains."""
    n = rms_norm(x, p, "norm1")
    x = x + reparameterised(softmax_attention(n, p, c, reparameterised(n, p, VALUE)), p, PROJECTION)
    return x + mlp(rms_norm(x, p, "norm2"), p, c)


def pre_ln_identity(x, p, c, i):
    """As pre_ln, V = P = I."""
    n = rms_norm(x, p, "norm1")
    x = x + softmax_attention(n, p, c, n)
    return x + mlp(rms_norm(x, p, "norm2"), p, c)


def parallel(x, p, c, i):
    """out = X + MLP(N X) + MHA(N X), Eq. (7)."""
    n = rms_norm(x, p, "norm1")
    return x + mlp(n, p, c) + dense_attention(n, p, c)


def mlp_branch(x, p, c):
    """alpha_FF X' + beta_FF MLP(N2 X')."""
    return p.gain("mlp_skip") * x + p.gain("mlp_gain") * mlp(rms_norm(x, p, "norm2"), p, c)


def v_skip_init(x, p, c, i):
    """X' = b_SA SkipInit(N1 X) W^P; out = a_FF X' + b_FF MLP(N2 X'), Eq. (4)."""
    n = rms_norm(x, p, "norm1")
    mixed = skip_init_attention(n, p, c, linear(n, p, VALUE, c.width))
    return mlp_branch(p.gain("attention_gain") * linear(mixed, p, PROJECTION, c.width), p, c)


def v_skip_init_shaped(x, p, c, i):
    """The same with Eq. (5)."""
    n = rms_norm(x, p, "norm1")
    mixed = shaped_attention(n, p, c, linear(n, p, VALUE, c.width))
    return mlp_branch(p.gain("attention_gain") * linear(mixed, p, PROJECTION, c.width), p, c)


def shaped_reparam(x, p, c, i):
    """The same with V = P = W0 + 0.2 Delta, W0 given."""
    n = rms_norm(x, p, "norm1")
    mixed = shaped_attention(n, p, c, reparameterised(n, p, VALUE, 1.0, 0.2, base=True))
    return mlp_branch(p.gain("attention_gain") * reparameterised(mixed, p, PROJECTION, 1.0, 0.2, base=True), p, c)


def shaped_reparam_trainable(x, p, c, i):
    """The same with V = P = alpha W0 + beta Delta, gains trained, W0 given."""
    n = rms_norm(x, p, "norm1")
    mixed = shaped_attention(n, p, c, reparameterised(n, p, VALUE, base=True))
    return mlp_branch(p.gain("attention_gain") * reparameterised(mixed, p, PROJECTION, base=True), p, c)


def sas(x, p, c, i):
    """X' = b_SA SA(N1 X); out = a_FF X' + b_FF MLP(N2 X'), Fig. 10; values are N1 X itself except in block 0."""
    n = rms_norm(x, p, "norm1")
    return mlp_branch(p.gain("attention_gain") * shaped_attention(n, p, c, first_value(n, p, i)), p, c)


def sas_alibi(x, p, c, i):
    n = rms_norm(x, p, "norm1")
    return mlp_branch(p.gain("attention_gain") * shaped_attention(n, p, c, first_value(n, p, i), alibi=True), p, c)


def sas_identity_first_value(x, p, c, i):
    n = rms_norm(x, p, "norm1")
    return mlp_branch(p.gain("attention_gain") * shaped_attention(n, p, c, n), p, c)


def sas_skip_init(x, p, c, i):
    """SAS with alpha I + beta A, Eq. (4)."""
    n = rms_norm(x, p, "norm1")
    return mlp_branch(p.gain("attention_gain") * skip_init_attention(n, p, c, first_value(n, p, i)), p, c)


def sas_no_mlp_skip(x, p, c, i):
    """SAS without a_FF X', with leaky ReLU of slope 0.2."""
    n = rms_norm(x, p, "norm1")
    x = p.gain("attention_gain") * shaped_attention(n, p, c, first_value(n, p, i))
    return p.gain("mlp_gain") * mlp(rms_norm(x, p, "norm2"), p, c, slope=0.2)


def sas_norm_free(x, p, c, i):
    """SAS with neither N1 nor N2."""
    x = p.gain("attention_gain") * shaped_attention(x, p, c, first_value(x, p, i))
    return p.gain("mlp_skip") * x + p.gain("mlp_gain") * mlp(x, p, c)


def sas_no_norm(x, p, c, i):
    """The same, but block 0 has a LayerNorm of its input."""
    return sas_norm_free(layer_norm(x, p, "norm1") if i == 0 else x, p, c, i)


def sas_p_norm_free(n, p, c, i):
    """out = b_FF MLP(X) + b_SA SA(X): the sub-blocks of SAS-P, Sec. 4.3, without a norm."""
    value = first_value(n, p, i)
    return p.gain("mlp_gain") * mlp(n, p, c) + p.gain("attention_gain") * shaped_attention(n, p, c, value)


def sas_p(x, p, c, i):
    """out = b_FF MLP(N X) + b_SA SA(N X), Sec. 4.3; values are N X itself except in block 0."""
    return sas_p_norm_free(rms_norm(x, p, "norm1"), p, c, i)


def sas_p_no_norm(x, p, c, i):
    """SAS-P without norms, but block 0 has a LayerNorm of its input."""
    return sas_p_norm_free(layer_norm(x, p, "norm1") if i == 0 else x, p, c, i)


def sas_p_alibi(x, p, c, i):
    n = rms_norm(x, p, "norm1")
    attended = shaped_attention(n, p, c, first_value(n, p, i), alibi=True)
    return p.gain("mlp_gain") * mlp(n, p, c) + p.gain("attention_gain") * attended


def sas_p_skip_init(x, p, c, i):
    """SAS-P with alpha I + beta A, Eq. (4)."""
    n = rms_norm(x, p, "norm1")
    attended = skip_init_attention(n, p, c, first_value(n, p, i))
    return p.gain("mlp_gain") * mlp(n, p, c) + p.gain("attention_gain") * attended


def sas_p_reparam_trainable(x, p, c, i):
    """SAS-P with V and P = alpha I + beta Delta in every block, gains trained."""
    n = rms_norm(x, p, "norm1")
    attended = reparameterised(shaped_attention(n, p, c, reparameterised(n, p, VALUE)), p, PROJECTION)
    return p.gain("mlp_gain") * mlp(n, p, c) + p.gain("attention_gain") * attended


# ------------------------------------------------------------------- Blocks of the second paper
def biased(x, p, name, outputs):
    """x W + b."""
    return linear(x, p, name, outputs) + p.bias(name + ".bias", outputs)


def gelu(x):
    """x P(N(0, 1) <= x)."""
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def relu_squared(x):
    return torch.where(x >= 0, x, 0.0).square()


def scale_heads(x, p, c):
    """eta_h times column block h."""
    return columns(p.gain("attention.head_scale", c.heads)[:, None, None] * heads(x, c))


def biased_attention(n, p, c, scale=None, norm=False, inner_norm=False):
    """concat_h(eta_h A_h V_h) W^P + b^P, or eta on the columns of that; then, if asked for, a norm of it.

    inner_norm: of queries, keys and values, over their full width."""
    query, key, value = (biased(n, p, "attention." + name, c.width) for name in ("query", "key", "value"))
    if inner_norm:
        query, key = layer_norm(query, p, "attention.query_norm"), layer_norm(key, p, "attention.key_norm")
        value = layer_norm(value, p, "attention.value_norm")
    y = columns(softmax_of(query, key, c) @ heads(value, c))
    if scale == "before":
        y = scale_heads(y, p, c)
    y = biased(y, p, PROJECTION, c.width)
    if scale == "after":
        y = scale_heads(y, p, c)
    return layer_norm(y, p, "attention.norm") if norm else y


def biased_mlp(n, p, c, activation=gelu, norm=False):
    """f(n W1 + b1) W2 + b2, with a norm of width F in front of W2 if asked for."""
    h = activation(biased(n, p, "mlp.up", c.hidden))
    return biased(layer_norm(h, p, "mlp.norm") if norm else h, p, "mlp.down", c.width)


def pre_ln_biased(x, p, c, i):
    """X' = X + MHA(N1 X); out = X' + MLP(N2 X')."""
    x = x + biased_attention(layer_norm(x, p, "norm1"), p, c)
    return x + biased_mlp(layer_norm(x, p, "norm2"), p, c)


def post_ln(x, p, c, i):
    """X' = N1(X + MHA(X)); out = N2(X' + MLP(X'))."""
    x = layer_norm(x + biased_attention(x, p, c), p, "norm1")
    return layer_norm(x + biased_mlp(x, p, c), p, "norm2")


def norm_former(x, p, c, i, scale="before", norm=True, inner_norm=False, mlp_norm=True, activation=gelu,
                attention_lambda=None, mlp_lambda=None):
    """X' = l X + N(HeadScaleMHA(N1 X)); out = l X' + N(f((N2 X') W1 + b1)) W2 + b2; l is 1, a number or a vector."""
    attended = biased_attention(layer_norm(x, p, "norm1"), p, c, scale, norm, inner_norm)
    x = residual(x, p, "attention_residual_scale", attention_lambda) + attended
    fed = biased_mlp(layer_norm(x, p, "norm2"), p, c, activation, mlp_norm)
    return residual(x, p, "mlp_residual_scale", mlp_lambda) + fed


def residual(x, p, name, of):
    """x, lambda x with one number, or lambda o x with a vector."""
    if not of:
        return x
    return x * (p.gain(name) if of == "number" else p.gain(name, x.shape[-1]))


def norm_former_after_projection(x, p, c, i):
    return norm_former(x, p, c, i, scale="after")


def norm_former_resscale(x, p, c, i):
    return norm_former(x, p, c, i, mlp_lambda="vector")


def norm_former_resscale_scalar(x, p, c, i):
    return norm_former(x, p, c, i, mlp_lambda="number")


def norm_former_resscale_both(x, p, c, i):
    return norm_former(x, p, c, i, attention_lambda="vector", mlp_lambda="vector")


def norm_former_resscale_no_post_attention_norm(x, p, c, i):
    return norm_former(x, p, c, i, mlp_lambda="vector", norm=False)


def norm_former_resscale_no_ffn_norm(x, p, c, i):
    return norm_former(x, p, c, i, mlp_lambda="vector", mlp_norm=False)


def norm_former_resscale_no_head_scale(x, p, c, i):
    return norm_former(x, p, c, i, mlp_lambda="vector", scale=None)


def norm_former_resscale_qkv_norm(x, p, c, i):
    return norm_former(x, p, c, i, mlp_lambda="vector", inner_norm=True)


def resscale_only(x, p, c, i):
    """The baseline with lambda on the skip around the MLP."""
    return norm_former(x, p, c, i, scale=None, norm=False, mlp_norm=False, mlp_lambda="vector")


def norm_former_relu2(x, p, c, i):
    return norm_former(x, p, c, i, activation=relu_squared)


def pre_ln_biased_relu2(x, p, c, i):
    return norm_former(x, p, c, i, scale=None, norm=False, mlp_norm=False, activation=relu_squared)


# ------------------------------------------------------------------- Blocks of the crammed BERT
def bert_norm(x, p, name):
    return layer_norm(x, p, name, epsilon=1e-12)


def geglu_mlp(n, p, c):
    """(v o gelu(g)) W2, [v g] = n W1."""
    value, gate = linear(n, p, "mlp.up", c.hidden).chunk(2, dim=1)
    return linear(value * gelu(gate), p, "mlp.down", c.width)


def bert_attention(n, p, c):
    mixed = softmax_attention(n, p, c, linear(n, p, VALUE, c.width), full=True)
    return linear(mixed, p, PROJECTION, c.width)


def bert_pre_ln(x, p, c, i):
    x = x + bert_attention(bert_norm(x, p, "norm1"), p, c)
    return x + geglu_mlp(bert_norm(x, p, "norm2"), p, c)


def bert_parallel(x, p, c, i):
    n = bert_norm(x, p, "norm1")
    return x + geglu_mlp(n, p, c) + bert_attention(n, p, c)


def bert_v_skip_init_shaped(x, p, c, i):
    """X' = b_SA SA(N1 X); out = a_FF X' + b_FF MLP(N2 X'), with V and P."""
    n = bert_norm(x, p, "norm1")
    mixed = shaped_attention(n, p, c, linear(n, p, VALUE, c.width), full=True)
    x = p.gain("attention_gain") * linear(mixed, p, PROJECTION, c.width)
    return p.gain("mlp_skip") * x + p.gain("mlp_gain") * geglu_mlp(bert_norm(x, p, "norm2"), p, c)


def bert_sas(x, p, c, i):
    """X' = b_SA SA(N1 X); out = a_FF X' + b_FF MLP(N2 X')."""
    n = bert_norm(x, p, "norm1")
    x = p.gain("attention_gain") * shaped_attention(n, p, c, first_value(n, p, i), full=True)
    return p.gain("mlp_skip") * x + p.gain("mlp_gain") * geglu_mlp(bert_norm(x, p, "norm2"), p, c)


def bert_sas_p_no_norm(n, p, c, i):
    """out = b_FF MLP(X) + b_SA SA(X); block 0 has a norm of its input."""
    n = bert_norm(n, p, "norm1") if i == 0 else n
    attended = shaped_attention(n, p, c, first_value(n, p, i), full=True)
    return p.gain("mlp_gain") * geglu_mlp(n, p, c) + p.gain("attention_gain") * attended


def bert_sas_p(x, p, c, i):
    """out = b_FF MLP(N X) + b_SA SA(N X)."""
    n = bert_norm(x, p, "norm1")
    attended = shaped_attention(n, p, c, first_value(n, p, i), full=True)
    return p.gain("mlp_gain") * geglu_mlp(n, p, c) + p.gain("attention_gain") * attended


SECOND_PAPER = (
    pre_ln_biased, post_ln, norm_former, norm_former_after_projection, norm_former_resscale,
    norm_former_resscale_scalar, norm_former_resscale_both, norm_former_resscale_no_post_attention_norm,
    norm_former_resscale_no_ffn_norm, norm_former_resscale_no_head_scale, norm_former_resscale_qkv_norm,
    resscale_only, norm_former_relu2, pre_ln_biased_relu2,
)
BERT = (bert_pre_ln, bert_parallel, bert_v_skip_init_shaped, bert_sas, bert_sas_p, bert_sas_p_no_norm)
BLOCKS = {
    f.__name__: f
    for f in (
        pre_ln, parallel, v_skip_init, v_skip_init_shaped, shaped_reparam, shaped_reparam_trainable,
        pre_ln_reparam_trainable, pre_ln_identity, sas, sas_identity_first_value, sas_no_mlp_skip, sas_p,
        sas_p_no_norm, sas_no_norm, sas_p_norm_free, sas_norm_free, sas_skip_init, sas_p_skip_init,
        sas_p_reparam_trainable, sas_alibi, sas_p_alibi, pre_ln_alibi, *SECOND_PAPER, *BERT,
    )
}
# Gains whose factor a norm behind them removes, so that their gradients vanish.
UNSEEN = {
    "sas_no_mlp_skip": ("attention_gain", "mlp_gain"),
    "sas_no_norm": ("attention_gain",),
    "sas_norm_free": ("attention_gain",),
    **{f.__name__: ("key.bias", "key_norm.bias") for f in SECOND_PAPER},  # moves all scores of a query alike
}
FILES = (
    [(name, "_small") for name in BLOCKS]
    + [(name, "") for name in ("pre_ln", "sas_p")]
    + [(name, "_odd") for name in ("pre_ln", "sas_p")]
    + [(name, "_odd") for name in ("v_skip_init", "shaped_reparam", "sas_no_mlp_skip", "sas_no_norm")]
    + [(name, "_three") for name in ("sas_p_alibi", "pre_ln_alibi", "norm_former_resscale_qkv_norm")]
    + [(name, "_window") for name in ("pre_ln", "sas_p_alibi", "bert_pre_ln", "bert_sas_p")]
)
CLASSIFIERS, POOLED, CLASSES = ("bert_pre_ln", "bert_sas_p"), 20, 3


# -------------------------------------------------------------------------------------- Model
def positions(c, length):
    """p_t[2k] = sin(t / 10000^(2k/d)), p_t[2k+1] = cos(same)."""
    angle = [[t / 10000 ** ((k - k % 2) / c.width) for k in range(c.width)] for t in range(length)]
    return torch.tensor([[math.cos(a) if k % 2 else math.sin(a) for k, a in enumerate(row)] for row in angle])


def features(name, p, c, sequence):
    """What leaves the last norm, (T, d), for one sequence."""
    bert, second = (BLOCKS[name] in family for family in (BERT, SECOND_PAPER))
    final_norm = bert_norm if bert else layer_norm if second else rms_norm
    x = p.weight("embedding.weight", c.vocab, c.width)[torch.tensor(sequence)]
    if bert:
        x = bert_norm(x + p.gain("position.scale") * positions(c, len(sequence)), p, "embedding_norm")
    elif not name.endswith("_alibi"):
        x = x + positions(c, len(sequence))
    for i in range(c.layers):
        x = BLOCKS[name](x, p.block(i), c, i)
    return x if name == "post_ln" else final_norm(x, p, "final_norm")


def model(name, p, c, tokens):
    """Logits (B, T, V), one sequence after the other; the head is the embedding, transposed."""
    embedding = p.weight("embedding.weight", c.vocab, c.width)
    return torch.stack([features(name, p, c, sequence) @ embedding.T for sequence in tokens])


def classifier(name, p, c, tokens):
    """Logits (B, classes): tanh(x_1 W + b) C + c of the first token of each sequence."""
    first = torch.stack([features(name, p, c, sequence)[0] for sequence in tokens])
    return biased(torch.tanh(biased(first, p, "pooler", POOLED)), p, "classifier", CLASSES)


def mean_cross_entropy(logits, targets):
    """Mean over the labelled rows of -log softmax(logits)[target], in nats."""
    losses = [torch.logsumexp(row, 0) - row[target] for row, target in zip(logits, targets) if target != IGNORED]
    return torch.stack(losses).mean()


class Model:
    """A block at some sizes, on given tokens: results and gradients, as `parity` writes them."""

    def __init__(self, block, sizes, parameters):
        self.block, self.sizes, self.parameters = block, sizes, parameters
        self.tokens, self.targets = None, None

    def draw(self, rng):
        c = self.sizes

        def draw():
            return [[rng.randrange(c.vocab) for _ in range(c.context)] for _ in range(c.batch)]

        self.tokens, self.targets = draw(), draw()
        # Unlabelled: the first token, one in the middle, and the last of the last sequence.
        self.targets[0][0] = self.targets[0][c.context // 2] = self.targets[-1][-1] = IGNORED

    def evaluate(self):
        logits = model(self.block, self.parameters, self.sizes, self.tokens)
        return logits, mean_cross_entropy(logits.flatten(0, 1), [target for row in self.targets for target in row])

    def inputs(self):
        tokens = {"tokens": self.tokens, "targets": self.targets}
        return {**self.parameters.values, **{k: torch.tensor(v, dtype=torch.int32) for k, v in tokens.items()}}

    def results(self):
        logits, loss = self.evaluate()
        trained = self.parameters.trained()
        gradients = torch.autograd.grad(loss, list(trained.values()))
        return {"logits": logits, "loss": loss, **{"grad." + key: g for key, g in zip(trained, gradients)}}


class Case(Model):
    """One golden file."""

    prefix = ""

    def __init__(self, block, suffix):
        self.suffix, self.name = suffix, self.prefix + block + suffix
        super().__init__(block, SIZES[suffix], Parameters(self.name))
        self.draw(random.Random("tokens of " + self.name))

    def tensors(self):
        results = self.results()  # which makes the parameters
        return {**self.inputs(), **results}

    def file(self):
        sizes = {k: str(v) for k, v in vars(self.sizes).items()}
        return encode(self.tensors(), {"block": self.block, **sizes})


class ClassifierCase(Case):
    """The same of a classifier: sequences of several lengths one behind the other, a class for each but one."""

    prefix = "classifier_"

    def draw(self, rng):
        c = self.sizes
        self.tokens = [[rng.randrange(c.vocab) for _ in range(length)] for length in (c.context, 3, 1, c.context - 3)]
        self.targets = [rng.randrange(CLASSES) for _ in self.tokens]
        self.targets[1] = IGNORED

    def evaluate(self):
        logits = classifier(self.block, self.parameters, self.sizes, self.tokens)
        return logits, mean_cross_entropy(logits, self.targets)

    def inputs(self):
        offsets = [sum(map(len, self.tokens[:s])) for s in range(len(self.tokens) + 1)]
        lists = {"tokens": sum(self.tokens, []), "offsets": offsets, "targets": self.targets}
        return {**self.parameters.values, **{k: torch.tensor(v, dtype=torch.int32) for k, v in lists.items()}}


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
    for key, value in case.parameters.trained().items():
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
    if raw != type(case)(case.block, case.suffix).file():
        failures.append("two runs differ")
    dead = [k for k, (_, v) in decode(raw).items() if k.startswith("grad.") and max(map(abs, v)) < 1e-6]
    dead = [k for k in dead if not k.endswith(UNSEEN.get(case.block, ()))]
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
    print("%-30s finite differences %.1e, file %.1e  %s" % (case.name, error, difference, outcome))
    return not failures


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description="golden files of whole models in float64")
    parser.add_argument("--out", default=here, metavar="DIR", help="folder of the files (default: here)")
    parser.add_argument("--check", action="store_true", help="check gradients and files; write nothing")
    args = parser.parse_args()
    cases = [Case(name, suffix) for name, suffix in FILES]
    cases += [ClassifierCase(name, "_small") for name in CLASSIFIERS]
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
