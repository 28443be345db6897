"""`dataclass` for the values of memtape: the one of Python, with methods that are written when they are first called.

Python's own decorator compiles up to seven methods for each class, about a millisecond. A command loads hundreds of classes and
makes values of a few of them, so a third of its start went into methods that nobody called. Here `__init__`, `__eq__` and
`__hash__` are compiled at their first call and are from then on what Python would have made. `fields`, `replace`, matching and
copying work as with any dataclass. A type checker sees Python's own decorator.

>>> @dataclass(frozen=True, slots=True)
... class Level:
...     '''A price that matters.'''
...     symbol: str
...     price: int = 100
>>> Level("BTC"), Level("BTC") == Level("BTC", 100), len({Level("BTC"), Level("BTC")})
(Level(symbol='BTC', price=100), True, 1)
>>> Level("BTC").price = 7
Traceback (most recent call last):
    ...
dataclasses.FrozenInstanceError: cannot assign to field 'price'
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, kw_only=False, eq=True):
        """Python's `dataclass` with its methods made when they are first called."""

        def decorate(plain: type) -> type:
            own, words = plain.__dict__, plain.__doc__
            # The standard library would write a missing docstring from the signature, which costs more than all the rest.
            plain.__doc__ = words or plain.__name__
            made = dataclasses.dataclass(plain, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
            made.__doc__ = words
            _add_methods(made, own, frozen=frozen, eq=eq, pickled=frozen and slots)
            return made

        return decorate if cls is None else decorate(cls)


def _add_methods(cls: Any, own: Any, *, frozen: bool, eq: bool, pickled: bool) -> None:
    """Gives a class the methods that it does not define itself."""
    if "__init__" not in own:
        cls.__init__ = _made_at_first_call(cls, "__init__", _init_source)
    if "__repr__" not in own:
        cls.__repr__ = _repr
    if eq and "__eq__" not in own:
        cls.__eq__ = _made_at_first_call(cls, "__eq__", _eq_source)
    # A class that defines only `__eq__` has None here.
    if eq and own.get("__hash__") is None:
        cls.__hash__ = _made_at_first_call(cls, "__hash__", _hash_source) if frozen else None
    if frozen:
        cls.__setattr__, cls.__delattr__ = _refuse_to_set, _refuse_to_delete
    if pickled and "__getstate__" not in own:
        cls.__getstate__, cls.__setstate__ = _state, _set_state


def _made_at_first_call(cls: Any, name: str, source: Callable[[Any, dict[str, Any]], str]) -> Any:
    def first_call(self: Any, *args: Any, **named: Any) -> Any:
        around: dict[str, Any] = {"_set": object.__setattr__, "_default": dataclasses.MISSING, "_cls": cls}
        exec(source(cls, around), around)
        method = around[name]
        method.__qualname__ = f"{cls.__qualname__}.{name}"
        setattr(cls, name, method)
        return method(self, *args, **named)

    first_call.__name__ = name
    return first_call


def _init_source(cls: Any, around: dict[str, Any]) -> str:
    """The text of `__init__`; values that it refers to are put into `around`."""
    positional, named, lines = list[str](), list[str](), list[str]()
    for field in dataclasses.fields(cls):
        parameter, value = field.name, field.name
        if field.default_factory is not dataclasses.MISSING:
            around[f"_new_{field.name}"] = field.default_factory
            parameter, value = f"{field.name}=_default", f"_new_{field.name}() if {field.name} is _default else {field.name}"
            value = value if field.init else f"_new_{field.name}()"
        elif field.default is not dataclasses.MISSING:
            around[f"_default_{field.name}"] = field.default
            parameter = f"{field.name}=_default_{field.name}"
            value = value if field.init else f"_default_{field.name}"
        elif not field.init:
            continue
        if field.init:
            (named if field.kw_only else positional).append(parameter)
        lines.append(f"    _set(self, {field.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    parameters = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    return "\n".join([f"def __init__({parameters}):", *(lines or ["    pass"])])


def _eq_source(cls: Any, around: dict[str, Any]) -> str:
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    ours, theirs = ("".join(f"{one}.{name}, " for name in names) for one in ("self", "other"))
    return (
        "def __eq__(self, other):\n"
        "    if other.__class__ is not self.__class__:\n        return NotImplemented\n"
        f"    return ({ours}) == ({theirs})"
    )


def _hash_source(cls: Any, around: dict[str, Any]) -> str:
    names = [field.name for field in dataclasses.fields(cls) if (field.compare if field.hash is None else field.hash)]
    return f"def __hash__(self):\n    return hash(({''.join(f'self.{name}, ' for name in names)}))"


def _repr(self: Any) -> str:
    shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse_to_set(self: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
