"""The Quarry database server as a package: the binary, and a server for tests."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

__all__ = ["BINARY", "MONGOD", "Server"]

#: The server's binary.
BINARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "quarry")
#: The same with mongod's command line, for tools that start a server themselves.
MONGOD = os.path.join(os.path.dirname(BINARY), "mongod")

_LISTENING = re.compile(r"listening on mongodb://([^\s,]+)")


class Server:
    """A running server; as a context manager it stops at the end.

    dbpath: its data; without it a new folder, gone when the server stops. port: any free one without it. args: more options of
    `quarry serve`. Raises RuntimeError when the server ends before it listens.
    """

    def __init__(self, dbpath=None, port=0, args=()):
        self._scratch = tempfile.mkdtemp(prefix="quarry-") if dbpath is None else None
        command = [BINARY, "serve", "--dbpath", str(dbpath or self._scratch), "--port", str(port), "--nounixsocket", *args]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            found = _LISTENING.search(line)
            if found:
                self.address = found.group(1)
                self.uri = f"mongodb://{self.address}/?directConnection=true"
                # What it says later must not fill the pipe.
                threading.Thread(target=self._drain, daemon=True).start()
                return
        self.stop()
        raise RuntimeError(f"quarry ended ({self.process.returncode}) before it listened: {''.join(lines).strip()}")

    def _drain(self):
        for _ in self.process.stdout:
            pass

    def stop(self):
        """SIGTERM: data that were acknowledged are on the disk; a folder that was made for it goes."""
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def main():
    """The command `quarry`."""
    os.execv(BINARY, [BINARY, *sys.argv[1:]])
