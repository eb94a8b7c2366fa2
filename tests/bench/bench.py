#!/usr/bin/env python3
"""Arranges the benchmark and prints its tables; measure.c does the timing.

Every pass measures each way of running each workload once, in turn, so that what else the machine does falls on
all alike. A figure is the median of all runs of all passes; a ratio is against bare exec of the same workload.
"""

import argparse
import hashlib
import io
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import support  # noqa: E402

HELLO_PY = "print('hello')\n"
HELLO_CPP = """#include <iostream>
#include <numeric>
#include <vector>
int main()
{
        std::vector<int> numbers(10);
        std::iota(numbers.begin(), numbers.end(), 1);
        std::cout << std::accumulate(numbers.begin(), numbers.end(), 0) << "\\n";
}
"""
GPP = ["g++", "-std=c++17", "-O2", "/scratch/snippet.cpp", "-o", "/scratch/a.out"]

# name: (title, language, image references, source file, its text, programs run, runs a pass)
WORKLOADS = {
    "trivial": ("a static program that exits", "bench-trivial", ["bench/trivial:latest"], "snippet.txt", "x\n",
                [["/usr/bin/trivial"]], 20),
    "python": ("Python hello", "python", None, "snippet.py", HELLO_PY, [["python", "/scratch/snippet.py"]], 6),
    "cpp": ("C++ hello, compiled and run", "cpp", None, "snippet.cpp", HELLO_CPP, [GPP, ["/scratch/a.out"]], 1),
}
BARE = "bare exec in a chroot"
LAUNCH = "resident server: launch to end"
INSIDE = "resident server: whole run"
ANSWER = "resident server: request to answer"
ONESHOT = "one command (run)"
BWRAP = "bubblewrap with a filter"
WAYS = (BARE, LAUNCH, INSIDE, ANSWER, ONESHOT, BWRAP)
AT_ONCE = (1, 2, 8)
TARGETS = {"trivial": 4.0, "python": 1.25}


def write_image(layout, tree, program, reference):
    """An OCI layout of one layer: the tree with the program in it."""
    blobs = layout / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def keep(content, kind):
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        layer.add(tree, ".")
        layer.add(program, "./usr/bin/" + program.name)
    layer = keep(buffer.getvalue(), "layer.v1.tar")
    config = keep(json.dumps({"architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
                              "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}).encode(),
                  "config.v1+json")
    manifest = keep(json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
                                "layers": [layer]}).encode(), "manifest.v1+json")
    manifest["annotations"] = {"org.opencontainers.image.ref.name": reference}
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


class Bench:
    """One identity: its directories, trees and language files."""

    def __init__(self, lab, identity, measure):
        self.runner = lab.runner(identity)
        self.identity = identity
        self.measure = measure
        self.stores = [Path(self.runner.env["SANDBOX_RUNNER_IMAGES_LOWER_STORE"]),
                       self.runner.place / "data" / "sandbox-runner" / "images"]
        self.bring_trivial()
        languages = self.runner.place / "languages"
        languages.mkdir()
        (languages / "bench-trivial.json").write_text(json.dumps({
            "description": "A program that exits", "image": WORKLOADS["trivial"][2][0], "extensions": [".txt"],
            "source": "snippet.txt", "run": WORKLOADS["trivial"][5][0]}))
        catalogue = Path(self.runner.program).resolve().parents[1] / "images"
        self.runner.env["SANDBOX_RUNNER_LANGUAGES_DIRECTORIES"] = f"{catalogue}:{languages}"
        self.shared = self.runner.place / "shared"
        self.shared.mkdir()
        identity.own(self.shared)
        self.trees = {name: self.tree(work[1], work[2]) for name, work in WORKLOADS.items()}

    def bring_trivial(self):
        """The image of the static program: the minimal one with it added, imported as any other."""
        layout = self.runner.place / "trivial"
        write_image(layout, self.tree(None, ["sandbox-runner/minimal:latest"]), self.measure.parent / "trivial", WORKLOADS["trivial"][2][0])
        subprocess.run(["chmod", "-R", "a+rX", str(layout)], check=True)
        done = self.runner.run("image", "import", layout, "--name", WORKLOADS["trivial"][2][0])
        if done.code != 0:
            sys.exit(f"the image of the static program: {done!r}")

    def tree(self, language, references):
        """The unpacked root file system that the language's runs use."""
        if references is None:
            entry = json.loads((support.CHECKOUT / "images" / f"{language}.json").read_text())
            references = [entry["image"], *entry.get("fallback_images", [])]
        known = {}
        for store in self.stores:
            for path in (store / "refs").glob("*.json"):
                ref = json.loads(path.read_text())
                known[ref["reference"]] = store / "trees" / ref["chain_id"] / "rootfs"
        for reference in references:
            if reference in known:
                return known[reference]
        sys.exit(f"none of {references} is in {self.stores}: sh tests/run.sh prepares the images")

    def command(self, way, name, count, at_once):
        """The call of measure for one way and workload."""
        _title, language, _images, source, text, programs, _runs = WORKLOADS[name]
        code = self.runner.place / f"original-{source}"
        if not code.exists():
            code.write_text(text)
        there = self.shared / source
        then = [["--then", *program] for program in programs[1:]]
        if way == BARE:
            return ["spawn", count, at_once, "--root", self.trees[name], "--file", code, f"/scratch/{source}", "--",
                    *programs[0], *sum(then, [])]
        if way == ANSWER:
            return ["server", count, at_once, "--language", language, "--code", code, "--vary", "--", self.runner.program]
        if way == ONESHOT:
            return ["spawn", count, at_once, "--file", code, there, "--", self.runner.program, "run", "-l", language, there]
        wrapper = ["bwrap", "--unshare-all", "--new-session", "--die-with-parent", "--cap-drop", "ALL", "--clearenv",
                   "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--ro-bind", self.trees[name], "/", "--proc", "/proc",
                   "--dev", "/dev", "--tmpfs", "/tmp", "--bind", self.shared, "/scratch", "--chdir", "/scratch", "--seccomp", "9"]
        rest = sum((["--then", *wrapper, *program] for program in programs[1:]), [])
        return ["spawn", count, at_once, "--filter", "--file", code, there, "--", *wrapper, *programs[0], *rest]

    def perform(self, way, name, count, at_once=1):
        """({way: [ms]} of this way and of what the server says of itself, runs a second)"""
        env = dict(self.runner.env, SANDBOX_RUNNER_SERVER_SLOTS=str(max(at_once, os.cpu_count())))
        done = subprocess.run([self.measure, *map(str, self.command(way, name, count, at_once))], env=env, cwd=self.runner.place,
                              capture_output=True, text=True, timeout=600, **self.identity.popen())
        if done.returncode != 0:
            sys.exit(f"{way}, {name}, as {self.identity.label}: {done.stderr[-2000:]}")
        runs = [[float(value) / 1000 for value in line.split()[1:]] for line in done.stdout.splitlines() if line.startswith("run ")]
        whole = float(done.stdout.split()[-1])
        ways = (way, LAUNCH, INSIDE) if way == ANSWER else (way,)
        return {each: [run[column] for run in runs] for column, each in enumerate(ways)}, count / whole * 1e6


