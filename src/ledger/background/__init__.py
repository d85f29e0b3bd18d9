"""What follows an event, later or elsewhere.

In reading order: `reaction` says what a reaction is, `registry` which there are and what is done when something is due: `order_dues`.
`dispatcher` shows them every log once and leaves those that cannot be read `set_aside`, `due_times` makes jobs of what has come due, `jobs` runs those, `watching` keeps all
three going; `clock_hand` does the same for one merchant while its sandbox clock is moved. `recovery` settles payments whose
outcome nobody wrote, `forgetting` finishes erasures, `tidying` packs what appends leave in small pieces; `worker` runs it all.

What a job does may run twice and in two workers at once; the version of the stream decides, as for everybody else.
"""
