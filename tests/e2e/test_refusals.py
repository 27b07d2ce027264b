"""Wrong use and bad files: the exit code, a message that helps, nothing on stdout."""

import json

import pytest

from pysupport import places, program, toy

MODEL_COMMANDS = [
    ["run", "{}", "--raw", "-p", "x", "-n", "1"],
    ["logits", "{}", "--tokens", "1", "-o", "/dev/null"],
    ["tokenize", "{}"],
    ["show", "{}"],
    ["verify", "{}"],
]


def with_model(command, path):
    return [str(path) if part == "{}" else part for part in command]


@pytest.mark.parametrize("command", MODEL_COMMANDS, ids=lambda c: c[0])
def test_missing_file(command, tmp_path):
    program.refused(program.ondol(*with_model(command, tmp_path / "no-such.gguf")), 3, "no-such")


@pytest.mark.parametrize("command", MODEL_COMMANDS, ids=lambda c: c[0])
def test_directory(command, tmp_path):
    program.refused(program.ondol(*with_model(command, tmp_path)), 3, ["directory", "folder"])


@pytest.mark.parametrize("command", MODEL_COMMANDS, ids=lambda c: c[0])
def test_not_a_gguf(command, tmp_path):
    path = tmp_path / "text.gguf"
    path.write_text("this is a text file, and not a short one: " * 20)
    program.refused(program.ondol(*with_model(command, path)), 3, "GGUF", report=command[0] == "verify")


@pytest.mark.parametrize("command", MODEL_COMMANDS, ids=lambda c: c[0])
def test_empty_file(command, tmp_path):
    path = tmp_path / "empty.gguf"
    path.touch()
    program.refused(program.ondol(*with_model(command, path)), 3, report=command[0] == "verify")


@pytest.mark.parametrize("keep", [3, 4, 12, 24, 60, 700, 5000, -1, -4000])
def test_truncated(toy_model, tmp_path, keep):
    path = tmp_path / "cut.gguf"
    path.write_bytes(toy_model.read_bytes()[:keep])
    program.refused(program.ondol("run", path, "--raw", "-p", "x", "-n", 1), 3)


def test_unreadable_store_name(tmp_path):
    program.refused(program.ondol("run", "no-such-model", "-p", "x", env={"ONDOL_HOME": tmp_path}), 3, "no-such-model")


def test_unknown_architecture_is_named(tmp_path):
    model = toy.Model()
    model.keys["general.architecture"] = (toy.STRING, "rwkv9")
    program.refused(program.ondol("run", model.write(tmp_path / "m.gguf"), "-p", "x"), 3, "rwkv9")


@pytest.mark.parametrize("number", [4, 5, 99, 4_000_000_000])  # removed from GGUF, and never in it
def test_unknown_type_is_named(tmp_path, number):
    model = toy.Model()
    dims, _, data = model.tensors["blk.1.ffn_up.weight"]
    model.tensors["blk.1.ffn_up.weight"] = (dims, number, data)
    program.refused(program.ondol("run", model.write(tmp_path / "m.gguf"), "-p", "x"), 3, "blk.1.ffn_up.weight", str(number))


def test_unknown_pre_tokenizer_is_named(tmp_path):
    model = toy.Model()
    model.keys["tokenizer.ggml.pre"] = (toy.STRING, "no-such-rule")
    program.refused(program.ondol("run", model.write(tmp_path / "m.gguf"), "-p", "x"), 3, "no-such-rule")


@pytest.mark.parametrize(("typed", "meant"), [("rnu", "run"), ("tokenise", "tokenize"), ("lits", "list"), ("verfy", "verify")])
def test_misspelt_command(typed, meant):
    program.refused(program.ondol(typed), 2, meant)


@pytest.mark.parametrize(
    ("typed", "meant"), [("--thread", "--threads"), ("--tmp", "--temp"), ("--sead", "--seed"), ("--jsno", "--json")]
)
def test_misspelt_flag(toy_model, typed, meant):
    program.refused(program.ondol("run", toy_model, "-p", "x", typed, "1"), 2, meant)


@pytest.mark.parametrize(
    "flags",
    [
        ["--temp", "hot"],
        ["--temp", "-1"],
        ["-n", "-5"],
        ["--top-p", "1.5"],
        ["--kv-type", "q3"],
        ["--threads", "0"],
        ["--ctx", "0"],
        ["--tokens", "1,x"],
        ["--tokens", "99999"],
        ["--spec", "maybe"],
    ],
    ids=" ".join,
)
def test_values_out_of_range(toy_model, flags):
    prompt = [] if "--tokens" in flags else ["-p", "x"]
    program.refused(program.ondol("run", toy_model, "--raw", *prompt, *flags), 2)


def test_no_command_is_a_usage_error():
    assert program.ondol().code == 2


