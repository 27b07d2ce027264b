"""Model files whose metadata contradicts itself: refused with exit 3, by name, at once, without taking memory.

Each case changes keys of a file that works. The shapes are those of a model with 9 heads over 3 key/value heads.
"""

import json

import pytest

from pysupport import places, program, toy

CASES = places.SHARED / "cases/gguf_hparams.jsonl"
SHAPE = toy.Shape(layers=1, heads=9, kv_heads=3, head_dim=64, ff=64)
BASELINE_MIB = 128  # the program itself, its libraries and a file of 4 MB
SECONDS = 2.0

# What the message has to name, where the changed key itself would not be the natural word.
NAMED = {
    "hparam-vocab-mismatch": [["token_embd", "tokens", "vocab"]],
    "hparam-merges-bad": ["merges"],
    "hparam-arch-unknown": ["nosucharch"],
    "hparam-arch-missing": ["general.architecture"],
    "hparam-tensor-missing": ["blk.0.attn_q.weight"],
    "hparam-tensor-shape": ["blk.0.attn_q.weight"],
    "hparam-embedding-zero": [["embedding_length"]],
    "hparam-embedding-mismatch": [["embedding_length", "token_embd", "head_count"]],
    "hparam-blocks-zero": ["block_count"],
    "hparam-blocks-huge": [["block_count", "blk.1."]],
    "hparam-context-zero": ["context_length"],
    "hparam-eps-nan": ["layer_norm_rms_epsilon"],
    "hparam-rope-odd": [["rope.dimension_count"]],
    "hparam-rope-too-wide": [["rope.dimension_count"]],
}


def cases():
    if not CASES.is_file():
        return [pytest.param(None, marks=pytest.mark.skip(reason=places.NO_SHARED), id="shared")]
    lines = [json.loads(line) for line in CASES.read_text(encoding="utf-8").split("\n") if line]
    return [pytest.param(case, id=case["id"]) for case in lines]


def change(model, key, value):
    """Applies one entry of a case's `set`."""
    if key == "tokenizer.ggml.tokens":
        kind, (element, items) = model.keys[key]
        model.keys[key] = (kind, (element, items[:-1]))
    elif key == "tokenizer.ggml.merges[0]":
        kind, (element, items) = model.keys["tokenizer.ggml.merges"]
        model.keys["tokenizer.ggml.merges"] = (kind, (element, [value, *items[1:]]))
    elif key.startswith("tensor "):
        name = key.removeprefix("tensor ")
        if value is None:
            del model.tensors[name]
        else:
            _, kind, _ = model.tensors[name]
            dims = [int(n) for n in value.removeprefix("dims [").removesuffix("]").split(",")]
            model.tensors[name] = (dims, kind, bytes(2 * dims[0] * dims[1]))
    elif value is None:
        del model.keys[key]
    else:
        kind = model.keys[key][0] if key in model.keys else toy.U32
        model.keys[key] = (kind, float(value) if kind == toy.F32 else value)


def test_the_unchanged_file_works(tmp_path):
    path = toy.Model(SHAPE).write(tmp_path / "whole.gguf")
    answer = program.fine("run", path, "--raw", "-p", "hello", "-n", 4, "--temp", 0, "--json").json
    assert answer["completion_tokens"] == 4


@pytest.mark.parametrize("case", cases())
def test_contradiction(case, tmp_path):
    model = toy.Model(SHAPE)
    for key, value in case["input"]["set"].items():
        change(model, key, value)
    path = model.write(tmp_path / "changed.gguf")
    outcome = program.measured("run", path, "--raw", "-p", "hello", "-n", 2, "--temp", 0)
    if case["expected"]["result"] == "either" and outcome.code == 0:
        return
    key = next(iter(case["input"]["set"]))
    program.refused(outcome, 3, *NAMED.get(case["id"], [key.split(".", 1)[-1]]))
    assert outcome.seconds < SECONDS, outcome
    assert outcome.peak_mib < min(BASELINE_MIB, case["expected"].get("max_memory_mib", BASELINE_MIB)), outcome
