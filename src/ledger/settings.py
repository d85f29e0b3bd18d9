"""Every setting of the service: an environment variable `LEDGER_…`, its type, default, unit and meaning.

Read the environment only here. A wrong value stops the start with one line that names the variable, and never contains
the value of a secret.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from ledger.database_urls import wrong_with

PREFIX: Final = "LEDGER_"
_BASE_PATH: Final = r"^(/[A-Za-z0-9._~-]+)+$"
_WEB_ADDRESS: Final = r"^(https?://[^/?#\s]+)?$"
_MAIL_SERVER: Final = (
    r"^(smtps://([^/?#@\s]+@)?[^/?#@\s]+/?|smtp://([^/?#@\s]+@)?[^/?#@\s]+/?(\?tls=(starttls|none))?)$"
)
_MAIL_ADDRESS: Final = r"^([A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*)?$"
_SERVER: Final = r"^https?://[^/?#\s]+$"
_COLLECTOR: Final = r"^(https?://[^/?#@\s]+(/[^?#\s]*)?)?$"
_ARCHIVE: Final = r"^(s3://[^/?#@\s]+(/[^?#\s]*)?|(?![A-Za-z0-9+.-]*://).+)?$"
_OBJECTS: Final = r"^(s3://[^/?#@\s]+(/[^?#\s]*)?)?$"
_ORIGIN: Final = r"^([A-Za-z0-9.:_~\[\]-]+(/[A-Za-z0-9._~-]+)*)?$"
_SECRET: Final = {"secret": True}
_LOOKS_SECRET: Final = re.compile(r"@|password|[0-9A-Za-z+/_-]{32}", re.IGNORECASE)
"""A connection string, an address with a password, or a key of 32 bytes."""
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_SECONDS: Final = {"unit": "seconds"}
_API_PROCESSES_MAX: Final = 4
"""Of `auto`: one Postgres has little left for a fifth process (`python -m benchmarks ceiling`)."""


class CannotRun(Exception):
    """A command or the service cannot run. The message is one line, with a reason that an operator can act on."""


class SettingWrong(CannotRun):
    """A setting has an invalid value."""

    def __init__(self, variable: str, reason: str) -> None:
        super().__init__(f"{variable} {reason}")
        self.variable = variable


_PER_MINUTE: Final = {"production": 100, "sandbox": 1200}
_PER_SECOND: Final = {"production": 10, "sandbox": 100}


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a process. `read_settings` makes them; they are passed as a value and never changed."""

    environment: Annotated[
        Literal["sandbox", "production"],
        Meta(description="The sandbox moves no money. Production requires a master key and durable database settings."),
    ] = "sandbox"
    database_url: Annotated[
        str | None,
        Meta(
            description="The database on your own Postgres, as the role that owns it; unset: the embedded Postgres.",
            extra=_SECRET,
        ),
    ] = None
    database_app_url: Annotated[
        str | None,
        Meta(
            description="The same database as the application's role, which cannot change events; unset: the owner "
            "creates the role.",
            extra=_SECRET,
        ),
    ] = None
    database_vault_url: Annotated[
        str | None,
        Meta(
            description="The same database as the vault's role, which alone reads the numbers of saved cards; unset: "
            "the owner creates the role.",
            extra=_SECRET,
        ),
    ] = None
    read_database_url: Annotated[
        str | None,
        Meta(
            description="The same database on a standby, which answers lists, searches and reports that it can answer as new "
            "as the primary; unset: the primary answers them.",
            extra=_SECRET,
        ),
    ] = None
    database_wait_s: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="How long the start of a service waits for a primary of your own Postgres that answers.",
            extra=_SECONDS,
        ),
    ] = 60.0
    data_dir: Annotated[
        Path,
        Meta(
            description="The directory of the embedded Postgres, its log and the sandbox's own secrets. Its write-ahead "
            "log keeps up to 1 GB of files to write over, and may take 4 GB under load."
        ),
    ] = Path(".ledger")
    wal_archive: Annotated[
        str,
        Meta(
            pattern=_ARCHIVE,
            description="Where the embedded Postgres archives its write-ahead log, for a restore up to a moment: a folder, "
            "or `s3://bucket/prefix` with AWS's own variables for region, endpoint and credentials. On your own "
            "Postgres, where its archive_command does, for the restore alone.",
        ),
    ] = ""
    host: Annotated[str, Meta(min_length=1, description="The address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="The port to listen on; 0 takes a free one.")] = 8000
    workers: Annotated[
        Literal["auto"] | Annotated[int, Meta(ge=1, le=64)],
        Meta(
            description="The number of API processes, which share the port; auto: one, from four cores on one for every "
            "two cores, at most four, and not more than the database has connections for."
        ),
    ] = "auto"
    ping_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            le=3600,
            description="How long a merchant may wait for an API process or a worker that is stopped or hangs: its "
            "parent ends it and starts another once it has left a ping unanswered for three seconds less.",
            extra=_SECONDS,
        ),
    ] = 10.0
    base_path: Annotated[str, Meta(pattern=_BASE_PATH, description="The path at which the API begins.")] = "/api"
    public_url: Annotated[
        str,
        Meta(
            pattern=_WEB_ADDRESS,
            description="The address at which payers' browsers reach the API, without its base path; unset: the "
            "address it listens on.",
        ),
    ] = ""
    lps_base_path: Annotated[
        str, Meta(pattern=_BASE_PATH, description="The path at which the products' API begins.")
    ] = "/lps"
    master_key: Annotated[
        str | None,
        Meta(description="32 bytes in hex or base64, from which every other key is derived.", extra=_SECRET),
    ] = None
    master_key_file: Annotated[
        Path | None, Meta(description="A file with the master key; unset: the sandbox generates its own.")
    ] = None
    sealing_keys: Annotated[
        str | None,
        Meta(
            description="Keys like the master key that seal personal data, separated by commas, the newest first; "
            "`master` is the master key's own.",
            extra=_SECRET,
        ),
    ] = None
    sealing_keys_file: Annotated[
        Path | None, Meta(description="A file with the sealing keys, one per line; unset: only the master key's own.")
    ] = None
    checkpoint_keys: Annotated[
        str | None,
        Meta(
            description="Keys like the master key from which the keys are derived that sign the checkpoints of merchants' "
            "logs, separated by commas, the newest first; `master` is the master key's own. The first two sign.",
            extra=_SECRET,
        ),
    ] = None
    checkpoint_keys_file: Annotated[
        Path | None,
        Meta(description="A file with the keys of checkpoints, one per line; unset: only the master key's own."),
    ] = None
    processor_keys: Annotated[
        str | None,
        Meta(
            description="Keys by which processors sign their messages: `name:key`, 32 bytes in hex or base64, "
            "separated by commas; two with one name while that key is replaced.",
            extra=_SECRET,
        ),
    ] = None
    processor_keys_file: Annotated[
        Path | None, Meta(description="A file with the processors' keys, one `name:key` per line.")
    ] = None
    body_limit: Annotated[
        int, Meta(ge=1024, le=64 << 20, description="The largest request body.", extra={"unit": "bytes"})
    ] = 256 << 10
    import_body_limit: Annotated[
        int,
        Meta(ge=1024, le=64 << 20, description="The largest body of an import of products.", extra={"unit": "bytes"}),
    ] = 5 << 20
    head_timeout_s: Annotated[
        float,
        Meta(gt=0, le=600, description="How long a request's line and headers may take to arrive.", extra=_SECONDS),
    ] = 10.0
    body_timeout_s: Annotated[
        float, Meta(gt=0, le=600, description="How long a whole request may take to arrive.", extra=_SECONDS)
    ] = 20.0
    body_rate_min: Annotated[
        int,
        Meta(
            ge=0,
            description="How fast a request must arrive after its first five seconds.",
            extra={"unit": "bytes/second"},
        ),
    ] = 500
    idle_timeout_s: Annotated[
        float, Meta(gt=0, le=3600, description="How long a connection without a request stays open.", extra=_SECONDS)
    ] = 75.0
    connections_max: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="How many connections a process keeps open; above that, it closes idle ones.",
            extra={"unit": "connections"},
        ),
    ] = 2048
    request_timeout_s: Annotated[
        float, Meta(gt=0, le=600, description="How long a request may take until it is answered.", extra=_SECONDS)
    ] = 35.0
    processor_timeout_s: Annotated[
        float,
        Meta(gt=0, le=600, description="How long a payment processor may take to answer.", extra=_SECONDS),
    ] = 30.0
    subscription_unpaid_days: Annotated[
        int,
        Meta(
            ge=1,
            le=365,
            description="How long a subscription stays UNPAID before it is cancelled, by the merchant's clock.",
            extra={"unit": "days"},
        ),
    ] = 60
    renewals_per_second: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="How many due subscriptions a worker begins to bill in a second at most. More make a renewal day "
            "shorter, and requests slower meanwhile.",
        ),
    ] = 40
    recovery_margin_s: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="How long after its deadline, or after it came back unanswered, an open call is looked up at the "
            "processor.",
            extra=_SECONDS,
        ),
    ] = 5.0
    not_found_final_s: Annotated[
        float,
        Meta(
            ge=0,
            le=86400,
            description="How long after a call the processor's 'not found' becomes final.",
            extra=_SECONDS,
        ),
    ] = 60.0
    unmatched_alarm_s: Annotated[
        float,
        Meta(
            ge=0,
            le=31_536_000,
            description="How long a processor's message that no order matches counts in the metrics of waiting messages. "
            "Afterwards `ledger messages list` still shows it.",
            extra=_SECONDS,
        ),
    ] = 604_800.0
    files_url: Annotated[
        str,
        Meta(
            pattern=_OBJECTS,
            description="Where the XML and PDF of invoices and archived events are stored: `s3://bucket/prefix`, with AWS's own variables for "
            "region, endpoint and credentials; unset: the folder `files` in the data directory.",
        ),
    ] = ""
    seal_s: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="How often the worker extends the Merkle trees of merchants' logs and signs a checkpoint of each; 0: "
            "never.",
            extra=_SECONDS,
        ),
    ] = 10.0
    log_origin: Annotated[
        str,
        Meta(
            pattern=_ORIGIN,
            description="How the origins of merchants' logs begin, in which the merchant's id follows: it names the logs in "
            "their checkpoints and keys, and should never change. Unset: the host of LEDGER_PUBLIC_URL and `/v1/log`.",
        ),
    ] = ""
    checkpoints_url: Annotated[
        str,
        Meta(
            pattern=_ARCHIVE,
            description="Where the worker writes the signed checkpoints of merchants' logs, outside the database: a folder, "
            "or `s3://bucket/prefix` with AWS's own variables for region, endpoint and credentials; unset: the folder "
            "`checkpoints` in the data directory.",
        ),
    ] = ""
    stamping_provider: Annotated[
        Literal["none", "finkok", "sw-sapien"],
        Meta(
            description="The provider that stamps electronic invoices; `none`: the sandbox simulates one, and production "
            "stamps nothing. The sandbox uses the provider's test service."
        ),
    ] = "none"
    stamping_user: Annotated[str, Meta(description="The user name at the provider. Finkok needs one.")] = ""
    stamping_secret: Annotated[
        str | None,
        Meta(description="Finkok's password, or SW sapien's token.", extra=_SECRET),
    ] = None
    stamping_url: Annotated[
        str,
        Meta(pattern=_WEB_ADDRESS, description="Another address of the provider's service than its published one."),
    ] = ""
    stripe_url: Annotated[
        str,
        Meta(
            pattern=_SERVER,
            description="The address of Stripe's interface. Another one is for tests with a substitute.",
        ),
    ] = "https://api.stripe.com"
    smtp_url: Annotated[
        str | None,
        Meta(
            description="The mail server of messages to payers: `smtps://user:password@host:465` for TLS, "
            "`smtp://user:password@host:587` for STARTTLS, `?tls=none` for neither; unset: messages are only logged.",
            extra=_SECRET,
        ),
    ] = None
    mail_from: Annotated[
        str,
        Meta(
            pattern=_MAIL_ADDRESS,
            description="The address that messages to payers come from, under the merchant's name.",
        ),
    ] = ""
    mail_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            le=60,
            description="How long an attempt to hand a message to the mail server may take.",
            extra=_SECONDS,
        ),
    ] = 10.0
    webhook_allow: Annotated[
        str,
        Meta(
            description="Private networks to which events may be posted, by http too, separated by commas: "
            "`10.1.0.0/16,fd12:3456::/48`. Metadata services of clouds stay excluded."
        ),
    ] = ""
    sandbox_delay_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=60_000,
            description="How long the sandbox processor takes to answer.",
            extra={"unit": "milliseconds"},
        ),
    ] = 0
    sandbox_deadline_s: Annotated[
        float,
        Meta(
            gt=0,
            le=600,
            description="The processor timeout of the sandbox for card 0119, which gets no answer.",
            extra=_SECONDS,
        ),
    ] = 2.0
    journal_queue_max: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="How many commands may wait for the journal; further ones are answered 503.",
            extra={"unit": "commands"},
        ),
    ] = 4096
    disk_probe_s: Annotated[
        float,
        Meta(
            gt=0,
            le=60,
            description="How often each process tries whether the database has room to write, which /health/ready and "
            "ledger_journal_up show.",
            extra=_SECONDS,
        ),
    ] = 2.0
    commit_age_max_s: Annotated[
        float,
        Meta(
            gt=0,
            le=60,
            description="How long the oldest commit in flight may take until /health/ready is 503. A commit waits for the "
            "database's disk and its synchronous standby.",
            extra=_SECONDS,
        ),
    ] = 2.0
    batch_max: Annotated[
        int,
        Meta(ge=1, le=4096, description="The largest number of commands in one commit.", extra={"unit": "commands"}),
    ] = 256
    requests_per_minute: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description="The rate limit of each API key whose merchant has none of its own; 0 means unlimited; unset: "
            f"{_PER_MINUTE['production']} in production, {_PER_MINUTE['sandbox']} in the sandbox. The API processes of one "
            "`serve` count together.",
            extra={"unit": "requests"},
        ),
    ] = None
    requests_per_second: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description=f"The same limit for one second; unset: {_PER_SECOND['production']} in production, "
            f"{_PER_SECOND['sandbox']} in the sandbox.",
            extra={"unit": "requests"},
        ),
    ] = None
    merchant_rate_factor: Annotated[
        int,
        Meta(
            ge=0,
            le=100,
            description="How many times the rate limit of one API key all keys of a merchant may use together; 0 means "
            "no such limit.",
        ),
    ] = 2
    metrics_token: Annotated[
        str | None,
        Meta(
            description="The bearer token for /metrics; unset: /metrics answers this machine where LEDGER_HOST and "
            "LEDGER_PUBLIC_URL are loopback or unset, else no client.",
            extra=_SECRET,
        ),
    ] = None
    access_log: Annotated[Literal["on", "off"], Meta(description="Whether each request is logged, at level info.")] = (
        "on"
    )
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="The least severe level that is logged.")
    ] = "info"
    otlp_endpoint: Annotated[
        str,
        Meta(
            pattern=_COLLECTOR,
            description="The address of an OpenTelemetry collector, to which traces are sent by OTLP over HTTP, below "
            "`/v1/traces`; unset: no traces.",
        ),
    ] = ""
    log_format: Annotated[
        Literal["json", "text"], Meta(description="How lines are logged: as JSON objects, or as text for a person.")
    ] = "json"

    def __repr__(self) -> str:
        return f"Settings({self.environment}, {self.data_dir})"  # the other fields include secrets


