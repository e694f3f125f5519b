#!/usr/bin/env python3
"""Compares the lab with YCSB's programs: reads and updates of documents of one server over MongoDB's
protocol, by quarry-lab and by YCSB's programs in turn.

    lab/speed/ycsb.py --lab target/release/quarry-lab --quarry target/release/quarry --dir DIR
    [--go-ycsb PROGRAM] [--java CLASSPATH] [--pairs 3] [--seconds 10] [--rows 50000]
    [--clients 1,4] [--json FILE] [--table FILE]

--go-ycsb is a build of github.com/pingcap/go-ycsb v1.0.3; --java the class path of site.ycsb's
mongodb-binding. Each program loads documents in its own form (ten fields of 100 bytes under a text
key) into its own database. It reads by Zipf (workload C), then reads and updates one field equally
often (A), in a closed loop. The server's CPU is read from /proc for all in the same way, a client's
from the process or, for the lab, from its result. The programs take turns in beginning a pair. The
time of a client between its calls is clients / rate minus the mean latency.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import time

from processes import cpu_seconds

HERE = pathlib.Path(__file__).resolve().parent
WORKLOADS = {"ycsb-c": ("1", "0"), "ycsb-a": ("0.5", "0.5")}


class Server:
    def __init__(self, arguments):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [arguments.quarry, "serve", "--dbpath", os.path.join(arguments.dir, "data")]
        command += ["--port", str(self.port), "--nounixsocket", "--memory", "1G"]
        with open(os.path.join(arguments.dir, "server.log"), "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.1)
        sys.exit("the server did not start")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def uri(self, database):
        return f"mongodb://127.0.0.1:{self.port}/{database}?directConnection=true"


def by_lab(arguments, server, workload, clients):
    # The statements of the other program: its find names ten fields, which doubles the server's
    # cost.
    if arguments.go_ycsb:
        workload = str(HERE / f"go-{workload}.toml")
    out = pathlib.Path(arguments.dir) / f"results-{time.monotonic_ns()}"
    command = [arguments.lab, "run", workload, "--target", server.uri("")]
    command += ["--rows", str(arguments.rows), "--clients", str(clients), "--out", str(out)]
    command += ["--warmup-seconds", "2", "--seconds", str(arguments.seconds)]
    # The other programs request the same.
    command += ["--write-concern", "1"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    step = json.loads(next(out.glob("*/result.json")).read_text())["steps"][-1]
    percentiles = {float(name): value for name, value in step["latency"]["percentiles_us"]}
    rate, mean = step["rate"]["average"], step["latency"]["mean_us"]
    return {
        "rate": rate,
        "p50_us": percentiles[50.0],
        "p99_us": percentiles[99.0],
        "mean_us": mean,
        "between_us": clients / rate * 1e6 - mean,
        "client_cpu_us": step["client"]["cpu_us_per_op"],
        "server_cpu_us": step["server"]["cpu_us_per_op"],
    }


def timed(command, server):
    """The program's output, and the CPU of the program and of the server."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN), cpu_seconds(server.process.pid)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN), cpu_seconds(server.process.pid)
    cpu = after[0].ru_utime + after[0].ru_stime - before[0].ru_utime - before[0].ru_stime
    return done.stdout, cpu, after[1] - before[1]


def properties(server, arguments, workload, clients, count, database):
    read, update = WORKLOADS[workload]
    return {
        "recordcount": arguments.rows,
        "operationcount": count,
        "readproportion": read,
        "updateproportion": update,
        "scanproportion": 0,
        "insertproportion": 0,
        "requestdistribution": "zipfian",
        "threadcount": clients,
        "mongodb.url": server.uri(database) + "&w=1",
    }


def by_go(arguments, server, workload, clients, count, action="run"):
    words = [arguments.go_ycsb, action, "mongodb", "--interval", "1000"]
    given = properties(server, arguments, workload, clients, count, "go_ycsb")
    given |= {"workload": "core", "silence": "true", "measurementtype": "histogram"}
    given["mongodb.url"] = given["mongodb.url"].replace("&w=1", "&w=1&retryWrites=false")
    for name, value in given.items():
        words += ["-p", f"{name}={value}"]
    return timed(words, server)


def of_go(arguments, server, workload, clients, count):
    said, cpu, server_cpu = by_go(arguments, server, workload, clients, count)
    total = re.search(r"^TOTAL +- Takes\(s\): ([\d.]+), Count: (\d+).*?Avg\(us\): (\d+).*", said, re.M)
    if not total:
        sys.exit(f"go-ycsb said: {said[-500:]}")
    at = lambda name: float(re.search(rf"\b{name}\(us\): (\d+)", total.group(0)).group(1))
    calls, rate = int(total.group(2)), int(total.group(2)) / float(total.group(1))
    mean = float(total.group(3))
    return {
        "rate": rate,
        "p50_us": at("50th"),
        "p99_us": at("99th"),
        "mean_us": mean,
        "between_us": clients / rate * 1e6 - mean,
        "client_cpu_us": cpu / calls * 1e6,
        "server_cpu_us": server_cpu / calls * 1e6,
    }


