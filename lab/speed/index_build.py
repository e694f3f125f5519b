#!/usr/bin/env python3
"""What building an index on a full collection costs, beside writers: its time and CPU against those of
keeping the index during the load (key by key), the longest wait of a write, and the space while building.

    lab/speed/index_build.py [--documents N] [--dir DIR] [--out FILE]

Needs pymongo and a release build of `quarry` (QUARRY_BIN). Documents have about 200 bytes and a random
number `a`. A collection is loaded without an index on `a`, another with one; the difference is what
the index costs key by key. Then the index is built on the first, while a client updates random
documents of it one at a time, 200 a second, and inserts new ones. At the end the number of documents that
a query by the index finds in ten ranges is compared with that of a scan.
"""

import argparse
import json
import os
import random
import shutil
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pymongo

from aggregation import Quarry, cpu

BATCH = 2000
LOADERS = 2
VALUES = 1 << 40
PAD = "x" * 150
WRITES_PER_SECOND = 200


def load_part(port, collection, first, last):
    draw = random.Random(first)
    client = pymongo.MongoClient("127.0.0.1", port, directConnection=True)
    for start in range(first, last, BATCH):
        numbers = range(start, min(start + BATCH, last))
        rows = [{"_id": n, "a": draw.randrange(VALUES), "pad": PAD} for n in numbers]
        client.speed[collection].insert_many(rows, ordered=False)


class Writer(threading.Thread):
    """Updates and inserts single documents until it is stopped; keeps how long each took."""

    def __init__(self, collection, documents, first_new):
        super().__init__()
        self.collection, self.documents, self.first_new = collection, documents, first_new
        self.took, self.is_stopped = [], False

    def run(self):
        draw = random.Random(7)
        due = time.monotonic()
        while not self.is_stopped:
            began = time.monotonic()
            number = len(self.took)
            value = draw.randrange(VALUES)
            if number % 4 == 3:
                new = {"_id": self.first_new + number, "a": value, "pad": PAD}
                self.collection.insert_one(new)
            else:
                one = {"_id": draw.randrange(self.documents)}
                self.collection.update_one(one, {"$set": {"a": value}})
            self.took.append(time.monotonic() - began)
            due = max(due + 1 / WRITES_PER_SECOND, began)
            time.sleep(max(0, due - time.monotonic()))

    def result(self):
        self.is_stopped = True
        self.join()
        ordered = sorted(self.took)
        return {
            "writes": len(ordered),
            "p99_ms": 1000 * ordered[int(0.99 * len(ordered))],
            "longest_ms": 1000 * ordered[-1],
        }


class Space(threading.Thread):
    """The largest size of a folder until it is stopped."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.largest, self.is_stopped = folder, 0, False

    def run(self):
        while not self.is_stopped:
            self.largest = max(self.largest, size_of(self.folder))
            time.sleep(0.5)


def size_of(folder):
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.path.getsize(os.path.join(at, name))
            except FileNotFoundError:
                pass
    return total


def timed(server, work):
    """Seconds and CPU seconds of the server for the work."""
    began, used = time.monotonic(), cpu(server.pids())
    work()
    return time.monotonic() - began, cpu(server.pids()) - used


def load(server, collection, documents):
    share = -(-documents // LOADERS)
    with ProcessPoolExecutor(LOADERS) as pool:
        parts = [
            pool.submit(load_part, server.port, collection, first, min(first + share, documents))
            for first in range(0, documents, share)
        ]
        for part in parts:
            part.result()


def compare(collection):
    for n in range(10):
        low = n * (VALUES // 10)
        wanted = {"a": {"$gte": low, "$lt": low + VALUES // 1000}}
        by_index = collection.count_documents(wanted, hint="a_1")
        by_scan = collection.count_documents(wanted, hint={"$natural": 1})
        if by_index != by_scan:
            raise SystemExit(f"{wanted}: {by_index} by the index, {by_scan} by a scan")


def count_all(collection):
    took = []
    for _ in range(3):
        began = time.monotonic()
        counted = collection.count_documents({"a": {"$gte": 0}}, hint="a_1")
        took.append(time.monotonic() - began)
    if counted != collection.estimated_document_count():
        raise SystemExit(f"the index counts {counted}")
    return min(took)


def measure(folder, documents):
    server = Quarry(folder)
    server.start()
    try:
        db = pymongo.MongoClient("127.0.0.1", server.port, directConnection=True).speed
        plain = timed(server, lambda: load(server, "plain", documents))
        db.indexed.create_index("a")
        indexed = timed(server, lambda: load(server, "indexed", documents))
        db.drop_collection("indexed")
        time.sleep(30)
        alone = Writer(db.plain, documents, documents)
        alone.start()
        time.sleep(20)
        alone = alone.result()
        before, space = size_of(folder), Space(folder)
        writer = Writer(db.plain, documents, 2 * documents)
        writer.start()
        space.start()
        built = timed(server, lambda: db.plain.create_index("a"))
        beside = writer.result()
        space.is_stopped = True
        space.join()
        compare(db.plain)
        counted = count_all(db.plain)
        return {
            "documents": documents,
            "load_s": plain[0],
            "load_cpu_s": plain[1],
            "load_with_index_s": indexed[0],
            "load_with_index_cpu_s": indexed[1],
            "build_s": built[0],
            "build_cpu_s": built[1],
            "key_by_key_by_build": (indexed[0] - plain[0]) / built[0],
            "key_by_key_by_build_cpu": (indexed[1] - plain[1]) / built[1],
            "count_all_by_index_s": counted,
            "writes_alone": alone,
            "writes_beside": beside,
            "folder_before_mb": before / 1e6,
            "folder_largest_mb": space.largest / 1e6,
            "folder_after_mb": size_of(folder) / 1e6,
        }
    finally:
        server.stop()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    arguments.add_argument("--documents", type=int, default=10_000_000)
    arguments.add_argument("--dir", help="where data lie; a new folder of the system's if not given")
    arguments.add_argument("--out", type=Path, help="the figures as JSON")
    given = arguments.parse_args()
    folder = tempfile.mkdtemp(prefix="quarry-build-", dir=given.dir)
    try:
        figures = measure(folder, given.documents)
    finally:
        shutil.rmtree(folder)
    text = json.dumps(figures, indent=1)
    print(text)
    if given.out:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
