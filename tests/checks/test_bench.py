"""bench/speed.py with a program and a peer that only pretend: order, medians, resuming, reports."""

import json
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from pysupport import places

BENCH = places.ROOT / "bench"
sys.path.insert(0, str(BENCH))

from harness import jobs, machine, measure, plots, report  # noqa: E402
from harness.results import Results  # noqa: E402

# Each call takes the next figure of FAKE_FIGURES and adds a line to FAKE_LOG.
FAKE = """#!{python}
import json, os, sys, time
name, words = "{name}", sys.argv[1:]
if words == ["--version"]: print("ondol 9.8.7"); sys.exit()
if words[0] == "show":
    print(json.dumps({{"quant_mix": [{{"type": "Q4_K", "bytes": 95}}, {{"type": "F32", "bytes": 5}}]}}))
    sys.exit()
with open(os.environ["FAKE_LOG"], "a") as log: log.write(name + " " + " ".join(words) + "\\n")
if "--help" in words: sys.exit()
calls = sum(line.startswith(name) and "--help" not in line for line in open(os.environ["FAKE_LOG"]))
if os.environ.get("FAKE_BROKEN") == name: sys.exit("error: it is broken | badly")
if os.environ.get("FAKE_SLOW") == str(calls): time.sleep(60)
value = float(os.environ["FAKE_" + name.upper()].split(",")[calls - 1])
option = lambda flag, other="0": words[words.index(flag) + 1] if flag in words else other
result = {{
    "isa": "fake", "pp": [value] if option("-p") != "0" else [], "tg": [value] if option("-n") != "0" else [],
    "read_bandwidth_gbps": 20.0, "clock_ghz": 3.0, "share_of_bandwidth": value / 100, "weight_bytes_per_token": 5,
    "prefill_mac_per_cycle_per_core": value / 10, "memory": {{"weights": 100, "kv": 60, "compute": 1}}, "peak_rss_bytes": 168,
}}
sizes = [int(m) for m in option("--batch", "").split(",") if m]
result["batches"] = [{{"sequences": m, "tps": [value * (1 + m) / 2], "v": 0}} for m in sizes]
print("chatter")
print(json.dumps(result))
"""


