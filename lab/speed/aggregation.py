#!/usr/bin/env python3
"""Aggregation over a million documents: Quarry beside the same work by hand over RocksDB, and
beside PostgreSQL's jsonb.

    lab/speed/aggregation.py [--documents N] [--rounds N] [--out FILE]

Needs pymongo, a release build of `quarry` (QUARRY_BIN) and of the example `scan_group`
(SCAN_GROUP_BIN); PostgreSQL is left out, with a message, if its programs are missing. All sides run
on the same documents, one after the other, warm; the best of the rounds counts (for PostgreSQL with
its usual parallel workers, and once more without). CPU is that of the server's processes. Results are
compared before any time is printed.
"""

import argparse
import json
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pymongo
import pymongo.errors

PIPELINE = [
    {"$match": {"status": {"$lt": 50}}},
    {"$group": {"_id": "$g", "amount": {"$sum": "$amount"}, "qty": {"$avg": "$qty"}}},
]
SQL = (
    "SELECT (doc->>'g')::int, sum((doc->>'amount')::float8), avg((doc->>'qty')::float8) "
    "FROM orders WHERE (doc->>'status')::int < 50 GROUP BY 1"
)
SQL_SORT = (
    "SELECT count(*), max(a) FROM (SELECT (doc->>'amount')::float8 AS a FROM orders ORDER BY a"
    " OFFSET 0) s"
)
SQL_SORT_WHOLE = (
    "SELECT count(*), max(doc->>'name') FROM (SELECT doc FROM orders ORDER BY"
    " (doc->>'amount')::float8 OFFSET 0) s"
)
WORDS = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot"]


def documents(n):
    rnd = random.Random(1)
    for i in range(n):
        yield {
            "_id": i,
            "status": rnd.randrange(100),
            "g": rnd.randrange(1000),
            "amount": rnd.random() * 100,
            "qty": rnd.randrange(10),
            "name": rnd.choice(WORDS) + str(i),
            "tags": [rnd.choice(WORDS), rnd.choice(WORDS)],
            "addr": {"city": rnd.choice(WORDS), "zip": rnd.randrange(99999)},
            "note": "x" * 40,
        }


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def cpu(pids):
    """User and system seconds of processes and of their children that have ended."""
    total = 0
    for pid in pids:
        f = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += sum(int(f[i]) for i in (11, 12, 13, 14))
    return total / os.sysconf("SC_CLK_TCK")


def best(rounds, pids, work):
    """(seconds, CPU seconds, result) of the fastest round."""
    out = None
    for _ in range(rounds):
        c, t = cpu(pids()), time.perf_counter()
        result = work()
        took = time.perf_counter() - t
        used = cpu(pids()) - c
        if out is None or took < out[0]:
            out = (took, used, result)
    return out


class Quarry:
    def __init__(self, folder, *options, memory="4G"):
        self.folder, self.options, self.process, self.port = folder, options, None, 0
        self.memory = memory

    def start(self):
        self.port = free_port()
        self.process = subprocess.Popen(
            [
                os.environ["QUARRY_BIN"],
                "serve",
                "--dbpath",
                self.folder,
                "--port",
                str(self.port),
                "--memory",
                self.memory,
                "--nounixsocket",
                *self.options,
            ],
            stdout=subprocess.DEVNULL,
        )
        self.client = pymongo.MongoClient("127.0.0.1", self.port, directConnection=True)
        self.db = self.client.speed
        self.client.admin.command("ping")

    def stop(self):
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def pids(self):
        return [self.process.pid]


