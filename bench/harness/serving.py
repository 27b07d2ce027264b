"""Servers under load: starting them, and the tests of bench/serve.py, each a few runs of `ondol bench serve`."""

import contextlib
import dataclasses
import json
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request


class ServerFailed(RuntimeError):
    """A server did not start, or a run against it failed."""


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How much work a suite is. Tokens, but for what is named otherwise."""

    written: int = 128
    prefill: int = 512
    prefix: int = 4096
    instructions: int = 1500
    agent_requests: int = 32
    turns: int = 8
    short_requests: int = 24
    long_prompt: int = 2048
    context: int = 8192


SUITES = {
    "quick": Sizes(32, 256, 512, 300, 9, 3, 6, 512, 2048),
    "full": Sizes(),
}
STREAMS = 8


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def running(command, url, seconds):
    """A server while it is needed. Its input stays open: some end with it."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT)
        try:
            start = time.monotonic()
            while not is_ready(url):
                if process.poll() is not None or time.monotonic() - start > seconds:
                    log.seek(0)
                    said = log.read().decode("utf-8", "replace")[-2000:]
                    raise ServerFailed(f"the server did not start: {' '.join(command)}\n{said}")
                time.sleep(0.2)
            yield url
        finally:
            process.stdin.close()
            process.terminate()
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def is_ready(url):
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


@dataclasses.dataclass(frozen=True)
class Server:
    """`command` has words with {model}, {port}, {ctx}, {total_ctx}, {parallel} and {threads} in them."""

    name: str
    command: tuple

    def start(self, model, sizes, threads, seconds=300):
        port = free_port()
        values = {
            "model": model,
            "port": port,
            "ctx": sizes.context,
            "total_ctx": sizes.context * STREAMS,
            "parallel": STREAMS,
            "threads": threads,
        }
        return running([word.format(**values) for word in self.command], f"http://127.0.0.1:{port}", seconds)


class Load:
    """Runs `ondol bench serve` against one server."""

    def __init__(self, program, url, limit_s):
        self.program, self.url, self.limit_s = str(program), url, limit_s

    def start(self, **flags):
        command = [self.program, "bench", "serve", self.url, "--ignore-eos", "--json", "--timeout", str(self.limit_s)]
        for name, value in flags.items():
            dashes = "-" if len(name) == 1 else "--"
            command += [dashes + name.replace("_", "-"), str(value)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, process):
        out, err = process.communicate(timeout=self.limit_s * 4)
        if process.returncode != 0:
            raise ServerFailed(err.strip() or f"exit {process.returncode}")
        report = json.loads(out)
        if report["errors"]:
            raise ServerFailed(f"{report['errors']}: {report.get('first_errors')}")
        return report

    def run(self, **flags):
        return self.finish(self.start(**flags))


def streams(load, sizes, seed):
    """Tokens/s of eight streams, beside those of one and the rate of reading."""
    one = load.run(clients=1, requests=2, p=32, n=sizes.written, warmup=1, seed=seed)
    eight = load.run(clients=STREAMS, requests=2 * STREAMS, p=32, n=sizes.written, warmup=1, seed=seed + 1)
    read = load.run(clients=1, requests=3, p=sizes.prefill, n=2, seed=seed + 2)
    return {
        "single_tps": 1e3 / one["tpot_ms"]["p50"],
        "eight_tps": eight["completion_tps"],
        "prefill_tps": read["prompt_tokens"] / read["requests"] / (read["ttft_ms"]["p50"] / 1e3),
    }


def prefix(load, sizes, seed):
    """Time to the first token of a long prompt, new and again."""
    work = {"requests": 1, "p": sizes.prefix, "n": 2, "seed": seed + 3}
    cold, warm = load.run(**work), load.run(**work)
    return {
        "prefix_tokens": cold["prompt_tokens"],
        "cold_ttft_ms": cold["ttft_ms"]["p50"],
        "warm_ttft_ms": warm["ttft_ms"]["p50"],
        "warm_cached": warm["cached_tokens"],
    }


def agents(load, sizes, seed):
    """How much of what was sent before is found again."""
    report = load.run(
        workload="agent",
        clients=4,
        requests=sizes.agent_requests,
        turns=sizes.turns,
        p=150,
        n=32,
        shared_prefix=sizes.instructions,
        seed=seed + 4,
    )
    return {
        "agent_hit_rate": report["hit_rate"],
        "agent_possible_rate": report["possible_hit_rate"],
        "agent_share": report["share_of_possible"],
        "agent_ttft_ms": report["ttft_ms"]["p50"],
    }


def mixed(load, sizes, seed):
    """The pace of short answers, alone and while long prompts are read."""
    short = {"clients": 2, "requests": sizes.short_requests, "p": 48, "n": sizes.written}
    alone = load.run(**short, seed=seed + 5)
    long = load.start(clients=1, requests=100_000, duration=3600, p=sizes.long_prompt, n=4, seed=seed + 6)
    try:
        time.sleep(1)  # the first long prompt is on its way
        beside = load.run(**short, seed=seed + 7)
        if long.poll() is not None:
            raise ServerFailed(f"the long prompts ended early: {long.communicate()[1].strip()}")
    finally:
        long.terminate()
        long.communicate()
    return {
        "alone_tpot_p99_ms": alone["tpot_ms"]["p99"],
        "mixed_tpot_p99_ms": beside["tpot_ms"]["p99"],
        "mixed_pause_p99_ms": beside["longest_pause_ms"]["p99"],
    }


TESTS = {"streams": streams, "prefix": prefix, "agents": agents, "mixed": mixed}
