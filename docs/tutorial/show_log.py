"""Prints the stored events of an order: `python docs/tutorial/show_log.py EXTERNAL_ID`.

It reads the ledger's tables for this tutorial. Never read them in a program of yours: use the HTTP interface or `ledger.recorder`.
"""

import os
import sys

import msgspec
import psycopg

from ledger.postgres.embedded.data_dir import database
from ledger.settings import read_settings

# The claim on the external id (kind 1: of an order) names the order's stream.
LOG = """
select e.position, e.version, e.topic, e.data
  from claim c join event e on e.merchant_id = c.merchant_id and e.stream_id = c.stream_id
 where c.kind = 1 and c.key = %s order by e.version
"""

settings = read_settings(os.environ)
with database(settings.database_url, settings.data_dir) as url, psycopg.connect(url) as connection:
    for position, version, topic, data in connection.execute(LOG, sys.argv[1:]):
        amount = msgspec.json.decode(data).get("amount", "")
        sys.stdout.write(f"{position:6}  {version:2}  {topic:28}  {amount}\n")
