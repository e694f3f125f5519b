#!/usr/bin/env python3
"""Search: texts and vectors in a server with `$search` and `$vectorSearch`, beside libraries.

    lab/speed/search.py generate DIR [--documents N] [--vectors N] [--dimensions N]
    lab/speed/search.py text DIR [--uri URI]
    lab/speed/search.py vectors DIR [--uri URI] [--quantization none|scalar|binary]
    lab/speed/search.py peer-text DIR
    lab/speed/search.py peer-vectors DIR [--library usearch|hnswlib|faiss]

`generate` writes the data once: short texts of 8 to 12 words by Zipf's law, and vectors that are
clusters of gaussians of few dimensions turned into many, of length 1, with the true neighbours.
Without --uri a server is started for the run (QUARRY_BIN, QUARRY_OPTIONS), and its memory and disk
are reported, too. `text` also inserts documents with and without an index that is kept up to date.
Needs numpy and pymongo, for the peers tantivy, usearch, hnswlib, faiss-cpu. Each run prints one JSON document.
"""

import argparse
import json
import multiprocessing
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

WORDS = 100_000
CENTRES = 200
LATENT = 24
QUERIES = 1000
TRUTH = 10
SHARES = (1, 10, 50)
REST = 3
DATABASE = "search_speed"


def zipf_words(rnd, n):
    weights = 1.0 / np.arange(1, WORDS + 1)
    bounds = np.cumsum(weights / weights.sum())
    return np.minimum(np.searchsorted(bounds, rnd.random(n)), WORDS - 1)


def word(rank):
    """An artificial word: its rank written in letters."""
    rank, letters = int(rank), []
    while True:
        rank, rest = divmod(rank, 21)
        letters.append("bcdfghjklmnpqrstvwxyz"[rest] + "aeiou"[(rank + rest) % 5])
        if rank == 0:
            return "".join(letters)


def generate(folder, documents, vectors, dimensions):
    folder.mkdir(parents=True, exist_ok=True)
    rnd = np.random.default_rng(7)
    words = [word(rank) for rank in range(WORDS)]
    with open(folder / "texts.txt", "w") as out:
        for begin in range(0, documents, 10_000):
            sizes = rnd.integers(8, 13, min(10_000, documents - begin))
            ranks = iter(zipf_words(rnd, int(sizes.sum())))
            for size in sizes:
                out.write(" ".join(words[next(ranks)] for _ in range(size)) + "\n")
    # Words from frequent to rare, with the same number of each order of magnitude.
    ranks = np.exp(rnd.uniform(np.log(30), np.log(20_000), (QUERIES, 2))).astype(int)
    (folder / "queries.json").write_text(json.dumps([[words[a], words[b]] for a, b in ranks]))

    turned = rnd.standard_normal((LATENT, dimensions)).astype(np.float32)
    centres = rnd.standard_normal((CENTRES, LATENT)).astype(np.float32) * 1.5

    def points(n):
        at = centres[rnd.integers(0, CENTRES, n)]
        at = at + rnd.standard_normal((n, LATENT)).astype(np.float32)
        made = at @ turned + 0.3 * rnd.standard_normal((n, dimensions)).astype(np.float32)
        return made / np.linalg.norm(made, axis=1, keepdims=True)

    base = np.concatenate([points(min(10_000, vectors - b)) for b in range(0, vectors, 10_000)])
    queries = points(QUERIES)
    share = rnd.integers(0, 100, vectors)
    np.save(folder / "vectors.npy", base.astype(np.float32))
    np.save(folder / "vector_queries.npy", queries.astype(np.float32))
    np.save(folder / "share.npy", share)
    for percent in (100, *SHARES):
        allowed = np.flatnonzero(share < percent)
        truth = []
        for begin in range(0, QUERIES, 100):
            alike = queries[begin : begin + 100] @ base[allowed].T
            best = np.argpartition(-alike, TRUTH, axis=1)[:, :TRUTH]
            truth.append(allowed[best])
        np.save(folder / f"truth{percent}.npy", np.concatenate(truth))


