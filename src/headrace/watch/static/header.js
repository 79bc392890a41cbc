// The head of a run: what it is, how it stands, how far it is and how long it still takes.

import { make, say } from "./dom.js";
import { Notes } from "./notes.js";
import { count, duration, isOld, moment, number } from "./words.js";

const CHIPS = { running: "good", solved: "good", finished: "a", interrupted: "warn", killed: "bad", failed: "bad", damaged: "bad" };

const MOST_POLICIES = 3;

export class Header {
  constructor() {
    this.title = make("h1");
    this.chip = make("span", { class: "chip", role: "status" });
    this.about = make("span", { class: "soft" });
    this.figures = make("div", { class: "figs" });
    this.bar = make("i");
    this.progress = make("div", { class: "progress", role: "progressbar", "aria-valuemin": "0", "aria-valuemax": "100", "aria-label": "steps done" }, this.bar);
    this.words = make("p", { class: "state" });
    this.notes = new Notes();
    this.element = make("div", { class: "head" }, make("header", {}, this.title, this.chip, this.about, this.figures), this.progress, this.words,
      this.notes.element);
  }

  /** Shows a run; `runs` are those of its line. */
  show(run, runs) {
    const { status } = run;
    this.notes.show(run, runs);
    say(this.title, run.notes.name || titleOf(run));
    say(this.chip, status.kind);
    this.chip.style.setProperty("--k", `var(--${CHIPS[status.kind] ?? "soft"})`);
    say(this.about, about(run));
    const { step, rate, return: earned, evaluated } = run;
    const total = run.config.total_steps;
    const figures = [];
    const policies = Object.entries(run.returns);
    for (const [name, value] of policies.slice(0, MOST_POLICIES)) figures.push([number(value), `return of ${name}`]);
    const returns = [];
    if (evaluated !== null) returns.push([number(evaluated), `evaluated at step ${count(run.evaluated_step)}, without exploration`]);
    if (earned !== null && !policies.length) returns.push([number(earned), `${evaluated === null ? "" : "training "}${run.elo ? "Elo" : told(run.config)}`]);
    figures.push(...(isOld(run) ? returns.reverse() : returns));
    if (rate) figures.push([`${number(rate)} /s`, "agent steps"]);
    if (step) figures.push([total ? `${count(step)} of ${count(total)}` : count(step), "steps"]);
    const left = status.kind === "running" && rate && total > step ? (total - step) / rate : null;
    if (left !== null) figures.push([`${run.config.stop_at_return ? "≤ " : ""}${duration(left)}`, "left"]);
    else if (run.seconds) figures.push([duration(run.seconds), "of training"]);
    this.showFigures(figures);
    const done = total ? Math.min(1, (step || 0) / total) : 0;
    this.progress.hidden = !total;
    this.progress.setAttribute("aria-valuenow", String(Math.round(100 * done)));
    this.bar.style.setProperty("--part", done);
    this.showState(run);
  }

  showFigures(figures) {
    while (this.figures.children.length > figures.length) this.figures.lastChild.remove();
    while (this.figures.children.length < figures.length) this.figures.append(make("div", { class: "fig" }, make("b"), make("span")));
    figures.forEach(([value, name], index) => {
      say(this.figures.children[index].children[0], value);
      say(this.figures.children[index].children[1], name);
    });
  }

  showState({ status }) {
    const shape = JSON.stringify(status);
    if (shape === this.shape) return;
    this.shape = shape;
    const words = { killed: `last seen ${moment(status.when)}: ${status.text}` }[status.kind] ?? status.text;
    this.words.className = ["failed", "damaged", "killed"].includes(status.kind) ? "state bad" : "state";
    this.words.replaceChildren(status.kind === "running" ? "" : words);
    if (!status.resume) return;
    const copy = make("button", { type: "button", class: "plain", on: { click: async () => {
      await navigator.clipboard?.writeText(status.resume);
      say(copy, "copied");
    } } }, "copy");
    this.words.append(" · go on with ", make("code", {}, status.resume), " ", copy);
  }
}

/** What the return is: the mean of the last episodes, and what it is to be. */
function told({ stop_at_return: goal, stop_episodes: episodes }) {
  if (Number.isFinite(goal)) return `return, goal ${number(goal)}`;
  return episodes ? `return, last ${number(episodes)} episodes` : "return";
}

const titleOf = (run) => (run.task ? `${run.task} · ${run.algo}` : run.name);

function about(run) {
  const words = [run.notes.name ? titleOf(run) : null, run.seed === null || run.seed === undefined ? null : `seed ${run.seed}`, run.name];
  if (run.resumed) words.push(run.resumed === 1 ? "resumed once" : `resumed ${run.resumed} times`);
  if (run.restarts) words.push(run.restarts === 1 ? "a worker was restarted" : `${run.restarts} restarts of workers`);
  if (run.updates) words.push(`updates: ${run.updates}`);
  if (run.status.kind !== "running" && run.status.when) words.push(moment(run.status.when));
  return words.filter(Boolean).join(" · ");
}
