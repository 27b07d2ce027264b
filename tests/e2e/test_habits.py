"""Help, colours, and which stream carries what."""

import os
import pty
import subprocess

import pytest

from pysupport import program

COMMANDS = [
    "run",
    "chat",
    "tokenize",
    "detokenize",
    "render",
    "logits",
    "perplexity",
    "show",
    "verify",
    "list",
    "rm",
    "pull",
    "bench",
    "serve",
]


def test_help_lists_every_command():
    text = program.fine("--help").out
    for command in COMMANDS:
        assert command in text


@pytest.mark.parametrize("command", [*COMMANDS, "bench speed"])
def test_help_has_an_example(command):
    text = program.fine(*command.split(), "--help").out
    assert "xample" in text and f"ondol {command.split()[0]}" in text


def test_version():
    assert "0." in program.fine("--version").out


def test_stdout_holds_the_result_only(toy_model):
    outcome = program.fine("run", toy_model, "--raw", "--temp", 0, "-p", "hello", "-n", 4)
    as_json = program.fine("run", toy_model, "--raw", "--temp", 0, "-p", "hello", "-n", 4, "--json")
    assert outcome.out.rstrip("\n") == as_json.json["text"].rstrip("\n")
    assert as_json.out.count("\n") == 1, "one JSON object on one line"


def test_no_bars_and_colours_off_a_terminal(toy_model):
    outcome = program.fine("run", toy_model, "--raw", "--temp", 0, "-p", "hello", "-n", 4)
    assert "\x1b" not in outcome.err and "\r" not in outcome.err


def on_a_terminal(arguments, **env):
    """stdout and stderr of the program as a terminal sees them."""
    primary, secondary = pty.openpty()
    process = subprocess.Popen(
        [program.ONDOL, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=secondary,
        stderr=secondary,
        env=program.environment(TERM="xterm-256color", **env),
    )
    os.close(secondary)
    text = b""
    try:
        while block := os.read(primary, 4096):
            text += block
    except OSError:
        pass  # the terminal is gone when the program has ended
    os.close(primary)
    return process.wait(timeout=30), text.decode("utf-8", "replace")


def test_no_color_is_honoured(toy_model):
    code, text = on_a_terminal(["run", toy_model, "--raw", "--temp", "0", "-p", "hello", "-n", "4"], NO_COLOR="1")
    assert code == 0
    assert "\x1b[3" not in text and "\x1b[1m" not in text
    code, text = on_a_terminal(["run", "no-such-model", "-p", "x"], NO_COLOR="1")
    assert code == 3 and "\x1b[3" not in text


def test_chat_answers_and_ends_with_the_input(toy_model):
    outcome = program.ondol("chat", toy_model, "-n", 4, stdin="hello\n/help\n", timeout=60)
    assert outcome.code == 0, outcome
    assert "/help" in outcome.out + outcome.err
