"""Debezium's embedded engine follows a collection through SIGTERM, kill -9 and an end of its own. Usage: follow.py JAVA_CLASSPATH

A snapshot of SEEDED documents, then the stream, while two writers insert, update and delete, inside and outside of transactions. Each
writer owns its documents and writes down every acknowledged change; one whose answer did not come is settled by reading the document.
At the end:
- the collection holds what the writers wrote down;
- the snapshot has every document once;
- the changes of the stream are those written down: per document the same, in the same order, none missing, none twice;
- no two events of the stream carry the same resume token;
- the events, applied in the order in which they came, give the documents of the collection, once by the changes they describe
  (`updateDescription`) and once by the documents they carry (`after`, looked up by the server).
Debezium promises each event at least once, and twice only when it ends without having flushed its offset. Here every offset is
flushed before the next event is taken and the engine is never killed, so an event that comes twice fails the run.
The same comparison must refuse the events without one of them, with one of them twice, and with two of them exchanged.
"""

import copy
import datetime
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time

from bson import Binary, Decimal128, Int64, ObjectId, encode, json_util
from pymongo.errors import AutoReconnect, OperationFailure, PyMongoError

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../server"))
from harness import SEED, Scratch, check, fail, say  # noqa: E402

SEEDED = 5000
WRITERS = 2
PAUSE_S = 0.005
# How many more events are awaited after each interruption.
PROGRESS = 400
WAIT_S_MAX = 60


class Wrong(Exception):
    """The events do not tell what was written."""


def demand(holds, text):
    if not holds:
        raise Wrong(text)


def document(key, n, rng):
    """One value of each type that documents commonly have; `n` counts the changes of this key."""
    return {
        "_id": key,
        "n": n,
        "long": Int64(rng.randrange(1 << 60)),
        "ratio": rng.random(),
        "price": Decimal128(f"{rng.randrange(100000)}.50"),
        "at": datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=rng.randrange(10**7)),
        "oid": ObjectId(),
        "bin": Binary(rng.randbytes(8)),
        "none": None,
        "text": "ä\n\"" + "x" * rng.randrange(200),
        "tags": [rng.randrange(9) for _ in range(rng.randrange(1, 6))],
        "nested": {"a": rng.randrange(9), "b": [{"c": rng.randrange(9)}]},
    }


def changes(rng):
    """A change of a document that always raises `n`."""
    return rng.choice((
        {"$set": {"text": f"y{rng.random()}"}},
        {"$set": {"nested.a": Int64(rng.randrange(9)), "nested.b.0.c": str(rng.random())}},
        {"$push": {"tags": rng.randrange(99)}},
        {"$push": {"tags": {"$each": [rng.randrange(99)], "$slice": 2}}},
        {"$unset": {"text": 1}},
        {"$set": {f"new{rng.randrange(3)}": {"x": [], "y": rng.random()}}},
    )) | {"$inc": {"n": 1}}


