"""Functions as TVM's operators make them, for ``test_loops.py``: name -> (arrays taken, arrays made)."""

import tvm
from tvm import te, tirx, topi

DTYPES = ("bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64")


def array(*shape, dtype="float32", name="x"):
    return te.placeholder(shape, dtype, name)


def number(value, dtype="float32"):
    return tirx.const(value, dtype)


def cases():
    """All of them."""
    made = {}
    for part in (chains, dtypes, sums, norms, copies):
        made.update(part())
    return made


def chains():
    made = {}
    for shape in ((2, 3, 7, 5), (1, 2, 4, 4, 8), (37,), (3, 1, 2), (1,), ()):
        x, y = array(*shape), array(*shape, name="y")
        clipped = topi.minimum(topi.maximum(topi.add(x, y), number(-1.0)), number(1.0))
        hard = topi.divide(topi.multiply(x, clipped), number(6.0))
        made[f"hard swish {shape}"] = [x, y], [topi.add(hard, x)]
        made[f"sigmoid times {shape}"] = [x], [topi.multiply(x, topi.sigmoid(x))]
        gelu = topi.multiply(x, topi.add(topi.erf(topi.divide(x, number(1.4))), number(1.0)))
        made[f"gelu by erf {shape}"] = [x], [gelu]
    for one, other in (((3, 1, 7), (1, 5, 1)), ((4, 9), (4, 1)), ((4, 9), (9,)), ((2, 3, 4, 4), (3, 1, 1))):
        x, y = array(*one), array(*other, name="y")
        made[f"broadcast {one} {other}"] = [x, y], [topi.tanh(topi.subtract(topi.exp(x), y))]
    x, y = array(3, 11), array(11, name="y")
    cube = topi.multiply(topi.multiply(x, x), x)
    for _ in range(12):  # each step reads the one before twice
        cube = topi.subtract(topi.multiply(cube, number(0.5)), topi.multiply(cube, topi.multiply(cube, y)))
    made["long"] = [x, y], [cube]
    made["one by one"] = [x], [topi.add(topi.cosh(topi.exp(x)), topi.atan(x))]
    made["where"] = [x, y], [topi.where(topi.less(x, y), topi.exp(y), topi.negative(x))]
    first = topi.exp(x)
    made["two results"] = [x, y], [topi.add(first, y), topi.multiply(first, y)]
    made["a result that is read"] = [x], [first, topi.sqrt(first)]
    made["results of two shapes"] = [x, y], [topi.exp(x), topi.exp(y)]
    places = te.compute((5, 9), lambda i, j: x[i // 2, j] + (i * 9 + j).astype("float32"), name="places")
    made["indices as values"] = [x], [places]
    return made


def dtypes():
    made = {}
    for dtype in DTYPES:
        x, y = array(3, 17, dtype=dtype), array(17, dtype=dtype, name="y")
        made[f"copy {dtype}"] = [x], [topi.transpose(topi.concatenate([x, x], 1), (1, 0))]
        for to in sorted({"float32", "int64", "bool", "int8"} - {dtype}):
            made[f"{dtype} as {to}"] = [x], [topi.cast(x, to)]
        if dtype == "bool":
            both = topi.logical_and(topi.logical_not(x), topi.logical_or(x, y))
            made["logic"] = [x, y], [both]
            for axis in (0, 1):
                made[f"all {axis}"] = [x], [topi.all(x, axis=axis)]
                made[f"any {axis}"] = [x], [topi.any(x, axis=axis)]
            continue
        square = topi.multiply(x, x)
        made[f"arithmetic {dtype}"] = [x, y], [topi.add(square, y)]
        made[f"comparison {dtype}"] = [x, y], [topi.less(square, y), topi.equal(x, y)]
        for axis in (0, 1):
            made[f"sum {dtype} {axis}"] = [x], [topi.sum(x, axis=axis)]
            made[f"max {dtype} {axis}"] = [x], [topi.max(x, axis=axis)]
    return made


def sums():
    made = {}
    for shape in ((3, 5, 70), (2, 9, 3), (4, 1, 33)):
        x = array(*shape)
        for axes in (0, 1, 2, (0, 2), (1, 2), (0, 1), (0, 1, 2)):
            total = topi.sum(topi.multiply(x, x), axis=axes, keepdims=len(made) % 2 == 0)
            made[f"sum of squares {shape} {axes}"] = [x], [total]
            made[f"max {shape} {axes}"] = [x], [topi.max(x, axis=axes)]
    x = array(1, 1)
    made["sum of one"] = [x], [topi.prod(x, axis=(0, 1))]
    x = array(6, 40)
    mean = topi.divide(topi.sum(x, axis=1, keepdims=True), number(40.0))
    made["what is left of a mean"] = [x], [topi.exp(topi.subtract(x, mean))]
    made["a mean that is a result"] = [x], [mean, topi.subtract(x, mean)]
    made["two sums"] = [x], [topi.sum(x, axis=1), topi.max(x, axis=1)]
    made["sums of two ways"] = [x], [topi.sum(x, axis=1), topi.sum(x, axis=0)]
    scaled = topi.multiply(topi.divide(x, topi.sum(x, axis=(0, 1))), number(3.0))
    made["by the sum of all"] = [x], [scaled]
    x, y = array(7, name="a"), array(7, 19, name="b")
    made["vector by matrix"] = [x, y], [topi.sum(topi.multiply(topi.expand_dims(x, 1), y), axis=0)]
    return made


def norms():
    made = {}
    shapes = ((4, 37), 1), ((3, 5, 7), 1), ((2, 16, 4, 210), 1), ((5, 100), 1), ((1, 1), 1), ((2, 9, 3), 1)
    for shape, axis in shapes:
        x = array(*shape)
        made[f"softmax {shape}"] = [x], [topi.nn.softmax(x, axis=axis)]
        shifted = topi.multiply(topi.nn.softmax(topi.add(x, number(1.0)), axis=axis), x)
        made[f"softmax in a chain {shape}"] = [x], [shifted]
    x = array(6, 41)
    made["log softmax"] = [x], [topi.nn.log_softmax(x)]
    x, scale, shift = array(3, 5, 70), array(70, name="scale"), array(70, name="shift")
    made["layer norm"] = [x, scale, shift], [topi.nn.layer_norm(x, scale, shift, [2], 1e-5)]
    made["rms norm"] = [x, scale], [topi.nn.rms_norm(x, scale, [2], 1e-5)]
    return made


def copies():
    x, y = array(2, 6, 5, 7), array(2, 4, 5, 7, name="y")
    index = array(3, dtype="int64", name="index")
    made = {
        "concat": ([x, y], [topi.concatenate([x, y], axis=1)]),
        "concat inside": (
            [x, y],
            [topi.concatenate([topi.reshape(x, (2, 210)), topi.reshape(y, (2, 140))], 1)],
        ),
        "pad": ([x], [topi.exp(topi.nn.pad(x, (0, 0, 1, 2), (0, 1, 1, 2)))]),
        "slice": ([x], [topi.strided_slice(x, [0, 1, 0, 0], [2, 5, 5, 7], [1, 2, 1, 3])]),
        "split": ([x], [*topi.split(topi.exp(x), [2, 3], axis=1)]),
        "reshape in a chain": ([x], [topi.exp(topi.reshape(topi.exp(x), (12, 35)))]),
        "reshape that cuts rows": ([x], [topi.exp(topi.reshape(topi.exp(x), (20, 21)))]),
        "take": ([x, index], [topi.exp(topi.take(x, index, axis=1, mode="clip"))]),
        "take the last": ([x, index], [topi.take(x, topi.add(index, index), axis=3, mode="clip")]),
        "tile": ([x], [topi.tile(x, (1, 2, 1, 3))]),
        "repeat": ([x], [topi.repeat(topi.repeat(x, 2, 2), 2, 3)]),
    }
    for order in ((0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0), (0, 2, 1, 3), (1, 0, 2, 3)):
        made[f"transpose {order}"] = [x], [topi.transpose(x, order)]
        made[f"transpose in a chain {order}"] = (
            [x],
            [topi.multiply(topi.transpose(topi.exp(x), order), number(2.0))],
        )
    wide = array(3, 50, 41)
    made["transpose of squares"] = [wide], [topi.transpose(topi.abs(wide), (0, 2, 1))]
    for dtype in ("int32", "int64", "float64", "float16"):
        kind = array(21, 17, dtype=dtype)
        made[f"transpose {dtype}"] = [kind], [topi.add(topi.transpose(kind, (1, 0)), number(1, dtype))]
    plain = array(3, 41, 50, name="plain")
    turned = topi.transpose(wide, (0, 2, 1))
    made["transpose beside what is none"] = [wide, plain], [topi.multiply(topi.exp(turned), plain)]
    both = topi.add(
        topi.multiply(turned, turned), topi.transpose(topi.transpose(plain, (1, 0, 2)), (1, 0, 2))
    )
    made["two transposes"] = [wide, plain], [topi.transpose(both, (2, 0, 1))]
    return made


def functions():
    """Each case as TVM lowers it, and how many arrays it takes."""
    return {
        name: (te.create_prim_func([*taken, *results]), len(taken))
        for name, (taken, results) in cases().items()
    }


def large():
    """As ``functions``, and large enough to be shared by threads."""
    made = {}
    x, y = array(3, 11, 1021), array(11, 1, name="y")
    made["chain"] = [x, y], [topi.exp(topi.multiply(x, y))]
    made["flat chain"] = [x], [topi.exp(x)]
    made["last axis"] = [x], [topi.sum(x, axis=2)]
    made["middle axis"] = [x], [topi.sum(x, axis=1)]
    for axis in (1, 2):
        made[f"softmax {axis}"] = [x], [topi.nn.softmax(x, axis=axis)]
    made["transpose"] = [x], [topi.transpose(x, (0, 2, 1))]
    return {
        name: (te.create_prim_func([*taken, *results]), len(taken)) for name, (taken, results) in made.items()
    }


def module(functions_by_name):
    """All of them in one module."""
    return tvm.IRModule(
        {name: each.with_attr("global_symbol", name) for name, each in functions_by_name.items()}
    )
