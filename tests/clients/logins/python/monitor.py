"""What a monitoring program asks for, by a user of clusterMonitor. Usage: monitor.py HOST:PORT FOLDER

The commands are those that the collectors of Percona's mongodb_exporter send, by its source, in the types it sends them in, and the user
has the roles that its manual asks for. Prints how many numbers each gives; every one must give some, except where there may be none.
What is none of a monitor's business must be refused: documents, writes, users. The exporter itself could not be had.
"""
import datetime
import sys
from pathlib import Path

import pymongo
from bson import Int64
from bson.son import SON
from pymongo.errors import OperationFailure


def connect(user):
    address, folder = sys.argv[1], Path(sys.argv[2])
    return pymongo.MongoClient(f"mongodb://{address}/", tls=True, tlsCAFile=str(folder / "ca.pem"), directConnection=True,
                               username=user, password=f"pass-{user}", appName="mongodb_exporter")


def numbers(value):
    """How many metrics an answer makes: numbers, truth values and dates at any depth."""
    if isinstance(value, dict):
        return sum(numbers(part) for part in value.values())
    if isinstance(value, list):
        return sum(numbers(part) for part in value)
    return isinstance(value, (bool, int, float, Int64, datetime.datetime))


def databases(client):
    return [entry["name"] for entry in client.admin.command("listDatabases", 1, nameOnly=True, authorizedDatabases=True)["databases"]]


def of_collections(client, stage):
    # Named, as by --mongodb.collstats-colls: to find them by itself the exporter needs a role that lists collections.
    return [client[db]["items"].aggregate([stage]).to_list() for db in ("logins", "elsewhere")]


def running(client):
    slow = SON([("currentOp", True), ("active", True), ("op", {"$ne": ""}),
                ("ns", {"$ne": "", "$not": {"$regex": "^admin.*|^local.*"}}), ("microsecs_running", {"$exists": True, "$gte": 0})])
    return [client.admin.command(slow), client.admin.command("currentOp", True)]


def chunks(client):
    by_shard = [{"$group": {"_id": "$shard", "count": {"$sum": 1}}}]
    listed = [list(client.config.collections.find({"_id": {"$regex": f"^{db}.", "$options": "i"}})) for db in databases(client)]
    return [client.config.chunks.count_documents({}), client.config.chunks.aggregate(by_shard).to_list(), listed]


def log_of_changes(client):
    log = client.local["oplog.rs"]
    ends = [log.find_one({}, sort=[("$natural", way)])["ts"].time for way in (1, -1)]
    return [*ends, client.local.command("collStats", "oplog.rs")]


def profiled(client):
    since = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=30)
    return [client[db]["system.profile"].count_documents({"ts": {"$gte": since}}) for db in databases(client)]


def both_stats():
    return {"$collStats": {"latencyStats": {"histograms": True}, "storageStats": {"scale": 1}}}


COLLECTORS = {
    "general": lambda c: c.admin.command("ping"),
    "topology": lambda c: [c.admin.command(name) for name in ("isMaster", "replSetGetConfig", "replSetGetStatus")],
    "build": lambda c: [c.admin.command("buildInfo"), c.admin.command("getCmdLineOpts")],
    "diagnosticdata": lambda c: c.admin.command("getDiagnosticData", "1")["data"],
    "serverstatus": lambda c: c.admin.command("serverStatus", "1"),
    "replicasetstatus": lambda c: c.admin.command("replSetGetStatus", "1"),
    "replicasetconfig": lambda c: c.admin.command("replSetGetConfig", "1")["config"],
    "dbstats": lambda c: [c[db].command(SON([("dbStats", 1), ("scale", 1), ("freeStorage", 1)])) for db in databases(c)],
    "topmetrics": lambda c: c.admin.command("top", "1")["totals"],
    "currentop": running,
    "collstats": lambda c: of_collections(c, both_stats()),
    "indexstats": lambda c: of_collections(c, {"$indexStats": {}}),
    "profile": profiled,
    "shards": chunks,
    "fcv": lambda c: [float(c.admin.command("getParameter", 1, featureCompatibilityVersion=1)["featureCompatibilityVersion"]["version"])],
    "oplog": log_of_changes,
}


def refused(what, call, codes=(13,)):
    try:
        call()
    except OperationFailure as error:
        if error.code in codes:
            print(f"  refused: {what}")
            return 0
        print(f"  WRONG: {what}: given {error.code}, expected {codes}: {error}")
        return 1
    print(f"  WRONG: {what} was not refused")
    return 1


def main():
    wrong = total = 0
    with connect("monitor") as client, connect("reader") as reader:
        for name, ask in COLLECTORS.items():
            try:
                count = numbers(ask(client))
            except OperationFailure as error:
                print(f"  WRONG: {name}: {error.code} {error.details.get('errmsg', '')[:200]}")
                wrong += 1
                continue
            print(f"  {name}: {count} numbers")
            total += count
            wrong += not count
        wrong += refused("documents of others", lambda: client["logins"]["items"].find_one())
        wrong += refused("a write", lambda: client["logins"]["items"].insert_one({}))
        wrong += refused("a list of collections", lambda: client["elsewhere"].list_collection_names(filter={}))
        wrong += refused("users", lambda: client.admin.command("usersInfo", {"forAllDBs": True}))
        wrong += refused("shutdown", lambda: client.admin.command("shutdown"))
        for command in ("serverStatus", "getDiagnosticData", "top", "replSetGetStatus", "getCmdLineOpts"):
            wrong += refused(f"{command} by who is no monitor", lambda command=command: reader.admin.command(command))
    print(f"monitor: {len(COLLECTORS)} collectors, {total} numbers, {wrong} wrong")
    sys.exit(1 if wrong else 0)


main()
