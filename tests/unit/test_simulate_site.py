"""Site files: the sites that come along, units, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from stripewise.errors import UserError
from stripewise.lab.batch import Access
from stripewise.lab.site import Site, Slowdown, load_site, parse_rate, parse_seconds, parse_site, site_names

ROOT = Path(__file__).resolve().parents[2]
MINIMAL = """
name = "mine"
nodes = 4
cores = 8
[network]
node_write_bandwidth = "5 GB/s"
node_read_bandwidth = "6 GiB/s"
[oss]
count = 1
bandwidth = 1e10
[ost]
count = 2
write_bandwidth = "850 MB/s"
read_bandwidth = "0.9 GiB/s"
"""
NAMES = [
    "archer2-hdd", "archer2-nvme", "cori-haswell", "cori-knl", "dkrz-porting", "dkrz-porting-hardware", "edison",
    "frontier-like", "hazelhen-like", "kay", "kay-hardware", "laptop", "vulcan-hardware", "vulcan-like", "wr-cluster",
]  # fmt: skip


def test_all_sites_come_along_and_say_where_their_figures_are_from() -> None:
    assert site_names() == NAMES
    for name in NAMES:
        site = load_site(name)
        assert site.name == name
        assert site.source and site.description


def test_the_shapes_of_the_studies_that_sites_stand_for() -> None:
    kay, dkrz, wr = load_site("kay"), load_site("dkrz-porting"), load_site("wr-cluster")
    assert (kay.nodes, kay.ost.count) == (16, 16)
    assert (dkrz.nodes, dkrz.oss.count) == (1, 2)
    assert (wr.nodes, wr.oss.count) == (1, 10)
    assert (load_site("edison").ost.count, load_site("cori-knl").ost.count) == (24, 248)


def test_a_site_that_was_fitted_to_a_study_has_another_form_that_was_not() -> None:
    fitted = {name for name in NAMES if load_site(name).fitted}
    assert fitted == {"dkrz-porting", "kay", "vulcan-like"}
    for name in fitted:
        other = load_site(f"{name.removesuffix('-like')}-hardware")
        assert other.nodes == load_site(name).nodes
        assert other.fitted == []


def test_sites_with_measured_cells_differ_in_hardware_alone() -> None:
    """No hidden factors: what the validation predicts with is shared, but for bandwidths and facts of the hardware."""
    facts = {"name", "description", "source", "nodes", "cores", "oss", "defaults"}
    of_parts = {
        "network": {"node_write_bandwidth", "node_read_bandwidth"},
        "client": {"memory", "core_speed"},
        "ost": {"count", "write_bandwidth", "read_bandwidth", "flash"},
        "mpi": {"vendor"},
    }
    for name in ("edison", "cori-haswell", "cori-knl", "archer2-hdd", "archer2-nvme"):
        given = load_site(name).model_dump(exclude_unset=True)
        assert set(given) - facts <= set(of_parts)
        for part, keys in of_parts.items():
            assert set(given.get(part, {})) <= keys, (name, part)


def test_units() -> None:
    site = parse_site(MINIMAL, "mine")
    assert site.network.node_write_bandwidth == 5e9
    assert site.network.node_read_bandwidth == 6 * 2**30
    assert site.oss.bandwidth == 1e10
    assert [parse_rate(text) for text in ("1 kB/s", "1 KiB/s", "2.5 MB/s", 7)] == [1e3, 1024.0, 2.5e6, 7.0]
    assert [parse_seconds(text) for text in ("0.4 ms", "18 us", "2 h", "3", 0)] == [4e-4, 18e-6, 7200.0, 3.0, 0.0]


def test_rates_in_other_units_are_the_same_site() -> None:
    other = MINIMAL.replace('"5 GB/s"', "5000000000").replace('"6 GiB/s"', '"6144 MiB/s"')
    assert parse_site(other, "other") == parse_site(MINIMAL, "mine")


@pytest.mark.parametrize(
    "change, says",
    [
        (('"5 GB/s"', '"5 GB"'), "is not a rate"),
        (('"5 GB/s"', "0"), "is not a rate above zero"),
        (('"5 GB/s"', '"-5 GB/s"'), "is not a rate"),
        (('"5 GB/s"', "true"), "is not a rate"),
        (("nodes = 4", "nodes = 0"), "nodes"),
        (("count = 1", "count = 3"), "3 servers for 2 OSTs"),
        (("cores = 8", "cores = 8\ncolour = 3"), "colour"),
        (("count = 2", "count = 2\nspeeds = [1, 1, 1]"), "3 entries for 2 OSTs"),
        (("[oss]", "latency = 'soon'\n[oss]"), "is not a time"),
        (("[oss]", "[defaults]\nstripe_size = 1000\n[oss]"), "multiple of 64 KiB"),
        (('"mine"', "mine"), "is not valid TOML"),
        (("[ost]", "[mpi]\ndriver = 'gpfs'\n[ost]"), "driver"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(change: tuple[str, str], says: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_site(MINIMAL.replace(*change), "site file x.toml")
    assert says in str(caught.value) and "x.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_site_is_loaded_by_name_or_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINIMAL)
    assert load_site(str(path)) == parse_site(MINIMAL, "mine")
    with pytest.raises(UserError, match="choose from archer2-hdd"):
        load_site("nowhere")
    with pytest.raises(UserError, match="cannot read the site file"):
        load_site(str(tmp_path / "none.toml"))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not UTF-8"):
        load_site(str(path))
    path.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(UserError, match="larger than 1 MiB"):
        load_site(str(path))


# -- documents -----------------------------------------------------------------------------------------------------


def sections(model: type[BaseModel], name: str) -> Iterator[tuple[str, type[BaseModel]]]:
    yield name, model
    for key, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            inner = key if name == "Top level" else f"{name}.{key}"
            yield from sections(field.annotation, inner)


def test_every_key_of_a_site_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "sites.md").read_text("utf-8")
    parts = re.split(r"^##+ ", page, flags=re.MULTILINE)
    for name, model in sections(Site, "Top level"):
        heading = name if name == "Top level" else f"[{name}]"
        if model is Slowdown:
            heading = "[noise.write] and [noise.read]"
        part = next(text for text in parts if text.startswith(heading + "\n"))
        keys = {key for key, field in model.model_fields.items() if not _is_table(field.annotation)}
        assert keys == set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)), heading
        assert all(field.description for key, field in model.model_fields.items() if key in keys), heading


def _is_table(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def test_every_site_is_listed_and_the_example_is_one() -> None:
    page = (ROOT / "docs" / "reference" / "sites.md").read_text("utf-8")
    assert [name for name in NAMES if f"| `{name}` |" not in page] == []
    example = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert example and parse_site(example[1], "example").ost.count == 16


def test_every_detail_of_an_access_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "simulate.md").read_text("utf-8")
    part = page.split("## [access]")[1].split("\n## ")[0]
    assert set(Access.model_fields) == set(re.findall(r"^\| `(\w+)`", part, re.MULTILINE))
