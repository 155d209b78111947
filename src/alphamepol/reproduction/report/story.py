"""The paper's story in five figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alphamepol.pages.html import Html, html_box, html_heading, html_paragraph, html_side_by_side, join_html
from alphamepol.reproduction.claims import Decision
from alphamepol.reproduction.report.claim_lists import report_verdict_badge


@dataclass(frozen=True)
class StoryPart:
    """A step of the story: a figure of an experiment, and the claims that it is about."""

    heading: str
    text: str
    figure: str
    """The name of the drawing."""
    claims: tuple[str, ...]
    wide: bool = False
    """True if the figure needs the whole width of the page."""


STORY = (
    StoryPart(
        "1. An average hides the rare environment",
        "Each bar is the entropy of the states that a policy visits: the longer to the right, the more evenly it "
        "explores. MEPOL maximises the average over both environments. It is as good in GWS as a policy that was "
        "trained there alone, and gives up GWN, which it meets one time in five. αMEPOL maximises the worst "
        "fifth of what it meets, and explores both about equally.",
        "slope-entropies",
        ("slope-easy", "slope-adverse", "slope-robust"),
    ),
    StoryPart(
        "2. α is a dial",
        "α is the share of the worst outcomes that training looks at. The smaller it is, the more a policy explores "
        "the rare environment GWN, and the less the likely one, GWS.",
        "alpha-entropies",
        ("alpha-dial", "alpha-composition"),
    ),
    StoryPart(
        "3. Exploration pays when a reward comes",
        "Now there is a reward: fifty goals in GWN, one at a time. The curves show how many of them reinforcement "
        "learning (TRPO) reaches from each start; the maps show which. From αMEPOL it learns all of them. From MEPOL "
        "it does about as badly as from an untrained policy (Random).",
        "slope-GWN-returns",
        ("slope-finetune",),
    ),
    StoryPart(
        "4. It holds on ten maps",
        "One policy for ten maps with different walls and slopes. Move the slider from α = 1 (MEPOL) to α = 0.1: MG0, "
        "the most adverse one, opens up, and the average of all ten hardly suffers.",
        "multigrid-heat-maps",
        ("multigrid-explore", "multigrid-finetune"),
        wide=True,
    ),
    StoryPart(
        "5. A good start beats learning to adapt",
        "Meta-learning (MAML, with random goals or with skills of DIAYN) prepares a policy for fast adaptation. On "
        "the goals of GWN, TRPO learns more from αMEPOL's policy, which has never seen a reward.",
        "meta-GWN-returns",
        ("meta", "meta-adapts"),
    ),
)
"""The story, in the order of the page."""


def report_story(figures: Mapping[str, Html], decisions: Sequence[Decision]) -> Html:
    """Return the parts of the story whose figures were drawn, each with the verdicts on its claims."""
    by_id = {decision.claim.id: decision for decision in decisions}
    parts = []
    for part in STORY:
        if not figures.get(part.figure):
            continue
        claims = [_report_story_claim(by_id[name]) for name in part.claims if name in by_id]
        said = html_box(html_paragraph(part.text), *claims)
        figure = figures[part.figure]
        shown = join_html(said, figure) if part.wide else html_side_by_side(said, figure)
        parts += [html_heading(part.heading), shown]
    return join_html(*parts)


def _report_story_claim(decision: Decision) -> Html:
    return html_paragraph(report_verdict_badge(decision), decision.claim.says, soft=True)
