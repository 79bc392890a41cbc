// Fewer points that look the same: of points that lie together, the lowest and the highest.

/** A curve {x, y, …} with at most about `most` points, of which those in `range` count. */
export function thinned(curve, most, range) {
  const { x, y } = curve;
  const [first, last] = range ? within(x, range) : [0, x.length];
  if (first === 0 && last === x.length && x.length <= most) return curve;
  if (last - first <= most) return { ...curve, x: x.slice(first, last), y: y.slice(first, last) };
  const size = Math.ceil((2 * (last - first)) / (most - 2));
  const kept = [[], []];
  for (let from = first; from < last; from += size) {
    let [low, high] = [from, from];
    for (let i = from + 1; i < Math.min(last, from + size); i++) {
      if (y[i] < y[low]) low = i;
      if (y[i] > y[high]) high = i;
    }
    for (const i of low === high ? [low] : [Math.min(low, high), Math.max(low, high)]) {
      kept[0].push(x[i]);
      kept[1].push(y[i]);
    }
  }
  if (kept[0].at(-1) !== x[last - 1]) {
    kept[0].push(x[last - 1]);
    kept[1].push(y[last - 1]);
  }
  return { ...curve, x: kept[0], y: kept[1] };
}

/** The places of the points in a range, and of the neighbours on both sides. */
function within(x, [low, high]) {
  let first = 0;
  while (first < x.length && x[first] < low) first++;
  let last = x.length;
  while (last > 0 && x[last - 1] > high) last--;
  return [Math.max(0, first - 1), Math.min(x.length, Math.max(first, last) + 1)];
}
