"""The rows of each benchmark's table, in Markdown, from its record."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

NBSP = "\N{NO-BREAK SPACE}"


def speed_rows(record: dict[str, Any]) -> list[str]:
    """One row a case: our median, then how many times as fast it is as each peer."""
    cases = record["cases"]
    units = {case["unit"] for case in cases}
    unit = units.pop() if len(units) == 1 else "a second"
    peers = list(dict.fromkeys(peer for case in cases for peer in case["ratio"]))
    rows = [f"| case | Headrace, {unit} | {' | '.join(f'× {peer}' for peer in peers)} |"]
    rows.append("|---|---:|" + "---:|" * len(peers))
    for case in cases:
        ours = f"{case['median']['headrace']:,.0f}"
        cells = (speed_cell(case, peer) if peer in case["ratio"] else "" for peer in peers)
        rows.append(f"| {case['name']} | {ours} | {' | '.join(cells)} |")
    return rows


def speed_cell(case: dict[str, Any], peer: str) -> str:
    """The ratio, and what is wanted."""
    told, least = f"**{case['ratio'][peer]:.2f}**", case["at_least"].get(peer)
    if least is None:
        return told
    return f"{told} ({'≥' if case['passed'][peer] else f'short{NBSP}of'}{NBSP}{least:g})"


def mujoco_pool_rows(record: dict[str, Any]) -> list[str]:
    """As `speed_rows`, a large pool beside a small one at the same work, and what one of Humanoid keeps in memory."""
    rows = speed_rows(record)
    if sizes := record.get("sizes"):
        rows += ["", "| N=1024 beside N=64, the same work in turns | ratio | spread | wanted |", "|---|---:|---:|---|"]
        for task, found in sizes.items():
            wanted = "1 ×" + ("" if found["passed"] else " (short)")
            rows.append(f"| {task} | **{found['median']:.2f} ×** | {found['spread']:.0%} | {wanted} |")
    mib = {name: m["peak"] - m["before"] for name, m in record.get("peak_memory_mib", {}).items()}
    if told := ", ".join(f"{name} {size:,.0f} MiB" for name, size in mib.items()):
        rows += ["", f"Peak memory of a pool of Humanoid-v5, N=1024: {told}."]
    return rows


def learning_rows(record: dict[str, Any]) -> list[str]:
    """One row a task: median seconds of training until it is solved, and how many runs solved it."""
    names = list(next(iter(record["runs"].values())))
    rows = [f"| task (mean return wanted) | {' | '.join(names)} |", "|---|" + "---:|" * len(names)]
    for task, runs in record["runs"].items():
        cells = [f"{task} ({record['goals'][task]:g})"]
        for name in names:
            median, solved = record["median_seconds"][task][name], sum(run["solved"] for run in runs[name])
            cells.append(f"{'-' if median is None else f'{median:.1f} s'} ({solved} of {len(runs[name])} solved)")
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def mujoco_rows(record: dict[str, Any]) -> list[str]:
    """One row a run, then what was published."""
    rows = ["| task, seed | in training | deterministic | seconds | to the goal |", "|---|---:|---:|---:|---:|"]
    for task, runs in record["runs"].items():
        for run in runs:
            goal = run["seconds_to_goal"]
            reached = "-" if goal is None else f"{goal:,.0f} s to {record['goals'][task]:,.0f}"
            returns = f"{run['last_return']:,.0f} | {run['deterministic_return']:,.0f}"
            rows.append(f"| {task}, {run['seed']} | {returns} | {run['seconds']:,.0f} | {reached} |")
        for name, value in record["published"].get(task, {}).items():
            rows.append(f"| {task}, as published: {name} | {value:,.0f} | | | |")
    return rows


def async_rows(record: dict[str, Any]) -> list[str]:
    """One row a contender: steps learnt from, then seconds and steps of whole runs, and how old rollouts were."""
    rows = ["| | Pong-v5, steps/s | beside one process | versions behind | CartPole-v1 solved in | steps |"]
    rows.append("|---|---:|---:|---:|---:|---:|")
    median = record["cases"][0]["median"]
    for name, runs in record["cartpole"].items():
        how = ", ".join(f"`{key}={value}`" for key, value in record["settings"]["contenders"][name].items())
        ages = [turn["versions"] for turn in record["staleness"].get(name, [])]
        behind = f"{statistics.median(ages):.1f}" if ages else "-"
        speed = f"{median[name]:,.0f} | **{median[name] / median['in one process']:.2f} ×** | {behind}"
        seconds, steps = (statistics.median(run[key] for run in runs) for key in ("seconds", "steps"))
        took = f"{seconds:.1f} s ({sum(run['solved'] for run in runs)} of {len(runs)})"
        rows.append(f"| {how} | {speed} | {took} | {steps:,.0f} |")
    return rows


def pong_rows(record: dict[str, Any]) -> list[str]:
    """One row: from which return to which, in how many steps and seconds."""
    return [
        "| first return | last return | steps | seconds |",
        "|---:|---:|---:|---:|",
        f"| {record['first_return']:.1f} | {record['mean_return']:.1f} "
        f"| {record['steps']:,} | {record['seconds']:,.0f} |",
    ]


def fast_rows(record: dict[str, Any]) -> list[str]:
    """One row a task and algorithm: how soon its goal is reached, and games afterwards."""
    lines = [
        "| task, algorithm | goal | steps | seconds | of processors | 20 games | load |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in record["rows"]:
        told, goal = row["settings"], row["settings"].get("stop_at_return", "its own")
        words = ", ".join(f"{name}={value}" for name, value in told.items() if name in ("preset", "curiosity"))
        reached = "" if row["reason"] == "solved" else " (not reached)"
        lines.append(
            f"| {told['task']}, {told['algo']}{f' ({words})' if words else ''} | {goal}{reached} | {row['steps']:,} | "
            f"{row['seconds']:,.0f} | {row['processor_seconds']:,.0f} | {row['mean_of_games']} | {row['load']:.0f} |"
        )
    return lines


def doom_rows(record: dict[str, Any]) -> list[str]:
    """One row: from which returns and lengths of episodes to which, in how many steps and seconds."""
    first, last = record["first"], record["last"]
    return [
        "| first return, length | last return, length | steps | seconds |",
        "|---:|---:|---:|---:|",
        f"| {first['return']:.2f}, {first['length']:.0f} | {last['return']:.2f}, {last['length']:.0f} "
        f"| {record['steps']:,} | {record['seconds']:,.0f} |",
    ]


def tag_rows(record: dict[str, Any]) -> list[str]:
    """The grid's seeds, then the plane's: mean returns of random play and of what was learnt."""
    rows = ["| game, seed | mean return of | at random | learnt | seconds of training |", "|---|---|---:|---:|---:|"]
    for seed, run in record["grid"].items():
        first, last, reached = run["curve"][0], run["curve"][-1], run["seconds_to_level"]
        when = "" if reached is None else f" ({reached:.0f} to {record['level']:+g})"
        ends = f"{first['taggers']:+.2f} | {last['taggers']:+.2f}"
        rows.append(
            f"| grid, {seed} | taggers, against runners of the same run | {ends} | {last['seconds']:.0f}{when} |"
        )
    for seed, run in record["plane"].items():
        seconds = f"{run['checkpoints'][-1][1]:.0f}"
        chase, flight = run["taggers"], run["runners"]
        ends = f"{chase[0][0]:+.2f} | {chase[-1][0]:+.2f}"
        rows.append(f"| plane, {seed} | taggers, against random runners | {ends} | {seconds} |")
        rows.append(f"| | runners, against random taggers | {flight[0][0]:+.2f} | {flight[0][-1]:+.2f} | |")
    return rows


def race_rows(record: dict[str, Any]) -> list[str]:
    """One row a contender: seconds and steps to its task's return, and how many runs had it."""
    rows = ["| task (return), contender | seconds: median (least … most) | steps | reached | updates/s |"]
    rows.append("|---|---:|---:|---:|---:|")
    for task, runs in record["runs"].items():
        goal = record["goals"][task]
        for name, outcomes in runs.items():
            first = [next(((at, step) for step, at, mean in run["curve"] if mean >= goal), None) for run in outcomes]
            there = [found for found in first if found is not None]
            seconds = [found[0] if found else float("inf") for found in first]
            steps = f"{statistics.median(step for _, step in there):,.0f}" if there else "-"
            speed = statistics.median(run["updates"] / run["seconds"] for run in outcomes)
            middle, least, most = statistics.median(seconds), min(seconds), max(seconds)
            took = f"**{middle:.1f}** ({least:.1f} … {f'{most:.1f}' if len(there) == len(first) else 'not reached'})"
            reached = f"{len(there)} of {len(first)}"
            rows.append(f"| {task} ({goal:g}), {name} | {took} | {steps} | {reached} | {speed:,.0f} |")
    told = [
        f"{name} **{ratio:.2f} ×**{'' if record['passed'].get(name, True) else ' (short)'}"
        for name, ratio in record["times_faster"].items()
    ]
    return [*rows, "", f"Times as fast: {'; '.join(told)}."]


