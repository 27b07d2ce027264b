"""`ondol bench serve`, `serve --record` and `serve --config`, as a user types them."""

import json
import os
import pathlib
import re
import resource
import stat
import subprocess
import xml.etree.ElementTree

import pytest
from serving import serve

from pysupport import program, toy


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return toy.Model(toy.Shape(context=1 << 14)).write(tmp_path_factory.mktemp("toy") / "m.gguf")


@pytest.fixture(scope="module")
def server(model):
    with serve(model, "--ctx", 8192, "--parallel", 4, "--kv-ram", "64M") as running:
        yield running


def load(server, *flags):
    flags = [*flags, "--ignore-eos", "--json"]
    return program.fine("bench", "serve", server.base_url, *flags, env={"OPENAI_API_KEY": None}).json


def test_a_closed_loop(server, tmp_path):
    plot = tmp_path / "plot.svg"
    report = load(server, "--clients", 4, "--requests", 12, "-p", 300, "-n", 8, "--shared-prefix", 200, "--plot", plot)
    assert report["requests"] == 12 and report["errors"] == {} and report["most_at_once"] == 4
    assert report["completion_tokens"] == 12 * 8
    # The toy's tokens are letters, so that a prompt is met to within a word.
    assert abs(report["prompt_tokens"] / 12 - 300) < 25
    assert 0 < report["ttft_ms"]["p50"] <= report["ttft_ms"]["p95"] <= report["ttft_ms"]["p99"]
    assert 0 < report["tpot_ms"]["p50"] < report["total_ms"]["p50"]
    assert 0.4 < report["possible_hit_rate"] < 0.75
    assert report["share_of_possible"] > 0.9
    assert report["completion_tps"] > 0 and report["goodput_per_s"] == pytest.approx(report["requests_per_s"])
    picture = xml.etree.ElementTree.parse(plot).getroot()
    assert picture.tag.endswith("svg")
    assert report["model"] in "".join(picture.itertext())


def test_an_open_loop_and_a_goodput_nobody_reaches(server):
    report = load(server, "--rate", 100, "--requests", 10, "-p", 60, "-n", 4, "--ttft-limit", 0.000001)
    assert report["requests"] == 10 and report["goodput_per_s"] == 0 and report["requests_per_s"] > 0


def test_agents_find_what_they_said_before(server):
    flags = ["--workload", "agent", "--clients", 3, "--turns", 4, "--requests", 12, "-p", 100, "-n", 8, "--shared-prefix", 600]
    report = load(server, *flags, "--seed", 5)
    assert report["requests"] == 12 and report["errors"] == {}
    assert report["possible_hit_rate"] > 0.6
    assert report["share_of_possible"] > 0.95
    again = load(server, *flags, "--seed", 5)
    assert again["prompt_tokens"] == report["prompt_tokens"]


def test_figures_for_people(server):
    outcome = program.fine("bench", "serve", server.base_url, "--requests", 2, "-p", 40, "-n", 3, "--ignore-eos")
    assert re.search(r"first token \(TTFT\) +\d", outcome.out) and "cached: " in outcome.out
    assert outcome.err == ""


def test_what_cannot_be_loaded(server, tmp_path):
    program.refused(program.ondol("bench", "serve", "http://127.0.0.1:1"), 1, "cannot be reached")
    program.refused(program.ondol("bench", "serve", "ftp://x"), 2, "ftp://x")
    program.refused(program.ondol("bench", "serve", server.base_url, "--workload", "chatt"), 2, "chatt")
    program.refused(program.ondol("bench", "serve", server.base_url, "--clients", 2, "--rate", 3), 2)
    lines = tmp_path / "lines"
    lines.write_text('{"prompt": "x", "max_tokens": 1}\n{"prompt": \n')
    program.refused(program.ondol("bench", "serve", server.base_url, "--workload", lines), 3, "line 2")
    bad = program.ondol("bench", "serve", server.base_url, "--model", "other", "--requests", 2)
    program.refused(bad, 1, "other")


