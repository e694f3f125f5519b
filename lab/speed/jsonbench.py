#!/usr/bin/env python3
"""The five questions of JSONBench: Quarry by rows and by columns, PostgreSQL's jsonb, and DuckDB
over JSON and over typed columns.

    lab/speed/jsonbench.py [--events N] [--seed N] [--rounds N] [--memory SIZE] [--dir DIR] [--out FILE]

Needs pymongo and duckdb, and a release build of `quarry` (QUARRY_BIN); PostgreSQL is left out, with
a message, if its programs are missing. Events have the form of those of Bluesky's stream, but are
drawn, not recorded, so figures can be compared only with others of this program. Every side
gets the same file of events, one side after the other, and answers all questions; an answer that
differs from the others ends the program before any time is printed. The best warm round
counts; CPU is that of the answering process and its children. Sizes are those of data and
indexes, without journals.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from aggregation import Postgres, Quarry, best

KINDS = ["commit"] * 97 + ["identity"] * 2 + ["account"]
OPERATIONS = ["create"] * 95 + ["delete"] * 4 + ["update"]
COLLECTIONS = (
    ["app.bsky.feed.like"] * 45
    + ["app.bsky.graph.follow"] * 25
    + ["app.bsky.feed.post"] * 20
    + ["app.bsky.feed.repost"] * 10
)
LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
FIRST_US = 1_732_206_349_000_000
SPAN_US = 86_400_000_000
BATCH = 5000
COLUMN_PATHS = ["kind", "commit.operation", "commit.collection", "did", "time_us"]
EVENT = "commit.collection"
CREATED = {"kind": "commit", "commit.operation": "create"}
POSTS = {**CREATED, EVENT: "app.bsky.feed.post"}
OF_HOURS = ["app.bsky.feed.post", "app.bsky.feed.repost", "app.bsky.feed.like"]


def events(count, seed):
    """Events in order of time; a few users make most of them."""
    draw = random.Random(seed)
    text = lambda length: "".join(draw.choices(LETTERS, k=length))
    users = [f"did:plc:{text(24)}" for _ in range(max(count // 20, 10))]
    for number in range(count):
        kind = draw.choice(KINDS)
        at = FIRST_US + number * SPAN_US // count
        event = {"did": users[int(len(users) * draw.random() ** 3)], "time_us": at, "kind": kind}
        if kind == "commit":
            event["commit"] = commit(draw, text, at)
        elif kind == "identity":
            event["identity"] = {"did": event["did"], "handle": text(12), "seq": number}
        else:
            event["account"] = {"active": draw.random() < 0.9, "did": event["did"], "seq": number}
        yield event


def commit(draw, text, at):
    operation, collection = draw.choice(OPERATIONS), draw.choice(COLLECTIONS)
    made = {"rev": text(13), "operation": operation, "collection": collection, "rkey": text(13)}
    if operation == "delete":
        return made
    record = {"$type": collection, "createdAt": at // 1_000_000}
    if collection == "app.bsky.feed.post":
        record["langs"] = draw.sample(["en", "ja", "de", "pt"], draw.randrange(3))
        record["text"] = text(draw.randrange(280))
    elif collection == "app.bsky.graph.follow":
        record["subject"] = f"did:plc:{text(24)}"
    else:
        record["subject"] = {"cid": text(59), "uri": f"at://did:plc:{text(24)}/{text(13)}"}
    return {**made, "record": record, "cid": text(59)}


def stages(match, group, *behind):
    return ([{"$match": match}] if match else []) + [{"$group": group}, *behind]


FIRST_LAST = {"first": {"$min": "$time_us"}, "last": {"$max": "$time_us"}}
HOUR = {"$floor": {"$mod": [{"$divide": ["$time_us", 3_600_000_000]}, 24]}}
PIPELINES = {
    "q1 events by collection": stages(
        None, {"_id": f"${EVENT}", "n": {"$sum": 1}}, {"$sort": {"n": -1, "_id": 1}}
    ),
    "q2 users by collection": stages(
        CREATED,
        {"_id": {"event": f"${EVENT}", "did": "$did"}, "n": {"$sum": 1}},
        {"$group": {"_id": "$_id.event", "n": {"$sum": "$n"}, "users": {"$sum": 1}}},
        {"$sort": {"n": -1, "_id": 1}},
    ),
    "q3 events by hour": stages(
        {**CREATED, EVENT: {"$in": OF_HOURS}},
        {"_id": {"event": f"${EVENT}", "hour": HOUR}, "n": {"$sum": 1}},
        {"$sort": {"_id.hour": 1, "_id.event": 1}},
    ),
    "q4 first posts": stages(
        POSTS,
        {"_id": "$did", "first": {"$min": "$time_us"}},
        {"$sort": {"first": 1, "_id": 1}},
        {"$limit": 3},
    ),
    "q5 longest spans": stages(
        POSTS,
        {"_id": "$did", **FIRST_LAST},
        {"$project": {"span": {"$subtract": ["$last", "$first"]}}},
        {"$sort": {"span": -1, "_id": 1}},
        {"$limit": 3},
    ),
}

SQL_CREATED = "{kind} = 'commit' AND {operation} = 'create'"
SQL_POSTS = SQL_CREATED + " AND {event} = 'app.bsky.feed.post'"
SQL_HOUR = "(({time} / 3600000000)::bigint % 24)"
SQL = {
    "q1 events by collection": "SELECT {event}, count(*) FROM {table} GROUP BY 1",
    "q2 users by collection": "SELECT {event}, count(*), count(DISTINCT {did}) FROM {table}"
    f" WHERE {SQL_CREATED} GROUP BY 1",
    "q3 events by hour": f"SELECT {{event}}, {{hour}}, count(*) FROM {{table}} WHERE {SQL_CREATED}"
    f" AND {{event}} IN ({', '.join(map(repr, OF_HOURS))}) GROUP BY 1, 2",
    "q4 first posts": f"SELECT {{did}}, min({{time}}) FROM {{table}} WHERE {SQL_POSTS}"
    " GROUP BY 1 ORDER BY 2, 1 LIMIT 3",
    "q5 longest spans": "SELECT {did}, max({time}) - min({time}) AS span FROM {table}"
    f" WHERE {SQL_POSTS} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3",
}
JSONB = {
    "table": "events",
    "kind": "doc->>'kind'",
    "operation": "doc->'commit'->>'operation'",
    "event": "doc->'commit'->>'collection'",
    "did": "doc->>'did'",
    "time": "(doc->>'time_us')::bigint",
    "hour": "(((doc->>'time_us')::bigint / 3600000000) % 24)",
}
DUCK_JSON = {
    "table": "raw",
    "kind": "(doc->>'$.kind')",
    "operation": "(doc->>'$.commit.operation')",
    "event": "(doc->>'$.commit.collection')",
    "did": "(doc->>'$.did')",
    "time": "(doc->>'$.time_us')::BIGINT",
    "hour": "(((doc->>'$.time_us')::BIGINT // 3600000000) % 24)",
}
DUCK_TYPED = {
    "table": "typed",
    "kind": "kind",
    "operation": "operation",
    "event": "event",
    "did": "did",
    "time": "time_us",
    "hour": "((time_us // 3600000000) % 24)",
}


def rows_of(documents):
    """Converts an answer of Quarry into rows in the order of SQL's columns."""
    for document in documents:
        key = document.pop("_id", None)
        keys = list(key.values()) if isinstance(key, dict) else [key]
        yield tuple(keys + list(document.values()))


