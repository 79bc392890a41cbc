// A chart of lines over uPlot: read-out under the pointer, zoom by dragging or by keys, download as PNG.

import uPlot from "./vendor/uplot/uPlot.esm.js";
import { AXES } from "./data.js";
import { colour, faint, make } from "./dom.js";
import { soon } from "./queue.js";
import { thinned } from "./thin.js";
import { count, duration, marks, number } from "./words.js";

const KEY_STEP = 12; // pixels that an arrow key moves the read-out
const MOST_TOLD = 12; // lines in a read-out
const POINTS = 7; // that are drawn for each pixel of a chart's width, of all lines together
const FEWEST = 100; // of one line
const MANY = 8; // lines, of which each is drawn thin
const DEEPEST = 1e-5; // of the whole axis, how small a part of it can be shown
const FINEST = 1e-7; // of a number on it

/**
 * One chart.
 *
 * `zoomed(low, high)` is called when somebody zooms, with nulls when they show all again; `steps` are distances that the
 * marks of values may have.
 */
export class Chart {
  constructor(place, { label, height = 150, zoomed = () => {}, write = number, small = false, steps = undefined }) {
    this.place = place;
    this.height = height;
    this.zoomed = zoomed;
    this.write = write;
    this.small = small;
    this.steps = steps;
    this.label = label;
    this.shape = "";
    this.range = null;
    this.tip = make("div", { class: "tip", hidden: true });
    place.classList.add("chart");
    place.style.setProperty("min-height", `${height}px`); // also before it is drawn, so that nothing jumps as one scrolls
    place.tabIndex = 0;
    place.setAttribute("role", "group");
    place.addEventListener("keydown", (event) => this.onKey(event));
    place.addEventListener("blur", () => this.hideTip());
    this.visible = false;
    this.due = null;
    this.drawDue = () => this.drawNow();
    new ResizeObserver(() => this.fit()).observe(place);
    new IntersectionObserver(([entry]) => this.seen(entry.isIntersecting), { rootMargin: "400px" }).observe(place);
  }

  /**
   * Draws lines: [{label, colour, dash, x, y, low, high, width, markers, quiet}]; `axis` says what x is. What cannot be
   * seen is drawn once it can.
   */
  show(lines, axis) {
    this.due = [lines, axis];
    if (this.visible) soon(this.drawDue);
  }

  seen(visible) {
    this.visible = visible;
    if (visible && this.due) soon(this.drawDue);
  }

  drawNow() {
    if (!this.due || !this.place.isConnected) return;
    const [lines, axis] = this.due;
    this.due = null;
    const other = axis !== this.axis;
    const most = Math.max(FEWEST, (POINTS * this.place.clientWidth) / Math.max(3, lines.length));
    this.ends = [Math.min(...lines.map(({ x }) => x[0] ?? Infinity)), Math.max(...lines.map(({ x }) => x.at(-1) ?? -Infinity))];
    this.lines = lines.map((line) => (line.low || line.fill || line.markers ? line : thinned(line, most, this.range)));
    this.axis = axis;
    const shape = JSON.stringify(this.lines.map((line) => [line.colour, line.dash, line.width, line.markers, line.quiet,
      Boolean(line.low), line.fill]));
    const data = table(this.lines);
    if (this.plot && shape === this.shape && !other) {
      this.plot.batch(() => {
        this.plot.setData(data, false);
        this.rescale();
      });
    } else {
      this.build(data, shape);
      this.rescale();
    }
    const said = this.lines.filter((line) => line.y.length && !line.quiet && !line.markers)
      .map((line) => `${line.label} ${this.write(line.y.at(-1))} at ${this.along(line.x.at(-1))}`);
    this.place.setAttribute("aria-label", `${this.label} against ${AXES[axis].label}: ${said.slice(0, 6).join(", ") || "nothing yet"}`
      + ". Arrow keys read values, plus and minus zoom, 0 shows all.");
  }

  /** A place on the axis in words. */
  along(at) {
    return this.axis === "seconds" ? duration(at) : `${Math.round(at).toLocaleString("en")} ${AXES[this.axis].label}`;
  }

  /** Shows a part of the axis from now on, or all of it for null. */
  zoom(range) {
    this.range = range;
  }

