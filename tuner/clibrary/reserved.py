"""Names that a C library or a wheel cannot have, because what they are built of or used with has them."""

from __future__ import annotations

import keyword
import sys

_KEYWORDS = """
alignas alignof asm auto bool break case catch char class const constexpr continue default delete do double
else enum explicit export extern false float for friend goto if inline int long mutable namespace new nullptr
operator private protected public register restrict return short signed sizeof static static_assert struct
switch template this thread_local throw true try typedef typeid typename typeof union unsigned using virtual
void volatile wchar_t while
"""
_HEADERS = """
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg
stdatomic stdbit stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar
wchar wctype unistd pthread sched
"""
_LIBRARIES = "c m g gcc gcc_s atomic dl rt pthread util resolv nsl omp gomp stdc asan ubsan tvm tvm_ffi"
_FUNCTIONS = """
main exit abort atexit malloc calloc realloc free aligned_alloc memcpy memmove memset memcmp memchr strlen
strcpy strncpy strcat strcmp strncmp strchr strstr strtok strtol strtod printf fprintf sprintf snprintf
vprintf scanf sscanf fopen fclose fread fwrite fseek ftell fflush puts fputs gets fgets getc putc getchar
putchar remove rename system getenv rand srand qsort bsearch abs labs div floor ceil round trunc sqrt cbrt exp
exp2 expf log log2 log10 logf pow powf sin cos tan asin acos atan atan2 sinh cosh tanh erf erff fabs fmod fma
fmin fmax nan time clock sleep open close read write stat fork exec kill signal
raise errno stdin stdout stderr
"""
IN_C = {*_KEYWORDS.split(), *_HEADERS.split(), *_LIBRARIES.split(), *_FUNCTIONS.split()}
NEEDED = {"numpy", "tilefleet", "pip", "setuptools", "wheel", "onnxruntime"}


def reserved(name: str, wheel: bool) -> str:
    """Who has ``name``, in whatever case; empty where it may be taken."""
    small = name.lower()
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        return "a word of Python's"
    if small in IN_C:
        return "C's or its library's"
    if wheel and (small in {each.lower() for each in sys.stdlib_module_names} or small in NEEDED):
        return "a module that Python or the wheel itself needs"
    return ""
