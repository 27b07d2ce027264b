"""Writes small GGUF files: a llama-family model with seeded random weights and a vocabulary of bytes.

Written field by field, so that broken variants (a wrong type, a missing key, a tensor of the wrong shape) are as easy to
make as whole ones. Greedy continuations never end by themselves: the rows of the control tokens in the output matrix are
zero, and some other token is always above.
"""

import dataclasses
import struct

import numpy as np

U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
TYPE_F32, TYPE_F16 = 0, 1

TEMPLATE = (
    "{% for message in messages %}{{ '<|start|>' + message['role'] + '\n' + message['content'] + '<|end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant\n' }}{% endif %}"
)


def byte_letters():
    """The printable letter that stands for each byte in a byte-level vocabulary (GPT-2's rule)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters, extra = {}, 0
    for byte in range(256):
        if byte in plain:
            letters[byte] = chr(byte)
        else:
            letters[byte] = chr(256 + extra)
            extra += 1
    return [letters[b] for b in range(256)]


@dataclasses.dataclass
class Shape:
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    ff: int = 96
    context: int = 256
    seed: int = 1

    @property
    def embd(self):
        return self.heads * self.head_dim


class Model:
    """Metadata as {key: (type, value)}, tensors as {name: (dims, type, bytes)}; write() makes the file."""

    def __init__(self, shape=None):
        self.shape = shape or Shape()
        self.keys = {}
        self.tensors = {}
        self._metadata()
        self._weights()

    def _metadata(self):
        s = self.shape
        letters = byte_letters()
        merges = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld"]
        tokens = letters + [m.replace(" ", "") for m in merges] + ["<|start|>", "<|end|>"]
        kinds = [1] * (len(tokens) - 2) + [3, 3]
        self.n_vocab = len(tokens)
        self.eos = len(tokens) - 1
        self.keys = {
            "general.architecture": (STRING, "llama"),
            "general.name": (STRING, "toy"),
            "general.alignment": (U32, 32),
            "llama.context_length": (U32, s.context),
            "llama.embedding_length": (U32, s.embd),
            "llama.block_count": (U32, s.layers),
            "llama.feed_forward_length": (U32, s.ff),
            "llama.attention.head_count": (U32, s.heads),
            "llama.attention.head_count_kv": (U32, s.kv_heads),
            "llama.attention.layer_norm_rms_epsilon": (F32, 1e-5),
            "llama.rope.dimension_count": (U32, s.head_dim),
            "llama.rope.freq_base": (F32, 10000.0),
            "llama.vocab_size": (U32, self.n_vocab),
            "tokenizer.ggml.model": (STRING, "gpt2"),
            "tokenizer.ggml.pre": (STRING, "gpt-2"),
            "tokenizer.ggml.tokens": (ARRAY, (STRING, tokens)),
            "tokenizer.ggml.token_type": (ARRAY, (I32, kinds)),
            "tokenizer.ggml.merges": (ARRAY, (STRING, merges)),
            "tokenizer.ggml.bos_token_id": (U32, self.eos - 1),
            "tokenizer.ggml.eos_token_id": (U32, self.eos),
            "tokenizer.ggml.add_bos_token": (BOOL, False),
            "tokenizer.chat_template": (STRING, TEMPLATE),
        }

    def _weights(self):
        s = self.shape
        random = np.random.default_rng(s.seed)
        kv = s.kv_heads * s.head_dim

        def matrix(name, rows, cols, gain=1.0):
            values = random.normal(0, gain / np.sqrt(cols), (rows, cols)).astype(np.float16)
            self.tensors[name] = ([cols, rows], TYPE_F16, values.tobytes())
            return values

        def norm(name):
            self.tensors[name] = ([s.embd], TYPE_F32, random.uniform(0.8, 1.2, s.embd).astype(np.float32).tobytes())

        matrix("token_embd.weight", self.n_vocab, s.embd, np.sqrt(s.embd))
        for i in range(s.layers):
            norm(f"blk.{i}.attn_norm.weight")
            matrix(f"blk.{i}.attn_q.weight", s.embd, s.embd, 1.5)
            matrix(f"blk.{i}.attn_k.weight", kv, s.embd, 1.5)
            matrix(f"blk.{i}.attn_v.weight", kv, s.embd, 1.5)
            matrix(f"blk.{i}.attn_output.weight", s.embd, s.embd, 1.5)
            norm(f"blk.{i}.ffn_norm.weight")
            matrix(f"blk.{i}.ffn_gate.weight", s.ff, s.embd, 1.5)
            matrix(f"blk.{i}.ffn_up.weight", s.ff, s.embd, 1.5)
            matrix(f"blk.{i}.ffn_down.weight", s.embd, s.ff, 1.5)
        norm("output_norm.weight")
        head = matrix("output.weight", self.n_vocab, s.embd, 3.0)
        head[-2:] = 0
        self.tensors["output.weight"] = ([s.embd, self.n_vocab], TYPE_F16, head.tobytes())

    def bytes(self):
        def text(value):
            data = value.encode()
            return struct.pack("<Q", len(data)) + data

        def scalar(kind, value):
            if kind == STRING:
                return text(value)
            return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q"}[kind], value)

        def pad(size):
            return -size % 32

        out = bytearray(struct.pack("<4sIQQ", b"GGUF", 3, len(self.tensors), len(self.keys)))
        for key, (kind, value) in self.keys.items():
            out += text(key) + struct.pack("<I", kind)
            if kind == ARRAY:
                element, items = value
                out += struct.pack("<IQ", element, len(items)) + b"".join(scalar(element, item) for item in items)
            else:
                out += scalar(kind, value)
        offset = 0
        for name, (dims, kind, data) in self.tensors.items():
            out += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
            out += struct.pack("<IQ", kind, offset)
            offset += len(data) + pad(len(data))
        out += bytes(pad(len(out)))
        for _, _, data in self.tensors.values():
            out += data + bytes(pad(len(data)))
        return bytes(out)

    def write(self, path):
        with open(path, "wb") as file:
            file.write(self.bytes())
        return path
