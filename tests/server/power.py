"""A loss of power, as far as a process can play it: after kill -9 every journal, manifest and table file is cut to what a finished
fdatasync had covered (noted by synced.c, which is preloaded). What was acknowledged with {j: true} must survive that.
"""

import glob
import os
import subprocess


def prepare_library(folder):
    """The compiled library, or None where there is no C compiler."""
    library = os.path.join(folder, "synced.so")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "synced.c")
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return library


def wrap(folder, library):
    return ["env", f"LD_PRELOAD={library}", f"QUARRY_SYNC_LOG={os.path.join(folder, 'synced.log')}"]


def cut(folder, dbpath):
    """Takes away what no sync covered; gives the bytes taken."""
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
                # A journal file is longer than what was written, and reads as zeros behind that.
                size = len(file.read().rstrip(b"\0"))
            if size > keep:
                os.truncate(path, keep)
                taken += size - keep
    return taken
