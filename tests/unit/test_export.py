"""Exports say everything, or say what they cannot."""

import os
import re
import shutil
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from stripewise.catalogue.carriers import ARGUMENT, ENVIRONMENT, HDF5, HINT, HINTS_LIMIT, LAYOUT, MCA, Setting
from stripewise.catalogue.plan import Plan
from stripewise.errors import UserError
from stripewise.output.export import TARGETS, export

HINTS = Plan(
    (
        Setting(HINT, "romio_cb_write", "enable", "romio"),
        Setting(HINT, "cb_nodes", "4", "romio"),
        Setting(HINT, "cb_config_list", "*:4", "romio"),
    ),
    "exp.3",
)
LUSTRE = Plan(
    (
        Setting(LAYOUT, "stripe_count", "8", "lustre"),
        Setting(LAYOUT, "stripe_size", str(4 << 20), "lustre"),
        *HINTS.settings,
    )
)
MIXED = Plan(
    (
        *LUSTRE.settings,
        Setting(LAYOUT, "stripe_count", "4", "cephfs"),
        Setting(LAYOUT, "object_size", str(1 << 30), "cephfs"),
        Setting(MCA, "io_ompio_num_aggregators", "2", "ompio"),
        Setting(ENVIRONMENT, "H5FD_SUBFILING_STRIPE_SIZE", "33554432", "hdf5"),
        Setting(ENVIRONMENT, "WITH_SPACE", "it's $HOME; rm -rf", "user"),
        Setting(HDF5, "alignment", "1048576", "hdf5"),
        Setting(ARGUMENT, "block", "4m", "user"),
        Setting(HINT, "nc_header_align_size", "1048576", "pnetcdf"),
    ),
    override=True,
    files="*/out.*",
)


