"""Concurrent transactions over the wire, kill -9 in every round, and a check of everything that was seen. Usage: soak_transactions.py
SECONDS [ROUND_S]

Lists: transactions append to lists and read them, and so do concurrent single statements; collections are created in transactions.
Registers: every transaction writes all it has read, so that the history must be serializable.
Each round ends by kill -9 and a restart. Then: no acknowledged commit is missing; a commit whose reply was lost is there as a whole or not
at all, and a retry returns which; the history is one of strong snapshot isolation (isolation.py).
A change stream, resumed after each kill, has every append once: those of a key in the order of its list, those of a transaction in one
piece.
"""

import collections
import random
import sys
import threading
import time

from pymongo import ReadPreference, WriteConcern, monitoring
from pymongo.errors import AutoReconnect, ConnectionFailure, OperationFailure, PyMongoError, ServerSelectionTimeoutError
from pymongo.read_concern import ReadConcern

from harness import SEED, Scratch, check, fail, say, verify_collection
import isolation
from isolation import FAILED, OK, UNKNOWN, Transaction

WORKERS = 8
KEYS = 6
# After this many appends to a collection the workers use another one, which the first of them creates.
APPENDS = 150
MAJORITY = WriteConcern(w="majority")
DATABASE = "iso"
# Conflicts, errors of an ending server, and aborted transactions.
TRANSIENT = "TransientTransactionError"


class Round:
    """The state that all workers of a round share."""

    def __init__(self, number):
        self.number = number
        self.lock = threading.Lock()
        self.histories = {"list": [], "register": []}
        self.values = 0
        self.ending = threading.Event()

    def value(self):
        with self.lock:
            self.values += 1
            return self.values

    def collection(self, kind):
        return f"{kind}{self.number}" if kind == "register" else f"list{self.number}x{self.values // APPENDS}"

    def done(self, kind, transaction):
        with self.lock:
            self.histories[kind].append(transaction)


class Lost(monitoring.CommandListener):
    """Counts retries of pymongo: commits whose reply was lost, and streams that it opens."""

    def __init__(self):
        self.commits = self.streams = 0

    def started(self, event):
        self.streams += event.command_name == "aggregate" and "$changeStream" in event.command["pipeline"][0]

    def succeeded(self, event):
        pass

    def failed(self, event):
        self.commits += event.command_name == "commitTransaction" and "errtype" in event.failure


class Aborted(Exception):
    """Raised when the worker aborts its transaction on purpose."""


