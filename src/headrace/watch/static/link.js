// The connection to the server: says what the page shows, hears what is new, and comes back when it is lost.

const AGAIN = [500, 1000, 2000, 4000]; // milliseconds until the next attempt

export class Link {
  /** `hear(message)` is called with every message, `changed(connected)` when the connection comes or goes. */
  constructor(hear, changed) {
    this.hear = hear;
    this.changed = changed;
    this.said = {};
    this.attempts = 0;
    this.connect();
    document.addEventListener("visibilitychange", () => this.say({ resting: document.hidden }));
  }

  connect() {
    const address = new URL("live", location.href);
    address.protocol = address.protocol.replace("http", "ws");
    address.hash = "";
    address.search = "";
    this.socket = new WebSocket(address);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => {
      this.attempts = 0;
      this.changed(true);
      this.socket.send(JSON.stringify({ ...this.said, resting: document.hidden }));
    };
    this.socket.onmessage = ({ data }) => this.hear(typeof data === "string" ? JSON.parse(data) : decode(data));
    this.socket.onclose = () => {
      this.changed(false);
      setTimeout(() => this.connect(), AGAIN[Math.min(this.attempts++, AGAIN.length - 1)]);
    };
  }

  /** Says something, now and after every reconnection. */
  say(words) {
    Object.assign(this.said, words);
    this.once(words);
  }

  /** Says something now, if there is a connection. */
  once(words) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(words));
  }
}

/** A binary message: its header, with `columns` of numbers, or a picture's bytes in `content`. */
function decode(buffer) {
  const size = new DataView(buffer).getUint32(0);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  if (!header.names) return { ...header, content: new Uint8Array(buffer, 4 + size) };
  const columns = new Map();
  header.names.forEach((name, index) => {
    columns.set(name, new Float64Array(buffer, 4 + size + 8 * index * header.length, header.length));
  });
  return { ...header, columns };
}
