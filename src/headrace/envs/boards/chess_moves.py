"""The allowed moves of a position of chess, all pieces of a kind and a direction at once.

Sets of cells are the bits of an integer, a1 first and row after row, as the player to move sees them: black's board is
turned upside down. A move is a cell and one of PettingZoo's 73 ways to leave it: 56 of a queen, 1 to 7 cells far in one
of eight directions; eight jumps of a knight; and nine of a pawn that becomes a knight, a bishop or a rook. For each way
there is the set of cells that may be left like that. Pieces that shield their king from another only move in its line,
and in check moves only lead to where they end it, so that no move has to be tried, but for one: to take en passant
removes two pieces from a row.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false, reportAttributeAccessIssue=false

import warp as wp

NOTHING = wp.constant(wp.uint64(0))
ONE = wp.constant(wp.uint64(1))
ALL = wp.constant(wp.uint64(0xFFFFFFFFFFFFFFFF))
BYTES, PAIRS = wp.constant(wp.uint64(0x00FF00FF00FF00FF)), wp.constant(wp.uint64(0x0000FFFF0000FFFF))
EVERY_ROW = wp.constant(wp.uint64(0x0101010101010101))
THIRD_ROW = wp.constant(wp.uint64(0xFF0000))
SEVENTH_ROW = wp.constant(wp.uint64(0xFF000000000000))
KING_HOME = wp.constant(wp.uint64(1 << 4))
SHORT_WAY, SHORT_BETWEEN = wp.constant(wp.uint64(0x70)), wp.constant(wp.uint64(0x60))
LONG_WAY, LONG_BETWEEN = wp.constant(wp.uint64(0x1C)), wp.constant(wp.uint64(0x0E))
WEST, NORTH, EAST = wp.constant(1), wp.constant(4), wp.constant(6)  # directions

WAYS = 73
JUMPS = wp.constant(56)
UNDERPROMOTIONS = wp.constant(64)
FARTHEST = wp.constant(7)
DIRECTIONS = wp.constant(8)
CAN_MOVE, IN_CHECK, EN_PASSANT = wp.constant(1), wp.constant(2), wp.constant(4)
PAWN, KNIGHT, BISHOP, ROOK, QUEEN, KING = (wp.constant(kind) for kind in range(1, 7))

Board = wp.types.vector(4, wp.uint64)
"""Cells of the own pieces; and of all pieces whose kind, 1 to 6 from pawn to king, has the first, second, third bit."""
Sight = wp.types.vector(6, wp.uint64)
"""Cells that the other attacks; cells on which a move ends a check; and shields of the king in four lines."""


@wp.func
def occupied(board: Board) -> wp.uint64:
    return board[1] | board[2] | board[3]


@wp.func
def of_kind(board: Board, kind: int) -> wp.uint64:
    cells = wp.uint64(ALL)
    for bit in range(3):
        cells = cells & wp.where(((kind >> bit) & 1) != 0, board[bit + 1], ~board[bit + 1])
    return cells


@wp.func
def sliders(board: Board, step: wp.vec2i) -> wp.uint64:
    """Returns the pieces that move any number of cells in this direction."""
    if step[0] * step[1] != 0:
        return board[1] & (board[2] | board[3])
    return board[3] & ~board[2]


@wp.func
def upside_down(cells: wp.uint64) -> wp.uint64:
    cells = ((cells >> wp.uint64(8)) & BYTES) | ((cells & BYTES) << wp.uint64(8))
    cells = ((cells >> wp.uint64(16)) & PAIRS) | ((cells & PAIRS) << wp.uint64(16))
    return (cells >> wp.uint64(32)) | (cells << wp.uint64(32))


@wp.func
def from_other_side(board: Board) -> Board:
    theirs = occupied(board) & ~board[0]
    return Board(upside_down(theirs), upside_down(board[1]), upside_down(board[2]), upside_down(board[3]))


@wp.func
def step_of(direction: int) -> wp.vec2i:
    """Returns the columns and rows of one of eight directions: (-1, -1), (-1, 0), (-1, 1), (0, -1) …"""
    at = direction + wp.where(direction > 3, 1, 0)
    return wp.vec2i(at / 3 - 1, at % 3 - 1)


@wp.func
def jump_of(jump: int) -> wp.vec2i:
    """Returns the columns and rows of one of a knight's eight jumps: (-2, -1), (-2, 1), (-1, -2) …"""
    column = jump / 2 - wp.where(jump < 4, 2, 1)
    return wp.vec2i(column, (3 - wp.abs(column)) * (2 * (jump % 2) - 1))


