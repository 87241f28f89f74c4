"""What is put around words in a page never lets the words become markup."""

from tenantcron.web.rendering import breakable, coded, environment, linked
from tenantcron.web.words import number, sentence

EXECUTION = "6bf96716-2a3d-41a2-9b08-1d6c2af2998b"
EVIL = "<script>&`<b>`"


def test_ids_link_to_their_execution_and_other_text_is_unchanged() -> None:
    assert linked(f"execution {EXECUTION} said {EVIL}") == (
        f'execution <a href="/ui/executions/{EXECUTION}">6bf96716</a> said '
        "&lt;script&gt;&amp;<code>&lt;b&gt;</code>"
    )


def test_similar_text_is_not_linked() -> None:
    assert linked(EXECUTION[:-1]) == EXECUTION[:-1]


def test_a_name_can_wrap_between_its_words() -> None:
    assert breakable("acme/close_month<b>") == "acme/<wbr>close_<wbr>month&lt;b&gt;"


def test_text_between_backticks_is_code() -> None:
    assert coded("start `tenantcron run`") == "start <code>tenantcron run</code>"


def test_json_keeps_unicode_and_is_escaped() -> None:
    page = environment().from_string("{{ value | json }}")

    assert page.render(value={"name": "Köln <b>"}) == "{&#34;name&#34;: &#34;Köln &lt;b&gt;&#34;}"


def test_sentences_are_capitalised_and_numbers_have_separators() -> None:
    assert (sentence("no scheduler runs"), sentence("")) == ("No scheduler runs", "")
    assert (number(999), number(5339)) == ("999", "5,339")
