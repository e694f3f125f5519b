"""mongoexport, mongoimport, bsondump, mongofiles, mongostat and mongotop against a server. Usage: programs.py HOST:PORT TOOLS FOLDER

What they write and read is compared with what a client wrote and reads; what mongostat and mongotop tell, with what a client did meanwhile.
The last step plants a fault for each of the two, and for the comparison of documents.
"""
import csv
import json
import math
import os
import random
import subprocess
import sys
import threading
import time
from datetime import datetime
from pathlib import Path

import bson
import gridfs
import pymongo
from bson import Decimal128, Int64, ObjectId, Timestamp, json_util
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.raw_bson import RawBSONDocument

import contents

RAW = CodecOptions(document_class=RawBSONDocument)
FAILED = []


class Wrong(Exception):
    """A check that did not come out as it must."""


def check(what, call):
    try:
        print(f"programs: {what}: {call()}")
    except (Wrong, subprocess.CalledProcessError, subprocess.TimeoutExpired, pymongo.errors.PyMongoError, KeyError, ValueError) as error:
        said = getattr(error, "stderr", None) or error
        print(f"programs: {what}: FAILED: {said!r:.600}", file=sys.stderr)
        FAILED.append(what)


def equal(what, given, expected):
    if given != expected:
        raise Wrong(f"{what}: given {given!r:.250}, expected {expected!r:.250}")


def close(what, given, expected, share):
    if not math.isclose(given, expected, rel_tol=share):
        raise Wrong(f"{what}: given {given}, expected {expected} within {share:.0%}")


