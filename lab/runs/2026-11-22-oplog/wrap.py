"""A capped collection that is wrapped fifty times beside a plain one, and a log of changes that is
truncated as often: rate, CPU and bytes on the device by tenth of the load, and how long the server
takes to open the data.

    wrap.py BINARY DIR [--wraps 50] [--capped 10] [--oplog 16] [--pad 1000] [--batch 100]"""

import argparse
import os
import shutil
import tempfile
import time

import insert as load


def on_device(folder):
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(at, name)).st_blocks * 512
            except FileNotFoundError:
                pass
    return total / 1e6


def main():
    p = argparse.ArgumentParser()
    p.add_argument("binary")
    p.add_argument("dir")
    p.add_argument("--wraps", type=int, default=50)
    p.add_argument("--capped", type=int, default=10, help="megabytes")
    p.add_argument("--oplog", type=int, default=16, help="megabytes")
    p.add_argument("--pad", type=int, default=1000)
    p.add_argument("--batch", type=int, default=100)
    a = p.parse_args()
    a.journal = False
    root = tempfile.mkdtemp(dir=a.dir)
    options = ("--oplogSize", str(a.oplog))
    s = load.Server(a.binary, root + "/data", 28806, "512M", *options)
    size = a.capped * 1_000_000
    r = load.ask(s.port, {"create": "capped", "capped": True, "size": size, "$db": "speed"})
    assert r["ok"] == 1, r
    width = a.pad + 40
    # As much goes through the log as it takes to fill it so often, if that is more.
    megabytes = max(a.wraps * a.capped, a.wraps * a.oplog // 2)
    batches = megabytes * 1_000_000 // 10 // width // a.batch
    first = 0
    print("tenth  plain: docs/s us  capped: docs/s us  ratio of us   MB on device  entries MB")
    try:
        for tenth in range(10):
            seen = {}
            for name in ("plain", "capped") if tenth % 2 else ("capped", "plain"):
                seen[name] = s.load(name, first, a, a.pad, 1, batches)
                first += batches * a.batch
            load.ask(s.port, {"drop": "plain", "$db": "speed"})
            s.rest()
            stats = load.ask(s.port, {"collStats": "oplog.rs", "$db": "local"})
            plain, capped = seen["plain"], seen["capped"]
            print(f"{tenth + 1:5}  {plain[0]:9.0f} {plain[2]:6.2f}  {capped[0]:9.0f} {capped[2]:6.2f}"
                  f"  {plain[2] / capped[2]:.2f}  {on_device(s.folder):8.1f}"
                  f"  {stats['count']} {stats['size'] / 1e6:.1f}", flush=True)
        stats = load.ask(s.port, {"collStats": "capped", "$db": "speed"})
        print(f"capped: {stats['count']} documents, {stats['size']} bytes of {size}")
        for how in ("SIGTERM", "SIGKILL"):
            (s.process.terminate if how == "SIGTERM" else s.process.kill)()
            s.process.wait()
            began = time.time()
            s = load.Server(a.binary, root + "/data", 28806, "512M", *options)
            print(f"opened after {how} in {time.time() - began:.2f} s")
    finally:
        s.process.kill()
        s.process.wait()
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
