"""Prints the events of an order as they stand in the log: `python docs/tutorial/show_log.py EXTERNAL_ID`.

The rule a stranger would break: this reads the tables, which a program of yours should never do. It is here to be looked at.
"""

import os
import sys

import msgspec
import psycopg

from ledger.postgres.embedded.data_dir import database
from ledger.settings import read_settings

# The order's stream is found by the claim on its external id; kind 1 is an order's.
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