class Postgres:
    """A private cluster, owned by the user that PostgreSQL's programs require."""

    def __init__(self, folder):
        self.bin = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"))), None)
        self.folder, self.port = folder, free_port()
        self.user = (
            ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
            if os.geteuid() == 0
            else []
        )

    def run(self, *argv, **kw):
        return subprocess.run(
            [*self.user, *map(str, argv)], check=True, capture_output=True, text=True, cwd="/", **kw
        ).stdout

    def start(self):
        if self.user:
            os.chmod(Path(self.folder).parent, 0o755)
            Path(self.folder).mkdir()
            who = pwd.getpwnam("postgres")
            os.chown(self.folder, who.pw_uid, who.pw_gid)
        self.run(self.bin / "initdb", "-D", self.folder, "-A", "trust", "-U", "postgres")
        options = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder}"
            " -c shared_buffers=2GB -c work_mem=256MB -c max_wal_size=4GB"
        )
        self.run(
            self.bin / "pg_ctl",
            "-D",
            self.folder,
            "-w",
            "-o",
            options,
            "-l",
            f"{self.folder}/log",
            "start",
        )
        self.process = int(Path(self.folder, "postmaster.pid").read_text().split()[0])

    def sql(self, text, **kw):
        return self.run(
            self.bin / "psql",
            "-h",
            "127.0.0.1",
            "-p",
            self.port,
            "-U",
            "postgres",
            "-qAt",
            "-F",
            "\t",
            "-c",
            text,
            **kw,
        )

    def pids(self):
        # The CPU of a finished backend counts as that of the postmaster's children.
        return [self.process]

    def stop(self):
        self.run(self.bin / "pg_ctl", "-D", self.folder, "-w", "-m", "fast", "stop")


