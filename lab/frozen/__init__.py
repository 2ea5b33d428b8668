"""What must not change when the code is moved, renamed or put in another order: texts, dumped and compared.

A group is a module with ``keys()``, the names of its texts in order, and ``text(key)``.
"""
