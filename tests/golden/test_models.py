"""Tiny random models, one per architecture or variant, against llama.cpp's logits: every position, every instruction set.

The full set lies beside the checkout; the few models in tests/data/models are this project's own and are always there.
"""

import numpy as np
import pytest

import reference
from pysupport import places, program

OURS = sorted(p.stem for p in (places.DATA / "models").glob("*.npz"))
SHARED_MODELS = places.SHARED / "reference/models"
SHARED = sorted(p.stem for p in SHARED_MODELS.glob("*.npz"))


def cases():
    for folder, names, prefix in ((places.DATA / "models", OURS, "own"), (SHARED_MODELS, SHARED, "shared")):
        for name in names:
            reason = reference.NOT_YET.get(name) if prefix == "shared" else None
            if reason:
                yield pytest.param(None, None, id=f"{prefix}-{name}", marks=pytest.mark.skip(reason=reason))
                continue
            for isa in reference.ISA_FLAGS:
                yield pytest.param(reference.Reference(name, folder), isa, id=f"{prefix}-{name}-{isa}")
    if not SHARED:
        yield pytest.param(None, None, id="shared", marks=pytest.mark.skip(reason=places.NO_SHARED))


def need(isa):
    if reason := reference.why_not(isa):
        pytest.skip(reason)


def test_own_models_are_there():
    assert {"llama", "qwen2", "qwen3", "gemma3"} <= set(OURS)


@pytest.mark.parametrize(("model", "isa"), list(cases()))
def test_logits(model, isa, tmp_path):
    need(isa)
    facts, tolerance = model.facts, model.facts["tolerance"]
    found = reference.logits(model.model, facts["tokens"], isa, tmp_path / "logits.npy")
    expected, exact = model.arrays["logits"], model.arrays["logits_f32"]
    assert found.shape == expected.shape

    difference = found - expected
    own, theirs = reference.rms(found - exact), reference.rms(expected - exact)
    reference.note(
        f"{model.name:24} {isa:12} max {np.abs(difference).max():.4f} of {tolerance['max_abs']}  "
        f"rms {reference.rms(difference):.4f} of {tolerance['rms']}  to exact: {own:.4f}, llama.cpp {theirs:.4f}"
    )
    worst = np.unravel_index(np.abs(difference).argmax(), difference.shape)
    assert np.abs(difference).max() <= tolerance["max_abs"], f"position {worst[0]}, token {worst[1]}"
    assert reference.rms(difference) <= tolerance["rms"]
    positions = tolerance["top1"]["positions"]
    wrong = [p for p in positions if found[p].argmax() != expected[p].argmax()]
    assert len(wrong) <= round(len(positions) * (1 - tolerance["top1"]["agreement"])), f"other top token at {wrong}"
    assert own <= max(reference.EXACT_DISTANCE_FACTOR * theirs, reference.EXACT_DISTANCE_FLOOR), (
        f"{own:.4f} from the exact evaluation, llama.cpp is {theirs:.4f} away"
    )


@pytest.mark.parametrize(("model", "isa"), list(cases()))
def test_greedy(model, isa):
    need(isa)
    greedy = model.facts["greedy"]
    wanted = greedy["continuation"][: greedy["sure"]]
    answer = program.fine(
        "run",
        model.model,
        "--raw",
        "--tokens",
        program.ids(model.facts["tokens"]),
        "-n",
        len(greedy["continuation"]),
        "--temp",
        0,
        "--json",
        env={"ONDOL_ISA": isa},
        timeout=600,
    ).json
    found = answer["tokens"]
    if answer["finish_reason"] == "stop":  # the model ended by itself: nothing more can be compared
        assert len(found) > 0
        wanted = wanted[: len(found)]
    assert found[: len(wanted)] == wanted
