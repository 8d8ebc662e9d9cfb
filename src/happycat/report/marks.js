/* The marks of the map: their shapes, and a painter that puts thousands of them on a canvas. */

const outline = (corners, radius, turn, inner = radius) =>
  Array.from({ length: corners }, (_, i) => {
    const angle = turn + (2 * Math.PI * i) / corners;
    const r = i % 2 ? inner : radius;
    return [r * Math.cos(angle), r * Math.sin(angle)];
  });
const UP = -Math.PI / 2;
const SHAPES = [
  outline(24, 1, 0), // circle
  outline(4, 1.25, Math.PI / 4), // square
  outline(3, 1.4, UP), // triangle
  outline(4, 1.35, UP), // diamond
  outline(3, 1.4, -UP), // triangle upside down
  outline(10, 1.5, UP, 0.65), // star
];
export const CROSS = outline(8, 1.5, Math.PI / 4, 0.35);
const bar = (across, down) => [[-across, -down], [across, -down], [across, down], [-across, down]];
const dome = (turn) => outline(24, 1.35, turn).slice(0, 13).map(([x, y]) => [x, y - 0.6 * Math.sign(Math.sin(turn + 1))]);
const KNOWN_SHAPES = [
  outline(3, 1.4, Math.PI), // triangle to the left
  outline(3, 1.4, 0), // triangle to the right
  [[-1.1, -1.2], [1.1, -1.2], [-1.1, 1.2], [1.1, 1.2]], // hourglass
  bar(1.4, 0.6),
  dome(Math.PI),
  [[-1.2, -1.1], [1.2, 1.1], [1.2, -1.1], [-1.2, 1.1]], // bow tie
  bar(0.6, 1.4), // upright
  dome(0), // upside down
];
const COLOURS = 6;
const TONES = 3;
export const NONE = "none"; // the class of images that fit no class

/** How the marks of class number `i` of the new ones look: 36 different ones. */
export const newMark = (i) => ({
  colour: `var(--class-${i % COLOURS})`,
  shape: SHAPES[(i + Math.floor(i / COLOURS)) % SHAPES.length],
});

/** How the marks of class number `i` of the known ones look: 24 different ones, in shapes that no new class has. */
export const knownMark = (i) => ({
  colour: `var(--known-${i % TONES})`,
  shape: KNOWN_SHAPES[i % KNOWN_SHAPES.length],
});

/**
 * Paints marks pixel by pixel: without a graphics card ten times faster than drawing shapes or pictures.
 * Call begin, put for each mark, end; after that `context` draws above them. Places are CSS pixels.
 */
export function makePainter(canvas, album) {
  const context = canvas.getContext("2d");
  const palette = new Map();
  const sprites = new Map();
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  let [ratio, radius, edge, stride] = [1, 0, 0, 0];
  let image = null;
  let pixels = null;

  /** What a CSS colour is in the present theme. */
  function colour(name) {
    if (!palette.has(name)) {
      const probe = canvas.parentElement.appendChild(document.createElement("i"));
      probe.style.color = name;
      palette.set(name, getComputedStyle(probe).color);
      probe.remove();
    }
    return palette.get(name);
  }

  function forget() {
    palette.clear();
    sprites.clear();
  }

  function resize() {
    ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
    edge = Math.ceil(16 * ratio); // around the canvas, so that a mark need not be cut
    pen.canvas.width = pen.canvas.height = 2 * edge;
    stride = canvas.width + 2 * edge;
    image = context.createImageData(stride, canvas.height + 2 * edge);
    pixels = new Uint32Array(image.data.buffer);
    forget();
  }

  function draw(brush, key, hollow, bright, x, y, r = radius) {
    const { shape, kind, colour: own } = album.marks.get(key);
    const paint = colour(bright && kind !== "new" ? "var(--ink)" : own);
    const size = r * (kind === "new" || bright ? 1.15 : 1);
    brush.beginPath();
    for (const [a, b] of shape) brush.lineTo(x + size * a, y + size * b);
    brush.closePath();
    brush.fillStyle = hollow ? colour("var(--card)") : paint;
    brush.strokeStyle = hollow ? paint : colour("var(--card)");
    brush.lineWidth = (hollow ? 0.42 : 0.21) * Math.min(r, 3.6 * ratio);
    brush.fill();
    brush.stroke();
  }

  function read() {
    return new Uint32Array(pen.getImageData(0, 0, 2 * edge, 2 * edge).data.buffer);
  }

  /** The pixels of a mark: how far each is from the middle one, and its colour. */
  function sprite(key, hollow, bright) {
    const name = 4 * Math.round(8 * radius) + 2 * hollow + bright;
    if (!sprites.has(key)) sprites.set(key, []);
    const found = sprites.get(key);
    if (!found[name]) {
      pen.clearRect(0, 0, 2 * edge, 2 * edge);
      draw(pen, key, hollow, bright, edge, edge, radius * ratio);
      const [values, shifts, used] = [read(), [], []];
      for (let n = 0; n < values.length; n++) {
        if (!(values[n] >>> 24)) continue;
        shifts.push((Math.floor(n / (2 * edge)) - edge) * stride + (n % (2 * edge)) - edge);
        used.push(values[n]);
      }
      found[name] = { shifts: Int32Array.from(shifts), values: Uint32Array.from(used) };
    }
    return found[name];
  }

  function begin(r) {
    radius = Math.round(2 * r) / 2;
    if (!palette.has("paper")) {
      pen.fillStyle = colour("var(--card)");
      pen.fillRect(0, 0, 2 * edge, 2 * edge);
      palette.set("paper", read()[0]);
    }
    pixels.fill(palette.get("paper"));
  }

  function put(key, hollow, bright, strength, x, y) {
    const { shifts, values } = sprite(key, hollow, bright);
    const middle = (Math.round(y * ratio) + edge) * stride + Math.round(x * ratio) + edge;
    for (let n = 0; n < shifts.length; n++) {
      const value = values[n];
      const share = Math.round((value >>> 24) * strength * 1.004); // of 256
      const place = middle + shifts[n];
      if (share >= 255) pixels[place] = value;
      else {
        const [old, rest] = [pixels[place], 256 - share];
        const redBlue = (((old & 0xff00ff) * rest + (value & 0xff00ff) * share) >>> 8) & 0xff00ff;
        const green = (((old & 0xff00) * rest + (value & 0xff00) * share) >>> 8) & 0xff00;
        pixels[place] = 0xff000000 | redBlue | green;
      }
    }
  }

  function end() {
    context.putImageData(image, -edge, -edge);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  return { context, colour, forget, resize, begin, put, end, draw };
}
