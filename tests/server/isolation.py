"""Checks whether snapshot isolation allows a history of transactions. Knows nothing about servers.

A history is a list of transactions. A key has a list; a transaction appends values, each only once in the whole history, and reads whole
lists. A register is treated alike: a write by a transaction that has read the register before is an append after the value that was read.

The reads determine the order of the values of each key, and that order the dependencies: `ww` from the writer of the previous version, `wr`
from the writer of a version to its reader, `rw` from the reader of a version to the writer of the next one; `rt` from a transaction that
ended to one that began later. Snapshot isolation (strong: a transaction sees everything that ended before it began) forbids every cycle
without two adjacent `rw`; a cycle with two is write skew. If every writing transaction writes all it has read, write skew is impossible,
too, and no cycle is allowed.
(Adya, Weak Consistency, 1999; Cerone and Gotsman, Analysing Snapshot Isolation, 2018; Kingsbury and Alvaro, Elle, 2020.)
"""

from collections import defaultdict

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"


class Transaction:
    """`operations`: ("append", key, value) and ("read", key, [values]) in order. `began` and `ended` use the same clock."""

    def __init__(self, name, operations, status=OK, began=0.0, ended=None):
        self.name, self.operations, self.status, self.began, self.ended = name, operations, status, began, ended

    def appends(self):
        return [(key, value) for what, key, value in self.operations if what == "append"]

    def __repr__(self):
        return f"{self.name} ({self.status}) {self.operations}"


class Anomaly(Exception):
    def __init__(self, kind, text):
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def writers_of(history):
    writers = {}
    for t in history:
        for key, value in t.appends():
            if (key, value) in writers:
                raise ValueError(f"{value} is given twice to {key}")
            writers[key, value] = t
    return writers


def check_within(t):
    """Checks the reads within a transaction: its reads of a key agree, and end with its own appends."""
    seen, own = {}, defaultdict(list)
    for what, key, value in t.operations:
        if what == "append":
            own[key].append(value)
            continue
        mine = own[key]
        if mine and value[-len(mine):] != mine:
            raise Anomaly("own write missing", f"{key} is {value} after {mine} in {t}")
        before = value[:len(value) - len(mine)]
        if seen.setdefault(key, before) != before:
            raise Anomaly("non-repeatable read", f"{key} was {seen[key]} and is {before} in {t}")


def orders_of(history, writers, final):
    """The order of the values of each key: every read must be a prefix of the longest one."""
    longest = {key: list(values) for key, values in final.items()}
    reads = [(t, key, value) for t in history if t.status != FAILED for what, key, value in t.operations if what == "read"]
    for t, key, value in reads:
        mine = {v for k, v in t.appends() if k == key}
        # Values of a transaction that did not commit must not be read by others.
        value = value if t.status == OK else [v for v in value if v not in mine]
        if len(value) > len(longest.get(key, [])):
            longest[key] = value
    for key, values in longest.items():
        if len(set(values)) != len(values):
            raise Anomaly("written twice", f"{key} is {values}")
        for value in values:
            writer = writers.get((key, value))
            if writer is None:
                raise Anomaly("read of nothing", f"nobody has appended {value} to {key}")
            if writer.status == FAILED:
                raise Anomaly("aborted read", f"{value} of {key} is of {writer}")
    for t, key, value in reads:
        mine = {v for k, v in t.appends() if k == key}
        value = value if t.status == OK else [v for v in value if v not in mine]
        if longest.get(key, [])[:len(value)] != value:
            raise Anomaly("reads do not agree", f"{key} is {value} in {t}, and {longest.get(key)}")
    return longest


def check_whole(history, writers, orders, final):
    """Checks that all writes of a transaction exist and become visible together."""
    there = {(key, value) for key, values in orders.items() for value in values}
    at_the_end = {(key, value) for key, values in final.items() for value in values}
    for t in history:
        found = [a for a in t.appends() if a in there]
        if t.status == OK and len(found) < len(t.appends()) and all(key in final for key, _ in t.appends()):
            raise Anomaly("lost write", f"{sorted(set(t.appends()) - set(found))} of {t}")
        if t.status == UNKNOWN and found and len([a for a in t.appends() if a in at_the_end or a[0] not in final]) < len(t.appends()):
            raise Anomaly("part of a transaction", f"{found} of {t}")
    for t in history:
        for what, key, value in t.operations:
            if what != "read":
                continue
            mine = {v for k, v in t.appends() if k == key}
            foreign = [v for v in value if v not in mine]
            last = writers.get((key, foreign[-1])) if foreign else None
            if last is None:
                continue
            wrote = [v for k, v in last.appends() if k == key]
            if foreign[-1] != wrote[-1]:
                raise Anomaly("intermediate read", f"{key} ends with {foreign[-1]} in {t}, before {wrote[-1]} of {last}")


class Graph:
    def __init__(self):
        # Node -> {next node: kind}. Transactions are nodes by their position; moments of time are nodes, too.
        self.depends, self.anti = defaultdict(dict), defaultdict(dict)

    def add(self, kind, a, b):
        if a != b:
            (self.anti if kind == "rw" else self.depends)[a].setdefault(b, kind)