def plain(rows):
    """Converts rows into a common form and order: numbers become integers, missing values stay missing."""
    number = lambda v: int(v) if isinstance(v, (int, float)) else v
    whole = [tuple(number(v) for v in row) for row in rows]
    return sorted(whole, key=lambda row: tuple(str(v) for v in row))


def parsed(text):
    """PostgreSQL's rows, tabs between values."""
    value = lambda v: None if v == "" else int(v) if v.isdigit() else v
    return [tuple(map(value, line.split("\t"))) for line in text.splitlines()]


class QuarrySide:
    """Quarry with documents only, or with a column index on the paths of the questions."""

    def __init__(self, folder, by_columns, memory):
        self.name = "Quarry, columns" if by_columns else "Quarry, rows"
        self.by_columns = by_columns
        self.server = Quarry(folder, memory=memory)

    def start(self):
        self.server.start()

    def load(self, lines):
        events, batch = self.server.db.events, []
        if self.by_columns:
            key = {path: "columnstore" for path in COLUMN_PATHS}
            self.server.db.command(
                "createIndexes", "events", indexes=[{"key": key, "name": "columns"}]
            )
        for line in lines:
            batch.append(json.loads(line))
            if len(batch) == BATCH:
                events.insert_many(batch)
                batch = []
        if batch:
            events.insert_many(batch)
        if self.by_columns:
            self.wait_for_segments()

    def explained(self):
        pipeline = PIPELINES["q1 events by collection"]
        inner = {"aggregate": "events", "pipeline": pipeline, "cursor": {}}
        shown = self.server.db.command("explain", inner, verbosity="executionStats")
        stage = shown["stages"][0]["$cursor"]["executionStats"]["executionStages"]
        while "inputStage" in stage:
            stage = stage["inputStage"]
        return stage

    def wait_for_segments(self):
        """Waits until no more documents are moved into segments; the rest may be too small for one."""
        before = None
        for _ in range(600):
            time.sleep(2)
            rows = self.explained().get("rowsFromSegments", 0)
            if rows and rows == before:
                self.note = f"{rows} documents in segments"
                return
            before = rows
        sys.exit("the column index has no segments")

    def ask(self, question):
        hint = None if self.by_columns else {"$natural": 1}
        options = {"hint": hint} if hint else {}
        found = self.server.db.events.aggregate(PIPELINES[question], **options)
        return list(rows_of(found))

    def pids(self):
        return self.server.pids()

    def close(self):
        # The size of the files at that time; journals are not counted on any side.
        self.server.stop()
        self.server.start()
        size = self.server.db.command("collStats", "events")["totalSize"]
        self.server.stop()
        return int(size)


