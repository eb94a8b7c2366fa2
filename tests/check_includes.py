#!/usr/bin/python3
"""Includes under src/ point the way the modules do: towards what a module may use, never back.

    check_includes.py               proves on a small tree that it catches offences, then reads src/
    check_includes.py --self-test   the first alone

Each offence is a line "file:line: what is wrong"; the exit status is then 1.
"""

import pathlib
import re
import sys
import tempfile

SUPPORT = {"sys", "base"}
BELOW_RUN = {"sandbox", "docker", "remote", "image", "history", "language"}
# What transports may see: run, and the data it hands out; the ways to run something are run's own business.
ABOVE_RUN = {"run", "config", "image", "history", "language"} | SUPPORT

# Folder: the folders whose headers it may include besides its own.
MAY_USE = {
    "base": set(),
    "sys": {"base"},
    "config": {"base"},
    "language": {"config"} | SUPPORT,  # its limits are written and bounded as the tunables are
    "history": SUPPORT,
    "image": SUPPORT,
    "sandbox": SUPPORT,
    "sandbox/spawner": {"sandbox"} | SUPPORT,
    "sandbox/filter": set(),  # a tool of the build
    "docker": SUPPORT,
    "remote": SUPPORT,
    "run": BELOW_RUN | {"config"} | SUPPORT,
    "mcp": ABOVE_RUN,
    "http": ABOVE_RUN | {"mcp"},
    "control": {"run"} | SUPPORT,
    "cli": ABOVE_RUN | {"mcp", "http", "control"},
    "cli/image": ABOVE_RUN | {"cli"},
    "main": None,  # anything
}

# (file or file name, header): why it may point the other way.
EXCEPTIONS = {
    ("main.c", "main/main.h"): "the entry points, declared once for the programs that call them",
    ("src/sandbox/spawner_start.c", "sandbox/spawner/start.h"):
        "descriptor numbers that both ends of an exec agree on",
}

# Made by the build, for the folder that includes it.
GENERATED = {"sandbox_filters.h": "sandbox/spawner"}

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def fault_of(root, folder, file, header, quoted):
    """What is wrong with one include, or None."""
    if GENERATED.get(header) == folder:
        return None
    target = root / "src" / header
    if not quoted and not target.is_file():
        return None  # the system's
    if pathlib.PurePosixPath(header).is_absolute() or ".." in pathlib.PurePosixPath(header).parts:
        return f'"{header}" is not a path from src/ on'
    if not target.is_file():
        return f'"{header}" is no file under src/: write the path from there on'
    if not quoted:
        return f"<{header}> is a header of ours: write it in quotes"
    if (file, header) in EXCEPTIONS or (pathlib.PurePosixPath(file).name, header) in EXCEPTIONS:
        return None
    used = str(pathlib.PurePosixPath(header).parent)
    allowed = MAY_USE[folder]
    if used == folder or allowed is None or used in allowed:
        return None
    return f'"{header}" points against the modules: {folder} may use {", ".join(sorted(allowed)) or "nothing"}'


def check(root):
    """All offences in the tree at root, and the number of files read."""
    offences = []
    files = sorted(p for p in (root / "src").rglob("*") if p.suffix in (".c", ".h"))
    for path in files:
        file = path.relative_to(root).as_posix()
        folder = path.parent.relative_to(root / "src").as_posix()
        if folder not in MAY_USE:
            offences.append(f"{file}:1: the folder src/{folder} has no rule: add it to tests/check_includes.py")
            continue
        text = path.read_text(encoding="utf-8")
        # Lines keep their numbers.
        text = COMMENT.sub(lambda match: "\n" * match.group().count("\n"), text)
        for number, line in enumerate(text.split("\n"), 1):
            match = INCLUDE.match(line)
            if match is None:
                continue
            quoted, header = match.group(1) is not None, match.group(1) or match.group(2)
            fault = fault_of(root, folder, file, header, quoted)
            if fault is not None:
                offences.append(f"{file}:{number}: {fault}")
    return offences, len(files)


SELF_TEST = {
    "src/base/error.h": "#pragma once\n#include <stdarg.h>\n",
    "src/base/error.c": '#include "base/error.h"\n#include "sys/calls.h"\n',  # 2: base uses nothing
    "src/sys/calls.h": '#include "base/error.h"\n/* a comment of\n two lines */ \n#include "run/run.h"\n',  # 4
    "src/config/config.h": '#include "base/error.h"\n',
    "src/image/store.h": '#include "sandbox/plan.h"\n',  # 1: images know no sandboxes
    "src/sandbox/plan.h": '#include "base/error.h"\n',
    "src/sandbox/plan.c": '#include "config/config.h"\n',  # 1: read at the top, handed down
    "src/sandbox/spawner/main.c": '#include "main/main.h"\n#include "sandbox/plan.h"\n',
    "src/sandbox/spawner/init.c": '#include "sandbox_filters.h"\n# include "image/store.h"\n',  # 2
    "src/run/run.h": '#include "config/config.h"\n#include "sandbox/plan.h"\n',
    "src/run/run.c": '#include "run/run.h"\n#include "sandbox/spawner/x.h"\n',  # 2: no such file
    "src/mcp/tools.c": '#include "run/run.h"\n#include "sandbox/plan.h"\n',  # 2: run's own business
    "src/mcp/odd.c": '#include "../run/run.h"\n#include <run/run.h>\n#include "tools.h"\n',  # 1, 2, 3
    "src/cli/main.c": '#include "main/main.h"\n#include "run/run.h"\n//#include "sandbox/plan.h"\n',
    "src/cli/verb.c": '#include "main/main.h"\n',  # 1: only main.c
    "src/main/main.h": "",
    "src/main/all.c": '#include "sandbox/plan.h"\n#include "run/run.h"\n',
    "src/new/thing.c": '#include "base/error.h"\n',  # no rule
}
SELF_TEST_OFFENCES = [
    "src/base/error.c:2", "src/cli/verb.c:1", "src/image/store.h:1", "src/mcp/odd.c:1", "src/mcp/odd.c:2",
    "src/mcp/odd.c:3", "src/mcp/tools.c:2", "src/new/thing.c:1", "src/run/run.c:2", "src/sandbox/plan.c:1",
    "src/sandbox/spawner/init.c:2", "src/sys/calls.h:4",
]


def self_test():
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for file, text in SELF_TEST.items():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(text, encoding="utf-8")
        offences, count = check(root)
        found = [":".join(offence.split(":", 2)[:2]) for offence in offences]
        if found != SELF_TEST_OFFENCES or count != len(SELF_TEST):
            print("check_includes.py does not catch what it should; it found:", *offences, sep="\n")
            return False
    return True


def main(arguments):
    if arguments not in ([], ["--self-test"]):
        print(__doc__)
        return 2
    if not self_test():
        return 1
    if arguments:
        print(f"{len(SELF_TEST_OFFENCES)} offences of the self-test caught")
        return 0
    offences, count = check(pathlib.Path(__file__).resolve().parent.parent)
    print(*offences, sep="\n", end="\n" if offences else "")
    if count == 0:
        print("no files under src/: has the tree moved?")
        return 1
    if not offences:
        print(f"{count} files include in the direction of the modules")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