class Tools:
    """Runs a tool against the server; a status other than 0 is an error."""

    def __init__(self, address, folder):
        self.uri, self.folder = f"mongodb://{address}/?directConnection=true", Path(folder)

    def run(self, name, *options, uri=True):
        command = [str(self.folder / name), *(["--uri", self.uri] if uri else []), *map(str, options)]
        return subprocess.run(command, capture_output=True, timeout=120, check=True)

    def start(self, name, *options):
        return subprocess.Popen([str(self.folder / name), "--uri", self.uri, *map(str, options)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)


def documents(collection, sort="_id"):
    return [bytes(doc.raw) for doc in collection.with_options(RAW).find().sort(sort, 1)]


def export_and_import(client, tools, folder):
    source, target = client.programs.source, client.programs.target
    source.insert_many([{"_id": n, "n": n, "s": f"text, \"{n}\"\nü", "d": {"x": [n, {"y": n * 0.5}]}, "l": Int64(n), "t": Timestamp(n, 1),
                         "i": ObjectId(f"{n:024x}"), "w": datetime(2026, 1, 1, 0, 0, n % 60, 123000), "m": Decimal128(f"{n}.50")}
                        for n in range(3000)])
    rest = ["--db", "programs", "--collection"]

    def whole(*form):
        target.drop()
        file = folder / "whole.json"
        tools.run("mongoexport", *rest, "source", "--jsonFormat", "canonical", "--out", file, *form)
        tools.run("mongoimport", *rest, "target", "--file", file, *form)
        equal("documents", documents(target), documents(source))
        return f"{target.count_documents({})} documents came back byte by byte"

    def every_type():
        types, back = client.programs.types, client.programs.types_back
        types.insert_many(contents.every_type())
        file = folder / "types.json"
        tools.run("mongoexport", *rest, "types", "--jsonFormat", "canonical", "--out", file)
        tools.run("mongoimport", *rest, "types_back", "--file", file)
        one, other = documents(types), documents(back)
        lost = [bson.decode(doc, CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_AUTO)) for doc in one if doc not in other]
        # JSON has one NaN, and the tool writes the bits that its language has for it.
        equal("documents that came back otherwise", [str(doc["_id"]) for doc in lost], ["5", "{'n': 5, 'of': nan}"])
        return f"{len(one)} types and values, all but a NaN with other bits"

    def part():
        out = tools.run("mongoexport", *rest, "source", "--query", '{"n": {"$gte": 100, "$lt": 200}}', "--sort", '{"n": -1}', "--skip", 10,
                        "--limit", 50, "--fields", "n").stdout
        given = [json.loads(line)["n"] for line in out.splitlines()]
        equal("numbers", given, list(range(189, 139, -1)))
        return f"{len(given)} documents by query, sort, skip and limit"

    def table():
        target.drop()
        file = folder / "table.csv"
        tools.run("mongoexport", *rest, "source", "--type", "csv", "--fields", "_id,s,d.x.1.y", "--out", file)
        rows = list(csv.reader(file.open(newline="")))
        equal("rows", rows[1:], [[str(n), f"text, \"{n}\"\nü", f"{n * 0.5:g}"] for n in range(3000)])
        tools.run("mongoimport", *rest, "target", "--type", "csv", "--columnsHaveTypes", "--fields", "_id.int32(),s.string(),y.double()",
                  "--file", cut_head(file))
        equal("documents", list(target.find().sort("_id", 1)), [{"_id": n, "s": f"text, \"{n}\"\nü", "y": n * 0.5} for n in range(3000)])
        return f"{len(rows) - 1} rows out and in"

    def modes():
        target.drop()
        target.insert_many([{"_id": n, "old": n, "k": n} for n in range(10)])
        file = folder / "modes.json"
        file.write_text("".join(json.dumps({"k": n, "new": n}) + "\n" for n in range(5, 15)))
        tools.run("mongoimport", *rest, "target", "--mode", "merge", "--upsertFields", "k", "--file", file)
        equal("merged", [doc | {"_id": 0} for doc in target.find({}, {"_id": 0}).sort("k", 1)],
              [{"old": n, "k": n, "_id": 0} for n in range(5)] + [{"old": n, "k": n, "new": n, "_id": 0} for n in range(5, 10)]
              + [{"k": n, "new": n, "_id": 0} for n in range(10, 15)])
        tools.run("mongoimport", *rest, "target", "--mode", "upsert", "--upsertFields", "k", "--file", file)
        equal("upserted", target.count_documents({"old": {"$exists": False}}), 10)
        tools.run("mongoimport", *rest, "target", "--mode", "delete", "--upsertFields", "k", "--file", file)
        equal("left", sorted(target.distinct("k")), [0, 1, 2, 3, 4])
        tools.run("mongoimport", *rest, "target", "--drop", "--file", file)
        equal("after --drop", sorted(target.distinct("k")), list(range(5, 15)))
        return "merge, upsert, delete and --drop"

    def refused():
        target.drop()
        target.create_index("n", unique=True)
        file = folder / "double.json"
        file.write_text("".join(json.dumps({"_id": n, "n": n % 90}) + "\n" for n in range(100)))
        said = tools.run("mongoimport", *rest, "target", "--file", file).stderr.decode()
        if "90 document(s) imported successfully. 10 document(s) failed to import" not in said:
            raise Wrong(said[-300:])
        equal("documents", target.count_documents({}), 90)
        return "90 imported, 10 told as failed"

    check("mongoexport and mongoimport", whole)
    check("mongoexport and mongoimport --jsonArray", lambda: whole("--jsonArray"))
    check("mongoexport and mongoimport of every type", every_type)
    check("mongoexport of a part", part)
    check("mongoexport and mongoimport as a table", table)
    check("mongoimport --mode", modes)
    check("mongoimport against a unique index", refused)

    def planted():
        whole()
        target.update_one({"_id": 1500}, {"$set": {"l": 1500.0}})
        try:
            equal("documents", documents(target), documents(source))
        except Wrong:
            return "found"
        raise Wrong("a changed type was not found")
    check("a changed type", planted)


def cut_head(file):
    """The table without its first line."""
    cut = file.with_suffix(".cut")
    cut.write_text(file.read_text().split("\n", 1)[1])
    return cut


