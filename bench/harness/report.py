"""The results as Markdown: one table of speeds, one of starts and memory."""

import pathlib
import statistics

BEGIN = "<!-- results: written by bench/speed.py --update-readme -->"
END = "<!-- end of results -->"


def number(value):
    """Three figures that matter: 1234, 56.7, 8.90; a dash for nothing."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio(value):
    return "–" if value is None else f"{value:.2f}"


def percent(value):
    return "–" if value is None else f"{value:.0%}"


def gigabytes(value):
    return "–" if value is None else f"{value / 1e9:.2f}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def label(record):
    """A test in words."""
    after = f" after {record['depth']}" if record["depth"] else ""
    kv = "" if record["kv"] == "f16" else f", {record['kv']} cache"
    if record["kind"] == "prefill":
        return f"prefill {record['tokens']}{after}{kv}"
    return f"decode{after}{kv}"


def compute_floor(records, model, sequences):
    """max(1, m × decode ÷ prefill): below it v(m) cannot come at the prefill rate. None where a figure is missing."""
    by_test = {r["test"]: r["ours"]["median"] for r in records if r["model"] == model and "error" not in r}
    if not {"prefill-512", "decode@0"} <= set(by_test):
        return None
    return max(1.0, sequences * by_test["decode@0"] / by_test["prefill-512"])


def speed_rows(record, records):
    """One line of the table; of a batch record one for each number of sequences."""
    start = [record["model"], record["quant"]]
    if "error" in record:
        return [[*start, record["test"], record["error"].replace("|", "/"), *["–"] * 6]]
    if record["kind"] == "batch":
        return [
            [
                *start,
                f"decode, {b['sequences']} at once",
                number(b["median"]),
                *["–"] * 4,
                ratio(b["v"]),
                ratio(compute_floor(records, record["model"], b["sequences"])),
            ]
            for b in record["batches"]
        ]
    peer = record["peer"]["median"] if record["peer"] else None
    share = record.get("share_of_bandwidth") if record["kind"] == "decode" else None
    rate = record.get("mac_per_cycle_per_core")
    figures = [number(record["ours"]["median"]), number(peer), ratio(record["ratio"]), percent(share), number(rate)]
    return [[*start, label(record), *figures, "–", "–"]]


def start_rows(records):
    rows = []
    for record in records:
        if record["kind"] != "start" or "error" in record:
            continue
        peer = record["peer"]
        times = [number(record["ours"]["median"]), number(peer and peer["median"]), ratio(record["ratio"])]
        rows.append([record["model"], "cold" if record["test"] == "start-cold" else "warm", *times])
    return rows


def memory_rows(records):
    """Peak memory of the runs beside what the model file and the cache take."""
    rows = []
    for record in records:
        if record["test"] not in ("prefill-512", "decode@8192") or "error" in record or not record["memory"]:
            continue
        planned = record["memory"]["weights"] + record["memory"]["kv"]
        peak = record["ours"]["peak_rss_bytes"]
        peer = record["peer"]["peak_rss_bytes"] if record["peer"] else None
        figures = [gigabytes(peak), gigabytes(planned), ratio(peak / planned), gigabytes(peer)]
        rows.append([record["model"], label(record), *figures])
    return rows


def middle(records, key):
    values = [record[key] for record in records if record.get(key)]
    return statistics.median(values) if values else None


def heading(about, records):
    """What the figures belong to."""
    machine = about["machine"]
    good = [record for record in records if "error" not in record]
    commits = sorted({record["commit"] for record in records})
    dates = sorted({record["date"] for record in records})
    isa = ", ".join(sorted({record["isa"] for record in good if record["isa"]})) or "unknown"
    rounds = sorted({len(record["ours"]["values"]) for record in good})
    peers = sorted({record["peer_name"] for record in good if record["peer"]})
    counts = f"{rounds[0]} to {rounds[-1]}" if len(rounds) > 1 else str(*rounds)
    lines = [
        f"- CPU: {machine['cpu']}, {machine['threads']} threads of {machine['usable_cpus']} usable processors; "
        f"{', '.join(machine['flags'])}",
        f"- ISA chosen: `{isa}`; memory {machine['memory_bytes'] / 2**30:.0f} GiB; {machine['kernel']}",
        f"- Measured beside: read bandwidth {number(middle(good, 'read_bandwidth_gbps'))} GB/s, "
        f"clock {ratio(middle(good, 'clock_ghz'))} GHz (medians of all runs)",
        f"- Ondol {about['product']['version']}, commit {', '.join(commits)}; {dates[0]}"
        + (f" to {dates[-1]}" if len(dates) > 1 else ""),
        f"- Peer: {', '.join(peers)}, in turn with Ondol" if peers else "- No peer was at hand: Ondol's own figures only.",
        f"- Medians of {counts} round{'' if counts == '1' else 's'}" if rounds else "- Nothing was measured.",
    ]
    return "\n".join(lines)


def markdown(about, records, plots=()):
    """The whole report. `plots`: file names to show, relative to where the text will stand."""
    if not records:
        return "Nothing has been measured yet.\n"
    rows = [row for record in records if record["kind"] != "start" or "error" in record for row in speed_rows(record, records)]
    head = ["model", "types", "test", "Ondol", "peer", "ratio", "bandwidth", "MAC/cycle", "v(m)", "floor"]
    parts = [heading(about, records), table(head, rows)]
    if starts := start_rows(records):
        parts.append(table(["model", "start", "Ondol, ms", "peer, ms", "Ondol ÷ peer"], starts))
    if memory := memory_rows(records):
        head = ["model", "test", "peak, GB", "file + cache, GB", "ratio", "peer's peak, GB"]
        parts.append(table(head, memory))
    parts += [f"![{pathlib.PurePath(plot).stem}]({plot})" for plot in plots]
    return "\n\n".join(parts) + "\n"


def update_between_markers(path, text, begin=BEGIN, end=END):
    """Replaces what stands between two markers of a file. ValueError where it has not exactly one pair of them."""
    old = path.read_text(encoding="utf-8")
    if old.count(begin) != 1 or old.count(end) != 1 or old.index(begin) > old.index(end):
        raise ValueError(f"{path} needs the lines {begin} and {end} once each, in this order")
    before, after = old.split(begin)[0], old.split(end)[1]
    path.write_text(f"{before}{begin}\n{text}{end}{after}", encoding="utf-8")
