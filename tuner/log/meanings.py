"""What the fields of targets and workloads mean, for the schema of the log."""

from __future__ import annotations

from typing import Any

_SIDES = "top, left, bottom, right"
SHARED = {
    "n": "Images of a batch; of a matrix product, columns of the weights and of the result.",
    "m": "Rows of the activations and of the result.",
    "k": "Columns of the activations, rows of the weights: what is summed over.",
    "in_c": "Channels of the data.",
    "in_h": "Rows of the data's images.",
    "in_w": "Columns of the data's images.",
    "out_c": "Channels of the result.",
    "kh": "Rows of the filter.",
    "kw": "Columns of the filter.",
    "stride": "Steps of the filter down and across.",
    "pad": f"Padding around the images: {_SIDES}.",
    "dilation": "Distances of the filter's elements down and across.",
    "groups": "Groups of channels that are convolved by themselves.",
    "dtype": "Type of the activations.",
    "epilogue": "What is computed before a result is stored.",
    "first": "Of a chain, the convolution that reads the data.",
    "second": "Of a chain, the convolution that reads what the first makes.",
    "bits": "Bits of a weight.",
    "block": "Weights of a column that share a scale; 0 for a whole column.",
    "zeros": "Whether each scale has a zero point; of attention, whether rows that see nothing become zeros.",
    "data_dtype": "Type of the activations.",
    "weight_dtype": "Type of the weights.",
    "out_dtype": "Type of the result.",
    "data_zero": "Quantum of the data that stands for zero.",
    "weight_zero": "Quantum of the weights that stands for zero.",
    "out_zero": "Quantum of the result that stands for zero.",
    "per_channel": "Whether each channel has a multiplier of its own.",
    "clamp": "Least and greatest result; null for an open end.",
    "weight_range": "Least and greatest weight that the code may rely on.",
    "scale": "What is known of the multipliers; of attention, the factor of queries by keys.",
    "extents": "How many places the batch has in each of its dimensions.",
    "a": "Where the elements of the left matrix are.",
    "b": "Where the elements of the right matrix are.",
    "out": "Where the elements of the result are.",
    "alpha": "The factor or parameter alpha of the formula.",
    "beta": "The parameter beta of the formula.",
    "rows": "Rows of the queries and of the result.",
    "count": "How many keys there are.",
    "depth": "Elements of a query and of a key.",
    "width": "Elements of a value.",
    "queries": "Where the queries are.",
    "keys": "Where the keys are.",
    "values": "Where the values are.",
    "mask": "Where the mask is that is added; null for none.",
    "causal": "Row i sees keys up to i + causal; null for all.",
    "batch": "Elements from one place of the batch to the next, by dimension.",
    "row": "Elements from one row to the next.",
    "column": "Elements from one column to the next.",
    "bias": "Whether one value a channel or column is added.",
    "residual": "Whether an array of the result's shape is added.",
    "activation": "The function that is applied; null for none.",
    "late": "Whether the residual is added after the activation.",
    "rounded": "Whether blocks of the data become int8 before they are multiplied; left out where not.",
    "kind": "Which function it is.",
    "name": "What people call it; not part of its identity.",
    "triple": "LLVM's target triple.",
    "cpu": "LLVM's name of the processor.",
    "features": "Instruction sets that kernels may use, as LLVM names them.",
    "vector_bits": "Bits of a vector register.",
    "vector_registers": "How many vector registers there are.",
    "l1_bytes": "Bytes of a core's first data cache.",
    "l2_bytes": "Bytes of a core's second cache.",
    "l3_bytes": "Bytes of the third cache; 0 where there is none.",
    "fast_bytes": "Bytes of fast memory for the caches of a chain; 0 where there is none of its own.",
    "line_bytes": "Bytes of a cache line.",
    "l2_cycles": "Cycles to load a line from the second cache.",
    "l3_cycles": "Cycles to load a line from the third cache.",
    "dram_cycles": "Cycles to load a line from memory.",
    "integer_vector_bits": "Bits of a vector register of integers; 0 where they share those of floats.",
    "integer_vector_registers": "How many of these there are; 0 where they share those of floats.",
    "matrix": "Instruction set of the matrix engine; empty where there is none.",
    "hz": "Usual clock rate; 0 where it is unknown.",
    "fmas_per_cycle": "Vector multiply-adds a cycle.",
    "loads_per_cycle": "Vector loads a cycle while lines arrive from the second cache.",
    "misses_in_flight": "Line loads that a core and its prefetchers overlap.",
    "streams": "Sequential streams that the prefetchers follow.",
}


def explained(schema: dict[str, Any]) -> dict[str, Any]:
    """``schema`` of an object with each property's meaning, and without the titles that repeat its name."""
    properties = {
        name: {"description": SHARED[name], **{key: item for key, item in form.items() if key != "title"}}
        for name, form in schema["properties"].items()
    }
    return {**schema, "properties": properties}
