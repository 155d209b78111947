"""The heat-maps and replays of the runs of a class."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.environments.cmp import Member
from alphamepol.environments.host import AnyClass
from alphamepol.environments.make import make
from alphamepol.environments.maps import Map
from alphamepol.environments.registry import registered_class_names
from alphamepol.errors import InputError
from alphamepol.files.json_files import read_json
from alphamepol.files.reading import ODD
from alphamepol.measuring.evaluation_files import load_evaluation
from alphamepol.measuring.exploration import Evaluation
from alphamepol.pages.html import Html
from alphamepol.pages.places import PlacedMethod, class_maps_of_places, html_heat_maps, html_replays
from alphamepol.reproduction.report.run_tables import distinct_reported_labels, reported_member_alone
from alphamepol.reproduction.store import Stored

ONE_POLICY = "This map shows one policy, that of the first seed: the maps of all seeds were not kept."


def report_places(
    stored: Sequence[Stored], kept: Path | None = None, extra: Sequence[PlacedMethod] = ()
) -> tuple[Html, Html]:
    """Return the heat-maps and the replays of runs of one class.

    Both are empty if agents have no place in a plane, or if no run has been evaluated yet. `kept` is a folder with the
    maps of single policies, for runs whose own maps were not kept. `extra` are further methods.
    """
    runs = [one for one in stored if one.evaluated and _is_of_same_members(one, stored[0])]
    methods = [*_placed_runs(runs, kept), *(_kept_besides(runs, kept) if kept else []), *extra]
    if not runs or not methods:
        return Html(), Html()
    maps = report_maps_of_class(str(runs[0].description["class"]), methods[0].evaluation.members)
    return html_heat_maps(methods, maps), html_replays(methods, maps)


def report_maps_of_class(class_name: str, members: Sequence[str]) -> Sequence[Map | None]:
    """Return the map of each member of a class with a name; empty if they are not known, or if members differ."""
    environment_class = _class_with_name(class_name)
    if environment_class is None or environment_class.names != tuple(members):
        return ()
    return class_maps_of_places(environment_class)


def report_member_of_class(class_name: str, member: str) -> Member | None:
    """Return a member of a class with a name; None if it is not known here."""
    environment_class = _class_with_name(class_name)
    return environment_class[member] if environment_class is not None and member in environment_class.names else None


def _class_with_name(class_name: str) -> AnyClass | None:
    try:
        return make(class_name) if class_name in registered_class_names() else None
    except (InputError, ImportError):  # a library that the class needs is not installed
        return None


def _is_of_same_members(one: Stored, other: Stored) -> bool:
    return one.evaluated and one.evaluation.members == tuple(other.summary["members"])


def _placed_runs(runs: Sequence[Stored], kept: Path | None) -> list[PlacedMethod]:
    """Return the methods of runs. The first run with an α is on the slider."""
    methods: list[PlacedMethod] = []
    for label, one in zip(distinct_reported_labels(runs), runs, strict=True):
        config, alone = one.config, reported_member_alone(one)
        evaluation, note = one.evaluation, ""
        if evaluation.visits is None and kept is not None and (found := _kept_evaluation(_kept_folder(one, kept))):
            # The caption of a map is about the policy that it shows.
            evaluation, note = dataclasses.replace(found, trails=evaluation.trails), ONE_POLICY
        alpha = None
        if one.description["command"] == "pretrain" and not alone and isinstance(config, PretrainConfig):
            plain = config.update == "off-policy" and config.memory == "none"
            alpha = config.alpha if plain and config.alpha not in [method.alpha for method in methods] else None
        methods.append(PlacedMethod(f"trained in {alone}" if alone else label, evaluation, alpha, note))
    return methods


def _kept_folder(one: Stored, kept: Path) -> Path:
    assert isinstance(one.config, PretrainConfig)
    return kept / f"{one.description['class']}-alpha-{one.config.alpha:g}"


def _kept_besides(runs: Sequence[Stored], kept: Path) -> list[PlacedMethod]:
    """Return the kept maps that belong to none of the runs."""
    own = {_kept_folder(one, kept) for one in runs if isinstance(one.config, PretrainConfig)}
    methods = []
    for folder in sorted(path for path in kept.glob("*") if path not in own):
        found = _kept_evaluation(folder)
        if found is not None and runs and found.members == runs[0].evaluation.members:
            methods.append(PlacedMethod(_kept_label(folder), found, note=ONE_POLICY))
    return methods


def _kept_label(folder: Path) -> str:
    try:
        return str(read_json(folder / "summary.json")["label"])
    except (*ODD, InputError, KeyError):
        return folder.name


def _kept_evaluation(folder: Path) -> Evaluation | None:
    try:
        return load_evaluation(folder / "evaluation.safetensors")
    except (*ODD, InputError):
        return None
