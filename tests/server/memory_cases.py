"""Hostile requests against the memory bound: for every family of stages, expressions and writes that builds values, one that needs far more
than the bound; and attacks with many connections at once. Knows nothing about how the results are judged.
"""

import socket
import struct
import threading
import zlib

from bson import decode, encode
from pymongo.errors import PyMongoError

OK = "ok"
# Codes for results that are too large: memory limit, document size, size of a string under construction.
TOO_LARGE = {146, 10334, 17280, 13548, 16493, 17419, 4031700}
MB = 1 << 20


def on(collection, *stages, **more):
    return {"aggregate": collection, "pipeline": list(stages), "cursor": {}, **more}


def size(e):
    """An expression that is computed and whose value is dropped."""
    return {"$project": {"n": {"$cond": [{"$eq": [e, -1]}, 1, 0]}}}


def times(n, name, e):
    return {name: [e] * n}


def padded(n):
    """Strings of `n` bytes for the small documents of `c`."""
    return {"$set": {"pad": {"$reduce": {"input": {"$range": [0, n.bit_length() - 1]}, "initialValue": "x", "in": {"$concat": ["$$value", "$$value"]}}}}}


def keyed(n):
    """An object of `n` fields."""
    return {"$arrayToObject": {"$map": {"input": {"$range": [0, n]}, "in": {"k": {"$toString": "$$this"}, "v": "0123456789abcdef"}}}}


def expressions():
    yield "memory: $concat of 10 MB", on("big", size(times(12, "$concat", "$s"))), TOO_LARGE, 10
    yield "memory: $concatArrays of a million", on("long", size(times(20, "$concatArrays", "$a"))), TOO_LARGE, 20
    yield "memory: $map to documents", on("long", size({"$map": {"input": "$a", "in": {"a": "$$this", "b": "x" * 200}}})), TOO_LARGE, 20
    yield "memory: $map to strings", on("c", size({"$map": {"input": {"$range": [0, 1000]}, "in": padded(1 << 18)["$set"]["pad"]}})), TOO_LARGE, 20
    yield "memory: $filter of a million", on("long", size({"$filter": {"input": times(20, "$concatArrays", "$a"), "cond": True}})), TOO_LARGE, 20
    yield "memory: $reduce of objects", on("c", size({"$reduce": {"input": {"$range": [0, 64]}, "initialValue": {}, "in": {"l": "$$value", "r": "$$value"}}})), TOO_LARGE | {15}, 20
    yield "memory: $range of ranges", on("c", size([{"$range": [0, 2_000_000]}] * 40)), TOO_LARGE, 20
    yield "memory: $zip of long arrays", on("long", size({"$zip": {"inputs": ["$a"] * 20}})), TOO_LARGE, 20
    yield "memory: $setUnion of ranges", on("c", size({"$setUnion": [{"$range": [n * 3_000_000, (n + 1) * 3_000_000]} for n in range(5)]})), TOO_LARGE | {OK}, 60
    yield "memory: $setIntersection", on("long", size({"$setIntersection": [times(8, "$concatArrays", "$a")] * 3})), TOO_LARGE | {OK}, 30
    yield "memory: $mergeObjects of many fields", on("c", {"$limit": 1}, size({"$mergeObjects": [keyed(20_000)] * 3})), TOO_LARGE | {OK}, 60
    yield "memory: $objectToArray", on("c", {"$limit": 1}, size(times(20, "$concatArrays", {"$objectToArray": keyed(200_000)}))), TOO_LARGE, 60
    yield "memory: $arrayToObject", on("c", {"$limit": 1}, size([keyed(500_000)] * 8)), TOO_LARGE, 60
    yield "memory: $regexFindAll", on("wide", size({"$regexFindAll": {"input": "$s", "regex": "y"}})), TOO_LARGE | {51151}, 30
    yield "memory: $split of 10 MB", on("big", size(times(3, "$concatArrays", {"$split": ["$s", "x"]}))), TOO_LARGE, 30
    yield "memory: $replaceAll of 10 MB", on("big", size({"$replaceAll": {"input": "$s", "find": "x", "replacement": "y" * 100}})), TOO_LARGE, 30
    yield "memory: $sortArray", on("long", size({"$sortArray": {"input": times(15, "$concatArrays", "$a"), "sortBy": -1}})), TOO_LARGE | {OK}, 30
    yield "memory: $reverseArray", on("long", size(times(15, "$concatArrays", {"$reverseArray": "$a"}))), TOO_LARGE, 30
    yield "memory: $toString and $toUpper", on("big", size([{"$toUpper": "$s"}] * 30)), TOO_LARGE, 30
    yield "memory: $setField", on("big", size([{"$setField": {"field": "t", "input": "$$ROOT", "value": "$s"}}] * 20)), TOO_LARGE, 30
    yield "memory: $let of large values", on("big", size({"$let": {"vars": {f"v{n}": {"$concat": ["$s", "$s"]} for n in range(20)}, "in": "$$v1"}})), TOO_LARGE, 30
    yield "memory: $set grows documents", on("big", *[{"$set": {f"s{n}": "$s"}} for n in range(60)], {"$project": {"_id": 1}}), TOO_LARGE | {OK}, 30