class Writer(threading.Thread):
    """Writes until `halt`. `history` maps each key to its changes in order: ("insert" or "update", n), ("delete", None)."""

    def __init__(self, client, number, keys, halt):
        super().__init__(daemon=True)
        self.client, self.coll, self.halt = client, client.shop.items, halt
        self.rng = random.Random(f"{SEED}/{number}")
        self.now = {key: 0 for key in keys}
        self.last = dict(self.now)
        self.number, self.made = number, 0
        self.history, self.settled, self.error = {}, 0, None

    def run(self):
        try:
            while not self.halt.is_set():
                self.step()
                time.sleep(PAUSE_S)
        except BaseException as error:
            self.error = error

    def note(self, key, kind, n):
        self.history.setdefault(key, []).append((kind, n))
        if n is None:
            del self.now[key]
        else:
            self.now[key] = self.last[key] = n

    def attempt(self, key, kind, n, write):
        """A change without an answer is in the document or it is not."""
        try:
            write()
        except OperationFailure as error:
            if not error.has_error_label("RetryableWriteError") and not error.has_error_label("TransientTransactionError"):
                raise
        except AutoReconnect:
            pass
        else:
            return self.note(key, kind, n)
        self.settled += 1
        found = self.retried(lambda: self.coll.find_one({"_id": key}, {"n": 1}))
        if (found and found["n"]) == n:
            self.note(key, kind, n)
        else:
            check((found and found["n"]) == self.now.get(key), f"{key} is {found}, it was {self.now.get(key)} before {kind} to {n}")

    def retried(self, read):
        deadline = time.monotonic() + WAIT_S_MAX
        while True:
            try:
                return read()
            except (AutoReconnect, OperationFailure):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def step(self):
        rng, kind = self.rng, self.rng.random()
        if kind < 0.3:
            if rng.random() < 0.4 and (gone := [key for key in self.last if key not in self.now]):
                key = rng.choice(gone)
            else:
                self.made += 1
                key = f"new-{self.number}-{self.made}"
            n = self.last.get(key, -1) + 1
            return self.attempt(key, "insert", n, lambda: self.coll.insert_one(document(key, n, rng)))
        # Few enough documents that one changes often.
        key = rng.choice(list(self.now)[-300:])
        n = self.now[key] + 1
        if kind < 0.45:
            return self.attempt(key, "delete", None, lambda: self.coll.delete_one({"_id": key}))
        if kind < 0.55:
            return self.attempt(key, "replace", n, lambda: self.coll.replace_one({"_id": key}, document(key, n, rng)))
        if kind < 0.9:
            change = changes(rng)
            return self.attempt(key, "update", n, lambda: self.coll.update_one({"_id": key}, change))
        return self.transaction(key, n)

    def transaction(self, key, n):
        """An update and an insert, both or neither."""
        self.made += 1
        other, change = f"new-{self.number}-{self.made}", changes(self.rng)

        def write():
            with self.client.start_session() as session, session.start_transaction():
                self.coll.update_one({"_id": key}, change, session=session)
                self.coll.insert_one(document(other, 0, self.rng), session=session)

        self.attempt(key, "update", n, write)
        if self.now[key] == n:
            self.note(other, "insert", 0)
        else:
            found = self.retried(lambda: self.coll.find_one({"_id": other}))
            check(found is None, f"half of a transaction is there: {found}")


class Engine:
    """The Java process; `start` may be called again, it goes on from its offset file."""

    def __init__(self, classpath, address, folder):
        self.events, self.log = os.path.join(folder, "events"), os.path.join(folder, "engine.log")
        self.command = [
            "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classpath, "debezium.Consumer",
            f"mongodb://{address}/?replicaSet=rs0", "shop.items", os.path.join(folder, "offsets"), self.events,
        ]  # fmt: skip
        self.process, self.read, self.found = None, 0, []

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=log, stderr=log)

    def stop(self):
        check(self.process.poll() is None, "the engine ended by itself")
        self.process.stdin.close()
        status = self.process.wait(WAIT_S_MAX)
        self.process = None
        check(status == 0, f"the engine ended with status {status}")

    def poll(self):
        """Every whole line so far."""
        if os.path.exists(self.events):
            with open(self.events, "rb") as events:
                events.seek(self.read)
                for line in events:
                    if not line.endswith(b"\n"):
                        break
                    self.read += len(line)
                    self.found.append(json.loads(line))
        return self.found

    def wait(self, what, holds):
        began = time.monotonic()
        while not holds(self.poll()):
            check(self.process.poll() is None, f"the engine ended before {what}")
            check(time.monotonic() - began < WAIT_S_MAX, f"no {what} within {WAIT_S_MAX} s; there are {len(self.found)} events")
            time.sleep(0.05)
        return time.monotonic() - began

    def progress(self, after):
        have = len(self.poll())
        return self.wait(f"{PROGRESS} more events {after}", lambda events: len(events) >= have + PROGRESS)

    def tail(self):
        with open(self.log, errors="replace") as log:
            return log.read()[-6000:]


# Debezium writes documents in the older form of Extended JSON, which tells the two widths of integers apart, and `updatedFields` in
# the relaxed form, which does not.
def parsed(text):
    return text and json_util.loads(text, json_options=json_util.JSONOptions(tz_aware=False))


def plain(value, widths):
    """Sorted fields, for the order of those that an update adds is the server's affair; integers of one width unless `widths`."""
    if isinstance(value, dict):
        return {key: plain(value[key], widths) for key in sorted(value)}
    if isinstance(value, list):
        return [plain(v, widths) for v in value]
    return int(value) if isinstance(value, Int64) and not widths else value


