"""The architecture: which room may include which, and what only one place may name."""

import re
import subprocess

import pytest

from pysupport import places

# The arrows. A room may include itself, base, and the rooms named here (and what those expose: see the transitive rule).
ARROWS = {
    "base": [],
    "simd": [],
    "quant": ["simd"],
    "kernels": ["quant", "simd"],
    "gguf": ["quant"],
    "tokenizer": ["gguf"],
    "model": ["kernels", "gguf"],
    "kv": [],
    "decode": ["kernels", "model"],
    "scheduler": ["kv"],
    "store": [],
    "chat": ["tokenizer"],
    "engine": ["scheduler", "decode", "model", "kv", "tokenizer"],
    "route": [],
    "serve": ["engine", "chat", "route"],
    "plan": ["gguf", "kv"],
    "bench": ["engine", "plan"],
}
# Apart on purpose, whatever passes in between.
APART = [
    ("model", "kv"),
    ("kv", "model"),
    ("scheduler", "model"),
    ("scheduler", "kernels"),
    ("serve", "kv"),
    ("serve", "model"),
    ("serve", "kernels"),
    ("gguf", "model"),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*"([a-z_]+)/', re.MULTILINE)
ROOMS = sorted(p.name for p in (places.ROOT / "src").iterdir() if p.is_dir())


def sources(room):
    return [p for p in places.tracked_files(".cc", ".h") if p.is_relative_to(places.ROOT / "src" / room)]


def reachable(room):
    """Rooms whose headers `room` may include: along the arrows, except what is apart on purpose."""
    seen, queue = {"base", room}, list(ARROWS[room])
    while queue:
        other = queue.pop()
        if other not in seen and (room, other) not in APART:
            seen.add(other)
            queue += ARROWS[other]
    return seen


@pytest.mark.parametrize("room", ROOMS)
def test_room_includes_only_along_the_arrows(room):
    assert room in ARROWS, f"src/{room} is not in the table of arrows"
    allowed = reachable(room)
    wrong = []
    for path in sources(room):
        tests = {"support"} if path.name.endswith("_test.cc") or path.name.startswith("test_") else set()
        for other in INCLUDE.findall(path.read_text(encoding="utf-8")):
            if other not in allowed | tests:
                wrong.append(f"{path.relative_to(places.ROOT)} includes {other}/")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("room", ROOMS)
def test_room_declares_only_arrows(room):
    path = places.ROOT / "src" / room / "CMakeLists.txt"
    assert path.is_file(), f"src/{room} has no CMakeLists.txt with its layer()"
    text = re.sub(r"#.*", "", path.read_text(encoding="utf-8"))
    named = set()
    for block in re.findall(r"(?:EXPOSES|USES)\s+((?:[a-z_]+\s*)+)", text):
        named |= set(block.split())
    wrong = named - {"base"} - reachable(room)
    assert not wrong, f"src/{room}/CMakeLists.txt names {sorted(wrong)}"


@pytest.mark.parametrize("one,other", APART)
def test_apart_on_purpose(one, other):
    wrong = [p for p in sources(one) if other in INCLUDE.findall(p.read_text(encoding="utf-8"))]
    assert not wrong, f"{one} must not see {other}: {wrong}"


def test_only_quant_names_formats():
    """One place per quant format. (Q8_K is the form that activations take beside K-quants, named by the kernels as well.)"""
    name = re.compile(r"\b(IQ[1-4]_(XXS|XS|S|M|NL)|T?Q[1-8]_([01K]|K_[SML])|MXFP4|NVFP4)\b", re.IGNORECASE)
    wrong = []
    for path in places.tracked_files(".cc", ".h"):
        part = path.relative_to(places.ROOT)
        if part.parts[0] not in ("src", "apps") or part.parts[1] == "quant" or path.stem.endswith("_test"):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            code = re.sub(r"//.*", "", re.sub(r"hf:[^\s\"`]+", "", line))  # comments, and examples of `ondol pull`
            code = re.sub(
                r"\bk?[qQ]8_0\b(?=.*\b(kv|Kv|KV|keys))|KvType::kQ8_0|--kv-type q8_0|f16, q8_0 (and|or) f32|\"q8_0\"", "", code
            )  # a type of cache, not of weights
            if name.search(code):
                wrong.append(f"{part}:{number}: {line.strip()}")
    assert not wrong, "only src/quant may name a block format:\n" + "\n".join(wrong[:20])


def test_model_code_never_touches_activations():
    """Model code calls ops; loops over activations belong to the kernels."""
    wrong = []
    for path in sources("model") if "model" in ROOMS else []:
        if path.stem.endswith("_test"):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(r"\.row\(|std::(exp|tanh)f?\(|immintrin|arm_neon", re.sub(r"//.*", "", line)):
                wrong.append(f"{path.relative_to(places.ROOT)}:{number}: {line.strip()}")
    assert not wrong, "\n".join(wrong)


def compile_in(room, text, tmp_path):
    """Compiles `text` with the include roots that room `room` has in the release build."""
    source = tmp_path / "probe.cc"
    source.write_text(text)
    roots = places.ROOT / "build/release/include"
    return subprocess.run(
        ["g++", "-std=c++23", "-fsyntax-only", f"-I{roots / room}", f"-I{roots / 'base'}", source], capture_output=True, text=True
    )


def test_an_undeclared_include_does_not_compile(tmp_path):
    """The include roots themselves: base sees base/, and not quant/ although it lies in the folder beside it."""
    if not (places.ROOT / "build/release/include/base").exists():
        pytest.skip("the release build is not configured")
    good = compile_in("base", '#include "base/result.h"\nint main() {}\n', tmp_path)
    assert good.returncode == 0, good.stderr
    for header in ("gguf/gguf.h", "quant/formats.h", "kernels/kv_view.h"):
        bad = compile_in("base", f'#include "{header}"\nint main() {{}}\n', tmp_path)
        assert bad.returncode != 0
        assert header in bad.stderr and "No such file" in bad.stderr


def test_an_undeclared_include_does_not_compile_through_layer(tmp_path):
    """The same through CMake and layer(), with two rooms made for it: only the one that declares the other compiles."""
    project = tmp_path / "p"
    for room, text in {
        "low": "int low();\n",
        "friend": "int f();\n",
        "stranger": "int s();\n",
    }.items():
        (project / "src" / room).mkdir(parents=True)
        (project / "src" / room / f"{room}.h").write_text("#pragma once\n" + text)
        include = "low/low.h" if room != "low" else "low.h"
        (project / "src" / room / f"{room}.cc").write_text(f'#include "{include}"\n{text.replace(";", " { return 1; }")}')
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES CXX)\nadd_library(ondol_warnings INTERFACE)\n"
        f"include({places.ROOT}/cmake/layer.cmake)\n"
        "layer(low SRCS low.cc)\nlayer(friend SRCS friend.cc USES low)\nlayer(stranger SRCS stranger.cc)\n"
    )
    build = project / "build"
    configured = subprocess.run(["cmake", "-S", project, "-B", build, "-G", "Ninja"], capture_output=True, text=True)
    assert configured.returncode == 0, configured.stderr
    declared = subprocess.run(["ninja", "-C", build, "ondol_low", "ondol_friend"], capture_output=True, text=True)
    assert declared.returncode == 0, declared.stdout
    undeclared = subprocess.run(["ninja", "-C", build, "ondol_stranger"], capture_output=True, text=True)
    assert undeclared.returncode != 0
    assert "low/low.h" in undeclared.stdout and "No such file" in undeclared.stdout
