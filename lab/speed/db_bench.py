#!/usr/bin/env python3
"""Compares the lab with RocksDB's own db_bench: the same calls on the same build of RocksDB, with
the same options, by quarry-lab and by db_bench in turn.

    lab/speed/db_bench.py --lab target/release/quarry-lab --dir DIR [--pairs 5] [--seconds 10]
    [--rows 1000000] [--only cached|past] [--json FILE]

Needs Debian's rocksdb-tools and librocksdb-dev, and a lab built with the feature rocksdb-library.
Both load that shared library; db_bench takes its options from the file that the library wrote for
the lab. Keys of 21 bytes, values of 400, half of which compress, no compression, closed loop, a
log that no call waits for. Rows are stored in key order (fillseq), overwritten (overwrite), and read
at random (readrandom): with a cache that holds all rows, and with a cache of 32 MiB and direct reads.
The two programs take turns in beginning a pair. Prints one line per test with the median of the
pairs' ratios of lab by db_bench, and the range of the middle half of the pairs; ends with status 1
if a rate or a p99 is further than 5 % from 1.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

# The bytes that the lab adds to a payload: the counter, the field's kind and its length.
HEAD_BYTES = 13
VALUE_BYTES = 400
KEY_BYTES = 21
TESTS = ["fillseq", "overwrite", "readrandom"]
# Name, number of reading clients, cache in MiB, options in RocksDB's syntax.
# Index blocks stay outside the cache: db_bench makes its own cache, whatever its file of options says
# (high_pri_pool_ratio 0, where the library's default is 0.5). With index blocks in a small cache the
# two programs would differ.
OUTSIDE = "block_based_table_factory={cache_index_and_filter_blocks=false}"
CASES = [
    ("cached", 1, 2048, OUTSIDE),
    ("past the cache", 1, 32, f"use_direct_reads=true;{OUTSIDE}"),
    ("past the cache", 4, 32, f"use_direct_reads=true;{OUTSIDE}"),
]


def resources(before):
    after = os.times()
    return (
        after.children_user
        + after.children_system
        - before.children_user
        - before.children_system
    )


def by_lab(arguments, directory, case):
    _, clients, cache, options = case
    out = pathlib.Path(arguments.dir) / "results"
    before = {path.name for path in out.glob("*")} if out.exists() else set()
    target = f"rocksdb-library:{directory}?cache={cache}M&compression=none&wbuf=64M"
    command = [arguments.lab, "run", "db-bench", "--target", target, "--drop"]
    command += ["--rows", str(arguments.rows), "--payload", str(VALUE_BYTES - HEAD_BYTES)]
    command += ["--clients", str(clients), "--warmup-seconds", str(arguments.seconds)]
    command += ["--seconds", str(arguments.seconds), "--out", str(out)]
    command[4] += f"&options={options}"
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    [new] = [path for path in out.iterdir() if path.name not in before]
    found = {}
    for step in json.loads((new / "result.json").read_text())["steps"]:
        if step["name"] in TESTS:
            percentiles = {str(name): value for name, value in step["latency"]["percentiles_us"]}
            found[step["name"]] = {
                "rate": step["rate"]["average"],
                "mean_us": step["latency"]["mean_us"],
                "p99_us": percentiles.get("99.0", percentiles.get("99")),
            }
    return found


def by_db_bench(arguments, directory, options_file, case):
    _, clients, cache, _ = case
    command = ["db_bench", f"--db={directory}", f"--options_file={options_file}"]
    command += [f"--num={arguments.rows}", f"--key_size={KEY_BYTES}"]
    command += [f"--value_size={VALUE_BYTES}", f"--cache_size={cache << 20}", "--bloom_bits=10"]
    command += ["--cache_numshardbits=-1", "--statistics=true", "--histogram=true"]
    command += ["--stats_interval_seconds=0"]

    def run(benchmarks, more):
        arguments_of = [f"--benchmarks={benchmarks}", *more]
        done = subprocess.run(command + arguments_of, check=True, capture_output=True, text=True)
        return done.stdout

    shutil.rmtree(directory, ignore_errors=True)
    text = run("fillseq,overwrite,flush,waitforcompaction", ["--threads=1"])
    # The first reads warm up the cache, as the lab's warm-up does.
    reads = [f"--threads={clients}", f"--duration={arguments.seconds}", "--use_existing_db=true"]
    text += run("readrandom,readrandom", reads)
    found = {}
    for test in TESTS:
        part = re.findall(
            rf"^{test} +: +([\d.]+) micros/op (\d+) ops/sec.*?Percentiles: .*?P99: ([\d.]+)",
            text,
            re.M | re.S,
        )
        mean, rate, p99 = part[-1]
        found[test] = {"rate": float(rate), "mean_us": float(mean), "p99_us": float(p99)}
    return found


def newest_options(directory):
    return max(pathlib.Path(directory).glob("OPTIONS-*"), key=lambda path: path.name)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lab", required=True)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", choices=["cached", "past"])
    parser.add_argument("--json")
    arguments = parser.parse_args()
    base = pathlib.Path(arguments.dir)
    base.mkdir(parents=True, exist_ok=True)
    all_found, worst = [], 0.0
    for case in CASES:
        if not case[0].startswith(arguments.only or ""):
            continue
        name, clients = case[0], case[1]
        ours, theirs, options_file = base / "lab", base / "db_bench", base / "OPTIONS"

        def lab():
            found = by_lab(arguments, ours, case)
            shutil.copy(newest_options(ours), options_file)
            return found

        # This gives both programs the same options from the first pair on.
        lab()
        other = lambda: by_db_bench(arguments, theirs, options_file, case)
        pairs = []
        for number in range(arguments.pairs):
            if number % 2 == 0:
                pairs.append((lab(), other()))
            else:
                pairs.append((lambda second, first: (first, second))(other(), lab()))
        for test in TESTS:
            # Writes do not depend on the number of readers.
            if test != "readrandom" and (name, clients) != ("cached", 1):
                continue
            ratios = {
                key: sorted(mine[test][key] / its[test][key] for mine, its in pairs)
                for key in ("rate", "mean_us", "p99_us")
            }
            ratio = {key: statistics.median(values) for key, values in ratios.items()}
            middle = lambda values: (values[len(values) // 4], values[-1 - len(values) // 4])
            spread = {key: middle(values) for key, values in ratios.items()}
            worst = max(worst, abs(ratio["rate"] - 1), abs(ratio["p99_us"] - 1))
            all_found.append(
                {
                    "test": test,
                    "case": name,
                    "clients": clients,
                    "pairs": [{"lab": mine[test], "db_bench": its[test]} for mine, its in pairs],
                    "ratio": ratio,
                    "middle_half": spread,
                }
            )
            mean = lambda side, key: statistics.mean(pair[side][test][key] for pair in pairs)
            shown = lambda key: (
                f"ratio {ratio[key]:.3f} ({spread[key][0]:.3f} to {spread[key][1]:.3f})"
            )
            print(
                f"{test}, {name}, {clients if test == 'readrandom' else 1} clients: lab"
                f" {mean(0, 'rate'):,.0f}/s, db_bench {mean(1, 'rate'):,.0f}/s, {shown('rate')};"
                f" p99 {mean(0, 'p99_us'):.1f} and {mean(1, 'p99_us'):.1f} us,"
                f" {shown('p99_us')}; mean {mean(0, 'mean_us'):.2f} and"
                f" {mean(1, 'mean_us'):.2f} us",
                flush=True,
            )
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(all_found, indent=1) + "\n")
    print(f"furthest from 1: {worst * 100:.1f} %")
    sys.exit(1 if worst > 0.05 else 0)


if __name__ == "__main__":
    main()
