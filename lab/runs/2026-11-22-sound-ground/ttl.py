#!/usr/bin/env python3
"""What foreground writes lose while a million documents expire.

ttl.py SERVER_BINARY [--docs N] [--clients N] [--window SECONDS] [--journal]

Starts a server over an empty directory, loads the documents under a TTL index, and lets clients
update single documents of another collection by id, as fast as replies come. Windows in which the
monitor is switched off and on follow one another until everything has expired; what is compared are
the updates of neighbouring windows. Needs Python's own library only.
"""

import argparse, multiprocessing, os, random, re, shutil, signal, socket, struct
import subprocess, sys, tempfile, time


def bson(d):
    out = b""
    for k, v in d.items():
        name = k.encode() + b"\0"
        if isinstance(v, bool):
            out += b"\x08" + name + (b"\1" if v else b"\0")
        elif isinstance(v, int):
            out += (
                (b"\x10" + name + struct.pack("<i", v))
                if -(2**31) <= v < 2**31
                else (b"\x12" + name + struct.pack("<q", v))
            )
        elif isinstance(v, str):
            s = v.encode() + b"\0"
            out += b"\x02" + name + struct.pack("<i", len(s)) + s
        elif isinstance(v, dict):
            out += b"\x03" + name + bson(v)
        elif isinstance(v, list):
            out += b"\x04" + name + bson({str(i): x for i, x in enumerate(v)})
        elif isinstance(v, tuple):  # a date in milliseconds
            out += b"\x09" + name + struct.pack("<q", v[0])
        else:
            raise TypeError(v)
    return struct.pack("<i", len(out) + 5) + out + b"\0"


def parse(b, at=0):
    end, at, d = at + struct.unpack_from("<i", b, at)[0] - 1, at + 4, {}
    while at < end:
        t, stop = b[at], b.index(b"\0", at + 1)
        name, at = b[at + 1 : stop].decode(), stop + 1
        if t == 1:
            d[name], at = struct.unpack_from("<d", b, at)[0], at + 8
        elif t in (2, 13):
            n = struct.unpack_from("<i", b, at)[0]
            d[name], at = b[at + 4 : at + 3 + n].decode(), at + 4 + n
        elif t in (3, 4):
            d[name] = parse(b, at)
            at += struct.unpack_from("<i", b, at)[0]
        elif t == 5:
            at += struct.unpack_from("<i", b, at)[0] + 5
        elif t == 7:
            at += 12
        elif t == 8:
            d[name], at = bool(b[at]), at + 1
        elif t in (9, 17, 18):
            d[name], at = struct.unpack_from("<q", b, at)[0], at + 8
        elif t == 10:
            d[name] = None
        elif t == 16:
            d[name], at = struct.unpack_from("<i", b, at)[0], at + 4
        else:
            raise ValueError(t)
    return d


class Client:
    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.s = socket.create_connection((host, int(port)))
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def raw(self, body, sequence=b""):
        self.s.sendall(
            struct.pack("<iiiii", 21 + len(body) + len(sequence), 1, 0, 2013, 0)
            + b"\0"
            + body
            + sequence
        )
        head = self.read(4)
        return self.read(struct.unpack("<i", head)[0] - 4)[17:]

    def read(self, n):
        parts = b""
        while len(parts) < n:
            part = self.s.recv(n - len(parts))
            if not part:
                raise EOFError("the server closed the connection")
            parts += part
        return parts

    def run(self, db, command, sequence=b""):
        r = parse(self.raw(bson({**command, "$db": db}), sequence))
        if r.get("ok") != 1 or "writeErrors" in r:
            raise RuntimeError((command, r))
        return r

    def load(self, coll, docs, concern):
        body = b"".join(bson(d) for d in docs)
        sequence = b"\1" + struct.pack("<i", len(body) + 14) + b"documents\0" + body
        self.run("db", {"insert": coll, "writeConcern": concern}, sequence)


