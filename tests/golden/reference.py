"""Which reference models there are, which of them this program runs, and how its logits are compared."""

import dataclasses
import functools
import json
import pathlib

import numpy as np

from pysupport import places, program

# Architectures and variants that are not supported yet, by name, with the reason that the skipped test shows. A model
# that is neither here nor runs is a failure.
NOT_YET = {
    "bert": "architecture bert is not supported yet",
    "bert-rerank": "architecture bert is not supported yet",
    "nomic-bert": "architecture nomic-bert is not supported yet",
    "deepseek2": "architecture deepseek2 is not supported yet",
    "deepseek2-yarn": "architecture deepseek2 is not supported yet",
    "gemma-embedding": "architecture gemma-embedding is not supported yet",
    "gemma2": "architecture gemma2 is not supported yet",
    "gemma4-dense": "architecture gemma4 is not supported yet",
    "gemma4-e": "architecture gemma4 is not supported yet",
    "gemma4-moe": "architecture gemma4 is not supported yet",
    "glm4moe": "architecture glm4moe is not supported yet",
    "gpt-oss": "architecture gpt-oss is not supported yet",
    "granite": "architecture granite is not supported yet",
    "granitemoe": "architecture granitemoe is not supported yet",
    "llama-iq": "its block formats (IQ1 to IQ3, TQ1, TQ2) are not supported yet",
    "mistral3": "architecture mistral3 is not supported yet",
    "mixtral": "llama with experts is not supported yet",
    "olmo2": "architecture olmo2 is not supported yet",
    "phi3": "architecture phi3 is not supported yet",
    "qwen3-embedding": "pooled embeddings are not supported yet",
    "qwen3-rerank": "reranking is not supported yet",
    "qwen35": "architecture qwen35 is not supported yet",
    "qwen35moe": "architecture qwen35moe is not supported yet",
    "qwen3moe": "architecture qwen3moe is not supported yet",
    "smollm3": "architecture smollm3 is not supported yet",
}

# How far from the exact evaluation (F32 weights, activations and cache) this program may be, in units of llama.cpp's own
# distance with its default settings. It rounds activations to 8 bits as llama.cpp does; a bug shows as far more.
EXACT_DISTANCE_FACTOR = 1.5
EXACT_DISTANCE_FLOOR = 0.002  # rms: F16 rounding of the cache

# What each instruction set needs of the CPU, as /proc/cpuinfo calls it.
ISA_FLAGS = {
    "scalar": [],
    "avx2": ["avx2", "fma", "f16c"],
    "avxvnni": ["avx2", "avx_vnni"],
    "avx512": ["avx512f", "avx512bw", "avx512dq", "avx512vl"],
    "avx512vnni": ["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"],
    "neon": ["asimd", "asimddp"],
}


@functools.cache
def cpu_flags():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def why_not(isa):
    """Why this machine cannot run `isa`, or None."""
    if isa == "scalar":
        return None
    missing = [flag for flag in ISA_FLAGS[isa] if flag not in cpu_flags()]
    return f"this CPU has no {isa} ({', '.join(missing)})" if missing else None


@dataclasses.dataclass
class Reference:
    """One tiny model with its recorded logits, tolerances and greedy continuation."""

    name: str
    folder: pathlib.Path

    @functools.cached_property
    def facts(self):
        return json.loads((self.folder / f"{self.name}.json").read_text())

    @functools.cached_property
    def arrays(self):
        with np.load(self.folder / f"{self.name}.npz") as file:
            return {key: file[key].astype(np.float64) for key in ("logits", "logits_f32")}

    @property
    def model(self):
        return self.folder / f"{self.name}.gguf"


def logits(model, tokens, isa, path):
    """The logits that the program computes for `tokens`, [n_tokens, n_vocab]."""
    program.fine("logits", model, "--tokens", program.ids(tokens), "-o", path, env={"ONDOL_ISA": isa}, timeout=600)
    found = np.load(path)
    assert found.dtype == np.float32 and found.ndim == 2 and len(found) == len(tokens), (found.dtype, found.shape)
    assert np.isfinite(found).all(), "some logits are not finite"
    return found.astype(np.float64)


def rms(difference):
    return float(np.sqrt(np.mean(np.square(difference))))


def note(line):
    """Keeps a measured figure in build/logs/golden.txt, for people."""
    places.LOGS.mkdir(parents=True, exist_ok=True)
    with open(places.LOGS / "golden.txt", "a", encoding="utf-8") as file:
        file.write(line + "\n")