def return_rows(record: dict[str, Any]) -> list[str]:
    """One row a case: mean final returns, and 95 % of how much higher ours is."""
    rows = ["| case, runs | steps | Headrace | stable-baselines3 | ours is higher by (95 %) |"]
    rows.append("|---|---:|---:|---:|---:|")
    for case in record["runs"]:
        for who, gains in record["gains"].items():
            if case not in gains:
                continue
            (more, low, high), finals = gains[case], record["final"][case]
            mine, theirs = finals[who], finals["stable-baselines3"]
            name = f"{case}{'' if who == 'headrace' else ', ' + who}, {len(mine)} and {len(theirs)}"
            steps = record["runs"][case][who][0]["steps"]
            means = f"{statistics.fmean(mine):,.0f} | {statistics.fmean(theirs):,.0f}"
            rows.append(f"| {name} | {steps:,} | {means} | {more:+,.0f} ({low:+,.0f} … {high:+,.0f}) |")
    each = ((f"{case}, {name}", runs) for case, there in record["runs"].items() for name, runs in there.items())
    return rows + elsewhere(record, each)


def elsewhere(record: dict[str, Any], groups: Iterable[tuple[str, list[dict[str, Any]]]]) -> list[str]:
    """Which runs of each named group were made on another processor than the record's; nothing if none was."""
    here = record["machine"]["cpu"]
    found: dict[str, list[str]] = {}
    for name, runs in groups:
        for cpu, count in Counter(run["cpu"] for run in runs if run["cpu"] != here).items():
            found.setdefault(cpu, []).append(f"{name} ({count} of {len(runs)})")
    return [line for cpu, runs in found.items() for line in ("", f"On {cpu}: {'; '.join(runs)}.")]


