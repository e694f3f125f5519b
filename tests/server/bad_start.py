"""Bad input at the start: each case ends with a status that is not 0 and one clear line, and the data does not change.

Usage: bad_start.py
"""

import hashlib
import os
import socket
import subprocess

from harness import BINARY, ENGINE, Refused, Scratch, Server, check, fail, say

TOOK = []


def refused(server, words, status=None):
    """Starts the server; it must end with one line that contains all the words."""
    try:
        server.start()
    except Refused as refusal:
        shown = f"{server.options}: {refusal}"
        check(refusal.status > 0 and status in (None, refusal.status), f"status {refusal.status}: {shown}")
        lines = refusal.output.strip().splitlines()
        # The option parser adds a usage hint; everything else must print one line only.
        if refusal.output.startswith("error: "):
            check(len(lines) <= 6, f"too long: {shown}")
        else:
            check(len(lines) == 1, f"not one line: {shown}")
        for word in words:
            check(str(word) in lines[0], f"the line does not name {word!r}: {shown}")
        check("panicked" not in refusal.output, shown)
        TOOK.append(lines[0])
        return
    server.stop()
    fail(f"started although it must not: {server.dbpath} {server.options}")


def tree(path):
    """All files below a folder with their contents, as one comparable value."""
    out = {}
    for folder, _, files in os.walk(path):
        for name in files:
            full = os.path.join(folder, name)
            with open(full, "rb") as file:
                out[os.path.relpath(full, path)] = hashlib.sha256(file.read()).hexdigest()
    return out


def one(scratch, name, *options, **more):
    return scratch.server(name, *options, **more)


def fill(server):
    server.start()
    with server.client() as client:
        client.test.items.insert_many([{"_id": n} for n in range(1000)])
    server.stop()


def intact(server):
    """Checks that the directory opens and contains the test data."""
    server.options = []
    server.start()
    with server.client() as client:
        check(client.test.items.count_documents({}) == 1000, f"documents are lost in {server.dbpath}")
    server.stop()


def wrong_options(scratch, data):
    yaml = os.path.join(scratch.path, "quarry.yaml")
    cases = [
        (["--memory", "lots"], ["lots", "512M"]),
        (["--memory", "1K"], ["128M", "1K"]),
        (["--port", "99999"], ["99999", "65535"]),
        (["--port", "-1"], ["-1"]),
        (["--journalCommitInterval", "0"], ["500", "given 0"]),
        (["--storageEngine", "btree"], ["btree", "rocksdb"]),
        (["--storageEngine", "wiredTiger", "--wiredTigerLibrary", "libno-such.so"], ["libno-such.so", "install WiredTiger"]),
        (["--networkMessageCompressors", "lzma"], ["lzma", "zstd"]),
        (["--maxConns", "many"], ["many"]),
        (["--nosuchoption"], ["--nosuchoption"]),
        (["--bind_ip", "no.such.host.invalid", "--allowOpenAccess"], ["no.such.host.invalid"]),
        (["--bind_ip", "192.0.2.1", "--allowOpenAccess"], ["192.0.2.1"]),
        (["--config", os.path.join(scratch.path, "missing.yaml")], ["missing.yaml"]),
    ]
    for text, words in [
        ("net:\n  prot: 27017\n", ["quarry.yaml", "prot", "port"]),
        ("storage:\n  dbPath: [1, 2]\n", ["quarry.yaml", "dbPath"]),
        ("net:\n  port: 99999\n", ["quarry.yaml", "99999"]),
        ("net: {port: 1\n", ["quarry.yaml"]),
        ("quarry:\n  memory: lots\n", ["lots"]),
        ("\t\x00\x01", ["quarry.yaml"]),
    ]:
        cases.append((["--config", yaml, text], words))
    for options, words in cases:
        if options[0] == "--config" and len(options) == 3:
            with open(yaml, "w") as file:
                file.write(options.pop())
        data.options = options
        refused(data, words)
    return len(cases)


