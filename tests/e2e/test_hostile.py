"""What nobody should type, and files that lie: an exit code, one line of advice, never a crash."""

import json
import os
import signal
import subprocess
import time

import pytest

from pysupport import program, toy


@pytest.fixture
def odd_path(request, tmp_path):
    """A path that is there, but is no file."""
    path = tmp_path / "odd"
    if request.param == "fifo":
        os.mkfifo(path)
    elif request.param == "loop":
        path.symlink_to(path)
    elif request.param == "dangling":
        path.symlink_to(tmp_path / "gone.gguf")
    else:
        return request.param
    return path


@pytest.mark.parametrize("odd_path", ["fifo", "loop", "dangling", "/dev/zero", "/dev/null"], indirect=True)
@pytest.mark.parametrize("command", ["run", "show", "verify", "tokenize"])
def test_a_model_that_is_no_file(command, odd_path):
    outcome = program.ondol(command, odd_path, timeout=20)
    program.refused(outcome, 3, str(odd_path), ["pipe", "link", "device"], "; ")
    assert "there is no file" not in outcome.err


@pytest.mark.parametrize("command", [["perplexity"], ["run", "--raw"]], ids=lambda c: c[0])
@pytest.mark.parametrize("path", ["/dev/zero", "/"])
def test_a_text_without_end(toy_model, command, path):
    program.refused(program.ondol(*command, toy_model, "-f", path, timeout=20), 3, path, "; ")


@pytest.mark.parametrize("command", [["perplexity"], ["run", "--raw"]], ids=lambda c: c[0])
def test_ctrl_c_while_a_pipe_is_read(toy_model, tmp_path, command):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [program.ONDOL, *command, toy_model, "-f", pipe],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=program.environment(),
    )
    with open(pipe, "wb") as writer:  # opens when the program has
        writer.write(b"hello")
        writer.flush()
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err


def test_no_speed_without_a_step(toy_model):
    outcome = program.fine("run", toy_model, "--raw", "--temp", 0, "-p", "hello", "-n", 1)
    assert "1 token]" in outcome.err and "0.0 tokens/s" not in outcome.err


@pytest.mark.parametrize("raw", [["--raw"], []], ids=["raw", "template"])
def test_text_that_is_not_utf8_is_read_alike(toy_model, tmp_path, raw):
    """From each source and with and without a template: as U+FFFD, with a warning."""
    file = tmp_path / "broken.txt"
    file.write_bytes(b"ab\xffc")
    common = ["run", toy_model, *raw, "--temp", 0, "-n", 2, "--json"]
    whole = program.fine(*common, "-p", "ab\ufffdc")
    assert "warning" not in whole.err
    for source, stdin in ((["-p", b"ab\xffc"], b""), (["-f", file], b""), ([], b"ab\xffc")):
        command = [str(a) if not isinstance(a, bytes) else a for a in [program.ONDOL, *common, *source]]
        done = subprocess.run(command, input=stdin, capture_output=True, env=program.environment())
        assert done.returncode == 0 and b"not UTF-8 at byte 2" in done.stderr, done.stderr
        assert json.loads(done.stdout)["tokens"] == whole.json["tokens"]
        assert json.loads(done.stdout)["prompt_tokens"] == whole.json["prompt_tokens"]


def test_system_prompts_and_stops_that_are_not_utf8(toy_model):
    def run(*words):
        return subprocess.run(
            [program.ONDOL, "run", toy_model, "-p", "x", "-n", "1", *words], capture_output=True, env=program.environment()
        )

    system = run("--system", b"a\xff")
    assert system.returncode == 0 and b"the system prompt is not UTF-8 at byte 1" in system.stderr, system.stderr
    stop = run("--stop", b"a\xff")
    assert stop.returncode == 2 and b"not UTF-8 at byte 1" in stop.stderr, stop.stderr


def test_more_threads_than_processors_are_warned_of(toy_model):
    outcome = program.fine("run", toy_model, "--raw", "-p", "x", "-n", 1, "--threads", 1000)
    assert "warning: 1000 threads" in outcome.err
    assert "warning" not in program.fine("run", toy_model, "--raw", "-p", "x", "-n", 1, "--threads", 1).err


def test_threads_that_cannot_be_started(toy_model):
    outcome = program.ondol("run", toy_model, "--raw", "-p", "x", "-n", 1, "--threads", 64, address_space=200 << 20)
    program.refused(outcome, 4, "--threads")


def test_bench_measures_what_was_asked_for(toy_model):
    program.refused(program.ondol("bench", "speed", toy_model, "-p", 0, "-n", 0), 2, "-p or -n")
    only = program.fine("bench", "speed", toy_model, "-p", 4, "-n", 0, "-r", 1).out
    assert "prefill" in only and "decode" not in only
    found = program.fine("bench", "speed", toy_model, "-p", 4, "-n", 0, "-r", 1, "--json").json
    assert found["tg"] == [] and found["share_of_bandwidth"] is None
    program.fine("bench", "speed", toy_model, "-p", 1, "-n", 1, "--ctx", 1, "-r", 1)


def test_weights_that_are_no_numbers(tmp_path):
    model = toy.Model()
    dims, kind, data = model.tensors["output.weight"]
    model.tensors["output.weight"] = (dims, kind, b"\xff" * len(data))
    path = model.write(tmp_path / "nan.gguf")
    text = tmp_path / "text.txt"
    text.write_text("hello world " * 4)
    program.refused(program.ondol("perplexity", path, "-f", text), 3, "not finite", "verify")
    outcome = program.ondol("run", path, "--raw", "-p", "x", "-n", 1)
    assert outcome.code == 1 and "model file" in outcome.err.replace("\n", " "), outcome


