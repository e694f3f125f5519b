"""Writes and reads by a URI as it is. Usage: plain.py URI ADDRESS; the driver must end up at ADDRESS (none: anywhere)."""

import sys

from pymongo import MongoClient


def main(uri, address):
    with MongoClient(uri, serverSelectionTimeoutMS=10000) as client:
        items = client.elsewhere.python
        items.drop()
        with client.start_session() as session, session.start_transaction():
            items.insert_one({"_id": 1}, session=session)
        if items.count_documents({}) != 1:
            sys.exit("pymongo: what was inserted is not there")
        used = "{}:{}".format(*client.address)
        if address and used != address:
            sys.exit(f"pymongo: it went from {uri} to {used}")


if __name__ == "__main__":
    main(*sys.argv[1:])
