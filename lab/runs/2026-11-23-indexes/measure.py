"""Server CPU of operations on geospatial and wildcard indexes, for two servers in turn.
Usage: measure.py NAME=BINARY NAME=BINARY. Prints the median of the rounds in microseconds an operation, and the ratio."""
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import pymongo

DOCUMENTS, ROUNDS = 100_000, 3
TICK_US = 1e6 / os.sysconf("SC_CLK_TCK")


def cpu_us(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * TICK_US


def started(binary, port, folder):
    command = [binary, "serve", "--dbpath", folder, "--port", str(port), "--bind_ip", "127.0.0.1", "--standalone", "--memory", "1G"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            time.sleep(0.05)
    return process, pymongo.MongoClient("127.0.0.1", port, directConnection=True, w=1).t


def documents():
    r = random.Random(7)
    return [
        {"_id": i, "g": [r.uniform(-180, 180), r.uniform(-90, 90)], "p": {"type": "Point", "coordinates": [r.uniform(5, 15), r.uniform(45, 55)]}, **{f"f{n}": r.randrange(10_000) for n in range(10)}}
        for i in range(DOCUMENTS)
    ]


def main():
    binaries = dict(a.split("=", 1) for a in sys.argv[1:])
    folder = tempfile.mkdtemp(dir="/dev/shm")
    servers = {name: started(b, 28700 + n, f"{folder}/{name}") for n, (name, b) in enumerate(binaries.items())}
    docs = documents()
    found = {}

    def measure(what, name, operations, run):
        process, db = servers[name]
        before = cpu_us(process.pid)
        run(db)
        found.setdefault(what, {}).setdefault(name, []).append((cpu_us(process.pid) - before) / operations)

    def insert(coll):
        def run(db):
            for at in range(0, DOCUMENTS, 1000):
                db[coll].insert_many(docs[at : at + 1000])
        return run

    def near(db):
        for i in range(20):
            places = list(db.sphere.find({"p": {"$nearSphere": {"$geometry": docs[i * 31]["p"]}}}).limit(10))
            assert len(places) == 10

    def within(db):
        for i in range(20):
            list(db.sphere.find({"p": {"$geoWithin": {"$centerSphere": [docs[i * 31]["p"]["coordinates"], 0.0005]}}}))

    def geo_near(db):
        for i in range(20):
            stage = {"near": docs[i * 31]["p"], "distanceField": "d", "spherical": True}
            assert len(list(db.sphere.aggregate([{"$geoNear": stage}, {"$limit": 10}]))) == 10

    def box(db):
        for i in range(20):
            x, y = docs[i * 31]["g"]
            list(db.plane.find({"g": {"$geoWithin": {"$box": [[x, y], [x + 1, y + 1]]}}}))

    def wild(db):
        for i in range(20):
            assert list(db.wild.find({f"f{i % 10}": docs[i]["f" + str(i % 10)]}))

    indexes = {"plain": None, "sphere": [("p", "2dsphere")], "plane": [("g", "2d")], "wild": [("$**", 1)]}
    for turn in range(ROUNDS):
        for name in list(binaries) if turn % 2 == 0 else list(binaries)[::-1]:
            for coll, key in indexes.items():
                servers[name][1].drop_collection(coll)
                if key:
                    servers[name][1][coll].create_index(key)
                measure(f"insert, {coll}", name, DOCUMENTS, insert(coll))
            for what, run in [("10 nearest", near), ("$geoNear, 10", geo_near), ("within 3 km", within), ("2d box", box), ("wildcard find", wild)]:
                measure(what, name, 20, run)
    for what, times in found.items():
        medians = {name: statistics.median(t) for name, t in times.items()}
        first, last = list(medians.values())[0], list(medians.values())[-1]
        print(f"| {what} | " + " | ".join(f"{m:,.1f} ({min(times[n]):,.1f}-{max(times[n]):,.1f})" for n, m in medians.items()) + f" | {last / first:.4f} |")
    for process, _ in servers.values():
        process.terminate()
        process.wait()
    shutil.rmtree(folder)


main()
