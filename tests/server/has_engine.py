"""Ends with status 0 when a server runs on an engine, otherwise prints why not. Usage: has_engine.py NAME

If the library of WiredTiger is missing, the server uses RocksDB with a warning: that counts as not having the engine."""

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
