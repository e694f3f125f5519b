"""Airflow's MongoHook by a connection from the environment: writes, bulk writes, queries, an aggregation, replacement, deletion."""

import importlib.metadata
import os
import sys
import tempfile

host, port = sys.argv[1].split(":")
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp()
os.environ["AIRFLOW_CONN_MONGO_DEFAULT"] = f"mongo://{host}:{port}/airflow?directConnection=true"

from airflow.providers.mongo.hooks.mongo import MongoHook  # noqa: E402

for package in ("apache-airflow", "apache-airflow-providers-mongo", "pymongo"):
    print("VERSION", package, importlib.metadata.version(package))
with MongoHook() as hook:
    hook.delete_many("items", {})
    hook.insert_many("items", [{"_id": n, "group": n % 10} for n in range(100)])
    assert len(list(hook.find("items", {"group": 3}))) == 10
    assert hook.find("items", {"_id": 7}, find_one=True)["group"] == 7
    sums = list(hook.aggregate("items", [{"$group": {"_id": "$group", "sum": {"$sum": "$_id"}}}, {"$sort": {"_id": 1}}]))
    assert [row["sum"] for row in sums] == [sum(range(group, 100, 10)) for group in range(10)]
    assert hook.update_many("items", {"group": 1}, {"$set": {"seen": True}}).modified_count == 10
    hook.replace_many("items", [{"_id": 1, "replaced": True}, {"_id": "new", "replaced": True}], upsert=True)
    assert len(list(hook.find("items", {"replaced": True}))) == 2
    assert set(hook.distinct("items", "group")) == set(range(10))
    assert hook.delete_many("items", {}).deleted_count == 101
