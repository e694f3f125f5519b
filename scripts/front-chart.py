#!/usr/bin/env python3
"""Draws the chart of the README from a recorded run: rate of inserts by the size of the collection.

    scripts/front-chart.py lab/runs/2026-11-21-laboratory > docs/images/inserts-past-memory.svg

Reads SERVER-insert-grow/result.json; each point of a line is the rate over one thirtieth of the rows.
"""
import json
import pathlib
import sys

SERVERS = [("quarry", "Quarry", "#b3470f"), ("myrocks", "MyRocks", "#3b6ea5"), ("innodb", "InnoDB", "#5f6b76")]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 768, 340, 70, 92, 50, 48
POINTS, MEMORY_MB = 30, 256


def rates(path):
    """(documents in the collection, documents per second) at equal distances of documents."""
    [step] = [s for s in json.loads(path.read_text())["steps"] if s["name"] == "grow"]
    total, done, points = step["ops"], 0, []
    width, begun, time = total / POINTS, 0.0, 0.0
    for second in step["series"]:
        done, time = done + second["ops"], time + second["seconds"]
        if done >= width * (len(points) + 1):
            before = points[-1][0] if points else 0
            points.append((done, (done - before) / (time - begun)))
            begun = time
    return points, step["rate"]["average"], step["sizes"]


def main():
    folder = pathlib.Path(sys.argv[1])
    lines = [(label, colour, *rates(folder / f"{name}-insert-grow" / "result.json")) for name, label, colour in SERVERS]
    rows = max(points[-1][0] for _, _, points, _, _ in lines)
    top = 20_000 * -(-max(rate for _, _, points, _, _ in lines for _, rate in points) // 20_000)
    x = lambda documents: LEFT + documents / rows * (WIDTH - LEFT - RIGHT)
    y = lambda rate: HEIGHT - BOTTOM - rate / top * (HEIGHT - TOP - BOTTOM)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif" font-size="13" role="img">',
        "<title>Documents inserted per second, with three secondary indexes, as the collection outgrows the memory</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="20" font-weight="600" fill="#1f2328">Documents inserted per second, three secondary indexes</text>',
        f'<text x="{LEFT}" y="37" fill="#59636e">{MEMORY_MB} MiB of memory for the server; the collection grows to eight times as much</text>',
    ]
    for rate in range(0, int(top) + 1, 20_000):
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(rate):.1f}" y2="{y(rate):.1f}" stroke="#d8dee4"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y(rate) + 4:.1f}" text-anchor="end" fill="#59636e">{rate:,}</text>')
    for millions in range(0, int(rows // 1e6) + 1):
        out.append(f'<text x="{x(millions * 1e6):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#59636e">{millions}</text>')
    out.append(f'<text x="{x(rows / 2):.1f}" y="{HEIGHT - 10}" text-anchor="middle" fill="#59636e">million documents in the collection</text>')
    for label, colour, points, _, _ in lines:
        path = " ".join(f"{x(d):.1f},{y(r):.1f}" for d, r in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5" stroke-linejoin="round"/>')
        last = points[-1]
        out.append(f'<text x="{x(last[0]) + 8:.1f}" y="{y(last[1]) + 4:.1f}" fill="{colour}" font-weight="600">{label}</text>')
    print("\n".join([*out, "</svg>"]))


main()
