"""How long merchants and clients waited: from one final answer to the next."""

from uuid import UUID

from campaigns.chaos.clients import Ended
from campaigns.chaos.stops import waits

ONE, OTHER = UUID(int=1), UUID(int=2)


def test_a_wait_is_the_time_between_two_final_answers_of_a_merchant_or_a_client():
    found = waits(
        [
            Ended(0.0, 1.0, "create", 201, ONE, 1),
            Ended(1.0, 4.0, "create", None, ONE, 1),
            Ended(4.0, 5.0, "create", 503, ONE, 1),
            Ended(5.0, 6.0, "read", 200, ONE, 1),
            Ended(0.0, 3.5, "charge", 422, ONE, 2),
            Ended(0.0, 2.0, "create", 201, OTHER, 3),
        ]
    )
    assert (found.client_s, found.unavailable, found.unanswered) == (5.0, 1, 1)
    assert found.merchant_s == 3.0, "of the other merchant, until the last write of all has ended"


def test_a_merchant_that_is_never_answered_again_waits_until_the_end():
    assert waits([Ended(0.0, 1.0, "create", 503, ONE, 1), Ended(1.0, 9.0, "create", None, ONE, 1)]).merchant_s == 9.0
