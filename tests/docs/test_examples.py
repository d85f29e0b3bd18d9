"""The commands of the README, the tutorial and the how-to pages have the output that the pages show.

The tests that follow a page need a whole service with its demo, and are a part of `make test-long`.
"""

import json
import socket
from uuid import uuid4

import pytest
from campaigns.fake_stripe.running import fake_stripe_here
from tests.docs.examples import Service, Shell, matches
from tests.docs.pages import PAGES, ROOT, blocks

from ledger.postgres.prepare import _INSERT_ONLY, _NEVER_DELETED

README, TUTORIAL = ROOT / "README.md", ROOT / "docs" / "tutorial" / "first-payment.md"
AROUND = ROOT / "docs" / "tutorial" / "customers-cards-products-keys.md"
AUDITED = ROOT / "docs" / "tutorial" / "audit-a-merchant.md"
BY_STRIPE = ROOT / "docs" / "tutorial" / "payments-by-stripe.md"
HOW_TO = ROOT / "docs" / "how-to"
PRACTISED = (
    "split-an-order",
    "refund-a-payment",
    "capture-and-cancel",
    "change-an-order",
    "read-the-past",
    "prove-an-event",
    "audit-the-ledger",
    "repeat-requests-safely",
    "charge-a-surcharge",
    "authenticate-a-payer",
    "take-transfers-and-cash",
    "practise-disputes-and-settlement",
    "practise-in-the-sandbox",
    "import-products",
    "save-and-charge-cards",
    "take-cards-by-token",
    "offer-months-without-interest",
    "bill-subscriptions",
    "manage-customers",
    "stamp-invoices",
    "connect-a-stamping-provider",
    "send-reminders",
)


@pytest.fixture(scope="module")
def service(short_dir):
    """A service with short time-outs, so that the recovery needs a second instead of half a minute."""
    fast = {"LEDGER_PROCESSOR_TIMEOUT_S": "2", "LEDGER_RECOVERY_MARGIN_S": "0.2", "LEDGER_SANDBOX_DEADLINE_S": "0.5"}
    with Service(short_dir / uuid4().hex[:8], **fast) as running:
        yield running


def test_a_page_may_leave_out_a_part_but_not_differ():
    assert matches('{"id":"01a1f8fc-42b1-7630-9783-f8c7ac0e9dec",…}', f'{{"id": "{uuid4()}", "more": 1}}')
    assert not matches('{"status":"COMPLETED",…}', '{"status":"FAILED","more":1}')
    assert not matches("one", "one two")


@pytest.mark.long
def test_the_service_starts_with_the_tutorials_output(service):
    greeting = next(content for language, content in blocks(TUTORIAL) if language == "text")
    here = greeting.replace("http://127.0.0.1:8000", service.url).replace(".ledger/", f"{service.data_dir}/")
    assert matches(here, service.welcome)


@pytest.mark.long
def test_the_readmes_commands_have_its_output(service):
    with Shell(service) as shell:
        shell.follow(README)


@pytest.mark.long
def test_the_tutorials_commands_have_its_output(service, tmp_path):
    with Shell(service, **{"/tmp/cup.json": f"{tmp_path}/cup.json"}) as shell:
        shell.follow(TUTORIAL)


@pytest.mark.long
def test_the_page_about_rotating_keys_works(service, tmp_path):
    with Shell(service, **{f"/tmp/{name}.json": f"{tmp_path}/{name}.json" for name in ("shop", "next")}) as shell:
        shell.follow(HOW_TO / "rotate-api-keys.md")


@pytest.mark.long
@pytest.mark.parametrize("page", PRACTISED)
def test_the_pages_about_orders_work(service, tmp_path, page):
    with Shell(service, **{"/tmp/": f"{tmp_path}/"}) as shell:
        shell.follow(HOW_TO / f"{page}.md")


@pytest.mark.long
def test_the_tutorial_about_what_is_around_the_order_works(service, tmp_path):
    with Shell(service, **{"/tmp/": f"{tmp_path}/"}) as shell:
        shell.follow(AROUND)


@pytest.mark.long
def test_the_tutorial_about_an_audit_works(service, tmp_path):
    with Shell(service, **{"/tmp/": f"{tmp_path}/"}) as shell:
        shell.follow(AUDITED)


@pytest.mark.long
def test_the_tutorial_about_stripe_works(short_dir, tmp_path):
    with fake_stripe_here() as stripe:
        settings = {"LEDGER_STRIPE_URL": stripe, "LEDGER_PORT": _free_port()}  # Stripe's messages go to this port
        with (
            Service(short_dir / uuid4().hex[:8], **settings) as service,
            Shell(service, **{"/tmp/": f"{tmp_path}/", "http://127.0.0.1:12111": stripe}) as shell,
        ):
            shell.follow(BY_STRIPE)


def _free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return str(listening.getsockname()[1])


def test_every_page_with_a_merchant_of_its_own_is_run():
    making = {page.stem for page in HOW_TO.glob("*.md") if "merchants create Practice" in page.read_text()}
    assert making == set(PRACTISED)


@pytest.mark.long
def test_the_page_about_following_the_log_works(service):
    with Shell(service) as shell:
        shell.follow(HOW_TO / "follow-the-log.md")


@pytest.mark.long
def test_the_page_about_backups_works(service, short_dir):
    place = short_dir / uuid4().hex[:8]
    place.mkdir(mode=0o711)
    with Shell(
        service, **{f"/tmp/ledger-{name}": f"{place}/{name}" for name in ("backup", "restored", "master")}
    ) as shell:
        shell.follow(HOW_TO / "back-up-and-restore.md")


@pytest.mark.long
def test_the_page_about_upgrades_works(service):
    with Shell(service) as shell:
        shell.follow(HOW_TO / "upgrade.md")


@pytest.mark.long
def test_the_bakerys_scenario_runs(service, tmp_path):
    page = blocks(HOW_TO / "write-a-scenario.md")
    scenario, *outputs = [content for language, content in page if language in {"json", "text"}][:3]
    (tmp_path / "espiga.jsonl").write_text(scenario)
    with Shell(service, **{"espiga.jsonl": f"{tmp_path}/espiga.jsonl"}) as shell:
        assert [matches(expected, shell.run("ledger seed espiga.jsonl")) for expected in outputs] == [True, True]


def test_the_role_that_an_operator_creates_has_the_rights_of_ours():
    page = " ".join((HOW_TO / "use-your-own-postgres.md").read_text().split())  # its lines are broken anywhere
    assert f"revoke update, delete, truncate on {', '.join(_INSERT_ONLY)} from" in page
    assert f"revoke delete, truncate on {', '.join(_NEVER_DELETED)} from" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_json_that_is_shown_whole_is_json(page):
    for language, content in blocks(page):
        if language == "json" and "…" not in content:
            for part in [content] if content.startswith("{\n") else content.splitlines():
                json.loads(part)
