"""Runs the commands that the pages show, in their order: each block of shell or Python of the listed pages is run, or stands in SKIPPED with the reason.

Usage: commands.py [PAGE]...; QUARRY_BIN names the server. Names of other machines and folders are those of a scratch folder here."""

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pymongo import MongoClient

ROOT = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("QUARRY_BIN", "")
LISTENING = re.compile(r"listening on mongodb://(\S+:\d+)")
PAGES = ("README.md", "docs/tutorial.md", "docs/quickstarts.md", "docs/faq.md", "docs/operations.md", "docs/migration.md", "docs/configuration.md", "docs/tikv.md")
WAIT_S = 60

# Commands that are not run here: how they begin, and why.
SKIPPED = (
    ("docker ", "needs Docker; make package-tests tries the image"),
    ("make ", "builds and tests everything; it is what runs this"),
    ("target/release/quarry-lab", "the lab's own tests run its presets"),
    ("cargo install", "compiles everything again"),
    ("quarry serve --storageEngine tikv", "needs a cluster: make cluster"),
    ("pd-server ", "is TiKV's"),
    ("tikv-server ", "is TiKV's"),
    ("mongodb://", "an address"),
)
# Programs that may be missing.
OPTIONAL = ("mongosh", "mongodump", "mongorestore", "openssl")


def fail(text):
    sys.exit(f"docs: FAILED: {text}")


def blocks(text):
    """(line, language, code): fenced blocks, and indented ones, which are shell."""
    lines, n = text.split("\n"), 0
    while n < len(lines):
        if lines[n].strip().startswith("```"):
            begin, language = n, lines[n].strip()[3:]
            n += 1
            while not lines[n].strip().startswith("```"):
                n += 1
            yield begin + 2, language, "\n".join(lines[begin + 1 : n])
        elif re.match(r" {4,}[^-*|\s]", lines[n]) and not lines[n - 1].strip():
            begin = n
            while n < len(lines) and re.match(r" {4,}\S", lines[n]):
                n += 1
            yield begin + 1, "sh", "\n".join(line.strip() for line in lines[begin:n])
        n += 1


def commands(code):
    """One command a line; a line that ends with a backslash goes on."""
    for line in re.sub(r"\\\n\s*", "", code).split("\n"):
        line = re.sub(r"\s{2,}#.*$", "", line).strip()
        if line:
            yield line


