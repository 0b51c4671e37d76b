#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""report_test.py PROGRAM: pages of runs are XML, hold no script and ask for nothing; a browser, where there is one
(chromium), shows them without overflow at the width of a phone and of a desk, in light and in dark."""
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

import make_runs

PROGRAM = sys.argv[1]
SVG, XHTML = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xhtml}"
WIDTHS = (390, 1280)

# Measures every page in its frame, its content security policy in force, and leaves the results as the title. A frame
# and not the window: that of a browser without a screen is 500 pixels wide at the least.
MEASURE = """
addEventListener("load", () => {
  const results = [];
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument, root = page.documentElement, outside = [], overlapping = [];
    for (const details of page.querySelectorAll("details")) details.open = true;
    for (const chart of page.querySelectorAll("svg.chart")) {
      const box = chart.getBoundingClientRect(), before = [];
      for (const text of chart.querySelectorAll("text")) {
        const is = text.getBoundingClientRect();
        const name = chart.querySelector("title").textContent + ": " + text.textContent;
        if (is.left < box.left - 0.5 || is.right > box.right + 0.5 || is.top < box.top - 0.5 ||
            is.bottom > box.bottom + 0.5) outside.push(name);
        for (const other of before) {
          if (is.left < other.right && other.left < is.right && is.top < other.bottom - 2 && other.top < is.bottom - 2)
            overlapping.push(name);
        }
        before.push(is);
      }
    }
    const beyond = [...page.querySelectorAll("body *")].filter(
        part => part.getBoundingClientRect().right > root.clientWidth + 0.5 && !part.closest(".scroll, pre"));
    const broken_words = [];
    for (const name of page.querySelectorAll("tbody th, thead th")) {
      for (const word of name.textContent.matchAll(/(?<!\\S)\\S{1,24}(?!\\S)/g)) {
        const range = page.createRange();
        range.setStart(name.firstChild, word.index), range.setEnd(name.firstChild, word.index + word[0].length);
        if (range.getClientRects().length > 1) broken_words.push(word[0]);
      }
    }
    const sizes = [...page.querySelectorAll("svg.chart text")].map(
        text => text.getScreenCTM().a * parseFloat(getComputedStyle(text).fontSize));
    results.push({page: frame.title, asked: frame.width, width: root.clientWidth, scroll: root.scrollWidth,
                  elements: page.querySelectorAll("*").length, scripts: page.scripts.length, outside, overlapping,
                  beyond: beyond.map(part => part.tagName + "." + part.getAttribute("class")),
                  broken_words, smallest: Math.min(...sizes), colour: getComputedStyle(page.body).backgroundColor,
                  ink: getComputedStyle(page.body).color,
                  broken: [...page.images].filter(image => !image.naturalWidth).length});
  }
  document.body.textContent = "";
  document.title = JSON.stringify(results);
});
"""


def run(*arguments, cwd=None):
    program = os.path.abspath(PROGRAM)
    return subprocess.run([program, *map(os.fsencode, arguments)], capture_output=True, cwd=cwd, check=False)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def measured(browser, folder, pages, dark):
    """What the browser measures of pages {name: bytes}: a list with an entry for each page and width."""
    frames = "".join(
        f'<iframe title="{name}" width="{width}" height="844" srcdoc="{html.escape(page.decode())}"></iframe>'
        for name, page in pages.items() for width in WIDTHS)
    wrapper = os.path.join(folder, "wrapper.html")
    with open(wrapper, "w", encoding="utf-8") as file:
        file.write("<!DOCTYPE html><meta charset='utf-8'><style>:root{color-scheme:light dark}iframe{border:0}</style>"
                   f"<script>{MEASURE}</script><body>{frames}</body>")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,900",
         "--user-data-dir=" + os.path.join(folder, "profile"),
         f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--dump-dom", "file://" + wrapper],
        capture_output=True, timeout=60, check=False)
    title = re.search(rb"<title>(.*?)</title>", done.stdout, re.DOTALL)
    return json.loads(html.unescape(title.group(1).decode())) if title else None


def main():
    failures = []

    def check(holds, what, told=""):
        print(("ok     " if holds else "FAILED ") + what + (f"\n{told}" if not holds and told else ""))
        if not holds:
            failures.append(what)

    def check_page(name, page):
        try:
            root = ET.fromstring(page)
        except ET.ParseError as error:
            check(False, f"{name}: is XML", error)
            return
        check(root.tag == XHTML + "html", f"{name}: is XML")
        kinds = {part.tag.split("}")[1] for part in root.iter()}
        check(not kinds & {"script", "iframe", "object", "embed", "link", "base", "form"},
              f"{name}: holds no script, and nothing from elsewhere")
        asks = [(key, value[:80]) for part in root.iter() for key, value in part.attrib.items()
                if key.startswith("on") or (key in ("src", "href") and not value.startswith("data:"))]
        check(not asks, f"{name}: no handler, no address but of data", asks)
        rest = page.decode().replace(SVG[1:-1], "").replace(XHTML[1:-1], "")
        attributes = " ".join(value for part in root.iter() for value in part.attrib.values())
        check("://" not in attributes.replace(SVG[1:-1], "") and "url(" not in rest and "@import" not in rest,
              f"{name}: no other address")
        words = re.findall(r"\b(?:nan|inf|infinity)\b", attributes, re.IGNORECASE)
        check(not words, f"{name}: no number that is none", words[:5])
        bad = [part.get("d")[:80] for part in root.iter(SVG + "path")
               if not re.fullmatch(r"(?:[MLhH][-0-9. ]+)+", part.get("d"))]
        check(not bad, f"{name}: every path is one", bad)
        charts = [svg for svg in root.iter(SVG + "svg") if svg.get("class") == "chart"]
        # A small chart is titled by what its y axis measures, the others have a label for each axis.
        small = {chart for div in root.iter(XHTML + "div") if div.get("class") == "charts small"
                 for chart in div.iter(SVG + "svg")}
        silent, bare, flat = [], [], []
        for chart in charts:
            title, words = chart.findtext(SVG + "title"), chart.findtext(SVG + "desc")
            texts = [text.get("class") for text in chart.iter(SVG + "text") if text.text]
            if not title or " over " not in (words or ""):
                silent.append(title)
            if texts.count("label") != (1 if chart in small else 2):
                bare.append(title)
            if texts.count("tick") < 3:
                flat.append(title)
        check(charts and not silent, f"{name}: each of {len(charts)} charts has a title and says what it shows", silent)
        check(not bare, f"{name}: every axis has its label", bare)
        check(not flat, f"{name}: every chart has its ticks", flat)

    with tempfile.TemporaryDirectory() as folder:
        runs = make_runs.make(os.path.join(folder, "runs"))
        pages = {}
        for kind, directory in runs.items():
            done = run(directory)
            check(done.returncode == 0, f"{kind}: has its page", done.stderr.decode(errors="replace"))
            pages[kind] = content(os.path.join(os.fsencode(directory), b"report.html"))
        done = run(*runs.values(), cwd=folder)
        check((done.returncode, done.stdout) == (0, b"compare.html\n"), "all: have one page", done.stderr)
        pages["all"] = content(os.path.join(folder, "compare.html"))
        for name, page in pages.items():
            check_page(name, page)
            check((b"log.jsonl is unfinished" in page) == (name == "broken_off"),
                  f"{name}: says whether the log is unfinished")
            check((b"0 of 100 steps, unfinished" in page) == (name in ("fresh", "all")),
                  f"{name}: says whether the run is unfinished")
        check(len(pages["long"]) < 1 << 20, "the page of 60 000 lines is less than a megabyte")
        check(run(runs["plain"]).returncode == 0 and
              content(os.path.join(runs["plain"], "report.html")) == pages["plain"], "a page made again is the same")
        out = os.path.join(folder, "other.html")
        done = run(runs["plain"], "--out", out)
        check(done.returncode == 0 and content(out) == pages["plain"], "--out names the page")

        def refused(what, *arguments, says):
            before = content(out)
            done = run(*arguments, "--out", out)
            check(done.returncode == 1 and says.encode() in done.stderr and content(out) == before,
                  f"{what} is refused, and the page that was there stays", done.stderr.decode(errors="replace"))

        record = os.path.join(runs["plain"], "run.json")
        before = content(record)
        done = run(runs["plain"], "--out", record)
        check(done.returncode == 1 and os.fsencode(record) in done.stderr and content(record) == before,
              "--out names no file of a run", done.stderr)
        weights = os.path.join(runs["plain"], "checkpoints", "step-8", "model.safetensors")
        os.makedirs(os.path.dirname(weights))
        for words in (b"weights", b""):
            with open(weights, "wb") as file:
                file.write(words)
            done = run(runs["plain"], "--out", weights)
            check(done.returncode == 1 and f"error: cannot write {weights}: a file is there".encode() in done.stderr and
                  b"hint" in done.stderr and content(weights) == words, "no file is replaced but a page", done.stderr)
        log = os.path.join(runs["plain2"], "log.jsonl")
        lines = content(log).splitlines(keepends=True)
        with open(log, "wb") as file:
            file.writelines(lines[:6] + [lines[6][:40] + b"\n"] + lines[7:])
        damaged = f"error: {log}, line 7: it is not JSON"
        refused("a log with a damaged line", runs["plain2"], says=damaged)
        refused("a damaged run among others", runs["plain"], runs["plain2"], says=damaged)
        os.remove(log)
        refused("a run without a log", runs["plain2"], says=f"error: cannot read {log}")
        none = os.path.join(folder, "none")
        refused("a missing run", none, says=f"error: no directory {none}")
        refused("nothing", says="RUN")
        done = run(runs["plain"], "--out", os.path.join(none, "x.html"))
        check(done.returncode == 1 and b"none/x.html" in done.stderr, "a page that cannot be written is named")

        browser = shutil.which("chromium")
        if not browser:
            print("no chromium: the pages were not measured")
        else:
            light = measured(browser, folder, pages, dark=False)
            dark = measured(browser, folder, {"plain": pages["plain"]}, dark=True)
            check(light and len(light) == len(WIDTHS) * len(pages), "a browser shows every page")
            for entry in light or []:
                name = f"{entry['page']} at {entry['asked']} px"
                check(entry["scroll"] <= entry["width"] and not entry["beyond"], f"{name}: nothing is wider than it",
                      f"{entry['scroll']} of {entry['width']}: {entry['beyond'][:8]}")
                check(not entry["outside"], f"{name}: every text lies within its chart", entry["outside"][:8])
                check(not entry["overlapping"], f"{name}: no texts overlap", entry["overlapping"][:8])
                check(not entry["broken_words"], f"{name}: no name of a row is broken within a word",
                      entry["broken_words"][:8])
                check(entry["smallest"] >= 10, f"{name}: texts of charts can be read", entry["smallest"])
                count = sum(1 for _ in ET.fromstring(pages[entry["page"]]).iter())
                check(entry["elements"] == count and entry["scripts"] == 0, f"{name}: is the same as HTML and as XML",
                      (entry["elements"], count))
            pictures = {entry["page"]: entry["broken"] for entry in light or []}
            check(pictures.get("plain") == 0, "the block's picture is shown")
            shown = [(side[0]["colour"], side[0]["ink"]) for side in (light, dark) if side]
            check(len(shown) == 2 and shown[0][0] != shown[1][0] and
                  shown[0][1] != shown[1][1], "light and dark have their own colours", shown)

    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