def together_rows(record: dict[str, Any]) -> list[str]:
    """As `speed_rows`, and what Spreeze's authors published."""
    name, published = next(item for item in record["settings"].items() if item[0].startswith("Spreeze"))
    here = f"{record['settings']['num_envs']} environments, {record['machine']['cores']} cores"
    figures = f"up to {published['updates']:,.0f} update frames/s, {published['sampling']:,.0f} sampled steps/s"
    return [*speed_rows(record), "", f"Here: {here}. {name}, on a desktop with a GPU: {figures}."]


def watching_rows(record: dict[str, Any]) -> list[str]:
    """One row a case: what of the update rate is lost, and what of the cores both take."""
    rows = ["| case | updates/s, mean | without both | lost (95 %) | wanted | of all cores' time |"]
    rows.append("|---|---:|---:|---:|---|---:|")
    for case in record["cases"]:
        part, low, high = record["lost"][case["name"]]
        beside, alone = (statistics.fmean(rates) for rates in case["rates"].values())
        wanted = "under 3 %" + ("" if record["passed"][case["name"]] else " (short)")
        found = f"{part:.1%} ({low:.1%} … {high:.1%}) | {wanted} | {record['taken'][case['name']]:.1%}"
        rows.append(f"| {case['name']} | {beside:,.0f} | {alone:,.0f} | {found} |")
    return rows


def tuner_rows(record: dict[str, Any]) -> list[str]:
    """One row a task: how long tuning took, and what it found beside the best of the grid."""
    rows = ["| task | tuned in | update frames/s, beside the grid's best | sampled steps/s | wanted |"]
    rows.append("|---|---:|---:|---:|---|")
    for case in record["cases"]:
        ratio, short = case["ratio"], [name for name, passed in case["passed"].items() if not passed]
        wanted = "within 10 %, under 60 s" + (f" (short: {', '.join(short)})" if short else "")
        speeds = f"{ratio['update_frames']:.2f} × | {ratio['sampling']:.2f} ×"
        rows.append(f"| {case['task']} | {case['seconds']:.0f} s | {speeds} | {wanted} |")
    return rows


def rule_rows(record: dict[str, Any]) -> list[str]:
    """One row a task and minibatch that follows the rule: mean final returns, beside those of the task's own."""
    rows = ["| task, runs | steps | minibatch | final return | higher than with the task's own (95 %) |"]
    rows.append("|---|---:|---:|---:|---:|")
    for row in record["summary"]:
        if row["arm"] == "rule":
            gain = "" if row["gain"] is None else "{:+,.0f} ({:+,.0f} … {:+,.0f})".format(*row["gain"])
            over = "" if row["times"] <= record["limits"]["times"] else " (over the rule's limit)"
            size = f"{row['minibatch_size']:,}{over}"
            rows.append(f"| {row['task']}, {row['runs']} | {row['steps']:,} | {size} | {row['final']:,.0f} | {gain} |")
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in record["runs"]:
        if run["arm"] == "rule":
            groups.setdefault(f"{run['task']}, {run['minibatch_size']:,} samples", []).append(run)
    return rows + elsewhere(record, groups.items())


