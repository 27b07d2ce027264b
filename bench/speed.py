#!/usr/bin/env python3
"""Ondol beside a peer, in turn, medians: one table, one JSON, plots.

    bench/speed.py --peer-python PYTHON --peer-script llamacpp.py --suite quick
    bench/speed.py --models a.gguf folder --suite full -r 5 --update-readme

bench/README.md says what is measured and what the columns mean. Stop it with Ctrl-C and run it again: what was measured
for the same commit and CPU is not measured twice.
"""

import argparse
import os
import pathlib
import subprocess
import sys

import models as model_maker
from harness import jobs, machine, measure, options, plots, report
from harness.results import Results

ROOT = machine.ROOT
README = ROOT / "bench/README.md"
KEPT = ROOT / "bench/results"


class Progress:
    """One line on a terminal; nothing elsewhere."""

    def __init__(self, total):
        self.total, self.count, self.what = total, 0, ""
        self.shown = sys.stderr.isatty()

    def begin(self, what):
        self.count += 1
        self.what = what

    def __call__(self, detail):
        if self.shown:
            sys.stderr.write(f"\r\033[K[{self.count}/{self.total}] {self.what}: {detail}")
            sys.stderr.flush()

    def say(self, message):
        """A message that stays."""
        sys.stderr.write(("\r\033[K" if self.shown else "") + message + "\n")

    def end(self):
        if self.shown:
            sys.stderr.write("\r\033[K")


def model_files(args):
    """Files, and the *.gguf of folders; by default what ./test fetched and the cache of bench/models.py."""
    given = args.models or [ROOT / "build/models", model_maker.default_folder()]
    found = []
    for path in given:
        if path.is_dir():
            found += sorted(path.glob("*.gguf"))
        elif path.is_file():
            found.append(path)
        elif args.models:
            raise ValueError(f"{path} is neither a file nor a folder")
    if args.make_model:
        made = model_maker.make(args.make_model, args.make_python, model_maker.default_folder())
        found += [path for path in made if path not in found]
    twice = {path.stem for path in found if sum(other.stem == path.stem for other in found) > 1}
    if twice:
        raise ValueError(f"results are known by the model's file name, and these come twice: {', '.join(sorted(twice))}")
    if not found:
        raise ValueError("there is no model to measure: name files or folders with --models, or see bench/models.py")
    return found


def identity(args, job, model, about):
    """What a record belongs to: the same again need not be measured."""
    return {
        "cpu": about["machine"]["cpu"],
        "threads": args.threads,
        "forced_isa": os.environ.get("ONDOL_ISA", ""),
        "model": model.stem,
        "file_bytes": model.stat().st_size,
        "commit": about["product"]["commit"],
        "peer_name": about["peer"]["name"] if about["peer"] else None,
        "test": job.name,
        "kind": job.kind,
        "tokens": job.tokens,
        "depth": job.depth,
        "kv": job.kv,
        "shape": list(job.batches),
        "date": machine.today(),
    }


def minutes_expected(job, model, results, base):
    """Minutes that one run of the slower side takes to fill the cache, from its prefill rate; 0 where it is not known."""
    known = results.find({**base, "model": model.stem, "test": "prefill-512"})
    if known is None or "error" in known:
        return 0
    rates = [side["median"] for side in (known["ours"], known["peer"]) if side]
    return (job.depth + (job.tokens if job.kind == "prefill" else 0)) / min(rates) / 60


def measure_all(args, todo, results, about, own, peer):
    """Runs the jobs that are missing; every record is saved at once. The number of failures."""
    progress, failures = Progress(len(todo)), 0
    for model, job in todo:
        base = identity(args, job, model, about)
        progress.begin(f"{model.stem} {job.name}")
        with_peer = peer is not None and not job.own_only
        if not args.again and results.is_done(base, args.rounds, with_peer):
            continue
        expected = minutes_expected(job, model, results, base)
        if expected > args.limit:
            progress.say(f"{model.stem} {job.name}: left out, a run would take {expected:.1f} minutes (--limit {args.limit:g})")
            continue
        base["quant"] = machine.quantisation(args.program, model)
        try:
            results.put({**base, **measure.measure(job, model, own, peer, args.rounds, progress)})
        except measure.RunFailed as error:
            failures += 1
            results.put({**base, "error": str(error)})
            progress.say(f"{model.stem} {job.name}: {error}")
        results.save(about)
    progress.end()
    return failures


