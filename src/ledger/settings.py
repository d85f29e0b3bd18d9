"""Every setting of the service: an environment variable `LEDGER_…`, its type, default, unit and meaning, in one table.

The rule a stranger would break: nothing else reads the environment. A wrong value stops the start with one line that
names the variable, and never repeats the value of a secret.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

PREFIX: Final = "LEDGER_"
_BASE_PATH: Final = r"^(/[A-Za-z0-9._~-]+)+$"
_WEB_ADDRESS: Final = r"^(https?://[^/?#\s]+)?$"
_SECRET: Final = {"secret": True}
_SECONDS: Final = {"unit": "seconds"}


class CannotRun(Exception):
    """A command or service of ours cannot run, for a reason that a person can act on; the message is one line."""


class SettingWrong(CannotRun):
    """A setting has a value that it cannot have."""

    def __init__(self, variable: str, reason: str) -> None:
        super().__init__(f"{variable} {reason}")
        self.variable = variable


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings as they stand. Made by `read_settings`, passed on as a value, never changed."""

    environment: Annotated[
        Literal["sandbox", "production"],
        Meta(
            description="What the keys are worth: sandbox keys move no money. Production insists on durable settings."
        ),
    ] = "sandbox"
    database_url: Annotated[
        str | None,
        Meta(
            description="The database of an own Postgres, as the role that owns it; unset: the embedded one.",
            extra=_SECRET,
        ),
    ] = None
    database_app_url: Annotated[
        str | None,
        Meta(
            description="The same database as the role the application runs under, which cannot change events.",
            extra=_SECRET,
        ),
    ] = None
    data_dir: Annotated[
        Path, Meta(description="Where the embedded Postgres, its log and the sandbox's own secrets live.")
    ] = Path(".ledger")
    host: Annotated[str, Meta(min_length=1, description="The address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="The port to listen on; 0 takes a free one.")] = 8000
    workers: Annotated[int, Meta(ge=1, le=64, description="How many API processes share the port.")] = 1
    base_path: Annotated[str, Meta(pattern=_BASE_PATH, description="Where the API begins.")] = "/api"
    public_url: Annotated[
        str,
        Meta(
            pattern=_WEB_ADDRESS,
            description="Where payers' browsers reach the API, without its base path; unset: the address it listens on.",
        ),
    ] = ""
    lps_base_path: Annotated[
        str, Meta(pattern=_BASE_PATH, description="Where the products' API begins. Nothing is there in this release.")
    ] = "/lps"
    master_key: Annotated[
        str | None,
        Meta(description="32 bytes in hex or base64 from which every other key is derived.", extra=_SECRET),
    ] = None
    master_key_file: Annotated[
        Path | None, Meta(description="A file that holds the master key; unset: the sandbox makes its own.")
    ] = None
    sealing_keys: Annotated[
        str | None,
        Meta(
            description="Keys like the master key that seal personal data, commas between, the newest first; `master` names its own.",
            extra=_SECRET,
        ),
    ] = None
    sealing_keys_file: Annotated[
        Path | None, Meta(description="A file that holds the sealing keys, one a line; unset: the master key's own.")
    ] = None
    processor_keys: Annotated[
        str | None,
        Meta(
            description="Keys that processors sign their messages with: `name:key`, 32 bytes in hex or base64, commas between; two of one name while it is changed.",
            extra=_SECRET,
        ),
    ] = None
    processor_keys_file: Annotated[
        Path | None, Meta(description="A file that holds the processors' keys, one `name:key` a line.")
    ] = None
    body_limit: Annotated[
        int, Meta(ge=1024, le=64 << 20, description="The largest request body.", extra={"unit": "bytes"})
    ] = 256 << 10
    head_timeout_s: Annotated[
        float, Meta(gt=0, le=600, description="When a request's line and headers must be there.", extra=_SECONDS)
    ] = 10.0
    body_timeout_s: Annotated[
        float, Meta(gt=0, le=600, description="When all of a request must be there.", extra=_SECONDS)
    ] = 20.0
    body_rate_min: Annotated[
        int,
        Meta(ge=0, description="How fast it must come after its first five seconds.", extra={"unit": "bytes/second"}),
    ] = 500
    idle_timeout_s: Annotated[
        float, Meta(gt=0, le=3600, description="When a connection without a request is closed.", extra=_SECONDS)
    ] = 75.0
    connections_max: Annotated[
        int,
        Meta(ge=1, description="How many a process has open; then idle ones make room.", extra={"unit": "connections"}),
    ] = 2048
    request_timeout_s: Annotated[
        float, Meta(gt=0, le=600, description="When a request is answered at the latest.", extra=_SECONDS)
    ] = 35.0
    processor_timeout_s: Annotated[
        float,
        Meta(gt=0, le=600, description="When a payment processor's answer is given up.", extra=_SECONDS),
    ] = 30.0
    recovery_margin_s: Annotated[
        float,
        Meta(ge=0, le=3600, description="How long after its deadline an open call is looked up.", extra=_SECONDS),
    ] = 5.0
    not_found_final_s: Annotated[
        float,
        Meta(ge=0, le=86400, description="How long after a call 'not found' becomes final.", extra=_SECONDS),
    ] = 60.0
    sandbox_delay_ms: Annotated[
        int,
        Meta(ge=0, le=60_000, description="How long the sandbox processor thinks.", extra={"unit": "milliseconds"}),
    ] = 0
    sandbox_deadline_s: Annotated[
        float,
        Meta(gt=0, le=600, description="The processor timeout in the sandbox, for card 0119.", extra=_SECONDS),
    ] = 2.0
    journal_queue_max: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="How many commands may wait for the journal before 503.",
            extra={"unit": "commands"},
        ),
    ] = 4096
    batch_max: Annotated[
        int, Meta(ge=1, le=4096, description="How many commands one commit holds at most.", extra={"unit": "commands"})
    ] = 256
    requests_per_minute: Annotated[
        int,
        Meta(
            ge=0,
            description="The rate limit of each key of a merchant that set none of its own; 0 is none. Several API processes of one `serve` count together.",
            extra={"unit": "requests"},
        ),
    ] = 100
    requests_per_second: Annotated[
        int, Meta(ge=0, description="The same for a single second.", extra={"unit": "requests"})
    ] = 10
    metrics_token: Annotated[
        str | None,
        Meta(description="The bearer token for /metrics; unset: only asked from this machine.", extra=_SECRET),
    ] = None
    access_log: Annotated[
        Literal["on", "off"], Meta(description="Whether each request has a line in the log, at level info.")
    ] = "on"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="The least severe message that is logged.")
    ] = "info"

    def __repr__(self) -> str:
        return f"Settings({self.environment}, {self.data_dir})"  # it holds secrets: nothing prints it whole


