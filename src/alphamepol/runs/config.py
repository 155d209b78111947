"""What a run is, field by field. This module does not import JAX, so that `--help` is quick."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args, get_origin

from alphamepol.errors import InputError
from alphamepol.runs.fields import (
    MemoryKind,
    above_zero,
    at_least,
    at_least_zero,
    check_network,
    check_seeds,
    check_share,
    check_widths,
)

EncoderKind = Literal["auto", "random", "none"]
MetaMethod = Literal["maml-r", "diayn", "maml-diayn"]


@dataclass(frozen=True)
class PretrainConfig:
    """Everything that decides what a pre-training run computes, beside the class of environments."""

    alpha: float = 0.2
    """Percentile α in (0, 1]: the objective is the mean of the worst α-fraction of entropies. 1 is MEPOL."""
    epochs: int = 150
    """How often samples are collected and the policy is improved from them."""
    horizon: int = 400
    """T, the steps of a trajectory."""
    trajectories: int = 200
    """N, the trajectories of an epoch; a multiple of --batch."""
    batch: int = 5
    """B, the trajectories of a mini-batch. Each mini-batch lives in one member and has one entropy."""
    neighbours: int = 30
    """k of the nearest-neighbour estimators; less than batch x horizon."""
    feature_noise: float = 0.0
    """Deviation of normal noise on every particle, so that an agent that stands still does not make particles coincide;
    small beside the distances between neighbours, e.g. 0.001 in the gridworlds."""
    encoder: EncoderKind = "auto"
    """random: entropies are of a fixed random network of the particles, which must be images; none: of the particles
    themselves; auto: random where they are images."""
    encoder_seed: int = 0
    """Decides the random network. Entropies under different ones cannot be compared."""
    learning_rate: float = 1e-5
    """β, the rate of Adam."""
    trust_region: float = 15.0
    """δ, the largest KL divergence of state distributions within an epoch."""
    max_off_policy_iterations: int = 30
    """The most gradient steps that one epoch's samples are used for."""
    gradient_share: float = 1.0
    """With α = 1, off-policy: the share of mini-batches, drawn anew for every step, that its gradient is of. 0.2 makes
    MEPOL learn from as many samples as αMEPOL with α = 0.2."""
    update: Literal["off-policy", "on-policy"] = "off-policy"
    """off-policy: several importance-weighted steps per epoch; on-policy: one REINFORCE step."""
    baseline: bool = True
    """On-policy only: use the baseline b = -VaR, which trades a little bias for less variance."""
    initial_mean: Literal["none"] | tuple[float, ...] = "none"
    """The constant action that the policy's mean is regressed to before epoch 0, one number per component, or none."""
    initial_log_std: float = -1.5
    """Logarithm of the policy's σ at the start; with --normalise, of σ in halves of the action range."""
    hidden: tuple[int, ...] = (300, 300)
    """Widths of the policy's hidden layers; where observations are images, of those after its convolutions."""
    memory: MemoryKind = "none"
    """none: the policy sees the current observation, as in the paper; last: also what its last action did; recurrent:
    also all before, by a GRU."""
    recurrent_units: int = 64
    """Hidden values of the GRU, with --memory recurrent."""
    normalise: bool = False
    """Scale what is not of order one: observations by their running mean and deviation, actions (and so σ) by half
    their range, particles by a deviation measured once, with an untrained policy: the unit that entropies are in."""
    probabilities: tuple[float, ...] = ()
    """p_M, one number per member, summing to 1; the class's own if not given. `0 1` trains a specialist."""
    seeds: int = 1
    """How many seeds are run, side by side in one program."""
    seed: int = 0
    """The first seed; the others follow it."""
    evaluation_batches: int = 40
    """Mini-batches per member in the evaluation of the final policies."""
    diagnostics: bool = False
    """Measure along the way how far apart the members are, and the paper's bounds: more numbers of every epoch, and a
    picture of them. What is learned does not depend on it."""
    checkpoint_every: int = 10
    """Epochs between checkpoints."""
    matmul_precision: Literal["default", "highest"] = "default"
    """Precision of matrix products: the device's default (TF32 on recent GPUs) or full float32."""

    @property
    def seed_list(self) -> list[int]:
        return list(range(self.seed, self.seed + self.seeds))

    @property
    def minibatches(self) -> int:
        """M = N/B."""
        return self.trajectories // self.batch

    @property
    def method(self) -> str:
        return "mepol" if self.alpha == 1 else "alphamepol"

    @property
    def label(self) -> str:
        """What figures and tables call the method."""
        method = "MEPOL" if self.alpha == 1 else f"αMEPOL ({self.alpha:g})"
        return method if self.memory == "none" else f"{method}, memory {self.memory}"

    def check(self) -> None:
        """Raise an `InputError` on the first field that cannot be."""
        for field in ("alpha", "gradient_share"):
            if not 0 < getattr(self, field) <= 1:
                raise InputError(f"{field}: {getattr(self, field)} was given; it must be above 0 and at most 1")
        if self.encoder not in get_args(EncoderKind):
            raise InputError(f"encoder: {self.encoder!r} was given; choose {', '.join(get_args(EncoderKind))}")
        for field in ("epochs", "horizon", "trajectories", "batch", "neighbours", "max_off_policy_iterations"):
            at_least(self, field, 1)
        for field in ("seeds", "evaluation_batches", "checkpoint_every"):
            at_least(self, field, 1)
        check_seeds(self.seed, self.seeds)
        check_seeds(self.encoder_seed, 1, "encoder_seed")
        if self.trajectories % self.batch:
            raise InputError(
                f"trajectories: {self.trajectories} was given; it must be a multiple of batch, which is {self.batch}"
            )
        if self.neighbours >= self.batch * self.horizon:
            raise InputError(
                f"neighbours: {self.neighbours} was given; it must be less than batch x horizon = "
                f"{self.batch * self.horizon}, the particles of a mini-batch"
            )
        for field in ("learning_rate", "trust_region"):
            above_zero(self, field)
        at_least_zero(self, "feature_noise")
        check_network(self)
        if not self.baseline and self.update == "off-policy":
            raise InputError("baseline: it can be left out with --update on-policy only")
        if self.initial_mean == ():
            raise InputError("initial_mean: no number was given; give one per action component, or none")
        if self.initial_mean != "none" and not all(math.isfinite(value) for value in self.initial_mean):
            raise InputError(f"initial_mean: {self.initial_mean} was given; its numbers must be finite")


