"""Try random command lines on the parser and the validators.

    python -m benchmarks.reliability.fuzz OUT.json [--lines 10000] [--runs 30]

A line is either refused with one sentence and status 2, or taken. A line that is taken can be run to its end if it is
small.
"""

import contextlib
import dataclasses
import io
import json
import math
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import hypothesis
import rich.progress
import tyro
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.metatraining.config import MetatrainConfig
from alphamepol.algorithms.trpo.config import TrpoConfig
from alphamepol.cli import main as cli
from alphamepol.environments.registry import registered_class_names
from alphamepol.errors import InputError

KINDS = {"pretrain": PretrainConfig, "finetune": TrpoConfig, "metatrain": MetatrainConfig}
ODD = ("", "x", "nan", "inf", "-inf", "-1", "0", "1e400", "9" * 30, "0.5", "true", "--", "none", "é", "1,2", "[1]")


def value_for(kind: Any, chance: random.Random) -> list[str]:
    """Return words for a field of this type: usually possible values, sometimes any odd words."""
    if chance.random() < 0.08:
        return [chance.choice(ODD) for _ in range(chance.choice((1, 1, 2)))]
    if get_origin(kind) is Literal:
        return [chance.choice(get_args(kind))]
    if get_origin(kind) is tuple:
        part = get_args(kind)[0]
        return [word for _ in range(chance.randrange(4)) for word in value_for(part, chance)]
    if get_args(kind):
        return value_for(chance.choice(get_args(kind)), chance)
    if kind is int:
        return [str(chance.choice((-1, 0, 1, 2, 3, 4, 5, 6, 8, 10, 20, 40, 100, 10**6, 2**31, 2**63)))]
    return [repr(chance.choice((-1.0, 0.0, 1e-300, 1e-5, 0.01, 0.1, 0.2, 0.5, 0.99, 1.0, 2.0, 15.0, 1e30, math.inf)))]


def random_line(chance: random.Random) -> list[str]:
    """Return a command with a few random options."""
    command = chance.choice(list(KINDS))
    words = [command]
    class_name = chance.choice([*registered_class_names(), "nowhere", "a.py:b", "gridworld-slop"])
    if command == "finetune":
        words += [chance.choice(("random", "nowhere", "gridworld-slope/alpha-0.2")), "--class", class_name]
        words += ["--member", chance.choice(("GWN", "MG0", "nobody"))]
    else:
        words += [class_name]
    if chance.random() < 0.5 and command != "finetune":
        words += ["--preset", chance.choice(("quick", "paper", "own", "authors", "large", "fast"))]
    fields = dataclasses.fields(KINDS[command])
    for field in chance.sample(fields, chance.randrange(1, 7)):
        name = field.name.replace("_", "-")
        if field.type is bool:
            words.append(chance.choice((f"--{name}", f"--no-{name}")))
        else:
            words += [f"--{name}", *value_for(field.type, chance)]
    return words


def judge(words: list[str]) -> tuple[str, str]:
    """Parse and validate a line, and return "taken" or "refused" with the message. Any other outcome is raised."""
    said = io.StringIO()
    status = 0
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            cli._parse_main_arguments(words).config.check()
    except InputError as error:
        status = 2
        said.write(str(error))
    except SystemExit as end:
        status = end.code
    assert status in (0, 2), (words, status)
    assert (status == 0) == (said.getvalue() == ""), (words, said.getvalue())
    assert "Traceback" not in said.getvalue(), words
    return "refused" if status else "taken", said.getvalue()


