#!/usr/bin/env python3
"""Checks a rendered site: every relative link of every page leads to a file that is there. Usage: site-links.py FOLDER"""
import html.parser
import pathlib
import sys
import urllib.parse


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        self.found += [value for name, value in attributes if name in ("href", "src") and value]


def main():
    site, broken = pathlib.Path(sys.argv[1]), []
    for page in sorted(site.rglob("*.html")):
        if page.name in ("print.html", "404.html", "toc.html"):
            continue
        links = Links()
        links.feed(page.read_text())
        for link in links.found:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or not parts.path:
                continue
            if not (page.parent / urllib.parse.unquote(parts.path)).exists():
                broken.append(f"{page.relative_to(site)}: {link}")
    for line in sorted(set(broken)):
        print(f"site: no such page: {line}")
    sys.exit(1 if broken else 0)


main()
