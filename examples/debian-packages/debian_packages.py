"""Debian's package index as a collection; every answer of the server is checked against Python.

Usage: debian_packages.py load|verify HOST:PORT AVAILABLE STATE
  load    fills the database `debian`, queries and updates it, writes what must survive into STATE
  verify  checks a restarted server against STATE
"""

import collections
import hashlib
import json
import re
import sys
import time

import bson
from pymongo import ASCENDING, DESCENDING, MongoClient, UpdateOne

DATABASE = "debian"
BATCH = 1000


def equal(what, given, expected):
    if given != expected:
        sys.exit(f"debian-packages: {what}: the server says {str(given)[:500]}, expected {str(expected)[:500]}")


def timed(what, action):
    began = time.monotonic()
    result = action()
    print(f"debian-packages: {what}: {time.monotonic() - began:.2f} s", flush=True)
    return result


# --- the data -----------------------------------------------------------------------------------------------------


def stanzas(path):
    """The fields of each package; continuation lines are left out."""
    fields = {}
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line == "\n":
                if fields:
                    yield fields
                fields = {}
            elif not line.startswith((" ", "\t")):
                name, _, value = line.rstrip("\n").partition(":")
                fields[name] = value.strip()
    if fields:
        yield fields


def document(fields):
    name, _, email = fields.get("Maintainer", "").partition(" <")
    # Alternatives count as dependencies; versions and architectures do not matter here.
    depends = [re.split(r"[ (:]", part.strip(), maxsplit=1)[0] for part in re.split(r"[,|]", fields.get("Depends", ""))]
    made = {
        "_id": f"{fields['Package']}_{fields['Version']}_{fields.get('Architecture', 'all')}",
        "package": fields["Package"],
        "version": fields["Version"],
        "section": fields.get("Section", "unknown"),
        "priority": fields.get("Priority", "unknown"),
        "installed_size": int(fields.get("Installed-Size", 0)),
        "size": int(fields.get("Size", 0)),
        "maintainer": {"name": name, "email": email.rstrip(">")},
        "depends": sorted({name for name in depends if name}),
        "summary": fields.get("Description-en", fields.get("Description", "")),
    }
    return made


def read(path):
    """All documents by `_id`: what the collection must hold."""
    found = (document(fields) for fields in stanzas(path) if "Package" in fields and "Version" in fields)
    return {made["_id"]: made for made in found}


# --- loading ------------------------------------------------------------------------------------------------------


def load(packages, expected):
    packages.create_index([("section", ASCENDING)])
    packages.create_index([("priority", ASCENDING), ("installed_size", DESCENDING)])
    documents = list(expected.values())
    half = len(documents) // 2
    insert(packages, documents[:half])
    # The third index is built over documents that are there, the rest arrives with all three.
    packages.create_index([("depends", ASCENDING)])
    insert(packages, documents[half:])
    equal("count after loading", packages.count_documents({}), len(expected))


def insert(packages, documents):
    for start in range(0, len(documents), BATCH):
        batch = documents[start : start + BATCH]
        equal("inserted", len(packages.insert_many(batch, ordered=False).inserted_ids), len(batch))


# --- questions ----------------------------------------------------------------------------------------------------


def uses_index(packages, query, name):
    plan = json.dumps(packages.find(query).explain()["queryPlanner"]["winningPlan"], default=str)
    equal(f"index {name} in the plan of {query}", f'"{name}"' in plan, True)


