"""The reference collection's cases about HTTP, streams, stop texts and context limits, over a running server."""

import json
import socket
import time

import pytest
from serving import events, exchange, serve

from pysupport import places, toy

# What this version refuses with a 400 that names the field: calls of tools, bound formats, embeddings.
REFUSED = {
    "http-tools-auto": "tools",
    "http-tools-required": "tools",
    "http-tools-named": "tools",
    "http-tools-stream": "tools",
    "http-tools-no-parameters": "tools",
    "http-format-schema": "response_format",
    "http-format-object": "response_format",
    "http-embeddings-base64": "model",
}
# Cases with a story of their own: a test below, or one of the HTTP server's unit tests (a slow body takes a minute).
OWN_TEST = {
    "http-body-large",
    "http-health",
    "http-expect-continue",
    "http-expect-too-large",
    "http-keep-alive",
    "http-slow-body",
    "http-header-huge",
    "http-chunked-body",
    "http-connection-drop",
    "http-connection-drop-prompt",
    "http-connection-drop-no-stream",
}
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"


def cases(name):
    path = places.SHARED / "cases" / f"{name}.jsonl"
    if not path.is_file():
        return [pytest.param(None, id="none", marks=pytest.mark.skip(places.NO_SHARED))]
    found = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    return [pytest.param(case, id=case["id"]) for case in found]


def by_id(name, wanted):
    for param in cases(name):
        if param.id == wanted:
            return param.values[0]
    pytest.skip(places.NO_SHARED)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return toy.Model(toy.Shape(context=1 << 16)).write(tmp_path_factory.mktemp("toy") / "m.gguf")


@pytest.fixture(scope="module")
def server(model):
    with serve(model, "--ctx", 16384, "--parallel", 1) as running:
        yield running


