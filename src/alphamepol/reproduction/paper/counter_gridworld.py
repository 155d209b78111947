"""gridworld-counterexample: two maps that are about equally hard, so that α should make no difference."""

from alphamepol.reproduction import drawings
from alphamepol.reproduction.claims import Claim, claim_alike, claimed_entropy_in, claimed_mean_entropy
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.scale import Scale

CLASS, MEMBERS = "gridworld-counterexample", ("four-rooms", "two-halls")


def experiment(scale: Scale) -> Experiment:
    risk_averse, neutral = (scale.pretraining(CLASS, seeds=4, alpha=alpha) for alpha in (0.35, 1.0))
    random, alone = scale.untrained(CLASS, seeds=4), [scale.specialist(CLASS, number, 2) for number in range(2)]
    return Experiment(
        name="counter-gridworld",
        title="gridworld-counterexample: two maps that are equally hard",
        claims=(
            Claim(
                "counter-grid",
                "On gridworld-counterexample, αMEPOL (0.35) and MEPOL are about the same everywhere (50 epochs).",
                (
                    claim_alike(claimed_mean_entropy(risk_averse), claimed_mean_entropy(neutral)),
                    *(
                        claim_alike(claimed_entropy_in(risk_averse, member), claimed_entropy_in(neutral, member))
                        for member in MEMBERS
                    ),
                ),
            ),
        ),
        drawings=(
            drawings.entropies_drawing("counter-grid", (risk_averse, neutral, random, *alone)),
            drawings.heat_maps_drawing("counter-grid", (neutral, risk_averse, random)),
        ),
    )