  rescale() {
    const [low, high] = this.range ?? this.ends.map((end, i) => (Number.isFinite(end) ? end : i));
    this.plot.setScale("x", { min: low, max: high > low ? high : low + 1 });
  }

  /** Somebody zooms to a part of the axis, but not deeper than numbers reach. */
  zoomTo(low, high) {
    if (high - low > Math.max(DEEPEST * (this.ends[1] - this.ends[0]), FINEST * Math.abs(high))) this.zoomed([low, high]);
  }

  redraw() {
    this.plot?.redraw(false, true);
  }

  build(data, shape) {
    this.plot?.destroy();
    this.shape = shape;
    const series = [{}];
    const bands = [];
    for (const line of this.lines) {
      series.push(this.series(line));
      if (line.low) {
        const edge = { stroke: "transparent", points: { show: false }, spanGaps: true, class: "unread" };
        bands.push({ series: [series.length + 1, series.length], fill: () => faint(line.colour, 0.17) });
        series.push({ ...edge }, { ...edge });
      }
    }
    const options = {
      ...this.size(),
      series,
      bands,
      pxAlign: 0,
      axes: this.axes(),
      scales: { x: { time: false, auto: false }, y: { range: (_, low, high) => spread(low, high) } },
      legend: { show: false },
      padding: [8, 16, 0, 0],
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false },
        hover: { skip: [undefined, null], prox: 30 }, // a line is read at its nearest point, if that is near
        points: { size: 7 },
        bind: { dblclick: () => () => this.zoomed(null) },
      },
      hooks: {
        setCursor: [() => this.tell()],
        setSelect: [(plot) => this.select(plot)],
      },
    };
    this.plot = new uPlot(options, data, this.place);
    this.plot.over.append(this.tip);
    this.plot.over.addEventListener("mouseleave", () => this.hideTip());
  }

  series(line) {
    const stroke = () => (line.quiet ? faint(line.colour, 0.35) : colour(line.colour));
    if (line.markers) {
      const points = { show: true, size: 8, fill: stroke, stroke: () => colour("card"), width: 1.5 };
      return { stroke, paths: () => null, points };
    }
    const fill = line.fill ? stroke : undefined;
    const width = line.fill ? 0 : line.width ?? (line.quiet || this.lines.length > MANY ? 1 : 1.8);
    const points = { show: line.y.length === 1, size: 6, fill: stroke };
    return { stroke, fill, width, dash: line.dash, spanGaps: true, points, class: line.quiet ? "unread" : "read" };
  }

  axes() {
    const font = "11px Inter, system-ui, sans-serif";
    const shared = { stroke: () => colour("soft"), font, ticks: { show: false } };
    const along = this.axis === "seconds" ? (v, digits) => duration(v, digits).replace(".0 ", " ") : count;
    return [
      { ...shared, grid: { show: false }, size: 24, gap: 4, space: this.small ? 60 : 80, values: (_, ticks) => marks(ticks, along) },
      { ...shared, grid: { stroke: () => colour("grid"), width: 1 }, gap: 4, space: this.small ? 26 : 40, incrs: this.steps,
        size: (plot, values) => Math.max(30, 12 + 6.2 * Math.max(0, ...(values ?? []).map((v) => v.length))),
        values: (_, ticks) => marks(ticks, this.write) },
    ];
  }

  /** The line that a series of the plot shows; undefined for the edge of a band. */
  owner(index) {
    let at = 1;
    for (const line of this.lines) {
      if (at === index) return line;
      at += line.low ? 3 : 1;
    }
    return undefined;
  }

  tell() {
    const { plot, tip } = this;
    const { left, idxs } = plot.cursor;
    if (left === undefined || left < 0 || !idxs) return this.hideTip();
    const rows = [];
    let at = null;
    for (let index = 1; index < plot.series.length; index++) {
      const [line, row] = [this.owner(index), idxs[index]];
      if (!line || line.quiet || row === null || row === undefined) continue;
      const value = line.told ? line.told[row] : plot.data[index][row];
      if (value === null || value === undefined) continue;
      at ??= plot.data[0][row];
      rows.push([value, line]);
    }
    if (!rows.length) return this.hideTip();
    if (!rows[0][1].told) rows.sort((a, b) => b[0] - a[0]);
    const along = this.along(at);
    const more = rows.length > MOST_TOLD ? [make("div", { class: "soft" }, `and ${rows.length - MOST_TOLD} more`)] : [];
    tip.replaceChildren(make("div", { class: "soft" }, along), ...rows.slice(0, MOST_TOLD).map(([value, line]) =>
      make("div", {}, make("i", { style: { "--k": `var(--${line.colour})` } }), make("b", {}, this.write(value)), ` ${line.label}`)), ...more);
    tip.hidden = false;
    const right = left > plot.over.clientWidth / 2;
    tip.style.left = right ? "" : `${left + 14}px`;
    tip.style.right = right ? `${plot.over.clientWidth - left + 14}px` : "";
    return undefined;
  }

  hideTip() {
    this.tip.hidden = true;
  }

  select(plot) {
    if (plot.select.width > 4) {
      this.zoomTo(plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x"));
    }
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  onKey(event) {
    if (!this.plot) return;
    const { plot } = this;
    const width = plot.over.clientWidth;
    const at = plot.cursor.left >= 0 ? plot.cursor.left : width / 2;
    const move = { ArrowLeft: -KEY_STEP, ArrowRight: KEY_STEP }[event.key];
    if (move) plot.setCursor({ left: Math.min(width - 1, Math.max(0, at + move)), top: 10 });
    else if (event.key === "+" || event.key === "=") this.magnify(0.5, at / width);
    else if (event.key === "-") this.magnify(2, at / width);
    else if (event.key === "0" || event.key === "Escape") this.zoomed(null);
    else return;
    event.preventDefault();
  }

  magnify(factor, part) {
    const { min, max } = this.plot.scales.x;
    const middle = min + part * (max - min);
    const [low, high] = [middle - part * (max - min) * factor, middle + (1 - part) * (max - min) * factor];
    if (low <= this.ends[0] && high >= this.ends[1]) this.zoomed(null);
    else this.zoomTo(low, high);
  }

  /** As large as its place, which may be higher than was asked for: its card is as high as those beside it. */
  size() {
    return { width: Math.max(80, this.place.clientWidth), height: Math.max(this.height, this.place.clientHeight) };
  }

  fit() {
    const { width, height } = this.size();
    if (this.plot && (width !== this.plot.width || height !== this.plot.height)) this.plot.setSize({ width, height });
  }

  /** Saves what is drawn as a PNG, with a title and what the lines are. */
  save(name) {
    if (!this.plot) return;
    const from = this.plot.ctx.canvas;
    const scale = devicePixelRatio;
    const shown = this.lines.filter((line) => !line.quiet && !line.markers);
    const canvas = make("canvas", { width: from.width, height: from.height + (34 + 18 * shown.length) * scale });
    const pen = canvas.getContext("2d");
    pen.fillStyle = colour("card");
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(from, 0, 26 * scale);
    pen.scale(scale, scale);
    pen.fillStyle = colour("ink");
    pen.font = "600 13px system-ui, sans-serif";
    pen.fillText(`${this.label} against ${AXES[this.axis].label}`, 10, 18);
    pen.font = "12px system-ui, sans-serif";
    shown.forEach((line, index) => {
      const y = from.height / scale + 40 + 18 * index;
      pen.fillStyle = colour(line.colour);
      pen.fillRect(10, y - 9, 10, 10);
      pen.fillStyle = colour("ink");
      pen.fillText(line.label, 26, y);
    });
    canvas.toBlob((blob) => download(blob, `${name}.png`));
  }
}

/** Lets the browser save something. */
export function download(blob, name) {
  const address = URL.createObjectURL(blob);
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** The lines as uPlot has them: one x for all, and of each line a value or null there. */
function table(lines) {
  const tables = lines.map((line) => [line.x, line.y, ...(line.low ? [line.low, line.high] : [])]);
  if (!tables.length) return [[]];
  const [first] = tables;
  if (tables.every(([x]) => x === first[0])) return [first[0], ...tables.flatMap(([, ...rest]) => rest)];
  return uPlot.join(tables);
}

/** What an axis of values covers. */
function spread(low, high) {
  if (low === null || high === null || !Number.isFinite(low + high)) return [0, 1];
  if (low === high) return low === 0 ? [-1, 1] : [low - Math.abs(low) / 10, high + Math.abs(high) / 10];
  const room = (high - low) * 0.05;
  return [low >= 0 && low < 0.3 * high ? 0 : low - room, high + room];
}
