"""The PyMongo program that is recorded: loads, updates, cursors of several threads at the same time, pipelines,
a transaction, errors. Usage: replayed.py URI. Ids and values are fixed, so that a replay gets the same answers."""
import sys
import threading

import pymongo
from pymongo.errors import DuplicateKeyError

client = pymongo.MongoClient(sys.argv[1])
orders = client.replayed.orders
orders.create_index([("customer", 1), ("at", -1)], name="customer")
orders.insert_many([{"_id": n, "customer": n % 50, "at": n, "text": "x" * (n % 200)} for n in range(3_000)])


def read(first):
    for customer in range(first, first + 10):
        left, right = (
            orders.find({"customer": {"$gte": customer}}, batch_size=7).sort(order).limit(60)
            for order in ([("_id", 1)], [("at", -1), ("_id", 1)])
        )
        for one, other in zip(left, right):
            assert one["customer"] >= customer and other["customer"] >= customer


threads = [threading.Thread(target=read, args=(first,)) for first in (0, 10, 20, 30)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for n in range(300):
    orders.update_one({"_id": n}, {"$inc": {"paid": n}, "$set": {"state": "paid"}})
orders.update_many({"customer": 7}, [{"$set": {"half": {"$divide": ["$at", 2]}}}])
orders.delete_many({"_id": {"$gte": 2_900}})
try:
    orders.insert_one({"_id": 1})
    sys.exit("a duplicate was taken")
except DuplicateKeyError:
    pass
by_customer = [{"$group": {"_id": "$customer", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]
assert sum(group["n"] for group in orders.aggregate(by_customer, batchSize=9)) == 2_900
with client.start_session() as session, session.start_transaction():
    orders.update_one({"_id": 5}, {"$inc": {"paid": 1}}, session=session)
    client.replayed.log.insert_one({"_id": "first", "order": 5}, session=session)