def ask(packages, expected):
    values = list(expected.values())
    uses_index(packages, {"section": "libs"}, "section_1")
    uses_index(packages, {"depends": "libc6"}, "depends_1")
    uses_index(packages, {"priority": "optional", "installed_size": {"$gt": 100000}}, "priority_1_installed_size_-1")

    for section in ("libs", "games", "no such section"):
        equal(f"section {section}", packages.count_documents({"section": section}), sum(p["section"] == section for p in values))
    equal("distinct sections", sorted(packages.distinct("section")), sorted({p["section"] for p in values}))

    large = sorted((p for p in values if p["priority"] == "optional"), key=lambda p: (-p["installed_size"], p["_id"]))[:50]
    found = packages.find({"priority": "optional"}, {"installed_size": 1}).sort([("installed_size", -1), ("_id", 1)]).limit(50)
    equal("largest optional", [(p["_id"], p["installed_size"]) for p in found], [(p["_id"], p["installed_size"]) for p in large])

    def ids(query):
        return sorted(p["_id"] for p in packages.find(query, {"_id": 1}, batch_size=700))

    equal("needs libc6", ids({"depends": "libc6"}), sorted(p["_id"] for p in values if "libc6" in p["depends"]))
    both = {"libc6", "libstdc++6"}
    equal("$all", ids({"depends": {"$all": sorted(both)}}), sorted(p["_id"] for p in values if both <= set(p["depends"])))
    some = {"libssl3", "libgnutls30"}
    equal("$in", ids({"depends": {"$in": sorted(some)}}), sorted(p["_id"] for p in values if some & set(p["depends"])))
    equal("no dependency", ids({"depends": {"$size": 0}}), sorted(p["_id"] for p in values if not p["depends"]))
    between = {"priority": {"$in": ["required", "important"]}, "installed_size": {"$gte": 100, "$lt": 5000}}
    chosen = [p["_id"] for p in values if p["priority"] in ("required", "important") and 100 <= p["installed_size"] < 5000]
    equal("range over two priorities", ids(between), sorted(chosen))
    mixed = {"$or": [{"section": "shells"}, {"package": {"$regex": "^lib.*-dev$"}}], "size": {"$gt": 1000000}}
    chosen = [p for p in values if p["section"] == "shells" or re.search("^lib.*-dev$", p["package"])]
    equal("$or with a regular expression", ids(mixed), sorted(p["_id"] for p in chosen if p["size"] > 1000000))
    equal("nested field", ids({"maintainer.email": "doko@debian.org"}), sorted(p["_id"] for p in values if p["maintainer"]["email"] == "doko@debian.org"))


def summarize(packages, expected):
    values = list(expected.values())
    sections = collections.defaultdict(lambda: {"count": 0, "size": 0, "largest": 0})
    for p in values:
        entry = sections[p["section"]]
        entry["count"] += 1
        entry["size"] += p["size"]
        entry["largest"] = max(entry["largest"], p["installed_size"])
    group = {"_id": "$section", "count": {"$sum": 1}, "size": {"$sum": "$size"}, "largest": {"$max": "$installed_size"}}
    given = packages.aggregate([{"$group": group}, {"$sort": {"_id": 1}}])
    equal("by section", list(given), [{"_id": name, **sections[name]} for name in sorted(sections, key=lambda s: s.encode())])

    needed = collections.Counter(name for p in values if p["section"] == "games" for name in p["depends"])
    top = sorted(needed.items(), key=lambda item: (-item[1], item[0].encode()))[:20]
    given = packages.aggregate(
        [
            {"$match": {"section": "games"}},
            {"$unwind": "$depends"},
            {"$group": {"_id": "$depends", "games": {"$sum": 1}}},
            {"$sort": {"games": -1, "_id": 1}},
            {"$limit": 20},
        ]
    )
    equal("what games need", [(entry["_id"], entry["games"]) for entry in given], top)

    most = collections.Counter(p["maintainer"]["name"] for p in values)
    given = packages.aggregate([{"$group": {"_id": "$maintainer.name", "n": {"$sum": 1}}}, {"$match": {"n": {"$gte": 100}}}])
    equal("busy maintainers", {e["_id"]: e["n"] for e in given}, {name: n for name, n in most.items() if n >= 100})

    ratio = {"$project": {"ratio": {"$divide": ["$installed_size", "$size"]}}}
    given = packages.aggregate([{"$match": {"section": "shells", "size": {"$gt": 0}}}, ratio])
    shells = {p["_id"]: p["installed_size"] / p["size"] for p in values if p["section"] == "shells" and p["size"] > 0}
    equal("computed field", {e["_id"]: e["ratio"] for e in given}, shells)


# --- changes ------------------------------------------------------------------------------------------------------


