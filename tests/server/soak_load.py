"""The load of soak_ddl.py: eight threads, each with a ledger of the data that only it writes.

Three kinds of collections:
kept: shared; each worker owns its documents in them, indexes and validators come and go. A ledger has the state of each document.
own: a database of each worker, in which it creates, fills, renames (over others, too) and drops collections. A ledger has the existing
ones.
churn: all workers do anything; only invariants are checked (validate, unique indexes).

A write without a clear answer (connection lost, write concern not satisfied, any error while the server ends) is open: it may have happened
or not, and counts as acknowledged only when its effect is found.
"""

import collections
import random
import threading

from pymongo import WriteConcern
from pymongo.errors import AutoReconnect, BulkWriteError, OperationFailure, PyMongoError

from harness import check
from soak_churn import Churn, INDEXES, REFUSALS

KEPT_DB, CHURN_DBS = "kept", ("churn0", "churn1")
KEPT = ("k0", "k1", "k2")
DURABLE = WriteConcern(w="majority", j=True)
# The ledger of a worker stays small, so that full comparisons are cheap.
DOCUMENTS_MAX = 120
REFUSED = {11000, 121}


class Unknown(Exception):
    """The server is ending: the outcome of running operations is unknown."""


def prepare(client, workers):
    for name in KEPT:
        client.get_database(KEPT_DB, write_concern=DURABLE).create_collection(name)
    for worker in range(workers):
        client.get_database(f"own{worker}", write_concern=DURABLE)["a"].insert_one({"_id": "first"})


class Ledger:
    """The ledger of one worker."""

    def __init__(self):
        # (collection, _id) -> document; the states that an open write may leave: the same key -> (before, after).
        self.documents, self.open = {}, {}
        # Name -> its _ids; the states that an open change may leave.
        self.own, self.open_own = {"a": {"first"}}, None
        self.made = self.acknowledged = 0