@pytest.fixture(scope="module")
def keyed(model, tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("someone:k-123\n")
    with serve(model, "--ctx", 512, "--api-key-file", keys, "--cors-origin", "http://app.example") as running:
        yield running


def body_of(case):
    given = case["input"]
    if "body_text" in given:
        return given["body_text"].encode("utf-8", "surrogatepass")
    if "body_hex" in given:
        return bytes.fromhex(given["body_hex"])
    if "body_repeat" in given:
        return (given["body_repeat"][0] * given["body_repeat"][1]).encode()
    return given.get("body")


class Answer:
    """What came back, and the server to ask once more."""

    def __init__(self, server, case):
        self.server, self.case = server, case
        given = case["input"]
        self.request = body_of(case)
        self.status, self.headers, self.data = server.request(given["method"], given["path"], self.request, given.get("headers"))

    @property
    def json(self):
        return json.loads(self.data)

    @property
    def message(self):
        return self.json["error"]["message"]

    @property
    def chunks(self):
        return [json.loads(line) for line in events(self.data)[:-1]]

    def again(self, **changes):
        """The same request with changes, which must be answered."""
        body = {k: v for k, v in {**self.request, **changes}.items() if v is not None}
        return self.server.post(self.case["input"]["path"], body)

    def with_message(self, role, content):
        message = {"role": role, "content": content}
        return self.again(messages=[message, *self.request["messages"][1:]])["usage"]["prompt_tokens"]


def is_error(a):
    error = a.json["error"]
    return isinstance(error["message"], str) and error["message"] and isinstance(error["type"], str)


def prompt_is_whole(a):
    message = json.loads(a.request)["messages"]
    prompt = a.server.post("/apply-template", {"messages": message})["prompt"]
    n = a.server.post("/tokenize", {"content": prompt, "parse_special": True})["count"]
    assert "\0bcdefghij" in prompt
    return a.json["usage"]["prompt_tokens"] == n


def usage_event(a):
    *rest, last = a.chunks
    return last["choices"] == [] and isinstance(last["usage"], dict) and all(c["usage"] is None for c in rest)


def joined(a):
    return "".join(c["choices"][0]["delta"].get("content") or "" for c in a.chunks if c["choices"])


CHECKS = {
    'choices[0].message.role == "assistant"': lambda a: a.json["choices"][0]["message"]["role"] == "assistant",
    "choices[0].message.content is text": lambda a: isinstance(a.json["choices"][0]["message"]["content"], str),
    "usage.total_tokens == usage.prompt_tokens + usage.completion_tokens": lambda a: (
        a.json["usage"]["total_tokens"] == a.json["usage"]["prompt_tokens"] + a.json["usage"]["completion_tokens"]
    ),
    'object == "chat.completion"': lambda a: a.json["object"] == "chat.completion",
    "body is JSON with error.message (text) and error.type": is_error,
    "body is valid UTF-8": lambda a: a.data.decode("utf-8"),
    "usage.prompt_tokens equals that of the tokenised text including what follows the zero character": prompt_is_whole,
    'error.message names "stream"': lambda a: "stream" in a.message,
    'error.message names "temperature"': lambda a: "temperature" in a.message,
    'error.message names "messages"': lambda a: "messages" in a.message,
    'error.message names "role"': lambda a: "role" in a.message,
    "error.message names the role": lambda a: "robot" in a.message,
    'error.message names "image_url"': lambda a: "image_url" in a.message,
    "error.message names the function": lambda a: "nope" in a.message,
    'usage.prompt_tokens equals that of the same request with role "system"': lambda a: (
        a.json["usage"]["prompt_tokens"] == a.with_message("system", a.request["messages"][0]["content"])
    ),
    "usage.prompt_tokens equals that of the same text in one piece": lambda a: (
        a.json["usage"]["prompt_tokens"] == a.with_message("user", "Say hi.")
    ),
    "usage.completion_tokens == 3": lambda a: a.json["usage"]["completion_tokens"] == 3,
    "if 200: usage.completion_tokens == 3": lambda a: a.status != 200 or a.json["usage"]["completion_tokens"] == 3,
    'choices[0].finish_reason == "length"': lambda a: a.json["choices"][0]["finish_reason"] == "length",
    "if 200: choices has 2 entries with index 0 and 1": lambda a: (
        a.status != 200 or [c["index"] for c in a.json["choices"]] == [0, 1]
    ),
    "two equal requests give equal content": lambda a: a.again()["choices"] == a.json["choices"],
    "a following ordinary request gets 200": lambda a: a.again(logit_bias=None),
    "content-type starts with text/event-stream": lambda a: a.headers["Content-Type"] == "text/event-stream; charset=utf-8",
    'every data line except the last is JSON with object "chat.completion.chunk"': lambda a: all(
        c["object"] == "chat.completion.chunk" for c in a.chunks
    ),
    "the same id in every event": lambda a: len({c["id"] for c in a.chunks}) == 1,
    'the first delta has role "assistant"': lambda a: a.chunks[0]["choices"][0]["delta"]["role"] == "assistant",
    "exactly one event has a finish_reason that is not null": lambda a: (
        len([c for c in a.chunks if c["choices"][0]["finish_reason"] is not None]) == 1
    ),
    "the last line is data: [DONE]": lambda a: a.data.endswith(b"data: [DONE]\n\n"),
    "no event has a usage object": lambda a: not any(c.get("usage") for c in a.chunks),
    "one event before [DONE] has choices [] and a usage object": usage_event,
    "its numbers equal those of the same request without stream": lambda a: (
        a.chunks[-1]["usage"]["prompt_tokens"] == a.again(stream=None, stream_options=None)["usage"]["prompt_tokens"]
    ),
    "the joined deltas equal the content of the same request without stream": lambda a: (
        joined(a) == a.again(stream=None)["choices"][0]["message"]["content"]
    ),
    "choices[0].message has no tool_calls": lambda a: "tool_calls" not in a.json["choices"][0]["message"],
    'object == "list"': lambda a: a.json["object"] == "list",
    "data[0].id is text": lambda a: a.json["data"][0]["id"] == "m",
    "header Allow names POST": lambda a: "POST" in a.headers["Allow"],
    "choices[0].text is text": lambda a: isinstance(a.json["choices"][0]["text"], str),
    'object == "text_completion"': lambda a: a.json["object"] == "text_completion",
    "Access-Control-Allow-Origin is * or the origin": lambda a: (
        a.headers["Access-Control-Allow-Origin"] in ("*", "http://app.example")
    ),
    "Access-Control-Allow-Headers contains authorization and content-type": lambda a: (
        {"authorization", "content-type"} <= {h.strip().lower() for h in a.headers["Access-Control-Allow-Headers"].split(",")}
    ),
    "Access-Control-Allow-Methods contains POST": lambda a: "POST" in a.headers["Access-Control-Allow-Methods"],
}


@pytest.mark.parametrize("case", cases("http_requests"))
def test_http_request(case, request):
    if case["id"] in OWN_TEST:
        pytest.skip("has a test of its own")
    server = request.getfixturevalue("keyed" if "server" in case["input"] else "server")
    answer = Answer(server, case)
    if case["id"] in REFUSED:
        assert answer.status == 400 and answer.json["error"]["param"] == REFUSED[case["id"]], answer.data
        return
    expected = case["expected"]
    assert answer.status in expected.get("status_any_of", [expected.get("status")]), (answer.status, answer.data[:500])
    for check in expected.get("checks", []):
        assert CHECKS[check](answer), (check, answer.data[:500])


def test_a_body_above_the_limit(server):
    body = b'{"model": "m", "prompt": "' + b"a" * (17 << 20) + b'"}'
    status, _, data = server.request("POST", COMPLETIONS, body)
    assert status == 413 and json.loads(data)["error"]["message"]


def raw(server, data, seconds=5):
    """Sends bytes and gives the first that come back."""
    with socket.create_connection(("127.0.0.1", server.port), seconds) as connection:
        start = time.monotonic()
        connection.sendall(data)
        return connection.recv(4096), time.monotonic() - start


def test_expect_continue(server):
    head = b"POST " + CHAT.encode() + b" HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: "
    first, seconds = raw(server, head + b"10\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 100") and seconds < 0.5
    first, _ = raw(server, head + b"99999999999\r\n\r\n")
    assert first.startswith((b"HTTP/1.1 413", b"HTTP/1.1 417"))


def test_headers_of_a_megabyte(server):
    first, _ = raw(server, b"POST " + CHAT.encode() + b" HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 100_000)
    assert first.startswith(b"HTTP/1.1 431")


def test_keep_alive_and_chunks(server):
    body = by_id("http_requests", "http-keep-alive")["input"]["body"]
    with server.connection() as connection:
        assert [exchange(connection, "POST", CHAT, body)[0] for _ in range(2)] == [200, 200]
        port = connection.sock.getsockname()
        text = json.dumps(body).encode()
        connection.request("POST", CHAT, iter([text[:20], text[20:]]), encode_chunked=True)
        assert connection.getresponse().status == 200
        assert connection.sock.getsockname() == port, "one connection for all"


def test_health_answers_while_a_prompt_is_computed(server):
    with server.connection() as busy:
        busy.request("POST", COMPLETIONS, json.dumps({"prompt": [5] * 15000, "max_tokens": 1000, "ignore_eos": True}))
        server.wait_until_busy()
        start = time.monotonic()
        assert server.request("GET", "/health")[0] == 200
        seconds = time.monotonic() - start
    assert seconds < 0.2
    server.wait_until_idle(10)


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves(server, stream):
    body = {"prompt": "hello", "max_tokens": 16000, "stream": stream, "ignore_eos": True}
    with server.connection() as connection:
        connection.request("POST", COMPLETIONS, json.dumps(body))
        if stream:
            connection.getresponse().read1(10)
        else:
            time.sleep(0.2)
        assert server.busy()
    assert server.wait_until_idle(5) < 1
    assert server.post(COMPLETIONS, {"prompt": "hello", "max_tokens": 1})


def test_a_client_that_leaves_while_its_prompt_is_computed(server):
    computed = server.metric("ondol_step_seconds_count")
    with server.connection() as connection:
        body = {"prompt": [7] * 16000, "max_tokens": 300, "ignore_eos": True}
        connection.request("POST", COMPLETIONS, json.dumps(body))
        server.wait_until_busy()
    assert server.wait_until_idle(5) < 1
    assert server.metric("ondol_step_seconds_count") - computed < 16000 / 512


@pytest.fixture(scope="module")
def short(model):
    """Servers whose context is that of the case."""
    running = {}
    stack = []

    def open_server(n_ctx, n_slots):
        key = (n_ctx, n_slots)
        if key not in running:
            context = serve(model, "--ctx", n_ctx, "--parallel", n_slots)
            running[key] = context.__enter__()
            stack.append(context)
        return running[key]

    yield open_server
    for context in stack:
        context.__exit__(None, None, None)


@pytest.mark.parametrize("case", cases("context_limits"))
def test_context_limit(case, short):
    given, expected = case["input"], case["expected"]
    server = short(given["n_ctx"], given.get("n_slots", 1))
    reported = json.loads(server.request("GET", "/v1/models")[2])["data"][0]["context_length"]
    assert reported == given["n_ctx"]
    expected = expected.get(f"if_reported_context_is_{reported}", expected)
    body = {"prompt": [5] * given["n_prompt"], "max_tokens": given["max_tokens"], "stream": given.get("stream", False)}
    start = time.monotonic()
    status, headers, data = server.request("POST", COMPLETIONS, {**body, "ignore_eos": True})
    assert status == expected["status"] and time.monotonic() - start < 5
    if status == 400:
        error = json.loads(data)["error"]
        assert error["code"] == expected.get("error_code", error["code"])
        assert all(number in error["message"] for number in expected.get("message_should_mention", []))
        assert headers["Content-Type"].startswith("application/json")
        return
    answer = json.loads(data)
    most = expected.get("completion_tokens_at_most", given["max_tokens"])
    assert 1 <= answer["usage"]["completion_tokens"] <= most
    if "finish_reason_if_reached" in expected:
        assert answer["choices"][0]["finish_reason"] == expected["finish_reason_if_reached"]
        assert answer["usage"]["completion_tokens"] == most


@pytest.mark.parametrize("case", cases("context_limits"))
def test_context_limit_of_a_chat(case, short):
    """The same numbers over a chat: its message is as long as makes the prompt of the case."""
    given, expected = case["input"], case["expected"]
    server = short(given["n_ctx"], given.get("n_slots", 1))
    expected = expected.get(f"if_reported_context_is_{given['n_ctx']}", expected)
    empty = server.post("/apply-template", {"messages": [{"role": "user", "content": ""}]})["prompt"]
    frame = server.post("/tokenize", {"content": empty, "parse_special": True})["count"]
    message = {"role": "user", "content": "x" * (given["n_prompt"] - frame)}  # a letter is a token
    body = {"messages": [message], "max_tokens": given["max_tokens"], "stream": given.get("stream", False)}
    status, _, data = server.request("POST", CHAT, {**body, "ignore_eos": True})
    assert status == expected["status"], data
    if status == 400:
        error = json.loads(data)["error"]
        assert error["code"] == expected.get("error_code", error["code"])
        assert all(number in error["message"] for number in expected.get("message_should_mention", []))
        return
    answer = json.loads(data)
    assert answer["usage"]["prompt_tokens"] == given["n_prompt"]
    most = expected.get("completion_tokens_at_most", given["max_tokens"])
    assert 1 <= answer["usage"]["completion_tokens"] <= most
    if "finish_reason_if_reached" in expected:
        assert answer["choices"][0]["finish_reason"] == expected["finish_reason_if_reached"]


@pytest.mark.parametrize("case", cases("stop_strings"))
def test_stop_texts_are_checked(case, server):
    """Any of the collection's stop texts is accepted, and a stream with it says what the whole answer says."""
    stops = case["input"]["stop"]
    body = {"prompt": "hello", "max_tokens": 40, "temperature": 0, "stop": stops, "ignore_eos": True}
    status, _, data = server.request("POST", COMPLETIONS, body)
    if any(not s for s in stops):
        assert status == 400 and json.loads(data)["error"]["param"] == "stop"
        return
    assert status == 200, data
    text = json.loads(data)["choices"][0]["text"]
    full = server.post(COMPLETIONS, {**body, "stop": None})["choices"][0]["text"]
    found = [full.index(s) for s in stops if s in full]
    assert text == (full[: min(found)] if found else full)
    streamed = server.request("POST", COMPLETIONS, {**body, "stream": True})[2]
    assert "".join(json.loads(line)["choices"][0]["text"] for line in events(streamed)[:-1]) == text


@pytest.mark.parametrize("case", cases("utf8_streaming"))
def test_streams_are_whole_letters(case, server):
    """The bytes of the case in any order: the toy's first 256 tokens are bytes, and a bias lets only these come."""
    data = bytes.fromhex("".join(case["input"]["pieces_hex"]))
    body = {
        "messages": [{"role": "user", "content": "x"}],
        "max_tokens": 48,
        "seed": 5,
        "logit_bias": {str(byte): 100 for byte in data},
        "logprobs": True,
        "ignore_eos": True,
    }
    choice = server.post(CHAT, body)["choices"][0]
    written = b"".join(bytes(token["bytes"]) for token in choice["logprobs"]["content"])
    assert set(written) <= set(data) and len(written) == 48
    # One U+FFFD for each maximal broken part, in Python as here.
    assert choice["message"]["content"] == written.decode("utf-8", "replace")
    streamed = [json.loads(line) for line in events(server.request("POST", CHAT, {**body, "stream": True})[2])[:-1]]
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in streamed) == choice["message"]["content"]
