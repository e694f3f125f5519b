#!/usr/bin/env python3
"""Runs pymongo's own tests against a server and compares with what is known to fail.

    suite.py SOURCE HOST:PORT [--all] [--write]

SOURCE is the unpacked source distribution. expected-failures.txt names the tests that fail and why, one section per reason; every
other test must pass or be skipped, and a test that passes although it is named fails the run, too. --all adds the slower
modules; --write prints the failures that are not named, for the file.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).parent
CORE = [
    "crud_unified", "crud_v1", "collection", "cursor", "bulk", "client_bulk_write", "run_command", "command_monitoring", "transactions",
    "transactions_unified", "change_stream", "causal_consistency", "session", "sessions_unified", "retryable_writes_unified",
]
MORE = [
    "database", "collation", "collection_management", "index_management", "retryable_writes", "retryable_reads",
    "retryable_reads_unified", "read_concern", "read_write_concern_spec", "raw_bson",
    "gridfs", "gridfs_bucket", "gridfs_spec", "grid_file", "versioned_api", "versioned_api_integration", "comment", "custom_types",
    "decimal128", "examples", "monitoring",
]
# They wait 30 s each for a second member of the set and fail when there is none.
NEED_SECONDARY = [
    "test_transactions_unified.py::TestUnifiedRunCommand::test_run_command_fails_with_explicit_secondary_read_preference",
    "test_transactions_unified.py::TestUnifiedRunCommand::test_run_command_fails_with_secondary_read_preference_from_transaction_options",
    "test_transactions_unified.py::TestUnifiedReadPref::test_secondary_readPreference",
]


def expected():
    """Test id -> reason."""
    out, reason = {}, None
    for line in (HERE / "expected-failures.txt").read_text().splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line.strip():
            out[line.strip()] = reason
    return out


def run(source, address, modules):
    host, port = address.rsplit(":", 1)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", "--timeout=60", f"--junitxml={report}"]
            + [f"--deselect=test/{t}" for t in NEED_SECONDARY]
            + [f"test/test_{m}.py" for m in modules],
            cwd=source, env={**os.environ, "DB_IP": host, "DB_PORT": port}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )
        if not report.exists():
            sys.exit("pymongo-suite: pytest wrote no report")
        results = {}
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            # test.test_cursor.TestCursor -> test_cursor::TestCursor::name
            parts = case.get("classname").split(".")
            name = "::".join([*parts[1:], case.get("name")])
            bad = case.find("failure") if case.find("failure") is not None else case.find("error")
            verdict = "failed" if bad is not None else "skipped" if case.find("skipped") is not None else "passed"
            # A test that fails and whose end fails, too, is listed twice.
            if results.get(name, ("", ""))[0] != "failed":
                results[name] = (verdict, (bad.get("message") or "").split("\n")[0][:200] if bad is not None else "")
        return results


def main():
    args = argparse.ArgumentParser()
    args.add_argument("source")
    args.add_argument("address")
    args.add_argument("--all", action="store_true")
    args.add_argument("--write", action="store_true")
    args = args.parse_args()
    modules = CORE + MORE if args.all else CORE
    results = run(args.source, args.address, modules)
    known = {name: why for name, why in expected().items() if name.split("::")[0].removeprefix("test_") in modules}
    failed = {name: why for name, (verdict, why) in results.items() if verdict == "failed"}
    passed = sum(verdict == "passed" for verdict, _ in results.values())
    skipped = sum(verdict == "skipped" for verdict, _ in results.values())
    unexpected = sorted(set(failed) - set(known))
    stale = sorted(name for name in known if results.get(name, ("missing",))[0] != "failed")
    print(f"pymongo-suite: {passed} passed, {len(failed)} failed ({len(known)} expected), {skipped} skipped; "
          f"{100 * passed / max(1, passed + len(failed)):.1f} % of those that ran")
    if args.write:
        print("\n".join(unexpected))
        return
    for name in unexpected:
        print(f"  unexpected failure: {name}: {failed[name]}")
    for name in stale:
        print(f"  expected to fail, but {results.get(name, ('is missing',))[0]}: {name} ({known[name]})")
    if unexpected or stale or not passed:
        sys.exit(1)


if __name__ == "__main__":
    main()
