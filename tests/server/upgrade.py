"""Three servers that all write one database (--tikvWrites here) are replaced by another version, one at a time, under load, and back again.
Usage: upgrade.py [SECONDS]. QUARRY_OLD_BIN names the other version, QUARRY_OLD_OPTIONS and QUARRY_NEW_OPTIONS further options of each.

The load is that of several.py. No client may see an error that drivers do not repeat; at the end the data, the indexes and the change streams
agree. SECONDS pass before each server is replaced."""

import os
import shlex
import sys
import time

from harness import BINARY, Scratch, check, say
from several import SERVERS, Application, Others, Servers
from tikv import Cluster, start_or_skip

OLD = os.environ.get("QUARRY_OLD_BIN")


def options_of(name):
    return shlex.split(os.environ.get(name, ""))


def replace(servers, n, binary, options):
    """Ends a server with SIGTERM, and starts the other version on its port."""
    server = servers.all[n]
    server.stop()
    server.binary, server.options = binary, servers.common_options[n] + options
    server.spawn()
    servers.wait_until_listening(server)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 6.0
    if not OLD:
        say("skipped: QUARRY_OLD_BIN names no other version")
        return
    cluster = Cluster()
    with Scratch() as scratch:
        servers = Servers(scratch, cluster, f"upgrade-{int(time.time())}")
        servers.common_options = [list(server.options) for server in servers.all]
        old, new = (OLD, options_of("QUARRY_OLD_OPTIONS")), (BINARY, options_of("QUARRY_NEW_OPTIONS"))
        has_streams = "0" not in old[1] + new[1]
        for server in servers.all:
            server.binary, server.options = old[0], server.options + old[1]
        start_or_skip(servers.start)
        application, others = Application(servers), Others(servers, has_streams=has_streams, is_spread=False)
        for version, (binary, options) in (("the new version", new), ("the old version again", old)):
            for n in range(SERVERS):
                time.sleep(seconds)
                replace(servers, n, binary, options)
                check(not application.errors and not application.wrong, f"applications saw {application.errors} {application.wrong}")
                check(not others.errors, f"clients saw {others.errors}")
                say(f"  server {n} is {version}: {len(application.acknowledged)} transfers, {others.changes} changes of the catalog")
        time.sleep(seconds)
        application.end()
        others.end()
        say(
            f"upgrade: {SERVERS} servers replaced one at a time and back; {len(application.acknowledged)} transfers,"
            f" {sum(application.counts.values())} increments, {len(others.unique)} unique values, {len(others.taken)} entries of a queue,"
            f" {others.changes} changes of the catalog: nothing lost or done twice, no error that drivers do not repeat"
        )
        for server in servers.all:
            server.stop()


if __name__ == "__main__":
    main()
