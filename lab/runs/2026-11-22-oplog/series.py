"""Bytes that measurements take on the device, as plain documents and as a time series: each loaded
into a standalone server of its own, compacted, and the table and blob files counted when it has
ended.

    series.py BINARY DIR [--measurements 400000] [--sensors 100]"""

import argparse
import datetime
import os
import random
import shutil
import signal
import tempfile

import insert as load
import pymongo

BEGIN = datetime.datetime(2026, 1, 1)


def measurements(count, sensors):
    values = [[20.0, 50.0, 1013.0] for _ in range(sensors)]
    rng = random.Random(7)
    for n in range(count):
        s = n % sensors
        v = values[s] = [round(x + rng.uniform(-0.2, 0.2), 2) for x in values[s]]
        yield {"t": BEGIN + datetime.timedelta(seconds=n // sensors * 10, milliseconds=s),
               "m": {"sensor": f"sensor-{s:04}", "room": s % 17, "kind": "climate"},
               "temperature": v[0], "humidity": v[1], "pressure": v[2],
               "state": rng.choice(("ok", "ok", "ok", "low")), "uptime": n // sensors * 10}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("binary")
    p.add_argument("dir")
    p.add_argument("--measurements", type=int, default=400_000)
    p.add_argument("--sensors", type=int, default=100)
    a = p.parse_args()
    root, sizes = tempfile.mkdtemp(dir=a.dir), {}
    try:
        for kind in ("plain", "series"):
            folder = f"{root}/{kind}"
            s = load.Server(a.binary, folder, 28810, "256M", "--standalone")
            client = pymongo.MongoClient("mongodb://127.0.0.1:28810")
            db = client["speed"]
            options = {"timeseries": {"timeField": "t", "metaField": "m"}}
            coll = db.create_collection("c", **(options if kind == "series" else {}))
            batch, bson_bytes = [], 0
            for d in measurements(a.measurements, a.sensors):
                batch.append(d)
                if len(batch) == 1000:
                    coll.insert_many(batch, ordered=False)
                    batch = []
            assert coll.count_documents({}) == a.measurements // 1000 * 1000
            bson_bytes = db.command("collStats", "c")["size"]
            db.command("compact", "c")
            client.close()
            s.process.send_signal(signal.SIGTERM)
            s.process.wait()
            files = [f for f in os.listdir(folder) if f.endswith((".sst", ".blob"))]
            sizes[kind] = sum(os.path.getsize(f"{folder}/{f}") for f in files)
            print(f"{kind}: {bson_bytes / 1e6:.1f} MB of BSON, {sizes[kind] / 1e6:.2f} MB of files",
                  flush=True)
        print(f"series / plain: {sizes['series'] / sizes['plain']:.3f}")
    finally:
        shutil.rmtree(root)


main()
