"""Writers whose every state is known, and a check that a copy is one of those states. Usage: writers.py WHAT ...

`fill HOST:PORT` writes what a dump needs a while for. `write HOST:PORT JOURNAL gentle|all` runs the writers until SIGTERM; gentle ones
delete nothing that they updated, and let no field that has fields become something else: a log applied to what came later meets both.
What a writer does in its step N depends on N alone; the journal keeps when each step was answered (operationTime).

`check HOST:PORT JOURNAL [last|before SECONDS:ORDINAL]` demands that the server holds, of every writer, the state after some step, and of
all writers states of one and the same moment: of the moment of that entry of the log, if it is given, or the one before it.

`oplog FILE` prints the moment of the last entry of a dumped log, and fails if the log lacks a kind of entry. `lose FILE KIND` takes one
entry out of such a file. `middle FILE SHARE` prints the moment of the entry that has this share of them before it.

Writers: A and B, transactions of 1 to 50 writes over two databases, some of them with collections that begin in them, some with more
than 16 MiB, some aborted between; S, one write after another; M, several writes in a command; D, collections and indexes; T, a time series.
"""
import functools
import itertools
import json
import random
import signal
import sys
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import bson
import pymongo
from pymongo import DeleteOne, InsertOne, UpdateOne
from pymongo.errors import PyMongoError

DATABASES = ["left", "right"]
BEGIN = datetime(2026, 3, 1)
LAST = 2**64 - 1


def steps_of_transactions(name):
    def step(n):
        chance = random.Random(f"{name}{n}")
        if n % 20 == 5:
            wide = bytes([n % 251]) * (9 << 19)
            return [("insert", side, f"{name}.wide", {"_id": k, "x": wide}) for k, side in enumerate(DATABASES * 2)]
        if n % 20 == 6:
            return [("delete", side, f"{name}.wide", k) for k, side in enumerate(DATABASES * 2)]
        ops = [("upsert", "left", f"{name}.seq", "n", {"$set": {"n": n}}), ("upsert", "right", f"{name}.seq", "n", {"$set": {"n": n}})]
        if n % 20 == 10:
            # Fifty writes, and two collections that begin with the transaction.
            ops = [("insert", side, f"{name}.new.{n}", {"_id": n}) for side in DATABASES]
        for k in range(chance.randrange(24) if n % 20 != 10 else 24):
            # The same change in both databases, and what is taken from one is added to the other.
            account, sum_, kind = chance.randrange(40), chance.randrange(1000), chance.randrange(5)
            for side, sign in (("left", 1), ("right", -1)):
                at = (side, f"{name}.items")
                if kind < 3:
                    ops.append(("upsert", side, f"{name}.accounts", account, {"$inc": {"sum": sign * sum_}, "$set": {f"by.{k % 3}": n}}))
                elif kind == 3:
                    ops.append(("insert", *at, {"_id": f"{n}-{k}", "n": n, "list": [k], "x": "y" * chance.randrange(200)}))
                else:
                    ops.append(("delete", *at, f"{n - 3}-{k}"))
        return ops if chance.randrange(10) else ops[:1]
    return step


