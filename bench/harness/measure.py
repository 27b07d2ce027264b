"""Runs jobs: Ondol and the peer in turn, A B A B, every raw value kept."""

import dataclasses
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time

from .jobs import Job


class RunFailed(Exception):
    """One run gave no figure; the message says which and why."""


@dataclasses.dataclass
class Outcome:
    out: str
    seconds: float
    peak_rss: int

    def json(self):
        """The last line of the output that is JSON: what comes before it is chatter."""
        for line in reversed(self.out.strip().splitlines()):
            try:
                return json.loads(line)
            except ValueError:
                continue
        raise RunFailed("it printed no JSON")


def run(command, limit_s):
    """Runs a command to its end; time and peak memory are those of this one process."""
    command = [str(word) for word in command]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        except OSError as error:
            raise RunFailed(f"{command[0]} cannot be started: {error.strerror}") from None
        timer = threading.Timer(limit_s, process.kill)
        timer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            timer.cancel()
        seconds = time.monotonic() - start
        out.seek(0)
        err.seek(0)
        text, message = out.read().decode("utf-8", "replace"), err.read().decode("utf-8", "replace")
    if process.returncode == -9 and seconds >= limit_s:
        raise RunFailed(f"stopped after the limit of {limit_s / 60:.0f} minutes")
    if process.returncode != 0:
        last = (message.strip().splitlines() or ["no message"])[-1]
        raise RunFailed(f"exit {process.returncode}: {last[:200]}")
    return Outcome(text, seconds, usage.ru_maxrss * 1024)


def drop_from_cache(model):
    """Asks the system to forget a file's pages, so that the next start reads it from the disk."""
    with open(model, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@dataclasses.dataclass
class Side:
    """Ondol, or the peer: how it is called."""

    name: str
    command: list
    threads: int
    limit_s: float
    is_peer: bool = False

    def run(self, job, model):
        """One run: (figure or None, the JSON it printed, peak memory)."""
        arguments = job.peer_arguments if self.is_peer else job.own_arguments
        try:
            if job.kind == "start":
                return self._start(job, model, arguments(model, self.threads))
            outcome = run([*self.command, *arguments(model, self.threads)], self.limit_s)
            result = outcome.json()
            values = result.get("pp" if job.kind == "prefill" else "tg")
            if not values:
                raise RunFailed("no figure in what it printed")
            # The program says what it held before its own measurement of the memory took some.
            return values[0], result, result.get("peak_rss_bytes") or outcome.peak_rss
        except RunFailed as error:
            raise RunFailed(f"{self.name}: {error}") from None

    def _start(self, job, model, arguments):
        """Milliseconds from the process's start to its end after one token.

        A peer called through a script pays for its interpreter: what `--help` takes is not counted.
        """
        overhead = run([*self.command, "--help"], self.limit_s).seconds if self.is_peer else 0.0
        if job.cold:
            drop_from_cache(model)
        else:
            read_once(model)
        outcome = run([*self.command, *arguments], self.limit_s)
        return max(outcome.seconds - overhead, 0.0) * 1e3, {}, outcome.peak_rss


def read_once(model):
    """Reads a file once, so that it is in the system's cache."""
    with open(model, "rb", buffering=0) as file:
        block = bytearray(1 << 22)
        while file.readinto(block):
            pass


def _median(results, key):
    values = [result[key] for result in results if result.get(key)]
    return statistics.median(values) if values else None


def _figures(values, rss):
    return {"values": values, "median": statistics.median(values), "peak_rss_bytes": max(rss)}


def _batches(results):
    """Per number of sequences: tokens/s of all together, and v(m) = T(m) ÷ T(1) from the medians."""
    by_size = {}
    for result in results:
        for batch in result["batches"]:
            by_size.setdefault(batch["sequences"], []).extend(batch["tps"])
    medians = {m: statistics.median(values) for m, values in by_size.items()}
    single = medians.get(1) or _median([{"tg": r["tg"][0]} for r in results], "tg")
    return [{"sequences": m, "values": v, "median": medians[m], "v": m * single / medians[m]} for m, v in by_size.items()]


def measure(job: Job, model, own: Side, peer: Side | None, rounds, progress):
    """One record of the results (bench/README.md says what is in it). RunFailed where a side gives no figure."""
    sides = [own] + ([peer] if peer and not job.own_only else [])
    values = {side.name: [] for side in sides}
    rss = {side.name: [] for side in sides}
    results = []
    for index in range(rounds):
        for side in sides:
            progress(f"round {index + 1} of {rounds}, {side.name}")
            figure, result, peak = side.run(job, model)
            values[side.name].append(figure)
            rss[side.name].append(peak)
            if side is own:
                results.append(result)
    ours = _figures(values[own.name], rss[own.name])
    theirs = _figures(values[peer.name], rss[peer.name]) if len(sides) == 2 else None
    record = {
        "test": job.name,
        "kind": job.kind,
        "tokens": job.tokens,
        "depth": job.depth,
        "kv": job.kv,
        "unit": "ms" if job.kind == "start" else "tokens/s",
        "ours": ours,
        "peer": theirs,
        "ratio": ours["median"] / theirs["median"] if theirs and theirs["median"] else None,
        "isa": results[0].get("isa"),
        "read_bandwidth_gbps": _median(results, "read_bandwidth_gbps"),
        "clock_ghz": _median(results, "clock_ghz"),
        "memory": results[0].get("memory"),
    }
    if job.kind == "prefill":
        record["mac_per_cycle_per_core"] = _median(results, "prefill_mac_per_cycle_per_core")
    if job.kind in ("decode", "batch"):
        record["weight_bytes_per_token"] = results[0].get("weight_bytes_per_token")
        record["share_of_bandwidth"] = _median(results, "share_of_bandwidth")
    if job.kind == "batch":
        record["batches"] = _batches(results)
    return record
