"""What `ondol run`, `tokenize`, `detokenize`, `render`, `logits`, `show` and `bench speed` give back."""

import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest

from pysupport import places, program, toy

RUN = ("--raw", "--temp", 0)


def answer(model, *arguments, **options):
    return program.fine("run", model, *RUN, "--json", *arguments, **options).json


def test_run_json_has_every_field(toy_model):
    found = answer(toy_model, "-p", "hello world", "-n", 5)
    for field in (
        "text",
        "tokens",
        "prompt_tokens",
        "cached_tokens",
        "completion_tokens",
        "finish_reason",
        "timings",
        "isa",
        "threads",
    ):
        assert field in found, f"no {field}"
    for field in ("load_ms", "prefill_ms", "prefill_tps", "decode_ms", "decode_tps", "drafted", "accepted"):
        assert field in found["timings"], f"no timings.{field}"
    assert found["completion_tokens"] == len(found["tokens"]) == 5
    assert found["finish_reason"] == "length"
    assert found["cached_tokens"] == 0
    # "hello" and " world" are merged whole by this vocabulary.
    assert found["prompt_tokens"] == 2


def test_run_streams_the_same_text(toy_model):
    as_json = answer(toy_model, "-p", "hello", "-n", 12)
    plain = program.fine("run", toy_model, *RUN, "-p", "hello", "-n", 12)
    assert plain.out.rstrip("\n") == as_json["text"].rstrip("\n")


def test_prompt_from_flag_file_and_stdin_are_the_same(toy_model, tmp_path):
    file = tmp_path / "prompt.txt"
    file.write_text("hello world")
    by_flag = answer(toy_model, "-p", "hello world", "-n", 6)
    by_file = answer(toy_model, "-f", file, "-n", 6)
    by_stdin = answer(toy_model, "-n", 6, stdin="hello world")
    assert by_flag["tokens"] == by_file["tokens"] == by_stdin["tokens"]
    assert by_flag["prompt_tokens"] == by_stdin["prompt_tokens"]


def test_tokens_as_prompt(toy_model):
    ids = json.loads(program.fine("tokenize", toy_model, stdin='"hello world"\n').out)
    assert (
        answer(toy_model, "--tokens", program.ids(ids), "-n", 6)["tokens"]
        == answer(toy_model, "-p", "hello world", "-n", 6)["tokens"]
    )


def test_template_and_system_change_the_prompt(toy_model):
    raw = answer(toy_model, "-p", "hello", "-n", 1)
    chat = program.fine("run", toy_model, "--temp", 0, "--json", "-p", "hello", "-n", 1).json
    system = program.fine("run", toy_model, "--temp", 0, "--json", "-p", "hello", "--system", "be brief", "-n", 1).json
    assert raw["prompt_tokens"] < chat["prompt_tokens"] < system["prompt_tokens"]


@pytest.mark.parametrize("prompt", ["hello", "hello world " * 12])
def test_threads_do_not_change_the_answer(toy_model, prompt):
    one, two, three = (answer(toy_model, "-p", prompt, "-n", 24, "--threads", n) for n in (1, 2, 3))
    assert one["tokens"] == two["tokens"] == three["tokens"]
    assert (one["threads"], two["threads"]) == (1, 2)


def test_a_seed_repeats(toy_model):
    def sampled(seed):
        return program.fine("run", toy_model, "--raw", "--temp", 1.5, "--seed", seed, "--json", "-p", "hello", "-n", 16).json[
            "tokens"
        ]

    assert sampled(1) == sampled(1)
    assert len({tuple(sampled(seed)) for seed in range(4)}) > 1


def test_greedy_is_the_argmax_of_the_logits(toy_model, tmp_path):
    tokens = [40, 200, 17, 90]
    found = answer(toy_model, "--tokens", program.ids(tokens), "-n", 8)["tokens"]
    program.fine("logits", toy_model, "--tokens", program.ids(tokens + found), "-o", tmp_path / "l.npy")
    logits = np.load(tmp_path / "l.npy")
    assert logits.shape == (12, toy.Model().n_vocab) and logits.dtype == np.float32
    assert logits[3:-1].argmax(1).tolist() == found


def test_logits_do_not_depend_on_what_follows(toy_model, tmp_path):
    """Bit for bit: causal, and the same whatever the number of rows in the batch."""
    tokens = [int(t) for t in np.random.default_rng(5).integers(0, 256, 70)]
    program.fine("logits", toy_model, "--tokens", program.ids(tokens), "-o", tmp_path / "all.npy")
    whole = np.load(tmp_path / "all.npy")
    for n in (1, 2, 15, 16, 17, 33):
        program.fine("logits", toy_model, "--tokens", program.ids(tokens[:n]), "-o", tmp_path / "part.npy")
        assert np.load(tmp_path / "part.npy").tobytes() == whole[:n].tobytes(), f"{n} tokens"


def test_stop_text_ends_the_answer(toy_model):
    whole = answer(toy_model, "-p", "hello", "-n", 24)["text"]
    stop = next((c for c in whole[3:] if c.isascii() and c.isprintable()), None)
    assert stop, "the toy model wrote no printable letter"
    found = answer(toy_model, "-p", "hello", "-n", 24, "--stop", stop)
    assert found["finish_reason"] == "stop"
    assert found["text"] == whole[: whole.index(stop)]


