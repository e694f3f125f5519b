"""Reads through every server of a TiKV cluster: three servers, one of which holds the database; each of the others executes its reads
itself. Usage: reads.py [SECONDS]. Needs what tikv.py needs.

Checks: the holder's count of reads does not grow by reads through the others; each change of collections, indexes, views and rights is
visible to the next read through another server; no read is older than a write acknowledged before it began, whichever servers are used;
when the holder is killed, readers of the others continue."""

import sys
import threading
import time

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from equals import Servers
from harness import SEED, Scratch, check, say
from tikv import SELECTION_MS, Cluster, requests_of, start_or_skip

DOCUMENTS = 1_000
# Longest time without an answer for a reader of another server when the holder is killed.
GAP_S_MAX = 1.0
READ_COMMANDS = ("find", "aggregate", "count", "distinct", "getMore", "listCollections", "listIndexes")


def reads_here(client):
    """Numbers of requests that the server has executed itself and forwarded; None while it forwards all."""
    return client.admin.command("serverStatus")["quarry"].get("reads")


def wait_for_reads(client, address):
    began = time.monotonic()
    while reads_here(client) is None:
        check(time.monotonic() - began < 60, f"{address} executes no reads")
        time.sleep(0.1)


def commands_of(client):
    counts = client.admin.command("serverStatus")["metrics"]["commands"]
    return {name: counts[name]["total"] for name in READ_COMMANDS}


class Equal:
    """The servers by their present role, with a client for each."""

    def __init__(self, servers, **options):
        self.servers = servers
        self.holder_server = servers.holder()
        at = servers.all.index(self.holder_server)
        self.clients = [MongoClient(f"mongodb://{a}/", serverSelectionTimeoutMS=SELECTION_MS, **options) for a in servers.addresses]
        self.holder = self.clients[at]
        self.others = [client for client in self.clients if client is not self.holder]
        for client in self.others:
            wait_for_reads(client, client.address)


