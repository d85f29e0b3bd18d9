"""Puts one process's ledger together: the journal with its read models, the processors, the order numbers.

Import `projections` in this module only; the other modules of `ledger` get what they need as arguments. Beside it, only
the worker, the command line, the seeding and the benchmarks, which wire their own processes, may import it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.domain.processor_accounts.terms import AccountMode
from ledger.invoicing.contract import StampingProvider
from ledger.invoicing.files import FOLDER, DocumentFiles, files_address, files_place
from ledger.invoicing.invoicing import Invoicing
from ledger.invoicing.issuers import Issuers
from ledger.invoicing.providers.sandbox import SandboxProvider
from ledger.invoicing.self_invoice_links import PATH, SelfInvoiceLinks
from ledger.journal.commit.shard_writers import ShardWriters, writer_kind
from ledger.journal.commit.writer import Writer
from ledger.journal.encryption.data_keys import DataKeys
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.journal.event_archive import EventArchive
from ledger.journal.journal import Journal
from ledger.journal.operator import Operator
from ledger.notifications.contract import Notifier
from ledger.notifications.log import LogNotifier
from ledger.operations.calls import CALLS
from ledger.operations.context.clock import Clock, MerchantClocks
from ledger.operations.context.ledger import CallTimeouts, Ledger
from ledger.operations.context.order_numbers import OrderNumbers
from ledger.operations.context.webhooks import Webhooks
from ledger.postgres.connection import SharedClient
from ledger.postgres.dataloader import DataLoader
from ledger.processors.account_health import AccountHealth
from ledger.processors.account_keys import AccountKeyStore
from ledger.processors.card_references import CardReferences
from ledger.processors.connected_accounts import ConnectedAccounts
from ledger.processors.contract import Processor
from ledger.processors.merchant_accounts import MerchantAccounts
from ledger.processors.payer_returns import PATH as PAYER_RETURNS
from ledger.processors.payer_returns import PayerReturns
from ledger.processors.registry import AccountKind, Kinds
from ledger.processors.sandbox import account_kind
from ledger.processors.sandbox.accounts import SandboxAccounts
from ledger.processors.sandbox.call_executor import CallExecutor
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.processors.stripe.account_kind import StripeKind
from ledger.security.secrets import Purpose, Secrets, load_sealing_keys, load_secrets
from ledger.settings import Settings, is_private, public_url, stores_documents, webhook_networks
from ledger.telemetry.metrics import SHARED_DIRECTORY
from ledger.vault.vault import Vault
from ledger.webhooks.addresses import Destinations
from ledger.webhooks.client import WebhookClient
from ledger.webhooks.endpoint_secrets import EndpointSecretStore
from projections.inline import Inline
from projections.processor_accounts import find_accounts, merchants_with_accounts
from projections.webhook_endpoints import count_endpoints, find_last_sequence, find_sequence_at

if TYPE_CHECKING:
    from ledger.tracing.tracing import Tracing


def start_tracing(settings: Settings, process: str) -> Tracing | None:
    """Returns the recorder of this process's spans, or None if the settings name no collector."""
    if not settings.otlp_endpoint:
        return None
    from ledger.tracing.tracing import Tracing

    return Tracing(settings.otlp_endpoint, process)


@asynccontextmanager
async def open_ledger(
    settings: Settings,
    *,
    clock: Clock | None = None,
    tracing: Tracing | None = None,
    operator: Operator | None = None,
) -> AsyncIterator[Ledger]:
    """Yields a ledger on the settings' database. At the end of the context, its running operations finish first.

    `settings.database_url` must be set. With `tracing`, commits and processor calls record spans. The log keeps
    the `operator` of a command beside every event. Raises psycopg.OperationalError if the database is unreachable,
    SettingWrong if the secrets cannot be loaded.
    """
    assert settings.database_url is not None, "the settings of a process name its database"
    url = settings.database_url
    async with AsyncExitStack() as stack:
        keys = DataKeys(url, SealingKeys(load_sealing_keys(settings)))
        journal = Journal(
            url,
            Inline(),
            keys,
            batch_max=settings.batch_max,
            queue_max=settings.journal_queue_max,
            new_writer=await _new_writer(url, tracing),
            operator=operator,
            archive=EventArchive(files_address(settings.files_url, settings.data_dir)),
        )
        await journal.start()
        stack.push_async_callback(journal.stop)
        accounts = await _accounts(settings, url, stack)
        processors = await _processors(settings, url, stack, accounts, tracing)
        call_timeouts = CallTimeouts(
            processor_timeout_s=settings.processor_timeout_s,
            not_found_late_s=settings.not_found_final_s - settings.processor_timeout_s,
        )
        if clock is None and settings.environment == "sandbox":
            clock = clocks = MerchantClocks(url)
            await clocks.start()
            stack.push_async_callback(clocks.stop)
        secrets = load_secrets(settings)
        order_numbers = await stack.enter_async_context(OrderNumbers(url, secrets.key(Purpose.ORDER_NUMBERS)))
        vault = await _vault(settings, secrets, stack)
        ledger = Ledger(
            journal,
            processors,
            order_numbers,
            calls=CALLS,
            clock=clock,
            vault=vault,
            card_references=CardReferences(accounts.keys.client),
            accounts=accounts,
            webhooks=_webhooks(settings, url, stack),
            invoicing=_invoicing(settings, secrets, url, stack),
            payer_returns=_payer_returns(settings, secrets),
            health=stack.enter_context(closing(AccountHealth(SHARED_DIRECTORY))),
            notifier=_notifier(settings),
            call_timeouts=call_timeouts,
            subscription_unpaid_days=settings.subscription_unpaid_days,
        )
        stack.push_async_callback(ledger.drain)
        yield ledger


