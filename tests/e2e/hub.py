#!/usr/bin/env python3
"""A small hub with Hugging Face's layout that works, fails, truncates or lies, by the name of the repository.

Usage: hub.py LOG

Listens on two free ports of 127.0.0.1 and prints them in one line; the second stands for another host (a CDN).
Every request is added to LOG as one JSON line. Ends when its standard input is closed.
"""

import hashlib
import http.server
import json
import re
import sys
import threading
import time

SIZE = 3 * 1024 * 1024 + 17  # odd on purpose


def content(name, size=SIZE):
    """The bytes of a file: the same in every run, different for every name."""
    return b"GGUF" + hashlib.shake_256(name.encode()).digest(size - 4)


FILES = {
    "several": ["m-Q4_0.gguf", "m-Q8_0.gguf"],
    "split": [f"Q8_0/m-Q8_0-0000{i}-of-00003.gguf" for i in (1, 2, 3)],
    "traversal": ["../../evil.gguf"],
    "absolute": ["/etc/evil.gguf"],
    "space": ["a folder/my model.gguf"],
}
CACHE = {}
SEEN = {}
LOCK = threading.Lock()


def files(repo):
    """The contents of a repository's files by path."""
    with LOCK:
        if repo not in CACHE:
            names = FILES.get(repo, [f"{repo}-model.gguf"])
            CACHE[repo] = {n: content(n, 100_000 + len(n) if repo == "split" else SIZE) for n in names}
        return CACHE[repo]


def listing(repo):
    out = [{"type": "file", "path": "README.md", "size": 3, "oid": "0" * 40}]
    for path, data in files(repo).items():
        digest = hashlib.sha256(data).hexdigest()
        if repo == "wrongsha":
            digest = "0" * 64
        entry = {"type": "file", "path": path, "size": len(data), "lfs": {"oid": digest, "size": len(data)}}
        if repo == "nosha":
            del entry["lfs"]
        if repo == "huge":
            entry["size"] = entry["lfs"]["size"] = 1 << 62
        if repo == "impossible":
            entry["size"] = entry["lfs"]["size"] = (1 << 64) - 1
        out.append(entry)
    return out


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    other_port = 0  # of the second server, in the first one; 0 in the second one itself

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", announce=None, **headers):
        self.send_response(status)
        if announce != "chunked":
            self.send_header("Content-Length", str(len(body) if announce is None else announce))
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def cut(self, status, body, announce, **headers):
        """Announces more than is sent, then hangs up."""
        self.answer(status, body, announce, **headers)
        self.close_connection = True

    def do_GET(self):
        with LOCK:
            SEEN[self.path] = SEEN.get(self.path, 0) + 1
            count = SEEN[self.path]
            LOG.write(
                json.dumps(
                    {
                        "path": self.path,
                        "port": self.server.server_port,
                        "range": self.headers.get("Range", ""),
                        "authorization": self.headers.get("Authorization", ""),
                    }
                )
                + "\n"
            )
            LOG.flush()
        try:
            if match := re.fullmatch(r"/api/models/t/([a-z0-9]+)/tree/main(\?.*)?", self.path):
                self.list_files(match[1], match[2] or "", count)
            elif match := re.fullmatch(r"(?:/cdn)?/t/([a-z0-9]+)/resolve/main/([^?]+)(\?.*)?", self.path):
                self.send_file(match[1], match[2].replace("%20", " "), count)
            else:
                self.answer(404)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def list_files(self, repo, query, count):
        statuses = {"missing": 404, "private": 401, "down": 503}
        if repo in statuses:
            self.answer(statuses[repo], b"no")
        elif repo == "busy" and count == 1:
            self.answer(429, b"slow down", Retry_After="1")
        elif repo == "endlesserror":
            self.answer(404, b"", "chunked", Connection="close")
            while True:
                self.wfile.write(b"x" * 65536)
        elif repo == "htmllist":
            self.answer(200, b"<html>Sign in</html>", Content_Type="text/html")
        elif repo == "biglist":
            self.answer(200, b"[" + b" " * (17 << 20) + b"]")
        elif repo == "pages" and "cursor" not in query:
            url = f"http://127.0.0.1:{self.server.server_port}/api/models/t/pages/tree/main?cursor=x"
            self.answer(200, b"[]", Link=f'<{url}>; rel="next"')
        elif repo == "foreignpage":
            self.answer(200, b"[]", Link=f'<http://127.0.0.1:{self.other_port}/x>; rel="next"')
        else:
            self.answer(200, json.dumps(listing(repo)).encode())

    def send_file(self, repo, path, count):
        data = files(repo).get(path)
        if data is None:
            return self.answer(404)
        if repo in ("redirect", "circle", "outside") and self.other_port:
            port = self.server.server_port if repo == "circle" else self.other_port
            host = "cdn.invalid" if repo == "outside" else f"127.0.0.1:{port}"
            where = self.path if repo == "circle" else "/cdn" + self.path
            return self.answer(302, b"elsewhere", Location=f"http://{host}{where}?signature=secret")
        start = 0
        if (match := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))) and repo != "norange":
            start = int(match[1])
        status, headers, rest = 200, {}, data[start:]
        if start:
            status, headers = 206, {"Content_Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
        if repo == "flaky" and count <= 2:
            return self.answer(500, b"oops")
        if repo in ("cut", "norange") and count <= 2:
            return self.cut(status, rest[: 1 << 20], len(rest), **headers)
        if repo == "alwayscut":
            return self.cut(status, rest[:1000], len(rest), **headers)
        if repo == "silent" and count == 1:
            self.close_connection = True
            time.sleep(4)
            return
        if repo == "stall" and count == 1:
            self.answer(status, rest[:1000], len(rest), **headers)
            self.close_connection = True
            time.sleep(4)
            return
        if repo == "more":
            return self.answer(status, rest + b"more", **headers)
        if repo == "endless":
            self.answer(status, rest, "chunked", Transfer_Encoding="identity", Connection="close")
            self.close_connection = True
            return self.wfile.write(b"x" * (8 << 20))
        if repo == "short":
            return self.answer(status, rest[:-1], **headers)
        if repo == "htmlfile":
            self.answer(200, b"<html>" + b" " * 1000, "chunked", Content_Type="text/html", Connection="close")
            self.close_connection = True
            return
        if repo == "wrongrange" and start:
            return self.answer(206, rest, Content_Range=f"bytes 0-{len(data) - 1}/{len(data)}")
        if repo == "unsatisfiable" and start:
            return self.answer(416)
        if repo == "slow":
            self.answer(status, b"", len(rest), **headers)
            for at in range(0, len(rest), 65536):
                self.wfile.write(rest[at : at + 65536])
                time.sleep(0.02)
            return
        self.answer(status, rest, **headers)


class OtherHandler(Handler):
    pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Clients that hang up are what the tests are about."""


LOG = open(sys.argv[1], "a", encoding="utf-8")
first = Server(("127.0.0.1", 0), Handler)
second = Server(("127.0.0.1", 0), OtherHandler)
Handler.other_port = second.server_port
OtherHandler.other_port = 0
for server in (first, second):
    threading.Thread(target=server.serve_forever, daemon=True).start()
print(first.server_port, second.server_port, flush=True)
sys.stdin.read()
