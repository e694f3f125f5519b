"""Changes of the catalog concurrent with reads and writes on eight threads, with crashes and a bad disk. Usage: soak_ddl.py SECONDS

Each round loads one directory for a while and ends it: by kill -9, by delayed flushes and then kill -9, by a failed flush, by SIGTERM.
After each round the server starts again, and then:
every write that was acknowledged with {w: majority, j: true} is there, an open one is there as a whole or not at all;
`validate` with full is clean for every collection, counts equal scans (also through every index);
no reply was later than LATE_S plus the delay of the flushes plus the time for which this machine kept the processes waiting for a
processor.
At the end everything is dropped: no key is left in the engine's tables, and the directory is about as small as that of a new server.

While a reply is late, the stacks of all threads of the server are printed, with gdb if it is installed.
"""

import glob
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

from pymongo.errors import PyMongoError

from harness import ENGINE, SEED, Scratch, check, say, verify_collection
from soak_load import Workers, prepare, verify_acknowledged
from soak_watch import LATE_S, Watch

WORKERS = 8
ENDS = ("kill", "late flushes", "failed flush", "kill", "term")
# Delay of each flush in a round of delayed flushes.
DELAY_S = 0.25
# The server's exit status after a failed flush.
STATUS_JOURNAL = 14
# Allowed difference between an empty directory and one that had data: options and info log files, and one manifest, of each start that
# RocksDB keeps, and a journal that is not full.
GROWTH_BYTES_MAX = 8 << 20
SHRINK_S_MAX = 150
# Small enough that the log of changes is truncated many times; it may remain when everything is dropped.
OPLOG_MB = 16
# On a memory disk, if there is one, no reply is late because of the real disk: only because of this test's delays.
MEMORY_DISK, MEMORY_DISK_BYTES = "/dev/shm", 4 << 30
SYSTEM = ("admin", "config", "local")


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
        with open(self.control + ".new", "w") as file:
            file.write(what)
        os.rename(self.control + ".new", self.control)


def end_round(server, device, how, seconds, watch):
    """Lets the load run, then ends the server in one of the ways."""
    if how == "late flushes":
        time.sleep(seconds / 2)
        watch.delay_s = DELAY_S
        device.set(f"delay {int(DELAY_S * 1000)}")
        time.sleep(seconds / 2)
        check(watch.longest_s >= DELAY_S, f"no reply waited for a delayed flush, the longest took {watch.longest_s:.2f} s")
    else:
        time.sleep(seconds)
    watch.ending.set()
    if how == "failed flush":
        device.set("fail")
        try:
            # The server ends by itself; if it keeps running, it refuses writes.
            status = server.process.wait(5)
            check(status == STATUS_JOURNAL, f"status {status} after a failed flush: {server.output()[-2000:]}")
        except subprocess.TimeoutExpired:
            server.kill()
    elif how == "term":
        server.stop()
    else:
        check(server.alive(), f"the server ended by itself: {server.output()[-3000:]}")
        server.kill()
    device.set("")


def verify(server, workers):
    with server.client(serverSelectionTimeoutMS=20000) as client:
        opened = verify_acknowledged(client, workers)
        collections = 0
        for db in (n for n in client.list_database_names() if n not in SYSTEM):
            for info in list(client[db].list_collections()):
                collections += 1
                verify_one(client[db][info["name"]])
        return opened, collections


def verify_one(collection):
    """The checks of verify_collection, and that no two documents have the same key in a unique index."""
    for index in list(collection.list_indexes()):
        if index.get("hidden"):
            # A hidden index cannot be hinted.
            collection.database.command("collMod", collection.name, index={"name": index["name"], "hidden": False})
    verify_collection(collection)
    for index in collection.list_indexes():
        if index.get("unique") and len(index["key"]) == 1:
            owners, (field,) = {}, index["key"]
            for doc in collection.find({field: {"$exists": True}}, {field: 1}):
                values = doc[field] if isinstance(doc[field], list) else [doc[field]]
                for value in values:
                    owner = owners.setdefault(str(value), doc["_id"])
                    check(owner == doc["_id"], f"{collection.full_name}: {owner} and {doc['_id']} both own {value} of {index['name']}")


def directory_bytes(path):
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                pass
    return total


def occupied_bytes(server):
    """The size of a running server's data; the server is stopped. LMDB's file does not shrink: its pages in use count."""
    if ENGINE != "lmdb":
        server.stop()
        return directory_bytes(server.dbpath)
    with server.client() as client:
        figures = client.admin.command("serverStatus")["quarry"]["engine"]
    server.stop()
    return sum(bytes for name, bytes in figures.items() if name.endswith(".size_bytes"))


def empty_server(scratch):
    """The size of a directory in which a server has created and dropped one collection, and the keys in one of an unused server."""
    new = scratch.server("new").start()
    new.stop()
    server = scratch.server("empty").start()
    with server.client() as client:
        client["a"]["b"].insert_one({})
        client.drop_database("a")
    return occupied_bytes(server), keys_left(new.dbpath)


