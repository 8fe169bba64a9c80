"""Plans: written and read back, refused where a carrier could not take them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stripewise.catalogue.carriers import ENVIRONMENT, HINT, LAYOUT, MCA, PNETCDF, Carrier, Setting
from stripewise.catalogue.expression import Expression
from stripewise.catalogue.meaning import check_plan
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.plan import Plan, settings_of
from stripewise.catalogue.space import Derived, Space
from stripewise.errors import UserError
from stripewise.formats import MAX_SETTINGS

WORD = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=40)
TEXT = st.lists(WORD, min_size=1, max_size=3).map(" ".join)
NAMED = [ENVIRONMENT, MCA]
PLAIN = st.sampled_from([carrier for carrier in Carrier.known.values() if carrier not in (LAYOUT, PNETCDF, *NAMED)])
SETTING = (
    st.builds(Setting, PLAIN, WORD.filter(lambda key: not PNETCDF.owns(key)), TEXT).filter(
        lambda setting: not setting.carrier.wrong_key(setting.key)
    )
    | st.builds(Setting, st.sampled_from(NAMED), st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,40}", fullmatch=True), TEXT)
    | st.builds(Setting, st.just(LAYOUT), WORD, TEXT, st.sampled_from(["lustre", "cephfs"]))
    | st.builds(Setting, st.just(PNETCDF), WORD.map("nc_{}".format), TEXT)
)


@given(st.lists(SETTING, max_size=8), WORD, st.booleans(), TEXT)
def test_what_is_written_is_read_back(settings, identifier, override, files):
    plan = Plan(tuple(settings), identifier, override, files)
    assert Plan.parse(plan.text(), "test") == plan


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_in_one_line(text):
    for content in (text, f"stripewise-plan 1\n{text}"):
        try:
            plan = Plan.parse(content, "test")
        except UserError as error:
            assert "\n" not in str(error)
        else:
            assert Plan.parse(plan.text(), "test") == plan


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not a plan"),
        ("stripewise-plan 2\n", "is not a plan"),
        ("stripewise-plan 1\nhunt a b\n", "line 2: unknown word 'hunt'"),
        ("stripewise-plan 1\n\n# note\nhint a\n", "line 4: 'hint' needs"),
        ("stripewise-plan 1\nlayout lustre stripe_count\n", "line 2"),
        ("stripewise-plan 1\noverride perhaps\n", "line 2: override"),
        (f"stripewise-plan 1\nhint {'k' * 256} v\n", "longer than 255"),
        (f"stripewise-plan 1\nhint k {'v' * 1024}\n", "longer than 1023"),
        ("stripewise-plan 1\nhint k a\x01b\n", "control characters"),
        ("stripewise-plan 1\n" + "hint k v\n" * (MAX_SETTINGS + 1), "more than 4096"),
        ("stripewise-plan 1\n" + "# " + "x" * (1 << 20), "larger than"),
    ],
)
def test_bad_plans_name_the_line(text, reason):
    with pytest.raises(UserError, match=reason):
        Plan.parse(text, "the plan")


@pytest.mark.parametrize("value", ["", "a\nb", "a\x00", "x" * 2000])
def test_settings_that_cannot_be_carried_are_not_written(value):
    with pytest.raises(UserError):
        Plan((Setting(HINT, "k", value),)).text()


def test_an_identifier_cannot_smuggle_in_a_setting():
    with pytest.raises(UserError, match="control characters"):
        Plan((), "x\nhint k v").text()
    with pytest.raises(UserError, match="control characters"):
        Plan((), "x", files="*\nhint k v").text()


def test_lines_and_words_are_those_of_the_runtimes_reader():
    plan = Plan.parse("stripewise-plan 1\r\noverride\tyes\r\n\thint\tk  a\u2028b\u00a0\r\n", "test")
    assert plan == Plan((Setting(HINT, "k", "a\u2028b\u00a0"),), override=True)


def test_comments_and_blank_lines():
    plan = Plan.parse("stripewise-plan 1\n# a note\n\n  \nid x\nhint  k   a b \n", "test")
    assert plan == Plan((Setting(HINT, "k", "a b"),), "x")
    assert plan.of(ENVIRONMENT) == ()


def space() -> Space:
    def expression(text: str) -> Expression:
        return Expression.parse(text)

    return Space.bind(
        [
            Parameter("mode", Kind.CATEGORICAL, ("automatic", "disable"), "automatic", carrier=HINT),
            Parameter(
                "n", Kind.ORDINAL, (1, 2, 3), 1, carrier=HINT, key="cb_n", active_if=expression("mode != 'disable'")
            ),
            Parameter("flag", Kind.BOOLEAN, (False, True), False, carrier=MCA),
            Parameter("count", Kind.ORDINAL, (1, 4), 1, carrier=LAYOUT, layer="lustre"),
        ],
        derived=[
            Derived("list", HINT, "", "*:{value}", expression("(n + nodes - 1) // nodes")),
            Derived("half", ENVIRONMENT, "", "{value}", expression("n / 2"), expression("n > 2")),
        ],
        context={"nodes": 2},
    )


def lines(**values) -> list[str]:
    return [setting.line() for setting in settings_of(space(), space().default.with_values(**values))]


def test_the_default_sets_nothing():
    assert lines() == []


def test_changed_settings_and_what_is_derived_from_them():
    assert lines(n=2) == ["hint cb_n 2", "hint list *:1"]
    assert lines(n=3, flag=True, count=4) == [
        "hint cb_n 3",
        "mca flag true",
        "layout lustre count 4",
        "hint list *:2",
        "env half 1.5",
    ]


def test_inactive_settings_are_not_emitted():
    assert lines(mode="disable", n=3) == ["hint mode disable"]


def test_values_that_no_search_tries_by_itself_are_known():
    plan = Plan.parse("stripewise-plan 1\nhdf5 shuffle true\nhdf5 collective_writes yes\nhdf5 scaleoffset 3\n", "test")
    assert check_plan(plan, "test") == []
    plan = Plan.parse("stripewise-plan 1\nhint romio_daos_obj_class RP_2G1\nenv ROMIO_FSTYPE_FORCE ufs:\n", "test")
    assert check_plan(plan, "test") == []
    for line, key in {"hdf5 shuffle banana": "shuffle", "hint romio_cb_pfr enabel": "romio_cb_pfr"}.items():
        with pytest.raises(UserError, match=f"{key}: '"):
            check_plan(Plan.parse(f"stripewise-plan 1\n{line}\n", "test"), "test")
    with pytest.raises(UserError, match="file_space_strategy: 'pages' is not one of"):
        check_plan(Plan.parse("stripewise-plan 1\nhdf5 file_space_strategy pages\n", "test"), "test")


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("layout * stripe_count 8", r"no layout of '\*' is known; choose from .*lustre"),
        ("layout lustre stripes 8", "layout of lustre has no key 'stripes'; did you mean stripe_size"),
        ("layout * 8", "'layout' needs a file system, a key and a value"),
        ("hdf5 chunks 8", "hdf5 has no key 'chunks'"),
        ("posix small_reads 8", "posix has no key 'small_reads'; .*readahead"),
        ("file *.h5\nhint cb_nodes 4\nfile *.nc\nhint romio_cb_write maybe", "romio_cb_write: 'maybe' is not one of"),
        ("file", "'file' needs a text of 1 to"),
        ("id " + "x" * 129, "'id' needs a text of 1 to 128 bytes"),
        ("workload nodes many", "workload nodes must be a whole number, not 'many'"),
        ("workload file_size 64 parsec", "workload file_size: '64 parsec' is not a size"),
    ],
)
def test_lines_that_would_do_nothing_are_refused(line, wrong):
    with pytest.raises(UserError, match=wrong):
        check_plan(Plan.parse(f"stripewise-plan 1\n{line}\n", "test"), "test")


def test_lines_that_do_nothing_are_named():
    text = "stripewise-plan 1\nhint cb_nodes 4\nhint cb_nodes 8\nworkload layout *\nfile *.h5\n"
    plan = Plan.parse(text, "test")
    of_word = "workload layout is '*', which is not 'segmented', 'strided', 'random' or 'tile'"
    said = ["the plan has hint cb_nodes 2 times: the last one counts", "the plan has no setting for the files *.h5"]
    assert check_plan(plan, "test") == [*said, of_word, "workload lines act in the modes predict and online alone"]
    assert check_plan(plan, "test", decides=True) == [*said, of_word]


def test_names_of_files_need_not_be_unicode():
    raw = b"stripewise-plan 1\nfile /data/\xe9.*\nhint cb_nodes 4\n".decode("utf-8", "surrogateescape")
    assert Plan.parse(raw, "test").files.encode("utf-8", "surrogateescape") == b"/data/\xe9.*"
    with pytest.raises(UserError, match="1 to"):
        Plan.parse("stripewise-plan 1\nfile " + "\udcff" * 2000 + "\n", "test")
