#!/usr/bin/env python3
"""Runs pymongo's own tests against a server and compares with what is known to fail.

    suite.py SOURCE HOST:PORT [--all | --auth | --tls] [--write] [--list]

SOURCE is the unpacked source distribution. expected-failures.txt names the tests that fail and why, one section per reason; every
other test must pass or be skipped, and a test that passes although it is named fails the run, too. Tests in which the client itself must
wake within 50 ms (TIMED) are run again when they fail, twice at most, and named. --all adds the slower modules; --write prints the failures that are not named, for the file. --auth runs what is about logging in, against a server with
access control; --tls runs that and what is about TLS, against one with certificates of the distribution (test/certificates), too.
--list prints every test and what came of it.
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
# What is about logging in. Other modules are about it in a few classes only.
AUTH = [
    "test_auth.py", "test_auth_spec.py", "test_saslprep.py", "asynchronous/test_auth.py", "asynchronous/test_auth_spec.py",
    "test_bulk.py::TestBulkAuthorization", "asynchronous/test_bulk.py::AsyncTestBulkAuthorization",
    *(f"test_client.py::TestClient::test_{t}"
      for t in ["auth_from_uri", "username_and_password", "lazy_auth_raises_operation_failure", "auth_network_error"]),
    *(f"test_discovery_and_monitoring.py::TestUnified{t}" for t in
      ["AuthError", "AuthMiscCommandError", "AuthNetworkError", "AuthNetworkTimeoutError", "AuthShutdownError", "HelloCommandError",
       "HelloNetworkError", "HelloTimeout"]),
    "test_retryable_reads_unified.py::TestUnifiedHandshakeError", "test_retryable_writes_unified.py::TestUnifiedHandshakeError",
    "test_connection_logging.py", "test_handshake_unified.py", "test_pooling.py::TestPooling::test_connection_timeout_message",
]
TLS = ["test_ssl.py", "asynchronous/test_ssl.py", *AUTH]
# They wait 30 s each for a second member of the set and fail when there is none.
NEED_SECONDARY = [
    "test_transactions_unified.py::TestUnifiedRunCommand::test_run_command_fails_with_explicit_secondary_read_preference",
    "test_transactions_unified.py::TestUnifiedRunCommand::test_run_command_fails_with_secondary_read_preference_from_transaction_options",
    "test_transactions_unified.py::TestUnifiedReadPref::test_secondary_readPreference",
]
# The client waits 100 ms for an answer that comes after 150: a client that gets no processor in between finds the answer and no error.
TIMED = ("BlockConnection",)
TRIES = 3


def expected(file):
    """Test id -> reason."""
    out, reason = {}, None
    for line in (HERE / file).read_text().splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line.strip():
            out[line.strip()] = reason
    return out


def run(source, address, selected, marks):
    host, port = address.rsplit(":", 1)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", "--timeout=60", f"--junitxml={report}"]
            + [f"--deselect=test/{t}" for t in NEED_SECONDARY]
            + marks + [f"test/{s}" for s in selected],
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
            skipped = case.find("skipped")
            verdict = "failed" if bad is not None else "skipped" if skipped is not None else "passed"
            why = bad if bad is not None else skipped
            # A test that fails and whose end fails, too, is listed twice.
            if results.get(name, ("", ""))[0] != "failed":
                results[name] = (verdict, (why.get("message") or "").split("\n")[0][:200] if why is not None else "")
        return results


def main():
    args = argparse.ArgumentParser()
    args.add_argument("source")
    args.add_argument("address")
    args.add_argument("--all", action="store_true")
    args.add_argument("--auth", action="store_true")
    args.add_argument("--tls", action="store_true")
    args.add_argument("--write", action="store_true")
    args.add_argument("--list", action="store_true")
    args = args.parse_args()
    if args.auth or args.tls:
        # These tests have a mark of their own, which is not run by default.
        results = run(args.source, args.address, TLS if args.tls else AUTH, ["-m", ""])
        known = expected("expected-failures-auth.txt")
    else:
        modules = CORE + MORE if args.all else CORE
        results = run(args.source, args.address, [f"test_{m}.py" for m in modules], [])
        known = expected("expected-failures.txt")
        known = {name: why for name, why in known.items() if name.split("::")[0].removeprefix("test_") in modules}
    if args.list:
        for name, (verdict, why) in sorted(results.items()):
            print(f"  {verdict}: {name}{': ' if why else ''}{why}")
    timed = sorted(name for name, (verdict, _) in results.items() if verdict == "failed" and any(t in name for t in TIMED))
    for name in timed:
        file, *rest = name.split("::")
        for _ in range(TRIES - 1):
            again = run(args.source, args.address, ["::".join([file.replace(".", "/") + ".py", *rest])], [])
            if again.get(name, ("missing",))[0] == "passed":
                print(f"  passed when it was run again: {name}: {results[name][1]}")
                results[name] = again[name]
                break
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
