"""Draws the herd: how many watches have fired by when, after a broker's session has ended, as an SVG."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Final

from benchmarks.simulation.quiet_clusters import Failover

_COLOURS: Final = {"zk-v1": "#c62828", "zk-v2": "#ef6c00", "C1": "#1565c0", "C2": "#2e7d32", "C3": "#6a1b9a"}
_STYLE: Final = {"svg.hashsalt": "herd", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 11}


def draw(failovers: Mapping[str, Failover], where: str) -> str:
    """A curve for each protocol version, which ends with a dot when every partition is led again."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    with mpl.rc_context(_STYLE):
        figure, axes = pyplot.subplots(figsize=(7.6, 3.8))
        for generation, one in failovers.items():
            times = [(at_us - one.noticed_us) / 1000 for at_us in one.watches]
            end = (one.led_again_us - one.noticed_us) / 1000
            counts = range(1, len(times) + 1)
            label = f"{generation}: {len(times):,} watches, led again after {end:,.0f} ms"
            colour = _COLOURS[generation]
            axes.step([*times, end], [*counts, len(times)], where="post", color=colour, linewidth=1.8, label=label)
            axes.plot([end], [len(times)], "o", color=colour, markersize=5)
        axes.set_xlabel("milliseconds after the session of the dead broker has ended")
        axes.set_ylabel("watches fired")
        axes.set_title(f"A broker dies that led a third of {where}", fontsize=11, loc="left")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, loc="best", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        figure.tight_layout()
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
