"""The rows of a report: what each is made of, said in a line, and what they come to together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.timing import geomean

Row = dict[str, Any]
EMPTY: Row = {
    "accepted": None,
    "reason": "",
    "builds": None,
    "ran": None,
    "right": None,
    "check": "",
    "blunt": False,
    "max_error": None,
    "ours_ms": None,
    "peers_ms": {},
    "trying": "",
    "unable": {},
    "best_peer": None,
    "ratio_onnxruntime": None,
    "ratio_best": None,
    "own_share": None,
    "foreign": [],
}
"""What a row has that got nowhere."""


def ended(row: Row, death: str) -> None:
    """Say in ``row`` how far its child got before it died of ``death``."""
    if row["accepted"] is None:
        row["accepted"], row["reason"] = False, f"reading it: {death}"
    elif row["builds"] is None:
        row["builds"], row["reason"] = False, f"building it: {death}"
    elif not row["ran"]:
        row["right"], row["check"] = False, f"wrong: it does not run: {death}"
    else:
        row["reason"] = f"measuring it: {death}"


def line(row: Row) -> str:
    """One row for people."""
    start = f"{row['name']}: "
    if row["accepted"] is None:
        return f"{start}not tried: {row['reason']}"
    if not row["accepted"]:
        return f"{start}refused: {row['reason']}"
    if not row["builds"]:
        return f"{start}accepted, not built: {row['reason']}"
    told = [
        f"built in {row['import_s'] + row['build_s']:.1f} cpu-s and {row['build_mb']:.0f} MB",
        row["check"],
    ]
    told += ["its outputs do not change with its inputs: the check says little"] * row["blunt"]
    if row["ours_ms"] is not None:
        peers = ", ".join(
            f"{name} {ms:.3g} ms ({ms / row['ours_ms']:.2f})" for name, ms in row["peers_ms"].items()
        )
        told += [f"{row['ours_ms']:.3g} ms, {peers}", f"{row['own_share']:.0%} in our kernels"]
        told += [
            ", ".join(
                f"{each['name']} {each['share']:.0%}" + (f" ({each['why']})" if each["why"] else "")
                for each in row["foreign"][:2]
                if each["share"] > 0.05
            )
        ]
    return start + "; ".join(filter(None, [*told, row["reason"]]))


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Counts, geometric means of peer time over ours, and shares of time in kernels of ours.

    Wrong models count for no mean. ``own_share`` weighs each model by its time, ``own_share_a_model`` alike.
    """
    timed = [row for row in rows if row["peers_ms"] and row["right"] is not False]
    shares = [row for row in rows if row["own_share"] is not None]
    total = sum(row["ours_ms"] for row in shares)
    peers = sorted({name for row in timed for name in row["peers_ms"]})
    ratios = {
        name: [row["peers_ms"][name] / row["ours_ms"] for row in timed if name in row["peers_ms"]]
        for name in peers
    }
    ratios["best"] = [row["ratio_best"] for row in timed]
    return {
        "files": len(rows),
        "tried": sum(row["accepted"] is not None for row in rows),
        "accepted": sum(row["accepted"] is True for row in rows),
        "built": sum(row["builds"] is True for row in rows),
        "right": sum(row["right"] is True for row in rows),
        "wrong": [row["name"] for row in rows if row["right"] is False],
        "means": {
            name: {"mean": geomean(each), "models": len(each), "faster": sum(ratio >= 1 for ratio in each)}
            for name, each in ratios.items()
        },
        "own_share": sum(row["own_share"] * row["ours_ms"] for row in shares) / total if total else None,
        "own_share_a_model": sum(row["own_share"] for row in shares) / len(shares) if shares else None,
    }


def told(found: dict[str, Any]) -> str:
    """The summary in a line."""
    counts = ", ".join(f"{found[name]} {name}" for name in ("files", "accepted", "built", "right"))
    wrong = f"{len(found['wrong'])} wrong" + (f" ({', '.join(found['wrong'])})" if found["wrong"] else "")
    means = [
        f"{name}/ours {each['mean']:.2f} ({each['models']} models, {each['faster']} faster)"
        for name, each in found["means"].items()
        if each["models"]
    ]
    share = found["own_share"]
    shares = (
        []
        if share is None
        else [f"{share:.0%} of the time in our kernels ({found['own_share_a_model']:.0%} a model)"]
    )
    return "; ".join([f"{counts}, {wrong}", *means, *shares])
