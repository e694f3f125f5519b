"""One thread over the kinds of collections that soak_load.py leaves out, with a ledger of what was acknowledged.

capped: ascending numbers; the collection has the newest of them without a gap.
series: measurements in batches; an acknowledged batch is there as a whole, an open one in any part.
expiry: documents that expire at once or in a day; none is removed before its time.
copy: `$out` of a fixed collection with a number; the result has all documents of one number, never of two.
counter: `$inc` by a client that retries lost commands; each acknowledged increment counts once, across every kill.
"""

import datetime
import threading
import time

from pymongo import WriteConcern
from pymongo.errors import PyMongoError

from harness import check

DB = "kinds"
DURABLE = WriteConcern(w="majority", j=True)
CAPPED_MAX, COPIED, BATCH = 200, 200, 20
EXPIRE_S_MAX = 120
BEGIN = datetime.datetime(2026, 1, 1)
DAY = datetime.timedelta(days=1)


def prepare(client):
    db = client.get_database(DB, write_concern=DURABLE)
    db.create_collection("capped", capped=True, size=1 << 20, max=CAPPED_MAX)
    db.create_collection("series", timeseries={"timeField": "t", "metaField": "m"})
    db["expiry"].create_index("at", expireAfterSeconds=0)
    db["source"].insert_many([{"_id": n} for n in range(COPIED)])
    db["counter"].insert_one({"_id": 0, "n": 0})


class Kinds:
    def __init__(self, rng):
        self.rng = rng
        self.numbers, self.measured, self.lasting = [], set(), set()
        self.made = self.due = self.copied = self.counted = self.acknowledged = self.unclear = 0
        # Operations without a clear answer, by kind; increments of the counter since the last check.
        self.open, self.open_counts = {}, 0

    def start(self, client, retrying, watch):
        self.error, self.watch = None, watch
        self.db = client.get_database(DB, write_concern=DURABLE)
        self.counter = retrying.get_database(DB, write_concern=DURABLE)["counter"]
        jobs = [(self.capped, self.series, self.expiry, self.copy), (self.count,)]
        self.threads = [threading.Thread(target=self.run, args=(some,), daemon=True) for some in jobs]
        for thread in self.threads:
            thread.start()

    def run(self, jobs):
        try:
            while not self.watch.ending.is_set():
                for job in jobs:
                    job()
        except PyMongoError as error:
            # Errors of a server that is ending are ignored.
            self.watch.ending.wait(1)
            if not self.watch.ending.is_set():
                self.error = error
        except BaseException as error:
            self.error = error

    def join(self):
        for thread in self.threads:
            thread.join(120)
            check(not thread.is_alive(), "a writer of the kinds hangs although the server was started again")
        if self.error is not None:
            raise self.error

    def attempt(self, kind, value, operation):
        self.open[kind] = value
        operation()
        del self.open[kind]
        self.acknowledged += 1

    def next(self):
        self.made += 1
        return self.made

    def capped(self):
        number = self.next()
        self.attempt("capped", number, lambda: self.db["capped"].insert_one({"_id": number, "text": "x" * 50}))
        self.numbers.append(number)

    def series(self):
        numbers = [self.next() for _ in range(BATCH)]
        late = self.rng.random() < 0.2
        at = lambda n: BEGIN + datetime.timedelta(seconds=-3600 * n if late else n)
        docs = [{"t": at(n), "m": n % 5, "n": n, "v": self.rng.random()} for n in numbers]
        self.attempt("series", set(numbers), lambda: self.db["series"].insert_many(docs, ordered=self.rng.random() < 0.5))
        self.measured.update(numbers)

    def expiry(self):
        number, lasts = self.next(), self.rng.random() < 0.3
        at = datetime.datetime.now(datetime.timezone.utc) + (DAY if lasts else datetime.timedelta(seconds=-1))
        self.attempt("expiry", number if lasts else None, lambda: self.db["expiry"].insert_one({"_id": number, "at": at, "lasts": lasts}))
        if lasts:
            self.lasting.add(number)
        else:
            self.due += 1

    def copy(self):
        number = self.next()
        self.attempt("copy", number, lambda: list(self.db["source"].aggregate([{"$set": {"v": number}}, {"$out": "copy"}])))
        self.copied = number

    def count(self):
        self.open_counts += 1
        self.counter.update_one({"_id": 0}, {"$inc": {"n": 1}})
        self.open_counts -= 1
        self.counted += 1

    def verify(self, client):
        """Compares the server with the ledger, and settles open operations; returns their number."""
        db, opened = client[DB], self.open
        self.verify_capped(db, opened.get("capped"))
        found = {d["n"] for d in db["series"].find({}, {"n": 1})}
        self.equal("series", found, self.measured, opened.get("series", set()))
        found = {d["_id"] for d in db["expiry"].find({"lasts": True})}
        self.equal("expiry", found, self.lasting, {opened.get("expiry")} - {None})
        copies = [d["v"] for d in db["copy"].find()]
        allowed = [[n] * COPIED if n else [] for n in {self.copied, opened.get("copy", self.copied)}]
        check(copies in allowed, f"copy holds {len(copies)} documents of {set(copies)}, acknowledged was {self.copied}, open {opened.get('copy')}")
        self.copied = copies[0] if copies else 0
        counted = db["counter"].find_one({"_id": 0})["n"]
        low, high = self.counted, self.counted + self.open_counts
        check(low <= counted <= high, f"the counter is {counted}, acknowledged were {low}, {self.open_counts} are open")
        number = len(opened) + self.open_counts
        self.counted, self.open, self.open_counts = counted, {}, 0
        self.unclear += number
        for name in ("capped", "series", "expiry", "copy", "source", "counter"):
            if name != "copy" or copies:
                report = db.command("validate", name, full=True)
                check(report["valid"] and not report.get("errors"), f"validate of {name}: {report}")
        return number

    def verify_capped(self, db, open_number):
        found = [d["_id"] for d in db["capped"].find()]
        if open_number is not None and found[-1:] == [open_number]:
            self.numbers.append(open_number)
        self.numbers = self.numbers[-CAPPED_MAX:]
        check(found == self.numbers, f"the capped collection holds {found}, acknowledged were {self.numbers}")

    def equal(self, what, found, acknowledged, open_ones):
        lost, strange = acknowledged - found, found - acknowledged - open_ones
        check(not lost and not strange, f"{what}: lost {sorted(lost)[:5]}, never acknowledged {sorted(strange)[:5]}")
        acknowledged |= found

    def verify_expired(self, client):
        """Waits until all expired documents are removed."""
        until = time.monotonic() + EXPIRE_S_MAX
        while (left := client[DB]["expiry"].count_documents({"lasts": False})) and time.monotonic() < until:
            time.sleep(1)
        check(not left, f"{left} documents of {self.due} that were due are there after {EXPIRE_S_MAX} s")
