"""The figures of docs/benchmarks.md; called by report.py."""

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

METHODS = {
    "fast": ("fast", "#e07b00"),
    "balanced": ("balanced, centred g", "#4c78a8"),
    "published": ("published sum", "#777777"),
}
REPLACERS = ("self", "infill", "pos", "random")


def agreement(results: dict[str, Any], path: Path) -> None:
    """One panel for each replacer, one line for each prompt."""
    figure = Figure(figsize=(9, 6.4), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    for axes, replacer in zip(panels.flat, REPLACERS, strict=True):
        entries = [entry for key, entry in results.items() if key.split()[0] == replacer]
        for method, (name, colour) in METHODS.items():
            for i, entry in enumerate(entry for entry in entries if method in entry):
                points = {int(count): cell["pearson"] for count, cell in entry[method].items() if int(count) <= 256}
                label = name if i == 0 else None
                axes.plot([*points], [*points.values()], color=colour, marker=".", linewidth=1, alpha=0.8, label=label)
        axes.set_title(replacer, fontsize=10)
        axes.axhline(0.9, color="0.8", linewidth=0.8)
        _tidy(axes)
    axes.set_xscale("log", base=2)
    axes.set_xticks([32, 64, 128, 256], ["32", "64", "128", "256"])
    axes.set_ylim(-0.4, 1.03)
    panels[0, 0].legend(loc="lower right", frameon=False, fontsize=9)
    figure.supxlabel("probes", fontsize=10)
    figure.supylabel("agreement with 4,096 probes (Pearson)", fontsize=10)
    figure.savefig(path, dpi=130)


def cost(scoring: dict[str, Any], path: Path) -> None:
    """Time per probe by the length of the prompt, and memory by the size of the model."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    time, memory = figure.subplots(1, 2)
    lengths = {int(n): 1000 * seconds for n, seconds in scoring["seconds_per_probe_by_prompt_length"].items()}
    time.loglog([*lengths], [*lengths.values()], color="#e07b00", marker="o")
    time.set_xticks([*lengths], [str(n) for n in lengths])
    time.minorticks_off()
    time.set_xlabel("tokens of the prompt")
    time.set_ylabel("ms per probe")
    sizes = [(m["weights_mb"], m["peak_mb"]) for m in scoring["memory"]]
    memory.plot(*zip(*sizes, strict=True), color="#e07b00", marker="o", label="peak")
    memory.plot([0, sizes[-1][0]], [0, sizes[-1][0]], color="0.7", linewidth=1, label="weights alone")
    memory.set_xlabel("weights, MB")
    memory.set_ylabel("peak memory, MB")
    memory.legend(frameon=False, fontsize=9)
    for axes in (time, memory):
        _tidy(axes)
    figure.savefig(path, dpi=130)


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="0.93", linewidth=0.6)
