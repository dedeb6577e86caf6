from reagent.explanation import STOPPED
from reagent.views.summary import IN_BRIEF


def test_every_warning_has_a_form_for_many_tokens() -> None:
    assert set(IN_BRIEF) == {reason for reason, text in STOPPED.items() if text}
