"""CartPole-v1 on a GPU, from a thousand environments to a million: steps a second, and of the memory's speed.

`gpu_common` says how it is measured.
"""

from __future__ import annotations

import headrace
from gpu_common import HEADING, chosen, copy_bandwidth, machine, measure, parsed, parser, shown, write

TASK = "CartPole-v1"
SIZES = (1_000, 10_000, 100_000, 1_000_000)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of environments")
    args = parsed(options)
    device = chosen(args)
    here, bandwidth = machine(device), copy_bandwidth(device)
    print(f"{TASK} on {here['device']}; a copy moves {bandwidth / 1e9:,.0f} GB/s\n{HEADING}")
    cases = []
    for size in args.sizes:
        cases += shown(measure(headrace.make_torch(TASK, size, args.device, seed=0), bandwidth, args))
    print(write("gpu_pool", args, here, bandwidth, task=TASK, cases=cases))


if __name__ == "__main__":
    main()