class World:
    """A scratch folder, what runs in it, and what stands for the names of a page."""

    def __init__(self, folder):
        self.folder, self.running, self.names, self.fresh, self.ran, self.skipped = Path(folder), [], [], 0, 0, 0
        tools = self.folder / "bin"
        tools.mkdir()
        (tools / "quarry").symlink_to(BINARY)
        self.environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "HOME": folder}

    def place(self, name):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return str(path)

    def new(self):
        self.fresh += 1
        return self.place(f"fresh{self.fresh}")

    def translated(self, command):
        for name, stands in self.names:
            if name in command:
                command = command.replace(name, stands() if callable(stands) else stands)
        return command

    def start(self, command, until):
        """Runs on in the background once a line has said what is waited for."""
        log = open(self.new(), "w+")
        child = subprocess.Popen(shlex.split(command), stdout=log, stderr=log, env=self.environment, cwd=self.folder)
        self.running.append(child)
        began = time.monotonic()
        while True:
            log.seek(0)
            said = log.read()
            found = re.search(until, said)
            if found:
                return found
            if child.poll() is not None or time.monotonic() - began > WAIT_S:
                fail(f"{command}\n{said}")
            time.sleep(0.05)

    def serve(self, *options):
        """A server of the test's own."""
        data = self.new()
        os.mkdir(data)
        return self.start(shlex.join(["quarry", "serve", "--port", "0", "--memory", "256M", "--dbpath", data, *options]), LISTENING)[1]

    def run(self, command):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=self.environment, cwd=self.folder, timeout=120)
        if done.returncode != 0:
            fail(f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout

    def end(self):
        for child in reversed(self.running):
            child.terminate()
        for child in self.running:
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()


def user(address, name, password, roles, login=None):
    uri = f"mongodb://{login}@{address}/" if login else f"mongodb://{address}/"
    MongoClient(uri, directConnection=True).admin.command("createUser", name, pwd=password, roles=roles)


def shell(world, command):
    """Runs a command of a page as it is meant; false when it cannot be here."""
    first = command.split()[0]
    if any(command.startswith(begin) for begin, _ in SKIPPED) or (first in OPTIONAL and not shutil.which(first)) or "passwordPrompt()" in command:
        return False
    command = world.translated(command)
    if command.startswith(("quarry serve", "quarry mount")):
        world.start(command, LISTENING)
    elif command.startswith("quarry backup ship"):
        world.start(command, "shipped up to optime")
    elif command.startswith('quarry follow "'):
        world.start(command, r"applied \d+ changes|follow(s|ing) the changes|standby")
    else:
        world.run(command)
    return True


def operations(world, blocks):
    address = world.serve()
    user(address, "backup", "secret", ["hostManager", "backup"])
    client = MongoClient(f"mongodb://{address}/", directConnection=True)
    client.shop.orders.insert_many([{"_id": n} for n in range(100)])
    Path(world.place("password")).write_text("secret\n")
    repository = world.place("backups/db1")

    def newest():
        listed = world.run(f"quarry backup list {repository} --json").splitlines()
        listed = [json.loads(line) for line in listed]
        return [one["id"] for one in listed if "id" in one][-1]

    def second():
        """One that the shipped log has wholly."""
        time.sleep(1.2)
        client.admin.command("appendOplogNote", 1, data={})
        world.run(f"quarry backup make {repository} --uri mongodb://backup@{address}/ --passwordFile {world.place('password')}")
        moment = int(time.time()) + 1
        time.sleep(2)
        client.admin.command("appendOplogNote", 1, data={})
        time.sleep(2)
        return str(moment)

    converted = world.new()
    world.names += [
        ("localhost:27017", address), ("/etc/quarry/backup.password", world.place("password")), ("/backups/db1", repository),
        ("--dbpath /var/lib/restored", lambda: f"--memory 256M --dbpath {world.new()}"), ("--dbpath /tmp/yesterday", lambda: f"--memory 256M --dbpath {world.new()}"),
        ("--port 27018", "--port 0"), ("20261124T230000.000Z", newest), ("/var/tmp/drill", world.new), ("2026-11-26T14:05:00Z", second),
        ("--from DIR", lambda: f"--from {stopped(world)}"), ("NEWDIR --storageEngine lmdb", f"{converted} --storageEngine lmdb"),
        ("quarry serve ", "quarry serve --port 0 --memory 256M "), ("/etc/quarry.key", world.place("key")),
        ("--dbpath /var/lib/quarry", lambda: f"--memory 256M --dbpath {stopped(world)}"), ("--dbpath DIR", lambda: f"--dbpath {world.new()}"),
    ]
    for block in blocks:
        run_block(world, *block)


def stopped(world):
    """A directory with data and without a server."""
    address = world.serve()
    MongoClient(f"mongodb://{address}/", directConnection=True).d.c.insert_one({})
    child = world.running.pop()
    data = child.args[child.args.index("--dbpath") + 1]
    child.terminate()
    child.wait(30)
    return data


def migration(world, blocks):
    """Sources and targets with users; each section has a pair of its own."""
    secret = world.place("secret")
    Path(secret).write_text("secret\n")
    pair = {}

    def fresh_pair(*options):
        pair["source"], pair["target"] = world.serve("--auth", *options), world.serve("--auth", *options)
        for which in ("source", "target"):
            user(pair[which], "root", "secret", ["root"])
        login = "root:secret"
        user(pair["source"], "mover", "secret", ["readAnyDatabase", "clusterMonitor", "clusterManager", "backup", "root"], login)
        orders = MongoClient(f"mongodb://{login}@{pair['source']}/", directConnection=True).shop.orders
        orders.insert_many([{"_id": n, "total": n} for n in range(50)])

    def reversed_source():
        """What section 7 is about: a source that is fed from its target."""
        if "reversed" not in pair:
            fresh_pair()
            pair["reversed"] = pair["source"]
            world.start(
                f"quarry follow mongodb://mover@{pair['source']}/ --sourcePasswordFile {secret} --to mongodb://root@{pair['target']}/ "
                f"--targetPasswordFile {secret} --reverse", "applied|follow"
            )
            world.run(f"quarry follow cutover --to mongodb://root:secret@{pair['target']}/ --source-is-quiet")
            time.sleep(2)
        return f"mongodb://root:secret@{pair['reversed']}/"

    fresh_pair()
    world.names += [
        ('"$SOURCE"', reversed_source), ("source.example.com:27017", lambda: pair["source"]), ("/etc/source-password", secret), ("/etc/target-password", secret),
        ("first.example.com:27017", lambda: pair["source"]), ("second.example.com:27018", lambda: pair["target"]), ("localhost:27018", lambda: pair["target"]),
        ("--dbpath /var/lib/quarry --port 27018", lambda: f"--port 0 --memory 256M --dbpath {world.new()}"),
    ]
    for line, language, code in blocks:
        if "--standby" in code:
            fresh_pair()
        run_block(world, line, language, code)


def tutorial(world, blocks):
    """Python, in one go; a value that the page shows is compared."""
    address = world.serve()
    names = {}
    for line, language, code in blocks:
        code = code.replace("mongodb://127.0.0.1:27017", f"mongodb://{address}")
        tree = ast.parse(code)
        for node in tree.body:
            piece = ast.get_source_segment(code, node)
            shown = code.split("\n")[node.end_lineno : node.end_lineno + 1]
            try:
                if isinstance(node, ast.Expr):
                    value = eval(piece, names)  # noqa: S307
                    if shown and shown[0].startswith("# ["):
                        expected = ast.literal_eval(shown[0][2:])
                        if value != expected:
                            fail(f"docs/tutorial.md:{line}: {piece}\nis {value}, the page shows {expected}")
                else:
                    exec(compile(ast.Module([node], []), "docs/tutorial.md", "exec"), names)  # noqa: S102
            except Exception as e:  # noqa: BLE001
                fail(f"docs/tutorial.md:{line}: {piece}\n{type(e).__name__}: {e}")
            world.ran += 1


def cached(pattern):
    """The newest folder or file of the tests of clients that matches; None where they did not run."""
    roots = [Path(os.environ.get("QUARRY_CACHE", Path.home() / ".cache/quarry")), Path.home() / ".m2/repository/org/mongodb"]
    found = [path for root in roots for path in root.glob(pattern)]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def programs(world):
    """How a program of a language is run; a language whose driver is not there is missing."""
    how = {"python": ("quick.py", [sys.executable, "quick.py"], {})}
    modules = cached("clients/node-*/node_modules/mongodb")
    if modules and shutil.which("node"):
        how["javascript"] = ("quick.cjs", ["node", "quick.cjs"], {"NODE_PATH": str(modules.parent)})
    if shutil.which("go") and (Path.home() / "go/pkg/mod/cache/download/go.mongodb.org/mongo-driver/v2").is_dir():
        for name in ("go.mod", "go.sum"):
            shutil.copy(ROOT / "tests/clients/go" / name, world.folder)
        # Below the scratch folder's HOME the modules would be fetched again.
        how["go"] = ("quick.go", ["go", "run", "quick.go"], {"HOME": str(Path.home()), "GOFLAGS": "-mod=mod", "GOPROXY": "off"})
    driver = cached("mongodb-driver-sync/*/mongodb-driver-sync-*.jar")
    if driver and shutil.which("java"):
        version = driver.parent.name
        jars = [cached(f"{part}/{version}/{part}-{version}.jar") for part in ("mongodb-driver-core", "bson", "bson-record-codec")]
        if all(jars[:2]):
            classes = ":".join(str(jar) for jar in (driver, *jars) if jar)
            how["java"] = ("Quick.java", ["java", "-cp", classes, "Quick.java"], {})
    return how


def rust(address, code, line):
    """What the example prints that the page shows; None where it was not compiled."""
    example = ROOT / "crates/server/examples/quickstart.rs"
    if code.strip() != example.read_text().split("\n\n", 1)[1].strip():
        fail(f"docs/quickstarts.md:{line}: the page does not show {example}")
    compiled = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug/examples/quickstart"
    if not compiled.exists():
        return None
    return subprocess.run([compiled, f"mongodb://{address}"], capture_output=True, text=True, timeout=60, check=True).stdout


def quickstarts(world, blocks):
    """Each program is run, and what it prints compared with the block behind it."""
    address = world.serve()
    how, printed = programs(world), None
    for line, language, code in blocks:
        if language == "sh":
            run_block(world, line, language, code.replace("127.0.0.1:27017", address))
        elif language == "text":
            if printed is not None and printed.strip() != code.strip():
                fail(f"docs/quickstarts.md:{line}: the page shows\n{code}\nprinted was\n{printed}")
        elif language in how:
            file, command, more = how[language]
            (world.folder / file).write_text(code.replace("127.0.0.1:27017", address))
            done = subprocess.run(command, capture_output=True, text=True, env={**world.environment, **more}, cwd=world.folder, timeout=300)
            if done.returncode != 0:
                fail(f"docs/quickstarts.md:{line}: {done.stdout}{done.stderr}")
            printed = done.stdout
            world.ran += 1
        else:
            printed = rust(address, code, line) if language == "rust" else None
            world.ran, world.skipped = world.ran + (printed is not None), world.skipped + (printed is None)


def faq(world, blocks):
    """What is refused is compared with the line that the page shows behind the command."""
    address = world.serve()
    data, refused = world.running[-1].args, None
    data = data[data.index("--dbpath") + 1]
    of_mongod = world.new()
    os.mkdir(of_mongod)
    Path(of_mongod, "WiredTiger").touch()
    world.names += [("/var/lib/mongodb", of_mongod), ("/var/lib/quarry", data), ("./stopped", lambda: stopped(world))]
    for line, language, code in blocks:
        if language == "text":
            shown, said = world.translated(code).strip(), (refused or "").strip()
            if shown not in said:
                fail(f"docs/faq.md:{line}: the page shows\n{shown}\nsaid was\n{said}")
        elif language == "sh" and code.startswith("quarry serve"):
            done = subprocess.run(["bash", "-c", world.translated(code)], capture_output=True, text=True, env=world.environment, cwd=world.folder, timeout=60)
            refused = done.stderr if done.returncode != 0 else fail(f"docs/faq.md:{line}: {code} was not refused")
            world.ran += 1
        else:
            run_block(world, line, language, code)


def plain(world, blocks):
    world.names += [("quarry serve --dbpath ./data", "quarry serve --port 0 --memory 256M --dbpath ./data")]
    for block in blocks:
        run_block(world, *block)


def run_block(world, line, language, code):
    if language != "sh":
        return
    for command in commands(code):
        if shell(world, command):
            world.ran += 1
        else:
            world.skipped += 1


HOW = {"docs/quickstarts.md": quickstarts, "docs/faq.md": faq, "docs/operations.md": operations, "docs/migration.md": migration, "docs/tutorial.md": tutorial}


def main():
    pages = sys.argv[1:] or PAGES
    for page in pages:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="quarry-docs-") as folder:
            world = World(folder)
            try:
                HOW.get(page, plain)(world, list(blocks((ROOT / page).read_text())))
            finally:
                world.end()
        print(f"docs: {page}: {world.ran} commands passed, {world.skipped} skipped, {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
