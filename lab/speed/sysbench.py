#!/usr/bin/env python3
"""Compares the lab with sysbench: the same statements on the same rows of a private MariaDB, by
quarry-lab and by sysbench in turn.

    lab/speed/sysbench.py --lab target/release/quarry-lab --dir DIR [--pairs 3] [--seconds 30]
    [--warmup-seconds 5] [--only lazy] [--case oltp_update_index] [--rows 100000] [--json FILE]
    [--table FILE]

Needs Debian's mariadb-server and sysbench. Both clients use prepared statements over TCP and a
closed loop; ids are uniform. The server's CPU per statement is read from /proc for both in the same
way; sysbench's percentiles are from its histogram, whose steps are 1.8 % wide. The time of a client
between its calls is clients / rate minus the mean latency. The two programs take turns in
beginning a pair. Prints one line per case with the median of the pairs' ratios of lab by
sysbench, and the range of the middle half of the pairs; ends with status 1 if a rate or a p99 is
further than 5 % from 1. --table writes the machine, the command and the ratios as Markdown.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time

from processes import cpu_seconds

HERE = pathlib.Path(__file__).resolve().parent
# Workload of the lab and its table, script of sysbench, clients, durability.
CASES = [
    ("point query", "point", "sbtest1", HERE / "point_select.lua", 1, "lazy"),
    ("point query", "point", "sbtest1", HERE / "point_select.lua", 4, "lazy"),
    ("update of c", "update", "sbtest", "oltp_update_non_index", 1, "lazy"),
    ("update of c", "update", "sbtest", "oltp_update_non_index", 4, "lazy"),
    ("oltp_update_index", "oltp-update-index", "sbtest1", "oltp_update_index", 1, "lazy"),
    ("oltp_update_index", "oltp-update-index", "sbtest1", "oltp_update_index", 4, "lazy"),
    ("update of c, on storage", "update", "sbtest", "oltp_update_non_index", 1, "sync"),
    ("update of c, on storage", "update", "sbtest", "oltp_update_non_index", 4, "sync"),
]


class Server:
    """A private MariaDB that the lab starts."""

    def __init__(self, lab, directory, durability):
        command = [
            lab,
            "target",
            "mariadb",
            "--dir",
            directory,
            "--engine",
            "innodb",
            "--cache-mb",
            "512",
            "--durability",
            durability,
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.address = None
        for line in self.process.stdout:
            if found := re.search(r"mysql://\S+:(\d+)/\S*", line):
                self.address, self.port = found.group(0), int(found.group(1))
                break
        if not self.address:
            sys.exit("the server did not start")
        self.pid = int((pathlib.Path(directory) / "server.pid").read_text())

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(120)


def by_lab(arguments, server, workload, clients, seconds):
    out = pathlib.Path(arguments.dir) / "results"
    before = {path.name for path in out.glob("*")} if out.exists() else set()
    command = [
        arguments.lab,
        "run",
        workload,
        "--target",
        server.address,
        "--rows",
        str(arguments.rows),
        "--tables",
        "1",
        "--clients",
        str(clients),
        "--warmup-seconds",
        str(arguments.warmup_seconds),
        "--seconds",
        str(seconds),
        "--out",
        str(out),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    [new] = [path for path in out.iterdir() if path.name not in before]
    step = json.loads((new / "result.json").read_text())["steps"][-1]
    rate, mean_us = step["rate"]["average"], step["latency"]["mean_us"]
    percentiles = {str(name): value for name, value in step["latency"]["percentiles_us"]}
    return {
        "rate": rate,
        "server_cpu_us": step["server"]["cpu_us_per_op"],
        "client_cpu_us": step["client"]["cpu_us_per_op"],
        "mean_us": mean_us,
        # The time of a client outside all latencies: drawing, encoding, recording.
        "between_us": clients / rate * 1e6 - mean_us,
        "p50_us": percentiles.get("50.0", percentiles.get("50")),
        "p95_us": percentiles.get("95.0", percentiles.get("95")),
        "p99_us": percentiles.get("99.0", percentiles.get("99")),
    }


def percentile_us(text, wanted):
    """Of the calls in sysbench's histogram, in the middle of the step in which it lies."""
    found = re.findall(r"^ +([\d.]+) \|\S* +(\d+)$", text, re.M)
    steps = [(float(ms), int(count)) for ms, count in found]
    left = sum(count for _, count in steps) * wanted / 100
    for ms, count in steps:
        if (left := left - count) <= 0:
            return ms * 1000
    sys.exit("sysbench printed no histogram")


