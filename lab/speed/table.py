#!/usr/bin/env python3
"""Measures again the cases in which another engine was faster, both sides in one run, on one page.

    lab/speed/table.py --lab target/release/quarry-lab --quarry target/release/quarry --out DIR
        [--repeats 3] [--cases NAME,...]

Needs root for the limit on memory, MariaDB, and an otherwise idle machine; takes 25 minutes on two
processors. The sides of a case take turns, --repeats times; runs that DIR already has are not repeated.
A figure is the geometric mean of the ratios of the pairs with its interval of 95 % (Student's t over
their logarithms); a case of one side has the mean and its interval. The verdict is "met" or "missed"
if the whole interval says so, "open" otherwise. Writes table.md, table.html and table.json.
"""

import argparse
import html
import json
import math
import pathlib
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Callable

# Student's t for 95 %, by degrees of freedom.
T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
# Warnings of the lab that make a figure unreliable. The warning about the load average before the
# run is not one of them, because the previous run causes it.
UNTRUSTED = {"others-busy", "cpu-stolen", "swap-in-use", "errors", "lab-stood-still"}


def cpu(step):
    return step["server"]["cpu_us_per_op"]


def rate(step):
    return step["rate"]["average"]


def variation(step):
    return 100 * step["rate"]["coefficient_of_variation"]


def written(step):
    return step["server"]["write_kb_per_op"]


def scans_beside(step):
    return step["more"]["beside"][0]["ops"]


def goodput(step):
    return step["more"]["overload"]["goodput_percent"]


@dataclass
class Figure:
    """A value of a step, with the bound for the ratio of the sides or for a single side."""

    title: str
    step: str
    read: Callable
    unit: str
    bound: float
    higher: bool = False


@dataclass
class Side:
    """A name for people, with the options of the lab for this side."""

    name: str
    options: list


@dataclass
class Case:
    """A workload of the lab on one or two sides."""

    name: str
    workload: str
    sides: list
    options: list
    figures: list = field(default_factory=list)


def own(name, server, *options):
    return Side(name, ["--own", server, *options])


QUARRY, LOGGED = own("Quarry", "quarry"), own("Quarry", "quarry:replica-set=on")
INNODB, DURABLE = own("InnoDB", "innodb"), own("InnoDB", "innodb:durability=sync")


def change_log(payload, clients):
    """By default a replica set confirms a write after its flush and a single server before it; here
    both do before it, so that the log is the only difference."""
    title = f"insert of {payload} bytes, {clients} clients: rate with the log by without"
    options = ["--payload", payload, "--clients", clients, "--write-concern", 1]
    options += ["--rows", 300_000 if payload < 1000 else 150_000]
    sides = [LOGGED, own("without a log", "quarry")]
    figure = Figure(title, "insert", rate, "/s", 0.9, higher=True)
    return Case(f"log-{payload}-{clients}", "change-log", sides, options, [figure])