def executed_by_whom(equal):
    """Checks that reads through another server are executed there, without a request to the holder."""
    rows = equal.holder.counted.rows
    rows.insert_many([{"_id": n, "a": n % 10} for n in range(DOCUMENTS)])
    rows.create_index("a")
    for other in equal.others:
        mine = other.counted.rows
        mine.find_one({"_id": 0})
        before, here = commands_of(equal.holder), reads_here(other)
        for n in range(100):
            check(mine.find_one({"_id": n})["a"] == n % 10, "a wrong document")
        check(len(list(mine.find({"a": 3}, batch_size=20))) == DOCUMENTS // 10, "an index lost documents")
        check(len(list(mine.find({}, batch_size=300))) == DOCUMENTS, "a scan lost documents")
        check(mine.count_documents({}) == DOCUMENTS and mine.estimated_document_count() == DOCUMENTS, "a wrong count")
        check(sorted(mine.distinct("a")) == list(range(10)), "wrong distinct values")
        check({i["name"] for i in mine.list_indexes()} == {"_id_", "a_1"}, "wrong indexes")
        check(other.counted.list_collection_names() == ["rows"], "wrong collections")
        after, now = commands_of(equal.holder), reads_here(other)
        check(after == before, f"the holder was asked: {before} and then {after}")
        executed = now["executed"] - here["executed"]
        check(executed > 110, f"only {executed} requests were executed here")
    say(f"reads: {executed} requests executed by the server that they reached, none by the holder")


def requests_of_reads(equal):
    """The cost of a read through another server: compared with the holder, one more request to a store and one more timestamp, shared by
    all reads at that time."""
    other, count = equal.others[0], 200
    rows = other.counted.rows

    def each(read, times):
        read(0)
        before = requests_of(other)
        for n in range(times):
            read(n)
        after = requests_of(other)
        return {kind: (after[kind] - before.get(kind, 0)) / times for kind in after}

    def by_many(_):
        threads = [threading.Thread(target=lambda: [rows.find_one({"_id": n}) for n in range(count)]) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def of(cost, kind):
        return cost.get(kind, 0)

    for name, read in (("read by _id", lambda n: rows.find_one({"_id": n})), ("count", lambda _: rows.estimated_document_count())):
        cost = each(read, count)
        say(f"reads: {name}: " + ", ".join(f"{kind} {n:.2f}" for kind, n in sorted(cost.items()) if n >= 0.05))
        check(of(cost, "kv_get") <= 1.3 and of(cost, "kv_batch_get") <= 1.1 and of(cost, "kv_scan") <= 0.1, f"{name} costs {cost}")
        check(of(cost, "pd_get_timestamp") <= 1.3, f"{name} costs {cost}")
    cost = {kind: n / count / 16 for kind, n in each(by_many, 1).items()}
    say("reads: read by _id, 16 clients: " + ", ".join(f"{kind} {n:.2f}" for kind, n in sorted(cost.items()) if n >= 0.05))
    check(of(cost, "kv_batch_get") <= 0.7 and of(cost, "pd_get_timestamp") <= 0.7, f"moments are not shared: {cost}")


def changes_are_seen(equal):
    """Checks that every change through the holder is visible to the next read through another server."""
    database = equal.holder.changed
    for round_ in range(5):
        for other in equal.others:
            seen = other.changed
            seen.drop_collection("unknown")
            database.create_collection("c")
            check("c" in seen.list_collection_names(), "a created collection is not listed")
            database.c.insert_many([{"_id": n, "a": n} for n in range(20)])
            check(len(list(seen.c.find({"a": {"$gte": 10}}))) == 10, "a scan is stale")
            database.c.create_index("a")
            check("a_1" in seen.c.index_information(), "an index is not listed")
            check([d["_id"] for d in seen.c.find({"a": 7})] == [7], "an index is stale")
            database.c.update_one({"_id": 3}, {"$set": {"a": [7, 8]}})
            check([d["_id"] for d in seen.c.find({"a": 7}).sort("_id", 1)] == [3, 7], "an array in an index is not seen")
            check([d["_id"] for d in seen.c.find({"a": {"$gte": 18}}).sort("a", 1)] == [18, 19], "an index is stale")
            database.create_collection("v", viewOn="c", pipeline=[{"$match": {"a": 1}}])
            check(len(list(seen.v.find())) == 1, "a view is not seen")
            database.command("collMod", "v", viewOn="c", pipeline=[{"$match": {"a": {"$lt": 3}}}])
            check(len(list(seen.v.find())) == 3, "a changed view is not seen")
            database.c.rename("d")
            check(seen.c.find_one() is None and len(list(seen.d.find())) == 20, "a new name is not seen")
            check(list(seen.v.find()) == [], "a view on nothing is not empty")
            database.d.drop_index("a_1")
            check(set(seen.d.index_information()) == {"_id_"}, "a dropped index is listed")
            check(len(list(seen.d.find({"a": 7}))) == 2, "a dropped index is used")
            database.d.drop()
            check(seen.d.find_one() is None, "a dropped collection is read")
            database.e.insert_one({"_id": round_})
            check(seen.e.find_one()["_id"] == round_, "a new collection is not seen")
            equal.holder.drop_database("changed")
            check(seen.e.find_one() is None and seen.list_collection_names() == [], "a dropped database is read")
    say("reads: create, insert, index, array, view, rename, drop and dropDatabase seen by the next read through another server, 10 times")


class Written:
    """A counter and a list, their acknowledged state, and readers that check it."""

    def __init__(self, clients):
        self.clients, self.stop = clients, threading.Event()
        self.wrong, self.errors, self.reads, self.gaps = [], [], 0, {}
        self.lock, self.acknowledged, self.appended = threading.Lock(), [0] * len(clients), []
        base = clients[0].fresh
        base.counters.insert_many([{"_id": n, "n": 0} for n in range(len(clients))])
        base.lists.insert_one({"_id": 0, "list": []})

    def write(self, number, client):
        n = 0
        while not self.stop.is_set():
            n += 1
            client.fresh.counters.update_one({"_id": number}, {"$set": {"n": n}})
            # Only this thread writes it.
            self.acknowledged[number] = n
            element = f"{number}/{n}"
            client.fresh.lists.update_one({"_id": 0}, {"$push": {"list": element}})
            with self.lock:
                self.appended.append(element)

    def read(self, name, client, choose):
        last = time.monotonic()
        seen = 0
        while not self.stop.is_set():
            number = choose % len(self.acknowledged)
            choose += 1
            before = self.acknowledged[number]
            found = client.fresh.counters.find_one({"_id": number})["n"]
            if found < before:
                self.wrong.append(f"{name}: counter {number} is {found}, {before} was acknowledged before")
            if choose % 5 == 0:
                with self.lock:
                    appended = list(self.appended)
                there = client.fresh.lists.find_one({"_id": 0})["list"]
                missing = set(appended) - set(there)
                if missing or len(there) != len(set(there)) or len(there) < seen:
                    self.wrong.append(f"{name}: {len(missing)} elements are missing, {len(there)} there, {seen} were seen")
                seen = len(there)
            now = time.monotonic()
            self.gaps[name] = max(self.gaps.get(name, 0), now - last)
            last = now
            self.reads += 1

    def run(self, what, *arguments):
        def run():
            try:
                what(*arguments)
            except PyMongoError as e:
                self.errors.append(f"{what.__name__}: {type(e).__name__}: {e}")

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def end(self, threads):
        self.stop.set()
        for thread in threads:
            thread.join(120)
            check(not thread.is_alive(), "a client waits for ever")
        check(not self.wrong, f"{len(self.wrong)} wrong: {self.wrong[:5]}")
        check(not self.errors, f"{self.errors[:5]}")


def never_stale(equal, seconds):
    """Runs writers and readers through each server."""
    written = Written(equal.clients)
    threads = [written.run(written.write, n, client) for n, client in enumerate(equal.clients)]
    threads += [written.run(written.read, f"reader {n}", client, n) for n, client in enumerate(equal.clients * 2)]
    time.sleep(seconds)
    written.end(threads)
    writes = sum(written.acknowledged) * 2
    check(writes > 0 and written.reads > 0, "nothing was done")
    say(f"reads: {written.reads} reads beside {writes} acknowledged writes through {len(equal.clients)} servers in {seconds:.0f} s, none of them stale")


def holder_is_killed(equal):
    """Checks that readers of the other servers continue while nobody holds the database."""
    equal.holder.fresh2.counters.insert_many([{"_id": n, "n": 0} for n in range(3)])
    equal.holder.fresh2.lists.insert_one({"_id": 0, "list": []})
    gaps, counts, errors, stop = {}, {}, [], threading.Event()

    def read(name, client):
        last = time.monotonic()
        while not stop.is_set():
            try:
                check(client.fresh2.counters.find_one({"_id": 1})["n"] == 0, "a wrong document")
                check(client.fresh2.counters.count_documents({}) == 3, "a wrong count")
            except PyMongoError as e:
                errors.append(f"{name}: {type(e).__name__}: {e}")
            now = time.monotonic()
            gaps[name] = max(gaps.get(name, 0), now - last)
            counts[name] = counts.get(name, 0) + 1
            last = now

    threads = [threading.Thread(target=read, args=(f"{client.address}", client), daemon=True) for client in equal.others]
    for thread in threads:
        thread.start()
    time.sleep(2)
    before = max(gaps.values())
    gaps.clear()
    began = time.monotonic()
    equal.holder_server.kill()
    time.sleep(1)
    equal.servers.holder()
    took = time.monotonic() - began
    time.sleep(2)
    stop.set()
    for thread in threads:
        thread.join(60)
        check(not thread.is_alive(), "a reader waits for ever")
    check(not errors, f"{errors[:5]}")
    worst = max(gaps.values())
    check(worst < GAP_S_MAX, f"a reader of another server waited {worst:.2f} s for an answer")
    say(f"reads: the holder was killed and nobody held the database for {took:.1f} s; the readers of the others waited {worst:.2f} s at most ({before:.2f} s before), {sum(counts.values())} rounds")
    equal.servers.start_again(equal.holder_server)


def rights(scratch, cluster, prefix):
    """Checks that reads through another server use the rights of their user, also after they change."""
    servers = Servers(scratch, cluster, prefix)
    for server in servers.all:
        server.options = (*server.options, "--auth")
    servers.start()
    holder_at = servers.all.index(servers.holder())
    address = servers.addresses[holder_at]
    with MongoClient(f"mongodb://{address}/", serverSelectionTimeoutMS=SELECTION_MS) as first:
        first.admin.command("createUser", "root", pwd="secret", roles=["root"])
    equal = Equal(servers, username="root", password="secret")
    admin = equal.holder
    admin.db.c.insert_one({"_id": 1})
    admin.admin.command("createRole", "reader", privileges=[{"resource": {"db": "db", "collection": "c"}, "actions": ["find"]}], roles=[])
    admin.admin.command("createUser", "u", pwd="secret", roles=["reader"])
    for at, other in zip([n for n in range(3) if n != holder_at], equal.others):
        def refused(client, name):
            try:
                client.db[name].find_one()
            except OperationFailure as e:
                return e.code == 13
            return False

        here = MongoClient(f"mongodb://{servers.addresses[at]}/", username="u", password="secret", serverSelectionTimeoutMS=SELECTION_MS)
        before = reads_here(other)["executed"]
        for _ in range(20):
            check(here.db.c.find_one() == {"_id": 1}, "a user cannot read")
        check(reads_here(other)["executed"] - before >= 20, "reads of a user were not executed here")
        check(refused(here, "other"), "a user reads what it has no right to")
        admin.admin.command("revokeRolesFromUser", "u", roles=["reader"])
        check(refused(here, "c"), "a right that was revoked still holds")
        admin.admin.command("grantRolesToUser", "u", roles=["reader"])
        check(here.db.c.find_one() == {"_id": 1}, "a right that was granted does not hold")
        admin.admin.command("revokePrivilegesFromRole", "reader", privileges=[{"resource": {"db": "db", "collection": "c"}, "actions": ["find"]}])
        check(refused(here, "c"), "a privilege that was revoked still holds")
        admin.admin.command("grantPrivilegesToRole", "reader", privileges=[{"resource": {"db": "db", "collection": "c"}, "actions": ["find"]}])
        check(here.db.c.find_one() == {"_id": 1}, "a privilege that was granted does not hold")
        unknown = MongoClient(f"mongodb://{servers.addresses[at]}/", serverSelectionTimeoutMS=SELECTION_MS)
        check(refused(unknown, "c"), "who has not logged in reads")
    say("reads: rights of users held at the next read through another server")
    for server in servers.all:
        server.kill()


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    with Scratch() as scratch:
        cluster = Cluster()
        prefix = f"r{SEED}-{int(time.time())}"
        servers = Servers(scratch, cluster, prefix)
        start_or_skip(servers.start)
        equal = Equal(servers)
        executed_by_whom(equal)
        requests_of_reads(equal)
        changes_are_seen(equal)
        never_stale(equal, seconds)
        holder_is_killed(equal)
        for server in servers.all:
            server.kill()
        rights(scratch, cluster, f"{prefix}-a")


if __name__ == "__main__":
    main()