def run_shell(text, show, folder):
    """Source the text and print a variable as the program would see it."""
    script = f"{text}\npython3 -c 'import os; print(os.environ[\"{show}\"])'\n"
    done = subprocess.run(
        ["sh", "-eu", "-c", script],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")


def test_hints_file_has_a_key_and_a_value_a_line():
    made = export(HINTS, "hints")
    assert made.text == "romio_cb_write enable\ncb_nodes 4\ncb_config_list *:4\n"
    assert made.cannot == []
    assert "ROMIO_HINTS" in made.use
    assert "unset ROMIO_HINTS" in made.undo
    assert "wins" in made.wins


def test_hints_file_refuses_what_romio_would_drop_silently():
    values = [Setting(HINT, f"key_{i}", "v" * 900) for i in range(5)]
    made = export(Plan((Setting(HINT, "spaced", "a b"), *values)), "hints")
    assert len(made.text.encode()) < HINTS_LIMIT
    assert "spaced" not in made.text
    assert any("white space" in line for line in made.cannot)
    assert sum("less than 4096 bytes" in line for line in made.cannot) == 1
    assert made.text.count("\n") == 4


def test_striping_becomes_reserved_hints_only_where_romio_acts_on_them():
    text = export(LUSTRE, "hints").text
    assert "striping_factor 8\n" in text
    assert f"striping_unit {4 << 20}\n" in text
    first = export(Plan((Setting(LAYOUT, "start_ost", "3", "lustre"),)), "hints").text
    assert first == "start_iodevice 3\nromio_lustre_start_iodevice 3\n"
    alone = export(Plan((Setting(LAYOUT, "stripe_size", "1048576", "lustre"),)), "hints")
    assert "striping_unit" not in alone.text
    assert "all OSTs" in alone.cannot[0]
    every = export(Plan((Setting(LAYOUT, "stripe_count", "-1", "lustre"),)), "hints")
    assert "striping_factor" not in every.text
    assert len(every.cannot) == 1
    ceph = export(Plan((Setting(LAYOUT, "stripe_count", "4", "cephfs"),)), "hints")
    assert "striping_factor" not in ceph.text
    assert "lfs" in ceph.cannot[0]


@pytest.mark.parametrize("target", TARGETS)
def test_what_breaks_calls_without_the_runtime_is_said(target: str) -> None:
    plan = Plan((Setting(HINT, "romio_cb_write", "disable", "romio"), Setting(HINT, "cb_nodes", "4", "romio")))
    told = "leave romio_cb_write=disable out if the program calls MPI_File_write_ordered"
    made = export(plan, target, changed={"romio_cb_write": "disable"})
    carried = target in ("hints", "shell", "sbatch", "cray", "intel")
    assert (told in made.use) is carried
    assert (f"# {told}" in made.text) is (carried and target != "hints")
    assert told not in export(HINTS, target).use
    under_runtime = Plan((*plan.settings, Setting(HDF5, "alignment", "4096", "hdf5")))
    assert told not in export(under_runtime, "shell").use


def test_plan_survives_the_round_trip():
    made = export(MIXED, "plan")
    read = Plan.parse(made.text, "exported")
    assert {(s.carrier, s.key, s.value) for s in read.settings} == {(s.carrier, s.key, s.value) for s in MIXED.settings}
    assert (read.override, read.files) == (True, "*/out.*")
    assert made.cannot == []


def test_shell_needs_no_preload_for_hints_alone(tmp_path):
    made = export(HINTS, "shell")
    assert "LD_PRELOAD" not in made.text
    path = run_shell(made.text, "ROMIO_HINTS", tmp_path)
    assert Path(path).parent == tmp_path
    assert Path(path).read_text() == export(HINTS, "hints").text


def test_two_exports_of_one_folder_keep_their_settings(tmp_path):
    def run(plan, name):
        return Path(run_shell(export(plan, "shell", library="/x").text, name, tmp_path)).read_text()

    for plan, name in ((LUSTRE, "STRIPEWISE_PLAN"), (HINTS, "ROMIO_HINTS")):
        other = replace(plan, settings=plan.settings[1:])
        before = run(plan, name)
        assert run(other, name) != before
        assert before in [file.read_text() for file in tmp_path.iterdir()]


@pytest.mark.slow
def test_shell_preloads_directly_before_the_program_where_needed(tmp_path):
    made = export(MIXED, "shell", library="/opt/with space/libstripewise.so", program="./solve --fast")
    last = made.text.splitlines()[-1]
    assert last.endswith('env LD_PRELOAD="$STRIPEWISE_LIBRARY${LD_PRELOAD:+:$LD_PRELOAD}" ./solve --fast')
    assert "export LD_PRELOAD" not in made.text
    assert run_shell(made.text, "STRIPEWISE_LIBRARY", tmp_path) == "/opt/with space/libstripewise.so"
    assert Plan.parse(Path(run_shell(made.text, "STRIPEWISE_PLAN", tmp_path)).read_text(), "file").override
    assert run_shell(made.text, "OMPI_MCA_io_ompio_num_aggregators", tmp_path) == "2"
    assert run_shell(made.text, "PNETCDF_HINTS", tmp_path) == "nc_header_align_size=1048576"
    assert any("block=4m" in line and "{block}" in line for line in made.cannot)


def test_shell_values_are_data_not_code(tmp_path):
    assert run_shell(export(MIXED, "shell", library="/x").text, "WITH_SPACE", tmp_path) == "it's $HOME; rm -rf"


def test_no_shell_takes_a_value_for_a_command():
    made = export(Plan(settings=(Setting(ENVIRONMENT, "A", "=ls"),)), "shell")
    assert made.text == "export A='=ls'\n", "zsh takes =ls for the path of ls"


def test_shell_without_a_known_library_stops_with_what_to_do(tmp_path):
    script = export(LUSTRE, "shell").text
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False, env={})
    assert done.returncode != 0
    assert "native build" in done.stderr


def test_undo_takes_back_every_variable(tmp_path):
    made = export(MIXED, "shell", library="/x")
    names = [
        line.split("=")[0].removeprefix("export ") for line in made.text.splitlines() if line.startswith("export ")
    ]
    assert names
    script = f"{made.text}{made.undo}env"
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
        env={"PATH": os.environ["PATH"]},
    )
    left = {line.split("=")[0] for line in done.stdout.splitlines()}
    assert not left & set(names)
    assert list(tmp_path.iterdir()) == []


