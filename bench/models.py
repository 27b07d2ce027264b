#!/usr/bin/env python3
"""Makes the random-weight models of the benchmarks where they are missing: real shapes, no meaning.

    bench/models.py --make-model TOOL [--python PYTHON] [--out FOLDER] [llama-1b:Q4_K ...]

TOOL is a script that takes --preset NAME --quant TYPE OUT and writes a GGUF file. Prints the paths, one a line. A file
appears under its name only when it is whole.
"""

import argparse
import os
import pathlib
import subprocess
import sys

MODELS = ("llama-1b:Q4_0", "llama-1b:Q4_K", "llama-1b:Q5_K", "llama-1b:Q6_K", "llama-1b:Q8_0", "llama-8b:Q4_K")


def default_folder():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ondol-bench"


def make(tool, python, folder, names=MODELS):
    """The paths of the models, made where missing. RuntimeError where the tool fails."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in names:
        preset, _, quant = name.partition(":")
        if not preset or not quant:
            raise RuntimeError(f"'{name}' is no model; write PRESET:TYPE, like {MODELS[0]}")
        path = folder / f"{preset}-{quant}.gguf"
        paths.append(path)
        if path.exists():
            continue
        if sys.stderr.isatty():
            print(f"making {path.name} ...", file=sys.stderr)
        part = folder / f".{path.name}.part"
        done = subprocess.run(
            [python, tool, "--preset", preset, "--quant", quant, part], stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if done.returncode != 0 or not part.exists():
            part.unlink(missing_ok=True)
            last = (done.stderr.strip().splitlines() or ["it wrote no file"])[-1]
            raise RuntimeError(f"{tool} could not make {name}: {last}")
        os.replace(part, path)
    return paths


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(MODELS), help="PRESET:TYPE (default: %(default)s)")
    parser.add_argument("--make-model", required=True, type=pathlib.Path, help="the tool that writes a model")
    parser.add_argument("--python", default=sys.executable, help="the Python that runs it (default: this one)")
    parser.add_argument("--out", type=pathlib.Path, default=default_folder(), help="default: %(default)s")
    args = parser.parse_args(arguments)
    try:
        for path in make(args.make_model, args.python, args.out, args.names):
            print(path)
    except (RuntimeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
