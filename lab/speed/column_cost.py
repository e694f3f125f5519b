#!/usr/bin/env python3
"""What a column index costs a write: server CPU per insert and per update, with it and without.

    lab/speed/column_cost.py [--documents N] [--rounds N] [--dir DIR] [--out FILE]

Needs pymongo and a release build of `quarry` (QUARRY_BIN). The events are those of `jsonbench.py`; the
column index has its five paths. In each round both collections get the same events in batches of
1,000, and then as many updates of one random document each, a fifth of the events, in bulk; who
comes first alternates. The CPU includes what the server does in the background until it is idle.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from pymongo import UpdateOne

from aggregation import Quarry, cpu
from jsonbench import COLUMN_PATHS, events

BATCH = 1000
IDLE_CPU_S = 0.02


def wait_until_idle(server):
    """Returns when the server used next to no CPU for three seconds."""
    quiet, before = 0, cpu(server.pids())
    while quiet < 3:
        time.sleep(1)
        now = cpu(server.pids())
        quiet = quiet + 1 if now - before < IDLE_CPU_S else 0
        before = now


def timed(server, count, work):
    """Microseconds and CPU microseconds for each of `count`; the CPU until the server is idle."""
    began, used = time.monotonic(), cpu(server.pids())
    work()
    took = time.monotonic() - began
    wait_until_idle(server)
    return 1e6 * took / count, 1e6 * (cpu(server.pids()) - used) / count


def insert(collection, rows):
    for start in range(0, len(rows), BATCH):
        collection.insert_many(rows[start : start + BATCH], ordered=False)


def update(collection, numbers):
    for start in range(0, len(numbers), BATCH):
        part = numbers[start : start + BATCH]
        some = [UpdateOne({"_id": n}, {"$inc": {"time_us": 1}}) for n in part]
        collection.bulk_write(some, ordered=False)


def one_round(server, rows, number):
    figures = {}
    for kind in ["plain", "columns"][:: 1 if number % 2 == 0 else -1]:
        collection = server.db[kind]
        collection.drop()
        if kind == "columns":
            collection.create_index([(path, "columnstore") for path in COLUMN_PATHS])
        wait_until_idle(server)
        figures[f"insert_{kind}"] = timed(server, len(rows), lambda: insert(collection, rows))
        draw = random.Random(number)
        numbers = [draw.randrange(len(rows)) for _ in range(len(rows) // 5)]
        figures[f"update_{kind}"] = timed(server, len(numbers), lambda: update(collection, numbers))
    return figures


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    arguments.add_argument("--documents", type=int, default=500_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--dir", help="where data lie; a new folder of the system's if not given")
    arguments.add_argument("--out", type=Path, help="the figures as JSON")
    given = arguments.parse_args()
    rows = [{"_id": n, **event} for n, event in enumerate(events(given.documents, 1))]
    folder = tempfile.mkdtemp(prefix="quarry-columns-", dir=given.dir)
    server = Quarry(os.path.join(folder, "data"))
    server.start()
    try:
        rounds = [one_round(server, rows, number) for number in range(given.rounds)]
    finally:
        server.stop()
        shutil.rmtree(folder)
    figures = {"documents": given.documents, "rounds": rounds}
    for work in ["insert", "update"]:
        for at, unit in enumerate(["us", "cpu_us"]):
            of = {k: [r[f"{work}_{k}"][at] for r in rounds] for k in ["plain", "columns"]}
            for kind, values in of.items():
                figures[f"{work}_{kind}_{unit}"] = statistics.median(values)
    text = json.dumps(figures, indent=1)
    print(text)
    if given.out:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