def difference(given, expected, widths):
    """The fields that are not the same, with what either has; as BSON, so that types count."""
    fields = [{field: plain(document[field], widths) for field in document} for document in (given, expected)]
    differing = [f for f in fields[0].keys() | fields[1].keys() if len({f in one and encode({f: one[f]}) for one in fields}) > 1]
    return {f: [one.get(f, "(absent)") for one in fields] for f in differing}


def holder(target, path):
    """The dictionary or list with the last part of a dotted path, and that part."""
    *way, last = path.split(".")
    for part in way:
        target = target[int(part)] if isinstance(target, list) else target[part]
    return target, int(last) if isinstance(target, list) else last


def put(target, path, value):
    target, last = holder(target, path)
    if isinstance(target, list) and last >= len(target):
        target.extend([None] * (last - len(target)) + [value])
    else:
        target[last] = value


def applied(old, update):
    """The document after an update by its description."""
    new = copy.deepcopy(old)
    for array in update["truncated"]:
        target, last = holder(new, array["field"])
        del target[last][array["size"]:]
    for path, value in (parsed(update["updated"]) or {}).items():
        put(new, path, value)
    for path in update["removed"] or []:
        target, last = holder(new, path)
        target.pop(last, None)
    return new


def change_of(event):
    """What the event says of its document, in the words of a writer's history."""
    if event["op"] == "c":
        return "insert", parsed(event["after"])["n"]
    if event["op"] == "d":
        return "delete", None
    demand(event["op"] == "u", f"an event {event}")
    if event["update"]:
        return "update", (parsed(event["update"]["updated"]) or {}).get("n")
    return "replace", parsed(event["after"])["n"]


def replay(events):
    """Documents by the changes described, and documents by those carried."""
    described, carried = {}, {}
    for event in events:
        key, after = json.loads(event["id"]), parsed(event["after"])
        if event["op"] == "d":
            described.pop(key, None)
            carried.pop(key, None)
            continue
        carried[key] = after
        if event["update"]:
            demand(key in described, f"an update of {key}, which is not there")
            described[key] = applied(described[key], event["update"])
        else:
            described[key] = after
    return described, carried


def verify(events, seeded, history, found):
    """Raises Wrong unless the events tell exactly what was written."""
    snapshot = [e for e in events if e["op"] == "r"]
    stream = [e for e in events if e["op"] != "r"]
    once = [json.loads(e["id"]) for e in snapshot]
    demand(len(set(once)) == len(once), "the snapshot has a document twice")
    touched = {key for key in seeded if key in history}
    demand(set(seeded) - touched <= set(once), f"the snapshot lacks {list(set(seeded) - touched - set(once))[:5]}")
    for event in snapshot:
        after = parsed(event["after"])
        if after["n"] == 0 and after["_id"] in seeded:
            demand(encode(after) == seeded[after["_id"]], f"the snapshot has {after}")

    tokens = [e["offset"].get("resume_token") for e in stream]
    demand(None not in tokens, "an event of the stream has no resume token")
    demand(len(set(tokens)) == len(tokens), f"{len(tokens) - len(set(tokens))} events carry the token of another")
    told = {}
    for event in stream:
        told.setdefault(json.loads(event["id"]), []).append(change_of(event))
    for key in told.keys() | history.keys():
        demand(told.get(key) == history.get(key), f"{key}: events {told.get(key)}, written {history.get(key)}")

    described, carried = replay(events)
    for name, made in (("changes", described), ("documents", carried)):
        demand(made.keys() == found.keys(), f"by {name}: {len(made)} documents, there are {len(found)}")
        for key, expected in found.items():
            demand(made[key] is not None, f"by {name}: {key} has no content")
            differing = difference(made[key], expected, widths=name == "documents")
            demand(not differing, f"by {name}: {key} differs in {differing}")
    return len(snapshot), len(stream)


