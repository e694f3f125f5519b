"""Valid messages with hostile queries against the real server: each ends in bounded time and memory, with an answer or MongoDB's error
code, while the finds of another process are timed. The time limits are for a machine without other work: the time in which the
longest-waiting thread waited for a processor is not counted, and neither is the share of other processes in the time of a find. Usage:
hostile_queries.py [NAME-PART]
"""

import os
import subprocess
import sys
import threading
import time

from bson import BSON, Regex
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, DocumentTooLarge, OperationFailure, WriteError

import memory_cases
from harness import Scratch, check, say
from hostile import nested
from memory_cases import OK, TOO_LARGE

MEMORY_MB = 1024
# `--memory` plus a tenth.
RSS_MB_MAX = 1126
# Resident memory allowed above the level before the attacks, IDLE_S after they ended, without the engine's caches on both sides.
RSS_MB_KEPT_MAX = 128
IDLE_S = 10
LATENCY_S_P99 = 0.1
LATENCY_S_MAX = 1.0


def raw(depth, kind=3):
    """A document nested so deep that the library would refuse to build it."""
    return RawBSONDocument(nested(depth, kind))


def chain(name, inner, depth, as_list):
    for _ in range(depth):
        inner = {name: [inner] if as_list else inner}
    return inner


def doubling(rounds):
    return {"$reduce": {"input": {"$range": [0, rounds]}, "initialValue": "xxxxxxxxxxxxxxxx", "in": {"$concat": ["$$value", "$$value"]}}}


def endless(one):
    """An expression that costs a million times one expression."""
    return {"$reduce": {"input": {"$range": [0, 1000000]}, "initialValue": 0, "in": {"$add": ["$$value", one]}}}


def let(depth):
    inner = "$$v0"
    for n in range(depth):
        inner = {"$let": {"vars": {f"v{n % 3}": n}, "in": {"$add": [inner, 1]}}} if n else inner
    return {"$let": {"vars": {"v0": 1}, "in": inner}}


def schema(depth):
    inner = {"bsonType": "int"}
    for _ in range(depth):
        inner = {"properties": {"a": inner}}
    return inner


def find(filter, **more):
    return {"find": "c", "filter": filter, **more}


def aggregate(*stages, **more):
    return {"aggregate": "c", "pipeline": list(stages), "cursor": {}, **more}


def expr(e, **more):
    return find({"$expr": {"$eq": [e, -1]}}, **more)


