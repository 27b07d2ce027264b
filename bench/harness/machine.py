"""What a result belongs to: this machine, the product's commit, the peer's version."""

import datetime
import hashlib
import json
import os
import pathlib
import platform
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What the program is made of: other commits do not change its speed.
SOURCES = ("src", "apps", "rust", "cmake", "CMakeLists.txt", "CMakePresets.json")
FLAGS = ("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16", "amx_int8")
FLAGS += ("asimddp", "i8mm", "sve")


def _cpuinfo(key):
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def cpu_name():
    """The CPU as it calls itself, with family and model: virtual machines often hide the rest of the name."""
    name = _cpuinfo("model name") or platform.processor() or platform.machine()
    numbers = [f"{word} {value}" for word, key in (("family", "cpu family"), ("model", "model")) if (value := _cpuinfo(key))]
    return f"{name} ({', '.join(numbers)})" if numbers else name


def facts(threads):
    flags = (_cpuinfo("flags") or _cpuinfo("Features")).split()
    memory = re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return {
        "cpu": cpu_name(),
        "flags": [flag for flag in FLAGS if flag in flags],
        "usable_cpus": len(os.sched_getaffinity(0)),
        "threads": threads,
        "memory_bytes": int(memory.group(1)) * 1024 if memory else 0,
        "kernel": f"{platform.system()} {platform.release()}",
    }


def _git(*arguments):
    done = subprocess.run(["git", "-c", "safe.directory=*", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def commit():
    """The last commit that changed the program; with + and a digest where the checkout differs from it."""
    last = _git("log", "-1", "--format=%h", "--", *SOURCES) or "unknown"
    changes = _git("diff", "HEAD", "--", *SOURCES)
    return last + (f"+{hashlib.sha256(changes.encode()).hexdigest()[:6]}" if changes else "")


def today():
    return datetime.date.today().isoformat()


def is_stale(program):
    """Whether some source is newer than the program."""
    built = program.stat().st_mtime
    sources = [p for top in ("src", "apps") for p in (ROOT / top).rglob("*") if p.suffix in (".cc", ".h")]
    return any(p.stat().st_mtime > built for p in sources if not p.stem.endswith("_test"))


def peer_name(script):
    """The first words of the script that look like a name and a version ("llama.cpp v0.5.0"), or the script's own name."""
    found = re.search(r"([A-Za-z][\w.+-]*) (v?\d[\w.]*)", script.read_text(encoding="utf-8", errors="replace")[:400])
    return f"{found.group(1)} {found.group(2)}" if found else script.stem


def quantisation(program, model):
    """The types that hold a tenth or more of the weights' bytes, largest first: "Q8_0 + Q5_0"."""
    done = subprocess.run([str(program), "show", str(model), "--json"], capture_output=True, text=True)
    try:
        mix = json.loads(done.stdout)["quant_mix"]
    except (ValueError, KeyError):
        return ""
    total = sum(part["bytes"] for part in mix)
    large = [part for part in mix if part["bytes"] * 10 >= total]
    return " + ".join(part["type"] for part in sorted(large, key=lambda part: -part["bytes"]))
