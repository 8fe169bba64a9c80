"""Dead knobs: what a script sets that does nothing, and why."""

import contextlib
import time
from pathlib import Path

import pytest

from stripewise.catalogue.meaning import versions_in
from stripewise.catalogue.workload import Workload
from stripewise.diagnose.knobs import Surroundings, judge_script, list_dead, review_script
from stripewise.diagnose.script import parse_script
from stripewise.errors import UserError

SCRIPTS = Path(__file__).parents[1] / "fixtures" / "scripts"
SCRIPT = """#!/bin/bash
#SBATCH -N 4
export MPICH_MPIIO_HINTS="*:romio_cb_write=enable:cb_nodes=8"
cat > $PWD/hints <<EOF
romio_cb_write disable
cb_nodes 4
romio_cb_wrte enable
romio_ds_write maybe
EOF
export ROMIO_HINTS=$PWD/hints
lfs setstripe -c 8 -S 4m out
export OMPI_MCA_io_ompio_num_aggregators=4
ind_wr_buffer_size=1
srun -n 64 ./app
export I_MPI_EXTRA_FILESYSTEM=on
"""
WRITES = Workload(operation="write", collective=True, nodes=4, processes_per_node=16)


def verdicts(text, **where):
    return {
        (one.knob.line, one.knob.name): (one.verdict, one.reason) for one in judge_script(text, Surroundings(**where))
    }


def test_each_carrier_is_read_with_its_line():
    found = {(k.line, k.name, k.value, k.form) for k in parse_script(SCRIPT).settings}
    assert found == {
        (3, "romio_cb_write", "enable", "cray"), (3, "cb_nodes", "8", "cray"),
        (5, "romio_cb_write", "disable", "romio_file"), (6, "cb_nodes", "4", "romio_file"),
        (7, "romio_cb_wrte", "enable", "romio_file"), (8, "romio_ds_write", "maybe", "romio_file"),
        (11, "stripe_count", "8", "commands"), (11, "stripe_size", "4m", "commands"),
        (12, "io_ompio_num_aggregators", "4", "openmpi"), (15, "I_MPI_EXTRA_FILESYSTEM", "on", "intel"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "knob"),
    [
        ("mpirun --mca io romio341 -x OMPI_MCA_fcoll=vulcan ./app", ("io", "romio341")),
        ('MPI_Info_set(info, "cb_nodes", "4");', ("cb_nodes", "4")),
        ("setenv OMPI_MCA_fcoll vulcan", ("fcoll", "vulcan")),
        ("export PNETCDF_HINTS='nc_header_align_size=1048576'", ("nc_header_align_size", "1048576")),
        ("mpiexec -genv I_MPI_EXTRA_FILESYSTEM on ./app", ("I_MPI_EXTRA_FILESYSTEM", "on")),
        ("mpirun --mca fcoll \\\n  vulcan ./app", ("fcoll", "vulcan")),
        ("lfs setstripe --stripe-count=4 out", ("stripe_count", "4")),
        ("cb_nodes 4\nromio_cb_write enable", ("cb_nodes", "4")),
    ],
)
def test_other_forms_are_read(line, knob):
    assert knob in {(k.name, k.value) for k in parse_script(line).settings}


def test_carriers_of_other_libraries_are_dead():
    mpich = verdicts(SCRIPT, mpi="mpich", workload=WRITES)
    assert mpich[3, "cb_nodes"] == ("dead", "only Cray MPICH reads MPICH_MPIIO_HINTS, and the program uses MPICH")
    assert mpich[12, "io_ompio_num_aggregators"][0] == "dead"
    ompio = verdicts(SCRIPT, mpi="openmpi", workload=WRITES)
    assert ompio[12, "io_ompio_num_aggregators"][0] == "live"
    assert "only ROMIO reads a hints file" in ompio[6, "cb_nodes"][1]


def test_exported_hints_and_mca_parameters_reach_no_library():
    text = "export romio_cb_write=enable\nexport fcoll=vulcan\nexport cb_nodes=4\nexport FOO=1\n"
    text += 'echo "cb_nodes $cb_nodes" > hints\nexport ROMIO_HINTS=$PWD/hints\nmpiexec ./app\n'
    found = {one.knob.name: one for one in judge_script(text, Surroundings(mpi="mpich"))}
    assert found.keys() == {"romio_cb_write", "fcoll", "cb_nodes"}
    assert (found["cb_nodes"].knob.line, found["cb_nodes"].knob.value) == (5, "4"), "of the file, not the variable"
    assert found["romio_cb_write"].verdict == "dead"
    assert found["romio_cb_write"].reason == "no library reads an environment variable romio_cb_write"
    assert found["fcoll"].fix == "export OMPI_MCA_fcoll=vulcan"


def test_names_and_values_that_the_library_passes_over_are_dead():
    found = verdicts(SCRIPT, mpi="mpich")
    assert found[7, "romio_cb_wrte"][0] == "dead" and "romio_cb_write is meant" in found[7, "romio_cb_wrte"][1]
    assert "'maybe' is not one of" in found[8, "romio_ds_write"][1]


def test_a_setting_that_another_one_switches_off_is_dead():
    found = verdicts(SCRIPT, mpi="mpich", workload=WRITES)
    assert found[6, "cb_nodes"][0] == "dead" and "romio_cb_write is disable" in found[6, "cb_nodes"][1]
    on = verdicts(SCRIPT.replace("romio_cb_write disable", "romio_cb_write enable"), mpi="mpich", workload=WRITES)
    assert on[6, "cb_nodes"][0] == "live"