def test_tokenize_and_back(toy_model):
    texts = ["hello world", "", "온돌 🔥", "a\nb\t c", "<|end|>", "\u0000", "hello" * 50]
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    ids = program.fine("tokenize", toy_model, stdin=lines).out
    rows = [json.loads(line) for line in ids.splitlines()]
    assert len(rows) == len(texts)
    assert rows[0] == [toy.Model().n_vocab - 8, toy.Model().n_vocab - 3] and rows[1] == []
    assert toy.Model().eos not in rows[4], "control tokens in text are plain letters unless --special is given"
    back = program.fine("detokenize", toy_model, stdin=ids).out
    assert [json.loads(line) for line in back.splitlines()] == texts


def test_tokenize_flags(toy_model):
    model = toy.Model()
    assert json.loads(program.fine("tokenize", toy_model, "--special", stdin='"<|end|>"\n').out) == [model.eos]
    assert json.loads(program.fine("tokenize", toy_model, "--bos", stdin='"A"\n').out)[0] == model.eos - 1


def test_render(toy_model):
    request = {"messages": [{"role": "user", "content": 'Hi "you" 온돌'}], "options": {"add_generation_prompt": True}}
    found = program.fine("render", toy_model, stdin=json.dumps(request) + "\n")
    assert json.loads(found.out) == '<|start|>user\nHi "you" 온돌<|end|>\n<|start|>assistant\n'


def test_render_errors_stay_on_their_line(tmp_path):
    file = tmp_path / "t.jinja"
    file.write_text("{% if messages[0].role != 'user' %}{{ raise_exception('user first') }}{% endif %}ok")
    lines = "".join(json.dumps({"messages": [{"role": role, "content": "x"}]}) + "\n" for role in ("user", "tool", "user"))
    rows = [json.loads(line) for line in program.ondol("render", "--template", file, stdin=lines).out.splitlines()]
    assert rows[0] == rows[2] == "ok"
    assert "user first" in rows[1]["error"]


def test_perplexity(toy_model, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("hello world " * 10)
    found = program.fine("perplexity", toy_model, "-f", file, "--json").json
    assert found["perplexity"] == pytest.approx(np.exp(found["nll_mean"]), rel=1e-5)
    assert found["tokens"] > 10


def test_show(toy_model):
    text = program.fine("show", toy_model).out
    for word in ("llama", "F16", "256"):
        assert word in text
    assert isinstance(program.fine("show", toy_model, "--json").json, dict)


def test_verify(toy_model, tmp_path):
    program.fine("verify", toy_model)
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(toy_model.read_bytes()[:-100])
    assert program.ondol("verify", cut).code == 3


def test_bench_speed(toy_model):
    found = program.fine("bench", "speed", toy_model, "-p", 16, "-n", 4, "-t", 1, "-r", 2, "--json").json
    for field in (
        "model",
        "isa",
        "threads",
        "depth",
        "pp",
        "tg",
        "weight_bytes_per_token",
        "read_bandwidth_gbps",
        "share_of_bandwidth",
    ):
        assert field in found, f"no {field}"
    assert len(found["pp"]) == len(found["tg"]) == 2
    assert min(found["pp"] + found["tg"]) > 0


def test_a_store_of_ones_own(toy_model, tmp_path):
    store = {"ONDOL_HOME": tmp_path}
    (tmp_path / "models").mkdir()
    (tmp_path / "models/mine.gguf").write_bytes(toy_model.read_bytes())
    assert "mine" in program.fine("list", env=store).out
    assert "mine" in json.dumps(program.fine("list", "--json", env=store).json)
    assert answer("mine", "-p", "hello", "-n", 2, env=store)["completion_tokens"] == 2
    program.fine("rm", "mine", env=store)
    assert not (tmp_path / "models/mine.gguf").exists()
    assert "mine" not in program.fine("list", env=store).out


@pytest.mark.skipif(places.real_model("smollm2") is None, reason="smollm2.gguf is not here (./test fetches it)")
def test_a_real_answer():
    found = program.fine("run", places.real_model("smollm2"), "-p", "Why is the sky blue?", "-n", 32, "--temp", 0, "--json").json
    assert "scattering" in found["text"]
    assert found["finish_reason"] in ("stop", "length")


def test_broken_utf8_on_stdin_is_read_as_replacement(toy_model):
    found = answer(toy_model, "-n", 2, stdin=b"hi \xff\xfe\xc3")
    assert found["completion_tokens"] == 2


def test_a_closed_pipe_ends_quietly(long_toy_model):
    started = time.monotonic()
    process = subprocess.Popen(
        [program.ONDOL, "run", long_toy_model, "--raw", "--temp", "0", "-p", "hello", "-n", "100000", "--ctx", "110000"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=program.environment(),
    )
    process.stdout.read(1)
    process.stdout.close()
    code = process.wait(timeout=20)
    assert time.monotonic() - started < 20
    assert code in (0, 1, -signal.SIGPIPE), code
    assert b"terminate" not in process.stderr.read()
    process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_clean(long_toy_model, number):
    process = subprocess.Popen(
        [program.ONDOL, "run", long_toy_model, "--raw", "--temp", "0", "-p", "hello", "-n", "500000", "--ctx", "510000"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=program.environment(),
    )
    first = os.read(process.stdout.fileno(), 1)
    assert first, "no text before the signal"
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130, (process.returncode, err[-500:])
    (first + out).decode("utf-8")  # no half character
    assert b"terminate" not in err and b"Sanitizer" not in err