def verify_refuses(events, *more):
    """The comparison must notice what it is there for."""
    first = next(i for i, e in enumerate(events) if e["op"] != "r")
    middle = (first + len(events)) // 2
    ids = {}
    for number in range(first, len(events)):
        ids.setdefault(events[number]["id"], []).append(number)
    a, b = next(numbers[:2] for numbers in ids.values() if len(numbers) > 1)
    exchanged = list(events)
    exchanged[a], exchanged[b] = events[b], events[a]
    snapshot = next(i for i, e in enumerate(events) if e["op"] == "r" and json.loads(e["id"]) not in more[1])
    planted = {
        "an event lost": events[:middle] + events[middle + 1:],
        "an event twice": events[:middle] + [events[middle]] + events[middle:],
        "two events exchanged": exchanged,
        "the last event lost": events[:-1],
        "a document of the snapshot lost": events[:snapshot] + events[snapshot + 1:],
    }
    for name, wrong in planted.items():
        try:
            verify(wrong, *more)
        except Wrong:
            continue
        fail(f"the comparison accepts {name}")
    return len(planted)


def interrupted(server, engine, client, writers, halt):
    """Everything that happens between the first event of the snapshot and the last write."""
    engine.wait("first event of the snapshot", lambda events: len(events) > 0)
    for writer in writers:
        writer.start()
    engine.wait("snapshot", lambda events: sum(e["op"] == "r" for e in events) >= SEEDED - 100)
    engine.progress("after the snapshot")

    server.stop()
    time.sleep(1)
    server.start()
    say(f"debezium: {PROGRESS} events {engine.progress('after SIGTERM'):.1f} s after the start that followed SIGTERM")

    server.kill()
    server.start()
    say(f"debezium: {PROGRESS} events {engine.progress('after kill -9'):.1f} s after the start that followed kill -9")

    engine.stop()
    before = len(engine.poll())
    time.sleep(2)
    engine.start()
    say(f"debezium: {PROGRESS} events {engine.progress('from the offset file'):.1f} s after the engine's second start")
    check(all(e["op"] != "r" for e in engine.found[before:]), "the second start made a second snapshot")

    halt.set()
    for writer in writers:
        writer.join(WAIT_S_MAX)
        check(not writer.is_alive(), "a writer hangs")
        check(writer.error is None, f"a writer: {writer.error!r}")
    client.shop.items.insert_one({"_id": "last", "n": 0})
    engine.wait("last event", lambda events: any(e["id"] == '"last"' for e in events))
    # What came after it would be too much.
    time.sleep(1)
    engine.stop()


def main(classpath):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    rng, halt = random.Random(SEED), threading.Event()
    with Scratch() as scratch:
        server = scratch.server("data", "--memory", "256M", "--port", port).start()
        # As an application connects: by the replica set's name, with retryable writes.
        client = server.client(directConnection=False, replicaSet="rs0", retryWrites=True, retryReads=True, serverSelectionTimeoutMS=30000)
        documents = [document(f"seed-{n}", 0, rng) for n in range(SEEDED)]
        client.shop.items.insert_many(documents)
        seeded = {d["_id"]: encode(d) for d in documents}
        writers = [Writer(client, n, list(seeded)[n::WRITERS], halt) for n in range(WRITERS)]
        engine = Engine(classpath, server.address, scratch.path)
        engine.start()
        try:
            interrupted(server, engine, client, writers, halt)
        except BaseException:
            say(f"the engine said, last:\n{engine.tail()}")
            raise
        finally:
            if engine.process is not None:
                engine.process.kill()
                engine.process.wait()

        history = {"last": [("insert", 0)]}
        for writer in writers:
            history |= writer.history
        found = {d["_id"]: d for d in client.shop.items.find().sort("_id", 1)}
        expected = {"last": 0} | {key: n for writer in writers for key, n in writer.now.items()}
        check({key: d["n"] for key, d in found.items()} == expected, "the collection is not what was acknowledged")
        events = engine.poll()
        try:
            snapshot, stream = verify(events, seeded, history, found)
        except Wrong as wrong:
            say(f"the engine said, last:\n{engine.tail()}")
            fail(f"{wrong} (seed {SEED})")
        planted = verify_refuses(events, seeded, history, found)
        client.close()
        server.stop()
    kinds = [kind for done in history.values() for kind, _ in done]
    counts = ", ".join(f"{kinds.count(kind)} {kind}s" for kind in ("insert", "update", "replace", "delete"))
    say(f"debezium: {counts} acknowledged or settled ({sum(w.settled for w in writers)} settled); {snapshot} events of the snapshot,"
        f" {stream} of the stream, each change once and in order; their replay is the collection of {len(found)} documents;"
        f" {planted} of {planted} planted errors found; seed {SEED}")  # fmt: skip


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except PyMongoError as error:
        fail(repr(error))
