"""What a superuser may change in a database, kind by kind, and what an audit has to name of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

import psycopg
from msgspec import Struct

from ledger.audit.report import Violation
from ledger.audit.tables import MERGED, STREAM_COLUMNS
from ledger.domain.payment_methods.state import stream_of
from ledger.tlog.tiles import WIDTH
from projections.payment_methods import TABLE as METHODS
from projections.read_models import READ_MODELS

_RANGE_MAX: Final = 150
"""How many positions a violation may name where no hash of a single event is stored: those between two checkpoints."""


class Sought(NamedTuple):
    """A violation that an audit has to report.

    `place` is a position, or a text that its ids or its message have. What is None may be anything.
    """

    place: str | int | None = None
    invariant: str | None = None
    table: str | None = None
    column: str | None = None

    def is_in(self, violations: Iterable[Violation]) -> bool:
        return any(self._is(each) for each in violations)

    def _is(self, one: Violation) -> bool:
        return (
            self.invariant in {None, one.invariant}
            and self.table in {None, one.table}
            and self.column in {None, (one.column or "").partition(".")[0]}
            and (self.place is None or self._is_at(one, self.place))
        )

    @staticmethod
    def _is_at(one: Violation, place: str | int) -> bool:
        if isinstance(place, str):
            return place in f"{one.order_id} {one.stream_id} {one.message}"
        between = re.search(r"positions (\d+) to (\d+)", one.message)
        first, last = map(int, between.groups()) if between else (0, 0)
        return one.position == place or first <= place <= last < first + _RANGE_MAX


class Target(Struct, frozen=True):
    """The database that is edited, the merchant whose data it is, and the rows that it had some time ago, by table."""

    connection: psycopg.Connection[Any]
    merchant_id: UUID
    past: Mapping[str, bytes]

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(query, values).fetchall()  # type: ignore[arg-type]  # written here

    def value(self, query: str, *values: Any) -> Any:
        return self.rows(query, *values)[0][0]

    def execute(self, *statements: str, **values: Any) -> int:
        """Executes statements in which `%(m)s` is the merchant, and returns how many rows the last one changed."""
        changed = 0
        for statement in statements:
            changed = self.connection.execute(statement, {"m": self.merchant_id, **values}).rowcount  # type: ignore[arg-type]
        return changed

    def copy(self, table: str, row: str, columns: Mapping[str, str], **values: Any) -> None:
        """Adds a copy of a row, of which some columns are other expressions."""
        query = "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped"
        names = [name for (name,) in self.rows(query, table)]
        select = ", ".join(columns.get(name, name) for name in names)
        self.execute(
            f"insert into {table} ({', '.join(names)}) select {select} from {table} where ctid = %(row)s",
            row=row,
            **values,
        )

    @property
    def head(self) -> int:
        return int(self.value("select position from merchant_head where merchant_id = %s", self.merchant_id))


SUMMARY: Final[Mapping[str, str]] = {
    "first_id": "uuid", "packed": "bool", "grams": "bytea", "local_grams": "bytea", "shared": "text",
    "oldest": "timestamptz", "newest": "timestamptz",
}  # fmt: skip
"""The columns of a row of lines that follow from its lines, and their types."""

Edit = Callable[[Target, Random], Sequence[Sought]]
"""Changes something by chance, and returns what an audit has to report: all of it."""

# Other values of each type; the first that the table's constraints allow is taken. A null becomes the last one.
_OTHERS: Final[Mapping[str, tuple[str, ...]]] = {
    "int4": ("{c} + 1", "{c} - 1", "{c} * 10 + 7", "7"),
    "int8": ("{c} + 1", "-{c} - 1", "{c} / 2 + 1", "7"),
    "bool": ("not {c}", "true"),
    "timestamptz": ("{c} + interval '1 us'", "{c} - interval '1 day'", "'infinity'", "now()"),
    "date": ("{c} + 1", "{c} - 365", "'infinity'", "current_date"),
    "uuid": ("gen_random_uuid()",),
    "text": ("{c} || 'x'", "reverse('x' || {c})", "''", "'x'"),
    "bytea": ("{c} || '\\x20'", "set_byte({c}, 0, 1)", "substr({c}, 2)", "''", "'\\x7b7d'"),
}


def _changed(target: Target, random: Random, table: str, row: str, column: str, kind: str) -> bool:
    """Changes a cell to another value, and returns whether it could."""
    values = [f"coalesce({each.format(c=column)}, {_OTHERS[kind][-1]})" for each in _OTHERS[kind]] + ["null"]
    for value in random.sample(values, len(values)):
        try:
            with target.connection.transaction():
                statement = (
                    f"update {table} set {column} = {value} where ctid = %(row)s and {column} is distinct from {value}"
                )
                if target.execute(statement, row=row):
                    return True
        except psycopg.Error:  # a constraint, or a byte that an empty value has not
            continue
    return False


def _row(target: Target, random: Random, table: str, *columns: str, where: str = "true") -> tuple[str, ...]:
    """Returns where a row of a table is, and some of its columns."""
    select = ", ".join(("ctid", *columns))
    rows = target.rows(
        f"select {select} from {table} where merchant_id = %s and {where} order by ctid", target.merchant_id
    )
    return random.choice(rows)


def _edit_cell(table: str, column: str, kind: str, target: Target, random: Random) -> list[Sought]:
    stream = STREAM_COLUMNS[table]
    row, stream_id = _row(target, random, table, stream)
    assert _changed(target, random, table, row, column, kind), f"no other value of {table}.{column}"
    moves = column in {stream, "merchant_id"}
    return [Sought(str(stream_id), "ROW", table, None if moves else column)]


def _remove_row(table: str, target: Target, random: Random) -> list[Sought]:
    row, stream_id = _row(target, random, table, STREAM_COLUMNS[table])
    target.execute(f"delete from {table} where ctid = %(row)s", row=row)
    return [Sought(str(stream_id), "ROW", table)]


def _add_row(table: str, key: str, target: Target, random: Random) -> list[Sought]:
    """Adds a copy of a row with another key."""
    stream = STREAM_COLUMNS[table]
    row, stream_id = _row(target, random, table, stream)
    kind = dict(next(each.columns for each in MERGED if each.name == table))[key]
    other, value = uuid4(), {"uuid": "%(other)s", "bytea": f"{key} || '\\x78'"}.get(kind, f"{key} || 'x'")
    target.copy(table, row, {key: value, **UNIQUE.get(table, {})}, other=other)
    return [Sought(str(other if key == stream else stream_id), "ROW", table)]


_EVENT_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "command_id": ("gen_random_uuid()",),
    "recorded_at": ("recorded_at + interval '1 us'", "recorded_at - interval '1 year'", "'infinity'", "'20000-01-01'"),
    "topic": ("topic || 'x'", "'payment-captured.v1'", "''"),
    "data": ("data || '\\x20'", "set_byte(data, length(data) / 2, get_byte(data, length(data) / 2) # 1)", "'{}'", "''"),
    "context": ("context || '\\x20'", "'{}'", "set_byte(context, 3, get_byte(context, 3) # 1)", "''"),
    "version": ("version + 100",),
    "stream_id": ("gen_random_uuid()",),
    "position": ("position + 100000",),
    "merchant_id": ("gen_random_uuid()",),
}


def _edit_event(column: str, target: Target, random: Random) -> list[Sought]:
    position, value = random.randint(1, target.head), random.choice(_EVENT_COLUMNS[column])
    target.execute(
        f"update event set {column} = {value} where merchant_id = %(m)s and position = %(p)s and {column} is distinct from {value}",
        p=position,
    )
    found = [Sought(position, "TREE")]
    return [*found, Sought(position, "I10")] if column == "version" else found


def _write_card_number(column: str, target: Target, random: Random) -> list[Sought]:
    position = random.randint(1, target.head)
    target.execute(
        f"update event set {column} = convert_to('{{\"note\":\"4242424242424242\"}}', 'UTF8')"
        " where merchant_id = %(m)s and position = %(p)s",
        p=position,
    )
    return [Sought(position, "I13")]


def _remove_event(target: Target, random: Random) -> list[Sought]:
    position = random.randint(1, target.head)
    target.execute("delete from event where merchant_id = %(m)s and position = %(p)s", p=position)
    return [Sought(position, "TREE"), Sought(position, "I10")]


def _located(target: Target, *positions: int) -> list[Sought]:
    """Returns what locates each changed event: its tile, or behind the last full one the first checkpoint with another
    root. Every later checkpoint has another root too, so that one does not locate a second change.
    """
    behind = sorted(position for position in positions if position > target.head // WIDTH * WIDTH)
    return [Sought(position, "TREE") for position in positions if position not in behind[1:]]


def _swap_events(target: Target, random: Random) -> list[Sought]:
    one, two = random.sample(range(1, target.head + 1), 2)
    move = "update event set position = %(b)s where merchant_id = %(m)s and position = %(a)s"
    for a, b in ((one, 1_000_000), (two, one), (1_000_000, two)):
        target.execute(move, a=a, b=b)
    return _located(target, one, two)


def _swap_contents(target: Target, random: Random) -> list[Sought]:
    """Exchanges what two events of a topic have."""
    (one, a), (two, b) = random.sample(
        target.rows("select position, data from event where merchant_id = %s and topic = 'payment-captured.v1'", target.merchant_id), 2
    )  # fmt: skip
    for position, data in ((one, b), (two, a)):
        target.execute(
            "update event set data = %(d)s where merchant_id = %(m)s and position = %(p)s", d=data, p=position
        )
    return _located(target, one, two)


_COPY: Final = (
    "insert into event select merchant_id, gen_random_uuid(), 1, %(to)s, command_id, recorded_at, topic, data, context"
    " from event where merchant_id = %(m)s and position = %(of)s"
)
_SHIFT: Final = (
    "update event set position = position + %(n)s + 1000000 where merchant_id = %(m)s and position > %(after)s and position < 1000000",
    "update event set position = position - 1000000 where merchant_id = %(m)s and position > 1000000",
    "update merchant_head set position = (select count(*) from event where merchant_id = %(m)s) where merchant_id = %(m)s",
)


def _append_event(target: Target, random: Random) -> list[Sought]:
    head = target.head
    target.execute(_COPY, to=head + 1, of=random.randint(1, head))
    return [Sought(head + 1, "I10")]


def _insert_event(target: Target, random: Random) -> list[Sought]:
    head = target.head
    position = random.randint(1, head)
    target.execute(*_SHIFT, n=1, after=position - 1)
    target.execute(_COPY, to=position, of=random.choice([n for n in range(1, head + 2) if n != position]))
    target.execute(_SHIFT[-1])
    return [Sought(position, "TREE")]


_EMPTY_TREES: Final = tuple(f"delete from {table} where merchant_id = %(m)s" for table in ("log_tree", "log_tile"))


def _cut_tail(empties: bool, target: Target, random: Random) -> list[Sought]:
    last = target.head - random.randint(1, 20)
    target.execute("delete from event where merchant_id = %(m)s and position > %(last)s", last=last)
    target.execute(_SHIFT[-1])
    if empties:  # as if it had never been signed: the checkpoints outside have it
        target.execute(*_EMPTY_TREES, "delete from log_checkpoint where merchant_id = %(m)s")
    return [Sought(last + 1, "TREE")]


def _remove_order(empties: bool, target: Target, random: Random) -> list[Sought]:
    """Removes all rows of an order, and numbers what is behind it anew."""
    _, order_id = _row(target, random, "payment_order", "order_id")
    first = target.value(
        "select min(position) from event where merchant_id = %s and stream_id = %s", target.merchant_id, order_id
    )
    target.execute(
        "delete from payment_order where merchant_id = %(m)s and order_id = %(o)s",
        "delete from claim where merchant_id = %(m)s and stream_id = %(o)s",
        "delete from event where merchant_id = %(m)s and stream_id = %(o)s",
        (
            "update event e set position = n.n + 1000000 from (select position, row_number() over (order by position) as n"
            " from event where merchant_id = %(m)s) n where e.merchant_id = %(m)s and e.position = n.position"
        ),
        *_SHIFT[1:],
        o=order_id,
    )
    if empties:
        target.execute(*_EMPTY_TREES)
    return [Sought(first, "TREE")]


def _restore_past(target: Target, random: Random) -> list[Sought]:
    """Restores the database as it was some time ago."""
    restore(target.connection, target.past)
    return [Sought(target.head + 1, "TREE")]


def _remove_merchant(target: Target, random: Random) -> list[Sought]:
    """Removes every row of the merchant, as a database has it that was restored to before: the checkpoints outside have
    its log.
    """
    restore(target.connection, dict.fromkeys(target.past))
    return [Sought(1, "TREE"), Sought("all events of the positions 1 to", "TREE")]


def restore(connection: psycopg.Connection[Any], rows: Mapping[str, bytes | None]) -> None:
    """Replaces the rows of tables by those that `copied` returned, or removes them."""
    with connection.transaction():
        connection.execute("set local session_replication_role = replica")  # without triggers
        for table, content in rows.items():
            connection.execute(f"delete from {table}")  # type: ignore[arg-type]
            if content is None:
                continue
            with connection.cursor().copy(f"copy {table} from stdin (format binary)") as copy:  # type: ignore[arg-type]
                copy.write(content)


def copied(connection: psycopg.Connection[Any]) -> dict[str, bytes]:
    """Returns the rows of the tables that edits change."""
    found = {}
    for table in (*(each.name for each in MERGED if each.name != "search_line"), *_OTHER_TABLES):
        with connection.cursor().copy(f"copy {table} to stdout (format binary)") as copy:  # type: ignore[arg-type]
            found[table] = b"".join(bytes(piece) for piece in copy)
    return found


_OTHER_TABLES: Final = (
    "event", "merchant_head", "log_tree", "log_tile", "log_checkpoint", "tally", "customer_count", "payment_method",
    "vault_card", "search_block", "search_count",
)  # fmt: skip


def _move_head(target: Target, random: Random) -> list[Sought]:
    to = max(0, target.head + random.choice((-5, -1, 1, 5, 1 << 40)))
    target.execute("update merchant_head set position = %(to)s where merchant_id = %(m)s", to=to)
    return [Sought(f"positions do not run from 1 to {to}", "I10")]


def _move_head_to_the_end(target: Target, random: Random) -> list[Sought]:
    head = target.head
    target.execute("update merchant_head set position = 9223372036854775807 where merchant_id = %(m)s")
    return [Sought(head + 1, "I10")]


def _remove_head(target: Target, random: Random) -> list[Sought]:
    target.execute("delete from merchant_head where merchant_id = %(m)s")
    return [Sought("of a merchant that has no log", "I10")]


def _byte(column: str, random: Random, size: int) -> str:
    at = random.randrange(size)
    return f"{column} = set_byte({column}, {at}, get_byte({column}, {at}) # {random.randint(1, 255)})"


def _edit_tile(column: str, target: Target, random: Random) -> list[Sought]:
    row, level, number = _row(target, random, "log_tile", "level", "number")
    changes = {
        "hashes": [
            _byte("hashes", random, 8192),
            "hashes = substr(hashes, 33)",
            "hashes = ''",
            "hashes = substr(hashes, 2)",
        ],
        "root": [_byte("root", random, 32), "root = ''"],
        "level": ["level = level + 1", "level = -1", "level = 60"],
        "number": ["number = number + 1000", "number = -1"],
        "merchant_id": ["merchant_id = gen_random_uuid()"],
    }
    target.execute(f"update log_tile set {random.choice(changes[column])} where ctid = %(row)s", row=row)
    return [Sought(f"tile {level}/{number}", "TREE")]


def _remove_tile(target: Target, random: Random) -> list[Sought]:
    row, level, number = _row(target, random, "log_tile", "level", "number")
    target.execute("delete from log_tile where ctid = %(row)s", row=row)
    return [Sought(f"tile {level}/{number}", "TREE")]


def _add_tile(target: Target, random: Random) -> list[Sought]:
    row, _ = _row(target, random, "log_tile", "number")
    level, number = random.choice(((0, 1 << 40), (0, -1), (1, 0), (5, 3), (8, 0), (-1, 0)))
    target.copy("log_tile", row, {"level": str(level), "number": str(number)})
    return [Sought(f"tile {level}/{number}", "TREE")]


def _edit_tree(column: str, target: Target, random: Random) -> list[Sought]:
    changes = {
        "size": ["size = size + 1", "size = size - 1", "size = 0", "size = -7", "size = 1::int8 << 60"],
        "edge": [_byte("edge", random, 32), "edge = ''"],
        "merchant_id": ["merchant_id = gen_random_uuid()"],
    }
    target.execute(f"update log_tree set {random.choice(changes[column])} where merchant_id = %(m)s")
    return [Sought("", "TREE")]


def _edit_checkpoint(column: str, target: Target, random: Random) -> list[Sought]:
    row, size = _row(target, random, "log_checkpoint", "size")
    changes = {
        "size": ["size = size + 100000", "size = -size"],
        "note": ["note = overlay(note placing 'x' from length(note) / 2)", "note = ''"],
    }
    target.execute(f"update log_checkpoint set {random.choice(changes[column])} where ctid = %(row)s", row=row)
    return [Sought(str(size) if column == "size" else f"checkpoint of {size} entries is not signed", "TREE")]


def _edit_signers(target: Target, random: Random) -> list[Sought]:
    row, size = _row(target, random, "log_checkpoint", "size")
    assert _changed(target, random, "log_checkpoint", row, "signed_by", "text")
    return [Sought(f"checkpoint of {size} entries", "ROW", "log_checkpoint", "signed_by")]


def _remove_newest_checkpoint(target: Target, random: Random) -> list[Sought]:
    newest = "(select max(size) from log_checkpoint where merchant_id = %(m)s)"
    target.execute(f"delete from log_checkpoint where merchant_id = %(m)s and size = {newest}")
    return [Sought(f"the tree has {target.head} entries without a checkpoint", "TREE")]


def _add_checkpoint(target: Target, random: Random) -> list[Sought]:
    row, size = _row(target, random, "log_checkpoint", "size")
    target.copy("log_checkpoint", row, {"size": "size + 1"})
    return [Sought(f"checkpoint of {int(size) + 1} entries", "TREE")]


def _edit_counter(table: str, column: str, kind: str, target: Target, random: Random) -> list[Sought]:
    row, _ = _row(target, random, table, "merchant_id", where="n <> 0")
    assert _changed(target, random, table, row, column, kind), f"no other value of {table}.{column}"
    return [Sought(None, "ROW", table)]


def _endless_day(target: Target, random: Random) -> list[Sought]:
    row, _ = _row(target, random, "tally", "merchant_id", where="n <> 0")
    target.execute("update tally set day = '-infinity' where ctid = %(row)s", row=row)
    return [Sought("day -2147483648 since 2000-01-01", "ROW", "tally")]


def _remove_counter(table: str, target: Target, random: Random) -> list[Sought]:
    row, _ = _row(target, random, table, "merchant_id", where="n <> 0")
    target.execute(f"delete from {table} where ctid = %(row)s", row=row)
    return [Sought(None, "ROW", table)]


def _add_counter(table: str, change: Mapping[str, str], target: Target, random: Random) -> list[Sought]:
    row, _ = _row(target, random, table, "merchant_id")
    target.copy(table, row, {**change, "n": "n + 1"})
    return [Sought(None, "ROW", table)]


def _edit_method(column: str, kind: str, target: Target, random: Random) -> list[Sought]:
    row, customer_id = _row(target, random, METHODS.name, "customer_id")
    assert _changed(target, random, METHODS.name, row, column, kind), f"no other value of {column}"
    moves = column in {"merchant_id", "payment_method_id"}
    return [Sought(str(stream_of(customer_id)), "ROW", METHODS.name, None if moves else column)]  # type: ignore[arg-type]


def _remove_method(target: Target, random: Random) -> list[Sought]:
    row, method_id = _row(target, random, METHODS.name, "payment_method_id")
    target.execute(f"delete from {METHODS.name} where ctid = %(row)s", row=row)
    return [Sought(str(method_id), "ROW", METHODS.name)]


def _add_method(target: Target, random: Random) -> list[Sought]:
    row, customer_id = _row(target, random, METHODS.name, "customer_id")
    target.copy(METHODS.name, row, {"payment_method_id": "gen_random_uuid()"})
    return [Sought(str(stream_of(customer_id)), "ROW", METHODS.name)]  # type: ignore[arg-type]


def _of_no_merchant(table: str, target: Target, random: Random) -> list[Sought]:
    row, _ = _row(target, random, table, "merchant_id")
    target.copy(table, row, {"merchant_id": "gen_random_uuid()"})
    return [Sought(f"{table} has rows of a merchant that has no log", "ROW", table)]


def _edit_line(change: str, column: str, target: Target, random: Random) -> list[Sought]:
    row, _ = _row(target, random, "search_block", "merchant_id", where="kind = 1")
    lines = "select id::text, kind, at, text from search_line where merchant_id = %s"
    before = set(target.rows(lines, target.merchant_id))
    target.execute(f"update search_block set {change} where ctid = %(row)s", row=row)
    other = before - set(target.rows(lines, target.merchant_id))
    return [Sought(id_, "ROW", "search_line", column or None) for id_, *_ in other][:3]


def _edit_row_of_lines(column: str, kind: str, target: Target, random: Random) -> list[Sought]:
    """Changes what lets a search skip a row of lines, or says that the row has it, or that its orders are counted."""
    where = "(kind = 1 or grams is null)" if column == "packed" else "true"
    row, is_counted = _row(target, random, "search_block", "packed", where=f"kind in (1, 2) and {where}")
    assert _changed(target, random, "search_block", row, column, kind), f"no other value of {column}"
    if column == "packed" and is_counted:
        return [Sought(None, "ROW", "search_count", "orders")]
    return [Sought(None, "ROW", "search_block", column)]


def _remove_block(target: Target, random: Random) -> list[Sought]:
    row, ids = _row(target, random, "search_block", "ids", where="kind = 1")
    target.execute("delete from search_block where ctid = %(row)s", row=row)
    return [Sought(str(ids[0]), "ROW", "search_line")]


def _add_block(target: Target, random: Random) -> list[Sought]:
    other = uuid4()
    target.execute(
        "insert into search_block (merchant_id, kind, first_id, ids, ats, texts)"
        " values (%(m)s, 1, %(id)s, array[%(id)s]::uuid[], array[now()], 'x')",
        id=other,
    )
    return [Sought(str(other), "ROW", "search_line")]


def _text_counter(kind: int, text: str) -> Sought:
    """Returns the violation of a counter, which has no text that may be a person's."""
    return Sought(f"with {text!r}" if kind == 1 else "by the end of an e-mail", "ROW", "search_count", "orders")


