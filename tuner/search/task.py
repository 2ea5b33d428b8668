"""The search of one task: its strategy, its trials so far, what is known already, and its best."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from kernels import registry
from kernels.layout import Layouts
from kernels.space import Config
from tuner.layouts import race as layout_race
from tuner.log.record import Record
from tuner.search import strategies
from tuner.search.calibration import Calibration
from tuner.search.problem import Problem
from tuner.search.scheduler import Curve
from tuner.spec import JobSpec, TaskSpec, Trial
from tuner.states import TaskState
from worker.outcome import Outcome

NEAR = 1.05
"""What is this much slower may still turn out to be the faster when both are measured again."""
MAX_VOIDED = 3
"""How often a trial is offered again whose measurement did not count."""
_SAID = (
    "cost_s", "repeats_s", "spread", "disturbed", "counters", "temperature_c", "frequency_mhz"
)  # fmt: skip
"""What a board says of a trial, in an outcome and in a record."""


class TaskSearch:
    """One task's ask/tell session.

    The first trials are the incumbents, whatever the strategy: the untuned model's configs, or in a job of
    one workload the analysis's. Trial 0 is the first of them; other trials are numbered as they end.
    """

    def __init__(self, task: TaskSpec, job: JobSpec, problem: Problem, resumed: Sequence[Trial] = ()) -> None:
        self.task = task
        self.job = job
        self.problem = problem
        self.incumbents = _incumbents(task, problem)
        self.state = TaskState.WAITING
        self.curve = self._new_curve()
        self.records: dict[Config, Record] = {}
        self._asked: set[Config] = set()
        self._informed: set[Config] = set()
        self._owed: list[Config] = []
        self._voided: Counter[Config] = Counter()
        self._numbers: dict[Config, int] = {}
        self._next = 1
        self._begin(resumed)

    def _begin(self, resumed: Sequence[Trial]) -> None:
        rng = random.Random(f"{self.job.seed} {self.task.workload.key} {len(resumed)}")
        self._strategy = strategies.make(self.job.strategy, self.problem, rng)
        self._next = max([self._next, *(trial.number + 1 for trial in resumed)])
        # What failed for a transient reason may be tried again, under the number it had.
        self._numbers.update((trial.record.config, trial.number) for trial in resumed)
        standing = [trial for trial in resumed if not _transient(trial.record)]
        # What is disturbed may be a lie that was marked: it is there, but no search follows it.
        self.records = {trial.record.config: trial.record for trial in standing}
        self.tell([trial for trial in standing if not trial.record.disturbed])

    def begin_anew(self, trials: Sequence[Trial], known: Sequence[Record], limit: int) -> None:
        """Forget all that was told, and learn again from the job's trials and from what else is known, as
        they stand now: some of it was taken back. What is under way stays so, and the best ``limit`` of what
        is doubtful, and what was taken back, come next."""
        before, in_flight = self.records, self.curve.in_flight
        self._asked -= before.keys() | self._informed
        self.curve = self._new_curve()
        self.curve.in_flight = in_flight
        self._begin(trials)
        gone = [config for config in before if config not in self.records and config != self.incumbent]
        self._owed += [config for config in gone if config not in self._owed]
        self._asked.update(gone)
        self.doubt(known, limit, mine=True)
        self.inform(self.usable(known))

    def _new_curve(self) -> Curve:
        weight = self.task.weight
        return Curve(weight, self.problem.size, max(weight, 1) * self.problem.predict(self.incumbent))

    @property
    def incumbent(self) -> Config:
        """What the untuned model has in most of the layers: trial 0."""
        return self.incumbents[0]

    @property
    def first(self) -> int:
        """How many configs the strategy tries whatever they cost: more of them at once would be blind."""
        return len(self._strategy.seeds)

    @property
    def best(self) -> Record | None:
        """The fastest record so far."""
        return next(iter(self.top(1)), None)

    def top(self, k: int) -> list[Record]:
        """The ``k`` fastest records so far, the fastest first."""
        ran = [record for record in self.records.values() if record.error is None]
        return sorted(ran, key=lambda record: record.rank)[:k]

    def useful(self) -> dict[Layouts, list[Record]]:
        """The records that ran, the fastest first, by layouts; only of those that are not clearly beaten.

        The layouts of the fastest come first.
        """
        found: dict[Layouts, list[Record]] = {}
        for record in self.top(len(self.records)):
            found.setdefault(record.layouts, []).append(record)
        best_s = {layouts: records[0].ranking_s or math.inf for layouts, records in found.items()}
        bounds = layout_race.bounds(self.task.workload, best_s)
        return {each: records for each, records in found.items() if best_s[each] <= NEAR * bounds[each]}

    def unsure(self, k: int, refused: Collection[Config] = ()) -> list[Record]:
        """What to measure again, together: nothing when the fastest of all useful layouts was.

        Else ``k`` of the fastest layouts, and of others one less that are near their fastest. So are ``k``
        disturbed ones that are near it. Those in ``refused`` cannot be measured again.
        """
        wanted: list[Record] = []
        for records in self.useful().values():
            records = [record for record in records if record.config not in refused]
            if not records:
                continue
            near_s, verified = NEAR * (records[0].ranking_s or 0.0), records[0].verified_s is not None
            doubtful = [each for each in records if each.doubtful and (each.ranking_s or 0.0) <= near_s][:k]
            if verified and not doubtful:
                continue
            few = records[: 1 if verified else k - 1 if wanted else k]
            wanted += [each for each in few if not wanted or (each.ranking_s or 0.0) <= near_s]
            wanted += [record for record in doubtful if record not in wanted]
            # Beside the best of the rounds before: all may have been slow in a noisy one.
            before = [record for record in records if record.verified_s is not None]
            wanted += [record for record in before[:1] if record not in wanted]
        # Who leads must beat the incumbents in turns, and what the search has gained is to be told fairly.
        firsts = [first for each in self.incumbents if (first := self.records.get(each))]
        for first in firsts if wanted else ():
            contested = first.verified_s is None or any(each.layouts == first.layouts for each in wanted)
            if first.error is None and first not in wanted and contested:
                wanted.append(first)
        return [record for record in wanted if record.config not in refused]

    def ask(self, n: int, calibration: Calibration | None = None) -> list[Config]:
        """Up to ``n`` configs to try next; fewer, or none, when the space is exhausted.

        ``calibration`` is what other tasks have shown; the first question may be shaped by it.
        """
        if calibration is not None and not self._asked:
            self._strategy.begin_with(calibration.seeds(self.problem))
        firsts = [each for each in self.incumbents if each not in self._asked and each not in self.records]
        self._owed = firsts + self._owed
        self._asked.update(firsts)
        batch, self._owed = self._owed[:n], self._owed[n:]
        # The strategy may offer an incumbent, or one that was reused, on its own account.
        while len(batch) < n:
            offered = self._strategy.ask(n - len(batch))
            if not offered:
                break
            new = [config for config in offered if config not in self._asked and config not in self.records]
            self._asked.update(new)
            batch += new
        return batch

    def knows_incumbent(self, known: Iterable[Record] = ()) -> bool:
        """Whether trial 0 is there, or among ``known``."""
        return self.incumbent in self.records or any(record.config == self.incumbent for record in known)

    def usable(self, known: Iterable[Record]) -> list[Record]:
        """Those known records that are new here, in the space, of today's kernels, and not doubtful."""
        return [record for record in known if self._fits(record) and not record.doubtful]

    def _fits(self, record: Record) -> bool:
        return (
            record.config not in self.records
            and not _transient(record)
            and self.problem.space.why_not(record.config) is None
            and registry_version(record.config) in (None, record.kernel_version)
        )

    def doubt(self, known: Iterable[Record], limit: int, *, mine: bool) -> None:
        """Have those of the known records offered first that were disturbed, or measured elsewhere; the best
        ``limit`` of them. With ``mine`` also those that are trials of this job."""
        own = {config for config, record in self.records.items() if mine and record.disturbed}
        doubtful = [r for r in known if r.doubtful and (self._fits(r) or r.config in own)]
        doubtful.sort(key=lambda record: record.rank)
        taken = {*self.incumbents, *self._owed} - own
        self._owed += [record.config for record in doubtful if record.config not in taken][:limit]
        self._asked.update(self._owed)

    def reuse(self, known: Sequence[Record], limit: int) -> list[Trial]:
        """Trials for up to ``limit`` usable known records: incumbents and the fastest, in their old order."""

        def rank(record: Record) -> tuple[bool, bool, bool, float]:
            return (record.config not in self.incumbents, *record.rank)

        kept = sorted(known, key=rank)[: max(0, limit)]
        kept.sort(key=lambda record: (record.config != self.incumbent, record.created))
        return [self._trial(record, reused=True) for record in kept]

    def inform(self, known: Iterable[Record]) -> None:
        """Learn from records that the budget does not cover: they are not measured either."""
        known = [record for record in known if record.config not in self.records]
        self._informed = {record.config for record in known}
        self._asked |= self._informed
        self._strategy.tell([(record.config, record.ranking_s) for record in known])

    def trial(self, config: Config, outcome: Outcome) -> Trial:
        """The trial that ``outcome`` ends, numbered; it counts once it was told."""
        record = Record(
            workload=self.task.workload,
            target=self.job.demand.target,
            config=config,
            kernel_version=registry_version(config) or 1,
            threads=self.job.demand.threads,
            # A failed build has seen no board: it belongs to the job's clock.
            clock=outcome.clock if outcome.ok else self.job.demand.clock,
            cost_s=outcome.cost_s,
            repeats_s=outcome.repeats_s,
            spread=outcome.spread,
            disturbed=outcome.disturbed,
            max_error=outcome.max_error,
            cold=outcome.cold,
            error=outcome.error,
            message=outcome.message,
            board=outcome.board,
            counters=outcome.counters,
            temperature_c=outcome.temperature_c,
            frequency_mhz=outcome.frequency_mhz,
            toolchain=outcome.toolchain,
            created=_now(),
        )
        return self._trial(record, reused=False, lease=outcome.lease, at=outcome.at)

    def again(self, trial: Trial) -> None:
        """Have a trial that did not count offered once more, under its number; not without end."""
        config = trial.record.config
        self._voided[config] += 1
        if self._voided[config] <= MAX_VOIDED:
            self._numbers[config] = trial.number
            self._owed.append(config)
            self.curve.exhausted = False

    def tell(self, trials: Sequence[Trial]) -> None:
        """Count trials that ended and were saved."""
        # What was reused is no sign that looking further is in vain.
        known = [trial.record for trial in trials if trial.reused]
        if known:
            levels = self._told(known)
            self.curve.know([record.ranking_s for record in known], levels[-1])
        new = [trial.record for trial in trials if not trial.reused]
        self.curve.add([record.ranking_s for record in new], self._told(new))
        self._note_best()

    def _told(self, records: Sequence[Record]) -> list[float]:
        """Tell the strategy; how far the search was after each: the mean over the pairs of layouts of what
        each can be had for."""
        levels = []
        for record in records:
            self.records[record.config] = record
            self._strategy.tell([(record.config, record.ranking_s)])
            levels.append(statistics.fmean(self._strategy.bounds().values()))
        return levels

    def remeasured(self, record: Record, outcome: Outcome) -> Record:
        """What the interleaved re-measurement makes of ``record``.

        A best that was luck must not stay one, nor one that is wrong on other inputs. A disturbed time says
        nothing of a record that has a quiet one. A record is the word of one board: what another one measures
        takes the place of all that the first has said.
        """
        # A place among others goes by what they all had cost before, and may be another board's word.
        record = replace(record, remeasured=record.remeasured + 1, placed_s=None, in_place_s=None)
        if outcome.disturbed and not record.disturbed:
            return record
        before, record = record, replace(record, board=outcome.board, created=_now())
        if outcome.cost_s is None:
            message = f"when measured again: {outcome.message}"
            failed = replace(record, error=outcome.error, message=message)
            return replace(failed, cost_s=None, verified_s=None, disturbed=False)
        if before.imported or before.board != outcome.board:  # the same name elsewhere is another board
            said = {name: getattr(outcome, name) for name in _SAID}
            return replace(record, **said, verified_s=outcome.cost_s, imported=False)
        # Whatever else the machine did can only have added time.
        known_s = math.inf if record.disturbed and not outcome.disturbed else record.verified_s or math.inf
        return replace(record, verified_s=min(outcome.cost_s, known_s), disturbed=outcome.disturbed)

    def replace(self, record: Record) -> None:
        """Take over a record that was measured again and saved."""
        self.records[record.config] = record
        self._note_best()

    def _note_best(self) -> None:
        self.curve.best_s = (self.best and self.best.ranking_s) or math.inf

    def _trial(self, record: Record, reused: bool, lease: int = 0, at: float = 0.0) -> Trial:
        number = 0 if record.config == self.incumbent else self._numbers.get(record.config)
        if number is None:
            number, self._next = self._next, self._next + 1
        recommended = record.config in (*self.incumbents, *self.problem.seeds)
        return Trial(self.task.id, number, record, reused, lease, at, recommended)


def _incumbents(task: TaskSpec, problem: Problem) -> tuple[Config, ...]:
    """The task's incumbents that are in the space, or else the analysis's config."""
    found = [config for config in task.incumbents if problem.space.why_not(config) is None]
    return tuple(found) or problem.seeds[:1]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _transient(record: Record) -> bool:
    return record.error is not None and record.error.transient


def registry_version(config: Config) -> int | None:
    """The version of a config's kernel, or None when it is not registered."""
    found = registry.all_kernels().get(config.kernel)
    return found.version if found else None