def test_a_key_is_needed_and_given(model, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("alice:secret-key\n")
    with serve(model, "--ctx", 512, "--api-key-file", keys) as server:
        command = ["bench", "serve", server.base_url, "--requests", 1, "-p", 40, "-n", 2]
        program.refused(program.ondol(*command, env={"OPENAI_API_KEY": None}), 1, "--api-key")
        program.fine(*command, "--api-key", "secret-key")
        program.fine(*command, env={"OPENAI_API_KEY": "secret-key"})


def test_a_recording_is_replayed(model, tmp_path):
    record = tmp_path / "record.jsonl"
    with serve(model, "--ctx", 2048, "--record", record) as server:
        bodies = [{"prompt": f"hello world {i}", "max_tokens": 3 + i, "ignore_eos": True} for i in range(3)]
        for body in bodies:
            server.post("/v1/completions", body)
        assert server.request("POST", "/v1/completions", b'{"prompt": "x",\n "temperature": -1}')[0] == 400
        assert server.request("POST", "/v1/chat/completions", b"{rubbish")[0] == 400
        server.request("GET", "/v1/models")
        messages = [{"role": "user", "content": "hi"}]
        server.request("POST", "/v1/chat/completions", {"messages": messages, "max_tokens": 4, "stream": True})
    assert stat.S_IMODE(os.stat(record).st_mode) == 0o600
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    lines.sort(key=lambda line: line["t"])  # they were written when requests ended
    assert [line["body"] for line in lines[:3]] == bodies
    assert [line["status"] for line in lines] == [200, 200, 200, 400, 400, 200]
    assert [line["completion_tokens"] for line in lines] == [3, 4, 5, 0, 0, 4]
    assert lines[1]["cached_tokens"] > 0 and lines[0]["ttft_ms"] > 0
    assert lines[4]["body"] == "{rubbish"
    with serve(model, "--ctx", 2048) as server:
        report = load(server, "--workload", record)
    assert report["requests"] == 4 and report["errors"] == {"http_400": 1}
    assert report["completion_tokens"] == 3 + 4 + 5 + 4


def test_recording_says_so_and_a_full_disk_stops_nobody(model, tmp_path):
    """A limit of file sizes stands for the full disk."""
    record = tmp_path / "record.jsonl"
    limit = 2000
    command = [str(program.ONDOL), "serve", str(model), "--port", "0", "--ctx", "2048", "--record", str(record)]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    try:
        said = [process.stderr.readline()]
        while "ready on" not in said[-1]:
            said.append(process.stderr.readline())
            assert said[-1], said
        assert "recording" in said[0] and str(record) in said[0]
        from serving import Server

        server = Server(process, int(said[-1].strip().rsplit(":", 1)[1]))
        for i in range(8):
            server.post("/v1/completions", {"prompt": "a" * 500, "max_tokens": 2, "seed": i})
        process.terminate()
        rest = process.stderr.read()
        assert process.wait(20) == 0
        assert rest.count("recorded no more") == 1, rest
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    assert record.stat().st_size <= limit
    program.refused(program.ondol("serve", model, "--port", 0, "--record", tmp_path / "no" / "file"), 1, "no")


CONFIG = """
# A comment, and a # in a value.
parallel = 3
ctx = 1024   # behind a value
kv-type = "q8_0"
no-prefix-cache = true
cors-origin = ["http://a.example", 'http://b.example']
"""


def printed(*flags):
    """The settings that --print-config writes, as {name: text}; those without a value are left out."""
    out = program.fine("serve", *flags, "--print-config").out
    return dict(line.split(" = ", 1) for line in out.splitlines() if line and not line.startswith("#"))


def test_a_file_sets_flags_and_the_command_line_wins(tmp_path):
    file = tmp_path / "serve.toml"
    file.write_text(CONFIG)
    plain, with_file = printed(), printed("--config", file)
    assert plain["parallel"] == "4" and plain["host"] == '"127.0.0.1"' and "ctx" not in plain
    assert (with_file["parallel"], with_file["ctx"], with_file["kv-type"]) == ("3", "1024", '"q8_0"')
    assert with_file["no-prefix-cache"] == "true" and with_file["share-prefix"] == "false"
    assert with_file["cors-origin"] == '["http://a.example", "http://b.example"]'
    assert printed("--config", file, "--parallel", 7)["parallel"] == "7"


def test_what_is_printed_can_be_read(tmp_path):
    file = tmp_path / "serve.toml"
    odd = 'a"b\\c#d e'
    flags = ["--api-key-file", odd, "--port", 0, "--share-prefix", "--cors-origin", "http://a.example"]
    text = program.fine("serve", "some-model", *flags, "--print-config").out
    file.write_text(text)
    assert program.fine("serve", "--config", file, "--print-config").out == text
    assert 'model = "some-model"' in text and "port = 0" in text and "share-prefix = true" in text


def test_every_flag_of_the_help_is_in_the_printed_file():
    help_text = program.fine("serve", "--help").out
    names = set(re.findall(r"^ +(?:-\w,)?--([a-z-]+)", help_text, re.MULTILINE)) - {"help", "config", "print-config"}
    text = program.fine("serve", "--print-config").out
    there = set(re.findall(r"^(?:# )?([a-z-]+) = ", text, re.MULTILINE))
    assert len(names) > 15 and names == there - {"model"}


@pytest.mark.parametrize(
    "line,mention",
    [
        ("parralel = 3", "did you mean parallel"),
        ("parallel = 0", "parallel"),
        ("parallel = 3\nparallel = 4", "twice"),
        ("parallel", "line 1"),
        ("kv-ram = 8G", "in quotes"),
        ('kv-ram = "8G', "quote is missing"),
        ("share-prefix = 7", "true or false"),
        ("parallel = [1, 2]", "one value"),
        ("parallel = 3 4", "behind the value"),
        ("[other]", "line 1"),
        ("config = 'x'", "unknown name"),
        ("ctx = ", "missing"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, line, mention):
    file = tmp_path / "serve.toml"
    file.write_text(line + "\n")
    program.refused(program.ondol("serve", "--config", file, "--print-config"), 2, mention)
    program.refused(program.ondol("serve", "--config", file), 2, str(pathlib.Path(file).name))


def test_a_server_runs_by_its_file(model, tmp_path):
    file = tmp_path / "serve.toml"
    file.write_text("ctx = 300\n")
    with serve(model, "--config", file) as server:
        data = json.loads(server.request("GET", "/v1/models")[2])["data"][0]
        assert data["context_length"] == 300
    program.refused(program.ondol("serve", model, "--config", tmp_path / "none"), 2, "none")