class Row(Struct, frozen=True):
    """One setting, described for people."""

    variable: str
    kind: str
    default: str
    unit: str
    description: str
    value: str


def read_settings(environ: Mapping[str, str], **flags: object) -> Settings:
    """The settings from the environment, where a flag of the command line (None where not given) goes first.

    Raises SettingWrong on the first variable that is wrong, alone or together with another. An empty variable is unset.
    """
    given: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    values: dict[str, Any] = {}
    for name, kind in _kinds().items():
        variable = variable_of(name)
        if name in given or environ.get(variable):
            values[name] = _converted(variable, given.get(name, environ.get(variable)), kind)
    settings = Settings(**values)
    _check_together(settings)
    return settings


def variable_of(name: str) -> str:
    """The environment variable of a field: `port` is LEDGER_PORT."""
    return PREFIX + name.upper()


def public_url(settings: Settings) -> str:
    """Where a payer's browser finds the API."""
    return f"{settings.public_url or f'http://{settings.host}:{settings.port}'}{settings.base_path}"


def likely_typos(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Variables that are no setting but nearly spell one, each with the one that was probably meant."""
    known = [variable_of(name) for name in Settings.__struct_fields__]
    for variable in environ:
        if variable.startswith(PREFIX) and variable not in known:
            for meant in difflib.get_close_matches(variable, known, n=1, cutoff=0.9):
                yield variable, meant


def describe(settings: Settings) -> list[Row]:
    """Every setting in the table's order, with the value that it has now; secrets only say whether they are set."""
    rows = []
    for (name, kind), default in zip(_kinds().items(), Settings.__struct_defaults__, strict=True):
        meta = next(part for part in get_args(kind) if isinstance(part, Meta))
        extra = meta.extra or {}
        value = getattr(settings, name)
        rows.append(
            Row(
                variable=variable_of(name),
                kind=_kind_in_words(get_args(kind)[0]),
                default="" if default is None else str(default),
                unit=extra.get("unit", ""),
                description=meta.description or "",
                value="" if value is None else "(set)" if extra.get("secret") else str(value),
            )
        )
    return rows


def _kinds() -> dict[str, Any]:
    return get_type_hints(Settings, include_extras=True)


def _kind_in_words(kind: Any) -> str:
    options = get_args(kind)
    if options and all(isinstance(option, str) for option in options):
        return " | ".join(options)
    words = {int: "whole number", float: "number", str: "text", Path: "path"}
    return next(words[part] for part in (*options, kind) if part in words)


def _converted(variable: str, value: object, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind, strict=False, dec_hook=_path)
    except msgspec.ValidationError:
        meta = next(part for part in get_args(kind) if isinstance(part, Meta))
        raise SettingWrong(variable, f"must be {_wanted(get_args(kind)[0], meta)}{_got(value, meta)}") from None


def _path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    raise NotImplementedError


def _wanted(kind: Any, meta: Meta) -> str:
    if meta.pattern == _WEB_ADDRESS:
        return "an address like https://pay.example.com"
    if meta.pattern == _BASE_PATH:
        return "a path that begins with / and does not end with one"
    bounds = [
        f"{word} {bound}"
        for word, bound in (("at least", meta.ge), ("above", meta.gt), ("at most", meta.le))
        if bound is not None
    ]
    words = _kind_in_words(kind)
    return f"{'one of' if '|' in words else 'a'} {words}{', ' if bounds else ''}{' and '.join(bounds)}"


def _got(value: object, meta: Meta) -> str:
    return "" if (meta.extra or {}).get("secret") else f", not {re.sub(r'[^ -~]', '?', str(value))[:60]!r}"


def _check_together(settings: Settings) -> None:
    if settings.base_path == settings.lps_base_path:
        raise SettingWrong("LEDGER_LPS_BASE_PATH", "must differ from LEDGER_BASE_PATH")
    if settings.request_timeout_s <= settings.processor_timeout_s:
        raise SettingWrong("LEDGER_REQUEST_TIMEOUT_S", "must be above LEDGER_PROCESSOR_TIMEOUT_S")
    if settings.master_key and settings.master_key_file:
        raise SettingWrong("LEDGER_MASTER_KEY", "and LEDGER_MASTER_KEY_FILE must not both be set")
    if settings.processor_keys and settings.processor_keys_file:
        raise SettingWrong("LEDGER_PROCESSOR_KEYS", "and LEDGER_PROCESSOR_KEYS_FILE must not both be set")
    if settings.sealing_keys and settings.sealing_keys_file:
        raise SettingWrong("LEDGER_SEALING_KEYS", "and LEDGER_SEALING_KEYS_FILE must not both be set")
    if settings.database_app_url and not settings.database_url:
        raise SettingWrong("LEDGER_DATABASE_APP_URL", "needs LEDGER_DATABASE_URL beside it")
