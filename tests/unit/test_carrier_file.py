"""Entries of a program's own configuration file reach a changed copy of it."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from stripewise.catalogue.carriers import FILE, Program, Setting, own_files
from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.workload import Workload
from stripewise.engine.definition import parameter_entry, with_options
from stripewise.engine.space import Circumstances, check_space
from stripewise.errors import UserError
from stripewise.requests.experiment import Experiment, parameters_of, parse_experiment
from stripewise.runners.injection import arguments_of, defaults_of, inject, prepare

TOML = '# kept\n[io]\nbuffer = 4096 # bytes\nasync = false\nmode = "safe"\nratio = 0.5\nlist = [{size = 1}]\n'
YAML = "# kept\nio:\n  buffer: 4096 # bytes\n  async: false\n  mode: 'safe'\n  ratio: 0.5\n  list:\n  - size: 1\n"
INI = "; kept\nglobal = 1\n[other]\nbuffer = 1\n[io]\nBuffer = 4096 ; bytes\nasync = false\nmode: safe\n"
NML = "! kept\n&other buffer = 1 /\n&io\n  buffer = 4096 ! bytes\n  ASYNC = .false.\n  mode = 'safe'\n  part%n = 1\n/\n"
JSON = '{"io": {"buffer": 4096, "async": false, "mode": "safe", "ratio": 0.5, "list": [{"size": 1}]}}'
WANTED = {"io.buffer": "8192", "io.async": "true", "io.mode": "fast"}
CHANGES = (("4096", "8192"), ("false", "true"), ("safe", "fast"))


def changed(folder: Path, name: str, text: str, wanted: dict[str, str]) -> tuple[str, set[str]]:
    (folder / name).write_text(text)
    return FILE.changed(folder / name, wanted)


@pytest.mark.parametrize(
    ("name", "text"), [("a.toml", TOML), ("a.yml", YAML), ("a.ini", INI), ("a.nml", NML), ("a.json", JSON)]
)
def test_entries_change_and_all_else_stays(tmp_path: Path, name: str, text: str):
    new, met = changed(tmp_path, name, text, {**WANTED, "io.none": "1", "none.buffer": "1"})
    assert met == WANTED.keys()
    for old, value in CHANGES:
        text = text.replace(old, value)
    same = (json.loads(new), json.loads(text)) if name == "a.json" else (new, text)
    assert same[0] == same[1]


@pytest.mark.parametrize(("name", "text"), [("a.toml", TOML), ("a.yml", YAML), ("a.ini", INI), ("a.nml", NML)])
def test_files_of_other_systems_keep_their_line_ends_and_mark(tmp_path: Path, name: str, text: str):
    (tmp_path / name).write_bytes(("\ufeff" + text).replace("\n", "\r\n").encode())
    new, met = FILE.changed(tmp_path / name, {"io.buffer": "8192"})
    assert met and new == ("\ufeff" + text.replace("4096", "8192")).replace("\n", "\r\n")


@pytest.mark.parametrize(
    ("old", "value", "new"),
    [
        ("auto", "off", "'off'"),
        ("auto", "12:30", "'12:30'"),
        ("~", "Yes", "'Yes'"),
        ("auto", "none", "none"),
        ("on", "off", "off"),
        ('"on"', "off", '"off"'),
    ],
)
def test_words_that_older_yaml_takes_for_something_else_are_quoted(tmp_path: Path, old: str, value: str, new: str):
    text = f"a: {old}\nb: 1\n"
    assert changed(tmp_path, "a.yaml", text, {"a": value}) == (text.replace(old, new), {"a"})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[io]\n\tbuffer=1\n\tx=2", "[io]\n\tbuffer=8\n\tx=2"),
        ("[io]\nbuffer  :  1\t ; c\n  ; more\n\n", "[io]\nbuffer  :  8\t ; c\n  ; more\n\n"),
        ("[io] # c\nx = a\x0cb\n  buffer = 5\nbuffer =\n", "[io] # c\nx = a\x0cb\n  buffer = 5\nbuffer =8\n"),
        (
            f"a{' ' * 90000}\n[io]\nbuffer={' ' * 90000};\n",
            f"a{' ' * 90000}\n[io]\nbuffer={' ' * 90000}8{' ' * 90000};\n",
        ),
    ],
)
def test_lines_of_an_ini_file_keep_their_blanks_and_comments(tmp_path: Path, old: str, new: str):
    assert changed(tmp_path, "a.ini", old, {"io.buffer": "8"}) == (new, {"io.buffer"})


@pytest.mark.parametrize("name", ["inputs", "inputs_3d", "inputs.rt", "blast.in", "a.inp"])
def test_amrex_takes_the_last_definition_of_its_inputs(tmp_path: Path, name: str):
    old = "# c\namr.n_cell = 8 8 \\\n  8\namr.plot_nfiles = 64 # files\ngeometry.is_periodic=1"
    new, met = changed(tmp_path, name, old, {"amr.plot_nfiles": "2", "amrex.async_out": "true"})
    assert new == f"{old}\namr.plot_nfiles = 2\namrex.async_out = true\n" and len(met) == 2


def test_a_pipe_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "a.ini")
    with pytest.raises(ValueError, match="not a file"):
        FILE.changed(tmp_path / "a.ini", WANTED)


@pytest.mark.parametrize(("name", "text"), [("a.toml", TOML), ("a.yaml", YAML), ("a.json", JSON)])
def test_places_in_lists_and_whole_numbers_of_fractions(tmp_path: Path, name: str, text: str):
    new, met = changed(tmp_path, name, text, {"io.list.0.size": "7", "io.ratio": "2", "io.list.1.size": "7"})
    assert met == {"io.list.0.size", "io.ratio"} and re.search(r'size"?( =|:) 7', new) and "2.0" in new


def test_a_name_may_have_dots_and_a_file_a_name(tmp_path: Path):
    wanted = {"a.toml:x.y.z": "2", "sub/a.toml:x.y.z": "3", f"{tmp_path}/a.toml:n": "4"}
    new, met = changed(tmp_path, "a.toml", 'n = 1\n[x]\n"y.z" = 1\n', wanted)
    assert tomllib.loads(new) == {"n": 4, "x": {"y.z": 2}} and met == wanted.keys() - {"sub/a.toml:x.y.z"}


@pytest.mark.parametrize(
    ("name", "text", "wanted", "why"),
    [
        ("a.toml", TOML, {"io.buffer": "many"}, "io.buffer is a number there, and 'many' is not"),
        ("a.yaml", YAML, {"io.async": "1"}, "io.async is true or false there"),
        ("a.json", JSON, {"io.list": "1"}, "neither a number, a text, nor"),
        ("a.toml", "[io", WANTED, "cannot be changed"),
        ("a.yaml", "a: 1\n---\nb: 2\n", WANTED, "expected a single document"),
        ("a.json", "[" * 90000, WANTED, "cannot be changed"),
        ("a.yaml", "[" * 1000, WANTED, "cannot be changed"),
        ("a.json", '{"a": 1, "a": 2, "io": {"buffer": 1}}', WANTED, "two entries of the same name"),
        ("a.json", '{"é": "\\ud800", "io": {"buffer": 1}}', {"io.buffer": "2"}, "surrogates not allowed"),
        ("a.ini", "[io]\n  mode = a\n    b\n", WANTED, "value of several lines"),
        ("a.ini", "[io]\nmode = a\n  b\n", WANTED, "value of several lines"),
        ("a.nml", "&io buffer = 1 /\n&io buffer = 2 /\n", {"io.0.buffer": "3"}, "cannot be changed"),
        ("a.nml", "&io mode = '", WANTED, "it cannot be read|End-of-file"),
        ("a.xml", "<a/>", WANTED, "not known by its ending"),
        ("lmp.in", "units metal\n", WANTED, "line 1 is not `name = value`, as AMReX reads it"),
        ("a.toml", "a = 1\n" + "#" * (1 << 20), WANTED, "more than 1048576 bytes"),
        ("a.toml", TOML + "".join(f"a.b{number} = 1\n" for number in range(600)), WANTED, "500 keys with dots"),
        ("a.nml", NML.replace("part%n = 1", "part = 2000000*1"), WANTED, "1000000 repeated values"),
        ("a.toml", TOML, {"io.none": "1"}, "no such entry"),
    ],
)
def test_what_cannot_be_changed_is_said_before_a_run(tmp_path: Path, name, text, wanted, why):
    (tmp_path / name).write_text(text)
    program = Program(own_files=own_files([f"{{file:{name}}}"], tmp_path))
    lost = inject(Plan(tuple(Setting(FILE, *item) for item in wanted.items())), program, None, tmp_path).lost
    assert lost and re.search(why, lost[0].wins), lost


def test_an_experiment_names_the_file_and_the_command_gets_the_copy(tmp_path: Path):
    text = """
