"""Reports of bench.conv, bench.model_table and bench.corpus as Markdown, of bench.conv with a plot, too.

python -m bench.report FILE.json ... --docs docs/measured

FILE.json becomes FILE.md, and FILE.svg beside it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from bench.conv_summary import summary
from bench.corpus.page import corpus
from bench.plot import sorted_ratios

PEERS = {
    "onnxruntime": "onnxruntime",
    "torch": "torch",
    "torch_channels_last": "torch NHWC",
    "im2col_openblas": "im2col + OpenBLAS",
}
"""Headings of the peers."""


def main() -> None:
    """Write a Markdown file for every report."""
    parser = argparse.ArgumentParser(prog="python -m bench.report", description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.json")
    parser.add_argument("--docs", type=Path, required=True, help="folder to write to; made where missing")
    arguments = parser.parse_args()
    arguments.docs.mkdir(parents=True, exist_ok=True)
    for path in arguments.files:
        try:
            report = json.loads(path.read_text())
            write = {"conv": conv, "model_table": models, "corpus": corpus}[report["bench"]]
            pages = write(report, path.stem)
        except (OSError, ValueError, KeyError, TypeError) as error:
            parser.error(
                f"{path} is no finished report of bench.conv, bench.model_table or bench.corpus: {error!r}"
            )
        for name, text in pages.items():
            (arguments.docs / name).write_text(text)
            print(f"wrote {arguments.docs / name}")


def conv(report: dict[str, Any], name: str) -> dict[str, str]:
    """Files of a report of bench.conv: a page with the summary and a row a layer, and its plot."""
    settings, rows = report["settings"], sorted(report["rows"], key=lambda row: -row["ratio_best_peer"])
    peers = [peer for peer in PEERS if peer in rows[0]["peers"]]
    table = _table(
        ["layer", "times", "tuned", "analysis", *(PEERS[peer] for peer in peers), "best peer / tuned", "by"],
        [
            [
                row["text"].removeprefix("conv "),
                str(row["count"]),
                *(f"{row[key]:.0f}" for key in ("tuned_gflops", "analysis_gflops")),
                *(f"{row['peers'][peer]:.0f}" for peer in peers),
                f"{row['ratio_best_peer']:.2f} {_spread(row['ratios'][row['best_peer']])}",
                row["tuned"]["kernel"],
            ]
            for row in rows
        ],
    )
    numerics, clock = settings["numerics"], "processor time" if settings["threads"] == 1 else "wall time"
    page = [
        f"# The layers of {settings['suite']}, {settings['threads']} thread(s), {numerics} numerics",
        f"`python -m bench.conv --suite {settings['suite']}.csv --sample all --threads {settings['threads']} "
        f"--numerics {numerics} --max-trials {settings['max_trials']} --budget-s {settings['budget_s']:g} "
        f"--strategy {settings['strategy']} --seed {settings['seed']} --json {name}.json`, written by "
        "`python -m bench.report`. All contestants in turns in one pinned process, the same data, medians by "
        f"{clock}, GFLOP/s; in brackets the 10th and 90th percentile of the ratio's turns.",
        "\n".join(f"- {line}" for line in summary(report["summary"]).splitlines()),
        f"![Ratio of every layer, sorted]({name}.svg)",
        table,
    ]
    ratios = [(row["text"], row["ratio_best_peer"]) for row in rows]
    title = f"Best peer's time / ours, {len(rows)} layers, {settings['threads']} thread(s)"
    return {f"{name}.md": "\n\n".join(page) + "\n", f"{name}.svg": sorted_ratios(ratios, title)}


def models(report: dict[str, Any], name: str) -> dict[str, str]:
    """The page of a report of bench.model_table."""
    settings = report["settings"]
    budget = f"--trials-a-layer {settings['trials_a_layer']} --budget-s {settings['budget_s']:g}"
    names = dict.fromkeys(row["model"] for row in report["rows"])
    threads = dict.fromkeys(str(row["threads"]) for row in report["rows"])
    table = _table(
        [
            "model",
            "threads",
            "onnxruntime ms",
            "tuned ms",
            "analysis ms",
            "onnxruntime / tuned",
            "largest relative error",
            "trials",
            "tuning s",
        ],
        [
            [
                row["model"],
                str(row["threads"]),
                *(f"{row[key]:.1f}" for key in ("onnxruntime_ms", "tuned_ms", "analysis_ms")),
                f"{row['speedup_vs_onnxruntime']:.2f} ({row['speedup_p10']:.2f}-{row['speedup_p90']:.2f})",
                f"{row['max_rel_err']:.1e}",
                str(row["trials"]),
                f"{row['tuning_s']:.0f}",
            ]
            for row in report["rows"]
        ],
    )
    page = [
        f"# Whole models, {settings['numerics']} numerics",
        f"`python -m bench.model_table --models {','.join(names)} --threads {','.join(threads)} {budget} "
        f"--numerics {settings['numerics']} --json {name}.json`, written by `python -m bench.report`. Random "
        "weights, in turns with onnxruntime in one pinned process; medians by processor time for one thread, "
        "by wall time for several.",
        table,
    ]
    return {f"{name}.md": "\n\n".join(page) + "\n"}


def _spread(ratio: dict[str, float]) -> str:
    return f"({ratio['p10']:.2f}-{ratio['p90']:.2f})"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


if __name__ == "__main__":
    main()
