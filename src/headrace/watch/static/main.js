// The page: what is chosen, what the server says, and when it is drawn.

import { Data } from "./data.js";
import { forgetColours, make, say } from "./dom.js";
import { differences, linesOf } from "./lines.js";
import { Link } from "./link.js";
import { List } from "./list.js";
import { takeSpent } from "./queue.js";
import { View } from "./view.js";

const CALM = 1000; // milliseconds between two drawings of what is new, at least
const CALMEST = 5000;
const SHARE = 0.01; // of the time, what drawing may take
const MOST = 100; // runs drawn at once
const THEMES = ["", "light", "dark"];

const by = (id) => document.getElementById(id);
const state = { runs: new Map(), roots: [], chosen: [], joined: true, by: "", hidden: false, filter: "", axis: "step", range: null, focus: null, smooth: 0 };
const slots = new Map();
const data = new Data();
let [drawn, cost, pending, known, view] = [0, 0, null, false, null];

const link = new Link(hear, (connected) => {
  by("link").hidden = connected;
  say(by("link"), "The server does not answer: what is shown stays, and goes on once headrace watch runs again.");
});
const list = new List(by("list"), toggle);

function hear(message) {
  if (message.kind === "runs") hearRuns(message);
  else if (message.kind === "picture") return view?.agent.take(message);
  else if (message.kind === "refused") return view?.agent.steer.refuse(message.words);
  else data.take(message);
  redraw(false);
}

function hearRuns({ changed, gone, roots }) {
  const more = changed.some((run) => !state.runs.has(run.id));
  for (const run of changed) state.runs.set(run.id, run);
  if (more) showGroups();
  for (const id of gone) state.runs.delete(id);
  state.roots = roots;
  if (known || !state.runs.size) return;
  known = true;
  fromAddress();
  if (!state.chosen.length) state.chosen = newest();
  ask();
}

/** Offers to group by what the runs differ in. */
function showGroups() {
  const settings = differences([...state.runs.values()].map((run) => ({ runs: [run] })));
  const names = [...new Set(["task", "algo", "status", "tags", ...settings])];
  by("by").replaceChildren(make("option", { value: "" }, "time"), ...names.map((name) => make("option", {}, name)));
  by("by").value = state.by;
}

/** The run that is looked at first: the newest of those that train, or of all. */
function newest() {
  const order = (run) => [run.status.kind === "running" ? 1 : 0, run.status.when];
  const runs = [...state.runs.values()].filter((run) => !run.notes.hidden).sort((a, b) => order(b)[0] - order(a)[0] || order(b)[1] - order(a)[1]);
  return runs.slice(0, 1).map((run) => run.id);
}

function toggle(ids, alone) {
  if (alone) state.chosen = ids.slice(0, MOST);
  else if (ids.every((id) => state.chosen.includes(id))) state.chosen = state.chosen.filter((id) => !ids.includes(id));
  else state.chosen = [...new Set([...state.chosen, ...ids])].slice(0, MOST);
  if (alone || !state.chosen.includes(state.focus)) state.focus = null;
  state.range = null;
  ask();
}

/** Tells the server what is shown, and the address bar; draws it. */
function ask() {
  data.keepOnly(state.chosen);
  const [low, high] = state.range ?? [null, null];
  link.say({ runs: state.chosen, axis: state.axis, low, high });
  remember();
  redraw(true);
}

/** Says in the address what is shown, so that it is there again after a reload. */
function remember() {
  const words = new URLSearchParams({ runs: state.chosen.join(","), axis: state.axis });
  if (!state.joined) words.set("joined", "no");
  if (state.by) words.set("by", state.by);
  if (state.smooth) words.set("smooth", state.smooth);
  history.replaceState(null, "", `#${words.toString().replaceAll("%2C", ",")}`);
}

function fromAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  state.chosen = (words.get("runs") ?? "").split(",").filter((id) => state.runs.has(id));
  if (["step", "seconds", "updates"].includes(words.get("axis"))) state.axis = words.get("axis");
  state.smooth = Math.min(1, Math.max(0, Number(words.get("smooth")) || 0));
  state.joined = words.get("joined") !== "no";
  by("join").checked = state.joined;
  by("by").value = words.get("by") ?? "";
  state.by = by("by").value;
}

/** Draws soon; what is only new data waits, so that drawing takes little of the machine. */
function redraw(now) {
  const wait = now ? 0 : Math.max(0, drawn + Math.min(CALMEST, Math.max(CALM, cost / SHARE)) - performance.now());
  if (pending && (!now || pending.now)) return;
  if (pending) clearTimeout(pending.timer);
  pending = { now, timer: setTimeout(() => requestAnimationFrame(drawAll), wait) };
}

function drawAll() {
  pending = null;
  const began = performance.now();
  const runs = state.chosen.map((id) => state.runs.get(id)).filter(Boolean);
  const lines = linesOf(runs, state.joined, slots, state.by);
  const shown = list.show(state, lines);
  const all = `${state.runs.size} ${state.runs.size === 1 ? "run" : "runs"}`;
  if (state.roots.length) say(by("count"), shown === state.runs.size ? all : `${shown} of ${all}`);
  by("hiding").hidden = ![...state.runs.values()].some((each) => each.notes.hidden);
  const run = runs.find((each) => each.id === state.focus) ?? runs[0];
  if (run) {
    view ??= build();
    view.show({ lines, run, axis: state.axis, range: state.range, smooth: state.smooth });
  }
  by("view").hidden = !run;
  document.title = run ? `${run.task || run.name} ${run.status.kind} · Headrace` : "Headrace";
  drawn = performance.now();
  cost = drawn - began + takeSpent();
}

function build() {
  return new View(by("view"), data, {
    zoom: (range) => { state.range = range; ask(); },
    axis: (axis) => { state.axis = axis; state.range = null; ask(); },
    smooth: (share) => { state.smooth = share; redraw(true); },
    remember,
    focus: (run) => { state.focus = run; redraw(true); },
    agent: (asked) => link.say({ agent: asked }),
    steer: (said) => link.once({ steer: said }),
    redraw: () => redraw(true),
  });
}

by("filter").addEventListener("input", (event) => { state.filter = event.target.value; redraw(true); });
by("join").addEventListener("change", (event) => { state.joined = event.target.checked; ask(); });
by("by").addEventListener("change", (event) => { state.by = event.target.value; ask(); });
by("hidden").addEventListener("change", (event) => { state.hidden = event.target.checked; redraw(true); });
by("clear").addEventListener("click", () => { state.chosen = []; ask(); });
by("theme").addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length]));
addEventListener("hashchange", () => { if (known) { fromAddress(); ask(); } }); // else once the runs are there
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);

const theme = () => document.documentElement.dataset.theme ?? "";

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  try {
    localStorage.setItem("headrace-theme", name);
  } catch { /* a browser that keeps nothing */ }
  say(by("theme"), name || "theme");
  recolour();
}

function recolour() {
  forgetColours();
  view?.redraw();
}

try {
  setTheme(localStorage.getItem("headrace-theme") ?? "");
} catch {
  setTheme("");
}

redraw(true);
