"""The command that films policies: its options, its help texts, and the function that it calls.

Heavy imports happen inside `run`, so that --help is quick.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from alphamepol.cli.next_steps import say_after_command
from alphamepol.settings.run import PhysicsKind


@dataclass(frozen=True)
class Render:
    """Film policies while they act in members of a class, and write a video (.mp4, .gif) or a picture strip (.png).

    Several policies or members are shown side by side: one row for each policy and one column for each member. The same
    seed gives the same video.

    Example: alphamepol render runs/gridworld-slope-alpha-0.2-seed-0 random --member GWN --out climb.gif
    """

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN …", help_behavior_hint="")]
    """The policies to film; one or more of:
    the folder of a run that trained policies;
    a policy file (then --class is needed);
    the name of a policy that comes with the package, such as gridworld-slope/alpha-0.2;
    `random`, for an untrained policy."""
    out: Path
    """The file to write. Its name ends in .mp4 (needs alphamepol[video]), .gif or .png."""
    member: Annotated[tuple[str, ...], tyro.conf.arg(help_behavior_hint="")] = ()
    """One or more members of the class. If none is given, all members are shown, or the first five."""
    environment_class: Annotated[str | None, tyro.conf.arg(name="class", metavar="CLASS")] = None
    """The class to act in. If it is not given, the class of the run is used."""
    task: int | None = None
    """The number of a task, as `finetune` counts them with its default settings. Captions then show the return."""
    seed: int = 0
    """The seed of the episodes."""
    steps: int | None = None
    """The largest number of steps of an episode. If it is not given, it is the horizon of the run."""
    every: int | None = None
    """The number of steps from one frame to the next.
    If it is not given, there are about 200 frames, or 8 in a .png file."""
    fps: int = 20
    """The number of frames per second."""
    policy_seed: int | None = None
    """The seed of the policy in each RUN. If it is not given, the first policy is used."""
    checkpoint: int | None = None
    """The number of epochs or iterations after which each RUN saved the policy, for example 40.
    If it is not given, the final policy is used, or the newest checkpoint of a run that has not ended."""
    physics: PhysicsKind = "auto"
    """The engine that steps a class of MuJoCo models:
    cpu: MuJoCo, on all cores of this machine;
    gpu: MuJoCo Warp, on an NVIDIA GPU;
    auto: the GPU if it can step the models, and otherwise the CPU."""

    def run(self) -> None:
        from alphamepol.evaluation.render import render

        video = render(
            self.runs,
            self.member or None,
            self.out,
            environment_class=self.environment_class,
            task=self.task,
            seed=self.seed,
            steps=self.steps,
            every=self.every,
            fps=self.fps,
            policy_seed=self.policy_seed,
            checkpoint=self.checkpoint,
            physics=self.physics,
        )
        say_after_command(f"Written: {video.path}")
