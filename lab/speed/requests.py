#!/usr/bin/env python3
"""What the lab's YCSB workloads ask for beside what go-ycsb asks for, counted instead of timed: a proxy before
one server reads the requests of both.

    lab/speed/requests.py --lab target/release/quarry-lab --quarry target/release/quarry --go-ycsb PROGRAM
    --dir DIR [--workloads abcdef] [--rows 10000] [--calls 20000] [--seconds 30] [--json FILE]

Wants a Python with PyMongo (for its reader of BSON). go-ycsb's build is lab/speed/go-ycsb.sh; it gets the
settings of YCSB's own workload files, which differ from those of its files. Compared are the share of each
operation, the bytes of its requests and replies, the fields an update sets, the lengths of scans, and how often each key is
asked for: keys are sorted by how often they came, and the shares of the first 1, 10, 100 and 1,000 stand
side by side, with the largest distance between the two curves. The status is 1 if a share of an operation
or the curves lie further apart than two samples of one distribution do in one of a thousand comparisons.
"""

import argparse
import collections
import json
import math
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import bson

# As in YCSB's workloada to workloadf.
SETTINGS = {
    "a": {"readproportion": 0.5, "updateproportion": 0.5, "requestdistribution": "zipfian"},
    "b": {"readproportion": 0.95, "updateproportion": 0.05, "requestdistribution": "zipfian"},
    "c": {"readproportion": 1, "updateproportion": 0, "requestdistribution": "zipfian"},
    "d": {"readproportion": 0.95, "insertproportion": 0.05, "requestdistribution": "latest"},
    "e": {
        "scanproportion": 0.95,
        "insertproportion": 0.05,
        "requestdistribution": "zipfian",
        "maxscanlength": 100,
        "scanlengthdistribution": "uniform",
    },
    "f": {"readproportion": 0.5, "readmodifywriteproportion": 0.5, "requestdistribution": "zipfian"},
}
PROPORTIONS = ["read", "update", "insert", "scan", "readmodifywrite"]
FIRST = [1, 10, 100, 1_000]


class Request:
    """A find, an update or an insert as it came."""

    def __init__(self, body, sequences, size):
        self.size, self.reply = size, None
        name = next(iter(body))
        self.fields, self.limit = None, None
        if name == "find":
            key = body["filter"].get("_id")
            self.kind = "scan" if isinstance(key, dict) and "$gte" in key else "read"
            self.limit = body.get("limit")
            self.key = key["$gte"] if self.kind == "scan" else key
        elif name == "update":
            change = (body.get("updates") or sequences["updates"])[0]
            self.kind, self.key = "update", change["q"].get("_id")
            self.fields = sum(len(fields) for fields in change["u"].values())
        else:
            document = (body.get("documents") or sequences["documents"])[0]
            self.kind, self.key = "insert", document["_id"]
            self.fields = len(document) - 1
        if isinstance(self.key, dict) and "$eq" in self.key:
            self.key = self.key["$eq"]


