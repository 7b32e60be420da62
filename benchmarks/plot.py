"""Draw the cost of a request against the number of records, with one line for each candidate."""

from pathlib import Path
from statistics import median

from benchmarks.candidates import CANDIDATES
from benchmarks.in_process import USERS
from benchmarks.million import MILLION
from benchmarks.parts import Results, of_records
from benchmarks.processes import SECONDS

# Our own lines are thicker.
_OURS, _OTHERS = {"linewidth": 2.5, "marker": "o"}, {"linewidth": 1.0, "marker": ".", "alpha": 0.8}


def draw(in_process: Results, million: Results, path: Path) -> None:
    """Write the picture as SVG, with the same bytes for the same values."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = path.name
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(10, 6.5), layout="constrained")
    for number, name in enumerate(CANDIDATES):
        points = _points(name, in_process, million)
        style = _OURS if CANDIDATES[name].where.startswith("ours:") else _OTHERS
        axes.loglog(
            *zip(*points, strict=True),
            label=name,
            color=f"C{number % 10}",
            linestyle="-" if number < 10 else "--",
            **style,
        )
    axes.set(xlabel="records in the response", ylabel="time of a request, in seconds")
    axes.grid(which="major", linewidth=0.3)
    figure.legend(loc="outside right upper", fontsize="small")
    figure.savefig(path, metadata={"Date": None})


def _points(name: str, in_process: Results, million: Results) -> list[tuple[int, float]]:
    """Return pairs of a number of records and seconds, without 0 records, since the axis is logarithmic."""
    points = [(user, median(in_process[of_records(user), name]) / 1e6) for user in USERS if user]
    seconds = million.get((SECONDS, name))
    return points if seconds is None else [*points, (MILLION, median(seconds))]