@pytest.mark.parametrize("name", ["sse9", "AVX-2"])
def test_unknown_isa(toy_model, name):
    outcome = program.ondol("run", toy_model, "--raw", "-p", "x", "-n", 1, env={"ONDOL_ISA": name})
    program.refused(outcome, 2, name, "scalar")


def test_prompt_longer_than_the_context(toy_model):
    outcome = program.ondol("run", toy_model, "--raw", "--tokens", program.ids([65] * 300), "-n", 1)
    assert outcome.code in (1, 2) and outcome.out == "", outcome
    assert "300" in outcome.err and "256" in outcome.err, outcome


def context_cases():
    path = places.SHARED / "cases/context_limits.jsonl"
    if not path.is_file():
        return [pytest.param(None, marks=pytest.mark.skip(reason=places.NO_SHARED), id="shared")]
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    # Slots and streams are the server's.
    return [pytest.param(c, id=c["id"]) for c in lines if "n_slots" not in c["input"] and not c["input"].get("stream")]


@pytest.mark.parametrize("case", context_cases())
def test_context_limits(case, toy_model):
    given, expected = case["input"], case["expected"]
    limit = [] if given.get("max_tokens") is None else ["-n", given["max_tokens"]]
    # A long prompt goes through stdin: one id for each letter of this vocabulary.
    outcome = program.ondol(
        "run", toy_model, "--raw", "--temp", 0, "--json", "--ctx", given["n_ctx"], *limit, stdin="x" * given["n_prompt"]
    )
    if expected["status"] == 200:
        assert outcome.code == 0, outcome
        assert outcome.json["prompt_tokens"] == given["n_prompt"]
        assert outcome.json["completion_tokens"] <= expected["completion_tokens_at_most"]
        if "finish_reason_if_reached" in expected and outcome.json["completion_tokens"] == expected["completion_tokens_at_most"]:
            assert outcome.json["finish_reason"] == expected["finish_reason_if_reached"]
    else:
        assert outcome.code in (1, 2) and outcome.out == "", outcome
        for number in {str(given["n_prompt"]), str(given["n_ctx"]), *expected.get("message_should_mention", [])}:
            assert number in outcome.err.replace(",", ""), outcome


def test_a_cache_beyond_the_machine_is_refused_before_loading(tmp_path):
    path = toy.Model(toy.Shape(context=1 << 30)).write(tmp_path / "huge.gguf")
    outcome = program.ondol("run", path, "--raw", "-p", "x", "-n", 1, "--ctx", 1 << 30)
    program.refused(outcome, 4, ["need"], ["has", "have", "available", "free"], ["GiB", "TiB"])


def test_a_memory_limit_is_respected(long_toy_model):
    """`ulimit -v`: the cache of 4 Mi tokens needs 1 GiB; with less the answer is exit 4, with a small context it runs."""
    limit = 600 << 20
    outcome = program.ondol(
        "run", long_toy_model, "--raw", "-p", "x", "-n", 1, "--ctx", 1 << 22, "--threads", 1, address_space=limit
    )
    program.refused(outcome, 4, ["need"], ["has", "have", "available", "free"])
    program.fine("run", long_toy_model, "--raw", "-p", "x", "-n", 1, "--ctx", 512, "--threads", 1, address_space=limit)


@pytest.mark.parametrize("line", [b'"a\xff"\n', b"not json\n", b"[1,2]\n", b'"unfinished\n', b'{"a":1}\n'])
def test_tokenize_says_which_line_is_wrong(toy_model, line):
    outcome = program.ondol("tokenize", toy_model, stdin=b'"fine"\n' + line)
    if line == b'"a\xff"\n' and outcome.code == 0:  # broken UTF-8 may also be read as U+FFFD
        assert len(outcome.out.splitlines()) == 2
        return
    assert outcome.code in (1, 2, 3), outcome
    assert "line 2" in outcome.err, outcome


@pytest.mark.parametrize("line", [b'"x"\n', b"[-1]\n", b"[99999999]\n", b"[1.5]\n", b'["a"]\n'])
def test_detokenize_says_which_line_is_wrong(toy_model, line):
    outcome = program.ondol("detokenize", toy_model, stdin=b"[65]\n" + line)
    assert outcome.code in (1, 2, 3), outcome
    assert "line 2" in outcome.err, outcome


def test_output_that_cannot_be_written(toy_model, tmp_path):
    outcome = program.ondol("logits", toy_model, "--tokens", "1,2", "-o", tmp_path / "no" / "such" / "folder.npy")
    assert outcome.code == 1 and "folder.npy" in outcome.err, outcome
    full = program.ondol("logits", toy_model, "--tokens", "1,2", "-o", "/dev/full")
    assert full.code == 1 and full.err, full


def test_missing_prompt_file(toy_model, tmp_path):
    outcome = program.ondol("run", toy_model, "-f", tmp_path / "gone.txt")
    assert outcome.code in (1, 2, 3) and "gone.txt" in outcome.err, outcome
