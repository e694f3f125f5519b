"""Uses the toy parts of a server. Usage: use.py ADDRESS"""

import sys
import time

from pymongo import MongoClient

client = MongoClient(f"mongodb://{sys.argv[1]}/", directConnection=True)
test = client.test
test.t.insert_many([{"_id": n} for n in range(5)])


def check(name, got, wanted):
    if got != wanted:
        sys.exit(f"parts: {name}: {got} instead of {wanted}")
    print(f"parts: {name} works")


check("operator", [d["twice"] for d in test.t.aggregate([{"$sort": {"_id": 1}}, {"$project": {"twice": {"$toyTwice": "$_id"}}}])], [0, 2, 4, 6, 8])
check("stage", len(list(test.t.aggregate([{"$toyFirst": 2}]))), 2)
check("command", test.command("toyPing")["ok"], 1)
status = client.admin.command("serverStatus")
# The toy engine is the one in memory by another name; a build without it refuses the option.
options = client.admin.command("getCmdLineOpts")["parsed"]
check("engine", options.get("storage", {}).get("engine"), "toy")
check("worker", "toyWorker" in status["quarry"]["workers"], True)
deadline = time.monotonic() + 10
while True:
    consumers = client.admin.command("serverStatus")["quarry"]["logConsumers"]["consumers"]
    if any(c["name"] == "toy" and c["lagOperations"] == 0 for c in consumers):
        break
    if time.monotonic() > deadline:
        sys.exit(f"parts: the consumer is not at the end of the log: {consumers}")
    time.sleep(0.1)
print("parts: consumer works")
