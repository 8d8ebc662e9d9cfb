/* The map: a canvas with one mark for each image. */

import { makePainter } from "./marks.js";
import { followKeys, followPointer } from "./pointer.js";

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
  let [unsureOnly, lit, chosen, waiting] = [false, null, null, false];
  let [selected, loop] = [new Set(), []];

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
    if (lit !== null) shown.sort((a, b) => (keys[a] === lit) - (keys[b] === lit));
    const near = view.zoom > 2 && shown.length <= 150; // few enough to show the images themselves
    const hollow = (i) => album.unsure[i] === 1 && album.cls[i] !== null;
    const strength = (i) => {
      if (lit !== null) return keys[i] === lit ? 1 : 0.15;
      return album.marks.get(keys[i]).kind === "known" ? 0.75 : 1;
    };
    painter.begin(radius());
    if (!near) for (const i of shown) painter.put(keys[i], hollow(i), keys[i] === lit, strength(i), left(i), top(i));
    painter.end();
    if (near) for (const i of shown) drawPicture(i, hollow(i), strength(i) < 0.5 ? 0.15 : 1);
    context.globalAlpha = 1;
    write(shown);
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
    const half = album.thumbnail[i] && picture(i).complete && picture(i).naturalWidth ? 20 : 0;
    const [x, y] = [Math.round(left(i)), Math.round(top(i))];
    context.globalAlpha = alpha;
    if (half) {
      context.drawImage(picture(i), x - half, y - half, 2 * half, 2 * half);
      Object.assign(context, { strokeStyle: colour(album.marks.get(keys[i]).colour), lineWidth: 2 });
      context.strokeRect(x - half, y - half, 2 * half, 2 * half);
    }
    painter.draw(context, keys[i], hollow, keys[i] === lit, x + half, y - half);
  }

  /** Put the ring around the chosen image. */
  function point() {
    ring.hidden = chosen === null || !visible(chosen);
    if (!ring.hidden) ring.style.transform = `translate(${left(chosen)}px, ${top(chosen)}px)`;
  }

  /** Write each new class's name at the middle of its marks, unless another name is there. */
  function write(shown) {
    const groups = new Map();
    for (const i of shown) {
      if (lit === null ? album.marks.get(keys[i]).kind !== "new" : keys[i] !== lit) continue;
      if (!groups.has(keys[i])) groups.set(keys[i], []);
      groups.get(keys[i]).push(i);
    }
    const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];
    const taken = [];
    Object.assign(context, { font: "600 12px system-ui, sans-serif", textAlign: "center", textBaseline: "middle" });
    Object.assign(context, { strokeStyle: colour("var(--card)"), fillStyle: colour("var(--ink)"), lineWidth: 4 });
    context.lineJoin = "round";
    for (const [key, members] of groups) {
      const { name } = album.marks.get(key);
      const text = name.length > 24 ? `${name.slice(0, 23)}…` : name;
      const half = context.measureText(text).width / 2 + 4;
      const x = Math.min(Math.max(middle(members.map(left)), half), width - half);
      const y = Math.min(Math.max(middle(members.map(top)), 12), height - 12);
      if (taken.some((box) => Math.abs(box.x - x) < box.half + half && Math.abs(box.y - y) < 18)) continue;
      taken.push({ x, y, half });
      context.strokeText(text, x, y);
      context.fillText(text, x, y);
    }
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
