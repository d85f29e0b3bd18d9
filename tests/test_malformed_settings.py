"""Malformed settings: each is one line that names its variable, and no line repeats a secret."""

import subprocess
import sys

import pytest
from tests.service.trees import environment

from ledger.security.secrets import load_checkpoint_keys, load_processor_keys, load_sealing_keys, load_secrets
from ledger.settings import CannotRun, read_settings

SECRET = "sWordf1sh"
URLS = ("LEDGER_DATABASE_URL", "LEDGER_DATABASE_APP_URL", "LEDGER_DATABASE_VAULT_URL", "LEDGER_READ_DATABASE_URL")
MALFORMED_URLS = (
    "{0}",
    "{0} {0}",
    "={0}",
    "password='{0}",
    "password={0} {0}",
    "host=h password=my {0} user=u",
    "host=h pasword={0}",
    "host=h port={0}",
    "host=h port=70000 password={0}",
    "host=h port=-1 password={0}",
    "host=h sslmode={0}",
    "host=h sslmode=require;password={0}",
    "host=h connect_timeout={0}",
    "host=h keepalives={0}",
    "host=h target_session_attrs={0}",
    "host=h channel_binding={0}",
    "host=h gssencmode={0}",
    "host=h load_balance_hosts={0}",
    "host=h ssl_min_protocol_version={0}",
    "host=a,b port=1,2,3 password={0}",
    "service={0}",
    "postgresql://u:{0}%zz@h/d",
    "postgresql://u:{0}%@h/d",
    "postgresql://u:p@{0}@h/d",
    "postgresql://u:p@{0}/{0}@h/d",
    "postgresql://u:p@{0}:{0}@h/d",
    "postgresql://u:p@{0}?{0}@h/d",
    "postgresql://u:p@{0}?{0}={0}@h/d",
    "postgresql://u:pa/{0}@h/d",
    "postgresql://u:12/{0}@h/d",
    "postgresql://u:{0}/x@h/d",
    "postgresql://u:{0}:5432/d",
    "postgresql://u:p@h:{0}/d",
    "postgresql://u:{0}@h:99999/d",
    "postgresql://u:{0}@h:5432:5433/d",
    "postgresql://u:{0}@[::1/d",
    "postgresql://u:{0}@[::1]x/d",
    "postgresql://u:{0}@h/d?sslmode",
    "postgresql://u:{0}@h/d?sslmode={0}",
    "postgresql://u:{0}@h/d?{0}=1",
    "postgresql://u:{0}@h/d?connect_timeout={0}",
    "postgres:/u:{0}@h/d",
    "postgress://u:{0}@h/d",
    "mysql://u:{0}@h/d",
    "http://u:{0}@h/d",
    "jdbc:postgresql://h/d?user=u&password={0}",
    "postgresql+psycopg://u:{0}@h/d",
    "'postgresql://u:{0}@h/d'",
    '"postgresql://u:{0}@h/d"',
    "postgresql://u:{0}\udce9@h/d",
    "LEDGER_DATABASE_URL=postgresql://u:{0}@h/d",
)
KEYS = ("LEDGER_MASTER_KEY", "LEDGER_SEALING_KEYS", "LEDGER_PROCESSOR_KEYS", "LEDGER_CHECKPOINT_KEYS")
MALFORMED_KEYS = (
    "{0}",
    "{0}:{0}",
    "{0},{0}",
    "stp:{0}",
    "stp={0}",
    "STP:{0}",
    "{0}" * 7,
    "00{0}",
    "\udce9{0}",
    "{0}\x00",
)
OPEN = ("https://u:{0}@h", "s3://u:{0}@h", "postgresql://u:{0}@h/d", "password={0}", "{0}" * 4, f"{'ab' * 32}{{0}}")
NUMBERS = ("-5", "1e999", "nan", "inf", "9" * 400, "0x10", "１x", "1 2", "on", "-0.0.1", "1;2")
"""Values that no number takes."""
NUMBERED = ("LEDGER_PORT", "LEDGER_WORKERS", "LEDGER_BODY_LIMIT", "LEDGER_CONNECTIONS_MAX", "LEDGER_BATCH_MAX")
CHOSEN = ("LEDGER_ENVIRONMENT", "LEDGER_LOG_LEVEL", "LEDGER_BASE_PATH", "LEDGER_PUBLIC_URL", "LEDGER_FILES_URL")


def cases():
    base = {"LEDGER_DATABASE_URL": "host=h"}
    for variable in URLS:
        yield from ((variable, base | {variable: shape.format(SECRET)}) for shape in MALFORMED_URLS)
    for variable in KEYS:
        yield from ((variable, {variable: shape.format(SECRET)}) for shape in MALFORMED_KEYS)
    for variable in (*NUMBERED, *CHOSEN):
        yield from (
            (variable, {variable: shape.format(SECRET)})
            for shape in OPEN
            if variable != "LEDGER_PUBLIC_URL" or "http" not in shape
        )
    for variable in NUMBERED:
        yield from ((variable, {variable: value}) for value in NUMBERS)


CASES = list(cases())


def read_all(environ):
    """Reads what a start reads: the settings, then the keys in them."""
    settings = read_settings(environ)
    for load in (load_secrets, load_sealing_keys, load_processor_keys, load_checkpoint_keys):
        load(settings)


def test_there_are_more_than_two_hundred_cases():
    assert len(CASES) > 200
    assert len({tuple(environ.items()) for _, environ in CASES}) == len(CASES)


def test_every_malformed_setting_is_one_line_with_its_variable_and_without_the_secret(tmp_path):
    for variable, environ in CASES:
        own = {"LEDGER_DATA_DIR": str(tmp_path)} | environ
        with pytest.raises(CannotRun) as refusal:
            read_all(own)
        line = str(refusal.value)
        assert line.startswith(variable), (environ, line)
        assert "\n" not in line, environ
        assert SECRET.lower() not in line.lower(), environ
        assert "ab" * 8 not in line, environ


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p%40ss%2Fword%3A@h:5432/d",
        "postgres://h",
        "postgresql://[::1]:5432/d?sslmode=require",
        "postgresql:///d?host=/tmp/a%20b&port=6543",
        "host=a,b port=1,2 user=u password='a b@c/d' dbname=d connect_timeout=3",
        "hostaddr=10.0.0.1,10.0.0.2 host=x,y sslmode=verify-full options='-c search_path=ledger'",
        "",
    ],
)
def test_a_connection_string_that_libpq_reads_is_accepted(url):
    assert read_settings({"LEDGER_DATABASE_URL": url}).database_url == (url or None)


@pytest.mark.parametrize("command", ["serve", "migrate", "settings"])
def test_a_real_command_prints_that_one_line(command, tmp_path):
    variables = environment(LEDGER_DATABASE_URL=f"postgresql://u:pa/{SECRET}@h/d", LEDGER_DATA_DIR=str(tmp_path))
    program = "from ledger.cli.main import main; main()"
    run = subprocess.run(
        [sys.executable, "-P", "-c", program, command],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("ledger: LEDGER_DATABASE_URL ")
    assert run.stderr.count("\n") == 1
    assert SECRET not in run.stderr
