"""Writes over one connection, and logs in over new ones, until SIGTERM. Usage: load.py HOST:PORT FOLDER

Ends with status 1 if anything failed, if the first connection was not the only one for its writes, or if a write is missing.
"""
import signal
import sys
import time
from pathlib import Path

import pymongo


def main():
    address, folder = sys.argv[1], Path(sys.argv[2])
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    # Both authorities, since the server's certificate is now of one, now of the other.
    options = {"tls": True, "tlsCAFile": str(folder / "both-ca.pem"), "username": "both", "password": "pass-both", "maxPoolSize": 1,
               "directConnection": True, "retryWrites": False, "retryReads": False, "serverSelectionTimeoutMS": 5000}
    written = entered = 0
    with pymongo.MongoClient(f"mongodb://{address}/", **options) as kept:
        items = kept["logins"]["load"]
        items.delete_many({})
        first = kept.admin.command("hello")["connectionId"]
        while not ended:
            items.insert_one({"_id": written})
            written += 1
            if written % 5 == 0:
                with pymongo.MongoClient(f"mongodb://{address}/", **options) as fresh:
                    if fresh["logins"]["items"].find_one({"_id": "seed"}) is None:
                        sys.exit("load: a new connection reads nothing")
                entered += 1
            time.sleep(0.05)
        last = kept.admin.command("hello")["connectionId"]
        if last != first:
            sys.exit(f"load: the connection {first} has become {last}")
        found = items.count_documents({})
    if found != written or not written or not entered:
        sys.exit(f"load: {found} of {written} writes, {entered} new connections")
    print(f"load: {written} writes over one connection, {entered} logins over new ones, none failed")


main()
