"""Everything at once on one directory. Usage: soak_all.py SECONDS [ROUNDS]

Concurrently: documents, indexes, validators, names and snapshots (soak_load.py); transactions and single statements with a resumed change
stream (soak_transactions.py); capped collections, time series, expiry, `$out`, a counter with retries (soak_kinds.py); a backup in each
round. A round ends by kill -9, by delayed flushes and then kill -9, by a failed flush, or by SIGTERM. After it all data is compared with
the ledgers, every collection is validated and the history of transactions is checked; at the end, the events of the whole stream. The
newest backup is restored and read (`quarry backup drill`) after every ROUNDS rounds, and at the end; a backup that does not open is kept.
QUARRY_ENDS lists the ends to use, separated by commas, such as "late flushes".
"""

import collections
import gc
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import isolation
import soak_kinds
import soak_transactions
from harness import BINARY, ENGINE, SEED, Scratch, check, fail, say, verify_collection
from soak_ddl import ENDS, MEMORY_DISK, MEMORY_DISK_BYTES, SYSTEM, Device, end_round, prepare_library, verify_one
from soak_kinds import Kinds
from soak_load import Workers, prepare, verify_acknowledged
from soak_transactions import DATABASE, OK, Lost, Round, Stream, check_events, final_state
from soak_watch import LATE_S, Watch

WRITERS, TRANSACTIONS = 4, 4
BACKUP_S_MAX = 120
KEPT = 2
# More than a short run produces.
ROUNDS_PER_DRILL = 8


class Transactions:
    """The workers of soak_transactions.py, in rounds, and their stream."""

    def __init__(self, server):
        self.counts, self.orders, self.history = collections.Counter(), {}, []
        self.lost = Lost()
        self.stream = Stream(server.client(serverSelectionTimeoutMS=30000, event_listeners=[self.lost]))
        self.stream.start()
        check(self.stream.opened.wait(60), f"the stream was not opened: {self.stream.error}")

    def start(self, server, number, rng, watch):
        self.round = Round(number)
        self.round.ending = watch.ending
        options = {"serverSelectionTimeoutMS": 30000, "event_listeners": [self.lost]}
        self.clients = [server.client(retryWrites=n % 2 == 0, **options) for n in range(2)]
        self.workers = [soak_transactions.Worker(f"w{n}", self.clients[n % 2], self.round, random.Random(rng.random()))
                        for n in range(TRANSACTIONS)]
        for worker in self.workers:
            worker.start()

    def join(self):
        for worker in self.workers:
            worker.join(120)
            check(not worker.is_alive(), f"{worker.name} does not end")
            self.counts.update(worker.counts)
            if worker.error is not None:
                raise worker.error
        for client in self.clients:
            client.close()

    def verify(self, client):
        lists, registers = final_state(client[DATABASE], self.round)
        try:
            self.orders.update(isolation.check(self.round.histories["list"], lists))
            isolation.check(*isolation.as_lists(self.round.histories["register"], registers), skew_allowed=False)
        except isolation.Anomaly as e:
            fail(f"round {self.round.number}, seed {SEED}: {e}")
        self.history += self.round.histories["list"]

    def verify_stream(self, client):
        self.stream.until = "the end"
        client[DATABASE]["end"].insert_one({"_id": "the end"})
        self.stream.join(120)
        if self.stream.error is not None:
            raise self.stream.error
        check(not self.stream.is_alive(), f"the stream ends at {self.stream.events[-1:]}")
        check_events([e for e in self.stream.events if e["ns"]["coll"] != "end"], self.orders, self.history)


class Backups:
    """Makes one backup in each round; one interrupted by the end of the server is ignored. Old backups are removed: hours of full copies,
    which LMDB needs, would fill every disk."""

    def __init__(self, folder):
        self.repository, self.scratch = os.path.join(folder, "backups"), os.path.join(folder, "drill")
        self.whole = self.broken = self.drilled = 0

    def start(self, server, watch):
        self.watch, self.failure = watch, None
        command = [BINARY, "backup", "make", self.repository, "--uri", f"mongodb://{server.address}/"]
        self.thread = threading.Thread(target=self.make, args=(command,))
        self.thread.start()

    def make(self, command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=BACKUP_S_MAX)
        if done.returncode == 0:
            self.whole += 1
        elif self.watch.ending.is_set():
            self.broken += 1
        else:
            self.failure = done.stderr

    def join(self):
        self.thread.join()
        check(self.failure is None, f"a backup failed: {self.failure}")
        if self.whole:
            done = subprocess.run([BINARY, "backup", "prune", "--keepLast", str(KEPT), self.repository], capture_output=True, text=True)
            check(done.returncode == 0, f"removing old backups: {done.stderr}")

    def drill(self):
        done = subprocess.run([BINARY, "backup", "drill", "--scratch", self.scratch, self.repository], capture_output=True, text=True)
        if done.returncode != 0:
            kept = os.path.join(tempfile.mkdtemp(prefix="quarry-kept-"), "backups")
            shutil.copytree(self.repository, kept)
            fail(f"the newest backup in {kept}: {done.stderr}")
        self.drilled += 1