def _edit_text_counter(column: str, type_: str, target: Target, random: Random) -> list[Sought]:
    row, kind, text = _row(target, random, "search_count", "kind", "text")
    assert _changed(target, random, "search_count", row, column, type_), f"no other value of search_count.{column}"
    return [_text_counter(int(kind), text)]


def _remove_text_counter(target: Target, random: Random) -> list[Sought]:
    row, kind, text = _row(target, random, "search_count", "kind", "text")
    target.execute("delete from search_count where ctid = %(row)s", row=row)
    return [_text_counter(int(kind), text)]


def _remove_text_counters(target: Target, random: Random) -> list[Sought]:
    target.execute("delete from search_count where merchant_id = %(m)s")
    return [Sought("further counters of texts", "ROW", "search_count")]


def _add_text_counter(target: Target, random: Random) -> list[Sought]:
    row, _ = _row(target, random, "search_count", "text")
    target.copy("search_count", row, {"text": "'~~'", "kind": "1"})
    return [_text_counter(1, "~~")]


def _edit_key(change: str, target: Target, random: Random) -> list[Sought]:
    """Changes the data key of a customer: its rows, or the events that it opens, are named."""
    known = "customer_id in (select customer_id from customer)"
    row, customer_id = _row(target, random, "data_key", "customer_id", where=known)
    target.execute(f"update data_key set {change} where ctid = %(row)s", row=row)
    return [Sought(str(customer_id))]


