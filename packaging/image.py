"""Packs a container image of a folder, for `docker load`: image.py ROOT_FOLDER VERSION OUT_FILE. No container tool is needed. Files
belong to root, the folder `data` to the user of the server."""

import hashlib
import io
import json
import os
import sys
import tarfile

USER = 27017


def main(root, version, out):
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for folder, folders, files in os.walk(root):
            folders.sort()
            for name in sorted(folders) + sorted(files):
                path = os.path.join(folder, name)
                archive.add(path, os.path.relpath(path, root), recursive=False, filter=own)
    layer = layer.getvalue()
    digest = hashlib.sha256(layer).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "created": "2020-01-01T00:00:00Z",
        "config": {
            "User": f"{USER}:{USER}",
            "Entrypoint": ["/quarry"],
            "Cmd": ["serve", "--dbpath", "/data", "--bind_ip", "0.0.0.0", "--allowOpenAccess"],
            "ExposedPorts": {"27017/tcp": {}},
            "Volumes": {"/data": {}},
            "StopSignal": "SIGTERM",
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created": "2020-01-01T00:00:00Z", "created_by": "packaging/image.py"}],
    }
    config = json.dumps(config).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [f"quarry:{version}", "quarry:latest"], "Layers": [f"{digest}/layer.tar"]}]
    with tarfile.open(out, "w") as archive:
        for name, content in [(config_name, config), (f"{digest}/layer.tar", layer), ("manifest.json", json.dumps(manifest).encode())]:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    print(f"{out}: {len(layer)} bytes in the layer")


def own(entry):
    is_data = entry.name == "data" or entry.name.startswith("data/")
    entry.uid = entry.gid = USER if is_data else 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry


if __name__ == "__main__":
    main(*sys.argv[1:])
