#!/usr/bin/env python3
"""What logging in, rights and TLS cost a point read: finds by _id by one client, in windows that
alternate between servers of the same build, which all run at the same time.

    cost.py [--windows N] BINARY CERTIFICATES

Needs pymongo. CERTIFICATES holds server.pem and ca.pem (crates/server/tests/it/certificates).
Servers: without access control, with it and a user of the role `read`, with both and TLS, and
the first once more. Processor time is that of all threads of the server (schedstat). Of each window
the ratio to that of the first server beside it; the median of the ratios and its interval of 95 %.
"""

import argparse
import glob
import random
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile

import pymongo


class Server:
    def __init__(self, name, binary, options, login, tls, certificates, documents):
        self.name, self.root = name, tempfile.mkdtemp(prefix="access-")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.process = subprocess.Popen(
            [binary, "serve", "--dbpath", self.root, "--port", str(port), "--bind_ip", "127.0.0.1",
             "--standalone", "--memory", "1GB", *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        more = {"tls": True, "tlsCAFile": f"{certificates}/ca.pem"} if tls else {}
        to = dict(host="localhost", port=port, serverSelectionTimeoutMS=60000, **more)
        admin = pymongo.MongoClient(**to)
        if login:
            admin.admin.command("createUser", "root", pwd="root", roles=["root"])
            admin = pymongo.MongoClient(**to, username="root", password="root")
            role = [{"role": "read", "db": "db"}]
            admin.admin.command("createUser", "reader", pwd="reader", roles=role)
        rows = [{"_id": i, "pad": "x" * 100} for i in range(documents)]
        admin.db.c.insert_many(rows)
        user = {"username": "reader", "password": "reader"} if login else {}
        self.coll = pymongo.MongoClient(**to, **user).db.c
        self.rnd, self.count = random.Random(5), documents

    def cpu_ns(self):
        total = 0
        for path in glob.glob(f"/proc/{self.process.pid}/task/*/schedstat"):
            try:
                total += int(open(path).read().split()[0])
            except (FileNotFoundError, ProcessLookupError):
                pass
        return total

    def window(self, n=4000):
        begin = self.cpu_ns()
        for _ in range(n):
            assert self.coll.find_one({"_id": self.rnd.randrange(self.count)}) is not None
        return (self.cpu_ns() - begin) / 1000 / n

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        shutil.rmtree(self.root)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("binary")
    args.add_argument("certificates")
    args.add_argument("--windows", type=int, default=30)
    args.add_argument("--documents", type=int, default=20_000)
    given = args.parse_args()
    tls = ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", f"{given.certificates}/server.pem",
           "--tlsCAFile", f"{given.certificates}/ca.pem", "--tlsAllowConnectionsWithoutCertificates"]
    kinds = [("off", [], False, False), ("rights", ["--auth"], True, False),
             ("rights and TLS", ["--auth", *tls], True, True), ("off again", [], False, False)]
    servers = [Server(name, given.binary, options, login, is_tls, given.certificates, given.documents)
               for name, options, login, is_tls in kinds]
    try:
        seen = {s.name: [] for s in servers}
        for number in range(given.windows + 2):
            at = number % len(servers)
            for s in servers[at:] + servers[:at]:
                us = s.window()
                if number >= 2:
                    seen[s.name].append(us)
        base = seen[servers[0].name]
        for s in servers:
            ratios = sorted(t / b for t, b in zip(seen[s.name], base))
            n = len(ratios)
            half = int(0.98 * n**0.5) + 1
            low, high = ratios[max(0, n // 2 - half)], ratios[min(n - 1, n // 2 + half)]
            print(f"{s.name}: median {statistics.median(seen[s.name]):.2f} us, ratio "
                  f"{statistics.median(ratios):.3f} ({low:.3f} to {high:.3f}), {n} windows", flush=True)
    finally:
        for s in servers:
            s.close()


if __name__ == "__main__":
    main()