def test_the_promise_of_collective_calls_acts_where_buffering_is_disabled_too():
    text = "romio_cb_write disable\nromio_no_indep_rw true\n"
    promised = Workload(operation="write", collective=True, layout="strided", piece_size=1024, transfer_size=65536)
    broken = promised.model_copy(update={"collective": False})
    for workload, verdict in ((promised, "live"), (Workload(), "live"), (broken, "dead")):
        assert verdicts(text, mpi="mpich", workload=workload)[2, "romio_no_indep_rw"][0] == verdict


def test_place_in_the_script_decides():
    intel = verdicts(SCRIPT, mpi="intel")
    assert intel[15, "I_MPI_EXTRA_FILESYSTEM"] == ("dead", "it comes after the last program was started")
    text = "OMPI_MCA_fcoll=vulcan\nmpirun ./app\n"
    assert "without export" in verdicts(text, mpi="openmpi")[1, "fcoll"][1]
    assert verdicts(f"export {text}", mpi="openmpi")[1, "fcoll"][0] == "live"
    assert verdicts("OMPI_MCA_fcoll=vulcan mpirun ./app\n", mpi="openmpi")[1, "fcoll"][0] == "live"
    twice = "export OMPI_MCA_fcoll=vulcan\nexport OMPI_MCA_fcoll=individual\nmpirun ./app\n"
    assert "line 2 sets it again" in verdicts(twice, mpi="openmpi")[1, "fcoll"][1]
    overruled = "export OMPI_MCA_fcoll=dynamic\nmpirun --mca fcoll vulcan -np 4 ./a\n"
    alone = "export OMPI_MCA_fcoll=vulcan\nsrun {}./a\n"
    for directive, option in (("#SBATCH -N 2 --export=NONE\n", ""), ("", "--export=NONE ")):
        text = "#!/bin/bash\n" + directive + alone.format(option)
        ((_, judged),) = ((key, one) for key, one in verdicts(text, mpi="openmpi").items() if key[1] == "fcoll")
        assert judged[0] == "cannot tell" and "srun passes no variable of the script on" in judged[1]
    job = "#!/bin/bash\n#SBATCH --export=NONE\n"
    for passed_on in (
        f"{job}unset SLURM_EXPORT_ENV\n{alone.format('')}",
        f"{job}export SRUN_EXPORT_ENV=ALL\n{alone.format('')}",
        f"{job}\n{alone.format('--export=ALL ')}",
        f"{job}\n{alone.format('hostname; mpirun ')}",
        f"#!/bin/bash\n\n\n{alone.format('--export=NONE hostname; srun ')}",
    ):
        assert verdicts(passed_on, mpi="openmpi")[4, "fcoll"][0] == "live", passed_on
    told = ("dead", "line 2 starts the program with another value")
    assert verdicts(overruled, mpi="openmpi")[1, "fcoll"] == told
    between = "export OMPI_MCA_fcoll=vulcan\nmpirun ./a\nexport OMPI_MCA_fcoll=individual\nmpirun ./b\n"
    assert verdicts(between, mpi="openmpi")[1, "fcoll"][0] == "live"


def test_file_system_version_and_operation_decide():
    lustre = "romio_lustre_co_ratio 2\nromio_ds_read enable\n"
    on_ext4 = verdicts(lustre, mpi="mpich", file_system="ext4", workload=WRITES)
    assert "the files lie on ext4" in on_ext4[1, "romio_lustre_co_ratio"][1]
    assert "the program writes" in on_ext4[2, "romio_ds_read"][1]
    assert verdicts(lustre, mpi="mpich")[1, "romio_lustre_co_ratio"][0] == "cannot tell"


def test_what_an_experiment_has_shown_counts():
    text = "romio_ds_write enable\n"
    shown = {"romio_ds_write": ("no_effect", "the same system calls with and without it")}
    found = verdicts(text, mpi="mpich", effects=shown)[1, "romio_ds_write"]
    assert found == ("dead", "measured in an experiment: no effect: the same system calls with and without it")


def test_what_a_default_does_anyway_is_dead_and_unknown_names_are_called_unknown():
    found = judge_script("export OMPI_MCA_sharedfp_sm_verbose=1\nmpirun ./a\n", Surroundings("openmpi"))
    assert [one.verdict for one in found] == ["cannot tell"]
    found = judge_script("romio_cb_write automatic\n", Surroundings("mpich"))
    assert [one.knob.name for one in list_dead(found)] == ["romio_cb_write"]


def test_what_is_never_searched_is_live_and_told_with_its_trap():
    found = verdicts("romio_cb_pfr enable\ncb_nodes 4\n", mpi="mpich")[1, "romio_cb_pfr"]
    assert found[0] == "live" and "abort programs" in found[1]
    subfiling = verdicts("export H5FD_SUBFILING_IOC_PER_NODE=2\nmpirun ./a\n", mpi="mpich")
    assert "Only for programs that chose the subfiling driver" in subfiling[1, "H5FD_SUBFILING_IOC_PER_NODE"][1]


def test_a_value_that_breaks_calls_is_live_with_what_to_do() -> None:
    written, read = judge_script("romio_cb_write disable\nromio_cb_read disable\n", Surroundings("mpich"))
    assert written.verdict == read.verdict == "live"
    assert [one.fix for one in judge_script("romio_cb_write enable\n", Surroundings("mpich"))] == [""]
    assert written.fix.startswith("leave romio_cb_write=disable out if the program calls MPI_File_write_ordered")
    assert "MPI_File_read_ordered" in read.fix


