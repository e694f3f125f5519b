"""Makes the users of the login checks on a server that has none. Usage: users.py HOST:PORT FOLDER

The first one comes through the exception for this machine: before it, nothing else is allowed there; after it, nothing is.
"""
import sys
from pathlib import Path

import pymongo
from pymongo.errors import OperationFailure

ROOT = "root"
BOTH = ["SCRAM-SHA-1", "SCRAM-SHA-256"]
MAY_WRITE = [{"role": "readWrite", "db": "logins"}]
MAY_READ = [{"role": "read", "db": "logins"}]
USERS = [
    # Name, password, mechanisms, roles.
    ("both", "pass-both", BOTH, MAY_WRITE),
    ("sha256", "pass-sha256", BOTH[1:], MAY_WRITE),
    ("sha1", "pass-sha1", BOTH[:1], MAY_WRITE),
    ("reader", "pass-reader", BOTH, MAY_READ),
    ("a=b,c/d@e:f", "p=q,r/s@t:u%", BOTH, MAY_WRITE),
    # The Node.js driver, 7.9.0, makes its SCRAM-SHA-1 digest of a name with = or , from the escaped name; it gets in nowhere so.
    ("c/d@e:f", "p=q,r/s@t:u%", BOTH, MAY_WRITE),
    ("jörg", "pässwörd", BOTH, MAY_WRITE),
    ("nine", "\u2168", BOTH[1:], MAY_WRITE),
    ("monitor", "pass-monitor", BOTH, [{"role": "clusterMonitor", "db": "admin"}, {"role": "read", "db": "local"}]),
    ("keeper", "pass-keeper", BOTH, [{"role": "backup", "db": "admin"}, {"role": "restore", "db": "admin"}]),
]


def refused(what, code, call):
    try:
        call()
    except OperationFailure as error:
        if error.code == code:
            return
        sys.exit(f"users: {what}: given {error.code}, expected {code}: {error}")
    sys.exit(f"users: {what} was not refused")


def main():
    address, folder = sys.argv[1], Path(sys.argv[2])
    options = {"tls": True, "tlsCAFile": str(folder / "ca.pem"), "directConnection": True, "serverSelectionTimeoutMS": 10000}
    with pymongo.MongoClient(f"mongodb://{address}/", **options) as client:
        refused("find before there is a user", 13, lambda: client["logins"]["items"].find_one())
        first = {"pwd": "pass-root", "roles": ["root"]}
        client.admin.command("createUser", ROOT, **first)
        refused("a second user through the exception", 13, lambda: client.admin.command("createUser", "second", **first))
    with pymongo.MongoClient(f"mongodb://{address}/", username=ROOT, password="pass-root", **options) as client:
        for name, password, mechanisms, roles in USERS:
            client.admin.command("createUser", name, pwd=password, mechanisms=mechanisms, roles=roles)
        client["logins"].command("createUser", "local", pwd="pass-local", roles=["readWrite"])
        client["$external"].command("createUser", "CN=reader,OU=clients,O=Quarry,C=DE", roles=MAY_READ)
        client["logins"]["items"].insert_one({"_id": "seed", "n": 1})
        client["elsewhere"]["items"].insert_one({"_id": "seed", "n": 1})
        kept = client.admin.command("usersInfo", {"forAllDBs": True})["users"]
    expected = {name: mechanisms for name, _, mechanisms, _ in USERS} | {ROOT: BOTH, "local": BOTH}
    expected["CN=reader,OU=clients,O=Quarry,C=DE"] = ["external"]
    given = {user["user"]: sorted(user["mechanisms"]) for user in kept}
    if given != expected:
        sys.exit(f"users: given {given}, expected {expected}")
    print(f"users: {len(given)}")


main()
