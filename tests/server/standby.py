"""A standby that follows its primary under load: measures how far it is behind, and checks which writes survive promotions after the
primary is killed.

Usage: standby.py [PROMOTIONS [WRITERS [RATE]]]. With a rate, the writers make that many writes a second in total, some in each command.
Each promotion uses its own pair: writers record which writes were acknowledged and at which time of the source's log; the source is killed
with kill -9 in the middle; a promotion without force must be refused; one with force succeeds. Then every write acknowledged up to the time
that the promotion reports must be there, and new writes must succeed. The last promotion is a handover without a kill, which loses nothing;
its follower was paused before."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

from bson.timestamp import Timestamp
from pymongo import DeleteOne, MongoClient, ReadPreference, UpdateOne
from pymongo.errors import PyMongoError

from harness import BINARY, SEED, Server, check, say

READY_S_MAX = 60.0
# From the promotion request until the standby accepts writes. The command around it takes as long as the machine needs to start a
# process.
PROMOTED_MS_MAX = 1000
# A follower with a heartbeat of this age counts as gone, if it does not send another one.
HEARTBEAT_OLD_S = 11.0


def quarry(*arguments):
    return subprocess.run([BINARY, "follow", *arguments], capture_output=True, text=True, timeout=60)


class Pair:
    """A primary, its standby and the follower."""

    def __init__(self, folder):
        self.folder = folder
        self.nodes = [Server(os.path.join(folder, name), "--memory", "256M") for name in ("primary", "standby")]
        for node in self.nodes:
            os.mkdir(node.dbpath)
            node.start()
        self.source, self.target = self.nodes
        self.log = open(os.path.join(folder, "follow.log"), "w+")
        self.follower = subprocess.Popen(
            [BINARY, "follow", self.uri(self.source), "--to", self.uri(self.target), "--standby"], stdout=self.log, stderr=self.log
        )
        began = time.monotonic()
        while not self.status().get("ready"):
            check(time.monotonic() - began < READY_S_MAX, f"the standby is not ready: {self.status()} {self.said()}")
            check(self.follower.poll() is None, f"the follower has ended: {self.said()}")
            time.sleep(0.05)

    @staticmethod
    def uri(node):
        return f"mongodb://{node.address}/"

    def said(self):
        self.log.seek(0)
        return self.log.read()[-2000:]

    def status(self):
        done = quarry("status", "--json", "--to", self.uri(self.target))
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def promote(self, *options):
        began = time.monotonic()
        done = quarry("promote", "--to", self.uri(self.target), *options)
        return done, time.monotonic() - began

    def end(self):
        self.follower.kill()
        self.follower.wait()
        for node in self.nodes:
            node.kill()


class Writer(threading.Thread):
    """Writes to the primary and records acknowledged writes with the time of the log. With a rate, writes some documents in each of its
    ticks."""

    TICK_S = 0.02

    def __init__(self, address, number, rate=0.0):
        super().__init__(daemon=True)
        self.client = MongoClient(f"mongodb://{address}/", directConnection=True, retryWrites=False, serverSelectionTimeoutMS=1000)
        self.number, self.rate, self.acknowledged, self.stopped = number, rate, [], False

    def run(self):
        return self.run_at_rate() if self.rate else self.run_one_by_one()

    def run_at_rate(self):
        notes = self.client.d.notes
        count = max(2, round(self.rate * self.TICK_S))
        inserted = count * 3 // 4
        with self.client.start_session() as session:
            n, due = 0, time.monotonic()
            while not self.stopped:
                due += self.TICK_S
                time.sleep(max(0.0, due - time.monotonic()))
                keys = [f"{self.number}.{k}" for k in range(n, n + inserted)]
                # Documents of the previous tick.
                changed = [f"{self.number}.{k}" for k in range(n - count + inserted, n)] if n else []
                try:
                    at = time.time()
                    notes.insert_many([{"_id": key, "n": n, "at": at} for key in keys], session=session)
                    self.acknowledged += [(session.operation_time, key, n) for key in keys]
                    notes.bulk_write([UpdateOne({"_id": key}, {"$set": {"n": n, "at": at}}) for key in changed] or [DeleteOne({"_id": 0})], session=session)
                    self.acknowledged += [(session.operation_time, key, n) for key in changed]
                except PyMongoError:
                    return
                n += inserted

    def run_one_by_one(self):
        notes = self.client.d.notes
        with self.client.start_session() as session:
            n = 0
            while not self.stopped:
                key = f"{self.number}.{n}"
                try:
                    if n % 4 == 3:
                        key = f"{self.number}.{n - 1}"
                        notes.update_one({"_id": key}, {"$set": {"n": n, "at": time.time()}}, session=session)
                    else:
                        notes.insert_one({"_id": key, "n": n, "at": time.time()}, session=session)
                except PyMongoError:
                    return
                self.acknowledged.append((session.operation_time, key, n))
                n += 1


class Lag(threading.Thread):
    """The age of the newest document on the standby."""

    def __init__(self, address):
        super().__init__(daemon=True)
        client = MongoClient(f"mongodb://{address}/", directConnection=True, read_preference=ReadPreference.SECONDARY)
        self.notes, self.seen, self.stopped = client.d.notes, [], False

    def run(self):
        while not self.stopped:
            try:
                newest = next(self.notes.find().sort("$natural", -1).limit(1), None)
            except PyMongoError:
                return
            if newest:
                self.seen.append((time.time() - newest["at"]) * 1000)
            time.sleep(0.02)


def check_kept(there, writers, up_to):
    """Checks that all writes up to a time are there; returns the number of missing later writes."""
    lost = 0
    kept = {d["_id"]: d["n"] for d in there.d.notes.find()}
    for writer in writers:
        for at, key, n in writer.acknowledged:
            is_there = kept.get(key, -1) >= n
            if up_to is None or at <= up_to:
                check(is_there, f"{key} ({n}) was acknowledged at {at}, everything up to {up_to} was said to be there, and it is not")
            lost += not is_there
    return lost


def one(writers_count, rate, kill, seconds, results):
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(folder)
        try:
            writers = [Writer(pair.source.address, n, rate / writers_count) for n in range(writers_count)]
            hosts = [pair.source.address, pair.target.address]
            both = MongoClient(hosts, replicaSet="rs0", serverSelectionTimeoutMS=30000)
            with both.start_session() as session:
                both.d.through.insert_one({"_id": "before"}, session=session)
                before = session.operation_time
            lag = Lag(pair.target.address)
            began = time.monotonic()
            for thread in [*writers, lag]:
                thread.start()
            time.sleep(seconds)
            if kill:
                pair.source.kill()
            else:
                # The follower was paused for long, but is still running.
                lag.stopped = True
                pair.follower.send_signal(signal.SIGSTOP)
                time.sleep(HEARTBEAT_OLD_S)
                threading.Timer(2.0, pair.follower.send_signal, [signal.SIGCONT]).start()
                done, took = pair.promote()
                while "ms behind" in done.stderr:
                    done, took = pair.promote()
            elapsed = time.monotonic() - began
            lag.stopped = True
            for writer in writers:
                writer.stopped = True
                writer.join()
            if kill:
                refused, _ = pair.promote()
                check(refused.returncode != 0 and "--force" in refused.stderr, f"not refused: {refused}")
                done, took = pair.promote("--force")
            check(done.returncode == 0, f"not promoted: {done} {pair.said()}")
            report = pair.status()["report"]
            stamp = report["upTo"]["$timestamp"]
            results["promoted_ms"].append(report["millis"])
            up_to = Timestamp(stamp["t"], stamp["i"]) if kill else None
            lost = check_kept(pair.target.client(), writers, up_to)
            # A client that knows both servers continues.
            both.d.through.insert_one({"_id": "after"})
            kept = {d["_id"] for d in both.d.through.find()}
            promised = {"after"} if up_to and before > up_to else {"before", "after"}
            check(promised <= kept, f"of {promised} there is {kept}: before at {before}, up to {up_to}")
            check(both.primary == ("127.0.0.1", pair.target.port), f"the primary is {both.primary}")
            both.close()
            check(pair.follower.wait(10) == 0, f"the follower ended with {pair.follower.returncode}: {pair.said()}")
            written = sum(len(w.acknowledged) for w in writers)
            results["took"].append(took)
            results["lost"].append(lost)
            results["rate"].append(written / elapsed)
            results["lag"] += lag.seen
            check(kill or lost == 0, f"a handover lost {lost} writes")
        finally:
            pair.end()


def middle(values, part=0.5):
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else float("nan")


def main():
    promotions = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    writers = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    asked = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
    choose = random.Random(SEED)
    say(f"seed {SEED}")
    results = {"took": [], "promoted_ms": [], "lost": [], "rate": [], "lag": []}
    for number in range(promotions):
        is_last = number == promotions - 1
        one(writers, asked, kill=not is_last, seconds=choose.uniform(0.5, 3.0), results=results)
    rate = sum(results["rate"]) / len(results["rate"])
    say(
        f"{promotions} promotions, {promotions - 1} of them after kill -9, at {rate:.0f} writes a second: promoted in "
        f"{middle(results['promoted_ms'])} ms (longest {max(results['promoted_ms'])} ms; the whole command {max(results['took']):.2f} s), lag {middle(results['lag']):.0f} ms, 99 % below {middle(results['lag'], 0.99):.0f} ms, "
        f"later writes lost in all {sum(results['lost'])} (most at once {max(results['lost'])}); everything that was promised is there"
    )
    check(max(results["promoted_ms"]) < PROMOTED_MS_MAX, f"a promotion took {max(results['promoted_ms'])} ms, less than {PROMOTED_MS_MAX} are asked for")


if __name__ == "__main__":
    main()