@dataclass(frozen=True)
class FinetuneConfig:
    """Everything that decides what fine-tuning computes, beside the class, the member and the initial policy."""

    tasks: int = 50
    """How many goals are drawn, uniformly over the member's free space; --seed decides which. Where a member has tasks
    of its own, as a Gymnasium environment has its reward, the first so many of those."""
    goals: tuple[float, ...] = ()
    """Goals of one's own instead of drawn ones: the coordinates of the first, of the second, and so on."""
    goal_radius: float = 0.1
    """A goal is reached within this distance; that gives reward 1 and ends the episode."""
    iterations: int = 100
    """How often episodes are collected and the policy is improved from them."""
    horizon: int = 400
    """The steps after which an episode is cut."""
    steps: int = 12_000
    """Steps per iteration; a multiple of --horizon."""
    max_kl: float = 1e-4
    """δ_KL, the largest mean KL divergence of an iteration's step."""
    discount: float = 0.99
    """γ."""
    gae_lambda: float = 0.98
    """λ of generalised advantage estimation."""
    damping: float = 0.1
    """What is added to the diagonal of the Fisher matrix."""
    conjugate_gradient_iterations: int = 10
    """Iterations that find the direction of the step."""
    line_search_tries: int = 10
    """How often the step is tried, each time half as long."""
    critic_hidden: tuple[int, ...] = (64, 64)
    """Widths of the value network's hidden layers."""
    critic_learning_rate: float = 1e-2
    """The rate of the value network's Adam."""
    critic_passes: int = 5
    """How often the value network goes through an iteration's steps."""
    critic_batch: int = 512
    """Mini-batch of the value network."""
    hidden: tuple[int, ...] = (300, 300)
    """Widths of the hidden layers where the initial policy is `random`."""
    initial_log_std: float = -1.5
    """Logarithm of σ where the initial policy is `random`."""
    memory: MemoryKind = "none"
    """Memory where the initial policy is `random`: none, last or recurrent; others bring their own."""
    recurrent_units: int = 64
    """Hidden values of the GRU where the initial policy is `random` with --memory recurrent."""
    normalise: bool = False
    """Scale observations and actions where the initial policy is `random`; others bring their own scales."""
    seeds: int = 1
    """How often each task is done, each time with other random numbers and, from a run, another of its policies."""
    seed: int = 0
    """The first seed; it decides the goals too."""
    checkpoint_every: int = 10
    """Iterations between checkpoints."""
    matmul_precision: Literal["default", "highest"] = "default"
    """Precision of matrix products: the device's default (TF32 on recent GPUs) or full float32."""

    @property
    def trajectories(self) -> int:
        """Trajectories side by side in an iteration."""
        return self.steps // self.horizon

    def check(self) -> None:
        """Raise an `InputError` on the first field that cannot be."""
        for field in ("tasks", "iterations", "horizon", "steps", "conjugate_gradient_iterations", "line_search_tries"):
            at_least(self, field, 1)
        for field in ("critic_passes", "critic_batch", "seeds", "checkpoint_every"):
            at_least(self, field, 1)
        check_seeds(self.seed, self.seeds)
        if self.steps % self.horizon:
            raise InputError(
                f"steps: {self.steps} was given; it must be a multiple of horizon, which is {self.horizon}"
            )
        for field in ("goal_radius", "max_kl", "critic_learning_rate"):
            above_zero(self, field)
        at_least_zero(self, "damping")
        for field in ("discount", "gae_lambda"):
            check_share(self, field)
        if not all(math.isfinite(value) for value in self.goals):
            raise InputError(f"goals: {' '.join(map(str, self.goals))} was given; coordinates must be finite")
        check_network(self)
        check_widths("critic_hidden", self.critic_hidden)


