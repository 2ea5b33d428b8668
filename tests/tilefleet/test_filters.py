"""Lists of boards and models, with what they can be narrowed by."""

from __future__ import annotations

import json
from typing import Any, Self, cast

import pytest
from typer.testing import CliRunner

from server.boards.schemas import Board
from server.models.schemas import Model
from tilefleet.cli import app
from tilefleet.commands import boards, jobs


def board(**changes: Any) -> Board:
    facts = cast(dict[str, Any], Board.model_config["json_schema_extra"])["example"]
    return Board.model_validate({**facts, **changes})


class Client:
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def boards(self) -> list[Board]:
        return [
            board(id="a", target="rpi4", health="good", tags=["lab", "fan"]),
            board(id="b", target="rpi4", health="bad", tags=["lab"]),
            board(id="c", target="rpi5", health="retired", tags=[]),
        ]

    def models(self) -> list[Model]:
        named = (("0a", "ResNet 50.onnx"), ("1b", "resnet18.tflite"), ("2c", "squeezenet.onnx"))
        facts: dict[str, Any] = {"size": 9, "inputs": [], "operators": 1, "tunable": 1, "flops": 9}
        return [
            Model.model_validate(
                {**facts, "hash": digits * 32, "name": name, "created": "2026-01-01T00:00:00Z"}
            )
            for digits, name in named
        ]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("boards", "a b c"),
        ("boards --target rpi4", "a b"),
        ("boards --health bad --health retired", "b c"),
        ("boards --tag lab --tag fan", "a"),
        ("boards --target rpi5 --tag lab", ""),
        ("models", "ResNet 50.onnx,resnet18.tflite,squeezenet.onnx"),
        ("models --search resnet", "ResNet 50.onnx,resnet18.tflite"),
        ("models --search 'onnx RES'", "ResNet 50.onnx"),
        ("models --search 2c2c2c2c", "squeezenet.onnx"),
        ("models --search c2c2", ""),
    ],
)
def test_a_list_has_what_meets_all_filters(line: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (boards, jobs):
        monkeypatch.setattr(place, "connect", lambda _: Client())
    done = CliRunner().invoke(app, f"{line} --json")
    assert done.exit_code == 0, done.output
    listed = json.loads(done.output)
    if line.startswith("boards"):
        assert " ".join(each["id"] for each in listed) == found
    else:
        assert ",".join(each["name"] for each in listed) == found
