"""The maps of the mazes: ``#`` is a wall, ``g`` a cell of goals, ``r`` one to start in, and ``c`` one of both."""

U_MAZE = "##### #...# ###.# #...# #####"
OPEN = "####### #.....# #.....# #.....# #######"
MEDIUM = "######## #..##..# #..#...# ##...### #..#...# #.#..#.# #...#..# ########"
LARGE = (
    "############ #....#.....# #.##.#.#.#.# #......#...# #.####.###.# #..#.#.....# ##.#.#.#.### #..#...#...# "
    "############"
)
OPEN_G = "####### #rgggg# #ggggg# #ggggg# #######"
MEDIUM_G = "######## #r.##..# #..#..g# ##...### #..#...# #g#..#.# #...#g.# ########"
LARGE_G = (
    "############ #r...#g....# #.##.#.#.#.# #....g.#..g# #.####.###.# #.g#.#.....# ##.#.#.#.### #..#g.g#.g.# "
    "############"
)


def both(goals: str) -> str:
    """Returns a map in which goals and starts are in the same cells."""
    return goals.replace("g", "c").replace("r", "c")


MAPS: dict[str, str] = {
    "UMaze": U_MAZE,
    "Open": OPEN,
    "Open_Diverse_G": OPEN_G,
    "Open_Diverse_GR": both(OPEN_G),
    "Medium": MEDIUM,
    "Medium_Diverse_G": MEDIUM_G,
    "Medium_Diverse_GR": both(MEDIUM_G),
    "Large": LARGE,
    "Large_Diverse_G": LARGE_G,
    "Large_Diverse_GR": both(LARGE_G),
}
"""name → rows, with a space between them"""
