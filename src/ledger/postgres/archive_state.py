"""Whether the archiving of the server's write-ahead log works, as the server itself reports it."""

from typing import Final

# For how many seconds nothing was archived, since the last success or the start of counting; 0 if the last try was
# one.
FAILING: Final = """
select case when current_setting('archive_mode') = 'off' or last_failed_time is null or last_failed_time <= last_archived_time
  then 0.0
  else extract(epoch from clock_timestamp() - coalesce(last_archived_time, stats_reset))::float8 end
  from pg_stat_archiver
"""
