"""What the player does in a step, and what it suffers of hunger, thirst and fatigue."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import warp as wp

from headrace.envs.craftax.state import (
    COAL,
    COALS,
    COWS,
    DIAMOND,
    DIAMONDS,
    DOWN,
    DRINK,
    ENERGY,
    FATIGUE,
    FOOD,
    FURNACE,
    GRASS,
    HEALTH,
    HUNGER,
    IRON,
    IRONS,
    LAVA,
    MAKE,
    MOB,
    MOST,
    PATH,
    PICKAXES,
    PLACE_FURNACE,
    PLACE_PLANT,
    PLACE_STONE,
    PLACE_TABLE,
    PLANT,
    PLANTS,
    RECOVERY,
    RIPE_PLANT,
    SAPLINGS,
    SKELETONS,
    SLEEP,
    SOLID,
    STONE,
    STONES,
    SWORDS,
    TABLE,
    THIRST,
    TREE,
    WAKE_UP,
    WATER,
    WOOD,
    ZOMBIES,
    State,
    achieve,
    block_at,
    cell_at,
    direction,
    gain,
    inside,
    is_free,
    lives,
    set_block,
    set_mob,
)
from headrace.pool.executors.kernels import Streams, uniform

(COLLECT_WOOD, SET_TABLE, EAT_COW, COLLECT_SAPLING, COLLECT_DRINK, MAKE_OF_WOOD) = (wp.constant(n) for n in range(6))
(SET_PLANT, DEFEAT_ZOMBIE, COLLECT_STONE, SET_STONE, EAT_PLANT, DEFEAT_SKELETON) = (wp.constant(n) for n in range(7, 13))
(MAKE_OF_STONE, SET_FURNACE, COLLECT_COAL, COLLECT_IRON, COLLECT_DIAMOND, MAKE_OF_IRON) = (
    wp.constant(n) for n in (13, 16, 17, 18, 19, 20)
)
RIPE = wp.constant(600)  # steps


@wp.func
def near_block(state: State, env: int, block: int) -> bool:
    """Returns whether one of the eight places around the player has a block."""
    player = state.player[env]
    for i in range(9):
        place = player + wp.vec2i(i / 3 - 1, i % 3 - 1)
        if i != 4 and inside(place) and block_at(state, env, place) == block:
            return True
    return False


@wp.func
def make(state: State, env: int, number: int):
    """Makes a pickaxe (0 to 2: of wood, stone, iron) or a sword (3 to 5), if all that it takes is at hand."""
    tier = number % 3
    if state.things[env, WOOD] < 1 or (tier >= 1 and state.things[env, STONES] < 1):
        return
    if tier == 2 and (state.things[env, COALS] < 1 or state.things[env, IRONS] < 1):
        return
    if not near_block(state, env, TABLE) or (tier == 2 and not near_block(state, env, FURNACE)):
        return
    gain(state, env, WOOD, -1)
    made = MAKE_OF_WOOD
    if tier >= 1:
        gain(state, env, STONES, -1)
        made = MAKE_OF_STONE
    if tier == 2:
        gain(state, env, COALS, -1)
        gain(state, env, IRONS, -1)
        made = MAKE_OF_IRON
    gain(state, env, PICKAXES + number, 1)
    achieve(state, env, made + number / 3)


@wp.func
def strike(state: State, env: int, first: int, count: int, front: wp.vec2i):
    """Strikes the mob of a kind that is in front; returns whether there is one, and whether it died.

    As in the package, all of the kind live from now on that have health left, also those that had vanished.
    """
    target = int(-1)
    for mob in range(first, first + count):
        if target < 0 and lives(state, env, mob) and state.places[env, mob] == front:
            target = mob
    hit = target >= 0
    if hit:
        damage = wp.max(wp.max(1, 2 * state.things[env, SWORDS]), 3 * state.things[env, SWORDS + 1])
        damage = wp.max(damage, 5 * state.things[env, SWORDS + 2])
        state.mob_health[env, target] = state.mob_health[env, target] - damage
    alive = state.alive[env]
    for mob in range(first, first + count):
        alive = wp.where(state.mob_health[env, mob] > 0, alive | (1 << mob), alive & ~(1 << mob))
    state.alive[env] = alive
    died = hit and not lives(state, env, wp.max(target, 0))
    if died:
        set_mob(state, env, front, False)
    return hit, died


@wp.func
def collect(state: State, env: int, front: wp.vec2i, left: int, thing: int, achievement: int):
    """Takes the block in front, of which another one is left."""
    set_block(state, env, front, left)
    gain(state, env, thing, 1)
    achieve(state, env, achievement)


@wp.func
def feed(state: State, env: int, number: int, achievement: int):
    """Lets the player eat."""
    state.vitals[env, FOOD] = wp.min(state.vitals[env, FOOD] + number, MOST)
    state.strain[env, HUNGER] = 0.0
    achieve(state, env, achievement)


@wp.func
def eat_plant(state: State, env: int, front: wp.vec2i):
    """Eats a ripe plant, which begins to grow again."""
    set_block(state, env, front, PLANT)
    feed(state, env, 4, EAT_PLANT)
    for slot in range(PLANTS):
        if state.plants[env, slot] == front:
            state.plant_age[env, slot] = 0
            return
    state.plant_age[env, 0] = 0


@wp.func
def use_block(state: State, env: int, streams: Streams, front: wp.vec2i):
    """Collects, drinks or eats what is in front."""
    block = block_at(state, env, front)
    if block == TREE:
        collect(state, env, front, GRASS, WOOD, COLLECT_WOOD)
    elif block == STONE and state.things[env, PICKAXES] > 0:
        collect(state, env, front, PATH, STONES, COLLECT_STONE)
    elif block == COAL and state.things[env, PICKAXES] > 0:
        collect(state, env, front, PATH, COALS, COLLECT_COAL)
    elif block == IRON and state.things[env, PICKAXES + 1] > 0:
        collect(state, env, front, PATH, IRONS, COLLECT_IRON)
    elif block == DIAMOND and state.things[env, PICKAXES + 2] > 0:
        collect(state, env, front, PATH, DIAMONDS, COLLECT_DIAMOND)
    elif block == GRASS:
        if uniform(streams, env, wp.float64(0.0), wp.float64(1.0)) < wp.float64(0.1):
            collect(state, env, front, GRASS, SAPLINGS, COLLECT_SAPLING)
    elif block == WATER:
        state.vitals[env, DRINK] = wp.min(state.vitals[env, DRINK] + 1, MOST)
        state.strain[env, THIRST] = 0.0
        achieve(state, env, COLLECT_DRINK)
    elif block == RIPE_PLANT:
        eat_plant(state, env, front)


@wp.func
def do(state: State, env: int, streams: Streams, front: wp.vec2i):
    """Strikes the mob in front or, if there is none, uses the block."""
    struck_zombie, zombie_died = strike(state, env, ZOMBIES, 3, front)
    if zombie_died:
        achieve(state, env, DEFEAT_ZOMBIE)
    struck_cow, cow_died = strike(state, env, COWS, 3, front)
    if cow_died:
        feed(state, env, 6, EAT_COW)
    struck_skeleton, skeleton_died = strike(state, env, SKELETONS, 2, front)
    if skeleton_died:
        achieve(state, env, DEFEAT_SKELETON)
    if inside(front) and not (struck_zombie or struck_cow or struck_skeleton):
        use_block(state, env, streams, front)


@wp.func
def place_block(state: State, env: int, action: int, front: wp.vec2i):
    """Places a stone, table, furnace or sapling in front, where that is possible."""
    if not inside(front) or cell_at(state, env, front) >= MOB:
        return
    block = block_at(state, env, front)
    open = ((SOLID >> block) & 1) == 0
    if action == PLACE_TABLE:
        if open and state.things[env, WOOD] >= 2:
            set_block(state, env, front, TABLE)
            gain(state, env, WOOD, -2)
            achieve(state, env, SET_TABLE)
    elif action == PLACE_FURNACE:
        if open and state.things[env, STONES] > 0:
            set_block(state, env, front, FURNACE)
            gain(state, env, STONES, -1)
            achieve(state, env, SET_FURNACE)
    elif action == PLACE_STONE:
        if (open or block == WATER) and state.things[env, STONES] > 0:
            set_block(state, env, front, STONE)
            gain(state, env, STONES, -1)
            achieve(state, env, SET_STONE)
    elif block == GRASS and state.things[env, SAPLINGS] > 0:
        set_block(state, env, front, PLANT)
        gain(state, env, SAPLINGS, -1)
        achieve(state, env, SET_PLANT)
        begin_to_grow(state, env, front)


@wp.func
def begin_to_grow(state: State, env: int, place: wp.vec2i):
    """Lets a plant grow; after ten, further ones never do."""
    slot = int(0)
    while slot < PLANTS:
        if ((state.planted[env] >> slot) & 1) == 0:
            state.plants[env, slot] = place
            state.plant_age[env, slot] = 0
            state.planted[env] = state.planted[env] | (1 << slot)
            return
        slot += 1


@wp.func
def act(state: State, env: int, action: int, streams: Streams):
    """Carries out the player's action."""
    player = state.player[env]
    if action >= MAKE:
        make(state, env, action - MAKE)
    elif action >= PLACE_STONE:
        place_block(state, env, action, player + direction(state.facing[env] - 1))
    elif action > DOWN:
        if action < SLEEP:
            do(state, env, streams, player + direction(state.facing[env] - 1))
    elif action > 0:
        target = player + direction(action - 1)
        # from the map's first row or column also out of it, where its other end is of lava: as in the package
        if is_free(state, env, target) or block_at(state, env, target) == LAVA:
            state.player[env] = target
        state.facing[env] = action


