"""A running `ondol serve` and plain HTTP to it."""

import contextlib
import http.client
import json
import queue
import signal
import subprocess
import threading
import time

from pysupport import program


class Server:
    def __init__(self, process, port):
        self.process, self.port = process, port
        self.base_url = f"http://127.0.0.1:{port}/v1"

    def request(self, method, path, body=None, headers=None, timeout=60):
        """The answer as (status, headers, bytes). `body`: bytes, or something to send as JSON."""
        with self.connection(timeout) as connection:
            return exchange(connection, method, path, body, headers)

    def post(self, path, body, **options):
        """A JSON answer that must be a 200."""
        status, _, data = self.request("POST", path, body, **options)
        assert status == 200, (status, data[:500])
        return json.loads(data)

    @contextlib.contextmanager
    def connection(self, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            yield connection
        finally:
            connection.close()

    def metric(self, name):
        """The value of one line of /metrics, 0 where it is not there."""
        text = self.request("GET", "/metrics")[2].decode()
        values = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name + " ")]
        return values[0] if values else 0.0

    def busy(self):
        return self.metric("ondol_running") + self.metric("ondol_queue_length")

    def wait_until_busy(self, count=1, seconds=10):
        start = time.monotonic()
        while self.busy() < count:
            assert time.monotonic() - start < seconds, "no work is under way"
            time.sleep(0.002)

    def wait_until_idle(self, seconds):
        """How long it took until nothing was under way."""
        start = time.monotonic()
        while self.busy():
            assert time.monotonic() - start < seconds, "work goes on"
            time.sleep(0.01)
        return time.monotonic() - start


def exchange(connection, method, path, body=None, headers=None):
    headers = dict(headers or {})
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    if body is not None:
        headers.setdefault("Content-Type", "application/json")
    headers = {k: v for k, v in headers.items() if v is not None}
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def events(data):
    """The data lines of an event stream, strictly: each event is one `data:` line or a comment."""
    assert data.endswith(b"\n\n"), data[-100:]
    lines = []
    for event in data.decode("utf-8")[:-2].split("\n\n"):
        assert "\n" not in event and "\r" not in event, event
        if event.startswith(": "):
            continue
        assert event.startswith("data: "), event
        lines.append(event[6:])
    return lines


@contextlib.contextmanager
def serve(model, *flags, seconds=60):
    """Runs a server; it must end by itself, with exit 0, when it is told to."""
    command = [program.ONDOL, "serve", model, "--port", 0, *flags]
    process = subprocess.Popen(
        [str(part) for part in command], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=program.environment()
    )
    lines = queue.Queue()

    def read():
        for line in process.stderr:
            lines.put(line)
        lines.put("")

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        said = []
        while True:
            line = lines.get(timeout=seconds)
            said.append(line)
            assert line, f"the server ended: {said}"
            if line.startswith("ready on "):
                break
        yield Server(process, int(line.strip().rsplit(":", 1)[1]))
        process.send_signal(signal.SIGTERM)
        assert process.wait(40) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        reader.join(5)
        process.stderr.close()