# The work that a load leaves behind is not that of the updates.
SETTLED = pathlib.Path(__file__).with_name("update-settled.toml")
UPDATE = "--memory-mb 128 --times-memory 3 --tables 1 --clients 8 --warmup-seconds 4 --seconds 8"
BULK = "--indexes 0 --batch 1000 --clients 4 --rows 1500000 --memory-mb 192 --warmup-seconds 0"
CASES = [
    Case(
        "uncached-update",
        str(SETTLED),
        [QUARRY, INNODB],
        UPDATE.split(),
        [
            Figure("update by id, data 3 times memory, 8 clients: CPU", "update", cpu, "us", 1.0),
            Figure("the same: written", "update", written, "KB", 1.0),
        ],
    ),
    Case(
        "transactions",
        "trx",
        [LOGGED, DURABLE],
        "--rows 20000 --clients 4 --warmup-seconds 1 --seconds 3".split(),
        [
            Figure("durable transaction of 1 write: CPU", "trx-1", cpu, "us", 1.0),
            Figure("of 10 writes", "trx-10", cpu, "us", 1.0),
            Figure("of 1,000 writes", "trx-1000", cpu, "us", 1.0),
            Figure("of 10 writes beside a reader of all", "trx-10-audited", cpu, "us", 1.0),
            Figure("scans of that reader", "trx-10-audited", scans_beside, "", 1.0, higher=True),
        ],
    ),
    *[change_log(payload, clients) for payload in (16, 1024) for clients in (1, 4, 16)],
    Case(
        "capped",
        "capped",
        [own("capped", "quarry", "--capped", "true"), own("plain", "quarry", "--capped", "false")],
        "--payload 1024 --rows 60000 --clients 4".split(),
        [Figure("capped collection at 1 KB by a plain one", "insert", rate, "/s", 0.8, higher=True)],
    ),
    Case(
        "bulk-load",
        "insert",
        [QUARRY, INNODB],
        BULK.split(),
        [
            Figure("bulk load by 1,000, 192 MB: rate", "l.i0", rate, "/s", 1.0, higher=True),
            Figure("the same: CPU", "l.i0", cpu, "us", 1.0),
            Figure("the same: variation between seconds", "l.i0", variation, "%", 1.0),
        ],
    ),
    Case(
        "range",
        "insert-classic",
        [own("RocksDB", "quarry:engine=rocksdb"), own("LMDB", "quarry:engine=lmdb")],
        "--rows 100000 --clients 1 --seconds 3".split(),
        [Figure("range of 10 by an index: CPU", "query", cpu, "us", 1.0)],
    ),
    Case(
        "point",
        "point",
        [QUARRY],
        "--rows 100000 --clients 16 --warmup-seconds 1 --seconds 6".split(),
        [Figure("point read by id, 16 clients: CPU", "point", cpu, "us", 12.0)],
    ),
    Case(
        "point-beside",
        "point",
        [QUARRY, INNODB],
        "--rows 100000 --clients 16 --warmup-seconds 1 --seconds 6".split(),
        [Figure("point read by id, 16 clients, beside InnoDB: CPU", "point", cpu, "us", 1.0)],
    ),
    Case(
        "overload",
        "overload",
        [LOGGED],
        "--rows 10000 --seconds 16".split(),
        [Figure("ten times the clients: goodput by peak", "overload", goodput, "%", 90, higher=True)],
    ),
]


