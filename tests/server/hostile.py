"""Hostile frames against the real server, while the longest wait of an honest client is measured.

Four processes send random bytes, mutated commands, wrong lengths, truncated frames, decompression bombs, deep documents; a fifth holds many
connections open with half a frame each. Usage: hostile.py FRAMES
"""

import multiprocessing
import random
import socket
import struct
import sys
import time
import zlib

from bson import encode

from harness import SEED, Scratch, check, say

ATTACKERS = 4
IDLERS = 500
MEMORY_MB = 512
# Longest wait of an honest request while it shares two cores with the attackers.
LATENCY_S_MAX = 2.0

OP_MSG, OP_COMPRESSED, OP_QUERY = 2013, 2012, 2004


def header(length, op, request=1):
    return struct.pack("<iiii", length, request, 0, op)


def op_msg(command, flags=0, sections=b""):
    body = struct.pack("<I", flags) + b"\0" + (command if isinstance(command, bytes) else encode(command)) + sections
    return header(16 + len(body), OP_MSG) + body


def sequence(name, documents):
    data = name.encode() + b"\0" + b"".join(encode(d) for d in documents)
    return b"\1" + struct.pack("<i", 4 + len(data)) + data


def compressed(compressor, data, declared, op=OP_MSG):
    body = struct.pack("<iiB", op, declared, compressor) + data
    return header(16 + len(body), OP_COMPRESSED) + body


def zstd_zeros(size):
    """A zstd frame of run-length blocks: 4 bytes for every 128 kB."""
    out = struct.pack("<I", 0xFD2FB528) + bytes([0b10100000]) + struct.pack("<I", size)
    left = size
    while left > 0:
        run = min(left, 128 << 10)
        left -= run
        out += struct.pack("<I", run << 3 | 1 << 1 | (left == 0))[:3] + b"\0"
    return out


def nested(depth, kind):
    """Nested documents or arrays, built by hand because the library refuses to."""
    doc = b"\x05\0\0\0\0"
    name = b"0\0" if kind == 4 else b"a\0"
    head = bytes([kind]) + name
    size = 5 + depth * (5 + len(head))
    levels = (struct.pack("<i", size - level * (5 + len(head))) + head for level in range(depth))
    return b"".join(levels) + doc + b"\0" * depth


def wrap(name, inner):
    """A command whose argument is the given raw document."""
    fields = b"\x02" + name.encode() + b"\0\2\0\0\0x\0" + b"\x03filter\0" + inner + b"\x02$db\0\4\0\0\0bad\0"
    return struct.pack("<i", 4 + len(fields) + 1) + fields + b"\0"


