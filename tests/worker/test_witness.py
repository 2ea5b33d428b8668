"""Who is believed when two boards, or three, say different things of one candidate."""

from dataclasses import replace

import pytest

from worker.engine.witness import agree, out_of_line
from worker.outcome import ErrorKind, Outcome


def told(board, ms, clock="wall"):
    if isinstance(ms, ErrorKind):
        return Outcome(error=ms, board=board)
    return Outcome(ms / 1e3, (ms / 1e3,), board=board, clock=clock)


CRASH, WRONG = ErrorKind.CRASH, ErrorKind.WRONG_RESULT


@pytest.mark.parametrize(
    ("said", "alone"),
    [
        ([1.0], None),
        ([1.0, 2.9], None),
        ([1.0, 3.1], 0),  # nothing that seems slow ever wins
        ([50.0, 1.0], 1),
        ([1.0, 50.0, 1.1], 1),
        ([1.0, 50.0, 49.0], 0),
        ([0.02, 1.0, 50.0], 0),
        ([CRASH, 1.0], 0),
        ([1.0, WRONG], 1),
        ([CRASH, WRONG], None),
        ([1.0, CRASH, CRASH], 0),
        ([CRASH, 1.0, 1.0], 0),
    ],
)
def test_who_is_alone(said, alone):
    outcomes = [told(str(n), each) for n, each in enumerate(said)]
    assert out_of_line(outcomes, 3.0) == (None if alone is None else outcomes[alone])


def test_simulated_clocks_agree_to_the_bit():
    one = told("a", 1.0, "simulated:x")
    assert agree(one, told("b", 1.0, "simulated:x"), 3.0)
    assert not agree(one, replace(one, cost_s=1e-3 * (1 + 2**-52)), 3.0)
