// Draws one thing a frame, so that the page answers in between; and knows what drawing costs.

const waiting = new Set();
let asked = false;
let spent = 0;

/** Calls `draw()` in one of the next frames; once, however often it is asked for until then. */
export function soon(draw) {
  waiting.add(draw);
  if (asked) return;
  asked = true;
  requestAnimationFrame(drawNext);
}

/** Milliseconds that drawing took since the last call, with what the browser does after it. */
export function takeSpent() {
  const sum = spent;
  spent = 0;
  return sum;
}

function drawNext() {
  const [draw] = waiting;
  waiting.delete(draw);
  const began = performance.now();
  draw();
  setTimeout(() => { spent += performance.now() - began; });
  asked = waiting.size > 0;
  if (asked) requestAnimationFrame(drawNext);
}