class Server:
    """A server of the run, or an existing one."""

    def __init__(self, uri):
        self.process, self.folder = None, None
        if uri:
            self.uri = uri
            return
        self.folder = Path(tempfile.mkdtemp(prefix="search-speed-"))
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        command = [os.environ.get("QUARRY_BIN", "quarry"), "serve", "--dbpath"]
        command += [str(self.folder / "data"), "--port", str(port)]
        command += shlex.split(os.environ.get("QUARRY_OPTIONS", ""))
        log = open(self.folder / "log", "w")
        self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.uri = f"mongodb://127.0.0.1:{port}/?directConnection=true"

    def database(self):
        import pymongo

        client = pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=30_000)
        client.admin.command("ping")
        return client[DATABASE]

    def memory(self):
        """Resident bytes of a server that this run has started."""
        if not self.process:
            return None
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        return None

    def disk(self):
        if not self.folder:
            return None
        sizes = {}
        for path in (self.folder / "data").rglob("*"):
            if path.is_file():
                kind = "search" if "search" in path.parts else "data"
                sizes[kind] = sizes.get(kind, 0) + path.stat().st_size
        return sizes

    def stop(self):
        if self.process:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
            shutil.rmtree(self.folder, ignore_errors=True)


def wait_ready(coll, name):
    while True:
        index = next(iter(coll.list_search_indexes(name)), None)
        if index and index["status"] == "READY":
            return
        if index and index["status"] == "FAILED":
            sys.exit(f"the index failed: {index}")
        time.sleep(0.05)


def rests(db):
    """Whether the worker that builds graphs has been idle for a while."""

    def busy():
        workers = db.client.admin.command("serverStatus")["quarry"]["workers"]
        return workers["search"]["busyMicros"]

    before = busy()
    time.sleep(REST)
    return busy() - before < REST * 50_000


def spread(seconds):
    """Milliseconds: the median and the 99th percentile."""
    ms = np.array(seconds) * 1000
    return {
        "n": len(ms),
        "p50_ms": round(float(np.percentile(ms, 50)), 2),
        "p99_ms": round(float(np.percentile(ms, 99)), 2),
    }


def client_loop(uri, name, pipelines, seconds, start, queue):
    import pymongo

    coll = pymongo.MongoClient(uri)[DATABASE][name]
    list(coll.aggregate(pipelines[0]))
    times, n = [], os.getpid()
    start.wait()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        n += 1
        begun = time.perf_counter()
        list(coll.aggregate(pipelines[n % len(pipelines)]))
        times.append(time.perf_counter() - begun)
    queue.put(times)


def measure(server, name, pipelines, clients, seconds):
    start, queue = multiprocessing.Barrier(clients), multiprocessing.Queue()
    args = (server.uri, name, pipelines, seconds, start, queue)
    each = [multiprocessing.Process(target=client_loop, args=args) for _ in range(clients)]
    for p in each:
        p.start()
    times = [t for _ in each for t in queue.get()]
    for p in each:
        p.join()
    found = spread(times)
    found["per_s"] = round(len(times) / seconds, 1)
    return found


def insert(coll, docs):
    """Documents per second."""
    begun, batch, n = time.perf_counter(), [], 0
    for doc in docs:
        batch.append(doc)
        if len(batch) == 1000:
            coll.insert_many(batch, ordered=False)
            n += len(batch)
            batch = []
    if batch:
        coll.insert_many(batch, ordered=False)
        n += len(batch)
    return round(n / (time.perf_counter() - begun))


def text_queries(folder):
    pairs = json.loads((folder / "queries.json").read_text())
    return {
        "one word": [a for a, _ in pairs],
        "two words": [f"{a} {b}" for a, b in pairs],
    }


