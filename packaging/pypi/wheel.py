"""Packs a wheel without any build tool: wheel.py BINARY MONGOD VERSION TAG OUT_FOLDER. TAG is the platform, such as
manylinux2014_x86_64. Prints the file."""

import base64
import hashlib
import os
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
# Of every entry: a wheel of the same contents has the same bytes.
MOMENT = (2020, 1, 1, 0, 0, 0)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def main(binary, mongod, version, tag, out):
    version = version.replace("-", "+", 1)
    name = f"quarry_server-{version}"
    info = f"{name}.dist-info"
    readme = read(os.path.join(HERE, "README.md")).decode()
    metadata = (
        f"Metadata-Version: 2.1\nName: quarry-server\nVersion: {version}\nSummary: The Quarry database server, and fixtures for pytest\n"
        f"License: Apache-2.0\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n{readme}"
    )
    wheel = f"Wheel-Version: 1.0\nGenerator: quarry\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n"
    entries = "[console_scripts]\nquarry = quarry_server:main\n\n[pytest11]\nquarry_server = quarry_server.pytest_plugin\n"
    files = [
        ("quarry_server/__init__.py", read(os.path.join(HERE, "quarry_server", "__init__.py")), 0o644),
        ("quarry_server/pytest_plugin.py", read(os.path.join(HERE, "quarry_server", "pytest_plugin.py")), 0o644),
        ("quarry_server/bin/quarry", read(binary), 0o755),
        ("quarry_server/bin/mongod", read(mongod), 0o755),
        (f"{info}/METADATA", metadata.encode(), 0o644),
        (f"{info}/WHEEL", wheel.encode(), 0o644),
        (f"{info}/entry_points.txt", entries.encode(), 0o644),
    ]
    path = os.path.join(out, f"{name}-py3-none-{tag}.whl")
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, content, mode in files:
            add(archive, file, content, mode)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{file},sha256={digest},{len(content)}\n")
        record.append(f"{info}/RECORD,,\n")
        add(archive, f"{info}/RECORD", "".join(record).encode(), 0o644)
    print(path)


def add(archive, name, content, mode):
    entry = zipfile.ZipInfo(name, MOMENT)
    entry.external_attr = (0o100000 | mode) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)


if __name__ == "__main__":
    main(*sys.argv[1:])
