#!/usr/bin/env python3
"""One server against three on a TiKV cluster of this machine, in turns.

    lab/speed/servers.py --lab target/release/quarry-lab --quarry target/release/quarry --dir DIR
    [--pairs 3] [--seconds 15] [--rows 50000] [--clients 4] [--json FILE]

Runs three processes of the lab at a time, each with its own database and clients: first all on one
server, then each on another of three servers. PD and a store for tests run on the same machine
(scripts/cluster.sh build). Prints for each workload and number of servers the rate of each process,
their sum, and the CPU per operation of the server that holds the database, of the others, of the
store and PD, and of the lab, each over whole runs with their loads; and the ratio of three to one,
as the median of the pairs and for each pair. All processes share the processors of one machine: the
sums show the cost of forwarding, not the speed of three machines.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

from processes import cpu_seconds

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROCESSES = 3
WORKLOADS = [
    ("insert with three indexes", "insert", ["--indexes", "3", "--batch", "1"]),
    ("find by _id", "point", []),
    ("update by _id", "update", ["--tables", "1"]),
]
WAIT_S = 60


def free_ports(count):
    taken = [socket.socket() for _ in range(count)]
    for one in taken:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


class Cluster:
    def __init__(self):
        command = [str(ROOT / "scripts" / "cluster.sh"), "hold"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, **pipes)
        line = self.process.stdout.readline().strip()
        if not line.startswith("ready "):
            sys.exit(line)
        _, self.pd, *pids = line.split()
        self.pids = [int(pid) for pid in pids]

    def stop(self):
        self.process.stdin.close()
        self.process.wait(60)


class Servers:
    """Servers on a new database, which the first one holds."""

    def __init__(self, arguments, pd, count, name):
        self.processes, self.ports = [], free_ports(count)
        for number, port in enumerate(self.ports):
            log = pathlib.Path(arguments.dir) / f"{name}-{number}.log"
            command = [arguments.quarry, "serve", "--storageEngine", "tikv", "--tikvPd", pd]
            command += ["--tikvPrefix", name, "--tikvAddress", f"127.0.0.1:{port}"]
            command += ["--port", str(port), "--nounixsocket", "--memory", "1024M"]
            with log.open("w") as out:
                self.processes.append(subprocess.Popen(command, stdout=out, stderr=out))
            self.wait_for(log, "handing connections on" if number else "listening on")

    def wait_for(self, log, text):
        end = time.monotonic() + WAIT_S
        while text not in log.read_text():
            if time.monotonic() > end or self.processes[-1].poll() is not None:
                self.stop()
                sys.exit(f"a server did not start: {log.read_text()[-500:]}")
            time.sleep(0.05)

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait(WAIT_S)


def run(arguments, cluster, workload, options, servers):
    """Rates and operations of three simultaneous processes, and their CPU costs."""
    groups = {
        "holder": [servers.processes[0].pid],
        "others": [process.pid for process in servers.processes[1:]],
        "cluster": cluster.pids,
    }
    before = {name: sum(map(cpu_seconds, pids)) for name, pids in groups.items()}
    children, labs, outs = os.times(), [], []
    for number in range(PROCESSES):
        port = servers.ports[number % len(servers.ports)]
        out = pathlib.Path(arguments.dir) / f"results-{time.monotonic_ns()}"
        command = [arguments.lab, "run", workload, "--target", f"mongodb://127.0.0.1:{port}"]
        command += ["--db", f"{workload}_{number}", "--drop", "--rows", str(arguments.rows)]
        command += ["--clients", str(arguments.clients), "--warmup-seconds", "2", *options]
        command += ["--seconds", str(arguments.seconds), "--out", str(out)]
        labs.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        outs.append(out)
    if any([lab.wait() for lab in labs]):
        sys.exit("a run of the lab failed; its message is above")
    after = {name: sum(map(cpu_seconds, pids)) for name, pids in groups.items()}
    now = os.times()
    results = [json.loads(next(out.glob("*/result.json")).read_text()) for out in outs]
    steps = [next(step for step in result["steps"][::-1] if step["measured"]) for result in results]
    operations = sum(
        step["ops"] + step["warmup_ops"] for result in results for step in result["steps"]
    )
    cost = {name: (after[name] - before[name]) * 1e6 / operations for name in groups}
    spent = now.children_user + now.children_system
    spent -= children.children_user + children.children_system
    return {
        "rates": [step["rate"]["average"] for step in steps],
        "total": sum(step["rate"]["average"] for step in steps),
        "p99_us": max(
            value
            for step in steps
            for name, value in step["latency"]["percentiles_us"]
            if float(name) == 99
        ),
        "cpu_us": {**cost, "lab": spent * 1e6 / operations},
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lab", required=True)
    parser.add_argument("--quarry", required=True)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--clients", type=int, default=4, help="of each of the three processes")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    pathlib.Path(arguments.dir).mkdir(parents=True, exist_ok=True)
    cluster, found = Cluster(), []
    try:
        for pair in range(arguments.pairs):
            for count in (1, 3) if pair % 2 == 0 else (3, 1):
                servers = Servers(arguments, cluster.pd, count, f"speed-{os.getpid()}-{pair}-{count}")
                try:
                    for title, workload, options in WORKLOADS:
                        one = run(arguments, cluster, workload, options, servers)
                        found.append({"workload": title, "servers": count, "pair": pair, **one})
                        rates = ", ".join(f"{rate:,.0f}" for rate in one["rates"])
                        costs = ", ".join(f"{n} {us:.0f}" for n, us in one["cpu_us"].items())
                        print(
                            f"{title}, {count} of servers: {rates}; sum {one['total']:,.0f}/s, p99"
                            f" {one['p99_us']:,.0f} us; CPU us per operation: {costs}",
                            flush=True,
                        )
                finally:
                    servers.stop()
    finally:
        cluster.stop()
    for title, _, _ in WORKLOADS:
        totals = {
            (one["servers"], one["pair"]): one["total"] for one in found if one["workload"] == title
        }
        ratios = [totals[3, pair] / totals[1, pair] for pair in range(arguments.pairs)]
        each = ", ".join(f"{ratio:.3f}" for ratio in ratios)
        print(f"{title}: three by one {statistics.median(ratios):.3f} ({each})")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n")


main()