@wp.func
def grow_plants(state: State, env: int):
    """Lets plants become older, and ripe."""
    planted = state.planted[env]
    slot = int(0)
    while planted != 0:
        if (planted & 1) == 1:
            age = state.plant_age[env, slot] + 1
            state.plant_age[env, slot] = age
            if age >= RIPE:
                set_block(state, env, state.plants[env, slot], RIPE_PLANT)
        planted = planted >> 1
        slot += 1


@wp.func
def wear(state: State, env: int, action: int):
    """Lets the player fall asleep, wake up, and become hungry, thirsty, tired, ill or well."""
    energy = state.vitals[env, ENERGY]
    asleep = state.asleep[env] or (action == SLEEP and energy < MOST)
    if asleep and energy >= MOST:
        asleep = False
        achieve(state, env, WAKE_UP)
    state.asleep[env] = asleep

    pace = wp.where(asleep, 0.5, 1.0)
    hunger = state.strain[env, HUNGER] + pace
    if hunger > 25.0:
        hunger = 0.0
        state.vitals[env, FOOD] = wp.max(state.vitals[env, FOOD] - 1, 0)
    state.strain[env, HUNGER] = hunger

    thirst = state.strain[env, THIRST] + pace
    if thirst > 20.0:
        thirst = 0.0
        state.vitals[env, DRINK] = wp.max(state.vitals[env, DRINK] - 1, 0)
    state.strain[env, THIRST] = thirst

    fatigue = state.strain[env, FATIGUE] + 1.0
    if asleep:
        fatigue = wp.min(fatigue - 2.0, 0.0)
    if fatigue > 30.0:
        fatigue = 0.0
        energy = wp.max(energy - 1, 0)
    elif fatigue < -10.0:
        fatigue = 0.0
        energy = wp.min(energy + 1, MOST)
    state.strain[env, FATIGUE] = fatigue
    state.vitals[env, ENERGY] = energy

    well = state.vitals[env, FOOD] > 0 and state.vitals[env, DRINK] > 0 and (energy > 0 or asleep)
    recovery = state.strain[env, RECOVERY] + wp.where(well, 1.0 / pace, -pace)
    if recovery > 25.0:
        recovery = 0.0
        state.vitals[env, HEALTH] = wp.min(state.vitals[env, HEALTH] + 1, MOST)
    elif recovery < -15.0:
        recovery = 0.0
        state.vitals[env, HEALTH] = state.vitals[env, HEALTH] - 1
    state.strain[env, RECOVERY] = recovery
