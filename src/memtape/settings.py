"""Every setting: name, default, help. Only `compose` reads them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable."""

    name: str
    default: str
    help: str


SETTINGS: tuple[Setting, ...] = (
    Setting("MEMTAPE_DB", "~/.memtape/memory.db", "the store: a path, sqlite:///file or postgresql://... (also --db)"),
    Setting("MEMTAPE_OWNER", "local", "the owner of the memory (also --owner)"),
    Setting("MEMTAPE_SLOT", "sqlite_fts", "how documents are searched: sqlite_fts (words) or hybrid_embeddings (meaning too)"),
    Setting(
        "MEMTAPE_EMBEDDER", "off", "compares texts by meaning: off, static (part of the package), minilm (built once) or remote"
    ),
    Setting("MEMTAPE_MODELS", "~/.memtape/models", "the folder of models built by `memtape embedder build`"),
    Setting(
        "MEMTAPE_EMBEDDER_URL",
        "",
        "for remote: the address of an API like OpenAI's, such as https://api.openai.com/v1 or http://localhost:11434/v1",
    ),
    Setting("MEMTAPE_EMBEDDER_MODEL", "", "for remote: the server's model"),
    Setting("MEMTAPE_EMBEDDER_KEY", "", "for remote: the key; a local server may need none"),
    Setting("MEMTAPE_EMBEDDER_DIM", "", "for remote: the length of vectors, if the model offers several"),
    Setting("MEMTAPE_TOKENIZER", "", "a tokenizer.json that counts the tokens of briefs; without it they are estimated"),
    Setting("MEMTAPE_ANTHROPIC_URL", "", "the address of anthropic/... models, if not Anthropic's own"),
    Setting("MEMTAPE_OPENAI_URL", "", "the address of openai/... models (OpenRouter, Ollama, vLLM, ...), if not OpenAI's own"),
    Setting("ANTHROPIC_API_KEY", "", "the key for anthropic/... models"),
    Setting("OPENAI_API_KEY", "", "the key for openai/... models; a local server may need none"),
    Setting(
        "MEMTAPE_PRICES",
        "",
        "prices of models in US dollars for a million tokens, before the list prices: provider/name=INPUT/OUTPUT or "
        "INPUT/OUTPUT/CACHED, separated by commas",
    ),
    Setting("MEMTAPE_CHAT_MODEL", "", "the model of the coach in `memtape chat` and on /chat, like anthropic/claude-haiku-4-5"),
    Setting("MEMTAPE_CHAT_USD_PER_TURN", "0.50", "US dollars that one answer of the coach may cost; no further step beyond it"),
    Setting("MEMTAPE_CLAUDE", "claude", "the Claude Code command line, for agents with the runner `claude`: a name or a path"),
    Setting(
        "MEMTAPE_SYNC_MINUTES",
        "5",
        "minutes between two syncs of all documents by `serve`, which also watches for changes; 0: never",
    ),
    Setting(
        "MEMTAPE_COLUMNS_MB", "512", "memory for the episodes that recall keeps ready, in MB; the least recently used leave first"
    ),
    Setting("MEMTAPE_WAIT_SECONDS", "5", "seconds that a writer waits for another writer before it fails"),
)
