"""A user's command line is taken apart and put together again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stripewise.runners.program.command import CommandLine, fill, placeholders, split_command, substitute


def line(text: str, executables: Sequence[str] = ()) -> CommandLine:
    return split_command(shlex.split(text), lambda word: word in executables)


@pytest.mark.parametrize(
    ("text", "program", "ranks", "nodes"),
    [
        ("mpiexec -n 4 ./app in.nml", "./app in.nml", 4, None),
        ("/opt/mpi/bin/mpiexec -np 4 ./app", "./app", 4, None),
        ("mpiexec -np=4 ./app", "./app", 4, None),
        ("mpirun -np 4 --mca io ompio ./app", "./app", 4, None),
        ("mpirun --allow-run-as-root --oversubscribe -n 4 -x A=b --map-by ppr:2:node ./app", "./app", 4, 2),
        ("mpiexec -l -n 4 ./app -l", "./app -l", 4, None),
        ("mpiexec -genv A b -env C d -n 2 -ppn 1 ./app", "./app", 2, 2),
        ("srun -n4 -N 2 --mpi=pmi2 -p debug ./app -n 3", "./app -n 3", 4, 2),
        ("srun --ntasks 8 -l --exclusive numactl -m 0 ./app", "./app", 8, None),
        ("srun -N 2 --ntasks-per-node=4 ./app", "./app", 8, 2),
        ("srun -vv -u ./app", "./app", None, None),
        ("aprun -n 64 -N32 -d 2 ./app", "./app", 64, 2),
        ("flux run -n4 -N2 ./app", "./app", 4, 2),
        ("jsrun -n 2 -a 4 ./app", "./app", 8, None),
        ("jsrun -n 2 -U set.urs -I 0 -i ./app", "./app", 2, None),
        ("aprun -n 64 -z -D 3 --mpmd-env A=b ./app", "./app", 64, None),
        ("srun -n 4 --quit-on-interrupt --overlap ./app", "./app", 4, None),
        ("mpirun -n 4 --memory-alloc-kinds system -wait-for-server ./app", "./app", 4, None),
        ("mpiexec.hydra -pmi-noaggregate -trace -n 4 ./app", "./app", 4, None),
        ("mpirun_rsh -np 4 -hostfile hosts -sg group -ppn 2 A=b ./app", "./app", 4, 2),
        ("ibrun -n 4 -o 0 ./app", "./app", 4, None),
        ("env A=b -u C mpiexec -n 2 ./app", "./app", 2, None),
        ("env -i A=b ./app", "./app", None, None),
        ("timeout -k 5 10 mpiexec -n 4 taskset -c 0-3 ./app", "./app", 4, None),
        ("nice -n 5 /usr/bin/time -v -o t ./app x", "./app x", None, None),
        ("stdbuf -oL mpiexec -n 2 ./app", "./app", 2, None),
        ("bash script.sh a", "bash script.sh a", None, None),
        ("python -m mpi4py run.py", "python -m mpi4py run.py", None, None),
        ("mpiexec -n 2 python run.py", "python run.py", 2, None),
        ("./app -n 4", "./app -n 4", None, None),
        ("mpiexec -n 2 -- ./app", "./app", 2, None),
    ],
)
def test_program_and_ranks_are_found(text: str, program: str, ranks: int | None, nodes: int | None) -> None:
    found = line(text)
    assert shlex.join(found.program) == program
    assert (found.ranks, found.nodes) == (ranks, nodes)
    assert found.words() == shlex.split(text)


def test_the_carrier_stands_directly_before_the_program() -> None:
    found = line("env A=b mpiexec -n 4 numactl -l ./app -x 1")
    assert found.words({"LD_PRELOAD": "/l.so"}, ["OLD"]) == shlex.split(
        "env A=b mpiexec -n 4 numactl -l env -u OLD LD_PRELOAD=/l.so ./app -x 1"
    )


def test_every_program_of_a_line_with_colons_gets_the_carrier() -> None:
    found = line("mpiexec -n 2 ./a : -n 3 env X=y ./b 1")
    assert found.ranks == 5
    assert found.words({"P": "q"}) == shlex.split("mpiexec -n 2 env P=q ./a : -n 3 env X=y env P=q ./b 1")
    assert found.environment == {"X": "y"}


def test_a_colon_without_a_launcher_is_an_argument() -> None:
    assert line("./app : x").program == ("./app", ":", "x")


def test_what_only_sets_variables_or_shows_a_version_is_the_program_itself() -> None:
    assert line("env").program == ("env",)
    assert line("mpiexec --version").program == ("mpiexec", "--version")
    assert line("mpiexec --version").launcher == ""


def test_an_unknown_option_takes_the_next_word_unless_it_can_be_executed() -> None:
    assert line("mpiexec --new thing -n 2 ./app", ["./app"]).program == ("./app",)
    assert line("mpiexec --new ./app -n 2", ["./app"]).program == ("./app", "-n", "2")


def test_settings_of_the_command_line_are_noted() -> None:
    found = line("mpirun -n 2 --mca io romio341 -x LD_PRELOAD=/darshan.so -x PATH --wdir /data ./app")
    assert found.mca == {"io": "romio341"}
    assert found.environment == {"LD_PRELOAD": "/darshan.so"}
    assert found.folder == "/data"


def test_braces_are_replaced_only_where_a_parameter_is_named() -> None:
    values = {"block": "4M", "run_folder": "/r"}
    assert (
        substitute("-b{block} {run_folder}/x {other} ${block} {print $1}", values)
        == "-b4M /r/x {other} ${block} {print $1}"
    )
    assert placeholders(["-b{block}", "${HOME}", "{a}{b}", "{print $1}"]) == {"block", "a", "b"}


def test_a_flag_that_is_not_given_leaves_no_word_behind() -> None:
    words = ["ior", "{call}", "-o{call}", "-N", "{nodes}"]
    assert [word for word, _ in fill(words, {"call": ""})] == ["ior", "-o", "-N", "{nodes}"]
    assert [word for word, _ in fill(words, {"call": "-c", "nodes": "2"})] == ["ior", "-c", "-o-c", "-N", "2"]


@given(st.lists(st.text(st.sampled_from("-=:abnN1/ ."), min_size=1, max_size=6), min_size=1, max_size=8), st.booleans())
def test_any_words_survive_the_way_there_and_back(words: list[str], launched: bool) -> None:
    words = ["mpiexec", "-n", "2", *words] if launched else words
    found = split_command(words)
    if all(segment.program for segment in found.segments):
        assert found.words() == words
