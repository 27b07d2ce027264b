"""`ondol serve` as OpenAI's own client for JavaScript sees it: npm/suite.mjs against real models."""

import os
import re
import shutil
import subprocess

import pytest
from serving import serve

from pysupport import places, program

SUITE = places.ROOT / "tests/e2e/npm"
QUESTION = "What is the capital of France?"


@pytest.fixture(scope="module")
def installed():
    """The suite with the client that its lock file names, in build/npm."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node and npm are not installed")
    folder = places.ROOT / "build/npm"
    folder.mkdir(parents=True, exist_ok=True)
    lock = (SUITE / "package-lock.json").read_bytes()
    done = folder / "installed.lock"
    if not done.is_file() or done.read_bytes() != lock:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(SUITE / name, folder)
        npm = subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True, timeout=300
        )
        assert npm.returncode == 0, f"npm could not install the client: is the network there?\n{npm.stderr[-2000:]}"
        done.write_bytes(lock)
    shutil.copy(SUITE / "suite.mjs", folder)
    return folder


@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_the_javascript_client(installed, name):
    model = places.real_model(name)
    if model is None:
        pytest.skip(f"{name} is not here")
    flags = ["--ctx", 2048]
    raw = [] if name == "smollm2" else ["--raw"]  # the other has no chat template
    expected = program.fine("run", model, "--temp", 0, "-p", QUESTION, "-n", 24, *raw, *flags, "--json").json["text"]
    with serve(model, *flags, "--parallel", 8) as server:
        environment = {
            **os.environ,
            "BASE_URL": server.base_url,
            "MODEL": name,
            "EXACT_TEXT": expected,
            "QUESTION": QUESTION,
            "CHAT": "no" if raw else "yes",
        }
        suite = subprocess.run(["node", "suite.mjs"], cwd=installed, capture_output=True, text=True, env=environment, timeout=600)
    assert suite.returncode == 0, suite.stdout[-6000:]
    counts = {word: int(number) for word, number in re.findall(r"(pass|skipped) (\d+)", suite.stdout)}
    assert counts["skipped"] == (2 if raw else 0), suite.stdout[-2000:]
    assert sum(counts.values()) == (SUITE / "suite.mjs").read_text().count('\ntest("'), suite.stdout[-2000:]
