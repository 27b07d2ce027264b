"""Static analysis: clang-tidy 19 with .clang-tidy over every source file.

A file is looked at again only when it, a header of the project that it includes, its command or .clang-tidy changed: what was
clean is remembered in build/tidy. The commands are those of the clang preset, so that every flag is known.

The path-sensitive analyzer (clang-analyzer-*) takes three times as long as everything else together; ONDOL_TIDY=full runs it too.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import subprocess

import pytest

from pysupport import places

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
DATABASE = places.ROOT / "build/clang/compile_commands.json"
CLEAN = places.ROOT / "build/tidy"
LEFT_OUT = [] if os.environ.get("ONDOL_TIDY") == "full" else ["--checks=-clang-analyzer-*"]


def headers_of(path, seen):
    """The project's headers that `path` includes, directly or through others."""
    for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
        for place in (places.ROOT / "src" / name, places.ROOT / "tests" / name, path.parent / name):
            if place.is_file() and place not in seen:
                seen.add(place)
                headers_of(place, seen)
                break
    return seen


def fingerprint(entry):
    path = os.path.join(entry["directory"], entry["file"])
    digest = hashlib.sha256(f"{entry['command']} {LEFT_OUT}".encode())
    source = places.ROOT / path
    for part in [places.ROOT / ".clang-tidy", source, *sorted(headers_of(source, set()))]:
        digest.update(part.read_bytes())
    return digest.hexdigest()


def entries():
    ours = [places.ROOT / "src", places.ROOT / "apps", places.ROOT / "tests"]
    for entry in json.loads(DATABASE.read_text()):
        path = places.ROOT / entry["file"]
        if any(path.is_relative_to(folder) for folder in ours):
            yield entry


def tidy(entry):
    mark = CLEAN / fingerprint(entry)
    if mark.exists():
        return ""
    done = subprocess.run(
        ["clang-tidy-19", "--quiet", *LEFT_OUT, f"-p={DATABASE.parent}", entry["file"]], capture_output=True, text=True
    )
    if done.returncode == 0:
        mark.touch()
        return ""
    return "\n".join(line for line in done.stdout.splitlines() if re.search(r": (warning|error):", line)) or done.stderr[-2000:]


@pytest.mark.skipif(bool(os.environ.get("ONDOL_NO_TIDY")), reason="left out of the quick run")
def test_clang_tidy():
    assert shutil.which("clang-tidy-19"), "clang-tidy-19 is missing; ./test installs it"
    configured = subprocess.run(["cmake", "--preset", "clang"], cwd=places.ROOT, capture_output=True, text=True)
    assert configured.returncode == 0, configured.stderr
    CLEAN.mkdir(parents=True, exist_ok=True)
    workers = int(os.environ.get("ONDOL_JOBS") or os.cpu_count() or 1)
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        found = [text for text in pool.map(tidy, entries()) if text]
    assert not found, "\n".join(found).replace(f"{places.ROOT}/", "")
