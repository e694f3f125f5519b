#!/usr/bin/env python3
"""Compares the requests of the lab's YCSB workloads with those of YCSB and go-ycsb, counted instead of timed: a
proxy in front of one server reads the requests of the lab and of go-ycsb; YCSB's own BasicDB prints its requests.

    lab/speed/requests.py --lab target/release/quarry-lab --quarry target/release/quarry --dir DIR
    [--go-ycsb PROGRAM] [--ycsb CLASSPATH] [--workloads abcdef] [--rows 10000] [--calls 20000]
    [--seconds 30] [--json FILE]

Needs a Python with PyMongo (for its reader of BSON). --go-ycsb is a build by lab/speed/go-ycsb.sh; --ycsb
the class path of site.ycsb's core 0.17.0 and its dependencies, from Maven. Both get the settings of YCSB's own
workload files, which differ from those of go-ycsb's files. It compares the share of each operation, the
bytes of its requests and replies, the fields an update sets, the lengths of scans, and how often each key is
requested: keys are sorted by frequency, and the shares of the first 1, 10, 100 and 1,000 are printed
side by side, with the largest distance between two curves. The status is 1 if a share of an operation,
the mean length of scans or the curves are further apart than two samples of one distribution are in one
of a thousand comparisons.
"""

import argparse
import collections
import json
import math
import pathlib
import re
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
# For reads that prefer the newest documents: sizes of the groups of last inserted documents.
NEWEST = [1, 10, 100]


class Request:
    """A find, an update or an insert as received."""

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
    """Forwards everything and records the requests for `usertable`."""

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


class Printed:
    """Parses a request of YCSB as its BasicDB prints it."""

    KINDS = {"READ": "read", "UPDATE": "update", "INSERT": "insert", "SCAN": "scan"}

    def __init__(self, found):
        self.kind, self.key, self.size, self.reply = self.KINDS[found[1]], found[2], None, None
        self.limit = int(found[3]) if found[3] else None
        self.fields = len(re.findall(r"(?:^| )field\d=", found[4]))


def by_ycsb(arguments, workload):
    settings = {f"{name}proportion": 0 for name in PROPORTIONS} | SETTINGS[workload]
    settings |= {"workload": "site.ycsb.workloads.CoreWorkload", "recordcount": arguments.rows}
    settings["operationcount"] = arguments.calls
    words = ["java", "-cp", arguments.ycsb, "site.ycsb.Client", "-t", "-db", "site.ycsb.BasicDB"]
    for name, value in settings.items():
        words += ["-p", f"{name}={value}"]
    said = subprocess.run(words, check=True, capture_output=True).stdout.decode("latin-1")
    line = re.compile(r"^(READ|UPDATE|INSERT|SCAN) usertable (\S+) (?:(\d+) )?\[(.*)\]$", re.M)
    return [Printed(found) for found in line.finditer(said)][: arguments.calls]


