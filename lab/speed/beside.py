#!/usr/bin/env python3
"""One workload on several servers, one after the other, each freshly started on an empty directory; a page for each run and one for all.

    lab/speed/beside.py --lab quarry-lab --quarry quarry --dir DIR --out DIR [--on quarry,innodb,myrocks] [--memory-mb N]
        [--sweep clients=1,4,16] WORKLOAD [option of quarry-lab run]...

Settings: Quarry gets --memory of the limit; InnoDB a buffer pool of half of it (its file reads bypass the page cache), MyRocks an eighth
for the block cache and an eighth for memtables (its files are cached by the system, too, and its process takes 75 MB before it stores anything).
Without a limit each gets 1 GiB. All are lazy: logged, flushed about once a second.
"""

import argparse
import pathlib
import re
import signal
import subprocess
import sys
import time

SERVERS = ["quarry", "innodb", "myrocks"]


def start(arguments, name, directory):
    """Starts it; gives the process, the address to measure and the option that names the data directory."""
    memory = arguments.memory_mb or 1024
    if name == "quarry":
        port = 29117
        command = [arguments.quarry, "serve", "--dbpath", directory / "data", "--port", port, "--memory", f"{memory}M", "--nounixsocket", "--standalone"]
    else:
        share = memory if not arguments.memory_mb else memory // 2 if name == "innodb" else memory // 8
        engine = {"innodb": "innodb", "myrocks": "rocksdb"}[name]
        command = [arguments.lab, "target", "mariadb", "--dir", directory / "data", "--engine", engine, "--cache-mb", share]
    directory.mkdir(parents=True)
    log = directory / "server.log"
    process = subprocess.Popen([str(word) for word in command], stdout=log.open("w"), stderr=subprocess.STDOUT)
    for _ in range(1200):
        text = log.read_text()
        if name == "quarry" and re.search(r"(?i)listening|waiting for connections|mongodb://", text):
            return process, f"mongodb://127.0.0.1:{port}"
        if found := re.search(r"mysql://\S+", text):
            return process, found.group(0)
        if process.poll() is not None:
            break
        time.sleep(0.1)
    sys.exit(f"{name} did not start: {log.read_text()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", required=True)
    parser.add_argument("--quarry", required=True)
    parser.add_argument("--dir", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--on", default=",".join(SERVERS))
    parser.add_argument("--memory-mb", type=int)
    parser.add_argument("--sweep", help="one run for each value of an option")
    parser.add_argument("workload")
    arguments, more = parser.parse_known_args()
    sweep = [[]]
    if arguments.sweep:
        option, values = arguments.sweep.split("=")
        sweep = [[f"--{option}", value] for value in values.split(",")]
    if arguments.memory_mb:
        more += ["--memory-mb", str(arguments.memory_mb)]
    arguments.out.mkdir(parents=True, exist_ok=True)
    runs = []
    for name in arguments.on.split(","):
        process, address = start(arguments, name, arguments.dir / f"{arguments.workload}-{name}")
        try:
            for point in sweep:
                command = [arguments.lab, "run", arguments.workload, "--target", address, "--out", arguments.out, *more, *point]
                before = set(arguments.out.iterdir())
                print(f"{time.strftime('%H:%M:%S')} {name}: {' '.join(str(word) for word in command[1:])}", flush=True)
                done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
                print("\n".join((done.stdout + done.stderr).splitlines()[-8:]), flush=True)
                if done.returncode not in (0, 3):
                    sys.exit(f"{name}: the lab left {done.returncode}")
                [new] = set(arguments.out.iterdir()) - before
                runs.append(new.rename(new.with_name("-".join([name, arguments.workload] + point[1:]))))
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(120)
    page = arguments.out / f"{arguments.workload}.html"
    subprocess.run([arguments.lab, "report", *map(str, runs), "--out", str(page)], check=True)


if __name__ == "__main__":
    main()
