from kernels.layout import layouts_for
from worker.measure.relayout_time import SHAPES, relayout_seconds


def test_every_conversion_is_timed_at_every_size(nursery, board, builder, host, tmp_path):
    found = relayout_seconds(nursery, board, host, 1, store=builder.store, lock_dir=tmp_path)
    layouts = layouts_for(64, host)
    assert found.keys() == {f"{source}>{to}" for source in layouts for to in layouts if source != to}
    for points in found.values():
        assert [elements for elements, _ in points] == [shape[1] * shape[2] * shape[3] for shape in SHAPES]
        # 256 times the elements, so more time even on a busy machine.
        assert 0 < points[0][1] < points[-1][1]