def by_sysbench(server, script, table, rows, clients, times):
    seconds, warmup = times
    # sysbench's script expects this name of the first table.
    command = [
        "sysbench",
        str(script),
        "--db-driver=mysql",
        "--mysql-host=127.0.0.1",
        f"--mysql-port={server.port}",
        "--mysql-user=root",
        "--mysql-db=quarry_lab",
        f"--threads={clients}",
        f"--time={seconds}",
        "--report-interval=0",
        "--histogram=on",
    ]
    command += (
        [f"--rows={rows}"]
        if isinstance(script, pathlib.Path)
        else [f"--table-size={rows}", "--tables=1", "--rand-type=uniform"]
    )
    warm = [word if not word.startswith("--time=") else f"--time={warmup}" for word in command]
    environment = os.environ | {"LAB_TABLE": table}
    subprocess.run(warm + ["run"], check=True, stdout=subprocess.DEVNULL, env=environment)
    begun, children = cpu_seconds(server.pid), os.times()
    done = subprocess.run(
        command + ["run"], check=True, capture_output=True, text=True, env=environment
    )
    used, after = cpu_seconds(server.pid) - begun, os.times()
    number = lambda pattern: float(re.search(pattern, done.stdout).group(1))
    calls = (
        number(r"transactions:\s+(\d+)")
        if "transactions:" in done.stdout
        else number(r"total number of events:\s+(\d+)")
    )
    client = (
        after.children_user
        + after.children_system
        - children.children_user
        - children.children_system
    )
    rate = calls / number(r"total time:\s+([\d.]+)s")
    # sysbench prints its average in hundredths of a millisecond; the sum of all latencies is more precise.
    mean_us = number(r"sum:\s+([\d.]+)") * 1000 / calls
    return {
        "rate": rate,
        "between_us": clients / rate * 1e6 - mean_us,
        "server_cpu_us": used / calls * 1e6,
        "client_cpu_us": client / calls * 1e6,
        "mean_us": mean_us,
        "p50_us": percentile_us(done.stdout, 50),
        "p95_us": percentile_us(done.stdout, 95),
        "p99_us": percentile_us(done.stdout, 99),
    }


