"""Standard graphs of today, small and with random weights, as exporters write them: what few packages ship.

Transformers begin at their embeddings, and have fewer layers than their names promise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import ModelProto, helper, numpy_helper

from bench.graph import Graph

TOKENS = 64


def vit(seed: int = 0) -> ModelProto:
    """ViT-tiny, 4 of 12 layers: patches of 16 pixels, a class token, 197 tokens of 192 channels, 3 heads."""
    graph, width = Graph(), 192
    patches = graph.node(
        "Conv", ["input", graph.weight(width, 3, 16, 16), graph.weight(width)], strides=[16, 16]
    )
    data = graph.node("Transpose", [_reshape(graph, patches, [1, width, 196])], perm=[0, 2, 1])
    token = graph.constant(np.random.default_rng(seed).standard_normal((1, 1, width)))
    data = graph.node("Concat", [token, data], channels=197, axis=1)
    data = graph.node("Add", [data, graph.weight(1, 197, width)])
    for _ in range(4):
        data = _add(graph, data, _attention(graph, _layer_norm(graph, data, width), 197, width, 3))
        data = _add(graph, data, _mlp(graph, _layer_norm(graph, data, width), width, 4 * width))
    first = graph.node("Gather", [_layer_norm(graph, data, width), graph.constant(0, np.int64)], axis=1)
    return graph.model(graph.dense(first, width, 1000), "vit", seed)


def bert(seed: int = 0) -> ModelProto:
    """BERT-base, 2 of 12 layers: norms behind the sums, 64 tokens of 768 channels, 12 heads."""
    width = 768
    graph = Graph(shape=(1, TOKENS, width))
    data = _layer_norm(graph, "input", width)
    for _ in range(2):
        data = _layer_norm(graph, _add(graph, data, _attention(graph, data, TOKENS, width, 12)), width)
        data = _layer_norm(graph, _add(graph, data, _mlp(graph, data, width, 4 * width)), width)
    return graph.model(data, "bert", seed, shape=None)


def encoder(seed: int = 0) -> ModelProto:
    """One small layer of an encoder: 48 tokens of 96 channels, 3 heads. For tests of performance."""
    width = 96
    graph = Graph(shape=(1, 48, width))
    data = _add(graph, "input", _attention(graph, _layer_norm(graph, "input", width), 48, width, 3))
    data = _add(graph, data, _mlp(graph, _layer_norm(graph, data, width), width, 4 * width))
    return graph.model(_layer_norm(graph, data, width), "encoder", seed, shape=None)


def llama(seed: int = 0) -> ModelProto:
    """Llama, 2 layers: RMS norms, rotary positions, a causal mask, gated SiLU; 64 tokens of 512 channels."""
    width, heads = 512, 8
    graph, data = Graph(shape=(1, TOKENS, width)), "input"
    angles = np.outer(np.arange(TOKENS), 10000.0 ** (-np.arange(0, width // heads, 2) / (width // heads)))
    angles = np.concatenate([angles, angles], axis=1)
    rotary = (graph.constant(np.cos(angles)), graph.constant(np.sin(angles)))
    mask = graph.constant(np.triu(np.full((TOKENS, TOKENS), -1e9), 1))
    for _ in range(2):
        normed = _rms_norm(graph, data, width)
        data = _add(graph, data, _attention(graph, normed, TOKENS, width, heads, rotary, mask))
        normed = _rms_norm(graph, data, width)
        gate = _silu(graph, graph.node("MatMul", [normed, graph.weight(width, 1376)]))
        hidden = graph.node("Mul", [gate, graph.node("MatMul", [normed, graph.weight(width, 1376)])])
        data = _add(graph, data, graph.node("MatMul", [hidden, graph.weight(1376, width)]))
    return graph.model(_rms_norm(graph, data, width), "llama", seed, shape=None)


def unet(seed: int = 0) -> ModelProto:
    """U-Net for images of 128 pixels: 16 to 128 channels, transposed convolutions up again."""
    graph, data, skips = Graph(128), "input", []

    def twice(data: str, width: int) -> str:
        return graph.node("Relu", [graph.conv(graph.node("Relu", [graph.conv(data, width, 3)]), width, 3)])

    for width in (16, 32, 64):
        skips.append(twice(data, width))
        data = graph.max_pool(skips[-1], 2, 2)
    data = twice(data, 128)
    for width in (64, 32, 16):
        weights = [graph.weight(2 * width, width, 2, 2), graph.weight(width)]
        data = graph.node(
            "ConvTranspose", [data, *weights], channels=width, strides=[2, 2], kernel_shape=[2, 2]
        )
        data = twice(graph.concat([skips.pop(), data]), width)
    return graph.model(graph.conv(data, 2, 1), "unet", seed, shape=None)


def mobilenet_v3(seed: int = 0) -> ModelProto:
    """MobileNet v3 small: hard-swish, squeeze and excitation by a hard sigmoid."""
    graph = Graph()
    data = graph.node("HardSwish", [graph.conv("input", 16, 3, 2)])
    settings = (
        (3, 16, 16, True, "Relu", 2),
        (3, 72, 24, False, "Relu", 2),
        (3, 88, 24, False, "Relu", 1),
        (5, 96, 40, True, "HardSwish", 2),
        (5, 240, 40, True, "HardSwish", 1),
        (5, 240, 40, True, "HardSwish", 1),
        (5, 120, 48, True, "HardSwish", 1),
        (5, 144, 48, True, "HardSwish", 1),
        (5, 288, 96, True, "HardSwish", 2),
        (5, 576, 96, True, "HardSwish", 1),
        (5, 576, 96, True, "HardSwish", 1),
    )
    for kernel, wide, filters, squeezed, activation, stride in settings:
        hidden = graph.node(activation, [graph.conv(data, wide, 1)])
        hidden = graph.node(activation, [graph.conv(hidden, wide, kernel, stride, groups=wide)])
        if squeezed:
            hidden = _squeeze(
                graph, hidden, wide // 4, lambda data: graph.node("Relu", [data]), "HardSigmoid"
            )
        hidden = graph.conv(hidden, filters, 1)
        residual = stride == 1 and graph.channels(data) == filters
        data = graph.node("Add", [hidden, data]) if residual else hidden
    data = graph.node("HardSwish", [graph.conv(data, 576, 1)])
    return graph.model(graph.classifier(data), "mobilenet_v3", seed)


def efficientnet(seed: int = 0) -> ModelProto:
    """EfficientNet-B0, the first block of each stage: SiLU, squeeze and excitation by a sigmoid."""
    graph = Graph()
    data = _silu(graph, graph.conv("input", 32, 3, 2))
    settings = (
        (1, 16, 3, 1),
        (6, 24, 3, 2),
        (6, 40, 5, 2),
        (6, 80, 3, 2),
        (6, 112, 5, 1),
        (6, 192, 5, 2),
        (6, 320, 3, 1),
    )
    for expansion, filters, kernel, stride in settings:
        narrow = graph.channels(data)
        wide, hidden = narrow * expansion, data
        if expansion > 1:
            hidden = _silu(graph, graph.conv(data, wide, 1))
        hidden = _silu(graph, graph.conv(hidden, wide, kernel, stride, groups=wide))
        hidden = _squeeze(graph, hidden, max(1, narrow // 4), lambda data: _silu(graph, data), "Sigmoid")
        data = graph.conv(hidden, filters, 1)
    return graph.model(graph.classifier(_silu(graph, graph.conv(data, 1280, 1))), "efficientnet", seed)


def lstm(seed: int = 0) -> ModelProto:
    """Two LSTM layers of 64 steps and 128 channels, as torch writes them."""
    width, steps = 128, 64
    graph, data = Graph(shape=(steps, 1, width)), "input"
    rng = np.random.default_rng(seed)
    for _ in range(2):
        weights = [graph.constant(rng.normal(0, 0.08, (1, 4 * width, width))) for _ in range(2)]
        bias = graph.constant(rng.normal(0, 0.1, (1, 8 * width)))
        data = graph.node("LSTM", [data, *weights, bias], hidden_size=width)
        data = graph.node("Squeeze", [data, graph.constant([1], np.int64)])
    return graph.model(data, "lstm", seed, shape=None)


def conv1d(seed: int = 0) -> ModelProto:
    """The first layers of wav2vec with 64 channels: convolutions of one axis over a second of sound."""
    graph, data, channels = Graph(shape=(1, 1, 16000)), "input", 1
    for kernel, stride in ((10, 5), (3, 2), (3, 2), (3, 2), (2, 2)):
        weights = [graph.weight(64, channels, kernel), graph.weight(64)]
        data = _gelu(graph, graph.node("Conv", [data, *weights], strides=[stride], kernel_shape=[kernel]))
        channels = 64
    return graph.model(data, "conv1d", seed, shape=None)


def _add(graph: Graph, left: str, right: str) -> str:
    return graph.node("Add", [left, right])


def _reshape(graph: Graph, data: str, shape: Sequence[int]) -> str:
    return graph.node("Reshape", [data, graph.constant(shape, np.int64)])


def _layer_norm(graph: Graph, data: str, width: int) -> str:
    scale, bias = graph.constant(np.linspace(0.8, 1.2, width)), graph.constant(np.linspace(-0.1, 0.1, width))
    return graph.node("LayerNormalization", [data, scale, bias], epsilon=1e-6)


def _rms_norm(graph: Graph, data: str, width: int) -> str:
    square = graph.node("Pow", [data, graph.constant(2.0)])
    mean = graph.node("ReduceMean", [square], axes=[-1])
    root = graph.node("Sqrt", [graph.node("Add", [mean, graph.constant(1e-6)])])
    normed = graph.node("Div", [data, root])
    return graph.node("Mul", [normed, graph.constant(np.linspace(0.8, 1.2, width))])


def _dense(graph: Graph, data: str, features: int, outputs: int) -> str:
    product = graph.node("MatMul", [data, graph.weight(features, outputs)])
    return graph.node("Add", [product, graph.weight(outputs)])


def _gelu(graph: Graph, data: str) -> str:
    error = graph.node("Erf", [graph.node("Div", [data, graph.constant(math.sqrt(2))])])
    product = graph.node("Mul", [data, graph.node("Add", [error, graph.constant(1.0)])])
    return graph.node("Mul", [product, graph.constant(0.5)])


def _silu(graph: Graph, data: str) -> str:
    return graph.node("Mul", [data, graph.node("Sigmoid", [data])])


def _mlp(graph: Graph, data: str, width: int, wide: int) -> str:
    return _dense(graph, _gelu(graph, _dense(graph, data, width, wide)), wide, width)


def _squeeze(graph: Graph, data: str, narrow: int, relu: Callable[[str], str], sigmoid: str) -> str:
    hidden = relu(graph.conv(graph.node("GlobalAveragePool", [data]), narrow, 1))
    return graph.node("Mul", [data, graph.node(sigmoid, [graph.conv(hidden, graph.channels(data), 1)])])


def _attention(
    graph: Graph,
    data: str,
    tokens: int,
    width: int,
    heads: int,
    rotary: tuple[str, str] | None = None,
    mask: str | None = None,
) -> str:
    """Attention of ``data`` to itself: three products, heads apart, softmax, heads together, a product."""

    def apart(perm: list[int], turned: bool) -> str:
        value = _reshape(graph, _dense(graph, data, width, width), [1, tokens, heads, width // heads])
        if not turned or rotary is None:
            return graph.node("Transpose", [value], perm=perm)
        value = _rotated(graph, graph.node("Transpose", [value], perm=[0, 2, 1, 3]), width // heads, rotary)
        return value if perm == [0, 2, 1, 3] else graph.node("Transpose", [value], perm=[0, 1, 3, 2])

    query, key, value = apart([0, 2, 1, 3], True), apart([0, 2, 3, 1], True), apart([0, 2, 1, 3], False)
    scores = graph.node("MatMul", [query, key])
    scores = graph.node("Div", [scores, graph.constant(math.sqrt(width // heads))])
    if mask is not None:
        scores = graph.node("Add", [scores, mask])
    mixed = graph.node("MatMul", [graph.node("Softmax", [scores], axis=-1), value])
    together = _reshape(graph, graph.node("Transpose", [mixed], perm=[0, 2, 1, 3]), [1, tokens, width])
    return _dense(graph, together, width, width)


def _rotated(graph: Graph, data: str, size: int, rotary: tuple[str, str]) -> str:
    """Rotary positions: the halves of every head change places, one of them negated."""

    def part(begin: int, end: int) -> str:
        return graph.node("Slice", [data, *(graph.constant([each], np.int64) for each in (begin, end, 3))])

    # Exporters write the end of a slice to the end of an axis as the largest integer.
    halves = [graph.node("Neg", [part(size // 2, 2**63 - 1)]), part(0, size // 2)]
    swapped = graph.node("Concat", halves, axis=-1)
    return _add(graph, graph.node("Mul", [data, rotary[0]]), graph.node("Mul", [swapped, rotary[1]]))


def bert_dynamic(seed: int = 0) -> ModelProto:
    """The same as onnxruntime's quantizer writes it for dynamic quantization, weights of int8."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with TemporaryDirectory(prefix="tilefleet-bench-") as folder:
        path = Path(folder) / "bert.onnx"
        quantize_dynamic(bert(seed), path, weight_type=QuantType.QInt8)
        return onnx.load(path)


