// The processes that train together, as torchrun or --devices has started them: where each is, and how fast.

import { make, say } from "./dom.js";
import { number, percent } from "./words.js";

const COLUMNS = [
  ["rank", ({ rank }) => rank],
  ["host", ({ host }) => host],
  ["device", ({ device }) => device],
  ["steps it collects a second", (each) => number(each.steps_per_second)],
  ["cores in use", ({ cores }) => number(cores)],
  ["GPU in use", ({ gpu }) => percent(gpu ?? NaN)],
];

export class Ranks {
  constructor(place) {
    this.place = place;
    this.said = make("span");
    this.body = make("tbody");
    const heads = COLUMNS.map(([name]) => make("th", { scope: "col" }, name));
    const table = make("table", { class: "tuned" }, make("thead", {}, make("tr", {}, ...heads)), this.body);
    place.append(make("h2", {}, "Processes", this.said), make("div", { class: "scroll" }, table));
  }

  show({ ranks }) {
    this.place.hidden = ranks.length < 2;
    if (this.place.hidden) return;
    const hosts = new Set(ranks.map(({ host }) => host)).size;
    say(this.said, `${ranks.length} on ${hosts === 1 ? "one machine" : `${hosts} machines`}`);
    this.body.replaceChildren(...ranks.map((each) => make("tr", {}, ...COLUMNS.map(([, tell]) => make("td", {}, tell(each))))));
  }
}
