#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch rival for the speed of the transformer blocks, CPU, float32; torch 1.13 or 2.x.

  torch_blocks.py --config tiny --block sas_p --threads 1 --rounds 5      measures itself, prints JSON
  torch_blocks.py --config tiny --block sas_p --threads 1 --serve         is driven by bench/compare
  torch_blocks.py --block sas_p --check FILE.safetensors                  same numbers as a golden file?

A step in mode train: forward, backward, clip of the gradient norm to 1, AdamW (0.9, 0.999, 1e-8, decay 0.1
on matrices only). In mode infer: forward to the logits of all tokens, under inference_mode.

Server: one line {"ready": true, ...}; then each line "run N" on stdin does N steps and is answered by
{"ms": [N times]}; the end of stdin ends it.

What a careful user would do to be fast is done here: one product for query, key and value; scale and mask
inside the product of the scores; RMSNorm and shaped attention with hand-written backward passes; an
optimised BLAS; malloc that keeps freed memory (else thousands of page faults a step). Attention has
several variants; `--variant auto` times them at start and takes the fastest.
"""
import argparse
import glob
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import time

BLOCKS = ("pre_ln", "parallel", "sas", "sas_p", "sas_p_norm_free")

CONFIGS = {
    "micro": dict(width=32, heads=4, layers=3, vocab=61, context=16, batch=2),  # the golden files
    "tiny": dict(width=128, heads=4, layers=6, vocab=256, context=128, batch=8),
    "small": dict(width=256, heads=8, layers=8, vocab=1024, context=128, batch=8),
    "paperlike": dict(width=768, heads=12, layers=6, vocab=8192, context=128, batch=4),
}

PLAIN_VARIANTS = ("softmax", "sdpa")
SHAPED_VARIANTS = ("kept", "matrix", "factored", "sdpa")

# What makes libraries take kernels for a lesser processor than this one.
CPU_CHOICES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR", "MKL_DEBUG_CPU_TYPE",
               "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY")

# sgemm of oneDNN, which comes with Debian's torch, under the name that torch calls (column-major).
ONEDNN_BLAS = """
typedef long dim;
int dnnl_sgemm(char, char, dim, dim, dim, float, const float*, dim, const float*, dim, float, float*, dim);
void sgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k, const float* alpha,
            const float* a, const int* lda, const float* b, const int* ldb, const float* beta, float* c,
            const int* ldc) {
  dnnl_sgemm(*tb, *ta, *n, *m, *k, *alpha, b, *ldb, a, *lda, *beta, c, *ldc);
}
"""


def arguments():
    parser = argparse.ArgumentParser(description="PyTorch rival for the speed of transformer blocks")
    parser.add_argument("--config", default="tiny", choices=CONFIGS)
    parser.add_argument("--block", default="sas_p", choices=BLOCKS)
    parser.add_argument("--mode", default="train", choices=("train", "infer"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--variant", default="auto", help="of attention: auto, softmax, kept, ...")
    parser.add_argument("--compile", action="store_true", help="torch.compile (torch 2.x)")
    parser.add_argument("--blas", default="auto", metavar="DIR", help="of libblas.so.3; or onednn, system")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--check", metavar="FILE")
    return parser.parse_args()


def set_blas(env, choice):
    """Debian's torch takes whatever libblas.so.3 is; a step with the reference BLAS takes 15 times as long.

    auto takes OpenBLAS where it is installed, else oneDNN (a little faster still; needs a C compiler). Other
    builds of torch bring their own BLAS and notice nothing of this.
    """
    folders = glob.glob("/usr/lib/*/openblas-openmp") + glob.glob("/usr/lib/*/openblas-pthread")
    onednn = glob.glob("/usr/lib/*/libdnnl.so.[0-9]")
    if onednn and (choice == "onednn" or (choice == "auto" and not folders)):
        library = os.path.join(tempfile.gettempdir(), "torch_blocks_onednn_blas_%d.so" % os.getuid())
        command = ["cc", "-O2", "-shared", "-fPIC", "-o", library + ".new"]
        command += ["-x", "c", "-", "-x", "none", onednn[0]]
        try:
            subprocess.run(command, input=ONEDNN_BLAS.encode(), check=True)
            os.replace(library + ".new", library)
            env["LD_PRELOAD"] = library
        except (OSError, subprocess.CalledProcessError) as error:
            print("no oneDNN BLAS (%s); apt-get install libopenblas0-pthread" % error, file=sys.stderr)
    elif choice not in ("onednn", "system") and (choice != "auto" or folders):
        first = folders[0] if choice == "auto" else choice
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, [first, env.get("LD_LIBRARY_PATH")]))


def set_environment(args):
    """Starts this process again with everything that must be set before libraries load."""
    if os.environ.get("TORCH_BLOCKS_STARTED"):
        return
    env = dict(os.environ, TORCH_BLOCKS_STARTED="1")
    for name in CPU_CHOICES:  # some machines have one set, for an older processor than they are
        env.pop(name, None)
    # glibc: serve large blocks from the heap and never give memory back between steps.
    env.update(MALLOC_MMAP_THRESHOLD_=str(1 << 30), MALLOC_TRIM_THRESHOLD_=str(1 << 34))
    env.update(MALLOC_TOP_PAD_=str(1 << 26))
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"):
        env[name] = str(args.threads)
    set_blas(env, args.blas)
    if args.threads > 1:
        # Spinning is twice as fast, except beside OpenBLAS with a thread pool of its own, which it starves.
        system = [os.path.realpath(path) for path in glob.glob("/usr/lib/*/libblas.so.3")]
        blas = env.get("LD_LIBRARY_PATH") or "".join(system)
        own_pool = "openblas-pthread" in blas and "LD_PRELOAD" not in env
        env.setdefault("OMP_WAIT_POLICY", "PASSIVE" if own_pool else "ACTIVE")
    os.execve(sys.executable, [sys.executable, os.path.abspath(__file__)] + sys.argv[1:], env)


args = arguments()
set_environment(args)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(args.threads)
torch.set_num_interop_threads(1)
torch.set_flush_denormal(True)


# ------------------------------------------------------------------------------------ Modules
class RMSNormFunction(torch.autograd.Function):
    """y = x q gain, q = 1 / (rms + eps); the backward pass needs one elementwise product and two gemv."""

    @staticmethod
    def forward(ctx, x, gain):
        rms = torch.linalg.vector_norm(x, dim=-1, keepdim=True) * (1 / math.sqrt(x.shape[-1]))
        q = (rms + 1e-8).reciprocal_()
        ctx.save_for_backward(x, gain, rms, q)
        return (x * q).mul_(gain)

    @staticmethod
    def backward(ctx, dy):
        x, gain, rms, q = ctx.saved_tensors
        product = (dy * x).view(-1, x.shape[-1])
        dot = (product @ gain).view_as(q)
        dgain = q.view(-1) @ product
        dx = (dy * gain).mul_(q)
        return dx.addcmul_(x, dot * q * q / (rms * -x.shape[-1])), dgain


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return RMSNormFunction.apply(x, self.gain)


class MLP(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(F.relu(self.up(x), inplace=True))


class Constants:
    """Tensors that depend on the context only."""

    def __init__(self, length):
        low = torch.ones(length, length).tril()
        self.mask = torch.zeros(length, length).masked_fill(low == 0, -math.inf)
        self.centre = low / low.sum(1, keepdim=True)
        self.eye = torch.eye(length)
        self.reciprocal = self.centre[:, :1]  # 1 / (i + 1)


def split(x, parts, heads):
    """(B, T, parts d) -> `parts` tensors (B H, T, d/H), with one copy."""
    b, t, d = x.shape
    x = x.view(b, t, parts, heads, d // parts // heads).permute(2, 0, 3, 1, 4)
    return x.reshape(parts, b * heads, t, -1).unbind(0)


def merge(x, heads):
    """(B H, T, d/H) -> (B, T, d)."""
    bh, t, dh = x.shape
    return x.view(bh // heads, heads, t, dh).transpose(1, 2).reshape(bh // heads, t, heads * dh)


def attention_matrix(q, k, constants):
    scores = torch.baddbmm(constants.mask[None], q, k.transpose(1, 2), alpha=q.shape[-1] ** -0.5)
    return torch.softmax(scores, -1)


def causal_attention(q, k, v, constants, variant):
    if variant == "sdpa":
        return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    return attention_matrix(q, k, constants) @ v


class ShapedFunction(torch.autograd.Function):
    """(alpha I + beta A - gamma C) V: the gains touch T x T as seldom as possible in the backward pass."""

    @staticmethod
    def forward(ctx, q, k, v, alpha, beta, gamma, constants):
        heads, t = len(beta), q.shape[1]
        a = attention_matrix(q, k, constants)
        fixed = alpha[:, None, None] * constants.eye - gamma[:, None, None] * constants.centre
        matrix = torch.addcmul(fixed, a.view(-1, heads, t, t), beta[:, None, None]).view_as(a)
        ctx.save_for_backward(q, k, v, beta, a, matrix)
        ctx.constants = constants
        return torch.bmm(matrix, v)

    @staticmethod
    def backward(ctx, dy):
        q, k, v, beta, a, matrix = ctx.saved_tensors
        heads, t = len(beta), q.shape[1]
        dmatrix = torch.bmm(dy, v.transpose(1, 2))
        dv = torch.bmm(matrix.transpose(1, 2), dy)
        dscores = torch._softmax_backward_data(dmatrix, a, -1, a.dtype)
        per_head = dmatrix.view(-1, heads, t, t)
        dfixed = per_head.sum(0)
        dalpha = dfixed.diagonal(dim1=1, dim2=2).sum(1)
        dgamma = -(dfixed.view(heads, -1) @ ctx.constants.centre.view(-1))
        dbeta = dmatrix.mul_(a).view(-1, heads, t * t).sum((0, 2))
        scale = (beta * q.shape[-1] ** -0.5).repeat(len(q) // heads)[:, None, None]
        return (torch.bmm(dscores, k).mul_(scale), torch.bmm(dscores.transpose(1, 2), q).mul_(scale), dv,
                dalpha, dbeta, dgamma, None)  # fmt: skip


class Attention(nn.Module):
    """Multi-head attention, Eqs. (2) and (3)."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.variant = heads, "softmax"
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.projection = nn.Linear(width, width, bias=False)

    def forward(self, x, constants):
        q, k, v = split(self.qkv(x), 3, self.heads)
        return self.projection(merge(causal_attention(q, k, v, constants, self.variant), self.heads))


