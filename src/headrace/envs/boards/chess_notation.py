"""Positions and moves of chess as texts: Forsyth-Edwards notation (FEN), and from cell to cell, as UCI names moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.pool.pool import Pool

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
WORDS = 9
"""numbers of a position: see `as_words`"""
STEPS = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if x or y]
JUMPS = [(x, y) for x in range(-2, 3) for y in range(-2, 3) if abs(x) + abs(y) == 3]
PIECES = " pnbrqk"
RIGHTS = {"K": ((4, 0), (7, 0)), "Q": ((4, 0), (0, 0)), "k": ((4, 7), (7, 7)), "q": ((4, 7), (0, 7))}
"""right to castle → where king and rook are"""
MOST_MOVES = 1 << 24
Board = Mapping[tuple[int, int], str]
"""(column, row) → piece, capital if it is white's"""


def canonical(fens: Any) -> tuple[str, ...]:
    """Returns a position, or some, as a tuple of texts.

    Raises:
        TypeError, ValueError: one of them is no text, or no position.
    """
    some = (fens,) if isinstance(fens, str) else tuple(fens)
    if not some:
        raise ValueError("no position")
    return tuple(_as_text(*as_words(fen)) for fen in some)


def as_words(fen: str) -> list[int]:
    """Returns the numbers of a position.

    They are the bits of white's pieces and of those whose kind has the first, second, third bit, a1 first; rights to
    castle; 1 + column + 8 · player of a pawn that has just moved by two, or 0; moves without progress; number of the
    move; and player to move.

    Raises:
        ValueError: there is no such position.
    """
    if not isinstance(fen, str):
        raise TypeError(f"{fen!r} is no text")
    rows, turn, castling, passant, *counts = fen.split()
    idle, number = map(int, counts or (0, 1))
    board = _board(rows)
    mover = "wb".index(turn)
    if castling != "-" and (not castling or any(not _may_castle(board, right) for right in castling)):
        raise ValueError(f"castling {castling}")
    if _is_attacked(board, next(at for at, piece in board.items() if piece == "kK"[mover]), mover == 0):
        raise ValueError("the player who is not to move is in check")
    pieces = [0] * 4
    for (x, y), piece in board.items():
        kind = PIECES.index(piece.lower())
        for i, has in enumerate((piece.isupper(), kind & 1, kind & 2, kind & 4)):
            pieces[i] |= bool(has) << 8 * y + x
    rights = sum(1 << i for i, right in enumerate(RIGHTS) if right in castling)
    if not (0 <= idle <= 100 and 1 <= number < MOST_MOVES):
        raise ValueError(f"counts {idle} {number}")
    return [*pieces, rights, _passant(board, passant, mover), idle, number, mover]


def _board(rows: str) -> Board:
    lines = ["".join(" " * int(c) if c.isdigit() else c for c in row) for row in rows.split("/")]
    if len(lines) != 8 or any(len(line) != 8 for line in lines):
        raise ValueError(f"rows {rows}")
    board = {(x, 7 - y): c for y, line in enumerate(lines) for x, c in enumerate(line) if c != " "}
    pieces = list(board.values())
    if pieces.count("K") != 1 or pieces.count("k") != 1 or not {c.lower() for c in pieces} <= set(PIECES):
        raise ValueError(f"pieces {rows}")
    if any(piece in "pP" and y in (0, 7) for (_, y), piece in board.items()):
        raise ValueError("a pawn on its last row")
    return board


def _may_castle(board: Board, right: str) -> bool:
    if right not in RIGHTS:
        return False
    king, rook = RIGHTS[right]
    return board.get(king, "") + board.get(rook, "") == ("KR" if right.isupper() else "kr")


def _passant(board: Board, cell: str, mover: int) -> int:
    if cell == "-":
        return 0
    x, y = "abcdefgh".index(cell[0]), (5, 2)[mover]
    ahead = 1 - 2 * mover
    if cell[1:] != str(y + 1) or board.get((x, y - ahead)) != "pP"[mover] or {(x, y), (x, y + ahead)} & board.keys():
        raise ValueError(f"en passant {cell}")
    return 1 + x + 8 * (1 - mover)


