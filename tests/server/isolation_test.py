"""Tests the isolation checker on known anomalies and on valid histories."""

import random
import unittest

from isolation import FAILED, OK, UNKNOWN, Anomaly, Transaction, as_lists, check


def history(*transactions):
    """Parses transactions such as "w x1 | r x 1,2 | w y3" (appends and reads); "!" in front means aborted, "?" unknown outcome. They begin
    in order and all end later, so that real time gives no order."""
    out = []
    for n, text in enumerate(transactions):
        status = {"!": FAILED, "?": UNKNOWN}.get(text[0], OK)
        operations = []
        for part in text.lstrip("!?").split("|"):
            words = part.split()
            if words[0] == "w":
                operations.append(("append", words[1][0], int(words[1][1:])))
            else:
                values = [int(v) for v in words[2].split(",")] if len(words) > 2 else []
                operations.append(("read", words[1], values))
        out.append(Transaction(f"T{n}", operations, status, began=float(n), ended=1000.0 + n))
    return out


class Anomalies(unittest.TestCase):
    def found(self, transactions, final=None, **how):
        with self.assertRaises(Anomaly) as found:
            check(transactions, final, **how)
        return found.exception.kind

    def test_dirty_read(self):
        # The first write of T0 was replaced before it committed.
        self.assertEqual(self.found(history("w x1 | w x2", "r x 1", "r x 1,2")), "intermediate read")

    def test_aborted_read(self):
        self.assertEqual(self.found(history("!w x1", "r x 1")), "aborted read")
        self.assertEqual(self.found(history("!w x1"), {"x": [1]}), "aborted read")

    def test_non_repeatable_read(self):
        self.assertEqual(self.found(history("w x1", "r x | r x 1")), "non-repeatable read")
        self.assertEqual(self.found(history("w x1", "r x 1 | w x2 | r x 2")), "non-repeatable read")

    def test_own_write_missing(self):
        self.assertEqual(self.found(history("w x1 | r x")), "own write missing")

    def test_lost_update(self):
        lost = history("w x1", "r x 1 | w x2", "r x 1 | w x3", "r x 1,2,3")
        self.assertEqual(self.found(lost), "read skew or lost update")

    def test_lost_write(self):
        self.assertEqual(self.found(history("w x1", "w x2"), {"x": [1]}), "lost write")

    def test_part_of_a_transaction(self):
        self.assertEqual(self.found(history("?w x1 | w y2"), {"x": [1], "y": []}), "part of a transaction")

    def test_dirty_write(self):
        wrong = history("w x1 | w y1", "w x2 | w y2", "r x 1,2", "r y 2,1")
        self.assertEqual(self.found(wrong), "cycle of writes and reads")

    def test_circular_information(self):
        self.assertEqual(self.found(history("w x1 | r y 2", "w y2 | r x 1")), "cycle of writes and reads")

    def test_read_skew(self):
        self.assertEqual(self.found(history("w x1 | w y1", "r x 1 | r y", "r y 1")), "read skew or lost update")

    def test_long_fork(self):
        fork = history("w x1", "w y2", "r x 1 | r y", "r x | r y 2")
        self.assertEqual(self.found(fork), "long fork")

    def test_stale_read(self):
        stale = history("w x1", "r x", "r x 1")
        check(stale)
        stale[0].ended, stale[1].began, stale[1].ended = 5.0, 6.0, 7.0
        self.assertEqual(self.found(stale), "read skew or lost update")

    def test_orders_that_do_not_agree(self):
        self.assertEqual(self.found(history("w x1", "w x2", "r x 1,2", "r x 2,1")), "reads do not agree")

    def test_written_twice(self):
        self.assertEqual(self.found(history("w x1", "r x 1,1")), "written twice")

    def test_write_skew_is_allowed_unless_it_is_not(self):
        skew = history("r x | r y | w x1", "r x | r y | w y2", "r x 1 | r y 2")
        check(skew)
        self.assertEqual(self.found(skew, skew_allowed=False), "write skew")

    def test_unknown_ends(self):
        check(history("?w x1 | w y1", "r x 1"), {"x": [1], "y": [1]})
        check(history("?w x1 | w y1", "r x"), {"x": [], "y": []})

    def test_registers(self):
        def registers(*transactions):
            return [Transaction(f"T{n}", operations, began=float(n), ended=1000.0 + n) for n, operations in enumerate(transactions)]

        fine = registers(
            [("read", "x", None), ("write", "x", 1)],
            [("read", "x", 1), ("write", "x", 2), ("read", "y", None), ("write", "y", 3)],
            [("read", "x", 2), ("read", "y", 3)],
        )
        check(*as_lists(fine, {"x": 2, "y": 3}), skew_allowed=False)
        lost = registers(*[[("read", "x", None), ("write", "x", n)] for n in (1, 2)])
        with self.assertRaises(Anomaly) as found:
            as_lists(lost, {"x": 1})
        self.assertEqual(found.exception.kind, "lost update")
        skewed = fine[:2] + registers([("read", "x", 2), ("read", "y", None)])
        with self.assertRaises(Anomaly) as found:
            check(*as_lists(skewed, {"x": 2, "y": 3}), skew_allowed=False)
        self.assertEqual(found.exception.kind, "read skew or lost update")
        gone = fine[:1] + registers([("read", "x", 7)])
        with self.assertRaises(Anomaly) as found:
            as_lists(gone, {"x": 1})
        self.assertEqual(found.exception.kind, "read of nothing")


class Store:
    """Random histories of lists under snapshot isolation, or with a part of it violated."""

    def __init__(self, rng, first_wins=True, fixed_view=True):
        self.rng, self.first_wins, self.fixed_view = rng, first_wins, fixed_view
        self.lists, self.open, self.history, self.clock, self.values = {k: [] for k in "xyz"}, [], [], 0.0, 0

    def tick(self):
        self.clock += 1.0
        return self.clock

    def step(self):
        if len(self.open) < 4 and self.rng.random() < 0.4:
            view = {k: list(v) for k, v in self.lists.items()}
            self.open.append((Transaction(f"T{len(self.history) + len(self.open)}", [], began=self.tick()), view, {}))
        elif self.open:
            t, view, own = self.rng.choice(self.open)
            key = self.rng.choice("xyz")
            if len(t.operations) > 4 or self.rng.random() < 0.2:
                return self.end(t, view, own)
            if self.rng.random() < 0.5:
                self.values += 1
                own.setdefault(key, []).append(self.values)
                t.operations.append(("append", key, self.values))
            else:
                seen = view if self.fixed_view else self.lists
                t.operations.append(("read", key, seen[key] + own.get(key, [])))

    def end(self, t, view, own):
        self.open = [o for o in self.open if o[0] is not t]
        t.ended = self.tick()
        conflict = self.first_wins and any(self.lists[key] != view[key] for key in own)
        t.status = FAILED if conflict or self.rng.random() < 0.05 else OK
        if t.status == OK:
            for key, values in own.items():
                self.lists[key] = self.lists[key] + values
        self.history.append(t)


class Simulated(unittest.TestCase):
    def run_with(self, **what):
        refused = 0
        for seed in range(60):
            store = Store(random.Random(seed), **what)
            for _ in range(400):
                store.step()
            try:
                check(store.history, store.lists)
            except Anomaly:
                refused += 1
        return refused

    def test_snapshot_isolation_passes_and_less_does_not(self):
        self.assertEqual(self.run_with(), 0)
        self.assertGreater(self.run_with(first_wins=False), 50)
        self.assertGreater(self.run_with(fixed_view=False), 50)


if __name__ == "__main__":
    unittest.main()
