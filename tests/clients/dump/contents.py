"""Databases for the checks of mongodump and mongorestore. Usage: contents.py WHAT HOST:PORT [HOST:PORT]

`make` fills a server: collections with indexes of every kind, with options of every kind, documents of every BSON type, time series.
`same` compares two servers: names, options, indexes, every document byte by byte, measurements, `dbHash`, `validate`. `same-uuids` compares
the collections' UUIDs, too. `planted` changes one thing of each kind on the second server: the comparison must then name each of them and
nothing else. `changed-uuids` demands that no UUID is the same. `other` puts other contents under the same names.
"""
import struct
import sys
from datetime import datetime, timedelta, timezone

import pymongo
from bson import BSON, Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import ASCENDING, DESCENDING, GEOSPHERE, HASHED, TEXT

KINDS, TYPES, SERIES, LARGE = DATABASES = ["kinds", "types", "series", "large"]
RAW = CodecOptions(document_class=RawBSONDocument)
BEGIN = datetime(2026, 3, 1, tzinfo=timezone.utc)
FRENCH = {"locale": "fr", "strength": 2}
SERIES_KINDS = {
    "seconds": {"timeField": "t", "metaField": "m", "granularity": "seconds"},
    "minutes": {"timeField": "t", "metaField": "m", "granularity": "minutes"},
    "hours": {"timeField": "t", "metaField": "m", "granularity": "hours"},
    "custom": {"timeField": "t", "metaField": "m", "bucketMaxSpanSeconds": 600, "bucketRoundingSeconds": 600},
    "plain": {"timeField": "t"},
    "plain-hours": {"timeField": "t", "granularity": "hours"},
}
# Every kind of index: the collection, the keys, the options.
INDEXES = [
    ("plain", [("a", ASCENDING)], {}),
    ("plain", [("a", ASCENDING), ("b.c", DESCENDING)], {"name": "compound"}),
    ("plain", [("u", ASCENDING)], {"unique": True}),
    ("plain", [("p", ASCENDING)], {"partialFilterExpression": {"p": {"$gt": 50}, "s": {"$exists": True}}}),
    ("plain", [("s", ASCENDING)], {"sparse": True}),
    ("plain", [("when", ASCENDING)], {"expireAfterSeconds": 1500000000}),
    ("plain", [("words", TEXT), ("title", TEXT)], {"weights": {"title": 5}, "default_language": "german", "language_override": "lang"}),
    ("plain", [("place", GEOSPHERE), ("a", ASCENDING)], {}),
    ("plain", [("flat", "2d")], {"bits": 24, "min": -200, "max": 200}),
    ("plain", [("h", HASHED)], {}),
    ("plain", [("h", HASHED), ("a", ASCENDING)], {"name": "hashed compound"}),
    ("plain", [("name", ASCENDING)], {"collation": FRENCH}),
    ("plain", [("many", ASCENDING)], {"hidden": True}),
    ("plain", [("sub.$**", ASCENDING)], {}),
    ("wild", [("$**", ASCENDING)], {"wildcardProjection": {"x": 0}}),
    ("wild", [("a", ASCENDING), ("$**", ASCENDING)], {"name": "wildcard compound", "wildcardProjection": {"a": 0, "x": 0}}),
    ("collated", [("name", ASCENDING)], {"unique": True}),
    ("collated", [("name", DESCENDING)], {"name": "simple", "collation": {"locale": "simple"}}),
]
OPTIONS = {
    "collated": {"collation": {"locale": "de", "strength": 1}},
    "capped": {"capped": True, "size": 65536, "max": 40},
    "checked": {"validator": {"$jsonSchema": {"required": ["n"], "properties": {"n": {"bsonType": "int", "minimum": 0}}}},
                "validationLevel": "moderate", "validationAction": "error"},
    "clustered": {"clusteredIndex": {"key": {"_id": 1}, "unique": True, "name": "by id"}, "expireAfterSeconds": 1000000000},
    "images": {"changeStreamPreAndPostImages": {"enabled": True}},
    "nothing": {},
}


def element(kind, name, body):
    return bytes([kind]) + name.encode() + b"\0" + body


def document(*elements):
    body = b"".join(elements)
    return RawBSONDocument(struct.pack("<i", len(body) + 5) + body + b"\0")


def string(text):
    raw = text.encode()
    return struct.pack("<i", len(raw) + 1) + raw + b"\0"