def dumped(client, tools, folder):
    tools.run("mongodump", "--db", "programs", "--collection", "source", "--out", folder / "dump")
    file = folder / "dump/programs/source.bson"

    def as_json():
        out = tools.run("bsondump", file, uri=False).stdout.decode()
        back = [bson.encode(json_util.loads(line, json_options=json_util.CANONICAL_JSON_OPTIONS)) for line in out.splitlines()]
        equal("documents", sorted(back), sorted(documents(client.programs.source)))
        return f"{len(back)} documents as JSON and back"

    def torn():
        cut = folder / "torn.bson"
        cut.write_bytes(file.read_bytes()[:-7])
        try:
            tools.run("bsondump", cut, uri=False)
        except subprocess.CalledProcessError:
            return "found"
        raise Wrong("a torn file was not found")
    check("bsondump", as_json)
    check("bsondump of a torn file", torn)
    def debug():
        lines = tools.run("bsondump", "--type=debug", file, uri=False).stdout.splitlines()
        equal("documents", lines.count(b"--- new object ---"), 3000)
        return "3000 documents"
    check("bsondump --type=debug", debug)


def files(client, tools, folder):
    chance = random.Random(12)
    kept = {"empty": b"", "small.txt": b"some text\n" * 3,
            "large.bin": chance.randbytes(5 * 1024 * 1024 + 77), "ü x.bin": chance.randbytes(255 * 1024)}
    for name, content in kept.items():
        (folder / name).write_bytes(content)
    store = gridfs.GridFS(client.files)

    def puts():
        for name in kept:
            tools.run("mongofiles", "--db", "files", "--local", folder / name, "put", name)
        for name, content in kept.items():
            equal(name, store.get_last_version(name).read(), content)
        return f"{len(kept)} files as a client reads them"

    def gets():
        store.put(kept["large.bin"][::-1], filename="theirs")
        for name, content in {**kept, "theirs": kept["large.bin"][::-1]}.items():
            tools.run("mongofiles", "--db", "files", "--local", folder / "got", "get", name)
            equal(name, (folder / "got").read_bytes(), content)
        return f"{len(kept) + 1} files, one as a client wrote it"

    def lists():
        out = tools.run("mongofiles", "--db", "files", "list").stdout.decode()
        given = dict(line.rsplit("\t", 1) for line in out.splitlines() if "\t" in line)
        equal("files", given, {**{name: str(len(content)) for name, content in kept.items()}, "theirs": str(len(kept["large.bin"]))})
        tools.run("mongofiles", "--db", "files", "delete", "large.bin")
        equal("chunks left", client.files["fs.chunks"].count_documents({}), sum(-(-len(store.get_last_version(name).read()) // (255 * 1024))
                                                                                for name in store.list()))
        equal("names left", sorted(store.list()), sorted({*kept, "theirs"} - {"large.bin"}))
        return "names, lengths, and what delete leaves"

    def planted():
        chunk = client.files["fs.chunks"].find_one({"files_id": store.get_last_version("theirs")._id, "n": 3})
        client.files["fs.chunks"].update_one({"_id": chunk["_id"]}, {"$set": {"data": b"\0" * len(chunk["data"])}})
        tools.run("mongofiles", "--db", "files", "--local", folder / "got", "get", "theirs")
        if (folder / "got").read_bytes() == kept["large.bin"][::-1]:
            raise Wrong("a changed chunk was not found")
        client.files["fs.chunks"].delete_one({"_id": chunk["_id"]})
        try:
            tools.run("mongofiles", "--db", "files", "--local", folder / "got", "get", "theirs")
        except subprocess.CalledProcessError:
            return "found"
        raise Wrong("a missing chunk was not found")
    check("mongofiles put", puts)
    check("mongofiles get", gets)
    check("mongofiles list and delete", lists)
    check("mongofiles, a chunk that was changed or is missing", planted)


WORK = {"insert": 50, "query": 30, "update": 20, "delete": 10, "getmore": 5}


class Work(threading.Thread):
    """So many operations of each kind a second, in tenths of it, over one connection. `done` tells how many of each kind it did."""

    def __init__(self, client):
        super().__init__()
        client.drop_database("load")
        client.load.other.insert_many([{"_id": n} for n in range(10)])
        client.load.idle.insert_one({})
        client.load.work.insert_one({"_id": "there"})
        self.client, self.done, self.ended = client, dict.fromkeys(WORK, 0), threading.Event()

    def run(self):
        work, other, done = self.client.load.work, self.client.load.other, self.done
        began, turn, text = time.monotonic(), 0, "x" * 1000
        calls = {"insert": lambda n: work.insert_one({"_id": n, "x": text}), "query": lambda n: work.find_one({"_id": n}),
                 "update": lambda n: work.update_one({"_id": n}, {"$set": {"y": 1}}), "delete": lambda n: work.delete_one({"_id": n})}
        while not self.ended.is_set():
            for kind, call in calls.items():
                for _ in range(WORK[kind] // 10):
                    call(done[kind])
                    done[kind] += 1
            if turn % 2:
                # Three replies for ten documents: the find, and two more.
                list(other.find(batch_size=4))
                done["getmore"] += 2
            turn += 1
            time.sleep(max(0.0, began + turn * 0.1 - time.monotonic()))

    def stop(self):
        self.ended.set()
        self.join()


def lines_beside(program, work, before, during):
    """The lines of a program that runs all the time; the work begins after the first of them and ends before the last."""
    lines = [program.stdout.readline() for _ in range(before)]
    work.start()
    try:
        lines += [program.stdout.readline() for _ in range(during)]
    finally:
        work.stop()
    out, err = program.communicate(timeout=60)
    lines = [json.loads(line) for line in lines + out.splitlines() if line.strip()]
    if len(lines) <= before + during:
        raise Wrong(f"{len(lines)} lines; {err:.300}")
    return lines


COUNTED = {kind: f"opcounters.{kind}" for kind in WORK}


def stat(client, tools):
    work = Work(client)
    fields = ",".join([*COUNTED.values(), "network.bytesIn", "uptimeMillis"])
    program = tools.start("mongostat", "--json", "--humanReadable=false", "-n", 9, "-O", fields, 1)
    lines = [next(iter(line.values())) for line in lines_beside(program, work, 2, 4)]
    expected = {**work.done, "query": work.done["query"] + work.done["getmore"] // 2}

    def totals(planted=0):
        for kind, name in COUNTED.items():
            equal(f"{kind} between the first line and the last", int(lines[-1][name]) - int(lines[0][name]), expected[kind] + planted)
        return f"{len(lines)} lines: " + ", ".join(f"{kind} {count}" for kind, count in expected.items())

    def rates(factor=1.0):
        for one, other in zip(lines, lines[1:]):
            seconds = (int(other["uptimeMillis"]) - int(one["uptimeMillis"])) / 1000
            for kind, name in COUNTED.items():
                told = int(other[kind].strip("*").split("|")[0])
                counted = (int(other[name]) - int(one[name])) / seconds
                if abs(told * factor - counted) > 1 + 0.05 * counted:
                    raise Wrong(f"{kind}: told {told} per second, counted {counted:.1f}")
        middle = sorted(int(line["insert"].strip("*")) for line in lines[3:6])
        close("inserts per second, the middle one of three lines", middle[1] * factor, WORK["insert"], 0.3)
        return f"inserts per second: {middle}, written {WORK['insert']} per second"

    def network(factor=1):
        grown = int(lines[-1]["network.bytesIn"]) - int(lines[0]["network.bytesIn"])
        sent = work.done["insert"] * 1000 * factor
        if not sent < grown < 4 * sent + 100000:
            raise Wrong(f"bytes in {grown}, inserted {sent}")
        told = sum(int(line["net_in"]) for line in lines[1:])
        close("net_in, the sum over the seconds", told, grown, 0.3)
        return f"{grown} bytes in, {sent} of them of documents"

    def others():
        status = client.admin.command("serverStatus")
        line = next(iter(json.loads(tools.run("mongostat", "--json", "-n", 1).stdout).values()))
        equal("set", line["set"], "rs0")
        # The column repl reads `ismaster`, which is called isWritablePrimary since MongoDB 5.0; then it says SLV.
        if line["repl"] not in ("PRI", "SLV"):
            raise Wrong(f"repl {line['repl']}")
        if abs(int(line["conn"]) - status["connections"]["current"]) > 3:
            raise Wrong(f"conn {line['conn']}, the server says {status['connections']['current']}")
        pages = os.sysconf("SC_PAGE_SIZE")
        resident = int(Path(f"/proc/{status['pid']}/statm").read_text().split()[1]) * pages
        close("res", as_bytes(line["res"]), resident, 0.2)
        return f"set {line['set']}, conn {line['conn']}, res {line['res']} (of the system: {resident >> 20} MiB)"

    check("mongostat: counters", totals)
    check("mongostat: rates", rates)
    check("mongostat: network", network)
    check("mongostat: the rest", others)
    check("mongostat: planted faults", lambda: found(lambda: totals(1), lambda: rates(1.4), lambda: network(10)))


def found(*calls):
    for number, call in enumerate(calls):
        try:
            call()
        except Wrong:
            continue
        raise Wrong(f"planted fault {number} was not found")
    return f"{len(calls)} found"


def as_bytes(text):
    number, unit = text.rstrip("bB"), 1
    for letter, size in (("k", 1000), ("m", 1000**2), ("g", 1000**3), ("K", 1024), ("M", 1024**2), ("G", 1024**3)):
        if number.endswith(letter):
            return float(number[:-1]) * size
    return float(number) * unit


def top(client, tools):
    work = Work(client)
    lines = lines_beside(tools.start("mongotop", "--json", "-n", 6, 1), work, 1, 3)
    done = work.done

    def count(name, kind):
        return sum(line["totals"].get(name, {}).get(kind, {}).get("count", 0) for line in lines)

    def counts(planted=0):
        equal("writes to load.work", count("load.work", "write"), done["insert"] + done["update"] + done["delete"] + planted)
        equal("reads of load.work", count("load.work", "read"), done["query"] + planted)
        equal("load.idle", (count("load.idle", "read"), count("load.idle", "write")), (0, 0))
        return f"{len(lines)} lines: writes {count('load.work', 'write')}, reads {count('load.work', 'read')}"

    def times():
        spent = sum(line["totals"]["load.work"]["total"]["time"] for line in lines)
        if not 0 <= spent <= 1000 * len(lines):
            raise Wrong(f"{spent} ms in {len(lines)} s")
        for line in lines:
            one = line["totals"]["load.work"]
            if abs(one["total"]["time"] - one["read"]["time"] - one["write"]["time"]) > 2:
                raise Wrong(f"total is not read and write: {one}")
            equal("total count", one["total"]["count"], one["read"]["count"] + one["write"]["count"])
        return f"{spent} ms on load.work"
    check("mongotop: counts", counts)
    check("mongotop: times", times)
    check("mongotop: planted faults", lambda: found(lambda: counts(1)))


def main():
    address, tools, folder = sys.argv[1], Tools(sys.argv[1], sys.argv[2]), Path(sys.argv[3])
    folder.mkdir(parents=True)
    with pymongo.MongoClient(f"mongodb://{address}/?directConnection=true", retryWrites=False) as client:
        export_and_import(client, tools, folder)
        dumped(client, tools, folder)
        files(client, tools, folder)
        stat(client, tools)
        top(client, tools)
    if FAILED:
        sys.exit("programs: FAILED: " + "; ".join(FAILED))
    print("programs: passed")


main()