def table_of(found):
    """The ratios as Markdown, below the machine and the command."""
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    load = pathlib.Path("/proc/loadavg").read_text().split()[0]
    mean = lambda case, side, key: statistics.mean(pair[side][key] for pair in case["pairs"])
    shown = lambda case, key: "{:.3f} ({:.3f} to {:.3f})".format(
        case["ratio"][key], *case["middle_half"][key]
    )
    lines = [
        f"Machine: {os.cpu_count()} x {model.group(1) if model else 'unknown'}, load {load}.",
        f"Command: `{' '.join(sys.argv)}`.",
        "",
        "| case | clients | pairs | lab, calls/s | sysbench | ratio (middle half) | p50, ratio |"
        " p99, ratio | mean, us: lab | sysbench | between calls, us: lab | sysbench |"
        " client CPU a call, us: lab | sysbench |",
        "|---|" + "---|" * 13,
    ]
    for case in found:
        lines.append(
            f"| {case['case']} | {case['clients']} | {len(case['pairs'])}"
            f" | {mean(case, 'lab', 'rate'):,.0f} | {mean(case, 'sysbench', 'rate'):,.0f}"
            f" | {shown(case, 'rate')} | {shown(case, 'p50_us')} | {shown(case, 'p99_us')}"
            f" | {mean(case, 'lab', 'mean_us'):.1f} | {mean(case, 'sysbench', 'mean_us'):.1f}"
            f" | {mean(case, 'lab', 'between_us'):.1f}"
            f" | {mean(case, 'sysbench', 'between_us'):.1f}"
            f" | {mean(case, 'lab', 'client_cpu_us'):.1f}"
            f" | {mean(case, 'sysbench', 'client_cpu_us'):.1f} |"
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lab", required=True)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--warmup-seconds", type=int, default=5)
    parser.add_argument("--only", choices=["lazy", "sync"])
    parser.add_argument("--case", action="append", help="of these cases only; may be given again")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--json")
    parser.add_argument("--table")
    arguments = parser.parse_args()
    found, worst = [], 0.0
    cases = [
        case
        for case in CASES
        if arguments.only in (None, case[5]) and (not arguments.case or case[0] in arguments.case)
    ]
    for durability in dict.fromkeys(case[5] for case in cases):
        server = Server(arguments.lab, os.path.join(arguments.dir, durability), durability)
        try:
            for name, workload, table, script, clients, _ in [
                case for case in cases if case[5] == durability
            ]:
                pairs = []
                lab = lambda: by_lab(arguments, server, workload, clients, arguments.seconds)
                times = arguments.seconds, arguments.warmup_seconds
                other = lambda: by_sysbench(
                    server, script, "sbtest1", arguments.rows, clients, times
                )

                def measured_by_lab():
                    found = lab()
                    if table != "sbtest1":
                        rename(server, table, "sbtest1")
                    return found

                # The first run of the lab loads the rows, which sysbench also reads.
                measured_by_lab()
                for number in range(arguments.pairs):
                    first, second = (
                        (measured_by_lab, other) if number % 2 == 0 else (other, measured_by_lab)
                    )
                    results = first(), second()
                    pairs.append(results if number % 2 == 0 else results[::-1])
                ratios = {
                    key: sorted(lab[key] / other[key] for lab, other in pairs)
                    for key in pairs[0][0]
                }
                ratio = {key: statistics.median(values) for key, values in ratios.items()}
                middle = lambda values: (values[len(values) // 4], values[-1 - len(values) // 4])
                spread = {key: middle(values) for key, values in ratios.items()}
                for key in "rate", "p99_us":
                    worst = max(worst, abs(ratio[key] - 1))
                found.append(
                    {
                        "case": name,
                        "clients": clients,
                        "pairs": [{"lab": lab, "sysbench": other} for lab, other in pairs],
                        "ratio": ratio,
                        "middle_half": spread,
                    }
                )
                mean = lambda side, key: statistics.mean(pair[side][key] for pair in pairs)
                shown = lambda key: (
                    f"ratio {ratio[key]:.3f} ({spread[key][0]:.3f} to {spread[key][1]:.3f})"
                )
                print(
                    f"{name}, {clients} clients: lab {mean(0, 'rate'):,.0f}/s, sysbench"
                    f" {mean(1, 'rate'):,.0f}/s, {shown('rate')}; p99 {mean(0, 'p99_us'):,.0f} and"
                    f" {mean(1, 'p99_us'):,.0f} us, {shown('p99_us')}; mean latency"
                    f" {mean(0, 'mean_us'):.0f} and {mean(1, 'mean_us'):.0f} us; server CPU"
                    f" {mean(0, 'server_cpu_us'):.1f} and {mean(1, 'server_cpu_us'):.1f} us, client"
                    f" CPU {mean(0, 'client_cpu_us'):.1f} and {mean(1, 'client_cpu_us'):.1f} us",
                    flush=True,
                )
        finally:
            server.stop()
    if arguments.table:
        pathlib.Path(arguments.table).write_text(table_of(found))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n")
    print(f"furthest from 1: {worst * 100:.1f} %")
    sys.exit(1 if worst > 0.05 else 0)


def rename(server, old, new):
    sql = (
        f"DROP TABLE IF EXISTS quarry_lab.{new}; RENAME TABLE quarry_lab.{old} TO quarry_lab.{new}"
    )
    subprocess.run(
        ["mariadb", "--no-defaults", "-h127.0.0.1", f"-P{server.port}", "-uroot", "-e", sql],
        check=True,
    )


if __name__ == "__main__":
    main()