@dataclass(frozen=True)
class MetatrainConfig:
    """Everything that decides what a meta-training run computes, beside the class of environments."""

    method: MetaMethod = "maml-r"
    """maml-r: MAML on random goals; diayn: skills that can be told apart, without reward; maml-diayn: MAML on the
    rewards of DIAYN's skills, which are learned first unless --diayn gives them."""
    iterations: int = 200
    """MAML: how often tasks are drawn and the policy is improved from them."""
    tasks: int = 20
    """MAML: tasks of an iteration, each a member drawn from p_M and a random goal, or a skill."""
    trajectories: int = 30
    """MAML: episodes per task before its inner step, and as many after it."""
    horizon: int = 400
    """The steps after which an episode is cut."""
    inner_rate: float = 0.1
    """MAML: the rate of the inner step."""
    first_order: bool = False
    """MAML: leave out how the inner step depends on where it starts: cheaper, and biased."""
    goal_radius: float = 0.1
    """maml-r: a goal is reached within this distance; that gives reward 1 and ends the episode."""
    discount: float = 0.99
    """γ."""
    max_kl: float = 1e-2
    """MAML: the largest mean KL divergence between the adapted policies before and after an outer step."""
    damping: float = 0.1
    """MAML: what is added to the diagonal of the Fisher matrix."""
    conjugate_gradient_iterations: int = 10
    """MAML: iterations that find the direction of the outer step."""
    line_search_tries: int = 10
    """MAML: how often the outer step is tried, each time half as long."""
    epochs: int = 1000
    """DIAYN: epochs, each of --steps."""
    steps: int = 1000
    """DIAYN: steps of an epoch, and updates; a multiple of --environments."""
    skills: int = 20
    """DIAYN: how many skills are learned."""
    learning_rate: float = 3e-4
    """DIAYN: the rate of Adam, for all networks."""
    batch: int = 128
    """DIAYN: transitions that an update is made of."""
    environments: int = 10
    """DIAYN: environments stepped side by side; as many updates follow."""
    warm_up: int = 1000
    """DIAYN: steps before the first update; a multiple of --environments."""
    replay: int = 1_000_000
    """DIAYN: the transitions that are kept; a multiple of --environments."""
    target_rate: float = 0.005
    """DIAYN: how fast the target networks follow the critics."""
    hidden: tuple[int, ...] = (300, 300)
    """Widths of the hidden layers of all networks; where observations are images, of those after convolutions."""
    initial_log_std: float = -1.5
    """MAML: logarithm of the policy's σ at the start; with --normalise, of σ in halves of the action range."""
    memory: MemoryKind = "none"
    """MAML: none: the policy sees the current observation, as in the paper; last: also what its last action did;
    recurrent: also all before, by a GRU."""
    recurrent_units: int = 64
    """Hidden values of the GRU, with --memory recurrent."""
    normalise: bool = False
    """MAML: scale observations by their mean and deviation under an untrained policy, measured once, and actions (and
    so σ) by half their range."""
    probabilities: tuple[float, ...] = ()
    """p_M, one number per member, summing to 1; the class's own if not given."""
    seeds: int = 8
    """How many seeds are run, side by side in one program."""
    seed: int = 0
    """The first seed; the others follow it."""
    checkpoint_every: int = 10
    """MAML's iterations between checkpoints; of DIAYN, whose replay is large, ten times as many epochs."""
    matmul_precision: Literal["default", "highest"] = "default"
    """Precision of matrix products: the device's default (TF32 on recent GPUs) or full float32."""

    @property
    def seed_list(self) -> list[int]:
        return list(range(self.seed, self.seed + self.seeds))

    @property
    def label(self) -> str:
        """What figures and tables call the method."""
        return {"maml-r": "MAML+R", "diayn": "DIAYN", "maml-diayn": "MAML+DIAYN"}[self.method]

    def check(self) -> None:
        """Raise an `InputError` on the first field that cannot be."""
        if self.method not in get_args(MetaMethod):
            raise InputError(f"method: {self.method!r} was given; choose {', '.join(get_args(MetaMethod))}")
        for field in ("iterations", "tasks", "trajectories", "horizon", "conjugate_gradient_iterations"):
            at_least(self, field, 1)
        for field in ("line_search_tries", "epochs", "batch", "environments", "seeds", "checkpoint_every"):
            at_least(self, field, 1)
        at_least(self, "skills", 2)
        for field in ("steps", "replay", "warm_up"):
            at_least(self, field, self.environments)
            if getattr(self, field) % self.environments:
                raise InputError(
                    f"{field}: {getattr(self, field)} was given; it must be a multiple of environments, which is "
                    f"{self.environments}"
                )
        check_seeds(self.seed, self.seeds)
        for field in ("inner_rate", "goal_radius", "max_kl", "learning_rate"):
            above_zero(self, field)
        at_least_zero(self, "damping")
        for field in ("discount", "target_rate"):
            check_share(self, field)
        check_network(self)
        if self.method == "diayn" and (self.normalise or self.memory != "none"):
            field = "normalise" if self.normalise else "memory"
            raise InputError(
                f"{field}: {getattr(self, field)} was given; policies of DIAYN have none, those of MAML can"
            )


