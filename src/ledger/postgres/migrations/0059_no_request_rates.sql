-- The counts of requests in the database, which no process has used since they are in a file of each machine.
drop table request_rate;
