/* The map: a canvas with one mark for each image. */

import { placeLabels } from "./labels.js";
import { NONE, makePainter } from "./marks.js";
import { followKeys, followPointer } from "./pointer.js";

const PICTURE = 20; // pixels, half the side of an image on the map

/**
 * The map in `section` of the images in an album; `tip` shows and hides the note on an image.
 * `open` is called with an image that is clicked, `lasso` with those that a Shift-drag surrounds; both may be missing.
 */
export function makeMap(section, album, tip, { open = null, lasso = null } = {}) {
  const canvas = section.querySelector("canvas");
  const painter = makePainter(canvas, album);
  const { context, colour } = painter;
  let [keys, order, across, down] = [[], [], [], []];
  const unit = (values) => {
    let low = Infinity;
    let high = -Infinity;
    for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
    return values.map((value) => (high > low ? (value - low) / (high - low) : 0.5));
  };
  const view = { zoom: 1, x: 0, y: 0 };
  const hidden = new Set();
  const pictures = new Map();
  const ring = canvas.parentElement.appendChild(document.createElement("i"));
  let [width, height] = [0, 0];
  let [unsureOnly, lit, chosen, pointed, waiting] = [false, null, null, null, false];
  let [selected, loop] = [new Set(), []];

  let told = () => {}; // is told the class of the image that is pointed at, or null

  const margin = 28;
  const buttons = () => (width > 600 ? 36 : 0); // the zoom buttons lie on the left of a wide map
  const left = (i) => (margin + buttons() + across[i] * (width - 2 * margin - buttons())) * view.zoom + view.x;
  const top = (i) => (margin + down[i] * (height - 2 * margin)) * view.zoom + view.y;
  const inside = (x, y) => x > -15 && y > -15 && x < width + 15 && y < height + 15;
  const visible = (i) => !hidden.has(keys[i]) && (!unsureOnly || album.unsure[i] === 1 || album.cls[i] === null);
  const radius = () => Math.min(7, (album.size > 4000 || width < 500 ? 2.6 : 3.6) * view.zoom ** 0.3);

  /** Take up what changed in the album: the classes of its images, or other images. */
  function refresh() {
    keys = album.keys;
    const rank = (i) => ["known", "none", "new"].indexOf(album.marks.get(keys[i]).kind);
    order = keys.map((_, i) => i).sort((a, b) => rank(a) - rank(b) || a - b);
    [across, down] = [unit(album.x), unit(album.y.map((y) => -y))];
    if (chosen !== null && chosen >= keys.length) chosen = null;
    pointed = chosen === null ? null : keys[chosen];
    pictures.clear();
    repaint();
  }

  function picture(i) {
    if (!pictures.has(i)) {
      const image = new Image();
      image.onload = redraw;
      image.src = album.thumbnail[i];
      pictures.set(i, image);
    }
    return pictures.get(i);
  }

  function draw() {
    waiting = false;
    if (!width) return;
    const shown = order.filter((i) => visible(i) && inside(left(i), top(i)));
    const near = view.zoom > 2 && shown.length <= 150; // few enough to show the images themselves
    const hollow = (i) => album.unsure[i] === 1 && album.cls[i] !== null;
    const bright = lit ?? pointed;
    const strength = (i) => {
      if (bright !== null) return keys[i] === bright ? 1 : lit !== null ? 0.15 : 0.4;
      return album.marks.get(keys[i]).kind === "known" ? 0.75 : 1;
    };
    painter.begin(radius());
    if (bright !== null) shown.sort((a, b) => (keys[a] === bright) - (keys[b] === bright));
    if (!near) for (const i of shown) painter.put(keys[i], hollow(i), keys[i] === bright, strength(i), left(i), top(i));
    painter.end();
    if (near) for (const i of shown) drawPicture(i, hollow(i), lit !== null && keys[i] !== lit ? 0.15 : 1);
    context.globalAlpha = 1;
    write(shown, bright, near ? PICTURE + 2 * radius() : 1.5 * radius());
    surround(shown.filter((i) => selected.has(i)));
    point();
  }

  /** Draw the lasso, and a ring around each selected image. */
  function surround(images) {
    Object.assign(context, { strokeStyle: colour("var(--accent)"), lineWidth: 2 });
    context.beginPath();
    for (const i of images) {
      context.moveTo(left(i) + radius() + 3, top(i));
      context.arc(left(i), top(i), radius() + 3, 0, 2 * Math.PI);
    }
    loop.forEach(({ x, y }, n) => (n ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.stroke();
  }

  /** An image with its mark at the corner, or the mark alone. */
  function drawPicture(i, hollow, alpha) {
    const half = album.thumbnail[i] && picture(i).complete && picture(i).naturalWidth ? PICTURE : 0;
    const [x, y] = [Math.round(left(i)), Math.round(top(i))];
    context.globalAlpha = alpha;
    if (half) {
      context.drawImage(picture(i), x - half, y - half, 2 * half, 2 * half);
      Object.assign(context, { strokeStyle: colour(album.marks.get(keys[i]).colour), lineWidth: 2 });
      context.strokeRect(x - half, y - half, 2 * half, 2 * half);
    }
    painter.draw(context, keys[i], hollow, keys[i] === lit, x + half, y - half);
  }

  /** Make a class bright, that of an image that is pointed at. */
  function brighten(key) {
    if (key === pointed) return;
    pointed = key;
    told(key);
    redraw();
  }

  /** Put the ring around the chosen image. */
  function point() {
    ring.hidden = chosen === null || !visible(chosen);
    if (!ring.hidden) ring.style.transform = `translate(${left(chosen)}px, ${top(chosen)}px)`;
  }

  /** Write the names of classes beside their marks, those of new ones first; of a bright class, its name alone. */
  function write(shown, bright, size) {
    const groups = new Map();
    for (const i of shown) {
      if (keys[i] === NONE || (bright !== null && keys[i] !== bright)) continue;
      if (!groups.has(keys[i])) groups.set(keys[i], []);
      groups.get(keys[i]).push([left(i), top(i)]);
    }
    Object.assign(context, { textAlign: "center", textBaseline: "middle" });
    const labels = [...groups].map(([key, marks]) => label(key, marks));
    labels.sort((a, b) => b.fresh - a.fresh || b.marks.length - a.marks.length);
    const marks = shown.map((i) => [left(i), top(i)]);
    const taken = buttons() ? [{ x: 32, y: height - 68, half: 22, tall: 58 }] : [];
    const places = placeLabels(labels, { marks, radius: size, width, height, taken });
    places.forEach((place, n) => place && writeLabel(labels[n], place));
  }

  /** The label of a class. */
  function label(key, marks) {
    const { name, kind } = album.marks.get(key);
    const text = name.length > 24 ? `${name.slice(0, 23)}…` : name;
    const font = `${kind === "new" ? 600 : 400} 12px system-ui, sans-serif`;
    context.font = font;
    return { marks, text, font, fresh: kind === "new", half: context.measureText(text).width / 2 + 4 };
  }

  /** Write a label at its place, with its line if it has one. */
  function writeLabel({ text, font, fresh }, { x, y, line }) {
    const ink = colour(fresh ? "var(--ink)" : "var(--soft)");
    Object.assign(context, { font, fillStyle: ink, strokeStyle: ink, lineWidth: 1 });
    context.fillText(text, x, y);
    if (!line) return;
    context.beginPath();
    context.moveTo(...line[0]);
    context.lineTo(...line[1]);
    context.stroke();
  }

  function redraw() {
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  }

  function repaint() {
    painter.forget();
    redraw();
  }

  function move(zoom, x, y) {
    view.zoom = Math.min(60, Math.max(1, zoom));
    view.x = Math.min(0, Math.max(width * (1 - view.zoom), x));
    view.y = Math.min(0, Math.max(height * (1 - view.zoom), y));
    canvas.classList.toggle("zoomed", view.zoom > 1);
    canvas.dataset.zoom = view.zoom.toFixed(2);
    redraw();
  }

  function zoomBy(factor, x = width / 2, y = height / 2) {
    const zoom = Math.min(60, Math.max(1, view.zoom * factor));
    move(zoom, x - ((x - view.x) * zoom) / view.zoom, y - ((y - view.y) * zoom) / view.zoom);
  }

  function nearest(x, y) {
    let [best, least] = [null, 20 ** 2];
    for (const i of order) {
      const distance = (left(i) - x) ** 2 + (top(i) - y) ** 2;
      if (distance <= least && visible(i)) [best, least] = [i, distance];
    }
    return best;
  }

  function choose(i) {
    if (i === chosen && (i === null || !tip.box.hidden)) return;
    chosen = i;
    brighten(i === null ? null : keys[i]);
    canvas.classList.toggle("pointing", i !== null);
    const box = canvas.getBoundingClientRect();
    if (i === null) tip.hide();
    else tip.show(i, new DOMRect(box.left + left(i) - 12, box.top + top(i) - 12, 24, 24), true);
    point();
  }

  /** The next or previous visible image, brought to the middle if it is outside. */
  function step(by) {
    const all = order.filter(visible);
    if (!all.length) return;
    const i = all.at((all.indexOf(chosen) + by + all.length) % all.length);
    const [x, y] = [left(i), top(i)];
    if (x < 0 || y < 0 || x > width || y > height) move(view.zoom, view.x + width / 2 - x, view.y + height / 2 - y);
    choose(i);
  }

  /** Follow a Shift-drag; when it ends, the images inside are the lasso's. */
  function drawLasso(place, ended) {
    loop.push(place);
    if (ended) {
      const inside = order.filter((i) => visible(i) && surrounds(loop, left(i), top(i)));
      loop = [];
      lasso(inside);
    }
    redraw();
  }

  const look = { nearest, choose, chosen: () => chosen, step, open, lasso: lasso && drawLasso };
  const listen = { canvas, view, move, zoomBy, ...look };
  followPointer(listen);
  followKeys(listen);
  for (const button of section.querySelectorAll("[data-zoom]")) {
    const act = { in: () => zoomBy(1.6), out: () => zoomBy(1 / 1.6), reset: () => move(1, 0, 0) };
    if (button !== canvas) button.onclick = act[button.dataset.zoom];
  }
  new ResizeObserver(() => {
    [width, height] = [canvas.clientWidth, canvas.clientHeight];
    painter.resize();
    move(view.zoom, view.x, view.y);
  }).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);

  refresh();
  return {
    repaint,
    hidden,
    redraw,
    refresh,
    select: (images) => ((selected = images), redraw()),
    setUnsureOnly: (only) => ((unsureOnly = only), choose(null), redraw()),
    light: (key) => ((lit = key), redraw()),
    follow: (listener) => (told = listener),
  };
}

/** Whether a point lies within a loop: a line from it to the right crosses the loop an odd number of times. */
function surrounds(loop, x, y) {
  let inside = false;
  loop.forEach((a, n) => {
    const b = loop.at(n - 1);
    if (a.y > y !== b.y > y && x < a.x + ((y - a.y) * (b.x - a.x)) / (b.y - a.y)) inside = !inside;
  });
  return inside;
}
