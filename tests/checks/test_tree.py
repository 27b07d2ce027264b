"""Habits of the tree: sizes, words that do not belong, the first comment of headers, scripts."""

import re
import subprocess
import sys

import pytest

from pysupport import places

TEXT = (".cc", ".h", ".py", ".sh", ".md", ".txt", ".cmake", ".rs", ".toml", ".json", ".js", ".css", ".html", ".yml", ".c")
CODE = (".cc", ".h", ".py", ".rs", ".js")


def rel(path):
    return str(path.relative_to(places.ROOT))


def scripts():
    """Shell scripts, by name or first line."""
    found = []
    for path in places.tracked_files("", ".sh"):
        with open(path, "rb") as file:
            first = file.readline(80)
        if path.suffix == ".sh" or (first.startswith(b"#!") and b"sh" in first):
            found.append(path)
    return found


def lines_with(pattern, paths, skip=()):
    regex = re.compile(pattern)
    found = []
    for path in paths:
        if rel(path) in skip:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if regex.search(line):
                found.append(f"{rel(path)}:{number}: {line.strip()[:120]}")
    return found


def text_files():
    return [*places.tracked_files(*TEXT), *scripts()]


def test_no_file_is_large():
    large = [f"{rel(p)}: {p.stat().st_size >> 10} KiB" for p in places.tracked_files() if p.stat().st_size > 1 << 20]
    assert not large, f"nothing above 1 MiB belongs in the tree: {large}"


def test_no_weights_of_others():
    wrong = [
        rel(p)
        for p in places.tracked_files(".gguf", ".safetensors", ".whl", ".so", ".a", ".dll")
        if not p.is_relative_to(places.DATA)
    ]
    assert not wrong, f"models and binaries are not kept in the tree: {wrong}"


def test_source_files_are_short():
    long = [f"{rel(p)}: {n} lines" for p in places.tracked_files(*CODE) if (n := p.read_bytes().count(b"\n")) > 800]
    assert not long, long


def test_nothing_is_left_for_later():
    # Spelt in parts, so that this file does not find itself.
    words = "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X:", "not " + "implemented", "unimplemented" + "!"])
    assert not lines_with(rf"\b({words})", text_files())


def test_nothing_is_tied_to_one_machine():
    paths = "|".join(
        [
            "/ro" + "ot/",
            "/wo" + "rk/",
            "/ho" + "me/[a-z]",
            "/Us" + "ers/",
            "index" + "-url",
            r"\b10\.\d+\.\d+\.\d+",
            r"\b192\.168\.",
        ]
    )
    found = lines_with(paths, text_files(), skip={"rust/Cargo.lock", "docs/troubleshooting.md"})
    assert not found, "\n".join(found)


def test_tests_can_fail():
    empty = r"(EXPECT|ASSERT)_TRUE\((true|1)\)|(EXPECT|ASSERT)_EQ\((\w+), \3\)|assert Tr" + r"ue$|SUCCEED\(\)"
    assert not lines_with(empty, places.tracked_files(".cc", ".py"))


def test_skips_give_a_reason():
    assert not lines_with(r"GTEST_SKIP\(\);", places.tracked_files(".cc"))


@pytest.mark.parametrize("header", [rel(p) for p in places.tracked_files(".h") if rel(p).startswith("src/")])
def test_header_begins_with_its_thread_rule(header):
    text = (places.ROOT / header).read_text(encoding="utf-8")
    assert text.startswith("// Thread rule:"), f"{header}: the first comment says who may use it from which thread"
    assert "#pragma once" in text or header.endswith(".inc.h")  # those are included by each leaf file, on purpose


def test_no_exit_in_libraries():
    """A library never ends the process; kernels' assertions are `assert`."""
    paths = [p for p in places.tracked_files(".cc", ".h") if rel(p).startswith("src/") and not p.stem.endswith("_test")]
    assert not lines_with(r"(?<![\w.>])(std::)?(exit|_exit|quick_exit|abort|terminate)\s*\(", paths)


def test_kernel_leaves_hold_no_containers():
    """Files compiled for one instruction set hold leaf kernels only: a shared inline function would be kept for all CPUs."""
    leaves = [
        p
        for p in places.tracked_files(".cc")
        if rel(p).startswith("src/kernels/") and re.search(r"(avx|vnni|neon)", p.stem) and not p.stem.endswith("_test")
    ]
    assert not lines_with(r"std::(vector|string|map|unordered_map|function|shared_ptr|sort)\b", leaves)


def test_every_room_has_tests():
    rooms = [p for p in (places.ROOT / "src").iterdir() if any(p.glob("*.cc"))]
    assert not [rel(room) for room in rooms if not any(room.rglob("*_test.cc"))]


def test_packages_are_listed_once():
    """The Dockerfile, quickstart and test take package names from cmake/packages.txt and nowhere else."""
    listed = [
        line.split()[1]
        for line in (places.ROOT / "cmake/packages.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert len(listed) > 20
    for name in ("quickstart", "test", "Dockerfile", ".ci/run"):
        text = (places.ROOT / name).read_text()
        assert not re.search(r"lib[a-z0-9.+-]+-dev", text), f"{name} names a package"


@pytest.mark.parametrize("script", [rel(p) for p in scripts()])
def test_shellcheck(script):
    done = subprocess.run(["shellcheck", "-x", script], cwd=places.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("rule", [["check", "--output-format=concise"], ["format", "--check"]], ids=lambda r: r[0])
def test_python_is_clean(rule):
    folders = [name for name in ("tools", "tests", "bench") if (places.ROOT / name).is_dir()]
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *rule, "--no-cache", "--quiet", *folders], cwd=places.ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_tour_points_at_the_right_lines():
    text = (places.ROOT / "docs/TOUR.md").read_text(encoding="utf-8")
    stops = re.findall(r"`([\w/.]+):(\d+)`\s+`([\w:]+)`", text)
    assert len(stops) >= 10
    for path, number, symbol in stops:
        line = (places.ROOT / path).read_text(encoding="utf-8").splitlines()[int(number) - 1]
        assert symbol in line, f"docs/TOUR.md: {path}:{number} is not {symbol}, but: {line}"