class Soak:
    def __init__(self, scratch, rng, rounds_per_drill):
        self.rounds_per_drill = rounds_per_drill
        self.ends = os.environ.get("QUARRY_ENDS", ",".join(ENDS)).split(",")
        unknown = set(self.ends) - set(ENDS)
        check(not unknown, f"QUARRY_ENDS names {sorted(unknown)}; there are: {', '.join(dict.fromkeys(ENDS))}")
        self.rng, self.device = rng, Device(scratch.path)
        self.device.set("")
        library, wrap = prepare_library(scratch.path), []
        if library:
            wrap = ["env", f"LD_PRELOAD={library}", f"QUARRY_SYNC_FAULT={self.device.control}"]
        else:
            say("soak-all: without late and failing flushes, there is no C compiler")
        self.server = scratch.server("data", "--memory", "512M", "--setParameter", "ttlMonitorSleepSecs=1", wrap=wrap).start()
        # The same port after each restart, so that drivers reconnect.
        self.server.options += ["--port", str(self.server.port)]
        with self.server.client() as client:
            prepare(client, WRITERS)
            soak_kinds.prepare(client)
        self.writers, self.kinds = Workers(WRITERS, SEED), Kinds(random.Random(f"{SEED}/kinds"))
        self.transactions, self.backups = Transactions(self.server), Backups(scratch.path)

    def round(self, number, seconds):
        # A collection of the ledgers of hours stops all threads for seconds, which would count as the server's.
        gc.collect()
        gc.freeze()
        gc.disable()
        how, watch = self.ends[number % len(self.ends)], Watch(self.server, WRITERS)
        client, retrying = watch.client(), self.server.client(retryWrites=True, serverSelectionTimeoutMS=30000)
        self.transactions.start(self.server, number, self.rng, watch)
        self.kinds.start(client, retrying, watch)
        self.writers.start(client, number, watch)
        self.backups.start(self.server, watch)
        try:
            end_round(self.server, self.device, how, seconds, watch)
        finally:
            unexpected = self.writers.join()
            watch.stop()
            gc.enable()
        check(not unexpected, f"round {number}: {unexpected[:3]}")
        check(not watch.late, f"round {number} ({how}): replies later than {LATE_S} s: " + "\n".join(watch.late[:3]))
        began = time.monotonic()
        self.server.start()
        for part in (self.transactions, self.kinds, self.backups):
            part.join()
        if self.backups.whole and number % self.rounds_per_drill == self.rounds_per_drill - 1:
            self.backups.drill()
        retrying.close()
        client.close()
        opened, validated = self.verify()
        say(f"  round {number} ({how}, {seconds:.0f} s): {self.summary()}; {opened} open, {validated} collections clean, longest reply "
            f"{watch.longest_s:.2f} s of which the machine {watch.longest_waits_s:.2f} ({watch.longest_text[:60]}); start and checks {time.monotonic() - began:.1f} s")

    def verify(self):
        with self.server.client(serverSelectionTimeoutMS=20000) as client:
            # Nothing may expire while documents are counted.
            client.admin.command("setParameter", 1, ttlMonitorEnabled=False)
            opened = verify_acknowledged(client, self.writers) + self.kinds.verify(client)
            self.transactions.verify(client)
            validated, round_ = 0, self.transactions.round.number
            for db in (n for n in client.list_database_names() if n not in (*SYSTEM, soak_kinds.DB)):
                for name in client[db].list_collection_names():
                    if db != DATABASE:
                        verify_one(client[db][name])
                    elif name.startswith((f"list{round_}x", f"register{round_}")):
                        verify_collection(client[db][name])
                    else:
                        continue
                    validated += 1
            client.admin.command("setParameter", 1, ttlMonitorEnabled=True)
        return opened, validated

    def end(self):
        with self.server.client() as client:
            self.kinds.verify_expired(client)
            self.transactions.verify_stream(client)
        self.server.stop()
        check(self.backups.whole > 0, "no backup was whole")
        self.backups.drill()
        check(self.transactions.counts[OK] > 0 and self.transactions.lost.streams > 1, f"too little was done: {self.summary()}")

    def summary(self):
        counts, kinds = self.transactions.counts, self.kinds
        return (f"{self.writers.summary()}, {counts[OK]} transactions, {kinds.acknowledged} writes of other kinds, "
                f"{kinds.counted} counts, {self.backups.whole} backups and {self.backups.broken} broken off, {self.backups.drilled} restored")


def main(seconds, rounds_per_drill=ROUNDS_PER_DRILL):
    rng = random.Random(SEED)
    if os.path.isdir(MEMORY_DISK) and shutil.disk_usage(MEMORY_DISK).free > MEMORY_DISK_BYTES:
        tempfile.tempdir = MEMORY_DISK
    # Many threads share one interpreter: none should wait long for its turn.
    sys.setswitchinterval(0.001)
    with Scratch() as scratch:
        say(f"soak-all: seed {SEED}, engine {ENGINE or 'rocksdb'}")
        soak, began, number = Soak(scratch, rng, rounds_per_drill), time.monotonic(), 0
        while time.monotonic() - began < seconds or number < len(soak.ends):
            soak.round(number, min(rng.uniform(5, 15), max(seconds / 4, 2)))
            number += 1
        soak.end()
    stream = soak.transactions.stream
    say(f"soak-all: {number} rounds in {time.monotonic() - began:.0f} s, {soak.summary()}, {len(stream.events)} events of a stream resumed "
        f"{soak.transactions.lost.streams - 1} times, {soak.kinds.due} documents expired; nothing lost, snapshot isolation holds; seed {SEED}")


if __name__ == "__main__":
    main(float(sys.argv[1]), *(int(rounds) for rounds in sys.argv[2:]))