@pytest.mark.parametrize(
    ("output", "mention"), [("nodir/x.npy", "'nodir' does not exist; create it"), (".", "folder; name a file"), ("", "-o")]
)
def test_logits_say_where_they_cannot_go(toy_model, output, mention):
    outcome = program.ondol("logits", toy_model, "--tokens", "1", "-o", output)
    assert outcome.code in (1, 2) and mention in outcome.err and ".part" not in outcome.err, outcome


@pytest.mark.parametrize("seed", ["-1", "99999999999999999999999", "1.5", "x"])
def test_seeds_are_whole_numbers(toy_model, seed):
    program.refused(program.ondol("run", toy_model, "--raw", "-p", "x", "-n", 1, "--seed", seed), 2, "seed")


def test_a_file_cannot_speak_to_the_terminal(tmp_path):
    model = toy.Model()
    model.keys["general.architecture"] = (toy.STRING, "a\x1b[31m\nb")
    program.refused(program.ondol("run", model.write(tmp_path / "m.gguf"), "-p", "x"), 3, "a\\x1b[31m\\x0ab")
    model = toy.Model()
    model.keys["tokenizer.chat_template"] = (toy.STRING, "{{ raise_exception('no \x1b[31m') }}")
    outcome = program.ondol("run", model.write(tmp_path / "m.gguf"), "-p", "x")
    assert outcome.code == 2 and "\x1b" not in outcome.err, outcome


def in_shell(words, model):
    """`ondol WORDS` in a shell, with redirections."""
    return subprocess.run(
        ["bash", "-c", f'"$ONDOL" {words}'],
        env=program.environment(ONDOL=program.ONDOL, MODEL=model),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ('run "$MODEL" --raw -n 1 2>&-', 2),
        ('run "$MODEL" --raw -p x -n 1 2>&-', 0),
        ('show "$MODEL" <&- >&- 2>&-', 1),
        ('show "$MODEL" >/dev/full 2>/dev/full', 1),
        ("no-such-command 2>&-", 2),
        ('run "$MODEL" --raw <&-', 1),
        ('tokenize "$MODEL" <&-', 1),
        ('detokenize "$MODEL" </', 1),
        ('render "$MODEL" </', 1),
        ('chat "$MODEL" </', 1),
    ],
)
def test_closed_and_broken_streams(toy_model, words, code):
    assert in_shell(words, toy_model).returncode == code


def test_a_closed_stream_is_no_way_into_a_file(toy_model, tmp_path):
    """The file that is written must not get the number of the closed stderr, and the warning with it."""
    words = f'logits "$MODEL" --tokens 1,2 --threads 1000 -o "{tmp_path}/l.npy" 2>&-'
    assert in_shell(words, toy_model).returncode == 0
    assert (tmp_path / "l.npy").stat().st_size == 128 + 2 * toy.Model().n_vocab * 4


def test_a_limit_of_file_sizes(toy_model, tmp_path):
    done = subprocess.run(
        ["bash", "-c", f'ulimit -f 0; "{program.ONDOL}" logits "{toy_model}" --tokens 1,2 -o "{tmp_path}/l.npy"'],
        env=program.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "ulimit -f" in done.stderr, done.stderr


def test_a_store_in_place_of_a_file(tmp_path):
    file = tmp_path / "file"
    file.touch()
    program.refused(program.ondol("list", env={"ONDOL_HOME": file}), 2, "ONDOL_HOME")
    missing = tmp_path / "missing"
    program.refused(program.ondol("rm", "x", env={"ONDOL_HOME": missing}), 2, "no model")
    assert not missing.exists()


def test_a_bad_name_is_said_before_anything_is_fetched(tmp_path):
    start = time.monotonic()
    env = {"ONDOL_HOME": tmp_path, "HF_ENDPOINT": "http://127.0.0.1:9"}
    program.refused(program.ondol("pull", "hf:a/b", "--name", "../x", env=env), 2, "../x")
    assert time.monotonic() - start < 5


HOSTILE = {
    "attention.head_count": [0, 3, 2**32 - 1],
    "attention.head_count_kv": [0, 3, 8],
    "embedding_length": [0, 63, 2**20, 2**32 - 1],
    "block_count": [0, 3, 2**32 - 1],
    "feed_forward_length": [0, 2**32 - 1],
    "rope.dimension_count": [1, 17, 32, 2**32 - 1],
    "context_length": [0, 2**32 - 1],
    "attention.key_length": [0, 8, 65536, 2**31],
    "attention.value_length": [0, 8, 65536],
}


@pytest.mark.parametrize("key", HOSTILE)
def test_hostile_numbers(tmp_path, key):
    for value in HOSTILE[key]:
        model = toy.Model()
        model.keys[f"llama.{key}"] = (toy.U32, value)
        path = model.write(tmp_path / "m.gguf")
        for command in (["run", path, "--raw", "-p", "x", "-n", 1], ["logits", path, "--tokens", "1", "-o", tmp_path / "l.npy"]):
            program.refused(program.ondol(*command, timeout=20), 3)
        program.fine("show", path)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("key", ["attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.scaling.factor"])
def test_hostile_floats(tmp_path, key, value):
    model = toy.Model()
    model.keys[f"llama.{key}"] = (toy.F32, value)
    program.refused(program.ondol("run", model.write(tmp_path / "m.gguf"), "--raw", "-p", "x", "-n", 1), 3, key)
