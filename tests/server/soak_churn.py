"""Random operations on shared collections: their contents are unknown, so only the allowed answers are checked."""

import collections

from pymongo.errors import BulkWriteError, OperationFailure

from harness import check

NAMES = ("c0", "c1", "c2", "c3")
INDEXES = (
    ("a", {}),
    ("u", {"unique": True}),
    ([("g", 1), ("n", -1)], {}),
    ("d", {"unique": True, "sparse": True}),
    ([("a", 1), ("g", 1)], {}),
    # Refused when the collection has documents.
    ("g", {"unique": True}),
)
# Codes with which a command may fail because of concurrent operations; any other code is an error.
REFUSALS = {
    20: "IllegalOperation",
    26: "NamespaceNotFound",
    27: "IndexNotFound",
    43: "CursorNotFound",
    48: "NamespaceExists",
    72: "InvalidOptions",
    85: "IndexOptionsConflict",
    86: "IndexKeySpecsConflict",
    121: "DocumentValidationFailure",
    # A scan of a capped collection whose position was overwritten.
    136: "CappedPositionLost",
    175: "QueryPlanKilled",
    276: "IndexBuildAborted",
    359: "CannotConvertIndexToUnique",
    11000: "DuplicateKey",
    12587: "BackgroundOperationInProgressForNamespace",
}


class Churn:
    def __init__(self, client, dbs, rng):
        self.client, self.dbs, self.rng = client, dbs, rng
        self.refused = collections.Counter()

    def one(self):
        rng = self.rng
        db, name = self.client[rng.choice(self.dbs)], rng.choice(NAMES)
        kinds = [(20, self.insert), (8, self.insert_many), (8, self.change), (4, self.remove), (8, self.read), (3, self.create),
                 (3, self.drop), (4, self.rename), (4, self.modify), (6, self.index), (4, self.drop_index), (1, self.validate)]
        job = rng.choices([j for _, j in kinds], [w for w, _ in kinds])[0]
        try:
            job(db, name)
        except BulkWriteError as error:
            self.allowed(error, *(e["code"] for e in error.details["writeErrors"]))
        except OperationFailure as error:
            self.allowed(error, error.code)

    def allowed(self, error, *codes):
        for code in codes:
            self.refused[code] += 1
            if code not in REFUSALS:
                raise error

    def document(self):
        rng = self.rng
        array = [rng.randrange(8) for _ in range(rng.randrange(3))]
        return {"_id": rng.randrange(3000), "u": rng.randrange(3000), "g": rng.randrange(5), "n": rng.randrange(9),
                "a": rng.choice([1, 2, array]), "d": rng.randrange(3000), "text": "y" * rng.choice([10, 300])}

    def insert(self, db, name):
        db[name].insert_one(self.document())

    def insert_many(self, db, name):
        rng = self.rng
        number = 1500 if rng.random() < 0.03 else rng.randrange(2, 60)
        db[name].insert_many([self.document() for _ in range(number)], ordered=rng.random() < 0.3)

    def change(self, db, name):
        rng, coll = self.rng, db[name]
        kind = rng.randrange(4)
        if kind == 0:
            coll.update_one({"_id": rng.randrange(3000)}, {"$set": {"a": [1, [2]], "u": rng.randrange(3000)}}, upsert=rng.random() < 0.3)
        elif kind == 1:
            coll.update_many({"g": rng.randrange(5)}, {"$inc": {"n": 1}, "$push": {"b": 1}})
        elif kind == 2:
            coll.update_many({"g": rng.randrange(5)}, {"$set": {"u": rng.randrange(3000)}})
        else:
            coll.find_one_and_replace({"u": {"$gt": rng.randrange(3000)}}, {"g": 1, "a": [7, 8], "u": rng.randrange(3000)})

    def remove(self, db, name):
        if self.rng.random() < 0.7:
            db[name].delete_one({"u": self.rng.randrange(3000)})
        else:
            db[name].delete_many({"a": self.rng.randrange(8)})

    def read(self, db, name):
        rng = self.rng
        if rng.random() < 0.5:
            found = [d["_id"] for d in db[name].find({"a": {"$gte": rng.randrange(8)}}).batch_size(rng.randrange(2, 60)).limit(300)]
            check(len(found) <= 300, f"{len(found)} documents of at most 300")
        else:
            list(db[name].aggregate([{"$group": {"_id": "$g", "n": {"$sum": "$n"}}}]))

    def create(self, db, name):
        rng = self.rng
        options = rng.choice([{}, {"validator": {"n": {"$lt": 7}}}, {"capped": True, "size": 20000}])
        db.create_collection(name, check_exists=False, **options)

    def drop(self, db, name):
        if self.rng.random() < 0.1:
            self.client.drop_database(db.name)
        else:
            db.drop_collection(name)

    def rename(self, db, name):
        db[name].rename(self.rng.choice(NAMES), dropTarget=self.rng.random() < 0.5)

    def modify(self, db, name):
        rng = self.rng
        change = rng.choice([{"validator": {}}, {"validator": {"n": {"$lt": 7}}, "validationLevel": "moderate"},
                             {"index": {"name": "a_1", "hidden": rng.random() < 0.5}},
                             {"index": {"name": "g_1_n_-1", "prepareUnique": rng.random() < 0.5}},
                             {"index": {"name": "g_1_n_-1", "unique": True}}])
        db.command("collMod", name, **change)

    def index(self, db, name):
        keys, options = self.rng.choice(INDEXES)
        db[name].create_index(keys, **options)

    def drop_index(self, db, name):
        db.command("dropIndexes", name, index=self.rng.choice(["*", "a_1", "u_1", "d_1", "g_1_n_-1"]))

    def validate(self, db, name):
        report = db.command("validate", name, full=True)
        check(report["valid"] and not report.get("errors"), f"validate of {db.name}.{name} beside writers: {report}")
