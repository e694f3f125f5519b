"""Starts the server by command lines and files that are written for mongod. Usage: stock.py BINARY FOLDER FILE"""

import os
import signal
import socket
import subprocess
import sys
import time

from pymongo import MongoClient

START_S_MAX = 60


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def run(binary, *options, log=None):
    """Starts it, wants one warning about what has no effect, and what mongod says on standard output; ends it."""
    port = free_port()
    command = [binary, "--port", str(port), "--nounixsocket", "--allowOpenAccess", *options]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        with MongoClient(f"mongodb://127.0.0.1:{port}/?directConnection=true", serverSelectionTimeoutMS=START_S_MAX * 1000) as client:
            client.test.items.insert_one({})
            warnings = client.admin.command("getLog", "startupWarnings")["log"]
            engine = client.admin.command("serverStatus")["storageEngine"]["name"]
        time.sleep(0.2)
        server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=START_S_MAX)
    finally:
        if server.poll() is None:
            server.kill()
    said = open(log).read() if log else out.decode()
    named = [line for line in warnings if "have no effect here" in line]
    if server.returncode != 0 or "Waiting for connections" not in said:
        sys.exit(f"{options}: status {server.returncode}: {said[-2000:]} {err.decode()[-2000:]}")
    if len(named) != 1:
        sys.exit(f"{options}: not one warning: {warnings}")
    return named[0], engine


def main(binary, folder, file):
    data = os.path.join(folder, "stock")
    warning, engine = run(
        binary, "--bind_ip_all", "--wiredTigerCacheSizeGB", "1.5", "--replSet", "rs0", "--dbpath", data, "--noauth", "--storageEngine", "wiredTiger", "--journal"
    )
    for name in ["--wiredTigerCacheSizeGB", "--journal"]:
        if name not in warning:
            sys.exit(f"{name} is not named: {warning}")
    # The engine is found by its data from then on, whichever it was.
    _, again = run(binary, "--dbpath", data, "--directoryperdb")
    if again != engine:
        sys.exit(f"first {engine}, then {again}")
    warning, _ = run(binary, "--config", file, log=os.path.join(folder, "mongod.log"))
    for name in ["storage.wiredTiger.engineConfig.cacheSizeGB", "storage.journal.enabled", "net.tls.disabledProtocols", "processManagement.timeZoneInfo"]:
        if name not in warning:
            sys.exit(f"{name} is not named: {warning}")
    print("stock command line and file: ok")


if __name__ == "__main__":
    main(*sys.argv[1:])