AnyConfig = PretrainConfig | FinetuneConfig | MetatrainConfig
Config = TypeVar("Config", bound=AnyConfig)


def config_to_dict(config: AnyConfig) -> dict[str, Any]:
    """A configuration as JSON can hold it."""
    fields = dataclasses.asdict(config)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def config_from_dict(kind: type[Config], fields: dict[str, Any]) -> Config:
    """The inverse of `config_to_dict`; raises TypeError on an unknown field and on a value of another type."""
    fractions = {one.name for one in dataclasses.fields(kind) if "float" in str(one.type)}
    config = kind(**{name: _read_value(value, name in fractions) for name, value in fields.items()})
    for one in dataclasses.fields(kind):
        value = getattr(config, one.name)
        if not _is_a(value, one.type):
            raise TypeError(f"{one.name} is {value!r:.80}")
    return config


def _is_a(value: Any, kind: Any) -> bool:
    """Whether a value is of the type of a field."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_is_a(part, get_args(kind)[0]) for part in value)
    if get_args(kind):  # a union
        return any(_is_a(value, one) for one in get_args(kind))
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _read_value(value: Any, fraction: bool) -> Any:
    """As a field holds it; JSON may have given 1 for 1.0."""
    if isinstance(value, list):
        return tuple(_read_value(one, fraction) for one in value)
    return float(value) if fraction and isinstance(value, int) and not isinstance(value, bool) else value
