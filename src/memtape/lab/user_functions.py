"""Functions of the user: loaded from a file or a module, and called so that a failure names the function and its line."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from typing import Any, cast

from memtape.errors import Invalid, MemtapeError


def load_function(name: str, argument: str) -> Callable[..., Any]:
    """Returns a function of the user: `package.module:function` or `file.py:function`, loaded afresh from a file.

    Raises Invalid, naming the argument.
    """
    where, colon, function = name.rpartition(":")
    if not colon:
        raise Invalid(argument, f"'{name}' names no function", "Write it like sizing.py:half_kelly or package.module:function")
    try:
        if where.endswith(".py"):
            spec = spec_from_file_location(Path(where).stem, where)
            if spec is None or spec.loader is None or not Path(where).is_file():
                raise Invalid(argument, f"there is no file {where}", "Name an existing file")
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = import_module(where)
        found = getattr(module, function)
    except MemtapeError:
        raise
    # Loading a module runs it, and it may raise anything.
    except (Exception, SystemExit) as error:
        problem = str(error) if isinstance(error, ImportError | AttributeError) else _described(error)
        raise Invalid(argument, f"{name} cannot be loaded: {problem}", "Check the module and the function") from error
    if not callable(found):
        raise Invalid(argument, f"{name} is no function but {type(found).__name__}", "Name a function")
    return cast(Callable[..., Any], found)


def call_function(argument: str, name: str, function: Callable[..., Any], *given: Any) -> Any:
    """Calls a function of the user. Raises Invalid, naming the argument, the function and the line where it failed."""
    try:
        return function(*given)
    except MemtapeError:
        raise
    # The code is somebody else's: it may raise anything.
    except (Exception, SystemExit) as error:
        raise Invalid(argument, f"{name} failed: {_described(error)}", "Correct the function") from error


def _described(error: BaseException) -> str:
    """Returns an error with the place in the user's file that raised it."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg} ({Path(error.filename or '?').name}, line {error.lineno})"
    frames = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    last = frames[-1] if frames else None
    where = f" ({Path(last.filename).name}, line {last.lineno})" if last is not None and last.filename != __file__ else ""
    return f"{type(error).__name__}: {error}{where}"
