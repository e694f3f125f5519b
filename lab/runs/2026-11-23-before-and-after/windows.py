#!/usr/bin/env python3
"""Inserts with three indexes, finds by _id and aggregations by several builds of the server, in
windows of about a second that alternate between servers which all run at the same time.

    windows.py [--windows N] [--documents N] NAME=BINARY NAME=BINARY ...

Needs pymongo. Servers are `--standalone` on empty directories with the same documents and one client;
only one is asked at any time. Processor time is that of all threads of the server (schedstat); what a
server does in the background within its window is in it. The first build is the baseline: of each
window the ratio to that of the baseline beside it; the median of the ratios and its interval of 95 %
(by the sign test) are printed.
"""

import argparse
import glob
import random
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

import pymongo
from pymongo.write_concern import WriteConcern

PIPELINE = [
    {"$match": {"status": {"$lt": 50}}},
    {"$group": {"_id": "$g", "amount": {"$sum": "$amount"}, "qty": {"$avg": "$qty"}}},
]


def document(i, rnd, pad):
    return {
        "_id": i, "status": rnd.randrange(100), "g": rnd.randrange(1000), "amount": rnd.random() * 100,
        "qty": rnd.randrange(10), "a": rnd.randrange(1 << 30), "b": rnd.randrange(1 << 30), "pad": pad,
    }


class Server:
    def __init__(self, name, binary, docs):
        self.name, self.root = name, tempfile.mkdtemp(prefix="windows-")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.process = subprocess.Popen(
            [binary, "serve", "--dbpath", self.root, "--port", str(port), "--bind_ip", "127.0.0.1",
             "--standalone", "--memory", "1GB"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        self.client = pymongo.MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=60000)
        self.client.admin.command("ping")
        concern = WriteConcern(w=1, j=False)
        self.coll = self.client.db.get_collection("c", write_concern=concern)
        self.fresh = self.client.db.get_collection("fresh", write_concern=concern)
        for field in ("a", "b", "status"):
            self.coll.create_index(field)
            self.fresh.create_index(field)
        for at in range(0, len(docs), 1000):
            self.coll.insert_many(docs[at : at + 1000])
        self.rnd, self.next, self.count = random.Random(5), 0, len(docs)

    def cpu_ns(self):
        total = 0
        for path in glob.glob(f"/proc/{self.process.pid}/task/*/schedstat"):
            try:
                total += int(open(path).read().split()[0])
            except (FileNotFoundError, ProcessLookupError):
                pass
        return total

    def find(self, n=5000):
        for _ in range(n):
            assert self.coll.find_one({"_id": self.rnd.randrange(self.count)}) is not None
        return n

    def aggregate(self, n=4):
        for _ in range(n):
            assert len(list(self.coll.aggregate(PIPELINE))) == 1000
        return n * self.count

    def insert(self, n=20_000):
        pad = "x" * 80
        docs = [document(self.next + i, self.rnd, pad) for i in range(n)]
        self.next += n
        begin = self.cpu_ns()
        for at in range(0, n, 500):
            self.fresh.insert_many(docs[at : at + 500])
        return n, begin

    def close(self):
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        shutil.rmtree(self.root)


def window(server, what):
    begin = server.cpu_ns()
    done = getattr(server, what)()
    if isinstance(done, tuple):
        done, begin = done
    return (server.cpu_ns() - begin) / 1000 / done


def main():
    args = argparse.ArgumentParser()
    args.add_argument("builds", nargs="+")
    args.add_argument("--windows", type=int, default=40)
    args.add_argument("--documents", type=int, default=100_000)
    args.add_argument("--what", default="find,aggregate,insert")
    given = args.parse_args()
    rnd, pad = random.Random(7), "y" * 80
    docs = [document(i, rnd, pad) for i in range(given.documents)]
    servers = [Server(*b.split("=", 1), docs) for b in given.builds]
    time.sleep(3)
    try:
        for what in given.what.split(","):
            seen = {s.name: [] for s in servers}
            for number in range(given.windows + 2):
                at = number % len(servers)
                for s in servers[at:] + servers[:at]:
                    us = window(s, what)
                    if number >= 2:
                        seen[s.name].append(us)
            base = seen[servers[0].name]
            for s in servers:
                ratios = sorted(t / b for t, b in zip(seen[s.name], base))
                n = len(ratios)
                half = int(0.98 * n**0.5) + 1
                low, high = ratios[max(0, n // 2 - half)], ratios[min(n - 1, n // 2 + half)]
                print(
                    f"{what}: {s.name}: median {statistics.median(seen[s.name]):.3f} us, "
                    f"ratio {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f}), {n} windows",
                    flush=True,
                )
    finally:
        for s in servers:
            s.close()


if __name__ == "__main__":
    main()
