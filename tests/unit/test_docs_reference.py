"""What users can write or read is documented, and what the documents show works."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from stripewise.api import Tuned, tune
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.stack import StackFile, parse_stack, stack_names
from stripewise.catalogue.workload import Workload
from stripewise.desk.cli.output import UsageProblem
from stripewise.engine.definition import check
from stripewise.engine.space import Circumstances, bind_space
from stripewise.errors import UserError, pip_install
from stripewise.formats import CARRIERS, FILE_SYSTEMS, PLAN_HEADER
from stripewise.lab.site import Site, parse_site
from stripewise.models.registry import model_class, model_names
from stripewise.models.table import Column, ObjectiveColumn, Schema
from stripewise.observe.evidence import RULES
from stripewise.output.export import TARGETS
from stripewise.requests.campaign import parse_campaign
from stripewise.requests.experiment import Experiment, ParameterOverride, parse_experiment
from stripewise.requests.policy import Policy
from stripewise.search.base import PRESETS, sampler_class, sampler_names
from stripewise.search.policy.pruning import PruningOptions
from stripewise.search.policy.resampling import ResamplingOptions
from stripewise.search.policy.stopping import StoppingOptions
from tests.formats import generator

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import page_figures  # noqa: E402
from tools import reference as generated  # noqa: E402

DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
NOTES = sorted((ROOT / "benchmarks" / "notes").glob("*.md"))
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def reference(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text("utf-8")


def section(text: str, heading: str) -> str:
    """The text under a heading, up to the next of the same or a higher level."""
    found = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert found, f"there is no heading '{heading}'"
    rest = text[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def rows(text: str) -> dict[str, str]:
    """Rows of the tables by each code word of their first cell."""
    found = {}
    for line in text.splitlines():
        if line.startswith("| `"):
            first = re.split(r"(?<!\\)\|", line)[1]
            found |= dict.fromkeys(re.findall(r"`([^`]+)`", first), line)
    return found


def blocks(page: Path, language: str) -> Iterator[str]:
    for found in FENCE.finditer(page.read_text("utf-8")):
        if found["language"] == language:
            indent = len(found["indent"])
            yield "".join(line[indent:] if line.strip() else line for line in found["text"].splitlines(keepends=True))


def blocks_that_run() -> list[tuple[Path, str]]:
    """Blocks of commands on how-to pages for users, but for those whose page says above them why they are not run."""
    found = []
    for page in sorted((DOCS / "how-to").glob("*.md")):
        whole = page.read_text("utf-8")
        reasons = re.sub(r"<!-- not run: [^\n]+ -->\n *```\n", "```not_run\n", whole)
        for block in FENCE.finditer(reasons):
            if not block["language"] and not page.name.startswith("add-"):
                found.append((page, textwrap.dedent(block["text"])))
    return found


def cases(language: str) -> list[Any]:
    return [
        pytest.param(text, id=f"{name_of(page)}-{number}")
        for page in PAGES
        for number, text in enumerate(blocks(page, language))
    ]


# -- commands ------------------------------------------------------------------------------------------------------


COMMANDS = dict(generated.list_commands())


def test_options_of_commands_and_parameters_of_stacks_are_those_of_the_program() -> None:
    for name, kind, known in (("commands", "options", COMMANDS), ("stacks", "stack", stack_names())):
        text = reference(name)
        assert set(re.findall(rf"<!-- {kind}: (.+?) -->", text)) == set(known)
        assert generated.fill(text) == text, "python tools/reference.py"
        assert set(re.findall(r"^## (.+)$", text, re.MULTILINE)) == set(known)


def test_tables_of_keys_are_those_of_the_program() -> None:
    for name in ("experiment-files", "stack-files", "campaigns", "sites", "tables"):
        text = reference(name)
        assert generated.fill(text) == text, "python tools/reference.py"
        for keys in re.findall(r"<!-- keys: (.+?) -->", text):
            assert not re.search(r"\|\s*\|$", generated.keys_of(keys), re.MULTILINE), f"{keys}: a key without a word"


def test_a_key_says_what_it_takes_and_what_it_is_without() -> None:
    cells = rows(generated.keys_of("requests.experiment.Batch")) | rows(generated.keys_of("lab.site.SiteClient"))
    assert cells["retries"].startswith("| `retries` | integer, ≥ 0, ≤ 10 | `1` | times that a run is submitted again")
    assert cells["piece_seconds"].startswith("| `piece_seconds` | time | 0.1 us |")
    assert cells["rpc_size"].startswith("| `rpc_size` | size | 4 MiB |")
    assert rows(generated.keys_of("lab.site.Site -ost")).keys() == set(Site.model_fields) - {"ost"}


def test_export_targets_are_documented() -> None:
    assert set(TARGETS) <= rows(section(reference("commands"), "export")).keys()


# -- files ---------------------------------------------------------------------------------------------------------


def tables(model: type[BaseModel], name: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """The tables of a file with their models, nested ones too."""
    yield name, model
    for key, field in model.model_fields.items():
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                inner = key if name == "Top level" else f"{name}.{key}"
                inner = "parameters.NAME" if kind is ParameterOverride else inner
                yield from tables(kind, inner)


def experiment_tables() -> list[tuple[str, type[BaseModel]]]:
    found = [*tables(Experiment, "Top level")]
    found += [("resampling", ResamplingOptions), ("pruning", PruningOptions)]
    return [*found, *tables(StoppingOptions, "stopping")]


@pytest.mark.parametrize("name, model", experiment_tables(), ids=lambda value: value if isinstance(value, str) else "")
def test_keys_of_experiment_files_are_documented(name: str, model: type[BaseModel]) -> None:
    heading = name if name == "Top level" else f"[{name}]"
    assert set(model.model_fields) <= rows(section(reference("experiment-files"), heading)).keys()


def test_tables_of_experiment_files_are_all_looked_at() -> None:
    names = {name for name, _ in experiment_tables()}
    expected = {"objective", "budget", "workload", "hooks", "confirmation", "parameters.NAME", "stopping.improvement"}
    assert expected <= names


@pytest.mark.parametrize("name", ["parameter", "derived", "knowledge", "off", "Top level"])
def test_keys_of_stack_files_are_documented(name: str) -> None:
    if name == "Top level":
        model, heading = StackFile, name
    else:
        kinds = get_args(StackFile.model_fields[name].annotation)
        model = next(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel))
        heading = "[off]" if name == "off" else f"[[{name}]]"
    assert set(model.model_fields) <= rows(section(reference("stack-files"), heading)).keys()


@pytest.mark.parametrize(
    "heading, model",
    [("Top level", Schema), ("[objective]", ObjectiveColumn), ("[[parameter]] and [[context]]", Column)],
)
def test_keys_of_tables_are_documented(heading: str, model: type[BaseModel]) -> None:
    assert set(model.model_fields) <= rows(section(reference("tables"), heading)).keys()


def test_the_table_shown_is_accepted() -> None:
    shown = [text for text in blocks(REFERENCE / "tables.md", "") if "[objective]" in text]
    assert Schema.model_validate(tomllib.loads(shown[0])).parameter


def test_words_of_expressions_are_documented() -> None:
    assert Workload().words().keys() <= rows(section(reference("stack-files"), "Expressions")).keys()


def test_evidence_rules_are_documented() -> None:
    text = (DOCS / "explanation" / "when-a-gain-is-real.md").read_text("utf-8")
    assert RULES.keys() == rows(section(text, "Rules")).keys()


def test_statuses_of_settings_and_roles_of_tokens_are_in_the_glossary() -> None:
    text = (DOCS / "explanation" / "when-a-gain-is-real.md").read_text("utf-8")
    statuses = rows(text.partition("## Rules")[0]).keys()
    assert {"requested", "effective", "unprovable"} <= statuses
    terms = re.findall(r"^\| ([^|]+?) \|", reference("glossary"), re.MULTILINE)
    words = {word for term in terms for word in term.split(", ")}
    assert {word.replace("_", " ") for word in statuses} | {"viewer", "operator"} <= words


def test_samplers_with_their_options_are_documented() -> None:
    text = reference("samplers")
    for name in sampler_names():
        if name in PRESETS:
            assert name in rows(section(text, "Presets"))
            continue
        options = sampler_class("optuna:tpe" if name == "optuna:NAME" else name).Options
        assert set(options.model_fields) == rows(section(text, name)).keys()


def test_models_with_their_options_are_documented() -> None:
    text = reference("models")
    for name in model_names():
        assert f"| `{name}` |" in text, f"{name} is not in docs/reference/models.md"
        for option, field in model_class(name).Options.model_fields.items():
            default = str(field.default).lower() if isinstance(field.default, bool) else field.default
            row = f"| `{name}` | `{option}` | `{default}` | {field.description} |"
            assert row in text, f"docs/reference/models.md has no row {row}"
    listed = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", text, flags=re.MULTILINE)
    assert all(option in model_class(name).Options.model_fields for name, option in listed)


@pytest.mark.slow
def test_the_example_of_models_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = blocks(REFERENCE / "models.md", "python")
    table = ROOT / "benchmarks" / "data" / "tables" / "ior_vast_scaling"
    monkeypatch.chdir(tmp_path)
    example = example.replace("benchmarks/data/tables/ior_vast_scaling", str(table)).replace("100", "5")
    exec(compile(example, "models.md", "exec"), {})
    assert (tmp_path / "site.model").is_file()
    assert "xfersize" in capsys.readouterr().out


def test_verbs_of_the_plan_are_documented() -> None:
    listed = " ".join(rows(reference("plan")))
    for verb in (*generator().read_schema()["plan"], *CARRIERS):
        assert verb == "advice" or re.search(rf"\b{verb}\b", listed), f"the plan's '{verb}' is undocumented"
    for key in {key for keys in FILE_SYSTEMS.values() for key in keys}:
        assert f"`{key}`" in reference("plan")


def test_plans_in_the_documents_can_be_read() -> None:
    shown = [text for page in PAGES for text in blocks(page, "") if text.startswith(PLAN_HEADER)]
    assert shown
    for text in shown:
        read = Plan.parse(text, "docs")
        assert read.settings or read.workload


# -- environment and results ----------------------------------------------------------------------------------------


def test_environment_variables_are_documented() -> None:
    listed = rows(reference("environment"))
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "native").rglob("*.[ch]")]
    used = set()
    for source in sources:
        used |= set(re.findall(r"\bSTRIPEWISE_[A-Z][A-Z_]*[A-Z]\b", source.read_text("utf-8")))
    # Include guards, the version that CMake hands to the compiler, and what stripewise.h declares are no settings.
    api = (ROOT / "native" / "include" / "stripewise.h").read_text("utf-8")
    names = set(re.findall(r"^(?:#define|#ifndef|   ) (STRIPEWISE_[A-Z_]+)\b", api, re.MULTILINE))
    used = {name for name in used if not name.endswith("_H")} - {"STRIPEWISE_VERSION"} - names
    assert {"STRIPEWISE_PLAN", "STRIPEWISE_STORE", "STRIPEWISE_HOME"} <= used
    assert used <= listed.keys(), f"undocumented: {sorted(used - listed.keys())}"


def test_keys_of_the_result_are_documented() -> None:
    result = json.loads((ROOT / "tests" / "fixtures" / "result.json").read_text("utf-8"))["record"]["result"]
    text = section(reference("report"), "The result document")
    words = set(re.findall(r"`([\w.]+)`", text))
    assert result.keys() <= rows(text).keys()
    assert result["confirmation"].keys() <= rows(text).keys()
    for name in ("objective", "default", "best", "cost", "environment", "validity", "space"):
        assert result[name].keys() <= words, f"{name}: {sorted(result[name].keys() - words)}"
    for name in ("effects", "failures"):
        assert result[name][0].keys() <= words
    assert result["space"]["parameters"][0].keys() <= words
    assert result["confirmation"]["pairs"][0].keys() <= words


def test_arguments_and_results_of_the_python_function_are_documented() -> None:
    text = reference("python")
    assert inspect.signature(tune).parameters.keys() <= rows(section(text, "stripewise.tune")).keys()
    assert {field.name for field in dataclasses.fields(Tuned)} <= rows(section(text, "Tuned")).keys()


# -- examples ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", cases("toml"))
def test_toml_in_documents_is_accepted(text: str) -> None:
    shown = tomllib.loads(text)
    if "parameter" in shown:
        assert parse_stack(text, "docs").parameters
    elif "ost" in shown:
        assert parse_site(text, "docs").ost.count
    elif "limits" in shown:
        assert Policy.model_validate(shown).limits.jobs
    elif "repeats" in shown:
        assert parse_campaign(text, "docs").repeats
    elif set(shown) == {"workload"} and "operation" in shown["workload"]:
        assert Workload.model_validate(shown["workload"]).operation
    elif "project" not in shown and "settings" not in shown:  # those of simulate run: test_simulate_cli.py
        experiment = parse_experiment(text, "docs")
        check(experiment.model_copy(update={"stacks": [s for s in experiment.stacks if not s.endswith(".toml")]}))


def test_a_stack_file_of_the_user_makes_a_space(tmp_path: Path) -> None:
    shown = [text for page in PAGES for text in blocks(page, "toml") if "parameter" in tomllib.loads(text)]
    assert len(shown) >= 3
    for text in shown:
        file = tmp_path / "own.toml"
        file.write_text(text, "utf-8")
        bound = bind_space(Experiment(stacks=[str(file)]), Circumstances(Workload(), "romio"))
        assert bound.space.count()[0] > 1


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_examples_can_be_planned(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = path.read_text("utf-8")
    if "parameter" in tomllib.loads(text):
        assert parse_stack(text, path.name).off is not None
        return
    experiment = parse_experiment(text, path.name)
    check(experiment)
    bound = bind_space(experiment, Circumstances(experiment.workload, "romio"))
    assert bound.space.count()[0] > 1
    for parameter in bound.space.parameters:
        if parameter.carrier == "argument":
            assert any(f"{{{parameter.setting}}}" in word for word in experiment.command)


@pytest.mark.parametrize("text", cases("python"))
def test_python_in_documents_is_complete(text: str) -> None:
    ast.parse(text)


@pytest.mark.slow
def test_python_of_the_guide_runs(tmp_path: Path) -> None:
    """One process runs all blocks, each with names of its own: what it imports takes longer than what they do."""
    texts = list(blocks(REFERENCE / "python.md", "python"))
    program = f"for text in {texts!r}:\n    exec(text, {{}})\n    print('the end of a block')"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    *printed, rest = done.stdout.split("the end of a block\n")
    assert len(printed) == len(texts) and all(text.strip() for text in printed) and not rest


@pytest.mark.parametrize("page", [*PAGES, *NOTES], ids=name_of)
def test_links_resolve(page: Path) -> None:
    prose = FENCE.sub("", page.read_text("utf-8"))
    for target in re.findall(r"!?\[[^\]]*\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{name_of(page)}: there is no {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in anchors, f"{name_of(page)}: {name} has no heading #{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_shown_exist(page: Path) -> None:
    """Every `stripewise COMMAND --option` shown is one that the program has."""
    known = COMMANDS
    text = "\n".join(blocks(page, "")).replace("\\\n", " ")
    for line in re.findall(r"^(?:[A-Z_]+=\S+ )*stripewise (.+)$", text, re.MULTILINE):
        words = line.split(" -- ")[0].split()
        paths = [" ".join(words[:count]) for count in (3, 2, 1)]
        name = next((path for path in paths if path in known), words[0])
        if name not in known:
            assert name.endswith(":") or name.startswith("-"), f"there is no command {name}"
            continue
        options = {option for p in known[name].params for option in (*p.opts, *p.secondary_opts)}
        for word in words:
            if re.match(r"--?[a-z]", word):
                assert word.partition("=")[0] in options, f"{name} has no option {word}"


def test_commands_of_how_to_pages_are_complete() -> None:
    """Every line with a command of ours is parsed as the program does: arguments, options and their values."""
    told = []
    for page in sorted((DOCS / "how-to").glob("*.md")):
        text = "\n".join(blocks(page, "")).replace("\\\n", " ")
        for line in re.findall(r"^(?:[A-Z_]+=\S+ )*(stripewise .+)$", text, re.MULTILINE):
            words = shlex.split(re.sub(r"\s&$|\s+#.*$|\s+[|>&]+ .*$", "", line.partition(" -- ")[0]))[1:]
            name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
            if name not in COMMANDS:
                continue  # Output that begins with our name.
            try:
                COMMANDS[name].make_context(name, words[len(name.split()) :], obj={"command": []})
            except (UsageProblem, UserError) as error:
                told.append(f"{name_of(page)}: {line}: {error}")
    assert not told


def test_how_stripewise_is_installed_stands_in_one_place() -> None:
    """All pages but the README's first block, and what administrators copy, lead to the page on installing."""
    said = {name_of(page): re.findall(r"pip install '?(\S*?)\[", page.read_text("utf-8")) for page in PAGES}
    places = {"README.md", "docs/how-to/install.md", "docs/for-administrators.md"}
    assert {page for page, found in said.items() if found} == places
    (where,) = re.findall(r"pip install '(.*)\[x\]'", pip_install("x"))
    assert {way for found in said.values() for way in found} == {where}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_paragraph_is_one_line(page: Path) -> None:
    before = ""
    for line in re.sub(
        r"^ *```.*?^ *```$", "```", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
    ).splitlines():
        text = line.strip()
        starts = not text or re.match(r"[-*] |\d+\. |[|#>!]|<!--|```|:::|:\w", text)
        assert starts or not before or before[0] in "|#" or before == "```", (
            f"{name_of(page)}: join '{text[:60]}' to its paragraph"
        )
        before = text


