"""/metrics as Prometheus' own parser reads it, and the dashboard over it."""

import json
import re
import socket

import pytest
from prometheus_client.parser import text_string_to_metric_families
from serving import serve

from pysupport import places, toy

DASHBOARD = places.ROOT / "docs/grafana/ondol.json"
# How a metric name ends, by the kind of its family.
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that has been asked well, badly and not at all."""
    folder = tmp_path_factory.mktemp("metrics")
    model = toy.Model(toy.Shape(context=1 << 14)).write(folder / "m.gguf")
    keys = folder / "keys"
    keys.write_text("alice:first-key\nbob:second-key\n")
    with serve(model, "--ctx", 4096, "--parallel", 2, "--api-key-file", keys) as running:
        yield running


def families(server):
    status, headers, data = server.request("GET", "/metrics", headers={"Authorization": "Bearer second-key"})
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return {family.name: family for family in text_string_to_metric_families(data.decode("utf-8"))}


def value(server, name, **labels):
    """The value of one sample, 0 where it is not there."""
    for family in families(server).values():
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return sample.value
    return 0


def complete(server, key="second-key", **fields):
    body = {"prompt": "hello world", "max_tokens": 5, "temperature": 0, "ignore_eos": True, **fields}
    return server.request("POST", "/v1/completions", body, {"Authorization": f"Bearer {key}"})


def test_the_format(server):
    assert complete(server, "first-key")[0] == complete(server)[0] == 200
    for name, family in families(server).items():
        assert name.startswith("ondol_") and family.documentation.endswith("."), name
        assert family.type in SUFFIXES, (name, family.type)
        seen = set()
        for sample in family.samples:
            assert sample.name in [name + suffix for suffix in SUFFIXES[family.type]], sample
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in seen, f"twice: {sample}"
            seen.add(key)
        if family.type == "histogram":
            buckets = [s for s in family.samples if s.name.endswith("_bucket")]
            counts = [s.value for s in buckets]
            assert counts == sorted(counts) and buckets[-1].labels["le"] == "+Inf"
            bounds = [float(s.labels["le"]) for s in buckets]
            assert bounds == sorted(bounds)
            assert counts[-1] == next(s.value for s in family.samples if s.name.endswith("_count"))


def test_a_request_is_counted(server):
    names = {"key": "alice"}
    counters = ["ondol_prompt_tokens_total", "ondol_completion_tokens_total", "ondol_cached_tokens_total"]
    histograms = ["ondol_first_token_seconds_count", "ondol_per_token_seconds_count"]
    before = [value(server, c, **names) for c in counters] + [value(server, h) for h in histograms]
    steps = value(server, "ondol_step_seconds_count"), value(server, "ondol_batch_requests_count")
    usage = json.loads(complete(server, "first-key")[2])["usage"]
    expected = [usage["prompt_tokens"], 5, usage["prompt_tokens_details"]["cached_tokens"], 1, 1]
    after = [value(server, c, **names) for c in counters] + [value(server, h) for h in histograms]
    assert [b - a for a, b in zip(before, after, strict=True)] == expected
    assert value(server, "ondol_step_seconds_count") >= steps[0] + 5
    assert value(server, "ondol_batch_requests_count") >= steps[1] + 5
    assert value(server, "ondol_running") == value(server, "ondol_queue_length") == 0


@pytest.mark.parametrize(
    "kind,status,ask",
    [
        ("bad_request", 400, lambda s: complete(s, temperature=-1)),
        ("not_allowed", 401, lambda s: complete(s, "no-key")),
        ("not_found", 404, lambda s: complete(s, model="other")),
        ("not_found", 404, lambda s: s.request("GET", "/nowhere", headers={"Authorization": "Bearer second-key"})),
        ("wrong_method", 405, lambda s: s.request("GET", "/tokenize", headers={"Authorization": "Bearer second-key"})),
        ("too_large", 413, lambda s: raw(s, b"POST /tokenize HTTP/1.1", b"Content-Length: 99999999")),
        ("too_large", 431, lambda s: raw(s, b"GET / HTTP/1.1", b"X-Long: " + b"a" * 100_000)),
        ("bad_request", 400, lambda s: raw(s, b"rubbish", b"")),
    ],
)
def test_errors_by_kind(server, kind, status, ask):
    before = value(server, "ondol_errors_total", kind=kind)
    assert ask(server)[0] == status
    assert value(server, "ondol_errors_total", kind=kind) == before + 1
    counted = [s for s in families(server)["ondol_requests"].samples if s.labels["status"] == str(status)]
    assert sum(s.value for s in counted) >= 1


def raw(server, line, header):
    with socket.create_connection(("127.0.0.1", server.port), 5) as connection:
        connection.sendall(line + b"\r\nHost: localhost\r\nAuthorization: Bearer second-key\r\n" + header + b"\r\n\r\n")
        return (int(connection.recv(4096).split()[1]),)


def test_a_dashboard_over_what_there_is(server):
    board = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    expressions += [v["query"]["query"] for v in board["templating"]["list"] if v["type"] == "query"]
    there = families(server)
    known = {name + suffix for name, family in there.items() for suffix in SUFFIXES[family.type]}
    used = {name for expression in expressions for name in re.findall(r"\bondol_\w+", expression)}
    assert len(used) > 12
    assert used <= known, f"not in /metrics: {sorted(used - known)}"
    labels = {label for family in there.values() for sample in family.samples for label in sample.labels}
    by = {name.strip() for e in expressions for group in re.findall(r"by \(([^)]*)\)", e) for name in group.split(",")}
    assert by <= labels, by - labels
    places_taken = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in board["panels"]]
    assert len(set(places_taken)) == len(places_taken)
    assert len({p["id"] for p in board["panels"]}) == len(board["panels"])
