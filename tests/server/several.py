"""Three servers that all write one database in a TiKV cluster (--tikvWrites here), and faults. Usage: several.py
[SECONDS [ROUND_S [FAULT]]]; FAULT is the number of the only fault. Needs what tikv.py needs, and a C compiler.

Every round has one fault: a server is killed, or suspended for longer than its lease and woken, or cut off from PD or from the store, or the
store is killed, or PD is suspended, or the time of its oracle jumps. Clients know all three servers, as they know several mongos, and rely on their drivers: transfers of
money, increments, inserts of the same unique values through different servers, a queue whose entries are taken once, lists and registers in
transactions (the history must be one of snapshot isolation). Two change streams of the queue must show each of its changes once, in one
order. Collections are created, indexed, changed, renamed and dropped meanwhile.
Nobody may see an error that drivers do not repeat, except those of changes of the catalog that meet each other. For the clients of the
servers without a fault, and for those of a server that was killed once they have gone to another, the longest time without an answer is
told."""

import collections
import os
import random
import signal
import subprocess
import sys
import threading
import time

from pymongo import MongoClient, monitoring
from pymongo.errors import ConnectionFailure, DuplicateKeyError, OperationFailure, PyMongoError

import isolation
from equals import Application, Store
from harness import LISTENING, SEED, Scratch, check, fail, say, verify_collection
from soak_transactions import DATABASE, OK, Round, Worker, final_state
from tikv import SELECTION_MS, Cluster, free_ports, set_oracle, start_or_skip

SERVERS = 3
LISTS = 4
# Longer than the lease of a server, ten seconds.
AWAY_S = 13
# Longer than the lease, too.
JUMP_S = 30
# Longer than any command may take, whatever happens: a cluster's requests are repeated for 25 seconds.
HANG_S = 60
# Errors of a change of the catalog that has met another one: it exists, it does not, it was dropped or changed meanwhile, an index was built
# or dropped.
MET = {26, 27, 48, 85, 86, 125, 175, 112, 117, 12587, 276}


class Servers:
    def __init__(self, scratch, cluster, prefix):
        ports = free_ports(SERVERS)
        self.addresses = [f"127.0.0.1:{port}" for port in ports]
        self.cluster, self.killed, self.ahead_s = cluster, 0, 0
        library = os.path.join(scratch.path, "cut.so")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cut.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True, capture_output=True)
        self.ports = [port_of(cluster.placement), port_of(cluster.store)]
        self.files, self.all = [], []
        for n, port in enumerate(ports):
            self.files.append(os.path.join(scratch.path, f"cut-{n}"))
            with open(self.files[n], "w") as file:
                file.write("0" * 8)
            shim = ["env", f"LD_PRELOAD={library}", f"QUARRY_CUT={self.files[n]}", f"QUARRY_CUT_PORTS={','.join(map(str, self.ports))}"]
            common = ["--storageEngine", "tikv", "--tikvPd", cluster.pd, "--tikvPrefix", prefix, "--tikvWrites", "here"]
            self.all.append(scratch.server(f"{prefix}-{n}", *common, "--port", port, wrap=shim))

    def start(self):
        for server in self.all:
            server.start()

    def client(self, *only, **options):
        options = {"serverSelectionTimeoutMS": SELECTION_MS, "localThresholdMS": 1000, **options}
        return MongoClient(f"mongodb://{','.join(only or self.addresses)}/", **options)

    def wait_until_listening(self, server):
        began = time.monotonic()
        while not LISTENING.search(server.output()):
            check(server.alive(), f"a server ended: {server.output()[-2000:]}")
            check(time.monotonic() - began < SELECTION_MS / 1000, "a server does not listen")
            time.sleep(0.02)

    def kill(self, n):
        self.all[n].kill()
        self.killed += 1
        time.sleep(AWAY_S / 3)
        self.all[n].spawn()
        self.wait_until_listening(self.all[n])

    def suspend(self, pid, seconds):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)

    def move_oracle(self):
        self.ahead_s += JUMP_S
        set_oracle(self.cluster, self.ahead_s)
        time.sleep(2)

    def cut(self, n, port, seconds):
        with open(self.files[n], "r+") as file:
            file.seek(port)
            file.write("1")
            file.flush()
            time.sleep(seconds)
            file.seek(port)
            file.write("0")


