"""A load that records every acknowledged effect in a ledger, with which crash tests compare the stored data.

Each worker owns its documents, so that the ledger needs no order between workers. An operation without an answer is `open`: its documents
may be in the state before or after it, and in no other.
"""

import random
import threading

from bson import encode
from pymongo import WriteConcern
from pymongo.errors import AutoReconnect, BulkWriteError, DuplicateKeyError, OperationFailure, ServerSelectionTimeoutError

from harness import check, fail

# Error codes of a stopping server: InterruptedAtShutdown, ShutdownInProgress, PrimarySteppedDown.
STOPPING = {11600, 91, 189}
LOST = (AutoReconnect, ServerSelectionTimeoutError)
COUNTERS = 40
# Whether create, createIndexes and drop with {j: true} wait for the journal. They do not yet: instead each is followed by a journaled
# write, which also covers them because the journal is ordered. True removes that write.
SCHEMA_WAITS_FOR_JOURNAL = True


def document(key, version, rng):
    size = rng.choice((10, 100, 1000, 5000))
    return {
        "_id": key,
        "u": f"unique-{key}-{version}",
        "g": rng.randrange(50),
        "tags": [rng.randrange(20) for _ in range(rng.randrange(4))],
        "version": version,
        "text": f"{version:08d}" * (size // 8 + 1),
    }


class Ledger:
    """For each collection: the documents that must exist, and for each key the states that an open operation may leave."""

    def __init__(self):
        self.documents = {}
        self.open = {}
        self.collections = {}
        self.open_collections = {}
        self.acknowledged = 0

    def settle(self, key, found):
        if found is None:
            self.documents.pop(key, None)
        else:
            self.documents[key] = found


class Load:
    """Workers on one server; `stop_after` is the caller's function that ends the server."""

    def __init__(self, client, ledgers, seed, round_, journaled, db="crash"):
        self.client, self.ledgers, self.seed, self.round = client, ledgers, seed, round_
        self.concern = WriteConcern(w=1, j=journaled)
        self.db = client.get_database(db, write_concern=self.concern)
        self.halt = threading.Event()
        self.errors = []

    def run(self, end):
        """Starts all workers, calls `end`, and waits until each worker has noticed the end of the server."""
        jobs = [(self.documents_worker, n) for n in range(len(self.ledgers) - 2)]
        jobs += [(self.schema_worker, len(self.ledgers) - 2), (self.many_worker, len(self.ledgers) - 1)]
        threads = [threading.Thread(target=self.guard, args=job, daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        end()
        self.halt.set()
        for thread in threads:
            thread.join(60)
            check(not thread.is_alive(), "a worker hangs although the server has ended")
        check(not self.errors, f"{self.errors[:1]}")

    def guard(self, job, worker):
        try:
            job(worker)
        except LOST:
            pass
        except OperationFailure as error:
            if error.code not in STOPPING:
                self.errors.append(f"worker {worker}: {error!r}")
        except BaseException as error:
            self.errors.append(f"worker {worker}: {error!r}")

    def attempt(self, ledger, changes, operation):
        """Runs an operation that changes each key to the given state; `changes` is {key: state or None}."""
        ledger.open = {key: (ledger.documents.get(key), state) for key, state in changes.items()}
        operation()
        for key, state in changes.items():
            ledger.settle(key, state)
        ledger.open = {}
        ledger.acknowledged += 1

    def documents_worker(self, worker):
        rng = random.Random(f"{self.seed}/{self.round}/{worker}")
        ledger, docs = self.ledgers[worker], self.db["docs"]
        made = 0
        while not self.halt.is_set():
            known = list(ledger.documents) if made % 50 == 0 else known
            kind = rng.random()
            made += 1
            fresh = f"w{worker}-r{self.round}-{made}"
            if kind < 0.45 or not known:
                doc = document(fresh, 0, rng)
                self.attempt(ledger, {fresh: doc}, lambda: docs.insert_one(doc))
            elif kind < 0.55:
                batch = [document(f"{fresh}.{n}", 0, rng) for n in range(rng.randrange(2, 60))]
                self.attempt(ledger, {d["_id"]: d for d in batch}, lambda: docs.insert_many(batch, ordered=rng.random() < 0.5))
            elif kind < 0.60:
                self.collide(docs, ledger, rng.choice(known), fresh, rng)
            else:
                key = rng.choice(known)
                if key in ledger.documents:
                    self.change(docs, ledger, key, kind, rng)

    def collide(self, docs, ledger, other, fresh, rng):
        """Checks that a duplicate unique key is refused, and that one refused document does not prevent the others of an unordered batch."""
        if other not in ledger.documents:
            return
        good, bad = document(fresh, 0, rng), document(fresh + ".x", 0, rng)
        bad["u"] = ledger.documents[other]["u"]

        def insert():
            try:
                docs.insert_many([bad, good], ordered=False)
                fail(f"two documents own {bad['u']}")
            except BulkWriteError as error:
                codes = [e["code"] for e in error.details["writeErrors"]]
                if codes != [11000]:
                    raise OperationFailure(str(error.details), codes[0] if codes else None) from error

        self.attempt(ledger, {fresh: good}, insert)

    def change(self, docs, ledger, key, kind, rng):
        old = ledger.documents[key]
        if kind < 0.80:
            new = document(key, old["version"] + 1, rng)
            changes = {field: new[field] for field in new if field != "_id"}
            self.attempt(ledger, {key: new}, lambda: docs.update_one({"_id": key}, {"$set": changes}))
        elif kind < 0.88:
            new = document(key, old["version"] + 1, rng)
            self.attempt(ledger, {key: new}, lambda: docs.find_one_and_replace({"u": old["u"]}, new))
        else:
            self.attempt(ledger, {key: None}, lambda: docs.delete_one({"_id": key}))

    def schema_worker(self, worker):
        """Creates and drops collections; an acknowledged index must exist, an acknowledged drop is permanent."""
        ledger = self.ledgers[worker]
        made = 0
        while not self.halt.is_set():
            made += 1
            name = f"c-r{self.round}-{made}"
            for step in ("create", "index", "insert", "drop") if made % 3 else ("create", "index", "insert"):
                before = ledger.collections.get(name)
                after = {"create": "created", "index": "indexed", "insert": "filled", "drop": None}[step]
                ledger.open_collections = {name: (before, after)}
                if step == "create":
                    self.db.create_collection(name)
                elif step == "index":
                    self.db[name].create_index("a", unique=True)
                elif step == "insert":
                    self.db[name].insert_many([{"_id": n, "a": n} for n in range(10)])
                else:
                    self.db.drop_collection(name)
                if not SCHEMA_WAITS_FOR_JOURNAL:
                    self.db["fence"].update_one({"_id": 0}, {"$inc": {"n": 1}}, upsert=True)
                ledger.open_collections = {}
                ledger.acknowledged += 1
                if after is None:
                    ledger.collections.pop(name)
                else:
                    ledger.collections[name] = after

    def many_worker(self, worker):
        """One statement that increments all counters, an indexed field; an open one may have reached any of them."""
        ledger, counters = self.ledgers[worker], self.db["counters"]
        while not self.halt.is_set():
            ledger.open = {"n": None}
            counters.update_many({}, {"$inc": {"n": 1}})
            ledger.documents["n"] = ledger.documents.get("n", 0) + 1
            ledger.open = {}
            ledger.acknowledged += 1


def prepare(client, db="crash"):
    """Creates the collections with their indexes, durably, before the first round."""
    database = client.get_database(db, write_concern=WriteConcern(w=1, j=True))
    database["docs"].create_index("u", unique=True)
    database["docs"].create_index([("g", 1), ("version", -1)])
    database["docs"].create_index("tags")
    database["counters"].create_index("n")
    database["counters"].insert_many([{"_id": n, "n": 0} for n in range(COUNTERS)])


def verify_documents(client, ledgers, db="crash"):
    """Checks that every acknowledged document has its last acknowledged state, and that only open operations have changed anything else.
    Settles the ledgers."""
    docs = client[db]["docs"]
    there = {d["_id"]: d for d in docs.find({}).batch_size(2000)}
    opened = 0
    for ledger in ledgers:
        for key, states in ledger.open.items():
            found = there.pop(key, None)
            possible = [s and encode(s) for s in states]
            check((found and encode(found)) in possible, f"{key} is {found}, its open operation leaves only {states}")
            ledger.settle(key, found)
            if found is not None:
                there[key] = found
            opened += 1
        ledger.open = {}
        for key, expected in ledger.documents.items():
            found = there.pop(key, None)
            check(found is not None, f"the acknowledged document {key} is lost")
            check(encode(found) == encode(expected), f"{key} is {found}, acknowledged was {expected}")
    check(not there, f"documents nobody wrote: {list(there)[:5]}")
    return opened


def verify_collections(client, ledger, db="crash"):
    """Checks that acknowledged collections exist with their index and documents, and that dropped ones do not."""
    names = {n for n in client[db].list_collection_names() if n.startswith("c-")}

    def state(name):
        if name not in names:
            return None
        if "a_1" not in client[db][name].index_information():
            return "created"
        found = client[db][name].find_one({"a": 9}) is not None
        return "filled" if found else "indexed"

    for name, states in ledger.open_collections.items():
        found = state(name)
        check(found in states, f"collection {name} is {found}, its open operation leaves only {states}")
        ledger.collections.pop(name, None)
        if found:
            ledger.collections[name] = found
    ledger.open_collections = {}
    check(names == set(ledger.collections), f"collections {names ^ set(ledger.collections)} differ from what was acknowledged")
    for name, expected in ledger.collections.items():
        found = state(name)
        check(found == expected, f"collection {name} is {found}, acknowledged was {expected}")


def verify_counters(client, ledger, db="crash"):
    """Checks that every counter has every acknowledged increment, and at most the open one in addition. Makes all counters equal again."""
    counters = client.get_database(db, write_concern=WriteConcern(w=1, j=True))["counters"]
    acknowledged = ledger.documents.get("n", 0)
    found = [d["n"] for d in counters.find()]
    check(len(found) == COUNTERS, f"{len(found)} counters, not {COUNTERS}")
    allowed = {acknowledged, acknowledged + len(ledger.open)}
    check(set(found) <= allowed, f"counters {found}: {acknowledged} statements were acknowledged, {len(ledger.open)} open")
    counters.update_many({}, {"$set": {"n": acknowledged}})
    ledger.open = {}
