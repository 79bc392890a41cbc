"""What the player does in a step, and what it suffers of hunger, thirst and fatigue."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import warp as wp

from headrace.envs.craftax import state as s
from headrace.pool.executors.kernels import Streams, uniform

(COLLECT_WOOD, SET_TABLE, EAT_COW, COLLECT_SAPLING, COLLECT_DRINK, MAKE_OF_WOOD) = (wp.constant(n) for n in range(6))
(SET_PLANT, DEFEAT_ZOMBIE, COLLECT_STONE, SET_STONE, EAT_PLANT, DEFEAT_SKELETON) = (
    wp.constant(n) for n in range(7, 13)
)
(MAKE_OF_STONE, SET_FURNACE, COLLECT_COAL, COLLECT_IRON, COLLECT_DIAMOND, MAKE_OF_IRON) = (
    wp.constant(n) for n in (13, 16, 17, 18, 19, 20)
)
RIPE = wp.constant(600)  # steps


@wp.func
def near_block(state: s.State, env: int, block: int) -> bool:
    """Returns whether one of the eight places around the player has a block."""
    player = state.player[env]
    for i in range(9):
        place = player + wp.vec2i(i / 3 - 1, i % 3 - 1)
        if i != 4 and s.inside(place) and s.block_at(state, env, place) == block:
            return True
    return False


@wp.func
def make(state: s.State, env: int, number: int):
    """Makes a pickaxe (0 to 2: of wood, stone, iron) or a sword (3 to 5), if all that it takes is at hand."""
    tier = number % 3
    if state.things[env, s.WOOD] < 1 or (tier >= 1 and state.things[env, s.STONES] < 1):
        return
    if tier == 2 and (state.things[env, s.COALS] < 1 or state.things[env, s.IRONS] < 1):
        return
    if not near_block(state, env, s.TABLE) or (tier == 2 and not near_block(state, env, s.FURNACE)):
        return
    s.gain(state, env, s.WOOD, -1)
    made = MAKE_OF_WOOD
    if tier >= 1:
        s.gain(state, env, s.STONES, -1)
        made = MAKE_OF_STONE
    if tier == 2:
        s.gain(state, env, s.COALS, -1)
        s.gain(state, env, s.IRONS, -1)
        made = MAKE_OF_IRON
    s.gain(state, env, s.PICKAXES + number, 1)
    s.achieve(state, env, made + number / 3)


@wp.func
def strike(state: s.State, env: int, first: int, count: int, front: wp.vec2i):
    """Strikes the mob of a kind that is in front; returns whether there is one, and whether it died.

    As in the package, all of the kind live from now on that have health left, also those that had vanished.
    """
    target = int(-1)
    for mob in range(first, first + count):
        if target < 0 and s.lives(state, env, mob) and state.places[env, mob] == front:
            target = mob
    hit = target >= 0
    if hit:
        damage = wp.max(wp.max(1, 2 * state.things[env, s.SWORDS]), 3 * state.things[env, s.SWORDS + 1])
        damage = wp.max(damage, 5 * state.things[env, s.SWORDS + 2])
        state.mob_health[env, target] = state.mob_health[env, target] - damage
    alive = state.alive[env]
    for mob in range(first, first + count):
        alive = wp.where(state.mob_health[env, mob] > 0, alive | (1 << mob), alive & ~(1 << mob))
    state.alive[env] = alive
    died = hit and not s.lives(state, env, wp.max(target, 0))
    if died:
        s.set_mob(state, env, front, False)
    return hit, died


@wp.func
def collect(state: s.State, env: int, front: wp.vec2i, left: int, thing: int, achievement: int):
    """Takes the block in front, of which another one is left."""
    s.set_block(state, env, front, left)
    s.gain(state, env, thing, 1)
    s.achieve(state, env, achievement)


@wp.func
def feed(state: s.State, env: int, number: int, achievement: int):
    """Lets the player eat."""
    state.vitals[env, s.FOOD] = wp.min(state.vitals[env, s.FOOD] + number, s.MOST)
    state.strain[env, s.HUNGER] = 0.0
    s.achieve(state, env, achievement)


@wp.func
def eat_plant(state: s.State, env: int, front: wp.vec2i):
    """Eats a ripe plant, which begins to grow again."""
    s.set_block(state, env, front, s.PLANT)
    feed(state, env, 4, EAT_PLANT)
    for slot in range(s.PLANTS):
        if state.plants[env, slot] == front:
            state.plant_age[env, slot] = 0
            return
    state.plant_age[env, 0] = 0


@wp.func
def use_block(state: s.State, env: int, streams: Streams, front: wp.vec2i):
    """Collects, drinks or eats what is in front."""
    block = s.block_at(state, env, front)
    if block == s.TREE:
        collect(state, env, front, s.GRASS, s.WOOD, COLLECT_WOOD)
    elif block == s.STONE and state.things[env, s.PICKAXES] > 0:
        collect(state, env, front, s.PATH, s.STONES, COLLECT_STONE)
    elif block == s.COAL and state.things[env, s.PICKAXES] > 0:
        collect(state, env, front, s.PATH, s.COALS, COLLECT_COAL)
    elif block == s.IRON and state.things[env, s.PICKAXES + 1] > 0:
        collect(state, env, front, s.PATH, s.IRONS, COLLECT_IRON)
    elif block == s.DIAMOND and state.things[env, s.PICKAXES + 2] > 0:
        collect(state, env, front, s.PATH, s.DIAMONDS, COLLECT_DIAMOND)
    elif block == s.GRASS:
        if uniform(streams, env, wp.float64(0.0), wp.float64(1.0)) < wp.float64(0.1):
            collect(state, env, front, s.GRASS, s.SAPLINGS, COLLECT_SAPLING)
    elif block == s.WATER:
        state.vitals[env, s.DRINK] = wp.min(state.vitals[env, s.DRINK] + 1, s.MOST)
        state.strain[env, s.THIRST] = 0.0
        s.achieve(state, env, COLLECT_DRINK)
    elif block == s.RIPE_PLANT:
        eat_plant(state, env, front)


@wp.func
def do(state: s.State, env: int, streams: Streams, front: wp.vec2i):
    """Strikes the mob in front or, if there is none, uses the block."""
    struck_zombie, zombie_died = strike(state, env, s.ZOMBIES, 3, front)
    if zombie_died:
        s.achieve(state, env, DEFEAT_ZOMBIE)
    struck_cow, cow_died = strike(state, env, s.COWS, 3, front)
    if cow_died:
        feed(state, env, 6, EAT_COW)
    struck_skeleton, skeleton_died = strike(state, env, s.SKELETONS, 2, front)
    if skeleton_died:
        s.achieve(state, env, DEFEAT_SKELETON)
    if s.inside(front) and not (struck_zombie or struck_cow or struck_skeleton):
        use_block(state, env, streams, front)


@wp.func
def place_block(state: s.State, env: int, action: int, front: wp.vec2i):
    """Places a stone, table, furnace or sapling in front, where that is possible."""
    if not s.inside(front) or s.cell_at(state, env, front) >= s.MOB:
        return
    block = s.block_at(state, env, front)
    open = ((s.SOLID >> block) & 1) == 0
    if action == s.PLACE_TABLE:
        if open and state.things[env, s.WOOD] >= 2:
            s.set_block(state, env, front, s.TABLE)
            s.gain(state, env, s.WOOD, -2)
            s.achieve(state, env, SET_TABLE)
    elif action == s.PLACE_FURNACE:
        if open and state.things[env, s.STONES] > 0:
            s.set_block(state, env, front, s.FURNACE)
            s.gain(state, env, s.STONES, -1)
            s.achieve(state, env, SET_FURNACE)
    elif action == s.PLACE_STONE:
        if (open or block == s.WATER) and state.things[env, s.STONES] > 0:
            s.set_block(state, env, front, s.STONE)
            s.gain(state, env, s.STONES, -1)
            s.achieve(state, env, SET_STONE)
    elif block == s.GRASS and state.things[env, s.SAPLINGS] > 0:
        s.set_block(state, env, front, s.PLANT)
        s.gain(state, env, s.SAPLINGS, -1)
        s.achieve(state, env, SET_PLANT)
        begin_to_grow(state, env, front)


@wp.func
def begin_to_grow(state: s.State, env: int, place: wp.vec2i):
    """Lets a plant grow; after ten, further ones never do."""
    slot = int(0)
    while slot < s.PLANTS:
        if ((state.planted[env] >> slot) & 1) == 0:
            state.plants[env, slot] = place
            state.plant_age[env, slot] = 0
            state.planted[env] = state.planted[env] | (1 << slot)
            return
        slot += 1


@wp.func
def act(state: s.State, env: int, action: int, streams: Streams):
    """Carries out the player's action."""
    player = state.player[env]
    if action >= s.MAKE:
        make(state, env, action - s.MAKE)
    elif action >= s.PLACE_STONE:
        place_block(state, env, action, player + s.direction(state.facing[env] - 1))
    elif action > s.DOWN:
        if action < s.SLEEP:
            do(state, env, streams, player + s.direction(state.facing[env] - 1))
    elif action > 0:
        target = player + s.direction(action - 1)
        # from the map's first row or column also out of it, where its other end is of lava: as in the package
        if s.is_free(state, env, target) or s.block_at(state, env, target) == s.LAVA:
            state.player[env] = target
        state.facing[env] = action


