"""What follows an event, later or elsewhere: `recovery` settles payments whose outcome nobody wrote, `forgetting`
finishes erasures, `tidying` packs what appends leave in small pieces, `worker` runs it all.

A reaction may run twice and in two workers at once; the version of the stream decides, as for everybody else.
"""
