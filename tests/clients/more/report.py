"""Results of run.sh: one JSON line for each program, and the page docs/clients.md made from them.

    report.py line NAME STATUS SECONDS OUTPUT_FILE        prints the line of one run
    report.py merge RESULTS NEW PROGRAMS PAGE             puts the new lines into RESULTS and writes PAGE

The page says nothing about a program that is not in RESULTS, except for the reason that programs.json gives.
"""

import datetime
import json
import pathlib
import sys

HEAD = """# Programs tried with Quarry

`make clients-more` runs each program of the first table against the server and writes this page from its results
(`tests/clients/more/results.jsonl`). Nobody edits it by hand. A version is what the library itself said when it ran.
"""


def line(name, status, seconds, output):
    said = pathlib.Path(output).read_text(errors="replace").splitlines()
    versions = [text.removeprefix("VERSION ") for text in said if text.startswith("VERSION ")]
    result = {"0": "passed", "77": "skipped"}.get(status, "failed")
    last = said[-1][:300] if said and result != "passed" else ""
    today = datetime.date.today().isoformat()
    print(json.dumps({"name": name, "result": result, "versions": versions, "seconds": int(seconds), "date": today, "said": last}))


def read(path):
    path = pathlib.Path(path)
    lines = path.read_text().splitlines() if path.exists() else []
    return {entry["name"]: entry for entry in map(json.loads, lines)}


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


def merge(results, new, programs, page):
    entries = read(results) | read(new)
    about = json.loads(pathlib.Path(programs).read_text())
    pathlib.Path(results).write_text("".join(json.dumps(entries[name]) + "\n" for name in sorted(entries)))
    rows = [
        f"| {name} | {cell(', '.join(entry['versions']))} | {cell(about['tried'][name])} | {entry['result']} | {entry['date']} | {cell(entry['said'])} |"
        for name, entry in sorted(entries.items())
    ]
    text = HEAD + "\n| program | versions | what is done | result | on | last line when not passed |\n|---|---|---|---|---|---|\n"
    text += "\n".join(rows) + "\n"
    for title, key, second in (("Tried by targets of their own", "elsewhere", "where"), ("Not tried", "not tried", "why")):
        text += f"\n## {title}\n\n| program | {second} |\n|---|---|\n"
        text += "".join(f"| {name} | {cell(words)} |\n" for name, words in about[key].items())
    pathlib.Path(page).write_text(text)


if __name__ == "__main__":
    {"line": line, "merge": merge}[sys.argv[1]](*sys.argv[2:])
