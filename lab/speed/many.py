#!/usr/bin/env python3
"""Writes of many documents: CPU of the server per document for updateMany and deleteMany, by the
size of the collection.

usage: many.py NAME=BINARY [NAME=BINARY ...] [--documents 100000,1600000] [--rounds 1]

Starts a private server of each binary on a free port of 127.0.0.1, loads the documents
(ids in order, one index that the update changes), and runs {updateMany over the index, updateMany
of all, deleteMany of all}. A figure that grows with the size is a defect: each document costs the
same. Needs pymongo; everything is in a temporary folder.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pymongo


def cpu_seconds(pid):
    """CPU of the server's own threads, and of RocksDB's, which write memtables and compact."""
    own = engine = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat") as f:
                seconds = int(f.read().split()[0]) / 1e9
            with open(f"/proc/{pid}/task/{task}/comm") as f:
                background = f.read().startswith("rocksdb:")
        except FileNotFoundError:
            continue  # The thread has ended.
        own, engine = (own, engine + seconds) if background else (own + seconds, engine)
    return own, engine


def peak_mib(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"VmHWM:\s+(\d+) kB", f.read()).group(1)) // 1024


def start(binary, folder):
    command = [
        binary,
        "serve",
        "--dbpath",
        folder,
        "--port",
        "0",
        "--nounixsocket",
        "--standalone",
        "--memory",
        "1G",
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in server.stdout:
        if found := re.search(r"mongodb://[\d.]+:\d+", line):
            return server, found.group(0)
    sys.exit(f"{binary} did not start")


def measure(name, binary, documents):
    folder = tempfile.mkdtemp(prefix="quarry-many-")
    server, uri = start(binary, folder)
    try:
        coll = pymongo.MongoClient(uri).lab.many
        coll.create_index("k")
        for first in range(0, documents, 10_000):
            coll.insert_many(
                [
                    {"_id": i, "k": i, "pad": "x" * 64}
                    for i in range(first, min(documents, first + 10_000))
                ]
            )
        statements = [
            (
                "updateMany by index",
                lambda: coll.update_many(
                    {"k": {"$gte": 0}}, {"$inc": {"k": documents}}
                ).modified_count,
            ),
            ("updateMany of all", lambda: coll.update_many({}, {"$inc": {"n": 1}}).modified_count),
            ("deleteMany of all", lambda: coll.delete_many({}).deleted_count),
        ]
        for what, run in statements:
            began, cpu = time.monotonic(), cpu_seconds(server.pid)
            done = run()
            seconds = time.monotonic() - began
            own, engine = (after - before for after, before in zip(cpu_seconds(server.pid), cpu))
            if done != documents:
                sys.exit(f"{name}: {what} did {done} of {documents}")
            print(
                f"{name:8} {documents:9} {what:20} {seconds / documents * 1e6:7.2f} us  "
                f"{own / documents * 1e6:7.2f} us of CPU, "
                f"{engine / documents * 1e6:5.2f} in the background, peak {peak_mib(server.pid)} MiB",
                flush=True,
            )
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("binaries", nargs="+", metavar="NAME=BINARY")
    parser.add_argument("--documents", default="100000,1600000")
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    for _ in range(args.rounds):
        for documents in map(int, args.documents.split(",")):
            for pair in args.binaries:
                name, binary = pair.split("=", 1)
                measure(name, binary, documents)


main()
