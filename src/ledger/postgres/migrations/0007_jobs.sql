-- Work that is to be done now, soon, or again: the tables and functions of procrastinate, as its package brings them.

-- They live in a schema of their own beside ours, named after it, so that two installations in one database stay apart.
-- Where the owner may not create schemas they stand among our tables; every name of theirs begins with procrastinate_.
do $$
declare
  place text := current_schema() || '_jobs';
begin
  execute format('create schema %I', place);
  perform set_config('search_path', quote_ident(place) || ', ' || current_setting('search_path'), true);
exception when insufficient_privilege then
  raise notice 'the tables of jobs stand among the others';
end
$$;

-- include procrastinate
