"""Checksums, hashes and ciphers."""

from __future__ import annotations

from bench.silicon.forms.form import Form, Name, bits

_FORMS = {
    **{word: f"{word} w{{d}}, w{{n}}, x{{m}}" for word in ("crc32x", "crc32cx")},
    **{word: f"{word} q{{D}}, s{{n}}, v{{m}}.4s" for word in ("sha1c", "sha1m", "sha1p")},
    "sha1h": "sha1h s{d}, s{n}",
    **{word: f"{word} q{{D}}, q{{n}}, v{{m}}.4s" for word in ("sha256h", "sha256h2")},
    **{word: f"{word} q{{D}}, q{{n}}, v{{m}}.2d" for word in ("sha512h", "sha512h2")},
    **{
        word: f"{word} v{{D}}.4s, v{{n}}.4s, v{{m}}.4s"
        for word in ("sha1su0", "sha256su1", "sm3partw1", "sm3partw2")
    },
    **{word: f"{word} v{{D}}.4s, v{{n}}.4s" for word in ("sha1su1", "sha256su0", "sm4e")},
    "sha512su0": "sha512su0 v{D}.2d, v{n}.2d",
    "sha512su1": "sha512su1 v{D}.2d, v{n}.2d, v{m}.2d",
    **{word: f"{word} v{{D}}.16b, v{{n}}.16b" for word in ("aese", "aesd")},
    **{word: f"{word} v{{d}}.16b, v{{n}}.16b" for word in ("aesmc", "aesimc")},
    "sm3ss1": "sm3ss1 v{d}.4s, v{n}.4s, v{m}.4s, v{a}.4s",
    "sm4ekey": "sm4ekey v{d}.4s, v{n}.4s, v{m}.4s",
}


def crypto(name: Name) -> Form | None:
    """All of them; SM3's rounds by lane."""
    if name.word.startswith("sm3tt"):
        return Form(f"{name.word} v{{D}}.4s, v{{n}}.4s, v{{m}}.s[0]", bits(12, 2))
    text = _FORMS.get(name.word)
    return Form(text) if text else None
