# ruff: noqa: E501  prose of a page, one line a paragraph or a row
"""One short page for each study: what it did, what was repeated, what came out, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.studies.published import Published


@dataclass(frozen=True)
class StudyPage:
    """The words of a page; its figures come from the results.

    Attributes
    ----------
    study : str
        Its number.
    name : str
        Of its command and results.
    file, title, source, about : str
        Name of the page's file, heading, citation, and what the study did.
    differences : tuple of tuple of str
        What differs, and how: published, here.
    shown : tuple of str
        What the repetition shows, a paragraph each.
    missing : tuple of str
        What was not repeated.
    pictures : tuple of (str, str)
        Words and file.
    """

    study: str
    name: str
    file: str
    title: str
    source: str
    about: str
    differences: tuple[tuple[str, str, str], ...]
    shown: tuple[str, ...]
    missing: tuple[str, ...]
    pictures: tuple[tuple[str, str], ...] = ()

    def text(self, figures: Iterable[Published], aims: Sequence[str], facts: Mapping[str, str]) -> str:
        """Give the page in Markdown; ``facts`` are the figures that its sentences name."""
        own = [one for one in figures if one.study == self.study]
        parts = [f"# {self.title}", self.about, self.source]
        if own:
            parts += [
                "## Published and here",
                _table(
                    ("figure", "published", "simulated, site not fitted", "measured", "verdict"),
                    [(one.what, one.published, one.simulated or "nothing", one.measured, one.verdict) for one in own],
                ),
            ]
        parts += ["## What differs", _table(("", "published", "here"), self.differences)]
        if facts:
            parts += ["## What it shows", *(one.format_map(facts) for one in self.shown)]
        parts += [f"![{words}]({file})" for words, file in self.pictures]
        missed = [line.partition(". Aim: ")[0] + "." for line in aims if not line.startswith("- Reached")]
        if missed:
            parts += ["## Aims that were not reached", "\n".join(missed)]
        if facts:
            parts += ["## What is missing", "\n".join(f"- {one.format_map(facts)}" for one in self.missing)]
        parts.append(
            f"Command: `python -m benchmarks.studies {self.name}`. All tables: [benchmarks/studies/results/{self.name}.md](../../benchmarks/studies/results/{self.name}.md)."
        )
        return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


PAGES = (
    StudyPage(
        "000", "ann", "study-000.md", "Study 000: neural networks predict bandwidths",
        "A. J. S. Tipu, P. Ó Conbhuí and E. Howley, *Artificial neural networks based predictions towards the auto-tuning and optimization of parallel IO bandwidth in HPC system*, Cluster Computing 27, 71-90 (2024), [doi:10.1007/s10586-022-03814-w](https://doi.org/10.1007/s10586-022-03814-w).",
        "See how well a network predicts MPI-IO bandwidths, and what its best prediction brings as a setting. The study measured 15,360 configurations of each operation on Kay of ICHEC and trained one network for reads and one for writes. It then chose settings for 1,458 cases of each operation with larger files.",
        (
            ("system", "Kay: 16 nodes, 16 OSTs", "the sites `kay`, which was fitted to the study's mean bandwidths, and `kay-hardware`, which was not; CephFS with four OSDs"),
            ("cases", "table 5, not in the text that we have", "ours: 4 to 16 nodes, 1 to 8 processes each, files of 64 to 256 GiB"),
            ("access pattern", "collective means non-contiguous", "the same where simulated. On CephFS only the call changes, and the data stay contiguous"),
            ("network", "7-256-128-1, Adam; \"0.05% dropout\" for writes", "the same; dropout of 5%, since PyTorch takes shares"),
            ("noise of writes", "that of the system", "shorter than measured elsewhere, *fitted* so that a perfect model reaches 79%"),
        ),
        (
            "Predicting is the easy part: `auto` comes near to what a perfect model reaches, on both sites. Choosing pays where the default is not at its best already. On the site from hardware facts alone, that is so in {read_improvable} reads and {write_improvable} writes of 1,458.",
            "The operations and bytes of a decision equal the printed sums of tables 6 and 7: {operations} operations for one prediction and {bytes} bytes for all matrices.",
            "Published settings of writes have 16 stripes and no collective calls. Ours have 16 stripes too, but many collective calls. Reads are without collective calls in both.",
        ),
        (
            "The choice of the model was applied to one real program only, in [the chain](../../benchmarks/notes/studies-chain.md).",
            "The network was never trained on a GPU (published: Tesla V100). PyTorch takes one where it finds it.",
            "The network on `kay-hardware` was not run; `auto` was.",
            "Chunk and pattern of a running program change only if it asks through `stripewise.h`. Under calls that nobody edited, larger chunks would hold data back after a write has returned. Collective calls in place of independent ones would wait for ranks that may never make them. Splitting calls would only make chunks smaller, and the other way, from collective to independent, is a hint (`romio_cb_write`).",
        ),
        (("Predicted and measured bandwidth of fifty configurations, on the fitted site", "studies-kay-predicted.svg"),),
    ),
    StudyPage(
        "001", "io-search", "study-001.md", "Study 001: a genetic search over real runs",
        "A. Bagbaba and X. Wang, *Improving the MPI-IO performance of applications with genetic algorithm based auto-tuning*, Sixteenth International Workshop on Automatic Performance Tuning (2021), [elib.uni-stuttgart.de](https://elib.uni-stuttgart.de/items/648e6f0a-0fc8-4376-af00-6418e859ad53).",
        "See what a search needs to find good ROMIO hints and stripes. The study (IO_Search) compares a genetic search of 10 individuals and 30 generations with trying every configuration, for IOR and MPI-Tile-IO on Vulcan of HLRS.",
        (
            ("system", "Vulcan of HLRS", "the sites `vulcan-like`, which was fitted to the printed bandwidths, and `vulcan-hardware`, which was not; ROMIO of MPICH on one machine"),
            ("use cases", "two for each program, not explained", "blocks of 32 and 64 MiB; elements of 8 and 16 MiB"),
            ("space", "aggregators, stripes, stripe size, collective buffering, and collective or individual calls", "the same on `vulcan-hardware`, for one case of each program: 7,680 configurations. All other searches leave the calls out: 3,840"),
            ("default", "not printed", "one stripe of 1 MiB on `vulcan-hardware`, as Lustre gives; eight on `vulcan-like`, *fitted* to the printed defaults"),
            ("unit", "MB/s, of 10^6 or of 2^20 bytes", "MiB/s. Where the unit decides, no verdict is given"),
        ),
        (
            "On the fitted site `auto` needs {search_ratio} times the runs of random choices to come within 2% of the best. This says something of the search, and nothing of Vulcan.",
            "Where the call is a parameter, IOR is best with {ior_call} calls, and MPI-Tile-IO with {tile_call} ones. The genetic search comes within 2% of the best of MPI-Tile-IO after {tile_genetic} of {genetic_runs} runs, and `auto` after {tile_auto} of {auto_runs}. As many random runs do not.",
            "No single speed of an OST gives both printed bandwidths of IOR with 1,200 cores. So the two use cases differ by more than the size of a block explains here.",
            "With real ROMIO in memory, four ranks and 360 configurations, every search finds {wide_least} to {wide_most} times the default. After {few_runs} runs, `auto` has {wide_auto} times what all {all_runs} runs give, and random choices have {wide_random} times: tuning matters there, and the search does not.",
        ),
        (
            "IOR and MPI-Tile-IO with as many real ranks as the test bed carries.",
        ),
        (("Progress of the searches on the fitted site (simulated)", "studies-search.svg"),),
    ),
    StudyPage(
        "002", "shaman", "study-002.md", "Study 002: an I/O accelerator tuned as a black box",
        "S. Robert, S. Zertal and G. Goret, *SHAMan: an intelligent framework for HPC auto-tuning of I/O accelerators*, SITA'20 (2020), [doi:10.1145/3419604.3419775](https://doi.org/10.1145/3419604.3419775).",
        "See what tuning four parameters of an accelerator of small reads brings. The study tuned it for ninety synthetic programs in nine classes by a genetic search of 100 runs, of which the first 30 follow a plan.",
        (
            ("accelerator", "Small Read Optimizer of Atos, not public", "[our own](../../examples/accelerator/README.md), whose reads are byte for byte those of the program"),
            ("programs", "random distributions not printed", "ninety from a seeded generator"),
            ("storage", "a production file system", "0.5 ms for a request and 1 GB/s where simulated, chosen after a first choice was seen to be far off; a slow disk where measured"),
            ("space", "\"606,480\": sequence steps of 5 without the top values; its table says 20", "steps of 5 with the top values: 707,265"),
        ),
        (
            "Simulated, the default settings slow {slowed} of nine classes down (published: four), and tuning makes up for it. With 40 runs, `auto` is behind the genetic search with 100 in {behind} of nine classes, by {behind_least} to {behind_most} points.",
            "One step on one axis away from the best costs 10% on the worst axis. So neighbours teach little, and the number of configurations tried decides. On 45 further programs (simulated) `auto` is 0.6% slower, with a standard error of 0.8%: a tie, in which each class is a toss-up ([variants tried](../../benchmarks/notes/search-notes.md)).",
            "On the slow disk, both searches had 24 launches with the proof, on a busy machine. In the median of {slow_programs} programs `auto` saves {slow_auto} of the time, and the genetic search {slow_genetic}. Gains are proven for {slow_proven_auto} and {slow_proven_genetic} of them; where none is, the answer is to go without. The difference may be chance (p = {slow_chance}, signed ranks by program). In the {slow_either} programs in which one of them proved a gain, they save {slow_either_auto} and {slow_either_genetic}. Both try the same first eight configurations, which most answers come from. Where the files are in memory, or fetching ahead costs more than it saves, the answer is to switch the accelerator off. `tune` finds this by one run without it.",
            "A component that is not ours was tuned over the same disk: [rclone's mount](../../examples/rclone.toml), a caching layer of FUSE with four parameters. {mounts}",
            "Ten programs of one class ran through the service as jobs of Slurm on the test bed, as the study describes it.",
        ),
        (
            "The simulated figures were computed with an earlier form of the accelerator, and are not made again with today's.",
            "The best of the whole space for each program, beside which runs to the optimum could be counted.",
        ),
        (("Time saved by class, by default and tuned (simulated)", "studies-accelerator-saved.svg"), ("Runs to the best by class (simulated)", "studies-accelerator-runs.svg")),
    ),
    StudyPage(
        "003", "ai-for-io", "study-003.md", "Study 003: models, causes and trees of settings",
        "J. Kunkel, *The importance of AI for high-performance I/O*, slides, BSSG Open source AI workshop (2019); the part on data sieving is J. Kunkel, M. Zimmer and E. Betke, *Predicting performance of non-contiguous I/O with machine learning* (2015), [doi:10.1007/978-3-319-20119-1_19](https://doi.org/10.1007/978-3-319-20119-1_19).",
        "See how well trees predict and choose, and whether times alone tell the cause of slow I/O. In the study, one process accesses blocks with holes on the porting system of DKRZ, with data sieving on or off and four layouts.",
        (
            ("system", "porting system of DKRZ", "the sites `dkrz-porting`, which was fitted to the table of static choices, and `dkrz-porting-hardware`, which was not; ROMIO in memory and on CephFS"),
            ("patterns", "block and hole sizes, not printed", "17 blocks of 256 B to 16 MiB, 12 holes of 512 B to 1 MiB"),
            ("data", "387 + 387 instances to predict, 408 configurations to choose", "two sets too, with other means"),
            ("linear models", "an error of at least 12.7", "compared by its ratio to the error of the mean"),
        ),
        (
            "Where simulated, a small tree is nearly optimal and a static choice is not, as in the study. The harmonic means of static choices are as low as published (9 to 16%) only on patterns that were chosen for it.",
            "On CephFS the published class errors, the error ratio and the near-optimal tree of depth 4 are all missed. Runs of one configuration scatter so much that an oracle misses the class errors too, and in most patterns the runs with and without sieving overlap. The tree gains nothing over the better static choice there.",
            "In memory, sieving pays in {sieving_pays} of {sieving_patterns} patterns.",
            "Times alone tell which layer answered a read: after a calibration on other sizes and patterns, with `mincore` as the truth. The study shows such tables without a known truth. `run --mode observe --trace` takes the times of a program's own calls, and `site causes` counts the classes by place in the file, as the study's last table does.",
        ),
        (
            "Sums of models and classes by the place in memory were tried and [tell nothing](../../benchmarks/notes/diagnosis.md#cached-or-not-by-time-alone); a network for causes is better by less than a point.",
            "IO500, the context of the study: only some phases were [tried in small](../how-to/profile-your-site.md#tune-a-run-of-io500), and no gain was proven.",
        ),
    ),
    StudyPage(
        "004", "sctuner", "study-004.md", "Study 004: settings that stay good under load",
        "H. Tang, B. Xie, S. Byna, P. Carns, Q. Koziol, S. Kannan, J. Lofstead and S. Oral, *SCTuner: an autotuner addressing dynamic I/O needs on supercomputer I/O subsystems*, PDSW (2021), [doi:10.1109/PDSW54622.2021.00010](https://doi.org/10.1109/PDSW54622.2021.00010).",
        "See which settings stay good although the machine is busy, and what a tuner inside the program reaches. The study profiles Summit by five-number summaries and clusters, has a pattern extractor in HDF5, and plans a tuner in its VOL connector. It cites an earlier study of defaults, which ran 3,328 configurations at least 100 times and made the I/O of applications 1.1 to 12 times as fast.",
        (
            ("system", "Summit with Alpine; Summit and Cori in the earlier study", "the site `cori-haswell` with 512 nodes; one machine, in memory and on CephFS"),
            ("configurations", "those of SCTuner are not printed; 3,328 in the earlier study", "3,328 of each interface, simulated; small campaigns, measured"),
            ("load", "production", "the site's noise; whatever else the machine did"),
            ("extractor and tuner", "in HDF5; planned", "in the preloaded [runtime](../explanation/runtime.md), or in a connector of HDF5 alone"),
        ),
        (
            "The published numbers of clusters do not come out: two clusters each have the largest silhouette, simulated and on CephFS.",
            "Which setting of HDF5 matters depends on the storage. Published, alignment and metadata matter most, on Lustre and GPFS. On CephFS with one client striping alone helps large writes, and alignment and chunks cost.",
            "Where a chunk cache is too small, the best setting brings {cache_least} to {cache_most} times the default. `online` began as the program has it, so over {online_phases} phases it takes {online_least} to {online_most} times as long as the best static setting. `predict` and the settings from one observed run avoid that, except for one program of a size that the model had not seen.",
        ),
        (
            "The shape of SCTuner's own runs, which the text does not print.",
            "The metadata cache of HDF5, which the study names: it can be set (`hdf5_mdc_size`), and was part of none of these runs.",
        ),
    ),
)  # fmt: skip