def _destroy_key(target: Target, random: Random) -> list[Sought]:
    change = "wrapped = null, sealing_key_id = null, destroyed_at = now(), forgotten_at = now()"
    (sought,) = _edit_key(change, target, random)
    return [sought._replace(table="data_key", column="destroyed_at")]


def _remove_key(target: Target, random: Random) -> list[Sought]:
    row, customer_id = _row(target, random, "data_key", "customer_id")
    target.execute("delete from data_key where ctid = %(row)s", row=row)
    return [Sought(str(customer_id), "EVENT")]


def _remove_number(target: Target, random: Random) -> list[Sought]:
    row, method_id = _row(target, random, "vault_card", "payment_method_id")
    target.execute("delete from vault_card where ctid = %(row)s", row=row)
    return [Sought(str(method_id), "V1")]


def _add_number(target: Target, random: Random) -> list[Sought]:
    row, _ = _row(target, random, "vault_card", "payment_method_id")
    other = uuid4()
    values = {"payment_method_id": "%(other)s", "customer_id": "gen_random_uuid()", "settled": "true"}
    target.copy("vault_card", row, values, other=other)
    return [Sought(str(other), "V1")]


def _move_number(target: Target, random: Random) -> list[Sought]:
    row, method_id = _row(target, random, "vault_card", "payment_method_id")
    other = uuid4()
    target.execute(
        "update vault_card set payment_method_id = %(other)s, settled = true where ctid = %(row)s", row=row, other=other
    )
    return [Sought(str(method_id), "V1"), Sought(str(other), "V1")]


