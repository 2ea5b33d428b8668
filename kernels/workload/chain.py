"""Two convolutions, the second of the first's result, which nothing else reads (seed 004)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, TypeVar

from pydantic import ConfigDict

from kernels.unit import Unit
from kernels.workload.canonical import key_of
from kernels.workload.checked import STRICT_FIELDS
from kernels.workload.conv2d import Conv2d
from kernels.workload.epilogue import Epilogue
from kernels.workload.qconv2d import QConv2d

P = TypeVar("P", Conv2d, QConv2d)


class ChainSizes(ABC, Generic[P]):
    """What chains of floats and of integers have in common."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def parts(self) -> tuple[P, P]:
        """The two convolutions."""

    @property
    def epilogue(self) -> Epilogue:
        """What follows the second."""
        return self.parts[1].epilogue

    @property
    def data_shape(self) -> tuple[int, ...]:
        """Shape of the activations, as the first has it."""
        return self.parts[0].data_shape

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the result, and of a residual, as the second has it."""
        return self.parts[1].out_shape

    @property
    def flops(self) -> int:
        """Operations of both."""
        return sum(part.flops for part in self.parts)

    @property
    def key(self) -> str:
        """Content hash, the workload's name."""
        return key_of(self)

    def check_fit(self) -> None:
        """Raises ValueError unless the second convolution takes what the first makes."""
        one, two = self.parts
        made, taken = (one.n, one.out_h, one.out_w, one.out_c), (two.n, two.in_h, two.in_w, two.in_c)
        if made != taken:
            sizes = ["{}x {}x{}x{}".format(*size) for size in (taken, made)]
            raise ValueError(
                f"{self.kind} second takes {sizes[0]} (n x h x w x c), but first makes {sizes[1]}"
            )

    def __str__(self) -> str:
        return "{} => {}".format(*self.parts)


@dataclass(frozen=True)
class ConvChain(ChainSizes[Conv2d]):
    """``second`` of ``first``'s result. Bias and clamp come behind either, a residual behind the second."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS
    kind: ClassVar[Literal["chain"]] = "chain"
    unit: ClassVar[Unit] = "FLOP"
    first: Conv2d
    second: Conv2d

    def __post_init__(self) -> None:
        self.check_fit()
        if self.first.epilogue.residual:
            raise ValueError("chain first must have no residual: only the second's result may have one added")
        for name, part in (("first", self.first), ("second", self.second)):
            if part.epilogue.activation is not None:
                raise ValueError(f"chain {name} must have no activation but a clamp")

    @property
    def parts(self) -> tuple[Conv2d, Conv2d]:
        """The two convolutions."""
        return self.first, self.second

    @property
    def dtype(self) -> str:
        """The type of the activations."""
        return self.first.dtype


@dataclass(frozen=True)
class QConvChain(ChainSizes[QConv2d]):
    """``second`` of ``first``'s result, all of bytes."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS
    kind: ClassVar[Literal["qchain"]] = "qchain"
    unit: ClassVar[Unit] = "OP"
    first: QConv2d
    second: QConv2d

    def __post_init__(self) -> None:
        self.check_fit()
        one, two = self.parts
        if one.out_dtype != two.data_dtype:
            raise ValueError(f"qchain second takes {two.data_dtype}, but first makes {one.out_dtype}")
        # Without padding, what is known as the data's zero point is a matter of the bias alone.
        if any(two.pad) and one.out_zero != two.data_zero:
            raise ValueError(
                f"qchain second pads with {two.data_zero}, but the zero point of first is {one.out_zero}"
            )

    @property
    def parts(self) -> tuple[QConv2d, QConv2d]:
        """The two convolutions."""
        return self.first, self.second

    @property
    def dtype(self) -> str:
        """The type of the activations."""
        return self.first.data_dtype


AnyChain = ConvChain | QConvChain
