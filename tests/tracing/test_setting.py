"""The setting that switches traces on: a standard variable, refused in one line where it is wrong or cannot be met."""

import pytest

from ledger.cli import service
from ledger.settings import SettingWrong, read_settings

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def test_traces_are_off_by_default():
    assert read_settings({}).otlp_endpoint == ""


@pytest.mark.parametrize("address", ["http://127.0.0.1:4318", "https://otlp.example.com/some/path"])
def test_the_standard_variable_names_the_collector(address):
    assert read_settings({ENDPOINT: address}).otlp_endpoint == address


@pytest.mark.parametrize("address", ["collector:4318", "grpc://h", "http://me:secret@h", "http://h/?token=secret"])
def test_an_address_with_a_secret_or_without_a_scheme_is_refused(address):
    with pytest.raises(SettingWrong, match=f"^{ENDPOINT} must be an address like ") as refusal:
        read_settings({ENDPOINT: address})
    assert "secret@" not in str(refusal.value)


def test_a_service_without_the_packages_does_not_start(monkeypatch):
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:4318")
    monkeypatch.setattr(service, "find_spec", lambda _: None)
    with pytest.raises(SettingWrong, match=r"install requirements-traces\.lock, or unset it"):
        service._settings_to_run()