def every_type():
    """One document for every type, and for values at the edges of types."""
    values = [0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), 5e-324, 1.7976931348623157e308,
              "", "text", "a\0b", "äöü€😀",
              {}, {"a": {"b": {"c": 1}}}, {"": 1}, {"a.b": 1, "$c": 2}, {"b": 1, "a": 2}, [], [1, [2, [3, {}]]], [None] * 20,
              Binary(b"", 0), Binary(b"\0\1\2", 0), Binary(b"f", 1), Binary(b"x" * 16, 3), Binary(b"y" * 16, 4), Binary(b"z" * 16, 5),
              Binary(b"u", 128), Binary(b"v", 255), ObjectId("0" * 24), ObjectId("f" * 24), False, True, None,
              datetime(1970, 1, 1, tzinfo=timezone.utc), datetime(1, 1, 1, tzinfo=timezone.utc), datetime(9999, 12, 31, 23, 59, 59, 999000),
              Regex("a.*b", "imsx"), Regex("", ""), Code("function () { return 1 }"), Code("x + y", {"x": 1, "y": {"z": []}}),
              0, -2147483648, 2147483647, Timestamp(0, 1), Timestamp(4294967295, 4294967295), Int64(0), Int64(-2**63), Int64(2**63 - 1),
              Decimal128("0"), Decimal128("-0"), Decimal128("0E+10"), Decimal128("NaN"), Decimal128("-Infinity"),
              Decimal128("9.999999999999999999999999999999999E+6144"), Decimal128("1.10"), MinKey(), MaxKey()]
    raw = [RawBSONDocument(BSON.encode({"_id": number, "v": value, "deep": [{"v": value}]})) for number, value in enumerate(values)]
    # What drivers no longer write: undefined, DBPointer, symbol, binary of the old form; dates outside of Python's years.
    old = [element(0x06, "v", b""), element(0x0C, "v", string("types.every") + b"\1" * 12), element(0x0E, "v", string("symbol")),
           element(0x05, "v", struct.pack("<iBi", 7, 2, 3) + b"abc"), element(0x09, "v", struct.pack("<q", -2**62)),
           element(0x09, "v", struct.pack("<q", 2**62)), element(0x01, "v", struct.pack("<Q", 0x7FF8000000000001))]
    raw += [document(element(0x10, "_id", struct.pack("<i", 1000 + number)), one) for number, one in enumerate(old)]
    for number, value in enumerate(values):
        # An array, a pattern or undefined is no _id; zeros of several types are one.
        if not isinstance(value, (list, Regex)) and not (isinstance(value, dict) and any("$" in key for key in value)):
            raw.append(RawBSONDocument(BSON.encode({"_id": {"n": number, "of": value}, "as": "_id"})))
    return raw


def make(client):
    kinds = client[KINDS]
    for name, options in OPTIONS.items():
        kinds.command("create", name, **options)
    kinds["plain"].insert_many([
        {"_id": n, "a": n % 17, "b": [{"c": n % 5}, {"c": -n}], "u": f"u{n}", "p": n % 100, "when": BEGIN + timedelta(minutes=n),
         "words": f"Häuser und Wörter {n}", "title": f"Titel {n % 9}",
         "place": {"type": "Point", "coordinates": [n % 360 - 180, n % 180 - 90]},
         "flat": [n % 200, -n % 200], "h": {"x": n % 3}, "name": ["Été", "été", "ete", "Zoo"][n % 4] + str(n),
         "many": list(range(n % 6)), "sub": {"k": n, f"f{n % 7}": "x"}} | ({"s": n} if n % 3 == 0 else {}) for n in range(2000)])
    kinds["wild"].insert_many([{"_id": n, "a": n, f"k{n % 11}": {"deep": [n, str(n)]}, "x": n, "y": {"z": n}} for n in range(500)])
    kinds["collated"].insert_many([{"_id": n, "name": f"Straße {n}"} for n in range(50)])
    for n in range(100):
        kinds["capped"].insert_one({"_id": (n * 37) % 101, "n": n})
    kinds["checked"].insert_many([{"_id": n, "n": n} for n in range(20)])
    # It was there before the validator, so to speak.
    kinds.command("insert", "checked", documents=[{"_id": "odd", "n": "no number"}], bypassDocumentValidation=True)
    kinds["clustered"].insert_many([{"_id": BEGIN + timedelta(seconds=n), "n": n} for n in range(300)])
    kinds["images"].insert_many([{"_id": n} for n in range(10)])
    for collection, keys, options in INDEXES:
        kinds[collection].create_index(keys, **options)
    kinds.command("create", "seen", viewOn="plain", pipeline=[{"$match": {"a": 3}}, {"$project": {"u": 1, "x": {"$add": ["$p", 1]}}}],
                  collation=FRENCH)
    kinds.command("create", "seen twice", viewOn="seen", pipeline=[{"$match": {"x": {"$gt": 5}}}], collation=FRENCH)
    kinds["odd name.with % and ü"].insert_one({"_id": 1})
    client[TYPES]["every"].insert_many(every_type())
    client[TYPES]["twice"].insert_one(document(element(0x10, "_id", b"\1\0\0\0"), element(0x10, "a", b"\1\0\0\0"),
                                               element(0x10, "a", b"\2\0\0\0")))
    for number, (name, series) in enumerate(SERIES_KINDS.items()):
        more = {"expireAfterSeconds": 1000000000} if name == "minutes" else {}
        client[SERIES].command("create", name, timeseries=series, **more)
        step = {"seconds": 1, "minutes": 60, "hours": 3600}.get(series.get("granularity"), 7)
        client[SERIES][name].insert_many([measurement(n, step, "metaField" in series) for n in range(2500)], ordered=False)
        if "metaField" in series:
            client[SERIES][name].create_index([("m.sensor", ASCENDING), ("t", DESCENDING)], name="meta")
        client[SERIES][name].create_index([("v", ASCENDING)], name="value")
    client[LARGE]["wide"].insert_many([{"_id": n, "x": chr(97 + n) * (5 << 20)} for n in range(3)])
    client[LARGE]["most"].insert_one({"_id": 1, "x": Binary(b"\7" * (16 * 1024 * 1024 - 64))})
    client[LARGE]["more"].insert_many([{"_id": f"{n:06}", "n": n, "x": f"{n}" * 20} for n in range(20000)])


