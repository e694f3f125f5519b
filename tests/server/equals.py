"""Three servers on one TiKV cluster at once: one holds the database, the others forward their clients to it; every so often one is killed
and started again, alternately the holder and another one. Usage: equals.py [SECONDS [KILL_EVERY_S [stores]]]. Needs what tikv.py needs.
With `stores` every third kill is of the store, which is started again on its files a second later; not with QUARRY_TIKV_PD.

Sixteen clients know all three servers. Some make transfers of money and increments of counters with drivers that retry (no error may reach
them, no increment may be lost or applied twice), some append to lists in transactions (the history must be one of snapshot isolation). A
change stream through each of the servers has every append once and in order."""

import collections
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

import isolation
from harness import LISTENING, SEED, Scratch, check, fail, say, verify_collection
from soak_transactions import DATABASE, OK, Lost, Round, Stream, Worker, check_events, final_state
from tikv import ACCOUNTS, BALANCE, SELECTION_MS, Cluster, free_ports, start_or_skip, transfer

SERVERS = 3
STORE_AWAY_S = 1
TRANSFERS, COUNTERS, LISTS = 8, 4, 4


class Store:
    """The store of the cluster, with its original options."""

    def __init__(self, pid):
        self.pid, self.killed, self.again = pid, 0, None
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            self.command = [word.decode() for word in file.read().split(b"\0")[:-1]]
        with open(f"/proc/{pid}/environ", "rb") as file:
            self.environment = dict(word.decode().split("=", 1) for word in file.read().split(b"\0")[:-1])

    def replace(self):
        os.kill(self.pid, signal.SIGKILL)
        if self.again is not None:
            self.again.wait()
        self.killed += 1
        time.sleep(STORE_AWAY_S)
        # The store does not start if the folder that it creates for snapshots exists.
        shutil.rmtree(os.path.join(self.command[self.command.index("--data-dir") + 1], "snap"))
        self.again = subprocess.Popen(self.command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.pid = self.again.pid

    def stop(self):
        if self.again is not None:
            self.again.kill()
            self.again.wait()


class Servers:
    def __init__(self, scratch, cluster, prefix, store=None):
        ports = free_ports(SERVERS)
        self.addresses = [f"127.0.0.1:{port}" for port in ports]
        common = ["--storageEngine", "tikv", "--tikvPd", cluster.pd, "--tikvPrefix", prefix]
        self.all = [scratch.server(f"{prefix}-{n}", *common, "--tikvAddress", self.addresses[n], "--port", port) for n, port in enumerate(ports)]
        self.killed, self.store, self.rounds = 0, store, 0

    def start(self):
        self.all[0].start()
        for server in self.all[1:]:
            self.start_again(server)

    def start_again(self, server):
        """Returns when clients can connect."""
        server.spawn()
        began = time.monotonic()
        while "handing connections on" not in server.output():
            check(server.alive(), f"a server ended: {server.output()[-2000:]}")
            check(time.monotonic() - began < SELECTION_MS / 1000, "a server does not listen")
            time.sleep(0.02)

    def client(self, *only, **options):
        options = {"serverSelectionTimeoutMS": SELECTION_MS, "localThresholdMS": 1000, **options}
        return MongoClient(f"mongodb://{','.join(only or self.addresses)}/", **options)

    def holder(self):
        began = time.monotonic()
        while time.monotonic() - began < SELECTION_MS / 1000:
            for server in self.all:
                if server.alive() and LISTENING.search(server.output()):
                    return server
            time.sleep(0.02)
        fail("nobody holds the database")

    def kill_one(self):
        """Kills the holder and another server in turn, and the store if requested; returns how long nobody held the database."""
        self.rounds += 1
        if self.store is not None and self.rounds % 3 == 0:
            self.store.replace()
            return None
        holder = self.holder()
        others = [server for server in self.all if server is not holder]
        is_holder = self.killed % 2 == 0
        server = holder if is_holder else others[self.killed // 2 % len(others)]
        self.killed += 1
        began = time.monotonic()
        server.kill()
        time.sleep(0.5)
        self.holder()
        took = time.monotonic() - began
        self.start_again(server)
        return took if is_holder else None


class Application:
    """Clients that rely on their driver for retries, until they are stopped."""

    def __init__(self, servers):
        self.clients = [servers.client() for _ in range(4)]
        self.acknowledged, self.errors, self.wrong, self.stop = [], [], [], threading.Event()
        self.counts = collections.Counter()
        bank = self.clients[0].bank
        bank.accounts.insert_many([{"_id": n, "balance": BALANCE} for n in range(ACCOUNTS)])
        bank.create_collection("ledger")
        bank.counters.insert_many([{"_id": n, "n": 0} for n in range(COUNTERS)])
        work = [(self.move, n) for n in range(TRANSFERS)] + [(self.count, n) for n in range(COUNTERS)] + [(self.watch, 0)]
        self.threads = [threading.Thread(target=self.run, args=w, daemon=True) for w in work]
        for thread in self.threads:
            thread.start()

    def run(self, what, number):
        choose = random.Random(f"{SEED}/{what.__name__}/{number}")
        client = self.clients[number % len(self.clients)]
        while not self.stop.is_set():
            try:
                what(client, number, choose)
            except PyMongoError as e:
                before = e.__cause__ or e.__context__
                self.errors.append(f"{time.time():.1f}: {what.__name__}: {type(e).__name__}: {e}; {type(before).__name__}: {before}")
                return

    def move(self, client, _, choose):
        transfer(client, choose, self.acknowledged)

    def count(self, client, number, _):
        changed = client.bank.counters.update_one({"_id": number}, {"$inc": {"n": 1}})
        if changed.modified_count != 1:
            self.wrong.append(f"an increment changed {changed.modified_count} documents")
        self.counts[number] += 1
        found = client.bank.counters.find_one({"_id": number})["n"]
        if found != self.counts[number]:
            self.wrong.append(f"counter {number} is {found} after {self.counts[number]} increments")

    def watch(self, client, *_):
        def total(session):
            return sum(row["balance"] for row in client.bank.accounts.find({}, session=session))

        with client.start_session() as session:
            found = session.with_transaction(total)
        if found != ACCOUNTS * BALANCE:
            self.wrong.append(f"a reader saw a sum of {found}")
        time.sleep(0.1)

    def check_transfers(self):
        """A scan finds each acknowledged transfer."""
        acknowledged = set(self.acknowledged)
        lost = acknowledged - {line["_id"] for line in self.clients[0].bank.ledger.find({}, {"_id": 1})}
        check(not lost, f"{len(lost)} acknowledged transfers are lost: {list(lost)[:3]}")

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(180)
            check(not thread.is_alive(), "a client waits for ever")
        check(not self.errors, f"applications saw {self.errors}")
        check(not self.wrong, f"{self.wrong[:5]}")
        bank = self.clients[0].bank
        rows = list(bank.accounts.find())
        check(sum(row["balance"] for row in rows) == ACCOUNTS * BALANCE, "money was lost or made")
        self.check_transfers()
        check(len(self.acknowledged) > 0 and sum(self.counts.values()) > 0, "nothing was done")
        verify_collection(bank.ledger)


def one_round(servers, clients, number, seconds):
    """Appends to lists in transactions while servers are killed; tracks the expected lists."""
    round_ = Round(number)
    workers = [Worker(f"w{n}", clients[n % len(clients)], round_, random.Random(f"{SEED}/{number}/{n}")) for n in range(LISTS)]
    began = time.monotonic()
    for worker in workers:
        worker.daemon = True
        worker.start()
    time.sleep(seconds / 3)
    took = servers.kill_one()
    # At least a moment with all servers running.
    time.sleep(max(1, seconds - (time.monotonic() - began)))
    round_.ending.set()
    for worker in workers:
        worker.join(180)
        check(not worker.is_alive(), f"{worker.name} waits for ever")
        if worker.error is not None:
            raise worker.error
    lists, registers = final_state(clients[0][DATABASE], round_)
    try:
        orders = isolation.check(round_.histories["list"], lists)
        isolation.check(*isolation.as_lists(round_.histories["register"], registers), skew_allowed=False)
    except isolation.Anomaly as e:
        fail(f"round {number}, seed {SEED}: {e}")
    return took, orders, round_.histories["list"]


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    kill_every_s = float(sys.argv[2]) if len(sys.argv) > 2 else 20.0
    with Scratch() as scratch, contextlib.ExitStack() as ending:
        cluster = Cluster()
        store = Store(cluster.store) if sys.argv[3:] == ["stores"] else None
        if store is not None:
            ending.callback(store.stop)
        servers = Servers(scratch, cluster, f"e{SEED}-{int(time.time())}", store)
        start_or_skip(servers.start)
        lost = Lost()
        streams = [Stream(servers.client(address, event_listeners=[lost])) for address in servers.addresses]
        for stream in streams:
            stream.daemon = True
            stream.start()
            check(stream.opened.wait(60), f"a stream was not opened: {stream.error}")
        application = Application(servers)
        clients = [servers.client(retryWrites=n % 2 == 0) for n in range(2)]
        began, number, pauses, orders, history = time.monotonic(), 0, [], {}, []
        while number < 2 or time.monotonic() - began < seconds:
            took, found, transactions = one_round(servers, clients, number, kill_every_s)
            pauses += [took] if took is not None else []
            orders.update(found)
            history += transactions
            number += 1
            check(not application.errors, f"applications saw {application.errors}")
        took = time.monotonic() - began
        application.end()
        clients[0][DATABASE]["end"].insert_one({"_id": "the end"})
        for stream in streams:
            stream.until = "the end"
        for stream in streams:
            stream.join(180)
            if stream.error is not None:
                raise stream.error
            check(not stream.is_alive(), f"a stream ends at {stream.events[-1:]}")
            check_events([e for e in stream.events if e["ns"]["coll"] != "end"], orders, history)
        committed = sum(t.status == OK for t in history)
        say(
            f"equals: {SERVERS} servers, {TRANSFERS + COUNTERS + LISTS} clients, {took:.0f} s, {servers.killed} servers killed{f', the store {store.killed} times' if store else ''}; {len(application.acknowledged)} transfers and"
            f" {sum(application.counts.values())} increments, no error seen, sum conserved, none lost and none twice; {committed} transactions on"
            f" {len(orders)} lists without anomaly, each append once and in order in the streams through {SERVERS} servers, opened {lost.streams} times;"
            f" nobody held the database for {max(pauses):.1f} s at most; seed {SEED}"
        )
        # The servers that forward requests end first, so that no client sees an error.
        holder = servers.holder()
        for server in [s for s in servers.all if s is not holder] + [holder]:
            server.stop()


if __name__ == "__main__":
    main()
