from worker.measure.bandwidth import bandwidth_gbs


def test_a_core_reads_less_from_memory_than_it_could_from_a_cache(nursery, board, builder, host, tmp_path):
    found = bandwidth_gbs(nursery, board, host, 1, store=builder.store, lock_dir=tmp_path)
    # What no core does: 0.1 GB/s is a disk, and 500 GB/s needs two vectors of a first cache every cycle.
    assert 0.1 < found < 500
