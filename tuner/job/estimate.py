"""What the whole model is expected to take while some of it has no time yet."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Sums:
    """Sums over the layers of a model, each as often as it occurs, in seconds.

    ``known_s`` are the best times of the layers that have one, ``predicted_s`` is what was predicted of the
    same, ``rest_s`` of the ``open`` layers that have none. ``unpredicted`` layers have no prediction.
    """

    known_s: float = 0.0
    predicted_s: float = 0.0
    rest_s: float = 0.0
    open: int = 0
    unpredicted: int = 0

    @property
    def layers_s(self) -> float | None:
        """All layers: those without a time as predicted, scaled by what the others took over their
        predictions. None where nothing has a time, or something has neither time nor prediction."""
        if not self.open:
            return self.known_s or None
        if self.unpredicted or not self.predicted_s:
            return None
        return self.known_s * (1 + self.rest_s / self.predicted_s)

    def share_of(self, others_s: float) -> float:
        """How much the rest of the model, predicted as ``others_s``, takes beside the layers: a share of
        these; 0 where it is not known."""
        layers_s = self.predicted_s + self.rest_s
        return others_s / layers_s if layers_s and not self.unpredicted else 0.0


def sums_of(layers: Iterable[tuple[int, float, float | None]]) -> Sums:
    """The sums over (how often it occurs, its best seconds or infinity, the predicted ones or None)."""
    found = list(layers)
    known = [each for each in found if math.isfinite(each[1])]
    rest = [each for each in found if not math.isfinite(each[1])]
    return Sums(
        known_s=sum(weight * best_s for weight, best_s, _ in known),
        predicted_s=sum(weight * (predicted_s or 0.0) for weight, _, predicted_s in known),
        rest_s=sum(weight * (predicted_s or 0.0) for weight, _, predicted_s in rest),
        open=len(rest),
        unpredicted=sum(predicted_s is None for _, _, predicted_s in found),
    )