def by_java(arguments, server, workload, clients, count, action="-t"):
    words = ["java", "-cp", arguments.java, "site.ycsb.Client", action]
    words += ["-db", "site.ycsb.db.MongoDbClient", "-threads", str(clients)]
    given = properties(server, arguments, workload, clients, count, "java_ycsb")
    given |= {"workload": "site.ycsb.workloads.CoreWorkload", "hdrhistogram.percentiles": "50,99"}
    given["measurementtype"] = "hdrhistogram"
    for name, value in given.items():
        words += ["-p", f"{name}={value}"]
    return timed(words, server)


def of_java(arguments, server, workload, clients, count):
    said, cpu, server_cpu = by_java(arguments, server, workload, clients, count)
    number = lambda part, name: [
        float(found) for found in re.findall(rf"^\[{part}\], {name}, ([\d.]+)", said, re.M)
    ]
    rate = number("OVERALL", r"Throughput\(ops/sec\)")[0]
    parts = [part for part in ("READ", "UPDATE") if number(part, "Operations")]
    counts = [number(part, "Operations")[0] for part in parts]
    # The percentile of all calls lies between those of the parts; this is their mean, weighted by calls.
    weighted = lambda name: sum(
        number(part, name)[0] * calls for part, calls in zip(parts, counts)
    ) / sum(counts)
    mean = weighted(r"AverageLatency\(us\)")
    return {
        "rate": rate,
        "p50_us": weighted(r"50thPercentileLatency\(us\)"),
        "p99_us": weighted(r"99thPercentileLatency\(us\)"),
        "mean_us": mean,
        "between_us": clients / rate * 1e6 - mean,
        # This includes the start of the virtual machine.
        "client_cpu_us": cpu / sum(counts) * 1e6,
        "server_cpu_us": server_cpu / sum(counts) * 1e6,
    }


def compare(arguments, server, name, other, load):
    load()
    found = []
    for workload in WORKLOADS:
        for clients in map(int, arguments.clients.split(",")):
            # The same number of calls as the lab makes in its time.
            first = by_lab(arguments, server, workload, clients)
            count = int(first["rate"] * arguments.seconds)
            pairs = []
            for number in range(arguments.pairs):
                if number % 2 == 0:
                    lab = by_lab(arguments, server, workload, clients)
                    theirs = other(arguments, server, workload, clients, count)
                else:
                    theirs = other(arguments, server, workload, clients, count)
                    lab = by_lab(arguments, server, workload, clients)
                pairs.append({"lab": lab, "other": theirs})
            ratios = {
                key: sorted(pair["lab"][key] / pair["other"][key] for pair in pairs)
                for key in ("rate", "p50_us", "p99_us")
            }
            found.append(
                {
                    "program": name,
                    "workload": workload,
                    "clients": clients,
                    "pairs": pairs,
                    "ratio": {key: statistics.median(all) for key, all in ratios.items()},
                    "range": {key: (all[0], all[-1]) for key, all in ratios.items()},
                }
            )
            print(row(found[-1]), flush=True)
    return found


def row(case):
    mean = lambda side, key: statistics.mean(pair[side][key] for pair in case["pairs"])
    ratio = lambda key: "{:.3f} ({:.3f} to {:.3f})".format(
        case["ratio"][key], *case["range"][key]
    )
    both = lambda key: f"{mean('lab', key):.1f} | {mean('other', key):.1f}"
    return (
        f"| {case['program']}, {case['workload']} | {case['clients']} | {len(case['pairs'])}"
        f" | {mean('lab', 'rate'):,.0f} | {mean('other', 'rate'):,.0f} | {ratio('rate')}"
        f" | {ratio('p50_us')} | {ratio('p99_us')} | {both('mean_us')} | {both('between_us')}"
        f" | {both('client_cpu_us')} | {both('server_cpu_us')} |"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lab", required=True)
    parser.add_argument("--quarry", required=True)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--go-ycsb")
    parser.add_argument("--java")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--clients", default="1,4")
    parser.add_argument("--json")
    parser.add_argument("--table")
    arguments = parser.parse_args()
    pathlib.Path(arguments.dir).mkdir(parents=True, exist_ok=True)
    server, found = Server(arguments), []
    try:
        if arguments.go_ycsb:
            load = lambda: by_go(arguments, server, "ycsb-c", 4, 0, "load")
            found += compare(arguments, server, "go-ycsb", of_go, load)
        if arguments.java:
            load = lambda: by_java(arguments, server, "ycsb-c", 4, 0, "-load")
            found += compare(arguments, server, "YCSB (Java)", of_java, load)
    finally:
        server.stop()
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    lines = [
        f"Machine: {os.cpu_count()} x {model.group(1) if model else 'unknown'}.",
        f"Command: `{' '.join(sys.argv)}`.",
        "",
        "| program, workload | clients | pairs | lab, calls/s | other | ratio (range) | p50, ratio |"
        " p99, ratio | mean, us: lab | other | between calls, us: lab | other |"
        " client CPU a call, us: lab | other | server CPU a call, us: lab | other |",
        "|---|" + "---|" * 15,
        *map(row, found),
    ]
    if arguments.table:
        pathlib.Path(arguments.table).write_text("\n".join(lines) + "\n")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
