#!/usr/bin/env python3
"""Draws the chart of the README from recorded runs: rate of inserts by the size of the collection.

    scripts/front-chart.py FOLDER > docs/images/inserts-past-memory.svg     what scripts/front-figure.sh has run
    scripts/front-chart.py --words FOLDER                                   the figures of the caption

A line is the mean of the repeats' rates over each thirtieth of the rows. The average of a server counts the time until
it had done the work that its inserts left behind (the step `settle`). First and last fifth of the rows are compared
alike for all. Runs that ended early, were wrong or warn of a busy machine are refused, and those of which a hypervisor
took more than STOLEN_MAX percent. A smaller part is named on the chart: the hypervisor also serves the device, so on a
virtual machine no server that reads much runs without it.
"""
import json
import pathlib
import sys

SERVERS = [("quarry", "Quarry", "#b3470f"), ("myrocks", "MyRocks", "#3b6ea5"), ("innodb", "InnoDB", "#5f6b76")]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 768, 388, 70, 92, 50, 96
POINTS = 30
# Warnings of the lab with which a figure is not worth quoting.
UNTRUSTED = {"busy-machine", "others-busy", "others-io", "swap-in-use", "lab-debug-build", "errors", "lab-stood-still"}
# The largest part of the processors, in percent, that a hypervisor may have taken from a run.
STOLEN_MAX = 5.0


def parts(step, count):
    """Seconds that each of `count` equal parts of the step's documents took."""
    width, out, done, time = step["ops"] / count, [], 0.0, 0.0
    for second in step["series"]:
        ops, seconds = second["ops"], second["seconds"]
        # What of this second belongs to the part that it ends.
        while ops > 0 and done + ops >= width and len(out) < count:
            share = (width - done) / ops
            out.append(time + share * seconds)
            ops, seconds, done, time = ops * (1 - share), seconds * (1 - share), 0.0, 0.0
        done, time = done + ops, time + seconds
    if len(out) < count:
        out.append(time)
    return out


def mean(values):
    return sum(values) / len(values)


class Server:
    """The repeats of one server."""

    def __init__(self, runs):
        self.n = len(runs)
        self.machine = runs[0]["environment"]
        self.memory_mb = runs[0]["settings"]["memory_mb"]
        steps = [next(step for step in run["steps"] if step["name"] == "grow") for run in runs]
        self.rows = mean([step["ops"] for step in steps])
        self.stolen = max(step["host"]["steal_percent"] for step in steps)
        self.times = round(mean([step["sizes"]["live_bytes"] for step in steps]) / self.memory_mb / 2**20)
        by_part = [[step["ops"] / POINTS / seconds for seconds in parts(step, POINTS)] for step in steps]
        self.points = [mean(rates) for rates in zip(*by_part)]
        fifths = [[step["ops"] / 5 / seconds for seconds in parts(step, 5)] for step in steps]
        self.first, self.last = (mean([run[at] for run in fifths]) for at in (0, -1))
        with_debt = [step["ops"] / (step["seconds"] + (step["more"].get("quiesce_seconds") or 0.0)) for step in steps]
        self.average, self.low, self.high = mean(with_debt), min(with_debt), max(with_debt)


def read(sweep):
    runs = [json.loads(path.read_text()) for path in sorted(sweep.rglob("result.json"))]
    servers = {}
    for name, label, _ in SERVERS:
        own = [run for run in runs if run["run"]["labels"].get("own", "").split(" ")[0] == name]
        for run in own:
            wrong = not run["run"]["complete"] or any(check["passed"] is False for check in run["checks"])
            untrusted = UNTRUSTED & {warning["code"] for warning in run["warnings"]}
            if wrong or untrusted:
                sys.exit(f"front-chart: {run['run']['id']} is no figure to quote: {sorted(untrusted) or 'it is not whole or not right'}")
        if len(own) < 3:
            sys.exit(f"front-chart: {label} has {len(own)} runs, at least 3 are needed")
        servers[label] = Server(own)
        if servers[label].stolen > STOLEN_MAX:
            sys.exit(f"front-chart: a hypervisor took {servers[label].stolen:.1f} % from a run of {label}; at most {STOLEN_MAX} % are quoted")
    return servers


def words(servers):
    """The caption, in lines."""
    any_server = next(iter(servers.values()))
    machine = any_server.machine
    counts = sorted({server.n for server in servers.values()})
    out = [f"n = {counts[0]} repeats each, taking turns; {machine['cpus']} CPUs, {machine['cpu_model']}; {any_server.memory_mb} MiB for the server"]
    out += [
        f"{label}: {server.average:,.0f} a second with the compaction left over ({server.low:,.0f} to {server.high:,.0f}); "
        f"first fifth {server.first:,.0f}, last fifth {server.last:,.0f}"
        for label, server in servers.items()
    ]
    stolen = ", ".join(f"{server.stolen:.1f} % from {label}" for label, server in servers.items())
    out.append(f"a hypervisor took at most {stolen}")
    return out


def main():
    given = [word for word in sys.argv[1:] if not word.startswith("--")]
    if len(given) != 1:
        sys.exit(__doc__)
    servers = read(pathlib.Path(given[0]))
    if "--words" in sys.argv:
        print("\n".join(words(servers)))
        return
    rows = max(server.rows for server in servers.values())
    top = 20_000 * -(-max(max(server.points) for server in servers.values()) // 20_000)
    x = lambda documents: LEFT + documents / rows * (WIDTH - LEFT - RIGHT)
    y = lambda rate: HEIGHT - BOTTOM - rate / top * (HEIGHT - TOP - BOTTOM)
    text = words(servers)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif" font-size="13" role="img">',
        "<title>Documents inserted per second, with three secondary indexes, as the collection outgrows the memory</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="20" font-weight="600" fill="#1f2328">Documents inserted per second, three secondary indexes</text>',
        f'<text x="{LEFT}" y="37" fill="#59636e">{next(iter(servers.values())).memory_mb} MiB of memory for the server; the collection grows to {next(iter(servers.values())).times} times as much</text>',
    ]
    for rate in range(0, int(top) + 1, 20_000):
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(rate):.1f}" y2="{y(rate):.1f}" stroke="#d8dee4"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y(rate) + 4:.1f}" text-anchor="end" fill="#59636e">{rate:,}</text>')
    for millions in range(0, int(rows // 1e6) + 1):
        out.append(f'<text x="{x(millions * 1e6):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#59636e">{millions}</text>')
    out.append(f'<text x="{x(rows / 2):.1f}" y="{HEIGHT - BOTTOM + 36}" text-anchor="middle" fill="#59636e">million documents in the collection</text>')
    for (_, label, colour), server in zip(SERVERS, servers.values()):
        points = [(server.rows / POINTS * (at + 1), rate) for at, rate in enumerate(server.points)]
        path = " ".join(f"{x(d):.1f},{y(r):.1f}" for d, r in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5" stroke-linejoin="round"/>')
        last = points[-1]
        out.append(f'<text x="{x(last[0]) + 8:.1f}" y="{y(last[1]) + 4:.1f}" fill="{colour}" font-weight="600">{label}</text>')
    averages = "; ".join(f"{label} {server.average:,.0f}" for label, server in servers.items())
    for at, line in enumerate([text[0], f"average with the compaction left over: {averages}", text[-1]]):
        out.append(f'<text x="{LEFT}" y="{HEIGHT - 42 + at * 16}" font-size="12" fill="#59636e">{line}</text>')
    print("\n".join([*out, "</svg>"]))


main()
