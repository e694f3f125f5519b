"""The journal's device fails, is slow, or has lost bytes.

Usage: journal.py [PART]..., with these parts:
fail: one failed fdatasync ends the server with status 14 and one line; it returns no data that may not be durable; after the next start
everything acknowledged is there.
slow: while a flush takes long, no durable write is answered before it ends, and other requests are served meanwhile.
damage: a flipped bit in the journal of a killed server is refused with one line that names the file, status 100; --repair opens it and
reports what is lost; without damage --repair changes nothing.
"""

import glob
import os
import subprocess
import sys
import threading
import time

from pymongo.errors import PyMongoError
from pymongo.write_concern import WriteConcern

from harness import Refused, Scratch, check, say

STATUS_JOURNAL = 14
STATUS_DATA = 100
REFUSAL = "has lost durable commits"


def prepare_library(folder):
    library = os.path.join(folder, "sync_faults.so")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sync_faults.c")
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return library


class Device:
    """Sets the behavior of the next flushes."""

    def __init__(self, folder):
        self.control = os.path.join(folder, "sync-fault")

    def set(self, what):
        if what is None:
            os.unlink(self.control)
            return
        with open(self.control + ".new", "w") as file:
            file.write(what)
        os.rename(self.control + ".new", self.control)


def items(client):
    return client.test.get_collection("items", write_concern=WriteConcern(w=1, j=True))


def ids(server):
    with server.client() as client:
        return {d["_id"] for d in client.test.items.find()}


def fail(server, device):
    server.start()
    with server.client(serverSelectionTimeoutMS=1000) as client:
        for n in range(50):
            items(client).insert_one({"_id": n})
        device.set("fail")
        acknowledged = None
        try:
            acknowledged = items(client).insert_one({"_id": "unknown"}).acknowledged
        except PyMongoError as error:
            say(f"  the write that could not be flushed: {str(error)[:100]}")
        check(acknowledged is None, "a write was acknowledged although its flush failed")
        try:
            status = server.process.wait(10)
        except subprocess.TimeoutExpired:
            status = "none: it is still running"
    # The log on standard error contains it, too, with each entry as a document.
    said = [line for line in server.output().splitlines() if "cannot be flushed" in line and not line.startswith("{")]
    check(status == STATUS_JOURNAL, f"status {status} after a failed flush: {server.output()[-500:]}")
    check(len(said) == 1 and "restart" in said[0], f"not one line: {server.output()[-500:]}")
    say(f"  {said[0]}")
    device.set(None)
    server.start()
    there = ids(server)
    check(set(range(50)) <= there, f"lost after a failed flush: {sorted(set(range(50)) - there)[:5]}")
    with server.client() as client:
        items(client).insert_one({"_id": "after"})
    server.stop()


def slow(server, device):
    server.start()
    with server.client() as client:
        items(client).insert_one({"_id": "before the delay"})
        device.set("delay 1500")
        began = time.monotonic()
        took = {}

        def write(n):
            items(client).insert_one({"_id": f"slow {n}"})
            took[n] = time.monotonic() - began

        writers = [threading.Thread(target=write, args=(n,)) for n in range(6)]
        for writer in writers:
            writer.start()
        time.sleep(0.3)
        longest = 0.0
        while time.monotonic() - began < 1.3:
            asked = time.monotonic()
            client.test.items.find_one({"_id": "before the delay"})
            longest = max(longest, time.monotonic() - asked)
        check(not took, f"answered before the flush ended: {took}")
        for writer in writers:
            writer.join()
        device.set(None)
        check(max(took.values()) < 6, f"more than a group behind the first flush: {took}")
        check(longest < 1.0, f"a read waited {longest:.2f} s for a flush")
        say(f"  six writes during flushes of 1.5 s took {min(took.values()):.1f} to {max(took.values()):.1f} s; longest read {longest * 1000:.0f} ms")
    server.stop()


def damage(server):
    server.start()
    with server.client() as client:
        for n in range(200):
            items(client).insert_one({"_id": n, "text": "x" * 100})
    server.kill()
    newest = max(glob.glob(os.path.join(glob.escape(server.dbpath), "*.log")))
    with open(newest, "r+b") as file:
        # The file is longer than its content, and reads as zeros after it.
        file.seek(len(file.read().rstrip(b"\0")) // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 4]))
    for _ in range(2):
        try:
            server.start()
            check(False, f"started on a damaged journal with {len(ids(server))} of 200 documents")
        except Refused as refusal:
            lines = [line for line in refusal.output.splitlines() if line.strip()]
            check(refusal.status == STATUS_DATA and len(lines) == 1, f"status {refusal.status}: {lines}")
            for word in (REFUSAL, os.path.basename(newest), "--repair"):
                check(word in lines[0], f"the line does not name {word!r}: {lines[0]}")
    say(f"  {lines[0]}")
    server.options = ["--repair"]
    server.start()
    said = [line for line in server.output().splitlines() if "repaired" in line]
    check(len(said) == 1 and "given up" in said[0], f"{server.output()}")
    say(f"  {said[0]}")
    left = ids(server)
    check(left == set(range(len(left))) and 0 < len(left) < 200, f"not what lay before the damage: {len(left)}")
    server.stop()
    server.start()
    check("repaired" not in server.output(), "a repair without damage")
    check(ids(server) == left, "a repair without damage changed the data")
    server.stop()


def main(parts):
    with Scratch() as scratch:
        library = prepare_library(scratch.path)
        if library is None:
            say("journal: the parts 'fail' and 'slow' are skipped, there is no C compiler")
        else:
            device = Device(scratch.path)
            wrap = ["env", f"LD_PRELOAD={library}", f"QUARRY_SYNC_FAULT={device.control}"]
            for part in (p for p in (fail, slow) if p.__name__ in parts):
                say(f"journal: {part.__name__}")
                part(scratch.server(part.__name__, wrap=wrap), device)
        if "damage" in parts:
            say("journal: damage")
            damage(scratch.server("damage"))


if __name__ == "__main__":
    main(sys.argv[1:] or ["fail", "slow", "damage"])
