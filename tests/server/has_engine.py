"""Ends with status 0 when a server starts on an engine, and says why not otherwise. Usage: has_engine.py NAME"""

import sys

from harness import Refused, Scratch, say

if __name__ == "__main__":
    with Scratch() as scratch:
        server = scratch.server("data", "--storageEngine", sys.argv[1])
        try:
            server.start()
        except Refused as refusal:
            say(refusal.output.strip())
            sys.exit(1)
        server.stop()