def test_every_page_is_linked_from_the_index() -> None:
    index = (DOCS / "README.md").read_text("utf-8")
    missing = [name_of(page) for page in DOCS.rglob("*.md") if f"({page.relative_to(DOCS)})" not in index]
    assert missing in ([], ["docs/README.md"])


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page outside of its code; code within a sentence counts as one word."""
    for line in re.sub(r"<!--.*?-->", "", FENCE.sub("", text), flags=re.DOTALL).splitlines():
        cells = line.strip().strip("|").split(" | ") if line.startswith("|") else [line.strip()]
        for cell in cells:
            plain = re.sub(r"`[^`]*`", "code", re.sub(r"^(?:[-*]|\d+\.) ", "", cell))
            plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", plain)
            yield from re.split(r"(?<=[.!?])[*)\"]*\s+", plain)


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md"))])
def test_no_sentence_of_readme_tutorial_and_guides_has_more_than_25_words(page: Path) -> None:
    counted = {
        one: len([word for word in one.split() if re.search(r"\w", word)]) for one in sentences(page.read_text())
    }
    assert sum(counted.values()) > 100
    assert [one for one, words in counted.items() if words > 25] == []


def test_the_documents_stay_small() -> None:
    pages = sorted(DOCS.rglob("*.md"))
    words = sum(bool(re.search(r"\w", word)) for page in pages for word in page.read_text("utf-8").split())
    assert len(pages) <= 70 and words <= 90_000, f"{len(pages)} pages, {words} words"
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 70


@pytest.mark.parametrize("reader", ["scientists", "administrators", "contributors"])
def test_ten_questions_of_each_reader_are_answered_within_two_clicks(reader: str) -> None:
    page = DOCS / f"for-{reader}.md"
    asked = re.findall(r"^\| ([^|]+\?) \| (.+) \|$", section(page.read_text("utf-8"), "Ten questions"), re.MULTILINE)
    assert len(asked) == 10
    assert [question for question, answer in asked if not re.search(r"\]\([^)]+\)", answer)] == []
    for start in (DOCS / "index.md", DOCS / "README.md", ROOT / "README.md"):
        assert f"({page.relative_to(start.parent)})" in start.read_text("utf-8"), f"{start}: no {page.name}"


def test_figures_of_benchmarks_are_those_of_their_tables() -> None:
    drawn = 0
    for page in sorted((DOCS / "benchmarks").glob("*.md")):
        for name, picture in page_figures.draw(page.read_text("utf-8")).items():
            drawn += 1
            assert (page.parent / name).read_text("utf-8") == picture, f"{name}: python -m benchmarks.page_figures"
    assert drawn >= 8


def test_the_files_that_a_value_passes_through_exist() -> None:
    text = (ROOT / "docs" / "explanation" / "how-it-works.md").read_text("utf-8")
    files = re.findall(r"^\| `([\w./]+)` \|", text.split("A hint, from its stack")[1], re.MULTILINE)
    assert 1 < len(files) <= 12
    assert [file for file in files if not any((ROOT / base / file).is_file() for base in ("", "src/stripewise"))] == []
