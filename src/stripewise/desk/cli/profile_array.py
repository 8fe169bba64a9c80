"""``stripewise site profile --array``: a campaign's shards as a job array."""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path

from stripewise.desk.cli.output import ask, notes, print_json, remark, say
from stripewise.engine.campaign.array import Array, submit
from stripewise.engine.campaign.checks import CampaignCost
from stripewise.engine.consent import check_cost
from stripewise.errors import UserError
from stripewise.interpreter import python
from stripewise.ownership import make_folder
from stripewise.requests.campaign_points import Points
from stripewise.requests.policy import load_policy
from stripewise.runners.schedulers.queue import JobQueue
from stripewise.runners.schedulers.registry import arrays_of


def submit_array(
    points: Points,
    cost: CampaignCost,
    words: list[str],
    *,
    where: Path,
    out: Path,
    shards: int,
    at_once: int,
    directives: list[str],
    yes: bool,
    dry_run: bool,
    json_output: bool,
) -> None:
    """Write the array's script, and submit it once its cost is agreed to.

    Parameters
    ----------
    points : Points
    cost : CampaignCost
        Of all shards.
    words : list of str
        The campaign and the options that change it.
    where, out : Path
        The journal that all shards share; and the table that the last of them writes.
    shards, at_once : int
    directives : list of str
    yes, dry_run, json_output : bool
    """
    campaign, policy = points.campaign, load_policy()
    if campaign.runner != "local" or not campaign.files.folder:
        raise UserError(
            "a job array measures a real file system with runner = 'local' in each job",
            "name its folder with --folder, and a launcher as 'srun -N {nodes} -n {processes}' in the campaign",
        )
    if campaign.design.kind == "sequential":
        raise UserError("a sequential design cannot be cut into shards", "each choice needs all results before")
    # Beside the journal: its folder holds nothing else.
    beside = where.absolute().with_name(f"{where.name}-array")
    queue = JobQueue(campaign.batch, beside, os.environ)
    number, why = arrays_of(queue.scheduler).allowed(queue.call, getpass.getuser(), min(shards, cost.runs))
    if why:
        remark(f"note: {why}")
    most = policy.limits.jobs or at_once
    array = Array(
        name=campaign.name,
        command=(
            *python("-m", "stripewise", "site", "profile", *words),
            *("--journal", str(where.absolute()), "--out", str(out.absolute())),
        ),
        shards=number,
        at_once=min(at_once, most),
        nodes=max(point.workload.nodes or 1 for point in points.all),
        processes_per_node=max(point.workload.processes_per_node or 1 for point in points.all),
        logs=beside,
        directives=tuple(directives),
    )
    text = array.script(queue.scheduler)
    # All nodes of a job are charged for, also while a run uses some of them only.
    worst = {"node_hours": array.nodes * cost.runs * campaign.timeout / 3600, "bytes": float(cost.moved)}
    document = {
        "campaign": campaign.name,
        "shards": number,
        "at_once": array.at_once,
        "nodes": array.nodes,
        "runs": cost.runs,
        "worst_node_hours": worst["node_hours"],
        "bytes": cost.moved,
        "script": str(beside / "array.sbatch"),
        "job": None,
    }
    notes.print(f"array     {number} shards, {array.at_once} at a time, {array.nodes} nodes each")
    if dry_run:
        if json_output:
            print_json({**document, "text": text})
        else:
            sys.stdout.write(text)
        return
    check_cost(worst, policy, None, lambda question: yes or ask(question, json_output))
    make_folder(array.logs)
    path = beside / "array.sbatch"
    path.write_text(text, "utf-8")
    document["job"] = submit(path, queue.scheduler, queue.call)
    if json_output:
        print_json(document)
        return
    say(f"submitted as job {document['job']}: {path}")
    again = f"{queue.scheduler.programs[0]} {path}"
    say(f"the last shard to end writes {out}; what is left after a failure: {again}")
