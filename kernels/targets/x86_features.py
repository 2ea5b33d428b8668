"""Which vector instructions LLVM may use for an x86 target, known without asking it: plans depend on this.

The tables are LLVM's. A test compares all of them with the LLVM that TVM has.
"""

from __future__ import annotations

from functools import cache

from kernels.targets.base import Target

ASKED = ("avx2", "f16c", "avx512bw", "avx512vnni", "avxvnni")
"""The features that kernels ask for."""
_CPUS = {
    "f16c": "bdver2 bdver3 btver2 core-avx-i core_3rd_gen_avx ivybridge",
    "avx2 f16c": """bdver4 broadwell core-avx2 core_4th_gen_avx core_4th_gen_avx_tsx core_5th_gen_avx
        core_5th_gen_avx_tsx haswell knl knm mic_avx512 skylake x86-64-v3 znver1 znver2 znver3""",
    "avx2 f16c avxvnni": """alderlake arrowlake arrowlake-s arrowlake_s clearwaterforest gracemont grandridge
        lunarlake meteorlake pantherlake raptorlake sierraforest wildcatlake""",
    "avx2 f16c avx512bw": "cannonlake skx skylake-avx512 skylake_avx512 x86-64-v4",
    "avx2 f16c avx512bw avx512vnni": """cascadelake cooperlake icelake-client icelake-server icelake_client
        icelake_server rocketlake tigerlake znver4""",
    "avx2 f16c avx512bw avx512vnni avxvnni": """diamondrapids emeraldrapids graniterapids graniterapids-d
        graniterapids_d novalake sapphirerapids znver5""",
}
"""What processors have, with those that have it. All others have nothing of it."""
_ADDED = {
    "f16c": "f16c",
    "avx2": "avx2 avxifma avxneconvert avxvnniint16 avxvnniint8 sha512 sm4 vaes",
    "avx2 avxvnni": "avxvnni",
    "avx2 f16c": "avx512cd avx512dq avx512f avx512ifma avx512vl avx512vp2intersect avx512vpopcntdq",
    "avx2 f16c avx512bw": "avx512bf16 avx512bitalg avx512bw avx512fp16 avx512vbmi avx512vbmi2",
    "avx2 f16c avx512vnni": "avx512vnni",
    "avx2 f16c avx512bw avx512vnni": "avx10.1 avx10.2",
}
"""What a feature brings with it."""
_REMOVED = {
    "avx512bw": "avx512bw",
    "avx512vnni": "avx512vnni",
    "avxvnni": "avxvnni",
    "avx512bw avx512vnni": "avx512f fma",
    "f16c avx512bw avx512vnni": "f16c",
    "avx2 avx512bw avx512vnni avxvnni": "avx2",
    "avx2 f16c avx512bw avx512vnni avxvnni": "avx sse sse2 sse3 sse4.1 sse4.2 ssse3",
}
"""What goes with a feature that is taken away."""


def has(target: Target, feature: str) -> bool:
    """Whether LLVM may use ``feature``, one of ``ASKED``, on ``target``, an x86, by its cpu or features."""
    return feature in _all(target.cpu, target.features)


@cache
def _all(cpu: str, features: tuple[str, ...]) -> set[str]:
    found = set(_of(_CPUS, cpu))
    for each in features:  # in order, as LLVM reads them; what has no sign it takes for a minus
        if each.startswith("+"):
            found |= _of(_ADDED, each[1:])
        else:
            found -= _of(_REMOVED, each.removeprefix("-"))
    return found


def _of(table: dict[str, str], name: str) -> set[str]:
    return next((set(what.split()) for what, names in table.items() if name in names.split()), set())
