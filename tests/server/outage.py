"""Servers on a TiKV cluster that does not answer for a while: the store is stopped, then PD, each for longer than every time limit. No
server ends, whether it holds the database, waits for it or runs alone; clients that retry succeed when the cluster is back, and everything
acknowledged is there. Usage: outage.py [SECONDS]: the length of each outage. Needs what tikv.py needs."""

import os
import signal
import sys
import threading
import time

from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, PyMongoError

from equals import Servers
from harness import Scratch, check, fail, say
from tikv import SELECTION_MS, Cluster, free_ports, start_or_skip

CLIENTS = 4
# A lease lasts ten seconds; a start takes a while on a busy machine.
RETURN_S = 60


class Writer:
    """Inserts one document after another; repeats each until it is acknowledged."""

    def __init__(self, client, number):
        self.rows = client.get_database("outage").rows
        self.number, self.acknowledged, self.errors, self.wrong = number, 0, 0, None
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stop.is_set():
            row = {"_id": f"{self.number}-{self.acknowledged}"}
            try:
                self.rows.replace_one(row, row, upsert=True)
                self.acknowledged += 1
            except PyMongoError as error:
                self.errors += 1
                if not isinstance(error, ConnectionFailure) and not error.has_error_label("RetryableWriteError"):
                    self.wrong = error
                    return

    def end(self):
        self.stop.set()
        self.thread.join(SELECTION_MS / 1000)
        check(self.wrong is None, f"a client got an error that drivers do not repeat: {self.wrong!r}")


def silence(pid, seconds, name, servers, writers, status):
    """Stops a process of the cluster for a while, and waits until everything works again."""
    pids = [server.process.pid for server in servers]
    before = [writer.acknowledged for writer in writers]
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)
    began = time.monotonic()
    during = [writer.acknowledged for writer in writers]
    while any(writer.acknowledged <= count + 1 for writer, count in zip(writers, during)):
        for writer in writers:
            check(writer.wrong is None, f"a client got an error that drivers do not repeat: {writer.wrong!r}")
        if time.monotonic() - began > RETURN_S:
            fail(f"{name} is back for {RETURN_S} s and nobody serves: {status()}")
        time.sleep(0.05)
    for server, was in zip(servers, pids):
        check(server.alive() and server.process.pid == was, f"a server ended: {server.output()[-2000:]}")
    written = sum(during) - sum(before)
    say(f"outage: {name} was away for {seconds} s, {written} writes were acknowledged at its beginning; all serve {time.monotonic() - began:.1f} s after its end")


def run(title, cluster, servers, client, seconds, status):
    writers = [Writer(client, number) for number in range(CLIENTS)]
    while any(writer.acknowledged < 5 for writer in writers):
        time.sleep(0.05)
    for pid, name in ((cluster.store, "the store"), (cluster.placement, "PD")):
        silence(pid, seconds, f"{title}: {name}", servers, writers, status)
    for writer in writers:
        writer.end()
    wanted = {f"{writer.number}-{n}" for writer in writers for n in range(writer.acknowledged)}
    found = {row["_id"] for row in client.get_database("outage").rows.find()}
    check(wanted <= found, f"{len(wanted - found)} acknowledged documents are gone")
    errors = sum(writer.errors for writer in writers)
    say(f"outage: {title}: {len(wanted)} documents acknowledged, all there; clients saw {errors} errors, each of a kind that is repeated")


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30
    cluster = Cluster()
    if not hasattr(cluster, "store"):
        say("skipped: the processes of a cluster of somebody else are not stopped")
        return
    with Scratch() as scratch:
        equals = Servers(scratch, cluster, "outage")
        start_or_skip(equals.start)
        with equals.client() as client:
            run("three servers", cluster, equals.all, client, seconds, lambda: [one.output()[-300:] for one in equals.all])
        for server in equals.all:
            server.kill()
        (port,) = free_ports(1)
        alone = scratch.server("alone", "--storageEngine", "tikv", "--tikvPd", cluster.pd, "--tikvPrefix", "alone", "--port", port)
        alone.start()
        with MongoClient(f"mongodb://127.0.0.1:{port}/?directConnection=true", serverSelectionTimeoutMS=SELECTION_MS) as client:
            run("one server", cluster, [alone], client, seconds, lambda: alone.output()[-300:])
        alone.kill()
    say("outage: ok")


if __name__ == "__main__":
    main()