def measurement(n, step, meta):
    moment = BEGIN + timedelta(seconds=(n * step) if n % 10 else (n * step) // 2)
    values = [n, n * 0.5, f"s{n % 3}", None, Decimal128(str(n))]
    one = {"t": moment, "_id": ObjectId(f"{n:024x}"), "v": values[n // 50 % 5 if n % 50 == 0 else n % 2]}
    if n % 4:
        one["w"] = {"x": n, "y": [n % 7]}
    if meta:
        one["m"] = [{"sensor": n % 3, "at": "roof"}, {"at": "roof", "sensor": n % 3}, "scalar", None][n % 4 if n % 100 == 0 else 0]
    return one


def plain(value):
    """Documents without the order of their fields: mongorestore writes the options of an index in any order."""
    return {name: plain(inner) for name, inner in value.items()} if isinstance(value, dict) else value


def described(client, database):
    """Everything of a database by which two servers are compared: a description for each label."""
    found = {}
    db = client.get_database(database, codec_options=RAW)
    for info in client[database].list_collections():
        name = info["name"]
        uuid = info["info"].pop("uuid", None)
        found["options", database, name] = info
        if not name.startswith("system."):
            # A time series has none of its own, and the dump does not keep that of its buckets.
            found["uuid", database, name] = uuid
        if info["type"] == "view":
            found["documents", database, name] = sorted(bytes(doc.raw) for doc in db[name].find())
            continue
        if name.startswith("system."):
            # How measurements lie in buckets is the server's own affair; the measurements are compared.
            continue
        indexes = [plain(index) | {"key": list(index["key"].items())} for index in client[database][name].list_indexes()]
        found["indexes", database, name] = sorted(indexes, key=lambda index: index["name"])
        documents = [bytes(doc.raw) for doc in db[name].find().sort("$natural", 1)]
        found["documents", database, name] = documents if info["options"].get("capped") else sorted(documents)
        checked = client[database].command("validate", name)
        found["validate", database, name] = {"valid": checked["valid"], "errors": checked["errors"]}
        if info["type"] == "collection":
            found["validate", database, name] |= {"records": checked["nrecords"], "keys": checked["keysPerIndex"]}
    hashed = client[database].command("dbHash")
    for name, value in hashed["collections"].items():
        if not name.startswith("system.buckets."):
            found["hash", database, name] = value
    if not any(name.startswith("system.buckets.") for name in hashed["collections"]):
        found["hash", database, ""] = hashed["md5"]
    return found


def differences(source, target):
    described_by = []
    for client in (source, target):
        names = sorted(name for name in client.list_database_names() if name not in ("admin", "config", "local"))
        everything = {("databases",): names}
        for name in names:
            everything |= described(client, name)
        described_by.append(everything)
    one, other = described_by
    return one, {label: (one.get(label), other.get(label)) for label in one.keys() | other.keys() if one.get(label) != other.get(label)}


def short(value):
    if isinstance(value, list) and value and isinstance(value[0], bytes):
        return f"{len(value)} documents, the first {value[0]!r:.200}"
    return f"{value!r:.600}"


def same(source, target, uuids):
    everything, differ = differences(source, target)
    wrong = {label: pair for label, pair in differ.items() if uuids or label[0] != "uuid"}
    for label, (one, other) in sorted(wrong.items(), key=str):
        if isinstance(one, list) and isinstance(other, list) and one and isinstance(one[0], bytes):
            missing, more = [doc for doc in one if doc not in other], [doc for doc in other if doc not in one]
            print(f"  {label}: missing {len(missing)} {missing[:2]!r:.500}\n     more {len(more)} {more[:2]!r:.500}")
        print(f"  {label}:\n    source {short(one)}\n    target {short(other)}")
    expected = {("options", KINDS, name) for name in OPTIONS} | {("options", SERIES, name) for name in SERIES_KINDS}
    if everything.keys() & expected != expected or sum(label[0] == "hash" for label in everything) < 12:
        sys.exit("contents: what was made is not there, or dbHash leaves it out")
    if wrong:
        sys.exit(f"contents: {len(wrong)} differences")
    counts = {kind: sum(label[0] == kind for label in everything) for kind in ("options", "indexes", "documents", "hash", "validate")}
    documents = sum(len(value) for label, value in everything.items() if label[0] == "documents")
    indexes = sum(len(value) for label, value in everything.items() if label[0] == "indexes")
    print(f"contents: the same: {counts['options']} collections and views, {indexes} indexes, {documents} documents and measurements, "
          f"{counts['hash']} hashes{', every UUID' if uuids else ''}")


def planted(source, target):
    """Each change, and the labels by which the comparison must name it. Nothing but these may differ."""
    _, before = differences(source, target)
    before = {label for label in before if label[0] != "uuid"}
    kinds = target[KINDS]
    kinds["plain"].update_one({"_id": 77}, {"$set": {"not indexed": 1}})
    kinds["collated"].drop_index("simple")
    kinds["collated"].create_index([("name", DESCENDING)], name="simple", collation=FRENCH)
    kinds.command("collMod", "checked", validationLevel="strict")
    kinds["capped"].insert_one({"_id": "late"})
    kinds.command("collMod", "seen", viewOn="plain", pipeline=[{"$match": {"a": 4}}])
    kinds["nothing"].drop()
    target[TYPES]["every"].replace_one({"_id": 40}, {"_id": 40, "v": Int64(0), "deep": [{"v": 0}]})
    target[SERIES]["hours"].insert_one({"t": BEGIN, "m": 1, "v": 1, "_id": ObjectId()})
    target[SERIES].command("collMod", "minutes", expireAfterSeconds=1000000001)
    expected = {("documents", KINDS, "plain"), ("indexes", KINDS, "collated"), ("options", KINDS, "checked"),
                ("documents", KINDS, "capped"),
                ("documents", KINDS, "seen"), ("documents", KINDS, "seen twice"), ("options", KINDS, "seen"),
                ("hash", KINDS, "system.views"), ("hash", KINDS, "plain"), ("hash", KINDS, "capped"), ("hash", KINDS, ""),
                ("hash", KINDS, "nothing"), ("options", KINDS, "nothing"), ("indexes", KINDS, "nothing"),
                ("documents", KINDS, "nothing"), ("validate", KINDS, "nothing"), ("documents", TYPES, "every"), ("hash", TYPES, "every"),
                ("hash", TYPES, ""), ("documents", SERIES, "hours"), ("options", SERIES, "minutes")}
    _, differ = differences(source, target)
    given = {label for label in differ if label[0] != "uuid"} - before
    # A server may also show the changed option in what a time series consists of.
    given -= {("options", SERIES, "system.buckets.minutes"), ("hash", SERIES, "system.views")}
    if given != expected:
        sys.exit(f"contents: planted: not found {sorted(expected - given)}, found besides {sorted(given - expected)}")
    print(f"contents: nine planted changes were found by {len(given)} labels, and nothing besides")


def changed_uuids(source, target):
    everything, differ = differences(source, target)
    kept = [label for label in everything if label[0] == "uuid" and everything[label] is not None and label not in differ]
    if kept:
        sys.exit(f"contents: a new collection has the UUID of the old one: {kept}")
    print("contents: no UUID is the same")


def other(client):
    client[KINDS]["plain"].insert_many([{"_id": n, "u": n} for n in range(30)])
    client[KINDS]["plain"].create_index("x")
    client[KINDS].command("create", "checked", capped=True, size=4096)
    client[SERIES].command("create", "hours", timeseries={"timeField": "t", "metaField": "m", "granularity": "seconds"})
    client[SERIES]["hours"].insert_one({"t": BEGIN, "m": "other"})


def main():
    what, *addresses = sys.argv[1:]
    source, target = [pymongo.MongoClient(f"mongodb://{address}/?directConnection=true") for address in (addresses * 2)[:2]]
    calls = {"make": lambda: make(source), "same": lambda: same(source, target, False), "same-uuids": lambda: same(source, target, True),
             "planted": lambda: planted(source, target), "changed-uuids": lambda: changed_uuids(source, target),
             "other": lambda: other(source)}
    calls[what]()


if __name__ == "__main__":
    main()