def port_of(pid):
    """The port at which a process of the cluster serves: PD's client port, the store's port."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        words = [word.decode() for word in file.read().split(b"\0")]
    for name in ("--client-urls", "--addr"):
        for at, word in enumerate(words):
            if word == name:
                return int(words[at + 1].rsplit(":", 1)[1])
    fail(f"no port in {words}")


class Pulse(threading.Thread):
    """A client of one server, or of all (n is None): reads and writes its own document all the time, and remembers how long it waited for
    answers."""

    def __init__(self, servers, n, pause_s=0.0):
        super().__init__(name=f"pulse-{n}", daemon=True)
        options = {"directConnection": True, "serverSelectionTimeoutMS": 500, "connectTimeoutMS": 500, "socketTimeoutMS": 30_000}
        client = servers.client() if n is None else MongoClient(f"mongodb://{servers.addresses[n]}/", **options)
        self.rows = client.pulse.rows
        self.n, self.stop, self.waits, self.last = n, threading.Event(), [], time.monotonic()
        self.pause_s = pause_s

    def once(self, number):
        self.rows.update_one({"_id": str(self.n)}, {"$set": {"number": number}}, upsert=True)
        self.rows.find_one({"_id": str(self.n)})

    def run(self):
        number = 0
        while not self.stop.wait(self.pause_s):
            try:
                number += 1
                self.once(number)
            except PyMongoError:
                time.sleep(0.02)
                continue
            now = time.monotonic()
            self.waits.append((self.last, now))
            self.last = now

    def longest(self, since, until):
        waits = self.waits + [(self.last, time.monotonic())]
        return max((b - a for a, b in waits if b > since and a < until), default=0.0)


class Watcher(threading.Thread):
    """Follows the changes of a collection; resumes, perhaps at another server, until it has seen the document with this _id."""

    LAST = -1

    def __init__(self, collection, name):
        super().__init__(name=name, daemon=True)
        self.collection, self.events, self.resumed, self.error = collection, [], 0, None
        self.stream = collection.watch()

    def run(self):
        while True:
            try:
                with self.stream:
                    for event in self.stream:
                        self.events.append(event)
                        if event["documentKey"]["_id"] == self.LAST:
                            return
            except ConnectionFailure:
                self.resumed += 1
            except OperationFailure as e:
                if not e.has_error_label("ResumableChangeStreamError"):
                    self.error = f"{time.time():.1f}: a change stream: {e}"
                    return
                self.resumed += 1
            while True:
                try:
                    self.stream = self.collection.watch(resume_after=self.stream.resume_token)
                    break
                except ConnectionFailure:
                    time.sleep(0.05)
                except OperationFailure as e:
                    if not e.has_error_label("ResumableChangeStreamError"):
                        self.error = f"{time.time():.1f}: resuming a change stream: {e}"
                        return

    def check(self, rows, taken):
        """Each entry was inserted once, then changed once if it was taken."""
        seen = {}
        for event in self.events:
            seen.setdefault(event["documentKey"]["_id"], []).append(event["operationType"])
        for entry in rows:
            expected = ["insert", "update"] if entry in taken else ["insert"]
            check(seen.get(entry) == expected, f"{self.name}: entry {entry} has {seen.get(entry)}, expected {expected}")
        check(set(seen) == set(rows), f"{self.name}: changes of entries that are not there: {sorted(set(seen) - set(rows))[:5]}")
        times = [event["clusterTime"].as_datetime() for event in self.events]
        check(times == sorted(times), f"{self.name}: times go back")


class Commands(monitoring.CommandListener):
    """The last commands that have failed, which drivers may have repeated, and those without an answer."""

    def __init__(self):
        self.last, self.running = collections.deque(maxlen=30), {}

    def started(self, event):
        self.running[event.request_id] = (time.monotonic(), f"{event.command_name} at {event.connection_id[1]}")

    def succeeded(self, event):
        del self.running[event.request_id]

    def check_none_hangs(self):
        now = time.monotonic()
        hanging = [f"{what} for {now - began:.0f} s" for began, what in list(self.running.values()) if now - began > HANG_S]
        check(not hanging, f"no answer to {hanging}; seed {SEED}")

    def failed(self, event):
        del self.running[event.request_id]
        why = {key: event.failure.get(key) for key in ("code", "codeName", "errmsg", "errorLabels", "errtype") if key in event.failure}
        self.last.append(f"{time.time():.1f}: {event.command_name} at {event.connection_id[1]} after {event.duration_micros / 1e6:.2f} s: {why}")


class Others:
    """Unique values, a queue, and changes of the catalog."""

    def __init__(self, servers, has_streams=True, is_spread=True):
        self.commands = Commands()
        self.client = servers.client(event_listeners=[self.commands])
        self.direct = [servers.client(address) for address in servers.addresses]
        self.db = self.client.others
        self.stop, self.errors, self.wrong = threading.Event(), [], []
        self.lock = threading.Lock()
        self.unique, self.put, self.taken, self.changes = {}, set(), {}, 0
        self.db.unique.create_index("value", unique=True)
        # Its documents lie in 16 parts, which earlier versions refuse.
        self.db.create_collection("queue", **({"storageEngine": {"tikv": {"spread": True}}} if is_spread else {}))
        self.db.queue.create_index([("state", 1), ("number", 1)])
        watched = [self.client, servers.client()] if has_streams else []
        self.watchers = [Watcher(client.others.queue, f"stream {n}") for n, client in enumerate(watched)]
        for watcher in self.watchers:
            watcher.start()
        work = [(self.insert, 0), (self.insert, 1), (self.insert, 2), (self.fill, 0), (self.take, 1), (self.take, 2), (self.change, 0), (self.change, 1)]
        self.threads = [threading.Thread(target=self.run, args=w, daemon=True) for w in work]
        for thread in self.threads:
            thread.start()

    def run(self, what, number):
        choose, n = random.Random(f"{SEED}/{what.__name__}/{number}"), 0
        while not self.stop.is_set():
            try:
                what(number, n, choose)
            except PyMongoError as e:
                self.errors.append(f"{time.time():.1f}: {what.__name__}: {type(e).__name__}: {e}; {e.__cause__ or e.__context__!r}; failed before: {list(self.commands.last)}")
                return
            n += 1

    def insert(self, number, n, choose):
        """Three threads insert the same values; one of them succeeds with each."""
        value = n // 2 * 2 + choose.randrange(2)
        owner = f"{number}-{n}"
        try:
            self.db.unique.insert_one({"_id": owner, "value": value})
        except DuplicateKeyError:
            with self.lock:
                self.unique.setdefault(value, [])
            return
        with self.lock:
            self.unique.setdefault(value, []).append(owner)

    def fill(self, _, n, choose):
        self.db.queue.insert_one({"_id": n, "state": "new", "number": choose.random()})
        self.put.add(n)
        if n % 50 == 0:
            time.sleep(0.5)

    def take(self, number, n, _):
        """The two threads share the queue; a retry by the driver must not take a second entry."""
        found = self.db.queue.find_one_and_update({"state": "new"}, {"$set": {"state": "taken", "by": f"{number}-{n}"}}, sort=[("number", 1)])
        if found is None:
            time.sleep(0.05)
            return
        with self.lock:
            self.taken.setdefault(found["_id"], []).append(f"{number}-{n}")

    def change(self, number, n, choose):
        name, other = f"c{choose.randrange(3)}", f"d{choose.randrange(3)}"
        steps = [
            lambda: self.db.command("create", name),
            lambda: self.db[name].insert_many([{"a": i, "b": str(i)} for i in range(50)]),
            lambda: self.db[name].create_index("a"),
            lambda: self.db[name].create_index([("b", 1), ("a", -1)]),
            lambda: self.db.command("collMod", name, validator={"a": {"$type": "number"}}, validationAction="warn"),
            lambda: self.db[name].drop_index("a_1"),
            lambda: self.db[name].rename(other, dropTarget=True),
            lambda: self.db[name].aggregate([{"$match": {"a": {"$lt": 20}}}, {"$out": other}]),
            lambda: self.db[other].drop(),
        ]
        try:
            choose.choice(steps)()
            self.changes += 1
        except ConnectionFailure:
            # Drivers do not repeat changes of the catalog.
            pass
        except OperationFailure as e:
            if e.code not in MET:
                raise
        time.sleep(0.4)

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(180)
            check(not thread.is_alive(), "a client waits for ever")
        check(not self.errors, f"clients saw {self.errors}")
        twice = {value: owners for value, owners in self.unique.items() if len(owners) > 1}
        check(not twice, f"a unique value was inserted twice: {list(twice.items())[:3]}")
        stored = {row["value"]: row["_id"] for row in self.db.unique.find()}
        for value, owners in self.unique.items():
            check(value in stored, f"{value} was refused as a duplicate, or acknowledged, and is not there")
            check(not owners or stored[value] == owners[0], f"{value} is of {stored[value]}, acknowledged to {owners}")
        twice = {entry: by for entry, by in self.taken.items() if len(by) > 1}
        check(not twice, f"an entry of the queue was taken twice: {list(twice.items())[:3]}")
        self.db.queue.insert_one({"_id": Watcher.LAST, "state": "last"})
        rows = {row["_id"]: row for row in self.db.queue.find()}
        check(self.put <= set(rows), "entries of the queue are lost")
        for entry, (by,) in self.taken.items():
            check(rows[entry].get("by") == by, f"entry {entry} is {rows[entry]}, taken by {by}")
        unknown = [e for e, row in rows.items() if row["state"] == "taken" and e not in self.taken]
        check(not unknown, f"{len(unknown)} entries were taken by nobody: {unknown[:5]}")
        for watcher in self.watchers:
            watcher.join(60)
            check(watcher.error is None, watcher.error)
            check(not watcher.is_alive(), f"{watcher.name} has not seen the last change, after {len(watcher.events)}")
            watcher.check(rows, self.taken)
        shown = [[event["_id"] for event in watcher.events] for watcher in self.watchers]
        check(all(one == shown[0] for one in shown), "two change streams show different orders or tokens")
        for name in self.db.list_collection_names():
            verify_collection(self.db[name])


def one_fault(servers, store, number, choose):
    """Runs one fault; returns its name and the servers that it concerns."""
    n = choose.randrange(SERVERS)
    faults = [
        ("kill", [n], lambda: servers.kill(n)),
        ("suspend", [n], lambda: servers.suspend(servers.all[n].process.pid, AWAY_S)),
        ("cut from PD", [n], lambda: servers.cut(n, 0, AWAY_S)),
        ("cut from the store", [n], lambda: servers.cut(n, 1, AWAY_S)),
        ("kill the store", list(range(SERVERS)), store.replace),
        ("move the oracle's time 30 s", list(range(SERVERS)), servers.move_oracle),
        ("suspend PD", list(range(SERVERS)), lambda: servers.suspend(servers.cluster.placement, AWAY_S / 3)),
    ]
    only = int(sys.argv[3]) if len(sys.argv) > 3 else number
    name, concerned, fault = faults[only % len(faults)]
    fault()
    return name, concerned


def one_round(servers, store, clients, pulses, number, seconds):
    round_, choose = Round(number), random.Random(f"{SEED}/faults/{number}")
    workers = [Worker(f"w{n}", clients[n % len(clients)], round_, random.Random(f"{SEED}/{number}/{n}")) for n in range(LISTS)]
    for worker in workers:
        worker.start()
    time.sleep(seconds / 4)
    began = time.monotonic()
    name, concerned = one_fault(servers, store, number, choose)
    took = time.monotonic() - began
    time.sleep(max(2, seconds * 3 / 4 - took))
    # A client of all servers goes on at another one when a server was killed; a server that does not answer is not known to be away.
    waits = [p.longest(began, began + took + 2) for p in pulses if (name == "kill" if p.n is None else p.n not in concerned)]
    round_.ending.set()
    for worker in workers:
        worker.join(180)
        check(not worker.is_alive(), f"{worker.name} waits for ever")
        if worker.error is not None:
            raise worker.error
    lists, registers = final_state(clients[0][DATABASE], round_)
    try:
        isolation.check(round_.histories["list"], lists)
        isolation.check(*isolation.as_lists(round_.histories["register"], registers), skew_allowed=False)
    except isolation.Anomaly as e:
        fail(f"round {number} ({name}), seed {SEED}: {e}")
    committed = sum(t.status == OK for h in round_.histories.values() for t in h)
    waited = f", clients that others serve waited {max(waits):.2f} s at most" if waits else ""
    say(f"  round {number} ({name}, {took:.0f} s): {committed} transactions{waited}")
    return committed, waits


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 90.0
    round_s = float(sys.argv[2]) if len(sys.argv) > 2 else 20.0
    cluster = Cluster()
    if not hasattr(cluster, "store"):
        say("skipped: the processes of a cluster of somebody else are not stopped")
        return
    with Scratch() as scratch:
        store = Store(cluster.store)
        try:
            servers = Servers(scratch, cluster, f"s{SEED}-{int(time.time())}")
            start_or_skip(servers.start)
            application, others = Application(servers), Others(servers)
            pulses = [Pulse(servers, n) for n in [*range(SERVERS), None]]
            for pulse in pulses:
                pulse.start()
            clients = [servers.client(retryWrites=n % 2 == 0) for n in range(2)]
            began, number, committed, waits = time.monotonic(), 0, 0, []
            while time.monotonic() - began < seconds:
                done, waited = one_round(servers, store, clients, pulses, number, round_s)
                committed, number, waits = committed + done, number + 1, waits + waited
                check(not application.errors and not application.wrong, f"applications saw {application.errors} {application.wrong}")
                check(not others.errors and not others.wrong, f"clients saw {others.errors} {others.wrong}")
                others.commands.check_none_hangs()
                application.check_transfers()
            took = time.monotonic() - began
            for pulse in pulses:
                pulse.stop.set()
            application.end()
            others.end()
            say(
                f"several: {SERVERS} servers, {took:.0f} s, {number} faults, {servers.killed} servers and the store {store.killed} times killed;"
                f" {len(application.acknowledged)} transfers, {sum(application.counts.values())} increments, {len(others.unique)} unique values,"
                f" {len(others.taken)} entries of a queue with {sum(len(w.events) for w in others.watchers)} changes in two streams"
                f" (resumed {sum(w.resumed for w in others.watchers)} times by the client), {others.changes} changes of the catalog, {committed} transactions on lists and registers:"
                f" no anomaly, nothing lost or done twice, no error that drivers do not repeat; clients of servers without a fault waited"
                f" {max(waits, default=0):.2f} s at most; seed {SEED}"
            )
            for server in servers.all:
                server.stop()
        finally:
            store.stop()


if __name__ == "__main__":
    main()
