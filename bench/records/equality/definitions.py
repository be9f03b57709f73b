"""Which definitions of two trees of source are the same, wherever they lie. No code is run.

A statement at the top of a module is a function, a class or a value, without comments, docstrings
and layout. One of the older tree and one of the newer *match* if their text is equal, at least when
names of local variables do not count (:mod:`bench.records.equality.local_names`), and they lie in
the same module, or if no module kept that text and each tree has it once. They are the *same* if
every name in them leads to the same thing: through the imports of either tree to statements that
are the same, or to one name of another package. Whatever cannot be told counts as not the same.

Example: ``rotate`` moves from ``models/gpt2.py`` to ``models/layers/rotary.py``, from where
``models/gpt2.py`` imports it. The text of ``Attention`` is what it was, and its name ``rotate``
leads to the match of what it led to.
"""

from __future__ import annotations

from collections import defaultdict

from bench.records.code import OWN
from bench.records.equality.statements import Source, Statement, Thing


class Moves:
    """The definitions of two trees, matched.

    Attributes:
        matches: of the older tree -> of the newer.
        same: those of the older tree that are the same as their matches.
    """

    def __init__(self, old: Source, new: Source) -> None:
        self.old, self.new = old, new
        self.matches = _matches(old, new)
        self.same = set(self.matches)
        while doubtful := {statement for statement in self.same if self._difference(statement)}:
            self.same -= doubtful

    def today(self, target: str) -> str | None:
        """What a class is called in the newer tree; None if it, or anything that it leads to, is
        not the same there."""
        if self._name_is_read(target):
            return None
        newer = self.old.renames.target(target)
        origin = self.old.origin(newer)
        if len(origin) != 1 or isinstance(origin[0], str) or origin[0] not in self.same:
            return None
        match = self.matches[origin[0]]
        name = newer.rpartition(".")[2]
        current_name = newer if self.new.origin(newer) == (match,) else f"{match.module}.{name}"
        effects = self.old.effects(target)
        all_same = all(statement in self.same for statement in effects)
        effects_now = [self.matches[statement] for statement in effects] if all_same else []
        is_same = all_same and effects_now == self.new.effects(current_name)
        return current_name if is_same else None

    def moved_behind(self, target: str) -> dict[str, str]:
        """The definitions behind a class that lie in another module now, or have another name: old
        name -> new name."""
        moved = {}
        for statement in self._behind(target):
            old, new = self.old.renames.before(statement.shown), self.matches[statement].shown
            if old != new:
                moved[old] = new
        return dict(sorted(moved.items()))

    def why_not(self, target: str) -> str:
        """Why a class has no name in the newer tree."""
        for statement in self._behind(target):
            if statement not in self.matches:
                return f"{statement.shown} of the older code is not here, or differs"
            if statement not in self.same and self.same.issuperset(self._reached(statement)):
                return f"{statement.shown}: {self._difference(statement)}"
        if reader := self._name_is_read(target):
            return f"{reader} reads the names of functions or classes, of which one is another here"
        return "what runs when its modules are imported is not the same"

    def _name_is_read(self, target: str) -> str:
        """What behind a class could see that a definition has another name."""
        readers = (statement.shown for statement in self._behind(target) if statement.reads_names)
        return next(readers, "") if self.old.renames.names else ""

    def _behind(self, target: str) -> list[Statement]:
        """The older tree's statements that a class leads to, itself first."""
        origin = self.old.origin(self.old.renames.target(target))
        waiting = [statement for statement in origin if isinstance(statement, Statement)]
        reached = dict.fromkeys(waiting)
        while waiting:
            for statement in self._reached(waiting.pop()):
                if statement not in reached:
                    reached[statement] = None
                    waiting.append(statement)
        return [*reached]

    def _reached(self, statement: Statement) -> list[Statement]:
        """Other statements of the older tree that one leads to at once."""
        things: list[Thing] = []
        for name in statement.names:
            things += self.old.leads_to(statement.module, name)
        for dotted in statement.imports:
            things += self.old.origin(dotted)
        return [x for x in things if isinstance(x, Statement) and x is not statement]

    def _difference(self, statement: Statement) -> str:
        """What a statement of the older tree and its match lead to that is not the same; empty if
        nothing is."""
        match = self.matches[statement]
        old_module, new_module = self.old.modules[statement.module], self.new.modules[match.module]
        if old_module.future != new_module.future:
            return "its modules have other imports from __future__"
        for name in sorted(statement.names):
            pair = self.old.leads_to(statement.module, name), self.new.leads_to(match.module, name)
            if not self._equal(*pair):
                return f"the name {name} is something else here"
        for dotted in sorted(statement.imports):
            if not self._equal(self.old.origin(dotted), self.new.origin(dotted)):
                return f"its import of {dotted} gives something else here"
        return ""

    def _equal(self, before: tuple[Thing, ...], after: tuple[Thing, ...]) -> bool:
        if len(before) > 1 or len(before) != len(
            after
        ):  # which of several counts, is not looked at
            return False
        return all(self._is(*pair) for pair in zip(before, after, strict=True))

    def _is(self, before: Thing, after: Thing) -> bool:
        if isinstance(before, Statement):
            return before in self.same and self.matches[before] is after
        if before != after:
            return False
        if before.partition(".")[0] not in OWN:
            return True
        return before in self.old.modules and self._whole(before)

    def _whole(self, module: str) -> bool:
        """Whether a module that is passed about as a thing has all its names as they were. What a
        package has beneath it is not looked at, and neither are its names that are others now."""
        if module not in self.new.modules or self.old.renames.within(module):
            return False
        if any(name.startswith(f"{module}.") for name in self.old.modules):
            return False
        versions = self.old.modules[module], self.new.modules[module]
        names = set[str]()
        for version in versions:
            names.update(version.imports, *(statement.binds for statement in version.statements))
        pairs = ((self.old.leads_to(module, n), self.new.leads_to(module, n)) for n in names)
        return all(self._equal(*pair) for pair in pairs)


def _matches(old: Source, new: Source) -> dict[Statement, Statement]:
    """First what is equal to the letter, then what is but for the names of local variables."""
    matches: dict[Statement, Statement] = {}
    for form in (_text, _normal_form):
        added = defaultdict[str, list[Statement]](list)
        taken = set(matches.values())
        for name, module in new.modules.items():
            by_form = defaultdict[str, list[Statement]](list)
            for statement in module.statements:
                if statement not in taken:
                    by_form[form(statement)].append(statement)
            before = old.modules[name].statements if name in old.modules else ()
            for statement in before:
                if statement not in matches and by_form[form(statement)]:
                    matches[statement] = by_form[form(statement)].pop(0)
            for text, unmatched in by_form.items():
                added[text] += unmatched
        removed = defaultdict[str, list[Statement]](list)
        for module in old.modules.values():
            for statement in module.statements:
                if statement not in matches:
                    removed[form(statement)].append(statement)
        for text, statements in removed.items():
            is_unique = len(statements) == len(added[text]) == 1
            if is_unique and statements[0].binds and not statements[0].stays:
                matches[statements[0]] = added[text][0]
    return matches


def _text(statement: Statement) -> str:
    return statement.text


def _normal_form(statement: Statement) -> str:
    return statement.normal_form
