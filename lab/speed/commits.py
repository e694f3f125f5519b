#!/usr/bin/env python3
"""The server's CPU for each operation of two builds of `quarry` that take turns, and the ratio.

    lab/speed/commits.py BEFORE AFTER [--rounds N] [--dir DIR] [--out FILE]

Needs pymongo and duckdb. Each round begins an empty server, loads documents with three indexes and
sends each kind of operation many times. The CPU is that of the server's process, with what it does
in the background until it is idle; the time of the client does not count. The interval is that of
the median of the rounds' ratios, by resampling, at 95 %.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import tempfile
from pathlib import Path

import pymongo
from aggregation import Quarry
from column_cost import timed

DOCUMENTS = 50_000
GROUPS = 500


def documents(draw):
    return [
        {
            "_id": n,
            "a": draw.randrange(GROUPS),
            "b": draw.random(),
            "c": f"name {draw.randrange(1_000_000)}",
            "n": 0,
            "pad": "x" * 100,
        }
        for n in range(DOCUMENTS)
    ]


def repeat(count, step):
    def run():
        for n in range(count):
            step(n)

    return run


def transact(client, collection, ids):
    with client.start_session() as session, session.start_transaction():
        for n in ids:
            collection.update_one({"_id": n}, {"$inc": {"n": 1}}, session=session)


def measure(binary, folder, draw):
    """Microseconds of the server's CPU for each operation."""
    os.environ["QUARRY_BIN"] = binary
    server = Quarry(folder, "--replSet", "rs0")
    server.start()
    try:
        collection, used = server.db.rows, {}
        for field in ("a", "b", "c"):
            collection.create_index(field)
        rows, any_id = documents(draw), lambda: draw.randrange(DOCUMENTS)
        inserts = repeat(
            len(rows) // 100, lambda n: collection.insert_many(rows[n * 100 : n * 100 + 100])
        )
        work = {
            "insert, three indexes": (len(rows), inserts),
            "point read": (15_000, repeat(15_000, lambda _: collection.find_one({"_id": any_id()}))),
            "update": (
                10_000,
                repeat(
                    10_000, lambda _: collection.update_one({"_id": any_id()}, {"$inc": {"n": 1}})
                ),
            ),
            "transaction of two updates": (
                2_000,
                repeat(
                    2_000, lambda _: transact(server.client, collection, [any_id(), any_id()])
                ),
            ),
            "find 100 by index": (
                1_500,
                repeat(1_500, lambda _: list(collection.find({"a": draw.randrange(GROUPS)}))),
            ),
            "$group": (
                20,
                repeat(20, lambda _: list(collection.aggregate(GROUP))),
            ),
            "$lookup": (
                10,
                repeat(10, lambda _: list(collection.aggregate(LOOKUP))),
            ),
        }
        server.db.names.create_index("g")
        server.db.names.insert_many({"_id": n, "g": n, "name": f"group {n}"} for n in range(GROUPS))
        for name, (count, run) in work.items():
            used[name] = timed(server, count, run)[1]
        return used
    finally:
        server.stop()


GROUP = [{"$group": {"_id": "$a", "n": {"$sum": 1}, "b": {"$avg": "$b"}}}]
LOOKUP = [
    {"$lookup": {"from": "names", "localField": "a", "foreignField": "g", "as": "of"}},
    {"$group": {"_id": None, "n": {"$sum": {"$size": "$of"}}}},
]


def interval(ratios):
    """The 95 % interval of the median, by resampling."""
    draw = random.Random(1)
    medians = sorted(
        statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000)
    )
    return medians[49], medians[1949]


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("before")
    arguments.add_argument("after")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--dir", help="where data lie; a new folder of the system's if not given")
    arguments.add_argument("--out", type=Path, help="the figures as JSON")
    given = arguments.parse_args()
    rounds = []
    for number in range(given.rounds):
        sides, one = {"before": given.before, "after": given.after}, {}
        for name in list(sides)[:: 1 if number % 2 == 0 else -1]:
            folder = tempfile.mkdtemp(prefix="quarry-commits-", dir=given.dir)
            try:
                one[name] = measure(sides[name], folder, random.Random(number))
            finally:
                shutil.rmtree(folder)
        rounds.append(one)
    figures = {"rounds": rounds}
    print(f"pymongo {pymongo.version}, {given.rounds} rounds; microseconds of the server's CPU")
    print(f"{'':<28}{'before':>10}{'after':>10}{'ratio':>8}  interval")
    for work in rounds[0]["before"]:
        before, after = (
            statistics.median(one[side][work] for one in rounds) for side in ("before", "after")
        )
        ratios = [one["after"][work] / one["before"][work] for one in rounds]
        ratio, (low, high) = statistics.median(ratios), interval(ratios)
        figures[work] = {"before": before, "after": after, "ratio": ratio, "interval": [low, high]}
        print(f"{work:<28}{before:>10.1f}{after:>10.1f}{ratio:>8.3f}  {low:.3f} to {high:.3f}")
    if given.out:
        given.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
