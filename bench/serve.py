#!/usr/bin/env python3
"""Ondol's server beside a peer's under the same load, in turn, medians: one table, one JSON.

    bench/serve.py --model llama-1b.gguf --peer-python PEER/bin/python --peer-script server.py --suite full
    bench/serve.py --model smollm2.gguf --tests streams,agents -r 1

bench/README.md says what is measured and what the rows mean.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

from harness import machine, options, report, serving

ROOT = machine.ROOT
README = ROOT / "bench/README.md"
BEGIN = "<!-- serving: written by bench/serve.py --update-readme -->"
END = "<!-- end of serving -->"
OWN = ("serve", "{model}", "--port", "{port}", "--ctx", "{ctx}", "--parallel", "{parallel}", "--threads", "{threads}")
PEER = ("{model}", "--port", "{port}", "--ctx", "{total_ctx}", "--parallel", "{parallel}", "--threads", "{threads}")


def median(rounds, name):
    """Of what all rounds measured; None where one did not."""
    values = [figures.get(name) for figures in rounds]
    return statistics.median(values) if values and None not in values else None


def divided(one, other):
    return one / other if one is not None and other else None


def bound(rounds):
    """What eight streams cannot pass: eight times one, or the rate of reading."""
    single, prefill = median(rounds, "single_tps"), median(rounds, "prefill_tps")
    return None if single is None or prefill is None else min(serving.STREAMS * single, prefill)


# (what, unit, figure of the rounds of one side, whether more is better)
ROWS = {
    "streams": [
        ("one stream", "tokens/s", lambda r: median(r, "single_tps"), True),
        ("8 streams, together", "tokens/s", lambda r: median(r, "eight_tps"), True),
        ("8 streams ÷ min(8 × one, prefill)", "", lambda r: divided(median(r, "eight_tps"), bound(r)), True),
        ("prefill", "tokens/s", lambda r: median(r, "prefill_tps"), True),
    ],
    "prefix": [
        ("long prompt, first time: TTFT", "ms", lambda r: median(r, "cold_ttft_ms"), False),
        ("long prompt, again: TTFT", "ms", lambda r: median(r, "warm_ttft_ms"), False),
        ("first ÷ again", "", lambda r: divided(median(r, "cold_ttft_ms"), median(r, "warm_ttft_ms")), True),
    ],
    "agents": [
        ("agents: tokens from the cache", "share", lambda r: median(r, "agent_hit_rate"), True),
        ("agents: of what had been sent before", "share", lambda r: median(r, "agent_share"), True),
        ("agents: TTFT", "ms", lambda r: median(r, "agent_ttft_ms"), False),
    ],
    "mixed": [
        ("short answers alone: p99 TPOT", "ms", lambda r: median(r, "alone_tpot_p99_ms"), False),
        ("beside long prompts: p99 TPOT", "ms", lambda r: median(r, "mixed_tpot_p99_ms"), False),
        ("beside ÷ alone", "", lambda r: divided(median(r, "mixed_tpot_p99_ms"), median(r, "alone_tpot_p99_ms")), False),
        ("beside long prompts: p99 of the longest pause", "ms", lambda r: median(r, "mixed_pause_p99_ms"), False),
    ],
}


def shown(value, unit):
    return report.percent(value) if unit == "share" else report.number(value)


def markdown(data):
    about = data["machine"]
    ours, peer = data["ours"], data["peer"]
    lines = [
        f"- CPU: {about['cpu']}, {about['threads']} threads of {about['usable_cpus']} usable processors",
        f"- Model {data['model']}; suite `{data['suite']}`; {len(ours)} round{'s' if len(ours) != 1 else ''}, medians",
        f"- Ondol {data['product']['version']}, commit {data['product']['commit']}; {data['date']}",
        f"- Peer: {data['peer_name']}, in turn with Ondol" if peer else "- No peer was at hand: Ondol's own figures only.",
    ]
    rows = []
    for test in data["tests"]:
        for what, unit, figure, more in ROWS[test]:
            own, other = figure(ours), figure(peer) if peer else None
            ratio = divided(own, other) if more else divided(other, own)
            name = f"{what}, {unit}" if unit in ("tokens/s", "ms") else what
            rows.append([name, shown(own, unit), shown(other, unit), report.ratio(ratio)])
    table = report.table(["", "Ondol", "peer", "times better"], rows)
    failures = [f"- {side}: {text}" for side, text in data["failures"]]
    return "\n".join(lines) + "\n\n" + table + "\n" + ("\n" + "\n".join(failures) + "\n" if failures else "")


def measure_round(args, server, seed, failures):
    """All tests against one server, started for them; what fails leaves its figures out."""
    figures, sizes = {}, serving.SUITES[args.suite]
    try:
        with server.start(args.model, sizes, args.threads) as url:
            load = serving.Load(args.program, url, args.limit * 60)
            load.run(requests=1, p=32, n=64)  # the first steps are slower: weights are being packed
            for test in args.tests:
                print(f"{server.name}: {test}", file=sys.stderr)
                try:
                    figures.update(serving.TESTS[test](load, sizes, seed))
                except (serving.ServerFailed, subprocess.TimeoutExpired) as error:
                    failures.append((f"{server.name}, {test}", str(error).splitlines()[0]))
    except serving.ServerFailed as error:
        print(error, file=sys.stderr)
        failures.append((server.name, str(error).splitlines()[0]))
    return figures


def write(args, data):
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "serve.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    text = markdown(data)
    (args.out / "serve.md").write_text(text, encoding="utf-8")
    return text


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add, path = parser.add_argument, pathlib.Path
    add("--model", type=path, required=True, help="a GGUF file that both serve")
    add("--suite", choices=list(serving.SUITES), default="quick")
    add("--tests", default=",".join(serving.TESTS), help="what to measure (default: %(default)s)")
    add("-r", "--rounds", type=int, default=3, help="rounds, each with Ondol and then the peer (default: 3)")
    add("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: the usable processors")
    add("--out", type=path, default=ROOT / "build/results", help="folder for serve.json and serve.md")
    add("--program", type=path, default=ROOT / "build/release/ondol")
    add("--peer-python", help="the Python that runs the peer's script")
    add("--peer-script", type=path, help="takes MODEL --port N --ctx N (of all together) --parallel N --threads N")
    add(
        "--peer-command",
        help='instead: a command line, like "llama-server -m {model} --port {port} -c {total_ctx} -np {parallel}"',
    )
    add("--peer-name", default="llama-server", help="name and version of the peer (default: %(default)s)")
    add("--limit", type=float, default=10, help="minutes that one request may take (default: 10)")
    add("--update-readme", action="store_true", help="also put the table and the JSON into bench/")
    args = parser.parse_args(arguments)
    args.tests = args.tests.split(",")
    unknown = set(args.tests) - set(serving.TESTS)
    if unknown:
        parser.error(f"--tests knows {', '.join(serving.TESTS)}, not {', '.join(sorted(unknown))}")
    options.check(parser, args, [args.model])
    return args


def main(arguments=None):
    args = parse(arguments)
    servers = [serving.Server("Ondol", (str(args.program), *OWN))]
    if args.peer_script:
        servers.append(serving.Server(args.peer_name, (args.peer_python, str(args.peer_script), *PEER)))
    elif args.peer_command:
        servers.append(serving.Server(args.peer_name, tuple(args.peer_command.split())))
    version = subprocess.run([str(args.program), "--version"], capture_output=True, text=True).stdout.split()
    data = {
        "machine": machine.facts(args.threads),
        "product": {"version": version[-1] if version else "unknown", "commit": machine.commit()},
        "date": machine.today(),
        "model": args.model.stem,
        "suite": args.suite,
        "tests": args.tests,
        "peer_name": args.peer_name if len(servers) > 1 else None,
        "ours": [],
        "peer": [],
        "failures": [],
    }
    if machine.is_stale(args.program):
        print(f"warning: {args.program.name} is older than its sources; build it again", file=sys.stderr)
    try:
        for number in range(args.rounds):
            for side, server in zip(("ours", "peer"), servers, strict=False):
                data[side].append(measure_round(args, server, 100 * (number + 1), data["failures"]))
                write(args, data)
    except KeyboardInterrupt:
        print("\ninterrupted: what was measured is kept", file=sys.stderr)
        return 130
    text = write(args, data)
    print(text, end="")
    if args.update_readme:
        kept = ROOT / "bench/results"
        kept.mkdir(exist_ok=True)
        (kept / "serve.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        report.update_between_markers(README, text, BEGIN, END)
    return int(bool(data["failures"]))


if __name__ == "__main__":
    sys.exit(main())
