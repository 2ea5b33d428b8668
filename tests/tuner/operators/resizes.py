"""Resize and Upsample: every attribute, all versions."""

import numpy as np
from one_operator import case, const, floats, integers, reals

# fmt: off


def way(name: str) -> dict[str, str]:
    """How coordinates are transformed."""
    return {"coordinate_transformation_mode": name}


R, CUBE = floats(1, 2, 5, 6), floats(1, 2, 5, 6, 4)
BYTES = integers(1, 2, 3, 3, low=0, high=200, dtype=np.uint8)
SCALES, EMPTY = reals(1, 1, 2, 2), reals()
WAYS = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")
CASES = [
    *(case("Resize", R, None, None, const(1, 2, 8, 9), mode="nearest", **way(how), nearest_mode=near) for
        how in WAYS for near in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")),
    *(case("Resize", R, None, None, const(1, 2, *size), mode=mode, **way(how), opset=19) for mode in
        ("linear", "cubic") for how in WAYS for size in ((8, 9), (3, 4))),
    *(case("Resize", R, EMPTY, SCALES, mode=mode, opset=11) for mode in ("nearest", "linear", "cubic")),
    case("Resize", R, None, reals(1, 1, 1.5, 0.7)),
    case("Resize", R, None, reals(1, 1, 1.5, 0.7), mode="linear"),
    case("Resize", R, None, reals(1, 1, 2.5, 2.6), mode="linear", **way("asymmetric")),
    case("Resize", R, None, reals(1, 1, 2.5, 2.6), mode="nearest", **way("asymmetric"), nearest_mode="floor"),
    case("Resize", R, None, reals(1, 1, 1.5, 0.7), mode="cubic"),
    case("Resize", R, None, None, const(1, 2, 8, 9), mode="linear", **way("half_pixel_symmetric")),
    case("Resize", R, None, SCALES, mode="cubic", cubic_coeff_a=-0.5),
    case("Resize", R, None, reals(1, 1, 0.6, 0.6), mode="cubic", exclude_outside=1),
    case("Resize", R, None, None, const(1, 2, 3, 3), mode="linear", antialias=1),
    case("Resize", R, None, None, const(1, 2, 3, 3), mode="cubic", antialias=1),
    case("Resize", R, None, None, const(1, 2, 9, 9), mode="linear", antialias=1),
    case("Resize", R, None, None, const(8, 9), mode="linear", axes=[2, 3]),
    case("Resize", R, None, reals(2, 2), mode="nearest", axes=[2, 3]),
    case("Resize", R, None, reals(2), mode="nearest", axes=[3]),
    case("Resize", R, None, None, const(8, 9), mode="linear", axes=[3, 2]),
    case("Resize", R, None, None, const(7, 8), axes=[2, 3], keep_aspect_ratio_policy="not_larger",
        mode="linear"),
    case("Resize", R, None, None, const(7, 8), axes=[2, 3], keep_aspect_ratio_policy="not_smaller"),
    case("Resize", R, reals(0, 0, 0.1, 0.2, 1, 1, 0.8, 0.9), None, const(1, 2, 4, 4), mode="linear",
        **way("tf_crop_and_resize")),
    case("Resize", R, reals(0, 0, -0.1, 0.2, 1, 1, 0.8, 1.9), None, const(1, 2, 4, 4), mode="linear",
        **way("tf_crop_and_resize"), extrapolation_value=3.0),
    case("Resize", R, reals(0, 0, 0.1, 0.2, 1, 1, 0.8, 0.9), None, const(1, 2, 5, 4), mode="linear",
        **way("tf_crop_and_resize")),
    case("Resize", R, reals(0, 0, 0.1, 0.2, 1, 1, 0.8, 0.9), None, const(1, 2, 5, 6),
        **way("tf_crop_and_resize")),
    case("Resize", floats(1, 1, 29), None, reals(1, 1, 30 / 29), nearest_mode="floor"),
    case("Resize", floats(1, 1, 2, 20), None, None, const(1, 1, 2, 6), nearest_mode="round_prefer_ceil"),
    case("Resize", R, None, None, const(1, 4, 5, 6)),
    case("Resize", R, None, None, const(1, 4, 5, 6), mode="linear"),
    case("Resize", floats(1, 2, 5), None, None, const(1, 2, 9), mode="linear"),
    case("Resize", floats(1, 2, 5), None, None, const(1, 2, 9)),
    case("Resize", floats(3, 5), None, None, const(6, 9), mode="linear"),
    case("Resize", floats(3, 5), None, None, const(6, 9)),
    case("Resize", CUBE, None, None, const(1, 2, 7, 9, 8)),
    case("Resize", CUBE, None, None, const(1, 2, 7, 9, 8), mode="linear"),
    case("Resize", R.astype(np.float64), None, SCALES, mode="linear"), case("Resize", BYTES, None, SCALES),
    case("Resize", BYTES, None, SCALES, mode="linear"),
    case("Resize", integers(1, 2, 3, 3, dtype=np.int64), None, SCALES),
    case("Resize", BYTES, None, reals(1, 1, 1.5, 0.7), mode="linear"), case("Resize", R, SCALES, opset=10),
    case("Resize", R, SCALES, opset=10, mode="linear"),
    case("Resize", R, reals(1, 1, 1.6, 0.5), opset=10, mode="linear"),
    case("Resize", R, reals(1, 1, 1.6, 0.5), opset=10),
    case("Resize", R, reals(), SCALES, opset=11, mode="linear", **way("align_corners")),
    case("Resize", R, reals(), reals(), const(1, 2, 8, 9), opset=11, mode="linear",
        **way("pytorch_half_pixel")),
    case("Resize", R, None, None, const(1, 2, 1, 1), mode="linear", **way("pytorch_half_pixel")),
    case("Resize", R, None, None, const(1, 2, 1, 1), mode="linear", **way("align_corners")),
    case("Resize", R, EMPTY, EMPTY, const(1, 2, 8, 9), opset=11, **way("tf_half_pixel_for_nn")),
    case("Upsample", R, opset=7, mode="nearest", scales=[1.0, 1.0, 2.0, 2.0]),
    case("Upsample", R, opset=7, mode="linear", scales=[1.0, 1.0, 2.0, 2.0]),
    case("Upsample", R, SCALES, opset=9), case("Upsample", R, SCALES, opset=9, mode="linear"),
    case("Upsample", R, reals(1, 1, 1.6, 2.5), opset=9),
    case("Upsample", R, opset=7, scales=[1.0, 1.0, 1.6, 2.5], mode="linear"),
    case("Upsample", R, opset=7, scales=[1.0, 1.0, 1.6, 2.5]),
    case("Upsample", floats(1, 2, 5), opset=7, scales=[1.0, 1.0, 2.0]),
    case("Upsample", CUBE, reals(1, 1, 2, 2, 2), opset=9),
    case("Upsample", R, opset=1, height_scale=2.0, width_scale=3.0, mode="nearest",
        judge=case("Upsample", R, reals(1, 1, 2, 3), opset=9)),
]
