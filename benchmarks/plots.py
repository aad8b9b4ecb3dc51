"""
The plots of the page: points from benchmarks/results/*.json as SVG files in docs/plots/.

Needs matplotlib, which ``scripts/setup-env plots`` installs. The same points give the same bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

SIZE_INCHES = (7.2, 3.2)


def available() -> bool:
    """Is matplotlib there?"""
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError:
        return False
    return True


def file_name(report: dict[str, Any], number: int) -> str:
    return f"{report['name']}-{number + 1}.svg"


def draw(report: dict[str, Any], folder: Path) -> list[str]:
    """One file for each plot of a report; their names."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "hermes-lcm", "svg.fonttype": "none", "font.size": 9})
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for number, plot in enumerate(report.get("plots", ())):
        figure, axes = plt.subplots(figsize=SIZE_INCHES, layout="constrained")
        for name, points in plot["lines"].items():
            axes.plot(*zip(*points, strict=True), label=name, marker="o" if plot["log"] else None, linewidth=1.2)
        axes.set(title=plot["title"], xlabel=plot["x"], ylabel=plot["y"])
        if plot["log"]:
            axes.set(xscale="log", yscale="log")
        else:
            axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(frameon=False)
        names.append(file_name(report, number))
        figure.savefig(folder / names[-1], metadata={"Date": None, "Creator": None})
        plt.close(figure)
    return names
