#!/usr/bin/env python3
"""Durable single-row updates by id on several servers in turn: rate, server CPU and context
switches per update, and latency.

    lab/speed/durable.py --dir DIR [--seconds 5] [--rounds 3] [--clients 1,4,16,64]
        [--sync-us N] NAME=QUARRY_BINARY[,OPTION...]... [innodb] [innodb-log]

An OPTION goes to the server, such as --standalone, which keeps no oplog; innodb-log keeps a binary
log of rows and flushes it at each commit, as a member of a replica set keeps its oplog.

Every server gets an empty directory below DIR; Quarry answers after its journal is flushed
(w: majority), InnoDB flushes its log at each commit.
With --sync-us DIR must be on tmpfs, and a flush takes that long. Compiles the clients of durable.c.
"""

import argparse
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
ROWS = 10000


LOG = ["--log-bin=log", "--sync-binlog=1", "--binlog-format=row", "--server-id=1"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(name, binary, directory, wrap):
    """Starts a server; returns process, protocol and port."""
    directory.mkdir(parents=True)
    port, log = free_port(), (directory / "server.log").open("w")
    if binary:
        binary, *options = binary.split(",")
        command = [
            binary,
            "serve",
            "--dbpath",
            directory / "data",
            "--port",
            port,
            "--memory",
            "1024M",
            "--nounixsocket",
            *options,
        ]
    else:
        subprocess.run(
            [
                "mariadb-install-db",
                "--no-defaults",
                f"--datadir={directory / 'data'}",
                "--auth-root-authentication-method=normal",
            ],
            check=True,
            stdout=log,
            stderr=log,
        )
        command = [
            "mariadbd",
            "--no-defaults",
            f"--datadir={directory / 'data'}",
            f"--socket={directory / 's'}",
            f"--port={port}",
            "--bind-address=127.0.0.1",
            "--skip-grant-tables",
            "--skip-networking=0",
            "--innodb-flush-log-at-trx-commit=1",
            "--innodb-buffer-pool-size=512M",
            "--innodb-log-file-size=512M",
            *(LOG if name == "innodb-log" else ["--skip-log-bin"]),
            "--user=root",
        ]
    process = subprocess.Popen([*wrap, *map(str, command)], stdout=log, stderr=log)
    for _ in range(600):
        text = (directory / "server.log").read_text()
        if re.search(r"listening on|ready for connections", text):
            return process, "mongo" if binary else "mysql", port
        if process.poll() is not None:
            break
        time.sleep(0.1)
    sys.exit(f"{name} did not start: {text[-2000:]}")


def used(pid):
    """CPU seconds and context switches of all threads."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    switches = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        switches += sum(
            int(n) for n in re.findall(r"ctxt_switches:\s+(\d+)", (task / "status").read_text())
        )
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), switches


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dir", required=True, type=pathlib.Path)
    parser.add_argument("--seconds", default=5, type=int)
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--clients", default="1,4,16,64")
    parser.add_argument("--sync-us", type=int)
    parser.add_argument("server", nargs="+")
    arguments = parser.parse_args()
    arguments.dir.mkdir(parents=True)
    client, slow = arguments.dir / "durable", arguments.dir / "slow_sync.so"
    subprocess.run(
        ["cc", "-O2", "-D_GNU_SOURCE", "-o", client, HERE / "durable.c", "-lpthread"], check=True
    )
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", slow, HERE / "slow_sync.c"], check=True)
    wrap = (
        ["env", f"LD_PRELOAD={slow}", f"QUARRY_SYNC_US={arguments.sync_us}"]
        if arguments.sync_us is not None
        else []
    )
    servers, measured = {}, {}
    try:
        for given in arguments.server:
            name, _, binary = given.partition("=")
            servers[name] = start(name, binary, arguments.dir / name, wrap)
            process, protocol, port = servers[name]
            subprocess.run([client, protocol, str(port), "1", "0", str(ROWS)], check=True)
        for round_ in range(arguments.rounds):
            for clients in arguments.clients.split(","):
                for name, (process, protocol, port) in servers.items():
                    cpu, switches = used(process.pid)
                    done = subprocess.run(
                        [client, protocol, str(port), clients, str(arguments.seconds), str(ROWS)],
                        check=True,
                        capture_output=True,
                        text=True,
                    )
                    cpu_after, switches_after = used(process.pid)
                    count, us, median, late = map(float, done.stdout.split())
                    figures = (
                        count / us * 1e6,
                        (cpu_after - cpu) / count * 1e6,
                        (switches_after - switches) / count,
                        median,
                        late,
                    )
                    measured.setdefault((int(clients), name), []).append(figures)
                    print(
                        f"round {round_ + 1}, {clients:>2} clients, {name:8}: {figures[0]:7.0f}/s"
                        f" {figures[1]:6.1f} us CPU {figures[2]:5.2f} switches p50 {median:6.0f} us"
                        f" p99 {late:6.0f} us, load {os.getloadavg()[0]:.1f}",
                        flush=True,
                    )
    finally:
        for process, _, _ in servers.values():
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    print(
        "\n| clients | server | updates/s | server CPU, us | switches | p50, us | p99, us"
        " |\n|---|---|---|---|---|---|---|"
    )
    for (clients, name), runs in sorted(measured.items()):
        mid = [statistics.median(column) for column in zip(*runs)]
        span = [f"{min(c):.0f}-{max(c):.0f}" for c in list(zip(*runs))[:2]]
        print(
            f"| {clients} | {name} | {mid[0]:.0f} ({span[0]}) | {mid[1]:.1f} ({span[1]}) |"
            f" {mid[2]:.2f} | {mid[3]:.0f} | {mid[4]:.0f} |"
        )


if __name__ == "__main__":
    main()