def stages():
    wide, root = "wide", "$$ROOT"
    for name in ["$push", "$addToSet"]:
        yield f"memory: {name} of everything", on(wide, {"$group": {"_id": None, "all": {name: root}}}), TOO_LARGE, 60
    for name, spec in [
        ("$firstN", {"input": root, "n": 100_000}),
        ("$maxN", {"input": root, "n": 100_000}),
        ("$topN", {"output": root, "sortBy": {"_id": 1}, "n": 100_000}),
        ("$concatArrays", [root]),
        ("$setUnion", [root]),
    ]:
        spec = {"$map": {"input": spec, "in": "$$this"}} if isinstance(spec, list) else spec
        yield f"memory: {name} in $group", on(wide, {"$group": {"_id": None, "all": {name: spec}}}), TOO_LARGE, 60
    yield "memory: $mergeObjects in $group", on(wide, {"$group": {"_id": None, "all": {"$mergeObjects": {"$arrayToObject": [[{"k": {"$toString": "$_id"}, "v": "$s"}]]}}}}), TOO_LARGE, 60
    yield "memory: $group on long values", on(wide, {"$group": {"_id": "$$ROOT", "n": {"$sum": 1}}}, {"$count": "n"}), {OK} | TOO_LARGE, 60
    yield "memory: many groups, spilled", on("long", {"$unwind": "$a"}, {"$group": {"_id": "$a", "n": {"$sum": 1}}}, {"$count": "n"}), {OK}, 90
    yield "memory: many groups, not spilled", on("long", {"$unwind": "$a"}, {"$group": {"_id": {"a": "$a", "b": "x" * 100}, "n": {"$sum": 1}}}, allowDiskUse=False), {292, 146}, 90
    yield "memory: $sort, spilled", on(wide, {"$sort": {"s": 1, "_id": -1}}, {"$project": {"_id": 1}}), {OK}, 60
    yield "memory: $sort, not spilled", on(wide, {"$set": {"t": "$s"}}, {"$sort": {"t": 1}}, allowDiskUse=False), {292, 146}, 60
    yield "memory: find sorts, not spilled", {"find": wide, "sort": {"s": 1}, "allowDiskUse": False}, {292, 146}, 60
    yield "memory: $sort with a limit", on(wide, {"$sort": {"s": 1, "_id": -1}}, {"$limit": 140}, {"$project": {"_id": 1}}), {OK} | TOO_LARGE, 60
    yield "memory: $setWindowFields $push", on(wide, {"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"all": {"$push": "$s"}}}}), {292, 146}, 60
    yield "memory: windows of $push", on("c", padded(1 << 15), {"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"all": {"$push": "$pad", "window": {"documents": ["unbounded", "current"]}}}}}), {292, 146}, 60
    yield "memory: $shift and $locf", on("c", padded(1 << 17), {"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"a": {"$shift": {"output": "$pad", "by": 1}}, "b": {"$locf": "$pad"}}}}), {292, 146, OK}, 60
    yield "memory: $facet of everything", on(wide, {"$facet": {f"f{n}": [{"$group": {"_id": None, "all": {"$push": "$s"}}}] for n in range(10)}}), TOO_LARGE, 60
    yield "memory: $bucketAuto keeps all", on(wide, {"$bucketAuto": {"groupBy": "$_id", "buckets": 1, "output": {"all": {"$push": root}}}}), TOO_LARGE, 60
    yield "memory: $bucket keeps all", on(wide, {"$bucket": {"groupBy": "$_id", "boundaries": [0, 1000], "output": {"all": {"$push": root}}}}), TOO_LARGE, 60
    yield "memory: $densify of 499,000", on("c", {"$densify": {"field": "n", "range": {"step": 0.001, "bounds": "full"}}}, {"$count": "n"}), {OK}, 90
    yield "memory: $fill of 24,950", on("c", {"$densify": {"field": "n", "range": {"step": 0.02, "bounds": "full"}}}, {"$fill": {"sortBy": {"n": 1}, "output": {"m": {"method": "linear"}, "s": {"method": "locf"}}}}, {"$count": "n"}), {OK, 292, 146}, 120
    yield "memory: $lookup of everything", on("c", {"$lookup": {"from": wide, "pipeline": [], "as": "all"}}), TOO_LARGE, 60
    yield "memory: $lookup by field", on("c", {"$set": {"one": 1}}, {"$lookup": {"from": "c", "localField": "none", "foreignField": "none", "as": "x"}}, {"$lookup": {"from": "c", "localField": "none", "foreignField": "none", "as": "y"}}, {"$group": {"_id": None, "all": {"$push": "$$ROOT"}}}), TOO_LARGE, 60
    yield "memory: $lookup of $lookup", on("c", {"$lookup": {"from": "c", "pipeline": [{"$lookup": {"from": "c", "pipeline": [], "as": "y"}}], "as": "x"}}), TOO_LARGE, 60
    yield "memory: $graphLookup", on("c", {"$graphLookup": {"from": wide, "startWith": {"$range": [0, 200]}, "connectFromField": "_id", "connectToField": "_id", "as": "all"}}), TOO_LARGE | {40099}, 60
    yield "memory: $unionWith and $group", on(wide, *[{"$unionWith": wide}] * 5, {"$group": {"_id": None, "all": {"$push": "$s"}}}), TOO_LARGE, 60
    yield "memory: $unionWith and $sort", on(wide, {"$unionWith": wide}, {"$sort": {"s": 1, "_id": 1}}, {"$project": {"_id": 1}}), {OK}, 90
    yield "memory: $unwind of wide documents", on("long", {"$set": {"pad": padded(1 << 20)["$set"]["pad"]}}, {"$unwind": "$a"}, {"$limit": 3000}, {"$project": {"_id": 1}}), {OK}, 60
    yield "memory: $redact and $replaceRoot", on(wide, {"$replaceRoot": {"newRoot": {"a": root, "b": root, "c": root}}}, {"$redact": "$$DESCEND"}, {"$project": {"_id": 1}}), {OK}, 60
    yield "memory: $documents", {"aggregate": 1, "pipeline": [{"$documents": {"$map": {"input": {"$range": [0, 3_000_000]}, "in": {"a": "$$this", "b": "x" * 30}}}}], "cursor": {}}, TOO_LARGE, 60
    yield "memory: $sample", on(wide, {"$sample": {"size": 1000}}, {"$group": {"_id": None, "all": {"$push": root}}}), TOO_LARGE, 60
    yield "memory: $out of everything", on(wide, {"$set": {"t": 1}}, {"$out": "copied"}), {OK}, 90
    yield "memory: $merge of everything", on(wide, {"$merge": "copied"}), {OK}, 90
    yield "memory: distinct of long values", {"distinct": wide, "key": "s"}, {OK, 17217}, 30
    yield "memory: distinct of everything", {"distinct": "copied", "key": ""}, {OK, 17217, 146}, 30
    yield "memory: distinct of many", {"distinct": "long", "key": "a"}, {17217, OK}, 30


def writes():
    deep = {"x": 1}
    for _ in range(60):
        deep = {"a": [deep]}
    one = lambda change, **more: {"update": "scratch", "updates": [{"q": {"_id": 1}, "u": change, "upsert": True, **more}]}  # noqa: E731
    yield "memory: update with nested arrays", one({"$push": {"t": {"$each": [deep] * 10_000}}}), {OK} | TOO_LARGE, 30
    yield "memory: update pipeline grows", one([{"$set": {"s": {"$reduce": {"input": {"$range": [0, 30]}, "initialValue": "xxxxxxxx", "in": {"$concat": ["$$value", "$$value"]}}}}}]), TOO_LARGE, 30
    yield "memory: update $addToSet of arrays", one({"$addToSet": {"set": {"$each": [[n] * 20 for n in range(50_000)]}}}), {OK} | TOO_LARGE, 60
    yield "memory: multi update of wide", {"update": "copied", "updates": [{"q": {}, "u": [{"$set": {"u": {"$concat": ["$s", "$s", "$s"]}}}], "multi": True}]}, {OK} | TOO_LARGE, 90
    yield "memory: findAndModify grows", {"findAndModify": "big", "query": {}, "update": [{"$set": {"t": "$s", "u": "$s"}}], "new": True}, TOO_LARGE, 30
    yield "memory: findAndModify sorts", {"findAndModify": "wide", "query": {}, "sort": {"s": 1}, "update": {"$set": {"k": 1}}}, {OK, 292, 146}, 30
    yield "memory: insert of 40 MB", {"insert": "scratch", "documents": [{"s": "z" * 1_000_000} for _ in range(15)]}, {OK}, 30
    yield "memory: delete of wide", {"delete": "copied", "deletes": [{"q": {"s": {"$gt": ""}}, "limit": 0}]}, {OK}, 60


def cases():
    yield from expressions()
    yield from stages()
    yield from writes()


def header(length, op, request=7):
    return struct.pack("<iiii", length, request, 0, op)


def message(command):
    body = struct.pack("<I", 0) + b"\0" + encode(command)
    return header(16 + len(body), 2013) + body


def connect(server):
    host, port = server.address.rsplit(":", 1)
    s = socket.create_connection((host, int(port)), timeout=60)
    return s


def call(server, command):
    """One command on a connection of its own, without a session."""
    with connect(server) as s:
        s.sendall(message(command))
        got = b""
        while len(got) < 4 or len(got) < struct.unpack("<i", got[:4])[0]:
            more = s.recv(1 << 20)
            if not more:
                raise ConnectionError("the server closed the connection")
            got += more
        return decode(got[21:])


def half_messages(server, connections=40, declared=48_000_000, sent=24 * MB):
    """Connections that each send half of a large message and stop. Returns the sockets."""
    start = struct.pack("<I", 0) + b"\0" + struct.pack("<i", declared - 30) + b"\2insert\0\2\0\0\0x\0"
    block = bytes(MB)
    sockets = []
    for _ in range(connections):
        s = connect(server)
        sockets.append(s)
        try:
            s.sendall(header(declared, 2013) + start)
            for _ in range(sent // MB):
                s.sendall(block)
        except OSError:
            pass
    return sockets


def compressed_bombs(server, connections=20):
    """Small messages that expand to 47 MB each, sent at once, each on its own connection. Returns the sockets."""
    zeros = zlib.compress(bytes(47_000_000), 9)
    frame = header(16 + 9 + len(zeros), 2012) + struct.pack("<iiB", 2013, 47_000_000, 2) + zeros
    sockets = [connect(server) for _ in range(connections)]
    for s in sockets:
        try:
            s.sendall(frame * 3)
        except OSError:
            pass
    return sockets


def unread_replies(server, cursors, connections=40):
    """Requests a batch of 16 MB on each connection and reads none of them. Returns the sockets."""
    sockets = []
    for cursor in cursors[:connections]:
        s = connect(server)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.sendall(message({"getMore": cursor, "collection": "wide", "$db": "hostile"}))
        sockets.append(s)
    return sockets


def open_cursors(db, command, n):
    """Opens cursors until there are `n` or one is refused; returns their ids, and the code of the refusal."""
    ids = []
    for _ in range(n):
        try:
            ids.append(db.command(command)["cursor"]["id"])
        except PyMongoError as e:
            return ids, getattr(e, "code", str(e))
    return ids, None


def at_once(server, commands):
    """Runs commands at the same time, each on its own client; returns their outcomes."""
    outcomes = [None] * len(commands)

    def run(i, command):
        with server.client(socketTimeoutMS=120_000) as client:
            try:
                client.hostile.command(command)
                outcomes[i] = OK
            except PyMongoError as e:
                outcomes[i] = getattr(e, "code", None) or repr(e)

    threads = [threading.Thread(target=run, args=(i, c)) for i, c in enumerate(commands)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return outcomes
