"""How much of a job's budget is left, and how large the next batch may be."""

from __future__ import annotations

import math
import time

from tuner.spec import Budget
from tuner.states import Phase

BATCH, SMALLEST = 8, 4
"""Smaller ones, but for the last, would spend too much of the board's time on starting sessions."""
BATCH_S = 10.0
"""Slow candidates come in smaller batches: what a batch teaches should not come too late."""
REMEASURE_SHARE = 0.2
"""Largest part of the seconds before the last build that is kept for measuring the best few again."""
PLACE_SHARE, PLACE_S = 0.2, 60.0
"""What of the seconds before the last build is kept for comparing configs inside the model: such a share, but
no more than that."""

MUCH = 0.1
"""An early end saves at least this share of a budget."""


class Allowance:
    """A budget being used up.

    ``elapsed_s`` was used before; ``final`` trials will be measured again, and with ``place`` configs are
    compared inside the model after that. ``reserve_s`` is kept for the build at last, its check and its race.
    """

    def __init__(
        self, budget: Budget, elapsed_s: float, final: int, place: bool = False, reserve_s: float = 0.0
    ) -> None:
        self._trials = math.inf if budget.trials is None else budget.trials
        self._seconds = math.inf if budget.seconds is None else budget.seconds
        self._before, self._started, self._final = elapsed_s, time.monotonic(), final
        self._reserve = reserve_s if math.isfinite(self._seconds) else 0.0
        self._free = max(0.0, self._seconds - self._reserve)
        self._aside = min(PLACE_S, PLACE_SHARE * self._free) if place else 0.0
        self._measured = 0
        self._waited = 0.0
        self._trial_s: float | None = None

    @property
    def elapsed(self) -> float:
        """Seconds the job has run, earlier runs included."""
        return self._before + time.monotonic() - self._started

    def left(self) -> float:
        """Seconds until the budget is spent; what was waited is not of it."""
        return self._seconds - self.elapsed + self._waited

    def waited(self, seconds: float) -> None:
        """Take note that the job could do nothing for so long, for want of a board or of the database."""
        self._waited += seconds

    def place_left(self) -> float:
        """Seconds until the model must be built."""
        return self.left() - self._reserve

    def verify_left(self) -> float:
        """Seconds until measuring again must end, so that configs can be compared inside the model."""
        return self.place_left() - self._aside

    def search_left(self) -> float:
        """Seconds until the search must end so that the best can be measured again."""
        if math.isinf(self._seconds):
            return math.inf
        most = REMEASURE_SHARE * self._free if self._final else 0.0
        rate = self.rate
        return self.verify_left() - (min(most, self._final / rate) if rate else most / 2)

    def observe(self, trials: int, board_s: float) -> None:
        """Learn from a batch of ``trials`` that took so many seconds of a board."""
        self._measured += trials
        latest = board_s / trials
        self._trial_s = latest if self._trial_s is None else 0.7 * self._trial_s + 0.3 * latest

    @property
    def rate(self) -> float | None:
        """Trials measured a second of this run, or None before the first batch is back."""
        seconds = time.monotonic() - self._started - self._waited
        return self._measured / max(seconds, 1e-3) if self._measured else None

    def eta(self, used: int, phase: Phase) -> float | None:
        """Seconds until the first budget is spent, as far as can be told.

        After the search there is a figure only where the seconds ended it: what follows then has what was
        kept for it. How long it takes after the last trial nobody can say.
        """
        left = self.left()
        if phase is Phase.SEARCHING:
            rate = self.rate
            by_trials = (self._trials - used) / rate if rate else math.inf
            eta = max(0.0, min(by_trials, left))
            return eta if math.isfinite(eta) else None
        kept = self._aside + REMEASURE_SHARE * self._free + self._reserve
        return left if 0 < left <= kept < math.inf else None

    def trials_left(self, used: int) -> float:
        """Trials of the budget that are left after ``used``; infinite without such a budget."""
        return max(0, self._trials - used)

    def much_left(self, used: int) -> bool:
        """Whether so much of each budget is left that an early end saves something."""
        trials, seconds = self.trials_left(used), self.search_left()
        return self.rate is not None and (
            (math.isinf(trials) or trials >= MUCH * self._trials)
            and (math.isinf(seconds) or seconds >= MUCH * self._seconds)
        )

    def spent(self, used: int) -> bool:
        """Whether nothing is left to search with after ``used`` trials."""
        return self.trials_left(used) < 1 or self.search_left() <= 0

    def batch(self, used: int, pending: int, batches: int) -> int:
        """Size of the next batch when ``batches`` are kept under way; 0 when nothing more fits.

        Of the ``used`` trials ``pending`` have not ended yet. Near the end batches shrink, so that the last
        ones can still build on results.
        """
        left = self.more(used, pending)
        size = min(BATCH, left, max(SMALLEST, math.ceil(left / batches) if math.isfinite(left) else BATCH))
        if self._trial_s:
            size = min(size, max(1.0, BATCH_S / self._trial_s))
        return max(0, int(size))

    def opening(self, used: int, pending: int, waiting: int, wanted: int) -> int:
        """Size of a task's first batch: as many as are ``wanted``, but leave the other tasks half.

        While nobody knows how long a trial takes, seconds are shared out one trial at a time: on a slow
        board the first batch might use them all.
        """
        if self.spent(used):
            return 0
        if waiting > 1 and self.rate is None and math.isfinite(self._seconds):
            return 1
        return int(max(1, min(wanted, self.more(used, pending) // (2 * max(1, waiting)))))

    def more(self, used: int, pending: int) -> float:
        """Trials that can still begin, by the trials and by the seconds of the budget: of the ``used`` ones
        ``pending`` have not ended."""
        left = self.trials_left(used)
        return left if self.rate is None else min(left, self.search_left() * self.rate - pending)
