"""Writes small folders in the formats of this version, each with what a server on it answers: a folder is packed with `fixture.json`, which says how it is
opened, and with lists of commands beside their answers.

Usage: make.py [NAME]...; QUARRY_BIN names the server. One that is there is left alone."""

import datetime
import json
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import gridfs
from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.json_util import CANONICAL_JSON_OPTIONS, dumps
from harness import BINARY, Scratch, check, fail, say
from pymongo import ASCENDING, DESCENDING, GEOSPHERE, HASHED, TEXT, IndexModel, InsertOne, WriteConcern
from pymongo.collation import Collation
from pymongo.errors import OperationFailure

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PLAIN = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
BEGIN = datetime.datetime(2026, 3, 1, tzinfo=datetime.timezone.utc)
# What names a fixture: the layout of the store and the format of the engine or of the repository.
SOURCES = {
    "layout": ("crates/store/src/format/mod.rs", r"LAYOUT_VERSION: u32 = (\d+)"),
    "rocksdb": ("crates/engines/rocksdb/src/open.rs", r"DISK_FORMAT: u32 = (\d+)"),
    "lmdb": ("crates/engines/lmdb/src/engine.rs", r"DISK_FORMAT: u32 = (\d+)"),
    "backups": ("crates/backup/src/repository.rs", r"FORMAT: u32 = (\d+)"),
}
NAMES = ("rocksdb", "lmdb", "encrypted", "backups")


def version(what):
    file, pattern = SOURCES[what]
    return int(re.search(pattern, (ROOT / file).read_text())[1])


TYPES = [
    {"_id": 1, "v": 0}, {"_id": 2, "v": Int64(1 << 40)}, {"_id": 3, "v": -0.0}, {"_id": 4, "v": float("nan")}, {"_id": 5, "v": float("inf")},
    {"_id": 6, "v": Decimal128("1.10")}, {"_id": 7, "v": "Straße \0 naïve"}, {"_id": 8, "v": None}, {"_id": 9, "v": True}, {"_id": 10, "v": []},
    {"_id": 11, "v": {}}, {"_id": 12, "v": [1, [2, {"a": [None]}], "x"]}, {"_id": 13, "v": b"\x00\x01\xff"}, {"_id": 14, "v": Binary(b"0123456789abcdef", 4)},
    {"_id": 15, "v": ObjectId("65f000000000000000000001")}, {"_id": 16, "v": DatetimeMS(-1)}, {"_id": 17, "v": DatetimeMS(1 << 45)},
    {"_id": 18, "v": Timestamp(5, 7)}, {"_id": 19, "v": Regex("^a.b", "im")}, {"_id": 20, "v": Code("return 1")}, {"_id": 21, "v": MinKey()},
    {"_id": 22, "v": MaxKey()}, {"_id": 23, "v": "long " * 500}, {"_id": "text"}, {"_id": 2.5}, {"_id": {"a": 1, "b": [1, 2]}},
    {"_id": ObjectId("65f000000000000000000002")}, {"_id": DatetimeMS(1_700_000_000_000)}, {"_id": Binary(b"key", 128)}, {"_id": True}, {"_id": None},
]


def bird(n):
    return {
        "_id": n, "name": f"Bird {n:03}", "g": n * 37 % 101, "tags": [f"t{n % 5}", f"t{n % 7}"], "at": {"type": "Point", "coordinates": [n % 90, n % 45]},
        "note": ("a wren sings in the hedge", "the robin stays", "owls hunt by night")[n % 3], "traits": {f"k{n % 4}": n % 6}, "rare": n if n % 20 == 0 else None,
    }


INDEXES = {
    "unique": IndexModel([("name", ASCENDING)], name="unique", unique=True),
    "several": IndexModel([("g", DESCENDING), ("name", ASCENDING)], name="several"),
    "array": IndexModel([("tags", ASCENDING)], name="array"),
    "hashed": IndexModel([("g", HASHED)], name="hashed"),
    "place": IndexModel([("at", GEOSPHERE)], name="place"),
    "words": IndexModel([("note", TEXT)], name="words"),
    "wild": IndexModel([("traits.$**", ASCENDING)], name="wild"),
    "partial": IndexModel([("rare", ASCENDING)], name="partial", partialFilterExpression={"rare": {"$gt": 100}}),
    "sparse": IndexModel([("later", ASCENDING)], name="sparse", sparse=True),
    "strength": IndexModel([("name", ASCENDING)], name="strength", collation=Collation("en", strength=2)),
}
GROUP = [{"$match": {"n": {"$lt": 900}}}, {"$group": {"_id": "$k", "n": {"$sum": "$n"}, "x": {"$max": "$in.x"}, "first": {"$first": "$_id"}}}]
# What is found by which index.
BY_HINT = (
    ("unique", {"name": {"$gte": ""}}), ("several", {"g": {"$gte": 0}}), ("array", {"tags": {"$gte": ""}}), ("hashed", {"g": 8}), ("wild", {"traits.k1": {"$gte": 0}}),
    ("partial", {"rare": {"$gt": 100}}), ("sparse", {"later": {"$exists": True}}), ("carrying", {"g": {"$lt": 20}}),
)