def graph_of(history, orders):
    graph = Graph()
    at = {}
    for n, t in enumerate(history):
        for key, value in t.appends():
            at[key, value] = n
    for key, values in orders.items():
        for a, b in zip(values, values[1:]):
            graph.add("ww", at[key, a], at[key, b])
    for n, t in enumerate(history):
        if t.status != OK:
            continue
        for what, key, value in t.operations:
            if what != "read":
                continue
            mine = {v for k, v in t.appends() if k == key}
            foreign = [v for v in value if v not in mine]
            if foreign:
                graph.add("wr", at[key, foreign[-1]], n)
            rest = [v for v in orders.get(key, [])[len(foreign):] if v not in mine][:1]
            for following in rest:
                graph.add("rw", n, at[key, following])
    add_time(graph, history)
    return graph


def add_time(graph, history):
    """Connects transactions that ended with those that began later: through a chain of moments, which needs fewer edges than all pairs."""
    ends = sorted((t.ended, n) for n, t in enumerate(history) if t.status == OK and t.ended is not None)
    begins = sorted((t.began, n) for n, t in enumerate(history) if t.status != FAILED)
    passed = 0
    for began, n in begins:
        while passed < len(ends) and ends[passed][0] < began:
            graph.add("rt", ends[passed][1], ("moment", passed))
            if passed:
                graph.add("rt", ("moment", passed - 1), ("moment", passed))
            passed += 1
        if passed:
            graph.add("rt", ("moment", passed - 1), n)


def steps(graph, node, skew_allowed):
    """The next nodes on a path without two adjacent `rw`, or on any path if no cycle is allowed."""
    name, after_anti = node
    for to, kind in graph.depends[name].items():
        yield (to, False), kind
    if not after_anti or not skew_allowed:
        for to, kind in graph.anti[name].items():
            yield (to, skew_allowed), kind


def find_cycle(graph, skew_allowed):
    """A forbidden cycle as [(node, kind of the edge to the next node)], or None."""
    white, grey, black = 0, 1, 2
    colour = defaultdict(int)
    starts = [(n, False) for n in {*graph.depends, *graph.anti}]
    for start in starts:
        if colour[start] != white:
            continue
        colour[start] = grey
        path, walks = [(start, None)], [steps(graph, start, skew_allowed)]
        while walks:
            step = next(walks[-1], None)
            if step is None:
                colour[path.pop()[0]] = black
                walks.pop()
                continue
            to, kind = step
            path[-1] = (path[-1][0], kind)
            if colour[to] == grey:
                first = next(i for i, (node, _) in enumerate(path) if node == to)
                return [(node[0], kind) for node, kind in path[first:]]
            if colour[to] == white:
                colour[to] = grey
                path.append((to, None))
                walks.append(steps(graph, to, skew_allowed))
    return None


def name_of(cycle):
    kinds = [kind for _, kind in cycle]
    if "rw" not in kinds:
        return "cycle of writes and reads"
    if kinds.count("rw") == 1:
        return "read skew or lost update"
    adjacent = any(a == b == "rw" for a, b in zip(kinds, kinds[1:] + kinds[:1]))
    return "write skew" if adjacent else "long fork"


def check(history, final=None, skew_allowed=True):
    """Raises Anomaly when the history is not one of strong snapshot isolation; with `skew_allowed=False`, not serializable. `final` is the
    state after everything: {key: [values]}. Returns the order of the values of each key."""
    final = final or {}
    writers = writers_of(history)
    for t in history:
        check_within(t)
    orders = orders_of(history, writers, final)
    check_whole(history, writers, orders, final)
    cycle = find_cycle(graph_of(history, orders), skew_allowed)
    if cycle is not None:
        lines = []
        for node, kind in cycle:
            lines.append(f"  {history[node] if isinstance(node, int) else node}\n    {kind}")
        raise Anomaly(name_of(cycle), "a cycle\n" + "\n".join(lines))
    return orders


def as_lists(history, final):
    """Converts registers into lists: operations ("write", key, value) and ("read", key, value or None), with a read of the key before every
    write in the same transaction. Returns the history and the final lists for `check`."""
    before, writer = {}, {}
    for t in history:
        seen = {}
        for what, key, value in t.operations:
            if what == "write":
                if key not in seen:
                    raise ValueError(f"{t} writes {key} without having read it")
                before[key, value] = seen[key]
                writer[key, value] = t
            seen[key] = value

    def versions(key, value):
        chain = []
        while value is not None:
            if len(chain) > len(before):
                raise Anomaly("cycle of writes and reads", f"{key}: {chain[:10]}")
            chain.append(value)
            if (key, value) not in before:
                raise Anomaly("read of nothing", f"nobody has written {value} to {key}")
            value = before[key, value]
        return chain[::-1]

    followers = {}
    for (key, value), earlier in before.items():
        t = writer[key, value]
        if t.status != OK:
            continue
        other = followers.setdefault((key, earlier), t)
        if other is not t:
            raise Anomaly("lost update", f"{key} was {earlier} for both\n  {other}\n  {t}")
    known = {}
    lists = []
    for t in history:
        operations = []
        for what, key, value in t.operations:
            if what == "write":
                operations.append(("append", key, value))
                continue
            if (key, value) not in known:
                known[key, value] = versions(key, value)
            operations.append(("read", key, known[key, value]))
        lists.append(Transaction(t.name, operations, t.status, t.began, t.ended))
    return lists, {key: versions(key, value) for key, value in final.items()}