PROGRAM_TEXT = """static hid_t access_list(void) {
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    double data[512];
    return list;
}
static hid_t create(void) {
    hid_t list = access_list();
    return list;
}
"""


def test_program_text_is_no_hints_file():
    assert judge_script(PROGRAM_TEXT, Surroundings("mpich")) == []
    told = PROGRAM_TEXT + 'void set(MPI_Info info) {\n    MPI_Info_set(info, "cb_nodes", "4");\n}\n'
    assert list(verdicts(told, mpi="mpich")) == [(11, "cb_nodes")]


def test_wrong_questions_are_refused():
    with pytest.raises(UserError, match="choose from mpich"):
        judge_script("", Surroundings("lam"))
    with pytest.raises(UserError, match="larger than"):
        judge_script("x" * (1 << 21), Surroundings())


@pytest.mark.parametrize(
    ("text", "verdict", "told"),
    [
        ("export OMPI_MCA_fcoll=vulcan\nunset OMPI_MCA_fcoll\nmpirun ./app\n", "dead", "line 2 unsets OMPI_MCA_fcoll"),
        ("export OMPI_MCA_fcoll=vulcan\nmpirun ./app\nunset OMPI_MCA_fcoll\n", "live", ""),
        ("export OMPI_MCA_fcoll=vulcan\nunset OTHER\nmpirun ./app\n", "live", ""),
        ("OMPI_MCA_fcoll=vulcan\nexport OMPI_MCA_fcoll\nmpirun ./app\n", "live", ""),
        ("OMPI_MCA_fcoll=vulcan\nexport PATH\nmpirun ./app\n", "dead", "without export"),
    ],
)
def test_a_variable_counts_as_the_program_finds_it(text, verdict, told):
    (found,) = judge_script(text, Surroundings(mpi="openmpi"))
    assert found.verdict == verdict
    assert told in found.reason


def test_hints_of_mpi_io_in_pnetcdfs_variable_depend_on_its_driver():
    (found,) = judge_script("export PNETCDF_HINTS='romio_cb_write=enable'\nmpirun ./app\n", Surroundings())
    assert found.verdict == "cannot tell"
    assert "nc_driver=mpiio" in found.reason
    assert "no stack" not in found.reason


def test_export_by_name_reaches_only_the_hints_of_that_variable():
    text = "PNETCDF_HINTS='nc_header_align_size=1048576'\nMPICH_MPIIO_HINTS='*:cb_nodes=8'\n{}\nmpirun ./app\n"
    for name, exported in (("PNETCDF_HINTS", "nc_header_align_size"), ("MPICH_MPIIO_HINTS", "cb_nodes")):
        settings = parse_script(text.format(f"export {name}")).settings
        assert {setting.name for setting in settings if not setting.gone} == {exported}


FIELD = [
    ("plain", {}, []),
    (
        "two-dirs",
        {"mpi": "cray", "file_system": "lustre"},
        ["3 stripe_count=1: live", "4 stripe_count=-1: live", "4 stripe_size=16m: live"],
    ),
    (
        "io500-setup",
        {"mpi": "cray", "file_system": "lustre"},
        [
            "7 stripe_count=1: live",
            "10 overstripe_count=$((osts * 4)): live",
            "11 stripe_count=-1: live",
            "12 mdt_size=64k: live",
        ],
    ),
    ("branches", {"mpi": "openmpi"}, ["3 fcoll=vulcan: live in one branch", "3 fcoll=individual: live in one branch"]),
    (
        "reexport",
        {"mpi": "cray"},
        ["3 romio_cb_write=enable: live", "3 romio_ds_write=disable: live", "3 romio_no_indep_rw=true: live"],
    ),
    ("array", {"mpi": "openmpi"}, ["6 io=romio341: live", "7 ROMIO_FSTYPE_FORCE=ufs:: live"]),
    ("heredoc-lammps", {"mpi": "cray"}, ["3 romio_cb_write=disable: live"]),
    (
        "script-names-romio",
        {"mpi": "openmpi", "file_system": "gpfs"},
        [
            "4 io=romio321: live",
            "7 romio_cb_write=enable: live",
            "8 romio_ds_write=enable: dead",
            "9 cb_buffer_size=16777216: dead",
            "10 cb_nodes=4: live",
            "11 IBM_largeblock_io=true: cannot tell",
        ],
    ),
    (
        "echo-hints",
        {"mpi": "mpich"},
        [
            "5 romio_cb_write=enabel: dead",
            "6 romio_ds_write=enable: dead",
            "7 cb_buffer_size=16777216: dead",
            "8 cb_config_list=*:1: live",
        ],
    ),
    (
        "empty-pattern",
        {"mpi": "cray", "file_system": "lustre"},
        ["5 cray_cb_write_lock_mode=2: dead", "5 cray_cb_nodes_multiplier=4: dead"],
    ),
    (
        "sizes",
        {"mpi": "cray", "file_system": "gpfs"},
        ["3 cb_buffer_size=16M: live", "3 striping_unit=4m: dead", "3 cb_nodes=8: live"],
    ),
    ("aprun-env", {"mpi": "cray"}, ["3 romio_cb_write=enabel: dead"]),
]
"""Scripts in the forms that people have: name, where they run, and the right verdict of each setting."""


@pytest.mark.parametrize(("name", "where", "right"), FIELD, ids=[name for name, _, _ in FIELD])
def test_scripts_as_people_have_them(name, where, right):
    found = judge_script((SCRIPTS / f"{name}.sh").read_text(), Surroundings(**where))
    assert [f"{one.knob.line} {one.knob.name}={one.knob.value}: {one.verdict}" for one in found] == right