def cases():
    """Name, command, allowed outcomes, most seconds."""
    many = [{"a": n} for n in range(100_000)]
    million = list(range(1_000_000))
    regexes = [Regex(f"^x{n}y") for n in range(10_000)]
    yield "depth: $and x 90", find(chain("$and", {"a": 1}, 90, True)), {OK}, 2
    yield "depth: $or x 99", find(chain("$or", {"a": 1}, 99, True)), {OK, 2, 15}, 2
    for name, as_list in [("$and", True), ("$nor", True)]:
        yield f"depth: {name} x 1000", find(RawBSONDocument(nested_as(name, 1000))), {2, 15}, 2
    yield "depth: $not x 150", find({"a": chain("$not", {"$gt": 1}, 150, False)}), {2, 15}, 2
    yield "depth: $elemMatch x 150", find({"a": chain("$elemMatch", {"$gt": 1}, 150, False)}), {2, 15}, 2
    yield "depth: document x 180", find({"a": raw(170)}), {OK}, 2
    yield "depth: document x 5000", find({"a": raw(5000)}), {2, 15}, 2
    yield "depth: array x 5000", find({"a": raw(5000, 4)}), {2, 15}, 2
    yield "depth: $jsonSchema x 60", find({"$jsonSchema": schema(60)}), {OK}, 2
    yield "depth: $jsonSchema x 95", find({"$jsonSchema": schema(95)}), {OK, 15}, 2
    yield "depth: $let x 40", expr(let(40)), {OK}, 2
    yield "depth: $let x 60", expr(let(60)), {15}, 2
    yield "depth: $let x 1000 stages deep", aggregate(*[{"$set": {"v": let(40)}} for _ in range(500)], {"$limit": 1}), {OK}, 10
    yield "depth: $cond x 90", expr(chain("$abs", "$n", 90, False)), {OK, 2, 15, 16020}, 2
    yield "size: $or of 100,000", find({"$or": many}), {OK}, 20
    yield "size: $or of 100,000 on the index", find({"$or": [{"_id": n["a"]} for n in many]}), {OK}, 20
    yield "size: $and of 100,000", find({"$and": many}), {OK}, 20
    yield "size: $nor of 100,000", find({"$nor": many}), {OK}, 20
    yield "size: $in of 1,000,000", find({"a": {"$in": million}}), {OK}, 20
    yield "size: $in of 1,000,000 ids", find({"_id": {"$in": million}}), {OK}, 20
    yield "size: $in of 1,000,000 on an index", find({"n": {"$in": million}}), {OK}, 20
    yield "size: two $in of 1,000 on a compound index", find({"n": {"$in": million[:1000]}, "m": {"$in": million[:1000]}}), {OK}, 10
    yield "size: $nin of 1,000,000", find({"a": {"$nin": million}}), {OK}, 20
    yield "size: $all of 100,000", find({"t": {"$all": million[:100_000]}}), {OK}, 20
    yield "size: $in of 10,000 patterns", find({"s": {"$in": regexes}}), {OK, 2}, 20
    yield "size: string of 15 MB", find({"s": "x" * 15_000_000}), {OK}, 2
    yield "size: path of 100,000 components", find({"a" + ".a" * 100_000: 1}), {2, 15, OK}, 2
    yield "size: path of 200 components", find({"a" + ".a" * 199: 1}), {OK}, 2
    yield "regex: exponential", find({"s": Regex("^(x+x+)+$")}), {51156}, 10
    yield "regex: exponential on 10 MB", {"find": "big", "filter": {"s": Regex("(x+x+)+y$")}}, {51156}, 10
    yield "regex: 10 MB without a match", {"find": "big", "filter": {"s": Regex("xyz")}}, {OK}, 5
    yield "regex: quadratic on 10 MB", {"find": "big", "filter": {"s": Regex("x*y")}}, {OK, 51156}, 10
    yield "regex: pattern of 32,764 bytes", find({"s": Regex("x" * 32_764)}), {OK, 51091}, 2
    yield "regex: nested repeats", find({"s": Regex("((((x{1,100}){1,100}){1,100}){1,100})")}), {OK, 51091, 51156}, 5
    yield "regex: deep groups", find({"s": Regex("(" * 3000 + "x" + ")" * 3000)}), {OK, 51091}, 5
    yield "regex: $regexFindAll on 10 MB", aggregate_big({"$size": {"$regexFindAll": {"input": "$s", "regex": "x"}}}), {51151}, 10
    yield "expression: $range of 2^31", expr({"$size": {"$range": [0, 2_147_483_647]}}), {146}, 2
    yield "expression: $concat doubles", expr(doubling(40)), TOO_LARGE, 5
    yield "expression: $concatArrays doubles", expr({"$reduce": {"input": {"$range": [0, 40]}, "initialValue": [1], "in": {"$concatArrays": ["$$value", "$$value"]}}}), TOO_LARGE, 10
    yield "expression: $map of documents", expr({"$map": {"input": {"$range": [0, 5_000_000]}, "in": {"a": "$$this", "b": "xxxxxxxxxxxxxxxx"}}}), TOO_LARGE | {OK}, 10
    yield "expression: $map of $map", expr({"$map": {"input": {"$range": [0, 5000]}, "in": {"$range": [0, 100_000]}}}), TOO_LARGE, 10
    yield "expression: $zip", expr({"$zip": {"inputs": [{"$range": [0, 1_000_000]}] * 50}}), TOO_LARGE, 10
    yield "expression: 20,000 constant lists", expr({"$size": [[{"$range": [0, 1_000_000]}] * 20_000]}, maxTimeMS=2000), TOO_LARGE | {50}, 5
    yield "expression: $replaceAll grows", expr({"$replaceAll": {"input": doubling(19), "find": "x", "replacement": "y" * 1000}}), TOO_LARGE, 10
    yield "expression: $indexOfArray and $setUnion", expr({"$setUnion": [{"$range": [0, 1_000_000]}] * 8}), {OK} | TOO_LARGE, 20
    yield "expression: $mergeObjects grows", expr({"$reduce": {"input": {"$range": [0, 30]}, "initialValue": {"a": 1}, "in": {"$mergeObjects": [{"l": "$$value", "r": "$$value"}]}}}), TOO_LARGE | {15}, 10
    yield "expression: $push doubles in stages", aggregate({"$limit": 1}, *[{"$set": {"s": {"$concat": ["$s", "$s"]}}} for _ in range(40)]), TOO_LARGE, 10
    yield "expression: $split", expr({"$size": {"$split": [doubling(19), "x"]}}), {OK} | TOO_LARGE, 10
    yield "stages: 1,001", aggregate(*[{"$skip": 0}] * 1001), {7749501}, 2
    yield "stages: 1,000", aggregate(*[{"$set": {"a": 1}}] * 999, {"$limit": 1}), {OK}, 10
    yield "stages: $facet x 200", aggregate({"$facet": {f"f{n}": [{"$match": {"a": n}}] for n in range(200)}}), {OK}, 20
    yield "stages: $facet keeps all", {"aggregate": "wide", "pipeline": [{"$facet": {f"f{n}": [] for n in range(40)}}], "cursor": {}}, {17419, 10334, 146, 4031700, 40600}, 30
    yield "stages: $group keeps all", {"aggregate": "wide", "pipeline": [{"$group": {"_id": None, "all": {"$push": "$$ROOT"}}}], "cursor": {}, "allowDiskUse": False}, {292}, 30
    yield "stages: $unwind of a million", {"aggregate": "long", "pipeline": [{"$unwind": "$a"}, {"$group": {"_id": None, "n": {"$sum": "$a"}}}], "cursor": {}}, {OK}, 10
    yield "stages: $lookup without end", aggregate({"$lookup": {"from": "c", "pipeline": [{"$lookup": {"from": "c", "pipeline": [], "as": "y"}}], "as": "x"}}, maxTimeMS=1000), {50} | TOO_LARGE | {4568}, 5
    yield "shape: projection of 5,000 paths", find({}, projection={f"p{n}.q.r": 1 for n in range(5000)}), {OK}, 10
    yield "shape: $project of 5,000 expressions", aggregate({"$project": {f"p{n}": {"$add": ["$n", n]} for n in range(5000)}}, {"$limit": 100}), {OK}, 10
    yield "shape: sort by 32 keys", find({}, sort={f"k{n}": 1 for n in range(32)}, limit=1), {OK}, 5
    yield "shape: sort by 5,000 keys", find({}, sort={f"k{n}": 1 for n in range(5000)}, limit=1), {OK, 2, 13103}, 20
    yield "shape: $set of 100,000 fields", update({"$set": {f"f{n}": n for n in range(100_000)}}), {OK}, 20
    yield "shape: $set of 100,000 nested", update({"$set": {f"g.f{n}.x": n for n in range(100_000)}}), {OK}, 20
    yield "shape: $push of a million", update({"$push": {"t": {"$each": million}}}), {OK, 10334, 17419}, 20
    yield "shape: $addToSet of 100,000", update({"$addToSet": {"set": {"$each": million[:100_000]}}}), {OK}, 20
    yield "shape: position beyond all", update({"$set": {"t.1500001": 1}}), {2, 17419}, 2
    yield "shape: 10,000 array filters", update({"$set": {"t.$[e]": 1}}, [{f"e{n}": 1} for n in range(10_000)]), {2, 9}, 5
    yield "shape: array filters on a million", {"update": "long", "updates": [{"q": {}, "u": {"$set": {"a.$[e]": 5}}, "arrayFilters": [{"e": {"$lt": 10}}]}]}, {OK}, 10
    yield "long array: position in the middle", {"find": "long", "filter": {"a.500000": 7}}, {OK}, 5
    yield "long array: $elemMatch", {"find": "long", "filter": {"a": {"$elemMatch": {"$gt": 5, "$lt": 5}}}}, {OK}, 5
    yield "long array: paths through it", {"find": "long", "filter": {"$or": [{f"a.{n}": -5} for n in range(100)]}}, {OK}, 20
    yield "long array: $setUnion", {"aggregate": "long", "pipeline": [{"$project": {"n": {"$size": {"$setUnion": ["$a", "$a"]}}}}], "cursor": {}}, {OK}, 10
    yield "long array: uniqueItems", {"find": "long", "filter": {"$jsonSchema": {"properties": {"a": {"uniqueItems": True}}}}}, {OK}, 10
    for name, one in [
        ("$range", {"$size": {"$range": [0, 100_000]}}),
        ("$map", {"$size": {"$map": {"input": {"$range": [0, 100_000]}, "in": 1}}}),
        ("$filter", {"$size": {"$filter": {"input": {"$range": [0, 100_000]}, "cond": False}}}),
        ("$reduce", {"$reduce": {"input": {"$range": [0, 100_000]}, "initialValue": 0, "in": 1}}),
        ("$concat", {"$strLenBytes": doubling(18)}),
        ("$sortArray", {"$size": {"$sortArray": {"input": {"$range": [0, 100_000]}, "sortBy": -1}}}),
        ("$regexMatch", {"$cond": [{"$regexMatch": {"input": doubling(12), "regex": "x*y"}}, 1, 0]}),
        ("$reverseArray", {"$size": {"$reverseArray": {"$range": [0, 100_000]}}}),
        ("$setUnion", {"$size": {"$setUnion": [{"$range": [0, 100_000]}]}}),
        ("$indexOfArray", {"$indexOfArray": [{"$range": [0, 100_000]}, -1]}),
    ]:
        yield f"maxTimeMS: {name} in $reduce", expr(endless(one), maxTimeMS=300), {50}, 1.5
    yield "maxTimeMS: patterns", {"find": "big", "filter": {"$or": [{"s": Regex(f"x*y{n}")} for n in range(200)]}, "maxTimeMS": 300}, {50, 51156}, 3
    yield "maxTimeMS: array filter", {"find": "long", "filter": {"$or": [{f"a.{n}": -5} for n in range(5000)]}, "maxTimeMS": 300}, {50}, 1.5
    yield from memory_cases.cases()
    yield "maxTimeMS: update", {"update": "c", "updates": [{"q": {}, "u": [{"$set": {"n": endless({"$size": {"$range": [0, 100_000]}})}}], "multi": True}], "maxTimeMS": 300}, {50}, 1.5