class Worker:
    def __init__(self, number, ledger, client, rng, watch):
        self.number, self.ledger, self.client, self.rng, self.watch = number, ledger, client, rng, watch
        self.kept = client.get_database(KEPT_DB, write_concern=DURABLE)
        self.own = client.get_database(f"own{number}", write_concern=DURABLE)
        self.churn = Churn(client, CHURN_DBS, rng)
        self.counts = collections.Counter()

    def run(self):
        kinds = [(30, self.insert), (20, self.change), (6, self.delete), (6, self.change_many), (2, self.delete_many),
                 (10, self.read), (4, self.read_snapshot), (5, self.schema), (12, self.change_own), (60, self.churn.one)]
        weights, jobs = [w for w, _ in kinds], [j for _, j in kinds]
        while not self.watch.ending.is_set():
            job = self.rng.choices(jobs, weights)[0]
            job()
            self.counts[job.__name__] += 1

    # Kept documents.

    def attempt(self, changes, operation):
        """Runs a write that changes each key to its new state, or none of them when it is refused; returns its result, or None."""
        ledger = self.ledger
        ledger.open = {key: (ledger.documents.get(key), new) for key, new in changes.items()}
        refused, result = (), None
        try:
            result = operation()
        except BulkWriteError as error:
            refused = self.refused_positions(error)
        except OperationFailure as error:
            if error.code not in REFUSED or self.is_unclear(error):
                raise
            refused = range(len(changes))
        for position, (key, new) in enumerate(changes.items()):
            if position not in refused:
                self.settle(key, new)
        ledger.open = {}
        ledger.acknowledged += 1
        return result

    def is_unclear(self, error):
        return bool((error.details or {}).get("writeConcernError"))

    def refused_positions(self, error):
        details = error.details
        codes = {e["code"] for e in details["writeErrors"]}
        if details.get("writeConcernErrors") or not codes <= REFUSED:
            raise OperationFailure(str(details), (codes - REFUSED or {0}).pop()) from error
        return {e["index"] for e in details["writeErrors"]}

    def settle(self, key, new):
        if new is None:
            self.ledger.documents.pop(key, None)
        else:
            self.ledger.documents[key] = new

    def fresh(self):
        self.ledger.made += 1
        rng, number = self.rng, f"{self.number}-{self.ledger.made}"
        a = [rng.randrange(8) for _ in range(rng.randrange(4))] if rng.random() < 0.3 else rng.randrange(8)
        doc = {"_id": number, "w": self.number, "u": f"u{number}", "g": rng.randrange(6), "a": a, "n": 0}
        if rng.random() < 0.2:
            # Refused by the validator, which comes and goes.
            doc["bad"] = 1
        if rng.random() < 0.3:
            # Refused by the unique index, which comes and goes; the duplicates keep it from being built.
            doc["d"] = rng.randrange(400)
        return doc

    def insert(self):
        name = self.rng.choice(KEPT)
        if len(self.ledger.documents) >= DOCUMENTS_MAX:
            return self.delete_many()
        if self.rng.random() < 0.5:
            doc = self.fresh()
            self.attempt({(name, doc["_id"]): doc}, lambda: self.kept[name].insert_one(doc))
            return
        docs = [self.fresh() for _ in range(self.rng.randrange(2, 8))]
        known = [id for coll, id in self.ledger.documents if coll == name]
        position = None
        if known and self.rng.random() < 0.5:
            position = self.rng.randrange(len(docs))
            docs[position]["_id"] = self.rng.choice(known)
        old = None if position is None else self.ledger.documents[(name, docs[position]["_id"])]
        # A document with an existing _id must be refused: the state does not change.
        changes = {(name, d["_id"]): old if i == position else d for i, d in enumerate(docs)}
        self.attempt(changes, lambda: self.kept[name].insert_many(docs, ordered=False))

    def pick(self):
        keys = list(self.ledger.documents)
        return self.rng.choice(keys) if keys else None

    def change(self):
        key = self.pick()
        if key is None:
            return
        old, coll, rng = self.ledger.documents[key], self.kept[key[0]], self.rng
        kind = rng.randrange(5)
        if kind == 0:
            change, new = {"$inc": {"n": 1}}, {**old, "n": old["n"] + 1}
        elif kind == 1:
            value = [rng.randrange(8), rng.randrange(8)]
            change, new = {"$set": {"a": value}}, {**old, "a": value}
        elif kind == 2:
            change, new = {"$set": {"g": 3, "bad": 2}}, {**old, "g": 3, "bad": 2}
        elif kind == 3:
            value = rng.randrange(400)
            change, new = {"$set": {"d": value}}, {**old, "d": value}
        else:
            # Changes nothing; the data that it read is durable when it is acknowledged.
            change, new = {"$set": {"g": old["g"]}}, old
        if rng.random() < 0.5:
            result = self.attempt({key: new}, lambda: coll.update_one({"_id": key[1]}, change))
            check(result is None or result.matched_count == 1, f"{key} of the ledger was not found by an update")
        else:
            result = self.attempt({key: new}, lambda: [coll.find_one_and_update({"_id": key[1], "w": self.number}, change)])
            check(result is None or result[0] is not None, f"{key} of the ledger was not found by findAndModify")

    def delete(self):
        key = self.pick()
        if key is not None:
            result = self.attempt({key: None}, lambda: self.kept[key[0]].delete_one({"_id": key[1]}))
            check(result.deleted_count == 1, f"{key} of the ledger was not found by a delete")

    def chosen(self, name, g):
        return {key: doc for key, doc in self.ledger.documents.items() if key[0] == name and doc["g"] == g}

    def change_many(self):
        name, g = self.rng.choice(KEPT), self.rng.randrange(6)
        old = self.chosen(name, g)
        changes = {key: {**doc, "n": doc["n"] + 1, "a": [doc["n"], 1]} for key, doc in old.items()}
        change = [{"$set": {"a": ["$n", 1], "n": {"$add": ["$n", 1]}}}]
        # A failed operation may have changed any part.
        self.ledger.open = {key: (old[key], changes[key]) for key in old}
        try:
            result = self.kept[name].update_many({"w": self.number, "g": g}, change)
        except OperationFailure as error:
            if error.code not in REFUSED or self.is_unclear(error):
                raise
            for key in old:
                found = self.kept[name].find_one({"_id": key[1]})
                check(found in self.ledger.open[key], f"{key} is {found} after an update of many that failed, not one of {self.ledger.open[key]}")
                self.settle(key, found)
        else:
            check(result.modified_count == len(old), f"an update of many changed {result.modified_count} of {len(old)}: {name} {self.number} {g}")
            for key in old:
                self.settle(key, changes[key])
        self.ledger.open = {}
        self.ledger.acknowledged += 1

    def delete_many(self):
        name, g = self.rng.choice(KEPT), self.rng.randrange(6)
        old = self.chosen(name, g)
        result = self.attempt(dict.fromkeys(old), lambda: self.kept[name].delete_many({"w": self.number, "g": g}))
        check(result.deleted_count == len(old), f"a delete of many removed {result.deleted_count} of {len(old)}")

    def read(self):
        """Reads through any index that exists at present, multikey or not."""
        name, value = self.rng.choice(KEPT), self.rng.randrange(8)
        holds = lambda a: value in a if isinstance(a, list) else a == value
        expected = sorted(key[1] for key, d in self.ledger.documents.items() if key[0] == name and holds(d["a"]))
        try:
            found = sorted(d["_id"] for d in self.kept[name].find({"a": value, "w": self.number}).batch_size(self.rng.randrange(2, 50)))
        except OperationFailure as error:
            # The index used by the read was dropped.
            if error.code != 175:
                raise
            return
        check(found == expected, f"find {name} a={value} w={self.number}: found {found}, the ledger has {expected}")

    def read_snapshot(self):
        """Checks that a parked cursor with a snapshot sees the data of its beginning, whatever its worker writes meanwhile."""
        name = self.rng.choice(KEPT)
        expected = {key[1]: d for key, d in self.ledger.documents.items() if key[0] == name}
        with self.client.start_session() as session:
            find = {"find": name, "filter": {"w": self.number}, "batchSize": 3, "readConcern": {"level": "snapshot"}}
            if self.rng.random() < 0.5:
                find["sort"] = {"_id": 1}
            try:
                cursor = self.kept.command(find, session=session)["cursor"]
                found = cursor["firstBatch"]
                while cursor["id"]:
                    self.rng.choice([self.change, self.delete, self.insert])()
                    more = {"getMore": cursor["id"], "collection": name, "batchSize": self.rng.randrange(1, 30)}
                    cursor = self.kept.command(more, session=session)["cursor"]
                    found += cursor["nextBatch"]
            except OperationFailure as error:
                if error.code not in {175, 43, 246, 239}:
                    raise
                self.counts[f"snapshot ended by {error.code}"] += 1
                return
        ids = [d["_id"] for d in found]
        check(len(ids) == len(set(ids)), f"a snapshot read shows documents twice: {sorted(ids)}")
        shown = {d["_id"]: d for d in found}
        if shown != expected:
            # A scan of the latest state shows whether the snapshot or the scan is wrong.
            latest = [d["_id"] for d in self.kept[name].find({"w": self.number}).hint([("$natural", 1)])]
            changed = {id: (shown[id], expected[id]) for id in shown.keys() & expected.keys() if shown[id] != expected[id]}
            check(False, f"a snapshot read {find} by {self.number} shows in turn {ids}; not shown {sorted(expected.keys() - shown.keys())}, "
                  f"strange {sorted(shown.keys() - expected.keys())}, other than acknowledged {changed}; the latest state is {latest}")

    def schema(self):
        """Changes indexes and validators of the kept collections."""
        name, rng = self.rng.choice(KEPT), self.rng
        kind = rng.randrange(10)
        try:
            if kind < 4:
                keys, options = rng.choice(INDEXES)
                self.kept[name].create_index(keys, **options)
            elif kind < 6:
                self.kept[name].drop_index(rng.choice(["a_1", "u_1", "g_1_n_-1", "d_1", "a_1_g_1", "g_1"]))
            elif kind == 6 and rng.random() < 0.3:
                self.kept.command("dropIndexes", name, index="*")
            elif kind == 7:
                self.kept.command("collMod", name, index={"name": rng.choice(["a_1", "g_1_n_-1"]), "hidden": rng.random() < 0.5})
            elif kind == 8:
                self.kept.command("collMod", name, index={"name": "a_1_g_1", rng.choice(["prepareUnique", "unique"]): True})
            else:
                validator = rng.choice([{}, {"bad": {"$exists": False}}])
                self.kept.command("collMod", name, validator=validator, writeConcern={"w": "majority", "j": True})
        except OperationFailure as error:
            if error.code not in REFUSALS:
                raise

    # Collections of its own.

    def change_own(self):
        """One change of the worker's collections; while it is open, the state before it and each state that it may leave are possible."""
        rng, own = self.rng, self.ledger.own
        name, other = rng.choice("abc"), rng.choice("abc")
        before = {n: set(ids) for n, ids in own.items()}
        after = {n: set(ids) for n, ids in own.items()}
        kind, refusal = rng.randrange(12), None
        if kind < 4 or name not in own:
            self.ledger.made += 1
            ids = {f"{self.ledger.made}.{n}" for n in range(rng.choice([1, 5, 40, 1200 if rng.random() < 0.2 else 2]))}
            after.setdefault(name, set()).update(ids)
            docs = [{"_id": id, "a": [1, 2], "text": "x" * 100} for id in ids]
            operation = lambda: self.own[name].insert_many(docs, ordered=False)
        elif kind < 8:
            drop = rng.random() < 0.6
            refusal = 20 if name == other else 48 if other in own and not drop else None
            if refusal is None:
                after[other] = after.pop(name)
            operation = lambda: self.own[name].rename(other, dropTarget=drop)
        elif kind < 10:
            after.pop(name)
            operation = lambda: self.own.drop_collection(name)
        elif kind == 10:
            # With its own name, so that a later index on the same field does not conflict with it.
            options = {"name": "a_unique", "unique": True} if len(own[name]) < 2 else {}
            operation = lambda: self.own[name].create_index("a", **options)
        else:
            after.clear()
            operation = lambda: self.client.get_database(self.own.name, write_concern=DURABLE).command(
                "dropDatabase", writeConcern={"w": "majority", "j": True})
        self.ledger.open_own = (before, after)
        try:
            operation()
            check(refusal is None, f"worker {self.number}: rename of {name} to {other} was to be refused with {refusal}, there are {list(own)}")
        except (OperationFailure, BulkWriteError) as error:
            # A unique index, created when the collection was smaller, refuses the insert: it is unknown which part was inserted.
            if isinstance(error, BulkWriteError) or error.code == 11000:
                after = self.reload(name, before, after)
            elif error.code != refusal:
                raise
        self.ledger.own, self.ledger.open_own = after, None
        self.ledger.acknowledged += 1

    def reload(self, name, before, after):
        if name not in self.own.list_collection_names():
            check(name not in before, f"own{self.number}.{name} is gone after an insert that was refused")
            return before
        found = {d["_id"] for d in self.own[name].find({}, {"_id": 1})}
        lost = before.get(name, set()) - found
        check(not lost and found <= after[name], f"own{self.number}.{name} after an insert that was refused: lost {len(lost)}")
        return {**before, name: found}