def test_a_size_that_romio_reads_as_digits_alone_is_told():
    found = judge_script((SCRIPTS / "sizes.sh").read_text(), Surroundings("cray", "gpfs"))[0]
    assert (found.reason, found.fix) == ("ROMIO reads digits alone: '16M' is 16 for it", "write 16777216")


@pytest.mark.parametrize(
    "text",
    [
        "export A=1\nexport B=2\nmodule load gcc\n",
        "HDF5_VER=1.14\nLUSTRE_DIR=/x\nsrun ./app\n",
        "#!/bin/bash\nsource activate\nexport I_MPI_PIN=1 OMPI_MCA_btl=self\nmpirun --mca pml ucx ./a\nset -e\n",
        "cat > in <<EOF\nunits lj\nrun 1000\nEOF\nsrun ./app\n",
        "cat > deck <<EOF\nfilename out\nnodes 4\nwrite enable\nEOF\nmpirun ./app\n",
    ],
)
def test_only_names_that_a_library_knows_are_settings(text):
    assert judge_script(text, Surroundings()) == []


@pytest.mark.parametrize(
    ("begin", "launch"),
    [
        ("cat > job.sh <<EOF\n#!/bin/bash", "srun ./b"),
        ("cat > job.sh <<'EOF'\n#SBATCH -N 2", "srun ./b"),
        ("cat > job.sh <<-EOF\n#PBS -l select=2", "aprun ./b"),
        ("cat <<EOF > job.sh\n#BSUB -nnodes 2", "jsrun ./b"),
        ("cat <<EOF | pjsub\n#PJM -L node=2", "mpiexec ./b"),
        ("cat > job.sh <<EOF\n#COBALT -n 2", "aprun ./b"),
        ("cat > job.sh <<EOF\n#$ -cwd", "mpirun ./b"),
        ("cat > job.sh <<EOF\n#MSUB -l nodes=2", "mpirun ./b"),
        ("cat > job.sh <<EOF\n#OAR -n x", "mpirun ./b"),
        ("sbatch <<EOF", "srun ./b"),
        ("ssh node bash -s <<EOF", "mpirun ./b"),
    ],
)
def test_a_script_in_a_here_document_is_a_script(begin, launch):
    text = f"mpirun ./a\n{begin}\nmodule load x\nexport OMPI_MCA_fcoll=vulcan\n{launch}\n"
    text += "export OMPI_MCA_fcoll=individual\nEOF\n"
    found = judge_script(text, Surroundings("openmpi"))
    first = next(number for number, line in enumerate(text.splitlines(), start=1) if "vulcan" in line)
    assert [(one.knob.line, one.knob.value, one.verdict) for one in found] == [
        (first, "vulcan", "live"),
        (first + 2, "individual", "dead"),
    ]


def test_a_script_of_the_c_shell_is_read_by_its_branches():
    text = "#!/bin/csh\nif ($x == big) then\n  setenv OMPI_MCA_fcoll vulcan\nelse if ($x == mid) then\n"
    text += "  setenv OMPI_MCA_fcoll dynamic\nelse\n  setenv OMPI_MCA_fcoll individual\nendif\n"
    text += "mpirun ./app\nunsetenv OMPI_MCA_fcoll\n"
    found = judge_script(text, Surroundings("openmpi"))
    assert [(one.knob.line, one.verdict) for one in found if "again" in one.reason] == []
    assert [one.knob.value for one in found] == ["vulcan", "dynamic", "individual"]


@pytest.mark.parametrize(
    ("text", "verdict", "told"),
    [
        ("f() {\n  export OMPI_MCA_fcoll=vulcan\n}\nexport OMPI_MCA_fcoll=individual\nf\nmpirun ./a\n", "live", ""),
        ("for i in 1 2; do\n  mpirun ./a\n  export OMPI_MCA_fcoll=vulcan\ndone\n", "live", ""),
        ("mpirun ./a\nexport OMPI_MCA_fcoll=vulcan\n./later\n", "live", ""),
        (
            "if x; then\n  export OMPI_MCA_fcoll=vulcan\nfi\nexport OMPI_MCA_fcoll=dynamic\nmpirun ./a\n",
            "dead",
            "line 4 sets",
        ),
        ("export OMPI_MCA_fcoll=vulcan\nif x; then unset OMPI_MCA_fcoll; fi\nmpirun ./a\n", "live in one branch", ""),
        ("set -a\nOMPI_MCA_fcoll=vulcan\nmpirun ./a\n", "live", ""),
        ("#SBATCH --export=ALL,OMPI_MCA_fcoll=vulcan\nmpirun ./a\n", "live", ""),
        ("#PBS -v A=1,OMPI_MCA_fcoll=vulcan,B\nmpirun ./a\n", "live", ""),
    ],
)
def test_only_what_surely_happens_makes_a_setting_dead(text, verdict, told):
    found = judge_script(text, Surroundings("openmpi"))[0]
    assert (found.knob.value, found.verdict) == ("vulcan", verdict)
    assert told in found.reason


def test_settings_of_another_folder_or_branch_switch_nothing_off():
    text = "lfs setstripe -c 1 easy\nlfs setstripe -C 8 hard\nsrun ./a\n"
    assert {one.verdict for one in judge_script(text, Surroundings("cray", "lustre"))} == {"live"}
    text = "if x; then echo romio_cb_write disable > h; fi\necho cb_nodes 4 >> h\nexport ROMIO_HINTS=h\nsrun ./a\n"
    assert verdicts(text, mpi="mpich", workload=WRITES)[2, "cb_nodes"][0] == "live"


