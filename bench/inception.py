"""Inception v3 (299x299), batch normalisation folded into its convolutions, without the auxiliary head."""

from __future__ import annotations

from onnx import ModelProto

from bench.graph import Graph

Kernel = int | tuple[int, int]


def inception_v3(seed: int = 0) -> ModelProto:
    """Inception v3: blocks of branches, with filters of 1x7 and 7x1 in the middle ones."""
    net = _Inception()
    graph = net.graph
    data = net.conv("input", 32, 3, 2, padded=False)
    data = net.conv(net.conv(data, 32, 3, padded=False), 64, 3)
    data = graph.max_pool(data, 3, 2)
    data = net.conv(net.conv(data, 80, 1), 192, 3, padded=False)
    data = graph.max_pool(data, 3, 2)
    for pooled in (32, 64, 64):
        data = net.block_35(data, pooled)
    data = net.reduce_35(data)
    for width in (128, 160, 160, 192):
        data = net.block_17(data, width)
    data = net.reduce_17(data)
    for _ in range(2):
        data = net.block_8(data)
    return graph.model(graph.classifier(data), "inception_v3", seed)


class _Inception:
    """The network's blocks, named after the side of their planes."""

    def __init__(self) -> None:
        self.graph = Graph(side=299)

    def conv(self, data: str, filters: int, kernel: Kernel, stride: int = 1, padded: bool = True) -> str:
        """A convolution and its ReLU."""
        return self.graph.node("Relu", [self.graph.conv(data, filters, kernel, stride, padded=padded)])

    def chain(self, data: str, *convs: tuple[int, Kernel]) -> str:
        """Convolutions (filters, kernel) one after the other."""
        for filters, kernel in convs:
            data = self.conv(data, filters, kernel)
        return data

    def block_35(self, data: str, pooled: int) -> str:
        """1x1, 5x5, double 3x3, pool."""
        return self.graph.concat(
            [
                self.conv(data, 64, 1),
                self.chain(data, (48, 1), (64, 5)),
                self.chain(data, (64, 1), (96, 3), (96, 3)),
                self.conv(self.graph.average_pool(data, 3), pooled, 1),
            ]
        )

    def reduce_35(self, data: str) -> str:
        """To planes of half the side."""
        double = self.chain(data, (64, 1), (96, 3))
        return self.graph.concat(
            [
                self.conv(data, 384, 3, 2, padded=False),
                self.conv(double, 96, 3, 2, padded=False),
                self.graph.max_pool(data, 3, 2),
            ]
        )

    def block_17(self, data: str, width: int) -> str:
        """1x1, 7x7 and double 7x7 as rows and columns, pool."""
        row, column = (1, 7), (7, 1)
        once = ((width, 1), (width, row), (192, column))
        twice = ((width, 1), (width, column), (width, row), (width, column), (192, row))
        return self.graph.concat(
            [
                self.conv(data, 192, 1),
                self.chain(data, *once),
                self.chain(data, *twice),
                self.conv(self.graph.average_pool(data, 3), 192, 1),
            ]
        )

    def reduce_17(self, data: str) -> str:
        """To planes of half the side."""
        square = self.conv(data, 192, 1)
        rows = self.chain(data, (192, 1), (192, (1, 7)), (192, (7, 1)))
        return self.graph.concat(
            [
                self.conv(square, 320, 3, 2, padded=False),
                self.conv(rows, 192, 3, 2, padded=False),
                self.graph.max_pool(data, 3, 2),
            ]
        )

    def block_8(self, data: str) -> str:
        """1x1, 3x3 and double 3x3 that end in a row and a column side by side, pool."""
        once = self.conv(data, 384, 1)
        twice = self.chain(data, (448, 1), (384, 3))
        return self.graph.concat(
            [
                self.conv(data, 320, 1),
                *(self.conv(branch, 384, kernel) for branch in (once, twice) for kernel in ((1, 3), (3, 1))),
                self.conv(self.graph.average_pool(data, 3), 192, 1),
            ]
        )
