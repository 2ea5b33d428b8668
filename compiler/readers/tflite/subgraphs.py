"""The subgraphs of a TFLite file as one graph: branches beside each other, state as inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compiler.ir.checks import MAX_NODES, ModelError
from compiler.readers.tflite.file import COMPOSITE, Operator, Tensor, TfliteFile
from compiler.readers.tflite.unread import STATE

DEEPEST = 16
"""How many branches may be inside each other; a subgraph may name itself."""


def flat(graphs: Sequence[TfliteFile]) -> TfliteFile:
    """The first of ``graphs`` with all that it calls.

    An IF becomes both of its branches and a SELECT_V2 for each result; where only one branch has products it
    stays, and its options become the files of the two. A variable's value before the run is an input with
    the variable's name, what the run leaves in it an output of that name and ``/next``. So it is with
    tensors that are variables; the one operator that has such a tensor gets a result more. The options of a
    WHILE become two such files: its condition and its body.
    Raises ModelError for what these cannot say.
    """
    if len(graphs) == 1 and not any(op.kind in STATE for op in graphs[0].operators):
        return _with_states(graphs[0])
    return _with_states(_Flat(graphs, 0).file())


_WORK = ("BATCH_MATMUL", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV", "WHILE")


def _with_states(file: TfliteFile) -> TfliteFile:
    """A graph with its variable tensors as inputs, and as outputs of the operators that have them."""
    tensors, operators = list(file.tensors), []
    inputs, outputs = list(file.inputs), list(file.outputs)
    for op in file.operators:
        states = [index for index in op.inputs if index >= 0 and tensors[index].variable]
        for index in states:
            if index in inputs:
                raise ModelError(f"several operators have the variable {tensors[index].name!r}")
            inputs.append(index)
            tensors[index] = replace(tensors[index], raw=None)
            tensors.append(replace(tensors[index], name=f"{tensors[index].name}/next", variable=False))
            outputs.append(len(tensors) - 1)
        operators.append(replace(op, outputs=(*op.outputs, *outputs[len(outputs) - len(states) :])))
    return TfliteFile(tuple(tensors), tuple(inputs), tuple(outputs), tuple(operators))


class _Flat:
    def __init__(self, graphs: Sequence[TfliteFile], depth: int) -> None:
        self._graphs, self._depth = graphs, depth
        self._tensors: list[Tensor] = list(graphs[0].tensors)
        self._operators: list[Operator] = []
        self._inputs = list(graphs[0].inputs)
        self._handles: dict[int, str] = {}
        self._values: dict[str, int] = {}
        self._assigned: list[str] = []

    def file(self) -> TfliteFile:
        main = self._graphs[0]
        places = self._run(0, list(range(len(main.tensors))), self._depth)
        outputs = [places[index] for index in main.outputs]
        for name in self._assigned:
            index = self._values[name]
            if index in (*self._inputs, *outputs) or self._tensors[index].raw is not None:
                raise ModelError(f"variable {name!r} is left with what is an input, an output or a constant")
            self._tensors[index] = replace(self._tensors[index], name=f"{name}/next")
            outputs.append(index)
        return TfliteFile(tuple(self._tensors), tuple(self._inputs), tuple(outputs), tuple(self._operators))

    def _run(self, number: int, places: list[int], depth: int) -> list[int]:
        """Add the operators of a graph with tensors at ``places``; where they are in the end."""
        if depth > DEEPEST:
            raise ModelError(f"more than {DEEPEST} subgraphs call each other")
        for op in self._graphs[number].operators:
            inputs = [index if index < 0 else places[index] for index in op.inputs]
            if op.kind == "READ_VARIABLE":
                places[op.outputs[0]] = self._read(inputs[0], places[op.outputs[0]])
            elif op.kind == "VAR_HANDLE":
                self._own(places[op.outputs[0]], (op.options.SharedName() or b"").decode(errors="replace"))
            elif op.kind == "ASSIGN_VARIABLE":
                name = self._name(inputs[0])
                if depth:
                    raise ModelError(f"variable {name!r} is assigned in a branch, which is not supported")
                self._values[name] = inputs[1]
                self._assigned += [] if name in self._assigned else [name]
            elif op.kind == "WHILE":
                outputs = tuple(places[index] for index in op.outputs)
                numbers = (op.options.CondSubgraphIndex(), op.options.BodySubgraphIndex())
                parts = tuple(self._closed(op, number, depth) for number in numbers)
                self._add(replace(op, inputs=tuple(inputs), outputs=outputs, options=parts))
            elif op.kind == "IF":
                self._choose(op, inputs, [places[index] for index in op.outputs], depth)
            elif op.kind == COMPOSITE:
                # What it stands for is beside it, as other operators.
                number = op.options.DecompositionSubgraphIndex()
                made = self._inside(op, number, inputs, len(op.outputs), depth)
                for result, place in zip(op.outputs, made, strict=True):
                    if place not in inputs and self._tensors[place].raw is None:
                        self._call(place, places[result])
                    places[result] = place
            elif op.kind != "CALL_ONCE":  # which only says what variables begin with
                outputs = tuple(places[index] for index in op.outputs)
                self._add(replace(op, inputs=tuple(inputs), outputs=outputs))
        return places

    def _closed(self, op: Operator, number: int, depth: int) -> TfliteFile:
        """A graph of a WHILE, which sees nothing but its inputs."""
        if not 0 < number < len(self._graphs):
            raise ModelError(f"WHILE {op.name!r} has a condition or body that is no subgraph")
        graph = self._graphs[number]
        if len(graph.inputs) != len(op.inputs) or any(each.kind in STATE for each in graph.operators):
            raise ModelError(f"WHILE {op.name!r} has a subgraph with other inputs than its own, or variables")
        return _Flat((graph, *self._graphs[1:]), depth + 1).file()

    def _own(self, handle: int, name: str) -> None:
        """Let ``handle`` stand for the variable ``name``, which its tensors shall have alone."""
        self._handles[handle] = name
        self._tensors[handle] = replace(self._tensors[handle], name=f"{name}/handle")

    def _call(self, place: int, outside: int) -> None:
        """Let a tensor have the name of the one ``outside``, which nothing writes."""
        name = self._tensors[outside].name
        self._tensors[place] = replace(self._tensors[place], name=name)
        self._tensors[outside] = replace(self._tensors[outside], name=f"{name}/outside")

    def _add(self, op: Operator) -> None:
        self._operators.append(op)
        if len(self._operators) > MAX_NODES:
            raise ModelError(f"the model has more than {MAX_NODES} operators")

    def _name(self, handle: int) -> str:
        if handle not in self._handles:
            raise ModelError(f"{self._tensors[handle].name!r} is no variable's handle")
        return self._handles[handle]

    def _read(self, handle: int, place: int) -> int:
        """Where a variable's value is; at ``place`` when nothing has been there so far."""
        name = self._name(handle)
        if name not in self._values:
            self._values[name] = place
            self._tensors[place] = replace(self._tensors[place], name=name)
            self._inputs.append(place)
        return self._values[name]

    def _inside(self, op: Operator, number: int, inputs: list[int], results: int, depth: int) -> list[int]:
        """Add a graph that ``op`` runs on its ``inputs``; where its results are."""
        if not 0 < number < len(self._graphs):
            raise ModelError(f"{op.kind} {op.name!r} has a branch that is no subgraph")
        graph = self._graphs[number]
        if (len(graph.inputs), len(graph.outputs)) != (len(inputs), results):
            raise ModelError(f"{op.kind} {op.name!r} has a branch with other inputs or outputs than its own")
        first = len(self._tensors)
        self._tensors += (
            replace(tensor, name=f"{op.name}/{number}/{tensor.name}") for tensor in graph.tensors
        )
        places = list(range(first, len(self._tensors)))
        for inside, outside in zip(graph.inputs, inputs, strict=True):
            places[inside] = outside
        places = self._run(number, places, depth + 1)
        return [places[index] for index in graph.outputs]

    def _choose(self, op: Operator, inputs: list[int], outputs: list[int], depth: int) -> None:
        sides, numbers = [], (op.options.ThenSubgraphIndex(), op.options.ElseSubgraphIndex())
        if self._works_in_one(numbers, len(inputs) - 1, outputs):
            given = [index for index in inputs[1:] if self._tensors[index].raw is None]
            graphs = (self._with_constants(self._graphs[number], inputs[1:]) for number in numbers)
            parts = tuple(_Flat((graph, *self._graphs[1:]), depth + 1).file() for graph in graphs)
            self._add(replace(op, inputs=(inputs[0], *given), outputs=tuple(outputs), options=parts))
            return
        for number in numbers:
            sides.append(self._inside(op, number, inputs[1:], len(outputs), depth))
        for then, otherwise, result in zip(*sides, outputs, strict=True):
            shapes = {self._tensors[index].shape for index in (then, otherwise, result)}
            if len(shapes) > 1:
                raise ModelError(f"IF {op.name!r} has branches of different shapes {sorted(shapes)}")
            chosen = (inputs[0], then, otherwise)
            self._add(Operator("SELECT_V2", op.name, chosen, (result,), None))

    def _with_constants(self, graph: TfliteFile, given: list[int]) -> TfliteFile:
        """A graph with constants of its own in place of inputs that are constants outside, mostly weights."""
        tensors, inputs = list(graph.tensors), []
        for inside, outside in zip(graph.inputs, given, strict=True):
            if self._tensors[outside].raw is None:
                inputs.append(inside)
            else:
                tensors[inside] = replace(self._tensors[outside], name=tensors[inside].name)
        return replace(graph, tensors=tuple(tensors), inputs=tuple(inputs))

    def _works_in_one(self, numbers: Sequence[int], inputs: int, outputs: list[int]) -> bool:
        """Whether just one of two branches has products, and both fit an IF and leave no variable."""
        if not all(0 < number < len(self._graphs) for number in numbers):
            return False
        graphs = [self._graphs[number] for number in numbers]
        kinds = [{op.kind for op in graph.operators} for graph in graphs]
        wanted = [self._tensors[index].shape for index in outputs]
        return (
            sum(bool(some.intersection(_WORK)) for some in kinds) == 1
            and not any(some.intersection((*STATE, "IF", COMPOSITE)) for some in kinds)
            and not any(tensor.variable for graph in graphs for tensor in graph.tensors)
            and all(len(graph.inputs) == inputs for graph in graphs)
            and all([graph.tensors[index].shape for index in graph.outputs] == wanted for graph in graphs)
        )