@pytest.mark.parametrize(
    ("text", "mpi"),
    [
        ("mpirun --mca fcoll vulcan ./a\n", "openmpi"),
        ("mpirun --mca io romio341 ./a\n", "openmpi-romio"),
        ("export MPICH_MPIIO_HINTS='*:cb_nodes=4'\nsrun ./a\n", "cray"),
        ("export I_MPI_EXTRA_FILESYSTEM=on\nmpirun ./a\n", "intel"),
        ("srun ./a\n", "mpich"),
    ],
)
def test_the_library_is_the_one_that_the_script_uses(text, mpi):
    assert review_script(text, Surroundings("")).mpi in (mpi, mpi.removesuffix("-romio"))
    assert review_script(text, Surroundings("cray")).mpi == "cray"
    assert "dead" not in {one.verdict for one in judge_script(text, Surroundings(mpi=""))}


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("f() {\n  export OMPI_MCA_fcoll=vulcan\n}\nmpirun ./a\n", "cannot tell"),
        ("export OMPI_MCA_fcoll=vulcan\nexit\nmpirun ./a\n", "dead"),
        ("(export OMPI_MCA_fcoll=vulcan)\nmpirun ./a\n", "dead"),
        ("bash -c 'export OMPI_MCA_fcoll=vulcan; mpirun ./a'\n", "live"),
        ("a=OMPI; H=vulcan\nexport OMPI_MCA_fcoll=$H\nRUN='mpirun -np 4'\n$RUN ./a\n", "live"),
        ('run() { mpirun -np 4 "$@"; }\nexport OMPI_MCA_fcoll=vulcan\nrun ./a\n', "live"),
        (
            "{% if x %}\nexport OMPI_MCA_fcoll=vulcan\n{% else %}\nexport A=1\n{% endif %}\nmpirun ./a\n",
            "live in one branch",
        ),
        ("export OMPI_MCA_fcoll={{ algorithm }}\r\nmpirun ./a\r\n", "live"),
        ("export OMPI_MCA_io=romio341\nexport OMPI_MCA_fcoll=vulcan\nmpirun ./a\n", "dead"),
        ("export OMPI_MCA_io=^ompio\nexport OMPI_MCA_fcoll=vulcan\nmpirun ./a\n", "dead"),
        ("export OMPI_MCA_fcoll=\u201cvulcan\u201d\nmpirun ./a\n", "dead"),
        ("#PJM -x OMPI_MCA_fcoll=vulcan\nmpirun ./a\n", "live"),
        ('#BSUB -env "all, OMPI_MCA_fcoll=vulcan"\nmpirun ./a\n', "live"),
        ("#FLUX: --env=OMPI_MCA_fcoll=vulcan\nflux run ./a\n", "live"),
        ("$MPIRUN -n 4 -x OMPI_MCA_fcoll=vulcan ./a\n", "live"),
        ("mpirun $OTHERS -x OMPI_MCA_fcoll=vulcan ./a\n", "live"),
        ("mpirun -n 4 ./a --mca fcoll vulcan\n", "live"),
        ("flux run -n 4 --env=OMPI_MCA_fcoll=vulcan ./a\n", "live"),
        ("srun -n 4 apptainer exec --env OMPI_MCA_fcoll=vulcan image.sif ./a\n", "live"),
        ("ssh node mpirun -x OMPI_MCA_fcoll=vulcan ./a\n", "live"),
        ("flux run ./a\nexport OMPI_MCA_fcoll=vulcan\n", "dead"),
    ],
)
def test_scripts_are_followed_as_a_shell_does(text, right):
    found = [one for one in judge_script(text, Surroundings("openmpi")) if one.knob.name == "fcoll"]
    assert [one.verdict for one in found] == [right]


LOOP = """#!/bin/bash
for n in 1 2 4; do
  lfs setstripe -c "$n" out.$n
  srun -n $n ./app
done
for m in $(seq 4); do lfs setstripe -c $m other; done
srun ./app
"""


def test_the_values_of_a_loop_are_alternatives() -> None:
    found = judge_script(LOOP, Surroundings("", "lustre"))
    assert [(one.knob.line, one.knob.value, one.verdict) for one in found] == [
        (3, "1", "live"), (3, "2", "live"), (3, "4", "live"), (6, "$m", "live")
    ]  # fmt: skip


def test_each_component_of_a_layout_is_judged_by_its_own_values() -> None:
    text = "lfs setstripe -E 1M -L mdt -E 64M -c 1 -S 1M -E -1 -c 4 -S 100k out\nsrun ./a\n"
    found = judge_script(text, Surroundings("", "lustre"))
    assert [(one.knob.component, one.knob.name, one.knob.value, one.verdict) for one in found] == [
        (1, "mdt_size", "1M", "live"), (2, "stripe_count", "1", "live"), (2, "stripe_size", "1M", "live"),
        (3, "stripe_count", "4", "live"), (3, "stripe_size", "100k", "dead"),
    ]  # fmt: skip


def test_settings_of_adios2_are_read_from_the_file_that_a_script_writes() -> None:
    text = """#!/bin/bash
cat > adios2.xml <<EOF
<adios-config><io name="out"><engine type="BP5">
<parameter key="NumAggregators" value="4"/>
<parameter key="BufferChunkSize" value="$SIZE"/>
</engine></io></adios-config>
EOF
srun ./a
"""
    found = judge_script(text, Surroundings(""))
    assert [(one.knob.line, one.knob.name, one.knob.value, one.knob.form, one.verdict) for one in found] == [
        (4, "NumAggregators", "4", "adios2", "live"), (5, "BufferChunkSize", "$SIZE", "adios2", "live")
    ]  # fmt: skip


