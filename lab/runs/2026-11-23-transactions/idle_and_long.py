#!/usr/bin/env python3
"""A thousand idle change streams: CPU of the server while nothing changes. And a transaction that is
open for a minute beside single writes: memory of the server, and what the transaction reads at its end.

    idle_and_long.py BINARY [--streams 1000] [--seconds 55]
"""

import argparse
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import bson
import pymongo
from pymongo.write_concern import WriteConcern


def cpu_s(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid):
    return next(int(line.split()[1]) for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS")) / 1024


def writer(port, number, stop, counts):
    client = pymongo.MongoClient("127.0.0.1", port, directConnection=True)
    coll = client.db.get_collection("c", write_concern=WriteConcern(w=1, j=False))
    n = 0
    while not stop.is_set():
        ops = [pymongo.UpdateOne({"_id": (number * 7919 + n + i) % 10_000}, {"$inc": {"n": 1}}) for i in range(100)]
        coll.bulk_write(ops, ordered=False)
        n += 100
        counts[number] = n


def main():
    args = argparse.ArgumentParser()
    args.add_argument("binary")
    args.add_argument("--streams", type=int, default=1000)
    args.add_argument("--seconds", type=int, default=55)
    given = args.parse_args()
    root = tempfile.mkdtemp(prefix="idle-")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    server = subprocess.Popen(
        [given.binary, "serve", "--dbpath", root, "--port", str(port), "--bind_ip", "127.0.0.1", "--memory", "1GB"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        client = pymongo.MongoClient("127.0.0.1", port, directConnection=True, maxPoolSize=None)
        client.db.c.insert_many([{"_id": i, "n": 0} for i in range(10_000)])
        # Each stream waits in a getMore on a connection of its own, for a minute at a time.
        sockets = []
        for number in range(given.streams):
            cursor = client.db.command(
                {"aggregate": f"c{number % 10}", "pipeline": [{"$changeStream": {}}], "cursor": {}}
            )["cursor"]
            more = bson.encode({"getMore": bson.Int64(cursor["id"]), "collection": f"c{number % 10}",
                                "maxTimeMS": 60_000, "$db": "db"})
            s = socket.create_connection(("127.0.0.1", port))
            s.sendall((21 + len(more)).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(4)
                      + (2013).to_bytes(4, "little") + bytes(4) + b"\0" + more)
            sockets.append(s)
        time.sleep(3)
        begin = cpu_s(server.pid)
        time.sleep(20)
        print(f"{given.streams} idle streams: {(cpu_s(server.pid) - begin) / 20 * 100:.2f} % of a processor over 20 s")
        for s in sockets:
            s.close()

        stop, counts = threading.Event(), {}
        with client.start_session() as session:
            session.start_transaction()
            before = sum(d["n"] for d in client.db.c.find({}, session=session))
            writers = [threading.Thread(target=writer, args=(port, i, stop, counts)) for i in range(4)]
            for w in writers:
                w.start()
            seen = []
            began = time.time()
            while time.time() - began < given.seconds:
                time.sleep(5)
                seen.append((sum(counts.values()), rss_mb(server.pid)))
            after = sum(d["n"] for d in client.db.c.find({}, session=session))
            client.db.t.insert_one({"_id": 1}, session=session)
            session.commit_transaction()
            stop.set()
            for w in writers:
                w.join()
        print("writes so far, resident MB, every 5 s:", ", ".join(f"{n:,} {mb:.0f}" for n, mb in seen))
        print(f"single writes a second: {seen[-1][0] / given.seconds:,.0f}; read by the transaction: {before} and {after}")
        assert before == after == 0
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