async def _new_writer(url: str, tracing: Tracing | None) -> Callable[..., Writer | ShardWriters]:
    """Returns what makes the journal's writer: one of another kind where Citus divides the log, without spans."""
    kind = await writer_kind(url)
    return kind if kind is ShardWriters or tracing is None else tracing.new_writer


def _notifier(settings: Settings) -> Notifier:
    """Returns the notifier of the settings: without a mail server, the one that logs."""
    if settings.smtp_url is None:
        return LogNotifier()
    from ledger.notifications.smtp import SmtpNotifier, parse_server

    return SmtpNotifier(parse_server(settings.smtp_url), settings.mail_from, timeout_s=settings.mail_timeout_s)


async def _vault(settings: Settings, secrets: Secrets, stack: AsyncExitStack) -> Vault | None:
    """Returns the vault of saved cards. Without a role of its own there is none, and no card can be saved."""
    if settings.database_vault_url is None:
        return None
    keys = SealingKeys(load_sealing_keys(settings, Purpose.CARD_KEY_WRAPPING), holder="payment method")
    vault = Vault(settings.database_vault_url, keys, secrets.key(Purpose.CARD_FINGERPRINT))
    await vault.start()
    stack.push_async_callback(vault.stop)
    return vault


async def _accounts(settings: Settings, url: str, stack: AsyncExitStack) -> MerchantAccounts:
    """Returns the access to merchants' accounts with processors, and to their keys."""
    reads = DataLoader[UUID, tuple[ProcessorAccount, ...]](url, "ledger-processor-accounts", find_accounts)
    await reads.start()
    stack.push_async_callback(reads.stop)
    sealing = SealingKeys(load_sealing_keys(settings, Purpose.PROCESSOR_KEY_WRAPPING), holder="processor account")
    keys = AccountKeyStore(url, sealing)
    stack.push_async_callback(keys.stop)
    is_sandbox = settings.environment == "sandbox"
    kinds = processor_kinds(settings)
    for kind in kinds.values():
        stack.push_async_callback(kind.stop)
    return MerchantAccounts(
        reads.get,
        keys,
        kinds,
        mode=AccountMode.TEST if is_sandbox else AccountMode.LIVE,
        built_in=account_kind.TERMS if is_sandbox else None,
        public_url=public_url(settings),
    )


def processor_kinds(settings: Settings) -> Kinds:
    """Returns the processors with which merchants of this installation can connect accounts, by their names.

    In production there is no simulated one, and every account is one with a real company.
    """
    kinds: list[AccountKind] = [StripeKind(settings.stripe_url)]
    if settings.environment != "production":
        kinds.insert(0, account_kind.SandboxKind())
    return {kind.name: kind for kind in kinds}


