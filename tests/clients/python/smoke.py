"""Smoke of pymongo. Usage: smoke.py HOST:PORT, or HOST:PORT,HOST:PORT... of servers that all write one database."""

import contextlib
import sys

import pymongo
from pymongo import ASCENDING, DESCENDING, MongoClient, ReturnDocument
from pymongo.errors import BulkWriteError, DuplicateKeyError

DB = "smoke_python"


def equal(what, given, expected):
    if given != expected:
        sys.exit(f"pymongo: {what}: given {given!r}, expected {expected!r}")


def connect(address, **options):
    return MongoClient(f"mongodb://{address}/", serverSelectionTimeoutMS=10000, **options)


def set_name(address):
    with connect(address, directConnection=True) as client:
        equal("ping", client.admin.command("ping")["ok"], 1.0)
        hello = client.admin.command("hello")
        equal("hello.isWritablePrimary", hello["isWritablePrimary"], True)
        # Servers that all write one database are no set.
        return hello.get("setName")


def reads(items):
    found = items.find({"group": 3, "n": {"$gte": 100}}, {"_id": 0, "n": 1}).sort("n", DESCENDING).limit(5)
    equal("find", list(found), [{"n": n} for n in (993, 983, 973, 963, 953)])
    cursor = items.find({}, batch_size=100).sort("n", ASCENDING)
    equal("cursor over batches", [item["n"] for item in cursor], list(range(1000)))
    unfinished = items.find({}, batch_size=10)
    next(unfinished)
    unfinished.close()
    equal("count", items.count_documents({"group": {"$in": [1, 2]}}), 200)
    equal("estimated count", items.estimated_document_count(), 1000)
    equal("distinct", sorted(items.distinct("group", {"n": {"$lt": 4}})), [0, 1, 2, 3])
    groups = items.aggregate(
        [
            {"$match": {"group": {"$lte": 1}}},
            {"$group": {"_id": "$group", "sum": {"$sum": "$n"}, "max": {"$max": "$n"}}},
            {"$sort": {"_id": -1}},
        ]
    )
    equal("aggregate", list(groups), [{"_id": 1, "sum": 49600, "max": 991}, {"_id": 0, "sum": 49500, "max": 990}])


def writes(items):
    one = items.update_one({"_id": 7}, {"$set": {"name": "seven"}, "$inc": {"n": 1000}})
    equal("update_one", (one.matched_count, one.modified_count), (1, 1))
    many = items.update_many({"group": 5}, {"$inc": {"seen": 1}})
    equal("update_many", (many.matched_count, many.modified_count), (100, 100))
    upsert = items.update_one({"_id": "new"}, {"$setOnInsert": {"name": "upserted"}, "$push": {"tags": "a"}}, upsert=True)
    equal("upsert", (upsert.matched_count, upsert.upserted_id), (0, "new"))
    equal("upserted", items.find_one({"_id": "new"}), {"_id": "new", "name": "upserted", "tags": ["a"]})
    after = items.find_one_and_update({"_id": 7}, {"$inc": {"n": -1000}}, return_document=ReturnDocument.AFTER)
    equal("find_one_and_update", after, {"_id": 7, "n": 7, "group": 7, "name": "seven"})
    before = items.find_one_and_delete({"_id": "new"}, projection={"name": 1, "_id": 0})
    equal("find_one_and_delete", before, {"name": "upserted"})
    equal("delete_one", items.delete_one({"_id": 999}).deleted_count, 1)
    equal("delete_many", items.delete_many({"group": 8}).deleted_count, 100)
    equal("replace_one", items.replace_one({"_id": 1}, {"n": 1, "group": 1, "name": "replaced"}).modified_count, 1)


