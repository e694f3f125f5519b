"""How long clients wait when one of three servers dies that all write one database. Usage: deaths.py [DEATHS]. Needs what several.py needs.

Each server has two clients of its own, and four know all three, as they know several mongos. They read and write all the time, about fifty
times a second: half of them a document of their own, the others one that all share. One server after the other is killed and started again.
For a second after a death, and longer, everybody may have to wait for what the dead server had locked; nobody may wait longer than
MOST_S for an answer, except the clients of the dead server alone."""

import sys
import time

from harness import SEED, Scratch, check, say
from several import SERVERS, Pulse, Servers
from tikv import Cluster, start_or_skip

MOST_S = 1.0
PAUSE_S = 0.02
SETTLE_S = 3


class SharedPulse(Pulse):
    """Increases a number that all of its kind increase."""

    def once(self, number):
        self.rows.update_one({"_id": "shared"}, {"$inc": {"number": 1}}, upsert=True)
        self.rows.find_one({"_id": "shared"})


def main():
    deaths = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    cluster = Cluster()
    if not hasattr(cluster, "store"):
        say("skipped: the store of a cluster of somebody else is not known")
        return
    with Scratch() as scratch:
        servers = Servers(scratch, cluster, f"d{SEED}-{int(time.time())}")
        start_or_skip(servers.start)
        of = [*range(SERVERS), None, None]
        pulses = [kind(servers, n, PAUSE_S) for n in of for kind in (Pulse, SharedPulse)]
        for pulse in pulses:
            pulse.start()
        quiet, waited = [], []
        for death in range(deaths):
            time.sleep(SETTLE_S)
            n, now = death % SERVERS, time.monotonic()
            others = [pulse for pulse in pulses if pulse.n != n]
            quiet += [pulse.longest(now - 1, now) for pulse in others]
            servers.kill(n)
            time.sleep(1)
            waits = [pulse.longest(now, time.monotonic()) for pulse in others]
            waited.append(max(waits))
            say(f"  server {n} killed: {max(waits):.2f} s at most, {sorted(waits)[len(waits) // 2]:.2f} s for half of the clients")
            check(max(waits) <= MOST_S, f"a client that another server serves waited {max(waits):.2f} s, {MOST_S} s are allowed; seed {SEED}")
        for pulse in pulses:
            pulse.stop.set()
            pulse.join(60)
        answers = sum(len(pulse.waits) for pulse in pulses)
        say(
            f"deaths: {SERVERS} servers, {len(pulses)} clients, {answers} answers, {deaths} servers killed; clients of the others, and of all, waited"
            f" {max(waited):.2f} s at most, {max(quiet):.2f} s before a death; seed {SEED}"
        )
        for server in servers.all:
            server.stop()


if __name__ == "__main__":
    main()