def main():
    args = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    args.add_argument("--documents", type=int, default=1_000_000)
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--out", type=Path)
    args = args.parse_args()
    n = args.documents
    folder = tempfile.mkdtemp(prefix="quarry-speed-")
    rows = []

    def note(name, side, took, used, beside=None):
        row = {"work": name, "side": side, "seconds": round(took, 4), "cpu_seconds": round(used, 3)}
        if beside:
            row["ratio"] = round(took / beside, 2)
        rows.append(row)
        print(
            f"{name:<34} {side:<22} {took:8.3f} s  CPU {used:7.2f} s"
            + (f"  {took / beside:6.2f} x Quarry" if beside else ""),
            flush=True,
        )

    quarry = Quarry(f"{folder}/quarry")
    try:
        quarry.start()
        batch = []
        for d in documents(n):
            batch.append(d)
            if len(batch) == 5000:
                quarry.db.orders.insert_many(batch)
                batch = []
        if batch:
            quarry.db.orders.insert_many(batch)
        # Documents in files, none left in memtables: the state the floor reads, too.
        quarry.stop()
        hand = None
        if "SCAN_GROUP_BIN" in os.environ:
            out = subprocess.run(
                [os.environ["SCAN_GROUP_BIN"], quarry.folder, str(args.rounds)],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            rounds = [
                (
                    float(line.split(", ")[4].split()[0]),
                    float(line.split("CPU ")[1].split()[0]),
                    line,
                )
                for line in out.splitlines()
            ]
            hand = min(rounds)
            hand_check = float(hand[2].split("check ")[1].split(",")[0])
        quarry.start()
        orders = quarry.db.orders
        group = best(args.rounds, quarry.pids, lambda: list(orders.aggregate(PIPELINE)))
        note("match half, group 1000", "Quarry", *group[:2])
        if hand:
            check = sum(g["amount"] + g["qty"] for g in group[2])
            if abs(check - hand_check) > 1e-6 * abs(check):
                sys.exit(f"results differ: {check} and by hand {hand_check}")
            note("match half, group 1000", "by hand over RocksDB", *hand[:2], beside=group[0])
        scan = best(args.rounds, quarry.pids, lambda: list(orders.find({"status": -1})))
        note("scan that finds nothing", "Quarry", *scan[:2])
        count = [
            {"$sort": {"amount": 1}},
            {"$group": {"_id": None, "n": {"$sum": 1}, "max": {"$last": "$amount"}}},
        ]
        sort = best(2, quarry.pids, lambda: list(orders.aggregate(count, allowDiskUse=True)))
        assert sort[2][0]["n"] == n, sort[2]
        note("sort of all by one field", "Quarry", *sort[:2])
        # The last whole document is wanted, so whole documents are sorted: more than the 100 MB a
        # stage may hold.
        whole = [
            {"$sort": {"amount": 1}},
            {"$group": {"_id": None, "n": {"$sum": 1}, "last": {"$last": "$$ROOT"}}},
        ]
        spilled = best(2, quarry.pids, lambda: list(orders.aggregate(whole, allowDiskUse=True)))
        assert (
            spilled[2][0]["n"] == n and spilled[2][0]["last"]["amount"] == sort[2][0]["max"]
        ), spilled[2]
        try:
            list(orders.aggregate(whole, allowDiskUse=False))
            print("the sort of whole documents did not need the disk: more documents are needed")
        except pymongo.errors.OperationFailure as e:
            assert e.code == 292, e
        note("sort of whole documents, spilling", "Quarry", *spilled[:2])
        top = best(
            args.rounds, quarry.pids, lambda: list(orders.find().sort("amount", -1).limit(20))
        )
        note("top 20 by amount", "Quarry", *top[:2])
        quarry.db.customers.insert_many(
            [{"_id": i, "g": i, "name": f"customer {i}"} for i in range(1000)]
        )
        quarry.db.customers.create_index("g")
        m = min(n, 100_000)
        lookup = [
            {"$match": {"_id": {"$lt": m}}},
            {"$lookup": {"from": "customers", "localField": "g", "foreignField": "g", "as": "c"}},
            {"$group": {"_id": None, "n": {"$sum": {"$size": "$c"}}}},
        ]
        joined = best(3, quarry.pids, lambda: list(orders.aggregate(lookup)))
        assert joined[2][0]["n"] == m, joined[2]
        note(f"lookup of {m} into an index", "Quarry", *joined[:2])

        postgres = Postgres(f"{folder}/postgres")
        if postgres.bin is None:
            print("PostgreSQL is not installed: left out")
        else:
            postgres.start()
            try:
                postgres.sql("CREATE TABLE orders (doc jsonb); CREATE TABLE customers (doc jsonb)")
                # Escaped for COPY's text format, which takes a backslash for itself.
                text = "".join(json.dumps(d).replace("\\", "\\\\") + "\n" for d in documents(n))
                postgres.sql("COPY orders FROM STDIN", input=text)
                postgres.sql(
                    "COPY customers FROM STDIN",
                    input="".join(
                        json.dumps({"g": i, "name": f"customer {i}"}) + "\n" for i in range(1000)
                    ),
                )
                postgres.sql("CREATE INDEX ON customers (((doc->>'g')::int))")
                postgres.sql("VACUUM ANALYZE")
                pg = best(args.rounds, postgres.pids, lambda: postgres.sql(SQL))
                lines = [line.split("\t") for line in pg[2].splitlines()]
                check, theirs = sum(g["amount"] + g["qty"] for g in group[2]), sum(
                    float(a) + float(q) for _, a, q in lines
                )
                if len(lines) != len(group[2]) or abs(check - theirs) > 1e-6 * abs(check):
                    sys.exit(f"results differ: {check} and PostgreSQL's {theirs}")
                note("match half, group 1000", "PostgreSQL jsonb", *pg[:2], beside=group[0])
                alone = "SET max_parallel_workers_per_gather = 0; "
                pg = best(args.rounds, postgres.pids, lambda: postgres.sql(alone + SQL))
                note("match half, group 1000", "PostgreSQL, one process", *pg[:2], beside=group[0])
                pg = best(2, postgres.pids, lambda: postgres.sql(SQL_SORT))
                note("sort of all by one field", "PostgreSQL jsonb", *pg[:2], beside=sort[0])
                pg = best(
                    2,
                    postgres.pids,
                    lambda: postgres.sql("SET work_mem = '100MB'; " + SQL_SORT_WHOLE),
                )
                note(
                    "sort of whole documents, spilling",
                    "PostgreSQL jsonb",
                    *pg[:2],
                    beside=spilled[0],
                )
                join = (
                    "SELECT count(*) FROM orders o JOIN customers c ON (o.doc->>'g')::int ="
                    f" (c.doc->>'g')::int WHERE (o.doc->>'_id')::int < {m}"
                )
                pg = best(3, postgres.pids, lambda: postgres.sql(join))
                assert int(pg[2]) == m, pg[2]
                note(f"lookup of {m}", "PostgreSQL jsonb", *pg[:2], beside=joined[0])
            finally:
                postgres.stop()
    finally:
        if quarry.process and quarry.process.poll() is None:
            quarry.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if args.out:
        args.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
