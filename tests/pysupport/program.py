"""Runs the program as a user would."""

import dataclasses
import json
import os
import resource
import subprocess

from .places import ONDOL


@dataclasses.dataclass
class Outcome:
    code: int
    out: str
    err: str
    peak_mib: float = 0.0
    seconds: float = 0.0

    @property
    def json(self):
        return json.loads(self.out)

    def __str__(self):
        return f"exit {self.code}\nstdout: {self.out[:2000]}\nstderr: {self.err[:2000]}"


def environment(**changes):
    env = {k: v for k, v in os.environ.items() if k not in ("ONDOL_ISA", "NO_COLOR")}
    env.update({k: str(v) for k, v in changes.items() if v is not None})
    return env


def ondol(*arguments, stdin=b"", env=None, timeout=120, address_space=None):
    """Runs `ondol ARGUMENTS` to its end. stdin: bytes or text. address_space: a limit as `ulimit -v` sets it, in bytes."""
    if isinstance(stdin, str):
        stdin = stdin.encode()

    def limit():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if address_space is not None:
            resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))

    done = subprocess.run(
        [str(ONDOL), *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=timeout,
        env=environment(**(env or {})),
        preexec_fn=limit,
    )
    return Outcome(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def measured(*arguments, timeout=30):
    """Like ondol(), with peak memory and time of this one process."""
    import time

    start = time.monotonic()
    process = subprocess.Popen(
        [str(ONDOL), *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    try:
        out, err = process.stdout.read(), process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
    finally:
        process.stdout.close()
        process.stderr.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - start
    assert seconds < timeout, f"took {seconds:.1f} s"
    return Outcome(
        process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), usage.ru_maxrss / 1024, seconds
    )


def fine(*arguments, **options):
    """Runs and expects exit 0."""
    outcome = ondol(*arguments, **options)
    assert outcome.code == 0, outcome
    return outcome


def refused(outcome, code, *mentions, report=False):
    """Expects a clean refusal: this exit code, a short message that mentions each of `mentions`, and nothing on stdout.

    `report`: the command's result is a report, which may stand on stdout.
    """
    assert outcome.code == code, outcome
    assert report or outcome.out == "", outcome
    message = outcome.err.lower()
    assert message.strip(), outcome
    assert len(outcome.err) < 4000, outcome
    for mention in mentions:
        options = [mention] if isinstance(mention, str) else mention
        assert any(o.lower() in message for o in options), f"the message does not mention {mention}: {outcome}"


def ids(tokens):
    return ",".join(map(str, tokens))
