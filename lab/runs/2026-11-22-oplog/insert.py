"""What the log of changes costs an insert: two servers of one binary, with the log and without
(--standalone), are loaded in turn with the same documents, and the CPU of each, with that of its
background work until it rests, is compared.

    insert.py BINARY DIR [--pads 16,64,256,1024] [--clients 1,4,16] [--rounds 3] [--megabytes 60]
              [--batch 100] [--journal] [--memory 1G] [--other BINARY]

One write concern for both: {w: 1, j: false}, or j: true with --journal. Pads are random bytes.
With --other a third server, of that binary and with the log, takes its turn."""

import argparse
import os
import shutil
import socket
import statistics
import struct
import subprocess
import tempfile
import threading
import time
from multiprocessing import Process, Queue

import bson

TICK = os.sysconf("SC_CLK_TCK")


def receive(s):
    got = b""
    while len(got) < 4 or len(got) < struct.unpack_from("<i", got)[0]:
        more = s.recv(1 << 16)
        assert more, "the server has closed a connection"
        got += more
    return bson.decode(got[21:])


def message(command, documents):
    body = b"\0" + bson.encode(command)
    if documents:
        section = b"documents\0" + documents
        body += b"\1" + struct.pack("<i", len(section) + 4) + section
    return bytearray(struct.pack("<iiiii", 20 + len(body), 1, 0, 2013, 0) + body)


def ask(port, command):
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(message({**command, "$db": command.get("$db", "speed")}, b""))
        return receive(s)


def client(port, coll, first, batches, batch, pad, journal, done):
    """Sends the same message with other ids."""
    one = bson.encode({"_id": bson.Int64(0), "n": 1, "pad": bson.Binary(b"")})
    docs = bytearray()
    for _ in range(batch):
        docs += bson.encode({"_id": bson.Int64(0), "n": 1, "pad": bson.Binary(os.urandom(pad))})
    command = {"insert": coll, "$db": "speed", "ordered": False,
               "writeConcern": {"w": 1, "j": journal}}
    m = message(command, bytes(docs))
    width, begin = len(docs) // batch, len(m) - len(docs)
    places = [begin + n * width + 9 for n in range(batch)]
    assert len(one) + pad == width
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for n in range(batches):
            at = first + n * batch
            for i, place in enumerate(places):
                struct.pack_into("<q", m, place, at + i)
            s.sendall(m)
            r = receive(s)
            assert r.get("n") == batch, r
    done.put(1)


class Server:
    def __init__(self, binary, folder, port, memory, *options):
        self.port, self.folder = port, folder
        self.process = subprocess.Popen(
            [binary, "serve", "--dbpath", folder, "--port", str(port), "--memory", memory,
             "--nounixsocket", "--quiet", *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(300):
            try:
                ask(port, {"ping": 1})
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit("the server does not answer")

    def cpu(self):
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def rest(self):
        """Until the background work is done."""
        before = self.cpu()
        while True:
            time.sleep(0.4)
            now = self.cpu()
            if now - before <= 0.01:
                return
            before = now

    def load(self, coll, first, a, pad, clients, batches):
        self.rest()
        done, cpu, began = Queue(), self.cpu(), time.time()
        span = batches * a.batch
        all_ = [Process(target=client, args=(self.port, coll, first + c * span, batches, a.batch,
                                             pad, a.journal, done)) for c in range(clients)]
        [p.start() for p in all_]
        [p.join() for p in all_]
        took, front = time.time() - began, self.cpu() - cpu
        assert done.qsize() == clients, "a client has failed"
        self.rest()
        docs = span * clients
        return docs / took, front / docs * 1e6, (self.cpu() - cpu) / docs * 1e6


def main():
    p = argparse.ArgumentParser()
    p.add_argument("binary")
    p.add_argument("dir")
    p.add_argument("--pads", default="16,64,256,1024")
    p.add_argument("--clients", default="1,4,16")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--megabytes", type=int, default=60)
    p.add_argument("--batch", type=int, default=100)
    p.add_argument("--journal", action="store_true")
    p.add_argument("--memory", default="1G")
    p.add_argument("--other")
    a = p.parse_args()
    root = tempfile.mkdtemp(dir=a.dir)
    servers = {"off": Server(a.binary, root + "/off", 28801, a.memory, "--standalone"),
               "on": Server(a.binary, root + "/on", 28802, a.memory)}
    if a.other:
        servers["other"] = Server(a.other, root + "/other", 28803, a.memory)
    first = 0
    try:
        print("pad clients  " + "  ".join(f"{n}: docs/s front-us all-us" for n in servers)
              + "   rate, front, all against off")
        for pad in map(int, a.pads.split(",")):
            for clients in map(int, a.clients.split(",")):
                docs = min(600_000, a.megabytes * 1_000_000 // (pad + 60))
                batches = max(1, docs // a.batch // clients)
                seen = {n: [] for n in servers}
                for turn in range(a.rounds + 1):
                    names = list(servers)
                    names = names[turn % len(names):] + names[:turn % len(names)]
                    for name in names:
                        r = servers[name].load(f"c{pad}", first, a, pad, clients, batches)
                        # The first turn warms up.
                        if turn > 0:
                            seen[name].append(r)
                    first += batches * a.batch * clients
                mid = {n: [statistics.median(r[i] for r in all_) for i in range(3)]
                       for n, all_ in seen.items()}
                line = "  ".join(f"{m[0]:9.0f} {m[1]:6.2f} {m[2]:6.2f}" for m in mid.values())
                off = mid["off"]
                for n, m in mid.items():
                    if n != "off":
                        line += f"   {n} {m[0] / off[0]:.2f} {off[1] / m[1]:.2f} {off[2] / m[2]:.2f}"
                print(f"{pad:4} {clients:3}  {line}", flush=True)
                for s in servers.values():
                    ask(s.port, {"drop": f"c{pad}"})
    finally:
        for s in servers.values():
            s.process.terminate()
            s.process.wait()
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