class Row(Struct, frozen=True):
    """One setting, described for a table."""

    variable: str
    kind: str
    default: str
    unit: str
    description: str
    value: str


def read_settings(environ: Mapping[str, str], **flags: object) -> Settings:
    """Returns the settings from the environment. A flag of the command line overrides a variable, unless it is None.

    Raises SettingWrong for the first variable that is wrong, alone or together with another. An empty variable is
    unset.
    """
    given: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    values: dict[str, Any] = {}
    for name, type_ in _types().items():
        variable = variable_of(name)
        if name in given or environ.get(variable):
            values[name] = _converted(variable, given.get(name, environ.get(variable)), type_)
    settings = Settings(**values)
    _check_together(settings)
    return settings


def variable_of(name: str) -> str:
    """Returns the environment variable of a field: `port` is LEDGER_PORT. The address of a collector has a standard
    one.
    """
    return "OTEL_EXPORTER_OTLP_ENDPOINT" if name == "otlp_endpoint" else PREFIX + name.upper()


def api_processes(settings: Settings) -> int:
    """Returns the number of API processes. The cores are those that this process may use."""
    if settings.workers != "auto":
        return settings.workers
    return max(1, min(len(os.sched_getaffinity(0)) // 2, _API_PROCESSES_MAX))


def stores_documents(settings: Settings) -> bool:
    """Returns whether the service can stamp documents, whose files it then stores."""
    return settings.environment == "sandbox" or settings.stamping_provider != "none"


def public_url(settings: Settings) -> str:
    """Returns the address at which a payer's browser reaches the API."""
    return f"{settings.public_url or f'http://{settings.host}:{settings.port}'}{settings.base_path}"


def log_origin(settings: Settings) -> str:
    """Returns how the origins of merchants' logs begin: without the port, which may differ between two starts."""
    return settings.log_origin or f"{urlsplit(public_url(settings)).hostname or settings.host}/v1/log"


def request_limits(settings: Settings) -> tuple[int, int]:
    """Returns how many requests a key may make per minute and per second if its merchant has no limits of its own."""
    per_minute, per_second = settings.requests_per_minute, settings.requests_per_second
    return (
        _PER_MINUTE[settings.environment] if per_minute is None else per_minute,
        _PER_SECOND[settings.environment] if per_second is None else per_second,
    )


def is_private(settings: Settings) -> bool:
    """Returns whether only this machine reaches the service: it listens on loopback, and has no public address.

    Behind a proxy a service on loopback is public, and has such an address.
    """
    proxy = urlsplit(settings.public_url).hostname if settings.public_url else None
    return _is_loopback(settings.host) and (proxy is None or _is_loopback(proxy))


def _is_loopback(host: str) -> bool:
    """Returns whether only this machine reaches a host: a loopback address, or the name of one."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def webhook_networks(settings: Settings) -> tuple[IPv4Network | IPv6Network, ...]:
    """Returns the networks to which events may be posted although they are private."""
    return tuple(ip_network(text.strip()) for text in settings.webhook_allow.split(",") if text.strip())


def errors_url(settings: Settings) -> str:
    """Returns the address of the service's page about errors."""
    return f"{settings.public_url or f'http://{settings.host}:{settings.port}'}/docs/errors"


def likely_typos(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields variables whose name nearly equals that of a setting, each with the setting that was probably meant."""
    variables = [variable_of(name) for name in Settings.__struct_fields__]
    for variable in environ:
        if variable.startswith(PREFIX) and variable not in variables:
            for meant in difflib.get_close_matches(variable, variables, n=1, cutoff=0.9):
                yield variable, meant


def describe(settings: Settings) -> list[Row]:
    """Returns every setting in the table's order, with its current value; for a secret, only whether it is set."""
    rows = []
    for (name, type_), default in zip(_types().items(), Settings.__struct_defaults__, strict=True):
        meta = next(part for part in get_args(type_) if isinstance(part, Meta))
        extra = meta.extra or {}
        value = getattr(settings, name)
        rows.append(
            Row(
                variable=variable_of(name),
                kind=_type_name(get_args(type_)[0]),
                default="" if default is None else str(default),
                unit=extra.get("unit", ""),
                description=meta.description or "",
                value="" if value is None else "(set)" if extra.get("secret") else str(value),
            )
        )
    return rows


def _types() -> dict[str, Any]:
    return get_type_hints(Settings, include_extras=True)


def _type_name(type_: Any) -> str:
    options = get_args(type_)
    if options and all(isinstance(option, str) for option in options):
        return " | ".join(options)
    if any(get_origin(option) is Literal for option in options):
        return " | ".join(_type_name(option) for option in options)
    words = {int: "whole number", float: "number", str: "text", Path: "path"}
    plain = [get_args(option)[0] if get_origin(option) is Annotated else option for option in options]
    return next(words[part] for part in (*plain, type_) if part in words)


def _converted(variable: str, value: object, type_: Any) -> Any:
    try:
        return msgspec.convert(value, type_, strict=False, dec_hook=_path)
    except msgspec.ValidationError:
        meta = next(part for part in get_args(type_) if isinstance(part, Meta))
        raise SettingWrong(variable, f"must be {_expected(get_args(type_)[0], meta)}{_given(value, meta)}") from None


def _path(type_: type, value: object) -> object:
    if type_ is Path and isinstance(value, str | Path):
        return Path(value)
    raise NotImplementedError


def _expected(type_: Any, meta: Meta) -> str:
    if meta.pattern == _WEB_ADDRESS:
        return "an address like https://pay.example.com"
    if meta.pattern == _SERVER:
        return "an address like https://api.stripe.com, without a path"
    if meta.pattern == _COLLECTOR:
        return "an address like http://127.0.0.1:4318, without a user or a query"
    if meta.pattern == _MAIL_ADDRESS:
        return "an e-mail address without a name, like payments@example.com"
    if meta.pattern == _ARCHIVE:
        return "a folder, or an address like s3://bucket/prefix"
    if meta.pattern == _OBJECTS:
        return "an address like s3://bucket/prefix, without a user or a query"
    if meta.pattern == _ORIGIN:
        return "an address without a scheme, like pay.example.com/v1/log"
    if meta.pattern == _BASE_PATH:
        return "a path that begins with / and does not end with one"
    of_options = [part for option in get_args(type_) for part in get_args(option) if isinstance(part, Meta)]
    bounds = [
        f"{word} {bound}"
        for each in (meta, *of_options)
        for word, bound in (("at least", each.ge), ("above", each.gt), ("at most", each.le))
        if bound is not None
    ]
    words = _type_name(type_)
    if of_options:
        return f"{'' if '|' in words else 'a '}{words.replace(' | ', ' or a ')}{', ' if bounds else ''}{' and '.join(bounds)}"
    return f"{'one of' if '|' in words else 'a'} {words}{', ' if bounds else ''}{' and '.join(bounds)}"


def _given(value: object, meta: Meta) -> str:
    """Returns the value for a message, unless it is a secret or looks like one that was given to another setting."""
    text = re.sub(r"[^ -~]", "?", str(value))
    looks_secret = _LOOKS_SECRET.search(text)
    return "" if (meta.extra or {}).get("secret") or looks_secret else f", not {text[:60]!r}"


def _check_together(settings: Settings) -> None:
    if settings.base_path == settings.lps_base_path:
        raise SettingWrong("LEDGER_LPS_BASE_PATH", "must differ from LEDGER_BASE_PATH")
    if settings.request_timeout_s <= settings.processor_timeout_s:
        raise SettingWrong("LEDGER_REQUEST_TIMEOUT_S", "must be above LEDGER_PROCESSOR_TIMEOUT_S")
    if settings.not_found_final_s <= settings.processor_timeout_s:  # until then, the call may still be sent
        raise SettingWrong("LEDGER_NOT_FOUND_FINAL_S", "must be above LEDGER_PROCESSOR_TIMEOUT_S")
    for name in ("master_key", "processor_keys", "sealing_keys", "checkpoint_keys"):
        if getattr(settings, name) and getattr(settings, f"{name}_file"):
            raise SettingWrong(variable_of(name), f"and {variable_of(f'{name}_file')} must not both be set")
    _check_log_origin(settings)
    _check_stamping(settings)
    _check_mail(settings)
    _check_stripe(settings)
    _check_webhooks(settings)
    for variable, url in (
        ("LEDGER_DATABASE_URL", settings.database_url),
        ("LEDGER_DATABASE_APP_URL", settings.database_app_url),
        ("LEDGER_DATABASE_VAULT_URL", settings.database_vault_url),
        ("LEDGER_READ_DATABASE_URL", settings.read_database_url),
    ):
        if url and not settings.database_url:
            raise SettingWrong(variable, "needs LEDGER_DATABASE_URL beside it")
        if url and (wrong := wrong_with(url)):
            raise SettingWrong(variable, wrong)


def _check_stripe(settings: Settings) -> None:
    try:
        server = urlsplit(settings.stripe_url)
        host, _ = server.hostname, server.port
    except ValueError:
        host = None
    if not host or "@" in settings.stripe_url:
        raise SettingWrong(
            "LEDGER_STRIPE_URL", "must name a host without a user, and a port up to 65535 if it names one"
        )
    if server.scheme != "https" and host not in _LOOPBACK:
        raise SettingWrong("LEDGER_STRIPE_URL", "must begin with https://: the accounts' secret keys are sent to it")


def _check_log_origin(settings: Settings) -> None:
    try:
        has_origin = re.fullmatch(_ORIGIN, log_origin(settings)) is not None
    except ValueError:  # of an address that is none
        has_origin = False
    if not has_origin:
        raise SettingWrong("LEDGER_LOG_ORIGIN", "must be set: the host of LEDGER_PUBLIC_URL cannot name a log")


def _check_webhooks(settings: Settings) -> None:
    try:
        webhook_networks(settings)
    except ValueError:
        raise SettingWrong(
            "LEDGER_WEBHOOK_ALLOW",
            "must be networks separated by commas, each with zeros after its prefix, like 10.1.0.0/16,fd12:3456::/48",
        ) from None


def _check_mail(settings: Settings) -> None:
    if settings.smtp_url is None:
        return
    if not re.fullmatch(_MAIL_SERVER, settings.smtp_url):
        raise SettingWrong("LEDGER_SMTP_URL", "must be an address like smtps://user:password@mail.example.com:465")
    if not settings.mail_from:
        raise SettingWrong("LEDGER_MAIL_FROM", "must be set with LEDGER_SMTP_URL")
    try:
        server = urlsplit(settings.smtp_url)
        host, _ = server.hostname, server.port
    except ValueError:
        host = None
    if not host:
        raise SettingWrong("LEDGER_SMTP_URL", "must name a host, and a port up to 65535 if it names one")
    if server.username is not None and "tls=none" in server.query and host not in _LOOPBACK:
        raise SettingWrong("LEDGER_SMTP_URL", "must not send a password in the clear: leave out tls=none")


def _check_stamping(settings: Settings) -> None:
    if settings.stamping_provider != "none" and not settings.stamping_secret:
        raise SettingWrong("LEDGER_STAMPING_SECRET", "must be set with LEDGER_STAMPING_PROVIDER")
    if settings.stamping_provider == "finkok" and not settings.stamping_user:
        raise SettingWrong("LEDGER_STAMPING_USER", "must be set with LEDGER_STAMPING_PROVIDER=finkok")