UNIQUE: Final[Mapping[str, Mapping[str, str]]] = {
    "plan": {"external_id": "external_id || 'x'"},
    "subscription": {"external_id": "external_id || 'x'"},
    "product": {"id": "id || 'x'"},
    "processor_account": {"name": "name || 'x'"},
    "webhook_endpoint": {"number": "number + 1"},
}
"""Other columns of which no two rows have the same value."""

_KEYS: Final = {model.name: model.key[-1] for model in READ_MODELS if model.name != "merchant"} | {"claim": "key"}
"""The column by which a row of a table becomes another one."""


def _cells() -> dict[str, Edit]:
    """Returns the edits of single cells and rows of the tables whose rows follow from one stream each."""
    found: dict[str, Edit] = {}
    for table in MERGED:
        if table.name in {"search_line", "data_key"}:
            continue
        found |= {
            f"{table.name}.{column}": partial(_edit_cell, table.name, column, kind) for column, kind in table.columns
        }
        found[f"row of {table.name} removed"] = partial(_remove_row, table.name)
        if table.name in _KEYS:
            found[f"row of {table.name} added"] = partial(_add_row, table.name, _KEYS[table.name])
    found |= {f"payment_method.{column}": partial(_edit_method, column, kind) for column, kind in METHODS.columns}
    return found