def summary(requests, prefers_newest=False):
    total = len(requests)
    found = {"calls": total, "kinds": {}}
    for kind in sorted({request.kind for request in requests}):
        of_kind = [request for request in requests if request.kind == kind]
        mean = lambda values: sum(values) / len(values) if values else None
        one = {
            "share": len(of_kind) / total,
            "request_bytes": mean([request.size for request in of_kind if request.size]),
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
    if prefers_newest:
        found["newest"] = of_newest(requests)
    return found


def of_newest(requests):
    """For reads after inserts, the shares of reads of one of the last documents."""
    order, reads, hits = {}, 0, dict.fromkeys(NEWEST, 0)
    for request in requests:
        if request.kind == "insert":
            order[str(request.key)] = len(order)
        elif len(order) >= NEWEST[-1]:
            reads += 1
            age = len(order) - order.get(str(request.key), -len(order))
            for newest in NEWEST:
                hits[newest] += age <= newest
    return {"reads": reads, "shares": {newest: count / max(reads, 1) for newest, count in hits.items()}}


def beyond_chance(shares, counts):
    """Whether two shares of samples of these sizes differ more than chance allows once in a thousand times."""
    middle = (shares[0] * counts[0] + shares[1] * counts[1]) / sum(counts)
    spread = math.sqrt(middle * (1 - middle) * sum(1 / count for count in counts))
    return abs(shares[0] - shares[1]) > 3.29 * spread


def distance(one, other):
    """The largest distance between two curves of shares by rank."""
    furthest, sums = 0.0, [0, 0]
    for rank in range(max(len(one["curve"]), len(other["curve"]))):
        for side, found in enumerate((one, other)):
            sums[side] += found["curve"][rank] if rank < len(found["curve"]) else 0
        furthest = max(furthest, abs(sums[0] / one["drawn"] - sums[1] / other["drawn"]))
    return furthest


def far(one, other):
    """The differences that are larger than chance allows once in a thousand times."""
    out = []
    for kind in sorted(one["kinds"].keys() | other["kinds"].keys()):
        shares = [found["kinds"].get(kind, {}).get("share", 0.0) for found in (one, other)]
        if beyond_chance(shares, (one["calls"], other["calls"])):
            out.append(f"share of {kind}")
    # The standard deviation of an integer that is drawn uniformly from a range of this length.
    lengths = [found["kinds"].get("scan", {}).get("scan_length") for found in (one, other)]
    if all(lengths):
        spread = (max(lengths[0][2], lengths[1][2]) - 1) / math.sqrt(12)
        scans = [found["kinds"]["scan"]["share"] * found["calls"] for found in (one, other)]
        spread *= math.sqrt(sum(1 / count for count in scans))
        if abs(lengths[0][1] - lengths[1][1]) > 3.29 * spread:
            out.append("length of scans")
    if "newest" in one:
        # The newest documents depend on the number of inserts, so keys have no common ranks.
        for newest in NEWEST[1:]:
            shares = [found["newest"]["shares"][newest] for found in (one, other)]
            if beyond_chance(shares, [found["newest"]["reads"] for found in (one, other)]):
                out.append(f"reads of the newest {newest}")
        return out
    # The bound of Kolmogorov and Smirnov for two samples.
    bound = 1.95 * math.sqrt(1 / one["drawn"] + 1 / other["drawn"])
    if distance(one, other) > bound:
        out.append(f"keys by rank (beyond {bound:.3f})")
    return out


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("--lab", "--quarry", "--dir"):
        parser.add_argument(name, required=True)
    parser.add_argument("--go-ycsb")
    parser.add_argument("--ycsb")
    parser.add_argument("--workloads", default="abcdef")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    if not arguments.go_ycsb and not arguments.ycsb:
        parser.error("--go-ycsb or --ycsb names what the lab is compared with")
    pathlib.Path(arguments.dir).mkdir(parents=True, exist_ok=True)
    all_found, apart = {}, []
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        server = Server(arguments, folder)
        try:
            proxy = Proxy(server.port)
            for workload in arguments.workloads:
                asked = {"lab": by_lab(arguments, proxy, workload, folder)}
                if arguments.go_ycsb:
                    asked["go-ycsb"] = by_go(arguments, server, proxy, workload)
                if arguments.ycsb:
                    asked["YCSB"] = by_ycsb(arguments, workload)
                is_latest = SETTINGS[workload]["requestdistribution"] == "latest"
                sides = {name: summary(all, is_latest) for name, all in asked.items()}
                apart += show(workload, sides)
                for found in sides.values():
                    del found["curve"]
                all_found[workload] = sides
        finally:
            server.stop()
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(all_found, indent=1) + "\n")
    if apart:
        sys.exit("apart: " + "; ".join(apart))


def show(workload, sides):
    """Prints the requests of each program and their distances; returns the differences beyond chance."""
    print(f"YCSB {workload.upper()}", flush=True)
    for name, found in sides.items():
        kinds = []
        for kind, one in found["kinds"].items():
            more = []
            if one["request_bytes"]:
                more.append(f"{one['request_bytes']:.0f} B, reply {one['reply_bytes']:.0f} B")
            if "fields" in one:
                more.append(f"{one['fields']:.0f} fields")
            if "scan_length" in one:
                low, mean, high = one["scan_length"]
                more.append(f"{low} to {high} rows, mean {mean:.1f}")
            kinds.append(f"{kind} {one['share']:.2%}" + (f" ({', '.join(more)})" if more else ""))
        if "newest" in found:
            shares = found["newest"]["shares"].items()
            kinds.append("reads of the newest " + ", ".join(f"{k}: {v:.2%}" for k, v in shares))
        first = ", ".join(f"first {rank}: {share:.2%}" for rank, share in found["first"].items())
        print(f"  {name}: {'; '.join(kinds)}; {found['distinct']} keys, {first}", flush=True)
    apart = []
    for name, found in sides.items():
        if name != "lab":
            differs = far(sides["lab"], found)
            furthest = distance(sides["lab"], found)
            said = "apart: " + ", ".join(differs) if differs else "agree"
            print(f"  lab and {name}: {said}; keys by rank at most {furthest:.4f} apart", flush=True)
            apart += [f"{workload} and {name}: {what}" for what in differs]
    return apart


if __name__ == "__main__":
    main()