def _webhooks(settings: Settings, url: str, stack: AsyncExitStack) -> Webhooks:
    """Returns the access to webhooks. It opens no connection before it is used."""
    sealing = load_sealing_keys(settings, Purpose.WEBHOOK_KEY_WRAPPING)
    secrets = EndpointSecretStore(url, SealingKeys(sealing, holder="webhook endpoint"))
    stack.push_async_callback(secrets.stop)
    destinations = Destinations(
        is_local=settings.environment == "sandbox" and is_private(settings), networks=webhook_networks(settings)
    )
    client = WebhookClient(destinations)
    stack.push_async_callback(client.close)

    async def count(merchant_id: UUID) -> tuple[int, int]:
        async with secrets.client.turn() as connection:
            return await count_endpoints(connection, merchant_id)

    async def last_sequence(merchant_id: UUID, endpoint_id: UUID) -> int:
        async with secrets.client.turn() as connection:
            return await find_last_sequence(connection, merchant_id, endpoint_id)

    async def sequence_at(merchant_id: UUID, stream_id: UUID, version: int) -> int:
        async with secrets.client.turn() as connection:
            return await find_sequence_at(connection, merchant_id, stream_id, version)

    return Webhooks(secrets, client, count, last_sequence, sequence_at)


def _payer_returns(settings: Settings, secrets: Secrets) -> PayerReturns | None:
    """Returns the addresses to which payers return. None in production without https: no processor takes another."""
    if settings.environment == "production" and not public_url(settings).startswith("https:"):
        return None
    return PayerReturns(f"{public_url(settings)}/{PAYER_RETURNS}", secrets.key(Purpose.PAYER_RETURNS))


def _invoicing(settings: Settings, secrets: Secrets, url: str, stack: AsyncExitStack) -> Invoicing:
    """Returns the access to stamping. It opens no connection, and imports no library, before the first document."""
    keys = SealingKeys(load_sealing_keys(settings, Purpose.ISSUER_KEY_WRAPPING), holder="issuer")
    issuers = Issuers(url, keys, is_sandbox=settings.environment == "sandbox")
    stack.push_async_callback(issuers.stop)
    files = DocumentFiles(
        files_address(settings.files_url, settings.data_dir),
        secrets.key(Purpose.FILE_LINKS),
        f"{public_url(settings)}/{FOLDER}",
    )
    links = SelfInvoiceLinks(f"{public_url(settings)}/{PATH}", secrets.key(Purpose.SELF_INVOICE_LINKS))
    provider = _stamping_provider(settings, url, stack)
    return Invoicing(
        provider=provider, issuers=issuers, files=files, links=links, timeout_s=settings.processor_timeout_s
    )


def document_place(settings: Settings) -> str:
    """Returns where this service stores the files of documents, and reads archived events; empty if that is its folder
    and it can stamp none.
    """
    if not (settings.files_url or stores_documents(settings)):
        return ""
    return files_place(files_address(settings.files_url, settings.data_dir))


def _stamping_provider(settings: Settings, url: str, stack: AsyncExitStack) -> StampingProvider | None:
    """Returns the provider of the settings; without one, the sandbox's simulated one, and none in production."""
    if settings.stamping_provider != "none":
        from ledger.invoicing.providers.production import open_provider

        configured = open_provider(
            settings.stamping_provider,
            user=settings.stamping_user,
            secret=settings.stamping_secret or "",
            is_production=settings.environment == "production",
            url=settings.stamping_url,
        )
        stack.push_async_callback(configured.stop)
        return configured
    if settings.environment == "production":
        return None
    simulated = SandboxProvider(url, delay_s=settings.sandbox_delay_ms / 1000)
    stack.push_async_callback(simulated.stop)
    return simulated


async def _processors(
    settings: Settings, url: str, stack: AsyncExitStack, accounts: MerchantAccounts, tracing: Tracing | None
) -> ConnectedAccounts:
    """Returns the accounts of the merchants with the processor of each: in the sandbox, the simulated ones too."""
    trace = None if tracing is None else tracing.trace_calls
    simulated = None if settings.environment == "production" else await _simulated_accounts(settings, url, stack, trace)

    async def find_merchants() -> Sequence[UUID]:
        client = SharedClient(url, "ledger-processor-accounts")
        try:
            async with client.turn() as connection:
                return await merchants_with_accounts(connection)
        finally:
            await client.stop()

    adapters = {name: kind.open for name, kind in accounts.kinds.items() if kind.takes_keys}
    return ConnectedAccounts(accounts, simulated, adapters, find_merchants, trace)


async def _simulated_accounts(
    settings: Settings, url: str, stack: AsyncExitStack, trace: Callable[[Processor, str], None] | None
) -> SandboxAccounts:
    executor = CallExecutor(url)
    await executor.start()
    stack.push_async_callback(executor.stop)
    open_processor = partial(
        SandboxProcessor,
        executor,
        pages_url=f"{public_url(settings)}/sandbox/3ds",
        delay_s=settings.sandbox_delay_ms / 1000,
        silence_s=settings.sandbox_deadline_s,
    )
    return SandboxAccounts(executor, open_processor, trace)
