"""Very many collections with one additional index each: measures how long creating them takes, and checks that the time of the next start,
the open files and the memory do not grow with their number. Usage: many_collections.py N
"""

import random
import sys
import threading
import time

from pymongo import WriteConcern

from harness import SEED, Scratch, check, say, verify_collection

THREADS = 4
START_S_MAX = 2.0
FILES_MAX = 500
MEMORY_MB = 1024


def create(server, total):
    """Runs `create_index` on new collections in several threads, without waiting for the journal; returns the seconds per quarter."""
    errors, marks = [], []
    began = time.monotonic()
    done = [0] * THREADS

    def work(worker):
        try:
            with server.client() as client:
                database = client.get_database("many", write_concern=WriteConcern(w=1, j=False))
                for n in range(worker, total, THREADS):
                    database[f"c{n}"].create_index("a")
                    done[worker] += 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    quarter = 1
    while any(thread.is_alive() for thread in threads):
        threads[0].join(0.05)
        while quarter <= 4 and sum(done) >= total * quarter // 4:
            marks.append(time.monotonic() - began)
            quarter += 1
    check(not errors, f"create_index: {errors[:1]}")
    while len(marks) < 4:
        marks.append(time.monotonic() - began)
    return marks


def first_answer(server, name):
    """Seconds from the start of the process until the first find is answered."""
    began = time.monotonic()
    server.start()
    with server.client() as client:
        list(client["many"][name].find({"a": 1}))
        return time.monotonic() - began


def verify(server, total, rng):
    with server.client() as client:
        many = client["many"]
        began = time.monotonic()
        names = many.list_collection_names()
        listed_s = time.monotonic() - began
        check(len(names) == total, f"{len(names)} collections are listed, {total} were made")
        for name in rng.sample(names, min(50, total)):
            check(set(many[name].index_information()) == {"_id_", "a_1"}, f"{name} has indexes {many[name].index_information()}")
            many[name].insert_many([{"a": n} for n in range(3)])
            check(many[name].count_documents({"a": {"$gte": 1}}) == 2, f"{name} does not find through its index")
            verify_collection(many[name])
            many[name].delete_many({})
        return listed_s


def run(server, total):
    rng = random.Random(SEED)
    server.start()
    marks = create(server, total)
    made = f"{total} collections with an index in {marks[-1]:.1f} s ({total / marks[-1]:.0f}/s; quarters end at {', '.join(f'{m:.1f}' for m in marks)} s)"
    files, peak = server.open_files(), server.memory_mib()
    server.stop()
    after_stop = first_answer(server, f"c{rng.randrange(total)}")
    listed_s = verify(server, total, rng)
    files_again, peak_again = server.open_files(), server.memory_mib()
    server.kill()
    after_kill = first_answer(server, f"c{rng.randrange(total)}")
    peak_start = server.memory_mib()
    server.stop()
    text = (
        f"{made}; {files} open files, VmHWM {peak:.0f} MiB of {MEMORY_MB}; first answer {after_stop:.3f} s after a stop and {after_kill:.3f} s "
        f"after kill -9 (VmHWM then {peak_start:.0f} MiB); all names listed in {listed_s:.2f} s; later {files_again} files, {peak_again:.0f} MiB"
    )
    check(max(files, files_again) < FILES_MAX, f"too many open files: {text}")
    check(max(after_stop, after_kill) < START_S_MAX, f"the start takes too long: {text}")
    check(max(peak, peak_again) <= MEMORY_MB, f"memory is not bounded: {text}")
    say(f"collections: {text}")


def main(total):
    with Scratch() as scratch:
        run(scratch.server("data", "--memory", f"{MEMORY_MB}M"), total)


if __name__ == "__main__":
    main(int(sys.argv[1]))
