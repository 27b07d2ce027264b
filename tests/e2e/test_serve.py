"""`ondol serve` as OpenAI's own client sees it."""

import concurrent.futures
import contextlib
import json
import signal
import socket
import time

import openai
import pytest
from serving import events, serve

from pysupport import places, program, toy

MESSAGES = [{"role": "user", "content": "hello world"}]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A toy with room for long answers."""
    return toy.Model(toy.Shape(context=1 << 14)).write(tmp_path_factory.mktemp("toy") / "m.gguf")


@pytest.fixture(scope="module")
def server(model):
    with serve(model, "--ctx", 8192, "--parallel", 8) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0)


@contextlib.contextmanager
def serving_real(name):
    """A server with a real model, and a client; skips the test where the model is not here."""
    path = places.real_model(name)
    if path is None:
        pytest.skip(f"{name} is not here")
    with serve(path, "--ctx", 2048, "--parallel", 8) as running:
        yield running, openai.OpenAI(base_url=running.base_url, api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def real():
    """A client of a server with SmolLM2."""
    with serving_real("smollm2") as (_, client):
        yield client


def ask(client, **fields):
    settings = {"model": "m", "messages": MESSAGES, "temperature": 0, "max_tokens": 12, **fields}
    return client.chat.completions.create(**settings)


def joined(stream):
    return "".join(c.choices[0].delta.content or "" for c in stream if c.choices)


def test_models(client):
    listed = client.models.list().data
    assert [m.id for m in listed] == ["m"]
    assert client.models.retrieve("m").id == client.models.retrieve("m.gguf").id == "m"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-4o")


def test_an_answer_is_that_of_run(client, model):
    expected = program.fine("run", model, "--temp", 0, "-p", "hello world", "-n", 12, "--ctx", 8192, "--json").json
    answer = ask(client)
    assert answer.choices[0].message.content == expected["text"]
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.prompt_tokens == expected["prompt_tokens"]
    assert answer.usage.completion_tokens == 12
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 12
    assert answer.usage.prompt_tokens_details.cached_tokens >= 0
    assert answer.timings["decode_tps"] > 0
    assert answer.id.startswith("chatcmpl-")


def test_what_was_read_before_is_cached(client):
    fields = {"messages": [{"role": "user", "content": "hello world, once and again"}], "max_tokens": 4}
    first, second = ask(client, **fields), ask(client, **fields)
    assert second.usage.prompt_tokens_details.cached_tokens == second.usage.prompt_tokens - 1
    assert first.usage.prompt_tokens_details.cached_tokens < second.usage.prompt_tokens - 1
    assert first.choices == second.choices


def test_a_stream_is_the_same_answer(client):
    whole = ask(client, max_tokens=30)
    stream = list(ask(client, max_tokens=30, stream=True, stream_options={"include_usage": True}))
    assert joined(stream) == whole.choices[0].message.content
    assert stream[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in stream[:-1]].count("length") == 1
    assert stream[-1].choices == [] and stream[-1].usage.completion_tokens == 30
    assert len({c.id for c in stream}) == 1


def test_eight_at_once_answer_as_alone(client):
    prompts = [[{"role": "user", "content": f"hello {'world ' * i}"}] for i in range(8)]
    alone = [ask(client, messages=p, max_tokens=40).choices[0].message.content for p in prompts]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda p: joined(ask(client, messages=p, max_tokens=40, stream=True)), prompts))
    assert together == alone


def test_several_answers_and_seeds(client):
    def texts(**fields):
        return [c.message.content for c in ask(client, temperature=1.2, n=3, max_tokens=20, **fields).choices]

    first, again, other = texts(seed=7), texts(seed=7), texts(seed=8)
    assert first == again and first != other
    assert len(set(first)) == 3
    stream = list(ask(client, temperature=1.2, n=3, max_tokens=20, seed=7, stream=True))
    by_index = ["".join(c.choices[0].delta.content or "" for c in stream if c.choices[0].index == i) for i in range(3)]
    assert by_index == first


def test_stop_texts(client):
    whole = client.completions.create(model="m", prompt="hello", temperature=0, max_tokens=60).choices[0].text
    letters = [c for c in whole if c != "�"]
    stop = letters[len(letters) // 2]
    cut = client.completions.create(model="m", prompt="hello", temperature=0, max_tokens=60, stop=["never there", stop])
    assert cut.choices[0].text == whole[: whole.index(stop)]
    assert cut.choices[0].finish_reason == "stop"


def test_logprobs_of_both_shapes(client):
    answer = ask(client, max_tokens=5, logprobs=True, top_logprobs=4)
    content = answer.choices[0].logprobs.content
    assert len(content) == 5
    for token in content:
        assert len(token.top_logprobs) == 4
        assert token.logprob == max(t.logprob for t in token.top_logprobs) <= 0
        assert token.top_logprobs[0].bytes == token.bytes
    streamed = [t for c in ask(client, max_tokens=5, logprobs=True, stream=True) for t in c.choices[0].logprobs.content]
    assert [t.token for t in streamed] == [t.token for t in content]
    plain = client.completions.create(model="m", prompt="hello", temperature=0, max_tokens=5, logprobs=2).choices[0].logprobs
    assert len(plain.tokens) == len(plain.token_logprobs) == len(plain.top_logprobs) == len(plain.text_offset) == 5
    assert plain.text_offset[0] == 0


def test_bias_decides(client):
    token = client.completions.create(model="m", prompt="a", logit_bias={"65": 100}, max_tokens=3, temperature=1).choices[0]
    again = client.completions.create(model="m", prompt="b", logit_bias={"65": 100}, max_tokens=3, temperature=1).choices[0]
    assert token.text == again.text and len(set(token.text)) == 1


def test_completions_of_texts_and_ids(server, client):
    ids = server.post("/tokenize", {"content": "hello world"})["tokens"]
    by_text = client.completions.create(model="m", prompt="hello world", temperature=0, max_tokens=8)
    by_ids = client.completions.create(model="m", prompt=ids, temperature=0, max_tokens=8)
    assert by_text.choices[0].text == by_ids.choices[0].text
    both = client.completions.create(model="m", prompt=["hello world", "hello"], temperature=0, max_tokens=8, n=2)
    assert [c.index for c in both.choices] == [0, 1, 2, 3]
    assert both.choices[0].text == both.choices[1].text == by_text.choices[0].text
    assert both.usage.completion_tokens == 32
    assert server.post("/detokenize", {"tokens": ids})["content"] == "hello world"


def test_errors_come_as_the_clients_classes(client):
    with pytest.raises(openai.NotFoundError, match="no model 'gpt'"):
        ask(client, model="gpt")
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, temperature=-1)
    assert caught.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="m", prompt=[5] * 9000)
    assert caught.value.code == "context_length_exceeded"
    assert "9000" in str(caught.value) and "8192" in str(caught.value)
    with pytest.raises(openai.BadRequestError, match="no embeddings"):
        client.embeddings.create(model="m", input="x")
    with pytest.raises(openai.BadRequestError, match="not supported"):
        ask(client, response_format={"type": "json_object"})


def test_unknown_fields_are_named(client):
    raw = client.chat.completions.with_raw_response.create(
        model="m", messages=MESSAGES, max_tokens=1, extra_body={"new_field": 1, "another": "x"}
    )
    assert raw.headers["ondol-ignored"] == "new_field, another"


def test_a_client_that_leaves_frees_its_place(server, client):
    server.wait_until_idle(10)
    stream = ask(client, stream=True, max_tokens=8000, extra_body={"ignore_eos": True})
    next(iter(stream))
    assert server.busy() == 1
    stream.close()
    assert server.wait_until_idle(5) < 1
    with pytest.raises(openai.APITimeoutError):
        ask(client, max_tokens=8000, timeout=0.2, extra_body={"ignore_eos": True})
    assert server.wait_until_idle(5) < 1


def test_a_full_queue_is_a_429(model):
    with serve(model, "--ctx", 8192, "--parallel", 1, "--max-queue", 1) as server:
        body = {"prompt": "hello", "max_tokens": 8000, "stream": True, "ignore_eos": True}
        with server.connection() as first, server.connection() as second:
            for connection in (first, second):
                connection.request("POST", "/v1/completions", json.dumps(body))
            server.wait_until_busy(2)
            status, headers, data = server.request("POST", "/v1/completions", {"prompt": "x", "max_tokens": 1})
            assert status == 429 and int(headers["Retry-After"]) >= 1
            assert json.loads(data)["error"]["type"] == "rate_limit_error"
        server.wait_until_idle(5)
        assert server.request("POST", "/v1/completions", {"prompt": "x", "max_tokens": 1})[0] == 200


def test_a_stop_lets_answers_end(model):
    with serve(model, "--ctx", 8192) as server, server.connection() as connection:
        body = {"prompt": "hello", "max_tokens": 300, "stream": True, "ignore_eos": True}
        connection.request("POST", "/v1/completions", json.dumps(body))
        answer = connection.getresponse()
        first = answer.read1(100)
        server.process.send_signal(signal.SIGTERM)
        lines = events(first + answer.read())
        assert lines[-1] == "[DONE]"
        assert server.process.wait(20) == 0
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", server.port), 1)


def test_a_second_signal_stops_at_once(model):
    with serve(model, "--ctx", 8192) as server:
        body = {"prompt": "hello", "max_tokens": 8000, "stream": True, "ignore_eos": True}
        with server.connection() as connection:
            connection.request("POST", "/v1/completions", json.dumps(body))
            connection.getresponse().read1(10)
            server.process.send_signal(signal.SIGINT)
            time.sleep(0.1)
            server.process.send_signal(signal.SIGINT)
            assert server.process.wait(5) in (0, 130)
        server.process.returncode = 0


def test_keys_are_read_again(model, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("alice:first-key\n")
    with serve(model, "--ctx", 512, "--api-key-file", keys) as server:

        def status(key):
            return server.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})[0]

        assert (status("first-key"), status("second-key")) == (200, 401)
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=server.base_url, api_key="wrong", max_retries=0).models.list()
        keys.write_text("bob:second-key\n")
        server.process.send_signal(signal.SIGHUP)
        for _ in range(100):
            if status("second-key") == 200:
                break
            time.sleep(0.02)
        assert (status("first-key"), status("second-key")) == (401, 200)
        headers = {"Authorization": "Bearer second-key"}
        server.request("POST", "/v1/completions", {"prompt": "hello", "max_tokens": 3, "ignore_eos": True}, headers)
        text = server.request("GET", "/metrics", headers=headers)[2].decode()
        assert 'ondol_completion_tokens_total{key="bob"} 3\n' in text
        assert "second-key" not in text


def test_what_cannot_be_served_is_refused(model, tmp_path):
    program.refused(program.ondol("serve", model, "--host", "0.0.0.0", "--port", 0), 2, "key")
    program.refused(program.ondol("serve", tmp_path / "none.gguf", "--port", 0), 3, "none.gguf")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        program.refused(program.ondol("serve", model, "--port", taken.getsockname()[1]), 1, str(taken.getsockname()[1]))


def test_smollm2_answers_as_run_does(real):
    question = [{"role": "user", "content": "What is the capital of France?"}]
    expected = program.fine(
        "run", places.real_model("smollm2"), "--temp", 0, "-p", question[0]["content"], "-n", 32, "--ctx", 2048, "--json"
    ).json
    whole = ask(real, model="smollm2", messages=question, max_tokens=32)
    assert whole.choices[0].message.content == expected["text"]
    assert whole.choices[0].finish_reason == expected["finish_reason"]
    assert joined(ask(real, model="smollm2", messages=question, max_tokens=32, stream=True)) == expected["text"]


def test_smollm2_eight_at_once(real):
    questions = [f"Name {i + 2} colours." for i in range(8)]

    def text(question, **fields):
        message = [{"role": "user", "content": question}]
        return ask(real, model="smollm2", messages=message, max_tokens=24, **fields)

    alone = [text(q).choices[0].message.content for q in questions[:3]]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda q: joined(text(q, stream=True)), questions))
    assert together[:3] == alone and all(together)


@pytest.fixture(scope="module")
def gemma():
    """A server with Gemma 3 270M, whose file has no chat template, and a client."""
    with serving_real("gemma3") as both:
        yield both


def go_on(client, prompt, **fields):
    settings = {"model": "gemma3", "prompt": prompt, "temperature": 0, "max_tokens": 24, **fields}
    return client.completions.create(**settings)


def test_gemma3_answers_as_run_does(gemma):
    _, client = gemma
    prompt = "The capital of France is"
    flags = ["--raw", "--temp", 0, "-p", prompt, "-n", 24, "--ctx", 2048, "--json"]
    expected = program.fine("run", places.real_model("gemma3"), *flags).json
    whole = go_on(client, prompt)
    assert whole.choices[0].text == expected["text"]
    assert whole.usage.prompt_tokens == expected["prompt_tokens"]
    stream = list(go_on(client, prompt, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].text for c in stream if c.choices) == expected["text"]
    assert stream[-1].usage.prompt_tokens_details.cached_tokens == expected["prompt_tokens"] - 1
    with pytest.raises(openai.BadRequestError, match="no chat template"):
        ask(client, model="gemma3")


def test_gemma3_many_at_once_beyond_its_window(gemma):
    """Its sliding window is 512: prompts beyond it share a beginning, and answers are those of each alone."""
    _, client = gemma
    story = "Once upon a time there was a river and a mill. " * 60
    prompts = [f"{story} Part {i}:" for i in range(8)]
    alone = [go_on(client, p, extra_body={"cache_salt": f"apart {i}"}).choices[0].text for i, p in enumerate(prompts[:3])]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda p: go_on(client, p), prompts))
    assert [a.choices[0].text for a in answers[:3]] == alone
    again = go_on(client, prompts[0])
    assert again.usage.prompt_tokens > 600
    assert again.usage.prompt_tokens_details.cached_tokens == again.usage.prompt_tokens - 1


def test_gemma3_a_client_that_leaves(gemma):
    server, client = gemma
    server.wait_until_idle(10)
    stream = go_on(client, "Once", stream=True, max_tokens=1900, extra_body={"ignore_eos": True})
    next(iter(stream))
    assert server.busy() == 1
    stream.close()
    assert server.wait_until_idle(5) < 2