def change(packages, expected):
    games = [p for p in expected.values() if p["section"] == "games"]
    result = packages.update_many({"section": "games"}, {"$set": {"fun": True}, "$inc": {"installed_size": 7}, "$pull": {"depends": "libc6"}})
    equal("games changed", (result.matched_count, result.modified_count), (len(games), len(games)))
    for p in games:
        p["fun"] = True
        p["installed_size"] += 7
        p["depends"] = [name for name in p["depends"] if name != "libc6"]

    moved = [p for p in expected.values() if p["section"] == "shells"]
    equal("shells moved", packages.update_many({"section": "shells"}, {"$set": {"section": "command line"}}).modified_count, len(moved))
    for p in moved:
        p["section"] = "command line"

    gone = [p["_id"] for p in expected.values() if p["section"] == "debug"]
    equal("debug deleted", packages.delete_many({"section": "debug"}).deleted_count, len(gone))
    for name in gone:
        del expected[name]

    each = [p for p in expected.values() if p["priority"] == "required"]
    requests = [UpdateOne({"_id": p["_id"]}, {"$push": {"depends": "quarry"}, "$unset": {"summary": ""}}) for p in each]
    equal("required packages changed", packages.bulk_write(requests, ordered=False).modified_count, len(each))
    for p in each:
        p["depends"].append("quarry")
        del p["summary"]

    own = {"package": "quarry", "version": "1", "section": "database", "priority": "optional", "installed_size": 1, "depends": ["libc6"]}
    equal("upserted", packages.replace_one({"_id": "quarry_1_all"}, own, upsert=True).upserted_id, "quarry_1_all")
    expected["quarry_1_all"] = {"_id": "quarry_1_all", **own}


def check_changes(packages, expected):
    values = list(expected.values())
    for query, holds in (
        ({"depends": "libc6"}, lambda p: "libc6" in p["depends"]),
        ({"depends": "quarry"}, lambda p: "quarry" in p["depends"]),
        ({"section": "games", "fun": True}, lambda p: p.get("fun") is True),
        ({"section": "shells"}, lambda p: p["section"] == "shells"),
        ({"section": "command line"}, lambda p: p["section"] == "command line"),
        ({"priority": "optional", "installed_size": {"$lt": 40}}, lambda p: p["priority"] == "optional" and p["installed_size"] < 40),
    ):
        equal(f"count of {query}", packages.count_documents(query), sum(map(holds, values)))
    for given in packages.find({}, batch_size=5000):
        equal(f"document {given['_id']}", given, expected.get(given["_id"]))
    equal("count", packages.count_documents({}), len(expected))


# --- what must survive --------------------------------------------------------------------------------------------

SURVIVORS = ({"section": "games"}, {"depends": "libc6"}, {"depends": "quarry"}, {"priority": "optional", "installed_size": {"$gt": 10000}})


def state(packages):
    digest = hashlib.sha256()
    for raw in packages.find({}, batch_size=5000).sort("_id", ASCENDING):
        digest.update(bson.encode(raw))
    validation = packages.database.command("validate", packages.name, full=True)
    equal("validate", (validation["valid"], validation["errors"]), (True, []))
    return {
        "documents": packages.count_documents({}),
        "fast count": packages.estimated_document_count(),
        "sha256": digest.hexdigest(),
        "indexes": sorted(json.dumps([index["name"], list(index["key"].items())]) for index in packages.list_indexes()),
        "keys per index": dict(sorted(validation["keysPerIndex"].items())),
        "counts": [packages.count_documents(query) for query in SURVIVORS],
        "sample": [json.dumps(p) for p in packages.find({"depends": "quarry"}).sort("_id", ASCENDING).limit(20)],
    }


def main():
    step, address, available, file = sys.argv[1:]
    client = MongoClient(f"mongodb://{address}/?directConnection=true", serverSelectionTimeoutMS=10000)
    packages = client[DATABASE]["packages"]
    if step == "load":
        expected = timed("reading apt's index", lambda: read(available))
        client.drop_database(DATABASE)
        timed(f"loading {len(expected)} documents, three indexes", lambda: load(packages, expected))
        timed("queries", lambda: ask(packages, expected))
        timed("aggregates", lambda: summarize(packages, expected))
        timed("changes", lambda: change(packages, expected))
        timed("every document compared", lambda: check_changes(packages, expected))
        kept = timed("validate and digest", lambda: state(packages))
        equal("fast count", kept["fast count"], len(expected))
        with open(file, "w", encoding="utf-8") as out:
            json.dump(kept, out)
    else:
        with open(file, encoding="utf-8") as saved:
            kept = json.load(saved)
        found = timed("after the restart", lambda: state(packages))
        for name, value in kept.items():
            equal(f"after the restart: {name}", found[name], value)
    client.close()


main()