def test_options_that_a_script_leaves_to_another_program_are_read() -> None:
    text = """#!/bin/bash
args=(-x ROMIO_FSTYPE_FORCE=ufs: -mca io romio341 -np 4)
export MPI_ARGS="${args[*]}"
envsubst < flow.json > run.json
"""
    found = judge_script(text, Surroundings(""))
    assert {(one.knob.name, one.knob.value, one.verdict) for one in found} == {
        ("ROMIO_FSTYPE_FORCE", "ufs:", "cannot tell"), ("io", "romio341", "cannot tell")
    }  # fmt: skip
    assert "MPI_ARGS holds it" in found[0].reason


def test_what_a_template_of_tbg_evaluates_is_no_part_of_the_script() -> None:
    text = '#!/bin/bash\n.TBG_author=${MY_NAME:+--author "${MY_NAME}"}"\n'
    text += "export OMPI_MCA_io=^ompio\nmpirun ./a\n"
    assert [(one.knob.name, one.verdict) for one in judge_script(text, Surroundings(""))] == [("io", "live")]


def test_hints_of_cray_are_dead_on_blue_gene() -> None:
    text = "export MPICH_MPIIO_HINTS='*:cb_nodes=4'\nrunjob --np 64 : ./a\n"
    (found,) = judge_script(text, Surroundings(""))
    assert found.verdict == "dead" and "the program uses MPICH" in found.reason


@pytest.mark.parametrize(
    ("module", "dead"),
    [
        ("impi/2018.4", {"I_MPI_FILESYSTEM", "I_MPI_FILESYSTEM_CB_NODES"}),
        ("impi/2021.4", {"I_MPI_EXTRA_FILESYSTEM_LIST", "I_MPI_FILESYSTEM", "I_MPI_FILESYSTEM_CB_NODES"}),
        ("intel-oneapi-mpi/2021.13", {"I_MPI_EXTRA_FILESYSTEM_LIST"}),
        ("impi", set()),
    ],
)
def test_the_version_of_intel_mpi_decides_on_its_file_system_settings(module: str, dead: set[str]) -> None:
    text = f"module load {module}\nexport I_MPI_EXTRA_FILESYSTEM=on I_MPI_EXTRA_FILESYSTEM_LIST=lustre\n"
    text += "export I_MPI_FILESYSTEM=1 I_MPI_FILESYSTEM_CB_NODES=4\nmpirun ./a\n"
    found = judge_script(text, Surroundings(""))
    assert len(found) == 4 and {one.knob.name for one in found if one.verdict == "dead"} == dead


def test_a_script_that_is_too_large_to_follow_is_not_called_dead() -> None:
    calls = "".join(f"f{number}() {{ f{number + 1}; f{number + 1}; }}\n" for number in range(12))
    text = f"{calls}f12() {{ lfs setstripe -c 4 x; mpirun ./a; }}\nexport OMPI_MCA_fcoll=vulcan\nf0\n"
    begun = time.process_time()
    found = {one.knob.name: one for one in judge_script(text + "true\n" * 2000, Surroundings(""))}
    assert time.process_time() - begun < 5
    assert found["fcoll"].verdict != "dead"


def test_a_large_script_without_a_word_of_a_setting_is_not_followed() -> None:
    filler = "echo of no setting\n" * 500
    assert judge_script(f"module load openmpi\n{filler}", Surroundings("")) == []
    assert [one.knob.name for one in judge_script(f"{filler}lfs setstripe -c 4 x\n./a\n", Surroundings(""))] == [
        "stripe_count"
    ]


def test_what_a_launcher_leaves_to_the_program_is_no_setting() -> None:
    for command in ("srun -x OMPI_MCA_fcoll=vulcan ./a", "mpirun -n 4 ./a -x OMPI_MCA_fcoll=vulcan"):
        assert judge_script(f"{command}\n", Surroundings("openmpi")) == []


@pytest.mark.parametrize(
    ("text", "name", "verdict", "told"),
    [
        ("export HDF5_USE_FILE_LOCKING=FALSE\nsrun ./a\n", "HDF5_USE_FILE_LOCKING", "live", "locks its files"),
        (
            "export HDF5_USE_FILE_LOCKING=false\nsrun ./a\n",
            "HDF5_USE_FILE_LOCKING",
            "dead",
            "'false' is not one of TRUE",
        ),
        (
            "export MPICH_MPIIO_HINTS='*:cb_nodes_multiplier=2'\nsrun ./a\n",
            "cb_nodes_multiplier",
            "dead",
            "cray_cb_nodes_multiplier is meant",
        ),
        ("lfs setstripe -s 4m -c 8 out\nsrun ./a\n", "stripe_size", "dead", "lfs of today refuses -s"),
        ("lfs setstripe out 1048576 -1 8\nsrun ./a\n", "stripe_count", "dead", "for names of files"),
        ("export IOR_HINT__MPI__cb_nodes=4\nsrun ior\n", "cb_nodes", "live", "processes that do"),
    ],
)
def test_settings_that_scripts_really_have_are_known(text, name, verdict, told):
    found = {one.knob.name: one for one in judge_script(text, Surroundings(""))}[name]
    assert found.verdict == verdict
    assert told in found.reason


