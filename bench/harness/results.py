"""The results file: written after every job, read again so that nothing is measured twice."""

import json
import os
import pathlib

SCHEMA = 1


class Results:
    """One record per machine, threads, forced instruction set, model and test; a new one takes the old one's place."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.records = []
        if self.path.exists():
            data = json.loads(self.path.read_text(encoding="utf-8"))
            if data.get("schema") != SCHEMA:
                raise ValueError(f"{self.path} has another format; move it away or choose another --out")
            self.records = data["records"]

    @staticmethod
    def key(record):
        return tuple(record[name] for name in ("cpu", "threads", "forced_isa", "model", "test"))

    def find(self, identity):
        """The record of {cpu, threads, forced_isa, model, test}, or None."""
        wanted = self.key(identity)
        return next((record for record in self.records if self.key(record) == wanted), None)

    def is_done(self, identity, rounds, with_peer):
        """Whether a record of the same commit and model file is there, with as many rounds, as much work and the same peer."""
        record = self.find(identity)
        if record is None or "error" in record:
            return False
        same = all(record[name] == identity[name] for name in ("commit", "file_bytes"))
        enough = record["tokens"] >= identity["tokens"] and set(identity["shape"]) <= set(record["shape"])
        peer_is_there = not with_peer or (record["peer"] is not None and record["peer_name"] == identity["peer_name"])
        return same and enough and len(record["ours"]["values"]) >= rounds and peer_is_there

    def put(self, record):
        self.records = [old for old in self.records if self.key(old) != self.key(record)] + [record]

    def save(self, about):
        """Writes the file whole or not at all. `about`: machine, product and peer of this run."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"schema": SCHEMA, **about, "records": self.records}, indent=1)
        part = self.path.with_suffix(".part")
        part.write_text(text + "\n", encoding="utf-8")
        os.replace(part, self.path)

    def of(self, cpu, threads, forced_isa, order=()):
        """Records of one machine, models in the given order and after it by name, tests as they were measured."""
        mine = [r for r in self.records if (r["cpu"], r["threads"], r["forced_isa"]) == (cpu, threads, forced_isa)]
        ranks = {model: rank for rank, model in enumerate(order)}
        return sorted(mine, key=lambda r: (ranks.get(r["model"], len(ranks)), r["model"]))
