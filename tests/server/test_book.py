"""The book of leases, on both databases: one holder a board, and no way back for one that lost it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import pytest
from server_samples import OTHER, TARGET

from server import ownership
from server.boards.book import SqlBook
from server.db.database import Database
from server.db.tables import BoardEventRow, BoardRow, LeaseRow
from worker.fleet.book import LIED, RETURNED, Book, Check, Lease, Listing, Purpose, Usage
from worker.fleet.states import Health, Standing
from worker.fleet.times import USUAL

ELSEWHERE = "elsewhere/1/1.00"
"""A holder whose life nobody here can see."""


@dataclass
class Clock:
    """Stands still until it is moved."""

    seconds: float = 1.7e9

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(db: Database, clock: Clock) -> SqlBook:
    """With the boards ``a`` and ``b``, both good."""
    made = SqlBook(db, clock=clock)
    contract: Book = made
    contract.enlist([Listing(name, TARGET, "wall", 2, ("lab",)) for name in "ab"])
    for name in "ab":
        made.change(name, Standing.check_passed, "good")
    return made


def take(book: SqlBook, board: str = "a", holder: str = ELSEWHERE) -> Lease:
    lease = book.acquire(board, holder, Purpose.TRIALS, 7)
    assert lease is not None
    return lease


def used(db: Database) -> Usage:
    with db.read() as session:
        board = session.get_one(BoardRow, "a")
        return Usage(board.trials, board.busy_s, board.timed_s)


def kinds(db: Database, board: str) -> list[str]:
    with db.read() as session:
        return [each.kind for each in session.query(BoardEventRow).filter_by(board=board).order_by("id")]


def test_a_board_has_one_holder_at_a_time(book: SqlBook, db: Database) -> None:
    first = take(book)
    assert (first.board, first.holder, first.purpose, first.job) == ("a", ELSEWHERE, Purpose.TRIALS, 7)
    assert book.acquire("a", "other/1/1.00", Purpose.TRIALS, None) is None
    assert book.acquire("a", ELSEWHERE, Purpose.CHECK, None) is None
    other = take(book, "b")
    assert book.entries()["a"].lease == first
    assert book.release(first, Usage(3, 2.0, 1.5))
    assert book.release(first, Usage(3, 2.0, 1.5)) is False
    assert book.entries()["a"].lease is None
    assert used(db) == Usage(3, 2.0, 1.5)
    assert take(book).token > other.token > first.token


def test_a_lease_that_is_not_renewed_in_time_is_lost(book: SqlBook, db: Database, clock: Clock) -> None:
    old, kept = take(book), take(book, "b")
    clock.seconds += 0.9 * USUAL.lease_s
    assert book.renew([kept]) == {kept.token}
    clock.seconds += 0.2 * USUAL.lease_s
    assert book.entries()["a"].lease is None
    assert book.entries()["b"].lease == kept
    assert book.renew([old, kept]) == {kept.token}, "nobody has taken it, and yet it is lost"
    new = take(book, holder="other/1/1.00")
    assert new.token > old.token
    assert book.renew([old, new, kept]) == {new.token, kept.token}
    assert book.release(old, Usage(5, 5.0, 5.0)) is False
    assert book.entries()["a"].lease == new
    assert book.release(new, Usage(1, 1.0, 1.0))
    assert used(db) == Usage(1, 1.0, 1.0)
    assert kinds(db, "a") == ["good", "lease_expired"]


def test_a_release_after_the_expiry_keeps_nothing(book: SqlBook, db: Database, clock: Clock) -> None:
    lease = take(book)
    clock.seconds += USUAL.lease_s
    assert book.release(lease, Usage(5, 5.0, 5.0)) is False
    assert used(db) == Usage()
    take(book)


def test_a_dead_holder_of_this_host_is_no_obstacle(book: SqlBook) -> None:
    code = "from server import ownership; print(ownership.me())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    old = take(book, holder=done.stdout.strip())
    assert book.entries()["a"].lease is None
    assert take(book, holder=ownership.me()).token > old.token
    assert book.acquire("a", ELSEWHERE, Purpose.TRIALS, None) is None, "this process lives"


def test_tokens_are_never_used_again(book: SqlBook, db: Database) -> None:
    tokens = []
    for _ in range(3):
        lease = take(book)
        book.release(lease, Usage())
        tokens.append(lease.token)
        with db.write() as session:
            session.query(LeaseRow).delete()
    assert tokens == sorted(set(tokens))


def test_a_revoked_lease_is_lost(book: SqlBook, db: Database) -> None:
    lease = take(book)
    book.revoke("a", "parked by hand")
    book.revoke("a", "once more")
    assert book.renew([lease]) == set()
    assert book.release(lease, Usage(1, 1.0, 1.0)) is False
    assert kinds(db, "a") == ["good", "lease_revoked"]
    with db.read() as session:
        (event,) = session.query(BoardEventRow).filter_by(kind="lease_revoked")
    assert event.detail == {
        "token": lease.token,
        "holder": ELSEWHERE,
        "job": 7,
        "reason": "parked by hand",
    }


@pytest.mark.parametrize(
    ("standing", "trials", "check"),
    [
        (Standing(Health.GOOD, ""), True, True),
        (Standing(Health.UNKNOWN, "new"), False, True),
        (Standing(Health.BAD, "hot"), False, False),
        (Standing(Health.MAINTENANCE, "desk"), False, False),
        (Standing(Health.RETIRED, "gone"), False, False),
        (Standing(Health.GOOD, "soon", draining=True), False, False),
    ],
    ids=lambda value: str(value.health) if isinstance(value, Standing) else "",
)
def test_only_good_boards_get_trials(book: SqlBook, standing: Standing, trials: bool, check: bool) -> None:
    assert book.change("a", lambda _: standing, "test") == standing
    for purpose, allowed in ((Purpose.TRIALS, trials), (Purpose.CHECK, check)):
        lease = book.acquire("a", ELSEWHERE, purpose, None)
        assert (lease is not None) is allowed
        if lease is not None:
            book.release(lease, Usage())
    assert book.entries()["a"].standing == standing


def test_what_happened_is_kept_once(book: SqlBook, db: Database) -> None:
    book.change("a", lambda standing: standing.fault("upload cut"), "fault")
    book.change("a", Standing.drained, "drained")
    with db.read() as session:
        _, fault = session.query(BoardEventRow).filter_by(board="a").order_by("id")
    after = {"health": "unknown", "reason": "upload cut", "failures": 1, "draining": False}
    assert (fault.kind, fault.detail) == ("fault", {**after, "before": "good"})
    with pytest.raises(KeyError, match="nosuch"):
        book.change("nosuch", Standing.drained, "drained")
    with pytest.raises(KeyError, match="nosuch"):
        book.acquire("nosuch", ELSEWHERE, Purpose.TRIALS, None)


def test_the_reference_is_the_best_time_of_the_present_code(book: SqlBook, db: Database) -> None:
    checks = [
        (Check(2e-3, artifact="one"), 2e-3),
        (Check(1e-3, artifact="one", temperature_c=48.5), 1e-3),
        (Check(0.5e-3, problem="wrong result", artifact="one"), 1e-3),
        (Check(None, problem="no answer"), 1e-3),
        (Check(3e-3, artifact="two"), 3e-3),
    ]
    for check, expected in checks:
        book.checked("a", check)
        assert book.entries()["a"].reference_s == expected
        with db.read() as session:
            board = session.get_one(BoardRow, "a")
            assert board.last_check == asdict(check)
            assert board.checked is not None
    assert book.entries()["a"].reference_artifact == "two"
    assert kinds(db, "a") == ["good", *["check"] * 5]


def test_a_board_of_other_facts_is_checked_anew(book: SqlBook, clock: Clock) -> None:
    book.checked("a", Check(1e-3, artifact="one"))
    book.enlist([Listing("a", TARGET, "wall", 4, (), alive=False)])
    assert (book.entries()["a"].standing.health, book.entries()["a"].reference_s) == (Health.GOOD, 1e-3)
    for listing in (Listing("a", OTHER, "wall", 4), Listing("a", OTHER, "simulated:x", 4)):
        book.enlist([listing])
        entry = book.entries()["a"]
        assert (entry.standing.health, entry.reference_s) == (Health.UNKNOWN, None)
        book.change("a", Standing.check_passed, "good")


def test_of_many_that_want_a_board_one_gets_it(database_url: str) -> None:
    """Coordinators race for a board again and again; never do two hold it, and nobody waits in a circle."""
    databases = [Database(database_url) for _ in range(4)]
    databases[0].upgrade()
    books = [SqlBook(each) for each in databases]
    for each in books:
        each.enlist([Listing("a", TARGET, "wall", 1)])
    books[0].change("a", Standing.check_passed, "good")
    inside, tokens, errors = [0], list[int](), list[Exception]()
    start = threading.Barrier(len(books))

    def race(book: SqlBook, holder: str) -> None:
        try:
            start.wait(240)
            had = 0
            while had < 10 and not errors:
                lease = book.acquire("a", holder, Purpose.TRIALS, None)
                if lease is None:
                    time.sleep(0.001)  # SQLite has no queue: whoever asks without pause shuts others out
                    continue
                had += 1
                inside[0] += 1
                assert inside[0] == 1
                tokens.append(lease.token)
                assert book.renew([lease]) == {lease.token}
                inside[0] -= 1
                assert book.release(lease, Usage(1, 1.0, 1.0))
        except Exception as error:
            errors.append(error)

    threads = [
        threading.Thread(target=race, args=(book, f"elsewhere/{number}/1.00"))
        for number, book in enumerate(books)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    total = used(databases[0])
    for each in databases:
        each.close()
    assert errors == []
    assert tokens == sorted(set(tokens))
    assert total.trials == len(tokens) == 40


_TAKE = """
import sys
from server.boards.book import SqlBook
from server.db.database import Database
from worker.fleet.book import Purpose
book = SqlBook(Database(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
lease = book.acquire("a", sys.argv[2], Purpose.TRIALS, None)
print(lease.token if lease else 0, flush=True)
"""


@pytest.fixture
def racers(database_url: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that take the board when they are told to."""
    database = Database(database_url)
    database.upgrade()
    book = SqlBook(database)
    book.enlist([Listing("a", TARGET, "wall", 1)])
    book.change("a", Standing.check_passed, "good")
    database.close()
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _TAKE, database_url, f"elsewhere/{number}/1.00"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    yield started
    for process in started:
        process.kill()
        process.communicate()


def test_of_several_processes_one_gets_the_board(racers: list[subprocess.Popen[str]]) -> None:
    for process in racers:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in racers:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    tokens = [int(process.communicate(timeout=240)[0]) for process in racers]
    assert sorted(token > 0 for token in tokens) == [False, False, True]


def test_others_of_its_target_are_known_but_not_those_that_lied(book: SqlBook) -> None:
    book.enlist([Listing(id, TARGET, "wall", 2) for id in "abc"] + [Listing("d", TARGET, "simulated:x", 2)])
    book.checked("a", Check(1e-3, artifact="one"))
    book.checked("b", Check(5e-3, "5 times as slow", artifact="one"))
    book.checked("c", Check(1e-6, artifact="one"))
    book.change("c", lambda standing: standing.lied("it lied"), LIED)
    assert book.entries()["a"].kin == (("a", "one", 1e-3), ("b", "one", 5e-3))
    assert book.entries()["d"].kin == ()


def test_a_faster_time_is_the_best_once_an_operator_returns_the_board(book: SqlBook) -> None:
    book.checked("a", Check(4e-3, artifact="one"))
    for seconds, problem, best_s in ((9e-3, "slower", 4e-3), (1e-3, "faster", 1e-3)):
        book.checked("a", Check(seconds, problem, artifact="one"))
        assert book.entries()["a"].reference_s == 4e-3
        book.change("a", lambda standing: standing.park("it failed"), "park")
        book.change("a", lambda standing: standing.put_back("returned"), RETURNED)
        assert book.entries()["a"].reference_s == best_s