def test_sbatch_keeps_the_environment_and_preloads_the_program_only():
    made = export(LUSTRE, "sbatch", program="./solve")
    lines = made.text.splitlines()
    assert lines[-1].startswith("srun --export=ALL env LD_PRELOAD=")
    assert lines[-1].endswith(" ./solve")
    assert not any(line.startswith("# mpiexec") for line in lines)
    assert export(HINTS, "sbatch").text.splitlines()[-1] == "srun --export=ALL ./my_app"
    argument = export(Plan((Setting(ARGUMENT, "block", "4m", "user"),)), "sbatch")
    assert argument.empty and "srun" not in argument.text and len(argument.cannot) == 1


def test_cray_cannot_hold_colons_and_commas(tmp_path):
    made = export(LUSTRE, "cray")
    assert run_shell(made.text, "MPICH_MPIIO_HINTS", tmp_path) == (
        f"*:romio_cb_write=enable:cb_nodes=4:striping_factor=8:striping_unit={4 << 20}"
    )
    assert any(line.startswith("cb_config_list=*:4") for line in made.cannot)
    assert "MPICH_MPIIO_HINTS" in made.undo
    pattern = export(Plan(HINTS.settings, files="a:b"), "cray")
    assert "MPICH_MPIIO_HINTS=" not in pattern.text
    assert len(pattern.cannot) == 3
    base_name = export(Plan(HINTS.settings[:1], files="out.*"), "cray")
    assert "'out.*:romio_cb_write=enable,*/out.*:romio_cb_write=enable'" in base_name.text
    assert "OMPI_MCA" not in export(MIXED, "cray").text


def test_intel_has_variables_for_two_hints_and_a_file_for_the_rest(tmp_path):
    made = export(LUSTRE, "intel")
    assert run_shell(made.text, "I_MPI_FILESYSTEM_CB_CONFIG_LIST", tmp_path) == "*:4"
    assert run_shell(made.text, "I_MPI_FILESYSTEM_FORCE", tmp_path) == "lustre"
    assert "romio_cb_write enable" in Path(run_shell(made.text, "ROMIO_HINTS", tmp_path)).read_text()
    plain = export(Plan(HINTS.settings[:1]), "intel")
    assert "I_MPI" not in plain.text


def test_openmpi_names_what_ompio_ignores(tmp_path):
    made = export(MIXED, "openmpi")
    assert run_shell(made.text, "OMPI_MCA_fs_lustre_stripe_width", tmp_path) == "8"
    assert "#   io_ompio_num_aggregators = 2" in made.text
    assert any(line.startswith("romio_cb_write=enable") and "OMPIO" in line for line in made.cannot)
    assert "mpirun --mca" in made.wins


def test_lfs_lays_out_directories_and_takes_it_back():
    made = export(MIXED, "lfs", directory="/scratch/my run")
    assert f"lfs setstripe -c 8 -S {4 << 20} '/scratch/my run'\n" in made.text
    assert "setfattr -n ceph.dir.layout -v 'stripe_count=4 object_size=1073741824' '/scratch/my run'\n" in made.text
    before = re.search(r"lfs getstripe --yaml -d '/scratch/my run' > (.*)[.][$][$][)] &&", made.text)[1]
    assert f"lfs setstripe --yaml {before} '/scratch/my run'" in made.undo
    assert "lfs setstripe -d '/scratch/my run'" in made.undo
    assert "setfattr -x ceph.dir.layout '/scratch/my run'" in made.undo
    assert any(line.startswith("cb_nodes=4") for line in made.cannot)


