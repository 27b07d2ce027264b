"""bench/serve.py with servers that only pretend: order, medians, ratios, reports, what fails."""

import json
import signal
import stat
import subprocess
import sys

import pytest

from pysupport import places

BENCH = places.ROOT / "bench"

# A program that is server and load at once. FACTOR says how good it is; each start adds a line to the log.
FAKE = """#!{python}
import http.server, json, os, sys
words = sys.argv[1:]
option = lambda flag, other=None: words[words.index(flag) + 1] if flag in words else other
log = lambda text: open({log!r}, "a").write(text + "\\n")
if words == ["--version"]: print("ondol 9.8.7"); sys.exit()
if words[:2] == ["bench", "serve"]:
    from urllib.request import urlopen
    factor = float(urlopen(words[2] + "/factor").read())
    many, tokens = option("--clients") == "8", int(option("-p", "0"))
    if os.environ.get("FAKE_BROKEN") == "load": sys.exit("error: nobody answers")
    if option("--duration"):
        import time; time.sleep(3600)
    again = {marker!r} + option("--seed", "0") + str(factor)
    known = os.path.exists(again); open(again, "w").close()
    of = lambda value: {{"p50": value, "p95": value, "p99": value * 2}}
    print(json.dumps({{
        "errors": {{}}, "requests": 2, "prompt_tokens": 2 * tokens, "completion_tps": 40 * factor if many else 9,
        "ttft_ms": of((10 if known else 1000) / factor), "tpot_ms": of(100 / factor), "longest_pause_ms": of(7),
        "cached_tokens": tokens, "hit_rate": 0.5 * factor, "possible_hit_rate": 0.9, "share_of_possible": 0.6 * factor,
    }}))
    sys.exit()
factor = b"{factor}"
log("{name} " + " ".join(words[:1]))
if os.environ.get("FAKE_BROKEN") == "{name}": sys.exit("out of order")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(factor)
    def log_message(self, *a): pass
http.server.HTTPServer(("127.0.0.1", int(option("--port"))), Handler).serve_forever()
"""


@pytest.fixture
def fakes(tmp_path, monkeypatch):
    monkeypatch.delenv("FAKE_BROKEN", raising=False)
    for name, factor in (("own", 2), ("peer", 1)):
        script = tmp_path / name
        values = {"python": sys.executable, "name": name, "factor": factor}
        script.write_text(FAKE.format(**values, log=str(tmp_path / "log"), marker=str(tmp_path / "seen-")))
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "toy.gguf").write_bytes(b"x")
    return tmp_path


def command(folder, *more, peer=True):
    flags = ["--model", folder / "toy.gguf", "--program", folder / "own", "--out", folder / "out", "-t", 1]
    if peer:
        flags += ["--peer-python", sys.executable, "--peer-script", folder / "peer", "--peer-name", "rival 1"]
    return [str(part) for part in [sys.executable, BENCH / "serve.py", *flags, *more]]


def run(folder, *more, peer=True):
    return subprocess.run(command(folder, *more, peer=peer), capture_output=True, text=True, timeout=120)


def rows(folder):
    lines = (folder / "out/serve.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return {row[0]: row[1:] for row in cells[1:]}


def test_both_in_turn_and_their_ratios(fakes):
    done = run(fakes, "-r", 2)
    assert done.returncode == 0, done.stderr
    assert (fakes / "log").read_text().split("\n")[:-1] == ["own serve", f"peer {fakes}/toy.gguf"] * 2
    table = rows(fakes)
    assert table["one stream, tokens/s"] == ["20.0", "10.0", "2.00"]
    assert table["8 streams, together, tokens/s"] == ["80.0", "40.0", "2.00"]
    # 8 x 20 is less than the rate of reading: 256 tokens in half a second.
    assert table["8 streams ÷ min(8 × one, prefill)"] == ["0.50", "0.50", "1.00"]
    assert table["long prompt, first time: TTFT, ms"] == ["500", "1000", "2.00"]
    assert table["first ÷ again"] == ["100", "100", "1.00"]
    assert table["agents: of what had been sent before"] == ["120%", "60%", "2.00"]
    assert table["beside ÷ alone"] == ["1.00", "1.00", "1.00"]
    data = json.loads((fakes / "out/serve.json").read_text())
    assert len(data["ours"]) == len(data["peer"]) == 2 and data["peer_name"] == "rival 1"
    assert "rival 1" in done.stdout and "toy" in done.stdout


def test_without_a_peer(fakes):
    done = run(fakes, "-r", 1, "--tests", "streams", peer=False)
    assert done.returncode == 0, done.stderr
    assert "No peer was at hand" in done.stdout
    assert rows(fakes)["one stream, tokens/s"] == ["20.0", "–", "–"]
    assert "agents: TTFT, ms" not in rows(fakes)


@pytest.mark.parametrize("broken,said", [("peer", "rival 1: the server did not start"), ("load", "nobody answers")])
def test_what_fails_is_said_and_is_no_figure(fakes, monkeypatch, broken, said):
    monkeypatch.setenv("FAKE_BROKEN", broken)
    done = run(fakes, "-r", 1, "--tests", "streams")
    assert done.returncode == 1
    assert said in done.stdout
    assert rows(fakes)["one stream, tokens/s"][1] == "–"


def test_an_interruption_leaves_no_server(fakes):
    process = subprocess.Popen(command(fakes, "-r", "1", "--tests", "mixed"), stderr=subprocess.PIPE, text=True)
    assert "Ondol: mixed" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert (fakes / "out").is_dir() or not (fakes / "out").exists()
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert str(fakes / "own") not in left


def test_flags_are_checked(fakes):
    for flags, mention in [(["--tests", "speed"], "knows"), (["-r", "0"], "above zero"), (["--peer-python", "x"], "together")]:
        done = run(fakes, *flags, peer=False)
        assert done.returncode == 2 and mention in done.stderr
    gone = run(fakes, "--model", fakes / "gone.gguf", peer=False)
    assert gone.returncode == 2 and "gone.gguf" in gone.stderr


def test_the_readme_has_a_place_for_the_table():
    sys.path.insert(0, str(BENCH))
    import serve

    text = (BENCH / "README.md").read_text()
    assert text.count(serve.BEGIN) == text.count(serve.END) == 1
    assert text.index(serve.BEGIN) < text.index(serve.END)
