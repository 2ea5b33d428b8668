from worker.measure.bandwidth import bandwidth_gbs
from worker.measure.peak import peak_gflops


def test_a_core_reads_fewer_numbers_from_memory_than_it_multiplies(nursery, board, builder, host, tmp_path):
    where = {"store": builder.store, "lock_dir": tmp_path}
    numbers = bandwidth_gbs(nursery, board, host, 1, **where) / 4
    products = peak_gflops(nursery, board, host, 1, **where) / 2
    # A cache would give about as many as it multiplies.
    assert products / 1000 < numbers < products / 2
