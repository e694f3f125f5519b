"""Measures the cost of backups and the time of a restore. Usage: backup.py [MEGABYTES [OPERATIONS_A_SECOND]].

Loads documents of a kilobyte that do not compress. Then, during reads and updates of single documents at a steady rate, measures: the first
backup, one after 1 % of the documents were changed, the restore, the first answer of a mounted backup, and a restore to the newest moment
with the shipped log."""

import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from pymongo import MongoClient

from harness import BINARY, SEED, Server, check, say

DOCUMENT = 1000
ALONE_S = 20.0


def quarry(*arguments):
    began = time.monotonic()
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True)
    check(done.returncode == 0, f"{arguments}: {done.stderr}")
    return done.stdout, time.monotonic() - began


class Foreground:
    """Reads and updates of one document, each scheduled for a time; measures how long after that time it was done."""

    def __init__(self, address, documents, rate, threads=4):
        self.stopped, self.late_ms = False, []
        self.threads = [threading.Thread(target=self.run, args=(address, documents, rate / threads, n), daemon=True) for n in range(threads)]
        for thread in self.threads:
            thread.start()

    def run(self, address, documents, rate, number):
        things = MongoClient(f"mongodb://{address}/", directConnection=True).d.things
        choose = random.Random(SEED + number)
        due = time.monotonic()
        while not self.stopped:
            due += 1 / rate
            time.sleep(max(0.0, due - time.monotonic()))
            key = choose.randrange(documents)
            if choose.random() < 0.5:
                things.find_one({"_id": key})
            else:
                things.update_one({"_id": key}, {"$inc": {"seen": 1}})
            self.late_ms.append((time.monotonic() - due) * 1000)

    def end(self):
        self.stopped = True
        for thread in self.threads:
            thread.join()
        ordered = sorted(self.late_ms)
        return ordered[int(len(ordered) * 0.99)], statistics.median(ordered), len(ordered)


def load(client, megabytes):
    documents = megabytes * 1_000_000 // DOCUMENT
    choose = random.Random(SEED)

    def part(first, last):
        for start in range(first, last, 500):
            rows = [{"_id": n, "noise": choose.randbytes(DOCUMENT - 40)} for n in range(start, min(start + 500, last))]
            client.d.things.insert_many(rows, ordered=False)

    half = documents // 2
    threads = [threading.Thread(target=part, args=span) for span in ((0, half), (half, documents))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.admin.command("fsync")
    return documents


def beside(address, documents, rate, what):
    foreground = Foreground(address, documents, rate)
    time.sleep(1)
    result = what()
    p99, p50, count = foreground.end()
    return result, p99, f"p99 {p99:.2f} ms, p50 {p50:.2f} ms of {count}"


def told(line):
    number = re.search(r"read ([\d.]+ \w+), stored ([\d.]+ \w+)", line)
    return f"read {number[1]}, stored {number[2]}"


def size_of(folder):
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)


def mounted(repository, folder):
    began = time.monotonic()
    serve = subprocess.Popen(
        [BINARY, "mount", repository, "--dbpath", folder, "--port", "0", "--memory", "512M"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    for line in serve.stdout:
        found = re.search(r"listening on mongodb://(\S+:\d+)", line)
        if found:
            break
    client = MongoClient(f"mongodb://{found[1]}/", directConnection=True)
    check(client.d.things.find_one({"_id": 7}) is not None, "the mounted backup has no document 7")
    took = time.monotonic() - began
    serve.terminate()
    serve.wait()
    return took


def main():
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    rate = float(sys.argv[2]) if len(sys.argv) > 2 else 400
    say(f"seed {SEED}")
    with tempfile.TemporaryDirectory() as root:
        server = Server(os.path.join(root, "data"), "--memory", "1G")
        os.mkdir(server.dbpath)
        server.start()
        client = server.client()
        began = time.monotonic()
        documents = load(client, megabytes)
        say(f"loaded {documents} documents in {time.monotonic() - began:.1f} s, {size_of(server.dbpath) / 1e6:.0f} MB on the device")
        time.sleep(5)
        repository, copy = os.path.join(root, "backups"), os.path.join(root, "copy")
        uri = f"mongodb://{server.address}/"
        make = lambda: quarry("backup", "make", repository, "--uri", uri)
        _, alone, text = beside(server.address, documents, rate, lambda: time.sleep(ALONE_S))
        say(f"foreground alone: {text}")
        (said, took), busy, text = beside(server.address, documents, rate, make)
        size = size_of(repository)
        say(f"first backup: {size / 1e6:.0f} MB in {took:.1f} s, {size / 1e6 / took:.0f} MB/s, {told(said)}; foreground {text}, p99 {busy / alone:.2f} of alone")
        slowly = lambda: quarry("backup", "make", repository + "2", "--uri", uri, "--rate", f"{max(8, megabytes // 30)}M")
        (_, took), busy, text = beside(server.address, documents, rate, slowly)
        say(f"the same with a bound of the rate: {took:.1f} s; foreground {text}, p99 {busy / alone:.2f} of alone")
        choose = random.Random(SEED)
        for key in choose.sample(range(documents), documents // 100):
            client.d.things.update_one({"_id": key}, {"$set": {"noise": choose.randbytes(DOCUMENT - 40)}})
        said, took = make()
        grown = size_of(repository) - size
        say(f"after 1 % was changed: {told(said)} in {took:.1f} s; the repository grew by {grown / 1e6:.1f} MB, {grown / size:.2%}")
        _, took = quarry("restore", repository, "--dbpath", copy)
        say(f"restored: {size_of(copy) / 1e6:.0f} MB in {took:.1f} s, {size_of(copy) / 1e6 / took:.0f} MB/s")
        took = mounted(repository, os.path.join(root, "mounted"))
        say(f"mounted: first answer after {took:.2f} s")
        check(took < 5, "a mounted backup answers within 5 s")
        _, took = quarry("backup", "ship", repository, "--uri", uri, "--once")
        say(f"shipped the log: {size_of(os.path.join(repository, 'log')) / 1e6:.1f} MB in {took:.1f} s")
        server.kill()


if __name__ == "__main__":
    main()