COMMANDS = [
    {"hello": 1},
    {"ping": 1},
    {"find": "x", "filter": {"a": {"$gt": 5, "$in": [1, 2, 3]}, "$or": [{"b": 1}, {"c": {"$regex": "^a.*b"}}]}, "sort": {"a": -1}, "limit": 5},
    {"find": "x", "filter": {"$expr": {"$gt": [{"$add": ["$a", 1]}, 3]}}, "projection": {"a": 1, "s": {"$slice": ["$t", 2]}}, "batchSize": 2},
    {"insert": "x", "documents": [{"_id": 1, "a": 5}, {"a": [1, 2, {"b": None}]}], "ordered": False},
    {"update": "x", "updates": [{"q": {"a": 5}, "u": {"$set": {"b.c": 1}, "$push": {"t": {"$each": [1], "$slice": -5}}}, "upsert": True, "multi": False}]},
    {"delete": "x", "deletes": [{"q": {"a": {"$lt": 0}}, "limit": 1}]},
    {"findAndModify": "x", "query": {"a": 5}, "update": {"$inc": {"n": 1}}, "new": True, "upsert": True},
    {"aggregate": "x", "pipeline": [{"$match": {"a": 5}}, {"$unwind": "$t"}, {"$group": {"_id": "$a", "n": {"$sum": 1}}}, {"$sort": {"n": 1}}], "cursor": {"batchSize": 3}},
    {"aggregate": "x", "pipeline": [{"$lookup": {"from": "y", "localField": "a", "foreignField": "b", "as": "z"}}, {"$project": {"z": {"$map": {"input": "$z", "in": "$$this.a"}}}}], "cursor": {}},
    {"createIndexes": "x", "indexes": [{"key": {"a": 1, "b": -1}, "name": "a_1_b_-1", "partialFilterExpression": {"a": {"$gt": 3}}}]},
    {"count": "x", "query": {"a": 5}},
    {"distinct": "x", "key": "a", "query": {}},
    {"getMore": 123456789, "collection": "x"},
    {"killCursors": "x", "cursors": [1, 2]},
    {"listCollections": 1, "filter": {"name": "x"}},
    {"listIndexes": "x"},
    {"create": "y", "validator": {"$jsonSchema": {"bsonType": "object", "required": ["a"], "properties": {"a": {"bsonType": "int"}}}}},
    {"explain": {"find": "x", "filter": {"a": 1}}, "verbosity": "executionStats"},
    {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=a,r=b"},
    {"endSessions": []},
    {"validate": "x"},
    {"collStats": "x"},
    {"serverStatus": 1},
    {"drop": "x"},
]


def corpus():
    plain = [op_msg({**command, "$db": "bad"}) for command in COMMANDS]
    plain.append(op_msg({"insert": "x", "$db": "bad"}, sections=sequence("documents", [{"_id": n} for n in range(20)])))
    plain.append(op_msg({"insert": "x", "$db": "bad", "writeConcern": {"w": 0}}, flags=2, sections=sequence("documents", [{"a": 1}])))
    query = struct.pack("<i", 0) + b"admin.$cmd\0" + struct.pack("<ii", 0, -1) + encode({"hello": 1})
    plain.append(header(16 + len(query), OP_QUERY) + query)
    special = []
    for size in (30_000_000, 47_999_000, 2_000_000_000):
        special.append(compressed(3, zstd_zeros(min(size, 200_000_000)), size))
        special.append(compressed(3, zstd_zeros(30_000_000), 1000))
    zeros = zlib.compress(bytes(47_000_000), 1)
    special += [compressed(2, zeros, 47_000_000), compressed(2, zeros, 100), compressed(2, zeros, -1), compressed(2, zeros[:1000], 47_000_000)]
    special += [compressed(1, b"\x80\xc3\xe4\x0d\0\0", 30_000_000), compressed(1, b"\xff\xff\xff\xff\xff\xff", 5), compressed(77, b"abc", 3)]
    inner = plain[1][16:]
    special.append(compressed(2, zlib.compress(inner), len(inner)))
    special.append(compressed(2, zlib.compress(compressed(2, zeros, 47_000_000)[16:]), 1 << 16, OP_COMPRESSED))
    for depth in (50, 99, 150, 181, 250, 1000, 100_000, 1_000_000):
        for kind in (3, 4):
            special.append(op_msg(wrap("find", nested(depth, kind))))
    deep = {"a": 1}
    for _ in range(80):
        deep = {"$and": [deep, {"$nor": [{"b": 1}]}]}
    special.append(op_msg({"find": "x", "filter": deep, "$db": "bad"}))
    special.append(op_msg({"find": "x", "filter": {"a": {"$regex": "(a+)+" * 50 + "$"}}, "$db": "bad"}))
    special.append(op_msg({"find": "x", "filter": {"a": {"$in": list(range(100_000))}}, "$db": "bad"}))
    special.append(op_msg({"aggregate": "x", "pipeline": [{"$limit": 1}] * 1500, "cursor": {}, "$db": "bad"}))
    for length in (0, 1, 15, 16, 17, -1, -(1 << 31), (1 << 31) - 1, 48_000_000, 48_000_001):
        special.append(header(length, OP_MSG) + plain[1][16:])
        special.append(header(length, OP_COMPRESSED) + plain[1][16:])
    return plain, special


def mutate(frame, rng):
    frame = bytearray(frame)
    kind = rng.randrange(8)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 400))
    if kind == 1:
        return bytes(frame[: rng.randrange(len(frame))])
    if kind == 2:
        # A length inside the frame: of a document, a string or a section.
        at = rng.randrange(16, max(17, len(frame) - 4))
        frame[at : at + 4] = struct.pack("<i", rng.choice([0, -1, 1, 4, 5, 1 << 30, (1 << 31) - 1, -(1 << 31), len(frame)]))
        return bytes(frame)
    if kind == 3:
        at = rng.randrange(20, len(frame))
        piece = frame[at : at + rng.randrange(1, 40)]
        frame[at:at] = piece
        struct.pack_into("<i", frame, 0, len(frame))
        return bytes(frame)
    for _ in range(rng.randrange(1, 5)):
        frame[rng.randrange(4, len(frame))] = rng.randrange(256)
    return bytes(frame)