COMPOSITE = """composite_layout:
  lcm_layout_gen:    0
  lcm_mirror_count:  1
  lcm_entry_count:   2
  component0:
    lcme_id:             N/A
    lcme_mirror_id:      N/A
    lcme_flags:          0
    lcme_extent.e_start: 0
    lcme_extent.e_end:   2147483648
    sub_layout:
      lmm_stripe_count:  4
      lmm_stripe_size:   1048576
      lmm_pattern:       raid0
      lmm_layout_gen:    0
      lmm_stripe_offset: -1
  component1:
    lcme_id:             N/A
    lcme_mirror_id:      N/A
    lcme_flags:          0
    lcme_extent.e_start: 2147483648
    lcme_extent.e_end:   EOF
    sub_layout:
      lmm_stripe_count:  8
      lmm_stripe_size:   1048576
      lmm_pattern:       raid0
      lmm_layout_gen:    0
      lmm_stripe_offset: -1
"""
"""In the form of the layouts in ``lustre/tests/sanity.sh`` of Lustre 2.17.57."""


def test_lfs_goes_back_to_a_default_of_several_components(tmp_path):
    default = tmp_path / "default"
    default.write_text(COMPOSITE)
    stand_in = tmp_path / "bin" / "lfs"
    stand_in.parent.mkdir()
    stand_in.write_text(
        "#!/bin/sh\n"
        'case "$1 $2" in\n'
        f"'getstripe --yaml') cat {default};;\n"
        f"'setstripe --yaml') cat \"$3\" > {default};;\n"
        f'setstripe*) echo "$*" > {default};;\n'
        "esac\n"
    )
    stand_in.chmod(0o755)
    environment = os.environ | {"PATH": f"{stand_in.parent}:{os.environ['PATH']}"}
    made = export(Plan((Setting(LAYOUT, "stripe_count", "8", "lustre"),)), "lfs", directory="/scratch/my run")

    def run(text):
        subprocess.run(["sh", "-eu", "-c", text], cwd=tmp_path, env=environment, check=True)
        return default.read_text()

    assert run(made.text) == "setstripe -c 8 /scratch/my run\n"
    assert run(made.undo) == COMPOSITE


@pytest.mark.parametrize("value", ["1000", "4095", "100000", "many"])
def test_lfs_refuses_sizes_that_lustre_misreads(value):
    made = export(Plan((Setting(LAYOUT, "stripe_size", value, "lustre"),)), "lfs")
    assert "setstripe" not in made.text
    assert "64 KiB" in made.cannot[0]


def test_lfs_names_a_wrong_part_of_a_composite_layout_and_keeps_the_rest():
    layout = {"mdt_size": "much", "head_size": str(64 << 20), "stripe_count": "8"}
    made = export(Plan(tuple(Setting(LAYOUT, key, value, "lustre") for key, value in layout.items())), "lfs")
    assert f"lfs setstripe -E {4 << 20} -c 1 -E {64 << 20} -c 4 -E eof -c 8 " in made.text
    assert len(made.cannot) == 1 and "mdt_size=much" in made.cannot[0]


def test_names_and_cautions_of_a_foreign_result_stay_what_they_are():
    """Who can write a shared store can name a parameter, and word a caution, as they like."""
    evil = "x]\nsetup = ['touch made']\n[y"
    read = tomllib.loads(export(HINTS, "toml", changed={evil: 4}).text)
    assert read == {"parameters": {evil: {"values": [4]}}}
    for target in ("shell", "sbatch", "openmpi", "lfs", "plan"):
        text = export(MIXED, target, cautions=["slow\ntouch made"]).text
        assert "# caution: slow?touch made\n" in text and "\ntouch" not in text


def test_toml_is_read_back_by_an_experiment():
    changed = {"romio_cb_write": "enable", "cb_nodes": 4, "no_indep": True, "odd": 'a "b" \\c'}
    made = export(HINTS, "toml", changed=changed)
    read = tomllib.loads(made.text)["parameters"]
    assert {name: entry["values"] for name, entry in read.items()} == {
        "romio_cb_write": ["enable"],
        "cb_nodes": [4],
        "odd": ['a "b" \\c'],
    }
    assert "no_indep=true" in made.cannot[0]
    assert export(HINTS, "toml").cannot


def expressible(plan: Plan, target: str) -> Plan:
    """The plan, with a setting that the target can express."""
    shape = (Setting(HDF5, "chunk_shape", "1x8"),) if target in ("h5repack", "nccopy") else ()
    return replace(plan, settings=(*plan.settings, *shape))