class PostgresSide:
    name = "PostgreSQL jsonb"

    def __init__(self, folder):
        self.server = Postgres(folder)

    def start(self):
        self.server.start()

    def load(self, lines):
        self.server.sql("CREATE TABLE events (doc jsonb)")
        # Escaped for COPY's text format, which takes a backslash for itself.
        text = "".join(line.replace("\\", "\\\\") for line in lines)
        self.server.sql("COPY events FROM STDIN", input=text)
        self.server.sql("VACUUM ANALYZE events")
        size = "SELECT pg_total_relation_size('events')"
        self.bytes = int(self.server.sql(size))

    def ask(self, question):
        return parsed(self.server.sql(SQL[question].format(**JSONB)))

    def pids(self):
        return self.server.pids()

    def close(self):
        self.server.stop()
        return self.bytes


class DuckSide:
    def __init__(self, folder, typed):
        self.name = "DuckDB, typed columns" if typed else "DuckDB, JSON"
        self.columns = DUCK_TYPED if typed else DUCK_JSON
        self.typed, self.file = typed, f"{folder}.duckdb"

    def start(self):
        self.db = duckdb.connect(self.file)

    def load(self, lines):
        source = f"{self.file}.json"
        with open(source, "w") as out:
            out.writelines(lines)
        raw = f"read_json_objects('{source}', format='newline_delimited')"
        if not self.typed:
            self.db.execute(f"CREATE TABLE raw AS SELECT json AS doc FROM {raw}")
        else:
            # The paths of the questions as columns, the rest of the event as JSON.
            self.db.execute(
                "CREATE TABLE typed AS SELECT json->>'$.kind' AS kind, json->>'$.did' AS did,"
                " (json->>'$.time_us')::BIGINT AS time_us,"
                " json->>'$.commit.operation' AS operation,"
                f" json->>'$.commit.collection' AS event, json AS doc FROM {raw}"
            )
        self.db.execute("CHECKPOINT")
        os.remove(source)

    def ask(self, question):
        return self.db.execute(SQL[question].format(**self.columns)).fetchall()

    def pids(self):
        return [os.getpid()]

    def close(self):
        self.db.close()
        return os.stat(self.file).st_blocks * 512


def measure(side, file, rounds):
    """Seconds and CPU seconds of each question, its answer, and bytes on disk."""
    asked = {}
    side.start()
    try:
        with open(file) as lines:
            side.load(lines)
        for question in SQL:
            took, used, rows = best(rounds, side.pids, lambda: side.ask(question))
            asked[question] = (took, used, plain(rows))
    finally:
        size = side.close()
    return asked, size


def compare(results):
    """Ends the program if two sides answer differently."""
    first, (answers, _) = next(iter(results.items()))
    for name, (others, _) in results.items():
        for question, (_, _, rows) in answers.items():
            theirs = others[question][2]
            if not rows or rows != theirs:
                sys.exit(f"{question} differs:\n{first}: {rows[:5]}\n{name}: {theirs[:5]}")


def table(results, count):
    lines = [f"{count} events; seconds (CPU seconds)"]
    lines.append(f"{'':<26}" + "".join(f"{name:>24}" for name in results))
    for question in SQL:
        cells = ""
        for asked, _ in results.values():
            took, used, _ = asked[question]
            cells += f"{f'{took:.4f} ({used:.2f})':>24}"
        lines.append(f"{question:<26}{cells}")
    sizes = "".join(f"{size / 1e6:>21.1f} MB" for _, size in results.values())
    lines.append(f"{'on disk':<26}{sizes}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", default="4G", help="Quarry's --memory; the others have no limit")
    parser.add_argument("--dir", help="where data lie; a new folder of the system's if not given")
    parser.add_argument("--out", type=Path, help="the figures as JSON")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="quarry-jsonbench-", dir=args.dir)
    file, results = f"{folder}/events.json", {}
    try:
        with open(file, "w") as out:
            for event in events(args.events, args.seed):
                out.write(json.dumps(event) + "\n")
        sides = [
            QuarrySide(f"{folder}/rows", False, args.memory),
            QuarrySide(f"{folder}/columns", True, args.memory),
            DuckSide(f"{folder}/json", False),
            DuckSide(f"{folder}/typed", True),
        ]
        postgres = PostgresSide(f"{folder}/postgres")
        if postgres.server.bin is None:
            print("PostgreSQL is not installed: left out")
        else:
            sides.insert(2, postgres)
        for side in sides:
            results[side.name] = measure(side, file, args.rounds)
            print(f"{side.name}: answered", getattr(side, "note", ""), flush=True)
        compare(results)
        print(table(results, args.events))
        if args.out:
            figures = {
                name: {"bytes": size, **{q: [took, used] for q, (took, used, _) in asked.items()}}
                for name, (asked, size) in results.items()
            }
            args.out.write_text(json.dumps({"events": args.events, "sides": figures}, indent=1))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