@wp.func
def shift_of(step: wp.vec2i) -> wp.uint64:
    return wp.uint64((8 * step[1] + step[0]) & 63)


@wp.func
def inside(step: wp.vec2i) -> wp.uint64:
    """Returns the cells from which a step stays on the board."""
    columns = (255 >> wp.max(step[0], 0)) & (255 << wp.max(-step[0], 0)) & 255
    up, down = wp.uint64(wp.max(8 * step[1], 0)), wp.uint64(wp.max(-8 * step[1], 0))
    return (EVERY_ROW * wp.uint64(columns)) & (ALL >> up) & (ALL << down)


@wp.func
def along(cells: wp.uint64, shift: wp.uint64) -> wp.uint64:
    """Returns these bits rotated by 1 to 63 places: upwards, or downwards by what is missing to 64."""
    return (cells << shift) | (cells >> (wp.uint64(64) - shift))


@wp.func
def ray(start: wp.uint64, empty: wp.uint64, keep: wp.uint64, shift: wp.uint64) -> wp.uint64:
    """Returns what is seen from these cells in a direction: empty cells, and the first that is not."""
    run = along(start & keep, shift)
    seen = run
    run = run & empty & keep
    while run != NOTHING:
        run = along(run, shift)
        seen = seen | run
        run = run & empty & keep
    return seen


@wp.func
def axis_of(direction: int) -> int:
    """Returns which of four lines a direction is in, as an index of `Sight`."""
    return 2 + wp.min(direction, 7 - direction)


@wp.func
def look(board: Board, direction: int, sight: Sight) -> Sight:
    """Returns ``sight`` with what is seen in one direction, and by one jump."""
    step = step_of(direction)
    keep, shift = inside(step), shift_of(step)
    empty, mine = ~occupied(board), board[0]
    king = mine & of_kind(board, KING)
    sliding, pawns = sliders(board, step) & ~mine, of_kind(board, PAWN) & ~mine
    diagonal = step[0] * step[1] != 0

    near = of_kind(board, KING) & ~mine
    if diagonal and step[1] < 0:
        near = near | pawns
    sight[0] = sight[0] | along(near & keep, shift) | ray(sliding, empty | king, keep, shift)
    jump = jump_of(direction)
    knights = of_kind(board, KNIGHT) & ~mine
    sight[0] = sight[0] | along(knights & inside(jump), shift_of(jump))
    sight[1] = sight[1] | (along(king & inside(jump), shift_of(jump)) & knights)

    seen = ray(king, empty, keep, shift)
    if (seen & sliding) != NOTHING:
        sight[1] = sight[1] | seen
    shield = seen & mine
    if shield != NOTHING and (ray(shield, empty, keep, shift) & sliding) != NOTHING:
        axis = axis_of(direction)
        sight[axis] = sight[axis] | shield
    if diagonal and step[1] > 0:
        sight[1] = sight[1] | (along(king & keep, shift) & pawns)
    return sight


@wp.func
def sight_of(board: Board) -> Sight:
    """Returns what limits the moves of the player whose pieces are the own ones."""
    sight = Sight()
    direction = int(0)
    while direction < DIRECTIONS:
        sight = look(board, direction, sight)
        direction += 1
    checks = wp.bit_count(sight[1] & (occupied(board) & ~board[0]))
    if checks == 0:
        sight[1] = ALL
    elif checks > 1:
        sight[1] = NOTHING  # only the king moves
    return sight


@wp.func
def takes_en_passant(board: Board, origin: wp.uint64, target: wp.uint64) -> wp.bool:
    """Returns whether a pawn may go to the cell behind another, which is taken: whether the king is safe then."""
    gone = origin | (target >> wp.uint64(8))
    after = Board((board[0] & ~gone) | target, (board[1] & ~gone) | target, board[2] & ~gone, board[3] & ~gone)
    return (sight_of(after)[0] & after[0] & of_kind(after, KING)) == NOTHING


