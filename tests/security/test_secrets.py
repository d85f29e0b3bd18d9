"""Secrets: one master key, given or made by the sandbox for itself, and never printed."""

import base64
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from ledger.security.secrets import MASTER_KEY_NAME, Purpose, Secrets, load_sealing_keys, load_secrets
from ledger.settings import Settings, SettingWrong, read_settings

KEY = bytes(range(32))


def test_the_key_may_be_written_in_hex_or_base64_or_stand_in_a_file(tmp_path):
    file = tmp_path / "key"
    file.write_text(base64.urlsafe_b64encode(KEY).decode().rstrip("=") + "\n")
    wanted = Secrets(KEY).key(Purpose.API_KEY_PEPPER)
    for settings in (
        Settings(master_key=KEY.hex()),
        Settings(master_key=base64.b64encode(KEY).decode()),
        Settings(master_key_file=file),
    ):
        assert load_secrets(settings).key(Purpose.API_KEY_PEPPER) == wanted


def test_every_purpose_has_a_key_of_its_own_that_never_changes():
    keys = {purpose: Secrets(KEY).key(purpose) for purpose in Purpose}
    assert len(set(keys.values())) == len(Purpose)
    assert KEY not in keys.values()
    # Stored hashes of API keys stand on this value: if it changes, no merchant can log in any more.
    assert keys[Purpose.API_KEY_PEPPER].hex() == "290f9d03ad69f1f4a079ab054dc8cdfe5e21fd795f8ec269b8c0e364729967dc"


@pytest.mark.parametrize("text", ["short", "zz" * 32, "00" * 31, "00" * 33, "not base64 at all!"])
def test_anything_but_32_bytes_is_refused_without_repeating_it(text):
    with pytest.raises(SettingWrong) as refusal:
        load_secrets(Settings(master_key=text))
    assert "LEDGER_MASTER_KEY" in str(refusal.value)
    assert text not in str(refusal.value)


def test_an_unreadable_file_is_named_by_its_variable(tmp_path):
    with pytest.raises(SettingWrong, match="LEDGER_MASTER_KEY_FILE cannot be read: No such file"):
        load_secrets(Settings(master_key_file=tmp_path / "absent"))


def test_production_does_not_make_keys_up(tmp_path):
    with pytest.raises(SettingWrong, match="LEDGER_MASTER_KEY"):
        load_secrets(Settings(environment="production", data_dir=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_the_sandbox_makes_a_key_once_for_its_owner_alone(tmp_path):
    settings = Settings(data_dir=tmp_path / "fresh")
    first = load_secrets(settings).key(Purpose.API_KEY_PEPPER)
    assert load_secrets(settings).key(Purpose.API_KEY_PEPPER) == first
    place = settings.data_dir / MASTER_KEY_NAME
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert load_secrets(Settings(data_dir=tmp_path / "other")).key(Purpose.API_KEY_PEPPER) != first


def test_many_starts_at_once_agree_on_one_key(tmp_path):
    settings = Settings(data_dir=tmp_path)
    with ThreadPoolExecutor(16) as pool:
        keys = list(pool.map(lambda _: load_secrets(settings).key(Purpose.API_KEY_PEPPER), range(64)))
    assert len(set(keys)) == 1
    assert [file.name for file in tmp_path.iterdir()] == [MASTER_KEY_NAME]


def test_secrets_print_as_stars():
    assert KEY.hex() not in repr(Secrets(KEY))
    assert str(Secrets(KEY)) == "Secrets(***)"


OWN, NEW, OLD = "0a" * 32, "0b" * 32, "0c" * 32


def sealing(**given):
    return load_sealing_keys(Settings(master_key=OWN, **given))


def test_sealing_keys_are_the_master_keys_own_and_those_that_are_set_newest_first(tmp_path):
    (own,) = sealing()
    assert own == Secrets(bytes.fromhex(OWN)).key(Purpose.DATA_KEY_WRAPPING)
    new, old, last = sealing(sealing_keys=f"{NEW}, {OLD}")
    assert (new, old) == tuple(Secrets(bytes.fromhex(key)).key(Purpose.DATA_KEY_WRAPPING) for key in (NEW, OLD))
    assert last == own
    assert sealing(sealing_keys=f"master,{NEW}") == [own, new]
    (tmp_path / "keys").write_text(f"{NEW}\n{OLD}\nmaster\n")
    assert sealing(sealing_keys_file=tmp_path / "keys") == [new, old, own]


def test_a_sealing_key_that_is_no_key_is_refused_without_being_repeated(tmp_path):
    with pytest.raises(SettingWrong, match=r"^LEDGER_SEALING_KEYS must be 32 bytes") as refusal:
        sealing(sealing_keys=f"{NEW},swordfish")
    assert "swordfish" not in str(refusal.value)
    with pytest.raises(SettingWrong, match=r"^LEDGER_SEALING_KEYS_FILE cannot be read"):
        sealing(sealing_keys_file=tmp_path / "absent")
    with pytest.raises(SettingWrong, match="must not both be set"):
        read_settings({"LEDGER_SEALING_KEYS": NEW, "LEDGER_SEALING_KEYS_FILE": "/x"})
