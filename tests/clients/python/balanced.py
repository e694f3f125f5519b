"""pymongo with loadBalanced=true through one address that stands before several servers. Usage: balanced.py HOST:PORT,HOST:PORT..."""

import itertools
import socket
import sys
import threading

import pymongo
from pymongo import MongoClient

DB = "smoke_balanced"


def equal(what, given, expected):
    if given != expected:
        sys.exit(f"pymongo, load balanced: {what}: given {given!r}, expected {expected!r}")


def copy(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Balancer:
    """Hands each connection to the next server."""

    def __init__(self, addresses):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.used = {address: 0 for address in addresses}
        threading.Thread(target=self.serve, args=(itertools.cycle(addresses),), daemon=True).start()

    def serve(self, addresses):
        while True:
            client, _ = self.listener.accept()
            address = next(addresses)
            self.used[address] += 1
            host, port = address.rsplit(":", 1)
            server = socket.create_connection((host, int(port)))
            for pair in ((client, server), (server, client)):
                threading.Thread(target=copy, args=pair, daemon=True).start()


def transfer(items):
    def steps(session):
        items.update_one({"_id": 1}, {"$inc": {"n": -1}}, session=session)
        items.update_one({"_id": 2}, {"$inc": {"n": 1}}, session=session)

    with items.database.client.start_session() as session:
        session.with_transaction(steps)


def work(items, number):
    """A cursor, transactions and writes, at the same time as other threads."""
    seen = [item["_id"] for item in items.find({"_id": {"$gte": 1000}}, batch_size=20).sort("_id", 1)]
    equal("a cursor over batches", seen, list(range(1000, 1300)))
    for _ in range(5):
        transfer(items)
    items.insert_one({"_id": number})


def main():
    balancer = Balancer(sys.argv[1].split(","))
    with MongoClient(f"mongodb://127.0.0.1:{balancer.port}/?loadBalanced=true", serverSelectionTimeoutMS=10000) as client:
        client.drop_database(DB)
        items = client[DB].items
        items.insert_many([{"_id": n, "n": 100} for n in (1, 2)] + [{"_id": n} for n in range(1000, 1300)])
        with items.watch() as stream:
            failed = []

            def run(number):
                try:
                    work(items, number)
                except BaseException as error:
                    failed.append(error)

            threads = [threading.Thread(target=run, args=(10 + n,)) for n in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            equal("failures", failed, [])
            inserted = set()
            while len(inserted) < len(threads):
                event = next(stream)
                if event["operationType"] == "insert":
                    inserted.add(event["documentKey"]["_id"])
            equal("the stream", inserted, set(range(10, 16)))
        equal("transfers", [item["n"] for item in items.find({"_id": {"$lte": 2}}).sort("_id", 1)], [70, 130])
        client.drop_database(DB)
    equal("servers without a connection", [a for a, used in balancer.used.items() if used == 0], [])
    print(f"pymongo {pymongo.version}, load balanced: ok")


main()
