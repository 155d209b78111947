"""Test the parts of HTML pages: text that is not HTML is escaped in every part."""

import pytest

from alphamepol.pages import html

pytestmark = pytest.mark.quick

NASTY = '<script>alert("x")</script> & <b>'


@pytest.mark.parametrize(
    "made",
    [
        html.html_paragraph(NASTY),
        html.html_paragraph(NASTY, soft=True),
        html.html_heading(NASTY),
        html.html_strong(NASTY),
        html.html_emphasised(NASTY),
        html.html_code(NASTY),
        html.html_code_block(NASTY),
        html.html_marked(NASTY, NASTY),
        html.html_bullets([NASTY, NASTY]),
        html.html_numbered_list([NASTY]),
        html.html_details(NASTY, NASTY),
        html.html_table([NASTY], [[NASTY]]),
        html.html_page(NASTY, [("a", NASTY, html.html_paragraph(NASTY))], html.html_paragraph(NASTY)),
    ],
)
def test_text_is_escaped(made: str) -> None:
    assert "<script>alert" not in made
    assert "<b>" not in made.replace("<b>&lt;script", "")
    assert "&lt;script&gt;" in made


def test_html_is_not_escaped_twice() -> None:
    inner = html.html_strong("a & b")
    assert html.html_paragraph("see ", inner) == "<p>see <b>a &amp; b</b></p>"
    assert html.html_bullets([inner, "c & d"]) == "<ul><li><b>a &amp; b</b></li><li>c &amp; d</li></ul>"
    assert html.join_html(inner, " & ") == "<b>a &amp; b</b> &amp; "


def test_a_page_leaves_out_empty_sections_and_needs_nothing_else() -> None:
    made = html.html_page("t", [("full", "Full", html.html_paragraph("x")), ("empty", "Empty", "")], "")
    assert 'id="full"' in made
    assert "Empty" not in made
    assert "<style>" in made
    assert "<script>" not in made  # only replays need a script
