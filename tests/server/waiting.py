"""A thousand updates that have already written something, and changes of the catalog, wait for one open transaction: no other client waits,
no thread is held, and afterwards all of them finish. Usage: waiting.py WRITERS"""

import os
import select
import socket
import struct
import sys
import time

import bson

from harness import Scratch, check, say

CHANGES = 50
# Longest reply to another client while all of them wait; a debug build on a busy machine answers in a few milliseconds.
REPLY_S_MAX = 1.0


class Raw:
    """A connection that sends a command and does not wait for the reply."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))

    def send(self, command):
        section = b"\0" + bson.encode({**command, "$db": "waiting"})
        self.socket.sendall(struct.pack("<iiiii", 20 + len(section), 1, 0, 2013, 0) + section)

    def read(self, length):
        got = b""
        while len(got) < length:
            more = self.socket.recv(length - len(got))
            check(more, "the server has closed a connection")
            got += more
        return got

    def receive(self):
        length, = struct.unpack("<i", self.read(4))
        return bson.decode(self.read(length - 4)[17:])


def replied(connections):
    waiting, sockets = select.poll(), {c.socket.fileno(): c for c in connections}
    for number in sockets:
        waiting.register(number, select.POLLIN)
    return len(waiting.poll(0))


def main(writers):
    with Scratch() as scratch:
        server = scratch.server("data", "--memory", "512M").start()
        client = server.client()
        db = client["waiting"]
        db["c"].insert_many([{"_id": n, "a": 0} for n in range(writers + 1)])
        db["other"].insert_one({"_id": 1})
        held = writers
        threads = len(os.listdir(f"/proc/{server.process.pid}/task"))
        with client.start_session() as session:
            session.start_transaction()
            db["c"].update_one({"_id": held}, {"$inc": {"a": 1000}}, session=session)
            raw = [Raw(server.port) for _ in range(writers)]
            for n, c in enumerate(raw):
                own = {"q": {"_id": n}, "u": {"$inc": {"a": 1}}}
                shared = {"q": {"_id": {"$gte": held}}, "u": {"$inc": {"a": 1}}, "multi": True}
                c.send({"update": "c", "updates": [own, shared]})
            until = time.monotonic() + 60
            while db["c"].count_documents({"_id": {"$lt": held}, "a": 1}) < writers and time.monotonic() < until:
                time.sleep(0.05)
            # The last change closes the gate of the collection; later ones wait for it.
            changes = [Raw(server.port) for _ in range(CHANGES)]
            for n, c in enumerate(changes):
                index = {"key": {f"f{n}": 1}, "name": f"f{n}"}
                kinds = [{"collMod": "c", "validationLevel": "off"}, {"createIndexes": "c", "indexes": [index]}]
                c.send(kinds[n % 2])
            time.sleep(1)
            check(replied([*raw, *changes]) == 0, "somebody did not wait")
            check(db["c"].count_documents({"a": 1}) == writers, "not all have written")
            took = []
            for _ in range(200):
                began = time.monotonic()
                db["other"].update_one({"_id": 1}, {"$inc": {"n": 1}})
                took.append(time.monotonic() - began)
            more = len(os.listdir(f"/proc/{server.process.pid}/task")) - threads
            check(max(took) < REPLY_S_MAX, f"another client waited {max(took):.2f} s")
            check(more < 64, f"{more} threads more than before")
            session.commit_transaction()
        began = time.monotonic()
        for c in raw:
            reply = c.receive()
            check((reply.get("n"), reply.get("nModified")) == (2, 2), f"{reply}")
        for c in changes:
            reply = c.receive()
            check(reply["ok"] == 1, f"{reply}")
        done_s = time.monotonic() - began
        check(db["c"].find_one({"_id": held})["a"] == 1000 + writers, "the shared document")
        check(db["c"].count_documents({"a": 1}) == writers, "a write was made twice")
        check(len(db["c"].index_information()) == 1 + CHANGES // 2, "the indexes")
        server.stop()
    took.sort()
    say(
        f"waiting: {writers} updates that had written and {CHANGES} changes of the catalog behind a transaction: {more} threads more, "
        f"other writes {1000 * took[len(took) // 2]:.1f} ms at the median, {1000 * took[-1]:.1f} ms at most; all done {done_s:.1f} s after it"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
