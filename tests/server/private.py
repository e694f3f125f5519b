"""Files of the server are accessible to its owner only, and the command that starts it in the background reports the real result.

Usage: private.py [PART]..., with these parts:
modes: data, log, audit and temporary files are 0600, folders 0700, whatever the umask; files of an earlier version are closed to others.
fork: the process in the background keeps running although nobody reads its output.
"""

import os
import signal
import stat
import subprocess
import sys
import time

from pymongo import MongoClient

from harness import BINARY, Scratch, check, say

ROUNDS = 10
START_S_MAX = 60


def modes_below(path):
    found = {}
    for folder, folders, names in os.walk(path):
        for name in folders + names:
            full = os.path.join(folder, name)
            found[os.path.relpath(full, path)] = stat.S_IMODE(os.lstat(full).st_mode)
    return found


def open_to_others(path):
    return {name: oct(mode) for name, mode in modes_below(path).items() if mode & 0o077}


def modes(scratch):
    os.umask(0o022)
    home = os.path.join(scratch.path, "home")
    os.mkdir(home, 0o700)
    data = os.path.join(home, "data")
    server = scratch.server("home/data", "--logpath", f"{home}/log", "--auditDestination", "file", "--auditPath", f"{home}/audit", "--auth")
    server.start()
    with server.client() as client:
        client.admin.command("createUser", "root", pwd="pw", roles=["root"])
    with MongoClient(f"mongodb://root:pw@{server.address}/?directConnection=true") as client:
        client.test.items.insert_many([{"n": n} for n in range(1000)])
        client.admin.command("fsync")
        check(not open_to_others(home), f"open to others while it runs: {open_to_others(home)}")
        client.admin.command("logRotate", 1)
    server.stop()
    check(stat.S_IMODE(os.stat(data).st_mode) == 0o700, "the data directory is open to others")
    check(not open_to_others(home), f"open to others: {open_to_others(home)}")
    count = len(modes_below(data))
    # With the modes of earlier versions.
    for name in modes_below(data):
        full = os.path.join(data, name)
        os.chmod(full, 0o755 if os.path.isdir(full) else 0o644)
    server.start()
    server.stop()
    check(not open_to_others(data), f"still open to others: {open_to_others(data)}")
    say(f"modes: {count} files and folders, none open to others")


def fork(scratch):
    for number in range(ROUNDS):
        home = os.path.join(scratch.path, f"fork{number}")
        os.mkdir(home)
        pid_file = os.path.join(home, "pid")
        command = [BINARY, "serve", "--dbpath", f"{home}/data", "--port", "0", "--nounixsocket", "--fork"]
        # With these options the server prints more after the line with which the command ends.
        command += ["--metricsPort", "0", "--logpath", f"{home}/log", "--pidfilepath", pid_file]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_S_MAX)
        check(done.returncode == 0, f"round {number}: {done.stdout} {done.stderr}")
        with open(pid_file) as file:
            pid = int(file.read())
        address = done.stdout.split("listening on mongodb://")[1].split(",")[0]
        with MongoClient(f"mongodb://{address}/?directConnection=true", serverSelectionTimeoutMS=5000) as client:
            client.admin.command("ping")
        time.sleep(0.2)
        with open(os.path.join(home, "log")) as log:
            text = log.read()
        check("panicked" not in text and "panicked" not in done.stderr, f"round {number}: {text[-500:]}{done.stderr}")
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + START_S_MAX
        while os.path.exists(pid_file):
            check(time.monotonic() < until, "the server in the background does not end")
            time.sleep(0.05)
    say(f"fork: {ROUNDS} servers in the background lived and ended")


PARTS = {"modes": modes, "fork": fork}


def main():
    for name in sys.argv[1:] or PARTS:
        with Scratch() as scratch:
            PARTS[name](scratch)
    say(f"private: {', '.join(sys.argv[1:] or PARTS)} passed")


if __name__ == "__main__":
    main()
