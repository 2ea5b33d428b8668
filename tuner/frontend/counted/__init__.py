"""Results of which data decide how many there are: each gets room for the greatest number, and a count.

NonMaxSuppression, NonZero and Compress make them; so does a Slice to a computed end. ``bound.py`` walks over
a model once and says of each tensor behind them along which axes only the first elements count (``Size``).
Whatever is computed element by element, or copied along other axes, is as right in the part that counts as it
ever was, so most nodes stay as they are. Those that would mix both parts are given what changes nothing
(a sum zeros, a greatest element the least number), or refused. A Shape becomes the counts, and what shapes
are given that come from it, the greatest. At the end of a model the part that counts is cut out.
"""
