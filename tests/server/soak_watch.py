"""Reply times as clients see them: running commands, how long the machine kept the processes waiting, stacks of hanging threads."""

import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

LATE_S = 1.0
# A reply later than this is a hang; the server is killed, so that the test ends.
HANG_S = 60.0
# A reply may wait for the running flush and for its own; a catalog change with several commits waits for each of them.
FLUSHES_MAX = 12
PERIOD_S = 0.1


def waited_for_processor_s(pid):
    """Seconds for which each thread was ready to run but did not."""
    waits = {}
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            try:
                with open(f"/proc/{pid}/task/{task}/schedstat") as stat:
                    waits[task] = int(stat.read().split()[1]) / 1e9
            except (OSError, IndexError, ValueError):
                pass
    except OSError:
        pass
    return waits


def most_gained(before, after):
    return max((after[task] - before.get(task, 0.0) for task in after), default=0.0)


def sample(total, server, client):
    """Runs in a separate process, which the client's threads do not slow down: adds to `total` how long the slowest thread of the server
    and of the client waited for a processor. A wait is known only after it has ended; until then the delay of this process is used instead."""
    waited, clock = 0.0, time.monotonic()
    before = (waited_for_processor_s(server), waited_for_processor_s(client))
    total[:] = struct.pack("dd", waited, clock)
    while before[1] and os.getppid() == client:
        time.sleep(PERIOD_S)
        after, now = (waited_for_processor_s(server), waited_for_processor_s(client)), time.monotonic()
        waited += max(most_gained(before[0], after[0]) + most_gained(before[1], after[1]), now - clock - PERIOD_S)
        total[:] = struct.pack("dd", waited, now)
        before, clock = after, now


if __name__ == "__main__":
    with open(sys.argv[1], "r+b") as shared:
        sample(mmap.mmap(shared.fileno(), 16), int(sys.argv[2]), int(sys.argv[3]))
    sys.exit()

from pymongo import monitoring  # noqa: E402

from harness import say  # noqa: E402


def stacks(pid):
    """The stacks of the server's threads."""
    if shutil.which("gdb"):
        command = ["gdb", "-p", str(pid), "-batch", "-nx", "-ex", "set print frame-arguments none", "-ex", "thread apply all bt 30"]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
        except subprocess.TimeoutExpired:
            pass
    lines = []
    for task in os.listdir(f"/proc/{pid}/task"):
        for what in ("comm", "wchan", "syscall", "stack"):
            try:
                with open(f"/proc/{pid}/task/{task}/{what}") as file:
                    lines.append(f"{task} {what}: {file.read().strip()}")
            except OSError:
                pass
    return "\n".join(lines)


class Watch(monitoring.CommandListener):
    """Listens to every command of a client; its own thread checks those without an answer."""

    def __init__(self, server, workers):
        self.server, self.workers = server, workers
        self.delay_s = 0.0
        # Replies lost because the server is ending are ignored.
        self.ending = threading.Event()
        self.halt = threading.Event()
        self.late, self.printed = [], 0
        self.longest_s = self.longest_waits_s = 0.0
        self.longest_text = ""
        self.file = tempfile.NamedTemporaryFile()
        self.file.write(bytes(16))
        self.file.flush()
        self.total = mmap.mmap(self.file.fileno(), 16)
        self.sampler = subprocess.Popen([sys.executable, __file__, self.file.name, str(server.process.pid), str(os.getpid())])
        self.wait_for_sample(0.0)
        self.under_way = {}
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    @property
    def waits_s(self):
        """The time lost to other processes since the watch began, as far as it is known."""
        return struct.unpack("d", self.total[:8])[0]

    def wait_for_sample(self, after):
        """Waits until a sample was taken after that moment; limited, in case the server has ended."""
        until = time.monotonic() + 30
        while struct.unpack("d", self.total[8:])[0] <= after and time.monotonic() < until and not self.halt.is_set():
            time.sleep(PERIOD_S / 4)

    def client(self):
        return self.server.client(event_listeners=[self], maxPoolSize=4 * self.workers, serverSelectionTimeoutMS=3000)

    def started(self, event):
        with self.lock:
            text = f"{event.command_name} {str(event.command)[:300]}"
            self.under_way[event.request_id] = (time.monotonic(), self.waits_s, text)

    def succeeded(self, event):
        self.ended(event.request_id)

    def failed(self, event):
        self.ended(event.request_id)

    def allowed_s(self, waits_before):
        return LATE_S + FLUSHES_MAX * self.delay_s + (self.waits_s - waits_before)

    def ended(self, request):
        with self.lock:
            began, waits, text = self.under_way.pop(request)
            took = time.monotonic() - began
            if self.ending.is_set():
                return
            if took > self.longest_s:
                self.longest_s, self.longest_waits_s, self.longest_text = took, self.waits_s - waits, text
        # A reply near the limit is judged after the next sample, when the processor waits of its time are known.
        if took > LATE_S:
            self.wait_for_sample(began + took)
            with self.lock:
                if took > self.allowed_s(waits):
                    self.late.append(f"{took:.2f} s, {self.allowed_s(waits):.2f} allowed: {text}")

    def look(self):
        while not self.halt.wait(PERIOD_S):
            now = time.monotonic()
            with self.lock:
                late = [(now - began, text) for began, waits, text in self.under_way.values()
                        if now - began > self.allowed_s(waits) + 2 * PERIOD_S]
            if late and not self.ending.is_set():
                self.show(late)

    def show(self, late):
        took, text = max(late)
        if self.printed < 2:
            self.printed += 1
            say(f"no answer for {took:.2f} s: {text}\n{stacks(self.server.process.pid)}")
        if took > HANG_S:
            self.late.append(f"no answer for {took:.0f} s, the server was killed: {text}")
            self.halt.set()
            self.server.process.kill()

    def stop(self):
        self.halt.set()
        self.thread.join(180)
        self.sampler.kill()
        self.sampler.wait()