def test_the_script_says_where_it_runs_and_what_contradicts_the_user() -> None:
    text = "#!/bin/bash\nmodule load cray-mpich/8.1\nlfs setstripe -c 4 out\nsrun ./a\n"
    assert review_script(text, Surroundings("")).mpi == "cray"
    told = review_script(text, Surroundings("openmpi", "gpfs")).remarks
    assert told == [
        "line 2: cray-mpich/8.1 shows Cray MPICH, but --mpi says Open MPI with OMPIO; judged for Open MPI with OMPIO",
        "line 3: lfs shows lustre, but --file-system says gpfs; judged for gpfs",
    ]
    several = "module load openmpi/4\nmodule load impi/2019\nexport I_MPI_EXTRA_FILESYSTEM=on\nmpirun ./a\n"
    review = review_script(several, Surroundings(""))
    assert "names more than one MPI library: openmpi/4 in line 1 and impi/2019 in line 2" in review.remarks[0]
    assert [one.verdict for one in review.settings] == ["cannot tell"]


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("export OMPI_MCA_fcoll=^vulcan\nmpirun ./a\n", ["live"]),
        ("export OMPI_MCA_fcoll=vulcan,individual\nmpirun ./a\n", ["live"]),
        ("export OMPI_MCA_fcoll=vulcan,individul\nmpirun ./a\n", ["dead"]),
        # Intel MPI 2021.19 takes these in small letters and in capitals, and stops at others.
        ("module load impi\nexport I_MPI_EXTRA_FILESYSTEM=ON\nmpirun ./a\n", ["live"]),
        ("module load impi\nexport I_MPI_EXTRA_FILESYSTEM=On\nmpirun ./a\n", ["dead"]),
        # Spectrum MPI, and Open MPI on Lustre before 4.1, take ROMIO of themselves.
        ("export OMPI_MCA_io=ompio\njsrun ./a\n", ["live"]),
        ("export OMPI_MCA_io=ompio\nmpirun ./a\n", ["cannot tell"]),
        ("module load openmpi/4.1.4\nexport OMPI_MCA_io=ompio\nmpirun ./a\n", ["dead"]),
        ("module load openmpi/4.0.5\nlfs setstripe -c 4 .\nexport OMPI_MCA_io=ompio\nmpirun ./a\n", ["live", "live"]),
        (
            "export OMPI_MCA_pml=ucx ROMIO_HINTS=h\necho romio_cb_write enable > h\njsrun ./a\n",
            ["cannot tell"],
        ),
        ("export HDF5_USE_FILE_LOCKING=FALSE\nsrun apptainer exec --cleanenv img ./a\n", ["cannot tell"]),
        ("export HDF5_USE_FILE_LOCKING=FALSE\nsingularity exec -e img ./a\n", ["cannot tell"]),
        ("export HDF5_USE_FILE_LOCKING=FALSE\nsrun singularity exec img ./a -e\n", ["live"]),
        ("export HDF5_USE_FILE_LOCKING=FALSE\nsrun singularity exec -e img ./a\nsrun ./b\n", ["live"]),
        # Parts of a launch with values of their own: no verdict stands for both.
        ("mpirun --mca io romio321 ./a : --mca io ompio ./b\n", []),
        ("time mpirun --mca fcoll vulcan ./a : --mca fcoll vulcan ./b\n", ["live"]),
        ("mpirun --mca fcoll vulcan ./a : ./b\n", ["live"]),
        ("printf 'cb_nodes=4\\nromio_cb_write enable\\n' > h\nexport ROMIO_HINTS=h\nmpiexec ./a\n", ["dead", "live"]),
        # Both values go into one line of the script that this one writes.
        (
            "f=enable\nif [ $n -gt 4 ]; then f=disable; fi\necho '#!/bin/bash' > s\n"
            "echo \"export MPICH_MPIIO_HINTS=*:romio_cb_write=$f\" >> s\necho 'srun ./a' >> s\nsbatch s\n",
            ["cannot tell", "live"],
        ),
    ],
)
def test_what_scripts_of_sites_set_is_not_called_dead_for_its_form(text: str, right: list[str]) -> None:
    assert [one.verdict for one in judge_script(f"#!/bin/bash\n{text}", Surroundings(""))] == right


def test_sizes_of_osts_keep_their_capitals() -> None:
    (found,) = judge_script("lfs setstripe -c 4 out\nsrun ./a\n", Surroundings("", "lustre"))
    assert found.reason.startswith("OSTs ")


