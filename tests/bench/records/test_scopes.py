"""Scopes of Python: code that gives something else has another normal form, however alike it is.

Each example is two texts in which ``f`` is run, so that Python itself says whether they differ.
"""

from __future__ import annotations

import ast
import sys
from textwrap import dedent
from typing import Any

import pytest

from bench.records.equality.local_names import known_packages, reads_frames
from tests.bench.records.renaming import normal_forms

SAME = {
    "two variables": ("def f(): a = 1; b = 2; return a - b", "def f(): b = 1; a = 2; return b - a"),
    "a built-in name": ("def f(): a = 1; return a", "def f(): len = 1; return len"),
    "a global name": ("x = 5\ndef f(): a = 1; return a", "x = 5\ndef f(): x = 1; return x"),
    "a comprehension over its own name": (
        "def f(): x = [1, 2]; return [x for x in x]",
        "def f(): x = [1, 2]; return [y for y in x]",
    ),
    "a name of the class body": (
        "x = 'global'\ndef f():\n x = 'local'\n class A: x = x\n return A.x",
        "x = 'global'\ndef f():\n y = 'local'\n class A: x = x\n return A.x",
    ),
    "a method sees no name of its class": (
        "def f():\n x = 1\n class A:\n  x = 2\n  def m(self): return x\n return A().m()",
        "def f():\n y = 1\n class A:\n  x = 2\n  def m(self): return y\n return A().m()",
    ),
    "closures": (
        "def f():\n a = 1\n def g(b=a):\n  c = a + b\n  return lambda: c + a\n return g()()",
        "def f():\n c = 1\n def g(b=c):\n  a = c + b\n  return lambda: a + c\n return g()()",
    ),
    "all that binds": (
        """
        def f():
            with open("/dev/null") as file:
                text = file.read()
            for number in range(3):
                text += f"{number:{len(text)}}"
            try:
                1 / 0
            except ZeroDivisionError as error:
                text += str(error)
            match {"a": [1, 2, 3], "b": 4}:
                case {"a": [first, *others], **more}:
                    text += f"{first}{others}{more}"
            if (length := len(text)) > 3:
                del number
            counts: dict[str, int] = {word: n for n, word in enumerate(text.split())}
            return text, length, counts, [last := n for n in (1, 2)], last
        """,
        """
        def f():
            with open("/dev/null") as a:
                b = a.read()
            for c in range(3):
                b += f"{c:{len(b)}}"
            try:
                1 / 0
            except ZeroDivisionError as c2:
                b += str(c2)
            match {"a": [1, 2, 3], "b": 4}:
                case {"a": [d, *e], **g}:
                    b += f"{d}{e}{g}"
            if (h := len(b)) > 3:
                del c
            i: dict[str, int] = {k: j for j, k in enumerate(b.split())}
            return b, h, i, [m := o for o in (1, 2)], m
        """,
    ),
    "a lambda that is called by position": (
        "def f(): g = lambda a: a + 1; return g(1)",
        "def f(): h = lambda b: b + 1; return h(1)",
    ),
    "parameters that no call can name": (
        "def f(): return (lambda a, b, /, *c: (a - b, c))(1, 2, 3)",
        "def f(): return (lambda b, a, /, *d: (b - a, d))(1, 2, 3)",
    ),
}
NESTED = "def f():\n x = 1\n def g():\n  {}\n  x = 2\n g()\n return x"
CALLED = "def f():\n g = lambda {}\n try: return g({})\n except TypeError: return 'refused'"
LOOKING = "def f(): {} = 1; return {}"
OTHER = {
    "another order": ("def f(): a = 1; b = 2; return a - b", "def f(): b = 1; a = 2; return a - b"),
    "another variable": ("def f(): a = 1; b = 2; return a", "def f(): a = 1; b = 2; return b"),
    "two loops": (
        "def f(): return [(a, b) for a in (1, 2) for b in (3, 4)]",
        "def f(): return [(a, b) for b in (1, 2) for a in (3, 4)]",
    ),
    "a global and a local": ("x = 5\ndef f(): x = 1; return x", "x = 5\ndef f(): y = 1; return x"),
    "a built-in function and a local": (
        "def f(): len = lambda v: 7; return len([1])",
        "def f(): size = lambda v: 7; return len([1])",
    ),
    "a local that has no value yet": (
        "x = 1\ndef f():\n try: return x\n except Exception: return 0\n x = 2",
        "x = 1\ndef f():\n try: return x\n except Exception: return 0\n y = 2",
    ),
    "nonlocal": (NESTED.format("nonlocal x"), NESTED.format("pass")),
    "global": (
        "x = 0\ndef f():\n global x\n x = 1\n return globals()['x']",
        "x = 0\ndef f():\n global y\n x = 1\n return globals()['x']",
    ),
    "a class body that reads a local": (
        "x = 'global'\ndef f():\n x = 'local'\n class A: z = x\n return A.z",
        "x = 'global'\ndef f():\n y = 'local'\n class A: z = x\n return A.z",
    ),
    "a class body that its metaclass filled": tuple(
        f"""
        class Filled(type):
            @classmethod
            def __prepare__(cls, name, bases):
                return {{"x": "filled"}}

        def f():
            {name} = "local"
            class A(metaclass=Filled):
                z = {name}
            return A.z
        """
        for name in "xy"
    ),
    "the variable of a comprehension": (
        "def f(): x = 1; [x for x in (2, 3)]; return x",
        "def f(): x = 1; [x := y for y in (2, 3)]; return x",
    ),
    "the inner of two comprehensions": (
        "def f(): return [[x for x in (1, 2)] for x in (3, 4)]",
        "def f(): return [[x for y in (1, 2)] for x in (3, 4)]",
    ),
    "a default value is read outside": (
        "def f():\n x = 1\n y = 2\n def g(x=x): return x\n return g()",
        "def f():\n x = 1\n y = 2\n def g(x=y): return x\n return g()",
    ),
    "a parameter hides a local": (
        "def f():\n x = 1\n def g(x): return x\n return g(2)",
        "def f():\n x = 1\n def g(y): return x\n return g(2)",
    ),
    "late and early": (
        "def f(): return [g() for g in [lambda: i for i in range(3)]]",
        "def f(): return [g() for g in [lambda i=i: i for i in range(3)]]",
    ),
    "names of parameters": (
        "def f():\n def g(a, b): return a - b\n return g(a=1, b=2)",
        "def f():\n def g(b, a): return b - a\n return g(a=1, b=2)",
    ),
    "names of a lambda's parameters": (
        CALLED.format("a, b: a - b", "a=1, b=2"),
        CALLED.format("b, a: b - a", "a=1, b=2"),
    ),
    "the one parameter of a lambda": (CALLED.format("a: a", "a=1"), CALLED.format("b: b", "a=1")),
    "the parameter as a text": (
        CALLED.format("a: a", "**{'a': 1}"),
        CALLED.format("b: b", "**{'a': 1}"),
    ),
    "a parameter after a star": (
        CALLED.format("*, a=0: a", "a=1"),
        CALLED.format("*, b=0: b", "a=1"),
    ),
    "the name of a function": (
        "def f():\n def g(): pass\n return g.__name__",
        "def f():\n def h(): pass\n return h.__name__",
    ),
    "the names of a class": (
        "def f():\n class A: a = 1\n return hasattr(A, 'a')",
        "def f():\n class A: b = 1\n return hasattr(A, 'a')",
    ),
    "an annotation": tuple(
        "from __future__ import annotations\n"
        f"def f():\n {name} = int\n def g(p: {name}): pass\n return g.__annotations__"
        for name in "ab"
    ),
    "an f-string that shows the name": (
        "def f(): a = 1; return f'{a=}'",
        "def f(): b = 1; return f'{b=}'",
    ),
    **{
        look: (LOOKING.format("a", look), LOOKING.format("b", look))
        for look in (
            "locals()",
            "vars()",
            "dir()",
            "'a' in locals()",
            "__import__('sys')._getframe().f_locals",
        )
    },
    "eval": ("def f(): a = 1; return eval('a', locals())", "def f(): b = 1; return eval('0 + 0')"),
    "an alias of locals": tuple(
        f"look = locals\ndef f(): {name} = 1; return look()" for name in "ab"
    ),
    "a caller's variables": tuple(
        "import sys\ndef look(): return sys._getframe(1).f_locals\n"
        f"def f(): {name} = 1; return look()"
        for name in "ab"
    ),
    "the name in an error": tuple(
        f"def f():\n try: return {name}\n except NameError as error: return str(error)\n {name} = 1"
        for name in "ab"
    ),
    "the order in which a closure holds": tuple(
        f"def f():\n {a} = 1\n {b} = 2\n def g(): return {a}, {b}\n"
        " return [cell.cell_contents for cell in g.__closure__]"
        for a, b in ("ab", "ba")
    ),
}