CELLS: Final[Mapping[str, Edit]] = _cells()

EDITS: Final[Mapping[str, Edit]] = {
    **{f"event.{column}": partial(_edit_event, column) for column in _EVENT_COLUMNS},
    "card number in an event": partial(_write_card_number, "data"),
    "card number in a context": partial(_write_card_number, "context"),
    "event removed": _remove_event,
    "events swapped": _swap_events,
    "contents of events swapped": _swap_contents,
    "event appended": _append_event,
    "event inserted": _insert_event,
    "tail cut": partial(_cut_tail, False),
    "tail cut and trees emptied": partial(_cut_tail, True),
    "order removed": partial(_remove_order, False),
    "order removed and tiles emptied": partial(_remove_order, True),
    "old database restored": _restore_past,
    "merchant removed": _remove_merchant,
    "merchant_head.position": _move_head,
    "merchant_head.position at the last number": _move_head_to_the_end,
    "merchant_head removed": _remove_head,
    **{f"log_tile.{column}": partial(_edit_tile, column) for column in ("hashes", "root", "level", "number", "merchant_id")},
    "tile removed": _remove_tile,
    "tile added": _add_tile,
    **{f"log_tree.{column}": partial(_edit_tree, column) for column in ("size", "edge", "merchant_id")},
    **{f"log_checkpoint.{column}": partial(_edit_checkpoint, column) for column in ("size", "note")},
    "log_checkpoint.signed_by": _edit_signers,
    "newest checkpoint removed": _remove_newest_checkpoint,
    "checkpoint added": _add_checkpoint,
    **CELLS,
    "payment_method removed": _remove_method,
    "payment_method added": _add_method,
    "payment_method of no merchant": partial(_of_no_merchant, METHODS.name),
    "tally.merchant_id": partial(_edit_counter, "tally", "merchant_id", "uuid"),
    "tally.day": partial(_edit_counter, "tally", "day", "date"),
    "tally.status": partial(_edit_counter, "tally", "status", "text"),
    "tally.n": partial(_edit_counter, "tally", "n", "int8"),
    "tally.day without end": _endless_day,
    "tally removed": partial(_remove_counter, "tally"),
    "tally added": partial(_add_counter, "tally", {"day": "day - 1000"}),
    "customer_count.merchant_id": partial(_edit_counter, "customer_count", "merchant_id", "uuid"),
    "customer_count.n": partial(_edit_counter, "customer_count", "n", "int8"),
    "customer_count removed": partial(_remove_counter, "customer_count"),
    "tally of no merchant": partial(_add_counter, "tally", {"merchant_id": "gen_random_uuid()"}),
    "customer_count of no merchant": partial(_add_counter, "customer_count", {"merchant_id": "gen_random_uuid()"}),
    "search_line.merchant_id": partial(_edit_line, "merchant_id = gen_random_uuid()", ""),
    "search_line.text": partial(_edit_line, "texts = 'x' || texts", "text"),
    "search_line.at": partial(_edit_line, "ats[1] = ats[1] + interval '1 us'", "at"),
    "search_line.id": partial(_edit_line, "ids[1] = gen_random_uuid()", ""),
    "search_line.kind": partial(_edit_line, "kind = 2", "kind"),
    **{f"search_block.{column}": partial(_edit_row_of_lines, column, kind) for column, kind in SUMMARY.items()},
    "search lines removed": _remove_block,
    "search line added": _add_block,
    **{
        f"search_count.{column}": partial(_edit_text_counter, column, kind)
        for column, kind in (("merchant_id", "uuid"), ("kind", "int4"), ("text", "text"), ("orders", "int8"))
    },
    "search_count removed": _remove_text_counter,
    "search_counts of a merchant removed": _remove_text_counters,
    "search_count added": _add_text_counter,
    "search_count of no merchant": partial(_of_no_merchant, "search_count"),
    "data_key.wrapped": partial(_edit_key, "wrapped = set_byte(wrapped, 40, get_byte(wrapped, 40) # 1)"),
    "data_key.sealing_key_id": partial(_edit_key, "sealing_key_id = sealing_key_id || 'x'"),
    "data_key.merchant_id": partial(_edit_key, "merchant_id = gen_random_uuid()"),
    "data_key.customer_id": partial(_edit_key, "customer_id = gen_random_uuid()"),
    "data_key.forgotten_at": partial(_edit_key, "forgotten_at = now()"),
    "data_key.destroyed_at": _destroy_key,
    "data_key removed": _remove_key,
    "vault_card removed": _remove_number,
    "vault_card added": _add_number,
    "vault_card.payment_method_id": _move_number,
    "vault_card of no merchant": partial(_of_no_merchant, "vault_card"),
    "checkpoint of no merchant": partial(_of_no_merchant, "log_checkpoint"),
}  # fmt: skip