def run(arguments, case, side, repeat):
    """Makes one run of one side, unless it already exists."""
    out = pathlib.Path(arguments.out) / case.name / f"{repeat}-{side}"
    if not (out / "whole").exists():
        command = [arguments.lab, "run", case.workload, "--quarry", arguments.quarry, "--out", out]
        command += [*case.sides[side].options, *case.options]
        print(f"table: {case.name}, {case.sides[side].name}, {repeat}", flush=True)
        done = subprocess.run([str(word) for word in command], stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            sys.exit(f"table: {case.name} of {case.sides[side].name} ended with {done.returncode}")
        (out / "whole").touch()
    return json.loads(next(out.rglob("result.json")).read_text())


def interval(values):
    """Mean, and half of the width of the 95 % interval."""
    mean = statistics.mean(values)
    if len(values) < 2:
        return mean, math.inf
    return mean, T_95.get(len(values) - 1, 2.2) * statistics.stdev(values) / math.sqrt(len(values))


def judge(figure, sides):
    """The row of a figure; `sides` holds the values of each side, in order of the repeats."""
    if len(sides) == 2:
        mean, half = interval([math.log(a / b) for a, b in zip(*sides)])
        middle, low, high = math.exp(mean), math.exp(mean - half), math.exp(mean + half)
    else:
        middle, half = interval(sides[0])
        low, high = middle - half, middle + half
    met, missed = high <= figure.bound, low > figure.bound
    if figure.higher:
        met, missed = low >= figure.bound, high < figure.bound
    verdict = "met" if met else "missed" if missed else "open"
    return {"middle": middle, "low": low, "high": high, "verdict": verdict}


def rows_of(case, runs, repeats):
    """A row for each figure of a case."""
    steps = lambda run: {step["name"]: step for step in run["steps"]}
    warnings = {warning["code"] for side in runs for run in side for warning in run["warnings"]}
    for figure in case.figures:
        sides = [[figure.read(steps(run)[figure.step]) for run in side] for side in runs]
        yield {
            "case": case.name,
            "figure": figure.title,
            "sides": [
                {"name": side.name, "mean": statistics.mean(values), "values": values}
                for side, values in zip(case.sides, sides)
            ],
            "unit": figure.unit,
            "bound": figure.bound,
            "higher": figure.higher,
            "repeats": repeats,
            "untrusted": sorted(warnings & UNTRUSTED),
            **judge(figure, sides),
        }


def number(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def cells(row):
    unit = f" {row['unit']}".replace(" /s", "/s")
    shown = [f"{side['name']} {number(side['mean'])}{unit}".strip() for side in row["sides"]]
    asked = ("at least " if row["higher"] else "at most ") + number(row["bound"])
    middle = number(row["middle"])
    if row["repeats"] > 1:
        middle += f" ({number(row['low'])} to {number(row['high'])})"
    note = f" ({', '.join(row['untrusted'])})" if row["untrusted"] else ""
    return [row["figure"], ", ".join(shown), middle, asked, row["verdict"] + note]


HEAD = ["case", "means", "ratio, or value of one side (95 %)", "asked", "verdict"]
STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;
color:#1a2027;background:#fff}table{border-collapse:collapse;width:100%}td,th{text-align:left;
padding:.4rem .7rem;border-bottom:1px solid #dde2e8;vertical-align:top}.missed{color:#b3261e}
.met{color:#16774a}.wide{overflow-x:auto}"""


def write(out, rows, about):
    lines = [about, "", "| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    (out / "table.md").write_text("\n".join(lines) + "\n")
    (out / "table.json").write_text(json.dumps(rows, indent=1) + "\n")
    head = "".join(f"<th>{html.escape(word)}</th>" for word in HEAD)
    body = "".join(
        f'<tr class="{"" if row["untrusted"] else row["verdict"]}">'
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells(row))
        + "</tr>"
        for row in rows
    )
    (out / "table.html").write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Where another engine was ahead</title><style>{STYLE}</style>"
        f"<h1>Where another engine was ahead</h1><p>{html.escape(about)}</p>"
        f'<div class="wide"><table><tr>{head}</tr>{body}</table></div></html>\n'
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lab", required=True)
    parser.add_argument("--quarry", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cases", help="some of " + ", ".join(case.name for case in CASES))
    arguments = parser.parse_args()
    names = (arguments.cases or ",".join(case.name for case in CASES)).split(",")
    if unknown := set(names) - {case.name for case in CASES}:
        sys.exit(f"table: unknown cases {', '.join(sorted(unknown))}")
    if arguments.repeats < 1:
        sys.exit(f"table: {arguments.repeats} repeats; give 1 or more")
    rows, machine = [], {}
    for case in (case for case in CASES if case.name in names):
        runs = [[] for _ in case.sides]
        for repeat in range(1, arguments.repeats + 1):
            # The sides take turns, and each begins every second time.
            order = list(range(len(case.sides)))
            for side in order if repeat % 2 else order[::-1]:
                runs[side].append(run(arguments, case, side, repeat))
        machine = runs[0][0]["environment"]
        rows += rows_of(case, runs, arguments.repeats)
        out = pathlib.Path(arguments.out)
        about = f"{machine['cpus']} processors, {machine['cpu_model']}; n = {arguments.repeats} each"
        write(out, rows, about)
    print((pathlib.Path(arguments.out) / "table.md").read_text())


if __name__ == "__main__":
    main()
