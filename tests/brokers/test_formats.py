"""The register of file formats: one module per format, and everything that names formats follows it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from memtape.brokers.files import ImportFile, unpack_file
from memtape.brokers.formats import format_names, importers, read_file
from memtape.brokers.importer import REGISTER, ImportOptions, ImportResult, importer
from memtape.errors import Invalid
from memtape.surfaces.cli.main import app


@pytest.fixture
def coins():
    """A new format, registered as a module of its own would be."""

    @importer("coins")
    class CoinImporter:
        general = False

        def claims(self, file: ImportFile) -> bool:
            return file.text.startswith("coins")

        def read(self, file: ImportFile, options: ImportOptions) -> ImportResult:
            return ImportResult(rows=0, kind="fills", notes=["no coins"])

    yield CoinImporter
    del REGISTER["coins"]


def test_every_module_of_the_folder_registers_a_format_of_its_name():
    assert sorted(importers()) == format_names()


def test_special_formats_are_asked_before_the_general_ones():
    assert [reader.general for reader in importers().values()] == [False, True, True, True]


def test_a_registered_class_reads_the_files_that_it_claims(coins):
    name, result = read_file(unpack_file("a.txt", b"coins,of,mine\n"), ImportOptions())
    assert (name, result.notes, result.mapped_by) == ("coins", ["no coins"], "format")


def test_a_format_can_be_named():
    text = b"id,time,symbol,side,qty,price\n1,2026-06-04T08:00:00Z,BTC,buy,1,2\n"
    assert read_file(unpack_file("x", text), ImportOptions(), "csv")[0] == "csv"


def test_an_unknown_format_is_refused_with_the_names_there_are():
    with pytest.raises(Invalid, match=r"there is no format 'mt9'\. Use one of csv, html, json, tradememory"):
        read_file(unpack_file("x", b"{}"), ImportOptions(), "mt9")


def test_the_help_of_the_command_names_every_format():
    help_text = " ".join(CliRunner().invoke(app, ["import", "--help"]).stdout.replace("│", " ").split())
    assert f"One of {', '.join(format_names())}" in help_text


def test_naming_the_formats_imports_no_importer():
    code = "import sys; from memtape.brokers.formats import format_names; format_names(); print('memtape.brokers.importer' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert ran.stdout.strip() == "False"