def llama_int4(seed: int = 0) -> ModelProto:
    """The Llama with weights of 4 bits in blocks of 32, as onnxruntime has them; its data may become int8."""
    model, block = llama(seed), 32
    values = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    for node in model.graph.node:
        weights = values.get(node.input[1]) if node.op_type == "MatMul" else None
        if weights is None:
            continue
        k, n = weights.shape
        columns = weights.T.reshape(n, k // block, block)
        scales = np.abs(columns).max(axis=2, keepdims=True) / 7
        quanta = np.clip(np.rint(columns / scales) + 8, 0, 15).astype(np.uint8)
        names = [f"{node.input[1]}_quanta", f"{node.input[1]}_scales"]
        for name, value in zip(
            names, (quanta[..., ::2] | quanta[..., 1::2] << 4, scales.reshape(-1)), strict=True
        ):
            model.graph.initializer.append(numpy_helper.from_array(value, name))
        sizes = {"K": k, "N": n, "bits": 4, "block_size": block, "accuracy_level": 4}
        data, outputs = node.input[0], list(node.output)
        node.CopyFrom(
            helper.make_node(
                "MatMulNBits", [data, *names], outputs, name=node.name, domain="com.microsoft", **sizes
            )
        )
    used = {name for node in model.graph.node for name in node.input}
    kept = [each for each in model.graph.initializer if each.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


MADE: dict[str, Callable[[int], ModelProto]] = {
    "vit": vit,
    "bert": bert,
    "bert_dynamic": bert_dynamic,
    "llama": llama,
    "llama_int4": llama_int4,
    "unet": unet,
    "mobilenet_v3": mobilenet_v3,
    "efficientnet": efficientnet,
    "lstm": lstm,
    "conv1d": conv1d,
}