def directories(scratch, data):
    path = os.path.join(scratch.path, "file")
    with open(path, "w") as file:
        file.write("precious")
    refused(one(scratch, "file"), [path, "--dbpath"])
    refused(one(scratch, "file/below"), [path])
    with open(path) as file:
        check(file.read() == "precious", "the file was changed")

    for name, files in [("wiredtiger", ["WiredTiger", "mongod.lock", "collection-0.wt"]), ("rocks", ["CURRENT", "MANIFEST-000004"]), ("notes", ["a.txt"])]:
        folder = os.path.join(scratch.path, name)
        os.mkdir(folder)
        for file in files:
            with open(os.path.join(folder, file), "w") as f:
                f.write("MANIFEST-000004\n")
        before = tree(folder)
        refused(one(scratch, name), [folder, "--dbpath"], 100)
        check(tree(folder) == before, f"files in {folder} were changed")
    # A new file system is not foreign.
    os.makedirs(os.path.join(scratch.path, "fresh", "lost+found"))
    one(scratch, "fresh").start().stop()

    marker = os.path.join(data.dbpath, "QUARRY-ENGINE")
    with open(marker) as file:
        text = file.read()
    with open(marker, "w") as file:
        file.write("".join("format 99\n" if line.startswith("format ") else line for line in text.splitlines(True)))
    before = tree(data.dbpath)
    refused(data, ["99", "newer"], 100)
    check(tree(data.dbpath) == before, "a newer directory was changed")
    with open(marker, "w") as file:
        file.write(text)


def unreadable(scratch, data):
    """Unreadable data directories. Root can read everything, unless it drops that capability."""
    wrap = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"] if os.getuid() == 0 else []
    if wrap and subprocess.run([*wrap, "true"], capture_output=True).returncode != 0:
        return say("start: skipped the unreadable directory, as root without setpriv cannot have one")
    closed = Server(data.dbpath, wrap=wrap)
    scratch.servers.append(closed)
    for mode in (0o000, 0o500):
        os.chmod(data.dbpath, mode)
        try:
            refused(closed, [data.dbpath, "ermission denied"], 100)
        finally:
            os.chmod(data.dbpath, 0o700)


def neighbours(scratch, data):
    data.start()
    second = Server(data.dbpath)
    scratch.servers.append(second)
    refused(second, [data.dbpath, "--dbpath"], 100)
    other = one(scratch, "other", "--port", data.port)
    refused(other, [f"127.0.0.1:{data.port}", "--port"], 48)
    with socket.create_connection(("127.0.0.1", data.port)), data.client() as client:
        check(client.test.items.count_documents({}) == 1000, "the first server was disturbed")
    data.stop()
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        other.options = ["--port", foreign.getsockname()[1]]
        other.options = [str(o) for o in other.options]
        refused(other, ["127.0.0.1", "--port"], 48)
    other.options = []
    other.start().stop()


# A file that names the other ones, with damaged content for it or for its first pages.
DAMAGE = {
    "rocksdb": ("CURRENT", b"MANIFEST-999999\n"),
    "lmdb": ("data.mdb", bytes(2 * 4096)),
    "wiredTiger": ("WiredTiger.turtle", b"nothing of this\n"),
}


def damaged(scratch, data):
    name, damage = DAMAGE[ENGINE or "rocksdb"]
    path = os.path.join(data.dbpath, name)
    with open(path, "rb") as file:
        content = file.read()
    with open(path, "wb") as file:
        file.write(damage + (content[len(damage):] if len(content) > 4096 else b""))
    refused(data, [data.dbpath], 100)
    with open(path, "wb") as file:
        file.write(content)


def main():
    check(os.access(BINARY, os.X_OK), "QUARRY_BIN names no binary")
    with Scratch() as scratch:
        data = one(scratch, "data")
        fill(data)
        wrong_options(scratch, data)
        intact(data)
        directories(scratch, data)
        intact(data)
        unreadable(scratch, data)
        intact(data)
        neighbours(scratch, data)
        damaged(scratch, data)
        intact(data)
    if os.environ.get("QUARRY_VERBOSE"):
        say("\n".join(TOOK))
    say(f"start: {len(TOOK)} bad starts refused, each with one clear line and a status that is not 0; the data opened intact after them")


if __name__ == "__main__":
    main()
