"""An installation of the sandbox on a fresh database with a data directory of its own, and a scenario to run on it."""

import json
import re
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from tests.cli import forked
from tests.cli.shapes import require_shape
from tests.service.trees import ROOT, environment

from ledger.settings import Settings

CAFE = "Café de Prueba"
OPENING = "2026-03-01T08:00:00-06:00"

ADDRESS = {"address": "Zaragoza 12", "city": "Coatepec", "state": "Veracruz", "postalCode": "91500", "country": "MX"}
APPROVED, NO_FUNDS, DECLINED = "4242424242424242", "4000000000009995", "4000000000000002"


def card(number):
    return {
        "type": "card",
        "cardDetails": {"number": number, "expiryMonth": "12", "expiryYear": "2034", "cvc": "123"},
    }


def line(action, at, body, **more):
    return {"as": CAFE, "do": action, "at": at, **more, "body": body}


def opening(**settings):
    return line("register", OPENING, settings)


def order(external_id, number=None, customer="CLI-1", first_name="Ana", **changes):
    """The body of an order over 100 pesos; by card where a number is given, else pending."""
    payment = {"pending": True} if number is None else {"paymentMethod": card(number)}
    return {
        "externalId": external_id,
        "amount": 10000,
        "currency": "MXN",
        "customer": {"externalId": customer, "firstName": first_name},
        "billingAddress": ADDRESS,
        **payment,
        **changes,
    }


def charge(number, **changes):
    return {"paymentMethod": card(number), "billingAddress": ADDRESS, **changes}


@pytest.fixture
def settings(database_url, short_dir):
    """The sandbox's settings as a command has them once its database is ready."""
    data_dir = short_dir / uuid4().hex[:8]
    data_dir.mkdir()
    return Settings(database_url=database_url, database_app_url=database_url, data_dir=data_dir)


@pytest.fixture
def write(tmp_path):
    return writing(tmp_path)


def writing(folder):
    """Writes a scenario file; lines may be text, where their form is what a test is about."""

    def write_scenario(*lines, name="scenario.jsonl"):
        texts = [text if isinstance(text, str) else json.dumps(text, ensure_ascii=False) for text in lines]
        scenario = Path(folder / name)
        scenario.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        return scenario

    return write_scenario


@pytest.fixture
def log(database_url):
    """Everything that is stored, as one value: the events in order, and every row of the read models."""
    tables = ("event", "claim", "payment_order", "customer", "merchant", "api_key", "tally")

    def read():
        with psycopg.connect(database_url) as connection:
            return {table: connection.execute(f"select * from {table} order by 1, 2, 3").fetchall() for table in tables}

    return read


class Printed:
    """What a command printed: `done` or `json` where it succeeded, `one_line` where it failed."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.done)

    @property
    def done(self):
        """The output of a command that succeeded without a word on standard error."""
        assert (self.code, self.err) == (0, "")
        return self.out

    @property
    def one_line(self):
        assert (self.code, self.out) == (1, "")
        assert re.fullmatch(r"ledger: [^\n]+\n", self.err)
        return self.err.removeprefix("ledger: ").strip()


@pytest.fixture
def ledger(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    return running(settings, tmp_path)


def running(settings, folder):
    """Returns a function that runs a command on the installation of these settings, with its output in the folder."""

    def run(*arguments):
        variables = {
            "LEDGER_DATABASE_URL": settings.database_url,
            "LEDGER_DATABASE_APP_URL": settings.database_url,
            "LEDGER_DATA_DIR": str(settings.data_dir),
        }
        code = forked.run([*map(str, arguments)], environment(**variables), folder, timeout=60)
        printed = Printed(code, *((folder / name).read_text(encoding="utf-8") for name in ("out", "err")))
        if "--json" in arguments and code == 0:
            require_shape(arguments, printed.json)
        return printed

    return run