class Worker(threading.Thread):
    def __init__(self, name, client, round_, rng):
        super().__init__(name=name, daemon=True)
        self.client, self.round, self.rng = client, round_, rng
        self.db = client.get_database(DATABASE, write_concern=MAJORITY)
        self.number, self.error = 0, None
        self.counts = collections.Counter()

    def run(self):
        try:
            while not self.round.ending.is_set():
                what = self.rng.random()
                if what < 0.12:
                    self.single()
                else:
                    self.transaction("register" if what < 0.4 else "list")
        except Exception as e:  # Reported by the main thread.
            self.error = e

    def statement(self, kind, session, t, collection, key, write):
        where = self.db[collection]
        name = f"{collection}/{key}"
        if kind == "register":
            found = where.find_one({"_id": key}, session=session)
            t.operations.append(("read", name, found["v"] if found else None))
            if write:
                value = self.round.value()
                t.operations.append(("write", name, value))
                where.update_one({"_id": key}, {"$set": {"v": value}}, upsert=True, session=session)
        elif write:
            value = self.round.value()
            t.operations.append(("append", name, value))
            where.update_one({"_id": key}, {"$push": {"l": value}}, upsert=True, session=session)
        else:
            t.operations.append(("read", name, self.read_list(where, key, session)))

    def read_list(self, where, key, session):
        # By _id, by a scan, or by a pipeline.
        how = self.rng.randrange(3)
        if how == 0:
            found = where.find_one({"_id": key}, session=session)
        elif how == 1:
            found = next((d for d in where.find({}, session=session).batch_size(2) if d["_id"] == key), None)
        else:
            found = next(iter(where.aggregate([{"$match": {"l": {"$exists": True}}}, {"$match": {"_id": key}}], session=session)), None)
        return found["l"] if found else []

    def new(self, kind):
        self.number += 1
        t = Transaction(f"{self.name}.{self.round.number}.{self.number}", [], began=time.monotonic())
        t.kind = kind
        return t

    def transaction(self, kind):
        t = self.new(kind)
        writes = self.rng.random() < (0.8 if kind == "register" else 0.7)
        with self.client.start_session() as session:
            session.start_transaction(ReadConcern("snapshot"), MAJORITY, ReadPreference.PRIMARY)
            t.id = (session.session_id["id"], session._server_session.transaction_id)
            try:
                collection = self.round.collection(kind)
                keys = self.rng.sample(range(KEYS), self.rng.randint(1, 4))
                if kind == "list":
                    keys += self.rng.choices(range(KEYS), k=self.rng.randint(0, 2))
                for key in keys:
                    self.statement(kind, session, t, collection, key, writes and (kind == "register" or self.rng.random() < 0.6))
                if self.rng.random() < 0.08:
                    raise Aborted
            except (Aborted, PyMongoError) as e:
                t.status = FAILED
                self.failed(e)
                # The transaction must have no effect, whether or not the abort reaches the server.
                try:
                    session.abort_transaction()
                except PyMongoError:
                    pass
            else:
                t.status = self.commit(session)
        t.ended = time.monotonic()
        self.counts[t.status] += 1
        self.round.done(kind, t)

    def failed(self, e):
        if isinstance(e, (Aborted, ConnectionFailure)) or e.has_error_label(TRANSIENT):
            return
        # Errors of an ending server are ignored.
        if self.round.ending.is_set():
            return
        # Another worker has inserted the key first: a conflict while both transactions run, a duplicate after that.
        if isinstance(e, OperationFailure) and e.code in (11000, 11600, 91):
            return
        raise e

    def commit(self, session):
        """Pymongo retries a commit when its reply was lost, on the restarted server."""
        for _ in range(3):
            try:
                session.commit_transaction()
                return OK
            except (AutoReconnect, ServerSelectionTimeoutError):
                continue
            except OperationFailure as e:
                # Both codes mean that it was not committed and never will be.
                if e.code in (251, 112):
                    return FAILED
                if not e.has_error_label("UnknownTransactionCommitResult") and not self.round.ending.is_set():
                    raise
        return UNKNOWN

    def single(self):
        """One statement outside of transactions."""
        t = self.new("list")
        collection, key = self.round.collection("list"), self.rng.randrange(KEYS)
        name, value = f"{collection}/{key}", None
        try:
            if self.rng.random() < 0.5:
                value = self.round.value()
                t.operations.append(("append", name, value))
                self.db[collection].update_one({"_id": key}, {"$push": {"l": value}}, upsert=True)
            else:
                t.operations.append(("read", name, self.read_by_id(collection, key)))
        except (AutoReconnect, ServerSelectionTimeoutError):
            t.status = UNKNOWN if value is not None else FAILED
        except OperationFailure as e:
            if e.code not in (11600, 91) and not self.round.ending.is_set():
                raise
            t.status = UNKNOWN if value is not None else FAILED
        t.ended = time.monotonic()
        self.counts["single " + t.status] += 1
        self.round.done("list", t)

    def read_by_id(self, collection, key):
        found = self.db[collection].find_one({"_id": key})
        return found["l"] if found else []


