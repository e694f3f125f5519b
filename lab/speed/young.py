#!/usr/bin/env python3
"""What the log by reference (ADR 0051) costs those who change or follow young documents: server CPU for
each document of inserts, of updates and deletes soon after, and of a change stream that reads behind.

    lab/speed/young.py BEFORE AFTER [--documents N] [--bytes N] [--rounds N] [--dir DIR] [--out FILE]

BEFORE and AFTER are two builds of `quarry` that take turns. Needs pymongo. Each round: documents
are inserted in batches of 1,000, a change stream that begins before them reads all events, half are
updated by one command, all are deleted by another. The CPU includes what the server does in the
background until it is idle.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import tempfile
from pathlib import Path

from aggregation import Quarry
from column_cost import insert, timed

WORK = ["insert", "stream", "update", "delete"]


def read_stream(collection, start, events):
    with collection.watch(start_at_operation_time=start, batch_size=1000) as stream:
        for _ in range(events):
            next(stream)


def one_round(binary, folder, rows):
    os.environ["QUARRY_BIN"] = binary
    server = Quarry(folder, "--replSet", "rs0")
    server.start()
    try:
        collection = server.db.young
        start = server.db.command("ping")["operationTime"]
        count, half = len(rows), {"_id": {"$lt": len(rows) // 2}}
        change = {"$set": {"changed": 1}}
        of = {}
        of["insert"] = timed(server, count, lambda: insert(collection, rows))
        of["stream"] = timed(server, count, lambda: read_stream(collection, start, count))
        of["update"] = timed(server, count // 2, lambda: collection.update_many(half, change))
        of["delete"] = timed(server, count, lambda: collection.delete_many({}))
        return of
    finally:
        server.stop()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    arguments.add_argument("before")
    arguments.add_argument("after")
    arguments.add_argument("--documents", type=int, default=60_000)
    arguments.add_argument("--bytes", type=int, default=1024)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--dir", help="where data lie; a new folder of the system's if not given")
    arguments.add_argument("--out", type=Path, help="the figures as JSON")
    given = arguments.parse_args()
    draw = random.Random(1)
    rows = [{"_id": n, "pad": draw.randbytes(given.bytes)} for n in range(given.documents)]
    rounds = []
    for number in range(given.rounds):
        sides = {"before": given.before, "after": given.after}
        for name in list(sides)[:: 1 if number % 2 == 0 else -1]:
            folder = tempfile.mkdtemp(prefix="quarry-young-", dir=given.dir)
            try:
                rounds.append({"side": name, **one_round(sides[name], folder, rows)})
            finally:
                shutil.rmtree(folder)
    figures = {"documents": given.documents, "bytes": given.bytes, "rounds": rounds}
    for work in WORK:
        cpu = {
            side: statistics.median(r[work][1] for r in rounds if r["side"] == side)
            for side in ["before", "after"]
        }
        figures[work] = {**cpu, "after_by_before": cpu["after"] / cpu["before"]}
    print(json.dumps({work: figures[work] for work in WORK}, indent=1))
    if given.out:
        given.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
