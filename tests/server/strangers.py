"""Clients that have not logged in cannot take resources from others.

Usage: strangers.py [PART]..., with these parts:
files: more connections than files; surplus clients get an answer, and the engine can still open files.
soft: a soft limit of open files is raised to the hard limit; --maxConns above what fits is lowered, with a warning.
stream: a streaming greeting is answered when something changes or its time is over, whatever topology version it names.
few: a limit that leaves no connections is refused with one line.
"""

import glob
import os
import socket
import struct
import sys
import time

from bson import Int64, ObjectId, decode, encode
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from harness import Refused, Scratch, check, say

OP_MSG = 2013
EXHAUST_ALLOWED = 1 << 16
TOO_MANY = 462


def message(command, flags=0):
    body = struct.pack("<I", flags) + b"\0" + encode(command)
    return struct.pack("<iiii", 16 + len(body), 1, 0, OP_MSG) + body


def receive(stream):
    """The next reply; None when the connection is closed."""
    data, wanted = b"", 4
    while len(data) < wanted:
        part = stream.recv(wanted - len(data))
        if not part:
            return None
        data += part
        if wanted == 4 and len(data) == 4:
            wanted = struct.unpack("<i", data)[0]
    return decode(data[21:])


def connect(server, timeout=5):
    host, port = server.address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout)


def greet(stream):
    """The server's reply to a greeting; None when it closes the connection instead."""
    try:
        stream.sendall(message({"hello": 1, "$db": "admin"}))
        return receive(stream)
    except OSError:
        return None


def limited(soft, hard):
    return ["prlimit", f"--nofile={soft}:{hard}"]


def with_root(server):
    server.start()
    with server.client() as client:
        client.admin.command("createUser", "root", pwd="pw", roles=["root"])
    return MongoClient(f"mongodb://root:pw@{server.address}/?directConnection=true", maxPoolSize=1, retryWrites=False)


def files(scratch):
    server = scratch.server("files", "--auth", "--memory", "128M", wrap=limited(400, 400))
    with with_root(server) as client:
        client.admin.command("ping")
        # Above the limit of the process.
        held, answers = [], []
        while len(held) + len(answers) < 600 and answers.count(None) < 5:
            stream = connect(server, 1)
            reply = greet(stream)
            if reply is not None and reply["ok"] == 1:
                held.append(stream)
            else:
                answers.append(reply)
                stream.close()
        journals = len(glob.glob(os.path.join(server.dbpath, "*.log")))
        # Enough data for several journal files and tables.
        for n in range(60):
            client.test.items.insert_many([{"n": n, "text": os.urandom(3000).hex()} for _ in range(100)])
        client.admin.command("fsync")
        check(server.alive(), f"the server has ended: {server.output()[-500:]}")
        check(client.test.items.count_documents({}) == 6000, "documents are missing")
        refused = [a for a in answers if a is not None]
        check(held and refused and len(refused) == len(answers), f"{len(held)} were let in, {len(refused)} of {len(answers)} others got an answer")
        check(all(a["code"] == TOO_MANY and "SystemOverloadedError" in a["errorLabels"] for a in refused), f"answered {refused[0]}")
        status = client.admin.command("serverStatus")["connections"]
        check(status["available"] >= 0 and status["rejected"] >= len(refused), f"connections: {status}")
        for stream in held:
            stream.close()
        deadline = time.monotonic() + 10
        while greet(connect(server)) is None or client.admin.command("serverStatus")["connections"]["current"] > 10:
            check(time.monotonic() < deadline, "connections do not come back")
    server.stop()
    say(f"files: {len(held)} connections under a limit of 400 files, {len(refused)} more were answered, {journals} journals at the time")


def soft(scratch):
    server = scratch.server("soft", "--maxConns", "50000", wrap=limited(300, 2000))
    server.start()
    with open(f"/proc/{server.process.pid}/limits") as limits:
        line = next(line for line in limits if line.startswith("Max open files"))
    check(line.split()[3] == "2000", f"the soft limit was not raised: {line}")
    with server.client() as client:
        connections = client.admin.command("serverStatus")["connections"]
        check(connections["available"] + connections["current"] < 2000, f"more connections than files: {connections}")
        warnings = client.admin.command("getLog", "startupWarnings")["log"]
        check(any("maxConns 50000" in line for line in warnings), f"no warning: {warnings}")
    server.stop()


def few(scratch):
    server = scratch.server("few", wrap=limited(90, 90))
    try:
        server.start()
    except Refused as refusal:
        check(refusal.status == 2 and "ulimit -n" in refusal.output, f"{refusal}")
        return
    server.stop()
    check(False, "a server without a file for connections has started")


def stream(scratch):
    server = scratch.server("stream", "--auth").start()
    for version, wait_ms, most in [
        ({"processId": ObjectId(), "counter": Int64(5)}, 10_000, 2),
        # A stream that requests no wait still gets a minimum.
        ({"processId": ObjectId(), "counter": Int64(5)}, 0, 40),
    ]:
        with connect(server, 1) as client:
            client.sendall(message({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": wait_ms, "$db": "admin"}, EXHAUST_ALLOWED))
            replies, until = 0, time.monotonic() + 3
            while time.monotonic() < until:
                try:
                    reply = receive(client)
                    check(reply is not None and reply["ok"] == 1, f"answered {reply}")
                    replies += 1
                except TimeoutError:
                    pass
            check(1 <= replies <= most, f"{replies} replies in 3 s to one greeting with maxAwaitTimeMS {wait_ms}")
    # The greeting of drivers still works: they send the topology version that they got, and get no reply while nothing changes.
    with connect(server, 1) as client:
        told = greet(client)["topologyVersion"]
        client.sendall(message({"hello": 1, "topologyVersion": told, "maxAwaitTimeMS": 500, "$db": "admin"}, EXHAUST_ALLOWED))
        began = time.monotonic()
        check(receive(client)["topologyVersion"] == told and time.monotonic() - began > 0.4, "the first reply came at once")
        check(receive(client)["ok"] == 1 and 0.9 < time.monotonic() - began < 3, "the second reply has not its time")
    server.stop()


PARTS = {"files": files, "soft": soft, "few": few, "stream": stream}


def main():
    for name in sys.argv[1:] or PARTS:
        with Scratch() as scratch:
            try:
                PARTS[name](scratch)
            except PyMongoError as error:
                check(False, f"{name}: {error!r}")
    say(f"strangers: {', '.join(sys.argv[1:] or PARTS)} passed")


if __name__ == "__main__":
    main()
