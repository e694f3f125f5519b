"""The Helm chart without Helm: every value that a template names is in values.yaml and every one of values.yaml is named by a template,
and the options in the templates are those of deploy/kubernetes.yaml or of docs/configuration.md. chart.py CHART_FOLDER"""

import os
import re
import sys


def main(chart):
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    with open(os.path.join(chart, "values.yaml")) as file:
        given = values(file.read())
    named, options = set(), set()
    for name in sorted(os.listdir(os.path.join(chart, "templates"))):
        with open(os.path.join(chart, "templates", name)) as file:
            text = file.read()
        named |= set(re.findall(r"\.Values\.([A-Za-z.]+)", text))
        options |= set(re.findall(r"--[a-zA-Z_]+", text))
        opened = len(re.findall(r"\{\{-? *(?:if|with|range)\b", text))
        closed = len(re.findall(r"\{\{-? *end\b", text))
        check(opened == closed, f"{name}: {opened} blocks begin and {closed} end")
    check(named <= given, f"templates name values that are not there: {sorted(named - given)}")
    check(given <= named, f"values without effect: {sorted(given - named)}")
    with open(os.path.join(root, "docs", "configuration.md")) as file:
        documented = file.read()
    unknown = [o for o in sorted(options) if o not in documented]
    check(not unknown, f"options that configuration.md does not know: {unknown}")
    print(f"packages: chart: {len(named)} values, {len(options)} options")


def values(text):
    """The paths of the leaves of a YAML file of plain mappings."""
    found, above = set(), []
    for line in text.splitlines():
        match = re.match(r"( *)([A-Za-z]+):(.*)", line)
        if not match:
            continue
        depth = len(match.group(1)) // 2
        above = above[:depth] + [match.group(2)]
        if match.group(3).strip():
            found.add(".".join(above))
    return found


def check(holds, text):
    if not holds:
        sys.exit(f"packages: FAILED: {text}")


if __name__ == "__main__":
    main(*sys.argv[1:])
