"""The ways to lie that are tried, and how each is answered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mode:
    """``lie`` is WHERE:HOW as ``lie.c`` reads it: WHERE is ``all``, ``check`` (the health check's kernel),
    ``trials``, ``peak``, ``bandwidth`` or ``relayouts``; HOW is ``=seconds``, ``*factor``, ``last=seconds``
    or a word. ``model`` says that only a model's job asks for it, ``busy`` that it is noticed by how long
    things take, so not on a busy machine."""

    lie: str
    words: str
    model: bool = False
    busy: bool = False


MODES = (
    Mode("all:=-5.527e-06", "all times negative"),
    Mode("all:=nan", "all times no number"),
    Mode("all:=inf", "all times infinite"),
    Mode("all:=0", "all times 0"),
    Mode("all:=1e-15", "all times 1e-15 s"),
    Mode("all:=5e-324", "all times the least number"),
    Mode("all:=1e4", "all times longer than it took"),
    Mode("all:*0.02", "all times x 0.02"),
    Mode("all:*0.2", "all times x 0.2", busy=True),
    Mode("all:*0.5", "all times x 0.5"),
    Mode("trials:last=-1e-4", "the last repeat of each trial negative"),
    Mode("trials:*0.02", "times of trials alone x 0.02", busy=True),
    Mode("trials:*0.5", "times of trials alone x 0.5"),
    Mode("peak:=1e-12", "a peak of 1e6 TFLOP/s and more"),
    Mode("peak:=-1", "a negative peak"),
    Mode("peak:*0.3", "a peak three times too high"),
    Mode("bandwidth:=1e-12", "a bandwidth of 1e6 TB/s and more"),
    Mode("bandwidth:=nan", "a bandwidth that is no number"),
    Mode("bandwidth:*0.3", "a bandwidth three times too high"),
    Mode("relayouts:=-5e-06", "layout changes of -5e-06 s", model=True),
    Mode("relayouts:=1e-15", "layout changes of 1e-15 s", model=True),
    Mode("relayouts:*0.3", "layout changes three times too fast", model=True),
    Mode("trials:crash", "false crashes"),
    Mode("trials:exit", "sessions that end without a word"),
    Mode("trials:hang", "false timeouts"),
    Mode("trials:wrong", "wrong results"),
    Mode("trials:unwritten", "results never written"),
    Mode("trials:junk", "answers of three bytes"),
    Mode("trials:short", "empty answers"),
)
