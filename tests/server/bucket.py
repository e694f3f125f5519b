"""Backups in a bucket: created, listed, verified, restored, with shipped log, pruned, drilled, killed in the middle and altered, against a
server with S3's protocol (moto, from PyPI). Usage: bucket.py [MOTO_SERVER]; prints that it is skipped if the program is neither given nor
on the PATH."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from harness import BINARY, Server, check, say


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Bucket:
    def __init__(self, program):
        port = free_port()
        self.process = subprocess.Popen([program, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.endpoint = f"http://127.0.0.1:{port}"
        self.environment = {
            **os.environ, "AWS_ENDPOINT_URL": self.endpoint, "AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"
        }
        began = time.monotonic()
        while True:
            try:
                self.call("PUT", "/backups")
                return
            except OSError:
                check(time.monotonic() - began < 30, "the server of the bucket does not answer")
                time.sleep(0.1)

    def call(self, method, path, body=None):
        # The test server does not check signatures, but requires one.
        authorization = "AWS4-HMAC-SHA256 Credential=somebody/20261126/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
        request = urllib.request.Request(self.endpoint + path, data=body, method=method, headers={"authorization": authorization, "content-type": "application/octet-stream"})
        with urllib.request.urlopen(request) as answer:
            return answer.read()

    def names(self, prefix):
        text = self.call("GET", f"/backups?list-type=2&prefix={prefix}").decode()
        return [part.split("</Key>")[0] for part in text.split("<Key>")[1:]]

    def run(self, *arguments, fails=False):
        done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, env=self.environment)
        check((done.returncode != 0) == fails, f"{arguments}: {done}")
        if fails:
            check(len(done.stderr.splitlines()) == 1, f"not one line: {done.stderr}")
            check("secret" not in done.stderr, "the key is shown")
        return done.stderr if fails else done.stdout

    def killed(self, delay, *arguments):
        child = subprocess.Popen([BINARY, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.environment)
        time.sleep(delay)
        child.kill()
        child.wait()


def count_in(folder):
    server = Server(folder, "--memory", "256M")
    server.start()
    count = server.client().d.things.count_documents({})
    check(server.client().d.command("validate", "things")["valid"], "not valid")
    server.kill()
    return count


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else shutil.which("moto_server")
    if not program:
        say("bucket: skipped, there is no moto_server (pip install 'moto[server]')")
        return
    with tempfile.TemporaryDirectory() as root:
        os.environ["XDG_CACHE_HOME"] = os.path.join(root, "cache")
        bucket, at = Bucket(program), lambda name: os.path.join(root, name)
        server = Server(at("data"), "--memory", "256M")
        os.mkdir(server.dbpath)
        try:
            server.start()
            things, uri, repository = server.client().d.things, f"mongodb://{server.address}/", "s3://backups/some/where"
            things.insert_many([{"_id": n, "pad": os.urandom(500)} for n in range(5000)])
            for delay in (0.05, 0.3, 0.6):
                bucket.killed(delay, "backup", "make", repository, "--uri", uri, "--rate", "1M")
            bucket.run("backup", "make", repository, "--uri", uri)
            stored = len(bucket.names("some/where/objects/"))
            things.insert_many([{"_id": n} for n in range(5000, 5050)])
            told = bucket.run("backup", "make", repository, "--uri", uri)
            more = len(bucket.names("some/where/objects/")) - stored
            check(0 < more < stored, f"{more} pieces after {stored}: {told}")
            things.insert_many([{"_id": n} for n in range(5050, 5100)])
            bucket.run("backup", "ship", repository, "--uri", uri, "--once")
            listed = [json.loads(line) for line in bucket.run("backup", "list", repository, "--json").splitlines()]
            check(len(listed) == 3 and listed[2]["log"]["restores"], f"{listed}")
            bucket.run("backup", "verify", repository)
            bucket.run("backup", "drill", repository, "--scratch", at("scratch"), "--memory", "256M")
            for delay in (0.05, 0.3):
                bucket.killed(delay, "restore", repository, "--dbpath", at("copy"), "--rate", "1M")
            bucket.run("restore", repository, "--dbpath", at("copy"))
            check(count_in(at("copy")) == 5050, "the restored backup does not have what it should")
            bucket.run("restore", repository, "--dbpath", at("newest"), "--to", "newest", "--memory", "256M")
            check(count_in(at("newest")) == 5100, "the newest moment does not have what it should")
            bucket.run("backup", "prune", repository, "--keepLast", "1")
            kept = bucket.names("some/where/backups/")
            check(len(kept) == 1, "an old backup is left")
            manifest = bucket.call("GET", f"/backups/{kept[0]}").decode()
            bucket.run("backup", "verify", repository)
            # Pieces of the killed backups are too young to be pruned, and no backup refers to them.
            name = next(n for n in bucket.names("some/where/objects/") if n.rsplit("/", 1)[-1] in manifest)
            whole = bucket.call("GET", f"/backups/{name}")
            for damaged, what in ((whole[:-1], "truncated"), (bytes([whole[0] ^ 1]) + whole[1:], "altered")):
                bucket.call("PUT", f"/backups/{name}", damaged)
                line = bucket.run("backup", "verify", repository, fails=True)
                check(name in line and what in line, line)
            line = bucket.run("backup", "list", "s3://backups/nowhere", fails=True)
            check("is not a repository of backups" in line, line)
            line = bucket.run("backup", "make", "s3://absent/x", "--uri", uri, fails=True)
            check("no such bucket" in line, line)
            line = bucket.run("mount", repository, "--dbpath", at("mounted"), fails=True)
            check("s3://backups/some/where" in line, line)
            say(f"bucket: {stored} pieces, {more} more for the second backup; made, shipped, restored, drilled, pruned, refused when damaged")
        finally:
            server.kill()
            bucket.process.kill()


if __name__ == "__main__":
    main()