@wp.func
def pawn_moves(board: Board, step: wp.vec2i, pawns: wp.uint64, sight: Sight, passant: wp.uint64) -> wp.uint64:
    """Returns where pawns go that move by one step; ``passant`` is the cell behind a pawn that has moved by two."""
    ends = along(pawns & inside(step), shift_of(step))
    if step[0] == 0:
        return ends & ~occupied(board) & sight[1]
    taken = ends & occupied(board) & ~board[0] & sight[1]
    back = shift_of(-step)
    mine = board[0] & of_kind(board, PAWN)
    meets = (along(mine & inside(step), shift_of(step)) & passant) != NOTHING
    if meets and takes_en_passant(board, along(passant, back), passant):
        taken = taken | passant
    return taken


@wp.func
def find_moves(
    allowed: wp.array2d[wp.uint64], env: int, board: Board, short: wp.bool, long: wp.bool, passant: wp.uint64
) -> int:
    """Writes, for each of 73 ways, the cells that the player to move may leave like that into ``allowed[env]``.

    Args:
        allowed: uint64[envs, 73].
        env: the environment.
        board: the position.
        short, long: whether the king and the rook at h1, and that at a1, have not moved.
        passant: the cell behind the pawn that has just moved by two, or no cell.

    Returns:
        The sum of CAN_MOVE, if there is a move, IN_CHECK and EN_PASSANT, if a pawn may be taken like that.
    """
    sight = sight_of(board)
    mine, empty = board[0], ~occupied(board)
    king, pawns = mine & of_kind(board, KING), mine & of_kind(board, PAWN)
    shields = sight[2] | sight[3] | sight[4] | sight[5]
    found, taken = wp.uint64(0), wp.uint64(0)

    direction = int(0)
    while direction < DIRECTIONS:
        step = step_of(direction)
        keep, shift = inside(step), shift_of(step)
        free = ~shields | sight[axis_of(direction)]
        ends = along(king & keep, shift) & ~mine & ~sight[0]
        advance = wp.uint64(0)
        if step[1] > 0:
            advance = pawn_moves(board, step, pawns & free, sight, passant)
            taken = taken | (advance & passant)
            promoted = along(advance, shift_of(-step)) & SEVENTH_ROW
            for kind in range(3):
                allowed[env, UNDERPROMOTIONS + 3 * (step[0] + 1) + kind] = promoted
        run = along(mine & sliders(board, step) & free & keep, shift) & ~mine
        ends = ends | advance | (run & sight[1])
        way = direction
        back = wp.uint64(0)
        for _far in range(FARTHEST):
            back = (back - shift) & wp.uint64(63)
            cells = wp.uint64(0)
            if ends != NOTHING:
                cells = along(ends, back)
            allowed[env, way] = cells
            found = found | cells
            run = along(run & empty & keep, shift) & ~mine
            ends = run & sight[1]
            way += DIRECTIONS
        if direction == NORTH:
            pushed = along(pawns & free, shift) & empty & THIRD_ROW
            cells = along(along(pushed, shift) & empty & sight[1], wp.uint64(48))
            allowed[env, NORTH + DIRECTIONS] = allowed[env, NORTH + DIRECTIONS] | cells
            found = found | cells
        jump = jump_of(direction)
        ends = along(mine & of_kind(board, KNIGHT) & ~shields & inside(jump), shift_of(jump)) & ~mine & sight[1]
        cells = along(ends, shift_of(-jump))
        allowed[env, JUMPS + direction] = cells
        found = found | cells
        direction += 1

    if short and (sight[0] & SHORT_WAY) == NOTHING and (empty & SHORT_BETWEEN) == SHORT_BETWEEN:
        allowed[env, EAST + DIRECTIONS] = allowed[env, EAST + DIRECTIONS] | KING_HOME
    if long and (sight[0] & LONG_WAY) == NOTHING and (empty & LONG_BETWEEN) == LONG_BETWEEN:
        allowed[env, WEST + DIRECTIONS] = allowed[env, WEST + DIRECTIONS] | KING_HOME
    flags = wp.where(found != NOTHING, CAN_MOVE, 0)
    flags += wp.where((sight[0] & king) != NOTHING, IN_CHECK, 0)
    return flags + wp.where(taken != NOTHING, EN_PASSANT, 0)
