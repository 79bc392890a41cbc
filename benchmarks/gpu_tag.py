"""Tag on a GPU: WarpDrive's own setting, and how speed grows with environments and with agents.

Partial observations, random actions drawn on the device, resets within the step included; no trails,
which only pictures need. WarpDrive's figure is its authors', for its grid world in one setting on one A100;
it is printed beside ours as published, not measured here. `gpu_common` says how the rest is measured.
"""

from __future__ import annotations

import argparse
from typing import Any

import headrace
from gpu_common import HEADING, chosen, copy_bandwidth, machine, measure, parsed, parser, shown, write
from headrace.pool.torch.pool import TorchPool

GRID, PLANE = "TagGridWorld-v0", "TagContinuous-v0"
CROWD = (2_000, 1_000)
PUBLISHED = {
    "by": "WarpDrive's authors (arXiv 2108.13976), one A100",
    "environments": CROWD[0],
    "agents": CROWD[1],
    "env_steps": 2.9e6,
}
FEW = 5  # agents, where environments are many


def arguments() -> argparse.Namespace:
    options = parser(__doc__)
    pair: dict[str, Any] = {"type": int, "nargs": 2, "metavar": ("ENVIRONMENTS", "AGENTS")}
    sizes: dict[str, Any] = {"type": int, "nargs": "*"}
    options.add_argument("--crowd", default=CROWD, help="the grid's largest setting", **pair)
    options.add_argument(
        "--environments", default=(10, 100, 1_000, 10_000, 100_000), help=f"with {FEW} agents each", **sizes
    )
    options.add_argument(
        "--agents", default=(5, 20, 100, 500, 1_000), help="in as many environments as the crowd's", **sizes
    )
    options.add_argument("--plane", default=(100, 110), help="the setting in the plane", **pair)
    return parsed(options)


def pool_of(task: str, num_envs: int, agents: int, device: str) -> TorchPool:
    """A pool of games with so many agents: one runner on the grid, about ten for each tagger in the plane."""
    runners = 1 if task == GRID else agents - max(1, agents // 11)
    options = {"num_taggers": agents - runners, "trail": 0} | ({} if task == GRID else {"num_runners": runners})
    return headrace.make_torch(task, num_envs, device, seed=0, autoreset="same_step", **options)


def compare(case: dict[str, Any]) -> None:
    """Print the published figure, and how ours stands to it where the setting is the same."""
    speed, sizes = PUBLISHED["env_steps"], (PUBLISHED["environments"], PUBLISHED["agents"])
    line = "published by {by}: {environments:,} x {agents:,}, {env_steps:,.0f} env steps/s".format(**PUBLISHED)
    same = (case["environments"], case["agents"]) == sizes
    print(f"{line}; ours is {case['median'] / speed:.2f} x" if same else line)


def main() -> None:
    args = arguments()
    device = chosen(args)
    here, bandwidth = machine(device), copy_bandwidth(device)
    print(f"Tag on {here['device']}; a copy moves {bandwidth / 1e9:,.0f} GB/s")
    sections = {
        "crowd": (GRID, [tuple(args.crowd)]),
        "more environments": (GRID, [(n, FEW) for n in args.environments]),
        "more agents": (GRID, [(args.crowd[0], agents) for agents in args.agents]),
        "plane": (PLANE, [tuple(args.plane)]),
    }
    cases: list[dict[str, Any]] = []
    for section, (task, settings) in sections.items():
        print(f"\n{section}: {task}\n{HEADING}")
        for num_envs, agents in settings:
            measured = shown(measure(pool_of(task, num_envs, agents, args.device), bandwidth, args))
            cases += [{"section": section, "task": task, **case} for case in measured]
        if section == "crowd":
            compare(cases[-1])
    print(f"\n{write('gpu_tag', args, here, bandwidth, published=PUBLISHED, cases=cases)}")


if __name__ == "__main__":
    main()