command = "cat -- config.toml --conf=config.toml"
[parameters.buffer]
file = "config.toml"
key = "io.buffer"
values = ["4 KiB", "64 KiB"]
unit = "B"
[parameters.block]
argument = "b"
values = ["1 KiB", "1 MiB"]
unit = "B"
[parameters.workers]
env = "WORKERS"
low = 1
high = 4
"""
    experiment = parse_experiment(text, "x.toml")
    assert experiment.command == ["cat", "--", "{file:config.toml}", "--conf={file:config.toml}"]
    assert Experiment.model_validate(experiment.model_dump()) == experiment
    found = parameters_of(experiment)
    assert {(p.carrier.name, p.setting, p.kind.value) for p in found.values()} == {
        ("file", "config.toml:io.buffer", "ordinal"),
        ("argument", "b", "ordinal"),
        ("env", "WORKERS", "integer"),
    }
    # A size is a number of bytes in the warm-up, as in all other runs.
    assert arguments_of(experiment) == {"block": "b"} and defaults_of(experiment) == {"block": "1024", "b": "1024"}
    (tmp_path / "config.toml").write_text(TOML)
    plan = Plan((Setting(FILE, "config.toml:io.buffer", "65536"),))
    ready = prepare(plan, ["cat", "config.toml"], tmp_path / "run", environment={"PATH": "/usr/bin:/bin"}, cwd=tmp_path)
    done = subprocess.run(ready.words, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == TOML.replace("4096", "65536") and (tmp_path / "config.toml").read_text() == TOML


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ('file = "a.toml"', "needs 'key'"),
        ('env = "A"\nargument = "b"', "keep one of them"),
        ('env = "A"\ncarrier = "env"', "keep one of them"),
        ('env = "A"\nkey = "B"', "leave 'key' out"),
        ("env = 1", "must be a text"),
    ],
)
def test_two_ways_at_once_are_refused(entry: str, why: str):
    with pytest.raises(UserError, match=why):
        parse_experiment(f'command = "a"\n[parameters.x]\n{entry}\nvalues = [1, 2]\n', "x.toml")


@pytest.mark.parametrize(
    ("word", "name", "entry"),
    [
        ("block=64,16", "block", {"carrier": "argument", "key": "block", "values": [16, 64], "default": 64}),
        ("env:A=64k,1m", "A", {"carrier": "env", "key": "A", "values": ["64k", "1m"], "default": "64k"}),
        (
            "file:c.toml:io.a=true,false",
            "c_toml_io_a",
            {"carrier": "file", "key": "c.toml:io.a", "values": [True, False], "default": True},
        ),
        ("env:N=007,8", "N", {"carrier": "env", "key": "N", "values": ["007", 8], "default": "007"}),
    ],
)
def test_a_parameter_of_the_command_line(word, name, entry):
    assert parameter_entry(word) == (name, entry)
    made = parameters_of(Experiment(command=["a"], parameters={name: entry}))[name]
    assert made.default == entry["default"]


@pytest.mark.parametrize(
    ("word", "why"), [("a", "no values"), ("a=1", "no values"), ("=1,2", "no values"), ("b:a=1,2", "'b' is not a way")]
)
def test_a_wrong_parameter_of_the_command_line_is_refused(word, why):
    with pytest.raises(UserError, match=why):
        parameter_entry(word)


@pytest.mark.parametrize("words", [("a=1,2", "a=3,4"), ("a=1,2", "env:a=1,2"), ("env:A-B=1,2", "env:A_B=1,2")])
def test_two_parameters_of_one_name_are_refused(words):
    with pytest.raises(UserError, match="there is already a parameter"):
        with_options(Experiment(), command=["x", "{a}"], parameter=words)


def test_an_entry_that_the_file_lacks_is_named_before_the_first_run(tmp_path: Path):
    (tmp_path / "a.toml").write_text(TOML)
    own = dict([parameter_entry("file:a.toml:io.bufer=1,2")])
    program = Program(own_files=own_files(["{file:a.toml}"], tmp_path), without_mpi="app uses no MPI library")

    def lost(parameter: Parameter) -> str:
        plan = Plan((Setting(parameter.carrier, parameter.setting, "1"),))
        return "".join(carried.wins for carried in inject(plan, program, None, tmp_path).lost)

    with pytest.raises(UserError, match="a_toml_io_bufer: the program's configuration file has no such entry"):
        check_space(Experiment(command=["app", "a.toml"], parameters=own), Circumstances(Workload(), None, lost=lost))


@pytest.mark.parametrize(
    ("package", "name", "text", "entry"),
    [
        ("tomlkit", "a.toml", "[io]\nsize = 4\n", "io.size"),
        ("ruamel", "a.yaml", "io:\n  size: 4\n", "io.size"),
        ("f90nml", "a.nml", "&io\n  size = 4\n/\n", "io.size"),
    ],
)
def test_a_form_whose_reader_is_not_installed_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, name: str, text: str, entry: str
):
    for loaded in [one for one in sys.modules if one.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"the package {package} is .*; install it, .*: pip install '\.\[files\]'"):
        changed(tmp_path, name, text, {entry: "8"})
