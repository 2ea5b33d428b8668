"""The verdict of a job: what the untuned model takes over what the delivered one takes, with an interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Self

UNTUNED, DELIVERED = "untuned", "delivered"
NEAR = 0.01
"""Two builds of one model may be so far apart."""
NORMAL_975 = statistics.NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Verdict:
    """How the delivered model compares with the untuned one, the model as a build without a log makes it;
    of one workload, how the best config compares with that of the analysis.

    Both were built and run in turns on one board. ``untuned_s`` and ``delivered_s`` are medians of
    ``rounds`` turns in seconds. ``gain`` is untuned over delivered, and lies between ``low`` and ``high``
    with a probability of 95 %. On a simulated clock, which has no noise, these are equal. ``same`` says that
    both are one model: then the gain is 1 and nothing was raced. ``peer`` is the runtime that took turns with
    them, and ``peer_s`` what it took; an empty name and None where there was none.
    """

    untuned_s: float
    delivered_s: float
    gain: float = 1.0
    low: float = 1.0
    high: float = 1.0
    rounds: int = 0
    same: bool = False
    peer: str = ""
    peer_s: float | None = None

    @property
    def difference(self) -> bool:
        """Whether the interval leaves out 1."""
        return not self.low <= 1.0 <= self.high

    def known_within(self, share: float) -> bool:
        """Whether the gain is known so well: the interval reaches so far on each side, as a share of it."""
        return self.high - self.low <= 2 * share * self.gain

    @property
    def lost(self) -> bool:
        """Whether the untuned model shall be delivered: it is surely faster, or probably by a percent."""
        return self.high < 1.0 or self.gain < 1.0 - NEAR

    @property
    def of_untuned(self) -> Verdict:
        """What it says where the untuned model is delivered: of the same turns, without the tuned model."""
        seconds, peer = self.untuned_s, (self.peer, self.peer_s)
        return Verdict(seconds, seconds, rounds=self.rounds, same=True, peer=peer[0], peer_s=peer[1])

    def __str__(self) -> str:
        """What came out, for people."""
        if self.same:
            return "what is delivered is untuned"
        interval = f"{self.low:.2f} to {self.high:.2f}"
        if not self.difference:
            return f"no difference from untuned ({self.gain:.2f} times as fast, {interval})"
        exact = "" if self.low == self.high else f", {interval}"
        return f"{self.gain:.2f} times as fast as untuned ({1e3 * self.untuned_s:.3g} ms{exact})"

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {**vars(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """What ``to_json`` wrote."""
        return cls(**value)

    @classmethod
    def of(cls, groups: Sequence[Mapping[str, Sequence[float]]], peer: str = "") -> Self:
        """Of seconds by contestant, UNTUNED, DELIVERED and perhaps ``peer``, in one or more groups of turns.

        Each group has models that were loaded anew, as where they lie in memory makes a difference that no
        number of turns shows. So the interval is Student's, of the logarithms of the groups' ratios. A
        contestant UNTUNED that is missing is the delivered model.
        """

        def median(name: str) -> float:
            return statistics.median(seconds for group in groups for seconds in group[name])

        rounds = sum(len(group[DELIVERED]) for group in groups)
        peer_s = median(peer) if peer else None
        delivered_s = median(DELIVERED)
        if any(UNTUNED not in group for group in groups):
            return cls(delivered_s, delivered_s, rounds=rounds, same=True, peer=peer, peer_s=peer_s)
        logs = [
            math.log(statistics.median(group[UNTUNED]) / statistics.median(group[DELIVERED]))
            for group in groups
        ]
        middle = statistics.fmean(logs)
        few = len(logs) - 1
        spread = student_975(few) * statistics.stdev(logs) / math.sqrt(len(logs)) if few else 0.0
        gain, low, high = (math.exp(each) for each in (middle, middle - spread, middle + spread))
        return cls(median(UNTUNED), delivered_s, gain, low, high, rounds, peer=peer, peer_s=peer_s)

    @classmethod
    def of_all(cls, each: Sequence[Self]) -> Self | None:
        """Of runs with several sets of shapes, one with each: None where there is none of one.

        The interval is as wide as if all were off in the same direction.
        """
        if not each:
            return None
        untuned_s, delivered_s = (
            sum(one) for one in zip(*((v.untuned_s, v.delivered_s) for v in each), strict=True)
        )
        low, high = (
            untuned_s / sum(v.untuned_s / bound(v) for v in each)
            for bound in (attrgetter("low"), attrgetter("high"))
        )
        peers = {v.peer for v in each}
        peer = peers.pop() if len(peers) == 1 else ""
        return cls(
            untuned_s,
            delivered_s,
            untuned_s / delivered_s,
            low,
            high,
            min(v.rounds for v in each),
            all(v.same for v in each),
            peer,
            sum(v.peer_s or 0.0 for v in each) if peer else None,
        )


def student_975(freedom: int) -> float:
    """The 97.5 % quantile of Student's t with ``freedom`` degrees of it, within 1 % from 3 on.

    Source: the expansion in Abramowitz and Stegun, 26.7.5. One and two have closed forms.
    """
    if freedom == 1:
        return math.tan(0.475 * math.pi)
    if freedom == 2:
        return 0.95 * math.sqrt(2 / (1 - 0.95**2))
    z, n = NORMAL_975, freedom
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(float(term) / n**power for power, term in enumerate(terms, 1))