def drain(connection, seconds):
    """Reads until the server closes the connection or the time is over; returns whether it closed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        connection.settimeout(max(0.001, until - time.monotonic()))
        try:
            if not connection.recv(1 << 16):
                return True
        except TimeoutError:
            return False
        except OSError:
            return True
    return False


def attack(port, seed, frames, out):
    rng = random.Random(seed)
    plain, special = corpus()
    sent = open_ = big = 0
    while sent < frames:
        connection = socket.create_connection(("127.0.0.1", port), timeout=10)
        try:
            for _ in range(rng.randrange(1, 12)):
                if rng.random() < 0.06:
                    frame = rng.choice(special)
                    big += 1
                else:
                    frame = mutate(rng.choice(plain), rng)
                sent += 1
                connection.sendall(frame)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        # The server closes a connection whose client has closed its sending side; connections that stay open longer are counted.
        open_ += not drain(connection, 3.0)
        connection.close()
    out.put((sent, big, open_))


def idle(port, count, ready, done):
    """Connections that send half a frame and then nothing."""
    held = []
    frame = op_msg({"ping": 1, "$db": "admin"})
    for n in range(count):
        connection = socket.create_connection(("127.0.0.1", port), timeout=10)
        connection.sendall(frame[: n % len(frame)])
        held.append(connection)
    ready.set()
    done.wait()


def honest(client, running):
    """Sends a client's requests while `running` returns true; notes their latencies in seconds."""
    items = client["good"]["items"]
    latencies = []
    n = 0
    while running():
        began = time.perf_counter()
        items.insert_one({"_id": n, "g": n % 10})
        found = items.find_one({"_id": n})
        check(found == {"_id": n, "g": n % 10}, f"the honest client read {found}")
        latencies.append((time.perf_counter() - began) / 2)
        n += 1
        time.sleep(0.002)
    check(items.estimated_document_count() == n, "the honest client's documents are not all there")
    return sorted(latencies)


def main(frames):
    context = multiprocessing.get_context("spawn")
    with Scratch() as scratch:
        server = scratch.server("data", "--memory", f"{MEMORY_MB}M").start()
        before = server.memory_mib()
        out, ready, done = context.Queue(), context.Event(), context.Event()
        holder = context.Process(target=idle, args=(server.port, IDLERS, ready, done), daemon=True)
        holder.start()
        check(ready.wait(60), "many connections were not accepted")
        with server.client() as client:
            began = time.monotonic()
            share = frames // ATTACKERS
            attackers = [context.Process(target=attack, args=(server.port, f"{SEED}/{n}", share, out), daemon=True) for n in range(ATTACKERS)]
            for attacker in attackers:
                attacker.start()
            latencies = honest(client, lambda: any(a.is_alive() for a in attackers))
            took = time.monotonic() - began
        check(all(a.exitcode == 0 for a in attackers), "an attacker could not connect")
        results = [out.get(timeout=5) for _ in attackers]
        sent, big, open_ = (sum(column) for column in zip(*results))
        done.set()
        holder.join()
        check(server.alive(), f"the server ended: {server.output()[-2000:]}")
        check("panicked" not in server.output(), f"a panic: {server.output()[-2000:]}")
        peak = server.memory_mib()
        with server.client() as client:
            check(client.admin.command("ping")["ok"] == 1.0, "no answer afterwards")
            connections = client.admin.command("serverStatus")["connections"]["current"]
        server.stop()
    p99 = latencies[len(latencies) * 99 // 100]
    text = (
        f"{sent} frames ({big} bombs, deep documents and wrong lengths) in {took:.1f} s beside {IDLERS} half-open requests; honest client: "
        f"{len(latencies)} pairs of requests, median {latencies[len(latencies) // 2] * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms, longest {latencies[-1] * 1000:.0f} ms; "
        f"VmHWM {before:.0f} to {peak:.0f} MiB of {MEMORY_MB}; {open_} connections not closed within 3 s; {connections} connections left; seed {SEED}"
    )
    check(peak <= MEMORY_MB, f"memory is not bounded: {text}")
    check(latencies[-1] <= LATENCY_S_MAX, f"an honest client waits too long: {text}")
    check(open_ == 0, f"connections stay open: {text}")
    say(f"hostile: {text}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
