"""`quarry follow` as a whole: a source with a number of MB and of writes a second, with changes of names and indexes; the source, the
target and the follower are killed at random, and a document is altered in the target; after the cut-over both sides are compared by their
hashes. Prints how much following slows the source's writers.

Usage: follow_soak.py [MB [RATE [KILLS [log] [COPY_RATE]]]]; with `log` the source's log is read instead of change streams; a COPY_RATE such as 20M
is given to the follower as `--rate`."""

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from harness import BINARY, SEED, Server, check, say

WINDOW_S = float(os.environ.get("QUARRY_WINDOW_S", "20"))
PHASE_S_MAX = 600.0
WRITERS = 4


class Node(Server):
    """A server that keeps its port when it is killed and restarted."""

    def __init__(self, folder, name):
        super().__init__(os.path.join(folder, name), "--memory", "512M")
        os.mkdir(self.dbpath)
        self.start()
        self.options += ["--port", str(self.port)]
        self.uri = f"mongodb://{self.address}/"


class Follower:
    def __init__(self, source, target, options):
        self.arguments = [BINARY, "follow", source.uri, "--to", target.uri, *options]
        self.target, self.log = target, tempfile.TemporaryFile("w+")
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.arguments, stdout=self.log, stderr=self.log)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.start()

    def ask(self, *arguments):
        return subprocess.run([BINARY, "follow", *arguments, "--to", self.target.uri], capture_output=True, text=True, timeout=PHASE_S_MAX)

    def status(self):
        done = self.ask("status", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def said(self):
        self.log.seek(0)
        return self.log.read()[-3000:]

    def wait_for(self, what, holds):
        began = time.monotonic()
        while not holds(self.status()):
            check(time.monotonic() - began < PHASE_S_MAX, f"waited for {what}: {self.status()} {self.said()}")
            check(self.process.poll() is None, f"the follower has ended: {self.said()}")
            time.sleep(0.3)


class Writer(threading.Thread):
    """Writes at a fixed rate and measures each write from the time for which it was scheduled."""

    def __init__(self, uri, number, rate):
        super().__init__(daemon=True)
        self.client = MongoClient(uri, directConnection=True, serverSelectionTimeoutMS=2000, retryWrites=False)
        self.number, self.every, self.took, self.stopped, self.done = number, 1.0 / rate, [], False, 0
        self.choose = random.Random(SEED + number)

    def run(self):
        due = time.monotonic()
        n = 0
        while not self.stopped:
            due = max(due + self.every, time.monotonic() - 1.0)
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                self.write(n)
                self.took.append((due, time.monotonic() - due))
                self.done += 1
            except PyMongoError:
                time.sleep(0.05)
            n += 1

    def write(self, n):
        orders, kind = self.client.shop.orders, n % 5
        key = f"{self.number}.{n}"
        if kind < 2:
            orders.insert_one({"_id": key, "n": n, "u": key, "pad": "y" * 300})
        elif kind < 4:
            orders.update_one({"_id": self.choose.randrange(20000)}, {"$inc": {"changed": 1}, "$set": {"at": n}})
        else:
            orders.delete_one({"_id": f"{self.number}.{n - 14}"})


class Names(threading.Thread):
    """Changes names, indexes, options and views."""

    def __init__(self, uri):
        super().__init__(daemon=True)
        self.client = MongoClient(uri, directConnection=True, serverSelectionTimeoutMS=2000, retryWrites=False)
        self.stopped, self.rounds = False, 0

    def run(self):
        while not self.stopped:
            try:
                self.change(self.rounds)
            except PyMongoError:
                pass
            self.rounds += 1
            time.sleep(0.7)

    def change(self, n):
        db = self.client.shop
        a, b = f"moving{n % 3}", f"moving{(n + 1) % 3}"
        db[a].insert_one({"round": n})
        self.client.admin.command({"renameCollection": f"shop.{a}", "to": f"shop.{b}", "dropTarget": True})
        db.short.drop()
        db.short.insert_many([{"_id": k, "round": n} for k in range(50)])
        db.command({"createIndexes": b, "indexes": [{"key": {f"k{n % 3}": 1}, "name": f"r{n % 3}"}]})
        if n % 2:
            db.command({"dropIndexes": b, "index": "*"})
        db.command({"collMod": "checked", "validator": {"n": {"$gte": n % 100}}})
        db.view.drop()
        db.command({"create": "view", "viewOn": "orders", "pipeline": [{"$match": {"n": {"$gt": n}}}]})


def fill(client, megabytes):
    db = client.shop
    pad = "x" * 950
    for start in range(0, megabytes * 1000, 1000):
        db.orders.insert_many([{"_id": n, "n": n, "u": n, "pad": pad} for n in range(start, start + 1000)])
    db.orders.create_index("u", unique=True)
    db.orders.create_index("n")
    db.create_collection("checked", validator={"n": {"$gte": 0}})
    db.checked.insert_many([{"_id": n, "n": 1000} for n in range(100)])
    db.create_collection("ring", capped=True, size=1 << 16)
    db.ring.insert_many([{"_id": n} for n in range(100)])


def p99(writers, begin, end):
    took = sorted(t for w in writers for due, t in w.took if begin <= due < end)
    return (took[int(len(took) * 0.99)] * 1000, took[len(took) // 2] * 1000, len(took) / (end - begin)) if took else (0.0, 0.0, 0.0)


def window(writers):
    begin = time.monotonic()
    time.sleep(WINDOW_S)
    return p99(writers, begin, time.monotonic())


def image(client):
    db = client.shop
    hashes = db.command("dbHash")["collections"]
    listed = {c["name"]: (c["type"], str(c["options"])) for c in db.list_collections()}
    indexes = {name: sorted(str(dict(i)) for i in db[name].list_indexes()) for name, (kind, _) in listed.items() if kind == "collection"}
    return hashes, listed, indexes


def main():
    numbers = [int(a) for a in sys.argv[1:4]]
    megabytes, rate, kills = (numbers + [200, 300, 10][len(numbers) :])[:3]
    by_log = "log" in sys.argv
    options = ["--by-oplog"] if by_log else []
    for copy_rate in [a for a in sys.argv[4:] if a != "log"]:
        options += ["--rate", copy_rate]
    choose = random.Random(SEED)
    say(f"seed {SEED}, {megabytes} MB, {rate} writes a second, {kills} kills{', by the log' if by_log else ''}")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Node(folder, "source"), Node(folder, "target")
        follower = None
        try:
            fill(source.client(), megabytes)
            writers = [Writer(source.uri, n, rate / WRITERS) for n in range(WRITERS)]
            names = Names(source.uri)
            for thread in [*writers, names]:
                thread.start()
            window(writers)
            before = window(writers)
            began = time.monotonic()
            follower = Follower(source, target, options)
            copying = window(writers)
            follower.wait_for("following", lambda s: s.get("phase") == "following")
            copied_s = time.monotonic() - began
            following = window(writers)
            for _ in range(kills):
                time.sleep(choose.uniform(0.5, 4.0))
                victim = choose.choice([source, target, follower])
                victim.kill()
                if victim is not follower:
                    victim.start()
            follower.wait_for("a whole comparison", lambda s: "verified" in s)
            for thread in [*writers, names]:
                thread.stopped = True
            for thread in [*writers, names]:
                thread.join()
            altered = target.client().shop.orders.update_one({"_id": megabytes * 500}, {"$set": {"pad": "altered"}})
            check(altered.modified_count == 1, "nothing was altered")
            began = time.monotonic()
            done = follower.ask("cutover", "--source-is-quiet")
            cut_s = time.monotonic() - began
            check(done.returncode == 0, f"not cut over: {done} {follower.said()}")
            status = follower.status()
            ours, theirs = image(source.client()), image(target.client())
            for what, a, b in zip(("hashes", "collections", "indexes"), ours, theirs):
                differ = {k: (a.get(k), b.get(k)) for k in a.keys() | b.keys() if a.get(k) != b.get(k)}
                check(not differ, f"{what} differ: {differ}")
            found = [f for f in status["findings"] if f["id"] == megabytes * 500 and f["what"] == "different"]
            check(found, f"the altered document was not found: {status['findings']}")
            written = sum(w.done for w in writers)
            for label, (high, half, per_s) in (("without", before), ("copying", copying), ("following", following)):
                say(f"source's writers {label}: p99 {high:.1f} ms, median {half:.1f} ms, {per_s:.0f} a second")
            say(
                f"copied in {copied_s:.0f} s, {written} writes and {names.rounds} rounds of names, {kills} kills, cut over in {cut_s:.1f} s, "
                f"{len(ours[0])} collections with the same hashes, {len(status['findings'])} findings, the altered document among them"
            )
        finally:
            if follower:
                follower.process.kill()
                follower.process.wait()
            for node in (source, target):
                node.kill()


if __name__ == "__main__":
    main()
