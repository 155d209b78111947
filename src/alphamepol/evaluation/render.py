"""`render`: videos and picture strips of policies that act."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.presets import usual_preset_settings
from alphamepol.algorithms.alphamepol.start import untrained_start_policies
from alphamepol.algorithms.finetuning.presets import finetuning_preset
from alphamepol.algorithms.finetuning.tasks import finetuning_tasks
from alphamepol.compute.machine import choose_machine_opengl
from alphamepol.environments.horizons import check_horizon, check_horizon_of_reward
from alphamepol.environments.host import AnyClass, remark_about_class
from alphamepol.environments.make import make_class
from alphamepol.environments.member_tasks import check_tasks
from alphamepol.environments.registry import registered_name
from alphamepol.environments.tasks import Task
from alphamepol.errors import InputError
from alphamepol.evaluation.films import (
    MOST_BYTES,
    FilmPlan,
    check_member_can_be_drawn,
    film_episode,
    say_of_film,
)
from alphamepol.figures.terminal import say_in_terminal
from alphamepol.figures.videos.encoding import IN_STRIP, check_video_suffix
from alphamepol.figures.videos.frames import Panel, reduce_to_frame
from alphamepol.figures.videos.video import Episode, Video
from alphamepol.files.names import WIDTH, name_as_text
from alphamepol.files.reading import check_folder_is_plain
from alphamepol.policies.policy import Policy
from alphamepol.policies.shape import check_policy_shape
from alphamepol.runs.progress import counting_progress, track_progress
from alphamepol.runs.sources import (
    Given,
    Source,
    choose_policy_of_run,
    common_class_of_sources,
    distinct_source_labels,
    read_sources,
    say_checkpoints_of_sources,
)
from alphamepol.settings.fields import check_seed_field
from alphamepol.settings.run import PhysicsKind

MOST_EPISODES = 20
"""The most episodes in one video."""
FEW_MEMBERS = 5
"""The number of members that a video shows if none is named, and the most episodes side by side."""
FRAMES = 200
"""The number of frames of a video, if nobody asks for others."""
FASTEST = 50
"""The most frames per second. A GIF cannot be faster."""


def render(
    policies: Given | Sequence[Given],
    member: str | int | Sequence[str | int] | None = None,
    out: str | Path | None = None,
    *,
    environment_class: AnyClass | str | None = None,
    task: int | Task | None = None,
    seed: int = 0,
    steps: int | None = None,
    every: int | None = None,
    fps: int = 20,
    policy_seed: int | None = None,
    checkpoint: int | None = None,
    physics: PhysicsKind = "auto",
    quiet: bool = False,
) -> Video:
    """Film policies while they act. The environments draw the pictures.

    Several policies or members are shown side by side: one row for each policy and one column for each member. The same
    seed gives the same video. Without a task, an episode has the random numbers of the first trajectory that `evaluate`
    collects with the policy of this seed.

    **Arguments**

    - `policies`: the folder of a run that trained policies, a policy file, the name of a policy that comes with the
      package, a policy, or a dict of policies by seed. `"random"` stands for an untrained policy. It can also be a list
      of these.
    - `member`: the name or the number of a member, or a list of them. The default is all members, or the first five.
    - `out`: the file to write. Its name ends in .mp4, .gif, or .png for a picture with some frames side by side. An MP4
      needs `pip install 'alphamepol[video]'`. If it is not given, no file is written.
    - `environment_class`: the class to act in, or its name. If it is not given, the class of the run is used.
    - `task`: a task, or the number of a task as `finetune` counts them with its default settings. Captions then show
      the return. If it is not given, there is no reward.
    - `seed`: the seed of the episodes.
    - `steps`: the largest number of steps of an episode. The default is the horizon of the run.
    - `every`: the number of steps from one frame to the next. The default is such that there are about 200 frames, or 8
      in a .png file.
    - `fps`: the number of frames per second.
    - `policy_seed`: the seed of the policy in each run. The default is the first one.
    - `checkpoint`: the number of steps after which the runs saved the policies. The default is the final policies, or
      the newest checkpoint of a run that has not ended.
    - `physics`: the engine that steps a class of MuJoCo models: `"cpu"`, `"gpu"` or `"auto"` (see `mujoco_class`).
    - `quiet`: show no progress.

    **Returns**

    A `Video`. A notebook shows it as a moving picture.

    **Raises**

    - `InputError`: if there is no such policy, member or task, if a member cannot be drawn, or if an argument is not
      allowed.
    - `RunError`: if an environment fails, or if OpenGL is missing for a MuJoCo model.

    **Example**

    ```python
    import alphamepol as am

    video = am.render("gridworld-slope/alpha-0.2", ["GWS", "GWN"], "climb.gif", steps=10, quiet=True)
    print(len(video), video.episodes[1].member)  # 11 GWN
    ```
    """
    path = None if out is None else Path(out)
    if path is not None:
        check_video_suffix(path)
        check_folder_is_plain(path.parent, files=[path.name])
    _check_video_numbers(seed, steps, every, fps)
    choose_machine_opengl()  # before the file of a class imports MuJoCo
    given = [policies] if isinstance(policies, str | Path | Policy | Mapping) else list(policies)
    if not given:
        raise InputError("run: none was given; name the folder of a run, a policy file, or random")
    sources = read_sources(given, checkpoint=checkpoint)
    say_checkpoints_of_sources(sources, quiet=quiet)
    class_name = registered_name(common_class_of_sources(sources) if environment_class is None else environment_class)
    environment_class = make_class(class_name if environment_class is None else environment_class, physics=physics)
    members = _members_of_video(environment_class, member)
    config = _settings_of_video(sources, class_name)
    steps = _usual_steps_of_video(environment_class, config, members, task) if steps is None else steps
    check_horizon(environment_class, steps)
    if (count := len(sources) * len(members)) > MOST_EPISODES:
        raise InputError(f"member: {count} episodes were asked for; a video shows at most {MOST_EPISODES}")
    every = every or math.ceil(steps / (IN_STRIP - 1 if path and path.suffix.lower() == ".png" else FRAMES))
    columns = _columns_of_video(len(sources), len(members))
    plans = [
        FilmPlan(environment_class, name, _task_of_video(environment_class, name, task, steps), seed, steps, every)
        for name in members
    ]
    for name in members:
        check_member_can_be_drawn(environment_class, name)
    chosen = _policies_of_video(sources, environment_class, config, policy_seed)
    console = Console(quiet=quiet, markup=False, emoji=False)
    if remark := remark_about_class(environment_class):
        say_in_terminal(console, remark)
    done = _film_all(chosen, plans, columns, console)
    video = Video(tuple(one for one, _ in done), fps, columns, path, tuple(panel for _, panel in done))
    if path is not None:
        video.save(path, partial(track_progress, description=f"writing {path.name}", console=console))
    return video


def _check_video_numbers(seed: int, steps: int | None, every: int | None, fps: int) -> None:
    check_seed_field(seed, 1)
    for name, value, most in (("steps", steps, 10**6), ("every", every, 10**6), ("fps", fps, FASTEST)):
        if value is not None and not (isinstance(value, int) and 1 <= value <= most):
            raise InputError(f"{name}: {value} was given; it must be a whole number from 1 to {most}")


def _members_of_video(environment_class: AnyClass, member: str | int | Sequence[str | int] | None) -> list[str]:
    given = [member] if isinstance(member, str | int | np.integer) else list(member or ())
    names = [environment_class.names[_index_in_video(environment_class, one)] for one in given]
    return names or list(environment_class.names[:FEW_MEMBERS])


def _index_in_video(environment_class: AnyClass, member: str | int) -> int:
    return environment_class.index(member)  # pyright: ignore[reportArgumentType] (numbers are members, too)


def _settings_of_video(sources: Sequence[Source], class_name: str) -> PretrainConfig:
    """Return the settings of the first pre-training run, or the usual ones of the class: for Random, and the horizon.

    Without a pre-training run, the horizon is that of the first run of another kind.
    """
    of_runs = [source.config for source in sources if source.config is not None]
    pretrained = next((config for config in of_runs if isinstance(config, PretrainConfig)), None)
    if pretrained is not None:
        return pretrained
    config = usual_preset_settings(class_name)
    return dataclasses.replace(config, horizon=of_runs[0].horizon) if of_runs else config


def _usual_steps_of_video(
    environment_class: AnyClass, config: PretrainConfig, members: Sequence[str], task: int | Task | None
) -> int:
    """Return the horizon of the settings, or less if a member does not allow it."""
    limits = [environment_class[number].time_limit for number in range(len(environment_class))]
    if task is not None:
        limits += [environment_class[name].reward_lasts for name in members]
    return int(min(config.horizon, *limits))


def _policies_of_video(
    sources: Sequence[Source], environment_class: AnyClass, config: PretrainConfig, policy_seed: int | None
) -> dict[str, Policy]:
    """Return the policy of each source by its label."""
    chosen = {}
    for source, label in zip(sources, distinct_source_labels(sources), strict=True):
        if source.policies:
            policy = choose_policy_of_run(source.policies, policy_seed, source.name)
            check_policy_shape(policy, environment_class, f"policy {source.name}")
        else:
            one = dataclasses.replace(config, seeds=1, seed=policy_seed or 0)
            policy = untrained_start_policies(environment_class, one)[one.seed]
        done = "" if source.checkpoint is None else f", {source.checkpoint.unit} {source.checkpoint.done}"
        chosen[f"{label}{done}"] = policy
    return chosen


def _task_of_video(environment_class: AnyClass, name: str, task: int | Task | None, steps: int) -> Task | None:
    if task is None:
        return None
    member = environment_class[name]
    check_horizon_of_reward(member, name, steps)
    if isinstance(task, Task):
        check_tasks([task], member)
        return task
    settings = dataclasses.replace(finetuning_preset(environment_class), goals=())
    tasks = finetuning_tasks(member, settings, settings.seed)
    if not 0 <= task < len(tasks):
        shown = name_as_text(name, WIDTH)
        raise InputError(f"task: {task} was given; {shown} has tasks 0 to {len(tasks) - 1}")
    return tasks[task]


def _columns_of_video(methods: int, members: int) -> int:
    """Return the number of episodes side by side: the members, or the methods if there is one member."""
    return min(FEW_MEMBERS, methods if members == 1 else members)


def _film_all(
    policies: Mapping[str, Policy], plans: Sequence[FilmPlan], columns: int, console: Console
) -> list[tuple[Episode, Panel]]:
    """Film every policy in every member, and show progress."""
    each = plans[0].steps // plans[0].every + 1
    total = len(policies) * len(plans) * each
    done: list[tuple[Episode, Panel]] = []
    with counting_progress(total, "filming", console) as count:
        for method, policy in policies.items():
            for plan in plans:
                left = [each]

                def keep(picture: np.ndarray, left: list[int] = left) -> np.ndarray:
                    small = reduce_to_frame(picture, columns)
                    _check_size_of_video(small.nbytes * total)
                    if left[0]:
                        left[0] -= 1
                        count(1)
                    return small

                film = film_episode(policy, plan, keep)
                count(left[0])
                panel = Panel((plan.member, method), film.pictures, say_of_film(film, plan))
                done.append((Episode(plan.member, method, film.steps, film.returned), panel))
    return done


def _check_size_of_video(size: int) -> None:
    if size > MOST_BYTES:
        raise InputError(
            f"every: the pictures would take {size / 2**30:.1f} GB, more than {MOST_BYTES / 2**30:g} GB; show every "
            "10th step, for example, or fewer episodes"
        )