class Workers:
    """The ledgers, with new threads for each round."""

    def __init__(self, number, seed):
        self.ledgers = [Ledger() for _ in range(number)]
        self.seed = seed
        self.counts = collections.Counter()

    def start(self, client, round_, watch):
        self.errors, self.threads, self.workers = [], [], []
        for number, ledger in enumerate(self.ledgers):
            worker = Worker(number, ledger, client, random.Random(f"{self.seed}/{round_}/{number}"), watch)
            self.workers.append(worker)
            self.threads.append(threading.Thread(target=self.guard, args=(worker,), daemon=True))
        for thread in self.threads:
            thread.start()

    def guard(self, worker):
        try:
            worker.run()
        except SystemExit as failed:
            self.errors.append(str(failed))
        except PyMongoError as error:
            # A running server does not lose connections; errors of an ending server are ignored.
            worker.watch.ending.wait(1)
            if not worker.watch.ending.is_set():
                self.errors.append(f"worker {worker.number}: {error!r}")
        except BaseException as error:
            self.errors.append(f"worker {worker.number}: {error!r}")

    def join(self):
        """The errors."""
        for thread in self.threads:
            thread.join(120)
            check(not thread.is_alive(), "a worker hangs although the server has ended")
        for worker in self.workers:
            self.counts.update(worker.counts)
            self.counts.update(worker.churn.refused)
        return self.errors

    def summary(self):
        acknowledged = sum(ledger.acknowledged for ledger in self.ledgers)
        return f"{acknowledged} acknowledged, {sum(c for k, c in self.counts.items() if isinstance(k, str))} operations"