class Proxy:
    """Passes everything on and keeps what was asked of `usertable`."""

    def __init__(self, upstream):
        self.upstream, self.requests, self.lock = upstream, [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(("127.0.0.1", self.upstream))
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            waiting = {}
            for source, sink, keep in ((client, server, self.asked), (server, client, self.answered)):
                words = (source, sink, keep, waiting)
                threading.Thread(target=self.pass_on, args=words, daemon=True).start()

    def pass_on(self, source, sink, keep, waiting):
        reader = source.makefile("rb")
        try:
            while len(head := reader.read(16)) == 16:
                length, number, answers, code = struct.unpack("<iiii", head)
                rest = reader.read(length - 16)
                if code == 2013:
                    keep(number, answers, rest, length, waiting)
                sink.sendall(head + rest)
        except OSError:
            pass
        for one in (source, sink):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def asked(self, number, _answers, rest, length, waiting):
        body, sequences, at = None, {}, 4
        end = len(rest) - (4 if struct.unpack_from("<I", rest)[0] & 1 else 0)
        while at < end:
            kind, size = rest[at], struct.unpack_from("<i", rest, at + 1)[0]
            part = rest[at + 1 : at + 1 + size]
            if kind == 0:
                body = bson.decode(part)
            else:
                name, _, documents = part[4:].partition(b"\0")
                sequences[name.decode()] = bson.decode_all(documents)
            at += 1 + size
        name = next(iter(body))
        if name in ("find", "update", "insert") and body[name] == "usertable":
            request = Request(body, sequences, length)
            waiting[number] = request
            with self.lock:
                self.requests.append(request)

    @staticmethod
    def answered(_number, answers, _rest, length, waiting):
        if request := waiting.pop(answers, None):
            request.reply = length

    def take(self):
        with self.lock:
            taken, self.requests = self.requests, []
        return taken


class Server:
    def __init__(self, arguments, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [arguments.quarry, "serve", "--dbpath", f"{folder}/data", "--port", str(self.port)]
        with open(f"{folder}/server.log", "w") as log:
            command += ["--nounixsocket", "--memory", "512M"]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.1)
        sys.exit("the server did not start")

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def of_run(requests, calls):
    """The first calls after the load: it only inserts, in batches."""
    kinds = [request.kind for request in requests]
    begin = next(at for at, kind in enumerate(kinds) if kind != "insert")
    return requests[begin : begin + calls]


def by_lab(arguments, proxy, workload, folder):
    proxy.take()
    command = [arguments.lab, "run", f"ycsb-{workload}", "--target"]
    command += [f"mongodb://127.0.0.1:{proxy.port}/?directConnection=true", "--db", "lab", "--drop"]
    command += ["--rows", str(arguments.rows), "--clients", "2", "--warmup-seconds", "0"]
    command += ["--seconds", str(arguments.seconds), "--out", f"{folder}/results"]
    subprocess.run(command, check=True, capture_output=True)
    result = max(pathlib.Path(f"{folder}/results").glob(f"*-ycsb-{workload}-*/result.json"))
    made = json.loads(result.read_text())["steps"][-1]["calls"]
    if made < arguments.calls:
        sys.exit(f"the lab made {made} calls in {arguments.seconds} s; fewer --calls, more --seconds")
    return of_run(proxy.take(), arguments.calls)


def by_go(arguments, server, proxy, workload):
    settings = {f"{name}proportion": 0 for name in PROPORTIONS} | SETTINGS[workload]
    settings |= {"recordcount": arguments.rows, "workload": "core", "readallfields": "true"}

    def ask(action, port, more):
        words = [arguments.go_ycsb, action, "mongodb"]
        given = {"mongodb.url": f"mongodb://127.0.0.1:{port}/go-{workload}?directConnection=true"}
        for name, value in (settings | given | more).items():
            words += ["-p", f"{name}={value}"]
        subprocess.run(words, check=True, capture_output=True)

    ask("load", server.port, {"threadcount": 2, "operationcount": arguments.rows})
    proxy.take()
    ask("run", proxy.port, {"threadcount": 2, "operationcount": arguments.calls})
    return proxy.take()[: arguments.calls]


def summary(requests):
    total = len(requests)
    found = {"calls": total, "kinds": {}}
    for kind in sorted({request.kind for request in requests}):
        of_kind = [request for request in requests if request.kind == kind]
        mean = lambda values: sum(values) / max(len(values), 1)
        one = {
            "share": len(of_kind) / total,
            "request_bytes": mean([request.size for request in of_kind]),
            "reply_bytes": mean([request.reply for request in of_kind if request.reply]),
        }
        if kind in ("update", "insert"):
            one["fields"] = mean([request.fields for request in of_kind])
        if kind == "scan":
            lengths = [request.limit for request in of_kind]
            one["scan_length"] = [min(lengths), mean(lengths), max(lengths)]
        found["kinds"][kind] = one
    keys = collections.Counter(str(r.key) for r in requests if r.kind in ("read", "scan"))
    counts = sorted(keys.values(), reverse=True)
    found["drawn"] = sum(counts)
    found["distinct"] = len(counts)
    found["first"] = {first: sum(counts[:first]) / sum(counts) for first in FIRST}
    found["curve"] = counts
    return found


def distance(one, other):
    """The largest distance between two curves of shares by rank."""
    furthest, sums = 0.0, [0, 0]
    for rank in range(max(len(one["curve"]), len(other["curve"]))):
        for side, found in enumerate((one, other)):
            sums[side] += found["curve"][rank] if rank < len(found["curve"]) else 0
        furthest = max(furthest, abs(sums[0] / one["drawn"] - sums[1] / other["drawn"]))
    return furthest


def far(one, other):
    """What lies further apart than chance has it in one of a thousand comparisons."""
    out = []
    for kind in sorted(one["kinds"].keys() | other["kinds"].keys()):
        shares = [found["kinds"].get(kind, {}).get("share", 0.0) for found in (one, other)]
        middle = sum(shares) / 2
        spread = math.sqrt(middle * (1 - middle) * (1 / one["calls"] + 1 / other["calls"]))
        if abs(shares[0] - shares[1]) > 3.29 * spread:
            out.append(f"share of {kind}")
    # Kolmogorov and Smirnov's bound for two samples.
    bound = 1.95 * math.sqrt(1 / one["drawn"] + 1 / other["drawn"])
    if distance(one, other) > bound:
        out.append(f"keys by rank (beyond {bound:.3f})")
    return out


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("--lab", "--quarry", "--go-ycsb", "--dir"):
        parser.add_argument(name, required=True)
    parser.add_argument("--workloads", default="abcdef")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    pathlib.Path(arguments.dir).mkdir(parents=True, exist_ok=True)
    all_found, apart = {}, []
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        server = Server(arguments, folder)
        try:
            proxy = Proxy(server.port)
            for workload in arguments.workloads:
                lab = summary(by_lab(arguments, proxy, workload, folder))
                go = summary(by_go(arguments, server, proxy, workload))
                differs = far(lab, go)
                show(workload, lab, go, differs)
                apart += [f"{workload}: {what}" for what in differs]
                for found in (lab, go):
                    del found["curve"]
                all_found[workload] = {"lab": lab, "go-ycsb": go, "apart": differs}
        finally:
            server.stop()
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(all_found, indent=1) + "\n")
    if apart:
        sys.exit("apart: " + "; ".join(apart))


def show(workload, lab, go, differs):
    print(f"YCSB {workload.upper()}: keys by rank at most {distance(lab, go):.4f} apart", flush=True)
    for name, found in (("lab", lab), ("go-ycsb", go)):
        kinds = []
        for kind, one in found["kinds"].items():
            text = f"{kind} {one['share']:.2%} ({one['request_bytes']:.0f} B, reply {one['reply_bytes']:.0f} B"
            text += f", {one['fields']:.0f} fields" if "fields" in one else ""
            if "scan_length" in one:
                text += ", {} to {}, mean {:.1f} rows".format(*(one["scan_length"][at] for at in (0, 2, 1)))
            kinds.append(text + ")")
        first = ", ".join(f"first {rank}: {share:.2%}" for rank, share in found["first"].items())
        print(f"  {name}: {'; '.join(kinds)}; {found['distinct']} keys, {first}", flush=True)
    print(f"  {'apart: ' + ', '.join(differs) if differs else 'agree'}", flush=True)


if __name__ == "__main__":
    main()
