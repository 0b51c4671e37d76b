# SPDX-License-Identifier: MIT
"""gpu.md: the rows of gpu.json as tables of Markdown, a section for each card."""
import numbers

PLAIN = {"Ceilings": ["ceiling", "tb_per_s", "tflops"], "Products": ["product", "precision", "tflops"],
         "Epilogues": ["epilogue", "fused_us", "apart_us"],
         "Kernels": ["kernel", "us", "floor_us", "of_floor", "version"],
         "Generation": ["generation", "block", "precision", "sequences", "ms", "tokens_per_s", "floor_ms", "of_floor",
                        "prompt_ms", "cache_mb"],
         "Checks": ["check", "model", "error", "bound", "holds"],
         "Tests": ["test", "checks", "holds", "said"], "Sanitizers": ["tool", "program", "said", "holds"]}
WHICH = ("shape", "block", "precision")
RIVALS = ["eager", "compile", "eager authors", "compile authors"]  # ways of peers.py
TRAININGS = [*WHICH, "ms", "tokens/s", "share of floor", "GB", *("times as fast as " + way for way in RIVALS),
             "best rival", "its ms", "memory of its", "over own pre_ln"]
STEP_BYTES = 28  # of a parameter: AdamW reads it, its gradient and two moments, and writes all but the gradient


def is_long(value):
    return isinstance(value, list) or "\n" in str(value)


def in_a_line(row):
    """A row as text, without what has lines of its own."""
    def told(value):
        return "%.4g" % value if isinstance(value, float) else str(value)
    return ", ".join("%s %s" % (key, told(value)) for key, value in row.items() if not is_long(value))


def is_number(value):
    return isinstance(value, numbers.Real)


def cell(value):
    if is_number(value):
        return "%.0f" % value if abs(value) >= 1000 else "%.4g" % value
    return "" if value is None else str(value).replace("|", "\\|")


def table(title, head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return ["### " + title, "", *("| %s |" % " | ".join(map(cell, cells)) for cells in lines), ""] if rows else []


def ratio(a, b):
    """None if one of them is not known: a part has not run, or a number was not finite."""
    return a / b if is_number(a) and is_number(b) and b else None


def share_of_floor(row, ceilings):
    """Of a step: its FLOPs at the rate of a large product, or the bytes of its update at that of a copy, whichever take
    longer. Bytes of activations are not known here: the true floor lies higher."""
    products = ratio(row.get("tflops"), ceilings.get("product " + row["precision"]))
    terabytes_per_s = ratio(STEP_BYTES * 1e-9 * row["parameters"], row["ms"]) if "parameters" in row else None
    update = ratio(terabytes_per_s, ceilings.get("copy"))
    return None if products is None or update is None else max(products, update)


def fastest(rivals):
    """Empty if there is none."""
    return min(rivals, key=lambda row: row["ms"], default={})


def of_way(rivals, way):
    """Those of one way, in either formulation: "compile graphs" is another way than "compile"."""
    return [row for row in rivals if row["way"] in (way, way + " authors", way + " fused")]


def trainings(results):
    """A line for each of ours; beside eager and compile stands the faster of their formulations."""
    def case(row):
        return row["shape"], row["precision"], row.get("logits")
    ours = [row for row in results if "peer" not in row and row.keys() >= {*WHICH, "ms"}]
    pre_ln = {case(row): row["ms"] for row in ours if row["block"] == "pre_ln"}
    ceilings = {row["ceiling"]: row.get("tflops", row.get("tb_per_s")) for row in results if "ceiling" in row}
    lines = []
    for row in ours:
        same = [other for other in results if "peer" in other and is_number(other.get("ms")) and
                all(other.get(key) == row[key] for key in WHICH)]
        rival = fastest(same)
        block = row["block"] + (", logits " + row["logits"] if "logits" in row else "")
        lines.append([row["shape"], block, row["precision"], row["ms"], row.get("tokens_per_s"),
                      share_of_floor(row, ceilings), row.get("gb"),
                      *(ratio(fastest(of_way(same, way)).get("ms"), row["ms"]) for way in RIVALS),
                      rival.get("way"), rival.get("ms"), ratio(row.get("gb"), rival.get("gb")),
                      ratio(pre_ln.get(case(row)), row["ms"])])
    return table("Trainings", TRAININGS, lines)


def curves(results):
    """Losses at every tenth step; gpu.json has all of them."""
    lines = [row for row in results if "curve" in row]
    count = min((len(row["losses"]) for row in lines), default=0)
    at = sorted({0, *range(9, count, 10)})
    return table("Losses", ["model", "on", *("step %d" % (i + 1) for i in at)],
                 [[row["model"], row["curve"], *(row["losses"][i] for i in at)] for row in lines])


def not_fused(row):
    """The products of all its trainings that cuBLASLt did without their epilogue."""
    return list(dict.fromkeys(line for result in row["results"] for line in result.get("not_fused", [])))


def state_of(row):
    judged = [result["holds"] == "yes" for result in row["results"] if "holds" in result]
    words = ["not finished"] * ("unfinished" in row)
    words += ["%d of %d hold" % (sum(judged), len(judged))] if judged else ["%d results" % len(row["results"])]
    words += ["%(proven)d of %(kinds)d products proven" % result for result in row["results"] if "proven" in result]
    words += ["%d kinds of products not fused" % len(kinds) for kinds in [not_fused(row)] if kinds]
    words += ["%d failures" % len(row.get("failed", []))] * ("failed" in row)
    return ", ".join(words)


def texts(row):
    """What fits into no table."""
    blocks = ["FAILED: " + words for words in row.get("failed", [])]
    for result in row["results"]:
        blocks += [in_a_line(result)] * ("peer" in result and "failed" in result)
        for key, value in result.items():
            words = "\n".join(value) if isinstance(value, list) and all(isinstance(v, str) for v in value) else value
            blocks += ["%s:\n%s" % (key, words)] if words and not isinstance(words, list) and is_long(value) else []
    return [line for text in blocks for line in ("```", *text.splitlines(), "```", "")]


def page(rows):
    lines = ["# What a GPU said", ""]
    for device in dict.fromkeys(row["device"] for row in rows):
        here = [row for row in rows if row["device"] == device]
        results = [result for row in here for result in row["results"]]
        lines += ["## " + device, "", *trainings(results)]
        for title, keys in PLAIN.items():
            lines += table(title, keys, [[row.get(key) for key in keys] for row in results if keys[0] in row])
        lines += curves(results)
        parts = [(row["command"].split()[-1], row) for row in here]
        lines += table("Parts", ["part", "state", "date", "version"],
                       [[name, state_of(row), row["date"], row["version"]] for name, row in parts])
        for name, row in parts:
            lines += ["### Of " + name, "", *texts(row)] if texts(row) else []
    return "\n".join(lines)
