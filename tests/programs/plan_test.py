#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""plan_test.py PROGRAM: counts of the papers, FLOPs of the formula, placements that keep the memory's limit, and words
for devices that are none."""
import json
import subprocess
import sys

PROGRAM = sys.argv[1]
BLOCKS = ["pre_ln", "parallel", "sas", "sas_p", "sas_p_no_norm"]
VARIANTS = ["baseline", "normformer", "resscale"]
NAMES = ([f"{family}_{block}" for family in ("codeparrot", "bert", "languini") for block in BLOCKS] +
         [f"normformer_{size}_{variant}" for size in ("125m", "355m", "1300m", "2700m", "mlm")
          for variant in VARIANTS] +
         ["gpt3_175b_pre_ln", "gpt3_175b_sas_p"])

# What is trained, and what is published, counted as the publication counts.
COUNTS = {
    "codeparrot_pre_ln": (166_644_480, 166_742_736),
    "codeparrot_parallel": (166_630_656, None),
    "codeparrot_sas": (146_001_344, 146_072_018),
    "codeparrot_sas_p": (145_987_502, None),
    "bert_pre_ln": (119_589_889, 119_589_889),
    "bert_sas": (101_305_971, 101_305_971),
    "bert_sas_p": (101_281_379, 101_281_379),
    "languini_pre_ln": (97_555_968, 97_555_968),
    "languini_sas": (83_990_486, 83_990_486),
    "normformer_125m_resscale": (124_479_120, 124_479_120),
    "normformer_2700m_normformer": (2_649_544_704, 2_649_544_704),
    "normformer_2700m_resscale": (2_649_544_704 + 32 * 2560, None),
    "normformer_mlm_normformer": (125_507_840 + 144, 125_507_840),
    "gpt3_175b_pre_ln": (174_604_259_328, None),
}


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)


def lines(*arguments):
    done = run("--json", *arguments)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}


def flops(layers, width, hidden, vocab, context):
    """Of a token in Pre-LN blocks, for each key that it sees."""
    return lambda keys: layers * (2 * (4 * width ** 2 + 2 * width * hidden) + 4 * keys * width) + 2 * vocab * width


def main():
    failures = []

    def check(holds, what):
        if not holds:
            failures.append(what)

    presets = lines()
    check(list(presets) == NAMES, f"all presets in order, not {list(presets)}")
    for name, (trained, published) in COUNTS.items():
        found = presets[name]["parameters"], presets[name]["parameters_published"]
        check(found == (trained, published), f"{name}: {found}, not {(trained, published)}")
    for name, formula, context in (("codeparrot_pre_ln", flops(18, 768, 3072, 50_000, 128), 128),
                                   ("normformer_125m_baseline", flops(12, 768, 3072, 51_200, 2048), 2048),
                                   ("gpt3_175b_pre_ln", flops(96, 12_288, 4 * 12_288, 50_257, 2048), 2048)):
        check(presets[name]["flops_per_token"] == formula(context), f"{name}: FLOPs with dense scores")
        check(presets[name]["flops_per_token_causal"] == formula((context + 1) / 2), f"{name}: FLOPs of what it sees")
    check(presets["bert_pre_ln"]["flops_per_token"] == presets["bert_pre_ln"]["flops_per_token_causal"],
          "an encoder has no mask")
    check(all(p["kept_bytes_per_token"] > 4 * 768 for p in presets.values()), "every model keeps something")
    check(presets["bert_sas_p"]["kept_bytes_per_token"] < presets["bert_pre_ln"]["kept_bytes_per_token"],
          "SAS-P keeps less than Pre-LN")

    # What fits: parameters with gradients and moments take 16 bytes, kept values the rest.
    memory = 20e9
    for name, preset in lines("--memory", memory).items():
        placement = preset["placement"]
        state = 16 * preset["parameters"]
        if placement is None:
            check(state > memory or state + 2048 * preset["kept_bytes_per_token"] > memory, f"{name} would fit")
            continue
        context = 512 if "mlm" in name else {"c": 128, "b": 128, "l": 512, "n": 2048}[name[0]]
        sequence, whole = preset["kept_bytes_per_token"] * context, placement["tokens_per_step"] // context
        check(state + placement["micro_batch"] * sequence <= memory, f"{name}: the micro-batch fits")
        check(placement["micro_batch"] == whole or state + (placement["micro_batch"] + 1) * sequence > memory,
              f"{name}: and is the largest of what there is")
        check((placement["data"], placement["tensor"], placement["pipeline"]) == (1, 1, 1), f"{name}: one device")

    # A model of hundreds of billions: no share of a device exceeds it, and the shares use the devices.
    check(presets["gpt3_175b_pre_ln"]["placement"] is None, "GPT-3 is on no single device")
    huge = lines("--preset", "gpt3_175b_pre_ln", "--devices", 1024)["gpt3_175b_pre_ln"]
    share = huge["placement"]
    check(share is not None, "GPT-3 is on 1024")
    if share:
        each = share["tensor"] * share["pipeline"]
        check(16 * huge["parameters"] / each + share["micro_batch"] * 2048 * huge["kept_bytes_per_token"] /
              share["tensor"] <= 80e9, "its shares fit")
        check(share["tensor"] == 8, "matrices are shared before layers are")
        check(share["data"] * each <= 1024 < (share["data"] + 1) * each, "the devices are used")

    # The floor: arithmetic three times the forward pass; twice the devices take half as long; memory may be slower.
    one, two = (lines("--preset", "codeparrot_sas", "--tokens", 16_384, "--devices", n)["codeparrot_sas"]
                for n in (1, 2))
    check(abs(one["placement"]["seconds_per_step"] / (3 * one["flops_per_token_causal"] * 16_384 / 1e14) - 1) < 1e-12,
          "the floor is that of the arithmetic")
    check(abs(two["placement"]["seconds_per_step"] * 2 / one["placement"]["seconds_per_step"] - 1) < 1e-12,
          "two devices halve it")
    slow = lines("--preset", "codeparrot_sas", "--bandwidth", 1e9)["codeparrot_sas"]["placement"]
    check(slow["bound"] == "memory" and slow["seconds_per_step"] > 32 * one["parameters"] / 1e9, "a slow memory binds")
    whole, half = (lines("--preset", "codeparrot_sas", "--memory", 3e9, "--number-bytes", n)["codeparrot_sas"]
                   for n in (4, 2))
    check(half["placement"]["micro_batch"] >= 2 * whole["placement"]["micro_batch"] > 0,
          "half as many bytes, twice as many sequences")
    for arguments in ((), ("--memory", 1e30)):
        placement = lines("--preset", "codeparrot_sas", "--tokens", 1024, *arguments)["codeparrot_sas"]["placement"]
        check(placement["micro_batch"] == 8, "no more sequences at a time than there are")

    # In a pipeline: of all micro-batches that fit the one of the shortest step.
    for devices, bandwidth in ((64, 2e12), (64, 3e11), (64, 1e11), (8, 3e11), (8, 2e11), (8, 1e11), (3, 1e11)):
        preset = lines("--preset", "codeparrot_pre_ln", "--devices", devices, "--memory", 2e9, "--node", 1,
                       "--bandwidth", bandwidth)["codeparrot_pre_ln"]
        placement, state = preset["placement"], preset["parameters"]
        stages, replica = placement["pipeline"], -(-(placement["tokens_per_step"] // 128) // placement["data"])
        kept = preset["kept_bytes_per_token"] * 128

        def seconds(at_a_time):
            parts = -(-replica // at_a_time)
            arithmetic = (3 * preset["flops_per_token_causal"] * 128 * replica / stages / 1e14 *
                          (parts + stages - 1) / parts)
            traffic = 32 * state + 2 * kept * replica + 8 * parts * state
            return max(arithmetic, traffic / stages / bandwidth)
        fits = [n for n in range(1, replica + 1) if n * kept + 16 * state / stages <= 2e9]
        least = min(map(seconds, fits))
        largest = max(n for n in fits if seconds(n) <= least * (1 + 1e-12))
        check(abs(placement["seconds_per_step"] / least - 1) < 1e-12 and placement["micro_batch"] == largest,
              f"{devices} devices, {bandwidth:g} bytes/s: {placement}, not {largest} at a time in {least} s of {fits}")

    table = run()
    check(table.returncode == 0 and all(name in table.stdout for name in NAMES), "a table of all")
    check("does not fit" in table.stdout, "the table says what does not fit")
    many = run("--preset", "codeparrot_sas", "--tokens", "1e15").stdout.splitlines()[-1]
    check("  1 000 000 000 000 000  " in many, f"many tokens have their column: {many}")

    for arguments, words in ((("--preset", "nothing"), "nothing"), (("--flops", "0"), "--flops: 0 is not a number"),
                             (("--memory", "nan"), "--memory: nan is not a number"),
                             (("--bandwidth", "-1"), "--bandwidth: -1 is not a number"),
                             (("--tokens", "0"), "--tokens: 0 is not a number"), (("--devices", "0"), "--devices"),
                             (("--device", "4"), "the nearest flag is --devices"),
                             (("--number-bytes", "3"), "--number-bytes")):
        done = run(*arguments)
        check(done.returncode == 1 and words in done.stderr and not done.stdout, f"{arguments} says {words!r}")

    for failure in failures:
        print(f"plan: {failure}", file=sys.stderr)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
