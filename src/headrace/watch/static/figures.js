// Which charts there are: they follow from the names of the columns, so that whatever an algorithm reports is drawn.

const AXES = new Set(["step", "iteration", "updates", "time/seconds", "time/unix", "evaluation/step"]);
const RANK = /^time\/ranks\/(\d+)\/(\w+)$/;
const POLICY = /^policies\/([^/]+)\/(.+)$/;
const RATES = /^time\/(?:steps_)?per_second\//;
const MEMORY = /^time\/memory\//;
const BYTES = /^(time\/memory\/|cluster\/\w+_bytes$)/;
const SPLIT = /^time\/[^/]+$/;
const HARDWARE = /^time\/(cores|gpu)(\/|$)/;
const CLUSTER = /^cluster\//;
const AGE = /^(staleness|age)(\/|$)/;
/** Part of a column's name → what a title says, one after the other. */
const TITLES = [
  [AGE, "age of the data, "],
  [/^(loss|time|metrics)\//, ""],
  [/^cluster\/(\w+)_bytes$/, "cluster, $1 a second"],
  [CLUSTER, "cluster, "],
  [/^ranks\/(\w+)$/, "$1, by rank"],
  [/, $/, ""],
];

/**
 * The columns of some runs as charts: {learning, machine, age, more}, each a list of {key, title, columns, bytes};
 * `columns` are {name, policy}, all drawn in one chart; a policy, or a rank of processes that train together, has a line.
 */
export function figuresOf(names) {
  const found = { learning: new Map(), machine: new Map(), age: new Map(), more: new Map() };
  const policies = names.some((name) => POLICY.test(name));
  for (const name of names) {
    if (AXES.has(name) || isPart(name)) continue;
    const [, rank, measure] = RANK.exec(name) ?? [];
    const [, policy, rest] = rank ? [null, `rank ${rank}`, `ranks/${measure}`] : POLICY.exec(name) ?? [null, null, name];
    if (["return", "evaluation/return", "elo"].includes(rest)) continue; // the large chart has them
    if (policies && !policy && name.startsWith("loss/")) continue; // the first policy's again
    const section = sectionOf(rest);
    const title = TITLES.reduce((words, [from, to]) => words.replace(from, to), rest);
    const key = `${section} ${title}`;
    if (!found[section].has(key)) found[section].set(key, { key, title, columns: [], bytes: BYTES.test(rest) });
    found[section].get(key).columns.push({ name, policy });
  }
  return Object.fromEntries(Object.entries(found).map(([section, figures]) => [section, [...figures.values()]]));
}

/** The columns of the parts that time is spent on, which are cumulative seconds. */
export const isPart = (name) => SPLIT.test(name) && !AXES.has(name) && !HARDWARE.test(name);

/** The returns to draw: each policy's, or the run's; of self-play, whose mean return is always 0, its Elo. */
export function returnsOf(names) {
  if (names.includes("elo")) return [{ name: "elo", policy: null }];
  const each = names.map((name) => [name, POLICY.exec(name)]).filter(([, found]) => found?.[2] === "return");
  return each.length ? each.map(([name, found]) => ({ name, policy: found[1] })) : [{ name: "return", policy: null }];
}

function sectionOf(name) {
  if (name.startsWith("loss/") || name.startsWith("metrics/")) return "learning";
  if (MEMORY.test(name) || HARDWARE.test(name)) return "machine";
  if (CLUSTER.test(name) || name.startsWith("ranks/")) return "machine";
  if (AGE.test(name)) return "age";
  return "more";
}