def text(folder, uri, seconds):
    server = Server(uri)
    db = server.database()
    result = {"what": "text", "server": db.client.server_info().get("version")}
    try:
        lines = (folder / "texts.txt").read_text().splitlines()
        db.drop_collection("texts")
        coll = db.texts
        docs = ({"_id": n, "t": t} for n, t in enumerate(lines))
        result["documents"] = len(lines)
        result["insert_per_s"] = insert(coll, docs)
        begun = time.perf_counter()
        definition = {"mappings": {"fields": {"t": {"type": "string"}}}}
        coll.create_search_index({"name": "default", "definition": definition})
        wait_ready(coll, "default")
        result["index_s"] = round(time.perf_counter() - begun, 1)
        result["rss"], result["disk"] = server.memory(), server.disk()
        for what, queries in text_queries(folder).items():
            pipelines = [
                [{"$search": {"text": {"path": "t", "query": q}}}, {"$limit": 10}] for q in queries
            ]
            for clients in (1, 16):
                found = measure(server, "texts", pipelines, clients, seconds)
                result[f"{what}, {clients} clients"] = found
        # Writes with and without an index that is kept up to date.
        more = lines[:100_000]
        for kind in ("without", "with", "without again", "with again"):
            name = "w_" + kind.replace(" ", "_")
            db.drop_collection(name)
            if kind in ("with", "with again"):
                db.create_collection(name)
                db[name].create_search_index({"name": "default", "definition": definition})
                wait_ready(db[name], "default")
            docs = ({"_id": n, "t": t} for n, t in enumerate(more))
            result[f"insert_per_s {kind} index"] = insert(db[name], docs)
            begun = time.perf_counter()
            if kind in ("with", "with again"):
                last = [{"$searchMeta": {"exists": {"path": "t"}, "count": {"type": "total"}}}]
                while next(db[name].aggregate(last))["count"]["total"] < len(more):
                    time.sleep(0.01)
                result[f"caught up after s, {kind}"] = round(time.perf_counter() - begun, 2)
        result["rss_end"] = server.memory()
    finally:
        server.stop()
    return result


def vector_docs(base, share):
    from bson.binary import Binary, BinaryVectorDtype

    for n, v in enumerate(base):
        v = Binary.from_vector(v.tolist(), BinaryVectorDtype.FLOAT32)
        yield {"_id": n, "v": v, "share": int(share[n])}


def recall(found, truth):
    hits = sum(len(set(f) & set(t.tolist())) for f, t in zip(found, truth))
    return round(hits / (len(truth) * TRUTH), 4)


def vectors(folder, uri, quantization, seconds):
    from bson.binary import Binary, BinaryVectorDtype

    server = Server(uri)
    db = server.database()
    base, queries = np.load(folder / "vectors.npy"), np.load(folder / "vector_queries.npy")
    share = np.load(folder / "share.npy")
    result = {"what": "vectors", "quantization": quantization, "vectors": len(base)}
    try:
        db.drop_collection("vectors")
        coll = db.vectors
        result["insert_per_s"] = insert(coll, vector_docs(base, share))
        begun = time.perf_counter()
        definition = {
            "fields": [
                {
                    "type": "vector",
                    "path": "v",
                    "numDimensions": int(base.shape[1]),
                    "similarity": "cosine",
                    "quantization": quantization,
                },
                {"type": "filter", "path": "share"},
            ]
        }
        index = {"name": "vectors", "type": "vectorSearch", "definition": definition}
        coll.create_search_index(index)
        wait_ready(coll, "vectors")
        result["index_s"] = round(time.perf_counter() - begun, 1)
        # Graphs are built in the background: wait until the worker of search indexes is idle.
        while not rests(db):
            pass
        result["graph_s"] = round(time.perf_counter() - begun - result["index_s"] - REST, 1)
        result["rss"], result["disk"] = server.memory(), server.disk()

        def pipeline(q, percent, candidates, exact=False):
            q = Binary.from_vector(q.tolist(), BinaryVectorDtype.FLOAT32)
            spec = {"index": "vectors", "path": "v", "queryVector": q, "limit": TRUTH}
            spec.update({"exact": True} if exact else {"numCandidates": candidates})
            if percent < 100:
                spec["filter"] = {"share": {"$lt": percent}}
            return [{"$vectorSearch": spec}, {"$project": {"_id": 1}}]

        for percent in (100, *SHARES):
            truth = np.load(folder / f"truth{percent}.npy")
            for candidates in (100, 200):
                some = [pipeline(q, percent, candidates) for q in queries]
                found = [[d["_id"] for d in coll.aggregate(p)] for p in some[:300]]
                name = f"{percent} %, {candidates} candidates"
                result[name] = {"recall": recall(found, truth[:300])}
                if candidates == 100:
                    for clients in (1, 16):
                        timed = measure(server, "vectors", some, clients, seconds)
                        result[name][f"{clients} clients"] = timed
        exact = [pipeline(q, 100, 0, True) for q in queries]
        result["exact, 1 client"] = measure(server, "vectors", exact, 1, seconds)
        result["rss_end"] = server.memory()
    finally:
        server.stop()
    return result


