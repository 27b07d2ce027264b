"""Plots as SVG, with matplotlib where it is installed."""

import importlib.util

PREFILL, DECODE = "#c2410c", "#64748b"


def available():
    return importlib.util.find_spec("matplotlib") is not None


def _figure(width, height):
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "ondol", "svg.fonttype": "none", "font.size": 9})
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    return figure, axes


def _save(figure, path):
    # Without a date, so that the same figures give the same file.
    figure.savefig(path, format="svg", metadata={"Date": None})


def plot_ratios(records, path):
    """Ondol ÷ peer, for each model a bar for reading a prompt of 512 and one for writing; False without such records."""
    wanted = {"prefill-512": "prefill 512", "decode@0": "decode"}
    ratios = {}
    for record in records:
        if record["test"] in wanted and record.get("ratio"):
            ratios.setdefault(record["model"], {})[record["test"]] = record["ratio"]
    if not ratios:
        return False
    figure, axes = _figure(7, 1.2 + 0.5 * len(ratios))
    for offset, (test, name), colour in zip((-0.2, 0.2), wanted.items(), (PREFILL, DECODE), strict=True):
        places = [place for place, of in enumerate(ratios.values()) if test in of]
        values = [of[test] for of in ratios.values() if test in of]
        bars = axes.barh([place + offset for place in places], values, 0.38, color=colour, label=name)
        axes.bar_label(bars, fmt="%.2f", padding=3)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(range(len(ratios)), ratios)
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.set_xlabel("Ondol ÷ peer, tokens/s")
    axes.legend(loc="best")
    _save(figure, path)
    return True


def plot_batches(records, path):
    """v(m), the time of a step of m sequences in steps of one, a curve for each model; False without batch records."""
    batches = {r["model"]: r["batches"] for r in records if r["kind"] == "batch" and "error" not in r}
    if not batches:
        return False
    figure, axes = _figure(7, 4)
    sizes = sorted({batch["sequences"] for of in batches.values() for batch in of})
    axes.plot(sizes, sizes, color="black", linewidth=1, linestyle="dotted", label="one after the other")
    for model, of in batches.items():
        of = sorted(of, key=lambda batch: batch["sequences"])
        axes.plot([b["sequences"] for b in of], [b["v"] for b in of], marker="o", markersize=4, label=model)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.set_xlabel("sequences at once, m")
    axes.set_ylabel("v(m) = T(m) ÷ T(1)")
    axes.legend(loc="best")
    _save(figure, path)
    return True


def draw(records, folder):
    """Draws what the records allow; the names of the files made."""
    folder.mkdir(parents=True, exist_ok=True)
    plots = {"ratios.svg": plot_ratios, "batches.svg": plot_batches}
    return [name for name, plot in plots.items() if plot(records, folder / name)]