class ShapedAttention(nn.Module):
    """Eq. (13) without value and projection; `gain` joins the gains per head. Block 0 keeps a value."""

    def __init__(self, width, heads, has_value):
        super().__init__()
        self.heads, self.variant = heads, "kept"
        self.qk = nn.Linear(width, 2 * width, bias=False)
        self.alpha, self.beta, self.gamma = (nn.Parameter(torch.ones(heads)) for _ in range(3))
        self.gain = nn.Parameter(torch.ones(()))
        self.delta = nn.Linear(width, width, bias=False) if has_value else None
        if has_value:
            self.value_alpha, self.value_beta = (nn.Parameter(torch.ones(())) for _ in range(2))

    def forward(self, x, constants):
        q, k = split(self.qk(x), 2, self.heads)
        if self.delta is not None:
            x = torch.addcmul(self.value_alpha * x, self.value_beta, self.delta(x))
        (v,) = split(x, 1, self.heads)
        alpha, beta, gamma = (self.gain * g for g in (self.alpha, self.beta, self.gamma))
        if self.variant == "kept":
            return merge(ShapedFunction.apply(q, k, v, alpha, beta, gamma, constants), self.heads)
        if self.variant == "matrix":
            fixed = alpha[:, None, None] * constants.eye - gamma[:, None, None] * constants.centre
            a = attention_matrix(q, k, constants)
            matrix = torch.addcmul(fixed, a.view(-1, *fixed.shape), beta[:, None, None]).view_as(a)
            return merge(matrix @ v, self.heads)
        alpha, beta, gamma = (g.repeat_interleave(x.shape[-1] // self.heads) for g in (alpha, beta, gamma))
        out = merge(causal_attention(q, k, v, constants, self.variant), self.heads)
        mean = constants.centre @ x if self.variant == "sdpa" else x.cumsum(1) * constants.reciprocal
        return torch.addcmul(torch.addcmul(alpha * x, beta, out), -gamma, mean)


class Block(nn.Module):
    def __init__(self, c, kind, first):
        super().__init__()
        width, heads = c["width"], c["heads"]
        self.kind, self.shaped = kind, kind.startswith("sas")
        self.norm1 = nn.Identity() if kind == "sas_p_norm_free" else RMSNorm(width)
        if kind in ("pre_ln", "sas"):
            self.norm2 = RMSNorm(width)
        self.attention = ShapedAttention(width, heads, first) if self.shaped else Attention(width, heads)
        if self.shaped:
            self.mlp_gain = nn.Parameter(torch.tensor(0.1))
        self.mlp_skip = nn.Parameter(torch.ones(())) if kind == "sas" else None
        self.mlp = MLP(width, 4 * width)

    def forward(self, x, constants):
        n = self.norm1(x)
        a = self.attention(n, constants)
        if self.kind == "pre_ln":
            x = x + a
            return x + self.mlp(self.norm2(x))
        if self.kind == "parallel":
            return x + self.mlp(n) + a
        if self.kind == "sas":
            return torch.addcmul(self.mlp_skip * a, self.mlp_gain, self.mlp(self.norm2(a)))
        return torch.addcmul(a, self.mlp_gain, self.mlp(n))


class Decoder(nn.Module):
    def __init__(self, c, kind):
        super().__init__()
        width, length = c["width"], c["context"]
        self.embedding = nn.Embedding(c["vocab"], width)
        self.blocks = nn.ModuleList(Block(c, kind, i == 0) for i in range(c["layers"]))
        self.norm = RMSNorm(width)
        angle = torch.arange(length)[:, None] / 10000 ** (torch.arange(width) // 2 * 2 / width).double()
        self.positions = torch.where(torch.arange(width) % 2 == 0, angle.sin(), angle.cos())
        self.positions = self.positions.to(torch.get_default_dtype())
        self.constants = Constants(length)
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, std=0.02)
        with torch.no_grad():
            for m in self.modules():
                if isinstance(m, ShapedAttention):
                    m.qk.weight[:width] = 0
                    if m.delta is not None:
                        m.delta.weight.zero_()

    def set_variant(self, variant):
        for block in self.blocks:
            block.attention.variant = variant

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions
        for block in self.blocks:
            x = block(x, self.constants)
        return F.linear(self.norm(x), self.embedding.weight)


# ---------------------------------------------------------------------------------- Measuring
def make_step(model, c, mode):
    """A function that does one step, on one random batch."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, c["vocab"], (c["batch"], c["context"] + 1), generator=generator)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].reshape(-1)
    run = torch.compile(model) if args.compile else model
    if mode == "infer":

        def infer():
            with torch.inference_mode():
                return run(inputs)

        return infer
    parameters = list(model.parameters())
    groups = [
        dict(params=[p for p in parameters if p.ndim >= 2], weight_decay=0.1),
        dict(params=[p for p in parameters if p.ndim < 2], weight_decay=0.0),
    ]
    fused = tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 4)  # on the CPU
    optimiser = torch.optim.AdamW(groups, lr=1e-3, foreach=False, **(dict(fused=True) if fused else {}))

    def train():
        optimiser.zero_grad(set_to_none=True)
        F.cross_entropy(run(inputs).view(-1, c["vocab"]), targets).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()

    return train


def milliseconds(step, count):
    times = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def median(values):
    values = sorted(values)
    return 0.5 * (values[(len(values) - 1) // 2] + values[len(values) // 2])


def variants():
    all_of_them = SHAPED_VARIANTS if args.block.startswith("sas") else PLAIN_VARIANTS
    return [v for v in all_of_them if v != "sdpa" or hasattr(F, "scaled_dot_product_attention")]


def choose_variant(model, step):
    """The fastest variant, by alternating short runs: the clock may drift while we look."""
    times = {v: [] for v in variants()}
    for repeat in range(3):
        for v in times:
            if repeat < 2 or times[v][-1] < 500:
                model.set_variant(v)
                times[v] += milliseconds(step, 2)[1:]
    best = {v: round(min(t), 2) for v, t in times.items()}
    return min(best, key=best.get), best


def loaded_blas():
    """File name of the BLAS this process uses, with its rate on a product of 512 x 512 matrices."""
    x = torch.ones(512, 512)
    seconds = min(milliseconds(lambda: x @ x, 6)) * 1e-3
    with open("/proc/self/maps") as maps:
        files = {os.path.basename(line.split()[-1]) for line in maps if "/" in line}
    names = sorted(f for f in files if "blas" in f and "cublas" not in f)
    names = [f for f in names if "openblas" in f] or names
    if torch.backends.mkl.is_available():
        names = ["MKL"]
    elif any(f.startswith("torch_blocks_onednn") for f in files):
        names = ["oneDNN"]
    return "+".join(names) or "unknown", 2 * 512**3 / seconds * 1e-9


# -------------------------------------------------------------------------------------- Check
def read_safetensors(path):
    with open(path, "rb") as file:
        raw = file.read()
    (length,) = struct.unpack_from("<Q", raw)
    result = {}
    for key, entry in json.loads(raw[8 : 8 + length]).items():
        if key != "__metadata__":
            begin, end = (8 + length + o for o in entry["data_offsets"])
            letter = {"F64": "d", "I32": "i"}[entry["dtype"]]
            values = struct.unpack("<%d%s" % (math.prod(entry["shape"]), letter), raw[begin:end])
            result[key] = torch.tensor(values, dtype=torch.float64 if letter == "d" else torch.long)
            result[key] = result[key].view(entry["shape"])
    return result


def golden_parts(key):
    """Names in a golden file that make up the parameter `key` of Decoder, and whether they are transposed."""
    names = {"embedding.weight": "embedding.weight", "norm.gain": "final_norm.gain"}
    if key in names:
        return [names[key]], False
    block, rest = ".".join(key.split(".")[:2]), ".".join(key.split(".")[2:])
    parts = {
        "attention.qkv.weight": ["attention.query.weight", "attention.key.weight", "attention.value.weight"],
        "attention.qk.weight": ["attention.query.weight", "attention.key.weight"],
        "attention.delta.weight": ["attention.value.delta"],
        "attention.value_alpha": ["attention.value.alpha"],
        "attention.value_beta": ["attention.value.beta"],
        "attention.gain": ["attention_gain"],
    }.get(rest, [rest])
    return [block + "." + p for p in parts], rest.endswith("weight")


def check(path):
    torch.set_default_dtype(torch.float64)
    golden, good = read_safetensors(path), True
    model = Decoder(CONFIGS["micro"], args.block)

    def stored(key, prefix=""):
        parts, transposed = golden_parts(key)
        return torch.cat([golden[prefix + p].T for p in parts]) if transposed else golden[prefix + parts[0]]

    for key, p in model.named_parameters():
        p.data.copy_(stored(key))
    for variant in variants():
        model.set_variant(variant)
        model.zero_grad()
        logits = model(golden["tokens"])
        loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), golden["targets"].view(-1))
        loss.backward()
        pairs = [(logits, golden["logits"]), (loss, golden["loss"])]
        pairs += [(p.grad, stored(key, "grad.")) for key, p in model.named_parameters()]
        worst = max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)
        good = good and worst < 1e-8
        print("%s %s: worst relative difference %.1e" % (args.block, variant, worst))
    return 0 if good else 1


def main():
    if args.check:
        return check(args.check)
    torch.manual_seed(0)
    c = CONFIGS[args.config]
    model = Decoder(c, args.block)
    step = make_step(model, c, args.mode)
    tried = {}
    if args.variant == "auto":
        args.variant, tried = choose_variant(model, step)
    model.set_variant(args.variant)
    blas, rate = loaded_blas()
    about = dict(
        peer="pytorch " + torch.__version__,
        **{key: getattr(args, key) for key in ("config", "block", "mode", "threads", "variant")},
        tried_ms=tried,
        blas=blas,
        gemm_gflops=round(rate, 1),
        parameters=sum(p.numel() for p in model.parameters()),
    )
    if args.serve:
        print(json.dumps(dict(ready=True, **about)), flush=True)
        for line in sys.stdin:
            command = line.split()
            if len(command) == 2 and command[0] == "run":
                print(json.dumps({"ms": milliseconds(step, int(command[1]))}), flush=True)
        return 0
    milliseconds(step, 3)
    rounds = [median(milliseconds(step, 5)) for _ in range(args.rounds)]
    print(json.dumps(dict(about, ms=round(median(rounds), 3), ms_best=round(min(rounds), 3))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