class Stream(threading.Thread):
    """Follows all changes, and resumes after the last event."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.db = client[DATABASE]
        self.events, self.token, self.error = [], None, None
        self.until = None
        self.opened = threading.Event()

    def run(self):
        try:
            while not self.is_done():
                try:
                    self.follow()
                except (AutoReconnect, ServerSelectionTimeoutError):
                    continue
        except Exception as e:
            self.error = e

    def is_done(self):
        return self.until is not None and any(e["documentKey"]["_id"] == self.until for e in self.events[-1:])

    def follow(self):
        with self.db.watch(resume_after=self.token, max_await_time_ms=200) as stream:
            self.token = stream.resume_token
            self.opened.set()
            while not self.is_done():
                event = stream.try_next()
                if event is not None:
                    self.events.append(event)
                self.token = stream.resume_token


def appended(event):
    """The appends of an event: (collection, key, position or None, values); None for registers."""
    collection, key = event["ns"]["coll"], event["documentKey"]["_id"]
    if not collection.startswith("list"):
        return None
    if event["operationType"] == "insert":
        return collection, key, 0, event["fullDocument"]["l"]
    fields = event["updateDescription"]["updatedFields"]
    check(len(fields) == 1, f"an append changed {fields}")
    (path, value), = fields.items()
    check(path.startswith("l."), f"an append changed {fields}")
    return collection, key, int(path[2:]), [value]


def check_events(events, orders, history):
    """Checks that every append comes once; those of a key in order, those of a transaction in one piece and in the order of its statements."""
    seen = collections.defaultdict(list)
    writers = {(key, value): t for t in history for key, value in t.appends()}
    last, pieces, times = None, collections.Counter(), []
    for event in events:
        change = appended(event)
        times.append(event["clusterTime"])
        if change is None:
            last = None
            continue
        collection, key, position, values = change
        name = f"{collection}/{key}"
        check(position == len(seen[name]), f"{name} has {len(seen[name])} values in the stream and {event} is about position {position}")
        seen[name] += values
        writer = writers[name, values[0]]
        if writer is not last:
            pieces[writer] += 1
            check(pieces[writer] == 1, f"the events of {writer} are not in one piece")
        in_order = [v for k, v in writer.appends() if k == name]
        check(values[-1] in in_order and [v for v in seen[name] if v in in_order] == in_order[:in_order.index(values[-1]) + 1],
              f"{writer} is out of order: {seen[name]}")
        if hasattr(writer, "id"):
            check((event["lsid"]["id"], event["txnNumber"]) == writer.id, f"{event} names another transaction than {writer}")
        last = writer
    check(times == sorted(times), "the times of the events do not ascend")
    for name, values in orders.items():
        check(seen[name] == values, f"{name} is {values}, the stream has {seen[name]}")
    check(set(seen) <= set(orders), f"the stream tells of {set(seen) - set(orders)}")


def final_state(db, round_):
    """The final lists of the round; keys without a document have empty lists."""
    lists, registers = {}, {}
    for t in round_.histories["list"]:
        lists.update({key: [] for _, key, _ in t.operations})
    for t in round_.histories["register"]:
        registers.update({key: None for _, key, _ in t.operations})
    for name in db.list_collection_names():
        if name.startswith(f"list{round_.number}x"):
            lists.update({f"{name}/{d['_id']}": d["l"] for d in db[name].find()})
        elif name == f"register{round_.number}":
            registers.update({f"{name}/{d['_id']}": d["v"] for d in db[name].find()})
    return lists, registers


def one_round(server, round_, rng, seconds, counts, lost):
    options = {"serverSelectionTimeoutMS": 30000, "event_listeners": [lost]}
    clients = [server.client(retryWrites=n % 2 == 0, **options) for n in range(2)]
    workers = [Worker(f"w{n}", clients[n % 2], round_, random.Random(rng.random())) for n in range(WORKERS)]
    for w in workers:
        w.start()
    until = time.monotonic() + seconds
    while time.monotonic() < until and all(w.error is None for w in workers):
        time.sleep(0.05)
    server.kill()
    round_.ending.set()
    server.start()
    for w in workers:
        w.join(120)
        check(not w.is_alive(), f"{w.name} does not end")
        counts.update(w.counts)
    for w in workers:
        if w.error is not None:
            raise w.error
    with server.client() as client:
        db = client[DATABASE]
        lists, registers = final_state(db, round_)
        for name in db.list_collection_names():
            if name.startswith((f"list{round_.number}x", f"register{round_.number}")):
                verify_collection(db[name])
    for client in clients:
        client.close()
    try:
        orders = isolation.check(round_.histories["list"], lists)
        isolation.check(*isolation.as_lists(round_.histories["register"], registers), skew_allowed=False)
    except isolation.Anomaly as e:
        fail(f"round {round_.number}, seed {SEED}: {e}")
    return orders


def main(seconds, round_s):
    rng = random.Random(SEED)
    counts, orders, history = collections.Counter(), {}, []
    with Scratch() as scratch:
        server = scratch.server("data", "--memory", "512M").start()
        # The same port after each restart, so that drivers reconnect.
        server.options += ["--port", str(server.port)]
        lost = Lost()
        stream = Stream(server.client(serverSelectionTimeoutMS=30000, event_listeners=[lost]))
        stream.start()
        check(stream.opened.wait(60), f"the stream was not opened: {stream.error}")
        began, number = time.monotonic(), 0
        while number == 0 or time.monotonic() - began < seconds:
            round_ = Round(number)
            found = one_round(server, round_, rng, round_s, counts, lost)
            orders.update(found)
            history += round_.histories["list"]
            number += 1
        with server.client() as client:
            stream.until = "the end"
            client[DATABASE]["end"].insert_one({"_id": "the end"})
        stream.join(120)
        if stream.error is not None:
            raise stream.error
        check(not stream.is_alive(), f"the stream ends at {stream.events[-1:]}")
        check_events([e for e in stream.events if e["ns"]["coll"] != "end"], orders, history)
        server.stop()
    check(lost.streams > number, f"the stream was opened {lost.streams} times")
    check(counts[OK] > 20 * number and counts[FAILED] > number, f"too little was done: {dict(counts)}")
    say(
        f"transactions: {number} rounds with kill -9, {counts[OK]} committed, {counts[FAILED]} aborted, {counts[UNKNOWN]} unknown, "
        f"{lost.commits} replies to a commit lost; {sum(len(v) for v in orders.values())} appends in {len(orders)} lists and "
        f"in {len(stream.events)} events of a stream resumed {lost.streams - 1} times; snapshot isolation holds; seed {SEED}"
    )


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 30.0)
