"""Data-dependent shapes (NonMaxSuppression, NonZero): allocate the upper bound and carry the count.

NonMaxSuppression, NonZero and Compress make them; so does whatever is told a size that data decide, such as
a Range or a Slice to a computed end. How great such a size may be follows from what it is computed of, by
intervals (``limits.py``): a sum of 50 sigmoids is 50 at the most. Where nothing says so, the model is
refused.

``bound.py`` walks over a model once and says of each tensor behind them along which axes only the first
elements count (``Size``). A size is a factor and a summand of one number, or a table of it (``derived.py``):
so the lengths on two ways through a model are known to be equal, whatever strides and factors lie between.
What is computed element by element, or copied along other axes, is as right in the part that counts as it
ever was, so most nodes stay as they are. What sees several elements is given what changes nothing in the
place of those that do not count (``State.masked``): a sum or a convolution zeros, bytes their zero point, a
greatest element the least number, a Resize the last element that counts; means are sums over counts,
recurrences get numbers of steps, and pads, slices from the end and the like take elements by computed
places. The rest is refused. A Shape becomes the counts, and what shapes are given that come from it, the
greatest. At the end of a model the part that counts is cut out.
"""
