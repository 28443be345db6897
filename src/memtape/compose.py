"""From settings to a Memory. Only this module reads settings and picks a back end, a model, an embedder and a runner."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from memtape.core.codec import digest
from memtape.core.ledger.terms import RULES_VERSION
from memtape.documents.slots import SLOTS, Slot
from memtape.engine import Memory
from memtape.engine.resources import ESTIMATED, TokenCounter
from memtape.errors import Invalid
from memtape.plugs.clock import Clock, SystemClock
from memtape.plugs.embedder import Embedder, EmbedderSources, embedder_of, embedder_with_id
from memtape.settings import SETTINGS
from memtape.store.addresses import is_libpq_string, is_postgres, is_without_scheme
from memtape.store.addresses import without_password as without_password
from memtape.store.database import Database, is_storable_text

if TYPE_CHECKING:
    from memtape.plugs.models import Model, ModelAccess
    from memtape.plugs.prices import Price
    from memtape.runners.protocol import Runner


def setting(name: str, environment: Mapping[str, str] | None = None) -> str:
    """Returns a setting from the environment, or its default."""
    environment = os.environ if environment is None else environment
    default = next(s.default for s in SETTINGS if s.name == name)
    return environment.get(name) or default


def settings_in_force(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns memtape's own settings that the environment sets, for another process of memtape; the store is named elsewhere.

    >>> settings_in_force({"MEMTAPE_SLOT": "hybrid_embeddings", "MEMTAPE_DB": "/tmp/a.db", "HOME": "/root"})
    {'MEMTAPE_SLOT': 'hybrid_embeddings'}
    """
    environment = os.environ if environment is None else environment
    own = [s.name for s in SETTINGS if s.name.startswith("MEMTAPE_") and s.name not in ("MEMTAPE_DB", "MEMTAPE_OWNER")]
    return {name: environment[name] for name in own if environment.get(name)}


StoreAddress: TypeAlias = "str | os.PathLike[str]"


def store_address(url: StoreAddress | None = None) -> str:
    """Returns the store's address: the given one, else MEMTAPE_DB, else the file in the home folder.

    >>> store_address("sqlite:////tmp/a.db"), store_address("postgresql://host/db")
    ('/tmp/a.db', 'postgresql://host/db')
    """
    given = setting("MEMTAPE_DB") if url is None or url == "" else os.fspath(url) if isinstance(url, os.PathLike) else url
    if not is_storable_text(given):
        raise Invalid("db", "is not the address of a store", "Use a path, sqlite:///file.db or postgresql://...")
    if given == ":memory:":
        return given
    if is_postgres(given):
        # Everything that asks for the kind of a store compares the scheme in small letters.
        scheme, _, rest = given.partition("://")
        named, at, _ = rest.partition("?")[0].rpartition("@")
        if at and ("@" in named or "/" in named):
            # PostgreSQL would take a part of the password for the host, and name it in its message.
            raise Invalid("db", "the name or the password contains @ or /", "Write them as %40 and %2F")
        return f"{scheme.lower()}://{rest}"
    if is_libpq_string(given) or is_without_scheme(given) or given.lower().startswith(("postgresql:", "postgres:")):
        fix = "Write postgresql://NAME@HOST:PORT/DATABASE, with the password in PGPASSWORD or ~/.pgpass"
        raise Invalid("db", "is not a URL of PostgreSQL", fix)
    if given.startswith("sqlite:///"):
        given = given.removeprefix("sqlite:///")
    elif "://" in given:
        raise Invalid("db", f"'{without_password(given)}' is not the address of a store", "Use a path, sqlite:///file.db or postgresql://...")
    if not given:
        raise Invalid("db", "the path is empty", "Name a file, like sqlite:///memory.db")
    return str(Path(given).expanduser().absolute())


def number_setting(name: str) -> float:
    """A setting that is a number."""
    given = setting(name)
    try:
        return float(given)
    except ValueError:
        raise Invalid(name, f"'{given}' is not a number", "Set a number") from None


def open_database(url: StoreAddress | None = None, *, migrating: bool = False) -> Database:
    """Open the database at an address."""
    seconds = number_setting("MEMTAPE_WAIT_SECONDS")
    where = store_address(url)
    if where.startswith("postgres"):
        from memtape.store.postgres import PostgresDatabase

        return PostgresDatabase(where, wait_seconds=seconds, migrating=migrating)
    from memtape.store.sqlite import SqliteDatabase

    return SqliteDatabase(where, wait_seconds=seconds)


def open_memory(url: StoreAddress | None = None, owner: str | None = None, clock: Clock | None = None) -> Memory:
    """Open the memory of an owner. An SQLite store whose trades were computed by older rules is rebuilt first, after a backup."""
    database = open_database(url)
    if database.dialect == "sqlite" and database.owners_with_rules_before(RULES_VERSION):
        # Imported when needed: once in the life of a store.
        from memtape.engine.proof.upgrade import upgrade_rules

        upgrade_rules(database)
    return Memory(
        database, owner or setting("MEMTAPE_OWNER"), clock, models=model,
        embedder=partial(document_embedder, "sqlite_fts"), tokens=token_counter(), documents=documents(url),
        workspaces=workspaces(url), slot=slot(), document_embedder=document_embedder, embedder_by_id=previous_embedder,
        columns_mb=number_setting("MEMTAPE_COLUMNS_MB"),
    )  # fmt: skip


def documents(url: StoreAddress | None = None) -> str:
    """Returns the path of the document index: beside an SQLite store, else in the home folder, by the address of the store.

    >>> documents("/tmp/desk.db"), documents(":memory:")
    ('/tmp/desk.docs.db', ':memory:')
    """
    where = store_address(url)
    if where == ":memory:":
        return where
    if where.startswith("postgres"):
        return str(Path("~/.memtape").expanduser() / f"documents-{digest(where)[:16]}.db")
    return str(Path(where).with_suffix(".docs.db"))


