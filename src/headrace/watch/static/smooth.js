// Curves that are smoothed, as headrace plot --smooth does it.

/** A curve {x, y, …} of which each point is the mean of those before it within a share of the curve's length. */
export function smoothed(curve, share) {
  const { x, y } = curve;
  if (!share || x.length < 2) return curve;
  const width = share * (x[x.length - 1] - x[0]);
  const sums = new Float64Array(x.length); // from a point up to `end`; none is ever subtracted, so a huge value leaves no trace
  const means = [];
  let [first, end, rest] = [0, 0, 0];
  for (let i = 0; i < x.length; i++) {
    rest += y[i];
    while (x[first] < x[i] - width) first++;
    if (first >= end) {
      for (let j = i, sum = 0; j >= first; j--) sums[j] = sum += y[j];
      [end, rest] = [i + 1, 0];
    }
    means.push((sums[first] + rest) / (i + 1 - first));
  }
  return { ...curve, y: means };
}