class Fakes:
    """A model, a program, a peer and a place for results."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.log, self.out = folder, folder / "log", folder / "out"
        self.model = folder / "toy-Q4_K.gguf"
        self.model.write_bytes(bytes(100))
        for name in ("own", "peer"):
            script = folder / name
            script.write_text(FAKE.format(python=sys.executable, name=name))
            script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("FAKE_LOG", str(self.log))
        monkeypatch.delenv("ONDOL_ISA", raising=False)
        self.figures(monkeypatch, "30,10,20", "5,4,6")

    def figures(self, monkeypatch, own, peer):
        monkeypatch.setenv("FAKE_OWN", own)
        monkeypatch.setenv("FAKE_PEER", peer)

    def command(self, *arguments, peer=True):
        with_peer = ["--peer-python", sys.executable, "--peer-script", str(self.folder / "peer"), "--peer-name", "Peer 1.2"]
        common = ["--program", str(self.folder / "own"), "--models", str(self.model), "--out", str(self.out), "-t", "2"]
        return [sys.executable, str(BENCH / "speed.py"), *common, *(with_peer if peer else []), *arguments]

    def speed(self, *arguments, code=0, peer=True):
        self.log.write_text("")
        done = subprocess.run(self.command(*arguments, peer=peer), capture_output=True, text=True, timeout=100)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def calls(self):
        return [line.split()[0] for line in self.log.read_text().splitlines() if "--help" not in line]

    def records(self):
        return json.loads((self.out / "speed.json").read_text())["records"]


@pytest.fixture
def fakes(tmp_path, monkeypatch):
    return Fakes(tmp_path, monkeypatch)


def test_ondol_and_the_peer_alternate_and_medians_are_taken(fakes):
    done = fakes.speed("--tests", "decode")
    assert fakes.calls() == ["own", "peer"] * 3
    assert "peer bench" in fakes.log.read_text() and "--depth 0 -t 2 -r 1" in fakes.log.read_text()
    (record,) = fakes.records()
    assert record["ours"] == {"values": [30, 10, 20], "median": 20, "peak_rss_bytes": 168}
    assert record["peer"]["values"] == [5, 4, 6] and record["peer"]["median"] == 5
    assert record["ratio"] == 4 and record["share_of_bandwidth"] == 0.2
    assert "| toy-Q4_K | Q4_K | decode | 20.0 | 5.00 | 4.00 | 20% | – | – | – |" in done.stdout
    assert done.stderr == "" or "older than its sources" in done.stderr or "matplotlib" in done.stderr


def test_the_json_says_what_the_figures_belong_to(fakes):
    fakes.speed("--tests", "prefill")
    data = json.loads((fakes.out / "speed.json").read_text())
    assert data["schema"] == 1
    assert set(data["machine"]) == {"cpu", "flags", "usable_cpus", "threads", "memory_bytes", "kernel"}
    assert data["product"]["version"] == "9.8.7" and data["product"]["commit"]
    assert data["peer"] == {"name": "Peer 1.2"}
    (record,) = data["records"]
    assert record["mac_per_cycle_per_core"] == 2
    belongs = {"model": "toy-Q4_K", "quant": "Q4_K", "test": "prefill-512", "threads": 2, "isa": "fake", "peer_name": "Peer 1.2"}
    assert belongs.items() <= record.items()
    assert {"cpu", "commit", "date", "file_bytes", "memory", "read_bandwidth_gbps", "clock_ghz"} <= set(record)


def test_nothing_is_measured_twice_unless_asked(fakes):
    fakes.speed("--tests", "decode")
    first = fakes.records()
    fakes.speed("--tests", "decode")
    assert fakes.calls() == [] and fakes.records() == first
    fakes.speed("--tests", "decode", peer=False)
    assert fakes.calls() == []
    fakes.speed("--tests", "decode", "--again", "-r", "1")
    assert fakes.calls() == ["own", "peer"]
    fakes.speed("--tests", "decode")
    assert len(fakes.calls()) == 6, "one round is not enough where three are asked for"
    fakes.model.write_bytes(bytes(200))
    fakes.speed("--tests", "decode", "-r", "1")
    assert fakes.calls() == ["own", "peer"], "another model file of the same name"
    assert len(fakes.records()) == 1


def test_a_peer_that_comes_later_is_measured(fakes):
    done = fakes.speed("--tests", "decode", peer=False)
    assert fakes.calls() == ["own"] * 3
    assert fakes.records()[0]["peer"] is None
    assert "No peer was at hand: Ondol's own figures only." in done.stdout
    fakes.speed("--tests", "decode")
    assert fakes.calls() == ["own", "peer"] * 3


def test_batches_are_ours_alone_with_v_from_medians(fakes):
    done = fakes.speed("--tests", "batch")
    assert fakes.calls() == ["own"] * 3
    (record,) = fakes.records()
    assert [b["sequences"] for b in record["batches"]] == [1, 4, 8]
    # m sequences together: figure * (1 + m) / 2, so T(m) / T(1) = 2 m / (1 + m).
    assert [b["v"] for b in record["batches"]] == pytest.approx([1, 8 / 5, 16 / 9])
    assert record["batches"][1]["median"] == 50
    assert "| decode, 8 at once | 90.0 | – | – | – | – | 1.78 | – |" in done.stdout


def test_the_start_is_the_time_of_a_process(fakes):
    done = fakes.speed("--tests", "start", "-r", "1")
    calls = fakes.log.read_text().splitlines()
    assert [call.split()[1] for call in calls] == ["run", "--help", "greedy"]
    (record,) = fakes.records()
    assert record["unit"] == "ms" and 1 < record["ours"]["median"] < 60_000
    assert "| toy-Q4_K | warm |" in done.stdout


def test_a_failing_side_is_reported_and_tried_again(fakes, monkeypatch):
    monkeypatch.setenv("FAKE_BROKEN", "peer")
    done = fakes.speed("--tests", "decode", code=1)
    assert "Peer 1.2: exit 1: error: it is broken" in done.stderr
    assert "| decode@0 | Peer 1.2: exit 1: error: it is broken / badly |" in done.stdout
    monkeypatch.delenv("FAKE_BROKEN")
    fakes.speed("--tests", "decode")
    assert fakes.calls() == ["own", "peer"] * 3


def test_ctrl_c_keeps_what_is_done(fakes, monkeypatch):
    fakes.figures(monkeypatch, "1,2", "3,4")
    monkeypatch.setenv("FAKE_SLOW", "2")
    fakes.log.write_text("")
    running = subprocess.Popen(
        fakes.command("--tests", "prefill,decode", "-r", "1", peer=False), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    until = time.monotonic() + 60
    while fakes.calls() != ["own", "own"] and time.monotonic() < until:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert b"what was measured is kept" in err and b"prefill 512" in out
    assert [record["test"] for record in fakes.records()] == ["prefill-512"]


def test_runs_that_take_too_long_are_left_out(fakes, monkeypatch):
    fakes.figures(monkeypatch, ",".join(["8"] * 99), ",".join(["1"] * 99))
    done = fakes.speed("--suite", "full", "--tests", "prefill", "-r", "1")
    # 8704 tokens at the peer's 1 token/s, and 2048: more than ten minutes.
    assert "prefill-512@8192: left out, a run would take 145.1 minutes" in done.stderr
    assert [record["test"] for record in fakes.records()] == ["prefill-512", "prefill-32", "prefill-128"]


def test_a_run_over_the_limit_is_stopped(tmp_path):
    with pytest.raises(measure.RunFailed, match="stopped after the limit"):
        measure.run([sys.executable, "-c", "import time; time.sleep(60)"], 0.2)
    with pytest.raises(measure.RunFailed, match="cannot be started"):
        measure.run([tmp_path / "nothing"], 1)


def test_the_readme_changes_between_its_markers_only(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.update_between_markers(page, "new\n")
    report.update_between_markers(page, "newer\n")
    assert page.read_text() == f"before\n{report.BEGIN}\nnewer\n{report.END}\nafter\n"
    page.write_text("no markers\n")
    with pytest.raises(ValueError, match="once each"):
        report.update_between_markers(page, "new\n")
    readme = (BENCH / "README.md").read_text()
    assert readme.count(report.BEGIN) == readme.count(report.END) == 1


def test_quick_results_do_not_replace_full_ones(tmp_path):
    results = Results(tmp_path / "speed.json")
    base = {"cpu": "c", "threads": 2, "forced_isa": "", "model": "m", "test": "batch", "commit": "1", "file_bytes": 9}
    full = {**base, "tokens": 32, "shape": [1, 2, 4, 8], "peer": None, "peer_name": None, "ours": {"values": [1, 2, 3]}}
    results.put(full)
    quick = {**base, "tokens": 16, "shape": [1, 4, 8], "peer_name": None}
    assert results.is_done(quick, 3, False)
    assert not results.is_done({**quick, "shape": [1, 64]}, 3, False)
    assert not results.is_done({**quick, "commit": "2"}, 3, False)
    assert not results.is_done({**quick, "threads": 1}, 3, False)
    results.save({"machine": {}})
    assert Results(tmp_path / "speed.json").find(quick) == full


def test_suites_have_every_shape():
    full = {job.name for job in jobs.suite("full")}
    assert {"prefill-32", "prefill-128", "prefill-512", "prefill-2048", "prefill-512@8192"} <= full
    assert {"decode@0", "decode@2048", "decode@8192", "decode@8192-q8_0", "batch", "start-warm", "start-cold"} <= full
    assert {job.kind for job in jobs.suite("quick")} == set(jobs.KINDS)
    assert [job.kind for job in jobs.suite("quick", ["batch"])] == ["batch"]


def test_peers_are_named_by_their_script(tmp_path):
    script = tmp_path / "fast.py"
    script.write_text('"""fast.cpp v1.2.3 as a peer"""\n')
    assert machine.peer_name(script) == "fast.cpp v1.2.3"
    script.write_text("print()\n")
    assert machine.peer_name(script) == "fast"


def test_plots_are_svg_and_the_same_for_the_same_figures(fakes):
    if not plots.available():
        pytest.skip("matplotlib is not installed")
    fakes.speed("--tests", "decode")
    ratios = fakes.out / "ratios.svg"
    first = ratios.read_bytes()
    assert b"<svg" in first and b"toy-Q4_K" in first
    fakes.speed("--tests", "batch", "--report-only")
    assert fakes.calls() == [] and ratios.read_bytes() == first
    assert not (fakes.out / "batches.svg").exists()
    fakes.speed("--tests", "batch")
    assert b"one after the other" in (fakes.out / "batches.svg").read_bytes()


def test_models_are_made_once_and_whole(tmp_path):
    tool = tmp_path / "tool.py"
    writes = "import sys\nif 'bad' in sys.argv: sys.exit('no such preset')\nopen(sys.argv[-1], 'w').write(sys.argv[2])\n"
    tool.write_text(writes)
    command = [sys.executable, BENCH / "models.py", "--make-model", tool, "--out", tmp_path / "made"]
    made = tmp_path / "made/llama-1b-Q4_K.gguf"
    for _ in range(2):
        done = subprocess.run([*command, "llama-1b:Q4_K"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == str(made) and made.read_text() == "llama-1b"
        tool.write_text("raise SystemExit('it is there already')")
    tool.write_text(writes)
    failed = subprocess.run([*command, "bad:Q4_K"], capture_output=True, text=True)
    assert failed.returncode == 1 and "no such preset" in failed.stderr
    assert os.listdir(tmp_path / "made") == ["llama-1b-Q4_K.gguf"]


@pytest.mark.parametrize(
    ("arguments", "mention"),
    [
        (["--tests", "speed"], "not speed"),
        (["--peer-python", "python3"], "belong together"),
        (["-r", "0"], "above zero"),
        (["--program", "nowhere"], "build it first"),
    ],
)
def test_wrong_use_is_refused(fakes, arguments, mention):
    done = fakes.speed(*arguments, code=2, peer=False)
    assert mention in done.stderr