def measured(bench, names, passes, share):
    """Interleaved passes: {(way, workload): [ms]} and {(way, workload, at once): [runs a second]}."""
    times, rates = {}, {}
    for number in range(passes):
        for name in names:
            runs = max(1, round(WORKLOADS[name][6] * share))
            for way in (BARE, ANSWER, ONESHOT, BWRAP):
                for at_once in AT_ONCE if name != "cpp" else (1,):
                    found, rate = bench.perform(way, name, runs * min(at_once, 4), at_once)
                    rates.setdefault((way, name, at_once), []).append(rate)
                    if at_once == 1:
                        for each, values in found.items():
                            times.setdefault((each, name), []).extend(values)
        print(f"pass {number + 1} of {passes} as {bench.identity.label}", file=sys.stderr, flush=True)
    return times, rates


def report(bench, names, times, rates):
    print(f"\nAs {bench.identity.label}, {os.cpu_count()} processors, kernel {platform.release()}; median ms (ratio to bare)")
    print(f"{'':36}" + "".join(f"{WORKLOADS[name][0]:>30}" for name in names))
    medians = {key: statistics.median(values) for key, values in times.items()}
    for way in WAYS:
        cells = (f"{medians[way, name]:.2f} ({medians[way, name] / medians[BARE, name]:.2f})" for name in names)
        print(f"{way:36}" + "".join(f"{cell:>30}" for cell in cells))
    both = [name for name in names if name != "cpp"]
    print("\nruns a second at " + ", ".join(map(str, AT_ONCE)) + " at once")
    for way in (BARE, ANSWER, ONESHOT, BWRAP):
        cells = (" / ".join(f"{statistics.median(rates[way, name, n]):.0f}" for n in AT_ONCE) for name in both)
        print(f"{way:36}" + "".join(f"{cell:>30}" for cell in cells))
    for name in (name for name in names if name in TARGETS):
        ratio = medians[LAUNCH, name] / medians[BARE, name]
        verdict = "met" if ratio <= TARGETS[name] else "missed"
        print(f"target for {WORKLOADS[name][0]}: at most {TARGETS[name]:g} times bare; {ratio:.2f}: {verdict}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--measure", required=True)
    parser.add_argument("--smoke", action="store_true", help="one short pass, to see that everything still works")
    parser.add_argument("--passes", type=int, default=8)
    parser.add_argument("--only", default=",".join(WORKLOADS))
    options = parser.parse_args()
    if not shutil.which("bwrap"):
        sys.exit("bubblewrap is not installed: apt-get install bubblewrap")
    names = options.only.split(",")
    passes, share = (1, 0.05) if options.smoke else (options.passes, 1)
    base = support.make_base()
    try:
        lab = support.Lab(base, support.find_program(), support.find_store())
        for name in ("measure", "trivial"):
            shutil.copy(Path(options.measure).parent / name, base / name)
            (base / name).chmod(0o755)
        for label in ("root", "user") if os.geteuid() == 0 else ("self",):
            bench = Bench(lab, lab.identity(label), base / "measure")
            report(bench, names, *measured(bench, names, passes, share))
        if os.geteuid() != 0:
            print("\nnot measured: as root (an ordinary user started this)")
    finally:
        shutil.rmtree(base, ignore_errors=True)


main()