def kill_rows(record: dict[str, Any]) -> list[str]:
    """One row a run."""
    rows = ["| run | workers started again | updates | steps missing in the replay (allowed) | return |"]
    rows.append("|---|---:|---:|---:|---:|")
    for name, run in record["runs"].items():
        missing = f"{run['missing']} ({run['unfinished']})"
        rows.append(f"| {name} | {run['restarts']} | {run['updates']:,} | {missing} | {run['mean_return']:.1f} |")
    return rows


def soak_rows(record: dict[str, Any]) -> list[str]:
    """One row for each thing that could be left."""
    before, after = record["before"], record["after"]
    rows = [f"| of {record['made']:,} pools, {sum(record['kills'].values()):,} lost a worker | before | after |"]
    rows.append("|---|---:|---:|")
    rows += [f"| {name} | {count} | {after[name]} |" for name, count in before.items()]
    growth = record["growth_second_half"] / 2**20
    return [*rows, f"| memory, growth in the second half | | {growth:.2f} MiB |"]


def memory_rows(record: dict[str, Any]) -> list[str]:
    """One row a case: memory at both ends, and whether it is flat."""
    rows = ["| case | MiB, first … last | threads, first … last | flat |", "|---|---:|---:|---|"]
    for case in record["cases"]:
        first, last = case["bytes"][0] / 2**20, case["bytes"][-1] / 2**20
        threads = f"{case['threads'][0]} … {case['threads'][-1]}"
        rows.append(f"| {case['name']} | {first:.1f} … {last:.1f} | {threads} | {'yes' if case['passed'] else 'no'} |")
    return rows


def mark_rows(record: dict[str, Any]) -> list[str]:
    """One row a measure."""
    rows = ["| measure | median | wanted |", "|---|---:|---:|"]
    for name, found in record["measures"].items():
        wanted = f"{found['wanted']:g} {found['unit']}" + ("" if found["passed"] else " (short)")
        rows.append(f"| {name} | {found['median']:.2f} {found['unit']} | {wanted} |")
    return rows


def structure_rows(record: dict[str, Any]) -> list[str]:
    """One row for each thing that is counted."""
    after = record["after"]
    return ["| | before | now |", "|---|---:|---:|"] + [
        f"| {name} | {count:,} | {after[name]:,} |" for name, count in record["before"].items()
    ]


def network_rows(record: dict[str, Any]) -> list[str]:
    """One row a link."""
    rows = ["| delay | loss | steps | seconds |", "|---:|---:|---:|---:|"]
    for run in record["runs"]:
        rows.append(f"| {run['delay_ms']:g} ms | {run['loss_percent']:g} % | {run['steps']:,} | {run['seconds']:.1f} |")
    return [*rows, "", f"A machine that has lost the other ends after {record['seconds_after_a_lost_machine']:.0f} s."]


def instruction_rows(record: dict[str, Any]) -> list[str]:
    """One row a game; then memory and compiling, of which what the machine adds."""
    rows = ["| game | Headrace, instructions a frame | the emulator's own | times |", "|---|---:|---:|---:|"]
    for game, found in record["instructions"].items():
        ours, original = found["ours"], found["original"]
        rows.append(f"| {game} | {ours:,} | {original:,} | **{original / ours:.2f}** |")
    rows.append(f"| geometric mean | | | **{record['geometric mean']:.2f}** |")
    kib = record["KiB of an environment"]
    rows += [
        "",
        f"One more environment of Pong takes {kib['ours']:,.0f} KiB, of `original=True` {kib['original']:,.0f}.",
    ]
    if took := record["build seconds"]:
        whole, machine = took["module"], took["of which the machine"]
        rows.append(f"Compiling the module takes {whole:.0f} processor seconds, the machine {machine:.0f} of them.")
    return rows


KINDS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "memory": memory_rows,
    "mujoco_pool": mujoco_pool_rows,
    "ppo_learning": learning_rows,
    "async_ppo": async_rows,
    "atari_instructions": instruction_rows,
    "learn_pong": pong_rows,
    "learn_doom": doom_rows,
    "learn_fast": fast_rows,
    "mujoco_learning": mujoco_rows,
    "tag_learning": tag_rows,
    "sac_learning": race_rows,
    "final_returns": return_rows,
    "tuner": tuner_rows,
    "batch_rule": rule_rows,
    "together": together_rows,
    "watching": watching_rows,
    "worker_kills": kill_rows,
    "process_soak": soak_rows,
    "first_minutes": mark_rows,
    "structure": structure_rows,
    "torchrun_network": network_rows,
}
"""benchmark → what makes its rows; `speed_rows` makes those of all others"""