HOSTILE = {
    "pipes": lambda size: "a | " * (size // 4),
    "cases": lambda size: "case x in\n" + "a) A=1;;\n" * (size // 10) + "esac\n",
    "appended hints": lambda size: "export ROMIO_HINTS=h\n" + "echo x y >> h\nmpirun ./a\n" * (size // 28),
    "functions": lambda size: "".join(f"f{i}() {{ f{i + 1}; f{i + 1}; }}\n" for i in range(size // 30)) + "f0\n",
    "unset": lambda size: "export OMPI_MCA_io=1\n" * min(999, size // 42) + "unset OMPI_MCA_io\n" * (size // 36),
    "unset again": lambda size: "export OMPI_MCA_io_a=1\nunset OMPI_MCA_io_a\n" * min(900, size // 44),
    "export": lambda size: "OMPI_MCA_io_a=1\n" * min(900, size // 30) + "export OMPI_MCA_io_a\n" * (size // 44),
    "settings": lambda size: "export ROMIO_HINTS=h\nexport OMPI_MCA_io=1\n" * (size // 42),
    "continued": lambda size: "\\\n" * (size // 2),
    "word": lambda size: "export " + "x" * size,
    "options": lambda size: "lfs setstripe " + "-c 4 " * (size // 5),
    "components": lambda size: "lfs setstripe " + "-E 4 " * (size // 5),
    "calls": lambda size: "MPI_Info_set(" * (size // 13),
    "calls with blanks": lambda size: ("MPI_Info_set(," + " " * 190) * (size // 204),
    "then": lambda size: "then " * (size // 5),
    "parentheses": lambda size: "a(b)" * (size // 4),
    "blocks": lambda size: "if x\n" * (size // 5),
    "here-documents": lambda size: "cat <<A\nx\nA\n" * (size // 12),
    "here-documents of a line": lambda size: "cat" + " <<A" * (size // 8) + "\n" + "A\n" * (size // 8),
    "scripts in scripts": lambda size: "cat <<A\n#!/bin/sh\n" * (size // 20) + "A\n" * (size // 20),
    "targets": lambda size: "cat <<A" + " > b" * (size // 8) + "\n" + "x\n" * (size // 8) + "A\n",
    "quotes": lambda size: "A=\"B='" * (size // 6),
    "long name": lambda size: "export OMPI_MCA_io_" + "x" * size + "=1\nmpirun ./a",
    "blank lines": lambda size: "\n" * size + "export OMPI_MCA_io=1\nmpirun ./a\n",
    "blank lines of a template": lambda size: "{% if x %}\n" + "\n" * size + "export OMPI_MCA_io=1\n",
    "csh here-documents": lambda size: "#!/bin/csh\nsetenv OMPI_MCA_io 1\n" + "cat <<A\n" * (size // 8),
    "csh variables": lambda size: "#!/bin/csh\nsetenv OMPI_MCA_io 1\necho " + "${a" * (size // 3),
    "csh elements": lambda size: "#!/bin/csh\nsetenv OMPI_MCA_io 1\necho " + "$a[" * (size // 3),
    "variables of a word": lambda size: "export OMPI_MCA_io=1\necho " + "$a[" * (size // 3),
    "csh groups": lambda size: (
        "#!/bin/csh\nsetenv OMPI_MCA_io 1\n" + "(" * (size // 2) + ")" * (size // 2) + "\nmpirun ./a\n"
    ),
    "long value": lambda size: "export OMPI_MCA_io_ompio_num_aggregators=" + "1" * size + "\nmpirun ./a",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_time_for_a_script_grows_with_its_length(kind: str) -> None:
    """Everybody with a token may have a script judged."""
    judge_script("export OMPI_MCA_io=1\nmpirun ./a\n", Surroundings("mpich"))

    def seconds(size: int) -> float:
        begun = time.process_time()
        with contextlib.suppress(UserError):
            judge_script(HOSTILE[kind](size), Surroundings("mpich"))
        return time.process_time() - begun

    # Eight times the length would take 64 times the time if it grew with the square.
    assert seconds(80_000) < 24 * seconds(10_000) + 0.5


@pytest.mark.parametrize(
    ("module", "name", "why"),
    [
        ("module load cray-hdf5-parallel/1.8.16", "hdf5_coll_metadata_write", ""),
        (
            "module load mpich/3.2.1",
            "romio_lustre_cb_lock_ahead_write",
            "known since MPICH 3.3, the program uses 3.2.1",
        ),
        ("ml openmpi/4.1.4", "romio_lustre_cb_lock_ahead_write", ""),
        ("module load mpich/3.2.1\nmodule swap mpich mpich/4.2", "romio_lustre_cb_lock_ahead_write", ""),
    ],
)
def test_versions_are_those_of_the_modules_that_a_script_loads(module, name, why):
    script = f"#!/bin/bash\n{module}\necho '{name} 1' > hints\nexport ROMIO_HINTS=hints\nsrun ./a\n"
    found = {one.knob.name: one.reason for one in judge_script(script, Surroundings(mpi="", file_system="lustre"))}
    assert (found.get(name) == why) if why else "known since" not in found.get(name, "")


@pytest.mark.parametrize(
    ("line", "old", "new", "alive", "why"),
    [
        (
            "OMPI_MCA_io=romio321",
            "openmpi/4.1.4",
            "openmpi/5.0.6",
            0,
            "known until Open MPI 4.1, the program uses 5.0.6",
        ),
        (
            "OMPI_MCA_io=romio341",
            "openmpi/4.1.4",
            "openmpi/5.0.6",
            1,
            "known since Open MPI 5.0, the program uses 4.1.4",
        ),
        ("OMPI_MCA_fcoll=two_phase", "openmpi/4.1.4", "openmpi/5.0.6", 0, "known until Open MPI 4.1"),
        ("MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_CELL_SIZE=8192", "mpich/4.0.2", "mpich/5.0.2", 0, "this is its default"),
    ],
)
def test_a_line_of_a_script_is_dead_or_alive_by_the_version_of_the_library(line, old, new, alive, why):
    script = "#!/bin/bash\nmodule load {}\nexport " + line + "\nmpirun -n 4 ./a\n"
    found = [judge_script(script.format(one), Surroundings(mpi="", file_system="lustre"))[0] for one in (old, new)]
    assert found[alive].verdict == "live"
    assert found[1 - alive].verdict == "dead" and why in found[1 - alive].reason


def test_versions_of_libraries_are_told_by_their_modules():
    assert versions_in(["cray-hdf5-parallel/1.12.2.9", "gcc/12", "parallel-netcdf/1.12.3-intel"]) == {
        "HDF5": "1.12.2.9", "PnetCDF": "1.12.3"
    }  # fmt: skip
    assert versions_in(["hdf5/1.8.1", "hdf5/1.14.0", "HDF5-tools/9", "cray-mpich/8.1"]) == {}