def nested_as(name, depth):
    """`{name: [{name: [...]}]}` built by hand."""
    inner = BSON.encode({"a": 1})
    for _ in range(depth):
        array = (4 + 1 + 2 + len(inner) + 1).to_bytes(4, "little") + b"\x03" + b"0\0" + inner + b"\0"
        body = b"\x04" + name.encode() + b"\0" + array
        inner = (4 + len(body) + 1).to_bytes(4, "little") + body + b"\0"
    return inner


def aggregate_big(e):
    return {"aggregate": "big", "pipeline": [{"$project": {"n": e}}], "cursor": {}}


def update(change, filters=None):
    one = {"q": {"_id": 1}, "u": change}
    if filters is not None:
        one["arrayFilters"] = filters
    return {"update": "c", "updates": [one]}


def fill(db):
    db.c.insert_many([{"_id": n, "n": n, "m": n % 7, "s": "x" * 30 + str(n), "t": [1, 2, 3], "a": [{"b": n}]} for n in range(500)])
    db.c.create_index([("n", 1), ("m", 1)])
    db.big.insert_one({"_id": 1, "s": "x" * 10_000_000})
    db.long.insert_one({"_id": 1, "a": list(range(1_000_000))})
    db.wide.insert_many([{"_id": n, "s": "y" * 1_000_000} for n in range(150)])
    db.honest.insert_many([{"_id": n} for n in range(1000)])


