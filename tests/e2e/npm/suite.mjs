// OpenAI's own client for JavaScript against a running server: BASE_URL, MODEL and EXACT_TEXT (the answer that
// `ondol run` gives to QUESTION, 24 tokens, greedy) come from the environment. With CHAT=no the model has no chat template:
// then /v1/completions is asked.
import assert from "node:assert/strict";
import test from "node:test";
import OpenAI from "openai";

const { BASE_URL: baseURL, MODEL: model, EXACT_TEXT: exactText, QUESTION: question } = process.env;
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
const chat = process.env.CHAT !== "no";
const onlyChat = { skip: chat ? false : "the model has no chat template" };
const says = (content) => (chat ? { messages: [{ role: "user", content }] } : { prompt: content });
const settings = { model, ...says(question), temperature: 0, max_tokens: 24 };
const create = (fields, options) => (chat ? client.chat.completions : client.completions).create(fields, options);
const textOf = (choice) => (chat ? (choice?.message ?? choice?.delta)?.content : choice?.text) ?? "";

async function joined(stream) {
  let text = "";
  for await (const chunk of stream) text += textOf(chunk.choices[0]);
  return text;
}

async function metric(name) {
  const text = await (await fetch(new URL("/metrics", baseURL))).text();
  const line = text.split("\n").find((l) => l.startsWith(name + " "));
  return line ? Number(line.slice(name.length + 1)) : 0;
}

async function idle(seconds) {
  const start = Date.now();
  while ((await metric("ondol_running")) + (await metric("ondol_queue_length")) > 0) {
    assert.ok(Date.now() - start < seconds * 1000, "work goes on");
    await new Promise((done) => setTimeout(done, 10));
  }
}

test("models are listed and shown", async () => {
  const ids = [];
  for await (const one of client.models.list()) ids.push(one.id);
  assert.deepEqual(ids, [model]);
  assert.equal((await client.models.retrieve(model)).id, model);
  await assert.rejects(client.models.retrieve("gpt-4o"), OpenAI.NotFoundError);
});

test("an answer is that of `ondol run`", async () => {
  const answer = await create(settings);
  assert.equal(textOf(answer.choices[0]), exactText);
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
});

test("a stream is the same answer, with usage at its end", async () => {
  const stream = await create({ ...settings, stream: true, stream_options: { include_usage: true } });
  let text = "";
  let last;
  for await (const chunk of stream) {
    text += textOf(chunk.choices[0]);
    last = chunk;
  }
  assert.equal(text, exactText);
  assert.deepEqual(last.choices, []);
  assert.ok(last.usage.completion_tokens > 0 && last.usage.completion_tokens <= 24);
});

test("the stream helper sees every event", onlyChat, async () => {
  const parts = [];
  const runner = client.chat.completions.stream(settings).on("content", (delta) => parts.push(delta));
  assert.equal(await runner.finalContent(), exactText);
  assert.equal(parts.join(""), exactText);
});

test("six at once answer as alone", async () => {
  const ask = (i) => ({ ...settings, ...says(`Name ${i + 2} colours.`) });
  const alone = [];
  for (let i = 0; i < 3; i++) alone.push(textOf((await create(ask(i))).choices[0]));
  const streams = [...Array(6).keys()].map(async (i) => joined(await create({ ...ask(i), stream: true })));
  const together = await Promise.all(streams);
  assert.deepEqual(together.slice(0, 3), alone);
  assert.ok(together.every((text) => text.length > 0));
});

test("a client that aborts frees its place", async () => {
  await idle(10);
  const endless = { ...settings, max_tokens: 1500, ignore_eos: true, stream: true };
  const stream = await create(endless);
  let seen = 0;
  for await (const chunk of stream) {
    if (chunk.choices.length > 0 && ++seen === 3) stream.controller.abort();
  }
  assert.ok(seen >= 3 && seen < 1000, `${seen} events`);
  await idle(5);
  const controller = new AbortController();
  const pending = create({ ...endless, stream: false }, { signal: controller.signal });
  setTimeout(() => controller.abort(), 200);
  await assert.rejects(pending, OpenAI.APIUserAbortError);
  await idle(5);
});

test("errors come as the client's classes", async () => {
  await assert.rejects(create({ ...settings, model: "gpt" }), OpenAI.NotFoundError);
  await assert.rejects(create({ ...settings, temperature: -1 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, "temperature");
    return true;
  });
  if (!chat) {
    const messages = [{ role: "user", content: "hi" }];
    await assert.rejects(client.chat.completions.create({ model, messages }), /no chat template/);
  }
  await assert.rejects(client.completions.create({ model, prompt: Array(5000).fill(5) }), { code: "context_length_exceeded" });
});

test("logprobs of a chat", onlyChat, async () => {
  const { choices } = await client.chat.completions.create({ ...settings, max_tokens: 4, logprobs: true, top_logprobs: 3 });
  const tokens = choices[0].logprobs.content;
  assert.equal(tokens.length, 4);
  for (const token of tokens) {
    assert.equal(token.top_logprobs.length, 3);
    assert.equal(token.logprob, Math.max(...token.top_logprobs.map((t) => t.logprob)));
    assert.equal(Buffer.from(token.bytes).toString().length > 0, true);
  }
});

test("logprobs of a completion", async () => {
  const plain = await client.completions.create({ model, prompt: "Once upon", temperature: 0, max_tokens: 4, logprobs: 2 });
  assert.equal(plain.choices[0].logprobs.tokens.length, 4);
});

test("several answers to one prompt are told apart by their seed", async () => {
  const ask = (seed) => create({ ...settings, temperature: 1.3, n: 2, seed });
  const texts = (answer) => answer.choices.map(textOf);
  const [first, again] = [texts(await ask(5)), texts(await ask(5))];
  assert.deepEqual(first, again);
  assert.notEqual(first[0], first[1]);
});

test("what was read before is cached", async () => {
  await create(settings);
  const { usage } = await create(settings);
  assert.equal(usage.prompt_tokens_details.cached_tokens, usage.prompt_tokens - 1);
});
