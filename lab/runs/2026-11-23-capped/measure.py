"""Inserts into a full capped collection beside a plain one, on two builds in turns. Usage: measure.py ROUNDS NAME=BINARY...

Each round starts a new server for each build in a directory in memory and inserts documents of about 130 bytes, journal not waited
for, one by one and in hundreds; the capped collection is full from the beginning and is wrapped some 20 times. CPU of all threads
of the server, flushes and compaction until it rests included. Prints medians with the least and the greatest.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from pymongo import MongoClient, WriteConcern

PAD = "x" * 100
DOCUMENT_BYTES = 130
COUNTS = {1: 10_000, 100: 60_000}


def cpu_us(pid):
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat") as stat:
                total += int(stat.read().split()[0])
        except OSError:
            pass
    return total / 1000


def insert(collection, count, batch):
    for _ in range(count // batch):
        if batch == 1:
            collection.insert_one({"p": PAD})
        else:
            collection.insert_many([{"p": PAD} for _ in range(batch)])


def measure(server, client, kind, batch):
    count = COUNTS[batch]
    client.drop_database("d")
    if kind == "capped":
        client["d"].create_collection("c", capped=True, size=count * DOCUMENT_BYTES // 20)
    collection = client["d"].get_collection("c", write_concern=WriteConcern(w=1, j=False))
    insert(collection, count // 10, batch)
    before, began = cpu_us(server.pid), time.monotonic()
    insert(collection, count, batch)
    took = time.monotonic() - began
    time.sleep(2)
    return (cpu_us(server.pid) - before) / count, count / took


def main(rounds, builds):
    found = {}
    for round_ in range(rounds):
        for number, (name, binary) in enumerate(builds):
            folder = tempfile.mkdtemp(dir="/dev/shm")
            port = str(28_300 + 10 * round_ + number)
            command = [binary, "serve", "--dbpath", folder, "--port", port, "--bind_ip", "127.0.0.1", "--memory", "1024M"]
            server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                client = MongoClient(port=int(port), directConnection=True)
                for batch in COUNTS:
                    for kind in ("plain", "capped"):
                        found.setdefault((name, batch, kind), []).append(measure(server, client, kind, batch))
                client.close()
            finally:
                server.terminate()
                server.wait()
                shutil.rmtree(folder)
    for (name, batch, kind), values in found.items():
        cpu, rate = zip(*values)
        spread = lambda v, digits: f"{statistics.median(v):.{digits}f} ({min(v):.{digits}f}-{max(v):.{digits}f})"
        print(f"{name:10} by {batch:3} {kind:6} {spread(cpu, 2):>22} us   {spread(rate, 0):>26}/s", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), [argument.split("=", 1) for argument in sys.argv[2:]])