def indexes(items):
    equal("create_index", items.create_index([("group", ASCENDING), ("n", DESCENDING)]), "group_1_n_-1")
    items.create_index("name", unique=True)
    equal("list_indexes", sorted(index["name"] for index in items.list_indexes()), ["_id_", "group_1_n_-1", "name_1"])
    try:
        items.insert_one({"_id": "twin", "name": "seven"})
        sys.exit("pymongo: a unique index let a second value in")
    except DuplicateKeyError as error:
        equal("unique violation", (error.code, error.details["keyValue"]), (11000, {"name": "seven"}))
    try:
        items.insert_many([{"_id": "a", "name": "a"}, {"_id": "a", "name": "b"}, {"_id": "c", "name": "c"}], ordered=False)
        sys.exit("pymongo: a second _id was let in")
    except BulkWriteError as error:
        equal("bulk", (error.details["nInserted"], [e["code"] for e in error.details["writeErrors"]]), (2, [11000]))
    found = items.find({"group": 4}, {"_id": 0, "n": 1}).sort("n", DESCENDING).limit(2)
    equal("find by index", list(found), [{"n": 994}, {"n": 984}])
    items.drop_index("name_1")
    equal("drop_index", len(list(items.list_indexes())), 2)


def listing(client, items):
    database = client[DB]
    equal("list_collection_names", database.list_collection_names(), ["items"])
    equal("list_database_names", DB in client.list_database_names(), True)
    items.drop()
    equal("drop", database.list_collection_names(), [])
    client.drop_database(DB)
    equal("drop_database", DB in client.list_database_names(), False)


def changes(items):
    items.drop()
    with items.watch(max_await_time_ms=5000) as stream:
        items.insert_many([{"_id": n} for n in range(3)])
        items.update_one({"_id": 1}, {"$set": {"a.b": 2}})
        seen = [next(stream) for _ in range(2)]
        token = stream.resume_token
    equal("events", [(e["operationType"], e["documentKey"]["_id"]) for e in seen], [("insert", 0), ("insert", 1)])
    with items.watch(resume_after=token, full_document="updateLookup", max_await_time_ms=5000) as stream:
        equal("resumed", next(stream)["fullDocument"], {"_id": 2})
        update = next(stream)
        equal("update", update["updateDescription"]["updatedFields"], {"a": {"b": 2}})
        equal("updateLookup", update["fullDocument"], {"_id": 1, "a": {"b": 2}})
        items.drop()
        equal("invalidation", [e["operationType"] for e in stream], ["drop", "invalidate"])
    log = items.database.client.local["oplog.rs"]
    last = log.find({"ts": {"$gte": update["clusterTime"]}, "ns": items.full_name}).sort("$natural", 1).limit(1)
    equal("entry", [e["o2"] for e in last], [{"_id": 1}])


def ended_sessions(watchers):
    counts = [w.admin.command("serverStatus")["metrics"]["commands"].get("endSessions", {}) for w in watchers]
    return sum(count.get("total", 0) for count in counts)


def main():
    address = sys.argv[1]
    names = {set_name(one) for one in address.split(",")}
    equal("names of the set", len(names), 1)
    (name,) = names
    with contextlib.ExitStack() as stack:
        watchers = [stack.enter_context(connect(one, directConnection=True)) for one in address.split(",")]
        ended_before = ended_sessions(watchers)
        with connect(address, replicaSet=name) as client:
            client.drop_database(DB)
            items = client[DB]["items"]
            first = items.insert_one({"_id": 0, "n": 0, "group": 0, "name": "item 0"})
            equal("insert_one", first.inserted_id, 0)
            rest = [{"_id": n, "n": n, "group": n % 10, "name": f"item {n}"} for n in range(1, 1000)]
            equal("insert_many", len(items.insert_many(rest).inserted_ids), 999)
            reads(items)
            writes(items)
            indexes(items)
            changes(client[DB]["watched"])
            listing(client, items)
        equal("endSessions on close", ended_sessions(watchers) > ended_before, True)
    print(f"pymongo {pymongo.version}: ok")


main()
