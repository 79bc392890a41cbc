// The agent of a run: at play now, with the newest or the best weights, or in an episode that was kept.

import { draw, make, say } from "./dom.js";
import { Steer } from "./steer.js";
import { count, number, percent } from "./words.js";

const MOST_BARS = 24;
const TRACE = 400; // steps of an episode whose values are drawn

export class Agent {
  /** `ask(agent)` tells the server whom to let play: {run, source}, or null; `steer(message)` steers a robot. */
  constructor(place, ask, steer) {
    this.ask = ask;
    this.run = null;
    this.tab = null;
    this.tabs = make("div", { class: "tabs", role: "tablist", "aria-label": "What the agent plays" });
    this.said = make("span");
    this.picture = make("canvas", { width: 16, height: 11, hidden: true, role: "img", "aria-label": "the agent at play" });
    this.video = make("video", { controls: true, muted: true, loop: true, playsInline: true, preload: "metadata", hidden: true });
    this.words = make("p", { class: "words" });
    this.go = make("button", { type: "button", class: "go", on: { click: () => this.click(this.offered) } });
    this.screen = make("div", { class: "screen" }, this.picture, this.video, this.words, this.go);
    this.steer = new Steer(this.screen, steer);
    this.bars = make("div", { class: "bars" });
    this.line = draw("polyline", { fill: "none" });
    this.trace = draw("svg", { class: "trace", viewBox: "0 0 300 40", preserveAspectRatio: "none", "aria-hidden": "true" }, this.line);
    this.value = make("p", { class: "soft value" });
    place.append(make("h2", {}, "The agent", this.said), this.screen, this.steer.place, this.bars, this.value, this.trace, this.tabs);
    this.clear("");
  }

  /** Shows the tabs of a run; what is playing goes on. */
  show(run, episodes) {
    if (run.id !== this.run?.id) {
      this.run = run;
      this.shape = "";
      this.pick(null);
    }
    this.run = run;
    const tabs = [];
    if (run.status.kind === "running") tabs.push({ key: "live", label: "live" });
    if (run.has_agent) tabs.push({ key: "best", label: run.status.kind === "running" ? "best so far" : "best, at play" });
    for (const episode of episodes) tabs.push({ key: `${episode.folder}/${episode.file}`, label: named(episode), episode });
    const shape = JSON.stringify([run.id, tabs]);
    if (shape === this.shape) return;
    this.shape = shape;
    this.tabs.replaceChildren(...tabs.map((tab) => make("button", { type: "button", role: "tab", "data-key": tab.key,
      on: { click: () => this.click(tab) } }, tab.label)));
    const film = tabs.find((tab) => tab.episode?.kind === "best") ?? tabs.find((tab) => tab.episode);
    if (!this.tab && film) this.pick(film);
    else if (!this.tab) this.clear(tabs.length ? "" : "There is no agent yet: it comes with the first checkpoint.");
    this.offer(tabs.find((tab) => !tab.episode));
    this.mark();
  }

  /** A tab that plays already ends that. */
  click(tab) {
    this.pick(this.tab?.key === tab.key && !tab.episode ? null : tab);
    if (tab.episode) this.video.play();
  }

  /** A button on the empty screen, with which the agent begins to play. */
  offer(tab) {
    this.offered = tab;
    this.go.hidden = Boolean(this.tab) || !tab;
    say(this.go, tab?.key === "live" ? "▶ Watch it live" : "▶ Let it play");
  }

  pick(tab) {
    this.tab = tab;
    this.clear("");
    this.offer(this.offered);
    const playing = tab && !tab.episode;
    this.ask(playing ? { run: this.run.id, source: tab.key } : null);
    if (playing) say(this.words, "The agent is on its way …");
    if (tab?.episode) {
      this.video.hidden = false;
      this.video.src = `runs/${this.run.id}/${tab.episode.folder}/${encodeURIComponent(tab.episode.file)}`;
      say(this.said, named(tab.episode, true));
    }
    this.mark();
  }

  mark() {
    for (const button of this.tabs.children) button.setAttribute("aria-selected", String(button.dataset.key === this.tab?.key));
  }