def measurement(n):
    room = 0 if n < 1050 else 1 + n % 2
    return {"_id": n, "t": BEGIN + datetime.timedelta(seconds=n), "sensor": {"room": room}, "v": n * 0.25, "ok": n % 4 != 0}


def fill(client):
    """Everything that has rows of its own kind."""
    d = client.d
    d.types.insert_many(TYPES)
    d.birds.insert_many([bird(n) for n in range(80)])
    d.birds.create_indexes(list(INDEXES.values()))
    d.command("createIndexes", "birds", indexes=[{"key": {"g": 1}, "name": "carrying", "clustering": True}])
    d.birds.insert_many([bird(n) for n in range(80, 140)])
    d.birds.update_many({"g": {"$lt": 10}}, {"$set": {"later": 1}, "$push": {"tags": "small"}})
    d.birds.delete_many({"g": 50})
    d.create_collection("series", timeseries={"timeField": "t", "metaField": "sensor", "granularity": "seconds"})
    # Beyond the 1,000 measurements of a bucket: packed ones and open ones.
    d.series.insert_many([measurement(n) for n in range(1150)])
    d.series.delete_many({"sensor": {"room": 2}})
    d.create_collection("capped", capped=True, size=4096, max=10)
    d.capped.insert_many([{"_id": n} for n in range(25)])
    d.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True})
    d.clustered.insert_many([{"_id": n, "n": -n} for n in range(20)])
    d.create_collection("checked", validator={"n": {"$gt": 0}}, collation={"locale": "de", "strength": 1})
    d.checked.insert_many([{"_id": n, "n": n, "name": "ÄäAa"[n % 4]} for n in range(1, 9)])
    d.create_collection("view", viewOn="birds", pipeline=[{"$match": {"g": {"$lt": 5}}}, {"$project": {"name": 1}}])
    gridfs.GridFS(d).put(bytes(range(256)), _id="file", filename="bytes")
    d.old.insert_one({"_id": 1})
    d.old.rename("renamed")
    # The log refers to documents of 200 bytes or more, until something changes or drops them.
    d.gone.insert_many([{"_id": n, "pad": f"gone {n} " * (10 + n)} for n in range(30)])
    d.gone.update_many({"_id": {"$lt": 5}}, {"$set": {"pad": "changed"}})
    d.gone.delete_many({"_id": {"$gte": 25}})
    d.gone.drop()
    with client.start_session() as session, session.start_transaction():
        d.birds.insert_one(bird(900), session=session)
        d.renamed.update_one({"_id": 1}, {"$set": {"together": True}}, session=session)
    d.bulk.bulk_write([InsertOne({"_id": n, "pad": "x" * 100}) for n in range(50)])
    columns(d)
    client.admin.command("createRole", "counter", privileges=[{"resource": {"db": "d", "collection": ""}, "actions": ["find"]}], roles=[])
    client.admin.command("createUser", "reader", pwd="secret", roles=["counter"])