def tiny_line(chance: random.Random) -> list[str]:
    """Return a random line that is valid, and small enough to be run."""
    command = chance.choice(list(KINDS))
    class_name = chance.choice(("gridworld-slope", "gridworld-counterexample", "minigrid"))
    batch, horizon = chance.choice((1, 2, 5)), chance.choice((1, 7, 20))
    words = [command, *(["random"] if command == "finetune" else [class_name, "--preset", "quick"])]
    words += ["--horizon", str(horizon), "--seeds", str(chance.choice((1, 2))), "--checkpoint-every", "2"]
    words += ["--hidden", *chance.choice((("4",), ("8", "8")))]
    if command == "pretrain":
        words += ["--batch", str(batch), "--trajectories", str(batch * chance.choice((1, 3, 8))), "--epochs", "3"]
        words += ["--neighbours", str(chance.randrange(1, max(2, batch * horizon))), "--evaluation-batches", "2"]
        words += ["--alpha", chance.choice(("0.05", "0.2", "0.5", "1")), "--initial-mean", "none"]
        words += ["--learning-rate", chance.choice(("1e-7", "1e-4", "1e-2", "1"))]
        words += ["--feature-noise", chance.choice(("0", "0.01"))]
        words += ["--update", chance.choice(("off-policy", "on-policy")), "--memory", chance.choice(("none", "last"))]
        words += ["--max-off-policy-iterations", chance.choice(("1", "5"))]
    elif command == "finetune":
        member = {"gridworld-slope": "GWN", "gridworld-counterexample": "0", "minigrid": "EasyG"}[class_name]
        if class_name == "gridworld-counterexample":
            class_name, member = "multigrid", "MG0"
        words += ["--class", class_name, "--member", member, "--tasks", "2", "--iterations", "2"]
        words += ["--steps", str(horizon * chance.choice((1, 4))), "--critic-hidden", "4", "--critic-passes", "1"]
        words += ["--max-kl", chance.choice(("1e-6", "0.01", "10")), "--discount", chance.choice(("0", "0.99", "1"))]
    else:
        words += ["--method", chance.choice(("maml-r", "diayn")), "--iterations", "2", "--epochs", "2"]
        words += ["--tasks", "2", "--trajectories", "2", "--steps", "10", "--warm-up", "10", "--replay", "100"]
        words += ["--environments", "5", "--skills", "2", "--batch", "4", "--inner-rate", chance.choice(("0.01", "10"))]
    return words


def run(words: list[str], folder: Path) -> tuple[int, str]:
    """Return the status of a run and its output on stderr. An unexpected exception is not caught."""
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        try:
            status = cli.main([*words, "--folder", str(folder)])
        except SystemExit as end:
            raise AssertionError(f"{words} are not valid: {errors.getvalue()}") from end
    said = errors.getvalue().strip()
    assert (status == 0) == (folder / "summary.json").is_file(), (words, status, said)
    assert status in (0, 1, 2), (words, status)
    assert (status == 0) == (said == ""), (words, said)
    for path in [*folder.rglob("*.jsonl"), *folder.rglob("*.json")]:
        assert "NaN" not in path.read_text(), path
        assert "Infinity" not in path.read_text(), path
    return status, said


def main(out: Annotated[Path, tyro.conf.Positional], lines: int = 10_000, runs: int = 30, seed: int = 0) -> None:
    """Try random command lines, run some small ones, and write the outcomes to a file.

    Args:
        out: the JSON file that is written.
        lines: the number of lines that are parsed and validated.
        runs: the number of small lines that are run to their end.
        seed: the seed of the random lines.
    """
    chance = random.Random(seed)
    outcomes: Counter[str] = Counter()
    with rich.progress.Progress() as progress:
        shown = progress.add_task("lines", total=lines)

        @hypothesis.seed(seed)
        @settings(max_examples=lines, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(st.randoms(use_true_random=False))
        def try_line(of_hypothesis: random.Random) -> None:
            outcomes[judge(random_line(of_hypothesis))[0]] += 1
            progress.advance(shown)

        try_line()
    ended = []
    with tempfile.TemporaryDirectory() as folder:
        for number in rich.progress.track(range(runs), "runs"):
            words = tiny_line(chance)
            status, said = run(words, Path(folder) / str(number))
            ended.append({"line": " ".join(words), "status": status, "said": said.replace(folder, "…")})
    report = {"lines": outcomes.total(), "outcomes": outcomes, "runs": ended}
    out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    print(dict(outcomes), dict(Counter(one["status"] for one in ended)))


if __name__ == "__main__":
    sys.argv[0] = "fuzz.py"
    tyro.cli(main)
