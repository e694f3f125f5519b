"""Users and roles for dump.sh. Usage: access.py WHAT HOST:PORT FOLDER [FILE...]

`more` makes roles, and users with restrictions and data of their own, beside those of users.py. `first` makes the users by which a new
server is restored. `list FILE` writes all users with their credentials and all roles with their privileges. `same A B [BEFORE]`
compares two such files; with a third one, the users of `first` must be as they are there: without --drop a restore changes nobody.
`surplus` makes a user and a role that a restore with --drop must remove. `one` checks that only users and roles of the database
`logins` have come.
"""
import sys
from pathlib import Path

import pymongo
from bson import json_util

HELPERS = [("root", ["root"]), ("keeper", [{"role": "backup", "db": "admin"}, {"role": "restore", "db": "admin"}]),
           ("reader", [{"role": "read", "db": "logins"}])]
OPTIONS = json_util.JSONOptions(json_mode=json_util.JSONMode.CANONICAL, uuid_representation=json_util.UuidRepresentation.STANDARD)


def connect(login=True):
    address, folder = sys.argv[2], Path(sys.argv[3])
    who = {"username": "root", "password": "pass-root"} if login else {}
    return pymongo.MongoClient(f"mongodb://{address}/", tls=True, tlsCAFile=str(folder / "ca.pem"), directConnection=True, **who)


def equal(what, given, expected):
    if given != expected:
        sys.exit(f"access: {what}:\n  given    {given!r:.500}\n  expected {expected!r:.500}")


def more(client):
    item = [{"resource": {"db": "logins", "collection": "items"}, "actions": ["find", "collStats"]}]
    client["logins"].command("createRole", "auditor", privileges=item, roles=[])
    client.admin.command("createRole", "operator", privileges=[{"resource": {"cluster": True}, "actions": ["inprog", "killop"]}],
                         roles=[{"role": "auditor", "db": "logins"}, {"role": "read", "db": "elsewhere"}],
                         authenticationRestrictions=[{"clientSource": ["127.0.0.0/8"]}])
    client.admin.command("createUser", "holder", pwd="pass-holder", roles=["operator"], customData={"of": "Quarry", "n": [1, 2.5]},
                         authenticationRestrictions=[{"clientSource": ["127.0.0.1"], "serverAddress": ["127.0.0.1"]}])
    client["logins"].command("createUser", "auditor", pwd="pass-auditor", roles=["auditor"])


def first(client):
    client.admin.command("createUser", "root", pwd="pass-root", roles=["root"])
    with connect() as client:
        for name, roles in HELPERS[1:]:
            client.admin.command("createUser", name, pwd=f"pass-{name}", roles=roles)


def surplus(client):
    client.admin.command("createRole", "surplus", privileges=[], roles=[])
    client.admin.command("createUser", "surplus", pwd="pass-surplus", roles=["surplus"])


def access_of(client):
    users = client.admin.command("usersInfo", {"forAllDBs": True}, showCredentials=True)["users"]
    roles = []
    for database in ("admin", "logins"):
        roles += client[database].command("rolesInfo", 1, showPrivileges=True, showAuthenticationRestrictions=True)["roles"]
    # Restrictions are left out of a list of all users: each is asked for.
    for user in users:
        asked = {"user": user["user"], "db": user["db"]}
        user["shown"] = client.admin.command("usersInfo", asked, showAuthenticationRestrictions=True)["users"]
    return {"users": sorted(users, key=lambda user: user["_id"]), "roles": sorted(roles, key=lambda role: role["_id"])}


def same(files):
    one, other, *before = (json_util.loads(Path(file).read_text(), json_options=OPTIONS) for file in files)
    there = {user["_id"]: user for user in before[0]["users"]} if before else {}
    for kind in ("users", "roles"):
        equal(f"{kind}, their names", [entry["_id"] for entry in other[kind]], [entry["_id"] for entry in one[kind]])
        for given, expected in zip(other[kind], one[kind]):
            equal(given["_id"], given, there.get(given["_id"], expected) if kind == "users" else expected)
    if len(one["users"]) < 10 or len(one["roles"]) != 2:
        sys.exit("access: there are not as many users and roles as were made")
    kept = [secret for user in one["users"] for secret in user.get("credentials", {}).values() if isinstance(secret, dict)]
    print(f"access: {len(one['users'])} users ({len(there)} of them as before), {len(kept)} credentials, {len(one['roles'])} roles are as "
          "they must be")


def of_one_database(client):
    users = client.admin.command("usersInfo", {"forAllDBs": True})["users"]
    expected = ["admin.keeper", "admin.reader", "admin.root", "logins.auditor", "logins.local"]
    equal("users", sorted(user["_id"] for user in users), expected)
    roles = [role["_id"] for database in ("admin", "logins") for role in client[database].command("rolesInfo", 1)["roles"]]
    equal("roles", roles, ["logins.auditor"])
    options = {"tls": True, "tlsCAFile": str(Path(sys.argv[3]) / "ca.pem"), "directConnection": True, "authSource": "logins"}
    with pymongo.MongoClient(f"mongodb://{sys.argv[2]}/", username="auditor", password="pass-auditor", **options) as auditor:
        equal("what the auditor finds", auditor["logins"]["items"].find_one({"_id": "seed"}), {"_id": "seed", "n": 1})
    print("access: users and roles of one database have come, and no others")


def main():
    what = sys.argv[1]
    with connect(login=what != "first") as client:
        if what == "list":
            Path(sys.argv[4]).write_text(json_util.dumps(access_of(client), json_options=OPTIONS))
        elif what == "same":
            same(sys.argv[4:])
        else:
            {"more": more, "first": first, "surplus": surplus, "one": of_one_database}[what](client)


main()
