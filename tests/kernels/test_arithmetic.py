from kernels.arithmetic import ceil_div, even


def test_division_rounds_up():
    assert [ceil_div(value, 4) for value in (0, 1, 4, 5)] == [0, 1, 1, 2]


def test_parts_are_as_even_as_can_be():
    assert even(49, 6) == [(6, 4), (5, 5)]
    assert even(12, 6) == [(6, 2)]
    assert even(0, 6) == []
