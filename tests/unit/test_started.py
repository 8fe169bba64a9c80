"""What launch lines start in the end: programs, ranks, wrappers, containers, and what is not certain."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stripewise.runners.program.command import LAUNCHERS
from stripewise.runners.program.grammar import read_grammars
from stripewise.runners.program.shell_commands import list_commands
from stripewise.runners.program.started import Files, Understood, understand

FIELD = Path(__file__).parents[1] / "fixtures" / "launches" / "field.txt"


def read(line: str, **texts: str) -> Understood:
    return understand(shlex.split(line), Files(read=texts.get))


def shown(found: Understood) -> list[tuple[str, int | str | None]]:
    return [(shlex.join(one.program), one.ranks if one.ranks is not None else one.ranks_as) for one in found.programs]


RANKS = [2, 2, 2, 2, 8, 2, 2, 32, 64, 16, 4, 2, 2]
"""Of the lines of the fixture, which all start ./app; it was written for this project, with the right answers."""


@pytest.mark.parametrize(("line", "ranks"), [*zip(FIELD.read_text("utf-8").splitlines(), RANKS, strict=True)])
def test_lines_of_the_field_start_the_program_with_its_ranks(line: str, ranks: int) -> None:
    programs = "0-3 ./app a\n4-7 ./app b %t\n"
    found = understand(shlex.split(line), Files(read={"programs.conf": programs}.get))
    assert {one.program[0] for one in found.programs} == {"./app"}
    assert sum(one.ranks or 0 for one in found.programs) == ranks
    assert len(found.programs) == (2 if "--multi-prog" in line else 1)
    assert found.programs[0].container == ("site+app:1" if "container" in line else "")
    assert bool(found.remarks) == ("choose-device" in line)


@pytest.mark.parametrize(
    ("line", "program", "ranks", "behind"),
    [
        ("srun -lu -n4 ./app", "./app", 4, ""),
        ("srun --ntasks-per-n=4 --nodes 2 ./app", "./app", 8, ""),
        ("srun --exclusive -K1 -n $NP ./app", "./app", "$NP", ""),
        ("srun -N 2 --ntasks-per-node=$PPN ./app", "./app", "2 * $PPN", ""),
        ("mpirun -pernode --hostfile h ./app", "./app", "", ""),
        ("mpiexec -n 8 -ppn 4 -d 8 --cpu-bind depth ./app", "./app", 8, ""),
        ("mpirun -d -np 2 ./app", "./app", 2, ""),
        ("mpirun 4 ./app", "./app", 4, ""),
        ("jsrun -n 4 -a 6 -c 7 -g 1 ./app", "./app", 24, ""),
        ("srun -N 2 -n 4 $PROFILER ./app", "./app", 4, "$PROFILER"),
        ("srun $OPTS -n 4 ./app", "./app", 4, ""),
        ("srun -n 4 ${BIND_OPTS} ior -a POSIX", "ior -a POSIX", 4, "${BIND_OPTS}"),
        ("srun -n 4 $VTUNE '$(which python)' x.py", "'$(which python)' x.py", 4, "$VTUNE"),
        ("mpirun -np 4 $OPTS --bind-to core ./app", "./app", 4, ""),
        ("mpirun -np 4 ld-linux.so.2 --library-path /a:/b ./app", "./app", 4, "ld-linux.so.2"),
        ("srun -n 4 bash ./bind.sh --cpu=on -- ./app", "./app", 4, "bind.sh"),
        ("srun -n 4 bash ./run-in.sh python3 x.py", "python3 x.py", 4, "run-in.sh"),
        ("jsrun -p 12 -a 3 ./app", "./app", 12, ""),
        ("lrun -N 2 -T 4 ./app", "./app", 8, ""),
        ("lrun -1 ./app", "./app", 1, ""),
        ("flux run -N2 -n 8 -o mpibind=off ./app", "./app", 8, ""),
        ("flux mini run -n 8 ./app", "./app", 8, ""),
        ("ibrun -n 4 -o 0 tacc_affinity ./app", "./app", 4, "tacc_affinity"),
        ("mpirun_rsh -np 2 -hostfile hosts A=B ./app", "./app", 2, ""),
        ("poe ./app in -procs 4 -labelio yes", "./app in -procs 4 -labelio yes", 4, ""),
        ("charmrun ++local +p4 ./app in", "./app in", 4, ""),
        ("charmrun ./app +p 16 in", "./app +p 16 in", 16, ""),
        ("runjob --np 64 -p 16 : ./app a", "./app a", 64, ""),
        ("aprun -n 4 -cc depth -ss ./app", "./app", 4, ""),
        ("srun -n 4 likwid-pin -c 0-3 ./app", "./app", 4, "likwid-pin"),
        ("mpirun -np 4 tau_exec -T mpi,pdt -io ./app", "./app", 4, "tau_exec"),
        ("logsave log mpirun -n 2 ./app", "./app", 2, "logsave"),
        ("srun -n 2 numactl --interleave=all ./app", "./app", 2, "numactl"),
        ("srun -n 2 nsys profile -o out --stats=true ./app x", "./app x", 2, "nsys"),
        ("mpirun -np 2 valgrind --leak-check=full ./app", "./app", 2, "valgrind"),
        ("bash -lc 'cd run; mpirun -np 4 ./app < deck 2> err'", "./app", 4, "bash -c"),
        ("bash -c 'A=b srun -n 3 ./app < deck && echo done'", "./app", 3, "bash -c"),
    ],
)
def test_options_have_the_values_that_the_manuals_give_them(
    line: str, program: str, ranks: int | str, behind: str
) -> None:
    found = read(line)
    assert shown(found) == [(program, ranks)]
    assert found.programs[0].wrappers == tuple(behind.split(", ") if behind else ())


@pytest.mark.parametrize(
    ("line", "container"),
    [
        ("srun -n 2 apptainer exec --nv -B /a:/b image.sif ./app", "apptainer image.sif"),
        ("singularity exec image.sif mpirun -n 2 ./app", "singularity image.sif"),
        ("srun -n 2 --image=docker:site/app:1 shifter ./app", "shifter docker:site/app:1"),
        ("srun -n 2 shifter --image=app:1 ./app", "shifter app:1"),
        ("mpirun -n 2 podman-hpc run --rm --mpi site/app:1 ./app", "podman-hpc site/app:1"),
        ("srun -n 2 sarus run --mpi site/app:1 ./app", "sarus site/app:1"),
        ("srun -n 2 ch-run -w --set-env=x ./image -- ./app", "ch-run ./image"),
        ("srun -n 2 bash -c 'apptainer exec image.sif ./app'", "apptainer image.sif"),
    ],
)
def test_a_program_in_a_container_is_found_with_its_image(line: str, container: str) -> None:
    found = read(line)
    assert shown(found) == [("./app", 2)]
    assert found.programs[0].container == container
    assert not found.remarks


@pytest.mark.parametrize(
    ("line", "remark"),
    [
        (
            "mpirun --novel thing -np 2 ./app",
            "--novel is not a known option of mpirun: read as if 'thing' is its value",
        ),
        ("srun -n 2 parallel ./app ::: 1 2", "parallel may start what its arguments say"),
        ("srun -n 2 torchrun train.py", "torchrun starts processes of its own"),
        ("mpirun -np full ./app", "'full' behind -np is not a number of ranks"),
        ("srun -n 8 --multi-prog missing.conf", "srun reads its programs from missing.conf, which is not at hand"),
        ("mpiexec -configfile missing", "mpiexec reads its programs from missing"),
        ("poe -cmdfile list -procs 4", "poe reads its programs from list"),
        ("srun -n 2 apptainer run image.sif", "starts what its image says"),
        ("srun $OPTS ./app", "$OPTS, whose value is not known, is read as options or a wrapper"),
        ("srun $EXE in.nml", "$EXE is read as the program"),
        ("srun -n 1 mpirun -np 4 ./app", "srun starts mpirun, which is a launcher, too"),
        ("srun ./gpu_wrapper.sh ./app", "read as a wrapper of ./app"),
        ("srun bash -c 'for i in 1 2; do ./app $i; done'", "'for' is not read"),
        ("srun ./a ':  --het-group=1' ./b", "is one word, so it divides nothing"),
        ("srun bash -c 'cd x'", "no program is found in the text of bash -c"),
    ],
)
def test_what_is_not_certain_is_remarked(line: str, remark: str) -> None:
    assert any(remark in one for one in read(line).remarks), read(line).remarks


def test_a_subcommand_is_no_program_of_that_name() -> None:
    found = understand(["samtools", "sort", "a"], Files(executable={"samtools", "sort", "/opt/app"}.__contains__))
    assert shown(found) == [("samtools sort a", "")]
    assert found.remarks == ("samtools is read as the program, not as a wrapper of sort",)
    behind = understand(["unknown", "/opt/app", "a"], Files(executable={"unknown", "/opt/app"}.__contains__))
    assert shown(behind) == [("/opt/app a", "")]


def test_a_launcher_behind_a_launcher_multiplies_the_ranks() -> None:
    assert shown(read("srun -n 2 mpirun -np 4 ./app")) == [("./app", 8)]


def test_a_script_that_starts_its_arguments_is_a_wrapper() -> None:
    text = '#!/bin/bash\nexport X=1\nexec "$@"\n'
    assert shown(read("srun -n 2 ./set ./app in", **{"./set": text})) == [("./app in", 2)]
    assert shown(read("srun -n 2 bash set.sh --cpu 4 -- ./app in", **{"set.sh": text})) == [("./app in", 2)]
    assert shown(read("srun -n 2 ./set ./app in", **{"./set": "#!/bin/bash\n./x\n"})) == [("./set ./app in", 2)]


def test_a_script_that_hands_its_arguments_to_another_program_is_the_program() -> None:
    text = '#!/bin/bash\n# run "$@"\nexec apptainer exec image.sif /opt/app "$@"\n'
    assert shown(read("srun -n 2 ./inside.sh in.nml", **{"./inside.sh": text})) == [("./inside.sh in.nml", 2)]


@pytest.mark.parametrize(
    ("text", "commands", "unread"),
    [
        ("cd run && A=b ./app $(nproc) < 'my deck' 2> err", [["./app", "$(nproc)"]], ""),
        ("./app 2 > out; ./b 2>err", [["./app", "2"], ["./b"]], ""),
        ("./app &> log & ./b >& x 2>&1; wait", [["./app"], ["./b"]], ""),
        ("a=(x $(hostname)); ./app # it's\n./b", [["./app"], ["./b"]], ""),
        (
            'mpirun -n $((N*2)) ./a "b \\"c\\" $(echo "d e")" `f g`',
            [["mpirun", "-n", "$((N*2))", "./a", 'b "c" $(echo "d e")', "`f g`"]],
            "",
        ),
        ("srun -n $[$N * $P] ./app", [["srun", "-n", "$[$N * $P]", "./app"]], ""),
        ("for i in 1 2; do ./app $i; done", [["./app", "$i"]], "'for'"),
        ("./app 'x", [], "a quotation without an end"),
        ("./app $(x", [], "an expansion without an end"),
    ],
)
def test_the_commands_of_a_shell_text_are_listed(text: str, commands: list[list[str]], unread: str) -> None:
    assert list_commands(text) == (commands, unread)


def test_a_place_in_a_template_is_one_word() -> None:
    assert shown(read("mpirun -np {{ job.cores }} ./app {{ input }}")) == [("./app '{{ input }}'", "{{ job.cores }}")]


def test_files_that_list_programs_are_read() -> None:
    found = read("mpiexec -configfile list", list="# two\n-n 2 ./a x\n-n 3 -env A=1 ./b\n")
    assert shown(found) == [("./a x", 2), ("./b", 3)]
    found = read("srun -n 6 --multi-prog list", list="0,2-3 ./a\n* bash -c './b in'\n")
    assert shown(found) == [("./a", 3), ("./b in", "*")]


def test_parts_of_a_line_have_their_own_ranks() -> None:
    assert shown(read("srun --het-group=0 -n 2 ./a : --het-group=1 -n 4 ./b x")) == [("./a", 2), ("./b x", 4)]
    assert shown(read("mpirun -np 1 ./a : ./b")) == [("./a", 1), ("./b", "")]


@pytest.mark.parametrize(
    ("line", "environment", "mca"),
    [
        ("srun -x node1 --export=ALL,A=1,B=3 ./app -x C=1", {"A": "1", "B": "3"}, {}),
        ("mpirun -x A=1,2 -x B -x C=3 ./app", {"A": "1,2", "C": "3"}, {}),
        ("mpiexec -genv A 1 -env B=2 ./app -env C 3", {"A": "1", "B": "2"}, {}),
        ("mpirun --mca io ompio ./app --mca fcoll vulcan --mca", {}, {"io": "ompio", "fcoll": "vulcan"}),
        ("aprun -n 4 -e A=*:b=1,*.nc:c=2 -b ./app", {"A": "*:b=1,*.nc:c=2"}, {}),
        ("jsrun -n2 -EA=1 -E B=2 ./app", {"A": "1", "B": "2"}, {}),
        ("flux run -n 2 --env=A=1 ./app", {"A": "1"}, {}),
        ("srun -n 2 apptainer exec --env A=1,B=2 image.sif env C=3 ./app", {"A": "1", "B": "2", "C": "3"}, {}),
        ("numactl -l mpirun_rsh -np 2 a b A=1 ./app", {"A": "1"}, {}),
        ("sbatch --export=ALL,A=1 job.sh --export=B=2", {"A": "1"}, {}),
        ("qsub -l select=1 -vA=1,B=2 job.sh", {"A": "1", "B": "2"}, {}),
    ],
)
def test_what_options_set_is_told(line: str, environment: dict[str, str], mca: dict[str, str]) -> None:
    found = understand(line.split())
    assert (dict(found.environment), dict(found.mca)) == (environment, mca)


def test_every_table_names_its_manual_and_options_once() -> None:
    for name, grammar in read_grammars().items():
        assert any(letter.isdigit() for letter in grammar.manual) or grammar.manual.startswith("none"), name
        kinds = [grammar.flags, grammar.values, grammar.pairs, grammar.assigning, grammar.optional, grammar.numeric]
        assert sum(map(len, kinds)) == len(frozenset().union(*kinds)), (name, _twice(kinds))
        assert grammar.counting | grammar.environment | grammar.mca <= grammar.known, name
        assert {one.split(":")[0] for one in grammar.libraries} <= grammar.names, name
    assert "aprun" in LAUNCHERS


def _twice(kinds: list[frozenset[str]]) -> list[str]:
    return sorted({name for one in kinds for other in kinds if one is not other for name in one & other})


@given(st.lists(st.text(st.sampled_from("-=:abnN1/ .$+"), min_size=1, max_size=6), min_size=1, max_size=8))
def test_any_words_are_understood_somehow(words: list[str]) -> None:
    for before in ([], ["srun"], ["mpirun", "-n", "2"], ["bash", "-c"], ["poe"]):
        assert understand([*before, *words]).programs
