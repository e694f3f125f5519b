"""What cases.json expects, for the runner: expect.py count CASES PART | invert CASES | log CASES SERVER_LOG

`count` prints the steps of a part. `invert` prints the same cases with an expectation in each step that nothing meets. `log` compares
the logins that the server's log tells of (lines 5286306) with the cases of the part "required" that name their mechanism, and with
those that do not: of the two a user has, a driver must take SCRAM-SHA-256.
"""
import json
import sys
from pathlib import Path

AUTHENTICATED = 5286306


def mechanism(case):
    return case.get("mechanism") or ("SCRAM-SHA-1" if case["user"] == "sha1" else "SCRAM-SHA-256")


def name(case):
    # In x.509 the user's name is the certificate's subject, given or not.
    if case.get("mechanism") == "MONGODB-X509":
        return "CN=reader,OU=clients,O=Quarry,C=DE@$external"
    return f"{case['user']}@{case.get('source', 'admin')}"


def logins(lines):
    for line in lines:
        if f'"id":{AUTHENTICATED},' in line:
            attr = json.loads(line)["attr"]
            yield f"{attr['user']}@{attr['db']} by {attr['mechanism']}"


def main():
    cases = json.loads(Path(sys.argv[2]).read_text())
    if sys.argv[1] == "count":
        print(sum(len(case["steps"]) for case in cases[sys.argv[3]]))
    elif sys.argv[1] == "invert":
        for part in cases.values():
            for case in part:
                case["steps"] = [[step, f"not {expected}"] for step, expected in case["steps"]]
        print(json.dumps(cases))
    else:
        enter = [c for c in cases["required"] if c["steps"][0][1] not in ("18", "13", "refused")]
        expected = {f"{name(case)} by {mechanism(case)}" for case in enter}
        given = set(logins(Path(sys.argv[3]).read_text().splitlines()))
        # The clients' own user, whose mechanism is theirs to choose.
        given = {login for login in given if not login.startswith("root@admin ")}
        if given != expected:
            sys.exit(f"logins: in the server's log only: {sorted(given - expected)}; not in it: {sorted(expected - given)}")
        print(f"logins: the server's log tells of {len(given)} users and mechanisms, as expected")


main()
