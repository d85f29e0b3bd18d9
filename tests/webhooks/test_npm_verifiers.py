"""The packages of npm verify what the service signs. They are found by NODE_PATH, such as after
`npm install standardwebhooks svix`, `NODE_PATH=$PWD/node_modules`; without them the test is skipped.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from ledger.webhooks.signing import new_secret, signed_headers

PROGRAM = """
let Webhook;
try { ({ Webhook } = require("%s")); } catch { process.exit(3); }
const accepts = ([secret, headers, body]) => {
  try { new Webhook(secret).verify(body, headers); return true; } catch { return false; }
};
console.log(JSON.stringify(%s.map(accepts)));
"""


@pytest.mark.long
@pytest.mark.parametrize("package", ["standardwebhooks", "svix"])
def test_a_package_verifies_what_the_service_signs(package: str):
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    secret, other, now = new_secret(), new_secret(), datetime.now(UTC)
    body = '{"name":"Almacén","amount":1500.50}'
    good = signed_headers("id-1", body.encode(), [secret], now)
    both = signed_headers("id-1", body.encode(), [other, secret], now)
    old = signed_headers("id-1", body.encode(), [secret], now - timedelta(minutes=6))
    cases = [
        (secret, good, body),
        (secret, both, body),
        (other, both, body),
        (other, good, body),
        (secret, good, body.replace("1500", "1501")),
        (secret, old, body),
    ]
    program = PROGRAM % (package, json.dumps(cases))
    ended = subprocess.run(["node", "-"], input=program.encode(), capture_output=True, timeout=60, check=False)
    if ended.returncode == 3:
        pytest.skip(f"npm's {package} is not installed: see the head of this file")
    assert json.loads(ended.stdout) == [True, True, True, False, False, False], ended.stderr.decode()
