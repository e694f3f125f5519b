"""Celery with MongoDB as its broker and its store of results: a worker in a thread, results, a failure, a group and a chord."""

import importlib.metadata
import sys

from celery import Celery, chord, group
from celery.contrib.testing.worker import start_worker

for package in ("celery", "kombu", "pymongo"):
    print("VERSION", package, importlib.metadata.version(package))
uri = f"mongodb://{sys.argv[1]}/celery?directConnection=true"
app = Celery("more", broker=uri, backend=uri)
app.conf.broker_connection_retry_on_startup = True


@app.task
def add(a, b):
    return a + b


@app.task
def fail():
    raise ValueError("on purpose")


@app.task
def total(numbers):
    return sum(numbers)


with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=60):
    assert add.delay(2, 3).get(timeout=60) == 5
    try:
        fail.delay().get(timeout=60)
        raise SystemExit("the failure was not reported")
    except ValueError as error:
        assert "on purpose" in str(error)
    assert group(add.s(n, n) for n in range(5))().get(timeout=60) == [0, 2, 4, 6, 8]
    assert chord((add.s(n, 1) for n in range(4)), total.s())().get(timeout=60) == 10
    stored = add.delay(1, 1)
    assert stored.get(timeout=60) == 2
    document = app.backend.collection.find_one({"_id": stored.id})
    assert document["status"] == "SUCCESS", document
    stored.forget()
    assert app.backend.collection.find_one({"_id": stored.id}) is None