@pytest.mark.parametrize("target", TARGETS)
def test_every_export_accounts_for_every_setting(target):
    made = export(expressible(MIXED, target), target, changed={s.key: s.value for s in MIXED.settings})
    told = made.text + "\n".join(made.cannot)
    for setting in MIXED.settings:
        aliases = {"stripe_count": ("striping_factor", "-c", "stripe_width"), "stripe_size": ("striping_unit", "-S")}
        words = (setting.key, *aliases.get(setting.key, ()))
        assert any(word in told for word in words), setting
        assert setting.value in told or setting.carrier is ENVIRONMENT
    assert made.undo
    assert made.use
    assert made.wins


def test_the_layout_before_survives_a_second_run_and_another_directory(tmp_path):
    (tmp_path / "lfs").write_text('#!/bin/sh\n[ $1 = setstripe ] && echo "$*" >> laid || cat laid\n')
    (tmp_path / "lfs").chmod(0o755)
    (tmp_path / "laid").write_text("what was before\n")
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    texts = [export(LUSTRE, "lfs", directory=name).text for name in ("a", "a", "b")]
    for text in texts:
        subprocess.run(["sh", "-e", "-c", text], cwd=tmp_path, env=environment, check=True)
    kept = [file.read_text() for file in tmp_path.glob("stripewise-before-*")]
    assert len(kept) == 2 and "what was before\n" in kept


def test_settings_are_written_through_no_link(tmp_path):
    """In a folder that others can write, they may guess the name, and the shell's number in it."""
    text = export(Plan((Setting(HINT, "cb_nodes", "2"),)), "shell").text
    name = re.search(r"mv -f \S+ (\S+)", text)[1]
    (tmp_path / "precious").write_text("precious")
    planted = f"rm() {{ :; }}; ln -s precious {name}.$$; {text}"  # as one that is put there right after the removal
    assert subprocess.run(["sh", "-ec", planted], cwd=tmp_path, check=False, capture_output=True).returncode
    assert (tmp_path / "precious").read_text() == "precious" and not (tmp_path / name).exists()
    subprocess.run(["sh", "-c", f"ln -s precious {name}.$$; {text}"], cwd=tmp_path, check=True)
    assert (tmp_path / "precious").read_text() == "precious" and (tmp_path / name).read_text() == "cb_nodes 2\n"


def test_settings_that_another_user_keeps_in_their_place_are_not_named(tmp_path):
    """Where everyone may write, the file of another user cannot be replaced."""
    for setting, variable in ((Setting(HINT, "cb_nodes", "2"), "ROMIO_HINTS"), (LUSTRE.settings[0], "STRIPEWISE_PLAN")):
        text = export(Plan((setting,)), "shell").text
        name = re.search(r"mv -f \S+ (\S+)", text)[1]
        tell = f'STRIPEWISE_LIBRARY=x; {text}\necho "${{{variable}-none}}"'
        for before, named in (("mv() { return 1; }", "none"), (f"ln -s . {name}", "none"), (f"rm -f {name}", name)):
            done = subprocess.run(
                ["sh", "-c", f"{before}; {tell}"], cwd=tmp_path, check=True, capture_output=True, text=True
            )
            assert done.stdout.strip().endswith(named)


def test_a_layout_that_another_user_noted_is_not_the_one_before(tmp_path):
    (tmp_path / "lfs").write_text('#!/bin/sh\n[ $1 = setstripe ] && echo "$*" >> laid || cat laid\n')
    (tmp_path / "lfs").chmod(0o755)
    (tmp_path / "laid").write_text("what was before\n")
    (tmp_path / "theirs").write_text("another layout\n")
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    text = export(LUSTRE, "lfs", directory="a").text
    name = re.search(r"mv -f \S+ (\S+);", text)[1]
    (tmp_path / name).symlink_to("theirs")
    subprocess.run(["sh", "-c", text], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / name).read_text() == "what was before\n"