def write_reports(args, results, about, order):
    """Table and plots beside the JSON; with --update-readme also into bench/."""
    mine = results.of(about["machine"]["cpu"], args.threads, os.environ.get("ONDOL_ISA", ""), order)
    drawn = []
    if plots.available():
        drawn = plots.draw(mine, args.out)
    else:
        print("no plots: matplotlib is not installed; build/venv, which ./test makes, has it", file=sys.stderr)
    text = report.markdown(about, mine, drawn)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "speed.md").write_text(text, encoding="utf-8")
    results.save(about)
    if args.update_readme:
        KEPT.mkdir(exist_ok=True)
        for name in [*drawn, "speed.json"]:
            (KEPT / name).write_bytes((args.out / name).read_bytes())
        text = report.markdown(about, mine, [f"results/{name}" for name in drawn])
        report.update_between_markers(README, text)
    return text


def about_this_run(args):
    version = subprocess.run([str(args.program), "--version"], capture_output=True, text=True).stdout.split()
    peer = None
    if args.peer_script:
        peer = {"name": args.peer_name or machine.peer_name(args.peer_script)}
    return {
        "machine": machine.facts(args.threads),
        "product": {"version": version[-1] if version else "unknown", "commit": machine.commit()},
        "peer": peer,
    }


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add, path = parser.add_argument, pathlib.Path
    add("--models", nargs="+", type=path, default=[], help="files, or folders with *.gguf")
    add("--suite", choices=["quick", "full"], default="quick")
    add("--tests", default=",".join(jobs.KINDS), help="kinds to measure (default: %(default)s)")
    add("-r", "--rounds", type=int, default=3, help="rounds, each a run of Ondol and one of the peer (default: 3)")
    add("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: the usable processors")
    add("--out", type=path, default=ROOT / "build/results", help="folder for speed.json, speed.md and plots")
    add("--program", type=path, default=ROOT / "build/release/ondol")
    add("--peer-python", help="the Python that runs the peer's script")
    add("--peer-script", type=path, help="takes `bench MODEL -p N -n N --depth D -t T -r 1`, prints JSON with pp and tg")
    add("--peer-name", help='name and version of the peer, like "llama.cpp v0.5.0" (default: from the script)')
    add("--make-model", type=path, help="make missing random-weight models with this tool first (see bench/models.py)")
    add("--make-python", default=sys.executable, help="the Python that runs it")
    add("--limit", type=float, default=10, help="minutes that one run may take; longer ones are left out (default: 10)")
    add("--again", action="store_true", help="measure what is in the results already, too")
    add("--report-only", action="store_true", help="measure nothing, write the reports from the results")
    add("--update-readme", action="store_true", help="also put table, plots and JSON into bench/")
    args = parser.parse_args(arguments)
    args.kinds = args.tests.split(",")
    unknown = set(args.kinds) - set(jobs.KINDS)
    if unknown:
        parser.error(f"--tests knows {', '.join(jobs.KINDS)}, not {', '.join(sorted(unknown))}")
    options.check(parser, args, [args.make_model])
    return args


def main(arguments=None):
    args = parse(arguments)
    interrupted, failures = False, 0
    try:
        about = about_this_run(args)
        results = Results(args.out / "speed.json")
        files = [] if args.report_only else model_files(args)
        if machine.is_stale(args.program):
            print(f"warning: {args.program.name} is older than its sources; build it again", file=sys.stderr)
        limit_s = args.limit * 60
        own = measure.Side("Ondol", [args.program], args.threads, limit_s)
        peer = None
        if args.peer_script:
            peer = measure.Side(about["peer"]["name"], [args.peer_python, args.peer_script], args.threads, limit_s, True)
        todo = [(model, job) for model in files for job in jobs.suite(args.suite, args.kinds)]
        try:
            failures = measure_all(args, todo, results, about, own, peer)
        except KeyboardInterrupt:
            interrupted = True
            print("\ninterrupted: what was measured is kept", file=sys.stderr)
        print(write_reports(args, results, about, [model.stem for model in files]), end="")
    except (ValueError, RuntimeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 130 if interrupted else int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