def rss():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0


def timed_calls(calls, threads, seconds):
    times, lock, end = [], threading.Lock(), time.perf_counter() + seconds
    cpu = time.process_time()

    def run(at):
        own = []
        while time.perf_counter() < end:
            at += 1
            begun = time.perf_counter()
            calls(at)
            own.append(time.perf_counter() - begun)
        with lock:
            times.extend(own)

    each = [threading.Thread(target=run, args=(n * 61,)) for n in range(threads)]
    for t in each:
        t.start()
    for t in each:
        t.join()
    found = spread(times)
    found["per_s"] = round(len(times) / seconds, 1)
    found["cpu_ms"] = round((time.process_time() - cpu) * 1000 / max(len(times), 1), 3)
    return found


def peer_text(folder, seconds):
    import tantivy

    schema = tantivy.SchemaBuilder()
    schema.add_integer_field("id", stored=True)
    schema.add_text_field("t", stored=False)
    place = tempfile.mkdtemp(prefix="tantivy-")
    index = tantivy.Index(schema.build(), path=place)
    lines = (folder / "texts.txt").read_text().splitlines()
    before, begun = rss(), time.perf_counter()
    writer = index.writer(64_000_000, 1)
    for n, t in enumerate(lines):
        writer.add_document(tantivy.Document(id=n, t=t))
    writer.commit()
    writer.wait_merging_threads()
    result = {"what": "tantivy", "documents": len(lines)}
    result["index_s"] = round(time.perf_counter() - begun, 1)
    result["rss_more"] = rss() - before
    result["disk"] = sum(p.stat().st_size for p in Path(place).rglob("*") if p.is_file())
    index.reload()
    searcher = index.searcher()
    for what, queries in text_queries(folder).items():
        parsed = [index.parse_query(q, ["t"]) for q in queries]

        def call(n):
            for _, address in searcher.search(parsed[n % len(parsed)], TRUTH).hits:
                searcher.doc(address)

        for threads in (1, 16):
            result[f"{what}, {threads} threads"] = timed_calls(call, threads, seconds)
    shutil.rmtree(place, ignore_errors=True)
    return result