def keys_left(dbpath):
    """Lines about remaining keys of dropped collections and indexes; None without the program that lists them."""
    program = os.environ.get("QUARRY_IDENTS")
    if not program:
        return None
    listed = subprocess.run([program, ENGINE or "rocksdb", dbpath], check=True, capture_output=True, text=True).stdout.splitlines()
    # Rows of the catalog, counters, multikey and order marks, records of drops; other rows of meta may remain.
    return [line for line in listed if line.split()[0] != "meta" or line.split()[1] in "cnmod"]


def verify_space(scratch, server):
    """Drops everything and checks that neither keys nor files are left."""
    with server.client(serverSelectionTimeoutMS=20000) as client:
        for db in client.list_database_names():
            if db not in SYSTEM:
                client.drop_database(db)
        left = [db for db in client.list_database_names() if db not in SYSTEM]
        check(not left, f"databases that were dropped: {left}")
    empty, system_keys = empty_server(scratch)
    # A new server's own collections, as pairs of table and identifier. The log of starts has a document for each start.
    own = {tuple(line.split()[:2]) for line in system_keys or () if not line.startswith("meta ")}
    allowed = empty + GROWTH_BYTES_MAX + (OPLOG_MB << 20)
    began = time.monotonic()
    while True:
        size, keys = occupied_bytes(server), keys_left(server.dbpath)
        # The server's own collections remain, as in a new server; a restart marks that their documents are not in order.
        foreign = keys and [line for line in keys if line not in system_keys and line != "meta o 1" and tuple(line.split()[:2]) not in own]
        if size <= allowed and not foreign:
            return size, allowed, keys is not None
        waited = time.monotonic() - began
        check(waited < SHRINK_S_MAX, f"{waited:.0f} s after all was dropped {size} bytes are left, {allowed} are allowed; keys: {keys}; "
              f"files: {sorted((os.path.getsize(f), os.path.basename(f)) for f in glob.glob(server.dbpath + '/*'))[-12:]}")
        server.start()
        time.sleep(10)


def one_round(server, device, workers, round_, seconds):
    how = ENDS[round_ % len(ENDS)]
    watch = Watch(server, WORKERS)
    client = watch.client()
    workers.start(client, round_, watch)
    try:
        end_round(server, device, how, seconds, watch)
    finally:
        unexpected = workers.join()
        watch.stop()
        client.close()
    check(not unexpected, f"round {round_}: {unexpected[:3]}")
    check(not watch.late, f"round {round_} ({how}): replies later than {LATE_S} s: " + "\n".join(watch.late[:3]))
    began = time.monotonic()
    server.start()
    opened, collections = verify(server, workers)
    say(f"  round {round_} ({how}): {workers.summary()}, {opened} open, {collections} collections clean, longest reply "
        f"{watch.longest_s:.2f} s of which the machine {watch.longest_waits_s:.2f}; start and checks {time.monotonic() - began:.1f} s")


def main(seconds):
    rng = random.Random(SEED)
    workers = Workers(WORKERS, SEED)
    if os.path.isdir(MEMORY_DISK) and shutil.disk_usage(MEMORY_DISK).free > MEMORY_DISK_BYTES:
        tempfile.tempdir = MEMORY_DISK
    # Eight threads share one interpreter: none should wait long for its turn.
    sys.setswitchinterval(0.001)
    with Scratch() as scratch:
        library, device = prepare_library(scratch.path), Device(scratch.path)
        device.set("")
        wrap = []
        if library:
            wrap = ["env", f"LD_PRELOAD={library}", f"QUARRY_SYNC_FAULT={device.control}"]
        else:
            say("soak-ddl: without late and failing flushes, there is no C compiler")
        server = scratch.server("data", "--memory", "512M", "--oplogSize", str(OPLOG_MB), wrap=wrap).start()
        with server.client() as client:
            prepare(client, WORKERS)
        say(f"soak-ddl: seed {SEED}")
        began, round_ = time.monotonic(), 0
        while time.monotonic() - began < seconds or round_ < 2:
            one_round(server, device, workers, round_, min(rng.uniform(4, 12), max(seconds / 4, 2)))
            round_ += 1
        size, allowed, looked = verify_space(scratch, server)
    keys = "no key left" if looked else "keys not looked at (QUARRY_IDENTS is not set)"
    say(f"soak-ddl: {round_} rounds in {time.monotonic() - began:.0f} s, {workers.summary()}, none lost; all dropped: {size} bytes "
        f"of {allowed} allowed, {keys}; seed {SEED}")


if __name__ == "__main__":
    try:
        main(float(sys.argv[1]))
    except PyMongoError as error:
        sys.exit(f"FAILED: {error!r}")
