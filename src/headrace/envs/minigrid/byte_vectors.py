"""C code that writes what the agent sees as an image, for CPUs: by vectors of 64 bytes instead of cell by cell.

It is the body of `headrace.envs.minigrid.sight.show_view`, and does what `show_rows` does in loops over cells, which
GPUs and debug mode use. On a CPU those loops took more than half of a step.
"""

from headrace.envs.minigrid.world import WALL

SIDE = 7  # cells of the view, across and ahead


def _shuffle(first: str, second: str, picked: list[int]) -> str:
    """Returns the C expression of a vector with these bytes of two others; -1 for any."""
    return f"__builtin_shufflevector({first}, {second}, {', '.join(map(str, picked))})"


def _interleaved(first: int) -> str:
    """Returns the C expression of 64 bytes of the image, which has a kind, colour and state for each cell."""
    cells = [y * 8 + x for x in range(SIDE) for y in range(SIDE)]
    wanted = [(cells[i // 3], i % 3) for i in range(first, first + 64)]
    pairs = _shuffle("kind", "color", [cell + 64 * part if part < 2 else -1 for cell, part in wanted])
    both = [i if part < 2 else 64 + cell for i, (cell, part) in enumerate(wanted)]
    return _shuffle(pairs, "condition", both)


SHOW_VIEW = f"""
#if !defined(__CUDA_ARCH__)
    typedef unsigned char Bytes __attribute__((vector_size(64)));
    typedef unsigned long long Word;
    const Word every = 0x01010101010101ull;
    const int direction = wp::index(state.direction, env), width = state.width, height = state.height;
    // the corner of the world's cells that the view covers
    const int left = wp::index(state.x, env) - (0x3630 >> 4 * direction & 15);
    const int top = wp::index(state.y, env) - (0x6303 >> 4 * direction & 15);
    const bool upwards = direction == 1 || direction == 2;
    const unsigned char* cells = &wp::index(state.cells, env, 0);
    const int last = width * height - 8, from = left < 0 ? -left : 0, beyond = width - left < 7 ? width - left : 7;
    const Word inside = (every << 8 * from) & (every >> 8 * (7 - beyond)), shown = inside * 255;
    const Word flip = 0 - (Word)(direction < 2);
    // the view's rows from the farthest on, or its columns where the agent looks along a row of the world
    Word words[8];
    for (int i = 0; i < 8; ++i) {{
        const int line = top + (upwards ? 6 - i : i), at = line * width + left;
        const int near = at < 0 ? 0 : at > last ? last : at, shift = at - near;
        Word word;
        __builtin_memcpy(&word, cells + near, 8);
        word = word >> (8 * (shift > 0 ? shift : 0) & 63) << (8 * (shift < 0 ? -shift : 0) & 63);
        const Word mask = (unsigned)line < (unsigned)height ? shown : 0;
        word = (word & mask) | (every * {int(WALL)} & ~mask);
        words[i] = (__builtin_bswap64(word) >> 8 & flip) | (word & ~flip);
    }}
    Bytes seen;  // row by row from the farthest on, eight bytes each
    __builtin_memcpy(&seen, words, 64);
    const Bytes across = (unsigned char)((direction & 1) - 1) + Bytes{{}};
    seen = ({_shuffle("seen", "seen", [i % 8 * 8 + i // 8 for i in range(64)])} & across) | (seen & ~across);
    // what the agent carries is where it stands
    seen[{6 * 8 + 3}] = (unsigned char)wp::index(state.carrying, env);
    if (!state.see_through) {{
        typedef bool Bits __attribute__((ext_vector_type(64)));
        typedef unsigned char Flags __attribute__((ext_vector_type(64)));
        const Bits transparent = __builtin_convertvector((Flags)((seen & 0x8C) != 0x0C), Bits);
        const Word clear = __builtin_bit_cast(Word, transparent);
        const unsigned char* spread = &wp::index(state.spread, 0);
        Word visible = 0, lit = 8;
        for (int y = 6; y >= 0; --y) {{
            const Word further = spread[(clear >> 8 * y & 127) << 7 | lit];
            visible |= (lit | further) << 8 * y;
            lit = further;
        }}
        seen &= (Bytes)-__builtin_convertvector(__builtin_bit_cast(Bits, visible), Flags);
    }}
    const Bytes of = seen & 15, none = {{}};
    const auto filled = seen > 127;
    const Bytes kind = filled ? none + 7 : of > 12 ? none + 4 : of == 12 ? none + 2 : of;
    const Bytes color = (filled ? seen >> 3 : seen >> 4) & 7;
    const Bytes condition = filled ? none : of > 12 ? of - 12 : none;
    unsigned char* bytes = &wp::index(image, 0, 0, 0);
    Bytes part = {_interleaved(0)};
    __builtin_memcpy(bytes, &part, 64);
    part = {_interleaved(64)};
    __builtin_memcpy(bytes + 64, &part, 64);
    part = {_interleaved(83)};
    __builtin_memcpy(bytes + 83, &part, 64);
#endif
"""
