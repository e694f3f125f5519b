"""Servers on a TiKV cluster, one at a time: the requests that an operation costs, a driver that continues when the server is killed and
another takes over, the time that servers report, concurrent transfers of money. Usage: tikv.py [SECONDS [KILL_EVERY_S]]. Needs the cluster
of scripts/cluster.sh build, or QUARRY_TIKV_PD, and a server that was built with TiKV; prints `skipped: ...` without."""

import datetime
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
import urllib.request

from pymongo import MongoClient, ReturnDocument
from pymongo.errors import PyMongoError

from harness import LISTENING, SEED, Refused, Scratch, check, fail, say, verify_collection

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
ACCOUNTS = 20
BALANCE = 100
CLIENTS = 8
# A lease lasts ten seconds, and a start takes a while on a busy machine.
SELECTION_MS = 90_000


class Cluster:
    """PD and a store; they end when this process does."""

    def __init__(self):
        self.pd = os.environ.get("QUARRY_TIKV_PD")
        if self.pd:
            return
        self.holder = subprocess.Popen([os.path.join(ROOT, "scripts", "cluster.sh"), "hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.holder.stdout.readline().strip()
        if not line.startswith("ready "):
            say(f"skipped: {line}")
            sys.exit(0)
        _, self.pd, placement, store = line.split()
        self.placement, self.store = int(placement), int(store)


def free_ports(count):
    taken = [socket.socket() for _ in range(count)]
    for one in taken:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


class Pair:
    """Two servers that take turns."""

    def __init__(self, scratch, cluster, prefix):
        ports = free_ports(2)
        self.addresses = [f"127.0.0.1:{port}" for port in ports]
        common = ["--storageEngine", "tikv", "--tikvPd", cluster.pd, "--tikvPrefix", prefix, "--tikvServers", ",".join(self.addresses)]
        self.servers = [scratch.server(f"{prefix}-{n}", *common, "--tikvStandby", "--port", port) for n, port in enumerate(ports)]
        self.refused = scratch.server(f"{prefix}-refused", *common)

    def client(self, **options):
        options = {"replicaSet": "rs0", "serverSelectionTimeoutMS": SELECTION_MS, **options}
        return MongoClient(f"mongodb://{','.join(self.addresses)}/", **options)

    def serving(self):
        """The serving and the other server; waits until there is a serving one."""
        began = time.monotonic()
        while time.monotonic() - began < SELECTION_MS / 1000:
            for one, other in (self.servers, self.servers[::-1]):
                if one.alive() and LISTENING.search(one.output()):
                    return one, other
            time.sleep(0.02)
        fail("nobody serves")

    def replace(self):
        """Kills the serving server; when the other one serves, starts the first again as a standby."""
        one, other = self.serving()
        began = time.monotonic()
        one.kill()
        now, _ = self.serving()
        check(now is other, "the one that stood by has not taken over")
        one.spawn()
        return time.monotonic() - began


def requests_of(client):
    engine = client.admin.command("serverStatus")["quarry"]["engine"]
    return {name.removeprefix("requests."): count for name, count in engine.items() if name.startswith("requests.")}


def count_requests(client):
    """Requests to stores by operation; lease renewals may add a few."""
    rows = client.get_database("trips").rows
    for field in ("a", "b", "c"):
        rows.create_index(field)
    rows.insert_many([{"_id": n, "a": n, "b": n, "c": n} for n in range(200)])
    count = 100
    scanned = client.get_database("trips").scanned
    scanned.insert_many([{"_id": n, "text": "x" * 100} for n in range(5000)])
    operations = {
        "find of 100 by index": lambda n: check(len(list(rows.find({"a": {"$lt": 100}}))) == 100, "an index lost documents"),
        "read by _id": lambda n: rows.find_one({"_id": n}),
        "insert with three indexes": lambda n: rows.insert_one({"_id": 1000 + n, "a": n, "b": n, "c": n}),
        "update by _id": lambda n: rows.update_one({"_id": n}, {"$set": {"text": "new"}}),
        "scan of 5,000": lambda n: check(n >= 10 or len(list(scanned.find())) == 5000, "a scan lost documents"),
    }
    # Number of calls that need requests; at most this many reads and commit requests for each of them (ADR 0048), plus the lease.
    most = {
        "find of 100 by index": (100, 2.3, 0.3),
        "read by _id": (100, 1.3, 0.3),
        "insert with three indexes": (100, 2.3, 3.3),
        "update by _id": (100, 1.5, 3.3),
        "scan of 5,000": (10, 25, 3),
    }
    time.sleep(1)
    for name, operation in operations.items():
        before = requests_of(client)
        for n in range(count):
            operation(n)
        after = requests_of(client)
        asking, reads_max, commits_max = most[name]
        each = {kind: (after[kind] - before.get(kind, 0)) / asking for kind in after}
        each = {kind: value for kind, value in each.items() if value >= 0.05}
        say(f"tikv: {name}: " + ", ".join(f"{kind} {value:.2f}" for kind, value in sorted(each.items())))
        reads = sum(each.get(kind, 0) for kind in ("kv_get", "kv_batch_get", "kv_scan"))
        commits = each.get("kv_prewrite", 0) + each.get("kv_commit", 0)
        check(reads <= reads_max, f"{name} reads {reads} times")
        check(commits <= commits_max, f"{name} takes {commits} requests to commit")


def set_oracle(cluster, ahead_s):
    """Moves the time of PD's oracle so far ahead of this machine's; returns what PD says. It never goes back."""
    timestamp = int((time.time() + ahead_s) * 1000) << 18
    request = urllib.request.Request(f"http://{cluster.pd}/pd/api/v1/admin/reset-ts", json.dumps({"tso": str(timestamp)}).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode().strip()


def oracle_time(pair, cluster):
    """Checks that the server's time is the oracle's, before and after another server has taken over: here an hour ahead of every machine."""
    ahead_s = 3600
    say(f"tikv: the oracle was set an hour ahead: {set_oracle(cluster, ahead_s)}")

    def wait_ahead(client, who):
        began = time.monotonic()
        while True:
            told = client.admin.command("hello")["localTime"].replace(tzinfo=datetime.timezone.utc).timestamp() - time.time()
            if told > ahead_s - 60:
                return
            check(time.monotonic() - began < 30, f"{who} is {told:.0f} s ahead, and the oracle {ahead_s}")
            time.sleep(0.2)

    with pair.client() as client:
        wait_ahead(client, "the server that serves")
        rows = client.get_database("times").rows
        rows.create_index("at", expireAfterSeconds=600)
        rows.insert_one({"_id": "fresh", "at": datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=ahead_s)})
        pair.replace()
        wait_ahead(client, "the server that has taken over")
        check(rows.count_documents({"_id": "fresh"}) == 1, "a fresh document has expired")


def failover(pair):
    """Checks that a driver that knows both servers continues, and that everything acknowledged is there."""
    try:
        pair.refused.start()
        fail("a second server was let in")
    except Refused as refusal:
        line = refusal.output.strip().splitlines()[-1]
        check("held by" in line and "--tikvStandby" in line, f"the refusal does not say what to do: {line}")
    with pair.client() as client:
        rows = client.get_database("failover").rows
        rows.create_index("n", unique=True)
        for round_number in range(2):
            acknowledged, stop, errors = [], threading.Event(), []

            def write(thread):
                n = 0
                try:
                    while not stop.is_set():
                        identity = f"{round_number}-{thread}-{n}"
                        rows.insert_one({"_id": identity, "n": identity})
                        acknowledged.append(identity)
                        n += 1
                except PyMongoError as e:
                    errors.append(f"{type(e).__name__}: {e}")

            threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
            for thread in threads:
                thread.start()
            time.sleep(2)
            before = len(acknowledged)
            took = pair.replace()
            time.sleep(2)
            stop.set()
            for thread in threads:
                thread.join()
            check(not errors, f"the application saw {errors}")
            check(len(acknowledged) > before, "nothing was written after the other had taken over")
            stored = {row["_id"] for row in rows.find({}, {"_id": 1})}
            lost = set(acknowledged) - stored
            check(not lost, f"{len(lost)} of {len(acknowledged)} acknowledged writes are lost: {sorted(lost)[:3]}")
            say(f"tikv: killed in the middle of writes: the other serves after {took:.1f} s, {len(acknowledged)} acknowledged writes are there, no error seen")
        verify_collection(rows)


def transfer(client, choose, acknowledged):
    """Moves money in a transaction that also inserts a record; the driver retries it."""
    bank = client.get_database("bank")
    source, target = choose.sample(range(ACCOUNTS), 2)
    identity = f"{choose.random()}"
    amount = choose.randrange(1, 10)

    def body(session):
        taken = bank.accounts.find_one_and_update(
            {"_id": source, "balance": {"$gte": amount}}, {"$inc": {"balance": -amount}}, session=session, return_document=ReturnDocument.AFTER
        )
        if taken is not None:
            bank.accounts.update_one({"_id": target}, {"$inc": {"balance": amount}}, session=session)
            bank.ledger.insert_one({"_id": identity, "from": source, "to": target, "amount": amount}, session=session)
        return taken is not None

    with client.start_session() as session:
        if session.with_transaction(body):
            acknowledged.append(identity)


def bank(pair, seconds, kill_every_s):
    with pair.client() as client:
        database = client.get_database("bank")
        database.accounts.insert_many([{"_id": n, "balance": BALANCE} for n in range(ACCOUNTS)])
        database.create_collection("ledger")
        acknowledged, errors, wrong, stop = [], [], [], threading.Event()

        def work(number):
            choose = random.Random(SEED + number)
            while not stop.is_set():
                try:
                    transfer(client, choose, acknowledged)
                except PyMongoError as e:
                    errors.append(f"{type(e).__name__}: {e}")
                    return

        def watch():
            while not stop.is_set():
                with client.start_session(snapshot=False) as session, session.start_transaction():
                    try:
                        total = sum(row["balance"] for row in database.accounts.find({}, session=session))
                        if total != ACCOUNTS * BALANCE:
                            wrong.append(total)
                    except PyMongoError:
                        pass  # The server is also killed in the middle of reads.
                time.sleep(0.1)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(CLIENTS)]
        for thread in [*threads, watcher := threading.Thread(target=watch)]:
            thread.start()
        began, took = time.monotonic(), []
        while time.monotonic() - began < seconds:
            time.sleep(kill_every_s)
            took.append(pair.replace())
        time.sleep(2)
        stop.set()
        for thread in [*threads, watcher]:
            thread.join()
        check(not errors, f"the application saw {errors}")
        check(not wrong, f"a reader saw sums of {wrong[:5]}")
        rows = list(database.accounts.find())
        check(sum(row["balance"] for row in rows) == ACCOUNTS * BALANCE, "money was lost or made")
        lines = {line["_id"]: line for line in database.ledger.find()}
        lost = set(acknowledged) - lines.keys()
        check(not lost, f"{len(lost)} acknowledged transfers are lost")
        for row in rows:
            moved = sum(line["amount"] * ((line["to"] == row["_id"]) - (line["from"] == row["_id"])) for line in lines.values())
            check(row["balance"] == BALANCE + moved, f"account {row['_id']} has {row['balance']}, its lines say {BALANCE + moved}")
        verify_collection(database.ledger)
        say(
            f"tikv: {len(acknowledged)} transfers by {CLIENTS} clients in {time.monotonic() - began:.0f} s, {len(took)} servers killed, the next one"
            f" served after {max(took):.1f} s at most, the sum is conserved, no error seen"
        )


def start_or_skip(start):
    """Ends the test with status 0 when the server is built without this engine."""
    try:
        start()
    except Refused as refusal:
        if "--features tikv" not in refusal.output:
            raise
        say(f"skipped: {refusal.output.strip()}")
        sys.exit(0)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    kill_every_s = float(sys.argv[2]) if len(sys.argv) > 2 else 15.0
    with Scratch() as scratch:
        cluster = Cluster()
        pair = Pair(scratch, cluster, f"t{SEED}-{int(time.time())}")
        start_or_skip(pair.servers[0].start)
        pair.servers[1].spawn()
        with pair.client() as client:
            count_requests(client)
        failover(pair)
        bank(pair, seconds, kill_every_s)
        if not os.environ.get("QUARRY_TIKV_PD"):
            oracle_time(pair, cluster)
        one, other = pair.serving()
        status, _ = other.terminate()
        check(status != 0, "one that stands by ends when it is told to, and says that it never served")
        one.stop()


if __name__ == "__main__":
    main()