def single(n, gentle=False):
    """In each database every document u0, u1 and so on comes, is changed in many ways, and goes."""
    at, i = (DATABASES[n // 10 % 2], "S.items"), n // 20
    ops = [("insert", *at, {"_id": n, "n": 0, "list": [1, {"a": 2}], "sub": {"x": {"y": n}, "z": n}}),
           ("insert", *at, {"_id": n, "sub": {}, "list": []}),
           ("upsert", *at, f"u{i}", {"$inc": {"n": 1}, "$push": {"list": n}}),
           # A field that had fields becomes a number.
           ("upsert", *at, f"u{i - 10}", {"$set": {"sub": n, "list": n}, "$unset": {"n": 1}}),
           ("upsert", *at, f"u{i}", {"$set": {"list.0": "first", "a long name for a field": {"n": n}}}),
           ("replace", *at, f"u{i - 4}", {"replaced": n, "sub": {"x": {"y": 1}}}),
           ("pipeline", *at, f"u{i}", n),
           ("delete", *at, f"u{i - 20}"),
           ("delete", *at, n - 27),
           ("modify", *at, f"u{i - 6}", {"$set": {"modified": n, "sub.x.q": n}})]
    if gentle:
        ops[3] = ("upsert", *at, f"u{i - 10}", {"$set": {"sub.x.q": n, "list": [n]}, "$unset": {"n": 1}})
        ops[7] = ("insert", *at, {"_id": f"gentle {n}"})
    return ops[n % 10:n % 10 + 1]


def several(n):
    at = ("right" if n % 3 else "left", "M.items")
    if n % 2:
        return [("insert", *at, {"_id": f"{n}-{k}", "k": k}) for k in range(2 + n % 12)]
    # An odd step before this one filled the same collection.
    before = n - 3
    return [op for k in range(2 + before % 12) for op in (
        ("update", *at, f"{before}-{k}", {"$set": {"again": n}}) if k % 2 else ("delete", *at, f"{before}-{k}"),
        ("insert", *at, {"_id": f"{n}+{k}", "k": [k]}))]


def definitions(n, gentle=False):
    round_, k = n // 14, n // 14 - 3
    at, before = (DATABASES[round_ % 2], f"D.{round_ % 5}"), (DATABASES[k % 2], f"D.{k % 5}")
    options = [{}, {"validator": {"n": {"$gte": 0}}}, {"capped": True, "size": 1 << 20}, {"collation": {"locale": "de"}}][round_ % 4]
    return [[("create", *at, options)],
            [("insert", *at, {"_id": 1, "n": n, "u": 1})],
            [("insert", *at, {"_id": 2, "n": n, "u": 2})],
            [("index", *at, "by n", {"n": 1}, {})],
            [("insert", *at, {"_id": 3, "n": n, "u": 3})],
            [("index", *at, "by u", {"u": 1, "n": -1}, {"unique": True})],
            [("insert", *at, {"_id": 5, "n": n, "u": 5}) if gentle else ("update", *at, 2, {"$set": {"n": n}})],
            [("unindex", *at, "by n")],
            [("index", *at, "partly", {"p": 1}, {"partialFilterExpression": {"n": {"$gt": 5}}})],
            [("delete", *at, 2) if gentle else ("update", *at, 3, {"$set": {"u": n}})],
            [("index", *at, "by n", {"n": 1, "u": 1}, {"sparse": True})],
            [("insert", *at, {"_id": 4, "n": n})],
            [("unindex", *at, "partly")],
            # The collection of three rounds before; its name comes again in the round after the next.
            [("drop", *before)] if k >= 0 else []][n % 14]


def measured(n):
    moment = BEGIN + timedelta(seconds=n * 20 % 4000 + n)
    return [("measure", "left", "T.series", {"t": moment, "m": n % 4, "_id": n, "v": [n * 0.5, n, f"s{n}"][n % 3]})]


# What a step is, and whether all of it comes at once.
WRITERS = {"A": (steps_of_transactions("A"), True), "B": (steps_of_transactions("B"), True), "S": (single, True), "M": (several, False),
           "D": (definitions, True), "T": (measured, True)}
GENTLE = {**WRITERS, "S": (functools.partial(single, gentle=True), True), "D": (functools.partial(definitions, gentle=True), True)}
SERIES = {"timeseries": {"timeField": "t", "metaField": "m", "granularity": "seconds"}}


class Model:
    """What the collections of one writer hold: documents by their _id, indexes by their name."""

    def __init__(self, name):
        self.held = {}
        if name == "T":
            self.held["left", "T.series"] = ({}, {})

    def collection(self, at):
        return self.held.setdefault(at, ({}, {"_id_": {"_id": 1}}))

    def apply(self, op):
        kind, at, rest = op[0], op[1:3], op[3:]
        if kind == "drop":
            self.held.pop(at, None)
            return
        documents, indexes = self.collection(at)
        if kind in ("insert", "measure"):
            assert rest[0]["_id"] not in documents
            documents[rest[0]["_id"]] = rest[0]
        elif kind in ("update", "upsert", "modify"):
            if rest[0] in documents or kind == "upsert":
                documents[rest[0]] = updated(documents.get(rest[0], {"_id": rest[0]}), rest[1])
        elif kind == "replace":
            documents[rest[0]] = {"_id": rest[0], **rest[1]}
        elif kind == "pipeline":
            if rest[0] in documents:
                documents[rest[0]] = {**documents[rest[0]], "p": [rest[1], rest[0]]}
        elif kind == "delete":
            documents.pop(rest[0], None)
        elif kind == "index":
            indexes[rest[0]] = {**rest[1], **rest[2]}
        elif kind == "unindex":
            indexes.pop(rest[0])
        else:
            assert kind == "create", kind


def updated(document, change):
    document = json_copy(document)
    for operator, fields in change.items():
        for path, value in fields.items():
            *parents, last = path.split(".")
            within = document
            for name in parents:
                within = within[int(name)] if isinstance(within, list) else within.setdefault(name, {})
            key = int(last) if isinstance(within, list) else last
            if operator == "$unset":
                within.pop(key, None)
            elif operator == "$inc":
                within[key] = within.get(key, 0) + value
            elif operator == "$push":
                within.setdefault(key, []).append(value)
            elif isinstance(within, list) and not within:
                within.append(value)
            else:
                within[key] = value
    return document


def json_copy(value):
    if isinstance(value, dict):
        return {name: json_copy(inner) for name, inner in value.items()}
    return [json_copy(inner) for inner in value] if isinstance(value, list) else value


def run(client, session, op):
    kind, database, name, rest = op[0], op[1], op[2], op[3:]
    collection = client[database][name]
    if kind in ("insert", "measure"):
        collection.insert_one(dict(rest[0]), session=session)
    elif kind in ("update", "upsert"):
        collection.update_one({"_id": rest[0]}, rest[1], upsert=kind == "upsert", session=session)
    elif kind == "modify":
        collection.find_one_and_update({"_id": rest[0]}, rest[1], session=session)
    elif kind == "replace":
        collection.replace_one({"_id": rest[0]}, rest[1], upsert=True, session=session)
    elif kind == "pipeline":
        collection.update_one({"_id": rest[0]}, [{"$set": {"p": [rest[1], "$_id"]}}], session=session)
    elif kind == "delete":
        collection.delete_one({"_id": rest[0]}, session=session)
    elif kind == "create":
        client[database].command("create", name, **rest[0], session=session)
    elif kind == "drop":
        client[database].command("drop", name, session=session)
    elif kind == "index":
        collection.create_index(list(rest[1].items()), name=rest[0], session=session, **rest[2])
    elif kind == "unindex":
        collection.drop_index(rest[0], session=session)


def in_bulk(op):
    kind, rest = op[0], op[3:]
    return {"insert": lambda: InsertOne(dict(rest[0])), "update": lambda: UpdateOne({"_id": rest[0]}, rest[1]),
            "delete": lambda: DeleteOne({"_id": rest[0]})}[kind]()


def perform(client, session, name, n, ops):
    if name in "AB":
        if n % 7 == 3:
            with session.start_transaction():
                for side in DATABASES:
                    client[side][f"{name}.items"].insert_one({"_id": f"never {n}"}, session=session)
                    client[side][f"{name}.accounts"].update_one({"_id": n % 40}, {"$inc": {"sum": 1}}, session=session)
                session.abort_transaction()
        session.with_transaction(lambda session: [run(client, session, op) for op in ops])
    elif name == "M":
        if n % 2:
            client[ops[0][1]][ops[0][2]].insert_many([dict(op[3]) for op in ops], session=session)
        else:
            client[ops[0][1]][ops[0][2]].bulk_write([in_bulk(op) for op in ops], session=session)
    else:
        for op in ops:
            run(client, session, op)


def as_number(moment):
    return (moment.time << 32) + moment.inc


def writer(client, name, step, journal, ended, failures):
    try:
        with client.start_session(causal_consistency=True) as session:
            for n in itertools.count(1):
                if ended:
                    return
                perform(client, session, name, n, step(n))
                journal.append(as_number(session.operation_time))
                time.sleep(0.02 if name in "ABT" else 0.005)
    except (PyMongoError, AssertionError) as error:
        failures.append(f"{name}: step {n}: {error!r:.600}")
        ended.append(True)


def write(address, path, how):
    writers = GENTLE if how == "gentle" else WRITERS
    ended, failures, journal = [], [], {name: [] for name in WRITERS}
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    with pymongo.MongoClient(f"mongodb://{address}/?directConnection=true") as client:
        client["left"].create_collection("T.series", **SERIES)
        threads = [threading.Thread(target=writer, args=(client, name, step, journal[name], ended, failures))
                   for name, (step, _) in writers.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)
    Path(path).write_text(json.dumps({"gentle": writers is GENTLE, "journal": journal}))
    if failures:
        sys.exit("writers: " + "; ".join(failures))
    print("writers: steps " + ", ".join(f"{name} {len(moments)}" for name, moments in journal.items()))


def held_by(client, name):
    held = {}
    for database in DATABASES:
        for info in client[database].list_collections():
            if info["name"].split(".")[0] != name:
                continue
            collection = client[database][info["name"]]
            indexes = {}
            if info["type"] == "collection":
                for index in collection.list_indexes():
                    more = {key: index[key] for key in ("unique", "sparse", "partialFilterExpression") if key in index}
                    indexes[index["name"]] = {**index["key"], **more}
            held[database, info["name"]] = ({one["_id"]: one for one in collection.find()}, indexes)
    return held


def moments(name, writer_, journal, held):
    """Between which moments (both not included) the writer's collections held this, and the step; and the step that is nearest."""
    step, at_once = writer_
    model, matches, nearest = Model(name), [], (None, -1)
    held = {at: ({key: json_copy(one) for key, one in documents.items()}, indexes) for at, (documents, indexes) in held.items()}

    def compare(low, high, n):
        nonlocal nearest
        if model.held == held:
            matches.append((low, high, n))
        elif not matches and n % 10 == 0:
            alike = sum(model.held.get(at) == what for at, what in held.items()) * 1000000 - abs(
                sum(len(what[0]) for what in model.held.values()) - sum(len(what[0]) for what in held.values()))
            nearest = max(nearest, (n, alike), key=lambda one: one[1])

    compare(-1, journal[0] if journal else LAST + 1, 0)
    for n in range(1, len(journal) + 1):
        before = journal[n - 2] if n > 1 else -1
        for number, op in enumerate(ops := step(n)):
            model.apply(op)
            if not at_once and number + 1 < len(ops):
                compare(before, journal[n - 1], n)
        compare(before, journal[n] if n < len(journal) else LAST + 1, n)
    return matches, nearest


def check(address, path, which=None, moment=None):
    kept, wrong, all_matches = json.loads(Path(path).read_text()), [], {}
    writers, journal = GENTLE if kept["gentle"] else WRITERS, kept["journal"]
    with pymongo.MongoClient(f"mongodb://{address}/?directConnection=true") as client:
        for name in WRITERS:
            held = held_by(client, name)
            all_matches[name], nearest = moments(name, writers[name], journal[name], held)
            if not all_matches[name]:
                wrong.append(f"{name}: no state of this writer" + difference(name, writers[name][0], held, nearest[0], len(journal[name])))
    if wrong:
        sys.exit("writers: " + "\n  ".join(wrong))
    fits = lambda now: {name: [n for low, high, n in found if low < now < high] for name, found in all_matches.items()}
    if which:
        seconds, ordinal = moment.split(":")
        candidates = [(int(seconds) << 32) + int(ordinal) - (which == "before")]
    else:
        candidates = sorted({low + 1 for found in all_matches.values() for low, _, _ in found})
    best = max((fits(now) for now in candidates), key=lambda found: sum(map(bool, found.values())))
    if not all(best.values()):
        states = {name: [n for _, _, n in found][-3:] for name, found in all_matches.items()}
        given = {name: sum(one <= candidates[-1] for one in journal[name]) for name in WRITERS} if which else "no common moment"
        sys.exit(f"writers: states of different moments: after steps {states}, expected {given}; fitting {best}")
    print("writers: one moment, after steps " + ", ".join(f"{name} {ns[-1]} of {len(journal[name])}" for name, ns in best.items()))


def difference(name, step, held, near, steps):
    """Where the copy differs from the state that looks most like it: a few lines for the person who reads it."""
    if near is None:
        return ""
    model = Model(name)
    for n in range(1, near + 1):
        for op in step(n):
            model.apply(op)
    lines = [f" (of {steps} steps; compared with the one after step {near})"]
    for at in sorted(held.keys() | model.held.keys()):
        if held.get(at) == model.held.get(at):
            continue
        (given, indexes), (expected, its) = held.get(at, ({}, None)), model.held.get(at, ({}, None))
        keys = [key for key in given.keys() | expected.keys() if given.get(key) != expected.get(key)]
        lines.append(f"{'.'.join(at)}: {len(keys)} documents differ: " + ", ".join(
            f"{key!r}: given {given.get(key)!r:.120}, expected {expected.get(key)!r:.120}" for key in keys[:3])
            + f"; indexes {indexes}, {its}")
    return "\n    ".join(line[:400] for line in lines[:12])


def entries(path):
    with open(path, "rb") as file:
        yield from bson.decode_file_iter(file)


def kinds_of(entry):
    if entry["op"] != "c":
        return [entry["op"]]
    name = next(iter(entry["o"]))
    if name == "applyOps":
        return ["transaction"] + (["part of a transaction"] if entry["o"].get("partialTxn") else [])
    return [{"commitIndexBuild": "createIndexes"}.get(name, name)]


def oplog(path):
    counts, last = {}, None
    for entry in entries(path):
        last = entry["ts"]
        for kind in kinds_of(entry):
            counts[kind] = counts.get(kind, 0) + 1
    missing = {"i", "u", "d", "transaction", "part of a transaction", "create", "drop", "createIndexes", "dropIndexes"} - counts.keys()
    print(f"{last.time}:{last.inc}")
    print(f"writers: log: {counts}", file=sys.stderr)
    if missing:
        sys.exit(f"writers: the log has no {sorted(missing)}")


def lose(path, kind):
    kept = list(entries(path))

    def on_the_left(entry):
        return entry["ns"].startswith("left.") and "T.series" not in entry["ns"] or kind == "transaction" and "left." in str(entry)
    # The last one about the database that is read first: its effect is not in the dumped data yet.
    number = max(n for n, entry in enumerate(kept) if kinds_of(entry) == [kind] and on_the_left(entry))
    print(f"writers: lost entry {number} of {len(kept)}: {kept[number]!r:.200}")
    del kept[number]
    Path(path).write_bytes(b"".join(bson.encode(entry) for entry in kept))


def middle(path, share):
    moments_ = [entry["ts"] for entry in entries(path)]
    chosen = moments_[int(len(moments_) * float(share))]
    print(f"{chosen.time}:{chosen.inc}")


def fill(address):
    with pymongo.MongoClient(f"mongodb://{address}/?directConnection=true") as client:
        for side in DATABASES:
            for begin in range(0, 60000, 5000):
                client[side]["filler"].insert_many([{"_id": n, "x": f"{n}" * 80} for n in range(begin, begin + 5000)])


what, *rest = sys.argv[1:]
{"fill": fill, "write": write, "check": check, "oplog": oplog, "lose": lose, "middle": middle}[what](*rest)