def updater(address, count, journal, done, stop):
    c = Client(address)
    concern = {"w": 1, "j": True} if journal else {"w": 1}
    # One update of a random document: only the id changes in the bytes.
    body = bson(
        {
            "update": "hot",
            "updates": [{"q": {"_id": 0x01020304}, "u": {"$inc": {"n": 1}}}],
            "writeConcern": concern,
            "$db": "db",
        }
    )
    at = body.index(struct.pack("<i", 0x01020304))
    while not stop.value:
        r = c.raw(body[:at] + struct.pack("<i", random.randrange(count)) + body[at + 4 :])
        if b"nModified\0\1\0\0\0" not in r:
            raise RuntimeError(parse(r))
        with done.get_lock():
            done.value += 1


def cpu(pid):
    f = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("server"), a.add_argument("--docs", type=int, default=1_000_000), a.add_argument(
        "--clients", type=int, default=4
    )
    a.add_argument("--window", type=float, default=10), a.add_argument(
        "--journal", action="store_true"
    )
    a.add_argument("--memory", default="1024M")
    o = a.parse_args()
    folder = tempfile.mkdtemp(prefix="ttl-")
    server = subprocess.Popen(
        [
            o.server,
            "serve",
            "--dbpath",
            folder,
            "--port",
            "0",
            "--nounixsocket",
            "--memory",
            o.memory,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    clients, stop = [], multiprocessing.Value("b", 0, lock=False)
    try:
        address = re.search(r"mongodb://(\S+?)[, ]", server.stdout.readline() + " ").group(1)
        c = Client(address)
        status = lambda: c.run("admin", {"serverStatus": 1})["metrics"]["ttl"]
        switch = lambda on: c.run("admin", {"setParameter": 1, "ttlMonitorEnabled": on})
        switch(False)
        c.run("admin", {"setParameter": 1, "ttlMonitorSleepSecs": 1})
        c.run(
            "db",
            {
                "createIndexes": "old",
                "indexes": [{"key": {"at": 1}, "name": "at_1", "expireAfterSeconds": 0}],
            },
        )
        now, pad = int(time.time() * 1000), "x" * 100
        for start in range(0, o.docs, 1000):
            c.load(
                "old",
                [
                    {"_id": i, "at": (now - 1000 - i,), "pad": pad}
                    for i in range(start, min(start + 1000, o.docs))
                ],
                {"w": 1},
            )
        for start in range(0, 100_000, 1000):
            c.load(
                "hot",
                [{"_id": i, "n": 0, "pad": pad} for i in range(start, start + 1000)],
                {"w": 1},
            )
        counts = [multiprocessing.Value("q", 0) for _ in range(o.clients)]
        clients = [
            multiprocessing.Process(target=updater, args=(address, 100_000, o.journal, n, stop))
            for n in counts
        ]
        [p.start() for p in clients]
        time.sleep(3)
        rows, on = [], False
        print(
            f"load average {os.getloadavg()[0]:.1f}, {o.clients} clients, updates by id, journal"
            f" waited for: {o.journal}"
        )
        while True:
            switch(on)
            time.sleep(0.3)
            t, n, u, d = (
                time.time(),
                sum(x.value for x in counts),
                cpu(server.pid),
                status()["deletedDocuments"],
            )
            time.sleep(o.window)
            if any(not p.is_alive() for p in clients):
                raise RuntimeError("a client failed")
            t, n, u, d = (
                time.time() - t,
                sum(x.value for x in counts) - n,
                cpu(server.pid) - u,
                status()["deletedDocuments"] - d,
            )
            left = c.run("db", {"count": "old"})["n"]
            rows.append((on, n / t, d / t, u / t))
            print(
                f"monitor {'on ' if on else 'off'}  updates/s {n/t:8.0f}  expired/s {d/t:8.0f} "
                f" left {left:8}  server CPUs {u/t:.2f}",
                flush=True,
            )
            if left == 0 and not on:
                break
            on = not on
        # An on-window is compared with the mean of the off-windows on both sides; the last one, in
        # which the work ended, is left out.
        pairs = [
            (rows[i][1], (rows[i - 1][1] + rows[i + 1][1]) / 2)
            for i in range(1, len(rows) - 1)
            if rows[i][0]
        ]
        pairs = pairs[:-1] or pairs
        ratio = sum(a for a, _ in pairs) / sum(b for _, b in pairs)
        print(f"updates with the monitor on / off: {ratio:.3f} over {len(pairs)} windows")
    finally:
        stop.value = 1
        [p.join(5) for p in clients]
        server.send_signal(signal.SIGTERM)
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
