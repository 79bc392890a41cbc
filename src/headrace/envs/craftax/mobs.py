"""How zombies, cows, skeletons and arrows move, come and vanish.

All mobs move in every step, one after the other. Their chances come from one number of 64 bits that is drawn for the
step, and those of new mobs from a second one: a probability is exact to 2⁻¹⁷.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import warp as wp

from headrace.envs.craftax import state as s
from headrace.pool.executors.kernels import Streams, random_bits
from headrace.pool.executors.kernels.cpp import cpp

CHASED = wp.constant(10)  # steps away from which a zombie or skeleton knows where the player is
TO_17_BITS = 1 << 17
TO_21_BITS = wp.constant(float(1 << 21))
ON_WHIM = wp.constant(int(0.85 * TO_17_BITS))  # of 2¹⁷: how often a skeleton walks at random
REACH = wp.constant(int(s.FAR) - 1)


@wp.func
def towards(place: wp.vec2i, player: wp.vec2i, coin: int) -> wp.vec2i:
    """Returns the step to the player, along the axis that is further; a coin decides between equal ones."""
    gap = player - place
    rows, columns = wp.abs(gap[0]), wp.abs(gap[1])
    row = wp.where(gap[0] > 0, 1, 0) - wp.where(gap[0] < 0, 1, 0)
    column = wp.where(gap[1] > 0, 1, 0) - wp.where(gap[1] < 0, 1, 0)
    along_rows = 2 * rows + 1 - coin > 2 * columns
    return wp.vec2i(wp.where(along_rows, row, 0), wp.where(along_rows, 0, column))


@wp.func
def walk(state: s.State, env: int, mob: int, target: wp.vec2i):
    """Moves a mob to a place if that is free; one that was far from the player vanishes.

    Without branches, which a CPU could not foresee.
    """
    place = state.places[env, mob]
    free = s.is_free(state, env, target)
    here = wp.vec2i(wp.where(free, target[0], place[0]), wp.where(free, target[1], place[1]))
    alive = state.alive[env]
    lives = (alive >> mob) & 1
    stays = wp.where(s.distance(place, state.player[env]) < s.FAR, lives, 0)
    s.mark(state, env, place, lives * s.MOB, 0)
    s.mark(state, env, here, 0, stays * s.MOB)
    state.alive[env] = alive & ~((lives - stays) << mob)
    state.places[env, mob] = here


@wp.func
def move_zombie(state: s.State, env: int, mob: int, drawn: int):
    """Lets a zombie strike the player beside it, or walk."""
    place = state.places[env, mob]
    player = state.player[env]
    steps = s.distance(place, player)
    cooldown = state.cooldown[env, mob]
    chases = steps < CHASED and (drawn >> 3) != 3
    way, chase = s.direction(drawn & 3), towards(place, player, (drawn >> 2) & 1)
    target = place + wp.vec2i(wp.where(chases, chase[0], way[0]), wp.where(chases, chase[1], way[1]))
    if steps == 1 and cooldown <= 0 and s.lives(state, env, mob):
        asleep = state.asleep[env]
        state.vitals[env, s.HEALTH] = state.vitals[env, s.HEALTH] - wp.where(asleep, 7, 2)
        if asleep:
            s.achieve(state, env, s.WAKE_UP)
            state.asleep[env] = False
        cooldown = 6
        target = place
    state.cooldown[env, mob] = cooldown - 1
    walk(state, env, mob, target)


@wp.func
def move_cow(state: s.State, env: int, mob: int, drawn: int):
    """Lets a cow walk or, half of the time, stay."""
    place = state.places[env, mob]
    walk(state, env, mob, place + s.direction(drawn & 3) * wp.where(drawn < 4, 1, 0))


@wp.func
def shoot(state: s.State, env: int, place: wp.vec2i, way: wp.vec2i):
    """Adds an arrow, if there are fewer than three."""
    slot = int(0)
    while slot < 3:
        if not s.lives(state, env, s.ARROWS + slot):
            state.places[env, s.ARROWS + slot] = place
            state.flights[env, slot] = way
            state.alive[env] = state.alive[env] | (1 << (s.ARROWS + slot))
            return
        slot += 1


@wp.func
def move_skeleton(state: s.State, env: int, mob: int, drawn: int, whim: int):
    """Lets a skeleton shoot, from 4 or 5 steps away or where it is cornered, or walk."""
    place = state.places[env, mob]
    player = state.player[env]
    steps = s.distance(place, player)
    way = towards(place, player, (drawn >> 2) & 1)
    follows = wp.where(steps >= CHASED, 1, wp.where(steps <= 3, -1, 0))
    target = place + s.direction(drawn & 3)
    if whim > ON_WHIM and follows != 0:
        target = place + way * follows
    cooldown = state.cooldown[env, mob]
    shoots = steps == 4 or steps == 5 or (steps <= 3 and not s.is_free(state, env, target))
    if shoots and cooldown <= 0 and s.lives(state, env, mob):
        shoot(state, env, place, way)
        cooldown = 5
        target = place
    state.cooldown[env, mob] = cooldown - 1
    walk(state, env, mob, target)


@wp.func
def move_arrow(state: s.State, env: int, slot: int):
    """Lets an arrow fly on: it hurts the player, and makes a path of a table or furnace."""
    mob = s.ARROWS + slot
    place = state.places[env, mob] + state.flights[env, slot]
    state.places[env, mob] = place
    if not s.lives(state, env, mob):
        return
    block = s.block_at(state, env, place)
    hits = place == state.player[env]
    stopped = hits or not s.inside(place) or s.cell_at(state, env, place) >= s.MOB
    if stopped or (((s.SOLID >> block) & 1) == 1 and block != s.WATER):
        state.alive[env] = state.alive[env] & ~(1 << mob)
    if hits:
        state.vitals[env, s.HEALTH] = state.vitals[env, s.HEALTH] - 2
        state.asleep[env] = False
    if block >= s.TABLE and block <= s.FURNACE:  # one of both
        s.set_block(state, env, place, s.PATH)


@wp.func
def move_mobs(state: s.State, env: int, drawn: wp.uint64):
    """Moves all mobs, by chances of the drawn bits."""
    for i in range(3):
        move_zombie(state, env, s.ZOMBIES + i, s.bits(drawn, 5 * i, 5))
    for i in range(3):
        move_cow(state, env, s.COWS + i, s.bits(drawn, 15 + 3 * i, 3))
    for i in range(2):
        move_skeleton(state, env, s.SKELETONS + i, s.bits(drawn, 24 + 3 * i, 3), s.bits(drawn, 30 + 17 * i, 17))
    for i in range(3):
        move_arrow(state, env, i)


@wp.func_native(cpp(__file__, "find_place"))
def find_place(
    cells: wp.array3d[wp.uint8], env: int, row: int, column: int, block: int, other: int, nearest: int, bits: wp.uint64
) -> int:
    """Returns the number of a random one of the places where a mob may come, or -1 if there is none.

    Mobs come on one of two blocks where no mob is, more than ``nearest`` and less than FAR steps from a place.
    """
    all, left = int(0), int(-1)
    for again in range(2):
        if again == 1:
            left = int(((bits >> wp.uint64(32)) * wp.uint64(all)) >> wp.uint64(32))
        for x in range(wp.max(row - REACH, 0), wp.min(row + REACH, s.LAST) + 1):
            for y in range(wp.max(column - REACH, 0), wp.min(column + REACH, s.LAST) + 1):
                steps = wp.abs(x - row) + wp.abs(y - column)
                cell = int(cells[env, x, y])
                if (cell - block) * (cell - other) == 0 and steps > nearest and steps < s.FAR:
                    if again == 1 and left == 0:
                        return x * s.SIZE + y
                    all += 1 - again
                    left -= again
    return -1


@wp.func
def spawn(
    state: s.State,
    env: int,
    streams: Streams,
    first: int,
    count: int,
    block: int,
    other: int,
    nearest: int,
    health: int,
):
    """Adds a mob of a kind at a place where it may come, unless all of the kind live."""
    all_of_them = (1 << count) - 1
    dead = ~(state.alive[env] >> first) & all_of_them
    if dead == 0:
        return
    player = state.player[env]
    drawn = random_bits(streams, env)
    number = find_place(state.cells, env, player[0], player[1], block, other, nearest, drawn)
    if number < 0:
        return
    mob = int(first)
    while (dead & 1) == 0:
        dead = dead >> 1
        mob += 1
    place = wp.vec2i(number / s.SIZE, number % s.SIZE)
    state.places[env, mob] = place
    state.mob_health[env, mob] = health
    state.alive[env] = state.alive[env] | (1 << mob)
    s.set_mob(state, env, place, True)


@wp.func
def mark_first(state: s.State, env: int, first: int, count: int):
    """Where all of a kind live, notes once more that the first one stands where it does."""
    if ((state.alive[env] >> first) & ((1 << count) - 1)) == (1 << count) - 1:
        s.set_mob(state, env, state.places[env, first], True)


@wp.func
def spawn_mobs(state: s.State, env: int, drawn: wp.uint64, streams: Streams):
    """Lets a cow, a zombie and a skeleton come, each with a chance of the drawn bits; zombies rather in the dark."""
    dark = 1.0 - state.light[env]
    mark_first(state, env, s.COWS, 3)
    if float(s.bits(drawn, 0, 21)) < 0.1 * TO_21_BITS:
        spawn(state, env, streams, s.COWS, 3, s.GRASS, s.GRASS, 3, 3)
    mark_first(state, env, s.ZOMBIES, 3)
    if float(s.bits(drawn, 21, 21)) < (0.02 + 0.1 * dark * dark) * TO_21_BITS:
        spawn(state, env, streams, s.ZOMBIES, 3, s.GRASS, s.PATH, 9, 5)
    mark_first(state, env, s.SKELETONS, 2)
    if float(s.bits(drawn, 42, 21)) < 0.05 * TO_21_BITS:
        spawn(state, env, streams, s.SKELETONS, 2, s.PATH, s.PATH, 9, 3)
