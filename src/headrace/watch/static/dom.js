// Makes elements. Text is only ever set as text: names of tasks and runs are never taken for markup.

/** An element with properties, and children that are elements or text. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name === "class") element.className = value;
    else if (name === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else if (name.includes("-") || name === "role" || name === "for") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** The same for a picture's parts. */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Sets text only where it changes, which spares the browser the work. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const probe = make("span", { hidden: true });

/** A colour of the style sheet, as the theme has it now. */
export function colour(name) {
  if (!cached.has(name)) {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = `var(--${name})`;
    cached.set(name, getComputedStyle(probe).color);
  }
  return cached.get(name);
}

const cached = new Map();

/** Must be called when the theme changes. */
export const forgetColours = () => cached.clear();

/** The same colour, in part transparent. */
export function faint(name, share) {
  const numbers = colour(name).match(/[\d.]+/g) ?? [0, 0, 0];
  return `rgba(${numbers.slice(0, 3).join(",")},${share})`;
}