class Usearch:
    """Filters: the Python package has none, so this asks for a hundred times as many neighbours."""

    def __init__(self, base):
        from usearch.index import Index

        self.index = Index(ndim=base.shape[1], metric="cos", dtype="f32", connectivity=32)
        self.index.expansion_search = 100
        self.index.add(np.arange(len(base)), base, threads=1)

    def find(self, q, k):
        return self.index.search(q, k, threads=1).keys.tolist()

    def filtered(self, q, k, share, percent):
        found = self.find(q, k * 100 // percent * 2)
        return [n for n in found if share[n] < percent][:k]

    def save(self, path):
        self.index.save(str(path))

    def replace(self, ids, rows):
        self.index.remove(ids)
        self.index.add(ids, rows, threads=1)


class Hnswlib:
    """Filters: a function that is called for each visited vector."""

    def __init__(self, base):
        import hnswlib

        self.index = hnswlib.Index(space="cosine", dim=base.shape[1])
        self.index.init_index(len(base) + 1, M=16, ef_construction=128, allow_replace_deleted=True)
        self.index.set_num_threads(1)
        self.index.add_items(base, np.arange(len(base)))
        self.index.set_ef(100)

    def find(self, q, k):
        return self.index.knn_query(q, k)[0][0].tolist()

    def filtered(self, q, k, share, percent):
        def wanted(n):
            return share[n] < percent

        try:
            return self.index.knn_query(q, k, num_threads=1, filter=wanted)[0][0].tolist()
        except RuntimeError:
            # The search found fewer neighbours than requested.
            return []

    def save(self, path):
        self.index.save_index(str(path))

    def replace(self, ids, rows):
        self.index.add_items(rows, ids)


class Faiss:
    """Filters: a set of the allowed vectors."""

    def __init__(self, base):
        import faiss

        faiss.omp_set_num_threads(1)
        self.faiss, self.sets = faiss, {}
        self.index = faiss.IndexHNSWFlat(base.shape[1], 16, faiss.METRIC_INNER_PRODUCT)
        self.index.hnsw.efConstruction = 128
        self.index.add(base)
        self.plain = faiss.SearchParametersHNSW(efSearch=100)

    def find(self, q, k):
        return self.index.search(q[None], k, params=self.plain)[1][0].tolist()

    def filtered(self, q, k, share, percent):
        if percent not in self.sets:
            allowed = self.faiss.IDSelectorBatch(np.flatnonzero(share < percent))
            params = self.faiss.SearchParametersHNSW(efSearch=100, sel=allowed)
            self.sets[percent] = (params, allowed)
        return self.index.search(q[None], k, params=self.sets[percent][0])[1][0].tolist()

    def save(self, path):
        self.faiss.write_index(self.index, str(path))

    replace = None


LIBRARIES = {"usearch": Usearch, "hnswlib": Hnswlib, "faiss": Faiss}


def peer_vectors(folder, library, seconds):
    base, queries = np.load(folder / "vectors.npy"), np.load(folder / "vector_queries.npy")
    share = np.load(folder / "share.npy")
    before, begun, cpu = rss(), time.perf_counter(), time.process_time()
    peer = LIBRARIES[library](base)
    result = {"what": library, "vectors": len(base)}
    result["index_s"] = round(time.perf_counter() - begun, 1)
    result["index_cpu_s"] = round(time.process_time() - cpu, 1)
    result["rss_more"] = rss() - before
    with tempfile.NamedTemporaryFile() as f:
        peer.save(f.name)
        result["disk"] = os.path.getsize(f.name)
    for percent in (100, *SHARES):
        truth = np.load(folder / f"truth{percent}.npy")

        def call(n):
            q = queries[n % len(queries)]
            if percent == 100:
                return peer.find(q, TRUTH)
            return peer.filtered(q, TRUTH, share, percent)

        found = [call(n) for n in range(300)]
        result[f"{percent} %"] = {
            "recall": recall(found, truth[:300]),
            "1 thread": timed_calls(call, 1, seconds),
        }
    if peer.replace:
        ids = np.arange(0, len(base), 10)
        cpu = time.process_time()
        peer.replace(ids, base[ids])
        result["replace_tenth_cpu_s"] = round(time.process_time() - cpu, 1)
        found = [peer.find(q, TRUTH) for q in queries[:300]]
        truth = np.load(folder / "truth100.npy")[:300]
        result["recall_after"] = recall(found, truth)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    runs = ["generate", "text", "vectors", "peer-text", "peer-vectors"]
    parser.add_argument("run", choices=runs)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, default=768)
    parser.add_argument("--seconds", type=float, default=8, help="of each measurement of queries")
    parser.add_argument("--uri")
    parser.add_argument("--quantization", default="scalar")
    parser.add_argument("--library", choices=list(LIBRARIES), default="usearch")
    args = parser.parse_args()
    if args.run == "generate":
        generate(args.folder, args.documents, args.vectors, args.dimensions)
        return
    if args.run == "text":
        result = text(args.folder, args.uri, args.seconds)
    elif args.run == "vectors":
        result = vectors(args.folder, args.uri, args.quantization, args.seconds)
    elif args.run == "peer-text":
        result = peer_text(args.folder, args.seconds)
    else:
        result = peer_vectors(args.folder, args.library, args.seconds)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