def columns(d):
    """A column index with segments, and with documents that were touched since."""
    d.create_collection("wide", clusteredIndex={"key": {"_id": 1}, "unique": True})
    d.wide.insert_many([{"_id": n, "k": f"k{n % 7}", "n": n // 10, "in": {"x": n * 0.5} if n % 9 else [n]} for n in range(0, 10_000, 2)])
    d.command("createIndexes", "wide", indexes=[{"key": {"_id": "columnstore", "k": "columnstore", "n": "columnstore", "in.x": "columnstore"}, "name": "columns"}])
    began = time.monotonic()
    while "COLUMN_SCAN" not in str(d.command("explain", {"aggregate": "wide", "pipeline": GROUP, "cursor": {}}, verbosity="queryPlanner")):
        check(time.monotonic() - began < 60, "no segment is made")
        time.sleep(0.1)
    d.wide.update_many({"_id": {"$lt": 50}}, {"$set": {"k": "new"}})
    d.wide.delete_many({"_id": {"$gte": 100, "$lt": 150}})
    d.wide.insert_many([{"_id": n, "k": "odd", "n": n} for n in range(1, 99, 2)])


def change(client, more):
    """What the log of changes has beyond a backup."""
    d = client.d
    d.birds.update_many({"_id": {"$lt": 20}}, {"$inc": {"g": more}})
    d.birds.delete_one({"_id": 100 + more})
    d.birds.insert_one(bird(1000 + more))
    d.series.insert_many([measurement(4000 + 10 * more + n) for n in range(10)])
    d.series.delete_one({"_id": 3 * more})
    d[f"new{more}"].insert_one({"_id": more})


def commands(collections):
    """What is asked: command, and the part of the reply that is told."""
    batch, find = "cursor.firstBatch", {"batchSize": 10_000, "$db": "d"}
    for name in collections:
        if name != "view":
            yield {"validate": name, "full": True, "$db": "d"}, "valid"
        yield {"count": name, "$db": "d"}, "n"
        yield {"find": name, "sort": {"_id": 1}, **find}, batch
    for name, where in BY_HINT:
        yield {"find": "birds", "filter": where, "hint": name, "sort": {"_id": 1}, "projection": {"name": 1, "g": 1}, **find}, batch
    for wanted in ({"g": 7}, {"tags": "small"}, {"$text": {"$search": "wren"}}, {"at": {"$geoWithin": {"$centerSphere": [[10, 10], 0.1]}}}, {"traits.k1": 3}):
        yield {"find": "birds", "filter": wanted, "sort": {"_id": 1}, **find}, batch
    yield {"find": "birds", "filter": {"name": "BIRD 017"}, "collation": {"locale": "en", "strength": 2}, "hint": "strength", **find}, batch
    yield {"find": "series", "filter": {"sensor.room": 0, "t": {"$lt": BEGIN + datetime.timedelta(minutes=5)}}, "sort": {"_id": 1}, **find}, batch
    yield {"listIndexes": "birds", "cursor": {"batchSize": 100}, "$db": "d"}, batch
    yield {"aggregate": "wide", "pipeline": GROUP, "cursor": {}, "$db": "d"}, batch
    yield {"aggregate": "wide", "pipeline": GROUP, "cursor": {}, "hint": "columns", "$db": "d"}, batch
    yield {"find": "checked", "filter": {"name": "a"}, "sort": {"_id": 1}, **find}, batch
    yield {"rolesInfo": "counter", "showPrivileges": True, "$db": "admin"}, "roles"
    yield {"usersInfo": "reader", "$db": "admin"}, "users"


def answers(client, log):
    """A line for each command; with `log`, also what the log of changes says of some collections."""
    names = sorted(n for n in client.d.list_collection_names() if not n.startswith("system."))
    lines = []
    asked = list(commands(names))
    asked.append(({"listCollections": 1, "filter": {"name": {"$not": Regex("^system")}}, "nameOnly": True, "cursor": {"batchSize": 100}, "$db": "d"}, "cursor.firstBatch"))
    if log:
        asked.append(({"find": "oplog.rs", "filter": {"ns": {"$in": ["d.birds", "d.gone", "d.types"]}}, "sort": {"ts": 1}, "batchSize": 10_000, "$db": "local"}, "cursor.firstBatch"))
    for command, part in asked:
        try:
            answer = client[command["$db"]].command({k: v for k, v in command.items() if k != "$db"}, codec_options=PLAIN)
        except OperationFailure as e:
            fail(f"{command}: {e}")
        for name in part.split("."):
            answer = answer[name]
        check(part != "valid" or answer, f"{command} is {answer}")
        lines.append(dumps({"ask": command, "part": part, "answer": answer}, json_options=CANONICAL_JSON_OPTIONS))
    return lines


def check_contents(client):
    """That the server gives what was written, before what it gives is kept."""
    d = client.get_database("d", codec_options=PLAIN)
    found = {dumps(one, json_options=CANONICAL_JSON_OPTIONS) for one in d.types.find()}
    check(found == {dumps(one, json_options=CANONICAL_JSON_OPTIONS) for one in TYPES}, "types are not as they were written")
    left = [n for n in [*range(140), 900] if bird(n)["g"] != 50]
    check([one["_id"] for one in d.birds.find().sort("_id")] == left, "birds are missing")
    check(sorted(one["_id"] for one in d.series.find()) == [n for n in range(1150) if measurement(n)["sensor"] != {"room": 2}], "measurements are missing")


def pack(name, folder, about, lists):
    """Times and owners are not kept, so that the same folder gives the same file."""
    (folder / "fixture.json").write_text(json.dumps(about, indent=1) + "\n")
    for file, lines in lists.items():
        (folder / file).write_text("\n".join(lines) + "\n")

    def plain(member):
        member.mtime, member.uid, member.gid, member.uname, member.gname = 0, 0, 0, "", ""
        return member

    target = HERE / f"{name}.tar.gz"
    with tarfile.open(target, "w:gz", compresslevel=9) as out:
        for path in sorted(folder.rglob("*")):
            out.add(path, path.relative_to(folder), recursive=False, filter=plain)
    say(f"{target.name}: {target.stat().st_size} bytes, {sum(map(len, lists.values()))} answers")


def data(scratch, name):
    """A data directory. RocksDB's is left as a kill leaves it: what was written last is in the journal alone."""
    encrypted = name == "encrypted"
    engine = "rocksdb" if encrypted else name
    folder = Path(scratch.path) / name
    folder.mkdir()
    options = ["--storageEngine", engine]
    if encrypted:
        key = folder / "key"
        key.write_text("A" * 42 + "E=\n")
        key.chmod(0o600)
        options += ["--enableEncryption", "--encryptionKeyFile"]
    server = scratch.server(f"{name}/data", *options, *([folder / "key"] if encrypted else []), "--oplogSize", "16", "--memory", "128M")
    server.start()
    fill(server.client())
    check_contents(server.client())
    server.client().admin.command("fsync")
    server.client().d.get_collection("late", write_concern=WriteConcern(w=1, j=True)).insert_one({"_id": "in the journal alone"})
    lines = answers(server.client(), log=True)
    server.kill() if engine == "rocksdb" else server.stop()
    about = {"kind": "data", "engine": engine, "layout": version("layout"), "format": version(engine), "options": options}
    suffix = "-encrypted" if encrypted else ""
    pack(f"layout-{about['layout']}-{engine}-{about['format']}{suffix}", folder, about, {"asked.jsonl": lines})


def quarry(*arguments):
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True)
    check(done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}")
    return done.stdout


def backups(scratch):
    """A repository of two backups and a shipped log."""
    folder = Path(scratch.path) / "backups"
    folder.mkdir()
    repository = folder / "repository"
    server = scratch.server("source", "--oplogSize", "16", "--memory", "128M").start()
    client, uri = server.client(), f"mongodb://{server.address}"
    fill(client)
    quarry("backup", "make", repository, "--uri", uri)
    change(client, 1)
    quarry("backup", "make", repository, "--uri", uri)
    of_backup = answers(client, log=False)
    shipping = subprocess.Popen([BINARY, "backup", "ship", str(repository), "--uri", uri, "--every", "0.1"], stdout=subprocess.DEVNULL)
    change(client, 2)
    moment = client.d.command("ping")["operationTime"]
    of_moment = answers(client, log=False)
    change(client, 3)
    last = client.d.command("ping")["operationTime"]
    began = time.monotonic()
    while not reached(repository, last):
        check(time.monotonic() - began < 60, "the log is not shipped")
        time.sleep(0.1)
    shipping.terminate()
    shipping.wait()
    server.stop()
    about = {"kind": "backups", "format": version("backups"), "layout": version("layout"), "to": f"{moment.time}:{moment.inc}"}
    pack(f"backups-{about['format']}", folder, about, {"backup.jsonl": of_backup, "moment.jsonl": of_moment})


def reached(repository, at):
    """Whether a segment goes so far: its name says up to where."""
    ends = (re.match(r"[^_]+_(\d+)[-:.](\d+)\.", p.name) for p in (repository / "log").glob("*.log"))
    return any(found and (int(found[1]), int(found[2])) >= (at.time, at.inc) for found in ends)


def main():
    wanted = sys.argv[1:] or NAMES
    made = {"rocksdb": f"layout-{version('layout')}-rocksdb-{version('rocksdb')}", "lmdb": f"layout-{version('layout')}-lmdb-{version('lmdb')}"}
    made |= {"encrypted": f"{made['rocksdb']}-encrypted", "backups": f"backups-{version('backups')}"}
    for name in wanted:
        check(name in NAMES, f"{name} is none of {', '.join(NAMES)}")
        if (HERE / f"{made[name]}.tar.gz").exists():
            say(f"{made[name]} is there")
            continue
        with Scratch() as scratch:
            backups(scratch) if name == "backups" else data(scratch, name)


if __name__ == "__main__":
    main()
