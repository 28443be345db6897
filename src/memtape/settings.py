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
    Setting("MEMTAPE_EMBEDDER", "off", "what compares decisions by their words: off, or static (a table in the package)"),
    Setting("MEMTAPE_TOKENIZER", "", "a tokenizer.json to count a brief's tokens by; without it they are estimated"),
    Setting("MEMTAPE_ANTHROPIC_URL", "", "where anthropic/... models are asked, if not at Anthropic"),
    Setting("MEMTAPE_OPENAI_URL", "", "where openai/... models are asked: OpenRouter, Ollama, vLLM, ... if not at OpenAI"),
    Setting("ANTHROPIC_API_KEY", "", "the key for anthropic/... models"),
    Setting("OPENAI_API_KEY", "", "the key for openai/... models; one's own server may need none"),
    Setting("MEMTAPE_WAIT_SECONDS", "5", "how long a writer waits for another before it says 'locked'"),
)
