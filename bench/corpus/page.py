"""The report of ``bench.corpus`` as Markdown."""

from __future__ import annotations

from typing import Any

from bench.corpus.rows import Row, told

HEAD = (
    "model",
    "from",
    "KB",
    "error",
    "ours ms",
    "onnxruntime",
    "best",
    "by",
    "in kernels",
    "cpu-s",
    "MB",
    "what else",
)


def corpus(report: dict[str, Any], name: str) -> dict[str, str]:
    """The page of a report of bench.corpus, by the page's name."""
    settings, rows = report["settings"], report["rows"]
    budget = f" --budget-s {settings['budget_s']:g}" if settings["budget_s"] else ""
    libraries = ", ".join(f"{library} {version}" for library, version in report["libraries"].items())
    tuned = (
        f"tuned for {settings['budget_s']:g} s each"
        if settings["budget_s"]
        else "untuned, by the analysis alone"
    )
    built = [row for row in rows if row["builds"]]
    page = [
        "# Model files that others ship",
        f"`python -m bench.corpus{budget} --json {name}.json`, written by `python -m bench.report`, "
        f"{report['date']}, on {report['machine']}. Beside {libraries}. {tuned.capitalize()}, one thread, in "
        "turns in one process a model, medians by processor time. Under *onnxruntime* and *best* stands the "
        "time of that library over ours: more than 1 means that ours is faster. *In kernels* is the share of "
        "our time in functions that we generate or schedule; *what else* has the heaviest others. "
        "An error is *blunt* where the outputs are so saturated that they hardly depend on the inputs.",
        told(report["summary"]) + ".",
        "## Built",
        _table(HEAD, [_built(row) for row in sorted(built, key=lambda row: row["ratio_best"] or 0)]),
        "## Not built",
        _table(("model", "from", "how far", "why"), [_refused(row) for row in rows if not row["builds"]]),
    ]
    return {f"{name}.md": "\n\n".join(page) + "\n"}


def _built(row: Row) -> list[str]:
    right = {
        True: _number(row["max_error"], ".0e") + ", blunt" * row["blunt"],
        False: "**wrong**",
        None: "not checked",
    }[row["right"]]
    foreign = [f"{each['name']} {each['share']:.0%}" for each in row["foreign"][:3] if each["share"] > 0.04]
    return [
        row["name"],
        row.get("package", "made here"),
        f"{row['bytes'] / 1000:.0f}",
        right,
        _number(row["ours_ms"], ".3g"),
        _number(row["ratio_onnxruntime"], ".2f"),
        _number(row["ratio_best"], ".2f"),
        row["best_peer"] or "",
        _number(row["own_share"], ".0%"),
        f"{row['import_s'] + row['build_s']:.0f}",
        f"{row['build_mb']:.0f}",
        ", ".join(foreign) or row["reason"],
    ]


def _refused(row: Row) -> list[str]:
    far = "not tried" if row["accepted"] is None else "accepted" if row["accepted"] else "refused"
    return [
        row["name"],
        row.get("package", "made here"),
        far,
        row["reason"][:200].replace("|", "/").replace("\n", " "),
    ]


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _table(head: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [list(head), ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
