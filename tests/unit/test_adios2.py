"""Parameters of ADIOS2 reach a changed copy of the program's own file."""

import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from stripewise.catalogue.carriers import ADIOS2, LOST, Program, Setting, own_files, with_files
from stripewise.catalogue.plan import Plan
from stripewise.runners.injection import inject, prepare

XML = """<?xml version="1.0"?>
<adios-config>
  <io name="Output"><engine type="BP5"><parameter key="numaggregators" value="2"/></engine></io>
  <io name="Restart"/>
  <io name="Stream"><engine type="SST"/></io>
</adios-config>
"""
YAML = """---
# as in the manual
- IO: "Output"   # of the checkpoint
  Engine:
    Type: "BP5"
    numaggregators: 2

  Transports:
    - Type: "POSIX"
- IO: Restart
  Variables:
    - Variable: "T"
- IO: Stream
  Engine:
    Type: SST
"""
WANTED = {"NumAggregators": "8", "Restart/StripeSize": "4096"}


def in_yaml(text: str) -> dict[str, dict[str, str]]:
    yaml = pytest.importorskip("yaml")
    return {item["IO"]: item.get("Engine", {}) for item in yaml.safe_load(text)}


def in_xml(text: str) -> dict[str, dict[str, str]]:
    return {
        io.get("name", ""): {"Type": engine.get("type", "")}
        | {p.get("key", ""): p.get("value", "") for p in engine.findall("parameter")}
        for io in ElementTree.fromstring(text)
        for engine in io.findall("engine")
    }


@pytest.mark.parametrize(("name", "text", "read"), [("a.xml", XML, in_xml), ("a.yaml", YAML, in_yaml)])
def test_parameters_replace_those_of_the_file_whatever_their_case(tmp_path: Path, name, text, read):
    file = tmp_path / name
    file.write_text(text)
    new, met = ADIOS2.changed(file, WANTED)
    found = read(new)
    assert found["Output"] == {"Type": "BP5", "NumAggregators": "8"}
    assert found["Restart"].pop("Type", "File") == "File"
    assert found["Restart"] == {"NumAggregators": "8", "StripeSize": "4096"}
    assert found["Stream"] == {"Type": "SST"}
    assert met == WANTED.keys()
    assert "Transports" in new or name == "a.xml"


def test_the_command_names_the_file_and_gets_the_copy(tmp_path: Path):
    (tmp_path / "in.xml").write_text(XML)
    words = ["env", "CONFIG={adios2:in.xml}", "app", "${adios2:in.xml}", "{other:in.xml}"]
    program = Program(own_files=own_files(words, tmp_path))
    plan = Plan((Setting(ADIOS2, "StripeSize", "65536"), Setting(ADIOS2, "None/Threads", "2")))
    run = tmp_path / "run"
    done = inject(plan, program, None, run)
    assert [(c.by == LOST) for c in done.carried] == [False, True]
    ((copy, text),) = done.files.items()
    assert in_xml(text)["Output"]["StripeSize"] == "65536"
    assert with_files(words, tmp_path, done.stand_in) == ("env", f"CONFIG={run / copy}", "app", *words[3:])
    # Without settings the program reads its own file.
    assert with_files(words, tmp_path, inject(Plan(), program, None, run).stand_in)[1] == "CONFIG=in.xml"


def test_a_run_of_ones_own_reads_the_copy(tmp_path: Path):
    (tmp_path / "in.yaml").write_text(YAML)
    plan = Plan((Setting(ADIOS2, "BufferVType", "malloc"),))
    ready = prepare(
        plan, ["cat", "{adios2:in.yaml}"], tmp_path / "run", environment={"PATH": "/usr/bin:/bin"}, cwd=tmp_path
    )
    done = subprocess.run(ready.words, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert in_yaml(done.stdout)["Output"]["BufferVType"] == "malloc" and ready.warnings == ()


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.xml", "<adios-config", "it is not valid XML"),
        ("a.yaml", "- IO: a\n  Engine: {Type: BP5}\n", "write its parameters as lines of their own"),
        ("a.xml", XML.replace("BP5", "HDF5").replace('<io name="Restart"/>', ""), "writes BP5 files"),
        ("a.xml", "<a>" + " " * (1 << 20), "more than 1048576 bytes"),
        ("missing.xml", None, "No such file"),
        ("deep.xml", "<a>" * 9000 + "<io name='x'/>" + "</a>" * 9000, "nested too deeply"),
        ("", None, r"write \{adios2:FILE\} in the command"),
    ],
)
def test_what_cannot_be_changed_is_said_before_a_run(tmp_path: Path, name, text, why):
    if text is not None:
        (tmp_path / name).write_text(text)
    program = Program(own_files=own_files([f"{{adios2:{name}}}"], tmp_path))
    (lost,) = inject(Plan((Setting(ADIOS2, "Threads", "2"),)), program, None, tmp_path).lost
    assert re.search(why, lost.wins), lost.wins
