"""A simulated loss of power: after kill -9, everything not covered by a finished sync is removed from the files. Writes acknowledged with
{j: true} must survive that.

An engine that appends (RocksDB): every journal, manifest and table file is truncated to the part that a finished fdatasync covered
(recorded by the preloaded synced.c). An engine that writes in place (LMDB, WiredTiger): of the pages written since the last finished sync
of their file, none, all, or a random half are reset to their earlier content (recorded by overwritten.c).
"""

import glob
import os
import random
import struct
import subprocess

from harness import ENGINE

IN_PLACE = ENGINE in ("lmdb", "wiredTiger")
PAGE = 4096
# As in overwritten.c.
HEAD = struct.Struct("=c3xIQQQQ")


def prepare_library(folder):
    """The compiled library, or None where there is no C compiler."""
    name = "overwritten" if IN_PLACE else "synced"
    library = os.path.join(folder, name + ".so")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".c")
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl", "-lpthread"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return library


def wrap(folder, library):
    if IN_PLACE:
        undo = [f"QUARRY_UNDO_LOG={os.path.join(folder, 'undo.log')}", f"QUARRY_UNDO_DIR={folder}/"]
        return ["env", f"LD_PRELOAD={library}", *undo]
    return ["env", f"LD_PRELOAD={library}", f"QUARRY_SYNC_LOG={os.path.join(folder, 'synced.log')}"]


def cut(folder, dbpath):
    """Removes everything not covered by a sync; returns the number of bytes removed."""
    return set_back(folder, dbpath) if IN_PLACE else cut_off(folder, dbpath)


def cut_off(folder, dbpath):
    covered = {}
    with open(os.path.join(folder, "synced.log")) as log:
        for line in log:
            size, path = line.rstrip("\n").split(" ", 1)
            covered[path] = max(covered.get(path, 0), int(size))
    taken = 0
    for pattern in ("*.log", "MANIFEST-*", "*.sst"):
        for path in glob.glob(os.path.join(glob.escape(dbpath), pattern)):
            keep = covered.get(path, 0)
            with open(path, "rb") as file:
                # A journal file is longer than its content, and reads as zeros after it.
                size = len(file.read().rstrip(b"\0"))
            if size > keep:
                os.truncate(path, keep)
                taken += size - keep
    return taken


def writes_open(name):
    """The writes of each path not covered by a sync, in order: number, offset, earlier content."""
    files = {}
    with open(name, "rb") as log:
        while len(head := log.read(HEAD.size)) == HEAD.size:
            kind, path_len, number, offset, length, bytes_len = HEAD.unpack(head)
            path, before = log.read(path_len), log.read(bytes_len)
            if len(path) < path_len or len(before) < bytes_len:
                break  # Killed while this entry was written: the write itself was not made.
            writes = files.setdefault(path.decode(), [])
            if kind == b"w":
                writes.append((number, offset, before.ljust(length, b"\0")))
            elif kind == b"s":
                writes[:] = [w for w in writes if w[0] > number]
            else:
                # Removes durable pages from the earlier writes that are not durable.
                writes[:] = [w for w in writes if w[0] > number or w[1] < offset or w[1] + len(w[2]) > offset + length]
    return files


def set_back(folder, dbpath):
    log = os.path.join(folder, "undo.log")
    share = random.choice((0.5, 0.5, 1.0))
    taken = 0
    for path, writes in writes_open(log).items():
        pages = {}
        for _, offset, before in writes:
            for at in range(0, len(before), PAGE):
                pages.setdefault(offset + at, before[at : at + PAGE])
        if not pages or not path.startswith(dbpath) or not os.path.exists(path):
            continue
        with open(path, "r+b") as file:
            for at, before in pages.items():
                file.seek(at)
                now = file.read(PAGE)
                # There is nothing to reset after the end of the file.
                if before[: len(now)] != now and random.random() < share:
                    file.seek(at)
                    file.write(before[: len(now)])
                    taken += len(now)
    # The next start appends to an empty log.
    os.remove(log)
    return taken
