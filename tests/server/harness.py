"""One real server as a child process: start, signals, data from /proc. Knows nothing about single tests."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from pymongo import MongoClient

BINARY = os.environ.get("QUARRY_BIN", "")
ENGINE = os.environ.get("QUARRY_ENGINE")
SEED = int(os.environ.get("QUARRY_SEED", random.randrange(1 << 32)))
LISTENING = re.compile(r"listening on mongodb://(\S+:(\d+))[ ,]")
# Long enough for debug builds on busy machines.
START_S_MAX = 60.0
STOP_S_MAX = 60.0


def say(text):
    print(text, flush=True)


def fail(text):
    sys.exit(f"FAILED: {text}")


def check(holds, text):
    if not holds:
        fail(text)


class Refused(Exception):
    """The server ended before it listened."""

    def __init__(self, status, output):
        super().__init__(f"status {status}: {output}")
        self.status = status
        self.output = output


class Server:
    """A server on one directory; `start` may be called again after it has ended in any way."""

    def __init__(self, dbpath, *options, wrap=()):
        self.dbpath = str(dbpath)
        self.options = [str(o) for o in options]
        self.wrap = list(wrap)
        self.binary = BINARY
        self.process = None
        self.log = tempfile.NamedTemporaryFile("r", prefix="quarry-log-", delete=True)

    def spawn(self):
        """Starts the process without waiting for it."""
        self.offset = os.path.getsize(self.log.name)
        options = list(self.options)
        if "--port" not in options:
            options += ["--port", "0"]
        if "--bind_ip" not in options:
            options += ["--bind_ip", "127.0.0.1"]
        engine = ["--storageEngine", ENGINE] if ENGINE and "--storageEngine" not in options else []
        command = [*self.wrap, self.binary, "serve", "--dbpath", self.dbpath, "--nounixsocket", *engine, *options]
        with open(self.log.name, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def start(self):
        """Returns when the server listens; raises Refused when it ends instead."""
        self.spawn()
        began = time.monotonic()
        while True:
            ended = self.process.poll()
            found = LISTENING.search(self.output())
            if found:
                self.address, self.port = found.group(1), int(found.group(2))
                self.check_engine()
                return self
            if ended is not None:
                raise Refused(ended, self.output())
            if time.monotonic() - began > START_S_MAX:
                self.kill()
                fail(f"the server did not listen within {START_S_MAX} s: {self.output()}")
            time.sleep(0.002)

    def check_engine(self):
        """Without WiredTiger's library or header the server runs on RocksDB: then the tests would say what they did not see."""
        if not ENGINE or "--storageEngine" in self.options:
            return
        with open(os.path.join(self.dbpath, "QUARRY-ENGINE")) as marker:
            first = marker.readline().strip()
        if first.lower() != f"engine {ENGINE}".lower():
            self.kill()
            fail(f"QUARRY_ENGINE={ENGINE}, but {self.dbpath} has '{first}': is the engine's library there?")

    def output(self):
        """The output of this run."""
        with open(self.log.name, "rb") as log:
            log.seek(self.offset)
            return log.read().decode(errors="replace")

    def client(self, **options):
        options = {"directConnection": True, "retryWrites": False, "retryReads": False, "serverSelectionTimeoutMS": 5000, **options}
        return MongoClient(f"mongodb://{self.address}/", **options)

    def queued_s(self):
        """How long each thread was ready to run while other threads used the processors, in seconds by thread."""
        found = {}
        for thread in os.listdir(f"/proc/{self.process.pid}/task"):
            try:
                with open(f"/proc/{self.process.pid}/task/{thread}/schedstat") as stat:
                    found[thread] = int(stat.read().split()[1]) / 1e9
            except (OSError, IndexError):
                pass  # The thread has ended, or the kernel does not count this.
        return found

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def terminate(self):
        """Sends SIGTERM; returns the exit status and the seconds until the end."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_S_MAX), time.monotonic() - began
        except subprocess.TimeoutExpired:
            self.kill()
            fail(f"the server did not end within {STOP_S_MAX} s of SIGTERM")

    def stop(self):
        """Sends SIGTERM; the server must have been alive and must end with status 0."""
        check(self.alive(), f"the server was gone before it was stopped: {self.output()[-2000:]}")
        status, _ = self.terminate()
        check(status == 0, f"status {status} after SIGTERM: {self.output()[-2000:]}")

    def memory_mib(self, field="VmHWM"):
        with open(f"/proc/{self.process.pid}/status") as status:
            for line in status:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) / 1024
        fail(f"no {field} of the server")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class Scratch:
    """A folder that is removed afterwards; servers registered in it are stopped."""

    def __init__(self):
        self.servers = []

    def __enter__(self):
        # An interrupted test stops its servers.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("interrupted"))
        self.path = tempfile.mkdtemp(prefix="quarry-test-")
        return self

    def server(self, name, *options, **more):
        server = Server(os.path.join(self.path, name), *options, **more)
        self.servers.append(server)
        return server

    def __exit__(self, kind, value, trace):
        for server in self.servers:
            if kind is not None and server.process is not None:
                say(f"last output of {server.dbpath}:\n{server.output()[-3000:]}")
            if server.alive():
                server.kill()
        shutil.rmtree(self.path, ignore_errors=True)


def verify_collection(collection):
    """Checks that validate is clean and that the count is exact: equal to a scan of the documents and to a scan of every full index."""
    name = collection.full_name
    report = collection.database.command("validate", collection.name, full=True)
    check(report["valid"] and not report.get("errors") and not report.get("warnings"), f"validate of {name}: {report}")
    scanned = sum(1 for _ in collection.find({}, {"_id": 1}).hint([("$natural", 1)]).batch_size(20000))
    counted = collection.estimated_document_count()
    check(counted == scanned, f"{name}: count says {counted}, a scan finds {scanned}")
    check(report["nrecords"] == scanned, f"{name}: validate says {report['nrecords']} records, a scan finds {scanned}")
    for index in collection.list_indexes():
        if index.get("sparse") or index.get("partialFilterExpression"):
            continue
        through = len({d["_id"] for d in collection.find({}, {"_id": 1}).hint(index["name"]).batch_size(20000)})
        check(through == scanned, f"{name}: index {index['name']} leads to {through} documents, a scan finds {scanned}")
    return scanned
