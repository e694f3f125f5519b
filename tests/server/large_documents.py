"""Many clients write and read documents of 15 MB at once: the server stays within `--memory` plus a tenth, every operation succeeds,
concurrent operations on small documents are never refused, and the memory is released. Usage: large_documents.py [CLIENTS [MEMORY_MB]]
"""

import sys
import threading
import time

from pymongo.errors import PyMongoError

from harness import Scratch, check, say

BYTES = 15 << 20
TENTH = 1.1
# Memory must be released within this time; idle threads must not hold it.
IDLE_S = 4


def reset_peak(server):
    with open(f"/proc/{server.process.pid}/clear_refs", "w") as f:
        f.write("5")


class Innocent(threading.Thread):
    """Inserts, finds and groups small documents, one after the other."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.client = server.client(socketTimeoutMS=120_000)
        self.small = self.client.large.small
        self.stopped = False
        self.done, self.refused, self.longest_s = 0, [], 0.0

    def run(self):
        while not self.stopped:
            began = time.monotonic()
            try:
                self.doing = "insert"
                self.small.insert_one({"a": "y" * 1000})
                self.doing = "find"
                self.small.find_one({})
                self.doing = "aggregate"
                list(self.small.aggregate([{"$group": {"_id": "$a", "n": {"$sum": 1}}}]))
                self.done += 1
            except PyMongoError as e:
                self.refused.append(f"{self.doing}: {e}")
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            time.sleep(0.005)

    def stop(self):
        self.stopped = True
        self.join()
        self.client.close()


def at_once(server, clients, work):
    """Runs `work(collection, number)` for `clients` clients at the same time; returns the errors."""
    wrong = []
    start = threading.Barrier(clients)

    def run(number):
        with server.client(socketTimeoutMS=120_000) as client:
            client.admin.command("ping")
            start.wait()
            try:
                if work(client.large.c, number) is None:
                    wrong.append(f"document {number} is missing")
            except PyMongoError as e:
                wrong.append(str(e)[:300])

    threads = [threading.Thread(target=run, args=(n,)) for n in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return wrong


def main(clients, memory_mb):
    text = "x" * BYTES
    other = "y" * BYTES
    kinds = [
        ("insert", lambda c, n: c.insert_one({"_id": n, "s": text, "n": 0})),
        ("update", lambda c, n: c.update_one({"_id": n}, {"$inc": {"n": 1}})),
        ("replace", lambda c, n: c.replace_one({"_id": n}, {"s": other, "n": n})),
        ("find", lambda c, n: c.find_one({"_id": n})),
        ("findAndModify", lambda c, n: c.find_one_and_update({"_id": n}, {"$inc": {"n": 1}}, {"n": 1})),
    ]
    bound = memory_mb * TENTH
    wrong = []
    with Scratch() as scratch:
        server = scratch.server("data", "--memory", f"{memory_mb}M").start()
        innocent = Innocent(server)
        innocent.start()
        for name, work in kinds:
            reset_peak(server)
            began = time.monotonic()
            failed = at_once(server, clients, work)
            peak = server.memory_mib()
            refused = len(innocent.refused)
            say(f"{name:14} by {clients} clients: {time.monotonic() - began:5.1f} s, at most {peak:.0f} MiB, {len(failed)} failed {failed[:1]}, {refused} of others refused so far")
            if peak > bound:
                wrong.append(f"{name}: {peak:.0f} MiB under --memory {memory_mb}M")
            if failed:
                wrong.append(f"{name}: {len(failed)} of {clients} failed: {failed[0]}")
        innocent.stop()
        say(f"beside them {innocent.done} rounds on small documents, the longest {innocent.longest_s:.1f} s, refused {len(innocent.refused)}")
        if innocent.refused:
            wrong.append(f"{len(innocent.refused)} operations on small documents were refused: {innocent.refused[0]}")
        time.sleep(IDLE_S)
        engine = server.client().admin.command("serverStatus")["quarry"]["engine"]
        rest = server.memory_mib("VmRSS") - engine["block_cache_usage_bytes"] / (1 << 20)
        say(f"{IDLE_S} s later {rest:.0f} MiB beside the engine's cache")
        if rest > memory_mb / 2:
            wrong.append(f"{rest:.0f} MiB are held {IDLE_S} s after the last operation")
        server.stop()
    for line in wrong:
        say(f"WRONG: {line}")
    check(not wrong, f"{len(wrong)} of the bounds were not kept")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 24, int(sys.argv[2]) if len(sys.argv) > 2 else 512)
