"""Settings: typed, checked at the start, and named in one line if they are wrong."""

from pathlib import Path

import msgspec
import pytest

from ledger import settings as module
from ledger.settings import (
    Settings,
    SettingWrong,
    api_processes,
    describe,
    likely_typos,
    log_origin,
    read_settings,
    variable_of,
)


def test_without_any_variable_everything_has_its_default():
    assert read_settings({}) == Settings()


def test_a_variable_is_read_in_its_own_type():
    settings = read_settings(
        {
            "LEDGER_PORT": "9001",
            "LEDGER_REQUEST_TIMEOUT_S": "40.5",
            "LEDGER_DATA_DIR": "/x",
            "LEDGER_ENVIRONMENT": "production",
        }
    )
    assert (settings.port, settings.request_timeout_s, settings.data_dir) == (9001, 40.5, Path("/x"))
    assert settings.environment == "production"


@pytest.mark.parametrize(("cores", "processes"), [(1, 1), (2, 1), (3, 1), (4, 2), (7, 3), (8, 4), (64, 4)])
def test_the_cores_decide_how_many_api_processes_run(cores, processes, monkeypatch):
    monkeypatch.setattr(module.os, "sched_getaffinity", lambda _: set(range(cores)))
    assert api_processes(read_settings({})) == api_processes(read_settings({}, workers="auto")) == processes
    assert api_processes(read_settings({"LEDGER_WORKERS": "6"})) == 6


def test_a_number_beside_a_word_is_refused_with_both():
    with pytest.raises(SettingWrong, match=r"must be auto or a whole number, at least 1 and at most 64, not 'all'"):
        read_settings({"LEDGER_WORKERS": "all"})


def test_an_empty_variable_counts_as_unset():
    assert read_settings({"LEDGER_DATABASE_URL": "", "LEDGER_PORT": ""}) == Settings()


def test_a_flag_overrides_its_variable_unless_it_is_absent():
    assert read_settings({"LEDGER_PORT": "9001"}, port=9002, host=None) == Settings(port=9002)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LEDGER_PORT", "eighty"),
        ("LEDGER_PORT", "65536"),
        ("LEDGER_PORT", "-1"),
        ("LEDGER_WORKERS", "0"),
        ("LEDGER_ENVIRONMENT", "live"),
        ("LEDGER_BASE_PATH", "api"),
        ("LEDGER_BASE_PATH", "/api/"),
        ("LEDGER_BASE_PATH", "/lps"),
        ("LEDGER_REQUEST_TIMEOUT_S", "nan"),
        ("LEDGER_REQUEST_TIMEOUT_S", "30"),
        ("LEDGER_BODY_LIMIT", "1e3"),
        ("LEDGER_LOG_LEVEL", "loud"),
        ("LEDGER_DATABASE_APP_URL", "host=elsewhere"),
        ("LEDGER_FILES_URL", "ftp://files"),
        ("LEDGER_STAMPING_PROVIDER", "another"),
        ("LEDGER_STRIPE_URL", "api.stripe.com"),
        ("LEDGER_STRIPE_URL", "http://api.stripe.com"),
        ("LEDGER_STRIPE_URL", "https://user@stripe.example"),
        ("LEDGER_WEBHOOK_ALLOW", "10.0.0.1/8"),
        ("LEDGER_WEBHOOK_ALLOW", "intern.example"),
    ],
)
def test_a_wrong_value_is_refused_in_one_line_that_names_its_variable(variable, value):
    with pytest.raises(SettingWrong) as refusal:
        read_settings({variable: value})
    message = str(refusal.value)
    assert variable in message
    assert "\n" not in message


def test_a_stamping_provider_needs_its_credentials():
    finkok = {"LEDGER_STAMPING_PROVIDER": "finkok"}
    with pytest.raises(SettingWrong, match="LEDGER_STAMPING_SECRET must be set"):
        read_settings(finkok)
    with pytest.raises(SettingWrong, match="LEDGER_STAMPING_USER must be set"):
        read_settings(finkok | {"LEDGER_STAMPING_SECRET": "hush"})
    sapien = {"LEDGER_STAMPING_PROVIDER": "sw-sapien", "LEDGER_STAMPING_SECRET": "hush"}
    assert read_settings(sapien).stamping_provider == "sw-sapien"
    assert "hush" not in "".join(str(row) for row in describe(read_settings(sapien)))