def _is_attacked(board: Board, cell: tuple[int, int], by_white: bool) -> bool:
    case, behind = (str.upper, -1) if by_white else (str.lower, 1)
    x, y = cell
    near = [("n", step) for step in JUMPS] + [("k", step) for step in STEPS] + [("p", (-1, behind)), ("p", (1, behind))]
    if any(board.get((x + dx, y + dy)) == case(piece) for piece, (dx, dy) in near):
        return True
    for dx, dy in STEPS:
        seen = next((board[at] for i in range(1, 8) if (at := (x + i * dx, y + i * dy)) in board), "")
        if seen and seen in (case("q"), case("b" if dx and dy else "r")):
            return True
    return False


def _as_text(*words: int) -> str:
    white, first, second, third, castling, passant, idle, number, mover = words
    rows = []
    for y in range(7, -1, -1):
        kinds = [(first >> b & 1) + 2 * (second >> b & 1) + 4 * (third >> b & 1) for b in range(8 * y, 8 * y + 8)]
        row = "".join(PIECES[kind].upper() if white >> 8 * y + x & 1 else PIECES[kind] for x, kind in enumerate(kinds))
        for gap in range(8, 0, -1):
            row = row.replace(" " * gap, str(gap))
        rows.append(row)
    rights = "".join(right for i, right in enumerate(RIGHTS) if castling >> i & 1)
    cell = "abcdefgh"[(passant - 1) % 8] + "36"[mover == 0] if passant else "-"
    return f"{'/'.join(rows)} {'wb'[mover]} {rights or '-'} {cell} {idle} {number}"


def fen_of(pool: Pool, env_id: int = 0) -> str:
    """Returns the position of an environment of Chess-v1 in Forsyth-Edwards notation.

    The cell behind a pawn that has just moved by two is there also if no pawn can take it.

    Raises:
        OptionError: the pool is of another task.
    """
    rows = pool.state_arrays(["positions", "castling", "passant", "idle", "number", "mover"], [env_id])
    board, castling, passant, idle, number, mover = (row[0] for row in rows.values())
    return _as_text(*board[0].tolist(), int(castling), int(passant) & 31, int(idle), int(number), int(mover))


def moves_of(pool: Pool, env_id: int = 0) -> dict[str, int]:
    """Returns the allowed moves of an environment of Chess-v1: name as UCI has it (``e2e4``, ``e7e8q``) → action.

    Raises:
        OptionError: the pool is of another task.
    """
    rows = pool.state_arrays(["positions", "allowed", "mover", "ending"], [env_id])
    board, allowed, mover, ending = (row[0] for row in rows.values())
    white, first, second, third = board[0].tolist()
    pawns = first & ~second & ~third & (~white if mover else white)
    moves = {}
    for way, cells in enumerate(allowed.tolist() if ending == 0 else ()):
        for bit in np.flatnonzero([cells >> i & 1 for i in range(64)]).tolist():
            y, x = divmod(bit, 8)
            step, far = _way(way)
            to = y + far * step[1]
            is_pawn = pawns >> (bit ^ (56 if mover else 0)) & 1
            becomes = "nbr"[(way - 64) % 3] if way >= 64 else "q" if is_pawn and to == 7 else ""
            name = _cell(x, y, mover) + _cell(x + far * step[0], to, mover) + becomes
            moves[name] = (8 * x + y) * 73 + way
    return moves


def _way(way: int) -> tuple[tuple[int, int], int]:
    if way < 56:
        return STEPS[way % 8], 1 + way // 8
    return (JUMPS[way - 56], 1) if way < 64 else (((way - 64) // 3 - 1, 1), 1)


def _cell(x: int, y: int, mover: int) -> str:
    return "abcdefgh"[x] + str(8 - y if mover else y + 1)
