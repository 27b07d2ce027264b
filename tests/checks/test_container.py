"""The container's image: what its build is given, and what it does when started without words."""

import json
import re
import shutil
import subprocess

from pysupport import places


def context():
    """The names that .dockerignore lets through."""
    lines = (places.ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines, "everything else is left out"
    return [line[1:] for line in lines if line.startswith("!")]


def test_what_cmake_needs_is_in_the_context(tmp_path):
    for name in context():
        source = places.ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("target", "__pycache__"))
        elif source.is_file():
            shutil.copy(source, tmp_path / name)
    done = subprocess.run(
        ["cmake", "--preset", "release", "-DONDOL_TESTS=OFF"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_the_default_command_exists():
    text = (places.ROOT / "Dockerfile").read_text()
    command = json.loads(re.search(r"^CMD (\[.*\])$", text, re.MULTILINE)[1])
    commands = re.findall(r"app::add_(\w+)", (places.ROOT / "apps/main.cc").read_text())
    assert len(commands) > 10
    assert command[0] in ("--help", *commands), f"ondol has no command {command[0]}"
