"""A full disk: writes fail with one clean error, the server stays up and serves reads; when there is space again it accepts writes; nothing
is lost.

Needs the right to mount; otherwise the test prints that it is skipped. Usage: full_disk.py
"""

import os
import subprocess
import time

from pymongo import WriteConcern
from pymongo.errors import OperationFailure

from harness import Scratch, check, fail, say, verify_collection

OUT_OF_DISK_SPACE = 14031
DISK_MB = 300
# Writes must succeed within this time after space was freed.
RECOVERY_S_MAX = 30.0


def mount(path):
    os.mkdir(path)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "quarry-test", path], capture_output=True)
    return done.returncode == 0


def refused(operation):
    """The error of an operation that must fail because the disk is full."""
    try:
        operation()
    except OperationFailure as error:
        details = error.details or {}
        codes = [error.code] + [e["code"] for e in details.get("writeErrors", [])]
        check(OUT_OF_DISK_SPACE in codes, f"the error of a full disk is {details}")
        return details.get("errmsg") or details["writeErrors"][0]["errmsg"]
    return None


def insert_until_refused(items, acknowledged, start):
    for n in range(start, start + 20000):
        doc = {"_id": n, "g": n % 7, "u": n, "blob": os.urandom(16000)}
        message = refused(lambda: items.insert_one(doc))
        if message is not None:
            return n, message
        acknowledged.add(n)
    fail(f"{DISK_MB} MB were never full")


def reads(items, acknowledged):
    sample = sorted(acknowledged)[:: max(1, len(acknowledged) // 50)]
    found = {d["_id"] for d in items.find({"u": {"$in": sample}}, {"_id": 1})}
    check(found == set(sample), f"reads on a full disk miss {set(sample) - found}")
    check(items.estimated_document_count() == len(acknowledged), "the count is wrong on a full disk")


def outlive_one_disk(scratch, path):
    server = scratch.server(os.path.join(path, "data"), "--memory", "128M").start()
    filler = os.path.join(path, "filler")
    with open(filler, "wb") as file:
        file.write(bytes(100 << 20))
    acknowledged = set()
    recovery_s_max = 0.0
    client = server.client()
    items = client.get_database("full", write_concern=WriteConcern(w=1, j=True))["items"]
    items.create_index("u", unique=True)
    items.create_index("g")

    n, message = insert_until_refused(items, acknowledged, 0)
    before = len(acknowledged)
    # Repeated writes fail with the same error, and leave nothing behind.
    for again in range(50):
        check(refused(lambda: items.insert_one({"_id": f"no{again}", "blob": bytes(16000)})) is not None, "a write went through on a full disk")
    check(refused(lambda: items.insert_many([{"_id": f"many{k}"} for k in range(10)])) is not None, "a batch went through on a full disk")
    reads(items, acknowledged)
    # Users first try to make room by deleting.
    deletes = "allowed"
    try:
        items.delete_one({"_id": n - 1})
        acknowledged.discard(n - 1)
    except OperationFailure as error:
        deletes = f"refused with {error.code}"
    check(server.alive(), "the server ended on a full disk")

    os.unlink(filler)
    began = time.monotonic()
    while refused(lambda: items.insert_one({"_id": n, "u": n, "g": 0})) is not None:
        check(time.monotonic() - began < RECOVERY_S_MAX, f"no write {RECOVERY_S_MAX} s after space was freed")
        time.sleep(0.05)
    recovery_s_max = time.monotonic() - began
    acknowledged.add(n)
    last, _ = insert_until_refused(items, acknowledged, n + 1)
    reads(items, acknowledged)
    verify_collection(items)
    client.close()

    # Restart while the disk is still full, first after a stop and then after kill -9.
    for end in (server.stop, server.kill):
        end()
        server.start()
        with server.client() as client:
            items = client["full"]["items"]
            there = {d["_id"] for d in items.find({}, {"_id": 1})}
            check(there == acknowledged, f"lost {len(acknowledged - there)}, too many {len(there - acknowledged)}")
            verify_collection(items)
    server.stop()
    say(
        f"disk: {before} then {len(acknowledged) - before} more documents of 16 kB acknowledged on {DISK_MB} MB, all there after stop and kill -9; "
        f"refused with {OUT_OF_DISK_SPACE} '{message}'; deletes on the full disk {deletes}; writes {recovery_s_max:.2f} s after space was freed"
    )


def hard_limit(scratch, path):
    """Another process fills the disk to the last byte while the server writes."""
    server = scratch.server(os.path.join(path, "data2"), "--memory", "128M").start()
    acknowledged = set()
    client = server.client()
    items = client.get_database("full", write_concern=WriteConcern(w=1, j=True))["items"]
    items.create_index("u", unique=True)
    for n in range(200):
        items.insert_one({"_id": n, "u": n, "blob": os.urandom(16000)})
        acknowledged.add(n)
    filler = os.path.join(path, "filler")
    with open(filler, "wb", buffering=0) as file:
        try:
            while file.write(bytes(1 << 16)):
                pass
        except OSError:
            pass
    uncertain = set()
    for n in range(200, 1500):
        try:
            items.insert_one({"_id": n, "u": n, "blob": os.urandom(16000)})
            acknowledged.add(n)
        except OperationFailure as error:
            check(error.code == OUT_OF_DISK_SPACE, f"the error of a full disk is {error.details}")
            uncertain.add(n)
    check(uncertain, "writes on a disk without a byte left were all acknowledged")
    check(server.alive(), "the server ended on a full disk")
    found = {d["_id"] for d in items.find({"u": {"$lt": 200}}, {"_id": 1})}
    check(found == set(range(200)), "reads on a full disk miss documents")
    os.unlink(filler)
    began = time.monotonic()
    while True:
        try:
            items.insert_one({"_id": "after", "u": "after"})
            break
        except OperationFailure as error:
            check(error.code == OUT_OF_DISK_SPACE, f"after space was freed: {error.details}")
            check(time.monotonic() - began < RECOVERY_S_MAX, f"no write {RECOVERY_S_MAX} s after space was freed: {error.details}")
            # Immediately: a write that reaches RocksDB while it recovers would stop the recovery.
            time.sleep(0.0002)
    recovery_s = time.monotonic() - began
    acknowledged.add("after")
    verify_collection(items)
    client.close()
    server.kill()
    server.start()
    with server.client() as client:
        there = {d["_id"] for d in client["full"]["items"].find({}, {"_id": 1})}
        check(acknowledged <= there, f"lost {len(acknowledged - there)}: {sorted(acknowledged - there, key=str)[:5]}")
        check(there <= acknowledged | uncertain, "documents nobody wrote")
        verify_collection(client["full"]["items"])
    server.stop()
    say(f"disk: no byte left: {len(uncertain)} of 1300 refused, {len(there)} documents after kill -9, none of {len(acknowledged)} lost; writes {recovery_s:.2f} s after space was freed")


def main():
    with Scratch() as scratch:
        for step in (outlive_one_disk, hard_limit):
            path = os.path.join(scratch.path, step.__name__)
            if not mount(path):
                return say("disk: skipped, this user cannot mount a small file system")
            try:
                step(scratch, path)
            finally:
                for server in scratch.servers:
                    if server.alive():
                        server.kill()
                subprocess.run(["umount", "-l", path], check=True)


if __name__ == "__main__":
    main()