@wp.func
def grow_plants(state: s.State, env: int):
    """Lets plants become older, and ripe."""
    planted = state.planted[env]
    slot = int(0)
    while planted != 0:
        if (planted & 1) == 1:
            age = state.plant_age[env, slot] + 1
            state.plant_age[env, slot] = age
            if age >= RIPE:
                s.set_block(state, env, state.plants[env, slot], s.RIPE_PLANT)
        planted = planted >> 1
        slot += 1


@wp.func
def drain(state: s.State, env: int, strain: int, vital: int, pace: float, most: float):
    """Adds to a strain, which costs food or drink when it is above the most."""
    strained = state.strain[env, strain] + pace
    if strained > most:
        strained = 0.0
        state.vitals[env, vital] = wp.max(state.vitals[env, vital] - 1, 0)
    state.strain[env, strain] = strained


@wp.func
def wear(state: s.State, env: int, action: int):
    """Lets the player fall asleep, wake up, and become hungry, thirsty, tired, ill or well."""
    energy = state.vitals[env, s.ENERGY]
    asleep = state.asleep[env] or (action == s.SLEEP and energy < s.MOST)
    if asleep and energy >= s.MOST:
        asleep = False
        s.achieve(state, env, s.WAKE_UP)
    state.asleep[env] = asleep

    pace = wp.where(asleep, 0.5, 1.0)
    drain(state, env, s.HUNGER, s.FOOD, pace, 25.0)
    drain(state, env, s.THIRST, s.DRINK, pace, 20.0)
    fatigue = state.strain[env, s.FATIGUE] + 1.0
    if asleep:
        fatigue = wp.min(fatigue - 2.0, 0.0)
    if fatigue > 30.0:
        fatigue = 0.0
        energy = wp.max(energy - 1, 0)
    elif fatigue < -10.0:
        fatigue = 0.0
        energy = wp.min(energy + 1, s.MOST)
    state.strain[env, s.FATIGUE] = fatigue
    state.vitals[env, s.ENERGY] = energy

    well = state.vitals[env, s.FOOD] > 0 and state.vitals[env, s.DRINK] > 0 and (energy > 0 or asleep)
    recovery = state.strain[env, s.RECOVERY] + wp.where(well, 1.0 / pace, -pace)
    if recovery > 25.0:
        recovery = 0.0
        state.vitals[env, s.HEALTH] = wp.min(state.vitals[env, s.HEALTH] + 1, s.MOST)
    elif recovery < -15.0:
        recovery = 0.0
        state.vitals[env, s.HEALTH] = state.vitals[env, s.HEALTH] - 1
    state.strain[env, s.RECOVERY] = recovery
