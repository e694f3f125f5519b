"""The queries of the dashboard and of the alert rules: every metric that they name is one that the server has, and the dashboard's are written as
rules, so that promtool can parse them. queries.py MONITORING_FOLDER METRICS_FILE RULES_FILE"""

import json
import os
import re
import sys


def dashboard_queries(panels):
    for panel in panels:
        yield from (target["expr"] for target in panel.get("targets", []))
        yield from dashboard_queries(panel.get("panels", []))


def main(folder, metrics, rules):
    with open(metrics) as file:
        kinds = re.findall(r"^# TYPE (\S+) (\w+)", file.read(), re.MULTILINE)
    # A histogram has no samples before the first command; its type stands there.
    there = {name + end for name, kind in kinds for end in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))}
    with open(os.path.join(folder, "grafana.json")) as file:
        queries = list(dashboard_queries(json.load(file)["panels"]))
    with open(os.path.join(folder, "alerts.yaml")) as file:
        alerts = [line for line in file.read().splitlines() if not line.lstrip().startswith("#")]
    named = set(re.findall(r"\bquarry_\w+", "\n".join([*queries, *alerts])))
    missing = sorted(named - there)
    if not queries or missing:
        sys.exit(f"packages: FAILED: {len(queries)} queries; metrics that the server does not have: {missing}")
    parsed = [query.replace("$__rate_interval", "1m").replace("$instance", ".*") for query in queries]
    with open(rules, "w") as file:
        json.dump({"groups": [{"name": "dashboard", "rules": [{"record": f"query:{n}", "expr": query} for n, query in enumerate(parsed)]}]}, file)
    print(f"packages: monitoring: {len(queries)} queries of the dashboard, {len(named)} metrics, all of which the server has")


main(*sys.argv[1:])