def result(text: str) -> Any:
    names: dict[str, Any] = {}
    exec(compile(text, "example", "exec", dont_inherit=True), names)
    return names["f"]()


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_other_names_of_the_same_variables_are_the_same(pair: tuple[str, str]) -> None:
    one, other = map(dedent, pair)
    assert result(one) == result(other)
    assert normal_forms(one) == normal_forms(other)


@pytest.mark.parametrize("pair", OTHER.values(), ids=OTHER)
def test_what_gives_something_else_is_not_the_same(pair: tuple[str, str]) -> None:
    one, other = map(dedent, pair)
    assert result(one) != result(other)
    if not any(reads_frames(ast.parse(text)) for text in (one, other)):
        assert normal_forms(one) != normal_forms(other)


LOOKS = [
    "import sys\ndef look(): return sys._getframe(1)",
    "def look(error): return error.__traceback__.tb_frame",
    "look = locals",
    "def look(generator): return getattr(generator, 'gi_frame')",
    "def look(function): return function.__closure__",
    "import numpy\ndef look(): return numpy.bmat('a b')",
]


@pytest.mark.parametrize("text", LOOKS)
def test_code_that_looks_at_the_variables_of_others_is_known(text: str) -> None:
    assert reads_frames(ast.parse(text))


def test_packages_that_look_up_variables_by_their_names_are_not_known() -> None:
    for package in ("pandas", "inspect", "duckdb", "builtins", "something_of_somebody"):
        assert not known_packages(ast.parse(f"def f():\n import {package}"))
        assert not known_packages(ast.parse(f"from {package}.part import query"))
    assert known_packages(
        ast.parse("import math, torch.nn\nfrom . import x\nfrom tasks.a import b")
    )


@pytest.mark.skipif(sys.version_info < (3, 12), reason="these scopes came with Python 3.12")
@pytest.mark.parametrize("text", ["def f[T](x: T):\n {} = 1", "def f():\n type {} = int"])
def test_scopes_of_types_are_left_alone(text: str) -> None:
    assert normal_forms(text.format("a")) != normal_forms(text.format("b"))