  clear(words) {
    this.picture.hidden = true;
    this.video.hidden = true;
    this.video.removeAttribute("src");
    this.video.load();
    this.steer.clear();
    this.bars.replaceChildren();
    this.trace.style.display = "none";
    this.values = [];
    this.episode = null;
    say(this.value, "");
    say(this.said, "");
    say(this.words, words);
  }

  /** A picture with what the agent thought. */
  async take({ run, source, frame, content }) {
    if (run !== this.run?.id || source !== this.tab?.key) return;
    if (frame.error) {
      this.picture.hidden = true;
      say(this.words, frame.error);
    }
    this.steer.show(frame.controls);
    if (!Number.isFinite(frame.step)) return;
    say(this.said, `return ${number(frame.return)} · step ${count(frame.step)}`);
    this.tell(frame);
    if (!content.length) return;
    say(this.words, "");
    const image = await createImageBitmap(new Blob([content], { type: "image/jpeg" }));
    if (this.tab?.key === source) {
      if (this.picture.width !== image.width) this.picture.width = image.width;
      if (this.picture.height !== image.height) this.picture.height = image.height;
      this.picture.getContext("2d").drawImage(image, 0, 0);
      this.picture.hidden = false;
    }
    image.close();
  }

  tell(frame) {
    const heads = frame.probabilities ?? (frame.action_values ? [frame.action_values] : frame.actions ? [frame.actions] : []);
    const bars = heads.flatMap((head, index) => barsOf(head, frame, index)).slice(0, MOST_BARS);
    while (this.bars.children.length > bars.length) this.bars.lastChild.remove();
    while (this.bars.children.length < bars.length) this.bars.append(make("div", {}, make("span"), make("i", {}, make("i")), make("b")));
    bars.forEach((bar, index) => {
      const [name, box, value] = this.bars.children[index].children;
      say(name, bar.name);
      say(value, bar.text);
      box.firstChild.style.marginLeft = `${100 * bar.from}%`;
      box.firstChild.style.width = `${100 * bar.part}%`;
      this.bars.children[index].classList.toggle("taken", bar.taken);
    });
    if (frame.episode !== this.episode) this.values = [];
    this.episode = frame.episode;
    const behind = this.tab.key === "live" && Number.isFinite(frame.trained_steps) ? Math.max(0, this.run.step - frame.trained_steps) : null;
    const age = behind === null ? `weights of step ${count(frame.trained_steps)}` : (behind ? `weights of ${count(behind)} steps ago` : "newest weights");
    const known = Number.isFinite(frame.value);
    say(this.value, known ? `expects ${number(frame.value)} more · ${age}` : age);
    this.trace.style.display = known ? "" : "none";
    if (known) this.extend(frame.value);
  }

  extend(value) {
    this.values.push(value);
    if (this.values.length > TRACE) this.values = this.values.filter((_, index) => index % 2);
    const [low, high] = [Math.min(...this.values), Math.max(...this.values)];
    const last = Math.max(1, this.values.length - 1);
    const points = this.values.map((each, i) => `${((300 * i) / last).toFixed(1)},${(38 - (36 * (each - low)) / (high - low || 1)).toFixed(1)}`);
    this.line.setAttribute("points", points.join(" "));
  }
}

/** What the agent weighs, as bars: chances and values of discrete actions, or the numbers of a continuous one. */
function barsOf(head, frame, index) {
  const chances = Boolean(frame.probabilities);
  const most = Math.max(...head.map((value) => Math.abs(value)), chances ? 1 : 1e-9);
  const taken = chances || frame.action_values ? frame.actions?.[index] : null;
  return head.map((value, action) => ({
    name: frame.meanings?.[action] ?? `action ${action}`,
    text: chances ? percent(value) : number(value),
    from: chances ? 0 : 0.5 + Math.min(0, value / most) / 2,
    part: chances ? value : Math.abs(value / most) / 2,
    taken: taken === action,
  }));
}

function named(episode, long = false) {
  const kind = episode.kind === "video" ? "video" : episode.kind || "episode";
  const earned = Number.isFinite(episode.return) ? ` ${number(episode.return)}` : "";
  return `${kind}${earned}${long || !earned ? ` at ${count(episode.step)} steps` : ""}`;
}