@pytest.mark.parametrize("ended", ["; exit 1", "; kill $$", " > /dev/full"])
def test_a_layout_that_could_not_be_noted_stays(tmp_path, ended):
    (tmp_path / "lfs").write_text(f'#!/bin/sh\n[ $1 = setstripe ] && echo "$*" >> laid || {{ cat laid{ended}; }}\n')
    (tmp_path / "lfs").chmod(0o755)
    (tmp_path / "laid").write_text("what was before\n")
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    text = export(LUSTRE, "lfs", directory="a").text
    done = subprocess.run(["sh", "-c", text], cwd=tmp_path, env=environment, check=False)
    assert done.returncode and (tmp_path / "laid").read_text() == "what was before\n"
    (tmp_path / "lfs").write_text('#!/bin/sh\n[ $1 = setstripe ] && echo "$*" >> laid || cat laid\n')
    subprocess.run(["sh", "-c", text], cwd=tmp_path, env=environment, check=True)
    assert [file.read_text() for file in tmp_path.glob("stripewise-before-*.yaml")] == ["what was before\n"]


def test_settings_of_several_groups_of_files_need_the_plan() -> None:
    both = Plan(
        (Setting(HINT, "cb_nodes", "2"),), "x", files="a*", sections=(("b*", (Setting(HINT, "cb_nodes", "4"),)),)
    )
    assert Plan.parse(both.text(), "again") == both
    for target in TARGETS:
        made = export(both, target)
        held = "file b*\nhint cb_nodes 4\n" in made.text
        told = any("hint cb_nodes 4 for files b*" in line for line in made.cannot)
        assert held is not told, target
    assert ".plan.$$) <<" in export(both, "shell").text and export(both, "hints").cannot
    for line in ("env X 1", "workload operation write"):
        with pytest.raises(UserError, match="before the second file line"):
            Plan.parse(f"{both.text()}{line}\n", "wrong")


def test_empty_plan_is_a_plan():
    made = export(Plan(identifier="exp.0"), "plan")
    assert Plan.parse(made.text, "export") == Plan(identifier="exp.0")


@pytest.mark.parametrize("target", [target for target in TARGETS if target != "plan"])
def test_empty_plan_says_so(target):
    made = export(Plan(), target)
    assert made.text.startswith("# the plan sets nothing")
    assert made.empty
    assert made.cannot == []


@pytest.mark.parametrize("target", ["shell", "sbatch", "cray", "intel", "openmpi", "lfs"])
def test_scripts_are_valid_shell(target):
    if shutil.which("sh") is None:
        pytest.skip("no sh")
    for plan in (HINTS, LUSTRE, MIXED, Plan()):
        made = export(plan, target)
        for text in (made.text, made.undo if target != "sbatch" else ""):
            subprocess.run(["sh", "-n", "-c", text], check=True)


def test_a_plan_that_a_form_cannot_say_at_all_is_not_called_empty():
    made = export(HINTS, "lfs")
    assert made.empty
    assert made.text.startswith("# none of the plan's settings")
    assert len(made.cannot) == len(HINTS.settings)
    # Nothing is there to be used, undone, or to win.
    assert not made.use and not made.undo and not made.wins
    assert not export(LUSTRE, "lfs").empty


def test_unknown_target_names_the_choices():
    with pytest.raises(UserError, match="hints, plan, shell"):
        export(HINTS, "pbs")


@pytest.mark.parametrize("target", TARGETS)
def test_every_form_says_where_its_settings_are_expected_to_harm(target):
    said = "On network storage, cb_nodes=4 is expected to reach 0.5 times the speed."
    plan = expressible(LUSTRE, target)
    made = export(plan, target, changed={"cb_nodes": 4}, cautions=[said])
    assert said.removesuffix(".") in made.use
    assert (f"# caution: {said}" in made.text.replace("\n#   ", " ")) is (target != "hints")
    assert all(len(line) <= 80 for line in made.text.splitlines() if "caution" in line and target != "plan")
    # Whoever saves the plan and exports it later is warned as well, once.
    saved = Plan.parse(export(plan, "plan", cautions=[said]).text, "the saved plan")
    assert saved == replace(plan, cautions=(said,)) == Plan.parse(saved.text(), "its text")
    assert export(saved, target, changed={"cb_nodes": 4}, cautions=[said]) == made
