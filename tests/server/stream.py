"""kill -9 in the middle of a load with a concurrent change stream, in rounds on one directory. Usage: stream.py ROUNDS

Each worker increments its own counters, inside and outside of transactions, and deletes and inserts them again. A watcher follows the
collection through every restart with its last token. At the end the events, the log and the collection must agree: every acknowledged write
is in the log once, every event came once and in order (each change of a counter is by one).
"""

import random
import sys
import threading
import time

from pymongo import WriteConcern
from pymongo.errors import AutoReconnect, OperationFailure, PyMongoError, ServerSelectionTimeoutError

from harness import SEED, Scratch, check, fail, say

WORKERS = 4
KEYS = 5
# A stream that is up to date stops waiting for data after this.
AWAIT_MS = 200


class Model:
    """The counters according to the events or entries so far."""

    def __init__(self, name):
        self.name, self.counters, self.events = name, {}, 0

    def apply(self, kind, key, n):
        self.events += 1
        old = self.counters.get(key)
        if kind == "insert":
            check(old is None, f"{self.name}: {key} inserted twice")
            self.counters[key] = n
        elif kind == "update":
            check(old is not None and n == old + 1, f"{self.name}: {key} went from {old} to {n}")
            self.counters[key] = n
        elif kind == "delete":
            check(old is not None, f"{self.name}: {key} deleted and not there")
            del self.counters[key]
        else:
            fail(f"{self.name}: {kind}")


class Worker(threading.Thread):
    """Writes until the server dies. `known` maps each key to the values that are possible after its last acknowledged or open write."""

    def __init__(self, client, number, known, round_):
        super().__init__(daemon=True)
        self.client, self.number, self.known = client, number, known
        self.rng = random.Random(f"{SEED}/{round_}/{number}")
        self.acknowledged, self.error = 0, None
        self.coll = client.stream.get_collection("c", write_concern=WriteConcern(w="majority", j=True))

    def run(self):
        try:
            while True:
                self.step(f"{self.number}-{self.rng.randrange(KEYS)}")
                self.acknowledged += 1
        except (AutoReconnect, ServerSelectionTimeoutError):
            pass
        except BaseException as error:
            self.error = error

    def attempt(self, changes, write):
        for key, new in changes.items():
            self.known[key] = {*self.known.get(key, {None}), new}
        write()
        for key, new in changes.items():
            self.known[key] = {new}

    def step(self, key):
        now = self.coll.find_one({"_id": key})
        self.known[key] = {now and now["n"]}
        if now is None:
            return self.attempt({key: 0}, lambda: self.coll.insert_one({"_id": key, "n": 0}))
        if self.rng.random() < 0.1:
            return self.attempt({key: None}, lambda: self.coll.delete_one({"_id": key}))
        if self.rng.random() < 0.7:
            return self.attempt({key: now["n"] + 1}, lambda: self.coll.update_one({"_id": key}, {"$inc": {"n": 1}}))
        keys = [f"{self.number}-{n}" for n in range(KEYS)]
        there = {d["_id"]: d["n"] for d in self.coll.find({"_id": {"$in": keys}})}

        def all_of_them():
            plain = self.coll.with_options(write_concern=WriteConcern())
            with self.client.start_session() as session, session.start_transaction():
                for k in there:
                    plain.update_one({"_id": k}, {"$inc": {"n": 1}}, session=session)

        self.attempt({k: n + 1 for k, n in there.items()}, all_of_them)


class Watcher(threading.Thread):
    """Follows the collection; keeps the token of the last event, like a client that stores it with its own data."""

    def __init__(self, model, token):
        super().__init__(daemon=True)
        self.model, self.token, self.client, self.error = model, token, None, None
        self.halt = threading.Event()

    def follow(self, client):
        with client.stream.c.watch(resume_after=self.token, max_await_time_ms=AWAIT_MS) as stream:
            while not self.halt.is_set():
                event = stream.try_next()
                if event is None:
                    continue
                kind, key = event["operationType"], event["documentKey"]["_id"]
                n = event["fullDocument"]["n"] if kind == "insert" else event.get("updateDescription", {}).get("updatedFields", {}).get("n")
                self.model.apply(kind, key, n)
                self.token = event["_id"]

    def run(self):
        try:
            self.follow(self.client)
        except (AutoReconnect, ServerSelectionTimeoutError):
            pass
        except BaseException as error:
            self.error = error


def read_log(client):
    """Builds the counters from the whole log: changes of single documents and those of transactions."""
    model, last = Model("log"), None
    for entry in client.local["oplog.rs"].find().sort("$natural", 1):
        check(last is None or entry["ts"] > last, f"the log goes back from {last} to {entry['ts']}")
        last = entry["ts"]
        for op in entry["o"].get("applyOps", [entry]):
            if op.get("ns") != "stream.c":
                continue
            if op["op"] == "i":
                model.apply("insert", op["o"]["_id"], op["o"]["n"])
            elif op["op"] == "u":
                model.apply("update", op["o2"]["_id"], op["o"]["diff"]["u"]["n"])
            elif op["op"] == "d":
                model.apply("delete", op["o"]["_id"], None)
    return model


def one_round(server, known, watcher, round_, rng):
    client = server.client(serverSelectionTimeoutMS=500, replicaSet="rs0")
    watched = server.client(serverSelectionTimeoutMS=500)
    watcher.client = watched
    workers = [Worker(client, n, known, round_) for n in range(WORKERS)]
    for thread in [watcher, *workers]:
        thread.start()
    time.sleep(rng.uniform(0.5, 2.0))
    server.kill()
    watcher.halt.set()
    for thread in [watcher, *workers]:
        thread.join(60)
        check(not thread.is_alive(), f"a {type(thread).__name__} hangs although the server has ended")
        check(thread.error is None, f"{type(thread).__name__}: {thread.error!r}")
    client.close()
    watched.close()
    return sum(w.acknowledged for w in workers)


def main(rounds):
    rng = random.Random(SEED)
    known, acknowledged = {}, 0
    with Scratch() as scratch:
        server = scratch.server("data", "--memory", "256M").start()
        with server.client() as client:
            client.stream.create_collection("c")
            with client.stream.c.watch() as stream:
                stream.try_next()
                token = stream.resume_token
        model = Model("stream")
        for round_ in range(rounds):
            watcher = Watcher(model, token)
            acknowledged += one_round(server, known, watcher, round_, rng)
            token = watcher.token
            server.start()
        with server.client() as client:
            found = {d["_id"]: d["n"] for d in client.stream.c.find()}
            for key, possible in known.items():
                check(found.get(key) in possible, f"{key}: {found.get(key)}, acknowledged was one of {possible}")
            rest = Watcher(model, token)
            rest.client = client
            rest.start()
            log = read_log(client)
            deadline = time.monotonic() + 60
            while model.events < log.events and time.monotonic() < deadline and rest.is_alive():
                time.sleep(0.05)
            rest.halt.set()
            rest.join(60)
            check(rest.error is None, f"the last watcher: {rest.error!r}")
            check(log.counters == found, f"the log says {log.counters}, there is {found}")
            check(model.counters == found, f"the stream says {model.counters}, there is {found}")
            check(model.events == log.events, f"{model.events} events, {log.events} entries")
        server.stop()
    say(f"stream: {rounds} kills, {acknowledged} acknowledged steps; {log.events} changes in the log, each once and in order, and as many events; seed {SEED}")


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    except (PyMongoError, OperationFailure) as error:
        fail(repr(error))
