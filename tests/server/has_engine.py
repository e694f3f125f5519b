"""Ends with status 0 when a server runs on an engine, and says why not otherwise. Usage: has_engine.py NAME

A server that was asked for WiredTiger takes RocksDB, with a warning, where the library is missing: that is not having it."""

import sys

from harness import Refused, Scratch, say

if __name__ == "__main__":
    wanted = sys.argv[1]
    with Scratch() as scratch:
        server = scratch.server("data", "--storageEngine", wanted)
        try:
            server.start()
        except Refused as refusal:
            say(refusal.output.strip())
            sys.exit(1)
        with server.client() as client:
            name = client.admin.command("serverStatus")["storageEngine"]["name"]
        server.stop()
        if name.lower() != wanted.lower():
            say(f"asked for {wanted}, the server runs on {name}")
            sys.exit(1)
