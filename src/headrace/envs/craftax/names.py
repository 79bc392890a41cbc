"""The names of Craftax-Classic's actions, blocks, things and achievements, in the order of their numbers."""

ACTIONS = (
    *("noop", "left", "right", "up", "down", "do", "sleep"),
    *("place stone", "place table", "place furnace", "place plant"),
    *("make wood pickaxe", "make stone pickaxe", "make iron pickaxe"),
    *("make wood sword", "make stone sword", "make iron sword"),
)
BLOCKS = (
    *("invalid", "out of bounds", "grass", "water", "stone", "tree", "wood", "path", "coal", "iron", "diamond"),
    *("table", "furnace", "sand", "lava", "plant", "ripe plant"),
)
THINGS = (
    *("wood", "stone", "coal", "iron", "diamond", "sapling"),
    *("wood_pickaxe", "stone_pickaxe", "iron_pickaxe", "wood_sword", "stone_sword", "iron_sword"),
)
ACHIEVEMENTS = (
    *("collect_wood", "place_table", "eat_cow", "collect_sapling", "collect_drink", "make_wood_pickaxe"),
    *("make_wood_sword", "place_plant", "defeat_zombie", "collect_stone", "place_stone", "eat_plant"),
    *("defeat_skeleton", "make_stone_pickaxe", "make_stone_sword", "wake_up", "place_furnace", "collect_coal"),
    *("collect_iron", "collect_diamond", "make_iron_pickaxe", "make_iron_sword"),
)