def verify_acknowledged(client, workers):
    """Compares the server with every ledger. Settles open operations; returns their number."""
    there = {}
    for name in KEPT:
        there.update({(name, d["_id"]): d for d in client[KEPT_DB][name].find({}).batch_size(1000)})
    opened = 0
    for number, ledger in enumerate(workers.ledgers):
        mine = {key: doc for key, doc in there.items() if doc["w"] == number}
        for key, (before, after) in ledger.open.items():
            found = mine.get(key)
            check(found in (before, after), f"{key} is {found}, its open write leaves only {before} and {after}")
            ledger.documents.pop(key, None)
            if found is not None:
                ledger.documents[key] = found
            opened += 1
        ledger.open = {}
        lost, strange = ledger.documents.keys() - mine.keys(), mine.keys() - ledger.documents.keys()
        check(not lost, f"acknowledged documents are lost: {sorted(lost)[:5]}")
        check(not strange, f"documents that were deleted or never written: {sorted(strange)[:5]}")
        for key, doc in ledger.documents.items():
            check(mine[key] == doc, f"{key} is {mine[key]}, acknowledged was {doc}")
        opened += verify_own(client[f"own{number}"], number, ledger)
    return opened


def verify_own(db, number, ledger):
    found = {name: {d["_id"] for d in db[name].find({}, {"_id": 1})} for name in db.list_collection_names()}
    if ledger.open_own is None:
        check(found == ledger.own, f"own{number}: {shape(found)}, acknowledged was {shape(ledger.own)}")
        return 0
    before, after = ledger.open_own
    # A rename is one change. A database is dropped collection by collection; an insert creates its collection first and then inserts in
    # parts.
    whole = found in (before, after)
    part = after == {} and all(before.get(n) == ids for n, ids in found.items())
    grown = found.keys() <= after.keys() and all(before.get(n, set()) <= ids <= after[n] for n, ids in found.items()) and before.keys() <= found.keys()
    check(whole or part or grown, f"own{number}: {shape(found)}, its open change leaves only {shape(before)} to {shape(after)}")
    ledger.own, ledger.open_own = found, None
    return 1


def shape(collections_):
    return {name: f"{len(ids)} documents" for name, ids in sorted(collections_.items())}
