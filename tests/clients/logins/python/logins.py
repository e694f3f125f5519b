"""Logs in as cases.json says, with pymongo. Usage: logins.py CASES PART HOST:PORT FOLDER

PART is a key of the file, FOLDER has the certificates (certificates.sh). Prints one line a step and, last, how many steps there
were and how many came out otherwise; ends with status 1 if any did. The same program exists for each client.
"""
import json
import shutil
import sys
from pathlib import Path
from urllib.parse import quote_plus

import pymongo
from bson import ObjectId
from pymongo.errors import AutoReconnect, OperationFailure


def connect(case, address, folder):
    host, port = address.rsplit(":", 1)
    options = ["appName=logins-python", "serverSelectionTimeoutMS=3000", case.get("query", "directConnection=true")]
    if case.get("tls", True):
        options += ["tls=true", f"tlsCAFile={folder / case.get('ca', 'ca.pem')}"]
        if "certificate" in case:
            options.append(f"tlsCertificateKeyFile={folder / case['certificate']}")
    if "mechanism" in case:
        options.append(f"authMechanism={case['mechanism']}")
    login = ""
    if "user" in case:
        login = quote_plus(case["user"]) + (f":{quote_plus(case['password'])}" if "password" in case else "") + "@"
        options.append(f"authSource={quote_plus(case.get('source', 'admin') if 'password' in case else '$external')}")
    return pymongo.MongoClient(f"mongodb://{login}{case.get('host', host)}:{port}/?{'&'.join(options)}", maxPoolSize=1)


def act(client, step, held_id):
    items = client["logins"]["items"]
    if step == "who":
        users = client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]
        return " ".join(f"{user['user']}@{user['db']}" for user in users)
    if step == "find":
        return "ok" if items.find_one({"_id": "seed"}) == {"_id": "seed", "n": 1} else "another document"
    if step == "insert":
        key = ObjectId()
        items.insert_one({"_id": key, "by": "python"})
        return "ok" if items.count_documents({"_id": key}) == 1 else "not inserted"
    if step == "elsewhere":
        client["elsewhere"]["items"].find_one()
    elif step == "rotate":
        client.admin.command("rotateCertificates", 1)
    elif step == "same":
        return "ok" if client.admin.command("hello")["connectionId"] == held_id else "another connection"
    else:
        return "no such step"
    return "ok"


def outcome(client, step, held_id):
    try:
        return act(client, step, held_id), ""
    except OperationFailure as error:
        return str(error.code), str(error)
    except AutoReconnect as error:
        return "refused", str(error)


def main():
    cases, part, address, folder = Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])
    count = wrong = 0
    root = {"user": "root", "password": "pass-root", "ca": "both-ca.pem"} | ({"certificate": "stranger.pem"} if part == "strict" else {})
    with connect(root, address, folder) as held:
        held_id = held.admin.command("hello")["connectionId"]
        for case in json.loads(cases.read_text())[part]:
            if "install" in case:
                shutil.copy(folder / case["install"], folder / "server.pem")
            client = held if case.get("held") else connect(case, address, folder)
            for step, expected in case["steps"]:
                given, why = outcome(client, step, held_id)
                count += 1
                wrong += given != expected
                verdict = "ok" if given == expected else f"WRONG, expected {expected}"
                print(f"  {verdict}: {case['name']}: {step}: {given} {why[:200]}".rstrip())
            if client is not held:
                client.close()
    print(f"pymongo {pymongo.version}: {count} steps, {wrong} wrong")
    sys.exit(1 if wrong else 0)


main()
