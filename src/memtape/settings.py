"""Every setting, once: name, default, help. Only `compose` reads them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing a user may set in the environment."""

    name: str
    default: str
    help: str


SETTINGS: tuple[Setting, ...] = (
    Setting("MEMTAPE_DB", "~/.memtape/memory.db", "the store: a path, sqlite:///file or postgresql://... (also --db)"),
    Setting("MEMTAPE_OWNER", "local", "whose memory it is (also --owner)"),
    Setting("MEMTAPE_SLOT", "sqlite_fts", "how documents are searched: sqlite_fts (words) or hybrid_embeddings (meaning too)"),
    Setting("MEMTAPE_EMBEDDER", "off", "what compares texts: off, static (in the package), minilm (built once) or remote"),
    Setting("MEMTAPE_MODELS", "~/.memtape/models", "the folder of models that `memtape embedder build` makes"),
    Setting(
        "MEMTAPE_EMBEDDER_URL", "", "of remote: an API like OpenAI's, as https://api.openai.com/v1 or http://localhost:11434/v1"
    ),
    Setting("MEMTAPE_EMBEDDER_MODEL", "", "of remote: the server's model"),
    Setting("MEMTAPE_EMBEDDER_KEY", "", "of remote: the key; one's own server may need none"),
    Setting("MEMTAPE_EMBEDDER_DIM", "", "of remote: how long a vector is asked for, where the model offers several lengths"),
    Setting("MEMTAPE_TOKENIZER", "", "a tokenizer.json to count a brief's tokens by; without it they are estimated"),
    Setting("MEMTAPE_ANTHROPIC_URL", "", "where anthropic/... models are asked, if not at Anthropic"),
    Setting("MEMTAPE_OPENAI_URL", "", "where openai/... models are asked: OpenRouter, Ollama, vLLM, ... if not at OpenAI"),
    Setting("ANTHROPIC_API_KEY", "", "the key for anthropic/... models"),
    Setting("OPENAI_API_KEY", "", "the key for openai/... models; one's own server may need none"),
    Setting("MEMTAPE_SYNC_MINUTES", "5", "how often `serve` looks at all documents, besides watching for changes; 0: never"),
    Setting("MEMTAPE_WAIT_SECONDS", "5", "how long a writer waits for another before it says 'locked'"),
)