def workspaces(url: StoreAddress | None = None) -> str | None:
    """Returns the folder for workspaces of agents without their own: beside an SQLite store, else in the home folder.

    >>> workspaces("/tmp/desk.db"), workspaces(":memory:")
    ('/tmp/desk.workspace', None)
    """
    where = store_address(url)
    if where == ":memory:":
        return None
    if where.startswith("postgres"):
        return str(Path("~/.memtape/workspaces").expanduser() / digest(where)[:16])
    return str(Path(where).with_suffix(".workspace"))


def slot() -> Slot:
    """Returns the default slot for document search."""
    named = setting("MEMTAPE_SLOT")
    if named not in SLOTS:
        raise Invalid("MEMTAPE_SLOT", f"there is no slot '{named}'", f"Set one of {', '.join(SLOTS)}")
    return named


def embedder(name: str | None = None) -> Embedder | None:
    """Returns the named embedder, else the one in the settings; None if it is off."""
    return embedder_of(name or setting("MEMTAPE_EMBEDDER"), _sources())


def document_embedder(slot: Slot) -> Embedder | None:
    """Returns the embedder of documents for a slot. The slot for meaning uses `static` if none is set.

    The slot for words uses only a local embedder: documents are sent to a server only if the slot for meaning was chosen.
    """
    if slot == "hybrid_embeddings":
        return embedder() or embedder("static")
    return None if setting("MEMTAPE_EMBEDDER") == "remote" else embedder()


def previous_embedder(id: str) -> Embedder | None:
    """Returns the embedder with an id; None if this machine and these settings do not have it."""
    return embedder_with_id(id, _sources())


def model_folders() -> tuple[Path, ...]:
    """Returns the folders of built models: the one in the settings, then the one of this installation (used by `make setup`)."""
    return Path(setting("MEMTAPE_MODELS")).expanduser().absolute(), Path(sys.prefix, "share", "memtape", "models")


def _sources() -> EmbedderSources:
    dim = setting("MEMTAPE_EMBEDDER_DIM")
    if dim and not (dim.isdecimal() and int(dim)):
        raise Invalid("MEMTAPE_EMBEDDER_DIM", f"'{dim}' is not a vector length", "Set a whole number above 0, or leave it empty")
    url, named, key = (setting(f"MEMTAPE_EMBEDDER_{name}") for name in ("URL", "MODEL", "KEY"))
    return EmbedderSources(model_folders(), url, named, key, int(dim) if dim else None)


def model(name: str) -> Model:
    """Returns a model by name, with its price and the address and the key that are set for its provider."""
    from memtape.plugs.models import model_of
    from memtape.plugs.prices import parse_prices

    url, key = _provider_setting(name, "MEMTAPE_{}_URL"), _provider_setting(name, "{}_API_KEY")
    return model_of(name, base_url=url, api_key=key, prices=parse_prices(setting("MEMTAPE_PRICES")))


def token_price(name: str) -> Price | None:
    """Returns what the tokens of a model cost, by the owner's prices or the list; it needs no key."""
    from memtape.plugs.prices import parse_prices, price_of

    return price_of(name, parse_prices(setting("MEMTAPE_PRICES")))


def _provider_setting(model_name: str, form: str) -> str | None:
    name = form.format(model_name.partition("/")[0].upper())
    return (setting(name) if any(s.name == name for s in SETTINGS) else "") or None


def runner(name: str, model: str | None = None, clock: Clock | None = None) -> Runner:
    """Returns the runner of a name, for an agent with this model. Imported when needed: most calls run no agent."""
    from memtape.runners.choose import RunnerSources, runner_of

    def access(named: str) -> ModelAccess:
        from memtape.plugs.models import model_access
        from memtape.plugs.prices import parse_prices

        url, key = _provider_setting(named, "MEMTAPE_{}_URL"), _provider_setting(named, "{}_API_KEY")
        return model_access(named, base_url=url, api_key=key, prices=parse_prices(setting("MEMTAPE_PRICES")))

    folder = Path("~/.memtape/claude").expanduser().absolute()
    sources = RunnerSources(
        clock=clock or SystemClock(), access=access, claude=setting("MEMTAPE_CLAUDE"), claude_folder=folder,
        environment=os.environ,
    )  # fmt: skip
    return runner_of(name, model, sources)


def chat_model() -> str | None:
    """Returns the model of the owner's chat; None if none is configured."""
    return setting("MEMTAPE_CHAT_MODEL").strip() or None


def chat_budget_usd() -> Decimal:
    """Returns what one turn of the owner's chat may cost, in US dollars."""
    given = setting("MEMTAPE_CHAT_USD_PER_TURN")
    try:
        amount = Decimal(given)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount <= 0:
        raise Invalid("MEMTAPE_CHAT_USD_PER_TURN", f"'{given}' is not an amount above 0", "Set US dollars, like 0.50")
    return amount


def token_counter() -> TokenCounter:
    """Returns what counts a brief's tokens: the tokenizer in the settings, else an estimate."""
    file = setting("MEMTAPE_TOKENIZER")
    if not file:
        return ESTIMATED
    path = Path(file).expanduser()
    if not path.is_file():
        raise Invalid("MEMTAPE_TOKENIZER", f"{path} is not a file", "Name a tokenizer.json, or leave it empty")

    @lru_cache(maxsize=1)
    def tokenizer() -> Any:
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(path))

    return (lambda text: len(tokenizer().encode(text, add_special_tokens=False).ids)), f"tokenizer {path.parent.name}/{path.name}"
