"""kill -9, loss of power and SIGTERM in the middle of a load, in rounds on one directory. Usage: crash.py kill|power|term ROUNDS

kill: every write is acknowledged with {j: true}; no acknowledged write may be missing after a restart. In every third round the server is
killed again while it recovers. The operating system keeps running, and with it all writes survive.
power: the same, and before the restart everything not covered by a finished sync is removed from the files (power.py).
term: writes are acknowledged without {j: true}; SIGTERM ends with status 0 and no acknowledged write is missing.
"""

import random
import sys
import time

from harness import SEED, Scratch, check, say, verify_collection
import power
from load import Ledger, Load, prepare, verify_collections, verify_documents, verify_counters

WORKERS = 6


def verify(server, ledgers):
    with server.client() as client:
        opened = verify_documents(client, ledgers[:-2])
        verify_collections(client, ledgers[-2])
        verify_counters(client, ledgers[-1])
        names = client["crash"].list_collection_names()
        # All of the fixed collections, and a few of the many others.
        many = sorted(n for n in names if n.startswith("c-"))
        some = random.sample(many, k=min(10, len(many)))
        counts = {name: verify_collection(client["crash"][name]) for name in ["docs", "counters", *some]}
        return opened, counts["docs"], len(names)


def one_round(server, ledgers, round_, how, rng):
    client = server.client(serverSelectionTimeoutMS=500)
    load = Load(client, ledgers, SEED, round_, journaled=how != "term")
    outcome = {}

    def end():
        time.sleep(rng.uniform(0.3, 2.0))
        if how != "term":
            server.kill()
        else:
            outcome["status"], outcome["stop_s"] = server.terminate()

    load.run(end)
    client.close()
    if how == "term":
        check(outcome["status"] == 0, f"status {outcome['status']} after SIGTERM: {server.output()[-2000:]}")
    return outcome.get("stop_s")


def start(server, round_, how, rng):
    if how != "term" and round_ % 3 == 2:
        server.spawn()
        time.sleep(rng.uniform(0.0, 0.15))
        server.kill()
    began = time.monotonic()
    server.start()
    return time.monotonic() - began


def main(how, rounds):
    rng = random.Random(SEED)
    random.seed(SEED)
    ledgers = [Ledger() for _ in range(WORKERS)]
    start_s_max = stop_s_max = 0.0
    opened = taken = 0
    with Scratch() as scratch:
        wrap = []
        if how == "power":
            library = power.prepare_library(scratch.path)
            if library is None:
                return say("crash power: skipped, there is no C compiler")
            wrap = power.wrap(scratch.path, library)
        server = scratch.server("data", "--memory", "256M", wrap=wrap).start()
        with server.client() as client:
            prepare(client)
        for round_ in range(rounds):
            stop_s_max = max(stop_s_max, one_round(server, ledgers, round_, how, rng) or 0.0)
            if how == "power":
                taken += power.cut(scratch.path, server.dbpath)
            start_s_max = max(start_s_max, start(server, round_, how, rng))
            unanswered, documents, collections = verify(server, ledgers)
            opened += unanswered
        server.stop()
    acknowledged = sum(ledger.acknowledged for ledger in ledgers)
    ends = {"kill": "", "power": f", {taken} bytes without a sync taken", "term": f", longest stop {stop_s_max:.2f} s"}[how]
    say(
        f"crash {how}: {rounds} rounds, {acknowledged} acknowledged operations, none lost ({ledgers[-1].acknowledged} updates of many); "
        f"{opened} documents in open operations, each before or after; {documents} documents in {collections} collections, "
        f"validate clean, counts exact; longest start {start_s_max:.2f} s{ends}; seed {SEED}"
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