def processor_ticks(pids):
    """Ticks of all processors since the start of the machine: all ticks, and those used by other processes."""
    with open("/proc/stat") as stat:
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    busy = user + nice + system + irq + softirq + steal
    own = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as stat:
            own += sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13]))
    return busy + idle + iowait, busy - own


def honest_client(uri, server):
    """Finds one document after the other; prints the time of each find, without the share in which the processors worked for other
    processes, and when it ended."""
    find = MongoClient(uri, directConnection=True, retryReads=False).hostile.honest.find_one
    pids = [server, os.getpid(), os.getppid()]
    n = 0
    while True:
        (all_before, others_before), began = processor_ticks(pids), time.monotonic()
        if find({"_id": n % 1000}) is None:
            sys.exit(f"{n % 1000} is gone")
        ended = time.monotonic()
        took = ended - began
        if took > LATENCY_S_P99:
            all_after, others_after = processor_ticks(pids)
            share = (others_after - others_before) / max(all_after - all_before, 1)
            took *= 1 - min(max(share, 0.0), 0.95)
        print(took, ended, flush=True)
        n += 1
        time.sleep(0.002)


class Honest(threading.Thread):
    """Runs `honest_client` in a separate process, which the attackers' interpreter cannot slow down, and collects its output."""

    def __init__(self, server):
        super().__init__(daemon=True)
        command = [sys.executable, __file__, "--honest", f"mongodb://{server.address}/", str(server.process.pid)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.waits = []

    def run(self):
        for line in self.process.stdout:
            # The last line may be incomplete when the process was killed.
            if not line.endswith("\n"):
                break
            took, at = line.split()
            self.waits.append((float(took), float(at)))

    def stop(self):
        """Why the process had already ended; None when it had not."""
        ended = self.process.poll()
        self.process.kill()
        failed = self.process.stderr.read()[-500:]
        self.process.wait()
        self.join(10)
        return f"status {ended}: {failed}" if ended is not None else None


def outcome(db, command):
    try:
        reply = db.command(command)
        cursor = reply.get("cursor", {}).get("id", 0)
        if cursor:
            db.command({"killCursors": next(iter(command.values())) if isinstance(next(iter(command.values())), str) else "$cmd.aggregate", "cursors": [cursor]})
        for e in reply.get("writeErrors", []):
            return e["code"], e["errmsg"]
        return OK, ""
    except (OperationFailure, WriteError) as e:
        return e.code, str(e.details.get("errmsg", e) if e.details else e)
    except DocumentTooLarge as e:
        sys.exit(f"a case is too large to be sent: {e}")
    except ConnectionFailure as e:
        return "connection", str(e)


def memory(db):
    """The server's report on the memory of its operations."""
    return db.client.admin.command("serverStatus")["quarry"]["operationsMemory"]


def resident(server, db):
    """Resident memory without the engine's caches and memtables; and the size of these."""
    engine = db.client.admin.command("serverStatus")["quarry"]["engine"]
    cache = engine["block_cache_usage_bytes"] / (1 << 20)
    return server.memory_mib("VmRSS") - cache, cache


def given_back(db, what):
    """Waits until no memory is charged to operations any more, except those left open on purpose."""
    end = time.monotonic() + 10
    while memory(db)["usedBytes"] > 0:
        check(time.monotonic() < end, f"{what}: {memory(db)} although nothing runs and no cursor is open")
        time.sleep(0.05)


def attacks(server, db):
    """Many connections and cursors at once. Returns the errors."""
    wide = {"find": "wide", "batchSize": 0}
    sorted_rows = {"aggregate": "c", "pipeline": [memory_cases.padded(1 << 16), {"$sort": {"pad": 1, "n": -1}}], "cursor": {"batchSize": 1}}
    group = {"aggregate": "wide", "pipeline": [{"$group": {"_id": None, "all": {"$push": {"$substrBytes": ["$s", 0, 150_000]}}}}, {"$project": {"n": {"$size": "$all"}}}], "cursor": {}}
    wrong = []

    def step(name, run):
        reset_peak(server)
        began, refused = time.monotonic(), memory(db)["refused"]
        told = run()
        used = memory(db)
        say(f"{name:48} {time.monotonic() - began:7.2f} s {server.memory_mib():6.0f} MiB, charged {used['usedBytes'] >> 20} MiB, refused {used['refused'] - refused}: {told}")
        return server.memory_mib()

    def half():
        sockets = memory_cases.half_messages(server)
        if memory(db)["usedBytes"] < 10 << 20:
            wrong.append("half messages are not charged")
        for s in sockets:
            s.close()
        given_back(db, "half messages")
        return len(sockets)

    def bombs():
        sockets = memory_cases.compressed_bombs(server)
        time.sleep(3)
        for s in sockets:
            s.close()
        given_back(db, "compressed messages")
        return len(sockets)

    def unread():
        cursors = [memory_cases.call(server, {**wide, "$db": "hostile"})["cursor"]["id"] for _ in range(40)]
        sockets = memory_cases.unread_replies(server, cursors)
        time.sleep(3)
        charged = memory(db)["usedBytes"]
        if charged < 10 << 20:
            wrong.append(f"replies nobody reads are charged {charged} bytes only")
        for s in sockets:
            s.close()
        for c in cursors:
            memory_cases.call(server, {"killCursors": "wide", "cursors": [c], "$db": "hostile"})
        given_back(db, "replies nobody reads")
        return f"{len(cursors)} cursors, {charged >> 20} MiB charged"

    def sorts():
        cursors, code = memory_cases.open_cursors(db, sorted_rows, 40)
        charged = memory(db)["usedBytes"]
        if charged < 30 << 20:
            wrong.append(f"{len(cursors)} cursors over sorted rows hold {charged} bytes only")
        # When all memory is in use, small batches are still served; large ones only after some memory was released.
        first, last = cursors[0], cursors[-1]
        if len(db.command({"getMore": first, "collection": "c", "batchSize": 1})["cursor"]["nextBatch"]) != 1:
            wrong.append("a small batch of the first cursor is missing")
        db.command({"killCursors": "c", "cursors": [last, cursors[-2]]})
        got = db.command({"getMore": first, "collection": "c", "batchSize": 1000})
        if len(got["cursor"]["nextBatch"]) < 200:
            wrong.append(f"the first cursor gave {len(got['cursor']['nextBatch'])} documents")
        db.command({"killCursors": "c", "cursors": cursors})
        given_back(db, "cursors over sorted rows")
        return f"{len(cursors)} cursors, then {code}, {charged >> 20} MiB charged"

    def together():
        outcomes = memory_cases.at_once(server, [group] * 6)
        if OK not in outcomes:
            wrong.append(f"of six at once none completed: {outcomes}")
        if any(o not in (OK, 146) for o in outcomes):
            wrong.append(f"six at once: {outcomes}")
        given_back(db, "six at once")
        return outcomes

    steps = [("half messages", half), ("compressed messages", bombs), ("replies nobody reads", unread), ("cursors over sorts", sorts), ("six at once", together)]
    peak = max(step(f"attack: {name}", run) for name, run in steps)
    return wrong, peak


def reset_peak(server):
    with open(f"/proc/{server.process.pid}/clear_refs", "w") as f:
        f.write("5")


def main(part):
    bad = []
    with Scratch() as scratch:
        server = scratch.server("data", "--memory", f"{MEMORY_MB}M", "--standalone").start()
        db = server.client(socketTimeoutMS=120_000).hostile
        fill(db)
        for name in ["c", "big", "long", "wide"]:
            db[name].aggregate([{"$group": {"_id": None, "n": {"$sum": {"$bsonSize": "$$ROOT"}}}}])
        time.sleep(IDLE_S)
        idle, cache = resident(server, db)
        say(f"resident before: {idle:.0f} MiB and {cache:.0f} MiB of cache; {memory(db)}")
        honest = Honest(server)
        honest.start()
        peak = 0.0
        ran = 0
        for name, command, allowed, most_s in cases():
            if part not in name:
                continue
            ran += 1
            reset_peak(server)
            before = server.queued_s()
            began = time.monotonic()
            code, message = outcome(db, command)
            took = time.monotonic() - began
            queued = 0.0
            if server.alive():
                queued = max((s - before.get(thread, 0.0) for thread, s in server.queued_s().items()), default=0.0)
            mib = server.memory_mib()
            peak = max(peak, mib)
            worst = max((w for w, at in honest.waits if at >= began), default=0.0)
            verdict = []
            if mib > RSS_MB_MAX:
                verdict.append(f"more than {RSS_MB_MAX} MiB")
            if code not in allowed:
                verdict.append(f"outcome {code} is none of {sorted(map(str, allowed))}")
            if took - queued > most_s:
                verdict.append(f"more than {most_s} s")
            if not server.alive():
                verdict.append("the server is gone")
            say(f"{name:48} {code!s:>8} {took:7.2f} s ({queued:5.2f} queued) {mib:6.0f} MiB, honest find at most {worst * 1000:6.1f} ms {'; '.join(verdict)} {message[:90]}")
            bad += [f"{name}: {v}" for v in verdict]
            if server.alive():
                given_back(db, name)
            if not server.alive():
                break
        if server.alive() and part in "attacks":
            wrong, most_mib = attacks(server, db)
            bad += wrong
            peak = max(peak, most_mib)
        failed = honest.stop()
        waits = sorted(w for w, _ in honest.waits)
        check(failed is None, f"the honest client: {failed}")
        p99, most = waits[len(waits) * 99 // 100], waits[-1]
        say(f"{ran} hostile queries; {len(waits)} honest finds, p99 {p99 * 1000:.1f} ms, at most {most * 1000:.1f} ms; peak {peak:.0f} MiB")
        if server.alive():
            given_back(db, "at the end")
            time.sleep(IDLE_S)
            now, cache = resident(server, db)
            say(f"resident {IDLE_S} s after the last: {now:.0f} MiB and {cache:.0f} MiB of cache, before the first: {idle:.0f} MiB; {memory(db)}")
            if now > idle + RSS_MB_KEPT_MAX:
                bad.append(f"{now:.0f} MiB stay resident, {idle:.0f} and {RSS_MB_KEPT_MAX} are allowed")
        check(not bad, "\n" + "\n".join(bad))
        check(p99 <= LATENCY_S_P99, f"an honest find waited {p99:.3f} s at the 99th percentile, {LATENCY_S_P99} s are allowed")
        check(most <= LATENCY_S_MAX, f"an honest find waited {most:.3f} s, {LATENCY_S_MAX} s are allowed")
        check(peak <= RSS_MB_MAX, f"{peak:.0f} MiB resident, {RSS_MB_MAX} are allowed")
        server.stop()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--honest"]:
        honest_client(sys.argv[2], int(sys.argv[3]))
    main(sys.argv[1] if len(sys.argv) > 1 else "")
