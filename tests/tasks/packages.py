"""Packages that some tasks take their data from: an environment need not have them."""

from importlib.metadata import PackageNotFoundError, version

from packaging.requirements import Requirement

from bench.config.groups import card


def lacking(task: str) -> str:
    """Why a task cannot make data here, in a sentence; empty where it can."""
    wanted = card("tasks", task).get("package")
    if wanted is None:
        return ""
    requirement = Requirement(wanted)
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        installed = ""
    if installed and requirement.specifier.contains(installed):
        return ""
    has = f"{requirement.name} {installed}" if installed else f"no {requirement.name}"
    return f"the data of {task} are those of {wanted}, and this environment has {has}"
