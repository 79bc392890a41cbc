"""The limits of control groups, from files as each version of Linux's groups and each kind of container has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.control_groups import groups, least, memory_left, quota

V2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "34 31 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)
OTHERS = "22 27 0:21 / /proc rw,relatime - proc proc rw\n27 1 254:0 / / rw - ext4 /dev/a rw\n"
UNLIMITED = 9223372036854771712
GIB = 1 << 30


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = root / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def cores(root: Path, cgroup: str, mountinfo: str) -> float | None:
    return least(quota, groups("cpu", cgroup, OTHERS + mountinfo, root))


def memory(root: Path, cgroup: str, mountinfo: str) -> int | None:
    return least(memory_left, groups("memory", cgroup, OTHERS + mountinfo, root))


@pytest.mark.parametrize(
    ("own", "middle", "top", "expected"),
    [
        ("150000 100000", "max 100000", None, 1.5),
        ("max 100000", "300000 100000", None, 3.0),
        ("800000 100000", "300000 100000", None, 3.0),
        ("25000 50000", "300000 100000", None, 0.5),
        ("max 100000", "max 100000", "200000 100000", 2.0),
        ("max 100000", "max", None, None),
        (None, None, None, None),
        ("", "many 100000", "200000", None),
        ("100000 0", "-5 100000", "1 2 3", None),
        ("\xff\xfe", "200000 100000", None, 2.0),
    ],
)
def test_the_least_quota_of_all_groups_of_version_2_counts(
    tmp_path: Path, own: str | None, middle: str | None, top: str | None, expected: float | None
) -> None:
    written = {"a.slice/b.service/cpu.max": own, "a.slice/cpu.max": middle, "cpu.max": top}
    write(tmp_path, {name: text for name, text in written.items() if text is not None})
    write(tmp_path, {"other/cpu.max": "1000 100000"})  # of another group
    assert cores(tmp_path, "0::/a.slice/b.service\n", V2) == expected


@pytest.mark.parametrize(
    ("own", "above", "expected"), [("-1", "150000", 1.5), ("50000", "-1", 0.5), ("-1", "-1", None)]
)
def test_quotas_of_version_1_are_found_in_the_tree_of_their_controller(
    tmp_path: Path, own: str, above: str, expected: float | None
) -> None:
    tree = "cpu,cpuacct/docker"
    write(tmp_path, {f"{tree}/x/cpu.cfs_quota_us": own, f"{tree}/cpu.cfs_quota_us": above})
    write(tmp_path, {f"{tree}/x/cpu.cfs_period_us": "100000", f"{tree}/cpu.cfs_period_us": "100000"})
    write(tmp_path, {"memory/docker/x/cpu.cfs_quota_us": "1", "memory/docker/x/cpu.cfs_period_us": "100000"})
    assert cores(tmp_path, "9:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/docker/x\n", V1) == expected


@pytest.mark.parametrize(
    ("cgroup", "root"),
    [
        ("0::/\n", "/"),  # a namespace of groups
        ("0::/docker/0123\n", "/docker/0123"),  # none, but a mount of the container's group
        ("0::/docker/0123\n", "/"),  # a mount whose root is named as in another namespace
        ("0::/\n", "/../.."),
        ("0::/../other\n", "/"),
        ("", "/"),
        ("garbage\n1:2\n", "/"),
    ],
)
def test_a_container_that_sees_its_group_as_the_root_finds_its_limit_there(
    tmp_path: Path, cgroup: str, root: str
) -> None:
    mount = f"30 24 0:26 {root} /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
    write(tmp_path, {"cpu.max": "200000 100000", "memory.max": str(3 * GIB), "memory.current": str(GIB)})
    write(tmp_path.parent, {"other/cpu.max": "1000 100000"})
    assert cores(tmp_path, cgroup, mount) == 2.0
    assert memory(tmp_path, cgroup, mount) == 2 * GIB


def test_both_versions_count_on_a_machine_that_has_both(tmp_path: Path) -> None:
    hybrid = V1 + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    own = "4:cpu,cpuacct:/job\n2:memory:/job\n0::/user.slice\n"
    write(tmp_path, {"unified/user.slice/cgroup.procs": "", "cpu,cpuacct/job/cpu.cfs_period_us": "100000"})
    write(tmp_path, {"cpu,cpuacct/job/cpu.cfs_quota_us": "400000"})
    assert cores(tmp_path, own, hybrid) == 4.0
    write(tmp_path, {"unified/cpu.max": "300000 100000"})
    assert cores(tmp_path, own, hybrid) == 3.0


@pytest.mark.parametrize("mountinfo", ["", "30 24\n", "- cgroup2\n - \n", "a b c / /sys/fs/cgroup rw - cgroup\n"])
def test_without_a_tree_there_is_no_limit(tmp_path: Path, mountinfo: str) -> None:
    write(tmp_path, {"cpu.max": "200000 100000"})
    assert cores(tmp_path, "0::/\n", mountinfo) is None and memory(tmp_path, "0::/\n", mountinfo) is None


def test_mount_points_may_hold_spaces(tmp_path: Path) -> None:
    write(tmp_path, {"my groups/a b/cpu.max": "200000 100000"})
    mount = "30 24 0:26 / /sys/fs/cgroup/my\\040groups rw - cgroup2 cgroup2 rw\n"
    assert cores(tmp_path, "0::/a b\n", mount) == 2.0


def test_memory_is_left_within_all_limits_and_the_page_cache_is_free(tmp_path: Path) -> None:
    write(tmp_path, {"a/b/memory.max": str(8 * GIB), "a/b/memory.current": str(6 * GIB)})
    assert memory(tmp_path, "0::/a/b\n", V2) == 2 * GIB
    write(tmp_path, {"a/b/memory.stat": f"anon 5\nfile {4 * GIB}\ninactive_file {3 * GIB}\n"})
    assert memory(tmp_path, "0::/a/b\n", V2) == 5 * GIB
    write(tmp_path, {"a/memory.max": str(10 * GIB), "a/memory.current": str(9 * GIB)})
    assert memory(tmp_path, "0::/a/b\n", V2) == GIB
    write(tmp_path, {"memory.max": "max", "memory.current": str(99 * GIB)})
    assert memory(tmp_path, "0::/a/b\n", V2) == GIB
    write(tmp_path, {"a/memory.current": str(11 * GIB)})
    assert memory(tmp_path, "0::/a/b\n", V2) == 0


def test_memory_of_version_1_counts_the_cache_of_groups_below(tmp_path: Path) -> None:
    files = {"limit_in_bytes": str(4 * GIB), "usage_in_bytes": str(3 * GIB)}
    files["stat"] = f"inactive_file 0\ntotal_inactive_file {GIB}\n"
    write(tmp_path, {f"memory/job/memory.{name}": text for name, text in files.items()})
    write(tmp_path, {"memory/memory.limit_in_bytes": str(UNLIMITED), "memory/memory.usage_in_bytes": str(30 * GIB)})
    assert memory(tmp_path, "2:memory:/job\n", V1) == 2 * GIB