def test_a_mail_server_needs_a_sender_and_its_password_tls():
    sender = {"LEDGER_MAIL_FROM": "payments@shop.example"}
    for url in (
        "smtps://u:hush@h:465",
        "smtp://u:hush@h",
        "smtp://h:25?tls=none",
        "smtp://u:hush@127.0.0.1:25/?tls=none",
    ):
        settings = read_settings({"LEDGER_SMTP_URL": url} | sender)
        assert settings.smtp_url == url
        assert "hush" not in repr(settings) + "".join(str(row) for row in describe(settings))
    for url in (
        "h:25",
        "http://h",
        "smtps://h?tls=none",
        "smtp://u:hush@h?tls=none",
        "smtp://h:99999",
        "smtp://u:hu/sh@h",
    ):
        with pytest.raises(SettingWrong, match="LEDGER_SMTP_URL") as refusal:
            read_settings({"LEDGER_SMTP_URL": url} | sender)
        assert "hush" not in str(refusal.value)
    with pytest.raises(SettingWrong, match="LEDGER_MAIL_FROM must be set"):
        read_settings({"LEDGER_SMTP_URL": "smtps://h"})
    for sender in ("Shop <payments@shop.example>", "payments", "a@b@c", "a@b\nBcc: c@d"):
        with pytest.raises(SettingWrong, match="LEDGER_MAIL_FROM must be an e-mail address"):
            read_settings({"LEDGER_MAIL_FROM": sender})


def test_a_secret_is_never_shown():
    settings = read_settings({"LEDGER_MASTER_KEY": "hush" * 16, "LEDGER_DATABASE_URL": "postgresql://u:hush@h/d"})
    assert "hush" not in repr(settings)
    assert "hush" not in "".join(str(row) for row in describe(settings))
    with pytest.raises(SettingWrong) as refusal:
        read_settings({"LEDGER_MASTER_KEY": "hush", "LEDGER_MASTER_KEY_FILE": "/hush"})
    assert "hush" not in str(refusal.value)


def test_every_setting_is_described():
    rows = describe(Settings())
    assert [row.variable for row in rows] == [variable_of(field) for field in Settings.__struct_fields__]
    for row in rows:
        assert row.description.endswith("."), row.variable
        assert row.kind
        assert row.unit or row.kind != "number", row.variable


def test_a_misspelt_variable_is_distinguished_from_a_foreign_one():
    assert list(likely_typos({"LEDGER_PROT": "1", "LEDGER_TEST_DATABASE_URL": "x", "PORT": "1"})) == [
        ("LEDGER_PROT", "LEDGER_PORT")
    ]


def test_settings_reach_another_process_unchanged():
    settings = read_settings({"LEDGER_DATA_DIR": "/x/y", "LEDGER_MASTER_KEY_FILE": "/z"})
    sent = msgspec.json.encode(settings, enc_hook=str)
    assert msgspec.json.decode(sent, type=Settings, dec_hook=lambda kind, value: kind(value)) == settings


@pytest.mark.parametrize(
    ("given", "origin"),
    [
        ({}, "127.0.0.1/v1/log"),
        ({"LEDGER_HOST": "10.0.0.5", "LEDGER_PORT": "9000"}, "10.0.0.5/v1/log"),
        ({"LEDGER_PUBLIC_URL": "https://pay.example.com:8443"}, "pay.example.com/v1/log"),
        ({"LEDGER_PUBLIC_URL": "https://pay.example.com", "LEDGER_LOG_ORIGIN": "example.com/log"}, "example.com/log"),
    ],
)
def test_the_origin_of_the_logs_is_the_host_without_its_port(given, origin):
    assert log_origin(read_settings(given)) == origin


@pytest.mark.parametrize("origin", ["https://pay.example.com", "a b", "a+b", "a/", "/a", "a\nb", "a?b"])
def test_an_origin_has_no_scheme_space_or_plus(origin):
    with pytest.raises(SettingWrong, match=r"must be an address without a scheme, like pay\.example\.com/v1/log"):
        read_settings({"LEDGER_LOG_ORIGIN": origin})


@pytest.mark.parametrize("url", ["https://a+b.example.com", "https://café.example.com", "https://[::1"])
def test_a_public_host_that_cannot_name_a_log_needs_an_origin(url):
    with pytest.raises(SettingWrong, match=r"^LEDGER_LOG_ORIGIN must be set"):
        read_settings({"LEDGER_PUBLIC_URL": url})
    assert log_origin(read_settings({"LEDGER_PUBLIC_URL": url, "LEDGER_LOG_ORIGIN": "example.com"})) == "example.com"
