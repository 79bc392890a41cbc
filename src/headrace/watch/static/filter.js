// Which runs a filter lets through: words, and settings with a value.

const CONDITION = /^([\w.]+)(=|>|<)(.*)$/;

/** A test of a run's summary; all parts of the filter must hold. */
export function filterOf(text) {
  const tests = text.trim().split(/\s+/).filter(Boolean).map(part);
  return (run) => tests.every((test) => test(run));
}

function part(text) {
  const condition = CONDITION.exec(text);
  if (condition) {
    const [, name, sign, wanted] = condition;
    return (run) => holds(settingOf(run, name), sign, wanted.toLowerCase());
  }
  const word = text.toLowerCase();
  return (run) => said(run).includes(word);
}

const said = (run) => [run.task, run.algo, run.name, run.status.kind, `seed ${run.seed}`, run.notes.name, ...run.notes.tags].join(" ").toLowerCase();

/** A setting, also one of the task's own options; or the status, or the tags. */
export function settingOf(run, name) {
  if (name === "status") return run.status.kind;
  if (name === "tags") return run.notes.tags.join(", ");
  if (name in run.config) return run.config[name];
  return run.config.env_options?.[name];
}

/** The groups of a run by a setting: its value, or each of its tags. */
export const valuesOf = (run, name) => (name === "tags" && run.notes.tags.length ? run.notes.tags : [settingOf(run, name)]);

function holds(found, sign, wanted) {
  if (found === undefined) return false;
  const number = wanted === "" ? NaN : Number(wanted);
  if (sign === ">") return typeof found === "number" && found > number;
  if (sign === "<") return typeof found === "number" && found < number;
  if (typeof found === "number") return Number.isNaN(number) ? false : found === number;
  return (typeof found === "string" ? found : JSON.stringify(found)).toLowerCase() === wanted;
}
