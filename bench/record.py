# SPDX-License-Identifier: MIT
"""Results of benchmarks on disk: bench/results/QUESTION.json, {"rows": [row, ...]}. A row is what one command said: its
command, the machine, the compiler, the date, the version of the sources, and the results, one object for each line."""
import datetime
import json
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = os.path.join(ROOT, "bench", "results")
BUILD = os.path.join(ROOT, "build", "bench")
GROWS_FASTER = 3  # status of bench/growth: what it measured is saved, but does not hold


def path_of(question):
    return os.path.join(RESULTS, question + ".json")


def rows_of(question):
    """The saved rows; none if there is no such file.

    Errors: Failure if it is damaged
    """
    try:
        with open(path_of(question), encoding="utf-8") as file:
            return json.load(file)["rows"]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise Failure("%s has no rows that can be read (%s: %s)\n  hint: git has the last version" %
                      (path_of(question), type(error).__name__, error)) from None


def results_of(question):
    """All results of a question, each with what its row says beside them."""
    return [dict({key: value for key, value in row.items() if key != "results"}, **result)
            for row in rows_of(question) for result in row["results"]]


def machine():
    """Such as "AMD EPYC, family 25 model 17, AVX-512, 2 cores"; not its load or clock, which change."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            facts = dict(re.findall(r"^(model name|cpu family|model|flags)\s*: (.*)$", file.read(), re.M))
    except OSError:
        facts = {}
    vectors = {"avx512f": "AVX-512", "avx2": "AVX2"}
    flags = facts.get("flags", "").split()
    widest = [name for flag, name in vectors.items() if flag in flags][:1] + ["AMX"] * ("amx_bf16" in flags)
    family = ["family %s model %s" % (facts["cpu family"], facts["model"])] if "cpu family" in facts else []
    return ", ".join([facts.get("model name", os.uname().machine), *family, *widest, "%d cores" % os.cpu_count()])


def compiler_of_programs():
    """The one that CMake was given for BUILD, which it keeps; g++ if nothing was built."""
    try:
        with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
            return re.search(r"^CMAKE_CXX_COMPILER:\w+=(.+)$", file.read(), re.M)[1]
    except (OSError, TypeError):
        return "g++"


def compiler(command=None):
    """Such as "g++ 12.2.0 -O3 -march=native": that of the programs unless another is named."""
    command = command or compiler_of_programs()
    text = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    name = "clang++" if "clang" in text else "g++" if "Free Software" in text else os.path.basename(command)
    return name + " " + re.search(r"\d+\.\d+\.\d+", text)[0] + " -O3 -march=native"


def version():
    """The commit; with a plus if the library or the benchmarks differ from it."""
    def git(*arguments):
        try:
            return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True).stdout.strip()
        except FileNotFoundError:  # a machine that was given the sources alone
            return ""
    changed = git("status", "--porcelain", "--", "include", "bench", ":!bench/results")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + ("+" if changed else "")


def save(question, command, results, **more):
    """Puts a row in the place of the one of the same command on the same machine and card, or at the end."""
    row = {"command": command, "machine": machine(), "compiler": more.get("compiler") or compiler(),
           "date": str(datetime.date.today()), "version": version(), **more, "results": results}
    rows = rows_of(question)
    same = ("command", "machine", "device")
    places = [i for i, old in enumerate(rows) if all(old.get(key) == row.get(key) for key in same)]
    if places:
        rows[places[0]] = row
    else:
        rows.append(row)
    write(question, rows)


def write(question, rows):
    """A row takes a line for what it is and one for each result, so that a difference of two versions can be read."""
    texts = []
    for row in rows:
        head = json.dumps({key: value for key, value in row.items() if key != "results"})[:-1]
        results = ",\n  ".join(json.dumps(result) for result in row["results"])
        texts.append('%s, "results": [\n  %s]}' % (head, results))
    os.makedirs(RESULTS, exist_ok=True)
    with open(path_of(question) + ".new", "w", encoding="utf-8") as file:
        file.write('{"rows": [\n%s\n]}\n' % ",\n".join(texts))
    os.replace(path_of(question) + ".new", path_of(question))


def lines_of_json(text):
    """The lines of a program's output that are objects.

    Errors: Failure if one of them cannot be read
    """
    lines = [line for line in text.splitlines() if line.startswith("{")]
    try:
        return [json.loads(line) for line in lines]
    except json.JSONDecodeError as error:
        raise Failure("this is no object of JSON: %s" % error.doc) from None


class Failure(Exception):
    pass


def build(names):
    """Paths of up-to-date programs in build/bench."""
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DSIMPLX_BUILD_BENCH=ON", "-DSIMPLX_TESTS=OFF", "-DSIMPLX_EXAMPLES=OFF"]
    commands = [["cmake", "-S", ROOT, "-B", BUILD, *options],
                ["cmake", "--build", BUILD, "--parallel", str(os.cpu_count() or 1), "--target", *names]]
    for command in commands:
        try:
            result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except FileNotFoundError:
            raise Failure("cmake is not installed\n  hint: apt-get install cmake g++ libeigen3-dev") from None
        if result.returncode:
            raise Failure("%s\nfailed: %s" % (result.stdout[-4000:], " ".join(command)))
    return [os.path.join(BUILD, "bench", name) for name in names]
