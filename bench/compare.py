#!/usr/bin/env python3
"""Ondol beside a peer: alternates A B A B, takes medians, prints a Markdown table (and JSON with --json).

    bench/compare.py --peer "PYTHON llamacpp.py bench" MODEL.gguf [MODEL.gguf ...] [-p 512] [-n 128] [-t 2] [-r 5]

The peer is any command that takes MODEL -p N -n N -t N -r 1 and prints a JSON object with "pp" and "tg" as its last line,
as `ondol bench speed --json` does. Run it on a quiet machine: what else runs is in the figures.
"""

import argparse
import json
import pathlib
import platform
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def last_json(command):
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out.strip().splitlines()[-1])


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def compare(model, arguments, peer, rounds):
    ours, theirs = [], []
    for _ in range(rounds):
        own = [str(ROOT / "build/release/ondol"), "bench", "speed", model, *arguments, "-r", "1", "--json"]
        ours.append(last_json(own))
        theirs.append(last_json([*peer, model, *arguments, "-r", "1"]))
    middle = {}
    for name, runs in (("ondol", ours), ("peer", theirs)):
        for figure in ("pp", "tg"):
            values = [run[figure][0] for run in runs if run[figure]]
            middle[f"{name}_{figure}"] = statistics.median(values) if values else None
    middle["isa"] = ours[0]["isa"]
    middle["share_of_bandwidth"] = statistics.median(run["share_of_bandwidth"] for run in ours)
    return middle


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--peer", required=True, help="the peer's command, up to the model")
    parser.add_argument("-p", default="512")
    parser.add_argument("-n", default="128")
    parser.add_argument("-t", default="2")
    parser.add_argument("-r", type=int, default=5, help="rounds")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = {}
    for model in args.models:
        arguments = ["-p", args.p, "-n", args.n, "-t", args.t]
        rows[pathlib.Path(model).stem] = compare(model, arguments, args.peer.split(), args.r)
    if args.json:
        print(json.dumps({"cpu": cpu_name(), "threads": int(args.t), "models": rows}))
        return
    print(f"{cpu_name()}, {args.t} threads, prefill {args.p}, decode {args.n}, medians of {args.r} alternating runs\n")
    print("| model | ISA | prefill | peer | ratio | decode | peer | ratio | share of bandwidth |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, m in rows.items():
        prefill = f"{m['ondol_pp']:.0f} | {m['peer_pp']:.0f} | {m['ondol_pp'] / m['peer_pp']:.2f}"
        decode = f"{m['ondol_tg']:.0f} | {m['peer_tg']:.0f} | {m['ondol_tg'] / m['peer_tg']:.2f}"
        print(f"| {name} | {m['isa']} | {prefill} | {decode} | {m['share_of_bandwidth']:.0%} |")


if __name__ == "__main__":
    main()
