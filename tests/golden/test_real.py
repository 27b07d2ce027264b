"""Two real models, SmolLM2-135M (Q4_1) and Gemma 3 270M (Q4_K_M), against llama.cpp's recorded results.

Compared as the record says: the best token wherever its margin exceeds 0.5, greedy continuations up to the first margin
below that, perplexity within 1 %. Single logits are not compared: 8-bit activations over many layers move them by up to 3.
"""

import json

import numpy as np
import pytest

import reference
from pysupport import places, program

RECORD = places.SHARED / "reference/real.json"
TEXT = places.SHARED / "reference/real_text.txt"
NAMES = ["smollm2", "gemma3"]
ISAS = [isa for isa in reference.ISA_FLAGS if isa != "scalar"]  # the scalar kernels take minutes here


@pytest.fixture(scope="module")
def record():
    if not RECORD.is_file():
        pytest.skip(places.NO_SHARED)
    return json.loads(RECORD.read_text())


def model_path(name):
    path = places.real_model(name)
    if path is None:
        pytest.skip(f"{name}.gguf is not here (./test fetches it into build/models)")
    return path


def need(isa):
    if reason := reference.why_not(isa):
        pytest.skip(reason)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", NAMES)
def test_best_token(record, name, isa, tmp_path):
    need(isa)
    entry, path, checked, distances = record[name], model_path(name), 0, []
    for number, prompt in enumerate(entry["prompts"]):
        found = reference.logits(path, prompt["tokens"], isa, tmp_path / f"{number}.npy")
        for top in prompt["top"]:
            row = found[top["position"]]
            distances.append(np.abs(row[top["ids_f32"]] - top["logits_f32"]).max())
            if top["margin"] <= entry["tolerance"]["top1_where_margin_above"]:
                continue
            checked += 1
            assert row.argmax() == top["ids"][0], f"prompt {number}, position {top['position']}, margin {top['margin']}"
    reference.note(f"{name:24} {isa:12} top-20 logits at most {max(distances):.3f} from the F32 evaluation")
    assert checked >= len(entry["prompts"])
    assert max(distances) < 2 * entry["tolerance"]["top20_logit_max_abs"]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", NAMES)
def test_greedy(record, name, isa):
    need(isa)
    path = model_path(name)
    for number, prompt in enumerate(record[name]["prompts"]):
        answer = program.fine(
            "run",
            path,
            "--raw",
            "--tokens",
            program.ids(prompt["tokens"]),
            "-n",
            len(prompt["greedy"]),
            "--temp",
            0,
            "--json",
            env={"ONDOL_ISA": isa},
            timeout=600,
        ).json
        wanted = prompt["greedy"][: prompt["sure"]]
        if answer["finish_reason"] == "stop":
            wanted = wanted[: len(answer["tokens"])]
        assert answer["tokens"][: len(wanted)] == wanted, f"prompt {number}: {prompt['prompt']!r}"


@pytest.mark.parametrize("name", NAMES)
def test_perplexity(record, name):
    expected = record[name]["text"]
    found = program.fine("perplexity", model_path(name), "-f", TEXT, "--json", timeout=900).json
    reference.note(
        f"{name:24} perplexity {found['perplexity']:.4f}, llama.cpp {expected['perplexity']:.4f}, "
        f"F32 {expected['perplexity_f32']:.4f}"
    )
    predictions = len(expected["tokens"]) - 1
    assert found["tokens"] in (predictions, predictions + 1)
    assert found["nll_mean"] == pytest.approx(np.log(found["perplexity"]), rel=1e-4)
    assert found["perplexity"] == pytest.approx(expected["perplexity"], rel=record[name]["tolerance"]["perplexity_relative"])


@pytest.mark.parametrize("name", NAMES)
def test_text_to_ids(record, name):
    expected = record[name]["text"]["tokens"]
    bos = record[name]["bos"]
    line = json.dumps(TEXT.read_text(encoding="utf-8")) + "\n"
    found = json.loads(program.fine("tokenize", model_path(name), stdin=line).out)
    assert ([bos] if bos is not None and expected[0] == bos else []) + found == expected
